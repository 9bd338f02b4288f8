/* texts/draft/onnx_copy.h - writes parts of models' files into a model in memory, whose weights stay in those files. */
#ifndef TEXTS_ONNX_COPY_H
#define TEXTS_ONNX_COPY_H
#include "base/wire.h"
#include "inlay/inlay.h"
#include "texts/draft/onnx_file.h"

enum { VALUE_NAME = 1 };
/* The messages that contain tensors, also in bodies of If and Loop, in constants and in functions. */
enum onnx_message {
    ONNX_NOTHING,
    ONNX_MODEL,
    ONNX_GRAPH,
    ONNX_NODE,
    ONNX_ATTRIBUTE,
    ONNX_FUNCTION,
    ONNX_SPARSE,
    ONNX_TENSOR
};

wire_span onnx_span(const char *text); /* borrows the text */
bool onnx_is_one_of(wire_span node, const char *const *ops, size_t count);
#define ONNX_IS_ONE_OF(node, ops) onnx_is_one_of(node, ops, sizeof(ops) / sizeof *(ops))
/* What messages call a node: its name, or that of its output; with ONNX_SHOWN for "%.*s". */
wire_span onnx_label(wire_span node);
#define ONNX_SHOWN(text) (int)((text).count < 80 ? (text).count : 80), (const char *)(text).at
/* The version of a domain that a model imports; 0: none. */
uint64_t onnx_opset(wire_span model, const char *domain);
/* Whether a node of `from` computes the same with the operator versions of `to`. *out_imports becomes true if `to` does
 * not import com.microsoft. */
INLAY_NODISCARD inlay_status onnx_check_version(const onnx_file *from, const onnx_file *to, wire_span node,
                                                bool *out_imports, inlay_diag *diag);

/* Imports com.microsoft, as the model does. */
void onnx_copy_import(struct wire *out, wire_span model);
/* A text field: the prefix, unless it is NULL or the name is empty, and the name. */
void onnx_write_name(struct wire *out, uint32_t number, const char *prefix, wire_span name);
/* A tensor. Its elements stay in the file, whose `folder` is that of onnx_find_folders(), or in the one it names. */
void onnx_copy_tensor(struct wire *out, uint32_t number, const onnx_file *file, wire_span tensor, const char *prefix);
/* A field of a message, with all tensors in it as onnx_copy_tensor() writes them. */
void onnx_copy_field(struct wire *out, const onnx_file *file, enum onnx_message in, const wire_field *field,
                     uint32_t depth);
/* An attribute of a node: an integer. */
void onnx_write_int(struct wire *out, const char *name, int64_t value);
/* Of an input or output. */
bool onnx_has_three_axes(wire_span value);
/* The element type of an input or output of floats [a, b, width]; *out_width: 0 if it is not fixed. 0: another form. */
uint64_t onnx_float_rows(wire_span value, wire_span *out_shape, uint64_t *out_width);
/* An input or output [a, b], or [a, b, any], with the first sizes of the shape. */
void onnx_write_rows(struct wire *out, uint32_t kind, const char *name, uint64_t dtype, wire_span shape, bool is_wide);
/* Sets `folder` of both files, and the option external_dir to the folder that both are below. */
INLAY_NODISCARD inlay_status onnx_find_folders(onnx_file *first, onnx_file *second, inlay_options *options,
                                               inlay_diag *diag);
#endif
