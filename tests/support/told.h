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
    struct told *t = user;

    if (t->bytes + bytes + 1 > t->capacity) {
        t->capacity = (t->bytes + bytes + 1) * 2;
        t->data = realloc(t->data, t->capacity);
        if (t->data == NULL)
            abort();
    }
    memcpy(t->data + t->bytes, piece, bytes);
    t->bytes += bytes;
    t->data[t->bytes] = '\0';
}

/* Frees the text; t is empty then and may be told again. */
static inline void told_free(struct told *t)
{
    free(t->data);
    *t = (struct told){ 0 };
}
#endif
