/* base/wire.h - writes protobuf's wire format without copying large payloads.
 *
 * Messages are written front to back into one buffer. The length of a message is reserved at its beginning and filled
 * in at its end. A spliced payload is only recorded, so that writing a model needs no second copy of its weights. After
 * a failed allocation `failed` stays true; check it once at the end. */
#ifndef BASE_WIRE_H
#define BASE_WIRE_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wire_splice {
    size_t at; /* position in the buffer at which the payload is inserted */
    const void *data;
    size_t bytes;
} wire_splice;

struct wire {
    uint8_t *bytes;
    size_t count;
    wire_splice *splices; /* [splice_count] ascending positions */
    size_t splice_count;
    uint64_t spliced_bytes;
    bool failed; /* out of memory */
};

typedef struct wire_mark {
    size_t at;
    size_t splice;
    uint64_t spliced_bytes;
} wire_mark;

void wire_deinit(struct wire *wire);
/* Fields of scalar type. Negative numbers take ten bytes, as int32 and int64 of protobuf. */
void wire_int(struct wire *wire, uint32_t field, int64_t value);
void wire_float(struct wire *wire, uint32_t field, float value);
void wire_bytes(struct wire *wire, uint32_t field, const void *data, size_t bytes);
void wire_text(struct wire *wire, uint32_t field, const char *text);    /* also if it is empty */
void wire_text_if(struct wire *wire, uint32_t field, const char *text); /* only if it is neither NULL nor "" */
/* Packed lists. */
void wire_ints(struct wire *wire, uint32_t field, const int64_t *values, size_t count);
void wire_floats(struct wire *wire, uint32_t field, const float *values, size_t count);
/* A bytes field whose data is borrowed until wire_write(). */
void wire_splice_bytes(struct wire *wire, uint32_t field, const void *data, size_t bytes);
/* Complete fields in wire format. */
void wire_raw(struct wire *wire, const void *fields, size_t bytes);
/* Encodes a varint and returns its length. */
size_t wire_encode(uint8_t to[10], uint64_t value);
/* A message consists of the fields that are written between begin and end. */
wire_mark wire_begin(struct wire *wire, uint32_t field);
void wire_end(struct wire *wire, wire_mark mark);

/* Total size in bytes, spliced payloads included. */
uint64_t wire_size(const struct wire *wire);
/* Writes everything to fd. On failure returns false and sets errno. */
bool wire_write(const struct wire *wire, int fd);
#endif
