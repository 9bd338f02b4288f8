/* The assignment that new figures lead to, timed as a whole beside the one before: the better stays.
 *
 * What kernels take one by one is not all of a run. A region that is cut in two sends its values through memory once
 * more; a kernel finds its inputs in another cache than it did alone. So before the figures are kept, the model is run
 * both ways. Where it is slower by them, what the changed nodes were found to take is raised by what is missing, and
 * the assignment is found anew; where that does not help, the figures are not kept. */
#include "base/clock.h"
#include "base/memory.h"
#include "measure/measure_time.h"
#include "measure/tune.h"
#include "plan/create/create.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double BLOCK_NS = 40e6; /* for the runs of one of the two, before it is the other's turn */
static const double LONG_NS = 1e9;   /* a model that takes longer is run once in a block */
static const double DOUBT = 0.15;    /* of a price that was raised */
static const double NOISE = 1.02;    /* what the same regions, by the same kernels perhaps, may differ by */
enum { ATTEMPTS = 3, BLOCKS = 15, LEAST_RUNS = 3, MOST_RUNS = 40 };

/* A way to run the model. */
struct way {
    struct tuning *tuning;
    struct program *program;
    struct runner *runner;
    run_shared shared;
    bool has_shared;
    inlay_value **inputs; /* [input_count] */
    rt_value *values;     /* [input_count] */
    double ns;            /* of a run: the best of the blocks; negative: not yet */
    inlay_diag why;       /* of a run that failed */
};

/* ------------------------------------------------------------------ running */

static inlay_status run_once(void *ctx, double *out_ns, bool *out_calm)
{
    struct way *way = ctx;
    uint64_t switches = measure_switches(), begin;
    inlay_status status;

    for (uint32_t i = 0; i < way->program->graph->input_count; i++)
        way->values[i] = rt_from_value(way->inputs[i]);
    begin = clock_ns();
    status = runner_run(way->runner, way->values, &way->why);
    *out_ns = (double)(clock_ns() - begin);
    *out_calm = measure_switches() == switches;
    return status;
}

static inlay_status time_block(struct way *way)
{
    measure_plan runs = { .min_runs = LEAST_RUNS, .max_runs = MOST_RUNS, .budget_ns = BLOCK_NS };
    struct measurement got;
    inlay_status status;

    if (way->ns > LONG_NS)
        runs.min_runs = runs.max_runs = 1;
    status = measure_runs(run_once, way, &runs, 4, &got, NULL);
    if (status == INLAY_OK)
        way->ns = way->ns < 0 ? got.ns : fmin(way->ns, got.ns);
    return status;
}

static inlay_status open_way(struct way *way, struct tuning *tuning, struct program *program, inlay_value **inputs)
{
    inlay_status status;

    *way = (struct way){ .tuning = tuning, .program = program, .inputs = inputs, .ns = -1, .why = INLAY_DIAG_INIT };
    way->values = arena_array(&tuning->arena, (size_t)program->graph->input_count + 1, sizeof *way->values);
    if (way->values == NULL)
        return INLAY_OUT_OF_MEMORY;
    status = run_shared_init(&way->shared, tuning->session->env.max_threads, tuning->session->env.max_run_bytes, NULL);
    way->has_shared = status == INLAY_OK;
    return status == INLAY_OK ? runner_create(program, &way->shared, &way->runner, NULL) : status;
}

/* What a device that hangs may still use stays. */
static void close_way(struct tuning *tuning, struct way *way)
{
    if (way->why.code == INLAY_DEVICE_LOST)
        (void)inlay_fail(tuning->diag, INLAY_DEVICE_LOST, "%s", way->why.text);
    if (way->has_shared && way->shared.hang.abandoned) {
        tuning->session->abandoned = true;
        return;
    }
    runner_destroy(way->runner);
    if (way->has_shared)
        run_shared_deinit(&way->shared);
    free(way);
}

/* Times both in turns. INLAY_UNSUPPORTED: one of them does not run. */
static inlay_status time_both(struct tuning *tuning, struct program *before, struct program *after,
                              inlay_value **inputs, double *out_before, double *out_after)
{
    struct way *a = calloc(1, sizeof *a), *b = calloc(1, sizeof *b);
    inlay_status status;

    if (a == NULL || b == NULL) {
        free(a);
        free(b);
        return INLAY_OUT_OF_MEMORY;
    }
    status = open_way(a, tuning, before, inputs);
    if (status == INLAY_OK)
        status = open_way(b, tuning, after, inputs);
    for (int i = 0; status == INLAY_OK && i < BLOCKS; i++) {
        status = time_block(a);
        if (status == INLAY_OK)
            status = time_block(b);
    }
    *out_before = a->ns;
    *out_after = b->ns;
    close_way(tuning, a);
    close_way(tuning, b);
    return status == INLAY_OK || status == INLAY_DEVICE_LOST ? status : INLAY_UNSUPPORTED;
}

/* ------------------------------------------------------------------ inputs */

/* The caller's, and zeros for those that are missing, at the sizes that prices are asked for. False: they can't be
 * made. */
static bool make_inputs(struct tuning *tuning, inlay_value **inputs)
{
    const struct graph *graph = tuning->session->main->graph;

    for (uint32_t i = 0; i < graph->input_count; i++) {
        const inlay_value_state *state = &tuning->graphs[0].values[graph->inputs[i]];
        inlay_value *given = tuning->how.inputs != NULL && i < tuning->how.input_count ? tuning->how.inputs[i] : NULL;

        if (given == NULL && (graph->values[graph->inputs[i]].info.kind != INLAY_VALUE_TENSOR ||
                              state->dtype == INLAY_STRING || state->rank == INLAY_RANK_UNKNOWN ||
                              value_create(state->dtype, state->rank, state->dims, true, &inputs[i], NULL) != INLAY_OK))
            return false;
        if (given == NULL)
            memset(value_data(inputs[i]), 0, (size_t)inputs[i]->buffer.bytes);
        else
            inputs[i] = value_ref(given);
    }
    return true;
}

/* ------------------------------------------------------------------ what has changed */

static bool same_regions(const struct program *a, const struct program *b)
{
    const struct partition *partition = &a->parts, *y = &b->parts;

    if (partition->region_count != y->region_count || a->body_count != b->body_count)
        return false;
    for (uint32_t i = 0; i < partition->region_count; i++) {
        const partition_region *region = &partition->regions[i], *s = &y->regions[i];

        if (region->provider != s->provider || region->node_count != s->node_count ||
            memcmp(region->nodes, s->nodes, region->node_count * sizeof *region->nodes) != 0)
            return false;
    }
    for (uint32_t i = 0; i < a->body_count; i++)
        if (!same_regions(a->bodies[i], b->bodies[i]))
            return false;
    return true;
}

static uint32_t provider_of(const struct program *program, uint32_t node)
{
    for (uint32_t i = 0; i < program->parts.region_count; i++)
        for (uint32_t k = 0; k < program->parts.regions[i].node_count; k++)
            if (program->parts.regions[i].nodes[k] == node)
                return program->parts.regions[i].provider;
    return INLAY_NONE;
}

/* What the regions of program take at the prices of its own graph, bodies left out. */
static double priced_ns(const struct program *program, const struct partition *prices)
{
    double ns = 0;

    for (uint32_t i = 0; i < program->parts.region_count; i++)
        for (uint32_t k = 0; k < program->parts.regions[i].offer_count; k++)
            ns += prices->offers[program->parts.regions[i].offers[k]].cost.ns;
    return ns;
}

/* Raises the figure of one kernel; a figure of before becomes a fresh one. False: no memory. */
static bool raise_price(struct tuning *tuning, cost_key key, double known_ns, double by_ns)
{
    cost_record *fresh = cost_list_find(&tuning->list, key), raised = { .key = key, .ns = known_ns, .samples = 1 };
    const cost_record *old = cost_store_find(&tuning->store, key);

    if (fresh != NULL) {
        fresh->ns = fmax(fresh->ns, known_ns) + by_ns;
        fresh->spread = fmaxf(fresh->spread, (float)DOUBT);
        return true;
    }
    if (old != NULL)
        raised = *old;
    raised.ns += by_ns;
    raised.spread = (float)DOUBT;
    raised.when = (int64_t)time(NULL);
    return cost_list_add(&tuning->list, &raised);
}

/* The offers that run nodes elsewhere than before take missing_ns more, as much of it as each has of their time. */
static bool raise_changed(struct tuning *tuning, const struct program *before, const struct program *after,
                          double missing_ns)
{
    double all = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t offer_index = 0; offer_index < after->parts.offer_count; offer_index++) {
            const partition_offer *offer = &after->parts.offers[offer_index];
            const cost_question question = { .graph = &after->snapshot,
                                             .provider = &after->env->providers[offer->provider],
                                             .offer = offer,
                                             .values = after->parts.profile,
                                             .max_threads = after->env->max_threads,
                                             .weight_bytes = after->parts.weight_bytes };

            if (!offer->chosen || provider_of(before, offer->nodes[0]) == offer->provider)
                continue;
            if (pass == 0)
                all += offer->cost.ns;
            else if (all > 0 &&
                     !raise_price(tuning, cost_key_of(&question), offer->cost.ns, missing_ns * offer->cost.ns / all))
                return false;
        }
    }
    qsort(tuning->list.records, tuning->list.count, sizeof *tuning->list.records, cost_key_order);
    return true;
}

/* ------------------------------------------------------------------ the whole */

/* Assigns the model by the fresh figures; *out_program is NULL where that changes nothing, or can't be done. Regions
 * that stay may still run by other kernels. */
static inlay_status assign_anew(struct tuning *tuning, const program_env *env, struct program **out_program)
{
    struct assignment assignment = { .graph = tuning->session->main->graph, .env = env, .shares_graph = true };
    inlay_status status = program_assign(assignment.graph, env, true, &assignment.program, NULL);

    if (status == INLAY_OK && (tuning->kernels_timed || !same_regions(tuning->session->main, assignment.program)))
        status = assign_until_stable(&assignment, NULL);
    else
        status = status == INLAY_OUT_OF_MEMORY ? status : INLAY_UNSUPPORTED;
    *out_program = status == INLAY_OK ? assignment.program : NULL;
    if (status == INLAY_OK)
        return INLAY_OK;
    program_destroy(assignment.program);
    return status == INLAY_OUT_OF_MEMORY ? status : INLAY_OK;
}

/* One attempt. *out_done: what the list holds is to be kept. */
static inlay_status attempt(struct tuning *tuning, const char *folder, inlay_value **inputs, bool *out_done)
{
    program_env env = tuning->session->env;
    cost_book_request open = { .folder = folder,
                               .providers = env.providers,
                               .provider_count = env.provider_count,
                               .max_threads = env.max_threads,
                               .fresh = tuning->list.records,
                               .fresh_count = tuning->list.count };
    cost_sizes sizes = { .assumed = tuning->sizes.assumed,
                         .assumed_count = tuning->sizes.assumed_count,
                         .inputs = tuning->sizes.inputs,
                         .input_count = tuning->sizes.input_count };
    double before_ns, after_ns;
    struct program *after = NULL;
    cost_book *book = NULL;
    inlay_status status = INLAY_OK;

    *out_done = true;
    INLAY_TRY(cost_book_open(&open, &book, tuning->diag));
    env.costs = book;
    env.sizes = &sizes;
    env.progress = NULL;
    env.cache_dir = NULL;
    INLAY_TRY(assign_anew(tuning, &env, &after));
    if (after == NULL)
        goto done;
    status = time_both(tuning, tuning->session->main, after, inputs, &before_ns, &after_ns);
    if (status != INLAY_OK) {
        *out_done = false; /* what does not run is not better */
        status = status == INLAY_UNSUPPORTED ? INLAY_OK : status;
        goto done;
    }
    tuning->result.run_before_ns = before_ns;
    tuning->result.run_after_ns = after_ns;
    *out_done = after_ns <= before_ns * (same_regions(tuning->session->main, after) ? NOISE : 1);
    if (!*out_done) {
        double promised = priced_ns(tuning->session->main, &after->parts) - after->parts.cost_ns;

        if (!raise_changed(tuning, tuning->session->main, after, after_ns - before_ns + fmax(promised, 0)))
            status = INLAY_OUT_OF_MEMORY;
    }
done:
    if (!tuning->session->abandoned)
        program_destroy(after);
    cost_sizes_deinit(&sizes);
    cost_book_close(book);
    return status == INLAY_OUT_OF_MEMORY ? no_memory(tuning->diag, "to tune") : status;
}

inlay_status tune_whole(struct tuning *tuning, const char *folder)
{
    uint32_t count = tuning->session->main->graph->input_count;
    inlay_value **inputs = arena_array(&tuning->arena, (size_t)count + 1, sizeof(inlay_value *));
    inlay_status status = INLAY_OK;
    bool done = false;

    if (inputs == NULL)
        return no_memory(tuning->diag, "to tune");
    if (tuning->stopped || tuning->list.count == 0 ||
        (tuning->session->env.rules != NULL && tuning->session->env.rules->saved_plan != NULL) ||
        !make_inputs(tuning, inputs))
        done = true;
    for (int i = 0; status == INLAY_OK && !done && i < ATTEMPTS; i++)
        status = attempt(tuning, folder, inputs, &done);
    if (status == INLAY_OK && !done) {
        tuning->list.count = 0;
        tuning->result.dropped = 1;
    }
    for (uint32_t i = 0; i < count; i++)
        value_unref(inputs[i]);
    return status;
}
