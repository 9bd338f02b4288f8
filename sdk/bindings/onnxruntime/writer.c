#include "writer.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

void ort_put(ort_writer *writer, const void *data, size_t bytes)
{
    INLAY_CHECK(writer->count <= writer->capacity);
    if (bytes > writer->capacity - writer->count) {
        size_t capacity = (writer->count + bytes) * 2 + 256;
        unsigned char *more = writer->failed ? NULL : realloc(writer->data, capacity);

        if (more == NULL) {
            writer->failed = true;
            return;
        }
        writer->data = more;
        writer->capacity = capacity;
    }
    if (bytes > 0)
        memcpy(writer->data + writer->count, data, bytes);
    writer->count += bytes;
}

void ort_put_varint(ort_writer *writer, uint64_t value)
{
    do {
        unsigned char byte = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));

        ort_put(writer, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

void ort_put_number(ort_writer *writer, uint32_t field, int64_t value)
{
    ort_put_varint(writer, field << 3 | WIRE_VARINT);
    ort_put_varint(writer, (uint64_t)value);
}

void ort_put_float(ort_writer *writer, uint32_t field, float value)
{
    ort_put_varint(writer, field << 3 | WIRE_32);
    ort_put(writer, &value, sizeof value);
}

void ort_put_blob(ort_writer *writer, uint32_t field, const void *data, size_t bytes)
{
    ort_put_varint(writer, field << 3 | WIRE_BYTES);
    ort_put_varint(writer, bytes);
    ort_put(writer, data, bytes);
}

void ort_put_text(ort_writer *writer, uint32_t field, const char *text)
{
    ort_put_blob(writer, field, text, strlen(text));
}

void ort_put_message(ort_writer *writer, uint32_t field, ort_writer *part)
{
    ort_put_blob(writer, field, part->data, part->count);
    writer->failed |= part->failed;
    free(part->data);
    *part = (ort_writer){ 0 };
}
