#include "serve/routes/metrics_texts.h"
#include "inlay/check.h"
#include "serve/model/text.h"
#include "serve/schedule/text_jobs.h"
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

static uint64_t get(const atomic_uint_fast64_t *from)
{
    return atomic_load_explicit((atomic_uint_fast64_t *)(uintptr_t)from, memory_order_relaxed);
}

static bool generates(const struct held_model *held)
{
    return held->model->text != NULL && held->model->text->decode.logits != INLAY_NONE;
}

static void write_head(struct strbuf *to, const char *name, const char *type, const char *help)
{
    strbuf_format(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_label(struct strbuf *to, const char *name, const struct held_model *held)
{
    strbuf_format(to, "%s{model_name=\"%s\"", name, held->model->name);
}

static void write_number(struct strbuf *to, const struct held_models *held, const char *name, const char *type,
                         const char *help, size_t offset)
{
    INLAY_CHECK(offset < sizeof(board_model));
    write_head(to, name, type, help);
    for (uint32_t k = 0; k < held->count; k++) {
        const void *figure = (const char *)&held->models[k].sum + offset;

        if (!generates(&held->models[k]))
            continue;
        write_label(to, name, &held->models[k]);
        strbuf_format(to, "} %llu\n", (unsigned long long)get(figure));
    }
}

static void write_times(struct strbuf *to, const struct held_models *held, const char *name, const char *help,
                        size_t offset)
{
    INLAY_CHECK(offset < sizeof(model_stats));
    write_head(to, name, "histogram", help);
    for (uint32_t k = 0; k < held->count; k++) {
        const stats_time *time = (const void *)((const char *)&held->models[k].sum.stats + offset);
        const char *model = held->models[k].model->name;
        unsigned long long sum = 0;

        if (!generates(&held->models[k]))
            continue;
        for (uint32_t i = 0; i < STATS_BUCKETS; i++) {
            sum += get(&time->buckets[i]);
            strbuf_format(to, "%s_bucket{model_name=\"%s\",le=\"%g\"} %llu\n", name, model,
                          (double)stats_bounds_ns[i] / 1e9, sum);
        }
        sum += get(&time->buckets[STATS_BUCKETS]);
        strbuf_format(to, "%s_bucket{model_name=\"%s\",le=\"+Inf\"} %llu\n", name, model, sum);
        strbuf_format(to, "%s_sum{model_name=\"%s\"} %.9f\n", name, model, (double)get(&time->ns) / 1e9);
        strbuf_format(to, "%s_count{model_name=\"%s\"} %llu\n", name, model, sum);
    }
}

/* The part of the memory for states that texts use: of kv_memory in each process, or of max_sequences. */
static void write_usage(struct strbuf *to, const struct held_models *held)
{
    static const char name[] = "vllm:kv_cache_usage_perc";

    write_head(to, name, "gauge", "Part of the memory for keys and values that texts use, from 0 to 1.");
    for (uint32_t k = 0; k < held->count; k++) {
        const struct held_model *one = &held->models[k];
        const model_settings *settings = &one->model->settings;
        const double processes = (double)(get(&one->sum.loaded) > 0 ? get(&one->sum.loaded) : 1);
        const double part = settings->kv_memory > 0
                                ? (double)get(&one->sum.text_bytes) / (double)settings->kv_memory / processes
                                : (double)get(&one->sum.running_texts) / (double)settings->max_sequences / processes;

        if (!generates(one))
            continue;
        write_label(to, name, one);
        strbuf_format(to, "} %g\n", part < 1 ? part : 1);
    }
}

/* The memory for states in blocks of one token. */
static void write_cache(struct strbuf *to, const struct held_models *held)
{
    static const char name[] = "vllm:cache_config_info";

    write_head(to, name, "gauge", "The memory for keys and values, in blocks of block_size tokens; the value is 1.");
    for (uint32_t k = 0; k < held->count; k++) {
        const struct held_model *one = &held->models[k];
        const uint64_t bytes = generates(one) ? one->model->text->decode.rows.token_bytes : 0;

        if (bytes == 0 || one->model->settings.kv_memory == 0)
            continue;
        write_label(to, name, one);
        strbuf_format(to, ",block_size=\"1\",num_gpu_blocks=\"%llu\"} 1\n",
                      (unsigned long long)(one->model->settings.kv_memory / bytes));
    }
}

static void write_adapters(struct strbuf *to, const struct model *model, const uint8_t *marks, uint8_t mark)
{
    bool first = true;

    for (uint32_t i = 0; i < model->decoding.adapter_count; i++) {
        if ((marks[i] & mark) == 0)
            continue;
        strbuf_format(to, "%s%s:%s", first ? "" : ",", model->name, model->decoding.adapters[i]);
        first = false;
    }
}

/* Which adapters texts of this process use. */
static void write_adapter_use(struct strbuf *to, const struct held_models *held)
{
    static const char name[] = "vllm:lora_requests_info";

    write_head(to, name, "gauge",
               "LoRA adapters in use in the process that answers; the value is the time in seconds.");
    for (uint32_t k = 0; k < held->count; k++) {
        const struct model *model = held->models[k].model;
        uint8_t *marks = calloc((size_t)model->decoding.adapter_count + 1, 1);

        if (marks == NULL) {
            to->failed = true;
        } else if (generates(&held->models[k])) {
            (void)text_jobs_load(model, marks);
            write_label(to, name, &held->models[k]);
            strbuf_format(to, ",max_lora=\"%u\",running_lora_adapters=\"", model->decoding.adapter_count);
            write_adapters(to, model, marks, ADAPTER_RUNS);
            strbuf_text(to, "\",waiting_lora_adapters=\"");
            write_adapters(to, model, marks, ADAPTER_WAITS);
            strbuf_format(to, "\"} %lld\n", (long long)time(NULL));
        }
        free(marks);
    }
}

void metrics_write_texts(struct strbuf *to, const struct held_models *held)
{
    bool any = false;

    for (uint32_t k = 0; k < held->count; k++)
        any |= generates(&held->models[k]);
    if (!any)
        return;
    write_number(to, held, "vllm:num_requests_running", "gauge", "Texts being generated.",
                 offsetof(board_model, running_texts));
    write_number(to, held, "vllm:num_requests_waiting", "gauge", "Texts that wait.",
                 offsetof(board_model, waiting_texts));
    write_usage(to, held);
    write_cache(to, held);
    write_adapter_use(to, held);
    write_number(to, held, "vllm:prompt_tokens_total", "counter", "Tokens of prompts.",
                 offsetof(board_model, stats.prompt_tokens));
    write_number(to, held, "vllm:generation_tokens_total", "counter", "Generated tokens.",
                 offsetof(board_model, stats.generated_tokens));
    write_number(to, held, "vllm:prefix_cache_queries_total", "counter", "Tokens of prompts that were looked up.",
                 offsetof(board_model, stats.prompt_tokens));
    write_number(to, held, "vllm:prefix_cache_hits_total", "counter",
                 "Tokens of prompts whose states an earlier text had.", offsetof(board_model, stats.cached_tokens));
    write_times(to, held, "vllm:time_to_first_token_seconds", "Time to the first token of a text.",
                offsetof(model_stats, first_token));
    write_times(to, held, "vllm:inter_token_latency_seconds", "Time from a token of a text to the next one.",
                offsetof(model_stats, next_token));
    write_times(to, held, "vllm:time_per_output_token_seconds", "The former name of inter_token_latency_seconds.",
                offsetof(model_stats, next_token));
    write_times(to, held, "vllm:e2e_request_latency_seconds", "Time from a request's header to its reply.",
                offsetof(model_stats, request));
}
