/* base/known.h - structs that begin with their struct_size, between two builds of which one may know less of them. */
#ifndef BASE_KNOWN_H
#define BASE_KNOWN_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Copies a struct of another size into one of ours: what it lacks is zero, what it has beyond is left out. */
static inline void known_take(void *to, size_t to_bytes, const void *from, uint64_t from_bytes)
{
    memset(to, 0, to_bytes);
    memcpy(to, from, from_bytes < to_bytes ? (size_t)from_bytes : to_bytes);
}

/* Hands ours [bytes] to a caller: as much of it as out->struct_size says the caller knows, and that stays as it is.
 * False: struct_size is not set; nothing is written. */
static inline bool known_give(void *out, const void *ours, size_t bytes)
{
    uint64_t size;

    memcpy(&size, out, sizeof size);
    if (size < sizeof size)
        return false;
    memcpy((char *)out + sizeof size, (const char *)ours + sizeof size,
           (size < bytes ? (size_t)size : bytes) - sizeof size);
    return true;
}
#endif
