/* GET /metrics: Prometheus' text format, version 0.0.4. */
#include "serve/server.h"
#include <dirent.h>
#include <string.h>
#include <unistd.h>

enum { MAX_MODELS = 1024 };

/* Models, each held for the time of the answer: the format wants all of a metric together. */
struct held {
    struct model *models[MAX_MODELS];
    uint32_t count;
};

static void hold(void *user, const repository_entry *entry)
{
    struct held *held = user;

    if (entry->loaded != NULL && held->count < MAX_MODELS)
        held->models[held->count++] = model_ref(entry->loaded);
}

static uint64_t get(const atomic_uint_fast64_t *from)
{
    return atomic_load_explicit((atomic_uint_fast64_t *)(uintptr_t)from, memory_order_relaxed);
}

static void head(struct strbuf *to, const char *name, const char *type, const char *help)
{
    strbuf_format(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* name{model="...",version="..."<more>} - names of models need no escapes, see folder_is_name(). */
static void series(struct strbuf *to, const char *name, const struct model *model, const char *more)
{
    strbuf_format(to, "%s{model=\"%s\",version=\"%s\"%s} ", name, model->name, model->version, more);
}

static void number(struct strbuf *to, uint64_t value)
{
    strbuf_uint(to, value);
    strbuf_text(to, "\n");
}

static void plain(struct strbuf *to, const char *name, const char *type, const char *help, double value)
{
    head(to, name, type, help);
    strbuf_format(to, "%s %.15g\n", name, value);
}

static void histogram(struct strbuf *to, const struct held *held, const char *name, const char *help, size_t offset)
{
    char full[80], label[40];

    head(to, name, "histogram", help);
    for (uint32_t k = 0; k < held->count; k++) {
        const struct model *model = held->models[k];
        const stats_time *time = (const stats_time *)((const char *)&model->stats + offset);
        uint64_t sum = 0;

        (void)snprintf(full, sizeof full, "%s_bucket", name);
        for (uint32_t i = 0; i < STATS_BUCKETS; i++) {
            sum += get(&time->buckets[i]);
            (void)snprintf(label, sizeof label, ",le=\"%g\"", (double)stats_bounds_ns[i] / 1e9);
            series(to, full, model, label);
            number(to, sum);
        }
        sum += get(&time->buckets[STATS_BUCKETS]);
        series(to, full, model, ",le=\"+Inf\"");
        number(to, sum);
        (void)snprintf(full, sizeof full, "%s_sum", name);
        series(to, full, model, "");
        strbuf_format(to, "%.9f\n", (double)get(&time->ns) / 1e9);
        (void)snprintf(full, sizeof full, "%s_count", name);
        series(to, full, model, "");
        number(to, sum);
    }
}

static void batch_histogram(struct strbuf *to, const struct held *held)
{
    char label[40];

    head(to, "inlay_batch_rows", "histogram", "Rows of runs.");
    for (uint32_t k = 0; k < held->count; k++) {
        const struct model *model = held->models[k];
        uint64_t sum = 0;

        for (uint32_t i = 0; i < STATS_BATCH_BUCKETS; i++) {
            sum += get(&model->stats.batch_buckets[i]);
            (void)snprintf(label, sizeof label, ",le=\"%llu\"", 1ull << i);
            series(to, "inlay_batch_rows_bucket", model, label);
            number(to, sum);
        }
        sum += get(&model->stats.batch_buckets[STATS_BATCH_BUCKETS]);
        series(to, "inlay_batch_rows_bucket", model, ",le=\"+Inf\"");
        number(to, sum);
        series(to, "inlay_batch_rows_sum", model, "");
        number(to, get(&model->stats.batch_rows));
        series(to, "inlay_batch_rows_count", model, "");
        number(to, sum);
    }
}

static void counters(struct strbuf *to, const struct held *held, struct sched *sched)
{
    static const char *const labels[] = {
#define STATS_LABEL(name, label, doc) ",reason=\"" label "\"",
        STATS_ERROR_LIST(STATS_LABEL)
#undef STATS_LABEL
    };

    head(to, "inlay_requests_total", "counter", "Requests that were answered with a result.");
    for (uint32_t k = 0; k < held->count; k++) {
        series(to, "inlay_requests_total", held->models[k], "");
        number(to, get(&held->models[k]->stats.request.count));
    }
    head(to, "inlay_request_errors_total", "counter", "Requests without a result, by reason.");
    for (uint32_t k = 0; k < held->count; k++)
        for (uint32_t i = 0; i < STATS_ERROR_COUNT; i++) {
            series(to, "inlay_request_errors_total", held->models[k], labels[i]);
            number(to, get(&held->models[k]->stats.errors[i]));
        }
    head(to, "inlay_rows_total", "counter", "Rows of requests that were answered with a result.");
    for (uint32_t k = 0; k < held->count; k++) {
        series(to, "inlay_rows_total", held->models[k], "");
        number(to, get(&held->models[k]->stats.rows));
    }
    head(to, "inlay_over_target_total", "counter", "Requests that took longer than batch_target_us.");
    for (uint32_t k = 0; k < held->count; k++) {
        series(to, "inlay_over_target_total", held->models[k], "");
        number(to, get(&held->models[k]->stats.over_target));
    }
    head(to, "inlay_batch_best_rows", "gauge", "Rows with the cheapest row, as measured; 0 = nothing is known.");
    for (uint32_t k = 0; k < held->count; k++) {
        series(to, "inlay_batch_best_rows", held->models[k], "");
        number(to, sched_best_rows(sched, held->models[k]));
    }
    head(to, "inlay_queue_length", "gauge", "Requests that wait.");
    for (uint32_t k = 0; k < held->count; k++) {
        series(to, "inlay_queue_length", held->models[k], "");
        number(to, sched_queued(sched, held->models[k]));
    }
}

static void shares(struct strbuf *to, const struct held *held)
{
    char label[96];

    for (int time = 0; time < 2; time++) {
        const char *name = time ? "inlay_provider_time_ratio" : "inlay_provider_nodes";

        head(to, name, "gauge",
             time ? "The provider's part of the time of the model's runs, as expected."
                  : "Nodes that the provider runs.");
        for (uint32_t k = 0; k < held->count; k++)
            for (uint32_t i = 0; i < held->models[k]->share_count; i++) {
                const provider_share *share = &held->models[k]->shares[i];

                (void)snprintf(label, sizeof label, ",provider=\"%s\"", share->name);
                series(to, name, held->models[k], label);
                strbuf_format(to, "%g\n", time ? share->part : share->nodes);
            }
    }
}

static double resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file != NULL) {
        if (fscanf(file, "%*u %llu", &pages) != 1)
            pages = 0;
        (void)fclose(file);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    double count = -3; /* '.', '..', and the folder itself */

    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        (void)closedir(dir);
    return count;
}

static void process(struct strbuf *to, struct server *server)
{
    static const char *const codes[] = { "other", "1xx", "2xx", "3xx", "4xx", "5xx" };

    head(to, "inlay_http_answers_total", "counter", "Answers over HTTP, by class of their code.");
    for (uint32_t i = 2; i < 6; i++)
        strbuf_format(to, "inlay_http_answers_total{code=\"%s\"} %llu\n", codes[i],
                      (unsigned long long)get(&server->answers[i]));
    plain(to, "inlay_http_connections", "gauge", "Open connections.", atomic_load(&server->connections));
    plain(to, "inlay_http_requests", "gauge", "Requests at work, this one too.", atomic_load(&server->exchanges));
    plain(to, "inlay_runs", "gauge", "Runs at work.", sched_running(server->sched));
    plain(to, "inlay_copied_bytes_total", "counter",
          "Bytes of input tensors that did not stay where they arrived: JSON, strings, misaligned data.",
          (double)get(&server->copied_bytes));
    plain(to, "inlay_moved_bytes_total", "counter",
          "Bytes of requests' bodies, each time they are copied from where they were received to where they stay.",
          (double)get(&server->moved_bytes));
    plain(to, "inlay_ready", "gauge", "1 while the server says that it is ready.", atomic_load(&server->ready));
    plain(to, "inlay_models_bytes", "gauge", "Memory of the models that are loaded: files and runs.",
          (double)repository_bytes(server->repository));
    plain(to, "inlay_replaced_models", "gauge",
          "Models that others have taken the place of, kept until their sequences are over.",
          (double)repository_retired(server->repository));
    plain(to, "process_resident_memory_bytes", "gauge", "Resident memory.", resident_bytes());
    plain(to, "process_open_fds", "gauge", "Open file descriptors.", open_files());
}

void answer_metrics(struct exchange *exchange)
{
    struct held held = { .count = 0 };

    repository_each(exchange->server->repository, hold, &held);
    counters(&exchange->reply, &held, exchange->server->sched);
    histogram(&exchange->reply, &held, "inlay_request_seconds", "Time from a request's header to its answer.",
              offsetof(model_stats, request));
    histogram(&exchange->reply, &held, "inlay_queue_seconds", "Time from a request's header to its run.",
              offsetof(model_stats, queue));
    histogram(&exchange->reply, &held, "inlay_compute_seconds", "Time of runs.", offsetof(model_stats, compute));
    batch_histogram(&exchange->reply, &held);
    shares(&exchange->reply, &held);
    process(&exchange->reply, exchange->server);
    for (uint32_t k = 0; k < held.count; k++)
        model_unref(held.models[k]);
    exchange->type = "text/plain; version=0.0.4; charset=utf-8";
    exchange->code = MHD_HTTP_OK;
}
