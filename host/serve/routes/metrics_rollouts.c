#include "serve/routes/metrics_rollouts.h"
#include "serve/base/rollouts.h"
#include <stddef.h>
#include <stdlib.h>

static void write_head(struct strbuf *to, const char *name, const char *type, const char *help)
{
    strbuf_format(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Writes one statistic of the last rollout of each model. */
static void write_rollout_figure(struct strbuf *to, const rollout_record *records, uint32_t count, const char *name,
                                 const char *help, size_t member)
{
    write_head(to, name, "counter", help);
    for (uint32_t i = 0; i < count; i++)
        strbuf_format(
            to, "%s{model=\"%s\",candidate=\"%llu\"} %llu\n", name, records[i].name,
            (unsigned long long)records[i].version,
            (unsigned long long)*(const uint64_t *)(const void *)((const char *)&records[i].figures + member));
}

static void write_rollout_times(struct strbuf *to, const rollout_record *record, const char *role,
                                const rollout_times *times)
{
    static const double shares[] = { 0.5, 0.9, 0.99 };

    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++)
        strbuf_format(to, "inlay_rollout_run_seconds{model=\"%s\",role=\"%s\",quantile=\"%g\"} %.9f\n", record->name,
                      role, shares[i], rollout_times_at(times, shares[i]) / 1e9);
    strbuf_format(to, "inlay_rollout_run_seconds_count{model=\"%s\",role=\"%s\"} %llu\n", record->name, role,
                  (unsigned long long)times->count);
}

/* The largest or, where more is better, the least difference of an output. */
static double worst_difference(const rollout_record *record)
{
    bool most = record->rules.metric == AGREE_auto || record->rules.metric == AGREE_kl, any = false;
    double worst = 0;

    for (uint32_t i = 0; i < ROLLOUT_OUTPUTS; i++) {
        double value = rollout_difference(&record->rules, &record->figures.outputs[i]);

        if (record->figures.outputs[i].samples == 0)
            continue;
        worst = !any || (most ? value > worst : value < worst) ? value : worst;
        any = true;
    }
    return worst;
}

static void write_rollouts(struct strbuf *to, const rollout_record *records, uint32_t count)
{
    write_head(to, "inlay_rollout_state", "gauge", "State of the last rollout of a model: the value is 1.");
    for (uint32_t i = 0; i < count; i++)
        strbuf_format(
            to, "inlay_rollout_state{model=\"%s\",stable=\"%llu\",candidate=\"%llu\",rollout=\"%s\",state=\"%s\"} 1\n",
            records[i].name, (unsigned long long)records[i].stable, (unsigned long long)records[i].version,
            rollout_mode_name(records[i].rules.mode), rollout_state_name(records[i].state));
    write_head(to, "inlay_rollout_requests_total", "counter",
               "Requests without a version during the rollout, by the version chosen for the request or its copy.");
    for (uint32_t i = 0; i < count; i++) {
        uint64_t all = records[i].requests, chosen = rollout_chosen(&records[i].rules, all);

        strbuf_format(to, "inlay_rollout_requests_total{model=\"%s\",role=\"candidate\"} %llu\n", records[i].name,
                      (unsigned long long)chosen);
        strbuf_format(to, "inlay_rollout_requests_total{model=\"%s\",role=\"stable\"} %llu\n", records[i].name,
                      (unsigned long long)(records[i].rules.mode == ROLLOUT_CANARY ? all - chosen : all));
    }
    write_rollout_figure(to, records, count, "inlay_rollout_compared_total", "Requests that both versions have run.",
                         offsetof(rollout_figures, compared));
    write_rollout_figure(
        to, records, count, "inlay_rollout_unlike_total",
        "Of these, those with outputs of another shape, type or text, or with other non-finite numbers.",
        offsetof(rollout_figures, unlike));
    write_rollout_figure(to, records, count, "inlay_rollout_failed_total",
                         "Requests that only the candidate has failed.", offsetof(rollout_figures, failed));
    write_rollout_figure(
        to, records, count, "inlay_rollout_dropped_copies_total",
        "Copies of requests that were not run to their end, because of other requests or for lack of memory.",
        offsetof(rollout_figures, dropped));
    write_head(to, "inlay_rollout_difference", "gauge", "rollout_metric of the output that differs most.");
    for (uint32_t i = 0; i < count; i++)
        strbuf_format(to, "inlay_rollout_difference{model=\"%s\",metric=\"%s\"} %.9g\n", records[i].name,
                      rollout_metric_name(&records[i].rules), worst_difference(&records[i]));
    write_head(to, "inlay_rollout_run_seconds", "summary",
               "Duration of the runs of requests that both versions have run.");
    for (uint32_t i = 0; i < count; i++) {
        write_rollout_times(to, &records[i], "stable", &records[i].figures.stable);
        write_rollout_times(to, &records[i], "candidate", &records[i].figures.candidate);
    }
}

void metrics_write_rollouts(struct strbuf *to, struct board *board)
{
    rollout_record *records = calloc(BOARD_ROLLOUTS, sizeof *records);
    uint32_t count = records != NULL ? rollouts_list(board, records) : 0;

    if (count > 0)
        write_rollouts(to, records, count);
    to->failed |= records == NULL;
    free(records);
}
