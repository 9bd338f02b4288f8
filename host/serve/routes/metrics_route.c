/* GET /metrics: Prometheus' text format, version 0.0.4, or OpenMetrics 1.0. */
#include "serve/routes/answers.h"
#include "texts/chat/form_cache.h"
#include "serve/exchange/prepare.h"
#include "serve/exchange/watch.h"
#include "serve/repository/repository.h"
#include "serve/routes/metrics_rollouts.h"
#include "serve/routes/metrics_texts.h"
#include "base/clock.h"
#include "inlay/check.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void hold(void *user, const repository_entry *entry)
{
    struct held_models *held = user;

    if (entry->loaded == NULL || held->failed)
        return;
    held->failed = !LIST_GROW(held->models, held->count);
    if (held->failed)
        return;
    held->models[held->count].model = model_ref(entry->loaded);
    model_count_watchdog(entry->loaded);
    board_sum_model(entry->loaded->settings.board, entry->loaded->metrics.board_index, &held->models[held->count].sum);
    held->count++;
}

static uint64_t get(const atomic_uint_fast64_t *from)
{
    return atomic_load_explicit((atomic_uint_fast64_t *)(uintptr_t)from, memory_order_relaxed);
}

static void write_head(struct strbuf *to, const char *name, const char *type, const char *help)
{
    strbuf_format(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Writes name{model="...",version="..."<more>}. Names of models need no escapes, see folder_is_name(). */
static void write_series(struct strbuf *to, const char *name, const struct model *model, const char *more)
{
    strbuf_format(to, "%s{model=\"%s\",version=\"%s\"%s} ", name, model->name, model->version, more);
}

static void write_number(struct strbuf *to, uint64_t value)
{
    strbuf_uint(to, value);
    strbuf_text(to, "\n");
}

static void write_metric(struct strbuf *to, const char *name, const char *type, const char *help, double value)
{
    write_head(to, name, type, help);
    strbuf_format(to, "%s %.15g\n", name, value);
}

static void write_histogram(struct strbuf *to, const struct held_models *held, const char *name, const char *help,
                            size_t offset)
{
    char full[80], label[40];

    INLAY_CHECK(offset + sizeof(stats_time) <= sizeof(model_stats));
    write_head(to, name, "histogram", help);
    for (uint32_t k = 0; k < held->count; k++) {
        const struct model *model = held->models[k].model;
        const stats_time *time = (const stats_time *)(const void *)((const char *)&held->models[k].sum.stats + offset);
        uint64_t sum = 0;

        (void)snprintf(full, sizeof full, "%s_bucket", name);
        for (uint32_t i = 0; i < STATS_BUCKETS; i++) {
            sum += get(&time->buckets[i]);
            (void)snprintf(label, sizeof label, ",le=\"%g\"", (double)stats_bounds_ns[i] / 1e9);
            write_series(to, full, model, label);
            write_number(to, sum);
        }
        sum += get(&time->buckets[STATS_BUCKETS]);
        write_series(to, full, model, ",le=\"+Inf\"");
        write_number(to, sum);
        (void)snprintf(full, sizeof full, "%s_sum", name);
        write_series(to, full, model, "");
        strbuf_format(to, "%.9f\n", (double)get(&time->ns) / 1e9);
        (void)snprintf(full, sizeof full, "%s_count", name);
        write_series(to, full, model, "");
        write_number(to, sum);
    }
}

static void write_batch_histogram(struct strbuf *to, const struct held_models *held)
{
    char label[40];

    write_head(to, "inlay_batch_rows", "histogram", "Rows per run.");
    for (uint32_t k = 0; k < held->count; k++) {
        const struct model *model = held->models[k].model;
        const model_stats *stats = &held->models[k].sum.stats;
        uint64_t sum = 0;

        for (uint32_t i = 0; i < STATS_BATCH_BUCKETS; i++) {
            sum += get(&stats->batch_buckets[i]);
            (void)snprintf(label, sizeof label, ",le=\"%llu\"", 1ull << i);
            write_series(to, "inlay_batch_rows_bucket", model, label);
            write_number(to, sum);
        }
        sum += get(&stats->batch_buckets[STATS_BATCH_BUCKETS]);
        write_series(to, "inlay_batch_rows_bucket", model, ",le=\"+Inf\"");
        write_number(to, sum);
        write_series(to, "inlay_batch_rows_sum", model, "");
        write_number(to, get(&stats->batch_rows));
        write_series(to, "inlay_batch_rows_count", model, "");
        write_number(to, sum);
    }
}

static void write_counters(struct strbuf *to, const struct held_models *held, struct sched *sched)
{
    static const char *const labels[] = {
#define STATS_LABEL(name, label, doc) ",reason=\"" label "\"",
        STATS_ERROR_LIST(STATS_LABEL)
#undef STATS_LABEL
    };
    static const char *const results[] = {
#define WATCHDOG_LABEL(name, label) ",result=\"" label "\"",
        WATCHDOG_LIST(WATCHDOG_LABEL)
#undef WATCHDOG_LABEL
    };

    write_head(to, "inlay_requests_total", "counter", "Requests that returned a result.");
    for (uint32_t k = 0; k < held->count; k++) {
        write_series(to, "inlay_requests_total", held->models[k].model, "");
        write_number(to, get(&held->models[k].sum.stats.request.count));
    }
    write_head(to, "inlay_request_errors_total", "counter", "Requests that failed, by reason.");
    for (uint32_t k = 0; k < held->count; k++)
        for (uint32_t i = 0; i < STATS_ERROR_COUNT; i++) {
            write_series(to, "inlay_request_errors_total", held->models[k].model, labels[i]);
            write_number(to, get(&held->models[k].sum.stats.errors[i]));
        }
    write_head(to, "inlay_tokens_total", "counter", "Tokens of texts: of prompts that were read, and generated ones.");
    for (uint32_t k = 0; k < held->count; k++) {
        const struct model *model = held->models[k].model;

        if (model->text == NULL)
            continue;
        write_series(to, "inlay_tokens_total", model, ",kind=\"prompt\"");
        write_number(to, get(&held->models[k].sum.stats.prompt_tokens));
        write_series(to, "inlay_tokens_total", model, ",kind=\"generated\"");
        write_number(to, get(&held->models[k].sum.stats.generated_tokens));
    }
    write_head(to, "inlay_guessed_tokens_total", "counter", "Guesses of lookup_tokens that were read, and right ones.");
    for (uint32_t k = 0; k < held->count; k++) {
        const struct model *model = held->models[k].model;

        if (model->text == NULL)
            continue;
        write_series(to, "inlay_guessed_tokens_total", model, ",kind=\"read\"");
        write_number(to, get(&held->models[k].sum.stats.guessed_tokens));
        write_series(to, "inlay_guessed_tokens_total", model, ",kind=\"right\"");
        write_number(to, get(&held->models[k].sum.stats.right_tokens));
    }
    write_head(to, "inlay_cached_tokens_total", "counter",
               "Tokens of prompts that were not read, because the states of an earlier text had them.");
    for (uint32_t k = 0; k < held->count; k++) {
        if (held->models[k].model->text == NULL)
            continue;
        write_series(to, "inlay_cached_tokens_total", held->models[k].model, "");
        write_number(to, get(&held->models[k].sum.stats.cached_tokens));
    }
    write_head(to, "inlay_loose_tools_total", "counter",
               "Tools of requests that may get any object, because their parameters cannot be obeyed; the replies have "
               "warnings.");
    for (uint32_t k = 0; k < held->count; k++) {
        if (held->models[k].model->text == NULL)
            continue;
        write_series(to, "inlay_loose_tools_total", held->models[k].model, "");
        write_number(to, get(&held->models[k].sum.stats.loose_tools));
    }
    write_head(to, "inlay_rows_total", "counter", "Rows of requests that returned a result.");
    for (uint32_t k = 0; k < held->count; k++) {
        write_series(to, "inlay_rows_total", held->models[k].model, "");
        write_number(to, get(&held->models[k].sum.stats.rows));
    }
    write_head(to, "inlay_over_target_total", "counter", "Requests that took longer than batch_target_us.");
    for (uint32_t k = 0; k < held->count; k++) {
        write_series(to, "inlay_over_target_total", held->models[k].model, "");
        write_number(to, get(&held->models[k].sum.stats.over_target));
    }
    write_head(to, "inlay_watchdog_total", "counter",
               "Executions of regions that option watchdog chose, by what became of them.");
    for (uint32_t k = 0; k < held->count; k++)
        for (uint32_t i = 0; i < WATCHDOG_COUNT; i++) {
            write_series(to, "inlay_watchdog_total", held->models[k].model, results[i]);
            write_number(to, get(&held->models[k].sum.stats.watchdog[i]));
        }
    write_head(to, "inlay_batch_best_rows", "gauge",
               "Batch size with the least measured time per row; 0 = not measured.");
    for (uint32_t k = 0; k < held->count; k++) {
        write_series(to, "inlay_batch_best_rows", held->models[k].model, "");
        write_number(to, sched_best_rows(sched, held->models[k].model));
    }
    write_head(to, "inlay_queue_length", "gauge", "Requests in the queue.");
    for (uint32_t k = 0; k < held->count; k++) {
        write_series(to, "inlay_queue_length", held->models[k].model, "");
        write_number(to, get(&held->models[k].sum.queued));
    }
}

static void write_shares(struct strbuf *to, const struct held_models *held)
{
    char label[96];

    for (int time = 0; time < 2; time++) {
        const char *name = time ? "inlay_provider_time_ratio" : "inlay_provider_nodes";

        write_head(to, name, "gauge",
                   time ? "Expected share of the run time of the model that the provider takes."
                        : "Nodes that the provider runs.");
        for (uint32_t k = 0; k < held->count; k++)
            for (uint32_t i = 0; i < held->models[k].model->providers.share_count; i++) {
                const provider_share *share = &held->models[k].model->providers.shares[i];

                (void)snprintf(label, sizeof label, ",provider=\"%s\"", share->name);
                write_series(to, name, held->models[k].model, label);
                strbuf_format(to, "%g\n", time ? share->part : share->nodes);
            }
    }
}

static void write_lost(struct strbuf *to, const struct held_models *held)
{
    char label[96];

    write_head(to, "inlay_provider_lost", "gauge",
               "1 for a provider that the model lacks because its plugin crashed or hung, see inlay providers.");
    for (uint32_t k = 0; k < held->count; k++) {
        const struct model *model = held->models[k].model;
        inlay_session_provider_info info;

        for (uint32_t i = 0; model->providers.lost != NULL && shares_next_lost(model->session, &i, &info);) {
            (void)snprintf(label, sizeof label, ",provider=\"%.64s\"", info.name);
            write_series(to, "inlay_provider_lost", model, label);
            write_number(to, 1);
        }
    }
}

static double resident_bytes(uint64_t pid)
{
    unsigned long long pages = 0;
    char path[64];
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%llu/statm", (unsigned long long)pid);
    file = fopen(path, "re");
    if (file != NULL) {
        if (fscanf(file, "%*u %llu", &pages) != 1)
            pages = 0;
        (void)fclose(file);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* CPU time, in seconds. */
static double cpu_seconds(uint64_t pid)
{
    unsigned long long user = 0, kernel = 0;
    char path[64], line[1024];
    const char *end;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    file = fopen(path, "re");
    if (file != NULL) {
        end = fgets(line, sizeof line, file) != NULL ? strrchr(line, ')') : NULL;
        if (end == NULL || sscanf(end, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &kernel) != 2)
            user = kernel = 0;
        (void)fclose(file);
    }
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

/* Seconds since 1970. */
static double start_time(const struct server *server)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9 - (double)(clock_ns() - server->started_ns) / 1e9;
}

static double open_files(uint64_t pid)
{
    char path[64];
    double count = 0;
    DIR *dir;

    (void)snprintf(path, sizeof path, "/proc/%llu/fd", (unsigned long long)pid);
    dir = opendir(path);
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        count += entry->d_name[0] != '.' && !(pid == (uint64_t)getpid() && atoi(entry->d_name) == dirfd(dir));
    if (dir != NULL)
        (void)closedir(dir);
    return count;
}

static double is_running(uint64_t pid)
{
    return pid != 0;
}

/* The sum of a counter over all processes. */
static double of_processes(const struct board *board, double (*figure)(uint64_t pid))
{
    double sum = 0;

    for (uint32_t i = 0; i < board->count; i++) {
        uint64_t pid = get(&board->processes[i].counts.pid);

        sum += pid != 0 ? figure(pid) : 0;
    }
    return sum;
}

static void write_preparation(struct strbuf *to, prepare_figures figures)
{
    const form_figures forms = form_cache_figures();

    write_metric(to, "inlay_prepared_requests_total", "counter",
                 "Requests of the answering process that threads apart have prepared: decoded, read, rendered, split "
                 "into tokens.",
                 (double)figures.count);
    write_metric(to, "inlay_prepare_seconds_total", "counter", "The time that this took.", (double)figures.ns / 1e9);
    write_metric(to, "inlay_prepare_requests", "gauge", "Requests that are being prepared.", figures.running);
    write_metric(to, "inlay_prepare_queue_length", "gauge", "Requests that wait to be prepared.", figures.waiting);
    write_head(to, "inlay_grammars_total", "counter",
               "Grammars of requests of the answering process: built, or found among those of earlier requests.");
    strbuf_format(to, "inlay_grammars_total{result=\"built\"} %llu\ninlay_grammars_total{result=\"found\"} %llu\n",
                  (unsigned long long)forms.built, (unsigned long long)forms.found);
    write_metric(to, "inlay_grammar_bytes", "gauge", "Bytes of the grammars that are kept.", (double)forms.bytes);
}

static void write_process(struct strbuf *to, struct server *server)
{
    static const char *const reasons[] = {
#define REFUSED_LABEL(name, label) label,
        REFUSED_LIST(REFUSED_LABEL)
#undef REFUSED_LABEL
    };
    static const char *const results[] = {
#define SPANS_LABEL(name, label) label,
        SPANS_LIST(SPANS_LABEL)
#undef SPANS_LABEL
    };
    static const char *const codes[] = { "other", "1xx", "2xx", "3xx", "4xx", "5xx" };
    board_counts sums;

    board_sum(&server->board, &sums);
    write_head(to, "inlay_http_answers_total", "counter", "HTTP replies, by class of their status code.");
    for (uint32_t i = 2; i < 6; i++)
        strbuf_format(to, "inlay_http_answers_total{code=\"%s\"} %llu\n", codes[i],
                      (unsigned long long)get(&sums.answers[i]));
    write_head(to, "inlay_grpc_answers_total", "counter", "gRPC messages answered, by status code.");
    for (uint32_t i = 0; i < sizeof sums.grpc_answers / sizeof sums.grpc_answers[0]; i++)
        if (i == 0 || get(&sums.grpc_answers[i]) > 0)
            strbuf_format(to, "inlay_grpc_answers_total{code=\"%u\"} %llu\n", i,
                          (unsigned long long)get(&sums.grpc_answers[i]));
    write_head(to, "inlay_model_loads_total", "counter", "Loads of versions of models, by result.");
    for (uint32_t i = 0; i < 2; i++)
        strbuf_format(to, "inlay_model_loads_total{result=\"%s\"} %llu\n", i == 0 ? "failed" : "ok",
                      (unsigned long long)get(&sums.loads[i]));
    write_metric(to, "inlay_received_bytes_total", "counter", "Bytes received from clients, without TLS.",
                 (double)get(&sums.received_bytes));
    write_metric(to, "inlay_sent_bytes_total", "counter", "Bytes sent to clients, without TLS.",
                 (double)get(&sums.sent_bytes));
    write_head(to, "inlay_refused_total", "counter", "Refused connections and requests, by reason.");
    for (uint32_t i = 0; i < REFUSED_COUNT; i++)
        strbuf_format(to, "inlay_refused_total{reason=\"%s\"} %llu\n", reasons[i],
                      (unsigned long long)get(&sums.refused[i]));
    write_head(to, "inlay_spans_total", "counter", "Requests whose spans were exported to trace_endpoint, by result.");
    for (uint32_t i = 0; i < SPANS_COUNT; i++)
        strbuf_format(to, "inlay_spans_total{result=\"%s\"} %llu\n", results[i],
                      (unsigned long long)get(&sums.spans[i]));
    write_metric(to, "inlay_http_connections", "gauge", "Open connections.", (double)get(&sums.connections));
    write_metric(to, "inlay_http_requests", "gauge", "Requests in progress, including this one.",
                 (double)get(&sums.exchanges));
    write_metric(to, "inlay_inflight_bytes", "gauge", "Bytes of the bodies and replies of requests in progress.",
                 (double)get(&sums.inflight_bytes));
    write_metric(to, "inlay_runs", "gauge", "Runs in progress.", (double)get(&sums.runs));
    write_metric(to, "inlay_copied_bytes_total", "counter",
                 "Bytes of input tensors that could not be used in place: JSON, strings, misaligned data.",
                 (double)get(&sums.copied_bytes));
    write_metric(to, "inlay_lost_records_total", "counter",
                 "Lines of the access log and requests of the trace file that were not written, or not completely.",
                 (double)get(&sums.lost_records));
    write_metric(to, "inlay_memory_trims_total", "counter",
                 "How often unused memory was given back to the system after large requests.",
                 (double)get(&sums.trims));
    write_metric(to, "inlay_memory_waits_total", "counter",
                 "Runs that waited until other runs had freed the memory that they need.",
                 (double)get(&sums.memory_waits));
    write_metric(to, "inlay_moved_bytes_total", "counter",
                 "Bytes of request bodies that were copied out of receive buffers.", (double)get(&sums.moved_bytes));
    write_metric(to, "inlay_ready", "gauge", "1 while the server reports that it is ready.", watch_is_ready(server));
    write_metric(to, "inlay_extra_runs", "gauge",
                 "Extra runs of the answering process, started because the runs of its runners take long.",
                 sched_extra(server->sched));
    write_metric(
        to, "inlay_stuck_runs", "gauge",
        "Runs of the answering process, and requests before their runs, that have not ended some seconds after "
        "their time limit.",
        watch_stuck(server));
    write_preparation(to, prepare_figures_of(server->prepare));
    write_metric(to, "inlay_models_bytes", "gauge", "Memory of the loaded models: files and runs.",
                 (double)get(&sums.model_bytes));
    write_metric(to, "inlay_replaced_models", "gauge", "Replaced models that are kept until their sequences end.",
                 (double)get(&sums.replaced_models));
    write_head(to, "inlay_build_info", "gauge", "The version of the server; the value is 1.");
    strbuf_format(to, "inlay_build_info{version=\"%s\"} 1\n", inlay_version());
    write_metric(to, "inlay_processes", "gauge", "Processes that serve.", of_processes(&server->board, is_running));
    write_metric(to, "process_start_time_seconds", "gauge", "Start of the process that answers, in seconds since 1970.",
                 start_time(server));
    write_metric(to, "process_cpu_seconds_total", "counter", "User and system CPU time.",
                 of_processes(&server->board, cpu_seconds) + (double)get(&sums.ended_cpu_us) / 1e6);
    write_metric(to, "process_resident_memory_bytes", "gauge", "Resident memory.",
                 of_processes(&server->board, resident_bytes));
    write_metric(to, "process_open_fds", "gauge", "Open file descriptors.", of_processes(&server->board, open_files));
}

/* Makes OpenMetrics of the text: the name of a counter is that of its samples without "_total", and the end is
 * marked. */
static void make_open(struct strbuf *text)
{
    static const char suffix[] = "_total";
    struct strbuf open = { .failed = text->failed };

    for (size_t at = 0; at < text->size && !open.failed;) {
        const char *line = text->data + at;
        const size_t bytes = (size_t)((const char *)memchr(line, '\n', text->size - at) - line) + 1;
        const size_t name = line[0] == '#' ? strlen("# HELP ") + strcspn(line + strlen("# HELP "), " ") : 0;
        const size_t cut = name > strlen(suffix) && memcmp(line + name - strlen(suffix), suffix, strlen(suffix)) == 0
                               ? strlen(suffix)
                               : 0;

        strbuf_add(&open, line, name - cut);
        strbuf_add(&open, line + name, bytes - name);
        at += bytes;
    }
    strbuf_text(&open, "# EOF\n");
    strbuf_deinit(text);
    *text = open;
}

void answer_metrics(struct exchange *exchange)
{
    const char *accept = exchange_field_get(exchange, FIELD_ACCEPT);
    const bool is_open = accept != NULL && strstr(accept, "application/openmetrics-text") != NULL;

    struct held_models held = { .count = 0 };

    watch_publish(exchange->request.server);
    repository_each(exchange->request.server->repository, hold, &held);
    write_counters(&exchange->reply, &held, exchange->request.server->sched);
    write_histogram(&exchange->reply, &held, "inlay_request_seconds", "Time from a request's header to its reply.",
                    offsetof(model_stats, request));
    write_histogram(&exchange->reply, &held, "inlay_queue_seconds",
                    "Time from a request's last byte to the start of its run.", offsetof(model_stats, queue));
    write_histogram(&exchange->reply, &held, "inlay_receive_seconds", "Time from a request's header to its last byte.",
                    offsetof(model_stats, receive));
    write_histogram(&exchange->reply, &held, "inlay_first_token_seconds",
                    "Time from a text request's last byte to its first token.", offsetof(model_stats, first_token));
    write_histogram(&exchange->reply, &held, "inlay_compute_seconds", "Duration of runs.",
                    offsetof(model_stats, compute));
    metrics_write_texts(&exchange->reply, &held);
    write_batch_histogram(&exchange->reply, &held);
    write_shares(&exchange->reply, &held);
    write_lost(&exchange->reply, &held);
    metrics_write_rollouts(&exchange->reply, &exchange->request.server->board);
    write_process(&exchange->reply, exchange->request.server);
    exchange->reply.failed |= held.failed;
    for (uint32_t k = 0; k < held.count; k++)
        model_unref(held.models[k].model);
    free(held.models);
    if (is_open)
        make_open(&exchange->reply);
    exchange->type = is_open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                             : "text/plain; version=0.0.4; charset=utf-8";
    exchange->code = HTTP_OK;
}
