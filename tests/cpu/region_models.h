/* region_models.h - random models of typical regions: image networks (convolutions, normalisations, functions, sums,
 * concatenations, pooling, squeeze-excite) and sequence networks (GEMMs, layer normalisation, attention). The same seed
 * gives the same model. */
#ifndef CPU_REGION_MODELS_H
#define CPU_REGION_MODELS_H
#include "rig.h"
#include "random.h"

/* Opens a session and a context of the model. The caller keeps the model, so that several sessions can share it. The
 * policy is priority; options: pairs of name and value, ended by NULL. */
static inline struct rig model_open(const struct wire *wire, const char *const *options)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *o = rig_options(options, &diag);
    struct rig rig = { 0 };

    assert_int_equal(inlay_options_set(o, "policy", "priority", &diag), INLAY_OK);
    if (inlay_session_create_from_bytes(wire->bytes, wire->count, o, &rig.session, &diag) != INLAY_OK ||
        inlay_context_create(rig.session, &rig.context, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(o);
    return rig;
}

/* Element i of floats, bytes or 32-bit integers. */
static inline double model_element(const inlay_value *value, int64_t i)
{
    const void *data = inlay_value_data(value);

    switch (inlay_value_dtype(value)) {
    case INLAY_UINT8:
        return ((const uint8_t *)data)[i];
    case INLAY_INT8:
        return ((const int8_t *)data)[i];
    case INLAY_INT32:
        return ((const int32_t *)data)[i];
    default:
        return (double)((const float *)data)[i];
    }
}

/* A model being written. Tensors are t0, t1, ...; constants c0, c1, ... */
typedef struct region_model {
    struct wire wire;
    uint64_t dice;
    uint32_t tensors, constants;
    char name[32];
} region_model;

static inline const char *model_constant(region_model *model, uint32_t rank, const int64_t *dims, float scale,
                                         float middle)
{
    wire_mark mark = wire_begin(&model->wire, MW_INITIALIZER);
    int64_t count = 1;

    for (uint32_t i = 0; i < rank; i++)
        count *= dims[i];
    (void)snprintf(model->name, sizeof model->name, "c%u", model->constants++);
    mw_tensor_head(&model->wire, model->name, RIG_FLOAT, rank, dims);
    for (int64_t i = 0; i < count; i++)
        wire_float(&model->wire, 4, middle + scale * random_signed(&model->dice));
    wire_end(&model->wire, mark);
    return model->name;
}

/* Begins a node that computes the next tensor from `inputs`; the caller writes attributes, then calls wire_end. */
static inline wire_mark model_node(region_model *model, const char *op, const char *inputs, uint32_t *out)
{
    char name[16];

    *out = model->tensors++;
    (void)snprintf(name, sizeof name, "t%u", *out);
    return mw_node_begin(&model->wire, op, inputs, name);
}
static inline uint32_t model_plain(region_model *model, const char *op, const char *inputs)
{
    uint32_t out;

    wire_end(&model->wire, model_node(model, op, inputs, &out));
    return out;
}
static inline uint32_t model_axis(region_model *model, const char *op, const char *inputs, int64_t axis)
{
    uint32_t out;
    wire_mark mark = model_node(model, op, inputs, &out);

    mw_attr_int(&model->wire, "axis", axis);
    wire_end(&model->wire, mark);
    return out;
}
static inline uint32_t model_unary(region_model *model, const char *op, uint32_t x)
{
    char inputs[16];

    (void)snprintf(inputs, sizeof inputs, "t%u", x);
    return model_plain(model, op, inputs);
}
static inline uint32_t model_binary(region_model *model, const char *op, uint32_t x, uint32_t y)
{
    char inputs[40];

    (void)snprintf(inputs, sizeof inputs, "t%u,t%u", x, y);
    return model_plain(model, op, inputs);
}

static inline uint32_t model_conv(region_model *model, uint32_t x, int64_t in, int64_t out, int64_t kernel,
                                  int64_t group, bool bias)
{
    const int64_t dims[] = { out, in / group, kernel, kernel }, pad = kernel / 2, pads[] = { pad, pad, pad, pad };
    char inputs[96], w[32];
    uint32_t y;
    wire_mark mark;

    (void)snprintf(w, sizeof w, "%s", model_constant(model, 4, dims, 1.0f / (float)(in / group * kernel), 0));
    if (bias)
        (void)snprintf(inputs, sizeof inputs, "t%u,%s,%s", x, w, model_constant(model, 1, &out, 0.5f, 0));
    else
        (void)snprintf(inputs, sizeof inputs, "t%u,%s", x, w);
    mark = model_node(model, "Conv", inputs, &y);
    mw_attr_ints(&model->wire, "pads", 4, pads);
    mw_attr_int(&model->wire, "group", group);
    wire_end(&model->wire, mark);
    return y;
}

static inline uint32_t model_batch_norm(region_model *model, uint32_t x, int64_t channels)
{
    char inputs[160], c[4][32];

    for (int i = 0; i < 4; i++)
        (void)snprintf(c[i], sizeof c[i], "%s", model_constant(model, 1, &channels, 0.4f, i == 0 || i == 3 ? 1 : 0));
    (void)snprintf(inputs, sizeof inputs, "t%u,%s,%s,%s,%s", x, c[0], c[1], c[2], c[3]);
    return model_plain(model, "BatchNormalization", inputs);
}

static inline uint32_t model_pool(region_model *model, const char *op, uint32_t x)
{
    const int64_t kernel[] = { 3, 3 }, pads[] = { 1, 1, 1, 1 };
    char inputs[16];
    uint32_t y;
    wire_mark mark;

    (void)snprintf(inputs, sizeof inputs, "t%u", x);
    mark = model_node(model, op, inputs, &y);
    mw_attr_ints(&model->wire, "kernel_shape", 2, kernel);
    mw_attr_ints(&model->wire, "pads", 4, pads);
    wire_end(&model->wire, mark);
    return y;
}

/* x * gate(pooled x), where the gate has two small convolutions. */
static inline uint32_t model_squeeze(region_model *model, uint32_t x, int64_t channels, const char *gate)
{
    uint32_t s = model_unary(model, "GlobalAveragePool", x);

    s = model_unary(model, "Relu", model_conv(model, s, channels, 8, 1, 1, true));
    s = model_unary(model, gate, model_conv(model, s, 8, channels, 1, 1, true));
    return random_between(&model->dice, 0, 1) ? model_binary(model, "Mul", x, s) : model_binary(model, "Mul", s, x);
}

static inline uint32_t model_function(region_model *model, uint32_t x)
{
    static const char *const names[] = { "Relu", "Sigmoid",     "HardSwish", "LeakyRelu", "Tanh",
                                         "Elu",  "HardSigmoid", "Softplus",  "Abs",       "Neg" };
    const char *op = names[random_between(&model->dice, 0, 11) % 10];

    if (random_between(&model->dice, 0, 5) == 0) /* swish as two nodes */
        return model_binary(model, "Mul", x,
                            model_unary(model, random_between(&model->dice, 0, 1) ? "Sigmoid" : "HardSigmoid", x));
    return model_unary(model, op, x);
}

/* A step of the network: from tensor x with *channels channels to another image of the same size. old: an earlier
 * tensor. */
static inline uint32_t model_image_step(region_model *model, uint32_t x, int64_t *channels, uint32_t old,
                                        int64_t old_channels)
{
    static const char *const binaries[] = { "Add", "Mul", "Sub", "Max", "Min" };
    const int64_t wide[] = { 3, 8, 16, 24, 32, 40 };
    int64_t next = wide[random_between(&model->dice, 0, 5)], one[] = { 1, *channels, 1, 1 }, kernel;
    char inputs[40];
    uint32_t y;
    bool bias;

    switch (random_between(&model->dice, 0, 9)) {
    case 0:
    case 1:                                        /* convolution, perhaps normalised, a function */
        bias = random_between(&model->dice, 0, 1); /* one roll per statement: the order of arguments is unspecified */
        kernel = 1 + 2 * random_between(&model->dice, 0, 2);
        y = model_conv(model, x, *channels, next, kernel, 1, bias);
        if (random_between(&model->dice, 0, 1))
            y = model_batch_norm(model, y, next);
        *channels = next;
        return model_function(model, y);
    case 2: /* depthwise */
        return model_function(model, model_conv(model, x, *channels, *channels, 3, *channels, true));
    case 3: /* residual */
        y = model_conv(model, x, *channels, *channels, 3, 1, true);
        y = random_between(&model->dice, 0, 1) ? model_binary(model, "Add", y, x) : model_binary(model, "Add", x, y);
        return random_between(&model->dice, 0, 1) ? model_unary(model, "Relu", y) : y;
    case 4: /* inverted residual */
        y = model_unary(model, "HardSwish", model_conv(model, x, *channels, 48, 1, 1, true));
        y = model_squeeze(model, model_unary(model, "Relu", model_conv(model, y, 48, 48, 3, 48, true)), 48,
                          "HardSigmoid");
        return model_binary(model, "Add", model_conv(model, y, 48, *channels, 1, 1, true), x);
    case 5: /* concatenation */
        y = model_unary(model, "Relu", model_conv(model, x, *channels, next, 3, 1, false));
        if (random_between(&model->dice, 0, 1)) {
            (void)snprintf(inputs, sizeof inputs, "t%u,t%u,t%u", y, x, old);
            *channels += next + old_channels;
        } else {
            (void)snprintf(inputs, sizeof inputs, "t%u,t%u", x, y);
            *channels += next;
        }
        return model_axis(model, "Concat", inputs, 1);
    case 6:
        return model_pool(model, random_between(&model->dice, 0, 1) ? "MaxPool" : "AveragePool", x);
    case 7: /* per channel */
        (void)snprintf(inputs, sizeof inputs, "t%u,", x);
        (void)strcat(inputs, model_constant(model, 4, one, 0.5f, 1));
        return model_plain(model, random_between(&model->dice, 0, 1) ? "Add" : "Mul", inputs);
    case 8:
        return old_channels == *channels ? model_binary(model, binaries[random_between(&model->dice, 0, 4)], x, old)
                                         : model_squeeze(model, x, *channels, "Sigmoid");
    default:
        return model_unary(model, "Relu", model_batch_norm(model, x, *channels));
    }
}

/* A model from [N, channels, H, W] to an image. Three of four models have an inner tensor as a second output. With
 * `all`, all inner tensors follow these outputs. */
static inline void write_image_model_of(region_model *model, uint64_t seed, uint32_t steps, int64_t *out_channels,
                                        bool all)
{
    uint32_t x = 0, old = 0, inner = 0;
    int64_t channels, old_channels;
    char dims[64];
    wire_mark mark;

    *model = (region_model){ .dice = seed * 7919 + 1, .tensors = 1 };
    channels = old_channels = *out_channels = random_between(&model->dice, 0, 1) ? 3 : 16;
    mark = mw_begin(&model->wire, 9, 18);
    (void)snprintf(dims, sizeof dims, "N,%lld,H,W", (long long)channels);
    mw_value(&model->wire, MW_INPUT, "t0", RIG_FLOAT, dims);
    for (uint32_t s = 0; s < steps; s++) {
        int64_t now = channels;
        uint32_t y = model_image_step(model, x, &channels, old, old_channels);

        old = x;
        old_channels = now;
        x = y;
        if (s == steps / 2)
            inner = y;
    }
    (void)snprintf(dims, sizeof dims, "t%u", x);
    mw_value(&model->wire, MW_OUTPUT, dims, RIG_FLOAT, "a,b,c,d");
    if (random_between(&model->dice, 0, 3) > 0 && inner != x && inner != 0) {
        (void)snprintf(dims, sizeof dims, "t%u", inner);
        mw_value(&model->wire, MW_OUTPUT, dims, RIG_FLOAT, "e,f,g,h");
    } else {
        inner = x;
    }
    for (uint32_t t = 1; t < model->tensors && all; t++) {
        char name[16];

        (void)snprintf(name, sizeof name, "t%u", t);
        (void)snprintf(dims, sizeof dims, "a%u,b%u,c%u,d%u", t, t, t, t);
        if (t != x && t != inner)
            mw_value(&model->wire, MW_OUTPUT, name, RIG_FLOAT, dims);
    }
    wire_end(&model->wire, mark);
}
static inline void write_image_model(region_model *model, uint64_t seed, uint32_t steps, int64_t *out_channels)
{
    write_image_model_of(model, seed, steps, out_channels, false);
}

enum { WIDTH = 32, HEADS = 4 };

static inline uint32_t model_linear(region_model *model, uint32_t x, int64_t in, int64_t out)
{
    const int64_t dims[] = { in, out };
    char inputs[64];

    (void)snprintf(inputs, sizeof inputs, "t%u,%s", x, model_constant(model, 2, dims, 2.0f / (float)in, 0));
    x = model_plain(model, "MatMul", inputs);
    (void)snprintf(inputs, sizeof inputs, "t%u,%s", x, model_constant(model, 1, &out, 0.5f, 0));
    return model_plain(model, "Add", inputs);
}

static inline uint32_t model_layer_norm(region_model *model, uint32_t x)
{
    const int64_t width = WIDTH;
    char inputs[96], scale[32];

    (void)snprintf(scale, sizeof scale, "%s", model_constant(model, 1, &width, 0.3f, 1));
    (void)snprintf(inputs, sizeof inputs, "t%u,%s,%s", x, scale, model_constant(model, 1, &width, 0.3f, 0));
    return model_axis(model, "LayerNormalization", inputs, -1);
}

static inline uint32_t model_transpose(region_model *model, uint32_t x, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t perm[] = { a, b, c, d };
    char inputs[16];
    wire_mark mark;
    uint32_t y;

    (void)snprintf(inputs, sizeof inputs, "t%u", x);
    mark = model_node(model, "Transpose", inputs, &y);
    mw_attr_ints(&model->wire, "perm", 4, perm);
    wire_end(&model->wire, mark);
    return y;
}

static inline uint32_t model_reshape(region_model *model, uint32_t x, const char *shape)
{
    char inputs[40];

    (void)snprintf(inputs, sizeof inputs, "t%u,%s", x, shape);
    return model_plain(model, "Reshape", inputs);
}

static inline uint32_t model_attention(region_model *model, uint32_t x)
{
    uint32_t q =
        model_transpose(model, model_reshape(model, model_linear(model, x, WIDTH, WIDTH), "split"), 0, 2, 1, 3);
    uint32_t k =
        model_transpose(model, model_reshape(model, model_linear(model, x, WIDTH, WIDTH), "split"), 0, 2, 3, 1);
    uint32_t v =
        model_transpose(model, model_reshape(model, model_linear(model, x, WIDTH, WIDTH), "split"), 0, 2, 1, 3);
    uint32_t scores = model_binary(model, "MatMul", q, k);
    char inputs[40];

    (void)snprintf(inputs, sizeof inputs, "t%u,half", scores);
    scores = model_plain(model, "Mul", inputs);
    (void)snprintf(inputs, sizeof inputs, "t%u", scores);
    scores = model_axis(model, "Softmax", inputs, -1);
    x = model_transpose(model, model_binary(model, "MatMul", scores, v), 0, 2, 1, 3);
    return model_linear(model, model_reshape(model, x, "join"), WIDTH, WIDTH);
}

/* A model from [N, S, WIDTH] to a tensor of the same shape. */
static inline void write_sequence_model(region_model *model, uint64_t seed, uint32_t steps)
{
    const int64_t split[] = { 0, 0, HEADS, WIDTH / HEADS }, join[] = { 0, 0, WIDTH };
    uint32_t x = 0;
    char name[16];
    wire_mark mark;

    *model = (region_model){ .dice = seed * 104729 + 5, .tensors = 1 };
    mark = mw_begin(&model->wire, 9, 18);
    mw_value(&model->wire, MW_INPUT, "t0", RIG_FLOAT, "N,S,32");
    mw_ints(&model->wire, "split", 1, 4, split);
    mw_ints(&model->wire, "join", 1, 3, join);
    mw_scalar(&model->wire, "half", RIG_FLOAT, 0.5);
    for (uint32_t s = 0; s < steps; s++) {
        uint32_t y;

        switch (random_between(&model->dice, 0, 3)) {
        case 0:
            x = model_binary(model, "Add", x, model_attention(model, x));
            break;
        case 1:
            y = model_function(model, model_linear(model, model_layer_norm(model, x), WIDTH, 64));
            x = model_binary(model, "Add", model_linear(model, y, 64, WIDTH), x);
            break;
        case 2:
            x = model_layer_norm(model, x);
            break;
        default:
            x = model_binary(model, "Mul", x, model_unary(model, "Sigmoid", model_linear(model, x, WIDTH, WIDTH)));
        }
    }
    if (x == 0)
        x = model_layer_norm(model, x);
    (void)snprintf(name, sizeof name, "t%u", x);
    mw_value(&model->wire, MW_OUTPUT, name, RIG_FLOAT, "a,b,32");
    wire_end(&model->wire, mark);
}
#endif
