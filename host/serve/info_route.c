/* What the server and its models say of themselves. */
#include "serve/datatype.h"
#include "serve/server.h"
#include <string.h>

static void text_member(struct strbuf *to, const char *key, const char *text)
{
    strbuf_format(to, "\"%s\":", key);
    strbuf_json(to, text, strlen(text));
}

const char *const server_extensions[SERVER_EXTENSIONS] = { "binary_tensor_data",
                                                           "model_repository",
                                                           "model_repository(unload_dependents)",
                                                           "schedule_policy",
                                                           "sequence",
                                                           "parameters",
                                                           "statistics",
                                                           "trace",
                                                           "logging" };

void answer_server(struct exchange *x)
{
    strbuf_text(&x->reply, "{\"name\":\"inlay\",");
    text_member(&x->reply, "version", inlay_version());
    strbuf_text(&x->reply, ",\"extensions\":");
    for (uint32_t i = 0; i < SERVER_EXTENSIONS; i++)
        strbuf_format(&x->reply, "%c\"%s\"", i > 0 ? ',' : '[', server_extensions[i]);
    strbuf_text(&x->reply, "]}");
    x->code = MHD_HTTP_OK;
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
        for (uint32_t d = 0; ios[i].rank != INLAY_RANK_UNKNOWN && d < ios[i].rank; d++) {
            if (d > 0)
                strbuf_add(to, ",", 1);
            strbuf_int(to, ios[i].dims[d]);
        }
        strbuf_text(to, "]}");
    }
}

/* The model that the path names, as the exchange's own; NULL: answered. */
static struct model *find_model(struct exchange *x)
{
    x->job.model = repository_find(x->server->repository, x->route.name, x->route.name_bytes, x->route.version);
    if (x->job.model == NULL)
        exchange_fail(x, MHD_HTTP_NOT_FOUND, "no such model or version is loaded; POST v2/repository/index lists them");
    return x->job.model;
}

typedef struct version_list {
    const char *name;
    struct strbuf *to;
    uint32_t count;
} version_list;

static void add_version(void *user, const repository_entry *e)
{
    version_list *list = user;

    if (!repository_matches(e, list->name, strlen(list->name), 0))
        return;
    strbuf_format(list->to, "%s\"%llu\"", list->count++ > 0 ? "," : "", (unsigned long long)e->version);
}

void answer_model(struct exchange *x)
{
    const struct model *m = find_model(x);
    version_list list;

    if (m == NULL)
        return;
    list = (version_list){ m->name, &x->reply, 0 };
    strbuf_text(&x->reply, "{");
    text_member(&x->reply, "name", m->name);
    strbuf_text(&x->reply, ",\"versions\":[");
    repository_each(x->server->repository, add_version, &list);
    strbuf_text(&x->reply, "],\"platform\":\"inlay_onnx\",\"inputs\":[");
    write_ios(&x->reply, m->inputs, m->input_count);
    strbuf_text(&x->reply, "],\"outputs\":[");
    write_ios(&x->reply, m->outputs, m->output_count);
    strbuf_text(&x->reply, "]}");
    x->code = MHD_HTTP_OK;
}

void answer_model_ready(struct exchange *x)
{
    const struct model *m = find_model(x);

    if (m == NULL)
        return;
    strbuf_text(&x->reply, "{");
    text_member(&x->reply, "name", m->name);
    strbuf_text(&x->reply, ",\"ready\":true}");
    x->code = MHD_HTTP_OK;
}

typedef struct index_list {
    struct strbuf *to;
    uint32_t count;
    bool ready_only;
} index_list;

static void add_index(void *user, const repository_entry *e)
{
    index_list *list = user;

    if (list->ready_only && e->loaded == NULL)
        return;
    strbuf_text(list->to, list->count++ > 0 ? ",{" : "{");
    text_member(list->to, "name", e->name);
    strbuf_format(list->to, ",\"version\":\"%llu\",", (unsigned long long)e->version);
    text_member(list->to, "state", e->state);
    strbuf_text(list->to, ",");
    text_member(list->to, "reason", e->reason);
    strbuf_text(list->to, "}");
}

/* The body may be {"ready": true}. */
static bool read_index_body(struct exchange *x, bool *ready_only)
{
    json_reader r;
    json_text key, ignored;

    if (x->body_bytes == 0)
        return true;
    r = reader_begin(x->body, x->body_bytes);
    if (!reader_open(&r, '{'))
        return false;
    while (reader_member(&r, &key))
        if (!(text_is(key, "ready") ? reader_bool(&r, ready_only) : reader_skip(&r, &ignored)))
            return false;
    return reader_end(&r);
}

void answer_index(struct exchange *x)
{
    index_list list = { &x->reply, 0, false };

    if (!read_index_body(x, &list.ready_only)) {
        exchange_fail(x, MHD_HTTP_BAD_REQUEST, "the body is neither empty nor {\"ready\": true}");
        return;
    }
    strbuf_text(&x->reply, "[");
    repository_each(x->server->repository, add_index, &list);
    strbuf_text(&x->reply, "]");
    x->code = MHD_HTTP_OK;
}
