/* model/wire.h - writes protobuf's wire format, with large payloads left where they are.
 *
 * Messages are written front to back into one buffer; a length that is not known yet gets room and is closed up when
 * the message ends. A payload that is spliced in is only noted, so writing a model needs no second copy of its weights.
 * The first failed allocation sticks: check `failed` once, at the end. */
#ifndef MODEL_WIRE_H
#define MODEL_WIRE_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wire_splice {
    size_t at; /* position in the buffer where it belongs */
    const void *data;
    size_t bytes;
} wire_splice;

struct wire {
    uint8_t *bytes;
    size_t count;
    wire_splice *splices; /* ascending */
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
/* Fields of scalar type. Negative numbers take ten bytes, as protobuf has it for int32 and int64. */
void wire_int(struct wire *wire, uint32_t field, int64_t value);
void wire_float(struct wire *wire, uint32_t field, float value);
void wire_bytes(struct wire *wire, uint32_t field, const void *data, size_t bytes);
void wire_text(struct wire *wire, uint32_t field, const char *text);    /* also when it is empty */
void wire_text_if(struct wire *wire, uint32_t field, const char *text); /* only if it is neither NULL nor "" */
/* Packed lists. */
void wire_ints(struct wire *wire, uint32_t field, const int64_t *values, size_t count);
void wire_floats(struct wire *wire, uint32_t field, const float *values, size_t count);
/* A bytes field whose data stays where it is until wire_write(). */
void wire_splice_bytes(struct wire *wire, uint32_t field, const void *data, size_t bytes);
/* Complete fields in wire form. */
void wire_raw(struct wire *wire, const void *fields, size_t bytes);
/* A varint; returns its bytes. */
size_t wire_encode(uint8_t to[10], uint64_t value);
/* A message: what is written between begin and end. */
wire_mark wire_begin(struct wire *wire, uint32_t field);
void wire_end(struct wire *wire, wire_mark mark);

/* Bytes of it all, spliced payloads included. */
uint64_t wire_size(const struct wire *wire);
/* Writes it all to fd; false: errno says why. */
bool wire_write(const struct wire *wire, int fd);
#endif
