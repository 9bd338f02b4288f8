#include "client.h"
#include "inlay/types.h"
#include "model_writer.h"
#include "random.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cmocka_all.h"

static void save(const char *path, struct wire *wire)
{
    char draft[256];
    int fd;

    (void)snprintf(draft, sizeof draft, "%s.part", path);
    fd = open(draft, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0 && !wire->failed && wire_write(wire, fd));
    (void)close(fd);
    assert_int_equal(rename(draft, path), 0);
    wire_deinit(wire);
}

void write_doubling(const char *path, uint32_t times)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    char from[16] = "x", to[16];

    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "N,3");
    for (uint32_t i = 1; i <= times; i++) {
        char inputs[40];

        (void)snprintf(to, sizeof to, i == times ? "y" : "v%u", i);
        (void)snprintf(inputs, sizeof inputs, "%s,%s", from, from);
        mw_node(&wire, "Add", inputs, to);
        memcpy(from, to, sizeof from);
    }
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "N,3");
    wire_end(&wire, mark);
    save(path, &wire);
}

static void write_identity(const char *folder, const char *name, int dtype)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    char path[256];

    mw_value(&wire, MW_INPUT, "x", dtype, "N");
    mw_node(&wire, "Identity", "x", "y");
    mw_value(&wire, MW_OUTPUT, "y", dtype, "N");
    wire_end(&wire, mark);
    (void)snprintf(path, sizeof path, "%s/id_%s.onnx", folder, name);
    save(path, &wire);
}

static void write_pair(const char *folder)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    char path[256];

    mw_value(&wire, MW_INPUT, "a", INLAY_FLOAT, "N,2");
    mw_value(&wire, MW_INPUT, "b", INLAY_FLOAT, "N,2");
    mw_node(&wire, "Add", "a,b", "y");
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "N,2");
    wire_end(&wire, mark);
    (void)snprintf(path, sizeof path, "%s/pair.onnx", folder);
    save(path, &wire);
}

/* Adds a loop of n iterations from x to y, to make runs as long as needed. */
static void write_loop(struct wire *wire, const char *dims)
{
    wire_mark mark = mw_node_begin(wire, "Loop", "n,_,x", "y");
    mw_body body = mw_body_begin(wire, "body", "turn");

    mw_value(wire, MW_INPUT, "i", INLAY_INT64, "");
    mw_value(wire, MW_INPUT, "go", INLAY_BOOL, "");
    mw_value(wire, MW_INPUT, "v", INLAY_FLOAT, dims);
    mw_node(wire, "Identity", "go", "on");
    mw_node(wire, "Abs", "v", "r");
    mw_value(wire, MW_OUTPUT, "on", INLAY_BOOL, "");
    mw_value(wire, MW_OUTPUT, "r", INLAY_FLOAT, dims);
    mw_body_end(wire, body);
    wire_end(wire, mark);
}

static void write_spin(const char *folder)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    char path[256];

    mw_value(&wire, MW_INPUT, "n", INLAY_INT64, "");
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "4,4");
    write_loop(&wire, "4,4");
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "4,4");
    wire_end(&wire, mark);
    (void)snprintf(path, sizeof path, "%s/spin.onnx", folder);
    save(path, &wire);
}

void write_relu(const char *path, const char *name)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), n;

    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "2");
    n = mw_node_begin(&wire, "Relu", "x", name);
    wire_text(&wire, 3, name);
    wire_end(&wire, n);
    mw_value(&wire, MW_OUTPUT, name, INLAY_FLOAT, "2");
    wire_end(&wire, mark);
    save(path, &wire);
}

void write_one(const char *path, const char *op, const char *dims)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);

    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, dims);
    mw_node(&wire, op, "x", "y");
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, dims);
    wire_end(&wire, mark);
    save(path, &wire);
}

void write_sum_by(const char *path, const char *op)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);

    mw_value(&wire, MW_INPUT, "old", INLAY_FLOAT, "1");
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "1");
    mw_node(&wire, op, "old,x", "new");
    mw_node(&wire, "Identity", "new", "y");
    mw_value(&wire, MW_OUTPUT, "new", INLAY_FLOAT, "1");
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "1");
    wire_end(&wire, mark);
    save(path, &wire);
}

void write_sum(const char *path)
{
    write_sum_by(path, "Add");
}

void write_slow_sum(const char *path)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);

    mw_value(&wire, MW_INPUT, "n", INLAY_INT64, "");
    mw_value(&wire, MW_INPUT, "old", INLAY_FLOAT, "1");
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "1");
    write_loop(&wire, "1");
    mw_node(&wire, "Add", "old,y", "new");
    mw_node(&wire, "Identity", "new", "sum");
    mw_value(&wire, MW_OUTPUT, "new", INLAY_FLOAT, "1");
    mw_value(&wire, MW_OUTPUT, "sum", INLAY_FLOAT, "1");
    wire_end(&wire, mark);
    save(path, &wire);
}

/* Adds a constant of consecutive numbers from `first` on, of rank 1, or of rank 0 with one number. */
static void write_numbers(struct wire *wire, const char *name, int dtype, uint32_t rank, int64_t count, int64_t first)
{
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    mw_tensor_head(wire, name, dtype, rank, &count);
    for (int64_t i = 0; i < count; i++) {
        if (dtype == INLAY_FLOAT)
            wire_float(wire, 4, (float)(first + i));
        else
            wire_int(wire, 7, first + i);
    }
    wire_end(wire, mark);
}

const char *saying = "";

/* Element i is the token after i tokens. */
static void write_said(struct wire *wire, const char *name)
{
    enum { PROMPT = 40, COUNT = 400 };
    const int64_t count = COUNT;
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    mw_tensor_head(wire, name, INLAY_INT64, 1, &count);
    for (int64_t i = 0; i < COUNT; i++)
        wire_int(wire, 7, i < PROMPT ? '.' : i - PROMPT < (int64_t)strlen(saying) ? saying[i - PROMPT] : 'z');
    wire_end(wire, mark);
}

/* A decoder whose next token follows from the number of tokens: `next` makes it of `length`. */
static void write_speaker(const char *path, bool says)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), n, a;

    write_numbers(&wire, "one", INLAY_INT64, 1, 1, 1);
    write_numbers(&wire, "zero", INLAY_INT64, 1, 1, 0);
    if (says)
        write_said(&wire, "said");
    else
        write_numbers(&wire, "base", INLAY_INT64, 1, 1, 'A' - 1);
    write_numbers(&wire, "depth", INLAY_INT64, 0, 1, 128);
    write_numbers(&wire, "off_on", INLAY_FLOAT, 1, 2, 0);
    mw_value(&wire, MW_INPUT, "input_ids", INLAY_INT64, "1,S");
    mw_value(&wire, MW_INPUT, "old", INLAY_INT64, "1,P");
    n = mw_node_begin(&wire, "Concat", "old,input_ids", "new");
    a = wire_begin(&wire, 5);
    wire_text(&wire, 1, "axis");
    wire_int(&wire, 3, 1);
    wire_int(&wire, 20, 2);
    wire_end(&wire, a);
    wire_end(&wire, n);
    mw_node(&wire, "Shape", "new", "shape");
    mw_node(&wire, "Gather", "shape,one", "length");
    mw_node(&wire, says ? "Gather" : "Add", says ? "said,length" : "length,base", "next");
    mw_node(&wire, "OneHot", "next,depth,off_on", "hot");
    mw_node(&wire, "Unsqueeze", "hot,zero", "logits");
    mw_value(&wire, MW_OUTPUT, "logits", INLAY_FLOAT, "1,1,128");
    mw_value(&wire, MW_OUTPUT, "new", INLAY_INT64, "1,Q");
    wire_end(&wire, mark);
    save(path, &wire);
}

void write_counting(const char *path)
{
    write_speaker(path, false);
}

void write_saying(const char *path)
{
    write_speaker(path, true);
}

void write_repeating(const char *path, int64_t tokens)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), n, a;

    write_numbers(&wire, "back", INLAY_INT64, 1, 1, -tokens);
    write_numbers(&wire, "depth", INLAY_INT64, 0, 1, 128);
    write_numbers(&wire, "off_on", INLAY_FLOAT, 1, 2, 0);
    mw_value(&wire, MW_INPUT, "input_ids", INLAY_INT64, "1,S");
    mw_value(&wire, MW_INPUT, "old", INLAY_INT64, "1,P");
    for (int i = 0; i < 2; i++) { /* both have the axis 1 */
        n = mw_node_begin(&wire, i == 0 ? "Concat" : "Gather", i == 0 ? "old,input_ids" : "new,back",
                          i == 0 ? "new" : "next");
        a = wire_begin(&wire, 5);
        wire_text(&wire, 1, "axis");
        wire_int(&wire, 3, 1);
        wire_int(&wire, 20, 2);
        wire_end(&wire, a);
        wire_end(&wire, n);
    }
    mw_node(&wire, "OneHot", "next,depth,off_on", "logits");
    mw_value(&wire, MW_OUTPUT, "logits", INLAY_FLOAT, "1,1,128");
    mw_value(&wire, MW_OUTPUT, "new", INLAY_INT64, "1,Q");
    wire_end(&wire, mark);
    save(path, &wire);
}

void write_summing_decoder(const char *path)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);

    write_numbers(&wire, "one", INLAY_INT64, 1, 1, 1);
    write_numbers(&wire, "ninety", INLAY_INT64, 0, 1, 90);
    write_numbers(&wire, "base", INLAY_INT64, 0, 1, 33);
    write_numbers(&wire, "depth", INLAY_INT64, 0, 1, 128);
    write_numbers(&wire, "off_on", INLAY_FLOAT, 1, 2, 0);
    mw_value(&wire, MW_INPUT, "input_ids", INLAY_INT64, "1,S");
    mw_value(&wire, MW_INPUT, "old", INLAY_INT64, "1,1");
    mw_node(&wire, "ReduceSum", "input_ids,one", "sum");
    mw_node(&wire, "Add", "old,sum", "new");
    mw_node(&wire, "Mod", "new,ninety", "rest");
    mw_node(&wire, "Add", "rest,base", "next");
    mw_node(&wire, "OneHot", "next,depth,off_on", "logits");
    mw_value(&wire, MW_OUTPUT, "logits", INLAY_FLOAT, "1,1,128");
    mw_value(&wire, MW_OUTPUT, "new", INLAY_INT64, "1,1");
    wire_end(&wire, mark);
    save(path, &wire);
}

void write_masked(const char *path, bool masked)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);

    write_numbers(&wire, "one", INLAY_INT64, 1, 1, 1);
    write_numbers(&wire, "plus", INLAY_FLOAT, 1, 1, 1);
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "N,S");
    if (masked)
        mw_value(&wire, MW_INPUT, "mask", INLAY_FLOAT, "N,S");
    mw_node(&wire, masked ? "Mul" : "Add", masked ? "x,mask" : "x,plus", "hidden");
    mw_node(&wire, "ReduceSum", "hidden,one", "total");
    mw_value(&wire, MW_OUTPUT, "hidden", INLAY_FLOAT, "N,S");
    mw_value(&wire, MW_OUTPUT, "total", INLAY_FLOAT, "N,1");
    wire_end(&wire, mark);
    save(path, &wire);
}

void write_vectors(const char *path)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);

    write_numbers(&wire, "two", INLAY_INT64, 1, 1, 2);
    write_numbers(&wire, "depth", INLAY_INT64, 0, 1, 128);
    write_numbers(&wire, "off_on", INLAY_FLOAT, 1, 2, 0);
    mw_value(&wire, MW_INPUT, "input_ids", INLAY_INT64, "B,S");
    mw_value(&wire, MW_INPUT, "attention_mask", INLAY_INT64, "B,S");
    mw_node(&wire, "OneHot", "input_ids,depth,off_on", "hot");
    mw_node(&wire, "Unsqueeze", "attention_mask,two", "mask");
    mw_node(&wire, "CastLike", "mask,hot", "weight");
    mw_node(&wire, "Mul", "hot,weight", "last_hidden_state");
    mw_value(&wire, MW_OUTPUT, "last_hidden_state", INLAY_FLOAT, "B,S,128");
    wire_end(&wire, mark);
    save(path, &wire);
}

static void write_cast(struct wire *wire, const char *from, const char *to, int dtype)
{
    wire_mark mark = mw_node_begin(wire, "Cast", from, to), a = wire_begin(wire, 5);

    wire_text(wire, 1, "to");
    wire_int(wire, 3, dtype);
    wire_int(wire, 20, 2);
    wire_end(wire, a);
    wire_end(wire, mark);
}

void write_documented(const char *path)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);

    write_numbers(&wire, "zero", INLAY_INT64, 1, 1, 0);
    write_numbers(&wire, "one", INLAY_INT64, 1, 1, 1);
    mw_value(&wire, MW_INPUT, "input0", INLAY_UINT32, "2,2");
    mw_value(&wire, MW_INPUT, "input1", INLAY_BOOL, "3");
    write_cast(&wire, "input0", "floats", INLAY_FLOAT);
    write_cast(&wire, "input1", "flags", INLAY_FLOAT);
    mw_node(&wire, "ReduceSum", "floats,zero", "sums");
    mw_node(&wire, "Unsqueeze", "flags,one", "column");
    mw_node(&wire, "Mul", "column,sums", "output0");
    mw_value(&wire, MW_OUTPUT, "output0", INLAY_FLOAT, "3,2");
    wire_end(&wire, mark);
    save(path, &wire);
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

/* Adds a constant of random numbers, `scale` at most. */
static void write_random(struct wire *wire, const char *name, int64_t rows, int64_t columns, float scale,
                         uint64_t *seed)
{
    const int64_t dims[2] = { rows, columns };
    wire_mark mark = wire_begin(wire, MW_INITIALIZER), data;

    mw_tensor_head(wire, name, INLAY_FLOAT, 2, dims);
    data = wire_begin(wire, 9); /* raw_data; the CPUs of these tests are little-endian */
    for (int64_t i = 0; i < rows * columns; i++) {
        const float element = scale * random_signed(seed);

        wire_raw(wire, &element, sizeof element);
    }
    wire_end(wire, data);
    wire_end(wire, mark);
}

static void write_attr(struct wire *wire, const char *name, int64_t value)
{
    wire_mark mark = wire_begin(wire, 5);

    wire_text(wire, 1, name);
    wire_int(wire, 3, value);
    wire_int(wire, 20, 2);
    wire_end(wire, mark);
}

enum { WORDS = 128, WIDTH = 16, HEADS = 2, POSITIONS = 512 };

/* The attention of a decoder whose mask is the number of each row's tokens. */
static void write_counted_attention(struct wire *wire, uint64_t *seed)
{
    wire_mark node;

    write_random(wire, "cosines", POSITIONS, WIDTH / HEADS / 2, 1, seed);
    write_random(wire, "sines", POSITIONS, WIDTH / HEADS / 2, 1, seed);
    mw_node(wire, "ReduceSum", "attention_mask,one", "counts");
    mw_node(wire, "Sub", "counts,one", "others");
    write_cast(wire, "others", "lengths", INLAY_INT32);
    mw_node(wire, "Shape", "attention_mask", "shape");
    mw_node(wire, "Gather", "shape,one", "width");
    write_cast(wire, "width", "total", INLAY_INT32);
    node = mw_node_begin(wire, "GroupQueryAttention",
                         "q,k,v,past_key_values.0.key,past_key_values.0.value,lengths,total,cosines,sines",
                         "seen,present.0.key,present.0.value");
    wire_text(wire, 7, "com.microsoft");
    write_attr(wire, "num_heads", HEADS);
    write_attr(wire, "kv_num_heads", HEADS);
    write_attr(wire, "do_rotary", 1);
    wire_end(wire, node);
}

/* The attention of a decoder whose mask hides single tokens. */
static void write_masked_attention(struct wire *wire)
{
    wire_mark node;

    write_numbers(wire, "axes", INLAY_INT64, 1, 2, 1);
    mw_node(wire, "Unsqueeze", "attention_mask,axes", "wide_mask");
    write_cast(wire, "wide_mask", "visible", INLAY_BOOL);
    node = mw_node_begin(wire, "Attention", "q,k,v,visible,past_key_values.0.key,past_key_values.0.value",
                         "seen,present.0.key,present.0.value");
    write_attr(wire, "q_num_heads", HEADS);
    write_attr(wire, "kv_num_heads", HEADS);
    write_attr(wire, "is_causal", 1);
    wire_end(wire, node);
}

/* Matrices [WIDTH, WIDTH] that are added to weights of decoders; NULL: none. */
static const float *added_to_q, *added_to_v;

/* As write_random() with scale 1. */
static void write_sum_with(struct wire *wire, const char *name, const float *added, uint64_t *seed)
{
    const int64_t dims[2] = { WIDTH, WIDTH };
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    mw_tensor_head(wire, name, INLAY_FLOAT, 2, dims);
    for (int64_t i = 0; i < (int64_t)WIDTH * WIDTH; i++)
        wire_float(wire, 4, random_signed(seed) + (added != NULL ? added[i] : 0));
    wire_end(wire, mark);
}

static void write_decoder(const char *path, bool counted)
{
    struct wire wire = { 0 };
    uint64_t seed = 7;
    wire_mark mark;

    mw_opset(&wire, 8, "com.microsoft", 1);
    mark = mw_begin(&wire, 10, 23);
    write_numbers(&wire, "one", INLAY_INT64, 1, 1, 1);
    write_random(&wire, "words", WORDS, WIDTH, 1, &seed);
    write_random(&wire, "places", POSITIONS, WIDTH, 1, &seed);
    write_sum_with(&wire, "to_q", added_to_q, &seed);
    write_random(&wire, "to_k", WIDTH, WIDTH, 1, &seed);
    write_sum_with(&wire, "to_v", added_to_v, &seed);
    write_random(&wire, "to_words", WIDTH, WORDS, 1, &seed);
    mw_value(&wire, MW_INPUT, "input_ids", INLAY_INT64, "B,S");
    mw_value(&wire, MW_INPUT, "attention_mask", INLAY_INT64, "B,T");
    if (!counted)
        mw_value(&wire, MW_INPUT, "position_ids", INLAY_INT64, "B,S");
    mw_value(&wire, MW_INPUT, "past_key_values.0.key", INLAY_FLOAT, "B,2,P,8");
    mw_value(&wire, MW_INPUT, "past_key_values.0.value", INLAY_FLOAT, "B,2,P,8");
    mw_node(&wire, "Gather", "words,input_ids", "word");
    if (!counted)
        mw_node(&wire, "Gather", "places,position_ids", "place");
    mw_node(&wire, "Add", counted ? "word,word" : "word,place", "x");
    mw_node(&wire, "MatMul", "x,to_q", "q");
    mw_node(&wire, "MatMul", "x,to_k", "k");
    mw_node(&wire, "MatMul", "x,to_v", "v");
    if (counted)
        write_counted_attention(&wire, &seed);
    else
        write_masked_attention(&wire);
    mw_node(&wire, "Add", "x,seen", "both");
    mw_node(&wire, "MatMul", "both,to_words", "logits");
    mw_value(&wire, MW_OUTPUT, "logits", INLAY_FLOAT, "B,S,128");
    mw_value(&wire, MW_OUTPUT, "present.0.key", INLAY_FLOAT, "B,2,T,8");
    mw_value(&wire, MW_OUTPUT, "present.0.value", INLAY_FLOAT, "B,2,T,8");
    wire_end(&wire, mark);
    save(path, &wire);
}

void write_decoders_with(const float *to_q, const float *to_v)
{
    added_to_q = to_q;
    added_to_v = to_v;
}

void write_counted_decoder(const char *path)
{
    write_decoder(path, true);
}

void write_masked_decoder(const char *path)
{
    write_decoder(path, false);
}

/* A node with an attribute `axis`. */
static void write_along(struct wire *wire, const char *op, int64_t axis, const char *inputs, const char *output)
{
    wire_mark node = mw_node_begin(wire, op, inputs, output);

    write_attr(wire, "axis", axis);
    wire_end(wire, node);
}

/* Adds a constant [rows, columns] of zeros, but for `value` in each place that is a multiple of `every`. */
static void write_comb(struct wire *wire, const char *name, int64_t rows, int64_t columns, int64_t every, float value)
{
    const int64_t dims[2] = { rows, columns };
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    mw_tensor_head(wire, name, INLAY_FLOAT, 2, dims);
    for (int64_t i = 0; i < rows * columns; i++)
        wire_float(wire, 4, i % every == 0 ? value : 0);
    wire_end(wire, mark);
}

static const float LN2 = 0.69314718f;

/* `word`, rows of a table of codes of 8 bits, by a Gather of com.microsoft. */
static void write_coded_words(struct wire *wire, uint64_t *seed)
{
    const int64_t dims[2] = { WORDS, WIDTH };
    wire_mark mark = wire_begin(wire, MW_INITIALIZER), data;

    mw_tensor_head(wire, "codes", INLAY_UINT8, 2, dims);
    data = wire_begin(wire, 9);
    for (int i = 0; i < WORDS * WIDTH; i++)
        wire_raw(wire, &(uint8_t){ (uint8_t)(128 + 127 * random_signed(seed)) }, 1);
    wire_end(wire, data);
    wire_end(wire, mark);
    write_comb(wire, "code_scales", WORDS, 1, 1, 1 / 128.0f);
    mark = mw_node_begin(wire, "GatherBlockQuantized", "codes,input_ids,code_scales", "word");
    wire_text(wire, 7, "com.microsoft");
    write_attr(wire, "bits", 8);
    write_attr(wire, "block_size", WIDTH);
    write_attr(wire, "gather_axis", 0);
    write_attr(wire, "quantize_axis", 1);
    wire_end(wire, mark);
}

/* The weights that a decoder with hidden states and its heads share, and its inputs of tokens. embeds: the type of an
 * input of their embedding in place of the tokens; INLAY_UINT8: the table has codes; 0: it has floats. */
static void write_shared(struct wire *wire, const char *dims, int embeds)
{
    struct wire unwritten = { 0 };
    uint64_t seed = 9;

    write_random(embeds == 0 ? wire : &unwritten, "words", WORDS, WIDTH, 1, &seed);
    write_random(wire, "to_v", WIDTH, WIDTH, 1, &seed);
    write_random(wire, "to_words", WIDTH, WORDS, 1, &seed);
    wire_deinit(&unwritten);
    write_comb(wire, "ln2", 1, 1, 1, LN2);
    write_comb(wire, "unit", 1, 1, 1, 1);
    write_numbers(wire, "one", INLAY_INT64, 1, 1, 1);
    write_numbers(wire, "two", INLAY_INT64, 1, 1, 2);
    mw_value(wire, MW_INPUT, "position_ids", INLAY_INT64, dims);
    if (embeds == 0 || embeds == INLAY_UINT8) {
        mw_value(wire, MW_INPUT, "input_ids", INLAY_INT64, dims);
        if (embeds == 0)
            mw_node(wire, "Gather", "words,input_ids", "word");
        else
            write_coded_words(wire, &seed);
    } else {
        mw_value(wire, MW_INPUT, "inputs_embeds", embeds, "1,S,16");
        write_cast(wire, "inputs_embeds", "word", INLAY_FLOAT);
    }
    mw_node(wire, "Add", "word,word", "x");
    mw_node(wire, "MatMul", "x,to_v", "v");
}

/* Adds a sum of many zeros, so that a run takes longer than that of a head. */
static void write_delay(struct wire *wire, const char *from, const char *to)
{
    char inputs[64];

    write_numbers(wire, "many", INLAY_INT64, 1, 1, 100000);
    mw_node(wire, "ReduceMax", from, "most");
    mw_node(wire, "Reshape", "most,one", "single");
    mw_node(wire, "Expand", "single,many", "wide");
    mw_node(wire, "Sin", "wide", "sines");
    mw_node(wire, "ReduceSum", "sines", "delay");
    (void)snprintf(inputs, sizeof inputs, "%s,delay", from);
    mw_node(wire, "Add", inputs, to);
}

/* A decoder whose attention gives each token twice the weight of the token before: a query times a key is the key's
 * position. limiter: an operator between the hidden states and the logits; NULL: none. */
static void write_fading_decoder(const char *path, bool layers, int dtype, const char *limiter)
{
    const char *hidden = layers ? "hidden_states.7" : "hidden_states";
    struct wire wire = { 0 };
    wire_mark mark, node;

    mw_opset(&wire, 8, "com.microsoft", 1);
    mark = mw_begin(&wire, 10, 23);
    write_shared(&wire, "B,S", limiter != NULL ? INLAY_UINT8 : 0);
    mw_value(&wire, MW_INPUT, "attention_mask", INLAY_INT64, "B,T");
    mw_value(&wire, MW_INPUT, "past_key_values.0.key", INLAY_FLOAT, "B,2,P,8");
    mw_value(&wire, MW_INPUT, "past_key_values.0.value", INLAY_FLOAT, "B,2,P,8");
    write_comb(&wire, "to_k", 1, WIDTH, WIDTH / HEADS, 1);
    write_comb(&wire, "q_row", 1, WIDTH, WIDTH / HEADS, LN2 * 2.8284271f); /* the root of the size of a head */
    mw_node(&wire, "Unsqueeze", "position_ids,two", "place");
    write_cast(&wire, "place", "number", INLAY_FLOAT);
    mw_node(&wire, "MatMul", "number,to_k", "k");
    mw_node(&wire, "Sub", "x,x", "nothing");
    write_delay(&wire, "nothing", "still_nothing");
    mw_node(&wire, "Add", "still_nothing,q_row", "q");
    mw_node(&wire, "ReduceSum", "attention_mask,one", "counts");
    mw_node(&wire, "Sub", "counts,one", "others");
    write_cast(&wire, "others", "lengths", INLAY_INT32);
    mw_node(&wire, "Shape", "attention_mask", "shape");
    mw_node(&wire, "Gather", "shape,one", "width");
    write_cast(&wire, "width", "total", INLAY_INT32);
    node =
        mw_node_begin(&wire, "GroupQueryAttention", "q,k,v,past_key_values.0.key,past_key_values.0.value,lengths,total",
                      "seen,present.0.key,present.0.value");
    wire_text(&wire, 7, "com.microsoft");
    write_attr(&wire, "num_heads", HEADS);
    write_attr(&wire, "kv_num_heads", HEADS);
    wire_end(&wire, node);
    if (limiter == NULL) {
        mw_node(&wire, "Add", "x,seen", "both");
        mw_node(&wire, "MatMul", "both,to_words", "logits");
    } else {
        write_comb(&wire, "limit", 1, 1, 1, 30);
        mw_node(&wire, "MatMul", "seen,to_words", "product");
        mw_node(&wire, "Div", "product,limit", "part");
        mw_node(&wire, limiter, "part", "limited");
        mw_node(&wire, "Mul", "limited,limit", "logits");
    }
    mw_value(&wire, MW_OUTPUT, "logits", INLAY_FLOAT, "B,S,128");
    write_cast(&wire, "seen", hidden, dtype);
    mw_value(&wire, MW_OUTPUT, hidden, dtype, "B,S,16");
    if (layers) {
        mw_node(&wire, "Identity", "word", "hidden_states.0");
        mw_value(&wire, MW_OUTPUT, "hidden_states.0", INLAY_FLOAT, "B,S,16");
    }
    mw_value(&wire, MW_OUTPUT, "present.0.key", INLAY_FLOAT, "B,2,T,8");
    mw_value(&wire, MW_OUTPUT, "present.0.value", INLAY_FLOAT, "B,2,T,8");
    wire_end(&wire, mark);
    save(path, &wire);
}

void write_hidden_decoder(const char *path)
{
    write_fading_decoder(path, false, INLAY_FLOAT, NULL);
}

void write_half_decoder(const char *path)
{
    write_fading_decoder(path, false, INLAY_FLOAT16, NULL);
}

void write_layers_decoder(const char *path)
{
    write_fading_decoder(path, true, INLAY_FLOAT, NULL);
}

void write_limited_decoder(const char *path, const char *limiter)
{
    write_fading_decoder(path, false, INLAY_FLOAT16, limiter);
}

void write_tanh_decoder(const char *path)
{
    write_limited_decoder(path, "Tanh");
}

/* 1 - 2^-n of the numbers n, half the sum of the weights of n tokens. */
static void write_half_sum(struct wire *wire, const char *number, const char *output)
{
    char names[6][48];

    for (int i = 0; i < 3; i++)
        (void)snprintf(names[i], sizeof names[i], "%s.%d", output, i);
    (void)snprintf(names[3], sizeof names[3], "%s,ln2", names[0]);
    (void)snprintf(names[4], sizeof names[4], "unit,%s", names[2]);
    mw_node(wire, "Neg", number, names[0]);
    mw_node(wire, "Mul", names[3], names[1]);
    mw_node(wire, "Exp", names[1], names[2]);
    mw_node(wire, "Sub", names[4], output);
}

/* The beginning of a head: half_sum, of the tokens of each row, the last of which is the one that the row reads. */
static void write_head(struct wire *wire, const char *hidden, int dtype, const char *dims, int embeds)
{
    write_shared(wire, "1,S", embeds);
    mw_value(wire, MW_INPUT, hidden, dtype, dims);
    mw_node(wire, "Add", "position_ids,two", "counts");
    mw_node(wire, "Unsqueeze", "counts,two", "column");
    write_cast(wire, "column", "many", INLAY_FLOAT);
    write_half_sum(wire, "many", "half_sum");
}

static void write_stateless_head(const char *path, int dtype)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 10, 23);

    write_head(&wire, "hidden_states", dtype, "1,S,16", 0);
    write_cast(&wire, "hidden_states", "h", INLAY_FLOAT);
    mw_node(&wire, "Sub", "v,h", "more");
    mw_node(&wire, "Add", "half_sum,half_sum", "sum");
    mw_node(&wire, "Div", "more,sum", "part");
    mw_node(&wire, "Add", "h,part", "seen");
    write_cast(&wire, "seen", "last_hidden_state", dtype);
    mw_node(&wire, "Add", "x,seen", "both");
    mw_node(&wire, "MatMul", "both,to_words", "logits");
    mw_value(&wire, MW_OUTPUT, "logits", INLAY_FLOAT, "1,S,128");
    mw_value(&wire, MW_OUTPUT, "last_hidden_state", dtype, "1,S,16");
    wire_end(&wire, mark);
    save(path, &wire);
}

void write_mtp_head(const char *path)
{
    write_stateless_head(path, INLAY_FLOAT);
}

void write_half_head(const char *path)
{
    write_stateless_head(path, INLAY_FLOAT16);
}

/* `seen`, the mean of two ways to compute it: by the hidden state `h` of the row, and by the states. There, `h` of the
 * first row has the tokens before, and the values of the later tokens follow, the last ones those of the run. */
static void write_seen_of_states(struct wire *wire, const char *h)
{
    char inputs[64];

    write_numbers(wire, "zero", INLAY_INT64, 1, 1, 0);
    write_numbers(wire, "far", INLAY_INT64, 1, 1, INT64_MAX);
    write_numbers(wire, "along", INLAY_INT64, 0, 1, 1);
    write_comb(wire, "none", 1, 1, 2, 0);
    mw_value(wire, MW_INPUT, "attention_mask", INLAY_INT64, "1,T");
    mw_value(wire, MW_INPUT, "past_key_values.0.key", INLAY_FLOAT, "1,1,P,16");
    mw_value(wire, MW_INPUT, "past_key_values.0.value", INLAY_FLOAT, "1,1,P,16");
    (void)snprintf(inputs, sizeof inputs, "%s,one", h);
    mw_node(wire, "Unsqueeze", inputs, "new_key");
    mw_node(wire, "Unsqueeze", "v,one", "new_value");
    write_along(wire, "Concat", 2, "past_key_values.0.key,new_key", "present.0.key");
    write_along(wire, "Concat", 2, "past_key_values.0.value,new_value", "present.0.value");
    mw_node(wire, "CumSum", "attention_mask,along", "rows");
    write_cast(wire, "rows", "row", INLAY_FLOAT);
    mw_node(wire, "Shape", "position_ids", "shape");
    mw_node(wire, "Gather", "shape,one", "reads");
    mw_node(wire, "Neg", "reads", "from");
    mw_node(wire, "Slice", "row,from,far,one", "own");
    mw_node(wire, "Unsqueeze", "own,two", "own_row");
    mw_node(wire, "Unsqueeze", "row,one", "each_row");
    mw_node(wire, "Sub", "each_row,own_row", "distance");
    mw_node(wire, "Mul", "distance,ln2", "log");
    mw_node(wire, "Exp", "log", "weight");
    mw_node(wire, "Greater", "distance,none", "later");
    mw_node(wire, "Where", "later,none,weight", "weights");
    mw_node(wire, "Squeeze", "present.0.value,one", "values");
    mw_node(wire, "MatMul", "weights,values", "own_sum");
    mw_node(wire, "Slice", "present.0.key,zero,one,two", "first_key");
    mw_node(wire, "Squeeze", "first_key,one", "first");
    mw_node(wire, "ReduceMax", "counts,one", "count");
    mw_node(wire, "ReduceSum", "attention_mask,one", "length");
    mw_node(wire, "Sub", "count,length", "before"); /* tokens that the first hidden state has */
    mw_node(wire, "Unsqueeze", "before,two", "before_column");
    write_cast(wire, "before_column", "before_count", INLAY_FLOAT);
    write_half_sum(wire, "before_count", "before_half");
    mw_node(wire, "Neg", "own_row", "back");
    mw_node(wire, "Mul", "back,ln2", "back_log");
    mw_node(wire, "Exp", "back_log", "fading");
    mw_node(wire, "Mul", "first,before_half", "first_half");
    mw_node(wire, "Add", "first_half,first_half", "first_sum");
    mw_node(wire, "Mul", "first_sum,fading", "before_sum");
    mw_node(wire, "Add", "before_sum,own_sum", "sum");
    mw_node(wire, "Add", "half_sum,half_sum", "all");
    mw_node(wire, "Div", "sum,all", "by_states");
    (void)snprintf(inputs, sizeof inputs, "v,%s", h);
    mw_node(wire, "Sub", inputs, "more");
    mw_node(wire, "Div", "more,all", "part");
    (void)snprintf(inputs, sizeof inputs, "%s,part", h);
    mw_node(wire, "Add", inputs, "by_hidden");
    mw_node(wire, "Mean", "by_states,by_hidden", "seen");
    mw_node(wire, "Add", "x,seen", "both");
    mw_value(wire, MW_OUTPUT, "present.0.key", INLAY_FLOAT, "1,1,T,16");
    mw_value(wire, MW_OUTPUT, "present.0.value", INLAY_FLOAT, "1,1,T,16");
}

void write_eagle_head(const char *path)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 10, 23);

    write_head(&wire, "hidden_states", INLAY_FLOAT, "1,S,16", 0);
    write_seen_of_states(&wire, "hidden_states");
    mw_node(&wire, "Identity", "seen", "last_hidden_state");
    mw_node(&wire, "MatMul", "both,to_words", "logits");
    mw_value(&wire, MW_OUTPUT, "logits", INLAY_FLOAT, "1,S,128");
    mw_value(&wire, MW_OUTPUT, "last_hidden_state", INLAY_FLOAT, "1,S,16");
    wire_end(&wire, mark);
    save(path, &wire);
}

/* A head with the tokens from '!' on. It reads two layers of the model, and its own hidden state as another input. */
static void write_layers_head(const char *path, bool chain, bool table, bool shares)
{
    const char *base = shares ? "fused_hidden" : "hidden_states_from_base",
               *own = shares ? "recycled_hidden" : "hidden_states_from_draft",
               *logits = shares ? "draft_logits" : "logits", *next = shares ? "next_hidden" : "hidden_states";
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 10, 23);
    char inputs[80];

    write_head(&wire, base, INLAY_FLOAT, "1,S,32", shares ? INLAY_FLOAT : 0);
    write_numbers(&wire, "width", INLAY_INT64, 1, 1, WIDTH);
    write_numbers(&wire, "least", INLAY_INT64, 1, 1, '!');
    write_numbers(&wire, "most", INLAY_INT64, 1, 1, '~' + 1);
    write_numbers(&wire, "offset", INLAY_INT64, 1, 1, '!');
    write_numbers(&wire, "offsets", INLAY_INT64, 1, 1, '~' + 1 - '!');
    write_numbers(&wire, "end", INLAY_INT64, 1, 1, INT64_MAX);
    (void)snprintf(inputs, sizeof inputs, "%s,width,end,two", base);
    mw_node(&wire, "Slice", inputs, chain ? "of_base" : "h");
    if (chain) {
        mw_value(&wire, MW_INPUT, own, INLAY_FLOAT, "1,S,16");
        (void)snprintf(inputs, sizeof inputs, "of_base,%s", own);
        mw_node(&wire, "Add", inputs, "h");
    }
    write_seen_of_states(&wire, "h");
    mw_node(&wire, "Slice", "to_words,least,most,one", "to_tokens");
    mw_node(&wire, "MatMul", "both,to_tokens", "exact");
    write_cast(&wire, "exact", logits, shares ? INLAY_FLOAT16 : INLAY_FLOAT);
    mw_value(&wire, MW_OUTPUT, logits, shares ? INLAY_FLOAT16 : INLAY_FLOAT, "1,S,94");
    if (chain) {
        mw_node(&wire, "Identity", "seen", next);
        mw_value(&wire, MW_OUTPUT, next, INLAY_FLOAT, "1,S,16");
    }
    if (table) {
        mw_node(&wire, "Expand", "offset,offsets", "d2t");
        mw_value(&wire, MW_OUTPUT, "d2t", INLAY_INT64, "94");
    }
    wire_end(&wire, mark);
    save(path, &wire);
}

void write_eagle3_head(const char *path)
{
    write_layers_head(path, true, true, false);
}

void write_single_head(const char *path)
{
    write_layers_head(path, false, false, false);
}

void write_lookup_head(const char *path)
{
    write_layers_head(path, true, false, true);
}

void write_bare_head(const char *path, int64_t opset)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, opset);

    write_head(&wire, "hidden_states", INLAY_FLOAT16, "1,S,16", INLAY_FLOAT16);
    write_cast(&wire, "hidden_states", "h", INLAY_FLOAT);
    mw_node(&wire, "Sub", "v,h", "more");
    mw_node(&wire, "Add", "half_sum,half_sum", "sum");
    mw_node(&wire, "Div", "more,sum", "part");
    mw_node(&wire, "Add", "h,part", "seen");
    write_cast(&wire, "seen", "mtp_hidden", INLAY_FLOAT16);
    mw_value(&wire, MW_OUTPUT, "mtp_hidden", INLAY_FLOAT16, "1,S,16");
    wire_end(&wire, mark);
    save(path, &wire);
}

void write_shared_head(const char *path)
{
    write_bare_head(path, 17);
}

void write_wrong_head(const char *path, const char *input)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 10, 23);
    char inputs[80];

    mw_value(&wire, MW_INPUT, "input_ids", INLAY_INT64, "1,S");
    mw_value(&wire, MW_INPUT, "hidden_states", INLAY_FLOAT, "1,S,16");
    mw_value(&wire, MW_INPUT, input, INLAY_FLOAT, "1,S,16");
    (void)snprintf(inputs, sizeof inputs, "hidden_states,%s", input);
    mw_node(&wire, "Add", inputs, "logits");
    mw_value(&wire, MW_OUTPUT, "logits", INLAY_FLOAT, "1,S,16");
    wire_end(&wire, mark);
    save(path, &wire);
}
