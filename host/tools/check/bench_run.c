/* One run: memory for every tensor, the call, and a look at what it left behind. */
#include "base/checked.h"
#include "base/clock.h"
#include "check/bench.h"
#include "check/process.h"
#include "threads/fence.h"
#include "threads/run.h"
#include <pthread.h>
#include <string.h>
#include <time.h>

enum { ALIGN = 64, MAX_OUTPUT = 1 << 30, GARBAGE = 0x7f };

/* Everything that a run holds. */
struct running {
    const struct bench *bench;
    const bench_how *how;
    bench_result *result;
    struct fenced in[CASE_INPUTS], out[CASE_OUTPUTS], workspace;
    device_tensor device[CASE_INPUTS + CASE_OUTPUTS + 1]; /* whole.handle 0: on the host; the last is the workspace */
    int64_t in_dims[CASE_INPUTS][CASE_RANK], out_dims[CASE_OUTPUTS][INLAY_MAX_RANK];
    inlay_tensor_arg ins[CASE_INPUTS], outs[CASE_OUTPUTS];
    bool allocated[CASE_OUTPUTS];
    pthread_mutex_t lock;
    device_link link;
    inlay_fence waits[CASE_INPUTS];
    uint32_t wait_count;
};

static void fault(bench_result *result, const char *fix, const char *format, ...)
{
    va_list args;

    if (result->fault[0] != '\0')
        return;
    va_start(args, format);
    (void)vsnprintf(result->fault, sizeof result->fault, format, args);
    va_end(args);
    result->fault_fix = fix;
}

static void phase(const struct running *running, const char *what)
{
    if (!running->how->silent)
        check_phase(running->bench->check, what);
}

/* ------------------------------------------------------------------ devices */

static uint32_t work_domain(const struct running *running)
{
    const loaded_provider *provider = running->bench->provider;

    return provider->table->default_domain == 0 ? INLAY_DOMAIN_HOST
                                                : provider->first_domain + provider->table->default_domain - 1;
}

/* The buffer of a tensor: the host's memory itself, or one on the device that begins as the host's does. */
static inlay_status place(struct running *running, uint32_t index, uint32_t domain, const struct fenced *host,
                          inlay_buffer *out, inlay_diag *diag)
{
    device_tensor *tensor = &running->device[index];
    inlay_status status;

    *out = (inlay_buffer){ .handle = (uintptr_t)host->data, .bytes = host->bytes };
    if (domain == INLAY_DOMAIN_HOST)
        return INLAY_OK;
    phase(running, "buffer_alloc");
    status = device_tensor_alloc(running->bench->provider, domain, host->bytes, tensor, diag);
    phase(running, "buffer_copy");
    if (status == INLAY_OK)
        status =
            device_tensor_fill(&running->link, tensor, host->data, running->how->fill, &running->result->arena, diag);
    *out = tensor->given;
    return status;
}

/* ------------------------------------------------------------------ hooks of the run */

static inlay_status give_output(void *ctx, uint32_t output, uint32_t rank, const int64_t *dims, inlay_buffer *out)
{
    struct running *running = ctx;
    size_t bytes;
    int64_t count;

    if (output >= running->bench->one->output_count || running->bench->plans[output].kind != INLAY_OUTPUT_ALLOCATED) {
        fault(running->result, "ask for ALLOCATED outputs only, by their place in the request's outputs",
              "it called output_alloc for output %u", output);
        return INLAY_INVALID_ARGUMENT;
    }
    if (rank > INLAY_MAX_RANK || !dims_count(dims, rank, &count) ||
        !dtype_bytes(running->outs[output].dtype, count, &bytes) || bytes > MAX_OUTPUT) {
        fault(running->result, "compute the shape from the inputs", "it asked for an output of an impossible shape");
        return INLAY_SHAPE_MISMATCH;
    }
    fenced_free(&running->out[output]);
    if (!fenced_alloc(bytes, ALIGN, running->how->fill, "behind an output that it allocated", &running->out[output]))
        return INLAY_OUT_OF_MEMORY;
    running->allocated[output] = true;
    running->outs[output].rank = rank;
    if (rank > 0)
        memcpy(running->out_dims[output], dims, rank * sizeof *dims);
    return place(running, CASE_INPUTS + output, running->bench->out_domains[output], &running->out[output], out, NULL);
}

static char *give_string(void *ctx, uint64_t bytes)
{
    struct running *running = ctx;
    char *text;

    (void)pthread_mutex_lock(&running->lock);
    text = bytes < MAX_OUTPUT ? arena_alloc(&running->result->arena, (size_t)bytes) : NULL;
    (void)pthread_mutex_unlock(&running->lock);
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

static size_t alignment_of(const struct running *running, inlay_dtype dtype)
{
    return running->how->tight ? element_alignment(dtype) : ALIGN;
}

static inlay_status prepare_inputs(struct running *running, inlay_diag *diag)
{
    for (uint32_t i = 0; i < running->bench->one->input_count; i++) {
        const case_tensor *tensor = &running->bench->entry->in[running->bench->one->input_of[i]];
        inlay_status status;

        if (!fenced_alloc((size_t)tensor->bytes, alignment_of(running, tensor->dtype), 0, "behind the end of an input",
                          &running->in[i]))
            return no_memory(diag, "for an input");
        if (tensor->bytes > 0)
            memcpy(running->in[i].data, tensor->data, (size_t)tensor->bytes);
        if (tensor->rank > 0)
            memcpy(running->in_dims[i], tensor->dims, tensor->rank * sizeof tensor->dims[0]);
        running->ins[i] =
            (inlay_tensor_arg){ .dims = running->in_dims[i], .rank = tensor->rank, .dtype = tensor->dtype };
        status = place(running, i, running->bench->in_domains[i], &running->in[i], &running->ins[i].buffer, diag);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

/* The input whose buffer output o uses, INLAY_NONE if it has its own. */
static uint32_t alias_of(const struct running *running, uint32_t o)
{
    const inlay_output_plan *plan = &running->bench->plans[o];

    if (!running->how->in_place || plan->kind != INLAY_OUTPUT_KNOWN)
        return INLAY_NONE;
    for (uint32_t other = 0; other < o; other++)
        if (running->bench->plans[other].alias == plan->alias)
            return INLAY_NONE;
    return plan->alias;
}

static inlay_status prepare_output(struct running *running, uint32_t out, inlay_diag *diag)
{
    const inlay_value_state *state = &running->bench->one->states[running->bench->one->outputs[out]];
    const inlay_output_plan *plan = &running->bench->plans[out];
    uint32_t alias = alias_of(running, out);
    size_t bytes = (size_t)plan->max_bytes;
    int64_t count;

    running->outs[out] = (inlay_tensor_arg){ .dims = running->out_dims[out],
                                             .dtype = state->dtype,
                                             .rank = state->rank == INLAY_RANK_UNKNOWN ? 0 : state->rank };
    for (uint32_t d = 0; d < running->outs[out].rank; d++)
        running->out_dims[out][d] = state->dims[d];
    if (plan->kind == INLAY_OUTPUT_ALLOCATED)
        return INLAY_OK;
    if (plan->kind == INLAY_OUTPUT_KNOWN && (!dims_count(running->out_dims[out], running->outs[out].rank, &count) ||
                                             !dtype_bytes(state->dtype, count, &bytes)))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the shape of output %u is not known", out);
    if (bytes > MAX_OUTPUT)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "output %u would take %zu bytes", out, bytes);
    if (alias != INLAY_NONE) {
        if (running->in[alias].bytes < bytes) {
            fault(running->result, "offer an alias for equal sizes only",
                  "output %u of %zu bytes may share input %u of %zu", out, bytes, alias, running->in[alias].bytes);
            return inlay_fail(diag, INLAY_INTERNAL, "an alias that does not fit");
        }
        running->outs[out].buffer = running->ins[alias].buffer;
        return INLAY_OK;
    }
    if (!fenced_alloc(bytes, alignment_of(running, state->dtype), running->how->fill, "behind the end of an output",
                      &running->out[out]))
        return no_memory(diag, "for an output");
    return place(running, CASE_INPUTS + out, running->bench->out_domains[out], &running->out[out],
                 &running->outs[out].buffer, diag);
}

/* ------------------------------------------------------------------ after */

static inlay_status collect_output(struct running *running, uint32_t out_index, inlay_diag *diag)
{
    bench_output *out = &running->result->out[out_index];
    const inlay_output_plan *plan = &running->bench->plans[out_index];
    uint32_t alias = alias_of(running, out_index);
    const struct fenced *memory = alias != INLAY_NONE ? &running->in[alias] : &running->out[out_index];
    const device_tensor *device = &running->device[alias != INLAY_NONE ? alias : CASE_INPUTS + out_index];
    size_t bytes;

    if (plan->kind == INLAY_OUTPUT_ALLOCATED && !running->allocated[out_index]) {
        fault(running->result, "call inlay_host.output_alloc for each ALLOCATED output",
              "output %u was never allocated", out_index);
        return INLAY_OK;
    }
    *out = (bench_output){ .dtype = running->outs[out_index].dtype, .rank = running->outs[out_index].rank };
    memcpy(out->dims, running->out_dims[out_index], sizeof out->dims);
    if (!dims_count(out->dims, out->rank, &out->count) || !dtype_bytes(out->dtype, out->count, &bytes) ||
        bytes > memory->bytes) {
        fault(running->result, "write the dims of BOUNDED outputs, within max_bytes",
              "output %u has dims that its %zu bytes do not hold", out_index, memory->bytes);
        return INLAY_OK;
    }
    out->bytes = bytes;
    out->data = arena_alloc(&running->result->arena, bytes + 1);
    if (out->data == NULL)
        return no_memory(diag, "for an output");
    if (device->whole.handle != 0 && bytes > 0)
        return device_copy(&running->link, out->data, &device->given, bytes, false, diag);
    if (bytes > 0)
        memcpy(out->data, memory->data, bytes);
    return INLAY_OK;
}

/* Margins on the device, and inputs there. */
static inlay_status look_at_device(struct running *running, inlay_diag *diag)
{
    for (uint32_t i = 0; i < sizeof running->device / sizeof running->device[0]; i++) {
        const case_tensor *tensor =
            i < running->bench->one->input_count ? &running->bench->entry->in[running->bench->one->input_of[i]] : NULL;
        bool hurt, shared = false;
        inlay_status status;
        void *data;

        if (running->device[i].whole.handle == 0)
            continue;
        status = device_tensor_read(&running->link, &running->device[i], &running->result->arena, &data, &hurt, diag);
        if (status != INLAY_OK)
            return status;
        for (uint32_t o = 0; o < running->bench->one->output_count; o++)
            shared |= alias_of(running, o) == i;
        if (hurt)
            fault(running->result, "keep to offset and bytes of the inlay_buffer, in copies, too",
                  "it wrote outside %s %u in device memory",
                  i < CASE_INPUTS                  ? "input"
                  : i < CASE_INPUTS + CASE_OUTPUTS ? "output"
                                                   : "the workspace, buffer",
                  i < CASE_INPUTS ? i : i - CASE_INPUTS);
        if (tensor != NULL && !shared && tensor->bytes > 0 && memcmp(data, tensor->data, (size_t)tensor->bytes) != 0)
            fault(running->result, "inputs are read-only unless the plan names an alias", "it changed input %u", i);
    }
    return INLAY_OK;
}

static void look_for_damage(struct running *running)
{
    const char *more = "the kernel writes further than it should: look at the tail of its loop";

    if (fenced_is_hurt(&running->workspace))
        fault(running->result, "ask for more in specialize (kit: kit_plan.workspace_bytes), or write less",
              "it wrote outside the %llu bytes of workspace that it asked for",
              (unsigned long long)running->bench->workspace_bytes);
    for (uint32_t i = 0; i < running->bench->one->input_count; i++) {
        const case_tensor *tensor = &running->bench->entry->in[running->bench->one->input_of[i]];
        bool shared = false;

        for (uint32_t o = 0; o < running->bench->one->output_count; o++)
            shared |= alias_of(running, o) == i;
        if (fenced_is_hurt(&running->in[i]))
            fault(running->result, more, "it wrote outside input %u", i);
        if (!shared && tensor->bytes > 0 && memcmp(running->in[i].data, tensor->data, (size_t)tensor->bytes) != 0)
            fault(running->result, "inputs are read-only unless the plan names an alias", "it changed input %u", i);
    }
    for (uint32_t o = 0; o < running->bench->one->output_count; o++)
        if (fenced_is_hurt(&running->out[o]))
            fault(running->result, more, "it wrote outside output %u", o);
}

static void release(struct running *running)
{
    const loaded_provider *provider = running->bench->provider;

    for (size_t i = 0; i < sizeof running->device / sizeof running->device[0]; i++)
        if (running->device[i].whole.handle != 0)
            provider->table->buffer_free(provider->state, &running->device[i].whole);
    for (uint32_t i = 0; i < CASE_INPUTS; i++)
        fenced_free(&running->in[i]);
    for (uint32_t o = 0; o < CASE_OUTPUTS; o++)
        fenced_free(&running->out[o]);
    fenced_free(&running->workspace);
    timeline_destroy(running->link.timeline);
    (void)pthread_mutex_destroy(&running->lock);
}

/* ------------------------------------------------------------------ inputs that are still being made
 *
 * What a host does with several devices: copies and execute are queued behind a gate that opens later. The source of a
 * copy holds garbage until then, so who does not wait computes with garbage. */

struct gate {
    struct running *running;
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
    struct running *running = gate->running;
    const inlay_status status = running->how->poison;
    inlay_diag why = INLAY_DIAG_INIT;

    (void)nanosleep(&pause, NULL);
    for (uint32_t i = 0; i < running->bench->one->input_count; i++)
        if (gate->sources[i] != NULL)
            memcpy(gate->sources[i], running->in[i].data, running->in[i].bytes);
    if (status != INLAY_OK)
        (void)inlay_fail(&why, status, "the checker lets this fence fail");
    fence_signal(gate->open, status, status != INLAY_OK ? &why : NULL);
    return NULL;
}

/* A copy into an input, which holds garbage until it is done. */
static inlay_status queue_input(struct running *running, struct gate *gate, uint32_t i, inlay_diag *diag)
{
    const loaded_provider *provider = running->bench->provider;
    inlay_buffer here = { .bytes = running->in[i].bytes };
    char *source = arena_alloc(&running->result->arena, running->in[i].bytes + 1);
    inlay_status status;

    if (source == NULL)
        return no_memory(diag, "for an input");
    memset(source, GARBAGE, running->in[i].bytes + 1);
    status = timeline_create(&gate->timelines[i], diag);
    if (status != INLAY_OK)
        return status;
    here.handle = (uintptr_t)source;
    running->waits[running->wait_count] = (inlay_fence){ gate->timelines[i], 1 };
    phase(running, "buffer_copy behind a fence");
    status = provider->table->buffer_copy(provider->state, NULL, &here, &running->device[i].given, &gate->open, 1,
                                          running->waits[running->wait_count], diag);
    if (status == INLAY_OK) {
        gate->sources[i] = source;
        running->wait_count++;
    }
    return status;
}

static bool is_queued(const struct running *running, uint32_t input)
{
    return running->device[input].whole.handle != 0 && running->in[input].bytes > 0;
}

static inlay_status queue_inputs(struct running *running, struct gate *gate, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    *gate = (struct gate){ .running = running, .open.value = 1 };
    /* All of it before the first copy is queued: those that wait here would stand behind it. */
    for (uint32_t i = 0; i < running->bench->one->input_count; i++)
        if (is_queued(running, i))
            INLAY_TRY(
                device_tensor_fill(&running->link, &running->device[i], NULL, GARBAGE, &running->result->arena, diag));
    INLAY_TRY(timeline_create(&gate->open.timeline, diag));
    for (uint32_t i = 0; i < running->bench->one->input_count; i++)
        if (is_queued(running, i))
            INLAY_TRY(queue_input(running, gate, i, diag));
done:
    /* Also after a failure, for what is queued already. */
    gate->is_running = gate->open.timeline != 0 && pthread_create(&gate->thread, NULL, open_gate, gate) == 0;
    if (!gate->is_running && gate->open.timeline != 0)
        (void)open_gate(gate);
    return status;
}

static void close_gate(struct running *running, struct gate *gate)
{
    inlay_diag ignored = INLAY_DIAG_INIT;
    inlay_status settled = INLAY_OK;

    if (gate->is_running)
        (void)pthread_join(gate->thread, NULL);
    for (uint32_t wait = 0; wait < running->wait_count; wait++)
        settled = fence_settle(running->waits[wait], &ignored); /* done or failed: the source is not read any more */
    (void)settled;
    for (uint32_t i = 0; i < CASE_INPUTS; i++)
        timeline_destroy(gate->timelines[i]);
    timeline_destroy(gate->open.timeline);
    running->wait_count = 0;
}

/* ------------------------------------------------------------------ the call */

/* What the provider keeps for the addresses of this run. */
static inlay_status bind_run(const struct running *running, inlay_exec_args *args, inlay_diag *diag)
{
    const struct bench *bench = running->bench;
    const inlay_bind_args with = { .struct_size = sizeof with,
                                   .inputs = args->inputs,
                                   .outputs = args->outputs,
                                   .input_count = args->input_count,
                                   .output_count = args->output_count,
                                   .arg_stride = args->arg_stride,
                                   .workspace = args->workspace };
    inlay_status status;

    if (bench->provider->table->bind == NULL)
        return INLAY_OK;
    phase(running, "bind");
    status = bench->provider->table->bind(bench->provider->state, bench->compiled, bench->instance, &with,
                                          &args->binding, diag);
    return status == INLAY_UNSUPPORTED ? INLAY_OK : status;
}

static inlay_status call(struct running *running, inlay_diag *diag)
{
    static const uint32_t never;
    const struct bench *bench = running->bench;
    const uint32_t *cancel = running->how->cancel != NULL ? running->how->cancel : &never;
    inlay_run run = { .cancel = cancel,
                      .max_threads = bench->threads,
                      .ctx = running,
                      .output_alloc = give_output,
                      .string_alloc = give_string };
    inlay_exec_args args = { .struct_size = sizeof args,
                             .run = &run,
                             .inputs = running->ins,
                             .outputs = running->outs,
                             .input_count = bench->one->input_count,
                             .output_count = bench->one->output_count,
                             .arg_stride = sizeof running->ins[0],
                             .cancel = cancel,
                             .diag = diag };
    const bool queued = running->how->queued && (bench->provider->table->flags & INLAY_PROVIDER_ASYNC) != 0;
    inlay_status status = INLAY_OK;
    heap_counts before;
    double begin;
    struct gate gate = { .running = running };

    if (bench->workspace_bytes > 0)
        INLAY_TRY(place(running, CASE_INPUTS + CASE_OUTPUTS, work_domain(running), &running->workspace, &args.workspace,
                        diag));
    if (queued)
        INLAY_TRY(queue_inputs(running, &gate, diag));
    args.waits = running->waits;
    args.wait_count = running->wait_count;
    args.signal = device_point(&running->link);
    if (queued || (bench->provider->table->flags & INLAY_PROVIDER_ASYNC) == 0) /* others run with and without */
        INLAY_TRY(bind_run(running, &args, diag));
    before = heap_look();
    phase(running, "execute");
    begin = clock_ns();
    status = bench->provider->table->execute(bench->provider->state, bench->compiled, bench->instance, &args);
    if (status == INLAY_OK)
        status = device_wait(&running->link, args.signal, diag);
    running->result->ns = (double)(clock_ns() - begin);
    running->result->heap_calls = heap_look().calls - before.calls;
    running->result->threads = heap_look().threads - before.threads;
    phase(running, "the checker");
done:
    if (queued)
        close_gate(running, &gate);
    if (args.binding != NULL)
        bench->provider->table->release_binding(bench->provider->state, bench->compiled, bench->instance, args.binding);
    return status;
}

inlay_status bench_run(const struct bench *bench, const bench_how *how, bench_result *out, inlay_diag *diag)
{
    struct running running = { .bench = bench, .how = how, .result = out, .link.provider = bench->provider };
    inlay_status status;

    memset(out, 0, sizeof *out);
    (void)pthread_mutex_init(&running.lock, NULL);
    INLAY_TRY(timeline_create(&running.link.timeline, diag));
    INLAY_TRY(prepare_inputs(&running, diag));
    for (uint32_t o = 0; o < bench->one->output_count; o++)
        INLAY_TRY(prepare_output(&running, o, diag));
    if (!fenced_alloc((size_t)bench->workspace_bytes, (size_t)bench->workspace_alignment, how->fill,
                      "behind the end of the workspace that it asked for", &running.workspace)) {
        status = no_memory(diag, "for a workspace of %llu bytes", (unsigned long long)bench->workspace_bytes);
        goto done;
    }
    INLAY_TRY(call(&running, diag));
    look_for_damage(&running);
    INLAY_TRY(look_at_device(&running, diag));
    out->out_count = bench->one->output_count;
    for (uint32_t o = 0; o < out->out_count; o++)
        INLAY_TRY(collect_output(&running, o, diag));
done:
    release(&running);
    return status;
}

void bench_result_deinit(bench_result *result)
{
    arena_deinit(&result->arena);
    result->out_count = 0;
}
