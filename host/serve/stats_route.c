/* GET /v2/models/stats and .../NAME[/versions/VERSION]/stats, as Triton has them. Times are in nanoseconds. */
#include "serve/server.h"
#include <string.h>

static uint64_t get(const atomic_uint_fast64_t *from)
{
    return atomic_load_explicit((atomic_uint_fast64_t *)(uintptr_t)from, memory_order_relaxed);
}

static void duration(struct strbuf *to, const char *key, uint64_t count, uint64_t ns)
{
    strbuf_format(to, "\"%s\":{\"count\":%llu,\"ns\":%llu}", key, (unsigned long long)count, (unsigned long long)ns);
}

static void write_batches(struct strbuf *to, const model_stats *s)
{
    bool any = false;

    for (uint32_t i = 0; i < s->batch_count; i++) {
        const stats_batch *b = &s->batches[i];
        uint64_t count = get(&b->count);

        if (count == 0)
            continue;
        strbuf_format(to, "%s{\"batch_size\":%u,", any ? "," : "", i + 1);
        any = true;
        duration(to, "compute_input", count, get(&b->input_ns));
        strbuf_text(to, ",");
        duration(to, "compute_infer", count, get(&b->infer_ns));
        strbuf_text(to, ",");
        duration(to, "compute_output", count, get(&b->output_ns));
        strbuf_text(to, "}");
    }
}

static void write_stats(struct strbuf *to, const char *name, const char *version, const model_stats *s)
{
    uint64_t failed = 0, runs = get(&s->compute.count);

    for (uint32_t i = 0; i < STATS_ERROR_COUNT; i++)
        failed += get(&s->errors[i]);
    strbuf_text(to, "{\"name\":");
    strbuf_json(to, name, strlen(name));
    strbuf_format(to, ",\"version\":\"%s\",\"last_inference\":%llu,\"inference_count\":%llu,\"execution_count\":%llu,",
                  version, (unsigned long long)get(&s->last_ms), (unsigned long long)get(&s->rows),
                  (unsigned long long)runs);
    strbuf_text(to, "\"inference_stats\":{");
    duration(to, "success", get(&s->request.count), get(&s->request.ns));
    strbuf_text(to, ",");
    duration(to, "fail", failed, get(&s->fail_ns));
    strbuf_text(to, ",");
    duration(to, "queue", get(&s->queue.count), get(&s->queue.ns));
    strbuf_text(to, ",");
    duration(to, "compute_input", runs, get(&s->input_ns));
    strbuf_text(to, ",");
    duration(to, "compute_infer", runs, get(&s->compute.ns));
    strbuf_text(to, ",");
    duration(to, "compute_output", runs, get(&s->output_ns));
    strbuf_text(to, "},\"batch_stats\":[");
    write_batches(to, s);
    strbuf_text(to, "]}");
}

typedef struct stats_list {
    const struct exchange *x;
    struct strbuf *to;
    uint32_t count;
} stats_list;

static void add_stats(void *user, const repository_entry *e)
{
    stats_list *list = user;
    const struct route *r = &list->x->route;

    if (!repository_matches(e, r->name, r->name_bytes, r->version))
        return;
    if (list->count++ > 0)
        strbuf_text(list->to, ",");
    write_stats(list->to, e->name, e->loaded->version, &e->loaded->stats);
}

void answer_stats(struct exchange *x)
{
    stats_list list = { x, &x->reply, 0 };

    strbuf_text(&x->reply, "{\"model_stats\":[");
    repository_each(x->server->repository, add_stats, &list);
    strbuf_text(&x->reply, "]}");
    if (x->route.name != NULL && list.count == 0)
        exchange_fail(x, MHD_HTTP_NOT_FOUND, "no such model or version is loaded; POST v2/repository/index lists them");
    else
        x->code = MHD_HTTP_OK;
}
