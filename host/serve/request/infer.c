/* Functions shared by the protocols. */
#include "inlay/check.h"
#include "serve/request/infer.h"
#include "serve/request/datatype.h"
#include <stdlib.h>
#include <string.h>

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

inlay_status infer_set_file(infer_request *request, const char *name, char *body, size_t bytes, inlay_diag *diag)
{
    inlay_status status;

    request->id = "";
    request->inputs = calloc(1, sizeof *request->inputs);
    if (request->inputs == NULL)
        return no_memory(diag, "for the inputs");
    request->input_count = 1;
    *request->inputs = (infer_tensor){ .name = name, .dtype = INLAY_STRING, .rank = 1, .dims = { 1 }, .count = 1 };
    status = allocate(request, request->inputs, sizeof(inlay_str), diag);
    if (status == INLAY_OK)
        *(inlay_str *)request->inputs->data = (inlay_str){ body, bytes };
    return status;
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
