/* Functions shared by the protocols. */
#include "inlay/check.h"
#include "base/element.h"
#include "serve/request/infer.h"
#include "codecs/datatype.h"
#include <stdlib.h>
#include <string.h>

bool infer_repeats_output(const infer_request *request)
{
    const infer_wanted *last = &request->outputs[request->output_count - 1];

    for (const infer_wanted *at = request->outputs; at < last; at++)
        if (strcmp(at->name, last->name) == 0)
            return true;
    return false;
}

void infer_request_deinit(infer_request *request)
{
    for (uint32_t i = 0; i < request->input_count; i++) {
        if (request->inputs[i].owned)
            free(request->inputs[i].data);
        free(request->inputs[i].buffer);
    }
    free(request->inputs);
    free(request->outputs);
    *request = (infer_request){ .id = "" };
}

bool infer_set_sequence(infer_request *request, const char *id, size_t bytes)
{
    if (bytes >= SEQUENCE_ID_BYTES || memchr(id, '\0', bytes) != NULL)
        return false;
    memcpy(request->sequence, id, bytes);
    request->sequence[bytes] = '\0';
    if (strcmp(request->sequence, "0") == 0)
        request->sequence[0] = '\0';
    return true;
}

bool infer_count(uint32_t rank, const int64_t *dims, uint64_t *out_count)
{
    uint64_t count = 1;
    bool empty = false;

    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 0)
            return false;
        empty |= dims[i] == 0;
        if (dims[i] > 0 && (uint64_t)dims[i] > (UINT64_C(1) << 58) / count)
            return false;
        count *= dims[i] > 0 ? (uint64_t)dims[i] : 1;
    }
    *out_count = empty ? 0 : count;
    return true;
}

static inlay_status allocate(infer_request *request, infer_tensor *tensor, uint64_t bytes, inlay_diag *diag)
{
    tensor->data = aligned_alloc(64, (bytes + 64) / 64 * 64); /* at least one byte */
    if (tensor->data == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "input '%s': out of memory for %llu bytes", tensor->name,
                          (unsigned long long)bytes);
    tensor->owned = true;
    tensor->bytes = bytes;
    request->copied_bytes += bytes;
    return INLAY_OK;
}

static inlay_status check_bools(const infer_tensor *tensor, inlay_diag *diag)
{
    const uint8_t *data = tensor->data;
    uint8_t combined = 0;

    for (uint64_t i = 0; i < tensor->count; i++)
        combined |= data[i];
    return combined <= 1
               ? INLAY_OK
               : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s': a BOOL is a byte of 0 or 1", tensor->name);
}

inlay_status infer_set_raw(infer_request *request, infer_tensor *tensor, char *data, uint64_t bytes, inlay_diag *diag)
{
    uint32_t size = datatype_bytes(tensor->dtype);
    INLAY_CHECK(size > 0); /* the datatype is known */
    inlay_status status;

    if (tensor->dtype == INLAY_STRING) {
        if (tensor->count > bytes / 4)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s': %llu bytes are too few for %llu elements",
                              tensor->name, (unsigned long long)bytes, (unsigned long long)tensor->count);
        status = allocate(request, tensor, tensor->count * sizeof(inlay_str), diag);
        return status != INLAY_OK ? status
                                  : datatype_split_bytes(data, bytes, tensor->count, tensor->data, tensor->name, diag);
    }
    if (bytes != tensor->count * size)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' has %llu bytes of data, but its shape needs %llu",
                          tensor->name, (unsigned long long)bytes, (unsigned long long)(tensor->count * size));
    if ((uintptr_t)data % size == 0) {
        tensor->data = data;
        tensor->bytes = bytes;
    } else {
        status = allocate(request, tensor, bytes, diag);
        if (status != INLAY_OK)
            return status;
        memcpy(tensor->data, data, bytes);
    }
    return tensor->dtype == INLAY_BOOL ? check_bools(tensor, diag) : INLAY_OK;
}

/* Sets the tensor's shape: that of the input, in which the size of an open axis follows from the bytes of the body. */
static inlay_status shape_body(infer_tensor *tensor, const inlay_io_info *input, bool has_rows, uint64_t bytes,
                               inlay_diag *diag)
{
    const bool is_text = input->dtype == INLAY_STRING;
    uint32_t open = UINT32_MAX;
    uint64_t size;

    if (input->kind != INLAY_KIND_TENSOR || input->rank > INLAY_MAX_RANK)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the number of axes of input '%s' is not known; send JSON with its shape", input->name);
    for (uint32_t i = 0; i < input->rank; i++) {
        tensor->dims[i] = input->dims[i] < 0 ? 1 : input->dims[i];
        if (input->dims[i] >= 0)
            continue;
        if (is_text ? i > 0 || !has_rows : open != UINT32_MAX && (open > 0 || !has_rows))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "the shape of input '%s' does not follow from the size of the body, because axis %u has "
                              "any size%s; send JSON with its shape",
                              input->name, i, is_text ? "" : ", too");
        open = i;
    }
    if (!infer_count(input->rank, tensor->dims, &tensor->count))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s': the shape is too large", input->name);
    size = tensor->count * datatype_bytes(input->dtype);
    if (is_text || open == UINT32_MAX || size == 0)
        return INLAY_OK;
    tensor->dims[open] = (int64_t)(bytes / size);
    tensor->count *= bytes / size;
    return INLAY_OK;
}

inlay_status infer_set_body(infer_request *request, const inlay_io_info *input, bool has_rows, char *body, size_t bytes,
                            inlay_diag *diag)
{
    infer_tensor *tensor = calloc(1, sizeof *tensor);
    inlay_status status;

    request->id = "";
    request->inputs = tensor;
    if (tensor == NULL)
        return no_memory(diag, "for the inputs");
    request->input_count = 1;
    *tensor = (infer_tensor){ .name = input->name, .dtype = input->dtype, .rank = input->rank };
    status = shape_body(tensor, input, has_rows, bytes, diag);
    if (status != INLAY_OK)
        return status;
    if (input->dtype != INLAY_STRING)
        return infer_set_raw(request, tensor, body, bytes, diag);
    if (tensor->count != 1)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' has %llu elements, but the body is one",
                          input->name, (unsigned long long)tensor->count);
    status = allocate(request, tensor, sizeof(inlay_str), diag);
    if (status == INLAY_OK)
        *(inlay_str *)tensor->data = (inlay_str){ body, bytes };
    return status;
}

inlay_status infer_convert(infer_request *request, infer_tensor *tensor, inlay_dtype dtype, inlay_diag *diag)
{
    infer_tensor made = *tensor;
    char text[96];
    int64_t done;
    inlay_status status;

    if (!element_converts(tensor->dtype, dtype) || tensor->data == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' is %s, but the model expects %s", tensor->name,
                          datatype_name(tensor->dtype), datatype_name(dtype));
    status = allocate(request, &made, tensor->count * datatype_bytes(dtype), diag);
    if (status != INLAY_OK)
        return status;
    done = element_convert(tensor->dtype, tensor->data, dtype, made.data, (int64_t)tensor->count);
    if (done < (int64_t)tensor->count) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "input '%s' is %s, but the model expects %s, in which element %lld, %s, is %s: send %s",
                            tensor->name, datatype_name(tensor->dtype), datatype_name(dtype), (long long)done,
                            element_text(tensor->dtype, tensor->data, done, text, sizeof text),
                            element_is_float(dtype) ? "too large" : "not exact", datatype_name(dtype));
        free(made.data);
        return status;
    }
    if (tensor->owned)
        free(tensor->data);
    made.dtype = dtype;
    *tensor = made;
    return INLAY_OK;
}

/* Bytes of elements with their texts. */
static uint64_t data_bytes(inlay_dtype dtype, uint64_t count, const void *data)
{
    uint64_t bytes = count * (dtype == INLAY_STRING ? sizeof(inlay_str) : datatype_bytes(dtype));

    for (uint64_t i = 0; dtype == INLAY_STRING && i < count; i++)
        bytes += ((const inlay_str *)data)[i].bytes;
    return bytes;
}

/* Copies elements, followed by their texts, to memory of data_bytes(). */
static void copy_data(inlay_dtype dtype, uint64_t count, const void *data, void *to)
{
    inlay_str *texts = to;
    char *at = (char *)to + count * sizeof *texts;

    if (dtype != INLAY_STRING) {
        if (count > 0)
            memcpy(to, data, count * datatype_bytes(dtype));
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        const inlay_str *text = &((const inlay_str *)data)[i];

        if (text->bytes > 0)
            memcpy(at, text->data, text->bytes);
        texts[i] = (inlay_str){ .data = at, .bytes = text->bytes };
        at += text->bytes;
    }
}

static void *allocate_data(uint64_t bytes)
{
    return aligned_alloc(64, (bytes + 64) / 64 * 64); /* at least one byte */
}

uint64_t infer_request_bytes(const infer_request *request)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < request->input_count; i++)
        bytes += data_bytes(request->inputs[i].dtype, request->inputs[i].count, request->inputs[i].data);
    return bytes;
}

inlay_status infer_request_copy(const infer_request *request, infer_request *out, inlay_diag *diag)
{
    size_t names = 0;
    char *at;

    *out = (infer_request){ .id = "", .priority = request->priority };
    for (uint32_t i = 0; i < request->output_count; i++)
        names += strlen(request->outputs[i].name) + 1;
    out->inputs = calloc(request->input_count + 1u, sizeof *out->inputs);
    out->outputs = calloc(1, (request->output_count + 1u) * sizeof *out->outputs + names);
    if (out->inputs == NULL || out->outputs == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory for a copy of a request");
    at = (char *)(out->outputs + request->output_count + 1);
    for (uint32_t i = 0; i < request->output_count; i++) {
        size_t bytes = strlen(request->outputs[i].name) + 1;

        memcpy(at, request->outputs[i].name, bytes);
        out->outputs[out->output_count++] = (infer_wanted){ .name = at, .binary = -1 };
        at += bytes;
    }
    for (uint32_t i = 0; i < request->input_count; i++) {
        const infer_tensor *from = &request->inputs[i];
        infer_tensor *to = &out->inputs[out->input_count++];

        *to = *from;
        to->region = (infer_region){ .name = NULL };
        to->data = allocate_data(data_bytes(from->dtype, from->count, from->data));
        to->owned = true;
        to->buffer = strdup(from->name);
        to->name = to->buffer;
        if (to->data == NULL || to->buffer == NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory for a copy of a request");
        copy_data(from->dtype, from->count, from->data, to->data);
    }
    return INLAY_OK;
}

uint64_t infer_output_bytes(const infer_output *output)
{
    return data_bytes(output->dtype, output->count, output->data);
}

inlay_status infer_output_copy(const infer_output *output, infer_output *out, void **out_memory, inlay_diag *diag)
{
    *out = *output;
    *out_memory = allocate_data(infer_output_bytes(output));
    if (*out_memory == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory for a copy of an output");
    copy_data(output->dtype, output->count, output->data, *out_memory);
    out->data = *out_memory;
    return INLAY_OK;
}
