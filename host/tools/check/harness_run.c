/* Runs a specialised case once: allocates every tensor, calls execute, and checks memory and results. */
#include "base/checked.h"
#include "base/clock.h"
#include "check/harness.h"
#include "check/process.h"
#include "threads/fence.h"
#include "threads/run.h"
#include "inlay/check.h"
#include <pthread.h>
#include <string.h>
#include <time.h>

enum { ALIGN = 64, MAX_OUTPUT = 1 << 30, GARBAGE = 0x7f };

/* The memory, arguments and fences of a run. */
struct run_state {
    const struct harness *harness;
    const harness_options *options;
    harness_result *result;
    struct guarded in[CASE_INPUTS], out[CASE_OUTPUTS], workspace;
    /* Inputs, outputs and workspace on the device; whole.handle 0: in host memory. */
    device_tensor device[CASE_INPUTS + CASE_OUTPUTS + 1];
    int64_t in_dims[CASE_INPUTS][CASE_RANK], out_dims[CASE_OUTPUTS][INLAY_MAX_RANK];
    inlay_tensor_arg ins[CASE_INPUTS], outs[CASE_OUTPUTS];
    bool allocated[CASE_OUTPUTS];
    pthread_mutex_t lock;
    device_link link;
    inlay_fence waits[CASE_INPUTS];
    uint32_t wait_count;
};

static void fault(harness_result *result, const char *fix, const char *format, ...)
{
    va_list args;

    if (result->fault[0] != '\0')
        return;
    va_start(args, format);
    (void)vsnprintf(result->fault, sizeof result->fault, format, args);
    va_end(args);
    result->fault_fix = fix;
}

static void phase(const struct run_state *run, const char *what)
{
    if (!run->options->quiet)
        check_phase(run->harness->check, what);
}

/* ------------------------------------------------------------------ devices */

/* Creates the buffer of a tensor: the host memory itself, or a device buffer with a copy of its content. */
static inlay_status place_buffer(struct run_state *run, uint32_t index, uint32_t domain, const struct guarded *host,
                                 inlay_buffer *out, inlay_diag *diag)
{
    device_tensor *tensor = &run->device[index];
    inlay_status status;

    INLAY_CHECK(index < sizeof run->device / sizeof run->device[0]);
    *out = (inlay_buffer){ .handle = (uintptr_t)host->data, .bytes = host->bytes };
    if (domain == INLAY_DOMAIN_HOST)
        return INLAY_OK;
    phase(run, "buffer_alloc");
    status = device_tensor_alloc(run->harness->provider, domain, host->bytes, tensor, diag);
    phase(run, "buffer_copy");
    if (status == INLAY_OK)
        status = device_tensor_fill(&run->link, tensor, host->data, run->options->fill, &run->result->arena, diag);
    *out = tensor->given;
    return status;
}

static void free_tensor(struct run_state *run, size_t index)
{
    const loaded_provider *provider = run->harness->provider;

    if (run->device[index].whole.handle != 0)
        provider->table->buffer_free(provider->state, &run->device[index].whole);
    run->device[index] = (device_tensor){ .margin = 0 };
}

/* ------------------------------------------------------------------ hooks of the run */

static inlay_status allocate_output(void *ctx, uint32_t output, uint32_t rank, const int64_t *dims, inlay_buffer *out)
{
    struct run_state *run = ctx;
    size_t bytes;
    int64_t count;

    if (output >= run->harness->built->output_count || run->harness->plans[output].kind != INLAY_OUTPUT_ALLOCATED) {
        fault(run->result, "call it for ALLOCATED outputs only, with their index in the outputs of the request",
              "it called output_alloc for output %u", output);
        return INLAY_INVALID_ARGUMENT;
    }
    if (rank > INLAY_MAX_RANK || !dims_count(dims, rank, &count) ||
        !dtype_bytes(run->outs[output].dtype, count, &bytes) || bytes > MAX_OUTPUT) {
        fault(run->result, "compute the shape from the inputs", "it requested an output of an impossible shape");
        return INLAY_SHAPE_MISMATCH;
    }
    free_tensor(run, CASE_INPUTS + output); /* of an earlier call for the same output */
    guarded_free(&run->out[output]);
    if (!guarded_alloc(bytes, ALIGN, run->options->fill, "past the end of an output that it allocated",
                       &run->out[output]))
        return INLAY_OUT_OF_MEMORY;
    run->allocated[output] = true;
    run->outs[output].rank = rank;
    if (rank > 0)
        memcpy(run->out_dims[output], dims, rank * sizeof *dims);
    return place_buffer(run, CASE_INPUTS + output, run->harness->out_domains[output], &run->out[output], out, NULL);
}

static char *allocate_string(void *ctx, uint64_t bytes)
{
    struct run_state *run = ctx;
    char *text;

    (void)pthread_mutex_lock(&run->lock);
    text = bytes < MAX_OUTPUT ? arena_alloc(&run->result->arena, (size_t)bytes) : NULL;
    (void)pthread_mutex_unlock(&run->lock);
    return text;
}

/* ------------------------------------------------------------------ before */

static size_t element_alignment(inlay_dtype dtype)
{
    uint32_t bytes = inlay_dtype_bits(dtype) / 8;

    if (dtype == INLAY_STRING || dtype == INLAY_COMPLEX64 || dtype == INLAY_COMPLEX128)
        return 8;
    return bytes == 0 ? 1 : bytes;
}

static size_t alignment_of(const struct run_state *run, inlay_dtype dtype)
{
    return run->options->tight ? element_alignment(dtype) : ALIGN;
}

static inlay_status prepare_inputs(struct run_state *run, inlay_diag *diag)
{
    for (uint32_t i = 0; i < run->harness->built->input_count; i++) {
        const case_tensor *tensor = &run->harness->entry->in[run->harness->built->input_of[i]];
        inlay_status status;

        if (!guarded_alloc((size_t)tensor->bytes, alignment_of(run, tensor->dtype), 0, "past the end of an input",
                           &run->in[i]))
            return no_memory(diag, "for an input");
        if (tensor->bytes > 0)
            memcpy(run->in[i].data, tensor->data, (size_t)tensor->bytes);
        if (tensor->rank > 0)
            memcpy(run->in_dims[i], tensor->dims, tensor->rank * sizeof tensor->dims[0]);
        run->ins[i] = (inlay_tensor_arg){ .dims = run->in_dims[i], .rank = tensor->rank, .dtype = tensor->dtype };
        status = place_buffer(run, i, run->harness->in_domains[i], &run->in[i], &run->ins[i].buffer, diag);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

/* The input whose buffer the output shares, INLAY_NONE if it has a separate buffer. */
static uint32_t alias_of(const struct run_state *run, uint32_t output)
{
    const inlay_output_plan *plan = &run->harness->plans[output];

    INLAY_CHECK(output < run->harness->built->output_count);
    if (!run->options->in_place || plan->kind != INLAY_OUTPUT_KNOWN)
        return INLAY_NONE;
    for (uint32_t other = 0; other < output; other++)
        if (run->harness->plans[other].alias == plan->alias)
            return INLAY_NONE;
    return plan->alias;
}

static inlay_status prepare_output(struct run_state *run, uint32_t out, inlay_diag *diag)
{
    const inlay_value_state *state = &run->harness->built->states[run->harness->built->outputs[out]];
    const inlay_output_plan *plan = &run->harness->plans[out];
    uint32_t alias = alias_of(run, out);
    size_t bytes = (size_t)plan->max_bytes;
    int64_t count;

    run->outs[out] = (inlay_tensor_arg){ .dims = run->out_dims[out],
                                         .dtype = state->dtype,
                                         .rank = state->rank == INLAY_RANK_UNKNOWN ? 0 : state->rank };
    for (uint32_t d = 0; d < run->outs[out].rank; d++)
        run->out_dims[out][d] = state->dims[d];
    if (plan->kind == INLAY_OUTPUT_ALLOCATED)
        return INLAY_OK;
    if (plan->kind == INLAY_OUTPUT_KNOWN &&
        (!dims_count(run->out_dims[out], run->outs[out].rank, &count) || !dtype_bytes(state->dtype, count, &bytes)))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the shape of output %u is not known", out);
    if (bytes > MAX_OUTPUT)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "output %u would take %zu bytes", out, bytes);
    if (alias != INLAY_NONE) {
        if (run->in[alias].bytes < bytes) {
            fault(run->result, "set an alias for equal sizes only", "output %u of %zu bytes may share input %u of %zu",
                  out, bytes, alias, run->in[alias].bytes);
            return inlay_fail(diag, INLAY_INTERNAL, "the alias is too small");
        }
        run->outs[out].buffer = run->ins[alias].buffer;
        return INLAY_OK;
    }
    if (!guarded_alloc(bytes, alignment_of(run, state->dtype), run->options->fill, "past the end of an output",
                       &run->out[out]))
        return no_memory(diag, "for an output");
    return place_buffer(run, CASE_INPUTS + out, run->harness->out_domains[out], &run->out[out], &run->outs[out].buffer,
                        diag);
}

/* ------------------------------------------------------------------ after */

static inlay_status collect_output(struct run_state *run, uint32_t out_index, inlay_diag *diag)
{
    harness_output *out = &run->result->out[out_index];
    const inlay_output_plan *plan = &run->harness->plans[out_index];
    uint32_t alias = alias_of(run, out_index);
    const struct guarded *memory = alias != INLAY_NONE ? &run->in[alias] : &run->out[out_index];
    const device_tensor *device = &run->device[alias != INLAY_NONE ? alias : CASE_INPUTS + out_index];
    size_t bytes;

    if (plan->kind == INLAY_OUTPUT_ALLOCATED && !run->allocated[out_index]) {
        fault(run->result, "call inlay_host.output_alloc for each ALLOCATED output", "output %u was never allocated",
              out_index);
        return INLAY_OK;
    }
    *out = (harness_output){ .dtype = run->outs[out_index].dtype, .rank = run->outs[out_index].rank };
    memcpy(out->dims, run->out_dims[out_index], sizeof out->dims);
    if (!dims_count(out->dims, out->rank, &out->count) || !dtype_bytes(out->dtype, out->count, &bytes) ||
        bytes > memory->bytes) {
        fault(run->result, "write the dims of BOUNDED outputs, within max_bytes",
              "output %u has dims that exceed its %zu bytes", out_index, memory->bytes);
        return INLAY_OK;
    }
    out->bytes = bytes;
    out->data = arena_alloc(&run->result->arena, bytes + 1);
    if (out->data == NULL)
        return no_memory(diag, "for an output");
    if (device->whole.handle != 0 && bytes > 0)
        return device_copy(&run->link, out->data, &device->given, bytes, false, diag);
    if (bytes > 0)
        memcpy(out->data, memory->data, bytes);
    return INLAY_OK;
}

/* Verifies the margins of device buffers, and that the inputs there are unchanged. */
static inlay_status check_device_memory(struct run_state *run, inlay_diag *diag)
{
    for (uint32_t i = 0; i < sizeof run->device / sizeof run->device[0]; i++) {
        const case_tensor *tensor =
            i < run->harness->built->input_count ? &run->harness->entry->in[run->harness->built->input_of[i]] : NULL;
        bool damaged, shared = false;
        inlay_status status;
        void *data;

        if (run->device[i].whole.handle == 0)
            continue;
        status = device_tensor_read(&run->link, &run->device[i], &run->result->arena, &data, &damaged, diag);
        if (status != INLAY_OK)
            return status;
        for (uint32_t o = 0; o < run->harness->built->output_count; o++)
            shared |= alias_of(run, o) == i;
        if (damaged)
            fault(run->result, "respect offset and bytes of the inlay_buffer, also in copies",
                  "it wrote outside %s %u in device memory",
                  i < CASE_INPUTS                  ? "input"
                  : i < CASE_INPUTS + CASE_OUTPUTS ? "output"
                                                   : "the workspace, buffer",
                  i < CASE_INPUTS ? i : i - CASE_INPUTS);
        if (tensor != NULL && !shared && tensor->bytes > 0 && memcmp(data, tensor->data, (size_t)tensor->bytes) != 0)
            fault(run->result, "inputs are read-only unless the plan names an alias", "it changed input %u", i);
    }
    return INLAY_OK;
}

static void check_host_memory(struct run_state *run)
{
    const char *more = "the kernel writes out of bounds: check the remainder of its loop";

    if (guarded_is_damaged(&run->workspace))
        fault(run->result, "request more in specialize (kit: kit_plan.workspace_bytes), or write less",
              "it wrote outside the %llu bytes of workspace that it requested",
              (unsigned long long)run->harness->workspace_bytes);
    for (uint32_t i = 0; i < run->harness->built->input_count; i++) {
        const case_tensor *tensor = &run->harness->entry->in[run->harness->built->input_of[i]];
        bool shared = false;

        for (uint32_t o = 0; o < run->harness->built->output_count; o++)
            shared |= alias_of(run, o) == i;
        if (guarded_is_damaged(&run->in[i]))
            fault(run->result, more, "it wrote outside input %u", i);
        if (!shared && tensor->bytes > 0 && memcmp(run->in[i].data, tensor->data, (size_t)tensor->bytes) != 0)
            fault(run->result, "inputs are read-only unless the plan names an alias", "it changed input %u", i);
    }
    for (uint32_t o = 0; o < run->harness->built->output_count; o++)
        if (guarded_is_damaged(&run->out[o]))
            fault(run->result, more, "it wrote outside output %u", o);
}

static void release(struct run_state *run)
{
    for (size_t i = 0; i < sizeof run->device / sizeof run->device[0]; i++)
        free_tensor(run, i);
    for (uint32_t i = 0; i < CASE_INPUTS; i++)
        guarded_free(&run->in[i]);
    for (uint32_t o = 0; o < CASE_OUTPUTS; o++)
        guarded_free(&run->out[o]);
    guarded_free(&run->workspace);
    timeline_destroy(run->link.timeline);
    (void)pthread_mutex_destroy(&run->lock);
}

/* ------------------------------------------------------------------ inputs that are still being copied
 *
 * As in a host with several devices, copies and execute are queued behind a fence (the gate) that is signalled later.
 * The source of a copy holds garbage until then, so a provider that does not wait computes with garbage. */

struct gate {
    struct run_state *run;
    pthread_t thread;
    inlay_fence open;
    uint64_t timelines[CASE_INPUTS]; /* of the copies; 0: none */
    char *sources[CASE_INPUTS];
    bool is_running;
};

static void *open_gate(void *user)
{
    static const struct timespec pause = { 0, 2000000 };
    struct gate *gate = user;
    struct run_state *run = gate->run;
    const inlay_status status = run->options->poison;
    inlay_diag reason = INLAY_DIAG_INIT;

    (void)nanosleep(&pause, NULL);
    for (uint32_t i = 0; i < run->harness->built->input_count; i++)
        if (gate->sources[i] != NULL)
            memcpy(gate->sources[i], run->in[i].data, run->in[i].bytes);
    if (status != INLAY_OK)
        (void)inlay_fail(&reason, status, "the checker signals this fence with a failure");
    fence_signal(gate->open, status, status != INLAY_OK ? &reason : NULL);
    return NULL;
}

/* Queues the copy into a device input, which holds garbage until the copy is done. */
static inlay_status queue_input(struct run_state *run, struct gate *gate, uint32_t i, inlay_diag *diag)
{
    const loaded_provider *provider = run->harness->provider;
    inlay_buffer here = { .bytes = run->in[i].bytes };
    char *source = arena_alloc(&run->result->arena, run->in[i].bytes + 1);
    inlay_status status;

    INLAY_CHECK(run->wait_count < CASE_INPUTS);
    if (source == NULL)
        return no_memory(diag, "for an input");
    memset(source, GARBAGE, run->in[i].bytes + 1);
    status = timeline_create(&gate->timelines[i], diag);
    if (status != INLAY_OK)
        return status;
    here.handle = (uintptr_t)source;
    run->waits[run->wait_count] = (inlay_fence){ gate->timelines[i], 1 };
    phase(run, "buffer_copy after a fence");
    status = provider->table->buffer_copy(provider->state, NULL, &here, &run->device[i].given, &gate->open, 1,
                                          run->waits[run->wait_count], diag);
    if (status == INLAY_OK) {
        gate->sources[i] = source;
        run->wait_count++;
    }
    return status;
}

static bool is_queued(const struct run_state *run, uint32_t input)
{
    return run->device[input].whole.handle != 0 && run->in[input].bytes > 0;
}

static inlay_status queue_inputs(struct run_state *run, struct gate *gate, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    *gate = (struct gate){ .run = run, .open.value = 1 };
    /* Fill all inputs before the first copy is queued: a synchronous fill would wait behind that copy. */
    for (uint32_t i = 0; i < run->harness->built->input_count; i++)
        if (is_queued(run, i))
            INLAY_TRY(device_tensor_fill(&run->link, &run->device[i], NULL, GARBAGE, &run->result->arena, diag));
    INLAY_TRY(timeline_create(&gate->open.timeline, diag));
    for (uint32_t i = 0; i < run->harness->built->input_count; i++)
        if (is_queued(run, i))
            INLAY_TRY(queue_input(run, gate, i, diag));
done:
    /* Opens the gate also after a failure, because queued copies wait for it. */
    gate->is_running = gate->open.timeline != 0 && pthread_create(&gate->thread, NULL, open_gate, gate) == 0;
    if (!gate->is_running && gate->open.timeline != 0)
        (void)open_gate(gate);
    return status;
}

static void close_gate(struct run_state *run, struct gate *gate)
{
    inlay_diag ignored = INLAY_DIAG_INIT;
    inlay_status settled = INLAY_OK;

    if (gate->is_running)
        (void)pthread_join(gate->thread, NULL);
    for (uint32_t wait = 0; wait < run->wait_count; wait++)
        settled = fence_wait_uncancelled(run->waits[wait], &ignored); /* done or failed: the source is no longer read */
    (void)settled;
    for (uint32_t i = 0; i < CASE_INPUTS; i++)
        timeline_destroy(gate->timelines[i]);
    timeline_destroy(gate->open.timeline);
    run->wait_count = 0;
}

/* ------------------------------------------------------------------ the call */

/* Calls bind for the addresses of this run. */
static inlay_status bind_run(const struct run_state *run, inlay_exec_args *args, inlay_diag *diag)
{
    const struct harness *harness = run->harness;
    const inlay_bind_args with = { .struct_size = sizeof with,
                                   .inputs = args->inputs,
                                   .outputs = args->outputs,
                                   .input_count = args->input_count,
                                   .output_count = args->output_count,
                                   .arg_stride = args->arg_stride,
                                   .workspace = args->workspace };
    inlay_status status;

    if (harness->provider->table->bind == NULL)
        return INLAY_OK;
    phase(run, "bind");
    status = harness->provider->table->bind(harness->provider->state, harness->compiled, harness->instance, &with,
                                            &args->binding, diag);
    return status == INLAY_UNSUPPORTED ? INLAY_OK : status;
}

static inlay_status call(struct run_state *run, inlay_diag *diag)
{
    static const uint32_t never;
    const struct harness *harness = run->harness;
    const uint32_t *cancel = run->options->cancel != NULL ? run->options->cancel : &never;
    inlay_run hooks = { .cancel = cancel,
                        .max_threads = harness->threads,
                        .ctx = run,
                        .output_alloc = allocate_output,
                        .string_alloc = allocate_string };
    inlay_exec_args args = { .struct_size = sizeof args,
                             .run = &hooks,
                             .inputs = run->ins,
                             .outputs = run->outs,
                             .input_count = harness->built->input_count,
                             .output_count = harness->built->output_count,
                             .arg_stride = sizeof run->ins[0],
                             .cancel = cancel,
                             .diag = diag };
    const bool queued = run->options->queued && (harness->provider->table->flags & INLAY_PROVIDER_ASYNC) != 0;
    inlay_status status = INLAY_OK;
    heap_counts before;
    double begin;
    struct gate gate = { .run = run };

    if (harness->workspace_bytes > 0)
        INLAY_TRY(place_buffer(run, CASE_INPUTS + CASE_OUTPUTS, harness_default_domain(run->harness->provider),
                               &run->workspace, &args.workspace, diag));
    if (queued)
        INLAY_TRY(queue_inputs(run, &gate, diag));
    args.waits = run->waits;
    args.wait_count = run->wait_count;
    args.signal = device_point(&run->link);
    if (queued || (harness->provider->table->flags & INLAY_PROVIDER_ASYNC) ==
                      0) /* asynchronous providers run both with and without a binding */
        INLAY_TRY(bind_run(run, &args, diag));
    before = heap_read_counts();
    phase(run, "execute");
    begin = clock_ns();
    status = harness->provider->table->execute(harness->provider->state, harness->compiled, harness->instance, &args);
    if (status == INLAY_OK)
        status = device_wait(&run->link, args.signal, diag);
    run->result->ns = (double)(clock_ns() - begin);
    run->result->heap_calls = heap_read_counts().calls - before.calls;
    run->result->threads = heap_read_counts().threads - before.threads;
    phase(run, "the checker");
done:
    if (queued)
        close_gate(run, &gate);
    if (args.binding != NULL)
        harness->provider->table->release_binding(harness->provider->state, harness->compiled, harness->instance,
                                                  args.binding);
    return status;
}

inlay_status harness_run(const struct harness *harness, const harness_options *options, harness_result *out,
                         inlay_diag *diag)
{
    struct run_state run = {
        .harness = harness, .options = options, .result = out, .link.provider = harness->provider
    };
    inlay_status status;

    INLAY_CHECK(harness->built->output_count <= CASE_OUTPUTS);
    memset(out, 0, sizeof *out);
    (void)pthread_mutex_init(&run.lock, NULL);
    INLAY_TRY(timeline_create(&run.link.timeline, diag));
    INLAY_TRY(prepare_inputs(&run, diag));
    for (uint32_t o = 0; o < harness->built->output_count; o++)
        INLAY_TRY(prepare_output(&run, o, diag));
    if (!guarded_alloc((size_t)harness->workspace_bytes, (size_t)harness->workspace_alignment, options->fill,
                       "past the end of the workspace that it requested", &run.workspace)) {
        status = no_memory(diag, "for a workspace of %llu bytes", (unsigned long long)harness->workspace_bytes);
        goto done;
    }
    INLAY_TRY(call(&run, diag));
    check_host_memory(&run);
    INLAY_TRY(check_device_memory(&run, diag));
    out->out_count = harness->built->output_count;
    for (uint32_t o = 0; o < out->out_count; o++)
        INLAY_TRY(collect_output(&run, o, diag));
done:
    release(&run);
    return status;
}

void harness_result_deinit(harness_result *result)
{
    arena_deinit(&result->arena);
    result->out_count = 0;
}
