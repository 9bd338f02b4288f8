/* kit/wire.h - reads protobuf's wire format (Protocol Buffers, "Encoding"), one field after another, without copies.
 *
 * A message is a sequence of fields. A key, which is a varint, has the number of the field and the type of its payload.
 * Bytes are borrowed from the message. All functions may be called by any thread and allocate nothing. Not installed:
 * the host, its own plugins and the bindings share it. */
#ifndef KIT_WIRE_H
#define KIT_WIRE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Types of payloads. Packed lists, texts and messages have WIRE_BYTES. The types 3 and 4 (groups) are refused. */
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

typedef struct wire_span {
    const uint8_t *at; /* [count] */
    size_t count;
} wire_span;

typedef struct wire_field {
    uint32_t number, type; /* number: 1 to 2^29 - 1 */
    uint64_t value;  /* of WIRE_VARINT; the bits of WIRE_64 and WIRE_32, little-endian; the length of WIRE_BYTES */
    wire_span data;  /* the payload, without its length; empty for WIRE_VARINT */
    wire_span whole; /* with the key and the length, for copies */
} wire_field;

/* Why a field cannot be read. */
typedef enum wire_fault {
    WIRE_OK,
    WIRE_BAD_KEY,    /* truncated, or without a valid number */
    WIRE_BAD_TYPE,   /* out->number and out->type are set, also for the faults below */
    WIRE_CUT_NUMBER, /* a varint that is truncated or longer than ten bytes */
    WIRE_CUT_LENGTH, /* of WIRE_BYTES, in the same way */
    WIRE_CUT_DATA    /* out->value bytes, but the message contains only out->data */
} wire_fault;

/* Reads the field at the start of *rest and moves *rest after it. With a fault *rest stays as it was. */
wire_fault wire_read(wire_span *rest, wire_field *out);
/* As wire_read(), for loops. False at the end of the message, and before a field with a fault: rest->count is then not
 * 0. */
static inline bool wire_next(wire_span *rest, wire_field *out)
{
    return rest->count > 0 && wire_read(rest, out) == WIRE_OK;
}
/* Reads a varint at *at (before end) and moves *at after it. False if it is truncated or longer than ten bytes; *at
 * then stays. Bits above the 64th are dropped, as by protobuf. */
bool wire_varint(const uint8_t **at, const uint8_t *end, uint64_t *out);

static inline bool wire_is(wire_span bytes, const char *text)
{
    return bytes.count == strlen(text) && (bytes.count == 0 || memcmp(bytes.at, text, bytes.count) == 0);
}
#endif
