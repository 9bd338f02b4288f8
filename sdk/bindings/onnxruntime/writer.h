/* writer.h - writes protobuf's wire format, in which ONNX files are stored. Field numbers are those of onnx.proto. */
#ifndef ORT_WRITER_H
#define ORT_WRITER_H
#include "kit/wire.h"

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
void ort_put_varint(ort_writer *writer, uint64_t value);
void ort_put_number(ort_writer *writer, uint32_t field, int64_t value);
void ort_put_float(ort_writer *writer, uint32_t field, float value);
void ort_put_blob(ort_writer *writer, uint32_t field, const void *data, size_t bytes);
void ort_put_text(ort_writer *writer, uint32_t field, const char *text);
/* Appends `part` as an embedded message, then frees and clears `part`. */
void ort_put_message(ort_writer *writer, uint32_t field, ort_writer *part);
#endif
