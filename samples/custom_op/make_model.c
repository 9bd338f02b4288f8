/* Writes an ONNX file: a chain of com.example.MovingAverage nodes.
 *   make_model FILE float|double WINDOW...
 *
 * Usually an exporter writes the model; it only needs a node with the right domain and a matching opset import. This
 * program shows the contents of such a file. ONNX files are protocol buffers: a message is a list of fields, each a key
 * (field number * 8 + kind) and a value. Kind 0 is a number with seven bits per byte, low bits first; kind 2 is a
 * length followed by that number of bytes: text, or another message. The field numbers below are those of onnx.proto.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct message {
    unsigned char bytes[8192];
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

static void number_field(struct message *message, uint32_t field, int64_t value)
{
    put_varint(message, field << 3);
    put_varint(message, (uint64_t)value);
}

static void text_field(struct message *message, uint32_t field, const char *text)
{
    put_varint(message, field << 3 | 2);
    put_varint(message, strlen(text));
    put(message, text, strlen(text));
}

static void message_field(struct message *message, uint32_t field, const struct message *inner)
{
    put_varint(message, field << 3 | 2);
    put_varint(message, inner->count);
    put(message, inner->bytes, inner->count);
    message->full |= inner->full;
}

/* ModelProto.opset_import = 8 */
static void add_opset(struct message *model, const char *domain, int64_t version)
{
    struct message import = { .count = 0 };

    text_field(&import, 1, domain); /* "" is ONNX's domain */
    number_field(&import, 2, version);
    message_field(model, 8, &import);
}

/* GraphProto.node = 1: inputs, outputs, name, operator, attributes, domain. */
static void add_node(struct message *graph, const char *x, const char *y, int64_t window)
{
    struct message node = { .count = 0 }, attribute = { .count = 0 };

    text_field(&attribute, 1, "window");
    number_field(&attribute, 3, window); /* i */
    number_field(&attribute, 20, 2);     /* type = INT */
    text_field(&node, 1, x);
    text_field(&node, 2, y);
    text_field(&node, 3, y); /* the node has the name of its output */
    text_field(&node, 4, "MovingAverage");
    message_field(&node, 5, &attribute);
    text_field(&node, 7, "com.example");
    message_field(graph, 1, &node);
}

/* GraphProto.input = 11, output = 12: a name, and a type with the symbolic shape [rows, length]. */
static void add_value(struct message *graph, uint32_t field, const char *name, int64_t dtype)
{
    struct message value = { .count = 0 }, type = { .count = 0 }, tensor = { .count = 0 }, shape = { .count = 0 };
    struct message rows = { .count = 0 }, length = { .count = 0 };

    text_field(&rows, 2, "rows");
    text_field(&length, 2, "length");
    message_field(&shape, 1, &rows);
    message_field(&shape, 1, &length);
    number_field(&tensor, 1, dtype);
    message_field(&tensor, 2, &shape);
    message_field(&type, 1, &tensor);
    text_field(&value, 1, name);
    message_field(&value, 2, &type);
    message_field(graph, field, &value);
}

static int write_file(const char *path, const struct message *message)
{
    FILE *f = fopen(path, "wb");
    int bad = f == NULL || fwrite(message->bytes, 1, message->count, f) != message->count;

    if ((f != NULL && fclose(f) != 0) || bad) {
        fprintf(stderr, "make_model: %s: %s\n", path, strerror(errno));
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct message graph, model;
    int64_t dtype = argc > 2 && strcmp(argv[2], "double") == 0 ? 11 : 1; /* TensorProto.DataType */
    char x[32] = "x", y[32];

    if (argc < 4 || (dtype == 1 && strcmp(argv[2], "float") != 0)) {
        fprintf(stderr, "usage: make_model FILE float|double WINDOW...\n");
        return 2;
    }
    text_field(&graph, 2, "averages");
    add_value(&graph, 11, "x", dtype);
    for (int i = 3; i < argc; i++) {
        char *end;
        long long window = strtoll(argv[i], &end, 10);

        if (end == argv[i] || *end != '\0') {
            fprintf(stderr, "make_model: '%s' is not a whole number\n", argv[i]);
            return 2;
        }
        (void)snprintf(y, sizeof y, "average%d", i - 2);
        add_node(&graph, x, y, window);
        memcpy(x, y, sizeof x);
    }
    add_value(&graph, 12, y, dtype);

    number_field(&model, 1, 8); /* ir_version */
    text_field(&model, 2, "make_model");
    message_field(&model, 7, &graph);
    add_opset(&model, "", 17);
    add_opset(&model, "com.example", 1);
    if (model.full) {
        fprintf(stderr, "make_model: the model does not fit into %zu bytes: use fewer windows\n", sizeof model.bytes);
        return 2;
    }
    return write_file(argv[1], &model);
}
