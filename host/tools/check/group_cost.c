/* What cost says against what a run takes, at growing sizes. */
#include "base/pace.h"
#include "check/bench.h"
#include "check/generate.h"
#include "timing/timing.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES = 3, RUNS = 5, RELIABLE_NS = 20000 };
static const double far = 100, off = 3; /* times too much or too little: a failure, a warning */

/* The last case of a scale that was offered, measured. */
struct sample {
    double predicted, measured; /* nanoseconds, the median; measured 0 = there is none */
    double least;               /* of the runs: what a busy machine leaves alone */
    double flops;
    bool guessed; /* by the provider's own word */
    char text[200];
};

struct costing {
    struct check *check;
    const struct world *world;
    const loaded_provider *provider;
    struct sample samples[SIZES];
    struct sample *now;
};

/* A run that fails is not timed; other groups report it. */
static inlay_status run_once(void *subject, double *out_ms, inlay_diag *diag)
{
    const bench_how how = { 0 };
    inlay_diag failure = INLAY_DIAG_INIT;
    bench_result result;

    (void)diag;
    *out_ms = bench_run(subject, &how, &result, &failure) == INLAY_OK ? result.ns * 1e-6 : -1;
    bench_result_deinit(&result);
    return INLAY_OK;
}

/* Times a few runs. */
static void measure(struct bench *bench, struct sample *out)
{
    const timing_plan plan = { .least = RUNS, .most = RUNS };
    void *subject = bench;
    run_times times = { 0 };

    if (timing_rounds(&plan, run_once, &subject, 1, &times, NULL) == INLAY_OK && times.count > 0) {
        timing_sort(&times);
        out->measured = times.ms[times.count / 2] * 1e6;
        out->least = times.ms[0] * 1e6;
    }
    free(times.ms);
}

static bool try_case(void *user, op_case *entry)
{
    struct costing *costing = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_cost cost;
    case_one one;
    struct bench bench;

    if (case_graph(entry, &costing->world->operators, CASE_SIZES, &one, &diag) != INLAY_OK)
        return true;
    check_subject(costing->check, "%s", case_text(entry, costing->now->text, sizeof costing->now->text));
    if (bench_open(costing->check, costing->provider, &one, entry, 1, &bench, &diag) == INLAY_OK) {
        check_phase(costing->check, "cost");
        if (bench_cost(costing->provider, &one, &bench.answer, 1, &cost) == INLAY_OK) {
            costing->now->predicted = cost.ns + cost.enter_ns + cost.leave_ns; /* all that it is a region of */
            if ((costing->provider->table->flags & INLAY_PROVIDER_REFERENCE_CORE) != 0 &&
                cost.confidence != INLAY_CONFIDENCE_MEASURED)
                costing->now->predicted *= pace_of_cpu();
            costing->now->flops = cost.flops;
            costing->now->guessed = cost.confidence == INLAY_CONFIDENCE_GUESS;
            measure(&bench, costing->now);
        }
        bench_close(&bench);
    }
    case_one_deinit(&one);
    return costing->now->measured <= 0;
}

/* Times in words: "12.5 us". */
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

static void judge(const struct costing *costing)
{
    const struct sample *big = NULL, *small = NULL;
    char a[32], b[32];
    double ratio;

    for (uint32_t i = 0; i < SIZES; i++) {
        if (costing->samples[i].measured <= 0)
            continue;
        small = small == NULL ? &costing->samples[i] : small;
        big = &costing->samples[i];
        if (!isfinite(big->predicted) || big->predicted < 0 || !isfinite(big->flops) || big->flops < 0) {
            check_fail(costing->check, "cost", big->text, "a time from 0 ns up", "divide by nothing that may be 0",
                       "ns is %g, flops %g", big->predicted, big->flops);
            return;
        }
    }
    if (big == NULL)
        return;
    if (small->predicted > far * big->predicted) {
        check_fail(costing->check, "cost", big->text, "that more work costs more",
                   "compute the cost from the shapes in request->values", "%s, but for %s it was %s",
                   time_text(big->predicted, a), small->text, time_text(small->predicted, b));
        return;
    }
    if (big->measured < RELIABLE_NS) {
        check_pass(costing->check, "cost", big->text, "predicted %s; too short to measure (%s)",
                   time_text(big->predicted, a), time_text(big->measured, b));
        return;
    }
    ratio = big->predicted / big->measured;
    /* Too dear a guess draws no work: a device that nobody asked for may keep away so. */
    if ((ratio > far && !big->guessed) || big->predicted < big->least / far)
        check_fail(costing->check, "cost", big->text, "a prediction that partitions can be made by",
                   "compute ns from the operations and bytes of the shapes at hand (kit: set cost->flops)",
                   "predicted %s, measured %s: %.3g times", time_text(big->predicted, a), time_text(big->measured, b),
                   ratio);
    else if (ratio > off || ratio < 1 / off)
        check_warn(costing->check, "cost", big->text, "a prediction within a factor of 3",
                   "tell the number of operations, or measure: set cost->ns and confidence",
                   "predicted %s, measured %s: %.2g times", time_text(big->predicted, a), time_text(big->measured, b),
                   ratio);
    else
        check_pass(costing->check, "cost", big->text, "predicted %s, measured %s: %.2g times",
                   time_text(big->predicted, a), time_text(big->measured, b), ratio);
}

static bool try_source(void *user, const case_source *source)
{
    static const uint32_t scales[SIZES] = { 1, 4, 16 };
    struct costing *costing = user;

    if (!check_unit(costing->check, "%s-%lld", source->op_type, (long long)source->opset))
        return true;
    memset(costing->samples, 0, sizeof costing->samples);
    for (uint32_t i = 0; i < SIZES; i++) {
        const case_range range = {
            .seed = costing->check->args->seed, .scale = scales[i], .quick = true, .scaled = true
        };
        costing->now = &costing->samples[i];
        if (!costing->check->args->quick || i != 1)
            generate_cases(source, &range, try_case, costing);
        if (costing->check->args->quick && costing->samples[0].measured <= 0)
            return true; /* large tensors take long to make, and what is not offered when small hardly is when large */
    }
    judge(costing);
    return true;
}

void check_group_cost(struct check *check)
{
    const inlay_operator *custom[64];
    uint32_t count;
    struct world world;
    bool timed;

    if (!world_open(check, "cost", false, &world))
        return;
    count = world_operators(&world, custom, 64);
    timed = world.plugins[0].sanitizers == 0 && !check->args->no_timing;
    if (check->args->no_timing) {
        check_skip(check, "cost", NULL, "--no-timing");
    } else if (world.plugins[0].sanitizers != 0) {
        check_skip(check, "cost", NULL, "the plugin is built with a sanitizer, so times say nothing");
    }
    for (uint32_t i = 0; i < world.own_count && timed; i++) {
        struct costing costing = { .check = check, .world = &world, .provider = &world.own[i] };

        generate_sources(custom, count, check->args->op, true, try_source, &costing);
    }
    world_close(&world);
}
