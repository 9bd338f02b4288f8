/* Writes the corpus of fuzz_model into the folder given: one small model for each thing that a file can hold. Run it
 * again when the format grows; the files are kept in the repository, with what fuzzing found beside them. */
#include "inlay/types.h"
#include "model_writer.h"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static void add(struct wire *w)
{
    wire_mark g = mw_begin(w, 8, 17);

    mw_value(w, 11, "x", 1, "N,3");
    mw_ones(w, "w", 3);
    mw_node(w, "Add", "x,w", "y");
    mw_value(w, 12, "y", 1, "N,3");
    wire_end(w, g);
}

static void shapes(struct wire *w)
{
    wire_mark g = mw_begin(w, 8, 17), t;

    mw_value(w, 11, "x", 1, "N,?,-1");
    mw_node(w, "Shape", "x", "s");
    t = wire_begin(w, 5);
    mw_tensor_head(w, "i", INLAY_INT64, 1, (int64_t[]){ 1 });
    wire_ints(w, 7, (int64_t[]){ 1 }, 1);
    wire_end(w, t);
    mw_node(w, "Gather", "s,i", "n");
    mw_node(w, "Concat", "n,i", "d");
    mw_node(w, "Reshape", "x,d", "y");
    mw_value(w, 12, "y", 1, NULL);
    wire_end(w, g);
}

static void bodies(struct wire *w)
{
    wire_mark g = mw_begin(w, 8, 17), n;

    mw_value(w, 11, "c", 9, "");
    mw_value(w, 11, "x", 1, "2");
    n = mw_node_begin(w, "If", "c", "y");
    for (int i = 0; i < 2; i++) {
        mw_body b = mw_body_begin(w, i == 0 ? "then_branch" : "else_branch", "b");

        mw_node(w, "Relu", "x", "o");
        mw_value(w, 12, "o", 1, "2");
        mw_body_end(w, b);
    }
    wire_end(w, n);
    mw_value(w, 12, "y", 1, "2");
    wire_end(w, g);
}

static void tensors(struct wire *w)
{
    wire_mark g = mw_begin(w, 13, 21), t, s;

    for (int dtype = 1; dtype <= 26; dtype++) {
        static const uint8_t zeros[32];
        char name[8];

        (void)snprintf(name, sizeof name, "t%d", dtype);
        t = wire_begin(w, 5);
        mw_tensor_head(w, name, dtype, 1, (int64_t[]){ 2 });
        if (dtype == INLAY_STRING) {
            wire_text(w, 6, "a");
            wire_text(w, 6, "");
        } else {
            wire_bytes(w, 9, zeros, (2 * inlay_dtype_bits(dtype) + 7) / 8);
        }
        wire_end(w, t);
    }
    s = wire_begin(w, 15);
    t = wire_begin(w, 1);
    mw_tensor_head(w, "sparse", INLAY_FLOAT, 1, (int64_t[]){ 1 });
    wire_float(w, 4, 5.0f);
    wire_end(w, t);
    t = wire_begin(w, 2);
    mw_tensor_head(w, NULL, INLAY_INT64, 1, (int64_t[]){ 1 });
    wire_ints(w, 7, (int64_t[]){ 2 }, 1);
    wire_end(w, t);
    wire_ints(w, 3, (int64_t[]){ 4 }, 1);
    wire_end(w, s);
    wire_end(w, g);
}

static void functions(struct wire *w)
{
    wire_mark g, n, a, f;

    mw_opset(w, 8, "my", 1);
    mw_entry(w, 14, "key", "value");
    g = mw_begin(w, 10, 17);
    mw_value(w, 11, "x", 1, "2");
    n = mw_node_begin(w, "F", "x", "y");
    wire_text(w, 7, "my");
    wire_end(w, n);
    mw_value(w, 12, "y", 1, "2");
    wire_end(w, g);
    f = wire_begin(w, 25);
    wire_text(w, 1, "F");
    wire_text(w, 4, "a");
    wire_text(w, 5, "r");
    mw_opset(w, 9, "", 17);
    wire_text(w, 10, "my");
    n = wire_begin(w, 7);
    wire_text(w, 1, "a");
    wire_text(w, 2, "r");
    wire_text(w, 4, "Softmax");
    a = wire_begin(w, 5);
    wire_text(w, 1, "axis");
    wire_int(w, 20, 2);
    wire_text(w, 21, "ax");
    wire_end(w, a);
    wire_end(w, n);
    a = wire_begin(w, 11);
    wire_text(w, 1, "ax");
    wire_int(w, 3, 0);
    wire_int(w, 20, 2);
    wire_end(w, a);
    wire_end(w, f);
}

static void convolution(struct wire *w)
{
    wire_mark g = mw_begin(w, 8, 17), n, a, t;

    mw_value(w, 11, "x", 1, "1,1,4,4");
    t = wire_begin(w, 5);
    mw_tensor_head(w, "w", INLAY_FLOAT, 4, (int64_t[]){ 1, 1, 3, 3 });
    wire_bytes(w, 9, (float[9]){ 1 }, 36);
    wire_end(w, t);
    n = mw_node_begin(w, "Conv", "x,w", "y");
    a = wire_begin(w, 5);
    wire_text(w, 1, "pads");
    wire_ints(w, 8, (int64_t[]){ 1, 1, 1, 1 }, 4);
    wire_int(w, 20, 7);
    wire_end(w, a);
    wire_end(w, n);
    mw_value(w, 12, "y", 1, NULL);
    wire_end(w, g);
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
        struct wire w = { 0 };
        int fd;

        seeds[i].write(&w);
        (void)snprintf(path, sizeof path, "%s/%s.onnx", argv[1], seeds[i].name);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (fd < 0 || !wire_write(&w, fd)) {
            perror(path);
            return 1;
        }
        (void)close(fd);
        wire_deinit(&w);
    }
    return argc == 2 ? 0 : 1;
}
