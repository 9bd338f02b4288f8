/* ModelInfer and ModelStreamInfer: messages to requests, outputs to messages. */
#include "serve/datatype.h"
#include "serve/grpc_internal.h"
#include "serve/grpc_read.h"
#include "serve/sequence.h"
#include "serve/trace.h"
#include <stdlib.h>
#include <string.h>

void grpc_infer_deinit(struct call *x)
{
    infer_request_deinit(&x->request);
    sequence_leave(&x->job);
    model_unref(x->job.model);
    x->job = (struct job){ .model = NULL };
    call_release(x->decoded);
    x->decoded = NULL;
    x->queued = x->keeping = false;
    x->finished = false;
}

/* ------------------------------------------------------------------ outputs */

/* What a reply is made of; all is freed together. */
typedef struct reply_parts {
    Inference__InferReply reply;
    Inference__Tensor *tensors, **tensor_list;
    Inference__Contents *contents;
    ProtobufCBinaryData *raws;
    void **owned;           /* [output_count] */
    struct strbuf *strings; /* [output_count] */
} reply_parts;

static void parts_deinit(reply_parts *p, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (p->owned != NULL)
            free(p->owned[i]);
        if (p->strings != NULL)
            strbuf_deinit(&p->strings[i]);
    }
    free(p->tensors);
    free((void *)p->tensor_list);
    free(p->contents);
    free(p->raws);
    free((void *)p->owned);
    free(p->strings);
}

static bool parts_init(reply_parts *p, uint32_t count)
{
    *p = (reply_parts){ .tensors = calloc(count + 1u, sizeof *p->tensors) };
    inference__infer_reply__init(&p->reply);
    p->tensor_list = calloc(count + 1u, sizeof *p->tensor_list);
    p->contents = calloc(count + 1u, sizeof *p->contents);
    p->raws = calloc(count + 1u, sizeof *p->raws);
    p->owned = calloc(count + 1u, sizeof *p->owned);
    p->strings = calloc(count + 1u, sizeof *p->strings);
    return p->tensors != NULL && p->tensor_list != NULL && p->contents != NULL && p->raws != NULL && p->owned != NULL &&
           p->strings != NULL;
}

/* A small type in the elements of the field that it travels in. */
#define WIDEN(field, wide, narrow)                                                                                     \
    do {                                                                                                               \
        wide *values = malloc((o->count + 1) * sizeof *values);                                                        \
        if (values == NULL)                                                                                            \
            return false;                                                                                              \
        *owned = values;                                                                                               \
        for (uint64_t i = 0; i < o->count; i++)                                                                        \
            values[i] = (wide)((const narrow *)o->data)[i];                                                            \
        c->n_##field = o->count;                                                                                       \
        c->field = values;                                                                                             \
        return true;                                                                                                   \
    } while (0)
#define POINT(field, type)                                                                                             \
    do {                                                                                                               \
        c->n_##field = o->count;                                                                                       \
        c->field = (type *)(uintptr_t)o->data;                                                                         \
        return true;                                                                                                   \
    } while (0)

static bool give_strings(const infer_output *o, Inference__Contents *c, void **owned)
{
    ProtobufCBinaryData *texts = malloc((o->count + 1) * sizeof *texts);

    *owned = texts;
    for (uint64_t i = 0; texts != NULL && i < o->count; i++) {
        const inlay_str *s = &((const inlay_str *)o->data)[i];
        texts[i] = (ProtobufCBinaryData){ s->bytes, (uint8_t *)(uintptr_t)s->data };
    }
    c->n_bytes_contents = o->count;
    c->bytes_contents = texts;
    return texts != NULL;
}

static bool give_contents(const infer_output *o, Inference__Contents *c, void **owned)
{
    switch (o->dtype) {
    case INLAY_BOOL:
        WIDEN(bool_contents, protobuf_c_boolean, uint8_t);
    case INLAY_INT8:
        WIDEN(int_contents, int32_t, int8_t);
    case INLAY_INT16:
        WIDEN(int_contents, int32_t, int16_t);
    case INLAY_INT32:
        POINT(int_contents, int32_t);
    case INLAY_INT64:
        POINT(int64_contents, int64_t);
    case INLAY_UINT8:
        WIDEN(uint_contents, uint32_t, uint8_t);
    case INLAY_UINT16:
        WIDEN(uint_contents, uint32_t, uint16_t);
    case INLAY_UINT32:
        POINT(uint_contents, uint32_t);
    case INLAY_UINT64:
        POINT(uint64_contents, uint64_t);
    case INLAY_FLOAT:
        POINT(fp32_contents, float);
    case INLAY_DOUBLE:
        POINT(fp64_contents, double);
    default:
        return give_strings(o, c, owned);
    }
}

/* Outputs come as the inputs did: raw, or in fields. FP16 and BF16 have no field, so with one of them all are raw. */
static bool is_raw(const struct call *x, const infer_output *outputs, uint32_t count)
{
    bool raw = x->decoded->n_raw_input_contents > 0;

    for (uint32_t i = 0; i < count; i++)
        raw |= outputs[i].dtype == INLAY_FLOAT16 || outputs[i].dtype == INLAY_BFLOAT16;
    return raw;
}

static bool give_output(reply_parts *p, uint32_t i, const infer_output *o, bool raw)
{
    Inference__Tensor *t = &p->tensors[i];

    inference__tensor__init(t);
    t->name = (char *)(uintptr_t)o->name;
    t->datatype = (char *)(uintptr_t)datatype_name(o->dtype);
    t->n_shape = o->rank;
    t->shape = (int64_t *)(uintptr_t)o->dims;
    p->tensor_list[i] = t;
    if (!raw) {
        inference__contents__init(&p->contents[i]);
        t->contents = &p->contents[i];
        return give_contents(o, t->contents, &p->owned[i]);
    }
    if (o->dtype == INLAY_STRING) {
        datatype_write_raw(&p->strings[i], o->dtype, o->count, o->data);
        p->raws[i] = (ProtobufCBinaryData){ p->strings[i].size, (uint8_t *)p->strings[i].data };
        return !p->strings[i].failed;
    }
    p->raws[i] = (ProtobufCBinaryData){ o->count * datatype_bytes(o->dtype), (uint8_t *)(uintptr_t)o->data };
    return true;
}

static inlay_status write_reply(struct call *x, const infer_output *outputs, uint32_t count, inlay_diag *diag)
{
    bool raw = is_raw(x, outputs, count), good;
    Inference__StreamInferReply wrapped = INFERENCE__STREAM_INFER_REPLY__INIT;
    reply_parts p;

    for (uint32_t i = 0; i < count; i++)
        if (datatype_name(outputs[i].dtype) == NULL)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "output '%s' is of type %s, which the protocol does not have",
                              outputs[i].name, inlay_dtype_name(outputs[i].dtype));
    good = parts_init(&p, count);
    for (uint32_t i = 0; good && i < count; i++)
        good = give_output(&p, i, &outputs[i], raw);
    if (good) {
        p.reply.model_name = x->job.model->name;
        p.reply.model_version = x->job.model->version;
        p.reply.id = x->decoded->id;
        p.reply.n_outputs = count;
        p.reply.outputs = p.tensor_list;
        p.reply.n_raw_output_contents = raw ? count : 0;
        p.reply.raw_output_contents = p.raws;
        wrapped.infer_response = &p.reply;
        call_pack(x, x->method->streams ? &wrapped.base : &p.reply.base);
    }
    parts_deinit(&p, count);
    return good && !x->reply.failed ? INLAY_OK : no_memory(diag, "for the answer");
}

/* ------------------------------------------------------------------ the run */

static void fail(struct call *x, const inlay_diag *diag)
{
    call_fail_diag(x, diag);
    stats_add_error(&x->job.model->stats, stats_error_of(diag->code), clock_ns() - x->arrived_ns);
}

/* Any thread; see finish() of infer_route.c. */
static void finish(struct job *j, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count)
{
    struct call *x = j->user;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;
    uint64_t answered;

    if (failure == NULL)
        status = write_reply(x, outputs, output_count, &diag);
    if (failure != NULL || status != INLAY_OK) {
        fail(x, failure != NULL ? failure : &diag);
    } else {
        (void)atomic_fetch_add_explicit(&j->model->stats.rows, j->rows, memory_order_relaxed);
        answered = clock_ns();
        stats_add_request(&j->model->stats, answered - x->arrived_ns, j->model->settings.batch_target_us);
        trace_request(x->server->trace, j, answered);
    }
    sequence_leave(j);
    if (x->queued)
        grpc_finished(x);
}

static void note_queued(void *user)
{
    struct call *x = user;

    if (x->queued) /* it has waited for its model already */
        return;
    x->queued = true;
    (void)atomic_fetch_add(&x->server->suspended, 1);
}

static uint64_t deadline(const struct call *x)
{
    uint64_t allowed = x->timeout_ns > 0 ? x->timeout_ns : x->server->timeout_ns;

    if (x->request.timeout_us > 0 && x->request.timeout_us < UINT64_MAX / 1000000 &&
        (allowed == 0 || x->request.timeout_us * 1000 < allowed))
        allowed = x->request.timeout_us * 1000;
    return allowed > 0 ? x->arrived_ns + allowed : 0;
}

static struct model *find_model(const struct call *x, uint64_t *out_version, bool *out_asleep)
{
    *out_asleep = false;
    if (!grpc_version(x->decoded->model_version, out_version))
        return NULL;
    return repository_ask(x->server->repository, x->decoded->model_name, strlen(x->decoded->model_name), *out_version,
                          out_asleep);
}

static inlay_status read_request(struct call *x, inlay_diag *diag)
{
    uint64_t version = 0;
    inlay_status status;

    x->job.request = &x->request;
    status = grpc_read_request(x->decoded, x->decoded_bytes, &x->request, diag);
    if (status != INLAY_OK)
        return status;
    (void)grpc_version(x->decoded->model_version, &version); /* find_model() has read it */
    x->job.model = repository_of_sequence(x->server->repository, x->job.model, version, &x->request);
    return model_check(&x->job, diag);
}

/* false: the message is answered. true: finish() was called, or will be. */
static bool submit(struct call *x)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (read_request(x, &diag) != INLAY_OK) {
        fail(x, &diag);
        return false;
    }
    (void)atomic_fetch_add_explicit(&x->server->copied_bytes, x->request.copied_bytes, memory_order_relaxed);
    x->job.arrived_ns = x->arrived_ns;
    x->job.deadline_ns = deadline(x);
    x->job.finish = finish;
    x->job.user = x;
    if (sched_submit(x->server->sched, &x->job, note_queued, x) != SCHED_FULL)
        return true;
    (void)inlay_fail(&diag, INLAY_BUSY, "the model's queue is full; try again later");
    fail(x, &diag);
    x->reply_status = GRPC_RESOURCE_EXHAUSTED;
    return false;
}

/* The model that the message waited for is loaded, or could not be. On the keeper's thread. */
static void woken(void *user, const inlay_diag *failure)
{
    struct call *x = user;
    uint64_t version;
    bool asleep;

    if (failure->code == INLAY_OK)
        x->job.model = find_model(x, &version, &asleep);
    if (x->job.model != NULL && submit(x))
        return;
    if (failure->code != INLAY_OK)
        call_fail_diag(x, failure);
    else if (x->job.model == NULL)
        call_fail(x, GRPC_UNAVAILABLE, "the model was unloaded again for others; try again later");
    grpc_finished(x);
}

void grpc_infer(struct call *x, const uint8_t *message, size_t bytes)
{
    uint64_t version = 0;
    bool asleep;

    if (atomic_load_explicit(&x->server->refusing, memory_order_relaxed)) {
        call_fail(x, GRPC_UNAVAILABLE, "the server is going down");
        return;
    }
    x->decoded = call_unpack(x, &inference__infer_request__descriptor, message, bytes);
    if (x->decoded == NULL)
        return;
    x->decoded_bytes = bytes;
    x->job.model = find_model(x, &version, &asleep);
    if (x->job.model != NULL) {
        (void)submit(x);
    } else if (asleep) {
        x->kept = (struct kept){ .what = KEPT_WAKE, .version = version, .done = woken, .user = x };
        (void)snprintf(x->kept.name, sizeof x->kept.name, "%s", x->decoded->model_name);
        note_queued(x);
        x->keeping = true;
        keeper_submit(x->server->keeper, &x->kept);
    } else if (!atomic_load(&x->server->ready)) {
        call_fail(x, GRPC_UNAVAILABLE, "models are being loaded");
    } else {
        call_fail(x, GRPC_NOT_FOUND, "no such model or version is loaded");
    }
}
