/* ModelInfer and ModelStreamInfer: messages to requests, outputs to messages. */
#include "serve/datatype.h"
#include "serve/grpc_internal.h"
#include "serve/sequence.h"
#include "serve/trace.h"
#include <stdlib.h>
#include <string.h>

void grpc_infer_deinit(call *x)
{
    infer_request_deinit(&x->request);
    sequence_leave(&x->job);
    model_unref(x->job.model);
    x->job = (job){ .model = NULL };
    call_release(x->decoded);
    x->decoded = NULL;
    x->queued = x->keeping = false;
    x->finished = false;
}

/* ------------------------------------------------------------------ inputs */

/* Elements of the message's typed contents into memory of the tensor; false: not so many, or out of range. */
#define TAKE(field, type)                                                                                              \
    do {                                                                                                               \
        if (c->n_##field != t->count)                                                                                  \
            return false;                                                                                              \
        for (uint64_t i = 0; i < t->count; i++) {                                                                      \
            if ((type)c->field[i] != c->field[i])                                                                      \
                return false;                                                                                          \
            ((type *)t->data)[i] = (type)c->field[i];                                                                  \
        }                                                                                                              \
        return true;                                                                                                   \
    } while (0)
/* The same for types that hold every value of the field. */
#define COPY(field)                                                                                                    \
    do {                                                                                                               \
        if (c->n_##field != t->count)                                                                                  \
            return false;                                                                                              \
        if (t->count > 0)                                                                                              \
            memcpy(t->data, c->field, t->bytes);                                                                       \
        return true;                                                                                                   \
    } while (0)

static bool take_contents(const Inference__Contents *c, infer_tensor *t)
{
    switch (t->dtype) {
    case INLAY_BOOL:
        TAKE(bool_contents, uint8_t);
    case INLAY_INT8:
        TAKE(int_contents, int8_t);
    case INLAY_INT16:
        TAKE(int_contents, int16_t);
    case INLAY_INT32:
        COPY(int_contents);
    case INLAY_INT64:
        COPY(int64_contents);
    case INLAY_UINT8:
        TAKE(uint_contents, uint8_t);
    case INLAY_UINT16:
        TAKE(uint_contents, uint16_t);
    case INLAY_UINT32:
        COPY(uint_contents);
    case INLAY_UINT64:
        COPY(uint64_contents);
    case INLAY_FLOAT:
        COPY(fp32_contents);
    case INLAY_DOUBLE:
        COPY(fp64_contents);
    case INLAY_STRING:
        if (c->n_bytes_contents != t->count)
            return false;
        for (uint64_t i = 0; i < t->count; i++)
            ((inlay_str *)t->data)[i] =
                (inlay_str){ (const char *)c->bytes_contents[i].data, c->bytes_contents[i].len };
        return true;
    default:
        return false; /* FP16 and BF16 have none */
    }
}

static inlay_status set_contents(infer_request *q, infer_tensor *t, const Inference__Contents *c, size_t message_bytes,
                                 inlay_diag *diag)
{
    if (t->count > message_bytes) /* an element takes a byte and more */
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' has fewer elements than its shape", t->name);
    t->bytes = t->count * datatype_bytes(t->dtype);
    t->data = aligned_alloc(64, (t->bytes + 64) / 64 * 64);
    if (t->data == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "input '%s': no memory for %llu bytes", t->name,
                          (unsigned long long)t->bytes);
    t->owned = true;
    q->copied_bytes += t->bytes;
    if (!take_contents(c, t))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "input '%s': its contents are not %llu values of %s in the field of that type", t->name,
                          (unsigned long long)t->count, datatype_name(t->dtype));
    return INLAY_OK;
}

static inlay_status read_input(call *x, uint32_t i, size_t message_bytes, inlay_diag *diag)
{
    const Inference__Tensor *from = x->decoded->inputs[i];
    infer_tensor *t = &x->request.inputs[i];

    t->name = from->name;
    t->dtype = datatype_find(from->datatype, strlen(from->datatype));
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(x->request.inputs[k].name, t->name) == 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' is there twice", t->name);
    if (t->dtype == INLAY_UNDEFINED)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s': datatype '%.40s' is not known", t->name,
                          from->datatype);
    if (from->n_shape > INLAY_MAX_RANK)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' has more than %d dimensions", t->name,
                          INLAY_MAX_RANK);
    t->rank = (uint32_t)from->n_shape;
    if (t->rank > 0)
        memcpy(t->dims, from->shape, t->rank * sizeof t->dims[0]);
    if (!infer_count(t->rank, t->dims, &t->count))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s': no tensor has such a shape", t->name);
    for (size_t k = 0; k < from->n_parameters; k++)
        if (strncmp(from->parameters[k]->key, "shared_memory", 13) == 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "shared memory is not supported");
    if (x->decoded->n_raw_input_contents > 0)
        return infer_set_raw(&x->request, t, (char *)x->decoded->raw_input_contents[i].data,
                             x->decoded->raw_input_contents[i].len, diag);
    if (from->contents == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' has no contents", t->name);
    return set_contents(&x->request, t, from->contents, message_bytes, diag);
}

static uint64_t parameter_number(const Inference__Parameter *p)
{
    if (p->value == NULL)
        return 0;
    if (p->value->choice_case == INFERENCE__PARAMETER_VALUE__CHOICE_UINT64_VALUE)
        return p->value->uint64_value;
    if (p->value->choice_case == INFERENCE__PARAMETER_VALUE__CHOICE_INT64_VALUE && p->value->int64_value > 0)
        return (uint64_t)p->value->int64_value;
    return 0;
}

static bool parameter_bool(const Inference__Parameter *p)
{
    return p->value != NULL && p->value->choice_case == INFERENCE__PARAMETER_VALUE__CHOICE_BOOL_VALUE &&
           p->value->bool_value;
}

static bool set_sequence(infer_request *q, const Inference__Parameter *p)
{
    char number[24];

    if (p->value != NULL && p->value->choice_case == INFERENCE__PARAMETER_VALUE__CHOICE_STRING_VALUE)
        return infer_set_sequence(q, p->value->string_value, strlen(p->value->string_value));
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)parameter_number(p));
    return infer_set_sequence(q, number, strlen(number));
}

static inlay_status read_parameters(call *x, inlay_diag *diag)
{
    for (size_t i = 0; i < x->decoded->n_parameters; i++) {
        const Inference__Parameter *p = x->decoded->parameters[i];

        if (strcmp(p->key, "timeout") == 0)
            x->request.timeout_us = parameter_number(p);
        else if (strcmp(p->key, "priority") == 0)
            x->request.priority = parameter_number(p);
        else if (strcmp(p->key, "sequence_start") == 0)
            x->request.sequence_start = parameter_bool(p);
        else if (strcmp(p->key, "sequence_end") == 0)
            x->request.sequence_end = parameter_bool(p);
        else if (strcmp(p->key, "sequence_id") == 0 && !set_sequence(&x->request, p))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "sequence_id is a number, or a text of at most %d bytes",
                              SEQUENCE_ID_BYTES - 1);
    }
    return INLAY_OK;
}

static inlay_status read_tensors(call *x, size_t message_bytes, inlay_diag *diag)
{
    const Inference__InferRequest *d = x->decoded;
    infer_request *q = &x->request;
    inlay_status status = INLAY_OK;

    if (d->n_inputs == 0 || d->n_inputs > INFER_MAX_TENSORS || d->n_outputs > INFER_MAX_TENSORS)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "a request has 1 to %d inputs, and no more outputs",
                          INFER_MAX_TENSORS);
    if (d->n_raw_input_contents > 0 && d->n_raw_input_contents != d->n_inputs)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%zu raw_input_contents for %zu inputs",
                          d->n_raw_input_contents, d->n_inputs);
    q->inputs = calloc(d->n_inputs, sizeof *q->inputs);
    q->outputs = calloc(d->n_outputs + 1, sizeof *q->outputs);
    if (q->inputs == NULL || q->outputs == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the tensors");
    q->input_count = (uint32_t)d->n_inputs;
    for (uint32_t i = 0; status == INLAY_OK && i < q->input_count; i++)
        status = read_input(x, i, message_bytes, diag);
    for (; q->output_count < d->n_outputs; q->output_count++)
        q->outputs[q->output_count] = (infer_wanted){ .name = d->outputs[q->output_count]->name, .binary = -1 };
    return status;
}

/* ------------------------------------------------------------------ outputs */

/* What a reply is made of; all is freed together. */
typedef struct reply_parts {
    Inference__InferReply reply;
    Inference__Tensor *tensors, **tensor_list;
    Inference__Contents *contents;
    ProtobufCBinaryData *raws;
    void **owned; /* [output_count] */
    buf *strings; /* [output_count] */
} reply_parts;

static void parts_deinit(reply_parts *p, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (p->owned != NULL)
            free(p->owned[i]);
        if (p->strings != NULL)
            buf_deinit(&p->strings[i]);
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
static bool is_raw(const call *x, const infer_output *outputs, uint32_t count)
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

static inlay_status write_reply(call *x, const infer_output *outputs, uint32_t count, inlay_diag *diag)
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
    return good && !x->reply.failed ? INLAY_OK : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the answer");
}

/* ------------------------------------------------------------------ the run */

static void fail(call *x, const inlay_diag *diag)
{
    call_fail_diag(x, diag);
    stats_add_error(&x->job.model->stats, stats_error_of(diag->code), clock_ns() - x->arrived_ns);
}

/* Any thread; see finish() of infer_route.c. */
static void finish(job *j, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count)
{
    call *x = j->user;
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
        stats_add_time(&j->model->stats.request, answered - x->arrived_ns);
        trace_request(x->server->trace, j, answered);
    }
    if (x->queued)
        grpc_finished(x);
}

static void note_queued(void *user)
{
    call *x = user;

    if (x->queued) /* it has waited for its model already */
        return;
    x->queued = true;
    (void)atomic_fetch_add(&x->server->suspended, 1);
}

static uint64_t deadline(const call *x)
{
    uint64_t allowed = x->timeout_ns > 0 ? x->timeout_ns : x->server->timeout_ns;

    if (x->request.timeout_us > 0 && x->request.timeout_us < UINT64_MAX / 1000000 &&
        (allowed == 0 || x->request.timeout_us * 1000 < allowed))
        allowed = x->request.timeout_us * 1000;
    return allowed > 0 ? x->arrived_ns + allowed : 0;
}

static model *find_model(const call *x, uint64_t *out_version, bool *out_asleep)
{
    *out_asleep = false;
    if (!grpc_version(x->decoded->model_version, out_version))
        return NULL;
    return repository_ask(x->server->repository, x->decoded->model_name, strlen(x->decoded->model_name), *out_version,
                          out_asleep);
}

/* false: the message is answered. true: finish() was called, or will be. */
static bool submit(call *x)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    x->request.id = "";
    x->job.request = &x->request;
    if (!utf8_is_valid(x->decoded->id, strlen(x->decoded->id)))
        (void)inlay_fail(&diag, INLAY_INVALID_ARGUMENT, "the request's id is not UTF-8");
    if (diag.code != INLAY_OK || read_parameters(x, &diag) != INLAY_OK ||
        read_tensors(x, x->decoded_bytes, &diag) != INLAY_OK || model_check(&x->job, &diag) != INLAY_OK) {
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
    call *x = user;
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

void grpc_infer(call *x, const uint8_t *message, size_t bytes)
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
        x->kept = (kept){ .what = KEPT_WAKE, .version = version, .done = woken, .user = x };
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
