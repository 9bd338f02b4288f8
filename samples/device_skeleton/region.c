/* Regions: compiled into a list of operations, specialized for shapes, submitted as jobs. */
#include "device.h"
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ compile
 *
 * An operand of an operation is an index into a table of addresses that each run fills in: the region's inputs, its
 * outputs, the constants, and the intermediate values, which are in the workspace. */

struct inlay_compiled {
    uint32_t op_count, bound_count;
    uint32_t input_count, output_count, constant_count;
    uint32_t values[CHIP_MOST_BOUND];    /* value in the graph, by index of the table */
    uint64_t constants[CHIP_MOST_BOUND]; /* addresses */
    chip_op ops[];                       /* sizes not yet set */
};

static inlay_status too_many(inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_UNSUPPORTED, "the chip binds %d buffers at most, this region has more",
                      CHIP_MOST_BOUND);
}

static uint32_t find(const inlay_compiled *c, uint32_t value)
{
    uint32_t i = 0;

    while (i < c->bound_count && c->values[i] != value)
        i++;
    return i;
}

/* Copies a constant to the chip; the host may release its copy. */
static inlay_status upload(device *d, const inlay_compile_request *r, inlay_compiled *c, uint32_t value,
                           inlay_diag *diag)
{
    const inlay_value_info *v = inlay_graph_value(r->graph, value);
    const uint64_t address = chip_alloc(d->chip, v->data_bytes);

    if (address == 0)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "the chip has no room for %llu bytes of '%s'",
                          (unsigned long long)v->data_bytes, v->name.data);
    chip_write(d->chip, address, v->data, v->data_bytes);
    c->constants[c->constant_count++] = address;
    r->constants[value] = INLAY_CONST_COPIED;
    return INLAY_OK;
}

/* Constants precede intermediate values in the table. */
static inlay_status bind_constants(device *d, const inlay_compile_request *r, inlay_compiled *c, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t n = 0; n < r->node_count; n++) {
        const inlay_node_info *node = inlay_graph_node(r->graph, r->nodes[n]);

        for (uint32_t i = 0; i < node->input_count; i++) {
            const inlay_value_info *v = inlay_graph_value(r->graph, node->inputs[i]);

            if (v == NULL || (v->flags & INLAY_VALUE_CONSTANT) == 0 || find(c, node->inputs[i]) < c->bound_count)
                continue;
            if (c->bound_count == CHIP_MOST_BOUND)
                return too_many(diag);
            status = upload(d, r, c, node->inputs[i], diag);
            if (status != INLAY_OK)
                return status;
            c->values[c->bound_count++] = node->inputs[i];
        }
    }
    return INLAY_OK;
}

static inlay_status bind(inlay_compiled *c, const uint32_t *values, uint32_t count, inlay_diag *diag)
{
    if (count > CHIP_MOST_BOUND - c->bound_count)
        return too_many(diag);
    for (uint32_t i = 0; i < count; i++)
        c->values[c->bound_count++] = values[i];
    return INLAY_OK;
}

/* Adds the operation of a node; binds its result unless it is bound already. */
static inlay_status translate(const inlay_compile_request *r, inlay_compiled *c, uint32_t n, inlay_diag *diag)
{
    const inlay_node_info *node = inlay_graph_node(r->graph, r->nodes[n]);
    chip_op *op = &c->ops[c->op_count++];
    uint32_t in[3] = { INLAY_NONE, INLAY_NONE, INLAY_NONE };

    for (uint32_t i = 0; i < node->input_count && i < 3; i++)
        in[i] = node->inputs[i] != INLAY_NONE ? find(c, node->inputs[i]) : (uint32_t)CHIP_MOST_BOUND;
    op->kind = device_op(node);
    op->a = op->b = in[0];
    op->low = op->high = CHIP_MOST_BOUND;
    if (op->kind == CHIP_CLIP) {
        op->low = node->input_count > 1 ? in[1] : (uint32_t)CHIP_MOST_BOUND;
        op->high = node->input_count > 2 ? in[2] : (uint32_t)CHIP_MOST_BOUND;
    } else if (node->input_count > 1) {
        op->b = in[1];
    }
    op->y = find(c, node->outputs[0]);
    return op->y < c->bound_count ? INLAY_OK : bind(c, &node->outputs[0], 1, diag);
}

inlay_status device_compile(void *state, const inlay_compile_request *r, inlay_compiled **out_compiled,
                            inlay_diag *diag)
{
    device *d = state;
    inlay_compiled *c = calloc(1, sizeof *c + r->node_count * sizeof c->ops[0]);
    inlay_status status = INLAY_OK;

    if (c == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region of %u nodes", r->node_count);
    c->input_count = r->input_count;
    c->output_count = r->output_count;
    INLAY_TRY(bind(c, r->inputs, r->input_count, diag));
    INLAY_TRY(bind(c, r->outputs, r->output_count, diag));
    INLAY_TRY(bind_constants(d, r, c, diag));
    for (uint32_t n = 0; n < r->node_count; n++)
        INLAY_TRY(translate(r, c, n, diag));
    *out_compiled = c;
    c = NULL;
done:
    device_release_compiled(d, c);
    return status;
}

void device_release_compiled(void *state, inlay_compiled *c)
{
    if (c == NULL)
        return;
    for (uint32_t i = 0; i < c->constant_count; i++)
        chip_free(((device *)state)->chip, c->constants[i]);
    free(c);
}

/* ------------------------------------------------------------------ specialize */

struct inlay_instance {
    uint64_t inner_offset[CHIP_MOST_BOUND]; /* in the workspace, by index of the table */
    chip_op ops[];                          /* sizes set */
};

static const inlay_value_state *state_of(const inlay_specialize_request *r, const inlay_compiled *c, uint32_t bound)
{
    return INLAY_AT(inlay_value_state, r->values, r->value_stride, c->values[bound]);
}

static int64_t elements_of(const inlay_value_state *v)
{
    int64_t count = 1;

    for (uint32_t i = 0; i < v->rank; i++)
        count *= v->dims[i];
    return count;
}

inlay_status device_specialize(void *state, inlay_compiled *c, inlay_specialize_request *r,
                               inlay_instance **out_instance, inlay_diag *diag)
{
    inlay_instance *in = calloc(1, sizeof *in + c->op_count * sizeof in->ops[0]);
    const uint32_t inner = c->input_count + c->output_count + c->constant_count;

    (void)state;
    if (in == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region of %u operations", c->op_count);
    for (uint32_t i = 0; i < c->op_count; i++) {
        chip_op *op = &in->ops[i];
        const inlay_value_state *a;

        *op = c->ops[i];
        a = state_of(r, c, op->a);
        op->n = elements_of(a);
        if (op->kind == CHIP_MATMUL) {
            op->m = a->dims[0];
            op->k = a->dims[1];
            op->n = state_of(r, c, op->b)->dims[1];
        }
    }
    /* Each intermediate value has separate memory; a real device would let them share it. */
    for (uint32_t i = inner; i < c->bound_count; i++) {
        const uint64_t bytes = (uint64_t)elements_of(state_of(r, c, i)) * sizeof(float);

        in->inner_offset[i] = r->workspace_bytes;
        r->workspace_bytes += (bytes + CHIP_ALIGNMENT - 1) / CHIP_ALIGNMENT * CHIP_ALIGNMENT;
    }
    r->workspace_alignment = CHIP_ALIGNMENT;
    *out_instance = in;
    return INLAY_OK;
}

void device_release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)state, (void)compiled;
    free(instance);
}

/* ------------------------------------------------------------------ jobs */

static job *take_job(device *d)
{
    job *j;

    (void)pthread_mutex_lock(&d->mutex);
    while (d->free_jobs == NULL)
        (void)pthread_cond_wait(&d->freed, &d->mutex);
    j = d->free_jobs;
    d->free_jobs = j->next_free;
    (void)pthread_mutex_unlock(&d->mutex);
    return j;
}

static void give_job(device *d, job *j)
{
    (void)pthread_mutex_lock(&d->mutex);
    j->next_free = d->free_jobs;
    d->free_jobs = j;
    (void)pthread_cond_signal(&d->freed);
    (void)pthread_mutex_unlock(&d->mutex);
}

/* On the queue's thread: waits for the inputs. */
static bool job_ready(chip_job *cj)
{
    job *j = (job *)(void *)cj;
    device *d = cj->user;

    for (uint32_t w = 0; w < j->wait_count && j->status == INLAY_OK; w++)
        j->status = d->host->fence_wait(d->host->ctx, j->run, j->waits[w], &j->why);
    return j->status == INLAY_OK;
}

static bool job_stop(chip_job *cj)
{
    job *j = (job *)(void *)cj;
    device *d = cj->user;

    if (j->run != NULL)
        j->status = d->host->poll(d->host->ctx, j->run);
    return j->status != INLAY_OK;
}

/* Signals the fence in every case; otherwise the host would wait forever. */
static void job_end(chip_job *cj, chip_result result)
{
    job *j = (job *)(void *)cj;
    device *d = cj->user;
    const inlay_fence signal = j->signal;
    inlay_status status = j->status;
    inlay_diag why = j->why;

    if (result == CHIP_LOST)
        status = inlay_fail(&why, INLAY_DEVICE_LOST, "the chip does not answer; close the session and open it again");
    give_job(d, j);
    d->host->fence_signal(d->host->ctx, signal, status, &why);
}

static inlay_status start_job(device *d, inlay_run *run, const inlay_fence *waits, uint32_t wait_count,
                              inlay_fence signal, job **out_job, inlay_diag *diag)
{
    job *j;

    if (wait_count > MOST_WAITS)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "%u fences to wait for; the chip takes %d", wait_count,
                          MOST_WAITS);
    *out_job = j = take_job(d);
    j->chip.user = d;
    j->chip.ready = job_ready;
    j->chip.stop = job_stop;
    j->chip.end = job_end;
    j->run = run;
    j->wait_count = wait_count;
    if (wait_count > 0)
        memcpy(j->waits, waits, wait_count * sizeof *waits);
    j->signal = signal;
    j->status = INLAY_OK;
    j->why = (inlay_diag)INLAY_DIAG_INIT;
    return INLAY_OK;
}

inlay_status device_copy(void *state, inlay_run *run, const inlay_buffer *source, const inlay_buffer *target,
                         const inlay_fence *waits, uint32_t wait_count, inlay_fence signal, inlay_diag *diag)
{
    device *d = state;
    job *j;
    inlay_status status = start_job(d, run, waits, wait_count, signal, &j, diag);

    if (status != INLAY_OK)
        return status;
    j->chip.op_count = 0;
    j->chip.bound[0] = source->handle + source->offset;
    j->chip.bound[1] = target->handle + target->offset;
    j->chip.bytes = source->bytes < target->bytes ? source->bytes : target->bytes;
    chip_submit(d->chip, CHIP_COPIES, &j->chip);
    return INLAY_OK;
}

inlay_status device_execute(void *state, inlay_compiled *c, inlay_instance *in, const inlay_exec_args *args)
{
    device *d = state;
    uint32_t at = 0;
    job *j;
    inlay_status status = start_job(d, args->run, args->waits, args->wait_count, args->signal, &j, args->diag);

    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < c->input_count; i++, at++) {
        const inlay_tensor_arg *x = INLAY_AT(inlay_tensor_arg, args->inputs, args->arg_stride, i);

        j->chip.bound[at] = x->buffer.handle + x->buffer.offset;
    }
    for (uint32_t i = 0; i < c->output_count; i++, at++) {
        const inlay_tensor_arg *y = INLAY_AT(inlay_tensor_arg, args->outputs, args->arg_stride, i);

        j->chip.bound[at] = y->buffer.handle + y->buffer.offset;
    }
    for (uint32_t i = 0; i < c->constant_count; i++, at++)
        j->chip.bound[at] = c->constants[i];
    for (; at < c->bound_count; at++)
        j->chip.bound[at] = args->workspace.handle + args->workspace.offset + in->inner_offset[at];
    j->chip.ops = in->ops;
    j->chip.op_count = c->op_count;
    chip_submit(d->chip, CHIP_COMPUTE, &j->chip);
    return INLAY_OK;
}
