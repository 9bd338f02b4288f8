/* onnx_bytes.h - writes small ONNX files to memory: the subset of the protobuf wire format that the tests need.
 *
 *     onnx_bytes graph = { 0 }, file = { 0 };
 *     onnx_node(&graph, "Relu", "", "x", "y");
 *     onnx_input(&graph, "x", INLAY_FLOAT, 2, dims);
 *     onnx_output(&graph, "y", INLAY_FLOAT, 2, dims);
 *     onnx_file(&file, &graph, 17, NULL);       then file.data, file.count
 */
#ifndef ONNX_BYTES_H
#define ONNX_BYTES_H
#include "inlay/types.h"
#include <string.h>

typedef struct onnx_bytes {
    unsigned char data[16384];
    size_t count;
    int overflow; /* data was too small: nothing was written past its end, and onnx_file() fails */
} onnx_bytes;

static inline void onnx_put(onnx_bytes *out, const void *data, size_t bytes)
{
    if (bytes > sizeof out->data - out->count) {
        out->overflow = 1;
        return;
    }
    if (bytes > 0)
        memcpy(out->data + out->count, data, bytes);
    out->count += bytes;
}
static inline void onnx_varint(onnx_bytes *bytes, uint64_t value)
{
    do {
        unsigned char byte = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));

        onnx_put(bytes, &byte, 1);
        value >>= 7;
    } while (value > 0);
}
static inline void onnx_number(onnx_bytes *bytes, uint32_t field, int64_t value)
{
    onnx_varint(bytes, field << 3);
    onnx_varint(bytes, (uint64_t)value);
}
static inline void onnx_blob(onnx_bytes *out, uint32_t field, const void *data, size_t bytes)
{
    onnx_varint(out, field << 3 | 2);
    onnx_varint(out, bytes);
    onnx_put(out, data, bytes);
}
static inline void onnx_text(onnx_bytes *bytes, uint32_t field, const char *text)
{
    onnx_blob(bytes, field, text, strlen(text));
}
static inline void onnx_message(onnx_bytes *bytes, uint32_t field, const onnx_bytes *message)
{
    onnx_blob(bytes, field, message->data, message->count);
    bytes->overflow |= message->overflow;
}

static inline void onnx_names(onnx_bytes *node, uint32_t field, const char *list)
{
    while (*list != '\0') {
        size_t n = strcspn(list, ",");

        onnx_blob(node, field, list, n);
        list += n + (list[n] == ',');
    }
}
/* Adds a node with the attribute unless it is NULL. Names of inputs and outputs are separated by commas; the node is
 * named after its first output. */
static inline void onnx_node_with(onnx_bytes *bytes, const char *op_type, const char *domain, const char *inputs,
                                  const char *outputs, const onnx_bytes *attribute)
{
    onnx_bytes node = { .count = 0 };

    onnx_names(&node, 1, inputs);
    onnx_names(&node, 2, outputs);
    onnx_blob(&node, 3, outputs, strcspn(outputs, ","));
    onnx_text(&node, 4, op_type);
    if (attribute != NULL)
        onnx_message(&node, 5, attribute);
    onnx_text(&node, 7, domain);
    onnx_message(bytes, 1, &node);
}
/* The same with one integer attribute unless attr is NULL. */
static inline void onnx_node_int(onnx_bytes *bytes, const char *op_type, const char *domain, const char *inputs,
                                 const char *outputs, const char *attr, int64_t value)
{
    onnx_bytes attribute = { .count = 0 };

    if (attr != NULL) {
        onnx_text(&attribute, 1, attr);
        onnx_number(&attribute, 3, value);
        onnx_number(&attribute, 20, 2); /* INT */
    }
    onnx_node_with(bytes, op_type, domain, inputs, outputs, attr != NULL ? &attribute : NULL);
}
/* The same with one string attribute. */
static inline void onnx_node_text(onnx_bytes *bytes, const char *op_type, const char *domain, const char *inputs,
                                  const char *outputs, const char *attr, const char *value)
{
    onnx_bytes attribute = { .count = 0 };

    onnx_text(&attribute, 1, attr);
    onnx_text(&attribute, 4, value);
    onnx_number(&attribute, 20, 3); /* STRING */
    onnx_node_with(bytes, op_type, domain, inputs, outputs, &attribute);
}
static inline void onnx_node(onnx_bytes *bytes, const char *op_type, const char *domain, const char *inputs,
                             const char *outputs)
{
    onnx_node_int(bytes, op_type, domain, inputs, outputs, NULL, 0);
}
/* Writes a ValueInfoProto. dims[i] < 0: the dimension is the symbol "n". */
/* Adds a body to a node, as the attribute of that name. */
static inline void onnx_body(onnx_bytes *node, const char *name, const onnx_bytes *body)
{
    onnx_bytes attribute = { .count = 0 };

    onnx_text(&attribute, 1, name);
    onnx_message(&attribute, 6, body);
    onnx_number(&attribute, 20, 5); /* GRAPH */
    onnx_message(node, 5, &attribute);
}

static inline void onnx_value(onnx_bytes *bytes, uint32_t field, const char *name, inlay_dtype dtype, uint32_t rank,
                              const int64_t *dims)
{
    onnx_bytes value = { .count = 0 }, type = { .count = 0 }, tensor = { .count = 0 }, shape = { .count = 0 };

    for (uint32_t i = 0; i < rank; i++) {
        onnx_bytes dim = { .count = 0 };

        if (dims[i] >= 0)
            onnx_number(&dim, 1, dims[i]);
        else
            onnx_text(&dim, 2, "n");
        onnx_message(&shape, 1, &dim);
    }
    onnx_number(&tensor, 1, dtype);
    onnx_message(&tensor, 2, &shape);
    onnx_message(&type, 1, &tensor);
    onnx_text(&value, 1, name);
    onnx_message(&value, 2, &type);
    onnx_message(bytes, field, &value);
}
static inline void onnx_input(onnx_bytes *bytes, const char *name, inlay_dtype dtype, uint32_t rank,
                              const int64_t *dims)
{
    onnx_value(bytes, 11, name, dtype, rank, dims);
}
static inline void onnx_output(onnx_bytes *bytes, const char *name, inlay_dtype dtype, uint32_t rank,
                               const int64_t *dims)
{
    onnx_value(bytes, 12, name, dtype, rank, dims);
}
/* Writes the fields of a TensorProto. The data of INLAY_STRING is an array of inlay_str. */
static inline void onnx_tensor(onnx_bytes *tensor, const char *name, inlay_dtype dtype, uint32_t rank,
                               const int64_t *dims, const void *data, size_t bytes)
{
    for (uint32_t i = 0; i < rank; i++)
        onnx_number(tensor, 1, dims[i]);
    onnx_number(tensor, 2, dtype);
    onnx_text(tensor, 8, name);
    if (dtype != INLAY_STRING)
        onnx_blob(tensor, 9, data, bytes);
    for (size_t i = 0; dtype == INLAY_STRING && i < bytes / sizeof(inlay_str); i++)
        onnx_blob(tensor, 6, ((const inlay_str *)data)[i].data, (size_t)((const inlay_str *)data)[i].bytes);
}
static inline void onnx_constant(onnx_bytes *graph, const char *name, inlay_dtype dtype, uint32_t rank,
                                 const int64_t *dims, const void *data, size_t bytes)
{
    onnx_bytes tensor = { .count = 0 };

    onnx_tensor(&tensor, name, dtype, rank, dims, data, bytes);
    onnx_message(graph, 5, &tensor);
}
/* Writes a model file with this graph. domain: a second opset import at version 1, or NULL. Returns 0 if data was large
 * enough. */
static inline int onnx_file(onnx_bytes *file, onnx_bytes *bytes, int64_t opset, const char *domain)
{
    onnx_bytes import = { .count = 0 };

    onnx_text(bytes, 2, "test");
    onnx_number(file, 1, 8);
    onnx_message(file, 7, bytes);
    onnx_text(&import, 1, "");
    onnx_number(&import, 2, opset);
    onnx_message(file, 8, &import);
    if (domain != NULL) {
        import.count = 0;
        onnx_text(&import, 1, domain);
        onnx_number(&import, 2, 1);
        onnx_message(file, 8, &import);
    }
    return file->overflow;
}
#endif
