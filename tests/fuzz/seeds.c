/* Writes the corpus of fuzz_model into the folder given: one small model for each construct of the file format. Run it
 * again when the format grows. The corpus in the repository also contains files that fuzzing found. */
#include "inlay/types.h"
#include "model_writer.h"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static void add(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    mw_value(wire, 11, "x", 1, "N,3");
    mw_ones(wire, "w", 3);
    mw_node(wire, "Add", "x,w", "y");
    mw_value(wire, 12, "y", 1, "N,3");
    wire_end(wire, mark);
}

static void shapes(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17), t;

    mw_value(wire, 11, "x", 1, "N,?,-1");
    mw_node(wire, "Shape", "x", "s");
    t = wire_begin(wire, 5);
    mw_tensor_head(wire, "i", INLAY_INT64, 1, (int64_t[]){ 1 });
    wire_ints(wire, 7, (int64_t[]){ 1 }, 1);
    wire_end(wire, t);
    mw_node(wire, "Gather", "s,i", "n");
    mw_node(wire, "Concat", "n,i", "d");
    mw_node(wire, "Reshape", "x,d", "y");
    mw_value(wire, 12, "y", 1, NULL);
    wire_end(wire, mark);
}

static void bodies(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17), n;

    mw_value(wire, 11, "c", 9, "");
    mw_value(wire, 11, "x", 1, "2");
    n = mw_node_begin(wire, "If", "c", "y");
    for (int i = 0; i < 2; i++) {
        mw_body body = mw_body_begin(wire, i == 0 ? "then_branch" : "else_branch", "b");

        mw_node(wire, "Relu", "x", "o");
        mw_value(wire, 12, "o", 1, "2");
        mw_body_end(wire, body);
    }
    wire_end(wire, n);
    mw_value(wire, 12, "y", 1, "2");
    wire_end(wire, mark);
}

static void tensors(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 13, 21), t, s;

    for (int dtype = 1; dtype <= 26; dtype++) {
        static const uint8_t zeros[32];
        char name[8];

        (void)snprintf(name, sizeof name, "t%d", dtype);
        t = wire_begin(wire, 5);
        mw_tensor_head(wire, name, dtype, 1, (int64_t[]){ 2 });
        if (dtype == INLAY_STRING) {
            wire_text(wire, 6, "a");
            wire_text(wire, 6, "");
        } else {
            wire_bytes(wire, 9, zeros, (2 * inlay_dtype_bits(dtype) + 7) / 8);
        }
        wire_end(wire, t);
    }
    s = wire_begin(wire, 15);
    t = wire_begin(wire, 1);
    mw_tensor_head(wire, "sparse", INLAY_FLOAT, 1, (int64_t[]){ 1 });
    wire_float(wire, 4, 5.0f);
    wire_end(wire, t);
    t = wire_begin(wire, 2);
    mw_tensor_head(wire, NULL, INLAY_INT64, 1, (int64_t[]){ 1 });
    wire_ints(wire, 7, (int64_t[]){ 2 }, 1);
    wire_end(wire, t);
    wire_ints(wire, 3, (int64_t[]){ 4 }, 1);
    wire_end(wire, s);
    wire_end(wire, mark);
}

static void functions(struct wire *wire)
{
    wire_mark mark, n;

    mw_opset(wire, 8, "my", 1);
    mw_entry(wire, 14, "key", "value");
    mark = mw_begin(wire, 10, 17);
    mw_value(wire, 11, "x", 1, "2");
    n = mw_node_begin(wire, "F", "x", "y");
    wire_text(wire, 7, "my");
    wire_end(wire, n);
    mw_value(wire, 12, "y", 1, "2");
    wire_end(wire, mark);
    mark = mw_function_begin(wire, "F", "a", "r", "");
    n = mw_function_node_begin(wire, "", "Softmax", "a", "r");
    mw_attr_ref(wire, "axis", "ax", 2);
    wire_end(wire, n);
    mw_function_default(wire, "ax", 0);
    wire_end(wire, mark);
}

static void convolution(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17), n, a, t;

    mw_value(wire, 11, "x", 1, "1,1,4,4");
    t = wire_begin(wire, 5);
    mw_tensor_head(wire, "w", INLAY_FLOAT, 4, (int64_t[]){ 1, 1, 3, 3 });
    wire_bytes(wire, 9, (float[9]){ 1 }, 36);
    wire_end(wire, t);
    n = mw_node_begin(wire, "Conv", "x,w", "y");
    a = wire_begin(wire, 5);
    wire_text(wire, 1, "pads");
    wire_ints(wire, 8, (int64_t[]){ 1, 1, 1, 1 }, 4);
    wire_int(wire, 20, 7);
    wire_end(wire, a);
    wire_end(wire, n);
    mw_value(wire, 12, "y", 1, NULL);
    wire_end(wire, mark);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*write)(struct wire *);
    } seeds[] = { { "add", add },         { "shapes", shapes },       { "bodies", bodies },
                  { "tensors", tensors }, { "functions", functions }, { "convolution", convolution } };

    for (size_t i = 0; argc == 2 && i < sizeof seeds / sizeof seeds[0]; i++) {
        char path[4096];
        struct wire wire = { 0 };
        int fd;

        seeds[i].write(&wire);
        (void)snprintf(path, sizeof path, "%s/%s.onnx", argv[1], seeds[i].name);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (fd < 0 || !wire_write(&wire, fd)) {
            perror(path);
            return 1;
        }
        (void)close(fd);
        wire_deinit(&wire);
    }
    return argc == 2 ? 0 : 1;
}
