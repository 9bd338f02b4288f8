/* archive.h - writes .npy arrays and .npz archives of floats in memory, like numpy. */
#ifndef TESTS_QUANTIZE_ARCHIVE_H
#define TESTS_QUANTIZE_ARCHIVE_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

struct buffer {
    unsigned char *data;
    size_t bytes;
};

static inline void buffer_add(struct buffer *buffer, const void *data, size_t bytes)
{
    buffer->data = realloc(buffer->data, buffer->bytes + bytes + 1);
    if (buffer->data == NULL)
        abort();
    memcpy(buffer->data + buffer->bytes, data, bytes);
    buffer->bytes += bytes;
}

static inline void buffer_number(struct buffer *buffer, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++, value >>= 8)
        buffer_add(buffer, &(unsigned char){ (unsigned char)value }, 1);
}

/* Returns a .npy file. shape is the text in its header, such as "2, 3" or "2,". */
static inline struct buffer npy_of(const char *shape, const float *data, size_t count)
{
    struct buffer buffer = { 0 };
    char header[118];

    (void)snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", shape);
    memset(header + strlen(header), ' ', sizeof header - strlen(header));
    header[sizeof header - 1] = '\n';
    buffer_add(&buffer, "\x93NUMPY\x01\0\x76\0", 10);
    buffer_add(&buffer, header, sizeof header);
    buffer_add(&buffer, data, count * sizeof *data);
    return buffer;
}

static inline struct buffer deflated(const struct buffer *from)
{
    struct buffer buffer = { malloc(from->bytes + 1000), 0 };
    z_stream stream = { .next_in = from->data, .avail_in = (uInt)from->bytes };

    if (buffer.data == NULL || deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    stream.next_out = buffer.data;
    stream.avail_out = (uInt)from->bytes + 1000;
    if (deflate(&stream, Z_FINISH) != Z_STREAM_END)
        abort();
    buffer.bytes = stream.total_out;
    (void)deflateEnd(&stream);
    return buffer;
}

/* Writes the fields that the local header and the central directory share. */
static inline void zip_fields(struct buffer *buffer, const struct buffer *plain, const struct buffer *packed,
                              const char *name, bool deflate_it)
{
    buffer_number(buffer, 20, 2);
    buffer_number(buffer, 0, 2);
    buffer_number(buffer, deflate_it ? 8 : 0, 2);
    buffer_number(buffer, 0, 4);
    buffer_number(buffer, crc32(crc32(0, NULL, 0), plain->data, (uInt)plain->bytes), 4);
    buffer_number(buffer, packed->bytes, 4);
    buffer_number(buffer, plain->bytes, 4);
    buffer_number(buffer, strlen(name), 2);
    buffer_number(buffer, 0, 2);
}

/* Writes an archive with one entry. */
static inline struct buffer zip_of(const char *name, const struct buffer *plain, bool deflate_it)
{
    struct buffer packed = deflate_it ? deflated(plain) : (struct buffer){ 0 }, buffer = { 0 };
    const struct buffer *stored = deflate_it ? &packed : plain;
    size_t directory, end;

    buffer_number(&buffer, 0x04034b50, 4);
    zip_fields(&buffer, plain, stored, name, deflate_it);
    buffer_add(&buffer, name, strlen(name));
    buffer_add(&buffer, stored->data, stored->bytes);
    directory = buffer.bytes;
    buffer_number(&buffer, 0x02014b50, 4);
    buffer_number(&buffer, 20, 2);
    zip_fields(&buffer, plain, stored, name, deflate_it);
    buffer_number(&buffer, 0, 2 + 2 + 2 + 4 + 4);
    buffer_add(&buffer, name, strlen(name));
    end = buffer.bytes;
    buffer_number(&buffer, 0x06054b50, 4);
    buffer_number(&buffer, 0, 4);
    buffer_number(&buffer, 1, 2);
    buffer_number(&buffer, 1, 2);
    buffer_number(&buffer, end - directory, 4);
    buffer_number(&buffer, directory, 4);
    buffer_number(&buffer, 0, 2);
    free(packed.data);
    return buffer;
}
#endif
