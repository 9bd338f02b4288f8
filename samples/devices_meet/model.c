/* Writes an ONNX file. Usually an exporter writes the model. ONNX files are protocol buffers: a message is a list of
 * fields, each a key (field number * 8 + kind) and a value; the numbers are those of onnx.proto. See also
 * samples/custom_op/make_model.c. */
#include "model.h"
#include <stdint.h>
#include <string.h>

struct message {
    unsigned char bytes[4096];
    size_t count;
    int full;
};

static void put(struct message *message, const void *data, size_t bytes)
{
    if (bytes > sizeof message->bytes - message->count) {
        message->full = 1;
        return;
    }
    memcpy(message->bytes + message->count, data, bytes);
    message->count += bytes;
}

static void put_varint(struct message *message, uint64_t value)
{
    for (; value > 0x7f; value >>= 7)
        put(message, &(unsigned char){ (unsigned char)(value | 0x80) }, 1);
    put(message, &(unsigned char){ (unsigned char)value }, 1);
}

static void number_field(struct message *message, uint32_t field, uint64_t value)
{
    put_varint(message, field << 3);
    put_varint(message, value);
}

static void bytes_field(struct message *message, uint32_t field, const void *data, size_t bytes)
{
    put_varint(message, field << 3 | 2);
    put_varint(message, bytes);
    put(message, data, bytes);
}

static void text_field(struct message *message, uint32_t field, const char *text)
{
    bytes_field(message, field, text, strlen(text));
}

static void message_field(struct message *message, uint32_t field, const struct message *inner)
{
    bytes_field(message, field, inner->bytes, inner->count);
    message->full |= inner->full;
}

/* GraphProto.node = 1: inputs, output, operator; Cast has an attribute `to`. */
static void add_node(struct message *graph, const char *op, const char *in, const char *second, const char *out)
{
    struct message node = { .count = 0 }, to = { .count = 0 };

    text_field(&node, 1, in);
    if (second != NULL)
        text_field(&node, 1, second);
    text_field(&node, 2, out);
    text_field(&node, 4, op);
    text_field(&to, 1, "to");
    number_field(&to, 3, 1);  /* i = FLOAT */
    number_field(&to, 20, 2); /* type = INT */
    if (strcmp(op, "Cast") == 0)
        message_field(&node, 5, &to);
    message_field(graph, 1, &node);
}

/* GraphProto.input = 11, output = 12: a name and a type. */
static void add_value(struct message *graph, uint32_t field, const char *name, uint64_t dtype, uint64_t rows,
                      uint64_t columns)
{
    struct message value = { .count = 0 }, type = { .count = 0 }, tensor = { .count = 0 }, shape = { .count = 0 };
    const uint64_t dims[] = { rows, columns };

    for (int i = 0; i < 2; i++) {
        struct message dim = { .count = 0 };

        number_field(&dim, 1, dims[i]);
        message_field(&shape, 1, &dim);
    }
    number_field(&tensor, 1, dtype);
    message_field(&tensor, 2, &shape);
    message_field(&type, 1, &tensor);
    text_field(&value, 1, name);
    message_field(&value, 2, &type);
    message_field(graph, field, &value);
}

/* GraphProto.initializer = 5: the weights, some of them negative. */
static void add_weights(struct message *graph)
{
    struct message weights = { .count = 0 };
    float data[MODEL_COLUMNS * MODEL_RESULTS];

    for (int i = 0; i < MODEL_COLUMNS * MODEL_RESULTS; i++)
        data[i] = (float)(i * 7 % 15 - 7) / 8;
    number_field(&weights, 1, MODEL_COLUMNS);
    number_field(&weights, 1, MODEL_RESULTS);
    number_field(&weights, 2, 1); /* FLOAT */
    text_field(&weights, 8, "weights");
    bytes_field(&weights, 9, data, sizeof data); /* raw_data, little-endian */
    message_field(graph, 5, &weights);
}

size_t write_model(unsigned char *out, size_t room)
{
    struct message graph = { .count = 0 }, model = { .count = 0 }, opset = { .count = 0 };

    add_node(&graph, "Cast", "frame", NULL, "pixels");
    add_node(&graph, "Sqrt", "pixels", NULL, "light");
    add_node(&graph, "MatMul", "light", "weights", "scores");
    add_node(&graph, "Relu", "scores", NULL, "result");
    text_field(&graph, 2, "devices_meet");
    add_weights(&graph);
    add_value(&graph, 11, "frame", 2, MODEL_ROWS, MODEL_COLUMNS); /* UINT8 */
    add_value(&graph, 12, "result", 1, MODEL_ROWS, MODEL_RESULTS);
    number_field(&model, 1, 8); /* ir_version */
    message_field(&model, 7, &graph);
    text_field(&opset, 1, "");
    number_field(&opset, 2, 17);
    message_field(&model, 8, &opset);
    if (model.full || model.count > room)
        return 0;
    memcpy(out, model.bytes, model.count);
    return model.count;
}
