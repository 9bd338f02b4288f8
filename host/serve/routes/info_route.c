/* Metadata of the server and its models. */
#include "serve/routes/answers.h"
#include "codecs/datatype.h"
#include "serve/base/extensions.h"
#include "codecs/json.h"
#include "codecs/message_json.h"
#include "serve/exchange/watch.h"
#include "serve/repository/ready.h"
#include "serve/repository/repository.h"
#include <string.h>

static void text_member(struct strbuf *to, const char *key, const char *text)
{
    strbuf_format(to, "\"%s\":", key);
    strbuf_json(to, text, strlen(text));
}

void answer_live(struct exchange *exchange)
{
    exchange->code = HTTP_OK;
}

void answer_ready(struct exchange *exchange)
{
    struct server *server = exchange->request.server;
    uint32_t ready, failed;
    char text[160];

    if (watch_is_ready(server)) {
        exchange->code = HTTP_OK;
    } else if (atomic_load(&server->phase.ready) && watch_stuck(server) > 0) {
        exchange_fail(exchange, HTTP_BAD_REQUEST,
                      "a run has not ended after its time limit, or after it was cancelled");
    } else if (atomic_load(&server->phase.draining)) {
        exchange_fail(exchange, HTTP_BAD_REQUEST, SERVER_ENDING);
    } else if (!atomic_load(&server->phase.loaded)) {
        exchange_fail(exchange, HTTP_BAD_REQUEST, SERVER_LOADING);
    } else {
        (void)server_is_complete(server, &ready, &failed);
        (void)snprintf(text, sizeof text, "%u versions are loaded, %u failed; POST v2/repository/index has the reasons",
                       ready, failed);
        exchange_fail(exchange, HTTP_BAD_REQUEST, text);
    }
}

/* Load balancers of vLLM and llama-server expect 503 while the server is not ready. */
void answer_health(struct exchange *exchange)
{
    answer_ready(exchange);
    if (exchange->code == HTTP_OK)
        strbuf_text(&exchange->reply, "{\"status\":\"ok\"}");
    else
        exchange->code = HTTP_SERVICE_UNAVAILABLE;
}

void answer_version(struct exchange *exchange)
{
    strbuf_text(&exchange->reply, "{");
    text_member(&exchange->reply, "version", inlay_version());
    strbuf_text(&exchange->reply, "}");
    exchange->code = HTTP_OK;
}

void answer_server(struct exchange *exchange)
{
    strbuf_text(&exchange->reply, "{\"name\":\"inlay\",");
    text_member(&exchange->reply, "version", inlay_version());
    strbuf_text(&exchange->reply, ",\"extensions\":");
    for (uint32_t i = 0; i < SERVER_EXTENSIONS - (exchange->request.server->shared_memory == NULL); i++)
        strbuf_format(&exchange->reply, "%c\"%s\"", i > 0 ? ',' : '[', server_extensions[i]);
    strbuf_text(&exchange->reply, "]}");
    exchange->code = HTTP_OK;
}

static void write_ios(struct strbuf *to, const inlay_io_info *ios, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *datatype = datatype_name(ios[i].dtype);

        strbuf_text(to, i > 0 ? ",{" : "{");
        text_member(to, "name", ios[i].name);
        strbuf_text(to, ",");
        text_member(to, "datatype", datatype != NULL ? datatype : inlay_dtype_name(ios[i].dtype));
        strbuf_text(to, ",\"shape\":[");
        for (uint32_t axis = 0; ios[i].rank != INLAY_RANK_UNKNOWN && axis < ios[i].rank; axis++) {
            if (axis > 0)
                strbuf_add(to, ",", 1);
            strbuf_int(to, ios[i].dims[axis]);
        }
        strbuf_text(to, "]}");
    }
}

/* Returns the model that the path names, owned by the exchange. NULL: the failure is set. */
static struct model *find_model(struct exchange *exchange)
{
    exchange->request.job.model = repository_find(exchange->request.server->repository, exchange->route.name,
                                                  exchange->route.name_bytes, exchange->route.version);
    if (exchange->request.job.model == NULL)
        exchange_fail(exchange, HTTP_NOT_FOUND,
                      "no such model or version is loaded; POST v2/repository/index lists them");
    return exchange->request.job.model;
}

typedef struct version_list {
    const char *name;
    struct strbuf *to;
    uint32_t count;
} version_list;

static void add_version(void *user, const repository_entry *entry)
{
    version_list *list = user;

    if (!repository_matches(entry, list->name, strlen(list->name), 0))
        return;
    strbuf_format(list->to, "%s\"%llu\"", list->count++ > 0 ? "," : "", (unsigned long long)entry->version);
}

void answer_model(struct exchange *exchange)
{
    const struct model *model = find_model(exchange);
    version_list list;

    if (model == NULL)
        return;
    list = (version_list){ model->name, &exchange->reply, 0 };
    strbuf_text(&exchange->reply, "{");
    text_member(&exchange->reply, "name", model->name);
    strbuf_text(&exchange->reply, ",\"versions\":[");
    repository_each(exchange->request.server->repository, add_version, &list);
    strbuf_format(&exchange->reply, "],\"platform\":\"%s\",\"inputs\":[",
                  model->ensemble != NULL ? "ensemble" : "inlay_onnx");
    write_ios(&exchange->reply, model->io.inputs, model->io.input_count);
    strbuf_text(&exchange->reply, "],\"outputs\":[");
    write_ios(&exchange->reply, model->io.outputs, model->io.output_count);
    strbuf_text(&exchange->reply, "]}");
    exchange->code = HTTP_OK;
}

void answer_model_config(struct exchange *exchange)
{
    const struct model *model = find_model(exchange);

    if (model == NULL)
        return;
    message_json(&exchange->reply, model->config);
    exchange->code = HTTP_OK;
}

void answer_model_ready(struct exchange *exchange)
{
    const struct model *model = find_model(exchange);

    if (model == NULL)
        return;
    strbuf_text(&exchange->reply, "{");
    text_member(&exchange->reply, "name", model->name);
    strbuf_text(&exchange->reply, ",\"ready\":true}");
    exchange->code = HTTP_OK;
}

typedef struct index_list {
    struct strbuf *to;
    uint32_t count;
    bool ready_only;
} index_list;

static void add_index(void *user, const repository_entry *entry)
{
    index_list *list = user;

    if (list->ready_only && entry->loaded == NULL)
        return;
    strbuf_text(list->to, list->count++ > 0 ? ",{" : "{");
    text_member(list->to, "name", entry->name);
    strbuf_format(list->to, ",\"version\":\"%llu\",", (unsigned long long)entry->version);
    text_member(list->to, "state", entry->state);
    strbuf_text(list->to, ",");
    text_member(list->to, "reason", entry->reason);
    strbuf_text(list->to, "}");
}

/* The body may be {"ready": true}. */
static bool read_index_body(struct exchange *exchange, bool *ready_only)
{
    json_reader reader;
    json_text key, ignored;

    if (exchange->body_bytes == 0)
        return true;
    reader_begin(&reader, exchange->body, exchange->body_bytes);
    if (!reader_open(&reader, '{'))
        return false;
    while (reader_member(&reader, &key))
        if (!(text_is(key, "ready") ? reader_bool(&reader, ready_only) : reader_skip(&reader, &ignored)))
            return false;
    return reader_end(&reader);
}

void answer_index(struct exchange *exchange)
{
    index_list list = { &exchange->reply, 0, false };

    if (!read_index_body(exchange, &list.ready_only)) {
        exchange_fail(exchange, HTTP_BAD_REQUEST, "the body is neither empty nor {\"ready\": true}");
        return;
    }
    strbuf_text(&exchange->reply, "[");
    repository_each(exchange->request.server->repository, add_index, &list);
    strbuf_text(&exchange->reply, "]");
    exchange->code = HTTP_OK;
}
