/* wire.h - ONNX's wire format (protobuf): writes models that programs build, and reads the fields of messages that are
 * copied with changes. Field numbers are those of onnx.proto. */
#ifndef ORT_WIRE_H
#define ORT_WIRE_H
#include "ort.h"

/* Field numbers that more than one file uses. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    MODEL_METADATA = 14,
    OPSET_DOMAIN = 1,
    OPSET_VERSION = 2,
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_DOC = 10,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OPERATOR = 4,
    NODE_ATTRIBUTE = 5,
    NODE_DOMAIN = 7,
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_STRINGS = 6,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
    TENSOR_EXTERNAL = 13,
    TENSOR_LOCATION = 14
};

typedef struct ort_writer {
    unsigned char *data; /* malloc */
    size_t count, capacity;
    bool failed; /* out of memory; checked once, at the end */
} ort_writer;

void ort_put(ort_writer *writer, const void *data, size_t bytes);
void ort_put_number(ort_writer *writer, uint32_t field, int64_t value);
void ort_put_blob(ort_writer *writer, uint32_t field, const void *data, size_t bytes);
void ort_put_text(ort_writer *writer, uint32_t field, const char *text);
/* Appends `part` as an embedded message, then frees and clears `part`. */
void ort_put_message(ort_writer *writer, uint32_t field, ort_writer *part);
/* An attribute of a node. */
void ort_put_attr(ort_writer *node, const OrtOpAttr *attribute);
/* A TensorProto with the elements of a tensor in host memory. */
void ort_put_tensor(ort_writer *writer, uint32_t field, const char *name, const OrtValue *value);
/* A TypeProto. */
void ort_put_type(ort_writer *writer, uint32_t field, const OrtTypeInfo *type);

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
