/* Converts a ModelInfer message to a request, without sockets or models. */
#include "inlay/check.h"
#include "serve/grpc/grpc_read.h"
#include "base/utf8.h"
#include "codecs/datatype.h"
#include <stdlib.h>
#include <string.h>

/* A list of the typed contents, whose elements may be wider than those of the tensor. */
typedef struct typed_list {
    const void *elements;
    size_t count;
} typed_list;

/* The list that holds elements of the type; false: there is none, as for FP16 and BF16. */
static bool find_list(const Inference__Contents *contents, inlay_dtype dtype, typed_list *out)
{
    switch (dtype) {
    case INLAY_BOOL:
        *out = (typed_list){ contents->bool_contents, contents->n_bool_contents };
        return true;
    case INLAY_INT8:
    case INLAY_INT16:
    case INLAY_INT32:
        *out = (typed_list){ contents->int_contents, contents->n_int_contents };
        return true;
    case INLAY_INT64:
        *out = (typed_list){ contents->int64_contents, contents->n_int64_contents };
        return true;
    case INLAY_UINT8:
    case INLAY_UINT16:
    case INLAY_UINT32:
        *out = (typed_list){ contents->uint_contents, contents->n_uint_contents };
        return true;
    case INLAY_UINT64:
        *out = (typed_list){ contents->uint64_contents, contents->n_uint64_contents };
        return true;
    case INLAY_FLOAT:
        *out = (typed_list){ contents->fp32_contents, contents->n_fp32_contents };
        return true;
    case INLAY_DOUBLE:
        *out = (typed_list){ contents->fp64_contents, contents->n_fp64_contents };
        return true;
    case INLAY_STRING:
        *out = (typed_list){ contents->bytes_contents, contents->n_bytes_contents };
        return true;
    default:
        return false;
    }
}

/* Stores element i of a list in a tensor with smaller elements; false: it is out of range. */
static bool store_narrow(const infer_tensor *tensor, const typed_list *list, uint64_t i)
{
    switch (tensor->dtype) {
    case INLAY_BOOL:
        ((uint8_t *)tensor->data)[i] = ((const protobuf_c_boolean *)list->elements)[i] != 0;
        return true;
    case INLAY_INT8:
    case INLAY_INT16:
        return datatype_store_signed(((const int32_t *)list->elements)[i], tensor->dtype, tensor->data, i);
    default:
        return datatype_store_unsigned(((const uint32_t *)list->elements)[i], tensor->dtype, tensor->data, i);
    }
}

/* Copies the elements of the typed contents into the tensor; false: wrong count, or a value is out of range. */
static bool take_contents(const Inference__Contents *contents, infer_tensor *tensor)
{
    typed_list list;
    bool fits = true;

    if (!find_list(contents, tensor->dtype, &list) || list.count != tensor->count)
        return false;
    if (tensor->dtype == INLAY_STRING)
        for (uint64_t i = 0; i < tensor->count; i++)
            ((inlay_str *)tensor->data)[i] =
                (inlay_str){ (const char *)contents->bytes_contents[i].data, contents->bytes_contents[i].len };
    else if (datatype_bytes(tensor->dtype) < sizeof(int32_t))
        for (uint64_t i = 0; fits && i < tensor->count; i++)
            fits = store_narrow(tensor, &list, i);
    else if (tensor->count > 0)
        memcpy(tensor->data, list.elements, tensor->bytes);
    return fits;
}

static inlay_status set_contents(infer_request *request, infer_tensor *tensor, const Inference__Contents *contents,
                                 size_t message_bytes, inlay_diag *diag)
{
    if (tensor->count > message_bytes) /* an element takes at least a byte */
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' has fewer elements than its shape", tensor->name);
    tensor->bytes = tensor->count * datatype_bytes(tensor->dtype);
    tensor->data = aligned_alloc(64, (tensor->bytes + 64) / 64 * 64);
    if (tensor->data == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "input '%s': out of memory for %llu bytes", tensor->name,
                          (unsigned long long)tensor->bytes);
    tensor->owned = true;
    request->copied_bytes += tensor->bytes;
    if (!take_contents(contents, tensor))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "input '%s': its contents are not %llu values of %s in the field of that type", tensor->name,
                          (unsigned long long)tensor->count, datatype_name(tensor->dtype));
    return INLAY_OK;
}

static uint64_t parameter_number(const Inference__Parameter *parameter)
{
    if (parameter->value == NULL)
        return 0;
    if (parameter->value->choice_case == INFERENCE__PARAMETER_VALUE__CHOICE_UINT64_VALUE)
        return parameter->value->uint64_value;
    if (parameter->value->choice_case == INFERENCE__PARAMETER_VALUE__CHOICE_INT64_VALUE &&
        parameter->value->int64_value > 0)
        return (uint64_t)parameter->value->int64_value;
    return 0;
}

/* Reads the parameters of shared memory. */
static void read_region(Inference__Parameter *const *parameters, size_t count, infer_region *region)
{
    for (size_t i = 0; i < count; i++) {
        const Inference__Parameter *parameter = parameters[i];

        if (strcmp(parameter->key, "shared_memory_offset") == 0)
            region->offset = parameter_number(parameter);
        else if (strcmp(parameter->key, "shared_memory_byte_size") == 0)
            region->bytes = parameter_number(parameter);
        else if (strcmp(parameter->key, "shared_memory_region") == 0 && parameter->value != NULL &&
                 parameter->value->choice_case == INFERENCE__PARAMETER_VALUE__CHOICE_STRING_VALUE)
            region->name = parameter->value->string_value;
    }
}

/* raw_used: number of raw_input_contents that earlier inputs have. */
static inlay_status read_input(const Inference__InferRequest *message, infer_request *request, uint32_t i,
                               size_t *raw_used, size_t message_bytes, inlay_diag *diag)
{
    const Inference__Tensor *from = message->inputs[i];
    infer_tensor *tensor = &request->inputs[i];

    INLAY_CHECK(i < request->input_count);
    tensor->name = from->name;
    tensor->dtype = datatype_find(from->datatype, strlen(from->datatype));
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(request->inputs[k].name, tensor->name) == 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' is given twice", tensor->name);
    if (tensor->dtype == INLAY_UNDEFINED)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s': unknown datatype '%.40s'", tensor->name,
                          from->datatype);
    if (from->n_shape > INLAY_MAX_RANK)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' has more than %d dimensions", tensor->name,
                          INLAY_MAX_RANK);
    tensor->rank = (uint32_t)from->n_shape;
    if (tensor->rank > 0)
        memcpy(tensor->dims, from->shape, tensor->rank * sizeof tensor->dims[0]);
    if (!infer_count(tensor->rank, tensor->dims, &tensor->count))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s': invalid shape", tensor->name);
    read_region(from->parameters, from->n_parameters, &tensor->region);
    if (tensor->region.name != NULL)
        return INLAY_OK;
    if (message->n_raw_input_contents > 0) {
        const ProtobufCBinaryData *raw = &message->raw_input_contents[*raw_used];

        if (*raw_used == message->n_raw_input_contents)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' has no raw_input_contents", tensor->name);
        if (from->contents != NULL && protobuf_c_message_get_packed_size(&from->contents->base) > 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "input '%s' has contents, and the request has raw_input_contents; send one of them",
                              tensor->name);
        ++*raw_used;
        return infer_set_raw(request, tensor, (char *)raw->data, raw->len, diag);
    }
    if (from->contents == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' has no contents", tensor->name);
    return set_contents(request, tensor, from->contents, message_bytes, diag);
}

static bool parameter_bool(const Inference__Parameter *parameter)
{
    return parameter->value != NULL && parameter->value->choice_case == INFERENCE__PARAMETER_VALUE__CHOICE_BOOL_VALUE &&
           parameter->value->bool_value;
}

static bool set_sequence(infer_request *request, const Inference__Parameter *parameter)
{
    char number[24];

    if (parameter->value != NULL && parameter->value->choice_case == INFERENCE__PARAMETER_VALUE__CHOICE_STRING_VALUE)
        return infer_set_sequence(request, parameter->value->string_value, strlen(parameter->value->string_value));
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)parameter_number(parameter));
    return infer_set_sequence(request, number, strlen(number));
}

static inlay_status read_parameters(const Inference__InferRequest *message, infer_request *request, inlay_diag *diag)
{
    for (size_t i = 0; i < message->n_parameters; i++) {
        const Inference__Parameter *parameter = message->parameters[i];

        if (strcmp(parameter->key, "timeout") == 0)
            request->timeout_us = parameter_number(parameter);
        else if (strcmp(parameter->key, "priority") == 0)
            request->priority = parameter_number(parameter);
        else if (strcmp(parameter->key, "sequence_start") == 0)
            request->sequence_start = parameter_bool(parameter);
        else if (strcmp(parameter->key, "sequence_end") == 0)
            request->sequence_end = parameter_bool(parameter);
        else if (strcmp(parameter->key, "sequence_id") == 0 && !set_sequence(request, parameter))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "sequence_id must be a number, or a text of at most %d bytes", SEQUENCE_ID_BYTES - 1);
    }
    return INLAY_OK;
}

static inlay_status read_tensors(const Inference__InferRequest *message, infer_request *request, size_t message_bytes,
                                 inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    size_t raw_used = 0;

    if (message->n_inputs == 0 || message->n_inputs > INFER_MAX_TENSORS || message->n_outputs > INFER_MAX_TENSORS)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "a request must have 1 to %d inputs and at most as many outputs", INFER_MAX_TENSORS);
    request->inputs = calloc(message->n_inputs, sizeof *request->inputs);
    request->outputs = calloc(message->n_outputs + 1, sizeof *request->outputs);
    if (request->inputs == NULL || request->outputs == NULL)
        return no_memory(diag, "for the tensors");
    request->input_count = (uint32_t)message->n_inputs;
    for (uint32_t i = 0; status == INLAY_OK && i < request->input_count; i++)
        status = read_input(message, request, i, &raw_used, message_bytes, diag);
    if (status == INLAY_OK && raw_used != message->n_raw_input_contents)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%zu raw_input_contents for %zu inputs",
                            message->n_raw_input_contents, message->n_inputs);
    while (status == INLAY_OK && request->output_count < message->n_outputs) {
        const Inference__WantedTensor *from = message->outputs[request->output_count];
        infer_wanted *wanted = &request->outputs[request->output_count++];

        *wanted = (infer_wanted){ .name = from->name, .binary = -1 };
        read_region(from->parameters, from->n_parameters, &wanted->region);
        if (infer_repeats_output(request))
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "output '%s' is requested twice", wanted->name);
    }
    return status;
}

inlay_status grpc_read_request(const Inference__InferRequest *message, size_t message_bytes, infer_request *request,
                               inlay_diag *diag)
{
    inlay_status status;

    request->id = "";
    if (!utf8_is_valid(message->id, strlen(message->id)))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the request's id is not UTF-8");
    status = read_parameters(message, request, diag);
    return status == INLAY_OK ? read_tensors(message, request, message_bytes, diag) : status;
}
