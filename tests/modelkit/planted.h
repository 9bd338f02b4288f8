/* planted.h - models with one fault each, as exporters write them, for the tests of inlay doctor. */
#ifndef PLANTED_H
#define PLANTED_H
#include "graph_script.h"
#include <math.h>

/* Writes a TensorProto with these bytes as raw_data into `field` of the current message. */
static inline void plant_raw(struct wire *wire, uint32_t field, const char *name, int dtype, const char *dims,
                             const void *data, size_t bytes)
{
    wire_mark mark = wire_begin(wire, field);
    int64_t sizes[INLAY_MAX_RANK];
    const uint32_t rank = mw_dims(dims, sizes);

    mw_tensor_head(wire, name, dtype, rank, sizes);
    wire_bytes(wire, 9, data, bytes);
    wire_end(wire, mark);
}

/* Writes an initializer whose element i is (i % 13 - 6.5) * scale, so that its channels differ. */
static inline void plant_floats(struct wire *wire, const char *name, const char *dims, float scale)
{
    static float data[1 << 16];
    int64_t sizes[INLAY_MAX_RANK], count = 1;
    const uint32_t rank = mw_dims(dims, sizes);

    for (uint32_t i = 0; i < rank; i++)
        count *= sizes[i];
    for (int64_t i = 0; i < count; i++)
        data[i] = ((float)(i % 13) - 6.5F) * scale;
    plant_raw(wire, MW_INITIALIZER, name, INLAY_FLOAT, dims, data, (size_t)count * sizeof *data);
}

static inline wire_mark plant_begin(struct wire *wire, const char *in, int64_t opset)
{
    const wire_mark mark = mw_begin(wire, 8, opset);

    mw_value(wire, MW_INPUT, "x", INLAY_FLOAT, in);
    return mark;
}

static inline void plant_end(struct wire *wire, wire_mark mark, const char *out)
{
    mw_value(wire, MW_OUTPUT, "y", INLAY_FLOAT, out);
    wire_end(wire, mark);
}

static inline void plant_dropout(struct wire *wire)
{
    const wire_mark mark = plant_begin(wire, "2,8", 13);

    script_add(wire, "ratio = [] 0.5\n"
                     "train = bool[] 1\n"
                     "y = Dropout(x,ratio,train)");
    plant_end(wire, mark, "2,8");
}

static inline void plant_batch_norm(struct wire *wire)
{
    const wire_mark mark = plant_begin(wire, "2,8,3", 15);

    for (int i = 0; i < 4; i++)
        mw_ones(wire, (const char *const[]){ "scale", "bias", "mean", "var" }[i], 8);
    script_add(wire, "y,new_mean,new_var = BatchNormalization(x,scale,bias,mean,var) training_mode=1");
    plant_end(wire, mark, "2,8,3");
}

static inline void plant_casts(struct wire *wire)
{
    const wire_mark mark = plant_begin(wire, "2,8", 13);

    script_add(wire, "wide = Cast(x) to=double\n"
                     "back = Cast(wide) to=float\n"
                     "y = Relu(back)");
    plant_end(wire, mark, "2,8");
}

static inline void plant_needless(struct wire *wire)
{
    const wire_mark mark = plant_begin(wire, "2,8", 13);

    script_add(wire, "a = Cast(x) to=float\n"
                     "b = Cast(a) to=float\n"
                     "y = Relu(b)");
    plant_end(wire, mark, "2,8");
}

static inline void plant_float64(struct wire *wire)
{
    const wire_mark mark = plant_begin(wire, "32,32", 13);

    script_add(wire, "wide = Cast(x) to=double\n"
                     "e = Exp(wide)\n"
                     "t = Tanh(e)\n"
                     "y = Cast(t) to=float");
    plant_end(wire, mark, "32,32");
}

static inline void plant_constant_node(struct wire *wire)
{
    static float data[160 * 160];
    const wire_mark mark = plant_begin(wire, "2,160", 13);
    const wire_mark n = mw_node_begin(wire, "Constant", "", "c");
    const wire_mark a = mw_attr_begin(wire, "value", 4);

    for (int i = 0; i < 160 * 160; i++)
        data[i] = (float)(i % 17) * 0.01F - 0.08F;
    plant_raw(wire, 5, "c", INLAY_FLOAT, "160,160", data, sizeof data);
    wire_end(wire, a);
    wire_end(wire, n);
    mw_node(wire, "MatMul", "x,c", "y");
    plant_end(wire, mark, "2,160");
}

static inline void plant_loop(struct wire *wire)
{
    const wire_mark mark = plant_begin(wire, "2,8", 13);

    script_add(wire, "trips = i[] 4\n"
                     "go = bool[] 1\n"
                     "y = Loop(trips,go,x) body {\n"
                     "    i : int64 -\n"
                     "    on : bool -\n"
                     "    h : 2,8\n"
                     "    on2 = Identity(on)\n"
                     "    h2 = Tanh(h)\n"
                     "    -> on2 : bool -\n"
                     "    -> h2 : 2,8\n"
                     "}");
    plant_end(wire, mark, "2,8");
}

static inline void plant_open_axis(struct wire *wire)
{
    const wire_mark mark = plant_begin(wire, "N,6", 13);

    mw_ints(wire, "shape", 1, 3, (int64_t[]){ 2, 2, 3 });
    mw_node(wire, "Reshape", "x,shape", "y");
    plant_end(wire, mark, "2,2,3");
}

static inline void plant_open_output(struct wire *wire)
{
    const wire_mark mark = plant_begin(wire, "2,6", 13);

    mw_node(wire, "Relu", "x", "y");
    plant_end(wire, mark, "batch,6");
}

static inline void plant_traced(struct wire *wire)
{
    const wire_mark mark = plant_begin(wire, "N,4,6", 13);

    mw_ints(wire, "shape", 1, 2, (int64_t[]){ 1, -1 });
    mw_node(wire, "Reshape", "x,shape", "y");
    plant_end(wire, mark, NULL);
}

static inline void plant_indexes(struct wire *wire)
{
    static int64_t data[16384];
    const wire_mark mark = plant_begin(wire, "32,4", 13);

    for (int i = 0; i < 16384; i++)
        data[i] = i * 7 % 32;
    plant_raw(wire, MW_INITIALIZER, "indexes", INLAY_INT64, "16384", data, sizeof data);
    mw_node(wire, "Gather", "x,indexes", "y");
    plant_end(wire, mark, "16384,4");
}

static inline void plant_two(struct wire *wire, float other)
{
    const wire_mark mark = plant_begin(wire, "2,32", 13);

    plant_floats(wire, "w1", "32,64", 0.05F);
    plant_floats(wire, "w2", "32,64", other);
    script_add(wire, "a = MatMul(x,w1)\n"
                     "b = MatMul(x,w2)\n"
                     "y = Mul(a,b)");
    plant_end(wire, mark, "2,64");
}

static inline void plant_twice(struct wire *wire)
{
    plant_two(wire, 0.05F);
}

static inline void plant_unused(struct wire *wire)
{
    const wire_mark mark = plant_begin(wire, "2,32", 13);

    plant_floats(wire, "old", "32,64", 0.05F);
    mw_node(wire, "Relu", "x", "y");
    plant_end(wire, mark, "2,32");
}

static inline void plant_inputs(struct wire *wire)
{
    const wire_mark mark = plant_begin(wire, "2,32", 13);

    mw_value(wire, MW_INPUT, "w", INLAY_FLOAT, "32,64");
    plant_floats(wire, "w", "32,64", 0.05F);
    mw_node(wire, "MatMul", "x,w", "y");
    plant_end(wire, mark, "2,64");
}

static inline void plant_nan(struct wire *wire)
{
    const wire_mark mark = plant_begin(wire, "2,4", 13);
    float data[16] = { 1, 2, 3, 4, 5, NAN, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };

    plant_raw(wire, MW_INITIALIZER, "w", INLAY_FLOAT, "4,4", data, sizeof data);
    mw_node(wire, "MatMul", "x,w", "y");
    plant_end(wire, mark, "2,4");
}

static inline void plant_dead(struct wire *wire)
{
    static float data[8 * 3 * 3 * 3];
    const wire_mark mark = plant_begin(wire, "1,3,9,9", 13);

    for (int i = 0; i < 8 * 27; i++)
        data[i] = i / 27 == 5 ? 0 : (float)(i % 11) * 0.1F - 0.4F;
    plant_raw(wire, MW_INITIALIZER, "w", INLAY_FLOAT, "8,3,3,3", data, sizeof data);
    mw_node(wire, "Conv", "x,w", "y");
    plant_end(wire, mark, "1,8,7,7");
}

/* y = MatMul(x, w), where w [16, 16] is the dequantized q; code(i) returns element i of q. */
static inline void plant_quantized(struct wire *wire, float scale, int (*code)(int i))
{
    const wire_mark mark = plant_begin(wire, "2,16", 13);
    int8_t data[256];

    for (int i = 0; i < 256; i++)
        data[i] = (int8_t)code(i);
    plant_raw(wire, MW_INITIALIZER, "q", INLAY_INT8, "16,16", data, sizeof data);
    mw_scalar(wire, "s", INLAY_FLOAT, scale);
    mw_node(wire, "DequantizeLinear", "q,s", "w");
    mw_node(wire, "MatMul", "x,w", "y");
    plant_end(wire, mark, "2,16");
}

static inline int code_good(int i)
{
    return i * 37 % 251 - 125;
}
static inline int code_ends(int i)
{
    return i % 3 == 0 ? 127 : code_good(i);
}
static inline int code_narrow(int i)
{
    return i % 21 - 10;
}
static inline int code_channels(int i)
{
    return i % 16 < 6 ? i % 5 - 2 : code_good(i);
}

static inline void plant_scale(struct wire *wire)
{
    plant_quantized(wire, 0, code_good);
}
static inline void plant_saturated(struct wire *wire)
{
    plant_quantized(wire, 0.01F, code_ends);
}
static inline void plant_narrow(struct wire *wire)
{
    plant_quantized(wire, 0.01F, code_narrow);
}
static inline void plant_channels(struct wire *wire)
{
    plant_quantized(wire, 0.01F, code_channels);
}

/* LayerNormalization as basic operators, in an opset without that operator. */
static inline void plant_old_opset(struct wire *wire)
{
    script_model(wire, 13,
                 "x : 4,32\n two = [] 2.0\n eps = [] 0.00001\n g = [32]\n b = [32]\n"
                 "m = ReduceMean(x) axes=-1,\n d = Sub(x, m)\n q = Pow(d, two)\n v = ReduceMean(q) axes=-1,\n"
                 "e = Add(v, eps)\n s = Sqrt(e)\n n = Div(d, s)\n k = Mul(n, g)\n y = Add(k, b)\n -> y");
}

/* Attention whose weights are read twice. */
static inline void plant_attention(struct wire *wire)
{
    script_model(wire, 17,
                 "q : 2,4,8\n k : 2,6,8\n v : 2,6,8\n t = Transpose(k) perm=0,2,1\n s = MatMul(q, t)\n"
                 "p = Softmax(s) axis=-1\n y = MatMul(p, v)\n m = ReduceMax(p) keepdims=0\n -> y, m");
}

struct planted {
    const char *file, *code;
    bool can_fix, in_session; /* in_session: only a session finds it */
    void (*write)(struct wire *wire);
};

static const struct planted planted_models[] = {
    { "dropout", "training-dropout", false, false, plant_dropout },
    { "batch_norm", "training-batch-norm", false, false, plant_batch_norm },
    { "casts", "cast-chain", true, false, plant_casts },
    { "needless", "cast-needless", true, false, plant_needless },
    { "float64", "float64", false, false, plant_float64 },
    { "constant_node", "constant-node-huge", true, false, plant_constant_node },
    { "loop", "loop-constant", false, false, plant_loop },
    { "open_axis", "axis-is-constant", true, false, plant_open_axis },
    { "open_output", "axis-is-constant", true, false, plant_open_output },
    { "traced", "traced-constant", false, false, plant_traced },
    { "indexes", "int64", true, false, plant_indexes },
    { "twice", "weights-twice", true, false, plant_twice },
    { "unused", "weights-unused", true, false, plant_unused },
    { "inputs", "weights-are-inputs", true, false, plant_inputs },
    { "nan", "weights-not-finite", false, false, plant_nan },
    { "dead", "dead-channels", false, false, plant_dead },
    { "scale", "quant-scale", false, false, plant_scale },
    { "saturated", "quant-saturated", false, false, plant_saturated },
    { "narrow", "quant-range-unused", false, false, plant_narrow },
    { "channels", "quant-per-tensor", false, false, plant_channels },
    { "old_opset", "opset-old", false, true, plant_old_opset },
    { "attention", "attention-not-fused", false, true, plant_attention },
};
enum { PLANTED_COUNT = sizeof planted_models / sizeof planted_models[0] };

/* Models without faults. */
static const char *const clean_models[] = {
    "x : N,3,16,16\n w = [8,3,3,3]\n c = Conv(x, w) pads=1,1,1,1\n r = Relu(c)\n p = GlobalAveragePool(r)\n -> p",
    "x : N,64\n w = [64,96]\n v = [96,40]\n b = [40]\n h = MatMul(x, w)\n t = Tanh(h)\n y = Gemm(t, v, b)\n -> y",
    "x : B,S,8\n w = [8,8]\n q = MatMul(x, w)\n t = Transpose(q) perm=0,2,1\n s = MatMul(x, t)\n p = Softmax(s)\n -> p",
    "x : N,8,6\n k = i[2] 0,48\n a = Flatten(x)\n y = Reshape(a, k)\n -> y",
    "x : N,4\n z : N,4\n y = Add(x, z)\n -> y",
    "x : 9\n z = [] 0.0\n s = ReduceSum(x) keepdims=0\n t = Greater(s, z)\n y = If(t) then:Neg(x) else:Abs(x)\n -> y",
    "x : N,4,8\n y = Cast(x) to=10\n -> y",
    "x : N,6\n t = [4,6]\n i = i[2] 0,3\n e = Gather(t, i)\n y = Gemm(x, e) transB=1\n -> y",
    "x : 2,3,8\n a, b = Split(x) axis=0\n y = Concat(a, b) axis=1\n -> y",
    "x : N,3\n y = Softmax(x) axis=1\n z = Log(y)\n -> y, z",
};
enum { CLEAN_COUNT = sizeof clean_models / sizeof clean_models[0] };
#endif
