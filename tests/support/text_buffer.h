/* text_buffer.h - a growing text buffer for functions with an inlay_write_fn. For one thread. */
#ifndef TEXT_BUFFER_H
#define TEXT_BUFFER_H
#include <stdlib.h>
#include <string.h>

struct text_buffer {
    char *data; /* owned, see text_buffer_free(); zero-terminated; NULL if empty */
    size_t bytes, capacity;
};

/* Appends a piece; an inlay_write_fn whose user pointer is the struct. */
static inline void text_buffer_append(void *user, const char *piece, size_t bytes)
{
    struct text_buffer *buffer = user;

    if (buffer->bytes + bytes + 1 > buffer->capacity) {
        buffer->capacity = (buffer->bytes + bytes + 1) * 2;
        buffer->data = realloc(buffer->data, buffer->capacity);
        if (buffer->data == NULL)
            abort();
    }
    memcpy(buffer->data + buffer->bytes, piece, bytes);
    buffer->bytes += bytes;
    buffer->data[buffer->bytes] = '\0';
}

/* Frees the text; the buffer is then empty and may be reused. */
static inline void text_buffer_free(struct text_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct text_buffer){ 0 };
}
#endif
