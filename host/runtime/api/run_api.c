/* api/run_api.c - inlay.h: runs. */
#include "api/context.h"
#include "base/memory.h"
#include "base/sized_struct.h"
#include "exec/device/residency.h"
#include "exec/loop/observe.h"
#include "threads/fence.h"
#include "inlay/check.h"

/* Does the value's memory overlap a bound output, to which the run may write? */
static bool overlaps_output(const inlay_context *context, const inlay_value *value)
{
    const uint64_t begin = value->buffer.handle + value->buffer.offset, end = begin + value->buffer.bytes;

    for (uint32_t k = 0; k < inlay_session_output_count(context->session); k++) {
        const inlay_value *output = context->bound_outputs[k];
        const uint64_t at = output != NULL ? output->buffer.handle + output->buffer.offset : 0;

        if (output != NULL && output->buffer.domain == INLAY_DOMAIN_HOST && at < end && begin < at + output->capacity)
            return true;
    }
    return false;
}

/* Imports an input (value `index` of the graph) into the domain of the device that reads it, if the device can access
 * the input's memory. Changes *in to the device's buffer, or adds it as an alias if the host reads the value, too. */
static void context_import_input(const inlay_context *context, uint32_t index, inlay_value *value, run_value *in)
{
    const struct program *program = context->runner->prog;
    inlay_buffer imported;
    uint32_t domain, owner;

    INLAY_CHECK(index < program->graph->value_count);
    domain = program->uses.reader_domain[index];
    owner = domain == INLAY_DOMAIN_HOST ? INLAY_NONE : plan_owner_of(program->env, domain);
    in->alias = (inlay_buffer){ 0 };
    if (owner != INLAY_NONE && in->kind == INLAY_KIND_TENSOR && in->buffer.domain != INLAY_DOMAIN_HOST &&
        in->buffer.domain != domain && in->buffer.bytes > 0 &&
        value_import(value, provider_of_domain(domain, NULL), domain, &imported)) {
        in->alias = imported; /* the memory of another device */
        return;
    }
    if (owner == INLAY_NONE || in->kind != INLAY_KIND_TENSOR || in->buffer.domain != INLAY_DOMAIN_HOST ||
        in->buffer.bytes == 0 || overlaps_output(context, value) ||
        !map_into_domain(context->runner, value, domain, &imported))
        return;
    if (program->uses.read_on_host[index])
        in->alias = imported;
    else
        in->buffer = imported;
}

/* Makes the runner of another program that of the context. */
static void set_runner(inlay_context *context, struct runner *next)
{
    struct runner *before = context->runner;

    for (uint32_t k = 0; k < inlay_session_output_count(context->session); k++)
        next->out.wanted[k] = before->out.wanted[k];
    runner_destroy(before);
    context->runner = context->shared.root = next;
}

/* Changes to the version of the session that has the latest weights, with the states of the context. On success the
 * context owns the reference. */
static bool change_version(inlay_context *context, session_version *version, struct program *latest)
{
    struct runner *next;

    if (runner_create(latest, &context->shared, &next, NULL) != INLAY_OK)
        return false;
    if (context_make_defaults(context, latest, NULL) != INLAY_OK) {
        runner_destroy(next);
        return false;
    }
    set_runner(context, next);
    if (context->states != NULL)
        run_states_move(context->states, latest);
    session_version_give(context->session, context->version);
    context->version = version;
    return true;
}

/* Makes the context use the latest program: one with other weights, or one that was compiled in the background. The
 * context keeps its program while it measures. It does not change to a program that was compiled in the background
 * while it keeps states, or if there is no memory for another runner. */
static void change_program(inlay_context *context)
{
    struct program *latest = __atomic_load_n(&context->session->main, __ATOMIC_ACQUIRE);
    session_version *version;
    struct runner *next;

    if (context->runner->prog == latest || context->measuring != NULL || context->shared.hang.abandoned)
        return;
    version = session_version_take(context->session, &latest);
    if (version != context->version) {
        context->outdated = !change_version(context, version, latest);
        if (context->outdated)
            session_version_give(context->session, version);
        return;
    }
    if (context->states == NULL && runner_create(latest, &context->shared, &next, NULL) == INLAY_OK)
        set_runner(context, next);
    session_version_give(context->session, version);
}

static inlay_status fail_outdated(inlay_diag *diag)
{
    return no_memory(diag, "to change the context to the new weights of the session");
}

void context_find_ready(inlay_context *context)
{
    const uint32_t inputs = inlay_session_input_count(context->session);
    const uint32_t count = inputs + inlay_session_output_count(context->session);

    change_program(context);
    context->runner->in.ready = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const inlay_value *value = i < inputs ? context->inputs[i] : context->bound_outputs[i - inputs];
        inlay_status status = INLAY_OK;

        context->ready[i] = (inlay_fence){ 0 };
        if (value == NULL || value->ready.timeline == 0 ||
            (fence_reached(value->ready, &status) &&
             (status == INLAY_OK || i >= inputs))) /* the failure of an output that is overwritten does not matter */
            continue;
        context->ready[i] = value->ready;
        context->runner->in.ready = context->ready;
    }
    for (uint32_t i = 1; context->ladder != NULL && i < context->ladder->count; i++) {
        inlay_context *variant = context->ladder->contexts[i];

        session_context_enter(variant->session, &variant->entry);
        context_find_ready(variant);
        session_context_leave(&variant->entry);
    }
}

static inlay_status gather_inputs(inlay_context *context, inlay_diag *diag)
{
    const struct graph *graph = context->runner->prog->graph;

    for (uint32_t i = 0; i < graph->input_count; i++) {
        const graph_value *value = &graph->values[graph->inputs[i]];
        inlay_value *bound_value = context->inputs[i] != NULL ? context->inputs[i] : context->defaults[i];

        if (bound_value != NULL) {
            context->in[i] = run_value_of(bound_value);
            /* The caller's memory may change after the run, so no result may be a reference to it. */
            if (context->in[i].kind == INLAY_KIND_TENSOR)
                context->in[i].owner = NULL;
            /* An empty tensor without memory is still bound. */
            if (context->in[i].kind == INLAY_KIND_TENSOR && context->in[i].buffer.handle == 0)
                context->in[i].buffer.handle = (uintptr_t)bound_value;
            context_import_input(context, graph->inputs[i], bound_value, &context->in[i]);
        } else if (value->info.kind == INLAY_VALUE_OPTIONAL ||
                   (context->states != NULL && run_states_of_input(&context->session->env, i) != INLAY_NONE)) {
            context->in[i] = (run_value){ 0 };
        } else {
            (void)inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' is not bound: a run needs a value for it",
                             value->info.name.data);
            if (diag != NULL)
                (void)snprintf(diag->tensor, sizeof diag->tensor, "%s", value->info.name.data);
            return INLAY_INVALID_ARGUMENT;
        }
    }
    return INLAY_OK;
}

static uint64_t deadline_after(uint64_t timeout_ns)
{
    if (timeout_ns == 0)
        return 0;
    if (__builtin_add_overflow(clock_ns(), timeout_ns, &timeout_ns))
        return UINT64_MAX;
    return timeout_ns;
}

inlay_status context_end_measuring(inlay_context *context, inlay_diag *diag)
{
    observers_remove(&context->shared, context->measuring);
    context->measuring = NULL;
    change_program(context);
    return context->outdated ? fail_outdated(diag) : INLAY_OK;
}

void context_begin_measuring(inlay_context *context, run_observer *observer)
{
    INLAY_CHECK(context->measuring == NULL);
    context->measuring = observer;
    observers_add(&context->shared, observer);
}

static inlay_status run_observed(inlay_context *context, inlay_diag *diag)
{
    uint64_t begin;
    inlay_status status;

    if (context->shared.observers.used == 0)
        return runner_run(context->runner, context->in, diag);
    observers_begin_run(&context->shared);
    begin = clock_ns();
    status = runner_run(context->runner, context->in, diag);
    observers_end_run(&context->shared, clock_ns() - begin, status == INLAY_OK);
    return status;
}

/* A run that reads the states of the context and updates them for the next run. */
static inlay_status run_with_states(inlay_context *context, inlay_diag *diag)
{
    const bool has_rows = context->rows.info.struct_size != 0;
    bool again;
    inlay_status status;

    status = has_rows ? context_check_rows(context, diag) : INLAY_OK;
    if (status != INLAY_OK)
        return status;
    do {
        status = gather_inputs(context, diag);
        if (status == INLAY_OK)
            status = run_states_bind(context->states, context->runner, context->in, diag);
        if (status == INLAY_OK)
            status = run_observed(context, diag);
        status = run_states_commit(context->states, context->runner, status, &again, diag);
    } while (again);
    if (has_rows)
        context_end_rows(context, status == INLAY_OK);
    return status;
}

/* INLAY_RUN_OUTPUTS_BOUND: checks that every bound output was written to its value. */
static inlay_status check_outputs(const inlay_context *context, inlay_diag *diag)
{
    for (uint32_t k = 0; k < inlay_session_output_count(context->session); k++) {
        const inlay_value *bound = context->bound_outputs[k], *result = context->runner->out.values[k];

        if (bound == NULL || result == bound)
            continue;
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "output %u ('%s') needs %llu bytes and does not fit into the bound value of %llu bytes", k,
                          context->session->outputs[k].name,
                          (unsigned long long)(result != NULL ? result->buffer.bytes : 0),
                          (unsigned long long)bound->capacity);
    }
    return INLAY_OK;
}

static inlay_status start_run(inlay_context *context, const inlay_run_options *options, inlay_diag *diag);

inlay_status inlay_context_run(inlay_context *context, const inlay_run_options *options, inlay_diag *diag)
{
    inlay_status status = session_check_process(context->session, diag);

    if (status != INLAY_OK)
        return status;
    session_context_enter(context->session, &context->entry);
    context_find_ready(context);
    status = context_run_ready(context, options, diag);
    session_context_leave(&context->entry);
    for (uint32_t k = 0; status == INLAY_OK && k < inlay_session_output_count(context->session); k++)
        if (context->bound_outputs[k] != NULL)
            context->bound_outputs[k]->ready = (inlay_fence){ 0 };
    return status;
}

/* Runs the context's own program. */
static inlay_status run_own(inlay_context *context, const inlay_run_options *options, inlay_diag *diag)
{
    bool must_fit = options != NULL && INLAY_HAS(options, flags) && (options->flags & INLAY_RUN_OUTPUTS_BOUND) != 0;
    inlay_status status, files;

    if (options != NULL && INLAY_HAS(options, flags) && (options->flags & 0xffffu & ~INLAY_RUN_OUTPUTS_BOUND) != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "inlay_run_options.flags has 0x%x, which this library does not know", options->flags);
    if (options != NULL && INLAY_HAS(options, power) &&
        (options->priority > INLAY_PRIORITY_HIGH || options->power > INLAY_POWER_PERFORMANCE))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_run_options: priority %u or power %u is unknown",
                          options->priority, options->power);
    if (context->outdated)
        return fail_outdated(diag);
    status = session_enter_providers(context->session, diag);
    if (status != INLAY_OK)
        return status;
    status = start_run(context, options, diag);
    files = graph_files_check(context->runner->prog->model, diag);
    if (files != INLAY_OK) /* also if the run failed: bytes of the file may be the cause */
        status = files;
    session_context_ran(context->session, &context->entry);
    session_leave_providers(context->session);
    return status == INLAY_OK && must_fit ? check_outputs(context, diag) : status;
}

/* Option ladder: timed runs of each variant in the first run of a context, after one that plans. */
enum { FIRST_RUNS = 3 };

/* Runs a variant, until until_ns at most (0: without limit), and notes its time. */
static inlay_status run_variant(inlay_context *context, ladder_times *times, uint32_t variant,
                                const inlay_run_options *options, uint64_t until_ns, inlay_diag *diag)
{
    inlay_context *runs = context->ladder->contexts[variant];
    const uint64_t begin = clock_ns();
    inlay_run_options limited = *options;
    inlay_status status;

    limited.timeout_ns = until_ns == 0 ? 0 : until_ns > begin ? until_ns - begin : 1;
    context->ladder->last = variant;
    session_context_enter(runs->session, &runs->entry);
    status = run_own(runs, &limited, diag);
    session_context_leave(&runs->entry);
    if (status == INLAY_OK || status == INLAY_DEADLINE_EXCEEDED)
        ladder_note(context->ladder, times, variant, (double)(clock_ns() - begin), status != INLAY_OK);
    return status;
}

/* The first run of the context: the last one is that of the most exact variant. */
static inlay_status run_all_variants(inlay_context *context, ladder_times *times, const inlay_run_options *options,
                                     uint64_t stop_ns, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t variant = context->ladder->count; variant-- > 0;)
        for (uint32_t i = 0; i < 1 + FIRST_RUNS; i++)
            INLAY_TRY(run_variant(context, times, variant, options, stop_ns, diag));
    ladder_forget_loads(context->ladder);
done:
    if (status != INLAY_OK)
        ladder_reset(context->ladder);
    return status;
}

/* Runs the most exact variant that is expected to end by the deadline, and the quickest one if it takes longer. */
static inlay_status run_in_time(inlay_context *context, ladder_times *times, const inlay_run_options *options,
                                uint64_t stop_ns, inlay_diag *diag)
{
    const uint64_t begin = clock_ns(), deadline = options->deadline_ns;
    const double left = deadline > begin ? (double)(deadline - begin) : 0;
    const ladder_choice choice = ladder_choose(context->ladder, times, left);
    inlay_diag late = INLAY_DIAG_INIT;
    uint64_t until;
    inlay_status status;

    if (choice.variant == choice.quickest)
        return run_variant(context, times, choice.variant, options, stop_ns, diag);
    until = deadline - (uint64_t)choice.reserve_ns;
    if (stop_ns != 0 && stop_ns <= until)
        return run_variant(context, times, choice.variant, options, stop_ns, diag);
    status = run_variant(context, times, choice.variant, options, until, &late);
    if (status == INLAY_DEADLINE_EXCEEDED)
        return run_variant(context, times, choice.quickest, options, stop_ns, diag);
    if (status != INLAY_OK && diag != NULL && INLAY_HAS(diag, tensor)) {
        late.struct_size = diag->struct_size;
        *diag = late;
    }
    return status;
}

static inlay_status run_ladder(inlay_context *context, const inlay_run_options *options, inlay_diag *diag)
{
    inlay_run_options given = INLAY_RUN_OPTIONS_INIT;
    ladder_times *times =
        ladder_find_times(context->ladder, context->inputs, inlay_session_input_count(context->session));
    uint64_t stop_ns = 0;

    if (options != NULL)
        sized_struct_read(&given, sizeof given, options, options->struct_size);
    given.struct_size = sizeof given;
    if (given.timeout_ns > 0)
        stop_ns = deadline_after(given.timeout_ns);
    if (ladder_is_new(context->ladder))
        return run_all_variants(context, times, &given, stop_ns, diag);
    if (given.deadline_ns == 0 || context->measuring != NULL) /* measurements are those of the most exact variant */
        return run_variant(context, times, 0, &given, stop_ns, diag);
    return run_in_time(context, times, &given, stop_ns, diag);
}

inlay_status context_run_ready(inlay_context *context, const inlay_run_options *options, inlay_diag *diag)
{
    return context->ladder != NULL ? run_ladder(context, options, diag) : run_own(context, options, diag);
}

static inlay_status start_run(inlay_context *context, const inlay_run_options *options, inlay_diag *diag)
{
    static const uint32_t never;
    run_shared *shared = &context->shared;
    inlay_status status = gather_inputs(context, diag);

    if (shared->hang.abandoned && !context->session->env.runs.without_failed)
        return inlay_fail(diag, INLAY_DEVICE_LOST,
                          "a device with work of this context does not respond; create a new session");
    shared->hang.unwinding = false;
    shared->run.cancel = &never;
    shared->run.deadline_ns = 0;
    shared->run.max_threads = context->session->env.max_threads;
    shared->run.priority = context->session->env.runs.priority;
    shared->run.power = context->session->env.runs.power;
    shared->run.parts = weight_stream_parts(context->session->env.stream);
    INLAY_CHECK(shared->run.max_threads > 0);
    if (status == INLAY_OK && options != NULL) {
        if (options->struct_size >= offsetof(inlay_run_options, cancel) + sizeof options->cancel &&
            options->cancel != NULL)
            shared->run.cancel = options->cancel;
        if (INLAY_HAS(options, timeout_ns))
            shared->run.deadline_ns = deadline_after(options->timeout_ns);
        if (INLAY_HAS(options, max_threads) && options->max_threads > 0 &&
            options->max_threads < shared->run.max_threads)
            shared->run.max_threads = options->max_threads;
        if (INLAY_HAS(options, power)) {
            if (options->priority != INLAY_PRIORITY_NORMAL)
                shared->run.priority = options->priority;
            if (options->power != INLAY_POWER_DEFAULT)
                shared->run.power = options->power;
        }
    }
    shared->watched = shared->run.cancel != &never || shared->run.deadline_ns != 0;
    shared->run.watched = shared->watched;
    if (shared->texts.arena.blocks != NULL)
        arena_reset(&shared->texts.arena);
    if (status == INLAY_OK && shared->watched)
        status = run_poll(&shared->run) == INLAY_OK
                     ? INLAY_OK
                     : inlay_fail(diag, run_poll(&shared->run), "the run was cancelled before it started");
    if (status != INLAY_OK) {
        for (uint32_t k = 0; k < inlay_session_output_count(context->session); k++) {
            inlay_value_unref(context->runner->out.values[k]);
            context->runner->out.values[k] = NULL;
        }
        return status;
    }
    return context->states != NULL ? run_with_states(context, diag) : run_observed(context, diag);
}

inlay_value *inlay_context_output(inlay_context *context, uint32_t index)
{
    const inlay_context *last = context_last(context);

    if (last->shared.hang.unwinding || index >= inlay_session_output_count(context->session))
        return NULL;
    return last->runner->out.values[index];
}
