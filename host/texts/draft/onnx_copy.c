#include "texts/draft/onnx_copy.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Further fields of the messages of onnx.proto. */
enum { VALUE_TYPE = 2 };
enum { FUNCTION_NODE = 7, FUNCTION_ATTRIBUTE = 11 };
enum { ATTRIBUTE_TENSOR = 5, ATTRIBUTE_GRAPH = 6, ATTRIBUTE_TENSORS = 10, ATTRIBUTE_GRAPHS = 11 };
enum { ATTRIBUTE_SPARSE = 22, ATTRIBUTE_SPARSES = 23, SPARSE_VALUES = 1, SPARSE_INDICES = 2 };

enum {
    MOST_MESSAGES = 1000, /* nested ones; the session refuses models with more */
    LEAST_STORED = 256    /* smaller tensors are copied */
};

wire_span onnx_span(const char *text)
{
    return (wire_span){ (const uint8_t *)text, strlen(text) };
}

bool onnx_is_one_of(wire_span node, const char *const *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (onnx_is_op(node, ops[i]))
            return true;
    return false;
}
wire_span onnx_label(wire_span node)
{
    const wire_span name = onnx_text(node, NODE_NAME, 0);

    return name.count > 0 ? name : onnx_text(node, NODE_OUTPUT, 0);
}

uint64_t onnx_opset(wire_span model, const char *domain)
{
    wire_field item, version;

    while (wire_next(&model, &item))
        if (item.number == MODEL_OPSET && onnx_is_domain(onnx_text(item.data, 1, 0), domain))
            return onnx_field(item.data, 2, 0, &version) ? version.value : 0;
    return 0;
}

void onnx_copy_import(struct wire *out, wire_span model)
{
    const wire_mark mark = wire_begin(out, MODEL_OPSET);

    wire_text(out, 1, "com.microsoft");
    wire_int(out, 2, (int64_t)onnx_opset(model, "com.microsoft"));
    wire_end(out, mark);
}

inlay_status onnx_check_version(const onnx_file *from, const onnx_file *to, wire_span node, bool *out_imports,
                                inlay_diag *diag)
{
    static const char *const stable[] = { "Gather", "MatMul", "Gemm",     "Cast",      "Mul",     "Div",
                                          "Add",    "Tanh",   "Identity", "Transpose", "Constant" };
    enum { STABLE = 13 };
    const char *domain = onnx_is_domain(onnx_text(node, NODE_DOMAIN, 0), "") ? "" : "com.microsoft";
    const uint64_t theirs = onnx_opset(from->bytes, domain), ours = onnx_opset(to->bytes, domain);

    *out_imports |= ours == 0;
    if (ours == 0 || ours == theirs || (ours >= STABLE && theirs >= STABLE && ONNX_IS_ONE_OF(node, stable)))
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "it has version %llu of %s, and the model, whose node '%.*s' it needs, version %llu; export both "
                      "with the same opset",
                      (unsigned long long)ours, domain[0] == '\0' ? "ai.onnx" : domain, ONNX_SHOWN(onnx_label(node)),
                      (unsigned long long)theirs);
}

void onnx_write_name(struct wire *out, uint32_t number, const char *prefix, wire_span name)
{
    const wire_mark mark = wire_begin(out, number);

    if (prefix != NULL && name.count > 0)
        wire_raw(out, prefix, strlen(prefix));
    if (name.count > 0)
        wire_raw(out, name.at, name.count);
    wire_end(out, mark);
}

static void write_entry(struct wire *out, const char *key, const char *folder, wire_span value)
{
    const wire_mark mark = wire_begin(out, TENSOR_EXTERNAL);

    wire_text(out, 1, key);
    onnx_write_name(out, 2, folder, value);
    wire_end(out, mark);
}

static void write_number(struct wire *out, const char *key, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    write_entry(out, key, NULL, onnx_span(text));
}

void onnx_copy_tensor(struct wire *out, uint32_t number, const onnx_file *file, wire_span tensor, const char *prefix)
{
    const wire_mark mark = wire_begin(out, number);
    wire_field item;

    while (wire_next(&tensor, &item)) {
        if (item.number == TENSOR_NAME) {
            onnx_write_name(out, TENSOR_NAME, prefix, item.data);
        } else if (item.number == TENSOR_RAW && item.data.count >= LEAST_STORED) {
            write_entry(out, "location", file->folder, onnx_span(file->name));
            write_number(out, "offset", (uint64_t)(item.data.at - file->bytes.at));
            write_number(out, "length", item.data.count);
            wire_int(out, TENSOR_LOCATION, 1);
        } else if (item.number == TENSOR_EXTERNAL && wire_is(onnx_text(item.data, 1, 0), "location")) {
            write_entry(out, "location", file->folder, onnx_text(item.data, 2, 0));
        } else {
            wire_raw(out, item.whole.at, item.whole.count);
        }
    }
    wire_raw(out, tensor.at, tensor.count); /* damaged, which its session reports */
    wire_end(out, mark);
}

static enum onnx_message message_of(enum onnx_message in, uint32_t number)
{
    static const struct {
        uint8_t in, number, is;
    } fields[] = {
        { ONNX_MODEL, MODEL_FUNCTION, ONNX_FUNCTION },      { ONNX_GRAPH, GRAPH_NODE, ONNX_NODE },
        { ONNX_GRAPH, GRAPH_INITIALIZER, ONNX_TENSOR },     { ONNX_GRAPH, GRAPH_SPARSE, ONNX_SPARSE },
        { ONNX_FUNCTION, FUNCTION_NODE, ONNX_NODE },        { ONNX_FUNCTION, FUNCTION_ATTRIBUTE, ONNX_ATTRIBUTE },
        { ONNX_NODE, NODE_ATTRIBUTE, ONNX_ATTRIBUTE },      { ONNX_ATTRIBUTE, ATTRIBUTE_TENSOR, ONNX_TENSOR },
        { ONNX_ATTRIBUTE, ATTRIBUTE_GRAPH, ONNX_GRAPH },    { ONNX_ATTRIBUTE, ATTRIBUTE_TENSORS, ONNX_TENSOR },
        { ONNX_ATTRIBUTE, ATTRIBUTE_GRAPHS, ONNX_GRAPH },   { ONNX_ATTRIBUTE, ATTRIBUTE_SPARSE, ONNX_SPARSE },
        { ONNX_ATTRIBUTE, ATTRIBUTE_SPARSES, ONNX_SPARSE }, { ONNX_SPARSE, SPARSE_VALUES, ONNX_TENSOR },
        { ONNX_SPARSE, SPARSE_INDICES, ONNX_TENSOR }
    };

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].in == in && fields[i].number == number)
            return fields[i].is;
    return ONNX_NOTHING;
}

void onnx_copy_field(struct wire *out, const onnx_file *file, enum onnx_message in, const wire_field *field,
                     uint32_t depth)
{
    const enum onnx_message is = field->type == WIRE_BYTES ? message_of(in, field->number) : ONNX_NOTHING;
    wire_span rest = field->data;
    wire_field item;
    wire_mark mark;

    if (is == ONNX_TENSOR) {
        onnx_copy_tensor(out, field->number, file, rest, NULL);
    } else if (is == ONNX_NOTHING || depth == MOST_MESSAGES) {
        wire_raw(out, field->whole.at, field->whole.count);
    } else {
        mark = wire_begin(out, field->number);
        while (wire_next(&rest, &item))
            onnx_copy_field(out, file, is, &item, depth + 1);
        wire_raw(out, rest.at, rest.count);
        wire_end(out, mark);
    }
}

void onnx_write_int(struct wire *out, const char *name, int64_t value)
{
    enum { NAME = 1, NUMBER = 3, TYPE = 20, INT = 2 };
    const wire_mark mark = wire_begin(out, NODE_ATTRIBUTE);

    wire_text(out, NAME, name);
    wire_int(out, NUMBER, value);
    wire_int(out, TYPE, INT);
    wire_end(out, mark);
}

bool onnx_has_three_axes(wire_span value)
{
    const wire_span shape = onnx_text(onnx_text(onnx_text(value, VALUE_TYPE, 0), 1, 0), 2, 0);
    wire_field dim;

    return onnx_field(shape, 1, 2, &dim) && !onnx_field(shape, 1, 3, &dim);
}

uint64_t onnx_float_rows(wire_span value, wire_span *out_shape, uint64_t *out_width)
{
    const wire_span tensor = onnx_text(onnx_text(value, VALUE_TYPE, 0), 1, 0);
    wire_field type, dim, width;

    *out_shape = onnx_text(tensor, 2, 0);
    *out_width = 0;
    if (!onnx_field(tensor, 1, 0, &type) || !onnx_has_three_axes(value) || !onnx_field(*out_shape, 1, 2, &dim))
        return 0;
    (void)onnx_field(dim.data, 1, 0, &width);
    *out_width = width.value;
    (void)onnx_field(*out_shape, 1, 2, &dim);
    return type.value == INLAY_FLOAT || type.value == INLAY_FLOAT16 || type.value == INLAY_BFLOAT16 ? type.value : 0;
}

void onnx_write_rows(struct wire *out, uint32_t kind, const char *name, uint64_t dtype, wire_span shape, bool is_wide)
{
    const wire_mark value = wire_begin(out, kind);
    wire_mark type, tensor, dims;
    wire_field dim;

    wire_text(out, VALUE_NAME, name);
    type = wire_begin(out, VALUE_TYPE);
    tensor = wire_begin(out, 1);
    wire_int(out, 1, (int64_t)dtype);
    dims = wire_begin(out, 2);
    for (uint32_t i = 0; i < 2 && onnx_field(shape, 1, i, &dim); i++)
        wire_raw(out, dim.whole.at, dim.whole.count);
    if (is_wide)
        wire_end(out, wire_begin(out, 1));
    wire_end(out, dims);
    wire_end(out, tensor);
    wire_end(out, type);
    wire_end(out, value);
}

inlay_status onnx_find_folders(onnx_file *head, onnx_file *model, inlay_options *options, inlay_diag *diag)
{
    onnx_file *const files[] = { head, model };
    char common[PATH_MAX];
    size_t shared = 0;

    for (int i = 0; i < 2; i++) {
        char path[PATH_MAX], *folder = files[i]->folder;

        (void)snprintf(path, sizeof path, "%.*s.", (int)(files[i]->name - files[i]->path), files[i]->path);
        if (realpath(path, folder) == NULL || strlen(folder) + 2 > PATH_MAX)
            return inlay_fail(diag, INLAY_IO_ERROR, "the folder of %.200s cannot be opened", files[i]->path);
        if (strcmp(folder, "/") != 0)
            (void)strcat(folder, "/");
    }
    for (size_t i = 0; head->folder[i] != '\0' && head->folder[i] == model->folder[i]; i++)
        shared = head->folder[i] == '/' ? i + 1 : shared;
    (void)snprintf(common, sizeof common, "%.*s", (int)shared, head->folder);
    for (int i = 0; i < 2; i++)
        memmove(files[i]->folder, files[i]->folder + shared, strlen(files[i]->folder + shared) + 1);
    return inlay_options_set(options, "external_dir", common, diag);
}
