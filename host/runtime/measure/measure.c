#include "measure/measure.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/order.h"
#include "inlay/extensions.h"
#include "measure/measure_parts.h"
#include "measure/measure_time.h"
#include "partition/cost/cost.h"
#include "threads/fence.h"
#include "threads/run.h"
#include "threads/threads.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ALIGN = 64, MAX_ALIGN = 1 << 21, LARGE_WEIGHTS = 1 << 20 };

static const double LONG_NS = 20e3; /* above this, the clock of a thread is exact enough */

struct bench {
    const measure_job *job;
    const part_provider *provider;
    measure_sweep *sweep;
    struct arena a;
    uint32_t *inputs, *outputs; /* boundary values */
    uint32_t input_count, output_count;
    uint64_t constant_bytes; /* weights that it reads */
    inlay_placement *placements;
    inlay_compiled *compiled;
    inlay_instance *instance;
    inlay_output_plan *plans;
    inlay_tensor_arg *args; /* inputs, then outputs */
    inlay_buffer *made;     /* [outputs] allocated by the run in hand */
    inlay_buffer workspace;
    uint32_t workspace_domain;
    measure_line line;
    inlay_diag *diag;
};

/* ------------------------------------------------------------------ caches */

static void touch(const inlay_buffer *x)
{
    if (x->handle != 0 && x->domain == INLAY_DOMAIN_HOST)
        measure_read_through(inlay_buffer_host(x), (size_t)x->bytes);
}

/* The caches as the kernel would find them in a model: weights were last read a run ago, and all other weights since
 * then; activations lie where the kernels before have just been at work, and these have called all threads. Returns
 * measure_switches() as of then. */
static uint64_t prepare_caches(struct bench *b)
{
    const uint64_t small = b->sweep->near_bytes / 16;
    uint64_t switches;

    if (b->job->weights_in == COST_FAR && b->constant_bytes > small)
        measure_sweep_run(b->sweep, &b->line.run,
                          b->constant_bytes > LARGE_WEIGHTS ? b->sweep->bytes : (size_t)MEASURE_SWEEP_LEAST);
    else if (b->job->weights_in != COST_NEAR)
        measure_sweep_run(b->sweep, &b->line.run, 4 * b->sweep->near_bytes);
    threads_gather(&b->line.run);
    switches = measure_switches();
    for (uint32_t i = b->input_count + b->output_count; i-- > 0;)
        touch(&b->args[i].buffer);
    touch(&b->workspace);
    return switches;
}

/* ------------------------------------------------------------------ memory */

static void fill(inlay_dtype dtype, void *data, uint64_t bytes, uint64_t seed)
{
    uint64_t x = seed * 2 + 1;
    float *f = data;
    double *d = data;

    for (uint64_t i = 0; i < bytes / (inlay_dtype_bits(dtype) < 8 ? 1 : inlay_dtype_bits(dtype) / 8); i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        if (dtype == INLAY_FLOAT)
            f[i] = (float)((double)(x >> 40) / (1 << 23) - 1);
        else if (dtype == INLAY_DOUBLE)
            d[i] = (double)(x >> 40) / (1 << 23) - 1;
        else if (dtype == INLAY_STRING)
            ((inlay_str *)data)[i] = (inlay_str){ "a", 1 };
        else if (dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16)
            ((uint16_t *)data)[i] = (uint16_t)(x >> 40 & 1 ? 0x3800 : 0x3400); /* small, positive */
        else if (inlay_dtype_bits(dtype) <= 8)
            ((uint8_t *)data)[i] = (uint8_t)(x >> 40 & 1);
        else if (inlay_dtype_bits(dtype) == 16)
            ((uint16_t *)data)[i] = (uint16_t)(x >> 40 & 1);
        else if (inlay_dtype_bits(dtype) == 32)
            ((uint32_t *)data)[i] = (uint32_t)(x >> 40 & 1);
        else if (dtype == INLAY_INT64 || dtype == INLAY_UINT64)
            ((uint64_t *)data)[i] = x >> 40 & 1;
        else
            d[i] = 0;
    }
}

static inlay_status bytes_of(const struct bench *b, uint32_t v, uint64_t *out_bytes)
{
    const inlay_value_state *s = &b->job->values[v];
    int64_t count;
    size_t bytes;

    if (s->rank == INLAY_RANK_UNKNOWN || s->rank > INLAY_MAX_RANK || !dims_count(s->dims, s->rank, &count) ||
        !dtype_bytes(s->dtype, count, &bytes))
        return inlay_fail(b->diag, INLAY_UNSUPPORTED, "the size of '%s' is not known",
                          inlay_graph_value(b->job->snapshot, v)->name.data);
    if (bytes > b->job->max_bytes)
        return inlay_fail(b->diag, INLAY_LIMIT_EXCEEDED, "'%s' would be larger than max_run_bytes",
                          inlay_graph_value(b->job->snapshot, v)->name.data);
    *out_bytes = bytes;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ the region */

static bool in_offer(const part_offer *o, uint32_t node)
{
    for (uint32_t i = 0; i < o->node_count; i++)
        if (o->nodes[i] == node)
            return true;
    return false;
}

/* Does somebody outside the offer, or the caller, read the value? */
static bool leaves(const struct bench *b, uint32_t v)
{
    const inlay_graph *s = b->job->snapshot;
    const part_offer *o = b->job->offer;

    if (o->node_count == 1 || (inlay_graph_value(s, v)->flags & INLAY_VALUE_GRAPH_OUTPUT) != 0)
        return true;
    for (uint32_t n = 0; n < s->node_count; n++) {
        const graph_node *node = b->job->g->nodes[n];
        if (in_offer(o, n))
            continue;
        if (is_listed(node->info.inputs, node->info.input_count, v) ||
            is_listed(node->captures, node->capture_count, v))
            return true;
    }
    return false;
}

static bool find_boundary(struct bench *b)
{
    const inlay_graph *s = b->job->snapshot;
    const part_offer *o = b->job->offer;
    size_t ins = 1, outs = 1;

    for (uint32_t k = 0; k < o->node_count; k++) {
        ins += inlay_graph_node(s, o->nodes[k])->input_count;
        outs += inlay_graph_node(s, o->nodes[k])->output_count;
    }
    b->inputs = arena_array(&b->a, ins, sizeof *b->inputs);
    b->outputs = arena_array(&b->a, outs, sizeof *b->outputs);
    if (b->inputs == NULL || b->outputs == NULL)
        return false;
    for (uint32_t k = 0; k < o->node_count; k++) {
        const inlay_node_info *n = inlay_graph_node(s, o->nodes[k]);
        for (uint32_t i = 0; i < n->input_count; i++) {
            const inlay_value_info *v = inlay_graph_value(s, n->inputs[i]);
            if (v != NULL && (v->flags & INLAY_VALUE_CONSTANT) != 0)
                b->constant_bytes += v->data_bytes;
            if (v != NULL && (v->flags & INLAY_VALUE_CONSTANT) == 0 &&
                (v->producer == INLAY_NONE || !in_offer(o, v->producer)) &&
                !is_listed(b->inputs, b->input_count, n->inputs[i]))
                b->inputs[b->input_count++] = n->inputs[i];
        }
        for (uint32_t i = 0; i < n->output_count; i++)
            if (n->outputs[i] != INLAY_NONE && leaves(b, n->outputs[i]))
                b->outputs[b->output_count++] = n->outputs[i];
    }
    return true;
}

/* As the session negotiates it: row-major, where the offer wants it or else in the provider's default domain. */
static bool negotiate(struct bench *b)
{
    const part_offer *o = b->job->offer;

    b->placements = arena_array(&b->a, (size_t)b->input_count + b->output_count + 1, sizeof *b->placements);
    for (uint32_t i = 0; b->placements != NULL && i < b->input_count + b->output_count; i++) {
        uint32_t v = i < b->input_count ? b->inputs[i] : b->outputs[i - b->input_count];

        b->placements[i] = (inlay_placement){ .value = v, .domain = part_default_domain(b->provider) };
        for (uint32_t k = o->placement_count; k-- > 0;)
            if (o->placements[k].value == v && part_is_plain(&o->placements[k]))
                b->placements[i] = o->placements[k];
    }
    return b->placements != NULL;
}

static const void *align_constant(void *ctx, uint32_t value, uint32_t alignment)
{
    struct bench *b = ctx;
    const inlay_value_info *v;
    char *copy;

    if (value >= b->job->snapshot->value_count || alignment == 0 || alignment > 4096 ||
        (alignment & (alignment - 1)) != 0)
        return NULL;
    v = inlay_graph_value(b->job->snapshot, value);
    if (v->data == NULL || (uintptr_t)v->data % alignment == 0)
        return v->data;
    copy = arena_alloc(&b->a, (size_t)v->data_bytes + alignment);
    if (copy == NULL)
        return NULL;
    copy += (alignment - (uintptr_t)copy % alignment) % alignment;
    memcpy(copy, v->data, (size_t)v->data_bytes);
    return copy;
}

static inlay_status poll_bench(void *ctx)
{
    const measure_job *job = ((const struct bench *)ctx)->job;

    return job->stop != NULL && job->stop(job->stop_ctx) ? INLAY_CANCELLED : INLAY_OK;
}

static inlay_status compile(struct bench *b)
{
    const part_offer *o = b->job->offer;
    const bool merged = b->job->cookies != NULL;
    run_compile_hooks hooks = { .ctx = b, .align_constant = align_constant, .timings = b->job->timings };
    inlay_compile_request r = { .struct_size = sizeof r,
                                .handle = &hooks,
                                .graph = b->job->snapshot,
                                .nodes = o->nodes,
                                .node_count = o->node_count,
                                .cookies = merged ? b->job->cookies : &o->cookie,
                                .offer_count = merged ? b->job->cookie_count : 1,
                                .inputs = b->inputs,
                                .input_count = b->input_count,
                                .outputs = b->outputs,
                                .output_count = b->output_count,
                                .placements = b->placements,
                                .placement_stride = sizeof *b->placements,
                                .profile = b->job->values,
                                .profile_stride = sizeof *b->job->values,
                                .max_threads = b->job->max_threads,
                                .ctx = b,
                                .poll = poll_bench };
    inlay_status status;

    r.constants = arena_alloc(&b->a, (size_t)b->job->snapshot->value_count + 1);
    if (r.constants == NULL)
        return no_memory(b->diag, "to measure");
    status = b->provider->table->compile(b->provider->state, &r, &b->compiled, b->diag);
    if (status != INLAY_OK)
        b->compiled = NULL;
    return status;
}

static inlay_status specialize(struct bench *b, inlay_specialize_request *r)
{
    inlay_status status;

    *r = (inlay_specialize_request){ .struct_size = sizeof *r,
                                     .values = b->job->values,
                                     .value_count = b->job->snapshot->value_count,
                                     .value_stride = sizeof *b->job->values,
                                     .max_threads = b->job->max_threads,
                                     .workspace_alignment = ALIGN,
                                     .output_count = b->output_count,
                                     .output_stride = sizeof *b->plans };
    b->plans = r->outputs = arena_array(&b->a, (size_t)b->output_count + 1, sizeof *b->plans);
    if (b->plans == NULL)
        return no_memory(b->diag, "to measure");
    for (uint32_t i = 0; i < b->output_count; i++)
        b->plans[i].alias = INLAY_NONE;
    status = b->provider->table->specialize(b->provider->state, b->compiled, r, &b->instance, b->diag);
    if (status != INLAY_OK)
        b->instance = NULL;
    return status;
}

/* ------------------------------------------------------------------ arguments */

static inlay_status make_input(struct bench *b, uint32_t i)
{
    const inlay_value_state *s = &b->job->values[b->inputs[i]];
    uint32_t domain = b->placements[i].domain;
    inlay_buffer host = { 0 };
    uint64_t bytes = 0;
    inlay_status status = INLAY_OK;

    INLAY_TRY(bytes_of(b, b->inputs[i], &bytes));
    INLAY_TRY(measure_buffer(b->provider, INLAY_DOMAIN_HOST, bytes, &host, b->diag));
    if (s->data != NULL && s->data_bytes == bytes && bytes > 0)
        memcpy(inlay_buffer_host(&host), s->data, (size_t)bytes);
    else
        fill(s->dtype, inlay_buffer_host(&host), bytes, i);
    if (domain == INLAY_DOMAIN_HOST) {
        b->args[i].buffer = host;
        return INLAY_OK;
    }
    INLAY_TRY(measure_buffer(b->provider, domain, bytes, &b->args[i].buffer, b->diag));
    INLAY_TRY(measure_copy_now(b->provider, &b->line, &host, &b->args[i].buffer, b->diag));
done:
    if (!b->line.hangs)
        measure_buffer_free(b->provider, &host);
    return status;
}

static inlay_status make_output(struct bench *b, uint32_t i)
{
    inlay_tensor_arg *arg = &b->args[b->input_count + i];
    uint64_t bytes = b->plans[i].max_bytes;
    inlay_status status = INLAY_OK;

    if (b->plans[i].kind == INLAY_OUTPUT_ALLOCATED)
        return INLAY_OK; /* buffer 0: the run asks */
    if (b->plans[i].kind == INLAY_OUTPUT_KNOWN)
        status = bytes_of(b, b->outputs[i], &bytes);
    else if (bytes > b->job->max_bytes)
        status = inlay_fail(b->diag, INLAY_LIMIT_EXCEEDED, "an output would be larger than max_run_bytes");
    if (status == INLAY_OK)
        status = measure_buffer(b->provider, b->placements[b->input_count + i].domain, bytes, &arg->buffer, b->diag);
    return status;
}

static inlay_status make_args(struct bench *b, const inlay_specialize_request *r)
{
    inlay_status status = INLAY_OK;
    uint64_t bytes = r->workspace_bytes;

    b->args = arena_array(&b->a, (size_t)b->input_count + b->output_count + 1, sizeof *b->args);
    b->made = arena_array(&b->a, (size_t)b->output_count + 1, sizeof *b->made);
    if (b->args == NULL || b->made == NULL)
        return no_memory(b->diag, "to measure");
    for (uint32_t i = 0; i < b->input_count + b->output_count; i++) {
        uint32_t v = i < b->input_count ? b->inputs[i] : b->outputs[i - b->input_count];
        const inlay_value_state *s = &b->job->values[v];
        b->args[i].rank = s->rank == INLAY_RANK_UNKNOWN ? 0 : s->rank;
        b->args[i].dtype = s->dtype;
        b->args[i].dims = arena_array(&b->a, INLAY_MAX_RANK, sizeof(int64_t));
        if (b->args[i].dims == NULL)
            return no_memory(b->diag, "to measure");
        if (b->args[i].rank > 0)
            memcpy(b->args[i].dims, s->dims, b->args[i].rank * sizeof(int64_t));
    }
    for (uint32_t i = 0; i < b->input_count; i++)
        INLAY_TRY(make_input(b, i));
    for (uint32_t i = 0; i < b->output_count; i++)
        INLAY_TRY(make_output(b, i));
    if (bytes > b->job->max_bytes || r->workspace_alignment > MAX_ALIGN)
        return inlay_fail(b->diag, INLAY_LIMIT_EXCEEDED, "the workspace would be larger than max_run_bytes");
    if (bytes > 0) {
        uint64_t extra = r->workspace_alignment > ALIGN ? r->workspace_alignment : 0, off;
        INLAY_TRY(measure_buffer(b->provider, b->workspace_domain, bytes + extra, &b->workspace, b->diag));
        off = extra > 0 ? (extra - b->workspace.handle % extra) % extra : 0;
        if (b->workspace_domain == INLAY_DOMAIN_HOST)
            b->workspace.offset = off;
        b->workspace.bytes = bytes;
    }
done:
    return status;
}

/* ------------------------------------------------------------------ runs */

static inlay_status hook_output(void *ctx, uint32_t output, uint32_t rank, const int64_t *dims, inlay_buffer *out)
{
    struct bench *b = ctx;
    int64_t count;
    size_t bytes;
    inlay_status status;

    if (output >= b->output_count || rank > INLAY_MAX_RANK || !dims_count(dims, rank, &count) ||
        !dtype_bytes(b->args[b->input_count + output].dtype, count, &bytes))
        return INLAY_SHAPE_MISMATCH;
    if (bytes > b->job->max_bytes)
        return INLAY_LIMIT_EXCEEDED;
    if (b->job->found != NULL) {
        inlay_value_state *found = &b->job->found[b->outputs[output]];
        found->rank = rank;
        memcpy((int64_t *)(uintptr_t)found->dims, dims, rank * sizeof *dims);
    }
    measure_buffer_free(b->provider, &b->made[output]);
    status = measure_buffer(b->provider, part_default_domain(b->provider), bytes, &b->made[output], NULL);
    *out = b->made[output];
    return status;
}

static char *hook_string(void *ctx, uint64_t bytes)
{
    static char room[1 << 16]; /* contents of strings that nobody looks at */

    (void)ctx;
    return bytes <= sizeof room ? room : NULL;
}

static inlay_exec_args exec_args(struct bench *b, inlay_diag *diag)
{
    static const uint32_t never;

    return (inlay_exec_args){ .struct_size = sizeof(inlay_exec_args),
                              .run = &b->line.run,
                              .inputs = b->args,
                              .outputs = b->args + b->input_count,
                              .input_count = b->input_count,
                              .output_count = b->output_count,
                              .arg_stride = sizeof *b->args,
                              .cancel = &never,
                              .diag = diag };
}

static inlay_status time_offer(void *ctx, double *out_ns, bool *out_calm)
{
    struct bench *b = ctx;
    inlay_exec_args exec = exec_args(b, b->diag);
    inlay_status status;
    uint64_t start, own_start, switches;
    double own;

    for (uint32_t i = 0; i < b->output_count; i++)
        measure_buffer_free(b->provider, &b->made[i]);
    switches = prepare_caches(b);
    exec.workspace = b->workspace;
    exec.signal = measure_next(b->provider, &b->line);
    own_start = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    start = clock_ns();
    status = b->provider->table->execute(b->provider->state, b->compiled, b->instance, &exec);
    if (status == INLAY_OK)
        status = measure_settle(b->provider, &b->line, exec.signal, b->diag);
    *out_ns = (double)(clock_ns() - start);
    own = (double)(clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - own_start);
    /* The calling thread takes part in all that is done on CPUs, and waits for its helpers by spinning. So its own time
     * is what the kernel takes, whoever else was given the CPU meanwhile. */
    if (!measure_is_async(b->provider) && b->provider->table->device_kind == INLAY_DEVICE_CPU && *out_ns > LONG_NS &&
        own < *out_ns)
        *out_ns = own;
    *out_calm = measure_switches() == switches;
    return status;
}

/* Nothing is freed that a device which hangs may still use. */
static void release(struct bench *b)
{
    const inlay_provider *t;

    if (b == NULL || b->line.hangs)
        return;
    t = b->provider->table;
    for (uint32_t i = 0; b->args != NULL && i < b->input_count + b->output_count; i++)
        measure_buffer_free(b->provider, &b->args[i].buffer);
    for (uint32_t i = 0; b->made != NULL && i < b->output_count; i++)
        measure_buffer_free(b->provider, &b->made[i]);
    b->workspace.offset = 0;
    measure_buffer_free(b->provider, &b->workspace);
    if (b->instance != NULL)
        t->release_instance(b->provider->state, b->compiled, b->instance);
    if (b->compiled != NULL)
        t->release_compiled(b->provider->state, b->compiled);
    timeline_destroy(b->line.timeline);
    arena_deinit(&b->a);
    free(b);
}

/* Everything up to the run. Release *out in any case. */
static inlay_status prepare(struct bench **out, const measure_job *job, measure_sweep *sweep,
                            inlay_specialize_request *request, inlay_diag *diag)
{
    static const uint32_t never;
    struct bench *b = calloc(1, sizeof *b);
    inlay_status status = INLAY_OK;

    *out = b;
    if (b == NULL)
        return no_memory(diag, "to measure");
    *b = (struct bench){ .job = job,
                         .provider = job->provider,
                         .sweep = sweep,
                         .diag = diag,
                         .workspace_domain = part_default_domain(job->provider) };
    b->line = (measure_line){ .run = { .cancel = &never,
                                       .deadline_ns = job->deadline_ns,
                                       .max_threads = job->max_threads,
                                       .ctx = b,
                                       .output_alloc = hook_output,
                                       .string_alloc = hook_string },
                              .limit_ms = job->device_timeout_ms };
    if (!find_boundary(b) || !negotiate(b))
        return no_memory(diag, "to measure");
    if (measure_is_async(job->provider))
        INLAY_TRY(timeline_create(&b->line.timeline, diag));
    INLAY_TRY(compile(b));
    INLAY_TRY(specialize(b, request));
    INLAY_TRY(make_args(b, request));
done:
    return status;
}

inlay_status measure_offer(const measure_job *job, const measure_plan *plan, measure_sweep *sweep,
                           struct measurement *out, inlay_diag *diag)
{
    inlay_specialize_request request;
    inlay_status status;
    struct bench *b = NULL;

    INLAY_TRY(prepare(&b, job, sweep, &request, diag));
    INLAY_TRY(measure_runs(time_offer, b, plan, job->max_threads > 1 ? 4 : 2, out, diag));
done:
    release(b);
    return status;
}

/* ------------------------------------------------------------------ kernels */

typedef struct kernel_call {
    bool (*stop)(void *ctx);
    measure_keep_fn keep;
    void *ctx;
} kernel_call;

static inlay_status poll_kernels(void *ctx)
{
    const kernel_call *call = ctx;

    return call->stop != NULL && call->stop(call->ctx) ? INLAY_CANCELLED : INLAY_OK;
}

static inlay_status keep_kernel(void *ctx, const void *key, uint64_t key_bytes, double ns, const char *what)
{
    const kernel_call *call = ctx;

    return key != NULL && ns > 0 ? call->keep(call->ctx, key, key_bytes, ns, what != NULL ? what : "") : INLAY_OK;
}

inlay_status measure_within(const measure_job *job, double budget_ns, bool (*stop)(void *ctx), measure_keep_fn keep,
                            void *ctx, inlay_diag *diag)
{
    const inlay_provider *table = job->provider->table;
    const inlay_ext_kernels *kernels = INLAY_HAS(table, extension) && table->extension != NULL
                                           ? table->extension(job->provider->state, INLAY_EXT_KERNELS)
                                           : NULL;
    kernel_call call = { stop, keep, ctx };
    inlay_specialize_request request;
    inlay_status status;
    struct bench *b = NULL;

    if (kernels == NULL || !INLAY_HAS(kernels, time) || kernels->time == NULL || measure_is_async(job->provider))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "provider %s does not time kernels", job->provider->name);
    INLAY_TRY(prepare(&b, job, NULL, &request, diag));
    {
        const inlay_exec_args exec = exec_args(b, diag);
        const inlay_kernel_trial trial = { .struct_size = sizeof trial,
                                           .shapes = &request,
                                           .args = &exec,
                                           .budget_ns = budget_ns,
                                           .ctx = &call,
                                           .poll = poll_kernels,
                                           .keep = keep_kernel };

        status = kernels->time(job->provider->state, b->compiled, &trial, diag);
    }
done:
    release(b);
    return status;
}
