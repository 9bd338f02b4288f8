/* Calls bind and execute with arguments that are inaccessible afterwards. */
#include "base/clock.h"
#include "check/harness_run.h"
#include "check/process.h"
#include "threads/fence.h"
#include "threads/run.h"
#include "inlay/check.h"
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ALIGN = 64 };

/* Copies the frame, with pointers within the copy. */
static struct frame *copy_frame(const struct run_state *run, struct guarded *out)
{
    struct frame *frame;

    if (!guarded_alloc(sizeof *frame, ALIGN, 0, "past the end of the arguments of a call", out))
        return NULL;
    frame = (struct frame *)(void *)out->data;
    *frame = run->frame;
    for (uint32_t i = 0; i < CASE_INPUTS; i++)
        frame->ins[i].arg.dims = frame->in_dims[i];
    for (uint32_t o = 0; o < CASE_OUTPUTS; o++)
        frame->outs[o].arg.dims = frame->out_dims[o];
    return frame;
}

/* Calls bind for the addresses of this run. The arguments of bind stay inaccessible until release(). */
static inlay_status bind_run(struct run_state *run, inlay_exec_args *args, inlay_diag *diag)
{
    const struct harness *harness = run->harness;
    inlay_bind_args with = { .struct_size = sizeof with,
                             .input_count = args->input_count,
                             .output_count = args->output_count,
                             .arg_stride = args->arg_stride,
                             .workspace = args->workspace };
    struct frame *frame;
    inlay_status status;

    if (harness->provider->table->bind == NULL)
        return INLAY_OK;
    guarded_free(&run->bound);
    frame = copy_frame(run, &run->bound);
    if (frame == NULL)
        return no_memory(diag, "for the arguments of bind");
    with.inputs = &frame->ins[0].arg;
    with.outputs = &frame->outs[0].arg;
    for (uint32_t i = 0; i < CASE_INPUTS && run->options->tight; i++)
        frame->ins[i].arg.buffer = (inlay_buffer){ .handle = 0 };
    for (uint32_t o = 0; o < CASE_OUTPUTS && run->options->tight; o++)
        frame->outs[o].arg.buffer = (inlay_buffer){ .handle = 0 };
    run_phase(run, "bind");
    status = harness->provider->table->bind(harness->provider->state, harness->compiled, harness->instance, &with,
                                            &args->binding, diag);
    guarded_hide(&run->bound, "of the arguments of bind, after bind returned");
    return status == INLAY_UNSUPPORTED ? INLAY_OK : status;
}

/* Copies the arguments into memory that only this call may use, with pointers to each other. */
static struct frame *show_frame(struct run_state *run)
{
    struct frame *frame;

    guarded_free(&run->shown);
    frame = copy_frame(run, &run->shown);
    if (frame == NULL)
        return NULL;
    frame->diag = (inlay_diag)INLAY_DIAG_INIT;
    frame->args.struct_size = sizeof frame->args;
    frame->args.binding = NULL;
    frame->args.inputs = &frame->ins[0].arg;
    frame->args.outputs = &frame->outs[0].arg;
    frame->args.arg_stride = sizeof frame->ins[0];
    frame->args.waits = frame->waits;
    frame->args.diag = &frame->diag;
    if (run->options->tight)
        frame->args.priority = frame->args.power = 77; /* of a later host */
    else
        frame->args.priority = run->options->priority;
    return frame;
}

/* Reads what execute has written and makes the arguments inaccessible: work that is still in flight must not use them.
 * */
static void hide_frame(struct run_state *run, inlay_diag *diag)
{
    *diag = shown_frame(run)->diag;
    diag->text[sizeof diag->text - 1] = '\0';
    run->frame = *shown_frame(run);
    guarded_hide(&run->shown, "of the arguments of execute (waits, diag, inputs), after execute returned");
}

/* The inlay_run of a call. It is kept inaccessible until the next but one run, so that its address is not used again
 * at once. Runs of several threads (quiet) release theirs. */
static inlay_run *open_hooks(struct run_state *run, const uint32_t *cancel)
{
    inlay_run *hooks;

    guarded_free(&run->hooks);
    if (!guarded_alloc(sizeof *hooks, ALIGN, 0, "past the end of the run", &run->hooks))
        return NULL;
    hooks = (inlay_run *)(void *)run->hooks.data;
    *hooks = (inlay_run){ .cancel = cancel,
                          .max_threads = run->harness->threads,
                          .watched = run->options->cancel != NULL,
                          .ctx = run,
                          .output_alloc = run_allocate_output,
                          .string_alloc = run_allocate_string };
    return hooks;
}

static void close_hooks(struct run_state *run)
{
    static struct guarded kept;

    if (run->hooks.map != NULL)
        guarded_hide(&run->hooks, "of a run that has ended");
    if (!run->options->quiet) {
        guarded_free(&kept);
        kept = run->hooks;
    } else {
        guarded_free(&run->hooks);
    }
    run->hooks = (struct guarded){ .map = NULL };
}

/* execute writes the dims of BOUNDED outputs only. */
static void check_dims(struct run_state *run)
{
    const struct harness *harness = run->harness;
    bool same = true;

    for (uint32_t i = 0; i < harness->built->input_count; i++) {
        const case_tensor *tensor = &run->entry->in[harness->built->input_of[i]];

        same &= tensor->rank == 0 ||
                memcmp(run->frame.in_dims[i], tensor->dims, tensor->rank * sizeof tensor->dims[0]) == 0;
    }
    for (uint32_t o = 0; o < harness->built->output_count; o++) {
        const inlay_value_state *state = &harness->built->states[harness->built->outputs[o]];

        same &= harness->plans[o].kind != INLAY_OUTPUT_KNOWN || state->rank == 0 ||
                memcmp(run->frame.out_dims[o], state->dims, state->rank * sizeof state->dims[0]) == 0;
    }
    if (!same)
        run_fault(run->result, "dims are read-only, except those of BOUNDED outputs",
                  "it changed the dims of a tensor");
}

/* Sets the pages at which the run stops: those of the largest input without its first page. */
static void place_hold(const struct run_state *run)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const struct guarded *largest = &run->in[0];
    uintptr_t from, to;

    for (uint32_t i = 1; i < run->harness->built->input_count; i++)
        if (run->in[i].bytes > largest->bytes)
            largest = &run->in[i];
    from = ((uintptr_t)largest->data + page) / page * page;
    to = ((uintptr_t)largest->data + largest->bytes + largest->slack) / page * page;
    if (largest->map == NULL || run->device[largest - run->in].whole.handle != 0 || to < from + page)
        return;
    run->options->hold->from = (void *)from;
    run->options->hold->bytes = to - from;
    crash_hold_begin(run->options->hold);
}

inlay_status run_call(struct run_state *run, inlay_diag *diag)
{
    static const uint32_t never;
    const struct harness *harness = run->harness;
    const uint32_t *cancel = run->options->cancel != NULL ? run->options->cancel : &never;
    const bool is_async = (harness->provider->table->flags & INLAY_PROVIDER_ASYNC) != 0;
    const bool queued = run->options->queued && is_async;
    inlay_run *hooks = open_hooks(run, cancel);
    inlay_status status = INLAY_OK;
    inlay_binding *binding = NULL;
    struct frame *frame;
    heap_counts before;
    double begin;
    struct gate gate = { .run = run };
    struct fence_series fences = { .count = 0 };

    if (harness->workspace_bytes > 0 && run->device[CASE_INPUTS + CASE_OUTPUTS].whole.handle == 0)
        INLAY_TRY(run_place_buffer(run, CASE_INPUTS + CASE_OUTPUTS, harness_default_domain(run->harness->provider),
                                   &run->workspace, &run->frame.args.workspace, diag));
    if (queued)
        INLAY_TRY(gate_queue_inputs(run, &gate, diag));
    if (run->options->fences != NULL && is_async)
        INLAY_TRY(fences_create(run, &fences, diag));
    if (run->options->flight != NULL) {
        run->frame.waits[run->wait_count++] = run->options->flight->after;
        run->own_wait_count += run->options->flight->after_own;
        run->link.point |= FENCE_VALUE;
    }
    frame = show_frame(run);
    if (frame == NULL || hooks == NULL) {
        status = no_memory(diag, "for the arguments of execute");
        goto done;
    }
    frame->args.run = hooks;
    frame->args.cancel = cancel;
    frame->args.input_count = harness->built->input_count;
    frame->args.output_count = harness->built->output_count;
    frame->args.wait_count = run->wait_count;
    frame->args.own_wait_count = run->own_wait_count; /* the copies are in another queue of the provider */
    frame->args.signal = device_point(&run->link);
    if (run->options->flight != NULL)
        run->options->flight->signal = frame->args.signal;
    if ((queued || !is_async) &&
        !run->options->unbound) /* asynchronous providers run both with and without a binding */
        INLAY_TRY(bind_run(run, &frame->args, diag));
    binding = frame->args.binding;
    before = heap_read_counts();
    run_phase(run, "execute");
    begin = clock_ns();
    if (queued)
        gate_start(&gate);
    if (fences.count > 0)
        fences_start(&fences, frame->args.signal);
    if (run->options->hold != NULL)
        place_hold(run);
    status =
        harness->provider->table->execute(harness->provider->state, harness->compiled, harness->instance, &frame->args);
    run->result->heap_calls = heap_read_counts().calls - before.calls;
    run->result->threads = heap_read_counts().threads - before.threads;
    if (run->options->hold != NULL && run->options->hold->bytes > 0)
        crash_hold_end(run->options->hold);
    hide_frame(run, diag);
    __atomic_store_n(&gate.returned, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&fences.returned, 1, __ATOMIC_RELEASE);
    run_phase(run, "execute, after it returned");
    if (!run->options->quiet)
        harness_check_answer(harness->check, harness->provider, "execute", status, diag);
    if (status != INLAY_OK && is_async && fence_reached(run->frame.args.signal, NULL))
        run_fault(run->result, "do not signal if execute returns a failure; the host does",
                  "it returned '%s' and signalled, too", inlay_status_text(status));
    check_dims(run);
    if (run->options->flight != NULL) {
        run->options->flight->status = status;
        __atomic_store_n(&run->options->flight->submitted, 1, __ATOMIC_RELEASE);
    }
    if (status == INLAY_OK)
        status = device_wait(&run->link, run->frame.args.signal, diag);
    run->result->ns = (double)(clock_ns() - begin);
    run_phase(run, "the checker");
done:
    if (run->options->flight != NULL) {
        while (__atomic_load_n(run->options->flight->end, __ATOMIC_ACQUIRE) == 0)
            (void)nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
        run->wait_count = run->own_wait_count = 0;
    }
    fences_finish(&fences);
    if (queued)
        gate_close(run, &gate);
    if (binding != NULL)
        harness->provider->table->release_binding(harness->provider->state, harness->compiled, harness->instance,
                                                  binding);
    return status;
}

void run_call_release(struct run_state *run)
{
    guarded_free(&run->shown);
    guarded_free(&run->bound);
    close_hooks(run);
}
