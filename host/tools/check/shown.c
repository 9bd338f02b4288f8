#include "check/shown.h"
#include "inlay/check.h"
#include <string.h>

enum { ALIGN = 64, LATER = 0x5a };

size_t shown_bytes(size_t element_bytes, uint32_t count, size_t later)
{
    return ((element_bytes + later) * count + ALIGN - 1) / ALIGN * ALIGN;
}

bool shown_open(size_t bytes, struct shown *out)
{
    *out = (struct shown){ .used = 0 };
    return guarded_alloc(bytes, ALIGN, 0, "past the end of the arguments", &out->memory);
}

void *shown_put(struct shown *shown, const void *data, size_t element_bytes, uint32_t count, size_t later)
{
    const size_t stride = element_bytes + later;
    char *to = shown->memory.data + shown->used;

    shown->used += shown_bytes(element_bytes, count, later);
    INLAY_CHECK(shown->used <= shown->memory.bytes);
    for (uint32_t i = 0; i < count; i++) {
        if (data != NULL)
            memcpy(to + stride * i, (const char *)data + element_bytes * i, element_bytes);
        memset(to + stride * i + element_bytes, LATER, later);
    }
    return to;
}

bool shown_is_damaged(const void *array, size_t element_bytes, uint32_t count, size_t later)
{
    const unsigned char *at = array;

    for (uint32_t i = 0; i < count; i++, at += element_bytes + later)
        for (size_t k = element_bytes; k < element_bytes + later; k++)
            if (at[k] != LATER)
                return true;
    return false;
}

void shown_hide(struct shown *shown, const char *description)
{
    guarded_hide(&shown->memory, description);
}

void shown_close(struct shown *shown)
{
    guarded_free(&shown->memory);
}
