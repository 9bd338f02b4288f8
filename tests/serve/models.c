#include "client.h"
#include "inlay/types.h"
#include "model_script.h"
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

/* Writes the model of a script, which is a format as of printf. */
__attribute__((format(printf, 2, 3))) static void write_script(const char *path, const char *format, ...)
{
    struct wire wire = { 0 };
    char script[1024];
    va_list args;

    va_start(args, format);
    assert_true((size_t)vsnprintf(script, sizeof script, format, args) < sizeof script);
    va_end(args);
    script_model(&wire, 17, script);
    save(path, &wire);
}

void write_relu(const char *path, const char *name)
{
    write_script(path, "x : 2\n%s = Relu(x) @%s\n-> %s : 2", name, name, name);
}

void write_one(const char *path, const char *op, const char *dims)
{
    write_script(path, "x : %s\ny = %s(x)\n-> y : %s", dims, op, dims);
}

void write_sum_by(const char *path, const char *op)
{
    write_script(path, "old : 1\nx : 1\nnew = %s(old,x)\ny = Identity(new)\n-> new, y : 1", op);
}

void write_sum(const char *path)
{
    write_sum_by(path, "Add");
}

/* A loop of n iterations from x to y, to make runs as long as needed. */
#define LOOP(dims)                                                                                                     \
    "y = Loop(n,_,x) body {\n"                                                                                         \
    "    i : int64 -\n"                                                                                                \
    "    go : bool -\n"                                                                                                \
    "    v : " dims "\n"                                                                                               \
    "    on = Identity(go)\n"                                                                                          \
    "    r = Abs(v)\n"                                                                                                 \
    "    -> on : bool -\n"                                                                                             \
    "    -> r : " dims "\n"                                                                                            \
    "}\n"

void write_slow_sum(const char *path)
{
    write_script(path, LOOP("1") "n : int64 -\n"
                                 "old : 1\n"
                                 "x : 1\n"
                                 "new = Add(old,y)\n"
                                 "sum = Identity(new)\n"
                                 "-> new, sum : 1");
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
    wire_mark mark = mw_begin(&wire, 8, 17);

    if (says)
        write_said(&wire, "said");
    script_add(&wire,
               "one = i[1] 1\n"
               "zero = i[1] 0\n"
               "base = i[1] %d\n"
               "depth = i[] 128\n"
               "off_on = [2] 0,1\n"
               "input_ids : int64 1,S\n"
               "old : int64 1,P\n"
               "new = Concat(old,input_ids) axis=1\n"
               "shape = Shape(new)\n"
               "length = Gather(shape,one)\n"
               "next = %s\n"
               "hot = OneHot(next,depth,off_on)\n"
               "logits = Unsqueeze(hot,zero)\n"
               "-> logits : 1,1,128\n"
               "-> new : int64 1,Q",
               'A' - 1, says ? "Gather(said,length)" : "Add(length,base)");
    wire_end(&wire, mark);
    save(path, &wire);
}

void write_counting(const char *path)
{
    write_speaker(path, false);
}

void write_rounding_decoder(const char *path)
{
    write_script(path, "back = i[1] -1\n"
                       "depth = i[] 128\n"
                       "off_on = [2] 0,1\n"
                       "input_ids : int64 1,S\n"
                       "past_key : int64 1,P\n"
                       "new = Concat(past_key,input_ids) axis=1\n"
                       "next = Gather(new,back) axis=1\n"
                       "hot = OneHot(next,depth,off_on)\n"
                       "codes, scale, zero = DynamicQuantizeLinear(hot)\n"
                       "logits = DequantizeLinear(codes,scale,zero)\n"
                       "-> logits : 1,1,128\n"
                       "-> new : int64 1,Q");
}

void write_saying(const char *path)
{
    write_speaker(path, true);
}

void write_repeating(const char *path, int64_t tokens)
{
    write_script(path,
                 "back = i[1] %d\n"
                 "depth = i[] 128\n"
                 "off_on = [2] 0,1\n"
                 "input_ids : int64 1,S\n"
                 "old : int64 1,P\n"
                 "new = Concat(old,input_ids) axis=1\n"
                 "next = Gather(new,back) axis=1\n"
                 "logits = OneHot(next,depth,off_on)\n"
                 "-> logits : 1,1,128\n"
                 "-> new : int64 1,Q",
                 (int)-tokens);
}

void write_summing_decoder(const char *path)
{
    write_script(path, "one = i[1] 1\n"
                       "ninety = i[] 90\n"
                       "base = i[] 33\n"
                       "depth = i[] 128\n"
                       "off_on = [2] 0,1\n"
                       "input_ids : int64 1,S\n"
                       "old : int64 1,1\n"
                       "sum = ReduceSum(input_ids,one)\n"
                       "new = Add(old,sum)\n"
                       "rest = Mod(new,ninety)\n"
                       "next = Add(rest,base)\n"
                       "logits = OneHot(next,depth,off_on)\n"
                       "-> logits : 1,1,128\n"
                       "-> new : int64 1,1");
}

void write_masked(const char *path, bool masked)
{
    write_script(path, masked ? "one = i[1] 1\n"
                                "x : N,S\n"
                                "mask : N,S\n"
                                "hidden = Mul(x,mask)\n"
                                "total = ReduceSum(hidden,one)\n"
                                "-> hidden : N,S\n"
                                "-> total : N,1"
                              : "one = i[1] 1\n"
                                "plus = [1] 1\n"
                                "x : N,S\n"
                                "hidden = Add(x,plus)\n"
                                "total = ReduceSum(hidden,one)\n"
                                "-> hidden : N,S\n"
                                "-> total : N,1");
}

void write_vectors(const char *path)
{
    write_script(path, "two = i[1] 2\n"
                       "depth = i[] 128\n"
                       "off_on = [2] 0,1\n"
                       "input_ids : int64 B,S\n"
                       "attention_mask : int64 B,S\n"
                       "hot = OneHot(input_ids,depth,off_on)\n"
                       "mask = Unsqueeze(attention_mask,two)\n"
                       "weight = CastLike(mask,hot)\n"
                       "last_hidden_state = Mul(hot,weight)\n"
                       "-> last_hidden_state : B,S,128");
}

void write_documented(const char *path)
{
    write_script(path, "zero = i[1] 0\n"
                       "one = i[1] 1\n"
                       "input0 : uint32 2,2\n"
                       "input1 : bool 3\n"
                       "floats = Cast(input0) to=float\n"
                       "flags = Cast(input1) to=float\n"
                       "sums = ReduceSum(floats,zero)\n"
                       "column = Unsqueeze(flags,one)\n"
                       "output0 = Mul(column,sums)\n"
                       "-> output0 : 3,2");
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
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/id_%s.onnx", folder, types[i].name);
        write_script(path, "x : %s N\ny = Identity(x)\n-> y : %s N", inlay_dtype_name(types[i].dtype),
                     inlay_dtype_name(types[i].dtype));
    }
    (void)snprintf(path, sizeof path, "%s/pair.onnx", folder);
    write_script(path, "a : N,2\nb : N,2\ny = Add(a,b)\n-> y : N,2");
    (void)snprintf(path, sizeof path, "%s/spin.onnx", folder);
    write_script(path, LOOP("4,4") "n : int64 -\nx : 4,4\n-> y : 4,4");
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

enum { WORDS = 128, WIDTH = 16, HEADS = 2, POSITIONS = 512 };

/* The attention of a decoder whose mask is the number of each row's tokens. */
static void write_counted_attention(struct wire *wire, uint64_t *seed)
{
    write_random(wire, "cosines", POSITIONS, WIDTH / HEADS / 2, 1, seed);
    write_random(wire, "sines", POSITIONS, WIDTH / HEADS / 2, 1, seed);
    script_add(wire,
               "counts = ReduceSum(attention_mask,one)\n"
               "others = Sub(counts,one)\n"
               "lengths = Cast(others) to=int32\n"
               "shape = Shape(attention_mask)\n"
               "width = Gather(shape,one)\n"
               "total = Cast(width) to=int32\n"
               "seen,present.0.key,present.0.value = ms.GroupQueryAttention(q,k,v,past_key_values.0.key,"
               "past_key_values.0.value,lengths,total,cosines,sines) num_heads=%d kv_num_heads=%d do_rotary=1",
               HEADS, HEADS);
}

/* The attention of a decoder whose mask hides single tokens. */
static void write_masked_attention(struct wire *wire)
{
    script_add(
        wire,
        "axes = i[2] 1,2\n"
        "wide_mask = Unsqueeze(attention_mask,axes)\n"
        "visible = Cast(wide_mask) to=bool\n"
        "seen,present.0.key,present.0.value = Attention(q,k,v,visible,past_key_values.0.key,past_key_values.0.value)"
        " q_num_heads=%d kv_num_heads=%d is_causal=1",
        HEADS, HEADS);
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
    write_random(&wire, "words", WORDS, WIDTH, 1, &seed);
    write_random(&wire, "places", POSITIONS, WIDTH, 1, &seed);
    write_sum_with(&wire, "to_q", added_to_q, &seed);
    write_random(&wire, "to_k", WIDTH, WIDTH, 1, &seed);
    write_sum_with(&wire, "to_v", added_to_v, &seed);
    write_random(&wire, "to_words", WIDTH, WORDS, 1, &seed);
    script_add(&wire,
               "one = i[1] 1\n"
               "input_ids : int64 B,S\n"
               "attention_mask : int64 B,T\n"
               "%s"
               "past_key_values.0.key : B,2,P,8\n"
               "past_key_values.0.value : B,2,P,8\n"
               "word = Gather(words,input_ids)\n"
               "%s\n"
               "q = MatMul(x,to_q)\n"
               "k = MatMul(x,to_k)\n"
               "v = MatMul(x,to_v)",
               counted ? "" : "position_ids : int64 B,S\n",
               counted ? "x = Add(word,word)" : "place = Gather(places,position_ids)\nx = Add(word,place)");
    if (counted)
        write_counted_attention(&wire, &seed);
    else
        write_masked_attention(&wire);
    script_add(&wire, "both = Add(x,seen)\n"
                      "logits = MatMul(both,to_words)\n"
                      "-> logits : B,S,128\n"
                      "-> present.0.key, present.0.value : B,2,T,8");
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
    script_add(wire,
               "word = ms.GatherBlockQuantized(codes,input_ids,code_scales) bits=8 block_size=%d gather_axis=0 "
               "quantize_axis=1",
               WIDTH);
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
    script_add(wire,
               "ln2 = [1,1] %.9g\n"
               "unit = [1,1] 1\n"
               "one = i[1] 1\n"
               "two = i[1] 2\n"
               "position_ids : int64 %s",
               (double)LN2, dims);
    if (embeds == 0 || embeds == INLAY_UINT8)
        script_add(wire, "input_ids : int64 %s", dims);
    if (embeds == 0)
        script_add(wire, "word = Gather(words,input_ids)");
    else if (embeds == INLAY_UINT8)
        write_coded_words(wire, &seed);
    else
        script_add(wire, "inputs_embeds : %s 1,S,16\nword = Cast(inputs_embeds) to=float", inlay_dtype_name(embeds));
    script_add(wire, "x = Add(word,word)\nv = MatMul(x,to_v)");
}

/* A decoder whose attention gives each token twice the weight of the token before: a query times a key is the key's
 * position. limiter: an operator between the hidden states and the logits; NULL: none. */
static void write_fading_decoder(const char *path, bool layers, int dtype, const char *limiter)
{
    const char *hidden = layers ? "hidden_states.7" : "hidden_states";
    struct wire wire = { 0 };
    wire_mark mark;

    mw_opset(&wire, 8, "com.microsoft", 1);
    mark = mw_begin(&wire, 10, 23);
    write_shared(&wire, "B,S", limiter != NULL ? INLAY_UINT8 : 0);
    write_comb(&wire, "to_k", 1, WIDTH, WIDTH / HEADS, 1);
    write_comb(&wire, "q_row", 1, WIDTH, WIDTH / HEADS, LN2 * 2.8284271f); /* the root of the size of a head */
    script_add(&wire,
               "attention_mask : int64 B,T\n"
               "past_key_values.0.key : B,2,P,8\n"
               "past_key_values.0.value : B,2,P,8\n"
               "place = Unsqueeze(position_ids,two)\n"
               "number = Cast(place) to=float\n"
               "k = MatMul(number,to_k)\n"
               "nothing = Sub(x,x)\n"
               "many = i[1] 100000\n" /* a sum of many zeros, so that a run takes longer than that of a head */
               "most = ReduceMax(nothing)\n"
               "single = Reshape(most,one)\n"
               "wide = Expand(single,many)\n"
               "sines = Sin(wide)\n"
               "delay = ReduceSum(sines)\n"
               "still_nothing = Add(nothing,delay)\n"
               "q = Add(still_nothing,q_row)\n"
               "counts = ReduceSum(attention_mask,one)\n"
               "others = Sub(counts,one)\n"
               "lengths = Cast(others) to=int32\n"
               "shape = Shape(attention_mask)\n"
               "width = Gather(shape,one)\n"
               "total = Cast(width) to=int32\n"
               "seen,present.0.key,present.0.value = ms.GroupQueryAttention(q,k,v,past_key_values.0.key,"
               "past_key_values.0.value,lengths,total) num_heads=%d kv_num_heads=%d",
               HEADS, HEADS);
    if (limiter == NULL)
        script_add(&wire, "both = Add(x,seen)\nlogits = MatMul(both,to_words)");
    else
        script_add(&wire,
                   "limit = [1,1] 30\n"
                   "product = MatMul(seen,to_words)\n"
                   "part = Div(product,limit)\n"
                   "limited = %s(part)\n"
                   "logits = Mul(limited,limit)",
                   limiter);
    script_add(&wire, "-> logits : B,S,128\n%s = Cast(seen) to=%s\n-> %s : %s B,S,16", hidden, inlay_dtype_name(dtype),
               hidden, inlay_dtype_name(dtype));
    if (layers)
        script_add(&wire, "hidden_states.0 = Identity(word)\n-> hidden_states.0 : B,S,16");
    script_add(&wire, "-> present.0.key, present.0.value : B,2,T,8");
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
    script_add(wire,
               "%s.0 = Neg(%s)\n"
               "%s.1 = Mul(%s.0,ln2)\n"
               "%s.2 = Exp(%s.1)\n"
               "%s = Sub(unit,%s.2)",
               output, number, output, output, output, output, output, output);
}

/* The beginning of a head: half_sum, of the tokens of each row, the last of which is the one that the row reads. */
static void write_head(struct wire *wire, const char *hidden, int dtype, const char *dims, int embeds)
{
    write_shared(wire, "1,S", embeds);
    script_add(wire,
               "%s : %s %s\n"
               "counts = Add(position_ids,two)\n"
               "column = Unsqueeze(counts,two)\n"
               "many = Cast(column) to=float",
               hidden, inlay_dtype_name(dtype), dims);
    write_half_sum(wire, "many", "half_sum");
}

/* `output`, the hidden state of a head without states, and `seen`, the same in float. */
static void write_stateless(struct wire *wire, const char *output, int dtype)
{
    script_add(wire,
               "h = Cast(hidden_states) to=float\n"
               "more = Sub(v,h)\n"
               "sum = Add(half_sum,half_sum)\n"
               "part = Div(more,sum)\n"
               "seen = Add(h,part)\n"
               "%s = Cast(seen) to=%s",
               output, inlay_dtype_name(dtype));
}

static void write_stateless_head(const char *path, int dtype)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 10, 23);

    write_head(&wire, "hidden_states", dtype, "1,S,16", 0);
    write_stateless(&wire, "last_hidden_state", dtype);
    script_add(&wire,
               "both = Add(x,seen)\n"
               "logits = MatMul(both,to_words)\n"
               "-> logits : 1,S,128\n"
               "-> last_hidden_state : %s 1,S,16",
               inlay_dtype_name(dtype));
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

/* `seen`, the mean of two ways to compute it: by the hidden state `h` of the row, and by the states. By the states: `h`
 * of the first row stands for the tokens before it, the values of the later tokens follow, and the last of these are
 * the tokens of the run. */
static void write_seen_of_states(struct wire *wire, const char *h)
{
    script_add(wire,
               "zero = i[1] 0\n"
               "far = i[1] 9223372036854775807\n"
               "along = i[] 1\n"
               "none = [1,1] 0\n"
               "attention_mask : int64 1,T\n"
               "past_key_values.0.key : 1,1,P,16\n"
               "past_key_values.0.value : 1,1,P,16\n"
               "new_key = Unsqueeze(%s,one)\n"
               "new_value = Unsqueeze(v,one)\n"
               "present.0.key = Concat(past_key_values.0.key,new_key) axis=2\n"
               "present.0.value = Concat(past_key_values.0.value,new_value) axis=2\n"
               "rows = CumSum(attention_mask,along)\n"
               "row = Cast(rows) to=float\n"
               "shape = Shape(position_ids)\n"
               "reads = Gather(shape,one)\n"
               "from = Neg(reads)\n"
               "own = Slice(row,from,far,one)\n"
               "own_row = Unsqueeze(own,two)\n"
               "each_row = Unsqueeze(row,one)\n"
               "distance = Sub(each_row,own_row)\n"
               "log = Mul(distance,ln2)\n"
               "weight = Exp(log)\n"
               "later = Greater(distance,none)\n"
               "weights = Where(later,none,weight)\n"
               "values = Squeeze(present.0.value,one)\n"
               "own_sum = MatMul(weights,values)\n"
               "first_key = Slice(present.0.key,zero,one,two)\n"
               "first = Squeeze(first_key,one)\n"
               "count = ReduceMax(counts,one)\n"
               "length = ReduceSum(attention_mask,one)\n"
               "before = Sub(count,length)\n" /* tokens that the first hidden state has */
               "before_column = Unsqueeze(before,two)\n"
               "before_count = Cast(before_column) to=float",
               h);
    write_half_sum(wire, "before_count", "before_half");
    script_add(wire,
               "back = Neg(own_row)\n"
               "back_log = Mul(back,ln2)\n"
               "fading = Exp(back_log)\n"
               "first_half = Mul(first,before_half)\n"
               "first_sum = Add(first_half,first_half)\n"
               "before_sum = Mul(first_sum,fading)\n"
               "sum = Add(before_sum,own_sum)\n"
               "all = Add(half_sum,half_sum)\n"
               "by_states = Div(sum,all)\n"
               "more = Sub(v,%s)\n"
               "part = Div(more,all)\n"
               "by_hidden = Add(%s,part)\n"
               "seen = Mean(by_states,by_hidden)\n"
               "both = Add(x,seen)\n"
               "-> present.0.key, present.0.value : 1,1,T,16",
               h, h);
}

void write_eagle_head(const char *path)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 10, 23);

    write_head(&wire, "hidden_states", INLAY_FLOAT, "1,S,16", 0);
    write_seen_of_states(&wire, "hidden_states");
    script_add(&wire, "last_hidden_state = Identity(seen)\n"
                      "logits = MatMul(both,to_words)\n"
                      "-> logits : 1,S,128\n"
                      "-> last_hidden_state : 1,S,16");
    wire_end(&wire, mark);
    save(path, &wire);
}

/* A head with the tokens from '!' on. It reads two layers of the model, and its own hidden state as another input. */
static void write_layers_head(const char *path, bool chain, bool table, bool shares)
{
    const char *base = shares ? "fused_hidden" : "hidden_states_from_base",
               *own = shares ? "recycled_hidden" : "hidden_states_from_draft",
               *logits = shares ? "draft_logits" : "logits", *next = shares ? "next_hidden" : "hidden_states",
               *logits_type = shares ? "float16" : "float";
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 10, 23);

    write_head(&wire, base, INLAY_FLOAT, "1,S,32", shares ? INLAY_FLOAT : 0);
    script_add(&wire,
               "width = i[1] %d\n"
               "least = i[1] %d\n"
               "most = i[1] %d\n"
               "end = i[1] 9223372036854775807\n"
               "%s = Slice(%s,width,end,two)",
               WIDTH, '!', '~' + 1, chain ? "of_base" : "h", base);
    if (chain)
        script_add(&wire, "%s : 1,S,16\nh = Add(of_base,%s)", own, own);
    write_seen_of_states(&wire, "h");
    script_add(&wire,
               "to_tokens = Slice(to_words,least,most,one)\n"
               "exact = MatMul(both,to_tokens)\n"
               "%s = Cast(exact) to=%s\n"
               "-> %s : %s 1,S,94",
               logits, logits_type, logits, logits_type);
    if (chain)
        script_add(&wire, "%s = Identity(seen)\n-> %s : 1,S,16", next, next);
    if (table)
        script_add(&wire, "offset = i[1] %d\noffsets = i[1] 94\nd2t = Expand(offset,offsets)\n-> d2t : int64 94", '!');
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
    write_stateless(&wire, "mtp_hidden", INLAY_FLOAT16);
    script_add(&wire, "-> mtp_hidden : float16 1,S,16");
    wire_end(&wire, mark);
    save(path, &wire);
}

void write_shared_head(const char *path)
{
    write_bare_head(path, 17);
}

void write_wrong_head(const char *path, const char *input)
{
    write_script(path,
                 "input_ids : int64 1,S\n"
                 "hidden_states : 1,S,16\n"
                 "%s : 1,S,16\n"
                 "logits = Add(hidden_states,%s)\n"
                 "-> logits : 1,S,16",
                 input, input);
}
