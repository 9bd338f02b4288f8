/* archive.h - .npy arrays and .npz archives of floats in memory, as numpy writes them. */
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

static inline void buffer_add(struct buffer *b, const void *data, size_t bytes)
{
    b->data = realloc(b->data, b->bytes + bytes + 1);
    if (b->data == NULL)
        abort();
    memcpy(b->data + b->bytes, data, bytes);
    b->bytes += bytes;
}

static inline void buffer_number(struct buffer *b, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++, value >>= 8)
        buffer_add(b, &(unsigned char){ (unsigned char)value }, 1);
}

/* shape is "2, 3" or "2,". */
static inline struct buffer npy_of(const char *shape, const float *data, size_t count)
{
    struct buffer b = { 0 };
    char header[118];

    (void)snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", shape);
    memset(header + strlen(header), ' ', sizeof header - strlen(header));
    header[sizeof header - 1] = '\n';
    buffer_add(&b, "\x93NUMPY\x01\0\x76\0", 10);
    buffer_add(&b, header, sizeof header);
    buffer_add(&b, data, count * sizeof *data);
    return b;
}

static inline struct buffer deflated(const struct buffer *from)
{
    struct buffer b = { malloc(from->bytes + 1000), 0 };
    z_stream z = { .next_in = from->data, .avail_in = (uInt)from->bytes };

    if (b.data == NULL || deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    z.next_out = b.data;
    z.avail_out = (uInt)from->bytes + 1000;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END)
        abort();
    b.bytes = z.total_out;
    (void)deflateEnd(&z);
    return b;
}

/* The fields that the local header and the directory share. */
static inline void zip_fields(struct buffer *b, const struct buffer *plain, const struct buffer *packed,
                              const char *name, bool deflate_it)
{
    buffer_number(b, 20, 2);
    buffer_number(b, 0, 2);
    buffer_number(b, deflate_it ? 8 : 0, 2);
    buffer_number(b, 0, 4);
    buffer_number(b, crc32(crc32(0, NULL, 0), plain->data, (uInt)plain->bytes), 4);
    buffer_number(b, packed->bytes, 4);
    buffer_number(b, plain->bytes, 4);
    buffer_number(b, strlen(name), 2);
    buffer_number(b, 0, 2);
}

/* An archive with one entry. */
static inline struct buffer zip_of(const char *name, const struct buffer *plain, bool deflate_it)
{
    struct buffer packed = deflate_it ? deflated(plain) : (struct buffer){ 0 }, b = { 0 };
    const struct buffer *stored = deflate_it ? &packed : plain;
    size_t directory, end;

    buffer_number(&b, 0x04034b50, 4);
    zip_fields(&b, plain, stored, name, deflate_it);
    buffer_add(&b, name, strlen(name));
    buffer_add(&b, stored->data, stored->bytes);
    directory = b.bytes;
    buffer_number(&b, 0x02014b50, 4);
    buffer_number(&b, 20, 2);
    zip_fields(&b, plain, stored, name, deflate_it);
    buffer_number(&b, 0, 2 + 2 + 2 + 4 + 4);
    buffer_add(&b, name, strlen(name));
    end = b.bytes;
    buffer_number(&b, 0x06054b50, 4);
    buffer_number(&b, 0, 4);
    buffer_number(&b, 1, 2);
    buffer_number(&b, 1, 2);
    buffer_number(&b, end - directory, 4);
    buffer_number(&b, directory, 4);
    buffer_number(&b, 0, 2);
    free(packed.data);
    return b;
}
#endif
