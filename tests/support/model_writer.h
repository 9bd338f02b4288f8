/* model_writer.h - writes ONNX files for tests field by field, valid or deliberately invalid.
 *
 *     struct wire wire = { 0 };
 *     wire_mark graph = mw_begin(&wire, 8, 17);      // ModelProto, opset, GraphProto "g"
 *     mw_value(&wire, MW_INPUT, "x", 1, "N,3");
 *     mw_node(&wire, "Relu", "x", "y");
 *     mw_value(&wire, MW_OUTPUT, "y", 1, NULL);
 *     wire_end(&wire, graph);
 *     model_load_bytes(wire.bytes, wire.count, ...); // payloads below 256 bytes are copied to wire.bytes (wire.h)
 */
#ifndef MODEL_WRITER_H
#define MODEL_WRITER_H
#include "base/wire.h"
#include "inlay/types.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fields of GraphProto. */
enum { MW_NODE = 1, MW_INITIALIZER = 5, MW_INPUT = 11, MW_OUTPUT = 12, MW_VALUE_INFO = 13, MW_SPARSE = 15 };

static inline void mw_opset(struct wire *wire, uint32_t field, const char *domain, int64_t version)
{
    wire_mark mark = wire_begin(wire, field);

    wire_text(wire, 1, domain);
    wire_int(wire, 2, version);
    wire_end(wire, mark);
}

static inline wire_mark mw_begin(struct wire *wire, int64_t ir_version, int64_t opset)
{
    wire_mark mark;

    wire_int(wire, 1, ir_version);
    mw_opset(wire, 8, "", opset);
    mark = wire_begin(wire, 7);
    wire_text(wire, 2, "g");
    return mark;
}

/* Writes the fields of TypeProto.Tensor. dims: "2,N,?" with ? for a Dimension without value; NULL: no shape. */
static inline void mw_tensor_type(struct wire *wire, int dtype, const char *dims)
{
    char part[64];
    wire_mark shape;

    wire_int(wire, 1, dtype);
    if (dims == NULL)
        return;
    shape = wire_begin(wire, 2);
    while (*dims != '\0') {
        size_t n = strcspn(dims, ",");
        wire_mark dim = wire_begin(wire, 1);

        (void)snprintf(part, sizeof part, "%.*s", (int)n, dims);
        if (strspn(part, "-0123456789") == n && n > 0)
            wire_int(wire, 1, strtoll(part, NULL, 10));
        else if (strcmp(part, "?") != 0)
            wire_text(wire, 2, part);
        wire_end(wire, dim);
        dims += n + (dims[n] == ',');
    }
    wire_end(wire, shape);
}

/* Writes a ValueInfoProto of tensor type; dtype 0 omits the type. */
static inline void mw_value(struct wire *wire, uint32_t field, const char *name, int dtype, const char *dims)
{
    wire_mark value = wire_begin(wire, field), type, tensor;

    wire_text(wire, 1, name);
    if (dtype != 0) {
        type = wire_begin(wire, 2);
        tensor = wire_begin(wire, 1);
        mw_tensor_type(wire, dtype, dims);
        wire_end(wire, tensor);
        wire_end(wire, type);
    }
    wire_end(wire, value);
}

static inline void mw_list(struct wire *wire, uint32_t field, const char *list)
{
    for (; *list != '\0'; list += strcspn(list, ",") + (list[strcspn(list, ",")] == ',')) {
        size_t n = strcspn(list, ",");

        wire_bytes(wire, field, list, n == 1 && *list == '_' ? 0 : n); /* "_": omitted */
    }
}

/* Opens a NodeProto for attributes; inputs and outputs are "a,b,_". */
static inline wire_mark mw_node_begin(struct wire *wire, const char *op, const char *inputs, const char *outputs)
{
    wire_mark node = wire_begin(wire, MW_NODE);

    mw_list(wire, 1, inputs);
    mw_list(wire, 2, outputs);
    wire_text(wire, 4, op);
    return node;
}

static inline void mw_node(struct wire *wire, const char *op, const char *inputs, const char *outputs)
{
    wire_end(wire, mw_node_begin(wire, op, inputs, outputs));
}

/* Begins an AttributeProto of a node; type is AttributeProto.type. */
static inline wire_mark mw_attr_begin(struct wire *wire, const char *name, int type)
{
    wire_mark mark = wire_begin(wire, 5);

    wire_text(wire, 1, name);
    wire_int(wire, 20, type);
    return mark;
}
static inline void mw_attr_int(struct wire *wire, const char *name, int64_t value)
{
    wire_mark mark = mw_attr_begin(wire, name, 2);

    wire_int(wire, 3, value);
    wire_end(wire, mark);
}
static inline void mw_attr_ints(struct wire *wire, const char *name, uint32_t count, const int64_t *values)
{
    wire_mark mark = mw_attr_begin(wire, name, 7);

    for (uint32_t i = 0; i < count; i++)
        wire_int(wire, 8, values[i]);
    wire_end(wire, mark);
}
/* Writes a node with one integer attribute. */
static inline void mw_node_int(struct wire *wire, const char *op, const char *inputs, const char *outputs,
                               const char *attr, int64_t value)
{
    wire_mark mark = mw_node_begin(wire, op, inputs, outputs);

    mw_attr_int(wire, attr, value);
    wire_end(wire, mark);
}
/* Writes an attribute of a node of a function whose value is the attribute `from` of the call. */
static inline void mw_attr_ref(struct wire *wire, const char *name, const char *from, int type)
{
    wire_mark mark = mw_attr_begin(wire, name, type);

    wire_text(wire, 21, from);
    wire_end(wire, mark);
}

/* Begins a FunctionProto of the domain "my", behind the graph. attrs: the attributes without default values. */
static inline wire_mark mw_function_begin(struct wire *wire, const char *name, const char *inputs, const char *outputs,
                                          const char *attrs)
{
    wire_mark mark = wire_begin(wire, 25);

    wire_text(wire, 1, name);
    mw_list(wire, 4, inputs);
    mw_list(wire, 5, outputs);
    mw_list(wire, 6, attrs);
    mw_opset(wire, 9, "", 17);
    mw_opset(wire, 9, "my", 1);
    wire_text(wire, 10, "my");
    return mark;
}

static inline wire_mark mw_function_node_begin(struct wire *wire, const char *domain, const char *op,
                                               const char *inputs, const char *outputs)
{
    wire_mark node = wire_begin(wire, 7);

    mw_list(wire, 1, inputs);
    mw_list(wire, 2, outputs);
    wire_text(wire, 4, op);
    wire_text(wire, 7, domain);
    return node;
}

static inline void mw_function_node(struct wire *wire, const char *domain, const char *op, const char *inputs,
                                    const char *outputs)
{
    wire_end(wire, mw_function_node_begin(wire, domain, op, inputs, outputs));
}

/* Writes an attribute of a function with its default value. */
static inline void mw_function_default(struct wire *wire, const char *name, int64_t value)
{
    wire_mark mark = wire_begin(wire, 11);

    wire_text(wire, 1, name);
    wire_int(wire, 3, value);
    wire_int(wire, 20, 2);
    wire_end(wire, mark);
}

/* Opens an AttributeProto and the GraphProto in it, whose fields follow; mw_body_end() closes both. */
typedef struct mw_body {
    wire_mark attr, graph;
} mw_body;
static inline mw_body mw_body_begin(struct wire *wire, const char *attr, const char *graph_name)
{
    mw_body body = { .attr = wire_begin(wire, 5) };

    wire_text(wire, 1, attr);
    wire_int(wire, 20, 5);
    body.graph = wire_begin(wire, 6);
    wire_text(wire, 2, graph_name);
    return body;
}
static inline void mw_body_end(struct wire *wire, mw_body body)
{
    wire_end(wire, body.graph);
    wire_end(wire, body.attr);
}

/* Parses "2,3" to { 2, 3 }; "" is a scalar. */
static inline uint32_t mw_dims(const char *text, int64_t dims[INLAY_MAX_RANK])
{
    uint32_t rank = 0;

    for (; *text != '\0'; text += strcspn(text, ",") + (text[strcspn(text, ",")] == ','))
        dims[rank++] = strtoll(text, NULL, 10);
    return rank;
}
/* Writes name, type and dims of a TensorProto; the caller writes the elements. */
static inline void mw_tensor_head(struct wire *wire, const char *name, int dtype, uint32_t rank, const int64_t *dims)
{
    for (uint32_t i = 0; i < rank; i++)
        wire_int(wire, 1, dims[i]);
    wire_int(wire, 2, dtype);
    if (name != NULL)
        wire_text(wire, 8, name);
}

/* Writes an int64 initializer of rank 0 or 1. */
static inline void mw_ints(struct wire *wire, const char *name, uint32_t rank, int64_t count, const int64_t *values)
{
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    mw_tensor_head(wire, name, INLAY_INT64, rank, &count);
    for (int64_t i = 0; i < count; i++)
        wire_int(wire, 7, values[i]);
    wire_end(wire, mark);
}
static inline void mw_scalar(struct wire *wire, const char *name, int dtype, double value)
{
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    mw_tensor_head(wire, name, dtype, 0, NULL);
    if (dtype == INLAY_FLOAT)
        wire_float(wire, 4, (float)value);
    else
        wire_int(wire, dtype == INLAY_INT64 ? 7 : 5, (int64_t)value);
    wire_end(wire, mark);
}
/* Writes a ValueInfoProto of a sequence (field 4 of TypeProto) or an optional (9) of tensors. */
static inline void mw_list_value(struct wire *wire, uint32_t field, const char *name, uint32_t list_field, int dtype)
{
    wire_mark value = wire_begin(wire, field), type, list, element, tensor;

    wire_text(wire, 1, name);
    type = wire_begin(wire, 2);
    list = wire_begin(wire, list_field);
    element = wire_begin(wire, 1);
    tensor = wire_begin(wire, 1);
    wire_int(wire, 1, dtype);
    wire_end(wire, tensor);
    wire_end(wire, element);
    wire_end(wire, list);
    wire_end(wire, type);
    wire_end(wire, value);
}

/* Writes a float initializer [count] of ones. */
static inline void mw_ones(struct wire *wire, const char *name, int64_t count)
{
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    mw_tensor_head(wire, name, 1, 1, &count);
    for (int64_t i = 0; i < count; i++)
        wire_float(wire, 4, 1.0f);
    wire_end(wire, mark);
}

static inline void mw_entry(struct wire *wire, uint32_t field, const char *key, const char *value)
{
    wire_mark mark = wire_begin(wire, field);

    wire_text(wire, 1, key);
    wire_text(wire, 2, value);
    wire_end(wire, mark);
}

/* Writes the model to a file; ends the process if it cannot. All payloads must be in wire->bytes. */
static inline void mw_save(const struct wire *wire, const char *path)
{
    FILE *file = fopen(path, "wb");

    if (wire->failed || wire->splice_count != 0 || file == NULL ||
        fwrite(wire->bytes, 1, wire->count, file) != wire->count || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}
#endif
