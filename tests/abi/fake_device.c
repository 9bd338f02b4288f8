/* A device that is not the CPU, as far as a host can tell: a plugin written on plugin.h alone, without the kit.
 *
 * Its memory is a domain of its own whose handles are numbers and not addresses; each buffer that it is handed back is
 * checked. One thread of its own works off a queue of jobs, so execute and copies return long before the work is done,
 * and fences are signalled from that thread. It runs Neg, Relu, Add and Mul of equal shapes on floats, merges
 * neighbours, offers Mul followed by Add as a group, and runs NonZero, whose shape depends on data, in two ways. */
#include "fake_device.h"
#include "inlay/plugin.h"
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_BUFFERS = 4096, MAX_TENSORS = 64, MAX_WAITS = 64, ALIGNMENT = 256, HANDLE_BASE = 0x7000 };

typedef struct job job;
typedef struct device {
    const inlay_host *host;
    uint32_t domain; /* host-wide id of its memory */
    int64_t delay_us;
    int64_t lose_after; /* jobs until the device is lost, 0 = never */
    bool bounded;       /* NonZero into a buffer of the largest size; otherwise it allocates */
    bool refuse;        /* offers nothing */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    job *first, *last; /* queue */
    bool busy, stopping, lost;
    struct {
        char *data;
        uint64_t bytes;
    } buffers[MAX_BUFFERS]; /* handle HANDLE_BASE + i */
    fake_counters counters;
} device;

static void count(uint32_t *counter, int32_t by)
{
    (void)__atomic_fetch_add(counter, (uint32_t)by, __ATOMIC_RELAXED);
}

/* ------------------------------------------------------------------ memory */

static inlay_status buffer_alloc(void *state, uint32_t domain, uint64_t bytes, inlay_buffer *out, inlay_diag *diag)
{
    device *d = state;
    uint32_t i = 0;

    *out = (inlay_buffer){ 0 };
    if (domain != d->domain)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "fake: domain %u is not mine, which is %u", domain, d->domain);
    (void)pthread_mutex_lock(&d->mutex);
    while (i < MAX_BUFFERS && d->buffers[i].data != NULL)
        i++;
    if (i < MAX_BUFFERS)
        d->buffers[i].data = malloc(bytes > 0 ? bytes : 1);
    if (i == MAX_BUFFERS || d->buffers[i].data == NULL) {
        (void)pthread_mutex_unlock(&d->mutex);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: out of device memory");
    }
    d->buffers[i].bytes = bytes;
    (void)pthread_mutex_unlock(&d->mutex);
    count(&d->counters.live_buffers, 1);
    *out = (inlay_buffer){ .handle = HANDLE_BASE + i, .bytes = bytes, .domain = d->domain };
    return INLAY_OK;
}

static void buffer_free(void *state, const inlay_buffer *buffer)
{
    device *d = state;
    uint64_t i = buffer->handle - HANDLE_BASE;

    (void)pthread_mutex_lock(&d->mutex);
    if (i < MAX_BUFFERS && d->buffers[i].data != NULL) {
        free(d->buffers[i].data);
        d->buffers[i].data = NULL;
        count(&d->counters.live_buffers, -1);
    } else {
        count(&d->counters.misuse, 1);
    }
    (void)pthread_mutex_unlock(&d->mutex);
}

/* Where a buffer lies, if it is what the host may hand in and holds `bytes`; NULL otherwise. */
static char *address(device *d, const inlay_buffer *b, uint64_t bytes)
{
    uint64_t i = b->handle - HANDLE_BASE;
    char *data = NULL;

    if (b->domain == INLAY_DOMAIN_HOST && b->bytes >= bytes)
        return inlay_buffer_host(b);
    (void)pthread_mutex_lock(&d->mutex);
    if (b->domain == d->domain && i < MAX_BUFFERS && d->buffers[i].data != NULL && b->offset % ALIGNMENT == 0 &&
        b->offset <= d->buffers[i].bytes && b->bytes <= d->buffers[i].bytes - b->offset && bytes <= b->bytes)
        data = d->buffers[i].data + b->offset;
    (void)pthread_mutex_unlock(&d->mutex);
    if (data == NULL)
        count(&d->counters.misuse, 1);
    return data;
}

/* ------------------------------------------------------------------ regions */

enum { OP_NEG, OP_RELU, OP_ADD, OP_MUL, OP_NONZERO, OP_COUNT };
static const char *const op_names[OP_COUNT] = { "Neg", "Relu", "Add", "Mul", "NonZero" };

static int op_of(const inlay_node_info *node)
{
    for (int op = 0; op < OP_COUNT; op++)
        if (strcmp(node->op_type.data, op_names[op]) == 0 && strcmp(node->domain.data, "ai.onnx") == 0)
            return op;
    return -1;
}

enum { FROM_INPUT, FROM_OUTPUT, FROM_INNER, FROM_CONSTANT };
typedef struct operand {
    uint32_t from, index;
    uint32_t value; /* of the snapshot */
} operand;

typedef struct step {
    int op;
    operand in[2], out;
    uint32_t in_count;
} step;

struct inlay_compiled {
    step *steps;
    inlay_buffer *constants; /* uploaded */
    uint32_t step_count, constant_count, inner_count;
};

struct inlay_instance {
    int64_t count;       /* elements of every float tensor here */
    int64_t dims[16];    /* of NonZero's input */
    uint32_t rank;
    uint64_t inner_bytes; /* of one inner value in the workspace, aligned */
};

static uint32_t find(const uint32_t *list, uint32_t n, uint32_t value)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == value)
            return i;
    return INLAY_NONE;
}

static void release_compiled(void *state, inlay_compiled *c)
{
    device *d = state;

    if (c == NULL)
        return;
    for (uint32_t i = 0; i < c->constant_count; i++)
        buffer_free(d, &c->constants[i]);
    free(c->constants);
    free(c->steps);
    free(c);
    count(&d->counters.live_regions, -1);
}

static inlay_status upload(device *d, const inlay_compile_request *r, inlay_compiled *c, uint32_t value, operand *out,
                           inlay_diag *diag)
{
    const inlay_value_info *v = inlay_graph_value(r->graph, value);
    inlay_buffer *b = &c->constants[c->constant_count];
    inlay_status status = buffer_alloc(d, d->domain, v->data_bytes, b, diag);

    if (status != INLAY_OK)
        return status;
    memcpy(d->buffers[b->handle - HANDLE_BASE].data, v->data, v->data_bytes);
    out->from = FROM_CONSTANT;
    out->index = c->constant_count++;
    r->constants[value] = INLAY_CONST_COPIED;
    return INLAY_OK;
}

static inlay_status read_operand(device *d, const inlay_compile_request *r, inlay_compiled *c, uint32_t value,
                                 operand *out, inlay_diag *diag)
{
    *out = (operand){ .value = value };
    if ((inlay_graph_value(r->graph, value)->flags & INLAY_VALUE_CONSTANT) != 0)
        return upload(d, r, c, value, out, diag);
    for (uint32_t s = 0; s < c->step_count; s++) {
        if (c->steps[s].out.value == value) {
            *out = c->steps[s].out;
            return INLAY_OK;
        }
    }
    out->from = FROM_INPUT;
    out->index = find(r->inputs, r->input_count, value);
    if (out->index == INLAY_NONE)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "fake: a value that neither enters nor is made");
    return INLAY_OK;
}

static inlay_status compile(void *state, const inlay_compile_request *r, inlay_compiled **out_compiled, inlay_diag *diag)
{
    device *d = state;
    inlay_compiled *c = calloc(1, sizeof *c);
    inlay_status status = INLAY_OK;

    *out_compiled = NULL;
    if (c == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: compile");
    count(&d->counters.live_regions, 1);
    c->steps = calloc(r->node_count, sizeof *c->steps);
    c->constants = calloc((size_t)2 * r->node_count, sizeof *c->constants);
    if (c->steps == NULL || c->constants == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: compile");
        goto done;
    }
    for (uint32_t n = 0; n < r->node_count; n++) {
        const inlay_node_info *node = inlay_graph_node(r->graph, r->nodes[n]);
        step *s = &c->steps[c->step_count];

        s->op = op_of(node);
        s->in_count = node->input_count;
        for (uint32_t i = 0; i < s->in_count; i++)
            INLAY_TRY(read_operand(d, r, c, node->inputs[i], &s->in[i], diag));
        s->out = (operand){ .from = FROM_OUTPUT, .value = node->outputs[0] };
        s->out.index = find(r->outputs, r->output_count, node->outputs[0]);
        if (s->out.index == INLAY_NONE)
            s->out = (operand){ .from = FROM_INNER, .index = c->inner_count++, .value = node->outputs[0] };
        c->step_count++;
    }
    count(&d->counters.compiled, 1);
    if (r->node_count > d->counters.largest)
        d->counters.largest = r->node_count;
    for (uint32_t o = 0; o < r->offer_count; o++)
        if (r->cookies[o] == 2)
            count(&d->counters.groups, 1);
    if (r->cache_blob != NULL)
        count(&d->counters.seen_blobs, 1);
    else if (r->store_cache != NULL && r->store_cache(r->ctx, "fake blob", 9) == INLAY_OK)
        count(&d->counters.stored_blobs, 1);
    *out_compiled = c;
    c = NULL;
done:
    release_compiled(d, c);
    return status;
}

static inlay_status specialize(void *state, inlay_compiled *c, inlay_specialize_request *r, inlay_instance **out_instance,
                               inlay_diag *diag)
{
    device *d = state;
    inlay_instance *in = calloc(1, sizeof *in);
    const inlay_value_state *x = INLAY_AT(inlay_value_state, r->values, r->value_stride, c->steps[0].in[0].value);

    *out_instance = NULL;
    if (in == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: specialize");
    in->count = 1;
    in->rank = x->rank;
    for (uint32_t i = 0; i < x->rank; i++) {
        in->dims[i] = x->dims[i];
        in->count *= x->dims[i];
    }
    in->inner_bytes = ((uint64_t)in->count * sizeof(float) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    r->workspace_bytes = in->inner_bytes * c->inner_count;
    r->workspace_alignment = ALIGNMENT;
    if (c->steps[0].op == OP_NONZERO) {
        r->outputs[0].kind = d->bounded ? INLAY_OUTPUT_BOUNDED : INLAY_OUTPUT_ALLOCATED;
        r->outputs[0].max_bytes = (uint64_t)in->count * in->rank * sizeof(int64_t);
    }
    count(&d->counters.live_regions, 1);
    *out_instance = in;
    return INLAY_OK;
}

static void release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)compiled;
    free(instance);
    count(&((device *)state)->counters.live_regions, -1);
}

/* ------------------------------------------------------------------ jobs */

struct job {
    job *next;
    const inlay_compiled *compiled; /* NULL: a copy */
    const inlay_instance *instance;
    inlay_buffer inputs[MAX_TENSORS], outputs[MAX_TENSORS], workspace; /* copies use inputs[0] and outputs[0] */
    inlay_fence waits[MAX_WAITS], signal;
    uint32_t wait_count;
    inlay_run *run;
};

static float *operand_data(device *d, const job *j, const operand *o)
{
    uint64_t bytes = (uint64_t)j->instance->count * sizeof(float);
    inlay_buffer inner = j->workspace;

    switch (o->from) {
    case FROM_INPUT:
        return (float *)(void *)address(d, &j->inputs[o->index], bytes);
    case FROM_OUTPUT:
        return (float *)(void *)address(d, &j->outputs[o->index], bytes);
    case FROM_CONSTANT:
        return (float *)(void *)address(d, &j->compiled->constants[o->index], bytes);
    default:
        inner.offset += o->index * j->instance->inner_bytes;
        inner.bytes -= o->index * j->instance->inner_bytes;
        return (float *)(void *)address(d, &inner, bytes);
    }
}

static inlay_status compute(device *d, const job *j)
{
    for (uint32_t s = 0; s < j->compiled->step_count; s++) {
        const step *st = &j->compiled->steps[s];
        const float *a = operand_data(d, j, &st->in[0]);
        const float *b = st->in_count > 1 ? operand_data(d, j, &st->in[1]) : a;
        float *y = operand_data(d, j, &st->out);

        if (a == NULL || b == NULL || y == NULL)
            return INLAY_INTERNAL;
        for (int64_t i = 0; i < j->instance->count; i++)
            y[i] = st->op == OP_NEG ? -a[i] : st->op == OP_RELU ? fmaxf(a[i], 0) : st->op == OP_ADD ? a[i] + b[i]
                                                                                                    : a[i] * b[i];
    }
    count(&d->counters.executed, 1);
    return INLAY_OK;
}

static inlay_status copy(device *d, const job *j)
{
    const inlay_buffer *from = &j->inputs[0], *to = &j->outputs[0];
    uint64_t bytes = from->bytes < to->bytes ? from->bytes : to->bytes;
    const char *source = address(d, from, bytes);
    char *target = address(d, to, bytes);

    if (source == NULL || target == NULL)
        return INLAY_INTERNAL;
    memcpy(target, source, bytes);
    if (from->domain == INLAY_DOMAIN_HOST)
        count(&d->counters.copied_in, 1);
    if (to->domain == INLAY_DOMAIN_HOST)
        count(&d->counters.copied_out, 1);
    return INLAY_OK;
}

/* Takes its time, but looks up now and then. */
static inlay_status pretend_to_work(device *d, inlay_run *run)
{
    for (int64_t us = 0; us < d->delay_us; us += 100) {
        const struct timespec pause = { 0, 100000 };
        inlay_status status = run != NULL ? d->host->poll(d->host->ctx, run) : INLAY_OK;

        if (status != INLAY_OK) {
            count(&d->counters.cancelled, 1);
            return status;
        }
        (void)nanosleep(&pause, NULL);
    }
    return INLAY_OK;
}

static void do_job(device *d, job *j)
{
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;

    for (uint32_t w = 0; w < j->wait_count && status == INLAY_OK; w++)
        status = d->host->fence_wait(d->host->ctx, j->run, j->waits[w], &why);
    if (status == INLAY_OK && (d->lost || (d->lose_after > 0 && --d->lose_after == 0))) {
        d->lost = true;
        status = inlay_fail(&why, INLAY_DEVICE_LOST, "fake: the device fell off the bus");
    }
    if (status == INLAY_OK)
        status = pretend_to_work(d, j->run);
    if (status == INLAY_OK)
        status = j->compiled != NULL ? compute(d, j) : copy(d, j);
    if (status == INLAY_INTERNAL)
        (void)inlay_fail(&why, status, "fake: a buffer that is not mine");
    d->host->fence_signal(d->host->ctx, j->signal, status, &why);
    free(j);
}

static void *work(void *arg)
{
    device *d = arg;

    (void)pthread_mutex_lock(&d->mutex);
    while (!d->stopping || d->first != NULL) {
        job *j = d->first;

        if (j == NULL) {
            (void)pthread_cond_wait(&d->changed, &d->mutex);
            continue;
        }
        d->first = j->next;
        if (d->first == NULL)
            d->last = NULL;
        d->busy = true;
        (void)pthread_mutex_unlock(&d->mutex);
        do_job(d, j);
        (void)pthread_mutex_lock(&d->mutex);
        d->busy = false;
        (void)pthread_cond_broadcast(&d->changed);
    }
    (void)pthread_mutex_unlock(&d->mutex);
    return NULL;
}

static inlay_status enqueue(device *d, job *j, const inlay_fence *waits, uint32_t wait_count, inlay_diag *diag)
{
    if (wait_count > MAX_WAITS) {
        free(j);
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "fake: too many fences");
    }
    if (wait_count > 0)
        memcpy(j->waits, waits, wait_count * sizeof *waits);
    j->wait_count = wait_count;
    (void)pthread_mutex_lock(&d->mutex);
    if (d->stopping) {
        (void)pthread_mutex_unlock(&d->mutex);
        free(j);
        return inlay_fail(diag, INLAY_BUSY, "fake: stopping");
    }
    if (d->last != NULL)
        d->last->next = j;
    else
        d->first = j;
    d->last = j;
    (void)pthread_cond_broadcast(&d->changed);
    (void)pthread_mutex_unlock(&d->mutex);
    return INLAY_OK;
}

static inlay_status buffer_copy(void *state, inlay_run *run, const inlay_buffer *source, const inlay_buffer *target,
                                const inlay_fence *waits, uint32_t wait_count, inlay_fence signal, inlay_diag *diag)
{
    job *j = calloc(1, sizeof *j);

    if (j == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: copy");
    j->inputs[0] = *source;
    j->outputs[0] = *target;
    j->signal = signal;
    j->run = run;
    return enqueue(state, j, waits, wait_count, diag);
}

/* The shape of the output depends on data, so this one waits for its input before it returns. */
static inlay_status run_nonzero(device *d, const inlay_compiled *c, const inlay_instance *in, const inlay_exec_args *args)
{
    const inlay_tensor_arg *x = &args->inputs[c->steps[0].in[0].index];
    inlay_tensor_arg *y = &args->outputs[0];
    int64_t dims[2] = { in->rank, 0 }, *out;
    inlay_buffer memory = y->buffer;
    const float *data;
    inlay_status status = INLAY_OK;

    for (uint32_t w = 0; w < args->wait_count && status == INLAY_OK; w++)
        status = d->host->fence_wait(d->host->ctx, args->run, args->waits[w], args->diag);
    if (status != INLAY_OK)
        return status;
    data = (const float *)(const void *)address(d, &x->buffer, (uint64_t)in->count * sizeof *data);
    if (data == NULL)
        return inlay_fail(args->diag, INLAY_INTERNAL, "fake: a buffer that is not mine");
    for (int64_t i = 0; i < in->count; i++)
        dims[1] += data[i] != 0;
    if (d->bounded) {
        y->dims[0] = dims[0];
        y->dims[1] = dims[1];
    } else {
        status = d->host->output_alloc(d->host->ctx, args->run, 0, 2, dims, &memory);
        if (status != INLAY_OK)
            return inlay_fail(args->diag, status, "fake: no memory for the output");
    }
    out = (int64_t *)(void *)address(d, &memory, (uint64_t)(dims[0] * dims[1]) * sizeof *out);
    if (out == NULL)
        return inlay_fail(args->diag, INLAY_INTERNAL, "fake: a buffer that is not mine");
    for (int64_t i = 0, at = 0; i < in->count; i++) {
        int64_t rest = i;

        if (data[i] == 0)
            continue;
        for (uint32_t a = in->rank; a-- > 0; rest /= in->dims[a])
            out[a * dims[1] + at] = rest % in->dims[a];
        at++;
    }
    count(&d->counters.executed, 1);
    d->host->fence_signal(d->host->ctx, args->signal, INLAY_OK, NULL);
    return INLAY_OK;
}

static inlay_status execute(void *state, inlay_compiled *c, inlay_instance *instance, const inlay_exec_args *args)
{
    device *d = state;
    job *j;

    if (args->input_count > MAX_TENSORS || args->output_count > MAX_TENSORS)
        return inlay_fail(args->diag, INLAY_LIMIT_EXCEEDED, "fake: too many tensors");
    if (c->steps[0].op == OP_NONZERO)
        return run_nonzero(d, c, instance, args);
    j = calloc(1, sizeof *j);
    if (j == NULL)
        return inlay_fail(args->diag, INLAY_OUT_OF_MEMORY, "fake: execute");
    j->compiled = c;
    j->instance = instance;
    for (uint32_t i = 0; i < args->input_count; i++)
        j->inputs[i] = INLAY_AT(inlay_tensor_arg, args->inputs, args->arg_stride, i)->buffer;
    for (uint32_t o = 0; o < args->output_count; o++)
        j->outputs[o] = INLAY_AT(inlay_tensor_arg, args->outputs, args->arg_stride, o)->buffer;
    j->workspace = args->workspace;
    j->signal = args->signal;
    j->run = args->run;
    return enqueue(d, j, args->waits, args->wait_count, args->diag);
}

/* ------------------------------------------------------------------ what it can do, and at what cost */

static bool same_shapes(const inlay_graph *graph, const inlay_node_info *node)
{
    const inlay_value_info *y = inlay_graph_value(graph, node->outputs[0]);

    for (uint32_t i = 0; i < node->input_count; i++) {
        const inlay_value_info *x = inlay_graph_value(graph, node->inputs[i]);

        if (x == NULL || x->dtype != INLAY_FLOAT || x->rank == INLAY_RANK_UNKNOWN || x->rank != y->rank)
            return false;
        for (uint32_t k = 0; k < x->rank; k++)
            if (x->dims[k].value != y->dims[k].value || x->dims[k].symbol != y->dims[k].symbol)
                return false;
    }
    return true;
}

static inlay_status refuse(const inlay_assess_sink *sink, uint32_t node, uint32_t code, const char *text)
{
    const inlay_refusal refusal = { .struct_size = sizeof refusal, .node = node, .code = code, .text = text };

    return sink->refuse(sink->ctx, &refusal);
}

static inlay_status assess_node(device *d, const inlay_graph *graph, uint32_t n, const inlay_assess_sink *sink)
{
    const inlay_node_info *node = inlay_graph_node(graph, n);
    int op = op_of(node);
    const inlay_placement placements[] = {
        { .value = node->inputs[0], .domain = d->domain },
        { .value = node->outputs[0], .domain = d->domain },
    };
    inlay_offer offer = { .struct_size = sizeof offer, .cookie = 1, .nodes = &n, .node_count = 1,
                          .placements = placements, .placement_count = 2, .placement_stride = sizeof placements[0] };

    if (op < 0)
        return refuse(sink, n, INLAY_REFUSE_OPERATOR, "the fake device has five operators, and this is none of them");
    if (d->refuse)
        return refuse(sink, n, INLAY_REFUSE_OPTION, "the option refuse is set");
    if (op == OP_NONZERO && inlay_graph_value(graph, node->inputs[0])->dtype != INLAY_FLOAT)
        return refuse(sink, n, INLAY_REFUSE_DTYPE, "the fake device takes floats");
    if (op != OP_NONZERO && !same_shapes(graph, node))
        return refuse(sink, n, INLAY_REFUSE_SHAPE, "the fake device wants floats of equal, known rank and dims");
    offer.flags = op == OP_NONZERO ? 0 : INLAY_OFFER_MERGE;
    return sink->offer(sink->ctx, &offer);
}

/* Mul whose result goes into one Add and nowhere else: one region, offered besides the single nodes. */
static inlay_status offer_group(const inlay_graph *graph, uint32_t n, const inlay_assess_sink *sink)
{
    const inlay_node_info *mul = inlay_graph_node(graph, n);
    uint32_t readers = 0, nodes[2] = { n, 0 };
    inlay_offer offer = { .struct_size = sizeof offer, .cookie = 2, .nodes = nodes, .node_count = 2 };

    if ((inlay_graph_value(graph, mul->outputs[0])->flags & INLAY_VALUE_GRAPH_OUTPUT) != 0)
        return INLAY_OK;
    for (uint32_t k = n + 1; k < graph->node_count; k++) {
        const inlay_node_info *node = inlay_graph_node(graph, k);

        if (find(node->inputs, node->input_count, mul->outputs[0]) != INLAY_NONE) {
            readers++;
            nodes[1] = op_of(node) == OP_ADD && same_shapes(graph, node) ? k : 0;
        }
    }
    return readers == 1 && nodes[1] != 0 ? sink->offer(sink->ctx, &offer) : INLAY_OK;
}

static inlay_status assess(void *state, const inlay_graph *graph, const uint8_t *candidates,
                           const inlay_assess_sink *sink, inlay_diag *diag)
{
    device *d = state;
    inlay_status status = INLAY_OK;

    (void)diag;
    for (uint32_t n = 0; n < graph->node_count && status == INLAY_OK; n++) {
        if (candidates[n] == 0)
            continue;
        status = assess_node(d, graph, n, sink);
        if (status == INLAY_OK && !d->refuse && op_of(inlay_graph_node(graph, n)) == OP_MUL &&
            same_shapes(graph, inlay_graph_node(graph, n)))
            status = offer_group(graph, n, sink);
    }
    return status;
}

/* So cheap that it is worth any copy. */
static inlay_status cost(void *state, const inlay_cost_request *request, inlay_cost *out)
{
    (void)state;
    out->ns = request->offer->cookie == 2 ? 0.5 : 1;
    out->confidence = INLAY_CONFIDENCE_MODEL;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ life */

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    device *d = calloc(1, sizeof *d);

    (void)ctx;
    *out_state = NULL;
    if (d == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: create");
    d->host = host;
    d->domain = args->first_domain;
    d->delay_us = args->options[0].i;
    d->lose_after = args->options[1].i;
    d->bounded = args->options[2].i != 0;
    d->refuse = args->options[3].i != 0;
    (void)pthread_mutex_init(&d->mutex, NULL);
    (void)pthread_cond_init(&d->changed, NULL);
    if (pthread_create(&d->thread, NULL, work, d) != 0) {
        free(d);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: no thread");
    }
    *out_state = d;
    return INLAY_OK;
}

static void quiesce(void *state)
{
    device *d = state;

    (void)pthread_mutex_lock(&d->mutex);
    d->stopping = true;
    (void)pthread_cond_broadcast(&d->changed);
    while (d->first != NULL || d->busy)
        (void)pthread_cond_wait(&d->changed, &d->mutex);
    (void)pthread_mutex_unlock(&d->mutex);
}

static void destroy(void *state)
{
    device *d = state;
    char line[128];

    quiesce(d);
    (void)pthread_join(d->thread, NULL);
    if (d->counters.live_buffers + d->counters.live_regions + d->counters.misuse > 0) {
        (void)snprintf(line, sizeof line, "fake: %u buffers and %u regions left, %u misused", d->counters.live_buffers,
                       d->counters.live_regions, d->counters.misuse);
        d->host->log(d->host->ctx, INLAY_LOG_ERROR, line);
    }
    for (uint32_t i = 0; i < MAX_BUFFERS; i++)
        free(d->buffers[i].data);
    (void)pthread_cond_destroy(&d->changed);
    (void)pthread_mutex_destroy(&d->mutex);
    free(d);
}

static inlay_status fingerprint(void *state, char out[64], uint32_t *out_bytes)
{
    (void)state;
    memcpy(out, "fake-1", 6);
    *out_bytes = 6;
    return INLAY_OK;
}

static uint32_t cache_verdict(void *state, const void *blob, uint64_t bytes, inlay_diag *why)
{
    (void)state;
    if (bytes == 9 && memcmp(blob, "fake blob", 9) == 0)
        return INLAY_CACHE_OPTIMAL;
    (void)inlay_fail(why, INLAY_UNSUPPORTED, "fake: not a blob of mine");
    return INLAY_CACHE_UNSUPPORTED;
}

static const void *extension(void *state, const char *name)
{
    return strcmp(name, "fake.counters") == 0 ? &((device *)state)->counters : NULL;
}

static const inlay_option options[] = {
    { .name = "delay_us", .doc = "time that each job takes at least, microseconds", .default_value = "0",
      .min = 0, .max = 60000000, .kind = INLAY_OPTION_INT },
    { .name = "lose_after", .doc = "the job at which the device is lost, 0 = never", .default_value = "0",
      .min = 0, .max = 1000000, .kind = INLAY_OPTION_INT },
    { .name = "bounded", .doc = "NonZero writes into a buffer of the largest size", .default_value = "false",
      .kind = INLAY_OPTION_BOOL },
    { .name = "refuse", .doc = "offers nothing", .default_value = "false", .kind = INLAY_OPTION_BOOL },
};
static const inlay_domain_info domains[] = {
    { .name = "fake.memory", .alignment = ALIGNMENT, .memory_bytes = UINT64_C(1) << 30 },
};
static const inlay_provider provider = {
    .struct_size = sizeof provider,
    .name = "fake",
    .description = "a device that is not there",
    .device_kind = INLAY_DEVICE_OTHER,
    .flags = INLAY_PROVIDER_ASYNC,
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .option_stride = sizeof options[0],
    .domains = domains,
    .domain_count = 1,
    .domain_stride = sizeof domains[0],
    .default_domain = 1,
    .poll_ms = 1,
    .create = create,
    .destroy = destroy,
    .quiesce = quiesce,
    .assess = assess,
    .cost = cost,
    .compile = compile,
    .release_compiled = release_compiled,
    .specialize = specialize,
    .release_instance = release_instance,
    .execute = execute,
    .fingerprint = fingerprint,
    .cache_verdict = cache_verdict,
    .buffer_alloc = buffer_alloc,
    .buffer_free = buffer_free,
    .buffer_copy = buffer_copy,
    .extension = extension,
};
static const inlay_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_major = INLAY_ABI_MAJOR,
    .abi_minor = INLAY_ABI_MINOR,
    .name = "fake",
    .version = "1.0",
    .build_id = "fake-1",
    .flags = INLAY_PLUGIN_DLCLOSE,
    .providers = &provider,
    .provider_count = 1,
    .provider_stride = sizeof provider,
};

inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    if (!INLAY_HAS(host, fence_wait) || host->abi_major != INLAY_ABI_MAJOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "fake: the host is too old");
    *out_plugin = &plugin;
    return INLAY_OK;
}
