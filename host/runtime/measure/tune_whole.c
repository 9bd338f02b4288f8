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
    struct tuning *t;
    struct program *p;
    struct runner *r;
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
    struct way *w = ctx;
    uint64_t switches = measure_switches(), begin;
    inlay_status status;

    for (uint32_t i = 0; i < w->p->graph->input_count; i++)
        w->values[i] = rt_from_value(w->inputs[i]);
    begin = clock_ns();
    status = runner_run(w->r, w->values, &w->why);
    *out_ns = (double)(clock_ns() - begin);
    *out_calm = measure_switches() == switches;
    return status;
}

static inlay_status time_block(struct way *w)
{
    measure_plan runs = { .min_runs = LEAST_RUNS, .max_runs = MOST_RUNS, .budget_ns = BLOCK_NS };
    struct measurement got;
    inlay_status status;

    if (w->ns > LONG_NS)
        runs.min_runs = runs.max_runs = 1;
    status = measure_runs(run_once, w, &runs, 4, &got, NULL);
    if (status == INLAY_OK)
        w->ns = w->ns < 0 ? got.ns : fmin(w->ns, got.ns);
    return status;
}

static inlay_status open_way(struct way *w, struct tuning *t, struct program *p, inlay_value **inputs)
{
    inlay_status status;

    *w = (struct way){ .t = t, .p = p, .inputs = inputs, .ns = -1, .why = INLAY_DIAG_INIT };
    w->values = arena_array(&t->a, (size_t)p->graph->input_count + 1, sizeof *w->values);
    if (w->values == NULL)
        return INLAY_OUT_OF_MEMORY;
    status = run_shared_init(&w->shared, t->s->env.max_threads, t->s->env.max_run_bytes, NULL);
    w->has_shared = status == INLAY_OK;
    return status == INLAY_OK ? runner_create(p, &w->shared, &w->r, NULL) : status;
}

/* What a device that hangs may still use stays. */
static void close_way(struct tuning *t, struct way *w)
{
    if (w->why.code == INLAY_DEVICE_LOST)
        (void)inlay_fail(t->diag, INLAY_DEVICE_LOST, "%s", w->why.text);
    if (w->has_shared && w->shared.hang.abandoned) {
        t->s->abandoned = true;
        return;
    }
    runner_destroy(w->r);
    if (w->has_shared)
        run_shared_deinit(&w->shared);
    free(w);
}

/* Times both in turns. INLAY_UNSUPPORTED: one of them does not run. */
static inlay_status time_both(struct tuning *t, struct program *before, struct program *after, inlay_value **inputs,
                              double *out_before, double *out_after)
{
    struct way *a = calloc(1, sizeof *a), *b = calloc(1, sizeof *b);
    inlay_status status;

    if (a == NULL || b == NULL) {
        free(a);
        free(b);
        return INLAY_OUT_OF_MEMORY;
    }
    status = open_way(a, t, before, inputs);
    if (status == INLAY_OK)
        status = open_way(b, t, after, inputs);
    for (int i = 0; status == INLAY_OK && i < BLOCKS; i++) {
        status = time_block(a);
        if (status == INLAY_OK)
            status = time_block(b);
    }
    *out_before = a->ns;
    *out_after = b->ns;
    close_way(t, a);
    close_way(t, b);
    return status == INLAY_OK || status == INLAY_DEVICE_LOST ? status : INLAY_UNSUPPORTED;
}

/* ------------------------------------------------------------------ inputs */

/* The caller's, and zeros for those that are missing, at the sizes that prices are asked for. False: they can't be
 * made. */
static bool make_inputs(struct tuning *t, inlay_value **inputs)
{
    const struct graph *g = t->s->main->graph;

    for (uint32_t i = 0; i < g->input_count; i++) {
        const inlay_value_state *v = &t->graphs[0].values[g->inputs[i]];
        inlay_value *given = t->how.inputs != NULL && i < t->how.input_count ? t->how.inputs[i] : NULL;

        if (given == NULL && (g->values[g->inputs[i]].info.kind != INLAY_VALUE_TENSOR || v->dtype == INLAY_STRING ||
                              v->rank == INLAY_RANK_UNKNOWN ||
                              value_create(v->dtype, v->rank, v->dims, true, &inputs[i], NULL) != INLAY_OK))
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
    const struct partition *x = &a->parts, *y = &b->parts;

    if (x->region_count != y->region_count || a->body_count != b->body_count)
        return false;
    for (uint32_t i = 0; i < x->region_count; i++) {
        const part_region *r = &x->regions[i], *s = &y->regions[i];

        if (r->provider != s->provider || r->node_count != s->node_count ||
            memcmp(r->nodes, s->nodes, r->node_count * sizeof *r->nodes) != 0)
            return false;
    }
    for (uint32_t i = 0; i < a->body_count; i++)
        if (!same_regions(a->bodies[i], b->bodies[i]))
            return false;
    return true;
}

static uint32_t provider_of(const struct program *p, uint32_t node)
{
    for (uint32_t i = 0; i < p->parts.region_count; i++)
        for (uint32_t k = 0; k < p->parts.regions[i].node_count; k++)
            if (p->parts.regions[i].nodes[k] == node)
                return p->parts.regions[i].provider;
    return INLAY_NONE;
}

/* What the regions of p take at the prices of its own graph, bodies left out. */
static double priced_ns(const struct program *p, const struct partition *prices)
{
    double ns = 0;

    for (uint32_t i = 0; i < p->parts.region_count; i++)
        for (uint32_t k = 0; k < p->parts.regions[i].offer_count; k++)
            ns += prices->offers[p->parts.regions[i].offers[k]].cost.ns;
    return ns;
}

/* Raises the figure of one kernel; a figure of before becomes a fresh one. False: no memory. */
static bool raise_price(struct tuning *t, cost_key key, double known_ns, double by_ns)
{
    cost_record *fresh = cost_list_find(&t->list, key), raised = { .key = key, .ns = known_ns, .samples = 1 };
    const cost_record *old = cost_store_find(&t->store, key);

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
    return cost_list_add(&t->list, &raised);
}

/* The offers that run nodes elsewhere than before take missing_ns more, as much of it as each has of their time. */
static bool raise_changed(struct tuning *t, const struct program *before, const struct program *after,
                          double missing_ns)
{
    double all = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t o = 0; o < after->parts.offer_count; o++) {
            const part_offer *offer = &after->parts.offers[o];
            const cost_question q = { .graph = &after->snapshot,
                                      .provider = &after->env->providers[offer->provider],
                                      .offer = offer,
                                      .values = after->parts.profile,
                                      .max_threads = after->env->max_threads,
                                      .weight_bytes = after->parts.weight_bytes };

            if (!offer->chosen || provider_of(before, offer->nodes[0]) == offer->provider)
                continue;
            if (pass == 0)
                all += offer->cost.ns;
            else if (all > 0 && !raise_price(t, cost_key_of(&q), offer->cost.ns, missing_ns * offer->cost.ns / all))
                return false;
        }
    }
    qsort(t->list.records, t->list.count, sizeof *t->list.records, cost_key_order);
    return true;
}

/* ------------------------------------------------------------------ the whole */

/* Assigns the model by the fresh figures; *out_program is NULL where that changes nothing, or can't be done. Regions
 * that stay may still run by other kernels. */
static inlay_status assign_anew(struct tuning *t, const program_env *env, struct program **out_program)
{
    struct assignment a = { .g = t->s->main->graph, .env = env, .shares_graph = true };
    inlay_status status = program_assign(a.g, env, true, &a.program, NULL);

    if (status == INLAY_OK && (t->kernels_timed || !same_regions(t->s->main, a.program)))
        status = assign_until_stable(&a, NULL);
    else
        status = status == INLAY_OUT_OF_MEMORY ? status : INLAY_UNSUPPORTED;
    *out_program = status == INLAY_OK ? a.program : NULL;
    if (status == INLAY_OK)
        return INLAY_OK;
    program_destroy(a.program);
    return status == INLAY_OUT_OF_MEMORY ? status : INLAY_OK;
}

/* One attempt. *out_done: what the list holds is to be kept. */
static inlay_status attempt(struct tuning *t, const char *folder, inlay_value **inputs, bool *out_done)
{
    program_env env = t->s->env;
    cost_book_request open = { .folder = folder,
                               .providers = env.providers,
                               .provider_count = env.provider_count,
                               .max_threads = env.max_threads,
                               .fresh = t->list.records,
                               .fresh_count = t->list.count };
    cost_sizes sizes = { .assumed = t->sizes.assumed,
                         .assumed_count = t->sizes.assumed_count,
                         .inputs = t->sizes.inputs,
                         .input_count = t->sizes.input_count };
    double before_ns, after_ns;
    struct program *after = NULL;
    cost_book *book = NULL;
    inlay_status status = INLAY_OK;

    *out_done = true;
    INLAY_TRY(cost_book_open(&open, &book, t->diag));
    env.costs = book;
    env.sizes = &sizes;
    env.progress = NULL;
    env.cache_dir = NULL;
    INLAY_TRY(assign_anew(t, &env, &after));
    if (after == NULL)
        goto done;
    status = time_both(t, t->s->main, after, inputs, &before_ns, &after_ns);
    if (status != INLAY_OK) {
        *out_done = false; /* what does not run is not better */
        status = status == INLAY_UNSUPPORTED ? INLAY_OK : status;
        goto done;
    }
    t->result.run_before_ns = before_ns;
    t->result.run_after_ns = after_ns;
    *out_done = after_ns <= before_ns * (same_regions(t->s->main, after) ? NOISE : 1);
    if (!*out_done) {
        double promised = priced_ns(t->s->main, &after->parts) - after->parts.cost_ns;

        if (!raise_changed(t, t->s->main, after, after_ns - before_ns + fmax(promised, 0)))
            status = INLAY_OUT_OF_MEMORY;
    }
done:
    if (!t->s->abandoned)
        program_destroy(after);
    cost_sizes_deinit(&sizes);
    cost_book_close(book);
    return status == INLAY_OUT_OF_MEMORY ? no_memory(t->diag, "to tune") : status;
}

inlay_status tune_whole(struct tuning *t, const char *folder)
{
    uint32_t count = t->s->main->graph->input_count;
    inlay_value **inputs = arena_array(&t->a, (size_t)count + 1, sizeof(inlay_value *));
    inlay_status status = INLAY_OK;
    bool done = false;

    if (inputs == NULL)
        return no_memory(t->diag, "to tune");
    if (t->stopped || t->list.count == 0 || (t->s->env.rules != NULL && t->s->env.rules->saved_plan != NULL) ||
        !make_inputs(t, inputs))
        done = true;
    for (int i = 0; status == INLAY_OK && !done && i < ATTEMPTS; i++)
        status = attempt(t, folder, inputs, &done);
    if (status == INLAY_OK && !done) {
        t->list.count = 0;
        t->result.dropped = 1;
    }
    for (uint32_t i = 0; i < count; i++)
        value_unref(inputs[i]);
    return status;
}
