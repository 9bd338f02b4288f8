/* GET and POST /v2/models/NAME/rollout: the last rollout of a model, and its end by an administrator. */
#include "codecs/json.h"
#include "serve/base/rollouts.h"
#include "serve/repository/repository.h"
#include "serve/routes/answers.h"
#include <math.h>
#include <string.h>

static void write_number(struct strbuf *to, const char *key, uint64_t value)
{
    strbuf_format(to, ",\"%s\":%llu", key, (unsigned long long)value);
}

static void write_variant(struct strbuf *to, const char *key, const char *variant)
{
    if (variant[0] == '\0')
        return;
    strbuf_format(to, ",\"%s\":", key);
    strbuf_json(to, variant, strlen(variant));
}

/* A time in nanoseconds as milliseconds. */
static void write_times(struct strbuf *to, const char *key, const rollout_times *times)
{
    strbuf_format(to, ",\"%s\":{\"count\":%llu,\"p50_ms\":%.6g,\"p99_ms\":%.6g}", key, (unsigned long long)times->count,
                  rollout_times_at(times, 0.5) / 1e6, rollout_times_at(times, 0.99) / 1e6);
}

static void write_outputs(struct strbuf *to, const rollout_record *record)
{
    bool any = false;

    strbuf_text(to, ",\"outputs\":[");
    for (uint32_t i = 0; i < ROLLOUT_OUTPUTS; i++) {
        const struct agree *output = &record->figures.outputs[i];
        double value = rollout_difference(&record->rules, output);

        if (output->samples == 0)
            continue;
        strbuf_text(to, any ? ",{\"name\":" : "{\"name\":");
        any = true;
        strbuf_json(to, record->figures.names[i], strlen(record->figures.names[i]));
        strbuf_format(to, ",\"%s\":", rollout_metric_name(&record->rules));
        if (isfinite(value))
            strbuf_format(to, "%.9g", value);
        else
            strbuf_text(to, "null");
        strbuf_format(to, ",\"max_error\":%.9g}", output->max_error);
    }
    strbuf_text(to, "]");
}

static void write_rollout(struct strbuf *to, const rollout_record *record)
{
    uint64_t requests = record->requests;
    const rollout_figures *figures = &record->figures;

    strbuf_format(to, "{\"name\":\"%s\",\"state\":\"%s\",\"reason\":", record->name, rollout_state_name(record->state));
    strbuf_json(to, record->reason, strlen(record->reason));
    strbuf_format(to, ",\"rollout\":\"%s\",\"stable\":\"%llu\",\"candidate\":\"%llu\"",
                  rollout_mode_name(record->rules.mode), (unsigned long long)record->stable,
                  (unsigned long long)record->version);
    write_variant(to, "stable_variant", figures->stable_variant);
    write_variant(to, "candidate_variant", figures->candidate_variant);
    write_number(to, "requests", requests);
    write_number(to, "chosen", rollout_chosen(&record->rules, requests));
    write_number(to, "compared", figures->compared);
    write_number(to, "unlike", figures->unlike);
    write_number(to, "failed", figures->failed);
    write_number(to, "dropped_copies", figures->dropped);
    write_times(to, "stable_run", &figures->stable);
    write_times(to, "candidate_run", &figures->candidate);
    write_outputs(to, record);
    strbuf_text(to, "}");
}

/* Reads {"state": "promoted"} or {"state": "dropped"}. */
static bool read_state(struct exchange *exchange, rollout_state *out_state)
{
    json_reader reader;
    json_text key, value = { NULL, 0 };
    bool good;

    reader_begin(&reader, exchange->body, exchange->body_bytes);
    good = exchange->body_bytes > 0 && reader_open(&reader, '{');
    while (good && reader_member(&reader, &key))
        good = text_is(key, "state") && reader_string(&reader, &value);
    good = good && reader_end(&reader) && value.data != NULL;
    *out_state = good && text_is(value, rollout_state_name(ROLLOUT_PROMOTED))  ? ROLLOUT_PROMOTED
                 : good && text_is(value, rollout_state_name(ROLLOUT_DROPPED)) ? ROLLOUT_DROPPED
                                                                               : ROLLOUT_RUNNING;
    return *out_state != ROLLOUT_RUNNING;
}

void answer_rollout(struct exchange *exchange)
{
    struct board *board = &exchange->request.server->board;
    rollout_record record;
    rollout_state state;

    exchange->request.job.model =
        repository_find(exchange->request.server->repository, exchange->route.name, exchange->route.name_bytes, 0);
    if (exchange->request.job.model == NULL || !rollouts_read(board, exchange->request.job.model->name, &record)) {
        exchange_fail(exchange, HTTP_NOT_FOUND, "this model has no rollout: no new version was found since the start");
        return;
    }
    if (strcmp(exchange->method, "POST") == 0) {
        if (!read_state(exchange, &state)) {
            exchange_fail(exchange, HTTP_BAD_REQUEST,
                          "the body must be {\"state\":\"promoted\"} or {\"state\":\"dropped\"}");
            return;
        }
        if (!rollouts_end(board, record.name, record.key, state, "by an administrator")) {
            exchange_fail(exchange, HTTP_BAD_REQUEST, "the rollout has ended; GET this path for its reason");
            return;
        }
        (void)rollouts_read(board, record.name, &record);
    }
    write_rollout(&exchange->reply, &record);
    exchange->code = HTTP_OK;
}
