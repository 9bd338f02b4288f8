/* Timed runs of one assignment of the tuned model. */
#include "measure/tune_variant.h"
#include "base/clock.h"
#include "measure/measure_time.h"
#include <math.h>
#include <stdlib.h>

static const double BLOCK_NS = 40e6; /* for the runs of one variant before another one runs */
static const double LONG_NS = 1e9;   /* a model that takes longer runs once per block */
enum { MIN_RUNS = 3, MAX_RUNS = 40 };

struct tune_variant {
    struct tuning *tuning;
    struct program *program;
    struct runner *runner;
    run_shared shared;
    bool has_shared;
    inlay_value **inputs; /* [input_count] */
    run_value *values;    /* [input_count] */
    double ns;            /* time of a run: the best of the blocks; negative: not timed yet */
    inlay_diag why;       /* error of a failed run */
};

static inlay_status run_variant(void *ctx, double *out_ns, bool *out_calm)
{
    struct tune_variant *variant = ctx;
    uint64_t switches = measure_switches(), begin;
    inlay_status status;

    for (uint32_t i = 0; i < variant->program->graph->input_count; i++)
        variant->values[i] = run_value_of(variant->inputs[i]);
    begin = clock_ns();
    status = runner_run(variant->runner, variant->values, &variant->why);
    *out_ns = (double)(clock_ns() - begin);
    *out_calm = measure_switches() == switches;
    return status;
}

inlay_status tune_variant_block(tune_variant *variant, bool (*stop)(void *ctx), double *out_ns)
{
    measure_plan runs = {
        .min_runs = MIN_RUNS, .max_runs = MAX_RUNS, .budget_ns = BLOCK_NS, .stop = stop, .stop_ctx = variant->tuning
    };
    struct measurement measured;
    inlay_status status;

    if (variant->ns > LONG_NS)
        runs.min_runs = runs.max_runs = 1;
    status = measure_runs(run_variant, variant, &runs, 4, &measured, NULL);
    if (status == INLAY_OK) {
        *out_ns = measured.ns;
        variant->ns = variant->ns < 0 ? measured.ns : fmin(variant->ns, measured.ns);
    }
    return status;
}

double tune_variant_best(const tune_variant *variant)
{
    return variant->ns;
}

inlay_status tune_variant_open(struct tuning *tuning, struct program *program, inlay_value **inputs,
                               tune_variant **out_variant)
{
    tune_variant *variant = calloc(1, sizeof *variant);
    inlay_status status;

    *out_variant = variant;
    if (variant == NULL)
        return INLAY_OUT_OF_MEMORY;
    *variant =
        (tune_variant){ .tuning = tuning, .program = program, .inputs = inputs, .ns = -1, .why = INLAY_DIAG_INIT };
    variant->values = arena_array(&tuning->arena, (size_t)program->graph->input_count + 1, sizeof *variant->values);
    if (variant->values == NULL)
        return INLAY_OUT_OF_MEMORY;
    status =
        run_shared_init(&variant->shared, tuning->session->env.max_threads, tuning->session->env.runs.max_bytes, NULL);
    variant->has_shared = status == INLAY_OK;
    return status == INLAY_OK ? runner_create(program, &variant->shared, &variant->runner, NULL) : status;
}

void tune_variant_close(tune_variant *variant)
{
    if (variant == NULL)
        return;
    if (variant->why.code == INLAY_DEVICE_LOST)
        (void)inlay_fail(variant->tuning->diag, INLAY_DEVICE_LOST, "%s", variant->why.text);
    if (variant->has_shared && variant->shared.hang.abandoned) {
        variant->tuning->session->abandoned = true;
        return;
    }
    runner_destroy(variant->runner);
    if (variant->has_shared)
        run_shared_deinit(&variant->shared);
    free(variant);
}
