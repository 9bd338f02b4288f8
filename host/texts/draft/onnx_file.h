/* texts/draft/onnx_file.h - reads the file of a model without a session: its nodes and the names and sizes of its
 * weights. Spans are of the mapped file. */
#ifndef TEXTS_ONNX_FILE_H
#define TEXTS_ONNX_FILE_H
#include "base/mapped_file.h"
#include "kit/wire.h"
#include <limits.h>

/* Fields of the messages of onnx.proto. */
enum { MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_FUNCTION = 25 };
enum { GRAPH_NODE = 1, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, GRAPH_SPARSE = 15 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5, NODE_DOMAIN = 7 };
enum { TENSOR_DIM = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9, TENSOR_EXTERNAL = 13, TENSOR_LOCATION = 14 };

typedef struct onnx_file {
    const char *path, *name; /* borrowed; name: the file's, without its folder */
    wire_span bytes, graph;
    mapped_file *watch;    /* mapped_file_check() tells whether what was read is valid */
    char folder[PATH_MAX]; /* the caller's */
} onnx_file;

/* Maps the file. false: it cannot be read, or is no model. The caller closes it in both cases. */
bool onnx_file_open(const char *path, onnx_file *out);
void onnx_file_close(onnx_file *file);

/* Field `number` of a message, the one at position `index` of several. false: it has none. */
bool onnx_field(wire_span message, uint32_t number, uint32_t index, wire_field *out);
/* The same of a field of bytes; empty: it has none. */
wire_span onnx_text(wire_span message, uint32_t number, uint32_t index);
bool onnx_same(wire_span a, wire_span b);
/* The message `kind` of a graph that has this name, as its field name_field. */
bool onnx_named(wire_span graph, uint32_t kind, uint32_t name_field, wire_span name, wire_span *out);
bool onnx_is_domain(wire_span domain, const char *name);
/* Whether the node has this operator, as "com.microsoft.MatMulNBits" or, of ai.onnx, "MatMul". */
bool onnx_is_op(wire_span node, const char *op);

/* The number of positions that a model of texts has, by its file: of tables of cosines or of embeddings of positions
 * that its nodes read at position_ids or by the lengths of texts. 0: none is known. */
uint64_t onnx_file_positions(const char *path);
#endif
