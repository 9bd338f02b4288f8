/* The run: a flat list of primitives, whose memory objects belong to a context. A context is one run's at a time; those
 * that no run needs wait at the instance, so that a steady state makes none. */
#include "region/build.h"
#include "simd/clock.h"
#include <stdio.h>

/* libgomp's, and libdnnl's. */
extern void omp_set_num_threads(int threads);
extern int omp_in_parallel(void);

struct rg_context {
    rg_context *next;
    dn_stream stream;    /* NULL: no step is oneDNN's */
    void **addresses;    /* [buffer_count] of the run that the handles were set for */
    dn_memory *memories; /* [slot_count]; NULL: oneDNN's kernels know nothing of it */
    dn_arg *args;        /* [arg_count], pointing to memories, of steps that are oneDNN's */
    void **native;       /* [max_args] */
    uint32_t slot_count;
    bool pooled; /* all this lies in the memory of the instance */
};

static void context_destroy(rg_context *x)
{
    if (x == NULL)
        return;
    for (uint32_t s = 0; x->memories != NULL && s < x->slot_count; s++)
        dn_memory_destroy(x->memories[s]);
    dn_stream_destroy(x->stream);
    if (x->pooled)
        return;
    free(x->addresses);
    free(x->memories);
    free(x->args);
    free(x->native);
    free(x);
}

void rg_contexts_destroy(inlay_instance *i)
{
    context_destroy(i->ready);
    i->ready = NULL;
    while (i->idle != NULL) {
        rg_context *next = i->idle->next;

        context_destroy(i->idle);
        i->idle = next;
    }
}

/* The operands of a step of oneDNN's, each as an object that it knows. */
static dn_status describe_operands(const rg_state *state, const inlay_instance *i, const rg_step *step, rg_context *x)
{
    dn_status code = DN_SUCCESS;

    if (x->stream == NULL)
        code = dn_stream_create(state->engine, &x->stream);
    for (uint32_t a = step->first_arg; code == DN_SUCCESS && a < step->first_arg + step->arg_count; a++) {
        uint32_t s = i->args[a].slot;
        const rg_slot *p = &i->slots[s];
        const rg_buffer *b = &i->buffers[p->buffer];
        void *data = b->kind == RG_CONST ? (char *)(uintptr_t)b->data + p->offset : NULL;

        if (x->memories[s] == NULL)
            code = dn_memory_create(state->engine, &i->mds[p->md], data, &x->memories[s]);
        x->args[a] = (dn_arg){ dn_operand_number(i->args[a].id), x->memories[s] };
    }
    return code;
}

static void *take(rg_scratch *pool, size_t count, size_t element)
{
    return pool != NULL ? rg_scratch_take_zeroed(pool, count, element) : calloc(count, element);
}

/* pool: memory of the instance, while nobody else takes some; or NULL. */
static inlay_status context_create(const rg_state *state, const inlay_instance *i, rg_scratch *pool, rg_context **out,
                                   inlay_diag *diag)
{
    rg_context *x = take(pool, 1, sizeof *x);
    dn_status code = DN_SUCCESS;

    *out = NULL;
    if (x == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for another run of a region");
    x->pooled = pool != NULL;
    x->slot_count = i->slot_count;
    x->addresses = take(pool, i->buffer_count + 1u, sizeof *x->addresses);
    x->memories = take(pool, i->slot_count + 1u, sizeof *x->memories);
    x->args = take(pool, i->arg_count + 1u, sizeof *x->args);
    x->native = take(pool, i->max_args + 1u, sizeof *x->native);
    if (x->addresses == NULL || x->memories == NULL || x->args == NULL || x->native == NULL)
        code = DN_OUT_OF_MEMORY;
    for (uint32_t s = 0; code == DN_SUCCESS && s < i->step_count; s++)
        if (i->steps[s].primitive != NULL)
            code = describe_operands(state, i, &i->steps[s], x);
    if (code != DN_SUCCESS) {
        context_destroy(x);
        return rg_check(code, diag, "set up a run", "region");
    }
    *out = x;
    return INLAY_OK;
}

inlay_status rg_context_prepare(const rg_state *state, inlay_instance *i, inlay_diag *diag)
{
    return context_create(state, i, i->memory, &i->idle, diag);
}

/* One context waits where no lock is needed: a caller who is alone always finds it there. */
static inlay_status context_take(const rg_state *state, inlay_instance *i, rg_context **out, inlay_diag *diag)
{
    *out = __atomic_exchange_n(&i->ready, NULL, __ATOMIC_ACQUIRE);
    if (*out != NULL)
        return INLAY_OK;
    (void)pthread_mutex_lock(&i->lock);
    *out = i->idle;
    if (*out != NULL)
        i->idle = (*out)->next;
    (void)pthread_mutex_unlock(&i->lock);
    return *out != NULL ? INLAY_OK : context_create(state, i, NULL, out, diag);
}

static void context_give(inlay_instance *i, rg_context *x)
{
    rg_context *none = NULL;

    if (__atomic_compare_exchange_n(&i->ready, &none, x, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        return;
    (void)pthread_mutex_lock(&i->lock);
    x->next = i->idle;
    i->idle = x;
    (void)pthread_mutex_unlock(&i->lock);
}

/* Points the memory objects to this run's buffers; those that have not moved stay as they are. */
static inlay_status bind(const inlay_instance *i, rg_context *x, const inlay_exec_args *args)
{
    char *workspace = inlay_buffer_host(&args->workspace);
    bool moved = false;
    dn_status code = DN_SUCCESS;

    for (uint32_t k = 0; k < i->buffer_count; k++) {
        const rg_buffer *b = &i->buffers[k];
        void *now = NULL;

        if (b->kind == RG_WORK)
            now = workspace + b->offset;
        else if (b->kind == RG_CONST)
            now = (void *)(uintptr_t)b->data;
        else
            now = inlay_buffer_host(&INLAY_AT(inlay_tensor_arg, b->kind == RG_INPUT ? args->inputs : args->outputs,
                                              args->arg_stride, b->index)
                                         ->buffer);
        if (now == x->addresses[k])
            continue;
        x->addresses[k] = now;
        moved = true;
    }
    for (uint32_t s = 0; moved && code == DN_SUCCESS && s < i->slot_count; s++) {
        const rg_slot *p = &i->slots[s];

        if (x->memories[s] != NULL && i->buffers[p->buffer].kind != RG_CONST)
            code = dn_memory_move(x->memories[s], (char *)x->addresses[p->buffer] + p->offset, x->stream);
    }
    return rg_check(code, args->diag, "bind the buffers of a run", "region");
}

static inlay_status run_native(const rg_state *state, const inlay_instance *i, const rg_step *step, rg_context *x,
                               const inlay_exec_args *args)
{
    for (uint32_t a = 0; a < step->arg_count; a++) {
        const rg_slot *p = &i->slots[i->args[step->first_arg + a].slot];

        x->native[a] = (char *)x->addresses[p->buffer] + p->offset;
    }
    return step->native->run(step->native, state, args->run, x->native, i->threads);
}

/* Who profiles the run hears of each kernel; NULL: nobody does. */
static const inlay_ext_steps *listener(const rg_state *state, const inlay_exec_args *args)
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
uint32_t rg_may_branch(void *state, inlay_compiled *c, inlay_instance *i)
{
    (void)state, (void)c;
    for (uint32_t s = 0; s < i->step_count; s++)
        if (i->steps[s].primitive != NULL)
            return 0;
    return 1;
}

inlay_status rg_execute(void *state, inlay_compiled *c, inlay_instance *i, const inlay_exec_args *args)
{
    return rg_execute_timed(state, c, i, args, NULL);
}

inlay_status rg_execute_timed(const rg_state *state, inlay_compiled *c, inlay_instance *i, const inlay_exec_args *args,
                              double *out_ns)
{
    const inlay_ext_steps *heard = listener(state, args);
    const uint32_t threads = args->run != NULL ? state->host->thread_count(state->host->ctx, args->run) : i->threads;
    const bool timed = out_ns != NULL || heard != NULL;
    const bool turns = i->threads > 1 && threads > 1 && i->takes_turn && omp_in_parallel() == 0;
    inlay_status status = INLAY_OK;
    rg_context *x = NULL;
    bool alone = false;
    int before;

    if (turns)
        (void)pthread_mutex_lock(&turn);
    if (turns && state->team != NULL)
        state->team->gather(state->host->ctx, args->run);
    before = rg_threads_set(i->threads);
    INLAY_TRY(context_take(state, i, &x, args->diag));
    INLAY_TRY(bind(i, x, args));
    for (uint32_t s = 0; s < i->step_count; s++) {
        const rg_step *step = &i->steps[s];
        const uint64_t begin = timed ? clock_ns() : 0;

        if (args->run != NULL)
            INLAY_TRY(state->host->poll(state->host->ctx, args->run));
        if (step->alone != alone) {
            alone = step->alone;
            omp_set_num_threads(alone ? 1 : (int)i->threads);
        }
        if (step->primitive == NULL)
            status = run_native(state, i, step, x, args);
        else
            status =
                rg_check(dn_primitive_execute(step->primitive, x->stream, step->arg_count, x->args + step->first_arg),
                         args->diag, "run a kernel", c->ops[step->op].name);
        if (out_ns != NULL)
            out_ns[s] = (double)(clock_ns() - begin);
        if (heard != NULL)
            heard->done(state->host->ctx, args->run, c->ops[step->op].node, begin, clock_ns());
        if (status != INLAY_OK) {
            if (status == INLAY_INVALID_ARGUMENT && step->primitive == NULL && step->native->wrong != NULL)
                (void)inlay_fail(args->diag, status, "node '%s': %s", c->ops[step->op].name, step->native->wrong);
            if (args->diag != NULL && args->diag->node[0] == '\0')
                (void)snprintf(args->diag->node, sizeof args->diag->node, "%s", c->ops[step->op].name);
            goto done;
        }
    }
    if (x->stream != NULL)
        status = rg_check(dn_stream_wait(x->stream), args->diag, "finish a run", "region");
done:
    if (x != NULL)
        context_give(i, x);
    if (alone)
        omp_set_num_threads((int)i->threads);
    rg_threads_restore(before);
    if (turns)
        (void)pthread_mutex_unlock(&turn);
    return status;
}
