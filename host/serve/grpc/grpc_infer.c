/* ModelInfer and ModelStreamInfer: messages to requests, outputs to messages. */
#include "serve/request/datatype.h"
#include "serve/grpc/grpc_internal.h"
#include "serve/grpc/grpc_read.h"
#include "serve/model/sequence.h"
#include "serve/rollout/trial.h"
#include "serve/schedule/otlp.h"
#include "serve/schedule/trace.h"
#include "serve/repository/repository.h"
#include "serve/request/shared_memory.h"
#include <stdlib.h>
#include <string.h>

/* Frees what grpc_infer() holds for a message. */
static void release(struct call *call)
{
    trial_end(&call->job);
    infer_request_deinit(&call->request);
    sequence_leave(&call->job);
    model_unref(call->job.model);
    call->job = (struct job){ .model = NULL };
    call_free_unpacked(call->unpacked);
    call->unpacked = NULL;
}

/* The parts of a reply, freed together. */
typedef struct reply_parts {
    Inference__InferReply reply;
    Inference__Tensor *tensors, **tensor_list;
    Inference__Contents *contents;
    ProtobufCBinaryData *raws;
    void **owned;           /* [output_count] */
    struct strbuf *strings; /* [output_count] */
    struct region_parameters {
        Inference__Parameter parameters[3], *list[3];
        Inference__ParameterValue values[3];
    } * regions; /* [output_count] */
} reply_parts;

static void parts_deinit(reply_parts *parts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (parts->owned != NULL)
            free(parts->owned[i]);
        if (parts->strings != NULL)
            strbuf_deinit(&parts->strings[i]);
    }
    free(parts->tensors);
    free((void *)parts->tensor_list);
    free(parts->contents);
    free(parts->raws);
    free((void *)parts->owned);
    free(parts->strings);
    free(parts->regions);
}

static bool parts_init(reply_parts *parts, uint32_t count)
{
    *parts = (reply_parts){ .tensors = calloc(count + 1u, sizeof *parts->tensors) };
    inference__infer_reply__init(&parts->reply);
    parts->tensor_list = calloc(count + 1u, sizeof *parts->tensor_list);
    parts->contents = calloc(count + 1u, sizeof *parts->contents);
    parts->raws = calloc(count + 1u, sizeof *parts->raws);
    parts->owned = calloc(count + 1u, sizeof *parts->owned);
    parts->strings = calloc(count + 1u, sizeof *parts->strings);
    parts->regions = calloc(count + 1u, sizeof *parts->regions);
    return parts->tensors != NULL && parts->tensor_list != NULL && parts->contents != NULL && parts->raws != NULL &&
           parts->owned != NULL && parts->strings != NULL && parts->regions != NULL;
}

/* Widens the elements of a small type to those of the protobuf field. The parameters are (output, contents, owned). */
#define WIDEN(field, wide, narrow)                                                                                     \
    do {                                                                                                               \
        wide *values = malloc((output->count + 1) * sizeof *values);                                                   \
        if (values == NULL)                                                                                            \
            return false;                                                                                              \
        *owned = values;                                                                                               \
        for (uint64_t i = 0; i < output->count; i++)                                                                   \
            values[i] = (wide)((const narrow *)output->data)[i];                                                       \
        contents->n_##field = output->count;                                                                           \
        contents->field = values;                                                                                      \
        return true;                                                                                                   \
    } while (0)
#define POINT(field, type)                                                                                             \
    do {                                                                                                               \
        contents->n_##field = output->count;                                                                           \
        contents->field = (type *)(uintptr_t)output->data;                                                             \
        return true;                                                                                                   \
    } while (0)

static bool set_strings(const infer_output *output, Inference__Contents *contents, void **owned)
{
    ProtobufCBinaryData *texts = malloc((output->count + 1) * sizeof *texts);

    *owned = texts;
    for (uint64_t i = 0; texts != NULL && i < output->count; i++) {
        const inlay_str *string = &((const inlay_str *)output->data)[i];
        texts[i] = (ProtobufCBinaryData){ string->bytes, (uint8_t *)(uintptr_t)string->data };
    }
    contents->n_bytes_contents = output->count;
    contents->bytes_contents = texts;
    return texts != NULL;
}

static bool set_contents(const infer_output *output, Inference__Contents *contents, void **owned)
{
    switch (output->dtype) {
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
        return set_strings(output, contents, owned);
    }
}

/* Outputs use the representation of the inputs: raw bytes, also of shared memory, or typed fields. FP16 and BF16 have
 * no typed field, so with one of them all outputs are raw. */
static bool is_raw(const struct call *call, const infer_output *outputs, uint32_t count)
{
    bool raw = call->unpacked->n_raw_input_contents > 0;

    for (uint32_t i = 0; i < call->request.input_count; i++)
        raw |= call->request.inputs[i].region.name != NULL;
    for (uint32_t i = 0; i < count; i++)
        raw |= outputs[i].dtype == INLAY_FLOAT16 || outputs[i].dtype == INLAY_BFLOAT16;
    return raw;
}

/* The output was written to shared memory: its message names the place. */
static void set_region(Inference__Tensor *tensor, struct region_parameters *to, const infer_region *region)
{
    static const char *const keys[] = { "shared_memory_region", "shared_memory_offset", "shared_memory_byte_size" };

    for (uint32_t i = 0; i < 3; i++) {
        inference__parameter__init(&to->parameters[i]);
        inference__parameter_value__init(&to->values[i]);
        to->parameters[i].key = (char *)(uintptr_t)keys[i];
        to->parameters[i].value = &to->values[i];
        to->list[i] = &to->parameters[i];
        to->values[i].choice_case =
            i == 0 ? INFERENCE__PARAMETER_VALUE__CHOICE_STRING_VALUE : INFERENCE__PARAMETER_VALUE__CHOICE_INT64_VALUE;
    }
    to->values[0].string_value = (char *)(uintptr_t)region->name;
    to->values[1].int64_value = (int64_t)region->offset;
    to->values[2].int64_value = (int64_t)region->bytes;
    tensor->parameters = to->list;
    tensor->n_parameters = 3;
}

static bool set_output(reply_parts *parts, uint32_t i, const infer_output *output, const infer_region *region, bool raw)
{
    Inference__Tensor *tensor = &parts->tensors[i];

    inference__tensor__init(tensor);
    tensor->name = (char *)(uintptr_t)output->name;
    tensor->datatype = (char *)(uintptr_t)datatype_name(output->dtype);
    tensor->n_shape = output->rank;
    tensor->shape = (int64_t *)(uintptr_t)output->dims;
    parts->tensor_list[i] = tensor;
    if (region != NULL) { /* with raw outputs, an empty one keeps the place of its data */
        set_region(tensor, &parts->regions[i], region);
        return true;
    }
    if (!raw) {
        inference__contents__init(&parts->contents[i]);
        tensor->contents = &parts->contents[i];
        return set_contents(output, tensor->contents, &parts->owned[i]);
    }
    if (output->dtype == INLAY_STRING) {
        datatype_write_raw(&parts->strings[i], output->dtype, output->count, output->data);
        parts->raws[i] = (ProtobufCBinaryData){ parts->strings[i].size, (uint8_t *)parts->strings[i].data };
        return !parts->strings[i].failed;
    }
    parts->raws[i] =
        (ProtobufCBinaryData){ output->count * datatype_bytes(output->dtype), (uint8_t *)(uintptr_t)output->data };
    return true;
}

static inlay_status write_reply(struct call *call, const infer_output *outputs, uint32_t count, inlay_diag *diag)
{
    bool raw = is_raw(call, outputs, count), good;
    Inference__StreamInferReply wrapped = INFERENCE__STREAM_INFER_REPLY__INIT;
    reply_parts parts;

    for (uint32_t i = 0; i < count; i++)
        if (datatype_name(outputs[i].dtype) == NULL)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "output '%s' has type %s, which the protocol does not have",
                              outputs[i].name, inlay_dtype_name(outputs[i].dtype));
    if (shared_memory_store(call->server->shared_memory, &call->request, outputs, count, diag) != INLAY_OK)
        return diag->code;
    good = parts_init(&parts, count);
    for (uint32_t i = 0; good && i < count; i++)
        good = set_output(&parts, i, &outputs[i],
                          i < call->request.output_count && call->request.outputs[i].region.name != NULL
                              ? &call->request.outputs[i].region
                              : NULL,
                          raw);
    if (good) {
        parts.reply.model_name = call->job.model->name;
        parts.reply.model_version = call->job.model->version;
        parts.reply.id = call->unpacked->id;
        parts.reply.n_outputs = count;
        parts.reply.outputs = parts.tensor_list;
        parts.reply.n_raw_output_contents = raw ? count : 0;
        parts.reply.raw_output_contents = parts.raws;
        wrapped.infer_response = &parts.reply;
        call_pack(call, call->method->streams ? &wrapped.base : &parts.reply.base);
    }
    parts_deinit(&parts, count);
    return good && !call->reply.failed ? INLAY_OK : no_memory(diag, "for the reply");
}

static void fail(struct call *call, const inlay_diag *diag)
{
    call_fail_diag(call, diag);
    stats_add_error(call->job.model->stats, stats_error_of(diag->code), clock_ns() - call->arrived_ns);
}

static void note_queued(void *user)
{
    struct call *call = user;

    if (call->queued) /* queued already, while its model was loaded */
        return;
    call->queued = true;
    (void)atomic_fetch_add(&call->server->suspended, 1);
}

/* Any thread; see finish() of infer_route.c. */
static void finish(struct job *job, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count)
{
    struct call *call = job->user;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;
    uint64_t answered = clock_ns();

    if (failure != NULL && trial_can_retry(job, failure) && trial_retry(call->server, job, failure, note_queued, call))
        return;
    trial_keep(job, failure, outputs, output_count);
    if (failure == NULL)
        status = write_reply(call, outputs, output_count, &diag);
    if (failure != NULL || status != INLAY_OK) {
        fail(call, failure != NULL ? failure : &diag);
    } else {
        (void)atomic_fetch_add_explicit(&job->model->stats->rows, job->rows, memory_order_relaxed);
        answered = clock_ns();
        stats_add_request(job->model->stats, answered - call->arrived_ns, job->received_ns - job->arrived_ns,
                          job->model->settings.batch_target_us);
        trace_request(call->server->trace, job, answered);
    }
    otlp_add(call->server->otlp, job, call->traceparent, answered,
             failure != NULL      ? failure
             : status != INLAY_OK ? &diag
                                  : NULL);
    sequence_leave(job);
    if (call->queued)
        grpc_finished(call);
}

static uint64_t deadline(const struct call *call)
{
    uint64_t allowed = call->timeout_ns > 0 ? call->timeout_ns : call->server->timeout_ns;

    if (call->request.timeout_us > 0 && call->request.timeout_us < UINT64_MAX / 1000000 &&
        (allowed == 0 || call->request.timeout_us * 1000 < allowed))
        allowed = call->request.timeout_us * 1000;
    return allowed > 0 ? call->arrived_ns + allowed : 0;
}

static struct model *find_model(const struct call *call, uint64_t *out_version, bool *out_deferred)
{
    *out_deferred = false;
    if (!grpc_version(call->unpacked->model_version, out_version))
        return NULL;
    return repository_acquire(call->server->repository, call->unpacked->model_name, strlen(call->unpacked->model_name),
                              *out_version, out_deferred);
}

/* Counts the inputs in shared memory as bytes of the message. */
static inlay_status hold_inputs(struct call *call, inlay_diag *diag)
{
    uint64_t bytes = shared_memory_input_bytes(&call->request);

    if (bytes > call->server->max_body_bytes)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the inputs are larger than max_body_bytes");
    if (bytes > 0 && !server_hold(call->server, call->held_bytes, bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                          "the messages of all calls in progress exceed max_inflight_bytes; try again later");
    call->held_bytes += bytes;
    return INLAY_OK;
}

static inlay_status read_request(struct call *call, inlay_diag *diag)
{
    uint64_t version = 0;
    inlay_status status;

    call->job.request = &call->request;
    status = grpc_read_request(call->unpacked, call->request_bytes, &call->request, diag);
    if (status == INLAY_OK)
        status = hold_inputs(call, diag);
    if (status == INLAY_OK)
        status = shared_memory_load(call->server->shared_memory, &call->request, diag);
    if (status != INLAY_OK)
        return status;
    (void)grpc_version(call->unpacked->model_version, &version); /* find_model() has checked it */
    call->job.model = repository_of_sequence(call->server->repository, call->job.model, version, &call->request);
    if (version == 0)
        trial_choose(call->server, &call->job);
    return trial_check(&call->job, diag);
}

/* false: the call has its failure. true: finish() was called, or will be. */
static bool submit(struct call *call)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (read_request(call, &diag) != INLAY_OK) {
        fail(call, &diag);
        return false;
    }
    (void)atomic_fetch_add_explicit(&call->server->counts->copied_bytes, call->request.copied_bytes,
                                    memory_order_relaxed);
    call->job.arrived_ns = call->arrived_ns;
    call->job.received_ns = call->received_ns;
    call->job.deadline_ns = deadline(call);
    call->job.finish = finish;
    call->job.user = call;
    otlp_sample(call->server->otlp, &call->job, call->traceparent);
    if (trial_submit(call->server, &call->job, note_queued, call) != SCHED_FULL)
        return true;
    (void)inlay_fail(&diag, INLAY_BUSY, "the model's queue is full; try again later");
    fail(call, &diag);
    call->reply_status = GRPC_RESOURCE_EXHAUSTED;
    call->retry_after = call->method->streams ? 0 : sched_retry_after(call->server->sched, call->job.model);
    return false;
}

/* The model that the message waited for is loaded, or its load failed. On the thread of the model loader. */
static void model_loaded(void *user, const inlay_diag *failure)
{
    struct call *call = user;
    uint64_t version;
    bool deferred;

    if (failure->code == INLAY_OK)
        call->job.model = find_model(call, &version, &deferred);
    if (call->job.model != NULL && submit(call))
        return;
    if (failure->code != INLAY_OK)
        call_fail_diag(call, failure);
    else if (call->job.model == NULL)
        call_fail(call, GRPC_UNAVAILABLE, "the model was unloaded to make room for others; try again later");
    grpc_finished(call);
}

void grpc_infer(struct call *call, const uint8_t *message, size_t bytes)
{
    uint64_t version = 0;
    bool deferred;

    if (atomic_load_explicit(&call->server->refusing, memory_order_relaxed)) {
        call_fail(call, GRPC_UNAVAILABLE, "the server is shutting down");
        return;
    }
    call->unpacked = call_unpack(call, &inference__infer_request__descriptor, message, bytes);
    if (call->unpacked == NULL)
        return;
    call->request_bytes = bytes;
    call->release = release;
    call->job.model = find_model(call, &version, &deferred);
    if (call->job.model != NULL) {
        (void)submit(call);
    } else if (deferred) {
        call->load_task = (load_task){ .what = LOAD_TASK_DEFERRED,
                                       .version = version,
                                       .deadline_ns = deadline(call),
                                       .done = model_loaded,
                                       .user = call };
        (void)snprintf(call->load_task.name, sizeof call->load_task.name, "%s", call->unpacked->model_name);
        note_queued(call);
        call->in_loader = true;
        loader_submit(call->server->loader, &call->load_task);
    } else if (!atomic_load(&call->server->loaded)) {
        call_fail(call, GRPC_UNAVAILABLE, "models are being loaded");
    } else {
        call_fail(call, GRPC_NOT_FOUND, "no such model or version is loaded");
    }
}
