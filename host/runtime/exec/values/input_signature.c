#include "exec/values/input_signature.h"
#include "infer/infer.h"
#include <stdlib.h>
#include <string.h>

/* Maximum number of elements of a non-integer tensor (a scale, a range) whose data may decide a shape. */
enum { MAX_OTHER_ELEMENTS = 8 };

bool signature_may_decide_shape(const run_value *value)
{
    const bool integer = value->dtype == INLAY_INT64 || value->dtype == INLAY_INT32;

    return value->dtype != INLAY_STRING &&
           run_value_count(value) <= (integer ? INFER_MAX_ELEMENTS : MAX_OTHER_ELEMENTS);
}

bool signature_has_data(const run_value *value)
{
    return value->buffer.domain == INLAY_DOMAIN_HOST && signature_may_decide_shape(value);
}

size_t signature_bytes(const run_value *in, uint32_t count)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < count; i++)
        bytes += 8 + in[i].rank * 8 + (signature_has_data(&in[i]) ? (size_t)in[i].buffer.bytes : 0);
    return bytes;
}

size_t signature_write(char *to, const run_value *in, uint32_t count)
{
    char *cursor = to;

    for (uint32_t i = 0; i < count; i++) {
        memcpy(cursor, &in[i].dtype, 4);
        memcpy(cursor + 4, &in[i].rank, 4);
        cursor += 8;
        if (in[i].rank > 0)
            memcpy(cursor, in[i].dims, in[i].rank * 8);
        cursor += in[i].rank * 8;
        if (signature_has_data(&in[i]) && in[i].buffer.bytes > 0) {
            memcpy(cursor, inlay_buffer_host(&in[i].buffer), (size_t)in[i].buffer.bytes);
            cursor += in[i].buffer.bytes;
        }
    }
    return (size_t)(cursor - to);
}

bool signature_equals(const input_signature *signature, const char *data, size_t bytes)
{
    return signature->bytes == bytes && (bytes == 0 || memcmp(signature->data, data, bytes) == 0);
}

bool signature_store(input_signature *signature, const char *data, size_t bytes)
{
    if (bytes > signature->capacity) {
        void *bigger = realloc(signature->data, bytes);

        if (bigger == NULL)
            return false;
        signature->data = bigger;
        signature->capacity = bytes;
    }
    if (bytes > 0)
        memcpy(signature->data, data, bytes);
    signature->bytes = bytes;
    return true;
}

void signature_deinit(input_signature *signature)
{
    free(signature->data);
    *signature = (input_signature){ 0 };
}
