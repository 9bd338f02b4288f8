/* What the fake device does with what it is asked: jobs in a queue, which its thread works off once the fences that
 * they wait for are reached. The thread waits for none of them: the host tells. */
#include "fake_work.h"
#include "inlay/extensions.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_TENSORS = 64, MAX_WAITS = 64, MAX_COPIES = 64 };

struct waiting {
    inlay_fence_notice notice;
    struct device *d;
    struct job *j;
};

struct job {
    struct job *next;
    const inlay_compiled *compiled; /* NULL: a copy */
    const inlay_instance *instance;
    inlay_buffer inputs[MAX_TENSORS], outputs[MAX_TENSORS], workspace;
    uint32_t copy_count;                                  /* of inputs to outputs, where compiled is NULL */
    bool narrow_in[MAX_TENSORS], narrow_out[MAX_TENSORS]; /* bfloat16 */
    inlay_fence own[MAX_WAITS], signal;
    uint32_t own_count; /* fences of this device, which jobs before this one signal */
    struct waiting waits[MAX_WAITS];
    uint32_t pending;    /* fences that are not reached yet; the device's mutex guards it, and the next two */
    inlay_status failed; /* one of them never will be */
    inlay_diag why;
    inlay_run *run;
};

static float *operand_data(struct device *d, const struct job *j, const struct operand *o, int64_t count)
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

/* Whether an operand is one that came, or goes, as bfloat16. */
static bool is_narrow(const struct job *j, const struct operand *o)
{
    return (o->from == FROM_INPUT && j->narrow_in[o->index]) || (o->from == FROM_OUTPUT && j->narrow_out[o->index]);
}

/* As operand_data, of what may be bfloat16: then *out_wide is a copy with room for n floats, to be freed. */
static float *widen(struct device *d, const struct job *j, const struct operand *o, int64_t n, float **out_wide)
{
    const uint16_t *half;

    *out_wide = NULL;
    if (!is_narrow(j, o))
        return operand_data(d, j, o, n);
    half = (const uint16_t *)(const void *)operand_data(d, j, o, (n + 1) / 2);
    *out_wide = malloc((size_t)(n > 0 ? n : 1) * sizeof **out_wide);
    for (int64_t i = 0; half != NULL && *out_wide != NULL && i < n; i++) {
        const uint32_t bits = (uint32_t)half[i] << 16;

        memcpy(&(*out_wide)[i], &bits, sizeof bits);
    }
    return half != NULL ? *out_wide : NULL;
}

static void narrow_into(struct device *d, const struct job *j, const struct operand *o, int64_t n, const float *from)
{
    uint16_t *half = (uint16_t *)(void *)operand_data(d, j, o, (n + 1) / 2);

    for (int64_t i = 0; half != NULL && i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &from[i], sizeof bits);
        half[i] = (uint16_t)(bits >> 16);
    }
}

static inlay_status compute_step(struct device *d, const struct job *j, uint32_t s)
{
    const struct step *st = &j->compiled->steps[s];
    int64_t n = j->instance->counts[s];
    float *wide[3] = { NULL };
    const float *a = widen(d, j, &st->in[0], n, &wide[0]);
    const float *b = st->in_count > 1 ? widen(d, j, &st->in[1], n, &wide[1]) : a;
    float *y = widen(d, j, &st->out, n, &wide[2]);
    const bool sound = a != NULL && b != NULL && y != NULL;

    if (sound)
        apply(st->op, a, b, y, n);
    if (sound && wide[2] != NULL)
        narrow_into(d, j, &st->out, n, y);
    for (int i = 0; i < 3; i++)
        free(wide[i]);
    return sound ? INLAY_OK : INLAY_INTERNAL;
}

static int64_t now_ns(void);

static inlay_status compute(struct device *d, const struct job *j)
{
    const inlay_ext_steps *steps = d->host->extension(d->host->ctx, INLAY_EXT_STEPS);
    const bool told = steps != NULL && steps->wanted(d->host->ctx, j->run) != 0;
    bool narrow = false;
    inlay_status status = INLAY_OK;

    for (uint32_t s = 0; s < j->compiled->step_count && status == INLAY_OK; s++) {
        const int64_t begin = now_ns();

        status = compute_step(d, j, s);
        /* What the device's own clock says: each kernel takes a millisecond there. */
        if (told && status == INLAY_OK)
            steps->done(d->host->ctx, j->run, j->compiled->steps[s].node, (uint64_t)begin, (uint64_t)begin + 1000000);
    }
    for (uint32_t i = 0; i < MAX_TENSORS; i++)
        narrow |= j->narrow_in[i] || j->narrow_out[i];
    count(&d->counters.narrow_runs, narrow);
    count(&d->counters.executed, status == INLAY_OK);
    return status;
}

static int64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A link that is slow by the clock, to the microsecond: sleeping would be slower than asked for. */
static void wait_for_link(const struct device *d, int64_t begin, uint64_t bytes)
{
    int64_t ns = d->link_us * 1000 + (d->link_mb_s > 0 ? (int64_t)(bytes * 1000 / (uint64_t)d->link_mb_s) : 0);

    while (now_ns() - begin < ns)
        ;
}

static inlay_status copy(struct device *d, const inlay_buffer *from, const inlay_buffer *to)
{
    int64_t begin = now_ns();
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

static inlay_status copy_all(struct device *d, const struct job *j)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < j->copy_count && status == INLAY_OK; i++)
        status = copy(d, &j->inputs[i], &j->outputs[i]);
    count(&d->counters.copy_requests, 1);
    return status;
}

/* Does the job have to wait? *out_status: it is to stop. */
static bool is_held(struct device *d, inlay_run *run, inlay_status *out_status)
{
    const uint32_t hold = __atomic_load_n(&d->hold, __ATOMIC_ACQUIRE);
    const inlay_status status = run != NULL ? d->host->poll(d->host->ctx, run) : INLAY_OK;

    *out_status = hold == FAKE_UNTIL_STOPPED ? INLAY_OK : status;
    return hold == FAKE_DEAF || (hold != FAKE_FREE && status == INLAY_OK);
}

/* Takes its time, but looks up now and then. */
static inlay_status pretend_to_work(struct device *d, inlay_run *run)
{
    const struct timespec pause = { 0, 100000 };
    inlay_status status;

    count(&d->counters.begun, 1);
    for (int64_t us = 0; is_held(d, run, &status) || (us < d->delay_us && status == INLAY_OK); us += 100)
        (void)nanosleep(&pause, NULL);
    count(&d->counters.cancelled, status != INLAY_OK);
    return status;
}

/* One job more, or a step that the caller's thread does: the device may be lost at it, and stays so. */
static inlay_status be_there(struct device *d, inlay_diag *diag)
{
    bool lost;

    (void)pthread_mutex_lock(&d->mutex);
    d->lost |= d->lose_after > 0 && --d->lose_after == 0;
    count(&d->counters.jobs, 1);
    lost = d->lost;
    (void)pthread_mutex_unlock(&d->mutex);
    return lost ? inlay_fail(diag, INLAY_DEVICE_LOST, "fake: the device fell off the bus") : INLAY_OK;
}

/* The job at which the device hangs takes its thread with it. */
static void hang(struct device *d)
{
    bool now;

    (void)pthread_mutex_lock(&d->mutex);
    now = d->hang_at > 0 && --d->hang_at == 0;
    (void)pthread_mutex_unlock(&d->mutex);
    while (now)
        (void)pause();
}

static void do_job(struct device *d, struct job *j)
{
    inlay_diag why = j->why;
    inlay_status status = j->failed;

    hang(d);
    for (uint32_t w = 0; w < j->own_count && status == INLAY_OK; w++) {
        if (d->host->fence_query(d->host->ctx, j->own[w], &status) == 0)
            count(&d->counters.misuse, 1); /* the host called it ours, and no job before this one had it */
        if (status != INLAY_OK)
            (void)inlay_fail(&why, status, "fake: the job before failed");
    }
    if (status == INLAY_OK)
        status = be_there(d, &why);
    if (status == INLAY_OK)
        status = pretend_to_work(d, j->run);
    if (status == INLAY_OK)
        status = j->compiled != NULL ? compute(d, j) : copy_all(d, j);
    if (status == INLAY_INTERNAL)
        (void)inlay_fail(&why, status, "fake: a buffer that is not mine");
    count(&d->counters.ended, 1);
    d->host->fence_signal(d->host->ctx, j->signal, status, &why);
    free(j);
}

/* Is there a job of the same run before it? */
static bool is_behind(const struct device *d, const struct job *j)
{
    const struct job *x = d->first;

    while (x != j && x->run != j->run)
        x = x->next;
    return x != j;
}

/* Takes the next job out of the queue: the first that is ready, in the order of its run, or the last of those that are.
 * The mutex is held. */
static struct job *next_job(struct device *d)
{
    struct job *before = NULL, *at = NULL, *last = NULL;

    for (struct job *j = d->first, *prev = NULL; j != NULL; prev = j, j = j->next) {
        if (j->pending == 0 && (d->unordered || (at == NULL && !is_behind(d, j)))) {
            at = j;
            before = prev;
        }
        last = j;
    }
    if (at == NULL)
        return NULL;
    count(&d->counters.overtaken, at != d->first);
    if (before != NULL)
        before->next = at->next;
    else
        d->first = at->next;
    d->last = at == last ? before : last;
    return at;
}

void *work(void *arg)
{
    struct device *d = arg;

    (void)pthread_mutex_lock(&d->mutex);
    while (!d->stopping || d->first != NULL) {
        struct job *j = next_job(d);

        if (j == NULL) {
            (void)pthread_cond_wait(&d->changed, &d->mutex);
            continue;
        }
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

/* The host tells us, on whichever thread: no thread of ours waits for anybody. */
static void reached(void *user, inlay_status status, const inlay_diag *why)
{
    struct waiting *w = user;
    struct device *d = w->d;

    (void)pthread_mutex_lock(&d->mutex);
    if (status != INLAY_OK && w->j->failed == INLAY_OK) {
        w->j->failed = status;
        if (why != NULL)
            w->j->why = *why;
    }
    w->j->pending--;
    (void)pthread_cond_broadcast(&d->changed);
    (void)pthread_mutex_unlock(&d->mutex);
}

/* The queue works in order, so our own fences need no waiting, unless it does not. */
static void ask_for_waits(struct device *d, struct job *j, const inlay_fence *waits, uint32_t wait_count, uint32_t own)
{
    uint32_t n = 0;

    count(&d->counters.own_waits, (int32_t)own);
    for (uint32_t i = 0; i < own && !d->unordered; i++)
        j->own[j->own_count++] = waits[i];
    for (uint32_t i = j->own_count; i < wait_count; i++)
        j->waits[n++] = (struct waiting){ { .struct_size = sizeof(inlay_fence_notice),
                                            .fence = waits[i],
                                            .reached = reached,
                                            .user = &j->waits[i - j->own_count] },
                                          d,
                                          j };
    count(&d->counters.notices, (int32_t)n);
    j->pending = n + 1; /* until it is in the queue */
    for (uint32_t i = 0; i < n; i++)
        d->host->fence_notify(d->host->ctx, &j->waits[i].notice);
}

/* Takes back what was asked for a job that is not to be. */
static void forget_waits(struct device *d, struct job *j, uint32_t n)
{
    uint32_t taken = 0;

    for (uint32_t i = 0; i < n; i++)
        taken += d->host->fence_forget(d->host->ctx, &j->waits[i].notice);
    (void)pthread_mutex_lock(&d->mutex);
    while (j->pending > 1 + taken)
        (void)pthread_cond_wait(&d->changed, &d->mutex);
    (void)pthread_mutex_unlock(&d->mutex);
}

/* Notes the job in counters.order. The mutex is held. */
static void note(struct device *d, const struct job *j)
{
    char text[2 * MAX_COPIES];
    uint32_t n = 0;

    if (j->compiled != NULL)
        text[n++] = 'x';
    if (j->copy_count > 1)
        text[n++] = '(';
    for (uint32_t i = 0; i < j->copy_count; i++)
        text[n++] = j->inputs[i].domain == INLAY_DOMAIN_HOST    ? 'i'
                    : j->outputs[i].domain == INLAY_DOMAIN_HOST ? 'o'
                                                                : 'd';
    if (j->copy_count > 1)
        text[n++] = ')';
    for (uint32_t i = 0; i < n && d->counters.order_count + 1 < sizeof d->counters.order; i++)
        d->counters.order[d->counters.order_count++] = text[i];
}

static inlay_status enqueue(struct device *d, struct job *j, const inlay_fence *waits, uint32_t wait_count,
                            uint32_t own, inlay_diag *diag)
{
    if (wait_count > MAX_WAITS || own > wait_count) {
        free(j);
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "fake: too many fences");
    }
    j->why = (inlay_diag)INLAY_DIAG_INIT;
    ask_for_waits(d, j, waits, wait_count, own);
    (void)pthread_mutex_lock(&d->mutex);
    if (d->stopping) {
        (void)pthread_mutex_unlock(&d->mutex);
        forget_waits(d, j, wait_count - j->own_count);
        free(j);
        return inlay_fail(diag, INLAY_BUSY, "fake: stopping");
    }
    j->pending--;
    note(d, j);
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
    struct job *j = calloc(1, sizeof *j);

    if (j == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: copy");
    j->inputs[0] = *source;
    j->outputs[0] = *target;
    j->copy_count = 1;
    j->signal = signal;
    j->run = run;
    return enqueue(state, j, waits, wait_count, 0, diag);
}

inlay_status buffer_copies(void *state, const inlay_copy_request *request, inlay_diag *diag)
{
    struct job *j;

    if (request->struct_size < sizeof *request || request->copy_count > MAX_COPIES)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "fake: too many copies");
    j = calloc(1, sizeof *j);
    if (j == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: copies");
    for (; j->copy_count < request->copy_count; j->copy_count++) {
        const inlay_copy *c = INLAY_AT(inlay_copy, request->copies, request->copy_stride, j->copy_count);

        j->inputs[j->copy_count] = c->source;
        j->outputs[j->copy_count] = c->target;
    }
    j->signal = request->signal;
    j->run = request->run;
    return enqueue(state, j, request->waits, request->wait_count, request->own_wait_count, diag);
}

/* The shape of the output depends on data, so this one waits for its input before it returns. */
static inlay_status run_nonzero(struct device *d, const inlay_compiled *c, const inlay_instance *in,
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
    struct device *d = state;
    struct job *j;

    if (args->input_count > MAX_TENSORS || args->output_count > MAX_TENSORS)
        return inlay_fail(args->diag, INLAY_LIMIT_EXCEEDED, "fake: too many tensors");
    if (c->steps[0].op == OP_NONZERO)
        return run_nonzero(d, c, instance, args);
    j = calloc(1, sizeof *j);
    if (j == NULL)
        return inlay_fail(args->diag, INLAY_OUT_OF_MEMORY, "fake: execute");
    j->compiled = c;
    j->instance = instance;
    for (uint32_t i = 0; i < args->input_count; i++) {
        const inlay_tensor_arg *x = INLAY_AT(inlay_tensor_arg, args->inputs, args->arg_stride, i);

        j->inputs[i] = x->buffer;
        j->narrow_in[i] = x->dtype == INLAY_BFLOAT16;
    }
    for (uint32_t o = 0; o < args->output_count; o++) {
        const inlay_tensor_arg *y = INLAY_AT(inlay_tensor_arg, args->outputs, args->arg_stride, o);

        j->outputs[o] = y->buffer;
        j->narrow_out[o] = y->dtype == INLAY_BFLOAT16;
    }
    check_binding(d, args);
    j->workspace = args->workspace;
    j->signal = args->signal;
    j->run = args->run;
    return enqueue(d, j, args->waits, args->wait_count, args->own_wait_count, args->diag);
}
