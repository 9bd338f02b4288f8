#include "formats/onnx_write.h"
#include "inlay/check.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Versions that the nodes are written for. */
enum { IR_VERSION = 10, OPSET = 21, STATEMENT_BYTES = 512, CONSTANTS = 8 };
enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_STRING = 3 }; /* AttributeProto.AttributeType */

static void write_opset(struct wire *out, const char *domain, int64_t version)
{
    const wire_mark opset = wire_begin(out, 8);

    wire_text(out, 1, domain);
    wire_int(out, 2, version);
    wire_end(out, opset);
}

wire_mark onnx_begin(struct wire *out, const char *producer, bool has_own)
{
    wire_mark graph;

    wire_int(out, 1, IR_VERSION);
    wire_text(out, 2, producer);
    write_opset(out, "", OPSET);
    write_opset(out, "com.microsoft", 1);
    if (has_own)
        write_opset(out, "ai.inlay", 1);
    graph = wire_begin(out, 7);
    wire_text(out, 2, "model");
    return graph;
}

void onnx_end(struct wire *out, wire_mark graph)
{
    wire_end(out, graph);
}

/* Writes each name of a list as a field. */
static void write_names(struct wire *out, uint32_t field, const char *names)
{
    while (*names != '\0') {
        const size_t bytes = strcspn(names, " ");

        if (bytes == 1 && names[0] == '-')
            wire_bytes(out, field, "", 0);
        else
            wire_bytes(out, field, names, bytes);
        names += bytes;
        names += strspn(names, " ");
    }
}

void onnx_node(struct wire *out, const char *op, const char *inputs, const char *outputs,
               const onnx_attribute *attributes, size_t attribute_count)
{
    onnx_named_node(out, NULL, op, inputs, outputs, attributes, attribute_count);
}

void onnx_named_node(struct wire *out, const char *name, const char *op, const char *inputs, const char *outputs,
                     const onnx_attribute *attributes, size_t attribute_count)
{
    const char *type = strrchr(op, '.');
    const wire_mark node = wire_begin(out, 1);

    write_names(out, 1, inputs);
    write_names(out, 2, outputs);
    wire_bytes(out, 3, name != NULL ? name : outputs, name != NULL ? strlen(name) : strcspn(outputs, " "));
    wire_text(out, 4, type != NULL ? type + 1 : op);
    for (size_t i = 0; i < attribute_count; i++) {
        const wire_mark attribute = wire_begin(out, 5);
        const char *text = strchr(attributes[i].name, '=');

        wire_bytes(out, 1, attributes[i].name, strcspn(attributes[i].name, "="));
        if (text != NULL)
            wire_text(out, 4, text + 1);
        else if (attributes[i].is_float)
            wire_float(out, 2, attributes[i].f);
        else
            wire_int(out, 3, attributes[i].i);
        wire_int(out, 20, text != NULL ? TYPE_STRING : attributes[i].is_float ? TYPE_FLOAT : TYPE_INT);
        wire_end(out, attribute);
    }
    if (type != NULL)
        wire_bytes(out, 7, op, (size_t)(type - op));
    wire_end(out, node);
}

/* A constant: "[1,2]" is a list of whole numbers, "(1)" one of them, and "1.5" a float. */
static void write_constant(struct wire *out, const char *text, const char *name)
{
    const float real = strtof(text, NULL);
    int64_t list[CONSTANTS], count = 0;
    char *at = (char *)(uintptr_t)text;

    if (text[0] != '[' && text[0] != '(') {
        onnx_tensor(out, name, INLAY_FLOAT, NULL, 0, &real, sizeof real);
        return;
    }
    do {
        INLAY_CHECK(count < CONSTANTS);
        list[count++] = strtoll(at + 1, &at, 10);
    } while (*at == ',');
    onnx_tensor(out, name, INLAY_INT64, &count, text[0] == '[', list, (size_t)count * sizeof *list);
}

static void write_statement(struct wire *out, char *text)
{
    char *inputs = strchr(text, ' '), *output = strstr(text, " > ") + 3, *value = strchr(output, '=');
    onnx_attribute attribute = { NULL, false, 0, 0 };

    output[-3] = '\0';
    if (strchr("[(-.0123456789", text[0]) != NULL) {
        write_constant(out, text, output);
        return;
    }
    *inputs = '\0';
    if (value != NULL) {
        char *name = strrchr(output, ' ');

        *name = '\0';
        attribute.name = name + 1;
        if (value[1] == '-' || isdigit((unsigned char)value[1])) {
            *value = '\0';
            attribute.i = strtoll(value + 1, NULL, 10);
        }
    }
    onnx_node(out, text, inputs + 1, output, &attribute, value != NULL);
}

void onnx_program(struct wire *out, const char *program, const char *name)
{
    char text[STATEMENT_BYTES];
    size_t used = 0;

    for (; *program != '\0'; program++) {
        const char *part = *program == '$' ? name : program;
        const size_t bytes = *program == '$' ? strlen(name) : 1;

        INLAY_CHECK(used + bytes < sizeof text);
        memcpy(text + used, part, bytes);
        used += bytes;
        if (*program == ';') {
            text[used - 1] = '\0';
            write_statement(out, text);
            used = 0;
        }
    }
}

wire_mark onnx_tensor_begin(struct wire *out, const char *name, inlay_dtype dtype, const int64_t *dims, uint32_t rank)
{
    const wire_mark tensor = wire_begin(out, 5);

    wire_ints(out, 1, dims, rank);
    wire_int(out, 2, (int64_t)dtype);
    wire_text(out, 8, name);
    return tensor;
}

void onnx_tensor(struct wire *out, const char *name, inlay_dtype dtype, const int64_t *dims, uint32_t rank,
                 const void *data, size_t bytes)
{
    const wire_mark tensor = onnx_tensor_begin(out, name, dtype, dims, rank);

    wire_bytes(out, ONNX_RAW_DATA, data, bytes);
    wire_end(out, tensor);
}

static void write_entry(struct wire *out, uint32_t field, const char *key, const void *value, size_t bytes)
{
    const wire_mark entry = wire_begin(out, field);

    wire_text(out, 1, key);
    wire_bytes(out, 2, value, bytes);
    wire_end(out, entry);
}

void onnx_external(struct wire *out, const char *location, uint64_t offset, uint64_t bytes)
{
    char number[24];

    write_entry(out, 13, "location", location, strlen(location));
    (void)snprintf(number, sizeof number, "%" PRIu64, offset);
    write_entry(out, 13, "offset", number, strlen(number));
    (void)snprintf(number, sizeof number, "%" PRIu64, bytes);
    write_entry(out, 13, "length", number, strlen(number));
    wire_int(out, 14, 1);
}

void onnx_value(struct wire *out, uint32_t field, const char *name, inlay_dtype dtype, const char *dims)
{
    const wire_mark value = wire_begin(out, field);
    wire_mark type, tensor, shape;

    wire_text(out, 1, name);
    type = wire_begin(out, 2);
    tensor = wire_begin(out, 1);
    wire_int(out, 1, (int64_t)dtype);
    shape = wire_begin(out, 2);
    while (*dims != '\0') {
        const size_t bytes = strcspn(dims, " ");
        const wire_mark dim = wire_begin(out, 1);

        if (isdigit((unsigned char)dims[0]))
            wire_int(out, 1, strtoll(dims, NULL, 10));
        else
            wire_bytes(out, 2, dims, bytes);
        wire_end(out, dim);
        dims += bytes;
        dims += strspn(dims, " ");
    }
    wire_end(out, shape);
    wire_end(out, tensor);
    wire_end(out, type);
    wire_end(out, value);
}

void onnx_property(struct wire *out, const char *key, const void *value, size_t bytes)
{
    write_entry(out, 14, key, value, bytes);
}
