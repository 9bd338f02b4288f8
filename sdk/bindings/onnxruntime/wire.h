/* wire.h - ONNX's wire format (protobuf): writes models that programs build, and reads the fields of messages that are
 * copied with changes. Field numbers are those of onnx.proto. */
#ifndef ORT_WIRE_H
#define ORT_WIRE_H
#include "ort.h"
#include "writer.h"

/* An attribute of a node. */
void ort_put_attr(ort_writer *node, const OrtOpAttr *attribute);
/* A TensorProto with the elements of a tensor in host memory. */
void ort_put_tensor(ort_writer *writer, uint32_t field, const char *name, const OrtValue *value);
/* A TypeProto. */
void ort_put_type(ort_writer *writer, uint32_t field, const OrtTypeInfo *type);

/* Writes a model again, with its initializers where `locate` says; *out_data is from malloc. In locations.c. */
OrtStatus *ort_locations_apply(OrtGetInitializerLocationFunc locate, void *state, const void *data, size_t bytes,
                               void **out_data, size_t *out_bytes);

/* A field of a message: the value of a number, or the payload of an embedded message or string. */
typedef struct ort_field {
    uint32_t number, wire_type;
    uint64_t value;
    const unsigned char *data; /* [bytes] */
    size_t bytes;
    const unsigned char *whole; /* [whole_bytes] the field with its key, for copying it */
    size_t whole_bytes;
} ort_field;
/* Reads the field at *at and advances *at. false: the end was reached, or *bad was set because the message is
 * malformed. */
bool ort_next_field(const unsigned char **at, const unsigned char *end, ort_field *out, bool *bad);
/* Finds the last field of that number in a message; false: none. */
bool ort_find_field(const ort_field *message, uint32_t number, ort_field *out);
static inline bool ort_field_is(const ort_field *field, const char *text)
{
    return field->bytes == __builtin_strlen(text) && __builtin_memcmp(field->data, text, field->bytes) == 0;
}
#endif
