/* What the fake device does: its memory, its regions, and the thread that works off its queue. */
#include "fake_work.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_TENSORS = 64, MAX_WAITS = 64, HANDLE_BASE = 0x7000 };

/* ------------------------------------------------------------------ memory */

inlay_status buffer_alloc(void *state, uint32_t domain, uint64_t bytes, inlay_buffer *out, inlay_diag *diag)
{
    device *d = state;
    uint32_t i = 0;

    *out = (inlay_buffer){ 0 };
    if (domain != d->domain)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "fake: domain %u is not mine, which is %u", domain, d->domain);
    (void)pthread_mutex_lock(&d->mutex);
    while (i < MAX_BUFFERS && d->buffers[i].data != NULL)
        i++;
    if (d->memory_kib > 0 && d->counters.live_kib + bytes / 1024 > (uint64_t)d->memory_kib)
        i = MAX_BUFFERS;
    if (i < MAX_BUFFERS)
        d->buffers[i].data = malloc(bytes > 0 ? bytes : 1);
    if (i == MAX_BUFFERS || d->buffers[i].data == NULL) {
        (void)pthread_mutex_unlock(&d->mutex);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: out of device memory");
    }
    d->buffers[i].bytes = bytes;
    count(&d->counters.live_kib, (int32_t)(bytes / 1024));
    if (d->counters.live_kib > d->counters.peak_kib)
        d->counters.peak_kib = d->counters.live_kib;
    (void)pthread_mutex_unlock(&d->mutex);
    count(&d->counters.live_buffers, 1);
    *out = (inlay_buffer){ .handle = HANDLE_BASE + i, .bytes = bytes, .domain = d->domain };
    return INLAY_OK;
}

void buffer_free(void *state, const inlay_buffer *buffer)
{
    device *d = state;
    uint64_t i = buffer->handle - HANDLE_BASE;

    (void)pthread_mutex_lock(&d->mutex);
    if (i < MAX_BUFFERS && d->buffers[i].data != NULL) {
        free(d->buffers[i].data);
        d->buffers[i].data = NULL;
        count(&d->counters.live_kib, -(int32_t)(d->buffers[i].bytes / 1024));
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

static const char *const op_names[OP_COUNT] = { "Neg", "Relu", "Add", "Mul", "NonZero" };

int op_of(const inlay_node_info *node)
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
    int64_t dims[16];    /* of NonZero's input */
    uint32_t rank;
    uint64_t inner_bytes; /* of the largest inner value in the workspace, aligned: each has as many */
    int64_t counts[];     /* of each step: elements of every float tensor there */
};

uint32_t find(const uint32_t *list, uint32_t n, uint32_t value)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == value)
            return i;
    return INLAY_NONE;
}

void release_compiled(void *state, inlay_compiled *c)
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

inlay_status compile(void *state, const inlay_compile_request *r, inlay_compiled **out_compiled, inlay_diag *diag)
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
    if (r->cache_blob != NULL && r->cache_bytes == 9 && memcmp(r->cache_blob, "fake blob", 9) == 0)
        count(&d->counters.seen_blobs, 1);
    else if (r->store_cache != NULL && r->store_cache(r->ctx, "fake blob", 9) == INLAY_OK)
        count(&d->counters.stored_blobs, 1);
    *out_compiled = c;
    c = NULL;
done:
    release_compiled(d, c);
    return status;
}

inlay_status specialize(void *state, inlay_compiled *c, inlay_specialize_request *r, inlay_instance **out_instance,
                               inlay_diag *diag)
{
    device *d = state;
    inlay_instance *in = calloc(1, sizeof *in + c->step_count * sizeof in->counts[0]);
    const inlay_value_state *x = INLAY_AT(inlay_value_state, r->values, r->value_stride, c->steps[0].in[0].value);
    int64_t most = 0;

    *out_instance = NULL;
    if (in == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: specialize");
    in->rank = x->rank;
    memcpy(in->dims, x->dims, x->rank * sizeof *x->dims);
    for (uint32_t s = 0; s < c->step_count; s++) {
        const inlay_value_state *v = INLAY_AT(inlay_value_state, r->values, r->value_stride, c->steps[s].in[0].value);

        in->counts[s] = 1;
        for (uint32_t i = 0; i < v->rank; i++)
            in->counts[s] *= v->dims[i];
        most = in->counts[s] > most ? in->counts[s] : most;
    }
    in->inner_bytes = ((uint64_t)most * sizeof(float) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    r->workspace_bytes = in->inner_bytes * c->inner_count;
    r->workspace_alignment = ALIGNMENT;
    if (c->steps[0].op == OP_NONZERO) {
        r->outputs[0].kind = d->bounded ? INLAY_OUTPUT_BOUNDED : INLAY_OUTPUT_ALLOCATED;
        r->outputs[0].max_bytes = (uint64_t)in->counts[0] * in->rank * sizeof(int64_t);
    }
    count(&d->counters.live_regions, 1);
    *out_instance = in;
    return INLAY_OK;
}

void release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
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

static float *operand_data(device *d, const job *j, const operand *o, int64_t count)
{
    uint64_t bytes = (uint64_t)count * sizeof(float);
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

/* A loop each, so that they are as fast as memory is. */
static void apply(int op, const float *a, const float *b, float *y, int64_t n)
{
    switch (op) {
    case OP_NEG:
        for (int64_t i = 0; i < n; i++)
            y[i] = -a[i];
        break;
    case OP_RELU:
        for (int64_t i = 0; i < n; i++)
            y[i] = a[i] < 0 ? 0 : a[i];
        break;
    case OP_ADD:
        for (int64_t i = 0; i < n; i++)
            y[i] = a[i] + b[i];
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            y[i] = a[i] * b[i];
        break;
    }
}

static inlay_status compute(device *d, const job *j)
{
    for (uint32_t s = 0; s < j->compiled->step_count; s++) {
        const step *st = &j->compiled->steps[s];
        int64_t n = j->instance->counts[s];
        const float *a = operand_data(d, j, &st->in[0], n);
        const float *b = st->in_count > 1 ? operand_data(d, j, &st->in[1], n) : a;
        float *y = operand_data(d, j, &st->out, n);

        if (a == NULL || b == NULL || y == NULL)
            return INLAY_INTERNAL;
        apply(st->op, a, b, y, n);
    }
    count(&d->counters.executed, 1);
    return INLAY_OK;
}

static int64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A link that is slow by the clock, to the microsecond: sleeping would be slower than asked for. */
static void wait_for_link(const device *d, int64_t begin, uint64_t bytes)
{
    int64_t ns = d->link_us * 1000 + (d->link_mb_s > 0 ? (int64_t)(bytes * 1000 / (uint64_t)d->link_mb_s) : 0);

    while (now_ns() - begin < ns)
        ;
}

static inlay_status copy(device *d, const job *j)
{
    int64_t begin = now_ns();
    const inlay_buffer *from = &j->inputs[0], *to = &j->outputs[0];
    uint64_t bytes = from->bytes < to->bytes ? from->bytes : to->bytes;
    const char *source = address(d, from, bytes);
    char *target = address(d, to, bytes);

    if (source == NULL || target == NULL)
        return INLAY_INTERNAL;
    memcpy(target, source, bytes);
    wait_for_link(d, begin, bytes);
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
        inlay_status status = run != NULL && !d->deaf ? d->host->poll(d->host->ctx, run) : INLAY_OK;

        if (status != INLAY_OK) {
            count(&d->counters.cancelled, 1);
            return status;
        }
        (void)nanosleep(&pause, NULL);
    }
    return INLAY_OK;
}

/* One job more, or a step that the caller's thread does: the device may be lost at it, and stays so. */
static inlay_status be_there(device *d, inlay_diag *diag)
{
    bool lost;

    (void)pthread_mutex_lock(&d->mutex);
    d->lost |= d->lose_after > 0 && --d->lose_after == 0;
    lost = d->lost;
    (void)pthread_mutex_unlock(&d->mutex);
    return lost ? inlay_fail(diag, INLAY_DEVICE_LOST, "fake: the device fell off the bus") : INLAY_OK;
}

/* The job at which the device hangs takes its thread with it. */
static void hang(device *d)
{
    bool now;

    (void)pthread_mutex_lock(&d->mutex);
    now = d->hang_at > 0 && --d->hang_at == 0;
    (void)pthread_mutex_unlock(&d->mutex);
    while (now)
        (void)pause();
}

static void do_job(device *d, job *j)
{
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;

    hang(d);
    for (uint32_t w = 0; w < j->wait_count && status == INLAY_OK; w++)
        status = d->host->fence_wait(d->host->ctx, j->run, j->waits[w], &why);
    if (status == INLAY_OK)
        status = be_there(d, &why);
    if (status == INLAY_OK)
        status = pretend_to_work(d, j->run);
    if (status == INLAY_OK)
        status = j->compiled != NULL ? compute(d, j) : copy(d, j);
    if (status == INLAY_INTERNAL)
        (void)inlay_fail(&why, status, "fake: a buffer that is not mine");
    d->host->fence_signal(d->host->ctx, j->signal, status, &why);
    free(j);
}

void *work(void *arg)
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

inlay_status buffer_copy(void *state, inlay_run *run, const inlay_buffer *source, const inlay_buffer *target,
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
static inlay_status run_nonzero(device *d, const inlay_compiled *c, const inlay_instance *in,
                                const inlay_exec_args *args)
{
    const inlay_tensor_arg *x = &args->inputs[c->steps[0].in[0].index];
    inlay_tensor_arg *y = &args->outputs[0];
    int64_t dims[2] = { in->rank, 0 }, *out;
    inlay_buffer memory = y->buffer;
    const float *data;
    inlay_status status = INLAY_OK;

    for (uint32_t w = 0; w < args->wait_count && status == INLAY_OK; w++)
        status = d->host->fence_wait(d->host->ctx, args->run, args->waits[w], args->diag);
    if (status == INLAY_OK)
        status = be_there(d, args->diag);
    if (status != INLAY_OK)
        return status;
    data = (const float *)(const void *)address(d, &x->buffer, (uint64_t)in->counts[0] * sizeof *data);
    if (data == NULL)
        return inlay_fail(args->diag, INLAY_INTERNAL, "fake: a buffer that is not mine");
    for (int64_t i = 0; i < in->counts[0]; i++)
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
    for (int64_t i = 0, at = 0; i < in->counts[0]; i++) {
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

inlay_status execute(void *state, inlay_compiled *c, inlay_instance *instance, const inlay_exec_args *args)
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
