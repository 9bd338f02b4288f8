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
    const struct bench *b;
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

static void fault(bench_result *r, const char *fix, const char *format, ...)
{
    va_list args;

    if (r->fault[0] != '\0')
        return;
    va_start(args, format);
    (void)vsnprintf(r->fault, sizeof r->fault, format, args);
    va_end(args);
    r->fault_fix = fix;
}

static void phase(const struct running *r, const char *what)
{
    if (!r->how->silent)
        check_phase(r->b->c, what);
}

/* ------------------------------------------------------------------ devices */

static uint32_t work_domain(const struct running *r)
{
    const loaded_provider *p = r->b->p;

    return p->table->default_domain == 0 ? INLAY_DOMAIN_HOST : p->first_domain + p->table->default_domain - 1;
}

/* The buffer of a tensor: the host's memory itself, or one on the device that begins as the host's does. */
static inlay_status place(struct running *r, uint32_t index, uint32_t domain, const struct fenced *host,
                          inlay_buffer *out, inlay_diag *diag)
{
    device_tensor *t = &r->device[index];
    inlay_status status;

    *out = (inlay_buffer){ .handle = (uintptr_t)host->data, .bytes = host->bytes };
    if (domain == INLAY_DOMAIN_HOST)
        return INLAY_OK;
    phase(r, "buffer_alloc");
    status = device_tensor_alloc(r->b->p, domain, host->bytes, t, diag);
    phase(r, "buffer_copy");
    if (status == INLAY_OK)
        status = device_tensor_fill(&r->link, t, host->data, r->how->fill, &r->result->a, diag);
    *out = t->given;
    return status;
}

/* ------------------------------------------------------------------ hooks of the run */

static inlay_status give_output(void *ctx, uint32_t output, uint32_t rank, const int64_t *dims, inlay_buffer *out)
{
    struct running *r = ctx;
    size_t bytes;
    int64_t count;

    if (output >= r->b->one->output_count || r->b->plans[output].kind != INLAY_OUTPUT_ALLOCATED) {
        fault(r->result, "ask for ALLOCATED outputs only, by their place in the request's outputs",
              "it called output_alloc for output %u", output);
        return INLAY_INVALID_ARGUMENT;
    }
    if (rank > INLAY_MAX_RANK || !dims_count(dims, rank, &count) ||
        !dtype_bytes(r->outs[output].dtype, count, &bytes) || bytes > MAX_OUTPUT) {
        fault(r->result, "compute the shape from the inputs", "it asked for an output of an impossible shape");
        return INLAY_SHAPE_MISMATCH;
    }
    fenced_free(&r->out[output]);
    if (!fenced_alloc(bytes, ALIGN, r->how->fill, "behind an output that it allocated", &r->out[output]))
        return INLAY_OUT_OF_MEMORY;
    r->allocated[output] = true;
    r->outs[output].rank = rank;
    if (rank > 0)
        memcpy(r->out_dims[output], dims, rank * sizeof *dims);
    return place(r, CASE_INPUTS + output, r->b->out_domains[output], &r->out[output], out, NULL);
}

static char *give_string(void *ctx, uint64_t bytes)
{
    struct running *r = ctx;
    char *text;

    (void)pthread_mutex_lock(&r->lock);
    text = bytes < MAX_OUTPUT ? arena_alloc(&r->result->a, (size_t)bytes) : NULL;
    (void)pthread_mutex_unlock(&r->lock);
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

static size_t alignment_of(const struct running *r, inlay_dtype dtype)
{
    return r->how->tight ? element_alignment(dtype) : ALIGN;
}

static inlay_status prepare_inputs(struct running *r, inlay_diag *diag)
{
    for (uint32_t i = 0; i < r->b->one->input_count; i++) {
        const case_tensor *t = &r->b->k->in[r->b->one->input_of[i]];
        inlay_status status;

        if (!fenced_alloc((size_t)t->bytes, alignment_of(r, t->dtype), 0, "behind the end of an input", &r->in[i]))
            return no_memory(diag, "for an input");
        if (t->bytes > 0)
            memcpy(r->in[i].data, t->data, (size_t)t->bytes);
        if (t->rank > 0)
            memcpy(r->in_dims[i], t->dims, t->rank * sizeof t->dims[0]);
        r->ins[i] = (inlay_tensor_arg){ .dims = r->in_dims[i], .rank = t->rank, .dtype = t->dtype };
        status = place(r, i, r->b->in_domains[i], &r->in[i], &r->ins[i].buffer, diag);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

/* The input whose buffer output o uses, INLAY_NONE if it has its own. */
static uint32_t alias_of(const struct running *r, uint32_t o)
{
    const inlay_output_plan *plan = &r->b->plans[o];

    if (!r->how->in_place || plan->kind != INLAY_OUTPUT_KNOWN)
        return INLAY_NONE;
    for (uint32_t other = 0; other < o; other++)
        if (r->b->plans[other].alias == plan->alias)
            return INLAY_NONE;
    return plan->alias;
}

static inlay_status prepare_output(struct running *r, uint32_t o, inlay_diag *diag)
{
    const inlay_value_state *s = &r->b->one->states[r->b->one->outputs[o]];
    const inlay_output_plan *plan = &r->b->plans[o];
    uint32_t alias = alias_of(r, o);
    size_t bytes = (size_t)plan->max_bytes;
    int64_t count;

    r->outs[o] = (inlay_tensor_arg){ .dims = r->out_dims[o],
                                     .dtype = s->dtype,
                                     .rank = s->rank == INLAY_RANK_UNKNOWN ? 0 : s->rank };
    for (uint32_t d = 0; d < r->outs[o].rank; d++)
        r->out_dims[o][d] = s->dims[d];
    if (plan->kind == INLAY_OUTPUT_ALLOCATED)
        return INLAY_OK;
    if (plan->kind == INLAY_OUTPUT_KNOWN &&
        (!dims_count(r->out_dims[o], r->outs[o].rank, &count) || !dtype_bytes(s->dtype, count, &bytes)))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the shape of output %u is not known", o);
    if (bytes > MAX_OUTPUT)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "output %u would take %zu bytes", o, bytes);
    if (alias != INLAY_NONE) {
        if (r->in[alias].bytes < bytes) {
            fault(r->result, "offer an alias for equal sizes only", "output %u of %zu bytes may share input %u of %zu",
                  o, bytes, alias, r->in[alias].bytes);
            return inlay_fail(diag, INLAY_INTERNAL, "an alias that does not fit");
        }
        r->outs[o].buffer = r->ins[alias].buffer;
        return INLAY_OK;
    }
    if (!fenced_alloc(bytes, alignment_of(r, s->dtype), r->how->fill, "behind the end of an output", &r->out[o]))
        return no_memory(diag, "for an output");
    return place(r, CASE_INPUTS + o, r->b->out_domains[o], &r->out[o], &r->outs[o].buffer, diag);
}

/* ------------------------------------------------------------------ after */

static inlay_status collect_output(struct running *r, uint32_t o, inlay_diag *diag)
{
    bench_output *out = &r->result->out[o];
    const inlay_output_plan *plan = &r->b->plans[o];
    uint32_t alias = alias_of(r, o);
    const struct fenced *memory = alias != INLAY_NONE ? &r->in[alias] : &r->out[o];
    const device_tensor *device = &r->device[alias != INLAY_NONE ? alias : CASE_INPUTS + o];
    size_t bytes;

    if (plan->kind == INLAY_OUTPUT_ALLOCATED && !r->allocated[o]) {
        fault(r->result, "call inlay_host.output_alloc for each ALLOCATED output", "output %u was never allocated", o);
        return INLAY_OK;
    }
    *out = (bench_output){ .dtype = r->outs[o].dtype, .rank = r->outs[o].rank };
    memcpy(out->dims, r->out_dims[o], sizeof out->dims);
    if (!dims_count(out->dims, out->rank, &out->count) || !dtype_bytes(out->dtype, out->count, &bytes) ||
        bytes > memory->bytes) {
        fault(r->result, "write the dims of BOUNDED outputs, within max_bytes",
              "output %u has dims that its %zu bytes do not hold", o, memory->bytes);
        return INLAY_OK;
    }
    out->bytes = bytes;
    out->data = arena_alloc(&r->result->a, bytes + 1);
    if (out->data == NULL)
        return no_memory(diag, "for an output");
    if (device->whole.handle != 0 && bytes > 0)
        return device_copy(&r->link, out->data, &device->given, bytes, false, diag);
    if (bytes > 0)
        memcpy(out->data, memory->data, bytes);
    return INLAY_OK;
}

/* Margins on the device, and inputs there. */
static inlay_status look_at_device(struct running *r, inlay_diag *diag)
{
    for (uint32_t i = 0; i < sizeof r->device / sizeof r->device[0]; i++) {
        const case_tensor *t = i < r->b->one->input_count ? &r->b->k->in[r->b->one->input_of[i]] : NULL;
        bool hurt, shared = false;
        inlay_status status;
        void *data;

        if (r->device[i].whole.handle == 0)
            continue;
        status = device_tensor_read(&r->link, &r->device[i], &r->result->a, &data, &hurt, diag);
        if (status != INLAY_OK)
            return status;
        for (uint32_t o = 0; o < r->b->one->output_count; o++)
            shared |= alias_of(r, o) == i;
        if (hurt)
            fault(r->result, "keep to offset and bytes of the inlay_buffer, in copies, too",
                  "it wrote outside %s %u in device memory",
                  i < CASE_INPUTS                  ? "input"
                  : i < CASE_INPUTS + CASE_OUTPUTS ? "output"
                                                   : "the workspace, buffer",
                  i < CASE_INPUTS ? i : i - CASE_INPUTS);
        if (t != NULL && !shared && t->bytes > 0 && memcmp(data, t->data, (size_t)t->bytes) != 0)
            fault(r->result, "inputs are read-only unless the plan names an alias", "it changed input %u", i);
    }
    return INLAY_OK;
}

static void look_for_damage(struct running *r)
{
    const char *more = "the kernel writes further than it should: look at the tail of its loop";

    if (fenced_is_hurt(&r->workspace))
        fault(r->result, "ask for more in specialize (kit: kit_plan.workspace_bytes), or write less",
              "it wrote outside the %llu bytes of workspace that it asked for",
              (unsigned long long)r->b->workspace_bytes);
    for (uint32_t i = 0; i < r->b->one->input_count; i++) {
        const case_tensor *t = &r->b->k->in[r->b->one->input_of[i]];
        bool shared = false;

        for (uint32_t o = 0; o < r->b->one->output_count; o++)
            shared |= alias_of(r, o) == i;
        if (fenced_is_hurt(&r->in[i]))
            fault(r->result, more, "it wrote outside input %u", i);
        if (!shared && t->bytes > 0 && memcmp(r->in[i].data, t->data, (size_t)t->bytes) != 0)
            fault(r->result, "inputs are read-only unless the plan names an alias", "it changed input %u", i);
    }
    for (uint32_t o = 0; o < r->b->one->output_count; o++)
        if (fenced_is_hurt(&r->out[o]))
            fault(r->result, more, "it wrote outside output %u", o);
}

static void release(struct running *r)
{
    const loaded_provider *p = r->b->p;

    for (size_t i = 0; i < sizeof r->device / sizeof r->device[0]; i++)
        if (r->device[i].whole.handle != 0)
            p->table->buffer_free(p->state, &r->device[i].whole);
    for (uint32_t i = 0; i < CASE_INPUTS; i++)
        fenced_free(&r->in[i]);
    for (uint32_t o = 0; o < CASE_OUTPUTS; o++)
        fenced_free(&r->out[o]);
    fenced_free(&r->workspace);
    timeline_destroy(r->link.timeline);
    (void)pthread_mutex_destroy(&r->lock);
}

/* ------------------------------------------------------------------ inputs that are still being made
 *
 * What a host does with several devices: copies and execute are queued behind a gate that opens later. The source of a
 * copy holds garbage until then, so who does not wait computes with garbage. */

struct gate {
    struct running *r;
    pthread_t thread;
    inlay_fence open;
    uint64_t timelines[CASE_INPUTS]; /* of the copies; 0: none */
    char *sources[CASE_INPUTS];
    bool is_running;
};

static void *open_gate(void *user)
{
    static const struct timespec pause = { 0, 2000000 };
    struct gate *g = user;
    struct running *r = g->r;
    const inlay_status status = r->how->poison;
    inlay_diag why = INLAY_DIAG_INIT;

    (void)nanosleep(&pause, NULL);
    for (uint32_t i = 0; i < r->b->one->input_count; i++)
        if (g->sources[i] != NULL)
            memcpy(g->sources[i], r->in[i].data, r->in[i].bytes);
    if (status != INLAY_OK)
        (void)inlay_fail(&why, status, "the checker lets this fence fail");
    fence_signal(g->open, status, status != INLAY_OK ? &why : NULL);
    return NULL;
}

/* A copy into an input, which holds garbage until it is done. */
static inlay_status queue_input(struct running *r, struct gate *g, uint32_t i, inlay_diag *diag)
{
    const loaded_provider *p = r->b->p;
    inlay_buffer here = { .bytes = r->in[i].bytes };
    char *source = arena_alloc(&r->result->a, r->in[i].bytes + 1);
    inlay_status status;

    if (source == NULL)
        return no_memory(diag, "for an input");
    memset(source, GARBAGE, r->in[i].bytes + 1);
    status = timeline_create(&g->timelines[i], diag);
    if (status != INLAY_OK)
        return status;
    here.handle = (uintptr_t)source;
    r->waits[r->wait_count] = (inlay_fence){ g->timelines[i], 1 };
    phase(r, "buffer_copy behind a fence");
    status =
        p->table->buffer_copy(p->state, NULL, &here, &r->device[i].given, &g->open, 1, r->waits[r->wait_count], diag);
    if (status == INLAY_OK) {
        g->sources[i] = source;
        r->wait_count++;
    }
    return status;
}

static bool is_queued(const struct running *r, uint32_t input)
{
    return r->device[input].whole.handle != 0 && r->in[input].bytes > 0;
}

static inlay_status queue_inputs(struct running *r, struct gate *g, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    *g = (struct gate){ .r = r, .open.value = 1 };
    /* All of it before the first copy is queued: those that wait here would stand behind it. */
    for (uint32_t i = 0; i < r->b->one->input_count; i++)
        if (is_queued(r, i))
            INLAY_TRY(device_tensor_fill(&r->link, &r->device[i], NULL, GARBAGE, &r->result->a, diag));
    INLAY_TRY(timeline_create(&g->open.timeline, diag));
    for (uint32_t i = 0; i < r->b->one->input_count; i++)
        if (is_queued(r, i))
            INLAY_TRY(queue_input(r, g, i, diag));
done:
    /* Also after a failure, for what is queued already. */
    g->is_running = g->open.timeline != 0 && pthread_create(&g->thread, NULL, open_gate, g) == 0;
    if (!g->is_running && g->open.timeline != 0)
        (void)open_gate(g);
    return status;
}

static void close_gate(struct running *r, struct gate *g)
{
    inlay_diag ignored = INLAY_DIAG_INIT;
    inlay_status settled = INLAY_OK;

    if (g->is_running)
        (void)pthread_join(g->thread, NULL);
    for (uint32_t w = 0; w < r->wait_count; w++)
        settled = fence_settle(r->waits[w], &ignored); /* done or failed: the source is not read any more */
    (void)settled;
    for (uint32_t i = 0; i < CASE_INPUTS; i++)
        timeline_destroy(g->timelines[i]);
    timeline_destroy(g->open.timeline);
    r->wait_count = 0;
}

/* ------------------------------------------------------------------ the call */

/* What the provider keeps for the addresses of this run. */
static inlay_status bind_run(const struct running *r, inlay_exec_args *args, inlay_diag *diag)
{
    const struct bench *b = r->b;
    const inlay_bind_args with = { .struct_size = sizeof with,
                                   .inputs = args->inputs,
                                   .outputs = args->outputs,
                                   .input_count = args->input_count,
                                   .output_count = args->output_count,
                                   .arg_stride = args->arg_stride,
                                   .workspace = args->workspace };
    inlay_status status;

    if (b->p->table->bind == NULL)
        return INLAY_OK;
    phase(r, "bind");
    status = b->p->table->bind(b->p->state, b->compiled, b->instance, &with, &args->binding, diag);
    return status == INLAY_UNSUPPORTED ? INLAY_OK : status;
}

static inlay_status call(struct running *r, inlay_diag *diag)
{
    static const uint32_t never;
    const struct bench *b = r->b;
    const uint32_t *cancel = r->how->cancel != NULL ? r->how->cancel : &never;
    inlay_run run = {
        .cancel = cancel, .max_threads = b->threads, .ctx = r, .output_alloc = give_output, .string_alloc = give_string
    };
    inlay_exec_args args = { .struct_size = sizeof args,
                             .run = &run,
                             .inputs = r->ins,
                             .outputs = r->outs,
                             .input_count = b->one->input_count,
                             .output_count = b->one->output_count,
                             .arg_stride = sizeof r->ins[0],
                             .cancel = cancel,
                             .diag = diag };
    const bool queued = r->how->queued && (b->p->table->flags & INLAY_PROVIDER_ASYNC) != 0;
    inlay_status status = INLAY_OK;
    heap_counts before;
    double begin;
    struct gate g = { .r = r };

    if (b->workspace_bytes > 0)
        INLAY_TRY(place(r, CASE_INPUTS + CASE_OUTPUTS, work_domain(r), &r->workspace, &args.workspace, diag));
    if (queued)
        INLAY_TRY(queue_inputs(r, &g, diag));
    args.waits = r->waits;
    args.wait_count = r->wait_count;
    args.signal = device_point(&r->link);
    if (queued || (b->p->table->flags & INLAY_PROVIDER_ASYNC) == 0) /* others run with and without */
        INLAY_TRY(bind_run(r, &args, diag));
    before = heap_look();
    phase(r, "execute");
    begin = clock_ns();
    status = b->p->table->execute(b->p->state, b->compiled, b->instance, &args);
    if (status == INLAY_OK)
        status = device_wait(&r->link, args.signal, diag);
    r->result->ns = (double)(clock_ns() - begin);
    r->result->heap_calls = heap_look().calls - before.calls;
    r->result->threads = heap_look().threads - before.threads;
    phase(r, "the checker");
done:
    if (queued)
        close_gate(r, &g);
    if (args.binding != NULL)
        b->p->table->release_binding(b->p->state, b->compiled, b->instance, args.binding);
    return status;
}

inlay_status bench_run(const struct bench *b, const bench_how *how, bench_result *out, inlay_diag *diag)
{
    struct running r = { .b = b, .how = how, .result = out, .link.p = b->p };
    inlay_status status;

    memset(out, 0, sizeof *out);
    (void)pthread_mutex_init(&r.lock, NULL);
    INLAY_TRY(timeline_create(&r.link.timeline, diag));
    INLAY_TRY(prepare_inputs(&r, diag));
    for (uint32_t o = 0; o < b->one->output_count; o++)
        INLAY_TRY(prepare_output(&r, o, diag));
    if (!fenced_alloc((size_t)b->workspace_bytes, (size_t)b->workspace_alignment, how->fill,
                      "behind the end of the workspace that it asked for", &r.workspace)) {
        status = no_memory(diag, "for a workspace of %llu bytes", (unsigned long long)b->workspace_bytes);
        goto done;
    }
    INLAY_TRY(call(&r, diag));
    look_for_damage(&r);
    INLAY_TRY(look_at_device(&r, diag));
    out->out_count = b->one->output_count;
    for (uint32_t o = 0; o < out->out_count; o++)
        INLAY_TRY(collect_output(&r, o, diag));
done:
    release(&r);
    return status;
}

void bench_result_deinit(bench_result *r)
{
    arena_deinit(&r->a);
    r->out_count = 0;
}
