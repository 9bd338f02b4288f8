/* The run: a flat list of primitives, whose memory objects belong to a context. A context is one run's at a time; those
 * that no run needs wait at the instance, so that a steady state makes none. */
#include "region/build.h"
#include "simd/clock.h"
#include <stdio.h>

/* libgomp's, and libdnnl's. */
extern void omp_set_num_threads(int threads);
extern int omp_in_parallel(void);

struct cpu_context {
    cpu_context *next;
    library_stream stream;    /* NULL: no step is oneDNN's */
    void **addresses;         /* [buffer_count] of the run that the handles were set for */
    library_memory *memories; /* [slot_count]; NULL: oneDNN's kernels know nothing of it */
    library_arg *args;        /* [arg_count], pointing to memories, of steps that are oneDNN's */
    void **native;            /* [max_args] */
    uint32_t slot_count;
    bool pooled; /* all this lies in the memory of the instance */
};

static void context_destroy(cpu_context *context)
{
    if (context == NULL)
        return;
    for (uint32_t s = 0; context->memories != NULL && s < context->slot_count; s++)
        library_memory_destroy(context->memories[s]);
    library_stream_destroy(context->stream);
    if (context->pooled)
        return;
    free(context->addresses);
    free(context->memories);
    free(context->args);
    free(context->native);
    free(context);
}

void cpu_contexts_destroy(inlay_instance *instance)
{
    context_destroy(instance->ready);
    instance->ready = NULL;
    while (instance->idle != NULL) {
        cpu_context *next = instance->idle->next;

        context_destroy(instance->idle);
        instance->idle = next;
    }
}

/* The operands of a step of oneDNN's, each as an object that it knows. */
static library_status describe_operands(const cpu_state *state, const inlay_instance *instance, const cpu_step *step,
                                        cpu_context *context)
{
    library_status code = LIBRARY_SUCCESS;

    if (context->stream == NULL)
        code = library_stream_create(state->engine, &context->stream);
    for (uint32_t a = step->first_arg; code == LIBRARY_SUCCESS && a < step->first_arg + step->arg_count; a++) {
        uint32_t slot = instance->args[a].slot;
        const cpu_slot *p = &instance->slots[slot];
        const cpu_buffer *buffer = &instance->buffers[p->buffer];
        void *data = buffer->kind == CPU_CONST ? (char *)(uintptr_t)buffer->data + p->offset : NULL;

        if (context->memories[slot] == NULL)
            code = library_memory_create(state->engine, &instance->mds[p->md], data, &context->memories[slot]);
        context->args[a] = (library_arg){ library_operand_number(instance->args[a].id), context->memories[slot] };
    }
    return code;
}

static void *take(cpu_scratch *pool, size_t count, size_t element)
{
    return pool != NULL ? cpu_scratch_take_zeroed(pool, count, element) : calloc(count, element);
}

/* pool: memory of the instance, while nobody else takes some; or NULL. */
static inlay_status context_create(const cpu_state *state, const inlay_instance *instance, cpu_scratch *pool,
                                   cpu_context **out, inlay_diag *diag)
{
    cpu_context *context = take(pool, 1, sizeof *context);
    library_status code = LIBRARY_SUCCESS;

    *out = NULL;
    if (context == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for another run of a region");
    context->pooled = pool != NULL;
    context->slot_count = instance->slot_count;
    context->addresses = take(pool, instance->buffer_count + 1u, sizeof *context->addresses);
    context->memories = take(pool, instance->slot_count + 1u, sizeof *context->memories);
    context->args = take(pool, instance->arg_count + 1u, sizeof *context->args);
    context->native = take(pool, instance->max_args + 1u, sizeof *context->native);
    if (context->addresses == NULL || context->memories == NULL || context->args == NULL || context->native == NULL)
        code = LIBRARY_OUT_OF_MEMORY;
    for (uint32_t step = 0; code == LIBRARY_SUCCESS && step < instance->step_count; step++)
        if (instance->steps[step].primitive != NULL)
            code = describe_operands(state, instance, &instance->steps[step], context);
    if (code != LIBRARY_SUCCESS) {
        context_destroy(context);
        return cpu_check(code, diag, "set up a run", "region");
    }
    *out = context;
    return INLAY_OK;
}

inlay_status cpu_context_prepare(const cpu_state *state, inlay_instance *instance, inlay_diag *diag)
{
    return context_create(state, instance, instance->memory, &instance->idle, diag);
}

/* One context waits where no lock is needed: a caller who is alone always finds it there. */
static inlay_status context_take(const cpu_state *state, inlay_instance *instance, cpu_context **out, inlay_diag *diag)
{
    *out = __atomic_exchange_n(&instance->ready, NULL, __ATOMIC_ACQUIRE);
    if (*out != NULL)
        return INLAY_OK;
    (void)pthread_mutex_lock(&instance->lock);
    *out = instance->idle;
    if (*out != NULL)
        instance->idle = (*out)->next;
    (void)pthread_mutex_unlock(&instance->lock);
    return *out != NULL ? INLAY_OK : context_create(state, instance, NULL, out, diag);
}

static void context_give(inlay_instance *instance, cpu_context *context)
{
    cpu_context *none = NULL;

    if (__atomic_compare_exchange_n(&instance->ready, &none, context, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        return;
    (void)pthread_mutex_lock(&instance->lock);
    context->next = instance->idle;
    instance->idle = context;
    (void)pthread_mutex_unlock(&instance->lock);
}

/* Points the memory objects to this run's buffers; those that have not moved stay as they are. */
static inlay_status bind(const inlay_instance *instance, cpu_context *context, const inlay_exec_args *args)
{
    char *workspace = inlay_buffer_host(&args->workspace);
    bool moved = false;
    library_status code = LIBRARY_SUCCESS;

    for (uint32_t k = 0; k < instance->buffer_count; k++) {
        const cpu_buffer *buffer = &instance->buffers[k];
        void *now = NULL;

        if (buffer->kind == CPU_WORK)
            now = workspace + buffer->offset;
        else if (buffer->kind == CPU_CONST)
            now = (void *)(uintptr_t)buffer->data;
        else
            now =
                inlay_buffer_host(&INLAY_AT(inlay_tensor_arg, buffer->kind == CPU_INPUT ? args->inputs : args->outputs,
                                            args->arg_stride, buffer->index)
                                       ->buffer);
        if (now == context->addresses[k])
            continue;
        context->addresses[k] = now;
        moved = true;
    }
    for (uint32_t slot = 0; moved && code == LIBRARY_SUCCESS && slot < instance->slot_count; slot++) {
        const cpu_slot *p = &instance->slots[slot];

        if (context->memories[slot] != NULL && instance->buffers[p->buffer].kind != CPU_CONST)
            code = library_memory_move(context->memories[slot], (char *)context->addresses[p->buffer] + p->offset,
                                       context->stream);
    }
    return cpu_check(code, args->diag, "bind the buffers of a run", "region");
}

static inlay_status run_native(const cpu_state *state, const inlay_instance *instance, const cpu_step *step,
                               cpu_context *context, const inlay_exec_args *args)
{
    for (uint32_t a = 0; a < step->arg_count; a++) {
        const cpu_slot *slot = &instance->slots[instance->args[step->first_arg + a].slot];

        context->native[a] = (char *)context->addresses[slot->buffer] + slot->offset;
    }
    return step->native->run(step->native, state, args->run, context->native, instance->threads);
}

/* Who profiles the run hears of each kernel; NULL: nobody does. */
static const inlay_ext_steps *listener(const cpu_state *state, const inlay_exec_args *args)
{
    const inlay_ext_steps *steps = state->steps;

    return steps != NULL && args->run != NULL && steps->wanted(state->host->ctx, args->run) != 0 ? steps : NULL;
}

/* oneDNN's kernels are made for a number of threads and take them, whatever else runs; so regions that share their work
 * take turns, and together they never have more threads than one may. Regions of small steps run side by side; so do
 * those within a loop, which have one thread, and runs that have been given one thread: the few kernels in them that
 * take more all the same do less harm than waiting would. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

/* It guards nothing but the CPUs, which a child of fork() has for itself: no need to wait for the end of somebody's
 * turn.
 */
static void begin_turns(void)
{
    (void)pthread_mutex_init(&turn, NULL);
}

static __attribute__((constructor)) void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, begin_turns);
}

/* oneDNN's kernels may count on all the threads that they were made for; ours take what there are, also none but one.
 */
uint32_t cpu_may_branch(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)state, (void)compiled;
    for (uint32_t step = 0; step < instance->step_count; step++)
        if (instance->steps[step].primitive != NULL)
            return 0;
    return 1;
}

inlay_status cpu_execute(void *state, inlay_compiled *compiled, inlay_instance *instance, const inlay_exec_args *args)
{
    return cpu_execute_timed(state, compiled, instance, args, NULL);
}

inlay_status cpu_execute_timed(const cpu_state *state, inlay_compiled *compiled, inlay_instance *instance,
                               const inlay_exec_args *args, double *out_ns)
{
    const inlay_ext_steps *heard = listener(state, args);
    const uint32_t threads =
        args->run != NULL ? state->host->thread_count(state->host->ctx, args->run) : instance->threads;
    const bool timed = out_ns != NULL || heard != NULL;
    const bool turns = instance->threads > 1 && threads > 1 && instance->takes_turn && omp_in_parallel() == 0;
    inlay_status status = INLAY_OK;
    cpu_context *context = NULL;
    bool alone = false;
    int before;

    if (turns)
        (void)pthread_mutex_lock(&turn);
    if (turns && state->team != NULL)
        state->team->gather(state->host->ctx, args->run);
    before = cpu_threads_set(instance->threads);
    INLAY_TRY(context_take(state, instance, &context, args->diag));
    INLAY_TRY(bind(instance, context, args));
    for (uint32_t step_index = 0; step_index < instance->step_count; step_index++) {
        const cpu_step *step = &instance->steps[step_index];
        const uint64_t begin = timed ? clock_ns() : 0;

        if (args->run != NULL)
            INLAY_TRY(state->host->poll(state->host->ctx, args->run));
        if (step->alone != alone) {
            alone = step->alone;
            omp_set_num_threads(alone ? 1 : (int)instance->threads);
        }
        if (step->primitive == NULL)
            status = run_native(state, instance, step, context, args);
        else
            status = cpu_check(library_primitive_execute(step->primitive, context->stream, step->arg_count,
                                                         context->args + step->first_arg),
                               args->diag, "run a kernel", compiled->ops[step->op].name);
        if (out_ns != NULL)
            out_ns[step_index] = (double)(clock_ns() - begin);
        if (heard != NULL)
            heard->done(state->host->ctx, args->run, compiled->ops[step->op].node, begin, clock_ns());
        if (status != INLAY_OK) {
            if (status == INLAY_INVALID_ARGUMENT && step->primitive == NULL && step->native->wrong != NULL)
                (void)inlay_fail(args->diag, status, "node '%s': %s", compiled->ops[step->op].name,
                                 step->native->wrong);
            if (args->diag != NULL && args->diag->node[0] == '\0')
                (void)snprintf(args->diag->node, sizeof args->diag->node, "%s", compiled->ops[step->op].name);
            goto done;
        }
    }
    if (context->stream != NULL)
        status = cpu_check(library_stream_wait(context->stream), args->diag, "finish a run", "region");
done:
    if (context != NULL)
        context_give(instance, context);
    if (alone)
        omp_set_num_threads((int)instance->threads);
    cpu_threads_restore(before);
    if (turns)
        (void)pthread_mutex_unlock(&turn);
    return status;
}
