/* tune.c - times the offers of the providers for a model, and reports the effect.
 *
 * Offers that a provider merges are timed as they would run: in the regions that it would have if it ran everything
 * that it offers, and the times of the regions are split (measure/attribute.h). Equal layers are one kernel
 * (partition/cost/cost_key.h). Kernels are measured in the order of their expected total time, so that a budget that
 * is too small affects the cheapest kernels only; one kernel is timed on any budget. */
#include "measure/tune.h"
#include "inlay/check.h"
#include "base/clock.h"
#include "base/sized_struct.h"
#include "base/memory.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>

static const double KERNEL_NS = 40e6;   /* limit for the runs of one kernel */
static const double REGION_NS = 3e9;    /* limit for the kernels within a region; a few runs of each must fit */
static const double REGION_SHARE = 0.5; /* the same, of the time that is left: the region itself is timed after them */
static const double DEFAULT_BUDGET_S = 60;
enum { MIN_RUNS = 3, MAX_RUNS = 60 };

static double seconds(void)
{
    return (double)clock_ns() * 1e-9;
}

static inlay_status price_graph(struct tuning *tuning, tuned_graph *tuned)
{
    const struct program *program = tuned->program;
    const struct runner *runner = runner_of(tuning->runner, program);

    tuning->sizes.seen = runner != NULL ? observed_sizes(runner, &tuning->arena) : NULL;
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

    INLAY_CHECK(tuning->graph_count < program_count(tuning->session->main));
    tuning->graphs[tuning->graph_count].program = program;
    INLAY_TRY(price_graph(tuning, &tuning->graphs[tuning->graph_count++]));
    for (uint32_t i = 0; i < program->step_count; i++)
        for (uint32_t b = 0; program->steps[i].bodies != NULL && b < program->steps[i].node->body_count; b++)
            INLAY_TRY(add_graphs(tuning, program->steps[i].bodies[b]));
done:
    return status;
}

/* Reads the dims of the inputs that the caller has given. */
static inlay_status read_inputs(struct tuning *tuning)
{
    uint32_t count = tuning->session->main->graph->input_count;
    cost_input *inputs = arena_array(&tuning->arena, (size_t)count + 1, sizeof *inputs);

    if (inputs == NULL)
        return no_memory(tuning->diag, "to tune");
    for (uint32_t i = 0; i < count; i++) {
        const inlay_value *value =
            tuning->options.inputs != NULL && i < tuning->options.input_count ? tuning->options.inputs[i] : NULL;
        inputs[i].rank = INLAY_RANK_UNKNOWN;
        if (value != NULL && value->kind == INLAY_KIND_TENSOR)
            inputs[i] = (cost_input){ value->rank, value->dims };
    }
    tuning->sizes = (cost_sizes){ .assumed = tuning->session->costs.sizes.assumed,
                                  .assumed_count = tuning->session->costs.sizes.assumed_count,
                                  .inputs = inputs,
                                  .input_count = count };
    return INLAY_OK;
}

/* If sizes depend on data, one run on the caller's inputs determines them. A run that fails is ignored. */
static inlay_status run_model(struct tuning *tuning)
{
    const struct program *program = tuning->session->main;
    uint32_t count = program->graph->input_count;
    run_value *values = arena_array(&tuning->arena, (size_t)count + 1, sizeof *values);
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;

    if (values == NULL)
        return no_memory(tuning->diag, "to tune");
    for (uint32_t i = 0; i < count; i++) {
        if (tuning->options.inputs == NULL || i >= tuning->options.input_count || tuning->options.inputs[i] == NULL)
            return INLAY_OK;
        values[i] = run_value_of(tuning->options.inputs[i]);
    }
    status =
        run_shared_init(&tuning->shared, tuning->session->env.max_threads, tuning->session->env.runs.max_bytes, NULL);
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

/* Does the graph or one of its bodies have values whose size depends on data? */
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

/* The context of the timings of kernels within a region (inlay.kernels/1). The provider itself uses these timings, also
 * in later sessions. */
struct timing_context {
    struct tuning *tuning;
    const partition_provider *provider;
};

static double find_timing(const void *ctx, const void *key, uint64_t key_bytes)
{
    const struct timing_context *timing_context = ctx;
    const cost_key timing_key = cost_key_of_timing(timing_context->provider, key, key_bytes);
    const cost_record *record = cost_list_find(&timing_context->tuning->list, timing_key);

    if (record == NULL)
        record = cost_store_find(&timing_context->tuning->store, timing_key);
    return record != NULL ? record->ns : -1;
}

static inlay_status keep_timing(void *ctx, const void *key, uint64_t key_bytes, double ns, const char *what)
{
    struct timing_context *timing_context = ctx;
    cost_record record = { .key = cost_key_of_timing(timing_context->provider, key, key_bytes),
                           .ns = ns,
                           .samples = 1,
                           .when = (int64_t)time(NULL) };

    (void)snprintf(record.what, sizeof record.what, "%s", what);
    timing_context->tuning->kernels_timed = true;
    return cost_list_add(&timing_context->tuning->list, &record) ? INLAY_OK : INLAY_OUT_OF_MEMORY;
}

static bool stop_region_kernels(void *ctx)
{
    return tune_stop(((struct timing_context *)ctx)->tuning);
}

static inlay_status time_region_kernels(const measure_job *job, struct timing_context *timing_context)
{
    const double left_ns = (timing_context->tuning->end - seconds()) * 1e9;
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;

    if (left_ns <= 0)
        return INLAY_OK;
    status = measure_kernels(job, fmin(REGION_NS, REGION_SHARE * left_ns), stop_region_kernels, keep_timing,
                             timing_context, &why);

    if (status == INLAY_OUT_OF_MEMORY)
        return inlay_fail(timing_context->tuning->diag, status, "no memory to tune");
    return INLAY_OK; /* a provider that cannot time kernels uses its own model */
}

static inlay_status measure_kernel(struct tuning *tuning, const tuned_kernel *kernel)
{
    const struct program *program = kernel->graph->program;
    const partition_offer *offer = &program->parts.offers[kernel->offer];
    partition_region single = { .provider = offer->provider, .offers = &kernel->offer, .offer_count = 1 };
    const partition_region *region = kernel->region != NULL ? kernel->region : &single;
    partition_offer merged = *offer;
    uint64_t *cookies = NULL;
    cost_record template = { .when = (int64_t)time(NULL) };
    const char *op = program->graph->nodes[offer->nodes[0]]->info.op_type.data;
    measure_job job = { .graph = program->graph,
                        .snapshot = &program->snapshot,
                        .provider = &program->env->providers[offer->provider],
                        .offer = offer,
                        .values = kernel->graph->values,
                        .max_threads = program->env->max_threads,
                        .max_bytes = program->env->runs.max_bytes,
                        .stop = tune_stop_kernel,
                        .stop_ctx = tuning,
                        .deadline_ns = tuning->unlimited ? 0 : (uint64_t)(tuning->end * 1e9),
                        .device_timeout_ms = program->env->runs.device_timeout_ms,
                        .weights_in = cost_weights_in(program->parts.weight_bytes) };
    struct timing_context timings = { tuning, job.provider };
    const run_timings figures = { &timings, find_timing };
    measure_plan runs = { .min_runs = MIN_RUNS,
                          .max_runs = tuning->options.runs > 0 ? tuning->options.runs : MAX_RUNS,
                          .budget_ns = KERNEL_NS,
                          .stop = tune_stop_kernel,
                          .stop_ctx = tuning };
    inlay_diag why = INLAY_DIAG_INIT;
    struct measurement measured;
    inlay_status status;

    job.timings = &figures;
    if (runs.min_runs > runs.max_runs)
        runs.min_runs = runs.max_runs;
    (void)snprintf(tuning->activity, sizeof tuning->activity, "%.40s on %.40s", op, job.provider->name);
    if (kernel->region != NULL) {
        INLAY_CHECK(region->offer_count > 0);
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
        status = time_region_kernels(&job, &timings);
        if (status != INLAY_OK)
            return status;
    }
    if (seconds() > tuning->end)
        runs.min_runs = 1;
    status = measure_offer(&job, &runs, &tuning->sweep, &measured, &why);
    if (status == INLAY_CANCELLED || status == INLAY_DEADLINE_EXCEEDED)
        return INLAY_OK; /* measure_all_kernels() calls tune_stop() */
    tuning->session->abandoned |=
        status == INLAY_DEVICE_LOST &&
        provider_is_lost(job.provider->state); /* the device hangs: keep everything that it may use */
    if (status == INLAY_OUT_OF_MEMORY || status == INLAY_DEVICE_LOST)
        return inlay_fail(tuning->diag, status, "%s", why.text);
    if (status != INLAY_OK) {
        char line[700];
        (void)snprintf(line, sizeof line, "tune: %s could not be timed: %s", tuning->activity, why.text);
        if (program->env->log != NULL)
            program->env->log(program->env->log_ctx, INLAY_LOG_INFO, line);
        tuning->result.failed_count++;
        return INLAY_OK;
    }
    template.spread = (float)measured.spread;
    template.samples = measured.samples;
    if (!attribute_add(&tuning->list, program, region, kernel->graph->values, measured.ns, &template))
        return no_memory(tuning->diag, "to tune");
    tuning->result.measured_count++;
    return INLAY_OK;
}

static inlay_status measure_all_kernels(struct tuning *tuning)
{
    inlay_status status = INLAY_OK;

    INLAY_TRY(measure_sweep_init(&tuning->sweep, tuning->diag));
    for (tuning->kernel_index = 0; tuning->kernel_index < tuning->kernel_count; tuning->kernel_index++) {
        tuning->unlimited = tuning->result.measured_count == 0;
        if (tune_stop_kernel(tuning))
            break;
        INLAY_TRY(measure_kernel(tuning, &tuning->kernels[tuning->kernel_index]));
    }
    tuning->result.stopped = tuning->kernel_index < tuning->kernel_count;
done:
    tuning->unlimited = false;
    return status;
}

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
        INLAY_TRY(run_model(tuning));
    INLAY_TRY(add_graphs(tuning, tuning->session->main));
    INLAY_TRY(tune_find_kernels(tuning));
    INLAY_TRY(measure_all_kernels(tuning));
    cost_list_merge(&tuning->list);
    INLAY_TRY(tune_whole(tuning, folder));
    tuning->result.stopped |= tuning->stopped;
    INLAY_TRY(cost_store_merge(folder, tuning->list.records, tuning->list.count, &log, tuning->diag));
    INLAY_TRY(tune_compare(tuning, folder));
done:
    return status;
}

inlay_status tune_session(inlay_session *session, const inlay_tune_options *options, inlay_tune_result *out_result,
                          inlay_diag *diag)
{
    struct tuning *tuning = calloc(1, sizeof *tuning);
    inlay_status status;

    if (tuning == NULL)
        return no_memory(diag, "to tune");
    *tuning = (struct tuning){ .session = session, .diag = diag, .activity = "tuning", .begin = seconds() };
    if (options != NULL)
        sized_struct_read(&tuning->options, sizeof tuning->options, options, options->struct_size);
    if (!(tuning->options.budget_s > 0))
        tuning->options.budget_s = DEFAULT_BUDGET_S;
    tuning->end = tuning->begin + tuning->options.budget_s;
    status = tune(tuning);
    tuning->result.seconds = seconds() - tuning->begin;
    if (status == INLAY_OK && out_result != NULL)
        (void)sized_struct_write(out_result, &tuning->result, sizeof tuning->result);
    if (session->abandoned)
        return status; /* a device hangs: leak everything that it may still use */
    runner_destroy(tuning->runner);
    if (tuning->has_shared)
        run_shared_deinit(&tuning->shared);
    measure_sweep_deinit(&tuning->sweep);
    cost_sizes_deinit(&tuning->sizes);
    cost_store_deinit(&tuning->store);
    free(tuning->kernels);
    free(tuning->list.records);
    free(tuning->only.records);
    arena_deinit(&tuning->arena);
    free(tuning);
    return status;
}
