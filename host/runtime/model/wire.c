#include "model/wire.h"
#include "base/memory.h"
#include "base/output.h"
#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, LENGTH = 2, FIXED32 = 5, LENGTH_ROOM = 10, SPLICE_FROM = 256 };

void wire_deinit(struct wire *w)
{
    free(w->bytes);
    free(w->splices);
    *w = (struct wire){ 0 };
}

static bool reserve(struct wire *w, size_t more)
{
    w->failed = w->failed || !list_reserve(&w->bytes, w->count, more, 1);
    return !w->failed;
}

void wire_raw(struct wire *w, const void *fields, size_t bytes)
{
    if (bytes > 0 && reserve(w, bytes)) {
        memcpy(w->bytes + w->count, fields, bytes);
        w->count += bytes;
    }
}

size_t wire_encode(uint8_t to[10], uint64_t value)
{
    size_t n = 0;

    for (; value > 0x7f; value >>= 7)
        to[n++] = (uint8_t)(value | 0x80);
    to[n++] = (uint8_t)value;
    return n;
}

static void put_varint(struct wire *w, uint64_t value)
{
    uint8_t bytes[10];

    wire_raw(w, bytes, wire_encode(bytes, value));
}

static void put_tag(struct wire *w, uint32_t field, unsigned type)
{
    put_varint(w, (uint64_t)field << 3 | type);
}

void wire_int(struct wire *w, uint32_t field, int64_t value)
{
    put_tag(w, field, VARINT);
    put_varint(w, (uint64_t)value);
}

void wire_float(struct wire *w, uint32_t field, float value)
{
    put_tag(w, field, FIXED32);
    wire_raw(w, &value, sizeof value);
}

void wire_bytes(struct wire *w, uint32_t field, const void *data, size_t bytes)
{
    put_tag(w, field, LENGTH);
    put_varint(w, bytes);
    wire_raw(w, data, bytes);
}

void wire_text(struct wire *w, uint32_t field, const char *text)
{
    wire_bytes(w, field, text, strlen(text));
}

void wire_text_if(struct wire *w, uint32_t field, const char *text)
{
    if (text != NULL && text[0] != '\0')
        wire_text(w, field, text);
}

void wire_ints(struct wire *w, uint32_t field, const int64_t *values, size_t count)
{
    wire_mark mark;

    if (count == 0)
        return;
    mark = wire_begin(w, field);
    for (size_t i = 0; i < count; i++)
        put_varint(w, (uint64_t)values[i]);
    wire_end(w, mark);
}

void wire_floats(struct wire *w, uint32_t field, const float *values, size_t count)
{
    if (count > 0)
        wire_bytes(w, field, values, count * sizeof *values);
}

void wire_splice_bytes(struct wire *w, uint32_t field, const void *data, size_t bytes)
{
    if (bytes < SPLICE_FROM) {
        wire_bytes(w, field, data, bytes);
        return;
    }
    put_tag(w, field, LENGTH);
    put_varint(w, bytes);
    if (!LIST_GROW(w->splices, w->splice_count)) {
        w->failed = true;
        return;
    }
    w->splices[w->splice_count++] = (wire_splice){ .at = w->count, .data = data, .bytes = bytes };
    w->spliced_bytes += bytes;
}

wire_mark wire_begin(struct wire *w, uint32_t field)
{
    wire_mark mark;

    put_tag(w, field, LENGTH);
    mark = (wire_mark){ .at = w->count, .splice = w->splice_count, .spliced_bytes = w->spliced_bytes };
    if (reserve(w, LENGTH_ROOM))
        w->count += LENGTH_ROOM;
    return mark;
}

void wire_end(struct wire *w, wire_mark mark)
{
    uint8_t length[10], *from;
    size_t bytes, n;

    if (w->failed)
        return;
    from = w->bytes + mark.at + LENGTH_ROOM;
    bytes = w->count - mark.at - LENGTH_ROOM;
    n = wire_encode(length, bytes + (w->spliced_bytes - mark.spliced_bytes));
    memcpy(w->bytes + mark.at, length, n);
    memmove(w->bytes + mark.at + n, from, bytes);
    w->count -= LENGTH_ROOM - n;
    for (size_t i = mark.splice; i < w->splice_count; i++)
        w->splices[i].at -= LENGTH_ROOM - n;
}

uint64_t wire_size(const struct wire *w)
{
    return w->count + w->spliced_bytes;
}

bool wire_write(const struct wire *w, int fd)
{
    size_t at = 0;

    for (size_t i = 0; i < w->splice_count; i++) {
        const wire_splice *s = &w->splices[i];

        if (!output_write(fd, w->bytes + at, s->at - at) || !output_write(fd, s->data, s->bytes))
            return false;
        at = s->at;
    }
    return output_write(fd, w->bytes + at, w->count - at);
}
