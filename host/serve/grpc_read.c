/* What a ModelInfer message says, as a request; no sockets, no models. */
#include "serve/grpc_read.h"
#include "base/utf8.h"
#include "serve/datatype.h"
#include <stdlib.h>
#include <string.h>

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

static inlay_status set_contents(infer_request *request, infer_tensor *t, const Inference__Contents *c,
                                 size_t message_bytes, inlay_diag *diag)
{
    if (t->count > message_bytes) /* an element takes a byte and more */
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' has fewer elements than its shape", t->name);
    t->bytes = t->count * datatype_bytes(t->dtype);
    t->data = aligned_alloc(64, (t->bytes + 64) / 64 * 64);
    if (t->data == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "input '%s': no memory for %llu bytes", t->name,
                          (unsigned long long)t->bytes);
    t->owned = true;
    request->copied_bytes += t->bytes;
    if (!take_contents(c, t))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "input '%s': its contents are not %llu values of %s in the field of that type", t->name,
                          (unsigned long long)t->count, datatype_name(t->dtype));
    return INLAY_OK;
}

static inlay_status read_input(const Inference__InferRequest *InferRequest, infer_request *request, uint32_t i,
                               size_t message_bytes, inlay_diag *diag)
{
    const Inference__Tensor *from = InferRequest->inputs[i];
    infer_tensor *t = &request->inputs[i];

    t->name = from->name;
    t->dtype = datatype_find(from->datatype, strlen(from->datatype));
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(request->inputs[k].name, t->name) == 0)
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
    if (InferRequest->n_raw_input_contents > 0)
        return infer_set_raw(request, t, (char *)InferRequest->raw_input_contents[i].data,
                             InferRequest->raw_input_contents[i].len, diag);
    if (from->contents == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' has no contents", t->name);
    return set_contents(request, t, from->contents, message_bytes, diag);
}

static uint64_t parameter_number(const Inference__Parameter *Parameter)
{
    if (Parameter->value == NULL)
        return 0;
    if (Parameter->value->choice_case == INFERENCE__PARAMETER_VALUE__CHOICE_UINT64_VALUE)
        return Parameter->value->uint64_value;
    if (Parameter->value->choice_case == INFERENCE__PARAMETER_VALUE__CHOICE_INT64_VALUE &&
        Parameter->value->int64_value > 0)
        return (uint64_t)Parameter->value->int64_value;
    return 0;
}

static bool parameter_bool(const Inference__Parameter *Parameter)
{
    return Parameter->value != NULL && Parameter->value->choice_case == INFERENCE__PARAMETER_VALUE__CHOICE_BOOL_VALUE &&
           Parameter->value->bool_value;
}

static bool set_sequence(infer_request *request, const Inference__Parameter *Parameter)
{
    char number[24];

    if (Parameter->value != NULL && Parameter->value->choice_case == INFERENCE__PARAMETER_VALUE__CHOICE_STRING_VALUE)
        return infer_set_sequence(request, Parameter->value->string_value, strlen(Parameter->value->string_value));
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)parameter_number(Parameter));
    return infer_set_sequence(request, number, strlen(number));
}

static inlay_status read_parameters(const Inference__InferRequest *InferRequest, infer_request *request,
                                    inlay_diag *diag)
{
    for (size_t i = 0; i < InferRequest->n_parameters; i++) {
        const Inference__Parameter *Parameter = InferRequest->parameters[i];

        if (strcmp(Parameter->key, "timeout") == 0)
            request->timeout_us = parameter_number(Parameter);
        else if (strcmp(Parameter->key, "priority") == 0)
            request->priority = parameter_number(Parameter);
        else if (strcmp(Parameter->key, "sequence_start") == 0)
            request->sequence_start = parameter_bool(Parameter);
        else if (strcmp(Parameter->key, "sequence_end") == 0)
            request->sequence_end = parameter_bool(Parameter);
        else if (strcmp(Parameter->key, "sequence_id") == 0 && !set_sequence(request, Parameter))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "sequence_id is a number, or a text of at most %d bytes",
                              SEQUENCE_ID_BYTES - 1);
    }
    return INLAY_OK;
}

static inlay_status read_tensors(const Inference__InferRequest *InferRequest, infer_request *request,
                                 size_t message_bytes, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    if (InferRequest->n_inputs == 0 || InferRequest->n_inputs > INFER_MAX_TENSORS ||
        InferRequest->n_outputs > INFER_MAX_TENSORS)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "a request has 1 to %d inputs, and no more outputs",
                          INFER_MAX_TENSORS);
    if (InferRequest->n_raw_input_contents > 0 && InferRequest->n_raw_input_contents != InferRequest->n_inputs)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%zu raw_input_contents for %zu inputs",
                          InferRequest->n_raw_input_contents, InferRequest->n_inputs);
    request->inputs = calloc(InferRequest->n_inputs, sizeof *request->inputs);
    request->outputs = calloc(InferRequest->n_outputs + 1, sizeof *request->outputs);
    if (request->inputs == NULL || request->outputs == NULL)
        return no_memory(diag, "for the tensors");
    request->input_count = (uint32_t)InferRequest->n_inputs;
    for (uint32_t i = 0; status == INLAY_OK && i < request->input_count; i++)
        status = read_input(InferRequest, request, i, message_bytes, diag);
    for (; request->output_count < InferRequest->n_outputs; request->output_count++)
        request->outputs[request->output_count] =
            (infer_wanted){ .name = InferRequest->outputs[request->output_count]->name, .binary = -1 };
    return status;
}

inlay_status grpc_read_request(const Inference__InferRequest *InferRequest, size_t message_bytes,
                               infer_request *request, inlay_diag *diag)
{
    inlay_status status;

    request->id = "";
    if (!utf8_is_valid(InferRequest->id, strlen(InferRequest->id)))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the request's id is not UTF-8");
    status = read_parameters(InferRequest, request, diag);
    return status == INLAY_OK ? read_tensors(InferRequest, request, message_bytes, diag) : status;
}
