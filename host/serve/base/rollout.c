#include "serve/base/rollout.h"
#include "inlay/check.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OCTAVE = 8, FIRST_OCTAVE = 8 }; /* buckets of a doubling; the first bucket ends at 2^FIRST_OCTAVE ns */
#define IGNORED_NS 1e5                 /* candidates are not called slower for less: threads wake up that late */

static const char *const modes[] = { "off", "canary", "shadow" };

const char *rollout_mode_name(rollout_mode mode)
{
    INLAY_CHECK(mode <= ROLLOUT_SHADOW);
    return modes[mode];
}

const char *rollout_state_name(rollout_state state)
{
    static const char *const names[ROLLOUT_STATE_COUNT] = { "running", "promoted", "dropped" };

    INLAY_CHECK(state < ROLLOUT_STATE_COUNT);
    return names[state];
}

const char *rollout_metric_name(const rollout_rules *rules)
{
    return rules->metric == AGREE_auto ? "relative" : agree_metric_name(rules->metric);
}

static inlay_status set_mode(rollout_rules *rules, const char *value, const char *origin, inlay_diag *diag)
{
    for (uint32_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(modes[i], value) == 0) {
            rules->mode = (rollout_mode)i;
            return INLAY_OK;
        }
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: rollout must be off, canary or shadow, not '%.40s'", origin,
                      value);
}

static inlay_status set_metric(rollout_rules *rules, const char *value, const char *origin, inlay_diag *diag)
{
    agree_metric metric = strcmp(value, "relative") == 0 ? AGREE_auto : agree_metric_find(value);

    if (metric == AGREE_METRIC_COUNT || strcmp(value, "auto") == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "%s: rollout_metric must be relative, top1, cosine, kl, psnr, iou or text, not '%.40s'",
                          origin, value);
    rules->metric = metric;
    return INLAY_OK;
}

inlay_status rollout_set(rollout_rules *rules, const char *name, const char *value, const char *origin,
                         inlay_diag *diag)
{
    static const struct {
        const char *name;
        double least, most;
        size_t member;
    } rows[] = { { "rollout_percent", 0.01, 100, offsetof(rollout_rules, percent) },
                 { "rollout_requests", 1, 1e9, offsetof(rollout_rules, requests) },
                 { "rollout_bound", -1e9, 1e9, offsetof(rollout_rules, bound) },
                 { "rollout_median_ratio", 0, 1e6, offsetof(rollout_rules, median) },
                 { "rollout_tail_ratio", 0, 1e6, offsetof(rollout_rules, tail) },
                 { "rollout_error_percent", 0, 100, offsetof(rollout_rules, error_percent) } };
    uint32_t i = 0;
    double number;
    char *end;

    if (strcmp(name, "rollout") == 0)
        return set_mode(rules, value, origin, diag);
    if (strcmp(name, "rollout_metric") == 0)
        return set_metric(rules, value, origin, diag);
    while (i < sizeof rows / sizeof rows[0] && strcmp(rows[i].name, name) != 0)
        i++;
    INLAY_CHECK(i < sizeof rows / sizeof rows[0]); /* callers use the names of settings */
    number = strtod(value, &end);
    if (end == value || *end != '\0' || !(number >= rows[i].least && number <= rows[i].most))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: %s must be a number from %g to %g, not '%.40s'", origin,
                          name, rows[i].least, rows[i].most, value);
    memcpy((char *)rules + rows[i].member, &number, sizeof number);
    return INLAY_OK;
}

uint64_t rollout_chosen(const rollout_rules *rules, uint64_t n)
{
    return (uint64_t)floor((double)n * rules->percent / 100 + 1e-9);
}

void rollout_times_add(rollout_times *times, uint64_t ns)
{
    double octaves = ns > 0 ? log2((double)ns) - FIRST_OCTAVE : 0;
    uint32_t bucket = octaves > 0 ? (uint32_t)ceil(octaves * OCTAVE) : 0;

    times->buckets[bucket < ROLLOUT_BUCKETS ? bucket : ROLLOUT_BUCKETS - 1]++;
    times->count++;
}

double rollout_times_at(const rollout_times *times, double share)
{
    uint64_t rank = (uint64_t)ceil(share * (double)times->count), seen = 0;

    for (uint32_t i = 0; i < ROLLOUT_BUCKETS; i++) {
        seen += times->buckets[i];
        if (seen >= rank && seen > 0)
            return exp2(FIRST_OCTAVE + (i - 0.5) / OCTAVE);
    }
    return 0;
}

void rollout_figures_init(rollout_figures *figures, const rollout_rules *rules)
{
    *figures = (rollout_figures){ .compared = 0 };
    for (uint32_t i = 0; i < ROLLOUT_OUTPUTS; i++)
        figures->outputs[i].metric = rules->metric == AGREE_auto ? AGREE_cosine : rules->metric;
}

double rollout_difference(const rollout_rules *rules, const struct agree *output)
{
    if (rules->metric == AGREE_kl && output->scored == 0) /* rows of one element; less is better, too */
        return agree_relative_error(output);
    return rules->metric == AGREE_auto ? agree_relative(output) : agree_result(output).value;
}

static bool holds(const rollout_rules *rules, double value)
{
    return rules->metric == AGREE_auto ? value <= rules->bound : agree_holds(rules->metric, value, rules->bound);
}

/* The output that violates the bound; ROLLOUT_OUTPUTS: none. */
static uint32_t find_different(const rollout_rules *rules, const rollout_figures *figures)
{
    uint32_t i = 0;

    while (i < ROLLOUT_OUTPUTS &&
           (figures->outputs[i].samples == 0 || holds(rules, rollout_difference(rules, &figures->outputs[i]))))
        i++;
    return i;
}

/* Whether the candidate is slower than permitted at this percentile. */
static bool is_slower(const rollout_figures *figures, double share, double ratio, const char *what, char *reason)
{
    double stable = rollout_times_at(&figures->stable, share), candidate = rollout_times_at(&figures->candidate, share);

    if (ratio <= 0 || candidate <= stable * ratio || candidate - stable < IGNORED_NS)
        return false;
    (void)snprintf(reason, ROLLOUT_REASON_BYTES,
                   "%s of its runs is %.3g ms, %.2f times the %.3g ms of the other, more "
                   "than %g (%llu pairs)",
                   what, candidate / 1e6, candidate / stable, stable / 1e6, ratio,
                   (unsigned long long)figures->candidate.count);
    return true;
}

/* Adds the variants of a model package, if both versions are packages. */
static void add_variants(const rollout_figures *figures, char *reason)
{
    const size_t used = strlen(reason);

    if (figures->candidate_variant[0] != '\0' && figures->stable_variant[0] != '\0')
        (void)snprintf(reason + used, ROLLOUT_REASON_BYTES - used, "; variant %s (before: %s)",
                       figures->candidate_variant, figures->stable_variant);
}

rollout_state rollout_decide(const rollout_rules *rules, const rollout_figures *figures, char *reason)
{
    uint64_t pairs = figures->compared + figures->failed, wrong = figures->failed + figures->unlike;
    double enough = (double)pairs > rules->requests ? (double)pairs : rules->requests;
    uint32_t output;
    int used;

    reason[0] = '\0';
    if ((double)wrong > rules->error_percent / 100 * enough) {
        (void)snprintf(reason, ROLLOUT_REASON_BYTES,
                       "%llu of %llu requests failed on it alone and %llu had other outputs, more than %g %%",
                       (unsigned long long)figures->failed, (unsigned long long)pairs,
                       (unsigned long long)figures->unlike, rules->error_percent);
        return ROLLOUT_DROPPED;
    }
    if ((double)pairs < rules->requests)
        return ROLLOUT_RUNNING;
    output = find_different(rules, figures);
    if (output < ROLLOUT_OUTPUTS) {
        (void)snprintf(reason, ROLLOUT_REASON_BYTES, "output '%s': %s is %.4g over %llu pairs, beyond the bound %g",
                       figures->names[output], rollout_metric_name(rules),
                       rollout_difference(rules, &figures->outputs[output]),
                       (unsigned long long)figures->outputs[output].samples, rules->bound);
        return ROLLOUT_DROPPED;
    }
    if (is_slower(figures, 0.5, rules->median, "the median", reason) ||
        is_slower(figures, 0.99, rules->tail, "the 99th percentile", reason))
        return ROLLOUT_DROPPED;
    used = snprintf(reason, ROLLOUT_REASON_BYTES, "%llu pairs agree, %llu requests failed on it alone, ",
                    (unsigned long long)(figures->compared - figures->unlike), (unsigned long long)figures->failed);
    if (figures->candidate.count == 0)
        (void)snprintf(reason + used, ROLLOUT_REASON_BYTES - (size_t)used, "no run times could be compared");
    else
        (void)snprintf(reason + used, ROLLOUT_REASON_BYTES - (size_t)used,
                       "runs take %.3g ms (median; before: %.3g ms)", rollout_times_at(&figures->candidate, 0.5) / 1e6,
                       rollout_times_at(&figures->stable, 0.5) / 1e6);
    add_variants(figures, reason);
    return ROLLOUT_PROMOTED;
}
