#include "base/wire.h"
#include "base/memory.h"
#include "base/output.h"
#include "inlay/check.h"
#include "kit/wire.h"
#include <stdlib.h>
#include <string.h>

enum { LENGTH_ROOM = 10, SPLICE_FROM = 256 };

void wire_deinit(struct wire *wire)
{
    free(wire->bytes);
    free(wire->splices);
    *wire = (struct wire){ 0 };
}

static bool reserve(struct wire *wire, size_t more)
{
    wire->failed = wire->failed || !list_reserve(&wire->bytes, wire->count, more, 1);
    return !wire->failed;
}

void wire_raw(struct wire *wire, const void *fields, size_t bytes)
{
    if (bytes > 0 && reserve(wire, bytes)) {
        memcpy(wire->bytes + wire->count, fields, bytes);
        wire->count += bytes;
    }
}

size_t wire_encode(uint8_t to[10], uint64_t value)
{
    size_t length = 0;

    for (; value > 0x7f; value >>= 7)
        to[length++] = (uint8_t)(value | 0x80);
    to[length++] = (uint8_t)value;
    return length;
}

static void put_varint(struct wire *wire, uint64_t value)
{
    uint8_t bytes[10];

    wire_raw(wire, bytes, wire_encode(bytes, value));
}

static void put_tag(struct wire *wire, uint32_t field, unsigned type)
{
    put_varint(wire, (uint64_t)field << 3 | type);
}

void wire_int(struct wire *wire, uint32_t field, int64_t value)
{
    put_tag(wire, field, WIRE_VARINT);
    put_varint(wire, (uint64_t)value);
}

void wire_float(struct wire *wire, uint32_t field, float value)
{
    put_tag(wire, field, WIRE_32);
    wire_raw(wire, &value, sizeof value);
}

void wire_bytes(struct wire *wire, uint32_t field, const void *data, size_t bytes)
{
    put_tag(wire, field, WIRE_BYTES);
    put_varint(wire, bytes);
    wire_raw(wire, data, bytes);
}

void wire_text(struct wire *wire, uint32_t field, const char *text)
{
    wire_bytes(wire, field, text, strlen(text));
}

void wire_text_if(struct wire *wire, uint32_t field, const char *text)
{
    if (text != NULL && text[0] != '\0')
        wire_text(wire, field, text);
}

void wire_ints(struct wire *wire, uint32_t field, const int64_t *values, size_t count)
{
    wire_mark mark;

    if (count == 0)
        return;
    mark = wire_begin(wire, field);
    for (size_t i = 0; i < count; i++)
        put_varint(wire, (uint64_t)values[i]);
    wire_end(wire, mark);
}

void wire_floats(struct wire *wire, uint32_t field, const float *values, size_t count)
{
    if (count > 0)
        wire_bytes(wire, field, values, count * sizeof *values);
}

void wire_splice_bytes(struct wire *wire, uint32_t field, const void *data, size_t bytes)
{
    if (bytes < SPLICE_FROM) {
        wire_bytes(wire, field, data, bytes);
        return;
    }
    put_tag(wire, field, WIRE_BYTES);
    put_varint(wire, bytes);
    if (!LIST_GROW(wire->splices, wire->splice_count)) {
        wire->failed = true;
        return;
    }
    wire->splices[wire->splice_count++] = (wire_splice){ .at = wire->count, .data = data, .bytes = bytes };
    wire->spliced_bytes += bytes;
}

wire_mark wire_begin(struct wire *wire, uint32_t field)
{
    wire_mark mark;

    put_tag(wire, field, WIRE_BYTES);
    mark = (wire_mark){ .at = wire->count, .splice = wire->splice_count, .spliced_bytes = wire->spliced_bytes };
    if (reserve(wire, LENGTH_ROOM))
        wire->count += LENGTH_ROOM;
    return mark;
}

void wire_end(struct wire *wire, wire_mark mark)
{
    uint8_t length[10], *from;
    size_t bytes, length_bytes;

    if (wire->failed)
        return;
    INLAY_CHECK(mark.at + LENGTH_ROOM <= wire->count && mark.splice <= wire->splice_count);
    from = wire->bytes + mark.at + LENGTH_ROOM;
    bytes = wire->count - mark.at - LENGTH_ROOM;
    length_bytes = wire_encode(length, bytes + (wire->spliced_bytes - mark.spliced_bytes));
    memcpy(wire->bytes + mark.at, length, length_bytes);
    memmove(wire->bytes + mark.at + length_bytes, from, bytes);
    wire->count -= LENGTH_ROOM - length_bytes;
    for (size_t i = mark.splice; i < wire->splice_count; i++)
        wire->splices[i].at -= LENGTH_ROOM - length_bytes;
}

uint64_t wire_size(const struct wire *wire)
{
    return wire->count + wire->spliced_bytes;
}

bool wire_write(const struct wire *wire, int fd)
{
    size_t at = 0;

    for (size_t i = 0; i < wire->splice_count; i++) {
        const wire_splice *splice = &wire->splices[i];

        INLAY_CHECK(splice->at >= at && splice->at <= wire->count);
        if (!output_write(fd, wire->bytes + at, splice->at - at) || !output_write(fd, splice->data, splice->bytes))
            return false;
        at = splice->at;
    }
    return output_write(fd, wire->bytes + at, wire->count - at);
}
