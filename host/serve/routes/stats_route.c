/* GET /v2/models/stats and .../NAME[/versions/VERSION]/stats, in Triton's format. Times are in nanoseconds. */
#include "serve/routes/answers.h"
#include "serve/repository/repository.h"
#include <string.h>

static uint64_t get(const atomic_uint_fast64_t *from)
{
    return atomic_load_explicit((atomic_uint_fast64_t *)(uintptr_t)from, memory_order_relaxed);
}

static void write_duration(struct strbuf *to, const char *key, uint64_t count, uint64_t ns)
{
    strbuf_format(to, "\"%s\":{\"count\":%llu,\"ns\":%llu}", key, (unsigned long long)count, (unsigned long long)ns);
}

static void write_batches(struct strbuf *to, const struct model *model)
{
    bool any = false;

    for (uint32_t i = 0; i < model->settings.max_batch; i++) {
        const stats_batch *batch = &model->metrics.batches[i];
        uint64_t count = get(&batch->count);

        if (count == 0)
            continue;
        strbuf_format(to, "%s{\"batch_size\":%u,", any ? "," : "", i + 1);
        any = true;
        write_duration(to, "compute_input", count, get(&batch->input_ns));
        strbuf_text(to, ",");
        write_duration(to, "compute_infer", count, get(&batch->infer_ns));
        strbuf_text(to, ",");
        write_duration(to, "compute_output", count, get(&batch->output_ns));
        strbuf_text(to, "}");
    }
}

static void write_stats(struct strbuf *to, const struct model *model)
{
    const char *name = model->name, *version = model->version;
    board_model sum;
    const model_stats *stats = &sum.stats;
    uint64_t failed = 0, runs;

    board_sum_model(model->settings.board, model->metrics.board_index, &sum);
    runs = get(&stats->compute.count);
    for (uint32_t i = 0; i < STATS_ERROR_COUNT; i++)
        failed += get(&stats->errors[i]);
    strbuf_text(to, "{\"name\":");
    strbuf_json(to, name, strlen(name));
    strbuf_format(to, ",\"version\":\"%s\",\"last_inference\":%llu,\"inference_count\":%llu,\"execution_count\":%llu,",
                  version, (unsigned long long)get(&stats->last_ms), (unsigned long long)get(&stats->rows),
                  (unsigned long long)runs);
    strbuf_text(to, "\"inference_stats\":{");
    write_duration(to, "success", get(&stats->request.count), get(&stats->request.ns));
    strbuf_text(to, ",");
    write_duration(to, "fail", failed, get(&stats->fail_ns));
    strbuf_text(to, ",");
    write_duration(to, "queue", get(&stats->queue.count), get(&stats->queue.ns));
    strbuf_text(to, ",");
    write_duration(to, "compute_input", runs, get(&stats->input_ns));
    strbuf_text(to, ",");
    write_duration(to, "compute_infer", runs, get(&stats->compute.ns));
    strbuf_text(to, ",");
    write_duration(to, "compute_output", runs, get(&stats->output_ns));
    strbuf_text(to, ",");
    write_duration(to, "cache_hit", 0, 0); /* there is no cache, but perf_analyzer ends if it misses these members */
    strbuf_text(to, ",");
    write_duration(to, "cache_miss", 0, 0);
    strbuf_text(to, "},\"batch_stats\":[");
    write_batches(to, model);
    strbuf_text(to, "]}");
}

typedef struct stats_list {
    const struct exchange *exchange;
    struct strbuf *to;
    uint32_t count;
} stats_list;

static void add_stats(void *user, const repository_entry *entry)
{
    stats_list *list = user;
    const struct route *route = &list->exchange->route;

    if (!repository_matches(entry, route->name, route->name_bytes, route->version))
        return;
    if (list->count++ > 0)
        strbuf_text(list->to, ",");
    write_stats(list->to, entry->loaded);
}

void answer_stats(struct exchange *exchange)
{
    stats_list list = { exchange, &exchange->reply, 0 };

    strbuf_text(&exchange->reply, "{\"model_stats\":[");
    repository_each(exchange->request.server->repository, add_stats, &list);
    strbuf_text(&exchange->reply, "]}");
    if (exchange->route.name != NULL && list.count == 0)
        exchange_fail(exchange, HTTP_NOT_FOUND,
                      "no such model or version is loaded; POST v2/repository/index lists them");
    else
        exchange->code = HTTP_OK;
}
