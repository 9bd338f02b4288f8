/* Runs an instance: a flat list of steps. The memory objects of oneDNN's primitives belong to a context, which one run
 * uses at a time. The instance keeps idle contexts, so that repeated runs allocate nothing. */
#include "cpu/region/build.h"
#include "simd/clock.h"
#include <stdio.h>

/* Functions of libgomp, which libdnnl uses, too. */
extern void omp_set_num_threads(int threads);
extern int omp_in_parallel(void);

struct cpu_context {
    cpu_context *next;
    library_stream stream;    /* NULL: no step runs a primitive */
    void **addresses;         /* [buffer_count] the addresses in the memory objects */
    library_memory *memories; /* [slot_count]; NULL: only native steps use the slot */
    library_arg *args;        /* [arg_count] arguments of primitives, referring to memories */
    void **native;            /* [max_args] arguments of the current native step */
    uint32_t slot_count;
    bool pooled; /* allocated in the instance's arena */
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

/* Creates the memory objects of a primitive's operands. */
static library_status describe_operands(const cpu_state *state, const inlay_instance *instance, const cpu_step *step,
                                        cpu_context *context)
{
    library_status code = LIBRARY_SUCCESS;

    if (context->stream == NULL)
        code = library_stream_create(state->engine, &context->stream);
    for (uint32_t a = step->first_arg; code == LIBRARY_SUCCESS && a < step->first_arg + step->arg_count; a++) {
        uint32_t slot = instance->args[a].slot;
        const cpu_slot *memory = &instance->slots[slot];
        const cpu_buffer *buffer = &instance->buffers[memory->buffer];
        void *data = buffer->kind == CPU_CONST ? (char *)(uintptr_t)buffer->data + memory->offset : NULL;

        INLAY_CHECK(slot < instance->slot_count && memory->md < instance->md_count);
        if (context->memories[slot] == NULL)
            code = library_memory_create(state->engine, &instance->mds[memory->md], data, &context->memories[slot]);
        context->args[a] = (library_arg){ library_operand_number(instance->args[a].id), context->memories[slot] };
    }
    return code;
}

/* Zeroed memory from pool, or from calloc if pool is NULL. */
static void *allocate(cpu_scratch *pool, size_t count, size_t element)
{
    return pool != NULL ? cpu_scratch_take_zeroed(pool, count, element) : calloc(count, element);
}

/* pool: the instance's arena, which no other thread may use meanwhile; NULL: use malloc. */
static inlay_status context_create(const cpu_state *state, const inlay_instance *instance, cpu_scratch *pool,
                                   cpu_context **out, inlay_diag *diag)
{
    cpu_context *context = allocate(pool, 1, sizeof *context);
    library_status code = LIBRARY_SUCCESS;

    *out = NULL;
    if (context == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for another run of a region");
    context->pooled = pool != NULL;
    context->slot_count = instance->slot_count;
    context->addresses = allocate(pool, instance->buffer_count + 1u, sizeof *context->addresses);
    context->memories = allocate(pool, instance->slot_count + 1u, sizeof *context->memories);
    context->args = allocate(pool, instance->arg_count + 1u, sizeof *context->args);
    context->native = allocate(pool, instance->max_args + 1u, sizeof *context->native);
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

/* Takes instance->ready without a lock, which is enough if runs do not overlap; otherwise an idle or a new context. */
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

    INLAY_CHECK(context->slot_count == instance->slot_count);
    if (__atomic_compare_exchange_n(&instance->ready, &none, context, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        return;
    (void)pthread_mutex_lock(&instance->lock);
    context->next = instance->idle;
    instance->idle = context;
    (void)pthread_mutex_unlock(&instance->lock);
}

/* Points the memory objects to this run's buffers, if their addresses have changed. */
static inlay_status bind_buffers(const inlay_instance *instance, cpu_context *context, const inlay_exec_args *args)
{
    char *workspace = inlay_buffer_host(&args->workspace);
    bool moved = false;
    library_status code = LIBRARY_SUCCESS;

    INLAY_CHECK(workspace != NULL || instance->workspace_bytes == 0);
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
        const cpu_slot *memory = &instance->slots[slot];

        if (context->memories[slot] != NULL && instance->buffers[memory->buffer].kind != CPU_CONST)
            code = library_memory_move(context->memories[slot],
                                       (char *)context->addresses[memory->buffer] + memory->offset, context->stream);
    }
    return cpu_check(code, args->diag, "bind the buffers of a run", "region");
}

static inlay_status run_native(const cpu_state *state, const inlay_instance *instance, const cpu_step *step,
                               cpu_context *context, const inlay_exec_args *args)
{
    INLAY_CHECK(step->arg_count <= instance->max_args);
    for (uint32_t a = 0; a < step->arg_count; a++) {
        const cpu_slot *slot = &instance->slots[instance->args[step->first_arg + a].slot];

        context->native[a] = (char *)context->addresses[slot->buffer] + slot->offset;
    }
    return step->native->run(step->native, state, args->run, context->native, instance->threads);
}

/* The extension to which the times of steps are reported; NULL: the run is not profiled. */
static const inlay_ext_steps *step_observer(const cpu_state *state, const inlay_exec_args *args)
{
    const inlay_ext_steps *steps = state->steps;

    return steps != NULL && args->run != NULL && steps->wanted(state->host->ctx, args->run) != 0 ? steps : NULL;
}

/* Serialises runs of multi-threaded regions: oneDNN's kernels use all threads for which they were prepared, so two runs
 * at once would use more threads than the process may use. Regions of small steps, regions inside a parallel loop,
 * which have one thread, and runs with one thread are not serialised: a few of their kernels may still use more
 * threads, but waiting would cost more. */
static pthread_mutex_t cpu_turn = PTHREAD_MUTEX_INITIALIZER;

/* The mutex protects no data. In a child of fork() no other run exists, so the lock of the parent's run is dropped. */
static void reset_turn(void)
{
    (void)pthread_mutex_init(&cpu_turn, NULL);
}

static __attribute__((constructor)) void register_fork_handler(void)
{
    (void)pthread_atfork(NULL, NULL, reset_turn);
}

/* oneDNN's kernels may require all threads for which they were prepared; built-in kernels run on any number. */
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
    const inlay_ext_steps *observer = step_observer(state, args);
    const uint32_t threads =
        args->run != NULL ? state->host->thread_count(state->host->ctx, args->run) : instance->threads;
    const bool timed = out_ns != NULL || observer != NULL;
    const bool exclusive = instance->threads > 1 && threads > 1 && instance->is_threaded && omp_in_parallel() == 0;
    inlay_status status = INLAY_OK;
    cpu_context *context = NULL;
    bool alone = false;
    int before;

    INLAY_CHECK(instance->threads > 0);
    if (exclusive)
        (void)pthread_mutex_lock(&cpu_turn);
    if (exclusive && state->team != NULL)
        state->team->gather(state->host->ctx, args->run);
    before = cpu_threads_set(instance->threads);
    INLAY_TRY(context_take(state, instance, &context, args->diag));
    INLAY_TRY(bind_buffers(instance, context, args));
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
        if (observer != NULL)
            observer->done(state->host->ctx, args->run, compiled->ops[step->op].node, begin, clock_ns());
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
    if (exclusive)
        (void)pthread_mutex_unlock(&cpu_turn);
    return status;
}
