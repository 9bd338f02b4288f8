/* formats/onnx_write.h - writes the parts of an ONNX model in wire format. */
#ifndef FORMATS_ONNX_WRITE_H
#define FORMATS_ONNX_WRITE_H
#include "base/wire.h"
#include "inlay/types.h"

typedef struct onnx_attribute {
    const char *name; /* of an attribute that is a text: name=text */
    bool is_float;
    int64_t i;
    float f;
} onnx_attribute;

/* Between these two, nodes, tensors and values of the main graph are written; afterwards properties of the model.
 * has_own: nodes of ai.inlay, too. */
wire_mark onnx_begin(struct wire *out, const char *producer, bool has_own);
void onnx_end(struct wire *out, wire_mark graph);

/* op: "Add", or with its domain "com.microsoft.MatMulNBits". inputs, outputs: names separated by spaces; "-" is a
 * missing one. */
void onnx_node(struct wire *out, const char *op, const char *inputs, const char *outputs,
               const onnx_attribute *attributes, size_t attribute_count);
/* onnx_node() names the node like its first output; name NULL: this one, too. */
void onnx_named_node(struct wire *out, const char *name, const char *op, const char *inputs, const char *outputs,
                     const onnx_attribute *attributes, size_t attribute_count);
/* Nodes, each "OP INPUT... > OUTPUT...;" or "OP INPUT... > OUTPUT... ATTRIBUTE=VALUE;", where a value that is no whole
 * number is a text; and constants: "[1,2] > NAME;" is a list of whole numbers, "(1) > NAME;" one of them, and
 * "1.5 > NAME;" a float. In all of this, "$" stands for the name. */
void onnx_program(struct wire *out, const char *program, const char *name);
/* An initializer with its data; data NULL: the caller adds the data with onnx_external() or wire_bytes(), field
 * ONNX_RAW_DATA, and ends the message. */
enum { ONNX_RAW_DATA = 9 };
wire_mark onnx_tensor_begin(struct wire *out, const char *name, inlay_dtype dtype, const int64_t *dims, uint32_t rank);
void onnx_tensor(struct wire *out, const char *name, inlay_dtype dtype, const int64_t *dims, uint32_t rank,
                 const void *data, size_t bytes);
void onnx_external(struct wire *out, const char *location, uint64_t offset, uint64_t bytes);
/* A graph input or output. dims: names or numbers separated by spaces. */
enum { ONNX_INPUT = 11, ONNX_OUTPUT = 12 };
void onnx_value(struct wire *out, uint32_t field, const char *name, inlay_dtype dtype, const char *dims);
void onnx_property(struct wire *out, const char *key, const void *value, size_t bytes);
#endif
