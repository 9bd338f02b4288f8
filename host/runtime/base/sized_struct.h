/* base/sized_struct.h - copies structs that begin with struct_size between builds with different versions of them. */
#ifndef BASE_SIZED_STRUCT_H
#define BASE_SIZED_STRUCT_H
#include "inlay/check.h"
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Copies a caller's struct into this build's version: missing members become zero, unknown members are dropped. */
static inline void sized_struct_read(void *to, size_t to_bytes, const void *from, uint64_t from_bytes)
{
    memset(to, 0, to_bytes);
    memcpy(to, from, from_bytes < to_bytes ? (size_t)from_bytes : to_bytes);
}

/* Copies `ours` [bytes] to the caller's struct `out`, up to out->struct_size, which stays unchanged. False if
 * struct_size is not set; nothing is written then. */
static inline bool sized_struct_write(void *out, const void *ours, size_t bytes)
{
    uint64_t size;

    INLAY_CHECK(bytes >= sizeof size);
    memcpy(&size, out, sizeof size);
    if (size < sizeof size)
        return false;
    memcpy((char *)out + sizeof size, (const char *)ours + sizeof size,
           (size < bytes ? (size_t)size : bytes) - sizeof size);
    return true;
}
#endif
