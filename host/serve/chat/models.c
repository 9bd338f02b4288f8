#include "serve/chat/models.h"
#include "serve/model/text.h"
#include "serve/repository/repository.h"
#include "serve/schedule/text_jobs.h"
#include <stdio.h>
#include <string.h>

typedef struct model_list {
    struct strbuf *to;
    const struct route *route; /* with the name of the only model that is wanted, or without one */
    uint32_t count;
} model_list;

/* Adds an entry. adapter NULL: the model itself. context: in tokens; 0: unknown. */
static void add_id(model_list *list, const char *model, const char *adapter, size_t context)
{
    const struct route *route = list->route;
    char id[2 * FOLDER_MAX_NAME + 2];

    (void)snprintf(id, sizeof id, "%s%s%s", model, adapter != NULL ? ":" : "", adapter != NULL ? adapter : "");
    if (route->name != NULL && (strlen(id) != route->name_bytes || memcmp(id, route->name, route->name_bytes) != 0))
        return;
    strbuf_format(list->to, "%s{\"id\":\"%s\",\"object\":\"model\",\"created\":0,\"owned_by\":\"inlay\"",
                  list->count++ > 0 ? "," : "", id);
    strbuf_format(list->to, ",\"root\":\"%s\"", model);
    if (adapter != NULL)
        strbuf_format(list->to, ",\"parent\":\"%s\"", model);
    if (context > 0)
        strbuf_format(list->to, ",\"max_model_len\":%zu", context);
    strbuf_text(list->to, "}");
}

static void add_model(void *user, const repository_entry *entry)
{
    const text_model *text = entry->loaded != NULL ? entry->loaded->text : NULL;
    const size_t context = text != NULL ? text->decode.context : 0;

    if (entry->purposes == 0)
        return;
    add_id(user, entry->name, NULL, context);
    for (uint32_t i = 0; entry->loaded != NULL && i < entry->loaded->decoding.adapter_count; i++)
        add_id(user, entry->name, entry->loaded->decoding.adapters[i], context);
}

void answer_models(struct exchange *exchange)
{
    bool one = exchange->route.name != NULL;
    model_list list = { &exchange->reply, &exchange->route, 0 };

    if (!one)
        strbuf_text(&exchange->reply, "{\"object\":\"list\",\"data\":[");
    repository_each(exchange->request.server->repository, add_model, &list);
    if (!one)
        strbuf_text(&exchange->reply, "]}");
    exchange->code = HTTP_OK;
    if (one && list.count == 0)
        models_fail_unknown(exchange);
}

void models_fail_unknown(struct exchange *exchange)
{
    exchange_fail_parameter(exchange, HTTP_NOT_FOUND,
                            "no such model is loaded; GET v1/models lists the models for texts", "model",
                            "model_not_found");
}

acquired models_acquire(struct exchange *exchange, const char *name, const char **out_adapter,
                        void (*loaded)(void *user, const inlay_diag *failure))
{
    struct request *request = &exchange->request;
    const char *colon = out_adapter != NULL ? strrchr(name, ':') : NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    acquired found = request_acquire(request, name, strlen(name), exchange->route.version, loaded, exchange, &diag);

    if (found == ACQUIRED_NOTHING && diag.code == INLAY_NOT_FOUND && colon != NULL) {
        diag = (inlay_diag)INLAY_DIAG_INIT;
        *out_adapter = colon + 1; /* loaded() uses it at once */
        found =
            request_acquire(request, name, (size_t)(colon - name), exchange->route.version, loaded, exchange, &diag);
    }
    if (found != ACQUIRED_NOTHING)
        return found;
    if (diag.code == INLAY_NOT_FOUND)
        models_fail_unknown(exchange);
    else
        exchange_fail_diag(exchange, &diag);
    exchange_drop(exchange);
    return found;
}

typedef struct stand_in {
    const char *asked;
    size_t asked_bytes; /* without an adapter */
    uint32_t purposes;
    char *name; /* [MODELS_NAME_BYTES] "" = none */
    bool exists, several;
} stand_in;

static void find_stand_in(void *user, const repository_entry *entry)
{
    stand_in *found = user;

    found->exists |=
        found->asked != NULL &&
        (strcmp(entry->name, found->asked) == 0 ||
         (strlen(entry->name) == found->asked_bytes && strncmp(entry->name, found->asked, found->asked_bytes) == 0));
    if ((entry->purposes & found->purposes) == 0)
        return;
    found->several |= found->name[0] != '\0' && strcmp(found->name, entry->name) != 0;
    (void)snprintf(found->name, MODELS_NAME_BYTES, "%s", entry->name);
}

bool models_stand_in(struct repository *repository, const char *asked, uint32_t purposes, char name[MODELS_NAME_BYTES])
{
    const char *colon = asked != NULL ? strrchr(asked, ':') : NULL;
    stand_in found = { .asked = asked, .purposes = purposes, .name = name };

    found.asked_bytes = colon != NULL ? (size_t)(colon - asked) : asked != NULL ? strlen(asked) : 0;
    name[0] = '\0';
    repository_each(repository, find_stand_in, &found);
    if (found.exists || found.several)
        name[0] = '\0';
    return name[0] != '\0';
}

struct text_model *models_find_text(struct exchange *exchange, const char *name, uint32_t purposes)
{
    char only[MODELS_NAME_BYTES];

    if (models_stand_in(exchange->request.server->repository, name, purposes, only) || name == NULL)
        name = only;
    if (models_acquire(exchange, name, NULL, NULL) != ACQUIRED_MODEL)
        return NULL;
    if (exchange->request.job.model->text == NULL)
        models_fail_unknown(exchange);
    return exchange->request.job.model->text;
}

typedef struct slot_list {
    struct strbuf *to;
    uint32_t count;
} slot_list;

/* A slot of llama-server is one of the texts that can be generated at once. */
static void add_slots(void *user, const repository_entry *entry)
{
    slot_list *list = user;
    const struct model *model = entry->loaded;
    uint32_t running;

    if (model == NULL || model->text == NULL || model->text->decode.logits == INLAY_NONE)
        return;
    running = text_jobs_load(model, NULL).running;
    for (uint32_t i = 0; i < model->settings.max_sequences; i++)
        strbuf_format(list->to, "%s{\"id\":%u,\"model\":\"%s\",\"n_ctx\":%zu,\"is_processing\":%s}",
                      list->count++ > 0 ? "," : "", i, model->name, model->text->decode.context,
                      i < running ? "true" : "false");
}

void answer_slots(struct exchange *exchange)
{
    slot_list list = { &exchange->reply, 0 };

    strbuf_text(&exchange->reply, "[");
    repository_each(exchange->request.server->repository, add_slots, &list);
    strbuf_text(&exchange->reply, "]");
    exchange->code = HTTP_OK;
}

static void write_member(struct strbuf *to, const char *name, const char *text)
{
    strbuf_format(to, ",\"%s\":", name);
    strbuf_json(to, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
}

void answer_props(struct exchange *exchange)
{
    const text_model *text = models_find_text(exchange, NULL, TEXT_GENERATES);
    struct strbuf *to = &exchange->reply;
    const struct sampler *sampler;

    if (text == NULL)
        return;
    sampler = &text->generation.sampler;
    strbuf_format(to,
                  "{\"default_generation_settings\":{\"n_ctx\":%zu,\"params\":{\"temperature\":%.9g,\"top_k\":%u,"
                  "\"top_p\":%.9g,\"min_p\":%.9g,\"repeat_penalty\":%.9g}},\"total_slots\":%u,\"modalities\":{"
                  "\"vision\":false,\"audio\":false}",
                  text->decode.context, (double)sampler->temperature, sampler->top_k, (double)sampler->top_p,
                  (double)sampler->min_p, (double)sampler->penalty,
                  exchange->request.job.model->settings.max_sequences);
    write_member(to, "model_alias", exchange->request.job.model->name);
    write_member(to, "chat_template", text->chat_template);
    write_member(to, "bos_token", text->begin);
    write_member(to, "eos_token", text->end);
    write_member(to, "build_info", inlay_version());
    strbuf_text(to, "}");
    exchange->code = HTTP_OK;
}
