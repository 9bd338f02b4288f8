/* The job queue of the fake device. Its thread runs a job once the fences that the job waits for are reached. The
 * thread does not wait for fences: the host notifies it. */
#include "fake_work.h"
#include "inlay/extensions.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_TENSORS = 64, MAX_WAITS = 64, MAX_COPIES = 64 };

struct pending_wait {
    inlay_fence_notice notice;
    struct device *device;
    struct job *job;
};

struct job {
    struct job *next;
    const inlay_compiled *compiled; /* NULL: a copy */
    const inlay_instance *instance;
    inlay_buffer inputs[MAX_TENSORS], outputs[MAX_TENSORS], workspace;
    uint32_t copy_count;                                  /* copies from inputs to outputs, if compiled is NULL */
    bool narrow_in[MAX_TENSORS], narrow_out[MAX_TENSORS]; /* bfloat16 */
    inlay_fence own[MAX_WAITS], signal;
    uint32_t own_count; /* fences of this device, signalled by jobs before this one */
    struct pending_wait waits[MAX_WAITS];
    uint32_t pending;    /* fences not reached yet; the device's mutex guards it and the next two */
    inlay_status failed; /* status of a fence that failed, or INLAY_OK */
    inlay_diag why;
    inlay_run *run;
    float echo; /* option echo */
};

static float *operand_data(struct device *device, const struct job *job, const struct operand *operand, int64_t count)
{
    uint64_t bytes = (uint64_t)count * sizeof(float);
    inlay_buffer inner = job->workspace;

    switch (operand->from) {
    case FROM_INPUT:
        return (float *)(void *)address(device, &job->inputs[operand->index], bytes);
    case FROM_OUTPUT:
        return (float *)(void *)address(device, &job->outputs[operand->index], bytes);
    case FROM_CONSTANT:
        return (float *)(void *)address(device, &job->compiled->constants[operand->index], bytes);
    default:
        inner.offset += operand->index * job->instance->inner_bytes;
        inner.bytes -= operand->index * job->instance->inner_bytes;
        return (float *)(void *)address(device, &inner, bytes);
    }
}

/* One loop for each operator, so that the compiler vectorises them. */
static void apply(int op, const float *a, const float *b, float *output, int64_t n)
{
    switch (op) {
    case OP_NEG:
        for (int64_t i = 0; i < n; i++)
            output[i] = -a[i];
        break;
    case OP_RELU:
        for (int64_t i = 0; i < n; i++)
            output[i] = a[i] < 0 ? 0 : a[i];
        break;
    case OP_ADD:
        for (int64_t i = 0; i < n; i++)
            output[i] = a[i] + b[i];
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            output[i] = a[i] * b[i];
        break;
    }
}

/* Is the operand an input or output in bfloat16? */
static bool is_narrow(const struct job *job, const struct operand *operand)
{
    return (operand->from == FROM_INPUT && job->narrow_in[operand->index]) ||
           (operand->from == FROM_OUTPUT && job->narrow_out[operand->index]);
}

/* Like operand_data(), but an operand in bfloat16 is copied to *out_wide, n floats, which the caller frees. */
static float *widen(struct device *device, const struct job *job, const struct operand *operand, int64_t n,
                    float **out_wide)
{
    const uint16_t *half;

    *out_wide = NULL;
    if (!is_narrow(job, operand))
        return operand_data(device, job, operand, n);
    half = (const uint16_t *)(const void *)operand_data(device, job, operand, (n + 1) / 2);
    *out_wide = malloc((size_t)(n > 0 ? n : 1) * sizeof **out_wide);
    for (int64_t i = 0; half != NULL && *out_wide != NULL && i < n; i++) {
        const uint32_t bits = (uint32_t)half[i] << 16;

        memcpy(&(*out_wide)[i], &bits, sizeof bits);
    }
    return half != NULL ? *out_wide : NULL;
}

static void narrow_into(struct device *device, const struct job *job, const struct operand *operand, int64_t n,
                        const float *from)
{
    uint16_t *half = (uint16_t *)(void *)operand_data(device, job, operand, (n + 1) / 2);

    for (int64_t i = 0; half != NULL && i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &from[i], sizeof bits);
        half[i] = (uint16_t)(bits >> 16);
    }
}

static inlay_status compute_step(struct device *device, const struct job *job, uint32_t step)
{
    const struct step *step_info = &job->compiled->steps[step];
    int64_t n = job->instance->counts[step];
    float *wide[3] = { NULL };
    const float *a = widen(device, job, &step_info->in[0], n, &wide[0]);
    const float *b = step_info->in_count > 1 ? widen(device, job, &step_info->in[1], n, &wide[1]) : a;
    float *output = widen(device, job, &step_info->out, n, &wide[2]);
    const bool sound = a != NULL && b != NULL && output != NULL;

    if (sound)
        apply(step_info->op, a, b, output, n);
    for (int64_t i = 0; sound && device->echo && i < n; i++)
        output[i] = job->echo;
    if (sound && wide[2] != NULL)
        narrow_into(device, job, &step_info->out, n, output);
    for (int i = 0; i < 3; i++)
        free(wide[i]);
    return sound ? INLAY_OK : INLAY_INTERNAL;
}

static int64_t now_ns(void);

static inlay_status compute(struct device *device, const struct job *job)
{
    const inlay_ext_steps *steps = device->host->extension(device->host->ctx, INLAY_EXT_STEPS);
    const bool report_times = steps != NULL && steps->wanted(device->host->ctx, job->run) != 0;
    bool narrow = false;
    inlay_status status = INLAY_OK;

    for (uint32_t step = 0; step < job->compiled->step_count && status == INLAY_OK; step++) {
        const int64_t begin = now_ns();

        status = compute_step(device, job, step);
        /* The simulated clock of the device: each kernel takes a millisecond. */
        if (report_times && status == INLAY_OK)
            steps->done(device->host->ctx, job->run, job->compiled->steps[step].node, (uint64_t)begin,
                        (uint64_t)begin + 1000000);
    }
    for (uint32_t i = 0; i < MAX_TENSORS; i++)
        narrow |= job->narrow_in[i] || job->narrow_out[i];
    count(&device->counters.narrow_runs, narrow);
    count(&device->counters.executed, status == INLAY_OK);
    return status;
}

static int64_t now_ns(void)
{
    struct timespec timespec;

    (void)clock_gettime(CLOCK_MONOTONIC, &timespec);
    return (int64_t)timespec.tv_sec * 1000000000 + timespec.tv_nsec;
}

/* Simulates a slow link by busy waiting; sleeping would take longer than requested. */
static void wait_for_link(const struct device *device, int64_t begin, uint64_t bytes)
{
    int64_t ns =
        device->link_us * 1000 + (device->link_mb_s > 0 ? (int64_t)(bytes * 1000 / (uint64_t)device->link_mb_s) : 0);

    while (now_ns() - begin < ns)
        ;
}

static inlay_status copy(struct device *device, const inlay_buffer *from, const inlay_buffer *to)
{
    int64_t begin = now_ns();
    uint64_t bytes = from->bytes < to->bytes ? from->bytes : to->bytes;
    const char *source = address(device, from, bytes);
    char *target = address(device, to, bytes);

    if (source == NULL || target == NULL)
        return INLAY_INTERNAL;
    memcpy(target, source, bytes);
    wait_for_link(device, begin, bytes);
    if (from->domain == INLAY_DOMAIN_HOST)
        count(&device->counters.copied_in, 1);
    if (to->domain == INLAY_DOMAIN_HOST)
        count(&device->counters.copied_out, 1);
    return INLAY_OK;
}

static inlay_status copy_all(struct device *device, const struct job *job)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < job->copy_count && status == INLAY_OK; i++)
        status = copy(device, &job->inputs[i], &job->outputs[i]);
    count(&device->counters.copy_requests, 1);
    return status;
}

/* Does the job have to wait? *out_status: not INLAY_OK if it has to stop. */
static bool is_held(struct device *device, inlay_run *run, inlay_status *out_status)
{
    const uint32_t hold = __atomic_load_n(&device->hold, __ATOMIC_ACQUIRE);
    const inlay_status status = run != NULL ? device->host->poll(device->host->ctx, run) : INLAY_OK;

    *out_status = hold == FAKE_UNTIL_STOPPED ? INLAY_OK : status;
    return hold == FAKE_DEAF || (hold != FAKE_FREE && status == INLAY_OK);
}

/* Waits for the configured time, and polls for cancellation. */
static inlay_status simulate_work(struct device *device, inlay_run *run)
{
    const struct timespec pause = { 0, 100000 };
    const int64_t delay_us = __atomic_load_n(&device->delay_us, __ATOMIC_RELAXED);
    inlay_status status;

    count(&device->counters.begun, 1);
    for (int64_t us = 0; is_held(device, run, &status) || (us < delay_us && status == INLAY_OK); us += 100)
        (void)nanosleep(&pause, NULL);
    count(&device->counters.cancelled, status != INLAY_OK);
    return status;
}

/* Counts a job, or a step on the caller's thread. The device is lost from the configured job on. */
static inlay_status count_job(struct device *device, inlay_diag *diag)
{
    bool lost;

    (void)pthread_mutex_lock(&device->mutex);
    device->lost |= device->lose_after > 0 && --device->lose_after == 0;
    count(&device->counters.jobs, 1);
    lost = device->lost;
    (void)pthread_mutex_unlock(&device->mutex);
    return lost ? inlay_fail(diag, INLAY_DEVICE_LOST, "fake: the device fell off the bus") : INLAY_OK;
}

/* Blocks the thread of the device forever at the job hang_at. */
static void hang(struct device *device)
{
    bool now;

    (void)pthread_mutex_lock(&device->mutex);
    now = device->hang_at > 0 && --device->hang_at == 0;
    (void)pthread_mutex_unlock(&device->mutex);
    if (now)
        for (;;)
            (void)pause();
}

static void do_job(struct device *device, struct job *job)
{
    inlay_diag why = job->why;
    inlay_status status = job->failed;

    hang(device);
    for (uint32_t w = 0; w < job->own_count && status == INLAY_OK; w++) {
        if (device->host->fence_query(device->host->ctx, job->own[w], &status) == 0)
            count(&device->counters.misuse,
                  1); /* the host declared this fence as one of the device, but no earlier job signalled it */
        if (status != INLAY_OK)
            (void)inlay_fail(&why, status, "fake: the previous job failed");
    }
    if (status == INLAY_OK)
        status = count_job(device, &why);
    if (status == INLAY_OK)
        status = simulate_work(device, job->run);
    if (status == INLAY_OK)
        status = job->compiled != NULL ? compute(device, job) : copy_all(device, job);
    if (status == INLAY_INTERNAL)
        (void)inlay_fail(&why, status, "fake: a buffer that is not mine");
    count(&device->counters.ended, 1);
    (void)__atomic_fetch_sub(&device->unfinished, 1, __ATOMIC_RELEASE);
    if (job->instance != NULL)
        count(&((inlay_instance *)(uintptr_t)job->instance)->in_flight, -1);
    device->host->fence_signal(device->host->ctx, job->signal, status, &why);
    free(job);
}

/* Is another job of the same run queued before this one? */
static bool is_behind(const struct device *device, const struct job *job)
{
    const struct job *other = device->first;

    while (other != job && other->run != job->run)
        other = other->next;
    return other != job;
}

/* Removes the next job from the queue: the first ready job whose predecessors of the same run are done, or with option
 * unordered the last ready job. The mutex is held. */
static struct job *next_job(struct device *device)
{
    struct job *before = NULL, *at = NULL, *last = NULL;

    for (struct job *job = device->first, *prev = NULL; job != NULL; prev = job, job = job->next) {
        if (job->pending == 0 && (device->unordered || (at == NULL && !is_behind(device, job)))) {
            at = job;
            before = prev;
        }
        last = job;
    }
    if (at == NULL)
        return NULL;
    count(&device->counters.overtaken, at != device->first);
    if (before != NULL)
        before->next = at->next;
    else
        device->first = at->next;
    device->last = at == last ? before : last;
    return at;
}

void *work(void *arg)
{
    struct device *device = arg;

    (void)pthread_mutex_lock(&device->mutex);
    while (!device->stopping || device->first != NULL) {
        struct job *job = next_job(device);

        if (job == NULL) {
            (void)pthread_cond_wait(&device->changed, &device->mutex);
            continue;
        }
        device->busy = true;
        (void)pthread_mutex_unlock(&device->mutex);
        do_job(device, job);
        (void)pthread_mutex_lock(&device->mutex);
        device->busy = false;
        (void)pthread_cond_broadcast(&device->changed);
    }
    (void)pthread_mutex_unlock(&device->mutex);
    return NULL;
}

/* Called by the host, on any thread, when a fence is reached. */
static void reached(void *user, inlay_status status, const inlay_diag *why)
{
    struct pending_wait *pending_wait = user;
    struct device *device = pending_wait->device;

    (void)pthread_mutex_lock(&device->mutex);
    if (status != INLAY_OK && pending_wait->job->failed == INLAY_OK) {
        pending_wait->job->failed = status;
        if (why != NULL)
            pending_wait->job->why = *why;
    }
    pending_wait->job->pending--;
    (void)pthread_cond_broadcast(&device->changed);
    (void)pthread_mutex_unlock(&device->mutex);
}

/* Requests notifications for the fences of a job. An ordered queue does not need them for fences of the device. */
static void request_notices(struct device *device, struct job *job, const inlay_fence *waits, uint32_t wait_count,
                            uint32_t own)
{
    uint32_t n = 0;

    count(&device->counters.own_waits, (int32_t)own);
    for (uint32_t i = 0; i < own && !device->unordered; i++)
        job->own[job->own_count++] = waits[i];
    for (uint32_t i = job->own_count; i < wait_count; i++)
        job->waits[n++] = (struct pending_wait){ { .struct_size = sizeof(inlay_fence_notice),
                                                   .fence = waits[i],
                                                   .reached = reached,
                                                   .user = &job->waits[i - job->own_count] },
                                                 device,
                                                 job };
    count(&device->counters.notices, (int32_t)n);
    job->pending = n + 1; /* plus one until it is in the queue */
    for (uint32_t i = 0; i < n; i++)
        device->host->fence_notify(device->host->ctx, &job->waits[i].notice);
}

/* Cancels the notifications of a job that is not queued. */
static void cancel_notices(struct device *device, struct job *job, uint32_t n)
{
    uint32_t taken = 0;

    for (uint32_t i = 0; i < n; i++)
        taken += device->host->fence_forget(device->host->ctx, &job->waits[i].notice);
    (void)pthread_mutex_lock(&device->mutex);
    while (job->pending > 1 + taken)
        (void)pthread_cond_wait(&device->changed, &device->mutex);
    (void)pthread_mutex_unlock(&device->mutex);
}

/* Records the job in counters.order. The mutex is held. */
static void record_order(struct device *device, const struct job *job)
{
    char text[2 * MAX_COPIES];
    uint32_t n = 0;

    if (job->compiled != NULL)
        text[n++] = 'x';
    if (job->copy_count > 1)
        text[n++] = '(';
    for (uint32_t i = 0; i < job->copy_count; i++)
        text[n++] = job->inputs[i].domain == INLAY_DOMAIN_HOST    ? 'i'
                    : job->outputs[i].domain == INLAY_DOMAIN_HOST ? 'o'
                                                                  : 'd';
    if (job->copy_count > 1)
        text[n++] = ')';
    for (uint32_t i = 0; i < n && device->counters.order_count + 1 < sizeof device->counters.order; i++) {
        device->counters.order[device->counters.order_count] = text[i];
        __atomic_store_n(&device->counters.order_count, device->counters.order_count + 1, __ATOMIC_RELEASE);
    }
}

static uint32_t counted_waits(const struct device *device)
{
    return __atomic_load_n(&device->counters.most_waits, __ATOMIC_ACQUIRE);
}

static inlay_status enqueue(struct device *device, struct job *job, const inlay_fence *waits, uint32_t wait_count,
                            uint32_t own, inlay_diag *diag)
{
    if (wait_count > MAX_WAITS || own > wait_count) {
        free(job);
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "fake: too many fences");
    }
    if (wait_count > counted_waits(device))
        __atomic_store_n(&device->counters.most_waits, wait_count, __ATOMIC_RELEASE);
    job->why = (inlay_diag)INLAY_DIAG_INIT;
    request_notices(device, job, waits, wait_count, own);
    (void)pthread_mutex_lock(&device->mutex);
    if (device->stopping) {
        (void)pthread_mutex_unlock(&device->mutex);
        cancel_notices(device, job, wait_count - job->own_count);
        free(job);
        return inlay_fail(diag, INLAY_BUSY, "fake: stopping");
    }
    job->pending--;
    (void)__atomic_fetch_add(&device->unfinished, 1, __ATOMIC_RELAXED);
    record_order(device, job);
    if (device->last != NULL)
        device->last->next = job;
    else
        device->first = job;
    device->last = job;
    (void)pthread_cond_broadcast(&device->changed);
    (void)pthread_mutex_unlock(&device->mutex);
    return INLAY_OK;
}

inlay_status buffer_copy(void *state, const inlay_copy_request *request, inlay_diag *diag)
{
    struct job *job;

    if (request->struct_size < sizeof *request || request->copy_count > MAX_COPIES)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "fake: too many copies");
    job = calloc(1, sizeof *job);
    if (job == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: copies");
    for (; job->copy_count < request->copy_count; job->copy_count++) {
        const inlay_copy *copy = INLAY_AT(inlay_copy, request->copies, request->copy_stride, job->copy_count);

        job->inputs[job->copy_count] = copy->source;
        job->outputs[job->copy_count] = copy->target;
    }
    job->signal = request->signal;
    job->run = request->run;
    return enqueue(state, job, request->waits, request->wait_count, request->own_wait_count, diag);
}

/* The shape of the output depends on data, so it waits for its input before it returns. */
static inlay_status run_nonzero(struct device *device, const inlay_compiled *compiled, const inlay_instance *instance,
                                const inlay_exec_args *args)
{
    const inlay_tensor_arg *arg = &args->inputs[compiled->steps[0].in[0].index];
    inlay_tensor_arg *tensor_arg = &args->outputs[0];
    int64_t dims[2] = { instance->rank, 0 }, *out;
    inlay_buffer memory = tensor_arg->buffer;
    const float *data;
    inlay_status status = INLAY_OK;

    for (uint32_t wait = 0; wait < args->wait_count && status == INLAY_OK; wait++)
        status = device->host->fence_wait(device->host->ctx, args->run, args->waits[wait], args->diag);
    if (status == INLAY_OK)
        status = count_job(device, args->diag);
    if (status != INLAY_OK)
        return status;
    data = (const float *)(const void *)address(device, &arg->buffer, (uint64_t)instance->counts[0] * sizeof *data);
    if (data == NULL)
        return inlay_fail(args->diag, INLAY_INTERNAL, "fake: a buffer that is not mine");
    for (int64_t i = 0; i < instance->counts[0]; i++)
        dims[1] += data[i] != 0;
    if (device->bounded) {
        tensor_arg->dims[0] = dims[0];
        tensor_arg->dims[1] = dims[1];
    } else {
        const inlay_output_request request = { .struct_size = sizeof request, .dims = dims, .rank = 2 };

        status = device->host->output_alloc(device->host->ctx, args->run, &request, &memory);
        if (status != INLAY_OK)
            return inlay_fail(args->diag, status, "fake: no memory for the output");
    }
    out = (int64_t *)(void *)address(device, &memory, (uint64_t)(dims[0] * dims[1]) * sizeof *out);
    if (out == NULL)
        return inlay_fail(args->diag, INLAY_INTERNAL, "fake: a buffer that is not mine");
    for (int64_t i = 0, at = 0; i < instance->counts[0]; i++) {
        int64_t rest = i;

        if (data[i] == 0)
            continue;
        for (uint32_t a = instance->rank; a-- > 0; rest /= instance->dims[a])
            out[a * dims[1] + at] = rest % instance->dims[a];
        at++;
    }
    count(&device->counters.executed, 1);
    device->host->fence_signal(device->host->ctx, args->signal, INLAY_OK, NULL);
    return INLAY_OK;
}

inlay_status execute(void *state, inlay_compiled *compiled, inlay_instance *instance, const inlay_exec_args *args)
{
    struct device *device = state;
    struct job *job;
    inlay_status status;

    if (args->input_count > MAX_TENSORS || args->output_count > MAX_TENSORS)
        return inlay_fail(args->diag, INLAY_LIMIT_EXCEEDED, "fake: too many tensors");
    if (compiled->steps[0].op == OP_NONZERO)
        return run_nonzero(device, compiled, instance, args);
    job = calloc(1, sizeof *job);
    if (job == NULL)
        return inlay_fail(args->diag, INLAY_OUT_OF_MEMORY, "fake: execute");
    job->compiled = compiled;
    job->instance = instance;
    count(&device->counters.overlaps, __atomic_fetch_add(&instance->in_flight, 1, __ATOMIC_ACQ_REL) > 0);
    __atomic_store_n(&device->counters.priority, args->priority, __ATOMIC_RELEASE);
    __atomic_store_n(&device->counters.power, args->power, __ATOMIC_RELEASE);
    count(&device->counters.misuse, device->counters.suspended);
    count(&device->counters.submitted, 1);
    for (uint32_t i = 0; i < args->input_count; i++) {
        const inlay_tensor_arg *tensor_arg = INLAY_AT(inlay_tensor_arg, args->inputs, args->arg_stride, i);

        job->inputs[i] = tensor_arg->buffer;
        job->narrow_in[i] = tensor_arg->dtype == INLAY_BFLOAT16;
    }
    for (uint32_t output = 0; output < args->output_count; output++) {
        const inlay_tensor_arg *arg = INLAY_AT(inlay_tensor_arg, args->outputs, args->arg_stride, output);

        job->outputs[output] = arg->buffer;
        job->narrow_out[output] = arg->dtype == INLAY_BFLOAT16;
    }
    check_binding(device, args);
    job->workspace = args->workspace;
    if (args->workspace.handle != 0)
        count(&device->counters.misuse,
              args->workspace.offset % (uint64_t)device->workspace_align != 0 ||
                  (uintptr_t)address(device, &args->workspace, 0) % (uint64_t)device->workspace_align != 0);
    job->echo = (float)(100 * __atomic_load_n(&device->delay_us, __ATOMIC_RELAXED) + 10 * args->priority + args->power);
    job->signal = args->signal;
    job->run = args->run;
    status = enqueue(device, job, args->waits, args->wait_count, args->own_wait_count, args->diag);
    if (status != INLAY_OK)
        count(&instance->in_flight, -1);
    return status;
}
