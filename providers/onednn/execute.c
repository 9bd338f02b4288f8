/* Runs an instance. Its memory objects belong to one run at a time (INLAY_PROVIDER_SERIAL_EXECUTE). */
#include "onednn/provider.h"
#include "inlay/check.h"

extern int omp_in_parallel(void); /* of libgomp */

enum { GRAIN = 16384 }; /* elements of a range of the loop after the primitives */

/* Serialises runs with several threads: the library's kernels use all threads for which they were prepared, so two runs
 * at once would use more threads than the process may use. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

/* The mutex protects no data. In a child of fork() no other run exists, so the lock of the parent's run is dropped. */
static void reset_turn(void)
{
    (void)pthread_mutex_init(&turn, NULL);
}

static __attribute__((constructor)) void register_fork_handler(void)
{
    (void)pthread_atfork(NULL, NULL, reset_turn);
}

struct loop {
    const group_function *function;
    float *data;
};

/* NaN is kept: all comparisons with it are false. */
KIT_MULTIVERSION
static void clip(float *data, int64_t count, float low, float high)
{
    for (int64_t i = 0; i < count; i++) {
        const float raised = data[i] < low ? low : data[i];

        data[i] = raised > high ? high : raised;
    }
}

KIT_MULTIVERSION
static void leak(float *data, int64_t count, float slope)
{
    for (int64_t i = 0; i < count; i++)
        data[i] = data[i] < 0 ? slope * data[i] : data[i];
}

static inlay_status run_loop(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct loop *loop = user;

    (void)worker;
    if (loop->function->kind == dnnl_eltwise_clip_v2)
        clip(loop->data + begin, end - begin, loop->function->alpha, loop->function->beta);
    else
        leak(loop->data + begin, end - begin, loop->function->alpha);
    return INLAY_OK;
}

static void *address_of(const struct place *place, const inlay_exec_args *args)
{
    char *base = NULL;

    switch (place->kind) {
    case PLACE_INPUT:
        base = inlay_buffer_host(&INLAY_AT(inlay_tensor_arg, args->inputs, args->arg_stride, place->index)->buffer);
        break;
    case PLACE_OUTPUT:
        base = inlay_buffer_host(&INLAY_AT(inlay_tensor_arg, args->outputs, args->arg_stride, 0)->buffer);
        break;
    case PLACE_WORKSPACE:
        base = inlay_buffer_host(&args->workspace);
        break;
    default:
        base = (char *)(uintptr_t)place->data;
        break;
    }
    return base + place->offset;
}

/* Sets the addresses that differ from those of the last run. */
static dnnl_status_t bind(inlay_instance *instance, const inlay_exec_args *args)
{
    dnnl_status_t code = dnnl_success;

    for (uint32_t s = 0; s < instance->step_count; s++) {
        struct step *step = &instance->steps[s];

        for (uint32_t i = 0; code == dnnl_success && i < step->count; i++) {
            void *address = address_of(&step->places[i], args);

            if (address == step->addresses[i])
                continue;
            if (step->primitive != NULL)
                code = dnnl_memory_set_data_handle(step->args[i].memory, address);
            step->addresses[i] = code == dnnl_success ? address : NULL;
        }
    }
    return code;
}

static dnnl_status_t run_step(const inlay_instance *instance, const struct step *step, dnnl_stream_t stream)
{
    const int before = threads_set(step->alone ? 1 : (int)instance->threads);
    dnnl_status_t code = dnnl_primitive_execute(step->primitive, stream, (int)step->count, step->args);

    if (code == dnnl_success)
        code = dnnl_stream_wait(stream);
    (void)threads_set(before);
    return code;
}

static inlay_status run_parts(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const inlay_instance *instance = user;
    dnnl_status_t code = dnnl_success;

    (void)worker;
    for (int64_t part = begin; code == dnnl_success && part < end; part++)
        code = run_step(instance, &instance->steps[instance->parts_begin + part], instance->streams[part]);
    return code == dnnl_success ? INLAY_OK : INLAY_INTERNAL;
}

static inlay_status run_steps(const onednn_state *state, inlay_instance *instance, const inlay_exec_args *args)
{
    const uint32_t parts = instance->parts_end - instance->parts_begin;
    dnnl_status_t code = dnnl_success;
    inlay_status status = INLAY_OK;

    for (uint32_t s = 0; status == INLAY_OK && code == dnnl_success && s < instance->step_count; s++) {
        if (parts > 1 && s == instance->parts_begin) {
            status = state->host->parallel_for(state->host->ctx, args->run, parts, 1, run_parts, instance);
            s = instance->parts_end - 1;
        } else if (instance->steps[s].copy != NULL) {
            status = copy_run(state, instance->steps[s].copy, args->run, instance->steps[s].addresses[0],
                              instance->steps[s].addresses[1]);
        } else {
            code = run_step(instance, &instance->steps[s], instance->streams[0]);
        }
    }
    return code == dnnl_success ? status : onednn_fail(code, "", args->diag);
}

inlay_status onednn_execute(void *state_, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args)
{
    const onednn_state *state = state_;
    struct loop loop = { .function = &instance->function };
    inlay_status status = INLAY_OK;
    bool shared = false;
    dnnl_status_t code;

    (void)compiled;
    if (instance->output_count == 0)
        return INLAY_OK;
    for (uint32_t s = 0; s < instance->step_count; s++)
        shared |= !instance->steps[s].alone;
    shared = shared && instance->threads > 1 && omp_in_parallel() == 0 &&
             state->host->thread_count(state->host->ctx, args->run) > 1;
    if (shared) {
        (void)pthread_mutex_lock(&turn);
        if (state->team != NULL)
            state->team->gather(state->host->ctx, args->run);
    }
    code = bind(instance, args);
    status =
        code == dnnl_success ? run_steps(state, instance, args) : onednn_fail(code, compiled->group.name, args->diag);
    if (shared)
        (void)pthread_mutex_unlock(&turn);
    loop.data = inlay_buffer_host(&INLAY_AT(inlay_tensor_arg, args->outputs, args->arg_stride, 0)->buffer);
    if (status != INLAY_OK || instance->function.kind == dnnl_alg_kind_undef)
        return status;
    return state->host->parallel_for(state->host->ctx, args->run, instance->output_count, GRAIN, run_loop, &loop);
}
