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
    struct tuning *tuning = ctx;
    double fraction = tuning->kernel_count > 0 ? (double)tuning->at / tuning->kernel_count : 0;

    if (!tuning->stopped && tuning->how.progress != NULL)
        tuning->stopped = tuning->how.progress(tuning->how.progress_user, fraction, tuning->what) != 0;
    return tuning->stopped || seconds() > tuning->end;
}

/* ------------------------------------------------------------------ sizes */

static inlay_status price_graph(struct tuning *tuning, struct tuned *tuned)
{
    const struct program *program = tuned->program;
    const struct runner *runner = runner_of(tuning->runner, program);

    tuning->sizes.seen = runner != NULL ? seen_sizes(runner, &tuning->arena) : NULL;
    tuned->values = cost_shapes(program->graph, &program->snapshot, &tuning->sizes, &tuning->arena);
    tuned->prices = arena_array(&tuning->arena, (size_t)program->parts.offer_count + 1, sizeof *tuned->prices);
    tuned->sources = arena_array(&tuning->arena, (size_t)program->parts.offer_count + 1, sizeof *tuned->sources);
    if (tuned->values == NULL || tuned->prices == NULL || tuned->sources == NULL)
        return no_memory(tuning->diag, "to tune");
    for (uint32_t offer = 0; offer < program->parts.offer_count; offer++) {
        cost_question question = { .graph = &program->snapshot,
                                   .provider = &program->env->providers[program->parts.offers[offer].provider],
                                   .offer = &program->parts.offers[offer],
                                   .values = tuned->values,
                                   .max_threads = program->env->max_threads,
                                   .weight_bytes = program->parts.weight_bytes };
        double error;
        tuned->sources[offer] = cost_of_offer(program->env->costs, &question, &tuned->prices[offer], &error);
    }
    tuning->result.offer_count += program->parts.offer_count;
    return INLAY_OK;
}

static inlay_status add_graphs(struct tuning *tuning, const struct program *program)
{
    inlay_status status = INLAY_OK;

    tuning->graphs[tuning->graph_count].program = program;
    INLAY_TRY(price_graph(tuning, &tuning->graphs[tuning->graph_count++]));
    for (uint32_t i = 0; i < program->step_count; i++)
        for (uint32_t b = 0; program->steps[i].bodies != NULL && b < program->steps[i].node->body_count; b++)
            INLAY_TRY(add_graphs(tuning, program->steps[i].bodies[b]));
done:
    return status;
}

/* The dims of the inputs that the caller has. */
static inlay_status read_inputs(struct tuning *tuning)
{
    uint32_t count = tuning->session->main->graph->input_count;
    cost_input *inputs = arena_array(&tuning->arena, (size_t)count + 1, sizeof *inputs);

    if (inputs == NULL)
        return no_memory(tuning->diag, "to tune");
    for (uint32_t i = 0; i < count; i++) {
        const inlay_value *value =
            tuning->how.inputs != NULL && i < tuning->how.input_count ? tuning->how.inputs[i] : NULL;
        inputs[i].rank = INLAY_RANK_UNKNOWN;
        if (value != NULL && value->kind == INLAY_KIND_TENSOR)
            inputs[i] = (cost_input){ value->rank, value->dims };
    }
    tuning->sizes = (cost_sizes){ .assumed = tuning->session->sizes.assumed,
                                  .assumed_count = tuning->session->sizes.assumed_count,
                                  .inputs = inputs,
                                  .input_count = count };
    return INLAY_OK;
}

/* Where sizes depend on data, one run on the caller's inputs says what they are; a run that fails says nothing. */
static inlay_status try_model(struct tuning *tuning)
{
    const struct program *program = tuning->session->main;
    uint32_t count = program->graph->input_count;
    rt_value *values = arena_array(&tuning->arena, (size_t)count + 1, sizeof *values);
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;

    if (values == NULL)
        return no_memory(tuning->diag, "to tune");
    for (uint32_t i = 0; i < count; i++) {
        if (tuning->how.inputs == NULL || i >= tuning->how.input_count || tuning->how.inputs[i] == NULL)
            return INLAY_OK;
        values[i] = rt_from_value(tuning->how.inputs[i]);
    }
    status =
        run_shared_init(&tuning->shared, tuning->session->env.max_threads, tuning->session->env.max_run_bytes, NULL);
    tuning->has_shared = status == INLAY_OK;
    if (status == INLAY_OK)
        status = runner_create(tuning->session->main, &tuning->shared, &tuning->runner, &why);
    if (status == INLAY_OK)
        status = runner_run(tuning->runner, values, &why);
    if (status == INLAY_DEVICE_LOST) {
        tuning->session->abandoned |= tuning->shared.hang.abandoned;
        return inlay_fail(tuning->diag, status, "%s", why.text);
    }
    if (status != INLAY_OK) {
        runner_destroy(tuning->runner);
        tuning->runner = NULL;
    }
    return status == INLAY_OUT_OF_MEMORY ? no_memory(tuning->diag, "to tune") : INLAY_OK;
}

/* Does a node of the graph or of its bodies make what only data sizes? */
static bool depends_on_data(const struct program *program)
{
    for (uint32_t value = 0; value < program->graph->value_count; value++) {
        const inlay_value_info *info = &program->graph->values[value].info;
        if (info->kind == INLAY_VALUE_TENSOR && info->rank == INLAY_RANK_UNKNOWN)
            return true;
        for (uint32_t d = 0; info->kind == INLAY_VALUE_TENSOR && d < info->rank; d++)
            if (info->dims[d].kind == INLAY_DIM_UNKNOWN)
                return true;
    }
    for (uint32_t i = 0; i < program->step_count; i++)
        for (uint32_t b = 0; program->steps[i].bodies != NULL && b < program->steps[i].node->body_count; b++)
            if (depends_on_data(program->steps[i].bodies[b]))
                return true;
    return false;
}

/* ------------------------------------------------------------------ measuring */

/* The kernels within a region (inlay.kernels/1): figures for the provider itself, which later sessions give it. */
struct within {
    struct tuning *tuning;
    const partition_provider *provider;
};

static double find_timing(const void *ctx, const void *key, uint64_t key_bytes)
{
    const struct within *within = ctx;
    const cost_key k = cost_key_of_timing(within->provider, key, key_bytes);
    const cost_record *record = cost_list_find(&within->tuning->list, k);

    if (record == NULL)
        record = cost_store_find(&within->tuning->store, k);
    return record != NULL ? record->ns : -1;
}

static inlay_status keep_timing(void *ctx, const void *key, uint64_t key_bytes, double ns, const char *what)
{
    struct within *within = ctx;
    cost_record record = {
        .key = cost_key_of_timing(within->provider, key, key_bytes), .ns = ns, .samples = 1, .when = (int64_t)time(NULL)
    };

    (void)snprintf(record.what, sizeof record.what, "%s", what);
    within->tuning->kernels_timed = true;
    return cost_list_add(&within->tuning->list, &record) ? INLAY_OK : INLAY_OUT_OF_MEMORY;
}

static bool stop_within(void *ctx)
{
    return stop(((struct within *)ctx)->tuning);
}

static inlay_status time_within(const measure_job *job, struct within *within)
{
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status = measure_within(job, REGION_NS, stop_within, keep_timing, within, &why);

    if (status == INLAY_OUT_OF_MEMORY)
        return inlay_fail(within->tuning->diag, status, "no memory to tune");
    return INLAY_OK; /* one that has none, or can't, runs by its model */
}

static inlay_status measure_kernel(struct tuning *tuning, const struct kernel *kernel)
{
    const struct program *program = kernel->in->program;
    const partition_offer *offer = &program->parts.offers[kernel->offer];
    partition_region alone = { .provider = offer->provider, .offers = &kernel->offer, .offer_count = 1 };
    const partition_region *region = kernel->region != NULL ? kernel->region : &alone;
    partition_offer merged = *offer;
    uint64_t *cookies = NULL;
    cost_record like = { .when = (int64_t)time(NULL) };
    const char *op = program->graph->nodes[offer->nodes[0]]->info.op_type.data;
    measure_job job = { .graph = program->graph,
                        .snapshot = &program->snapshot,
                        .provider = &program->env->providers[offer->provider],
                        .offer = offer,
                        .values = kernel->in->values,
                        .max_threads = program->env->max_threads,
                        .max_bytes = program->env->max_run_bytes,
                        .stop = stop,
                        .stop_ctx = tuning,
                        .deadline_ns = (uint64_t)(tuning->end * 1e9),
                        .device_timeout_ms = program->env->device_timeout_ms,
                        .weights_in = cost_weights_in(program->parts.weight_bytes) };
    struct within inside = { tuning, job.provider };
    const run_timings figures = { &inside, find_timing };
    measure_plan runs = { .min_runs = LEAST_RUNS,
                          .max_runs = tuning->how.runs > 0 ? tuning->how.runs : MOST_RUNS,
                          .budget_ns = KERNEL_NS,
                          .stop = stop,
                          .stop_ctx = tuning };
    inlay_diag why = INLAY_DIAG_INIT;
    struct measurement got;
    inlay_status status;

    job.timings = &figures;
    if (runs.min_runs > runs.max_runs)
        runs.min_runs = runs.max_runs;
    (void)snprintf(tuning->what, sizeof tuning->what, "%.40s on %.40s", op, job.provider->name);
    if (kernel->region != NULL) {
        cookies = arena_array(&tuning->arena, region->offer_count, sizeof *cookies);
        if (cookies == NULL)
            return no_memory(tuning->diag, "to tune");
        for (uint32_t i = 0; i < region->offer_count; i++)
            cookies[i] = program->parts.offers[region->offers[i]].cookie;
        merged.nodes = region->nodes;
        merged.node_count = region->node_count;
        job.offer = &merged;
        job.cookies = cookies;
        job.cookie_count = region->offer_count;
    }
    if (kernel->region != NULL && !tuning->stopped) {
        status = time_within(&job, &inside);
        if (status != INLAY_OK)
            return status;
    }
    status = measure_offer(&job, &runs, &tuning->sweep, &got, &why);
    if (status == INLAY_CANCELLED || status == INLAY_DEADLINE_EXCEEDED)
        return INLAY_OK; /* the loop sees it */
    tuning->session->abandoned |=
        status == INLAY_DEVICE_LOST && provider_is_lost(job.provider->state); /* it hangs: all stays */
    if (status == INLAY_OUT_OF_MEMORY || status == INLAY_DEVICE_LOST)
        return inlay_fail(tuning->diag, status, "%s", why.text);
    if (status != INLAY_OK) {
        char line[700];
        (void)snprintf(line, sizeof line, "tune: %s could not be timed: %s", tuning->what, why.text);
        if (program->env->log != NULL)
            program->env->log(program->env->log_ctx, INLAY_LOG_INFO, line);
        tuning->result.failed_count++;
        return INLAY_OK;
    }
    like.spread = (float)got.spread;
    like.samples = got.samples;
    if (!attribute_add(&tuning->list, program, region, kernel->in->values, got.ns, &like))
        return no_memory(tuning->diag, "to tune");
    tuning->result.measured_count++;
    return INLAY_OK;
}

static inlay_status measure_kernels(struct tuning *tuning)
{
    inlay_status status = INLAY_OK;

    INLAY_TRY(measure_sweep_init(&tuning->sweep, tuning->diag));
    for (tuning->at = 0; tuning->at < tuning->kernel_count && !stop(tuning); tuning->at++)
        INLAY_TRY(measure_kernel(tuning, &tuning->kernels[tuning->at]));
    tuning->result.stopped = tuning->at < tuning->kernel_count;
done:
    return status;
}

/* ------------------------------------------------------------------ the whole */

static inlay_status tune(struct tuning *tuning)
{
    cost_log log = { tuning->session->env.log, tuning->session->env.log_ctx };
    inlay_status status = INLAY_OK;
    char folder[PATH_MAX];

    INLAY_TRY(session_costs_folder(tuning->session, folder, sizeof folder, tuning->diag));
    tuning->graphs = arena_array(&tuning->arena, program_count(tuning->session->main), sizeof *tuning->graphs);
    if (tuning->graphs == NULL)
        return no_memory(tuning->diag, "to tune");
    if (cost_store_load(folder, &log, &tuning->store) != INLAY_OK)
        return no_memory(tuning->diag, "to tune");
    INLAY_TRY(read_inputs(tuning));
    if (depends_on_data(tuning->session->main))
        INLAY_TRY(try_model(tuning));
    INLAY_TRY(add_graphs(tuning, tuning->session->main));
    INLAY_TRY(tune_find_kernels(tuning));
    INLAY_TRY(measure_kernels(tuning));
    cost_list_merge(&tuning->list);
    INLAY_TRY(tune_whole(tuning, folder));
    INLAY_TRY(cost_store_merge(folder, tuning->list.records, tuning->list.count, &log, tuning->diag));
    INLAY_TRY(tune_compare(tuning, folder));
done:
    return status;
}

inlay_status tune_session(inlay_session *session, const inlay_tune_options *how, inlay_tune_result *out_result,
                          inlay_diag *diag)
{
    struct tuning *tuning = calloc(1, sizeof *tuning);
    inlay_status status;

    if (tuning == NULL)
        return no_memory(diag, "to tune");
    *tuning = (struct tuning){ .session = session, .diag = diag, .what = "tuning", .begin = seconds() };
    if (how != NULL)
        known_take(&tuning->how, sizeof tuning->how, how, how->struct_size);
    tuning->end = tuning->begin + (tuning->how.budget_s > 0 ? tuning->how.budget_s : DEFAULT_BUDGET_S);
    status = tune(tuning);
    tuning->result.seconds = seconds() - tuning->begin;
    if (status == INLAY_OK && out_result != NULL)
        (void)known_give(out_result, &tuning->result, sizeof tuning->result);
    if (session->abandoned)
        return status; /* a device hangs: what it may still use stays */
    runner_destroy(tuning->runner);
    if (tuning->has_shared)
        run_shared_deinit(&tuning->shared);
    measure_sweep_deinit(&tuning->sweep);
    cost_sizes_deinit(&tuning->sizes);
    cost_store_deinit(&tuning->store);
    free(tuning->kernels);
    free(tuning->list.records);
    arena_deinit(&tuning->arena);
    free(tuning);
    return status;
}
