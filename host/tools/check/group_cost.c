/* Compares predicted costs with measured times at growing sizes. */
#include "check/harness.h"
#include "check/generate.h"
#include "partition/cost/cost.h"
#include "timing/timing.h"
#include "inlay/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES = 3, RUNS = 5, RELIABLE_NS = 20000 };
/* If predicted and measured time differ by more than a factor, the line is a failure or a warning. */
static const double failure_factor = 100, warning_factor = 3;

/* Prediction and measurement of the last offered case of a scale. */
struct sample {
    /* nanoseconds; measured: the shortest run, which a busy machine disturbs least; 0 = no measurement */
    double predicted, measured;
    double flops;
    double roof;  /* nanoseconds; 0 = not known */
    bool guessed; /* the provider called its prediction a guess */
    char text[200];
};

struct cost_check {
    struct check *check;
    const struct fixture *fixture;
    const loaded_provider *provider;
    struct sample samples[SIZES];
    struct sample *sample;
};

/* A run that fails is not timed; other groups report it. */
static inlay_status run_once(void *subject, double *out_ms, inlay_diag *diag)
{
    const harness_options options = { 0 };
    inlay_diag failure = INLAY_DIAG_INIT;
    harness_result result;

    (void)diag;
    *out_ms = harness_run(subject, &options, &result, &failure) == INLAY_OK ? result.ns * 1e-6 : -1;
    harness_result_deinit(&result);
    return INLAY_OK;
}

/* Times a few runs. */
static void measure(struct harness *harness, struct sample *out)
{
    const timing_plan plan = { .least = RUNS, .most = RUNS };
    void *subject = harness;
    run_times times = { 0 };

    if (timing_rounds(&plan, run_once, &subject, 1, &times, NULL) == INLAY_OK && times.count > 0) {
        timing_sort(&times);
        out->measured = times.ms[0] * 1e6;
    }
    free(times.ms);
}

static double roof_of(const loaded_provider *provider, const case_instance *built, const harness_answer *answer,
                      const inlay_cost *cost)
{
    const partition_provider priced = { .table = provider->table };
    const partition_offer offer = { .nodes = &answer->node, .node_count = 1 };
    const cost_question question = { .graph = &built->snapshot,
                                     .provider = &priced,
                                     .offer = &offer,
                                     .values = built->states,
                                     .max_threads = 1,
                                     .weight_bytes = cost_weight_bytes(&built->snapshot) };

    return cost_roof_ns(&question, cost);
}

static bool try_case(void *user, op_case *entry)
{
    struct cost_check *cost_check = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_cost cost;
    case_instance built;
    struct harness harness;

    if (case_graph(entry, &cost_check->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return true;
    check_subject(cost_check->check, "%s", case_text(entry, cost_check->sample->text, sizeof cost_check->sample->text));
    if (harness_open(cost_check->check, cost_check->provider, &built, entry, 1, &harness, &diag) == INLAY_OK) {
        check_phase(cost_check->check, "cost");
        if (harness_cost(cost_check->provider, &built, &harness.answer, 1, &cost) == INLAY_OK) {
            cost_convert_to_here(cost_check->provider->table, &cost);
            cost_check->sample->predicted = cost.ns + cost.enter_ns + cost.leave_ns; /* the case is a whole region */
            cost_check->sample->flops = cost.flops;
            cost_check->sample->roof = roof_of(cost_check->provider, &built, &harness.answer, &cost);
            cost_check->sample->guessed = cost.confidence == INLAY_CONFIDENCE_GUESS;
            measure(&harness, cost_check->sample);
        }
        harness_close(&harness);
    }
    case_instance_deinit(&built);
    return cost_check->sample->measured <= 0;
}

/* Formats a time: "12.5 us". */
static const char *time_text(double ns, char text[32])
{
    if (!(fabs(ns) >= 1e3))
        (void)snprintf(text, 32, "%.3g ns", ns);
    else if (fabs(ns) < 1e6)
        (void)snprintf(text, 32, "%.3g us", ns * 1e-3);
    else
        (void)snprintf(text, 32, "%.4g ms", ns * 1e-6);
    return text;
}

static void report_result(const struct cost_check *cost_check)
{
    const struct sample *big = NULL, *small = NULL;
    char first_text[32], second_text[32];
    bool too_high, too_low;
    double ratio;

    for (uint32_t i = 0; i < SIZES; i++) {
        if (cost_check->samples[i].measured <= 0)
            continue;
        small = small == NULL ? &cost_check->samples[i] : small;
        big = &cost_check->samples[i];
        if (!isfinite(big->predicted) || big->predicted < 0 || !isfinite(big->flops) || big->flops < 0) {
            check_fail(cost_check->check, "cost", big->text, "a finite time of at least 0 ns",
                       "do not divide by values that may be 0", "ns is %g, flops %g", big->predicted, big->flops);
            return;
        }
    }
    if (big == NULL)
        return;
    if (small->predicted > failure_factor * big->predicted) {
        check_fail(cost_check->check, "cost", big->text, "a higher cost for more work",
                   "compute the cost from the shapes in request->values", "%s, but for %s it was %s",
                   time_text(big->predicted, first_text), small->text, time_text(small->predicted, second_text));
        return;
    }
    /* A guess that is too high is not a failure: a device that the user did not request may avoid work by it. */
    too_high = !big->guessed && big->predicted > failure_factor * fmax(big->measured, RELIABLE_NS);
    too_low = big->measured >= RELIABLE_NS && big->predicted < big->measured / failure_factor;
    if (!too_high && !too_low && big->predicted < big->roof) {
        check_warn(cost_check->check, "cost", big->text, "a prediction of at least its multiplications and reads",
                   "count the operations and bytes of the given shapes",
                   "predicted %s, but this kind of CPU needs %s, which sessions use instead",
                   time_text(big->predicted, first_text), time_text(big->roof, second_text));
        return;
    }
    if (big->measured < RELIABLE_NS && !too_high) {
        check_pass(cost_check->check, "cost", big->text, "predicted %s; too short to measure (%s)",
                   time_text(big->predicted, first_text), time_text(big->measured, second_text));
        return;
    }
    ratio = big->predicted / big->measured;
    if (too_high || too_low)
        check_fail(cost_check->check, "cost", big->text, "a prediction accurate enough for partitioning",
                   "compute ns from the operations and bytes of the given shapes (kit: set cost->flops)",
                   "predicted %s, measured %s: %.3g times", time_text(big->predicted, first_text),
                   time_text(big->measured, second_text), ratio);
    else if (ratio > warning_factor || ratio < 1 / warning_factor)
        check_warn(cost_check->check, "cost", big->text, "a prediction within a factor of 3",
                   "report the number of operations, or measure: set cost->ns and confidence",
                   "predicted %s, measured %s: %.2g times", time_text(big->predicted, first_text),
                   time_text(big->measured, second_text), ratio);
    else
        check_pass(cost_check->check, "cost", big->text, "predicted %s, measured %s: %.2g times",
                   time_text(big->predicted, first_text), time_text(big->measured, second_text), ratio);
}

static bool try_source(void *user, const case_source *source)
{
    static const uint32_t scales[SIZES] = { 1, 4, 16 };
    struct cost_check *cost_check = user;

    if (!check_unit(cost_check->check, "%s-%lld", source->op_type, (long long)source->opset))
        return true;
    memset(cost_check->samples, 0, sizeof cost_check->samples);
    for (uint32_t i = 0; i < SIZES; i++) {
        const case_range range = {
            .seed = cost_check->check->args->seed, .scale = scales[i], .quick = true, .scaled = true
        };
        cost_check->sample = &cost_check->samples[i];
        if (!cost_check->check->args->quick || i != 1)
            generate_cases(source, &range, try_case, cost_check);
        if (cost_check->check->args->quick && cost_check->samples[0].measured <= 0)
            return true; /* an operator refused at a small size is seldom offered at a large one, which takes long */
    }
    report_result(cost_check);
    return true;
}

void check_group_cost(struct check *check)
{
    const inlay_operator *custom[64];
    uint32_t count;
    struct fixture fixture;
    bool timed;

    if (!fixture_open(check, "cost", false, &fixture))
        return;
    count = fixture_operators(&fixture, custom, 64);
    timed = fixture.plugins[0].sanitizers == 0 && !check->args->no_timing;
    if (check->args->no_timing) {
        check_skip(check, "cost", NULL, "--no-timing");
    } else if (fixture.plugins[0].sanitizers != 0) {
        check_skip(check, "cost", NULL, "the plugin is built with a sanitizer, so times are meaningless");
    }
    for (uint32_t i = 0; i < fixture.own_count && timed; i++) {
        struct cost_check cost_check = { .check = check, .fixture = &fixture, .provider = &fixture.own[i] };

        generate_sources(custom, count, check->args->op, true, try_source, &cost_check);
    }
    fixture_close(&fixture);
}
