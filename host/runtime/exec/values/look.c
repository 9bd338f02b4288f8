#include "exec/values/look.h"
#include "infer/infer.h"
#include <stdlib.h>
#include <string.h>

/* maximum number of elements in non-integer tensors (scales, ranges) whose data may decide a shape */
enum { SMALL_OTHERS = 8 };

bool look_is_small(const rt_value *value)
{
    const bool integer = value->dtype == INLAY_INT64 || value->dtype == INLAY_INT32;

    return value->dtype != INLAY_STRING && rt_count(value) <= (integer ? INFER_MAX_ELEMENTS : SMALL_OTHERS);
}

bool look_at_data(const rt_value *value)
{
    return value->buffer.domain == INLAY_DOMAIN_HOST && look_is_small(value);
}

size_t look_room(const rt_value *in, uint32_t count)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < count; i++)
        bytes += 8 + in[i].rank * 8 + (look_at_data(&in[i]) ? (size_t)in[i].buffer.bytes : 0);
    return bytes;
}

size_t look_write(char *to, const rt_value *in, uint32_t count)
{
    char *cursor = to;

    for (uint32_t i = 0; i < count; i++) {
        memcpy(cursor, &in[i].dtype, 4);
        memcpy(cursor + 4, &in[i].rank, 4);
        cursor += 8;
        if (in[i].rank > 0)
            memcpy(cursor, in[i].dims, in[i].rank * 8);
        cursor += in[i].rank * 8;
        if (look_at_data(&in[i]) && in[i].buffer.bytes > 0) {
            memcpy(cursor, inlay_buffer_host(&in[i].buffer), (size_t)in[i].buffer.bytes);
            cursor += in[i].buffer.bytes;
        }
    }
    return (size_t)(cursor - to);
}

bool look_equals(const struct look *look, const char *data, size_t bytes)
{
    return look->bytes == bytes && (bytes == 0 || memcmp(look->data, data, bytes) == 0);
}

bool look_keep(struct look *look, const char *data, size_t bytes)
{
    if (bytes > look->capacity) {
        void *bigger = realloc(look->data, bytes);

        if (bigger == NULL)
            return false;
        look->data = bigger;
        look->capacity = bytes;
    }
    if (bytes > 0)
        memcpy(look->data, data, bytes);
    look->bytes = bytes;
    return true;
}

void look_deinit(struct look *look)
{
    free(look->data);
    *look = (struct look){ 0 };
}
