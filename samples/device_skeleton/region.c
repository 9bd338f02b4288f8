/* Regions: compiled into a list of operations, specialized for shapes, submitted as jobs. */
#include "device.h"
#include <stdlib.h>
#include <string.h>

/* Compile.
 *
 * An operand of an operation is an index into a table of addresses that each run fills in: the region's inputs, its
 * outputs, the constants, and the intermediate values, which are in the workspace. */

struct inlay_compiled {
    uint32_t op_count, bound_count;
    uint32_t input_count, output_count, constant_count;
    bool has_engine;                     /* the shapes were known in compile */
    uint32_t values[CHIP_MOST_BOUND];    /* value in the graph, by index of the table */
    uint64_t constants[CHIP_MOST_BOUND]; /* addresses */
    chip_op ops[];                       /* sizes not yet set */
};

static inlay_status too_many(inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_UNSUPPORTED, "the chip supports %d buffers in a region; this region has more",
                      CHIP_MOST_BOUND);
}

static uint32_t find(const inlay_compiled *compiled, uint32_t value)
{
    uint32_t i = 0;

    while (i < compiled->bound_count && compiled->values[i] != value)
        i++;
    return i;
}

/* Copies a constant to the chip; the host may release its copy. */
static inlay_status upload(struct device *device, const inlay_compile_request *request, inlay_compiled *compiled,
                           uint32_t value, inlay_diag *diag)
{
    const inlay_value_info *info = inlay_graph_value(request->graph, value);
    const uint64_t address = chip_alloc(device->chip, info->data_bytes);

    if (address == 0)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "the chip has no room for %llu bytes of '%s'",
                          (unsigned long long)info->data_bytes, info->name.data);
    chip_write(device->chip, address, info->data, info->data_bytes);
    compiled->constants[compiled->constant_count++] = address;
    request->constants[value] = INLAY_CONST_COPIED;
    return INLAY_OK;
}

/* Constants precede intermediate values in the table. */
static inlay_status bind_constants(struct device *device, const inlay_compile_request *request,
                                   inlay_compiled *compiled, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t node_index = 0; node_index < request->node_count; node_index++) {
        const inlay_node_info *node = inlay_graph_node(request->graph, request->nodes[node_index]);

        for (uint32_t i = 0; i < node->input_count; i++) {
            const inlay_value_info *info = inlay_graph_value(request->graph, node->inputs[i]);

            if (info == NULL || (info->flags & INLAY_VALUE_CONSTANT) == 0 ||
                find(compiled, node->inputs[i]) < compiled->bound_count)
                continue;
            if (compiled->bound_count == CHIP_MOST_BOUND)
                return too_many(diag);
            status = upload(device, request, compiled, node->inputs[i], diag);
            if (status != INLAY_OK)
                return status;
            compiled->values[compiled->bound_count++] = node->inputs[i];
        }
    }
    return INLAY_OK;
}

static inlay_status bind(inlay_compiled *compiled, const uint32_t *values, uint32_t count, inlay_diag *diag)
{
    if (count > CHIP_MOST_BOUND - compiled->bound_count)
        return too_many(diag);
    for (uint32_t i = 0; i < count; i++)
        compiled->values[compiled->bound_count++] = values[i];
    return INLAY_OK;
}

/* Adds the operation of a node; binds its result unless it is bound already. */
static inlay_status translate(const inlay_compile_request *request, inlay_compiled *compiled, uint32_t node_index,
                              inlay_diag *diag)
{
    const inlay_node_info *node = inlay_graph_node(request->graph, request->nodes[node_index]);
    chip_op *op = &compiled->ops[compiled->op_count++];
    uint32_t operands[3] = { INLAY_NONE, INLAY_NONE, INLAY_NONE };

    for (uint32_t i = 0; i < node->input_count && i < 3; i++)
        operands[i] = node->inputs[i] != INLAY_NONE ? find(compiled, node->inputs[i]) : (uint32_t)CHIP_MOST_BOUND;
    op->kind = device_op(node);
    op->a = op->b = operands[0];
    op->low = op->high = CHIP_MOST_BOUND;
    if (op->kind == CHIP_CLIP) {
        op->low = node->input_count > 1 ? operands[1] : (uint32_t)CHIP_MOST_BOUND;
        op->high = node->input_count > 2 ? operands[2] : (uint32_t)CHIP_MOST_BOUND;
    } else if (node->input_count > 1) {
        op->b = operands[1];
    }
    op->y = find(compiled, node->outputs[0]);
    return op->y < compiled->bound_count ? INLAY_OK : bind(compiled, &node->outputs[0], 1, diag);
}

/* Returns whether the graph states the size of each value in the table. */
static bool has_fixed_shapes(const inlay_graph *graph, const inlay_compiled *compiled)
{
    for (uint32_t i = 0; i < compiled->bound_count; i++) {
        const inlay_value_info *value = inlay_graph_value(graph, compiled->values[i]);

        for (uint32_t d = 0; d < value->rank; d++)
            if (value->dims[d].kind != INLAY_DIM_FIXED)
                return false;
    }
    return true;
}

inlay_status device_compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                            inlay_diag *diag)
{
    const struct engine_call call = ENGINE_CALL(request);
    struct device *device = state;
    inlay_compiled *compiled = calloc(1, sizeof *compiled + request->node_count * sizeof compiled->ops[0]);
    inlay_status status = INLAY_OK;

    if (compiled == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region of %u nodes", request->node_count);
    compiled->input_count = request->input_count;
    compiled->output_count = request->output_count;
    INLAY_TRY(bind(compiled, request->inputs, request->input_count, diag));
    INLAY_TRY(bind(compiled, request->outputs, request->output_count, diag));
    INLAY_TRY(bind_constants(device, request, compiled, diag));
    for (uint32_t n = 0; n < request->node_count; n++)
        INLAY_TRY(translate(request, compiled, n, diag));
    compiled->has_engine = has_fixed_shapes(request->graph, compiled);
    if (compiled->has_engine)
        INLAY_TRY(engine_build(device, &call, compiled->ops, compiled->op_count, diag));
    *out_compiled = compiled;
    compiled = NULL;
done:
    device_release_compiled(device, compiled);
    return status;
}

void device_release_compiled(void *state, inlay_compiled *compiled)
{
    if (compiled == NULL)
        return;
    for (uint32_t i = 0; i < compiled->constant_count; i++)
        chip_free(((struct device *)state)->chip, compiled->constants[i]);
    free(compiled);
}

struct inlay_instance {
    uint64_t inner_offset[CHIP_MOST_BOUND]; /* in the workspace, by index of the table */
    chip_op ops[];                          /* sizes set */
};

static const inlay_value_state *state_of(const inlay_specialize_request *request, const inlay_compiled *compiled,
                                         uint32_t bound)
{
    return INLAY_AT(inlay_value_state, request->values, request->value_stride, compiled->values[bound]);
}

static int64_t elements_of(const inlay_value_state *value)
{
    int64_t count = 1;

    for (uint32_t i = 0; i < value->rank; i++)
        count *= value->dims[i];
    return count;
}

inlay_status device_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out_instance, inlay_diag *diag)
{
    const struct engine_call call = ENGINE_CALL(request);
    inlay_instance *instance = calloc(1, sizeof *instance + compiled->op_count * sizeof instance->ops[0]);
    const uint32_t inner = compiled->input_count + compiled->output_count + compiled->constant_count;
    inlay_status status = INLAY_OK;

    if (instance == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region of %u operations", compiled->op_count);
    for (uint32_t i = 0; i < compiled->op_count; i++) {
        chip_op *op = &instance->ops[i];
        const inlay_value_state *a;

        *op = compiled->ops[i];
        a = state_of(request, compiled, op->a);
        op->n = elements_of(a);
        if (op->kind == CHIP_MATMUL) {
            op->m = a->dims[0];
            op->k = a->dims[1];
            op->n = state_of(request, compiled, op->b)->dims[1];
        }
    }
    /* Each intermediate value has separate memory; a real device would let them share it. */
    for (uint32_t i = inner; i < compiled->bound_count; i++) {
        const uint64_t bytes = (uint64_t)elements_of(state_of(request, compiled, i)) * sizeof(float);

        instance->inner_offset[i] = request->workspace_bytes;
        request->workspace_bytes += (bytes + CHIP_ALIGNMENT - 1) / CHIP_ALIGNMENT * CHIP_ALIGNMENT;
    }
    request->workspace_alignment = CHIP_ALIGNMENT;
    if (!compiled->has_engine)
        status = engine_build(state, &call, instance->ops, compiled->op_count, diag);
    if (status == INLAY_OK)
        *out_instance = instance;
    else
        free(instance);
    return status;
}

void device_release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)state, (void)compiled;
    free(instance);
}

static struct job *take_job(struct device *device)
{
    struct job *job;

    (void)pthread_mutex_lock(&device->mutex);
    while (device->free_jobs == NULL)
        (void)pthread_cond_wait(&device->freed, &device->mutex);
    job = device->free_jobs;
    device->free_jobs = job->next_free;
    (void)pthread_mutex_unlock(&device->mutex);
    return job;
}

static void release_job(struct device *device, struct job *job)
{
    (void)pthread_mutex_lock(&device->mutex);
    job->next_free = device->free_jobs;
    device->free_jobs = job;
    (void)pthread_cond_signal(&device->freed);
    (void)pthread_mutex_unlock(&device->mutex);
}

/* On the queue's thread: waits for the inputs. */
static bool job_ready(chip_job *queued)
{
    struct job *job = (struct job *)(void *)queued;
    struct device *device = queued->user;

    for (uint32_t wait = 0; wait < job->wait_count && job->status == INLAY_OK; wait++)
        job->status = device->host->fence_wait(device->host->ctx, job->run, job->waits[wait], &job->why);
    return job->status == INLAY_OK;
}

static bool job_stop(chip_job *queued)
{
    struct job *job = (struct job *)(void *)queued;
    struct device *device = queued->user;

    if (job->run != NULL)
        job->status = device->host->poll(device->host->ctx, job->run);
    return job->status != INLAY_OK;
}

/* Signals the fence in every case; otherwise the host would wait forever. */
static void job_end(chip_job *queued, chip_result result)
{
    struct job *job = (struct job *)(void *)queued;
    struct device *device = queued->user;
    const inlay_fence signal = job->signal;
    inlay_status status = job->status;
    inlay_diag why = job->why;

    if (result == CHIP_LOST)
        status = inlay_fail(&why, INLAY_DEVICE_LOST, "the chip does not answer; close the session and open it again");
    release_job(device, job);
    device->host->fence_signal(device->host->ctx, signal, status, &why);
}

static inlay_status start_job(struct device *device, inlay_run *run, const inlay_fence *waits, uint32_t wait_count,
                              inlay_fence signal, struct job **out_job, inlay_diag *diag)
{
    struct job *job;

    if (wait_count > MOST_WAITS)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "%u fences to wait for; the chip takes %d", wait_count,
                          MOST_WAITS);
    *out_job = job = take_job(device);
    job->chip.user = device;
    job->chip.ready = job_ready;
    job->chip.stop = job_stop;
    job->chip.end = job_end;
    job->run = run;
    job->wait_count = wait_count;
    if (wait_count > 0)
        memcpy(job->waits, waits, wait_count * sizeof *waits);
    job->signal = signal;
    job->status = INLAY_OK;
    job->why = (inlay_diag)INLAY_DIAG_INIT;
    return INLAY_OK;
}

/* A job of the chip makes CHIP_MOST_COPIES copies. A request with more is split: each job waits for the fences, so that
 * each fails if one of them does, and the last job signals, since the queue processes its jobs in order. */
inlay_status device_copy(void *state, const inlay_copy_request *request, inlay_diag *diag)
{
    struct device *device = state;
    uint32_t i = 0;

    do {
        const bool last = request->copy_count - i <= CHIP_MOST_COPIES;
        const uint32_t end = last ? request->copy_count : i + CHIP_MOST_COPIES;
        struct job *job;
        inlay_status status = start_job(device, request->run, request->waits, request->wait_count,
                                        last ? request->signal : (inlay_fence){ 0, 0 }, &job, diag);

        /* whether this fails depends on wait_count alone, so if any job fails, the first one does */
        if (status != INLAY_OK)
            return status;
        job->chip.op_count = 0;
        for (job->chip.copy_count = 0; i < end; i++) {
            const inlay_copy *copy = INLAY_AT(inlay_copy, request->copies, request->copy_stride, i);
            const uint32_t k = job->chip.copy_count++;

            job->chip.bound[2 * k] = copy->source.handle + copy->source.offset;
            job->chip.bound[2 * k + 1] = copy->target.handle + copy->target.offset;
            job->chip.bytes[k] = copy->source.bytes < copy->target.bytes ? copy->source.bytes : copy->target.bytes;
        }
        chip_submit(device->chip, CHIP_COPIES, &job->chip);
    } while (i < request->copy_count);
    return INLAY_OK;
}

inlay_status device_execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args)
{
    struct device *device = state;
    uint32_t at = 0;
    struct job *job;
    inlay_status status = start_job(device, args->run, args->waits, args->wait_count, args->signal, &job, args->diag);

    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < compiled->input_count; i++, at++) {
        const inlay_tensor_arg *input = INLAY_AT(inlay_tensor_arg, args->inputs, args->arg_stride, i);

        job->chip.bound[at] = input->buffer.handle + input->buffer.offset;
    }
    for (uint32_t i = 0; i < compiled->output_count; i++, at++) {
        const inlay_tensor_arg *output = INLAY_AT(inlay_tensor_arg, args->outputs, args->arg_stride, i);

        job->chip.bound[at] = output->buffer.handle + output->buffer.offset;
    }
    for (uint32_t i = 0; i < compiled->constant_count; i++, at++)
        job->chip.bound[at] = compiled->constants[i];
    for (; at < compiled->bound_count; at++)
        job->chip.bound[at] = args->workspace.handle + args->workspace.offset + instance->inner_offset[at];
    job->chip.ops = instance->ops;
    job->chip.op_count = compiled->op_count;
    job->chip.copy_count = 0;
    chip_submit(device->chip, CHIP_COMPUTE, &job->chip);
    return INLAY_OK;
}
