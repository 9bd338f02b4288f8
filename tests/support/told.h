/* told.h - a text that grows: what a function with an inlay_write_fn told. For one thread. */
#ifndef TOLD_H
#define TOLD_H
#include <stdlib.h>
#include <string.h>

struct told {
    char *data; /* owned, see told_free(); ends with a zero; NULL while nothing was told */
    size_t bytes, capacity;
};

/* An inlay_write_fn; user is the told. */
static inline void told_keep(void *user, const char *piece, size_t bytes)
{
    struct told *told = user;

    if (told->bytes + bytes + 1 > told->capacity) {
        told->capacity = (told->bytes + bytes + 1) * 2;
        told->data = realloc(told->data, told->capacity);
        if (told->data == NULL)
            abort();
    }
    memcpy(told->data + told->bytes, piece, bytes);
    told->bytes += bytes;
    told->data[told->bytes] = '\0';
}

/* Frees the text; told is empty then and may be told again. */
static inline void told_free(struct told *told)
{
    free(told->data);
    *told = (struct told){ 0 };
}
#endif
