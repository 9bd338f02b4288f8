/* tune.c - times what the providers offer for a model, and says what that changes.
 *
 * What a provider merges is timed as it would run: in the regions that it would have if all that it offers were its
 * own, and their times are shared out (measure/attribute.h). Equal layers are one kernel (partition/cost/cost_key.h).
 * Kernels are taken in the order of what they are expected to cost the model, so that time that runs out is missing
 * where it matters least. */
#include "measure/tune.h"
#include "base/clock.h"
#include "base/known.h"
#include "base/memory.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const double KERNEL_NS = 40e6; /* for the runs of one kernel, at most */
static const double REGION_NS = 3e9;  /* for the kernels within a region, as far as a few runs of each allow */
static const double DEFAULT_BUDGET_S = 60;
enum { LEAST_RUNS = 3, MOST_RUNS = 60 };

static double seconds(void)
{
    return (double)clock_ns() * 1e-9;
}

/* Is it time to stop? */
static bool stop(void *ctx)
{
    struct tuning *t = ctx;
    double fraction = t->kernel_count > 0 ? (double)t->at / t->kernel_count : 0;

    if (!t->stopped && t->how.progress != NULL)
        t->stopped = t->how.progress(t->how.progress_user, fraction, t->what) != 0;
    return t->stopped || seconds() > t->end;
}

/* ------------------------------------------------------------------ sizes */

static inlay_status price_graph(struct tuning *t, struct tuned *g)
{
    const struct program *p = g->program;
    const struct runner *r = runner_of(t->runner, p);

    t->sizes.seen = r != NULL ? seen_sizes(r, &t->a) : NULL;
    g->values = cost_shapes(p->graph, &p->snapshot, &t->sizes, &t->a);
    g->prices = arena_array(&t->a, (size_t)p->parts.offer_count + 1, sizeof *g->prices);
    g->sources = arena_array(&t->a, (size_t)p->parts.offer_count + 1, sizeof *g->sources);
    if (g->values == NULL || g->prices == NULL || g->sources == NULL)
        return no_memory(t->diag, "to tune");
    for (uint32_t o = 0; o < p->parts.offer_count; o++) {
        cost_question q = { .graph = &p->snapshot,
                            .provider = &p->env->providers[p->parts.offers[o].provider],
                            .offer = &p->parts.offers[o],
                            .values = g->values,
                            .max_threads = p->env->max_threads,
                            .weight_bytes = p->parts.weight_bytes };
        double error;
        g->sources[o] = cost_of_offer(p->env->costs, &q, &g->prices[o], &error);
    }
    t->result.offer_count += p->parts.offer_count;
    return INLAY_OK;
}

static inlay_status add_graphs(struct tuning *t, const struct program *p)
{
    inlay_status status = INLAY_OK;

    t->graphs[t->graph_count].program = p;
    INLAY_TRY(price_graph(t, &t->graphs[t->graph_count++]));
    for (uint32_t i = 0; i < p->step_count; i++)
        for (uint32_t b = 0; p->steps[i].bodies != NULL && b < p->steps[i].node->body_count; b++)
            INLAY_TRY(add_graphs(t, p->steps[i].bodies[b]));
done:
    return status;
}

/* The dims of the inputs that the caller has. */
static inlay_status read_inputs(struct tuning *t)
{
    uint32_t count = t->s->main->graph->input_count;
    cost_input *inputs = arena_array(&t->a, (size_t)count + 1, sizeof *inputs);

    if (inputs == NULL)
        return no_memory(t->diag, "to tune");
    for (uint32_t i = 0; i < count; i++) {
        const inlay_value *v = t->how.inputs != NULL && i < t->how.input_count ? t->how.inputs[i] : NULL;
        inputs[i].rank = INLAY_RANK_UNKNOWN;
        if (v != NULL && v->kind == INLAY_KIND_TENSOR)
            inputs[i] = (cost_input){ v->rank, v->dims };
    }
    t->sizes = (cost_sizes){ .assumed = t->s->sizes.assumed,
                             .assumed_count = t->s->sizes.assumed_count,
                             .inputs = inputs,
                             .input_count = count };
    return INLAY_OK;
}

/* Where sizes depend on data, one run on the caller's inputs says what they are; a run that fails says nothing. */
static inlay_status try_model(struct tuning *t)
{
    const struct program *p = t->s->main;
    uint32_t count = p->graph->input_count;
    rt_value *values = arena_array(&t->a, (size_t)count + 1, sizeof *values);
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;

    if (values == NULL)
        return no_memory(t->diag, "to tune");
    for (uint32_t i = 0; i < count; i++) {
        if (t->how.inputs == NULL || i >= t->how.input_count || t->how.inputs[i] == NULL)
            return INLAY_OK;
        values[i] = rt_from_value(t->how.inputs[i]);
    }
    status = run_shared_init(&t->shared, t->s->env.max_threads, t->s->env.max_run_bytes, NULL);
    t->has_shared = status == INLAY_OK;
    if (status == INLAY_OK)
        status = runner_create(t->s->main, &t->shared, &t->runner, &why);
    if (status == INLAY_OK)
        status = runner_run(t->runner, values, &why);
    if (status == INLAY_DEVICE_LOST) {
        t->s->abandoned |= t->shared.hang.abandoned;
        return inlay_fail(t->diag, status, "%s", why.text);
    }
    if (status != INLAY_OK) {
        runner_destroy(t->runner);
        t->runner = NULL;
    }
    return status == INLAY_OUT_OF_MEMORY ? no_memory(t->diag, "to tune") : INLAY_OK;
}

/* Does a node of the graph or of its bodies make what only data sizes? */
static bool depends_on_data(const struct program *p)
{
    for (uint32_t v = 0; v < p->graph->value_count; v++) {
        const inlay_value_info *info = &p->graph->values[v].info;
        if (info->kind == INLAY_VALUE_TENSOR && info->rank == INLAY_RANK_UNKNOWN)
            return true;
        for (uint32_t d = 0; info->kind == INLAY_VALUE_TENSOR && d < info->rank; d++)
            if (info->dims[d].kind == INLAY_DIM_UNKNOWN)
                return true;
    }
    for (uint32_t i = 0; i < p->step_count; i++)
        for (uint32_t b = 0; p->steps[i].bodies != NULL && b < p->steps[i].node->body_count; b++)
            if (depends_on_data(p->steps[i].bodies[b]))
                return true;
    return false;
}

/* ------------------------------------------------------------------ measuring */

/* The kernels within a region (inlay.kernels/1): figures for the provider itself, which later sessions give it. */
struct within {
    struct tuning *t;
    const part_provider *provider;
};

static double find_timing(const void *ctx, const void *key, uint64_t key_bytes)
{
    const struct within *w = ctx;
    const cost_key k = cost_key_of_timing(w->provider, key, key_bytes);
    const cost_record *r = cost_list_find(&w->t->list, k);

    if (r == NULL)
        r = cost_store_find(&w->t->store, k);
    return r != NULL ? r->ns : -1;
}

static inlay_status keep_timing(void *ctx, const void *key, uint64_t key_bytes, double ns, const char *what)
{
    struct within *w = ctx;
    cost_record r = {
        .key = cost_key_of_timing(w->provider, key, key_bytes), .ns = ns, .samples = 1, .when = (int64_t)time(NULL)
    };

    (void)snprintf(r.what, sizeof r.what, "%s", what);
    w->t->kernels_timed = true;
    return cost_list_add(&w->t->list, &r) ? INLAY_OK : INLAY_OUT_OF_MEMORY;
}

static bool stop_within(void *ctx)
{
    return stop(((struct within *)ctx)->t);
}

static inlay_status time_within(const measure_job *job, struct within *w)
{
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status = measure_within(job, REGION_NS, stop_within, keep_timing, w, &why);

    if (status == INLAY_OUT_OF_MEMORY)
        return inlay_fail(w->t->diag, status, "no memory to tune");
    return INLAY_OK; /* one that has none, or can't, runs by its model */
}

static inlay_status measure_kernel(struct tuning *t, const struct kernel *k)
{
    const struct program *p = k->in->program;
    const part_offer *offer = &p->parts.offers[k->offer];
    part_region alone = { .provider = offer->provider, .offers = &k->offer, .offer_count = 1 };
    const part_region *region = k->region != NULL ? k->region : &alone;
    part_offer merged = *offer;
    uint64_t *cookies = NULL;
    cost_record like = { .when = (int64_t)time(NULL) };
    const char *op = p->graph->nodes[offer->nodes[0]]->info.op_type.data;
    measure_job job = { .g = p->graph,
                        .snapshot = &p->snapshot,
                        .provider = &p->env->providers[offer->provider],
                        .offer = offer,
                        .values = k->in->values,
                        .max_threads = p->env->max_threads,
                        .max_bytes = p->env->max_run_bytes,
                        .stop = stop,
                        .stop_ctx = t,
                        .deadline_ns = (uint64_t)(t->end * 1e9),
                        .device_timeout_ms = p->env->device_timeout_ms,
                        .weights_in = cost_weights_in(p->parts.weight_bytes) };
    struct within inside = { t, job.provider };
    const run_timings figures = { &inside, find_timing };
    measure_plan runs = { .min_runs = LEAST_RUNS,
                          .max_runs = t->how.runs > 0 ? t->how.runs : MOST_RUNS,
                          .budget_ns = KERNEL_NS,
                          .stop = stop,
                          .stop_ctx = t };
    inlay_diag why = INLAY_DIAG_INIT;
    struct measurement got;
    inlay_status status;

    job.timings = &figures;
    if (runs.min_runs > runs.max_runs)
        runs.min_runs = runs.max_runs;
    (void)snprintf(t->what, sizeof t->what, "%.40s on %.40s", op, job.provider->name);
    if (k->region != NULL) {
        cookies = arena_array(&t->a, region->offer_count, sizeof *cookies);
        if (cookies == NULL)
            return no_memory(t->diag, "to tune");
        for (uint32_t i = 0; i < region->offer_count; i++)
            cookies[i] = p->parts.offers[region->offers[i]].cookie;
        merged.nodes = region->nodes;
        merged.node_count = region->node_count;
        job.offer = &merged;
        job.cookies = cookies;
        job.cookie_count = region->offer_count;
    }
    if (k->region != NULL && !t->stopped) {
        status = time_within(&job, &inside);
        if (status != INLAY_OK)
            return status;
    }
    status = measure_offer(&job, &runs, &t->sweep, &got, &why);
    if (status == INLAY_CANCELLED || status == INLAY_DEADLINE_EXCEEDED)
        return INLAY_OK;                                                                     /* the loop sees it */
    t->s->abandoned |= status == INLAY_DEVICE_LOST && provider_is_lost(job.provider->state); /* it hangs: all stays */
    if (status == INLAY_OUT_OF_MEMORY || status == INLAY_DEVICE_LOST)
        return inlay_fail(t->diag, status, "%s", why.text);
    if (status != INLAY_OK) {
        char line[700];
        (void)snprintf(line, sizeof line, "tune: %s could not be timed: %s", t->what, why.text);
        if (p->env->log != NULL)
            p->env->log(p->env->log_ctx, INLAY_LOG_INFO, line);
        t->result.failed_count++;
        return INLAY_OK;
    }
    like.spread = (float)got.spread;
    like.samples = got.samples;
    if (!attribute_add(&t->list, p, region, k->in->values, got.ns, &like))
        return no_memory(t->diag, "to tune");
    t->result.measured_count++;
    return INLAY_OK;
}

static inlay_status measure_kernels(struct tuning *t)
{
    inlay_status status = INLAY_OK;

    INLAY_TRY(measure_sweep_init(&t->sweep, t->diag));
    for (t->at = 0; t->at < t->kernel_count && !stop(t); t->at++)
        INLAY_TRY(measure_kernel(t, &t->kernels[t->at]));
    t->result.stopped = t->at < t->kernel_count;
done:
    return status;
}

/* ------------------------------------------------------------------ the whole */

static inlay_status tune(struct tuning *t)
{
    cost_log log = { t->s->env.log, t->s->env.log_ctx };
    inlay_status status = INLAY_OK;
    char folder[PATH_MAX];

    INLAY_TRY(session_costs_folder(t->s, folder, sizeof folder, t->diag));
    t->graphs = arena_array(&t->a, program_count(t->s->main), sizeof *t->graphs);
    if (t->graphs == NULL)
        return no_memory(t->diag, "to tune");
    if (cost_store_load(folder, &log, &t->store) != INLAY_OK)
        return no_memory(t->diag, "to tune");
    INLAY_TRY(read_inputs(t));
    if (depends_on_data(t->s->main))
        INLAY_TRY(try_model(t));
    INLAY_TRY(add_graphs(t, t->s->main));
    INLAY_TRY(tune_find_kernels(t));
    INLAY_TRY(measure_kernels(t));
    cost_list_merge(&t->list);
    INLAY_TRY(tune_whole(t, folder));
    INLAY_TRY(cost_store_merge(folder, t->list.records, t->list.count, &log, t->diag));
    INLAY_TRY(tune_compare(t, folder));
done:
    return status;
}

inlay_status tune_session(inlay_session *session, const inlay_tune_options *how, inlay_tune_result *out_result,
                          inlay_diag *diag)
{
    struct tuning *t = calloc(1, sizeof *t);
    inlay_status status;

    if (t == NULL)
        return no_memory(diag, "to tune");
    *t = (struct tuning){ .s = session, .diag = diag, .what = "tuning", .begin = seconds() };
    if (how != NULL)
        known_take(&t->how, sizeof t->how, how, how->struct_size);
    t->end = t->begin + (t->how.budget_s > 0 ? t->how.budget_s : DEFAULT_BUDGET_S);
    status = tune(t);
    t->result.seconds = seconds() - t->begin;
    if (status == INLAY_OK && out_result != NULL)
        (void)known_give(out_result, &t->result, sizeof t->result);
    if (session->abandoned)
        return status; /* a device hangs: what it may still use stays */
    runner_destroy(t->runner);
    if (t->has_shared)
        run_shared_deinit(&t->shared);
    measure_sweep_deinit(&t->sweep);
    cost_sizes_deinit(&t->sizes);
    cost_store_deinit(&t->store);
    free(t->kernels);
    free(t->list.records);
    arena_deinit(&t->a);
    free(t);
    return status;
}
