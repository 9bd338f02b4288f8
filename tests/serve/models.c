#include "client.h"
#include "inlay/types.h"
#include "model_writer.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cmocka_all.h"

static void save(const char *path, struct wire *w)
{
    char draft[256];
    int fd;

    (void)snprintf(draft, sizeof draft, "%s.part", path);
    fd = open(draft, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0 && !w->failed && wire_write(w, fd));
    (void)close(fd);
    assert_int_equal(rename(draft, path), 0);
    wire_deinit(w);
}

void write_doubling(const char *path, uint32_t times)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17);
    char from[16] = "x", to[16];

    mw_value(&w, MW_INPUT, "x", INLAY_FLOAT, "N,3");
    for (uint32_t i = 1; i <= times; i++) {
        char inputs[40];

        (void)snprintf(to, sizeof to, i == times ? "y" : "v%u", i);
        (void)snprintf(inputs, sizeof inputs, "%s,%s", from, from);
        mw_node(&w, "Add", inputs, to);
        memcpy(from, to, sizeof from);
    }
    mw_value(&w, MW_OUTPUT, "y", INLAY_FLOAT, "N,3");
    wire_end(&w, g);
    save(path, &w);
}

static void write_identity(const char *folder, const char *name, int dtype)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17);
    char path[256];

    mw_value(&w, MW_INPUT, "x", dtype, "N");
    mw_node(&w, "Identity", "x", "y");
    mw_value(&w, MW_OUTPUT, "y", dtype, "N");
    wire_end(&w, g);
    (void)snprintf(path, sizeof path, "%s/id_%s.onnx", folder, name);
    save(path, &w);
}

static void write_pair(const char *folder)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17);
    char path[256];

    mw_value(&w, MW_INPUT, "a", INLAY_FLOAT, "N,2");
    mw_value(&w, MW_INPUT, "b", INLAY_FLOAT, "N,2");
    mw_node(&w, "Add", "a,b", "y");
    mw_value(&w, MW_OUTPUT, "y", INLAY_FLOAT, "N,2");
    wire_end(&w, g);
    (void)snprintf(path, sizeof path, "%s/pair.onnx", folder);
    save(path, &w);
}

/* n turns of a loop from x to y, as long as a test wants it to be. */
static void write_loop(struct wire *w, const char *dims)
{
    wire_mark n = mw_node_begin(w, "Loop", "n,_,x", "y");
    mw_body body = mw_body_begin(w, "body", "turn");

    mw_value(w, MW_INPUT, "i", INLAY_INT64, "");
    mw_value(w, MW_INPUT, "go", INLAY_BOOL, "");
    mw_value(w, MW_INPUT, "v", INLAY_FLOAT, dims);
    mw_node(w, "Identity", "go", "on");
    mw_node(w, "Abs", "v", "r");
    mw_value(w, MW_OUTPUT, "on", INLAY_BOOL, "");
    mw_value(w, MW_OUTPUT, "r", INLAY_FLOAT, dims);
    mw_body_end(w, body);
    wire_end(w, n);
}

static void write_spin(const char *folder)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17);
    char path[256];

    mw_value(&w, MW_INPUT, "n", INLAY_INT64, "");
    mw_value(&w, MW_INPUT, "x", INLAY_FLOAT, "4,4");
    write_loop(&w, "4,4");
    mw_value(&w, MW_OUTPUT, "y", INLAY_FLOAT, "4,4");
    wire_end(&w, g);
    (void)snprintf(path, sizeof path, "%s/spin.onnx", folder);
    save(path, &w);
}

void write_relu(const char *path, const char *name)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17), n;

    mw_value(&w, MW_INPUT, "x", INLAY_FLOAT, "2");
    n = mw_node_begin(&w, "Relu", "x", name);
    wire_text(&w, 3, name);
    wire_end(&w, n);
    mw_value(&w, MW_OUTPUT, name, INLAY_FLOAT, "2");
    wire_end(&w, g);
    save(path, &w);
}

void write_one(const char *path, const char *op)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17);

    mw_value(&w, MW_INPUT, "x", INLAY_FLOAT, "7");
    mw_node(&w, op, "x", "y");
    mw_value(&w, MW_OUTPUT, "y", INLAY_FLOAT, "7");
    wire_end(&w, g);
    save(path, &w);
}

void write_sum_by(const char *path, const char *op)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17);

    mw_value(&w, MW_INPUT, "old", INLAY_FLOAT, "1");
    mw_value(&w, MW_INPUT, "x", INLAY_FLOAT, "1");
    mw_node(&w, op, "old,x", "new");
    mw_node(&w, "Identity", "new", "y");
    mw_value(&w, MW_OUTPUT, "new", INLAY_FLOAT, "1");
    mw_value(&w, MW_OUTPUT, "y", INLAY_FLOAT, "1");
    wire_end(&w, g);
    save(path, &w);
}

void write_sum(const char *path)
{
    write_sum_by(path, "Add");
}

void write_slow_sum(const char *path)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17);

    mw_value(&w, MW_INPUT, "n", INLAY_INT64, "");
    mw_value(&w, MW_INPUT, "old", INLAY_FLOAT, "1");
    mw_value(&w, MW_INPUT, "x", INLAY_FLOAT, "1");
    write_loop(&w, "1");
    mw_node(&w, "Add", "old,y", "new");
    mw_node(&w, "Identity", "new", "sum");
    mw_value(&w, MW_OUTPUT, "new", INLAY_FLOAT, "1");
    mw_value(&w, MW_OUTPUT, "sum", INLAY_FLOAT, "1");
    wire_end(&w, g);
    save(path, &w);
}

/* Of rank 0 with one number, or of rank 1. */
static void write_numbers(struct wire *w, const char *name, int dtype, uint32_t rank, int64_t count, int64_t first)
{
    wire_mark t = wire_begin(w, MW_INITIALIZER);

    mw_tensor_head(w, name, dtype, rank, &count);
    for (int64_t i = 0; i < count; i++) {
        if (dtype == INLAY_FLOAT)
            wire_float(w, 4, (float)(first + i));
        else
            wire_int(w, 7, first + i);
    }
    wire_end(w, t);
}

void write_counting(const char *path)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17), n, a;

    write_numbers(&w, "one", INLAY_INT64, 1, 1, 1);
    write_numbers(&w, "zero", INLAY_INT64, 1, 1, 0);
    write_numbers(&w, "base", INLAY_INT64, 1, 1, 'A' - 1);
    write_numbers(&w, "depth", INLAY_INT64, 0, 1, 128);
    write_numbers(&w, "off_on", INLAY_FLOAT, 1, 2, 0);
    mw_value(&w, MW_INPUT, "input_ids", INLAY_INT64, "1,S");
    mw_value(&w, MW_INPUT, "old", INLAY_INT64, "1,P");
    n = mw_node_begin(&w, "Concat", "old,input_ids", "new");
    a = wire_begin(&w, 5);
    wire_text(&w, 1, "axis");
    wire_int(&w, 3, 1);
    wire_int(&w, 20, 2);
    wire_end(&w, a);
    wire_end(&w, n);
    mw_node(&w, "Shape", "new", "shape");
    mw_node(&w, "Gather", "shape,one", "length");
    mw_node(&w, "Add", "length,base", "next");
    mw_node(&w, "OneHot", "next,depth,off_on", "hot");
    mw_node(&w, "Unsqueeze", "hot,zero", "logits");
    mw_value(&w, MW_OUTPUT, "logits", INLAY_FLOAT, "1,1,128");
    mw_value(&w, MW_OUTPUT, "new", INLAY_INT64, "1,Q");
    wire_end(&w, g);
    save(path, &w);
}

void write_masked(const char *path, bool masked)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17);

    write_numbers(&w, "one", INLAY_INT64, 1, 1, 1);
    write_numbers(&w, "plus", INLAY_FLOAT, 1, 1, 1);
    mw_value(&w, MW_INPUT, "x", INLAY_FLOAT, "N,S");
    if (masked)
        mw_value(&w, MW_INPUT, "mask", INLAY_FLOAT, "N,S");
    mw_node(&w, masked ? "Mul" : "Add", masked ? "x,mask" : "x,plus", "hidden");
    mw_node(&w, "ReduceSum", "hidden,one", "total");
    mw_value(&w, MW_OUTPUT, "hidden", INLAY_FLOAT, "N,S");
    mw_value(&w, MW_OUTPUT, "total", INLAY_FLOAT, "N,1");
    wire_end(&w, g);
    save(path, &w);
}

void write_vectors(const char *path)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17);

    write_numbers(&w, "two", INLAY_INT64, 1, 1, 2);
    write_numbers(&w, "depth", INLAY_INT64, 0, 1, 128);
    write_numbers(&w, "off_on", INLAY_FLOAT, 1, 2, 0);
    mw_value(&w, MW_INPUT, "input_ids", INLAY_INT64, "B,S");
    mw_value(&w, MW_INPUT, "attention_mask", INLAY_INT64, "B,S");
    mw_node(&w, "OneHot", "input_ids,depth,off_on", "hot");
    mw_node(&w, "Unsqueeze", "attention_mask,two", "mask");
    mw_node(&w, "CastLike", "mask,hot", "weight");
    mw_node(&w, "Mul", "hot,weight", "last_hidden_state");
    mw_value(&w, MW_OUTPUT, "last_hidden_state", INLAY_FLOAT, "B,S,128");
    wire_end(&w, g);
    save(path, &w);
}

static void write_cast(struct wire *w, const char *from, const char *to, int dtype)
{
    wire_mark n = mw_node_begin(w, "Cast", from, to), a = wire_begin(w, 5);

    wire_text(w, 1, "to");
    wire_int(w, 3, dtype);
    wire_int(w, 20, 2);
    wire_end(w, a);
    wire_end(w, n);
}

void write_documented(const char *path)
{
    struct wire w = { 0 };
    wire_mark g = mw_begin(&w, 8, 17);

    write_numbers(&w, "zero", INLAY_INT64, 1, 1, 0);
    write_numbers(&w, "one", INLAY_INT64, 1, 1, 1);
    mw_value(&w, MW_INPUT, "input0", INLAY_UINT32, "2,2");
    mw_value(&w, MW_INPUT, "input1", INLAY_BOOL, "3");
    write_cast(&w, "input0", "floats", INLAY_FLOAT);
    write_cast(&w, "input1", "flags", INLAY_FLOAT);
    mw_node(&w, "ReduceSum", "floats,zero", "sums");
    mw_node(&w, "Unsqueeze", "flags,one", "column");
    mw_node(&w, "Mul", "column,sums", "output0");
    mw_value(&w, MW_OUTPUT, "output0", INLAY_FLOAT, "3,2");
    wire_end(&w, g);
    save(path, &w);
}

void write_models(const char *folder)
{
    static const struct {
        const char *name;
        int dtype;
    } types[] = { { "BOOL", INLAY_BOOL },     { "UINT8", INLAY_UINT8 },   { "UINT16", INLAY_UINT16 },
                  { "UINT32", INLAY_UINT32 }, { "UINT64", INLAY_UINT64 }, { "INT8", INLAY_INT8 },
                  { "INT16", INLAY_INT16 },   { "INT32", INLAY_INT32 },   { "INT64", INLAY_INT64 },
                  { "FP16", INLAY_FLOAT16 },  { "FP32", INLAY_FLOAT },    { "FP64", INLAY_DOUBLE },
                  { "BF16", INLAY_BFLOAT16 }, { "BYTES", INLAY_STRING } };
    static const char *const folders[] = { "", "/triple", "/triple/1", "/triple/2" };
    char path[256];

    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%s", folder, folders[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        write_identity(folder, types[i].name, types[i].dtype);
    write_pair(folder);
    write_spin(folder);
    (void)snprintf(path, sizeof path, "%s/twice.onnx", folder);
    write_doubling(path, 1);
    for (uint32_t v = 1; v <= 2; v++) {
        (void)snprintf(path, sizeof path, "%s/triple/%u/model.onnx", folder, v);
        write_doubling(path, v);
    }
}
