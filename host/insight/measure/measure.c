#include "measure/measure.h"
#include "inlay/check.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/random.h"
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include "measure/measure_parts.h"
#include "measure/measure_time.h"
#include "partition/cost/cost.h"
#include "threads/fence.h"
#include "threads/run.h"
#include "threads/threads.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { ALIGN = 64, MAX_ALIGN = 1 << 21, LARGE_WEIGHTS = 1 << 20 };

static const double MIN_THREAD_CLOCK_NS = 20e3; /* above this, a thread's CPU clock is precise enough */

struct bench {
    const measure_job *job;
    const partition_provider *provider;
    measure_sweep *sweep;
    struct arena arena;
    uint32_t *inputs, *outputs; /* boundary values */
    uint32_t input_count, output_count;
    uint64_t constant_bytes; /* bytes of its constants */
    inlay_placement *placements;
    inlay_compiled *compiled;
    inlay_instance *instance;
    inlay_output_plan *plans;
    inlay_tensor_arg *args;  /* inputs, then outputs */
    inlay_buffer *allocated; /* [outputs] allocated by the current run */
    inlay_buffer workspace;
    uint32_t workspace_domain;
    measure_queue queue;
    inlay_diag *diag;
};

static void touch(const inlay_buffer *buffer)
{
    if (buffer->handle != 0 && buffer->domain == INLAY_DOMAIN_HOST)
        measure_read_through(inlay_buffer_host(buffer), (size_t)buffer->bytes);
}

/* Puts the caches into the state that the kernel would find in a model: its weights were last read one run ago, and
 * all other weights since then; its inputs have just been written, and the kernels before it have woken all threads.
 * Returns the value of measure_switches() afterwards. */
static uint64_t prepare_caches(struct bench *bench)
{
    const uint64_t small = bench->sweep->near_bytes / 16;
    uint64_t switches;

    if (bench->job->weights_in == COST_FAR && bench->constant_bytes > small)
        measure_sweep_run(bench->sweep, &bench->queue.run,
                          bench->constant_bytes > LARGE_WEIGHTS ? bench->sweep->bytes : (size_t)MEASURE_SWEEP_MIN);
    else if (bench->job->weights_in != COST_NEAR)
        measure_sweep_run(bench->sweep, &bench->queue.run, 4 * bench->sweep->near_bytes);
    threads_gather(&bench->queue.run);
    switches = measure_switches();
    for (uint32_t i = bench->input_count + bench->output_count; i-- > 0;)
        touch(&bench->args[i].buffer);
    touch(&bench->workspace);
    return switches;
}

static void fill_random(inlay_dtype dtype, void *data, uint64_t bytes, uint64_t seed)
{
    float *floats = data;
    double *doubles = data;

    for (uint64_t i = 0; i < bytes / (inlay_dtype_bits(dtype) < 8 ? 1 : inlay_dtype_bits(dtype) / 8); i++) {
        const uint64_t bits = random_bits(&seed);

        if (dtype == INLAY_FLOAT)
            floats[i] = (float)((double)(bits >> 40) / (1 << 23) - 1);
        else if (dtype == INLAY_DOUBLE)
            doubles[i] = (double)(bits >> 40) / (1 << 23) - 1;
        else if (dtype == INLAY_STRING)
            ((inlay_str *)data)[i] = (inlay_str){ "a", 1 };
        else if (dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16)
            ((uint16_t *)data)[i] = (uint16_t)(bits >> 40 & 1 ? 0x3800 : 0x3400); /* small, positive */
        else if (inlay_dtype_bits(dtype) <= 8)
            ((uint8_t *)data)[i] = (uint8_t)(bits >> 40 & 1);
        else if (inlay_dtype_bits(dtype) == 16)
            ((uint16_t *)data)[i] = (uint16_t)(bits >> 40 & 1);
        else if (inlay_dtype_bits(dtype) == 32)
            ((uint32_t *)data)[i] = (uint32_t)(bits >> 40 & 1);
        else if (dtype == INLAY_INT64 || dtype == INLAY_UINT64)
            ((uint64_t *)data)[i] = bits >> 40 & 1;
        else
            doubles[i] = 0;
    }
}

static inlay_status bytes_of(const struct bench *bench, uint32_t value, uint64_t *out_bytes)
{
    const inlay_value_state *state = &bench->job->values[value];
    int64_t count;
    size_t bytes;

    if (state->rank == INLAY_RANK_UNKNOWN || state->rank > INLAY_MAX_RANK ||
        !dims_count(state->dims, state->rank, &count) || !dtype_bytes(state->dtype, count, &bytes))
        return inlay_fail(bench->diag, INLAY_UNSUPPORTED, "the size of '%s' is not known",
                          inlay_graph_value(bench->job->snapshot, value)->name.data);
    if (bytes > bench->job->max_bytes)
        return inlay_fail(bench->diag, INLAY_LIMIT_EXCEEDED, "'%s' would be larger than max_run_bytes",
                          inlay_graph_value(bench->job->snapshot, value)->name.data);
    *out_bytes = bytes;
    return INLAY_OK;
}

/* Is the value read outside the offer, or an output of the graph? */
static bool is_boundary_output(const struct bench *bench, uint32_t value)
{
    const inlay_graph *graph = bench->job->snapshot;
    const partition_offer *offer = bench->job->offer;

    if (offer->node_count == 1 || (inlay_graph_value(graph, value)->flags & INLAY_VALUE_GRAPH_OUTPUT) != 0)
        return true;
    for (uint32_t node_index = 0; node_index < graph->node_count; node_index++) {
        const graph_node *node = bench->job->graph->nodes[node_index];
        if (is_listed(offer->nodes, offer->node_count, node_index))
            continue;
        if (is_listed(node->info.inputs, node->info.input_count, value) ||
            is_listed(node->captures, node->capture_count, value))
            return true;
    }
    return false;
}

static bool find_boundary(struct bench *bench)
{
    const inlay_graph *graph = bench->job->snapshot;
    const partition_offer *offer = bench->job->offer;
    size_t ins = 1, outs = 1;

    for (uint32_t k = 0; k < offer->node_count; k++) {
        ins += inlay_graph_node(graph, offer->nodes[k])->input_count;
        outs += inlay_graph_node(graph, offer->nodes[k])->output_count;
    }
    bench->inputs = arena_array(&bench->arena, ins, sizeof *bench->inputs);
    bench->outputs = arena_array(&bench->arena, outs, sizeof *bench->outputs);
    if (bench->inputs == NULL || bench->outputs == NULL)
        return false;
    for (uint32_t k = 0; k < offer->node_count; k++) {
        const inlay_node_info *node = inlay_graph_node(graph, offer->nodes[k]);
        for (uint32_t i = 0; i < node->input_count; i++) {
            const inlay_value_info *value = inlay_graph_value(graph, node->inputs[i]);
            if (value != NULL && (value->flags & INLAY_VALUE_CONSTANT) != 0)
                bench->constant_bytes += value->data_bytes;
            if (value != NULL && (value->flags & INLAY_VALUE_CONSTANT) == 0 &&
                (value->producer == INLAY_NONE || !is_listed(offer->nodes, offer->node_count, value->producer)) &&
                !is_listed(bench->inputs, bench->input_count, node->inputs[i]))
                bench->inputs[bench->input_count++] = node->inputs[i];
        }
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i] != INLAY_NONE && is_boundary_output(bench, node->outputs[i]))
                bench->outputs[bench->output_count++] = node->outputs[i];
    }
    return true;
}

/* Chooses placements like the session: row-major, in the domain that the offer requests or else in the provider's
 * default domain. */
static bool choose_placements(struct bench *bench)
{
    const partition_offer *offer = bench->job->offer;

    bench->placements =
        arena_array(&bench->arena, (size_t)bench->input_count + bench->output_count + 1, sizeof *bench->placements);
    for (uint32_t i = 0; bench->placements != NULL && i < bench->input_count + bench->output_count; i++) {
        uint32_t value = i < bench->input_count ? bench->inputs[i] : bench->outputs[i - bench->input_count];

        bench->placements[i] = (inlay_placement){ .value = value, .domain = partition_default_domain(bench->provider) };
        for (uint32_t k = offer->placement_count; k-- > 0;)
            if (offer->placements[k].value == value && partition_is_plain(&offer->placements[k]))
                bench->placements[i] = offer->placements[k];
    }
    return bench->placements != NULL;
}

static const void *align_constant(void *ctx, uint32_t value, uint32_t alignment)
{
    struct bench *bench = ctx;
    const inlay_value_info *info;
    char *copy;

    if (value >= bench->job->snapshot->value_count || alignment == 0 || alignment > 4096 ||
        (alignment & (alignment - 1)) != 0)
        return NULL;
    info = inlay_graph_value(bench->job->snapshot, value);
    if (info->data == NULL || (uintptr_t)info->data % alignment == 0)
        return info->data;
    copy = arena_alloc(&bench->arena, (size_t)info->data_bytes + alignment);
    if (copy == NULL)
        return NULL;
    copy += (alignment - (uintptr_t)copy % alignment) % alignment;
    memcpy(copy, info->data, (size_t)info->data_bytes);
    return copy;
}

static inlay_status poll_bench(void *ctx)
{
    const measure_job *job = ((const struct bench *)ctx)->job;

    return job->stop != NULL && job->stop(job->stop_ctx) ? INLAY_CANCELLED : INLAY_OK;
}

static inlay_status compile(struct bench *bench)
{
    const partition_offer *offer = bench->job->offer;
    const bool merged = bench->job->cookies != NULL;
    run_compile_hooks hooks = { .ctx = bench, .align_constant = align_constant, .timings = bench->job->timings };
    inlay_compile_request request = { .struct_size = sizeof request,
                                      .handle = &hooks,
                                      .graph = bench->job->snapshot,
                                      .nodes = offer->nodes,
                                      .node_count = offer->node_count,
                                      .cookies = merged ? bench->job->cookies : &offer->cookie,
                                      .offer_count = merged ? bench->job->cookie_count : 1,
                                      .inputs = bench->inputs,
                                      .input_count = bench->input_count,
                                      .outputs = bench->outputs,
                                      .output_count = bench->output_count,
                                      .placements = bench->placements,
                                      .placement_stride = sizeof *bench->placements,
                                      .profile = bench->job->values,
                                      .profile_stride = sizeof *bench->job->values,
                                      .max_threads = bench->job->max_threads,
                                      .ctx = bench,
                                      .poll = poll_bench };
    inlay_status status;

    request.constants = arena_alloc(&bench->arena, (size_t)bench->job->snapshot->value_count + 1);
    if (request.constants == NULL)
        return no_memory(bench->diag, "to measure");
    status = bench->provider->table->compile(bench->provider->state, &request, &bench->compiled, bench->diag);
    if (status != INLAY_OK)
        bench->compiled = NULL;
    return status;
}

static inlay_status specialize(struct bench *bench, inlay_specialize_request *request)
{
    inlay_status status;

    *request = (inlay_specialize_request){ .struct_size = sizeof *request,
                                           .values = bench->job->values,
                                           .value_count = bench->job->snapshot->value_count,
                                           .value_stride = sizeof *bench->job->values,
                                           .max_threads = bench->job->max_threads,
                                           .workspace_alignment = ALIGN,
                                           .output_count = bench->output_count,
                                           .output_stride = sizeof *bench->plans };
    bench->plans = request->outputs = arena_array(&bench->arena, (size_t)bench->output_count + 1, sizeof *bench->plans);
    if (bench->plans == NULL)
        return no_memory(bench->diag, "to measure");
    for (uint32_t i = 0; i < bench->output_count; i++)
        bench->plans[i].alias = INLAY_NONE;
    status = bench->provider->table->specialize(bench->provider->state, bench->compiled, request, &bench->instance,
                                                bench->diag);
    if (status != INLAY_OK)
        bench->instance = NULL;
    return status;
}

static inlay_status make_input(struct bench *bench, uint32_t i)
{
    const inlay_value_state *state = &bench->job->values[bench->inputs[i]];
    uint32_t domain = bench->placements[i].domain;
    inlay_buffer host = { 0 };
    uint64_t bytes = 0;
    inlay_status status = INLAY_OK;

    INLAY_TRY(bytes_of(bench, bench->inputs[i], &bytes));
    INLAY_TRY(measure_buffer(bench->provider, INLAY_DOMAIN_HOST, bytes, 0, &host, bench->diag));
    if (state->data != NULL && state->data_bytes == bytes && bytes > 0)
        memcpy(inlay_buffer_host(&host), state->data, (size_t)bytes);
    else
        fill_random(state->dtype, inlay_buffer_host(&host), bytes, i);
    if (domain == INLAY_DOMAIN_HOST) {
        bench->args[i].buffer = host;
        return INLAY_OK;
    }
    INLAY_TRY(measure_buffer(bench->provider, domain, bytes, 0, &bench->args[i].buffer, bench->diag));
    INLAY_TRY(measure_copy_now(bench->provider, &bench->queue, &host, &bench->args[i].buffer, bench->diag));
done:
    if (!bench->queue.hung)
        measure_buffer_free(bench->provider, &host);
    return status;
}

static inlay_status make_output(struct bench *bench, uint32_t i)
{
    inlay_tensor_arg *arg = &bench->args[bench->input_count + i];
    uint64_t bytes = bench->plans[i].max_bytes;
    inlay_status status = INLAY_OK;

    if (bench->plans[i].kind == INLAY_OUTPUT_ALLOCATED)
        return INLAY_OK; /* buffer 0: allocated during the run */
    if (bench->plans[i].kind == INLAY_OUTPUT_KNOWN)
        status = bytes_of(bench, bench->outputs[i], &bytes);
    else if (bytes > bench->job->max_bytes)
        status = inlay_fail(bench->diag, INLAY_LIMIT_EXCEEDED, "an output would be larger than max_run_bytes");
    if (status == INLAY_OK)
        status = measure_buffer(bench->provider, bench->placements[bench->input_count + i].domain, bytes, 0,
                                &arg->buffer, bench->diag);
    return status;
}

static inlay_status make_args(struct bench *bench, const inlay_specialize_request *request)
{
    inlay_status status = INLAY_OK;
    uint64_t bytes = request->workspace_bytes;

    bench->args = arena_array(&bench->arena, (size_t)bench->input_count + bench->output_count + 1, sizeof *bench->args);
    bench->allocated = arena_array(&bench->arena, (size_t)bench->output_count + 1, sizeof *bench->allocated);
    if (bench->args == NULL || bench->allocated == NULL)
        return no_memory(bench->diag, "to measure");
    for (uint32_t i = 0; i < bench->input_count + bench->output_count; i++) {
        uint32_t value = i < bench->input_count ? bench->inputs[i] : bench->outputs[i - bench->input_count];
        const inlay_value_state *state = &bench->job->values[value];
        bench->args[i].rank = state->rank == INLAY_RANK_UNKNOWN ? 0 : state->rank;
        bench->args[i].dtype = state->dtype;
        bench->args[i].dims = arena_array(&bench->arena, INLAY_MAX_RANK, sizeof(int64_t));
        if (bench->args[i].dims == NULL)
            return no_memory(bench->diag, "to measure");
        if (bench->args[i].rank > 0)
            memcpy(bench->args[i].dims, state->dims, bench->args[i].rank * sizeof(int64_t));
    }
    for (uint32_t i = 0; i < bench->input_count; i++)
        INLAY_TRY(make_input(bench, i));
    for (uint32_t i = 0; i < bench->output_count; i++)
        INLAY_TRY(make_output(bench, i));
    if (bytes > bench->job->max_bytes || request->workspace_alignment > MAX_ALIGN)
        return inlay_fail(bench->diag, INLAY_LIMIT_EXCEEDED, "the workspace would be larger than max_run_bytes");
    if (bytes > 0) {
        INLAY_TRY(measure_buffer(bench->provider, bench->workspace_domain, bytes, request->workspace_alignment,
                                 &bench->workspace, bench->diag));
        bench->workspace.bytes = bytes;
    }
done:
    return status;
}

static inlay_status hook_output(void *ctx, uint32_t output, uint32_t rank, const int64_t *dims, inlay_buffer *out)
{
    struct bench *bench = ctx;
    int64_t count;
    size_t bytes;
    inlay_status status;

    if (output >= bench->output_count || rank > INLAY_MAX_RANK || !dims_count(dims, rank, &count) ||
        !dtype_bytes(bench->args[bench->input_count + output].dtype, count, &bytes))
        return INLAY_SHAPE_MISMATCH;
    if (bytes > bench->job->max_bytes)
        return INLAY_LIMIT_EXCEEDED;
    if (bench->job->found != NULL) {
        inlay_value_state *found = &bench->job->found[bench->outputs[output]];
        found->rank = rank;
        memcpy((int64_t *)(uintptr_t)found->dims, dims, rank * sizeof *dims);
    }
    measure_buffer_free(bench->provider, &bench->allocated[output]);
    status = measure_buffer(bench->provider, partition_default_domain(bench->provider), bytes, 0,
                            &bench->allocated[output], NULL);
    *out = bench->allocated[output];
    return status;
}

static char *hook_string(void *ctx, uint64_t bytes)
{
    static char contents[1 << 16]; /* contents of strings, which are never read */

    (void)ctx;
    return bytes <= sizeof contents ? contents : NULL;
}

static inlay_exec_args exec_args(struct bench *bench, inlay_diag *diag)
{
    static const uint32_t not_cancelled;

    return (inlay_exec_args){ .struct_size = sizeof(inlay_exec_args),
                              .run = &bench->queue.run,
                              .inputs = bench->args,
                              .outputs = bench->args + bench->input_count,
                              .input_count = bench->input_count,
                              .output_count = bench->output_count,
                              .arg_stride = sizeof *bench->args,
                              .cancel = &not_cancelled,
                              .diag = diag };
}

/* The number of times that this thread has given up its CPU to wait; 0 where the system does not count them. */
static uint64_t waits_of_thread(void)
{
#ifdef RUSAGE_THREAD
    struct rusage used;

    return getrusage(RUSAGE_THREAD, &used) == 0 && used.ru_nvcsw > 0 ? (uint64_t)used.ru_nvcsw : 0;
#else
    return 0;
#endif
}

static inlay_status time_offer(void *ctx, double *out_ns, bool *out_calm)
{
    struct bench *bench = ctx;
    inlay_exec_args exec = exec_args(bench, bench->diag);
    inlay_status status;
    uint64_t start, cpu_start, switches, waits;
    double cpu_ns;

    for (uint32_t i = 0; i < bench->output_count; i++)
        measure_buffer_free(bench->provider, &bench->allocated[i]);
    switches = prepare_caches(bench);
    INLAY_CHECK(bench->args != NULL && bench->allocated != NULL);
    exec.workspace = bench->workspace;
    exec.signal = measure_next_fence(bench->provider, &bench->queue);
    waits = waits_of_thread();
    cpu_start = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    start = clock_ns();
    status = bench->provider->table->execute(bench->provider->state, bench->compiled, bench->instance, &exec);
    if (status == INLAY_OK)
        status = measure_wait(bench->provider, &bench->queue, exec.signal, bench->diag);
    *out_ns = (double)(clock_ns() - start);
    cpu_ns = (double)(clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_start);
    /* A thread that has not waited, not even for helpers, has either worked or lost its CPU to other processes. So its
     * CPU time is the time of the kernel. A thread that waits for threads of a library or for a device has not. */
    if (*out_ns > MIN_THREAD_CLOCK_NS && cpu_ns < *out_ns && waits_of_thread() == waits)
        *out_ns = cpu_ns;
    *out_calm = measure_switches() == switches;
    return status;
}

/* Memory that a hanging device may still use is leaked. */
static void release(struct bench *bench)
{
    const inlay_provider *table;

    if (bench == NULL || bench->queue.hung)
        return;
    table = bench->provider->table;
    for (uint32_t i = 0; bench->args != NULL && i < bench->input_count + bench->output_count; i++)
        measure_buffer_free(bench->provider, &bench->args[i].buffer);
    for (uint32_t i = 0; bench->allocated != NULL && i < bench->output_count; i++)
        measure_buffer_free(bench->provider, &bench->allocated[i]);
    bench->workspace.offset = 0;
    measure_buffer_free(bench->provider, &bench->workspace);
    if (bench->instance != NULL)
        table->release_instance(bench->provider->state, bench->compiled, bench->instance);
    if (bench->compiled != NULL)
        table->release_compiled(bench->provider->state, bench->compiled);
    timeline_destroy(bench->queue.timeline);
    arena_deinit(&bench->arena);
    free(bench);
}

/* Does everything up to the run. Release *out in any case. */
static inlay_status prepare(struct bench **out, const measure_job *job, measure_sweep *sweep,
                            inlay_specialize_request *request, inlay_diag *diag)
{
    static const uint32_t not_cancelled;
    struct bench *bench = calloc(1, sizeof *bench);
    inlay_status status = INLAY_OK;

    *out = bench;
    if (bench == NULL)
        return no_memory(diag, "to measure");
    *bench = (struct bench){ .job = job,
                             .provider = job->provider,
                             .sweep = sweep,
                             .diag = diag,
                             .workspace_domain = partition_default_domain(job->provider) };
    bench->queue = (measure_queue){ .run = { .cancel = &not_cancelled,
                                             .deadline_ns = job->deadline_ns,
                                             .max_threads = job->max_threads,
                                             .ctx = bench,
                                             .output_alloc = hook_output,
                                             .string_alloc = hook_string },
                                    .limit_ms = job->device_timeout_ms };
    if (!find_boundary(bench) || !choose_placements(bench))
        return no_memory(diag, "to measure");
    if (measure_is_async(job->provider))
        INLAY_TRY(timeline_create(&bench->queue.timeline, diag));
    INLAY_TRY(compile(bench));
    INLAY_TRY(specialize(bench, request));
    INLAY_TRY(make_args(bench, request));
done:
    return status;
}

inlay_status measure_offer(const measure_job *job, const measure_plan *plan, measure_sweep *sweep,
                           struct measurement *out, inlay_diag *diag)
{
    inlay_specialize_request request;
    inlay_status status;
    struct bench *bench = NULL;

    INLAY_TRY(prepare(&bench, job, sweep, &request, diag));
    INLAY_TRY(measure_runs(time_offer, bench, plan,
                           plan->shortest         ? MEASURE_SHORTEST
                           : job->max_threads > 1 ? 4
                                                  : 2,
                           out, diag));
done:
    release(bench);
    return status;
}

typedef struct kernel_call {
    bool (*stop)(void *ctx);
    measure_record_fn record;
    void *ctx;
} kernel_call;

static inlay_status poll_kernels(void *ctx)
{
    const kernel_call *call = ctx;

    return call->stop != NULL && call->stop(call->ctx) ? INLAY_CANCELLED : INLAY_OK;
}

static inlay_status record_kernel(void *ctx, const void *key, uint64_t key_bytes, double ns, const char *what)
{
    const kernel_call *call = ctx;

    return key != NULL && ns > 0 ? call->record(call->ctx, key, key_bytes, ns, what != NULL ? what : "") : INLAY_OK;
}

inlay_status measure_kernels(const measure_job *job, double budget_ns, bool (*stop)(void *ctx),
                             measure_record_fn record, void *ctx, inlay_diag *diag)
{
    const inlay_provider *table = job->provider->table;
    const inlay_ext_kernels *kernels = INLAY_HAS(table, extension) && table->extension != NULL
                                           ? table->extension(job->provider->state, INLAY_EXT_KERNELS)
                                           : NULL;
    kernel_call call = { stop, record, ctx };
    inlay_specialize_request request;
    inlay_status status;
    struct bench *bench = NULL;

    if (kernels == NULL || !INLAY_HAS(kernels, time) || kernels->time == NULL || measure_is_async(job->provider))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "provider %s cannot time kernels", job->provider->name);
    INLAY_TRY(prepare(&bench, job, NULL, &request, diag));
    {
        const inlay_exec_args exec = exec_args(bench, diag);
        const inlay_kernel_trial trial = { .struct_size = sizeof trial,
                                           .shapes = &request,
                                           .args = &exec,
                                           .budget_ns = budget_ns,
                                           .ctx = &call,
                                           .poll = poll_kernels,
                                           .keep = record_kernel };

        status = kernels->time(job->provider->state, bench->compiled, &trial, diag);
    }
done:
    release(bench);
    return status;
}
