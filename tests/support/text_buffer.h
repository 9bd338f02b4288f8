/* text_buffer.h - a growing text buffer for functions with an inlay_write_fn. For one thread. */
#ifndef TOLD_H
#define TOLD_H
#include <stdlib.h>
#include <string.h>

struct text_buffer {
    char *data; /* owned, see text_buffer_free(); zero-terminated; NULL if empty */
    size_t bytes, capacity;
};

/* Appends a piece; an inlay_write_fn whose user pointer is the struct. */
static inline void text_buffer_append(void *user, const char *piece, size_t bytes)
{
    struct text_buffer *told = user;

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

/* Frees the text; the buffer is then empty and may be reused. */
static inline void text_buffer_free(struct text_buffer *told)
{
    free(told->data);
    *told = (struct text_buffer){ 0 };
}
#endif
