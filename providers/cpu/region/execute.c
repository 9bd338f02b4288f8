/* Runs an instance: a flat list of steps. The addresses of buffers belong to a context, which one run uses at a time.
 * The instance keeps idle contexts, so that repeated runs allocate nothing. */
#include "cpu/region/build.h"
#include "inlay/execution.h"
#include "inlay/extensions.h"
#include "simd/clock.h"
#include <stdio.h>

struct cpu_context {
    cpu_context *next;
    void **addresses; /* [buffer_count] */
    void **args;      /* [max_args] of the current step */
    bool pooled;      /* allocated in the instance's arena */
};

static void context_destroy(cpu_context *context)
{
    if (context == NULL || context->pooled)
        return;
    free(context->addresses);
    free(context->args);
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

/* Zeroed memory from pool, or from calloc if pool is NULL. */
static void *allocate(cpu_scratch *pool, size_t count, size_t element)
{
    return pool != NULL ? cpu_scratch_take_zeroed(pool, count, element) : calloc(count, element);
}

/* pool: the instance's arena, which no other thread may use meanwhile; NULL: use malloc. */
static inlay_status context_create(const inlay_instance *instance, cpu_scratch *pool, cpu_context **out,
                                   inlay_diag *diag)
{
    cpu_context *context = allocate(pool, 1, sizeof *context);

    *out = NULL;
    if (context != NULL) {
        context->pooled = pool != NULL;
        context->addresses = allocate(pool, instance->buffer_count + 1u, sizeof *context->addresses);
        context->args = allocate(pool, instance->max_args + 1u, sizeof *context->args);
    }
    if (context == NULL || context->addresses == NULL || context->args == NULL) {
        context_destroy(context);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for another run of a region");
    }
    *out = context;
    return INLAY_OK;
}

inlay_status cpu_context_prepare(inlay_instance *instance, inlay_diag *diag)
{
    return context_create(instance, instance->memory, &instance->idle, diag);
}

/* Takes instance->ready without a lock, which is enough if runs do not overlap; otherwise an idle or a new context. */
static inlay_status context_take(inlay_instance *instance, cpu_context **out, inlay_diag *diag)
{
    *out = __atomic_exchange_n(&instance->ready, NULL, __ATOMIC_ACQUIRE);
    if (*out != NULL)
        return INLAY_OK;
    (void)pthread_mutex_lock(&instance->lock);
    *out = instance->idle;
    if (*out != NULL)
        instance->idle = (*out)->next;
    (void)pthread_mutex_unlock(&instance->lock);
    return *out != NULL ? INLAY_OK : context_create(instance, NULL, out, diag);
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

/* Sets the addresses of this run's buffers. */
static void bind_buffers(const inlay_instance *instance, cpu_context *context, const inlay_exec_args *args)
{
    char *workspace = inlay_buffer_host(&args->workspace);

    INLAY_CHECK(workspace != NULL || instance->workspace_bytes == 0);
    for (uint32_t k = 0; k < instance->buffer_count; k++) {
        const cpu_buffer *buffer = &instance->buffers[k];

        if (buffer->kind == CPU_WORK)
            context->addresses[k] = workspace + buffer->offset;
        else if (buffer->kind == CPU_CONST)
            context->addresses[k] = (void *)(uintptr_t)buffer->data;
        else
            context->addresses[k] =
                inlay_buffer_host(&INLAY_AT(inlay_tensor_arg, buffer->kind == CPU_INPUT ? args->inputs : args->outputs,
                                            args->arg_stride, buffer->index)
                                       ->buffer);
    }
}

static inlay_status run_step(const cpu_state *state, const inlay_instance *instance, const cpu_step *step,
                             cpu_context *context, const inlay_exec_args *args)
{
    INLAY_CHECK(step->arg_count <= instance->max_args);
    for (uint32_t a = 0; a < step->arg_count; a++) {
        const cpu_arg *arg = &instance->args[step->first_arg + a];

        context->args[a] = (char *)context->addresses[arg->buffer] + arg->offset;
    }
    return step->native->run(step->native, state, args->run, context->args, instance->threads);
}

/* The extension to which the times of steps are reported; NULL: the run is not profiled. */
static const inlay_ext_steps *step_observer(const cpu_state *state, const inlay_exec_args *args)
{
    const inlay_ext_steps *steps = state->steps;

    return steps != NULL && args->run != NULL && steps->wanted(state->host->ctx, args->run) != 0 ? steps : NULL;
}

/* Kernels run on any number of threads. */
uint32_t cpu_may_branch(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)state, (void)compiled, (void)instance;
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
    const bool timed = out_ns != NULL || observer != NULL;
    inlay_status status = INLAY_OK;
    cpu_context *context = NULL;

    INLAY_CHECK(instance->threads > 0);
    INLAY_TRY(context_take(instance, &context, args->diag));
    bind_buffers(instance, context, args);
    for (uint32_t step_index = 0; step_index < instance->step_count; step_index++) {
        const cpu_step *step = &instance->steps[step_index];
        const uint64_t begin = timed ? clock_ns() : 0;

        if (args->run != NULL)
            INLAY_TRY(state->host->poll(state->host->ctx, args->run));
        status = run_step(state, instance, step, context, args);
        if (out_ns != NULL)
            out_ns[step_index] = (double)(clock_ns() - begin);
        if (observer != NULL)
            observer->done(state->host->ctx, args->run, compiled->ops[step->op].node, begin, clock_ns());
        if (status != INLAY_OK) {
            if (status == INLAY_INVALID_ARGUMENT && step->native->wrong != NULL)
                (void)inlay_fail(args->diag, status, "node '%s': %s", compiled->ops[step->op].name,
                                 step->native->wrong);
            if (args->diag != NULL && args->diag->node[0] == '\0')
                (void)snprintf(args->diag->node, sizeof args->diag->node, "%s", compiled->ops[step->op].name);
            goto done;
        }
    }
done:
    if (context != NULL)
        context_give(instance, context);
    return status;
}
