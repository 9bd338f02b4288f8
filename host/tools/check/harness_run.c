/* Runs a specialised case once: allocates every tensor, calls execute, and checks memory and results. */
#include "base/checked.h"
#include "base/provider_calls.h"
#include "check/harness_run.h"
#include "threads/fence.h"
#include "threads/run.h"
#include "inlay/check.h"
#include <pthread.h>
#include <string.h>

enum { ALIGN = 64, MAX_OUTPUT = 1 << 30, POISON = 0xa5 };

void run_fault(harness_result *result, const char *fix, const char *format, ...)
{
    va_list args;

    if (result->fault[0] != '\0')
        return;
    va_start(args, format);
    (void)vsnprintf(result->fault, sizeof result->fault, format, args);
    va_end(args);
    result->fault_fix = fix;
}

void run_phase(const struct run_state *run, const char *what)
{
    if (!run->options->quiet)
        check_phase(run->harness->check, what);
}

/* Creates the buffer of a tensor: the host memory itself, or a device buffer with a copy of its content. */
inlay_status run_place_buffer(struct run_state *run, uint32_t index, uint32_t domain, const struct guarded *host,
                              inlay_buffer *out, inlay_diag *diag)
{
    device_tensor *tensor = &run->device[index];
    inlay_status status;

    INLAY_CHECK(index < sizeof run->device / sizeof run->device[0]);
    *out = (inlay_buffer){ .handle = (uintptr_t)host->data, .bytes = host->bytes };
    if (domain == INLAY_DOMAIN_HOST) {
        if (run->options->tight) { /* a part of a larger buffer */
            out->handle -= ALIGN;
            out->offset = ALIGN;
        }
        return INLAY_OK;
    }
    run_phase(run, "buffer_alloc");
    status =
        device_tensor_alloc(run->harness->provider, domain, host->bytes,
                            index == CASE_INPUTS + CASE_OUTPUTS ? run->harness->workspace_alignment : 0, tensor, diag);
    run_phase(run, "buffer_copy");
    if (status == INLAY_OK)
        status = device_tensor_fill(&run->link, tensor, host->data, run->options->fill, &run->result->arena, diag);
    *out = tensor->given;
    return status;
}

static void free_tensor(struct run_state *run, size_t index)
{
    const loaded_provider *provider = run->harness->provider;

    if (run->device[index].whole.handle != 0)
        call_free(provider->table, provider->state, &run->device[index].whole);
    run->device[index] = (device_tensor){ .margin = 0 };
}

inlay_status run_allocate_output(void *ctx, uint32_t output, uint32_t rank, const int64_t *dims, inlay_buffer *out)
{
    struct run_state *run = ctx;
    size_t bytes;
    int64_t count;

    if (output >= run->harness->built->output_count || run->harness->plans[output].kind != INLAY_OUTPUT_ALLOCATED) {
        run_fault(run->result, "call it for ALLOCATED outputs only, with their index in the outputs of the request",
                  "it called output_alloc for output %u", output);
        return INLAY_INVALID_ARGUMENT;
    }
    if (rank > INLAY_MAX_RANK || !dims_count(dims, rank, &count) ||
        !dtype_bytes(run->frame.outs[output].arg.dtype, count, &bytes) || bytes > MAX_OUTPUT) {
        run_fault(run->result, "compute the shape from the inputs", "it requested an output of an impossible shape");
        return INLAY_SHAPE_MISMATCH;
    }
    free_tensor(run, CASE_INPUTS + output); /* of an earlier call for the same output */
    guarded_free(&run->out[output]);
    if (!guarded_alloc(bytes, ALIGN, run->options->fill, "past the end of an output that it allocated",
                       &run->out[output]))
        return INLAY_OUT_OF_MEMORY;
    run->allocated[output] = true;
    shown_frame(run)->outs[output].arg.rank = rank;
    if (rank > 0)
        memcpy(shown_frame(run)->out_dims[output], dims, rank * sizeof *dims);
    return run_place_buffer(run, CASE_INPUTS + output, run->harness->out_domains[output], &run->out[output], out, NULL);
}

char *run_allocate_string(void *ctx, uint64_t bytes)
{
    struct run_state *run = ctx;
    char *text;

    (void)pthread_mutex_lock(&run->lock);
    text = bytes < MAX_OUTPUT ? arena_alloc(&run->result->arena, (size_t)bytes) : NULL;
    (void)pthread_mutex_unlock(&run->lock);
    return text;
}

static size_t element_alignment(inlay_dtype dtype)
{
    uint32_t bytes = inlay_dtype_bits(dtype) / 8;

    if (dtype == INLAY_STRING || dtype == INLAY_COMPLEX64 || dtype == INLAY_COMPLEX128)
        return 8;
    return bytes == 0 ? 1 : bytes;
}

/* A buffer of a tensor: aligned as the host's, or, with `tight`, to the element only. */
static bool tensor_alloc(const struct run_state *run, inlay_dtype dtype, size_t bytes, uint8_t fill,
                         const char *description, struct guarded *out)
{
    return run->options->tight ? guarded_alloc_exact(bytes, element_alignment(dtype), fill, description, out)
                               : guarded_alloc(bytes, ALIGN, fill, description, out);
}

static inlay_status prepare_inputs(struct run_state *run, inlay_diag *diag)
{
    for (uint32_t i = 0; i < run->harness->built->input_count; i++) {
        const case_tensor *tensor = &run->entry->in[run->harness->built->input_of[i]];
        inlay_status status;

        if (!tensor_alloc(run, tensor->dtype, (size_t)tensor->bytes, 0, "past the end of an input", &run->in[i]))
            return no_memory(diag, "for an input");
        if (tensor->bytes > 0)
            memcpy(run->in[i].data, tensor->data, (size_t)tensor->bytes);
        if (tensor->rank > 0)
            memcpy(run->frame.in_dims[i], tensor->dims, tensor->rank * sizeof tensor->dims[0]);
        run->frame.ins[i].arg = (inlay_tensor_arg){ .rank = tensor->rank, .dtype = tensor->dtype };
        status =
            run_place_buffer(run, i, run->harness->in_domains[i], &run->in[i], &run->frame.ins[i].arg.buffer, diag);
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
    inlay_tensor_arg *arg = &run->frame.outs[out].arg;
    uint32_t alias = alias_of(run, out);
    size_t bytes = (size_t)plan->max_bytes;
    int64_t count;

    *arg = (inlay_tensor_arg){ .dtype = state->dtype, .rank = state->rank == INLAY_RANK_UNKNOWN ? 0 : state->rank };
    for (uint32_t d = 0; d < arg->rank; d++)
        run->frame.out_dims[out][d] =
            plan->kind == INLAY_OUTPUT_BOUNDED ? -1 : state->dims[d]; /* execute writes them */
    if (plan->kind == INLAY_OUTPUT_ALLOCATED)
        return INLAY_OK;
    if (plan->kind == INLAY_OUTPUT_KNOWN &&
        (!dims_count(run->frame.out_dims[out], arg->rank, &count) || !dtype_bytes(state->dtype, count, &bytes)))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the shape of output %u is not known", out);
    if (bytes > MAX_OUTPUT)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "output %u would take %zu bytes", out, bytes);
    if (alias != INLAY_NONE) {
        if (run->in[alias].bytes < bytes) {
            run_fault(run->result, "set an alias for equal sizes only",
                      "output %u of %zu bytes may share input %u of %zu", out, bytes, alias, run->in[alias].bytes);
            return inlay_fail(diag, INLAY_INTERNAL, "the alias is too small");
        }
        arg->buffer = run->frame.ins[alias].arg.buffer;
        return INLAY_OK;
    }
    if (!tensor_alloc(run, state->dtype, bytes, run->options->fill, "past the end of an output", &run->out[out]))
        return no_memory(diag, "for an output");
    return run_place_buffer(run, CASE_INPUTS + out, run->harness->out_domains[out], &run->out[out], &arg->buffer, diag);
}

/* Makes the inputs in host memory read-only for execute, except those whose buffer an output shares. */
static void protect_inputs(struct run_state *run, bool read_only)
{
    for (uint32_t i = 0; i < run->harness->built->input_count; i++) {
        bool shared = run->device[i].whole.handle != 0 || run->in[i].bytes == 0;

        for (uint32_t o = 0; o < run->harness->built->output_count; o++)
            shared |= alias_of(run, o) == i;
        if (shared)
            continue;
        guarded_protect(&run->in[i], read_only);
        if (read_only)
            crash_describe_range(run->in[i].data, run->in[i].bytes, "of an input, which is read-only");
        else
            crash_forget_range(run->in[i].data);
    }
}

/* A size that infer states is the size of the result. */
static void check_inferred(struct run_state *run, uint32_t out_index)
{
    const inlay_value_state *state = &run->harness->built->states[run->harness->built->outputs[out_index]];
    const harness_output *out = &run->result->out[out_index];
    const char *fix = "in infer, set a size that depends on values to INLAY_DIM_UNKNOWN";

    if (state->rank == INLAY_RANK_UNKNOWN)
        return;
    if (state->rank != out->rank)
        run_fault(run->result, fix, "output %u has rank %u, but infer states %u", out_index, out->rank, state->rank);
    for (uint32_t d = 0; d < out->rank && d < state->rank; d++)
        if (state->dims[d] >= 0 && state->dims[d] != out->dims[d])
            run_fault(run->result, fix, "output %u has size %lld along axis %u, but infer states %lld", out_index,
                      (long long)out->dims[d], d, (long long)state->dims[d]);
}

static inlay_status collect_output(struct run_state *run, uint32_t out_index, inlay_diag *diag)
{
    harness_output *out = &run->result->out[out_index];
    const inlay_output_plan *plan = &run->harness->plans[out_index];
    uint32_t alias = alias_of(run, out_index);
    const struct guarded *memory = alias != INLAY_NONE ? &run->in[alias] : &run->out[out_index];
    const device_tensor *device = &run->device[alias != INLAY_NONE ? alias : CASE_INPUTS + out_index];
    size_t bytes;

    if (plan->kind == INLAY_OUTPUT_ALLOCATED && !run->allocated[out_index]) {
        run_fault(run->result, "call inlay_host.output_alloc for each ALLOCATED output",
                  "output %u was never allocated", out_index);
        return INLAY_OK;
    }
    *out =
        (harness_output){ .dtype = run->frame.outs[out_index].arg.dtype, .rank = run->frame.outs[out_index].arg.rank };
    memcpy(out->dims, run->frame.out_dims[out_index], sizeof out->dims);
    if (!dims_count(out->dims, out->rank, &out->count) || !dtype_bytes(out->dtype, out->count, &bytes) ||
        bytes > memory->bytes) {
        run_fault(run->result, "write the dims of BOUNDED outputs, within max_bytes",
                  "output %u has dims that exceed its %zu bytes", out_index, memory->bytes);
        return INLAY_OK;
    }
    check_inferred(run, out_index);
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
            i < run->harness->built->input_count ? &run->entry->in[run->harness->built->input_of[i]] : NULL;
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
            run_fault(run->result, "respect offset and bytes of the inlay_buffer, also in copies",
                      "it wrote outside %s %u in device memory",
                      i < CASE_INPUTS                  ? "input"
                      : i < CASE_INPUTS + CASE_OUTPUTS ? "output"
                                                       : "the workspace, buffer",
                      i < CASE_INPUTS ? i : i - CASE_INPUTS);
        if (tensor != NULL && !shared && tensor->bytes > 0 && memcmp(data, tensor->data, (size_t)tensor->bytes) != 0)
            run_fault(run->result, "inputs are read-only unless the plan names an alias", "it changed input %u", i);
    }
    return INLAY_OK;
}

static void check_host_memory(struct run_state *run)
{
    const char *more = "the kernel writes out of bounds: check the remainder of its loop";

    if (guarded_is_damaged(&run->workspace))
        run_fault(run->result, "request more in specialize (kit: kit_plan.workspace_bytes), or write less",
                  "it wrote outside the %llu bytes of workspace that it requested",
                  (unsigned long long)run->harness->workspace_bytes);
    for (uint32_t i = 0; i < run->harness->built->input_count; i++) {
        const case_tensor *tensor = &run->entry->in[run->harness->built->input_of[i]];
        bool shared = false;

        for (uint32_t o = 0; o < run->harness->built->output_count; o++)
            shared |= alias_of(run, o) == i;
        if (guarded_is_damaged(&run->in[i]))
            run_fault(run->result, more, "it wrote outside input %u", i);
        if (!shared && tensor->bytes > 0 && memcmp(run->in[i].data, tensor->data, (size_t)tensor->bytes) != 0)
            run_fault(run->result, "inputs are read-only unless the plan names an alias", "it changed input %u", i);
    }
    for (uint32_t o = 0; o < run->harness->built->output_count; o++)
        if (guarded_is_damaged(&run->out[o]))
            run_fault(run->result, more, "it wrote outside output %u", o);
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
    run_call_release(run);
    timeline_destroy(run->link.timeline);
    (void)pthread_mutex_destroy(&run->lock);
}

/* Writes the elements of the next case into the same buffers. */
static inlay_status replace_inputs(struct run_state *run, inlay_diag *diag)
{
    const struct harness *harness = run->harness;

    run->entry = run->options->then;
    memset(run->allocated, 0, sizeof run->allocated);
    for (uint32_t i = 0; i < harness->built->input_count; i++) {
        const case_tensor *tensor = &run->entry->in[harness->built->input_of[i]];
        inlay_status status;

        INLAY_CHECK(tensor->bytes == run->in[i].bytes);
        if (tensor->bytes == 0)
            continue;
        memcpy(run->in[i].data, tensor->data, (size_t)tensor->bytes);
        if (run->device[i].whole.handle == 0)
            continue;
        status = device_tensor_fill(&run->link, &run->device[i], tensor->data, 0, &run->result->arena, diag);
        if (status != INLAY_OK)
            return status;
    }
    if (run->options->poisoned && run->workspace.bytes > 0) {
        const device_tensor *device = &run->device[CASE_INPUTS + CASE_OUTPUTS];

        memset(run->workspace.data, POISON, run->workspace.bytes);
        if (device->whole.handle != 0)
            return device_tensor_fill(&run->link, device, NULL, POISON, &run->result->arena, diag);
    }
    return INLAY_OK;
}

inlay_status harness_run(const struct harness *harness, const harness_options *options, harness_result *out,
                         inlay_diag *diag)
{
    struct run_state run = { .harness = harness,
                             .entry = harness->entry,
                             .options = options,
                             .result = out,
                             .link.provider = harness->provider };
    inlay_status status;

    INLAY_CHECK(harness->built->output_count <= CASE_OUTPUTS);
    memset(out, 0, sizeof *out);
    (void)pthread_mutex_init(&run.lock, NULL);
    INLAY_TRY(timeline_create(&run.link.timeline, diag));
    INLAY_TRY(prepare_inputs(&run, diag));
    for (uint32_t o = 0; o < harness->built->output_count; o++)
        INLAY_TRY(prepare_output(&run, o, diag));
    if (!(options->tight ? guarded_alloc_exact : guarded_alloc)(
            (size_t)harness->workspace_bytes, (size_t)harness->workspace_alignment, options->fill,
            "past the end of the workspace that it requested", &run.workspace)) {
        status = no_memory(diag, "for a workspace of %llu bytes", (unsigned long long)harness->workspace_bytes);
        goto done;
    }
    protect_inputs(&run, true);
    INLAY_TRY(run_call(&run, diag));
    if (options->then != NULL) {
        protect_inputs(&run, false);
        INLAY_TRY(replace_inputs(&run, diag));
        protect_inputs(&run, true);
        INLAY_TRY(run_call(&run, diag));
    }
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
