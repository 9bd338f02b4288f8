/* ModelInfer and ModelStreamInfer: messages to requests, outputs to messages. */
#include "serve/exchange/request_infer.h"
#include "codecs/datatype.h"
#include "serve/grpc/grpc_internal.h"
#include "serve/grpc/grpc_read.h"
#include "serve/model/sequence.h"
#include "serve/rollout/trial.h"
#include <stdlib.h>
#include <string.h>

/* Frees what grpc_infer() holds for a message. */
static void release(struct call *call)
{
    trial_end(&call->request.job);
    infer_request_deinit(&call->request.infer);
    sequence_leave(&call->request.job);
    model_unref(call->request.job.model);
    call->request.job = (struct job){ .model = NULL };
    call->request.queue_ns = call->request.compute_ns = call->request.run_rows = 0;
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
    struct reply_parameters {
        Inference__Parameter parameters[3], *list[3];
        Inference__ParameterValue values[3];
    } * regions; /* [output_count] */
    struct reply_parameters variant;
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

/* The elements of an output of 1 or 2 bytes each as int32 or uint32, the types of the fields, or as the int of a bool.
 * Allocated; NULL: out of memory. */
static uint32_t *widened(const infer_output *output)
{
    uint32_t *values = malloc((output->count + 1) * sizeof *values);

    for (uint64_t i = 0; values != NULL && i < output->count; i++)
        switch (output->dtype) {
        case INLAY_INT8:
            values[i] = (uint32_t)((const int8_t *)output->data)[i];
            break;
        case INLAY_INT16:
            values[i] = (uint32_t)((const int16_t *)output->data)[i];
            break;
        case INLAY_UINT16:
            values[i] = ((const uint16_t *)output->data)[i];
            break;
        default: /* INLAY_BOOL and INLAY_UINT8 */
            values[i] = ((const uint8_t *)output->data)[i];
        }
    return values;
}

/* *owned: memory that lives as long as the contents, to be freed. false: out of memory. */
static bool set_contents(const infer_output *output, Inference__Contents *contents, void **owned)
{
    const bool is_narrow = datatype_bytes(output->dtype) < sizeof(int32_t);
    void *elements = (void *)(uintptr_t)output->data;

    if (is_narrow) {
        elements = *owned = widened(output);
        if (elements == NULL)
            return false;
    }
    switch (output->dtype) {
    case INLAY_BOOL:
        contents->n_bool_contents = output->count;
        contents->bool_contents = elements;
        return true;
    case INLAY_INT8:
    case INLAY_INT16:
    case INLAY_INT32:
        contents->n_int_contents = output->count;
        contents->int_contents = elements;
        return true;
    case INLAY_INT64:
        contents->n_int64_contents = output->count;
        contents->int64_contents = elements;
        return true;
    case INLAY_UINT8:
    case INLAY_UINT16:
    case INLAY_UINT32:
        contents->n_uint_contents = output->count;
        contents->uint_contents = elements;
        return true;
    case INLAY_UINT64:
        contents->n_uint64_contents = output->count;
        contents->uint64_contents = elements;
        return true;
    case INLAY_FLOAT:
        contents->n_fp32_contents = output->count;
        contents->fp32_contents = elements;
        return true;
    case INLAY_DOUBLE:
        contents->n_fp64_contents = output->count;
        contents->fp64_contents = elements;
        return true;
    default:
        return set_strings(output, contents, owned);
    }
}

/* Outputs use the representation of the inputs: raw bytes, also of shared memory, or typed fields. FP16 and BF16 have
 * no typed field, so with one of them all outputs are raw. */
static bool is_raw(const struct call *call, const infer_output *outputs, uint32_t count)
{
    bool raw = call->unpacked->n_raw_input_contents > 0;

    for (uint32_t i = 0; i < call->request.infer.input_count; i++)
        raw |= call->request.infer.inputs[i].region.name != NULL;
    for (uint32_t i = 0; i < count; i++)
        raw |= outputs[i].dtype == INLAY_FLOAT16 || outputs[i].dtype == INLAY_BFLOAT16;
    return raw;
}

/* Sets the names and the types of parameters. */
static void set_parameters(struct reply_parameters *to, const char *const *keys, uint32_t count,
                           const Inference__ParameterValue__ChoiceCase *types)
{
    for (uint32_t i = 0; i < count; i++) {
        inference__parameter__init(&to->parameters[i]);
        inference__parameter_value__init(&to->values[i]);
        to->parameters[i].key = (char *)(uintptr_t)keys[i];
        to->parameters[i].value = &to->values[i];
        to->list[i] = &to->parameters[i];
        to->values[i].choice_case = types[i];
    }
}

/* The model is a package: the reply names the variant that ran, and its error. */
static void set_variant(reply_parts *parts, const job_run *run)
{
    static const char *const keys[] = { "variant", "variant_error" };
    static const Inference__ParameterValue__ChoiceCase types[] = { INFERENCE__PARAMETER_VALUE__CHOICE_STRING_VALUE,
                                                                   INFERENCE__PARAMETER_VALUE__CHOICE_DOUBLE_VALUE };

    set_parameters(&parts->variant, keys, 2, types);
    parts->variant.values[0].string_value = (char *)(uintptr_t)run->variant;
    parts->variant.values[1].double_value = run->variant_error;
    parts->reply.parameters = parts->variant.list;
    parts->reply.n_parameters = run->variant_error >= 0 ? 2 : 1;
}

/* The output was written to shared memory: its message names the place. */
static void set_region(Inference__Tensor *tensor, struct reply_parameters *to, const infer_region *region)
{
    static const char *const keys[] = { "shared_memory_region", "shared_memory_offset", "shared_memory_byte_size" };
    static const Inference__ParameterValue__ChoiceCase types[] = { INFERENCE__PARAMETER_VALUE__CHOICE_STRING_VALUE,
                                                                   INFERENCE__PARAMETER_VALUE__CHOICE_INT64_VALUE,
                                                                   INFERENCE__PARAMETER_VALUE__CHOICE_INT64_VALUE };

    set_parameters(to, keys, 3, types);
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

static struct call *call_of(struct request *request)
{
    return (struct call *)(void *)request; /* its first member */
}

static inlay_status put_results(struct request *request, const infer_output *outputs, uint32_t count, inlay_diag *diag)
{
    struct call *call = call_of(request);
    bool raw = is_raw(call, outputs, count), good;
    Inference__StreamInferReply wrapped = INFERENCE__STREAM_INFER_REPLY__INIT;
    reply_parts parts;

    for (uint32_t i = 0; i < count; i++)
        if (datatype_name(outputs[i].dtype) == NULL)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "output '%s' has type %s, which the protocol does not have",
                              outputs[i].name, inlay_dtype_name(outputs[i].dtype));
    good = parts_init(&parts, count);
    for (uint32_t i = 0; good && i < count; i++)
        good = set_output(&parts, i, &outputs[i],
                          i < call->request.infer.output_count && call->request.infer.outputs[i].region.name != NULL
                              ? &call->request.infer.outputs[i].region
                              : NULL,
                          raw);
    if (good) {
        parts.reply.model_name = call->request.job.model->name;
        parts.reply.model_version = call->request.job.model->version;
        parts.reply.id = call->unpacked->id;
        if (call->request.job.run.variant != NULL)
            set_variant(&parts, &call->request.job.run);
        parts.reply.n_outputs = count;
        parts.reply.outputs = parts.tensor_list;
        parts.reply.n_raw_output_contents = raw ? count : 0;
        parts.reply.raw_output_contents = parts.raws;
        wrapped.infer_response = &parts.reply;
        call_pack(call, call->head.method->streams ? &wrapped.base : &parts.reply.base);
    }
    parts_deinit(&parts, count);
    return good && !call->reply.failed ? INLAY_OK : no_memory(diag, "for the reply");
}

static void fail(struct request *request, const inlay_diag *diag, bool is_busy)
{
    struct call *call = call_of(request);

    call_fail_diag(call, diag);
    if (is_busy)
        call->message.status = GRPC_RESOURCE_EXHAUSTED;
    if (call->head.method->streams) /* which has no place for it */
        request->retry_after = 0;
}

static inlay_status read_inputs(struct request *request, inlay_diag *diag)
{
    struct call *call = call_of(request);

    return grpc_read_request(call->unpacked, call->request_bytes, &request->infer, diag);
}

void grpc_infer(struct call *call, const uint8_t *message, size_t bytes)
{
    static const request_codec codec = { read_inputs, put_results, fail };
    const char *name;
    uint64_t version;

    call->unpacked = call_unpack(call, &inference__infer_request__descriptor, message, bytes);
    if (call->unpacked == NULL)
        return;
    call->request_bytes = bytes;
    call->release = release;
    name = call->unpacked->model_name;
    if (!grpc_version(call->unpacked->model_version, &version)) {
        call_fail(call, GRPC_NOT_FOUND, "no such model or version is loaded");
        return;
    }
    request_infer(&call->request, &codec, name, strlen(name), version);
}
