/* Low-bit constants that convolutions, recurrent layers and GEMMs without n-bit kernels read: results compared, element
 * by element, with the reference on the floats of DequantizeLinear; and the memory that a session uses for them. */
#include "loops.h"
#include "graph_script.h"
#include "session/session.h"
#include "random.h"
#include <math.h>

enum { MOST = 1 << 17 };

static uint64_t state_of_noise = 11;

static const struct {
    const char *name;
    int dtype, bits;
    bool has_zeros;
} types[] = {
    { "int4", INLAY_INT4, 4, true },
    { "uint4", INLAY_UINT4, 4, true },
    { "int2", INLAY_INT2, 2, true },
    { "uint2", INLAY_UINT2, 2, true },
    { "int8", INLAY_INT8, 8, true },
    { "uint8", INLAY_UINT8, 8, true },
    { "int16", INLAY_INT16, 16, true },
    { "float8e4m3fn", INLAY_FLOAT8E4M3FN, 8, false },
    { "float8e4m3fnuz", INLAY_FLOAT8E4M3FNUZ, 8, false },
    { "float8e5m2", INLAY_FLOAT8E5M2, 8, false },
    { "float8e5m2fnuz", INLAY_FLOAT8E5M2FNUZ, 8, false },
};
enum { TYPES = sizeof types / sizeof *types };

struct weights {
    int type;
    int axis;      /* of the scales; -1: one scale for all */
    int64_t block; /* 0: one scale for each index of the axis */
    bool zeros;
};

static void put_codes(struct wire *wire, const char *name, const struct weights *of, uint32_t rank, const int64_t *dims,
                      int64_t count, bool small)
{
    static uint8_t bytes[2 * MOST];
    const int bits = types[of->type].bits;
    const int64_t size = (count * bits + 7) / 8;
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    assert_true(size <= (int64_t)sizeof bytes);
    for (int64_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)random_bits(&state_of_noise);
        if (i % 8 < 4 && bits <= 8) /* the ends of each type, as one code or as several */
            bytes[i] = (uint8_t[]){ 0x00, 0xff, 0x80, 0x7f }[i % 4];
        if (!types[of->type].has_zeros) /* floats between -2 and 2, no NaN */
            bytes[i] = (uint8_t)((bytes[i] & 0x80) | (1 + bytes[i] % 0x3e));
        if (small && bits == 16)
            bytes[i] = i % 2 != 0 ? 0 : bytes[i];
    }
    mw_tensor_head(wire, name, types[of->type].dtype, rank, dims);
    wire_bytes(wire, 9, bytes, (size_t)size);
    wire_end(wire, mark);
}

static int64_t put_floats(struct wire *wire, const char *name, uint32_t rank, const int64_t *dims, float low,
                          float high)
{
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);
    int64_t count = 1;

    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d];
    mw_tensor_head(wire, name, INLAY_FLOAT, rank, dims);
    for (int64_t i = 0; i < count; i++)
        wire_float(wire, 4, low + (high - low) * random_unit(&state_of_noise));
    wire_end(wire, mark);
    return count;
}

/* Writes DequantizeLinear of a constant with these dims as `name`; its constants are <name>q, s, z. Returns their
 * bytes. */
static int64_t put_weights(struct wire *wire, const char *name, const struct weights *of, uint32_t rank,
                           const int64_t *dims)
{
    char q[16], s[16], z[16], inputs[64];
    int64_t count = 1, scales = 1, scale_dims[6];
    const uint32_t scale_rank = of->axis < 0 ? 0 : of->block > 0 ? rank : 1;
    const int bits = types[of->type].bits;
    const float top = bits == 16 ? 1e-4f : types[of->type].has_zeros ? 0.4f / (float)(1 << (bits - 1)) : 0.2f;
    wire_mark node;

    for (uint32_t d = 0; d < rank; d++) {
        count *= dims[d];
        scale_dims[d] = (int)d == of->axis ? (dims[d] + of->block - 1) / (of->block > 0 ? of->block : 1) : dims[d];
    }
    if (of->block == 0 && of->axis >= 0)
        scale_dims[0] = dims[of->axis];
    (void)snprintf(q, sizeof q, "%sq", name);
    (void)snprintf(s, sizeof s, "%ss", name);
    (void)snprintf(z, sizeof z, "%sz", name);
    (void)snprintf(inputs, sizeof inputs, of->zeros ? "%s,%s,%s" : "%s,%s", q, s, z);
    put_codes(wire, q, of, rank, dims, count, false);
    scales = put_floats(wire, s, scale_rank, scale_dims, top / 2, top);
    if (of->zeros)
        put_codes(wire, z, of, scale_rank, scale_dims, scales, true);
    node = mw_node_begin(wire, "DequantizeLinear", inputs, name);
    if (of->axis >= 0)
        mw_attr_int(wire, "axis", of->axis);
    if (of->block > 0)
        mw_attr_int(wire, "block_size", of->block);
    wire_end(wire, node);
    return (count * bits + 7) / 8 + 4 * scales + (of->zeros ? (scales * bits + 7) / 8 : 0);
}

struct layer {
    const char *name, *op;
    int64_t w[4]; /* weights: Conv [O, I/g, h, w], ConvTranspose [I, O/g, h, w], MatMul [K, N] */
    uint32_t rank;
    int64_t x[4];
    uint32_t x_rank;
    int64_t group, stride;
    bool views; /* Reshape and Transpose follow the DequantizeLinear */
};

static const struct layer layers[] = {
    { "1x1", "Conv", { 96, 192, 1, 1 }, 4, { 1, 192, 9, 7 }, 4, 1, 1, false },
    { "3x3", "Conv", { 40, 48, 3, 3 }, 4, { 1, 48, 12, 12 }, 4, 1, 1, false },
    { "3x3 of many pixels", "Conv", { 64, 64, 3, 3 }, 4, { 1, 64, 40, 40 }, 4, 1, 1, false },
    { "7x7, stride 2", "Conv", { 64, 6, 7, 7 }, 4, { 2, 6, 21, 21 }, 4, 1, 2, false },
    { "groups", "Conv", { 64, 32, 3, 3 }, 4, { 1, 128, 8, 8 }, 4, 4, 1, false },
    { "depthwise", "Conv", { 2048, 1, 3, 3 }, 4, { 1, 2048, 5, 5 }, 4, 2048, 1, false },
    { "one axis", "Conv", { 64, 64, 5, 0 }, 3, { 1, 64, 30, 0 }, 3, 1, 1, false },
    { "views", "Conv", { 48, 64, 3, 3 }, 4, { 1, 64, 10, 10 }, 4, 1, 1, true },
    { "transposed", "ConvTranspose", { 64, 32, 3, 3 }, 4, { 1, 64, 7, 7 }, 4, 1, 2, false },
    { "phases", "ConvTranspose", { 64, 32, 4, 4 }, 4, { 1, 64, 7, 7 }, 4, 1, 2, false },
    { "LSTM", "LSTM", { 2, 256, 48, 0 }, 3, { 5, 3, 48, 0 }, 3, 4, 0, false },
    { "GRU", "GRU", { 1, 288, 96, 0 }, 3, { 4, 1, 96, 0 }, 3, 3, 0, false },
    { "RNN", "RNN", { 1, 136, 160, 0 }, 3, { 6, 2, 160, 0 }, 3, 1, 0, false },
    { "product", "MatMul", { 200, 150, 0, 0 }, 2, { 3, 200, 0, 0 }, 2, 1, 0, false },
    { "product of many rows", "MatMul", { 144, 160, 0, 0 }, 2, { 40, 144, 0, 0 }, 2, 1, 0, true },
};
enum { LAYERS = sizeof layers / sizeof *layers };

static void dims_text(const int64_t *dims, uint32_t rank, char *text, size_t bytes)
{
    int at = 0;

    text[0] = '\0';
    for (uint32_t d = 0; d < rank; d++)
        at += snprintf(text + at, bytes - (size_t)at, d > 0 ? ",%lld" : "%lld", (long long)dims[d]);
}

static void put_node(struct wire *wire, const struct layer *layer)
{
    const bool recurrent = layer->rank == 3 && layer->x_rank == 3 && strcmp(layer->op, "Conv") != 0;
    wire_mark mark = mw_node_begin(wire, layer->op, recurrent ? "x,w,r" : "x,w", "y");

    if (recurrent) {
        mw_attr_int(wire, "hidden_size", layer->w[1] / layer->group);
        if (layer->w[0] == 2) {
            wire_mark a = mw_attr_begin(wire, "direction", 3);

            wire_bytes(wire, 4, "bidirectional", 13);
            wire_end(wire, a);
        }
    } else if (layer->rank > 2) {
        mw_attr_int(wire, "group", layer->group);
        mw_attr_ints(wire, "strides", layer->rank - 2, (const int64_t[]){ layer->stride, layer->stride });
        mw_attr_ints(wire, "pads", 2 * (layer->rank - 2), (const int64_t[]){ 1, 1, 1, 1 });
    }
    wire_end(wire, mark);
}

/* Returns the bytes of the weights. */
static int64_t write_layer(struct wire *wire, const struct layer *layer, const struct weights *of)
{
    const bool recurrent =
        strcmp(layer->op, "LSTM") == 0 || strcmp(layer->op, "GRU") == 0 || strcmp(layer->op, "RNN") == 0;
    const int64_t turned[4] = { layer->w[2], layer->w[3], layer->w[1], layer->w[0] };
    int64_t bytes;
    wire_mark mark;
    char text[64];

    wire_int(wire, 1, 13);
    mw_opset(wire, 8, "", 25);
    mark = wire_begin(wire, 7);
    wire_text(wire, 2, "g");
    dims_text(layer->x, layer->x_rank, text, sizeof text);
    mw_value(wire, MW_INPUT, "x", INLAY_FLOAT, text);
    if (layer->views && layer->rank == 4) {
        const int64_t flat[2] = { turned[0] * turned[1], turned[2] * turned[3] };

        bytes = put_weights(wire, "f", of, 2, flat);
        mw_ints(wire, "shape", 1, 4, turned);
        script_add(wire, "t = Reshape(f,shape)\n"
                         "w = Transpose(t) perm=3,2,0,1");
    } else if (layer->views) {

        bytes = put_weights(wire, "f", of, 2, (const int64_t[]){ layer->w[1], layer->w[0] });
        script_add(wire, "w = Transpose(f) perm=1,0");
    } else {
        bytes = put_weights(wire, "w", of, layer->rank, layer->w);
    }
    if (recurrent)
        bytes +=
            put_weights(wire, "r", of, 3, (const int64_t[]){ layer->w[0], layer->w[1], layer->w[1] / layer->group });
    put_node(wire, layer);
    mw_value(wire, MW_OUTPUT, "y", INLAY_FLOAT, NULL);
    wire_end(wire, mark);
    return bytes;
}

static void run_layer(const struct layer *layer, const struct weights *of, uint64_t seed, const char *const *options,
                      const float *input, float *output, int64_t *count, int64_t *held, int64_t *bytes)
{
    inlay_plan_info told = { .struct_size = sizeof told };
    struct wire wire = { 0 };
    char text[64];
    struct rig rig;

    state_of_noise = seed;
    *bytes = write_layer(&wire, layer, of);
    dims_text(layer->x, layer->x_rank, text, sizeof text);
    rig = rig_open(&wire, options);
    rig_floats(&rig, 0, text, input);
    rig_run(&rig);
    *count = (int64_t)inlay_value_count(inlay_context_output(rig.context, 0));
    assert_in_range(*count, 1, MOST);
    memcpy(output, inlay_value_data(inlay_context_output(rig.context, 0)), (size_t)*count * sizeof *output);
    assert_int_equal(inlay_context_plan(rig.context, &told), INLAY_OK);
    *held = (int64_t)told.constant_bytes;
    rig_close(&rig);
}

static const char *const ways[][11] = {
    { "fold_max_bytes", "0", "providers", "cpu,reference", "intra_threads", "1", NULL },
    { "fold_max_bytes", "0", "providers", "cpu,reference", "intra_threads", "2", NULL },
    { "fold_max_bytes", "0", "providers", "cpu,reference", "precision", "strict", NULL },
    { "fold_max_bytes", "0", "providers", "cpu,reference", "precision", "fast", "cpu.activations", "exact", NULL },
    { "fold_max_bytes", "0", "providers", "cpu,reference", "level", "0", NULL },
};
enum { WAYS = sizeof ways / sizeof *ways };

/* Each layer with each type, with changing layouts of scales and options. */
static void matches_reference(void **state)
{
    static const char *const plain[] = { "providers", "reference", NULL };
    static float x[MOST], want[MOST], got[MOST];

    (void)state;
    for (int i = 0; i < MOST; i++)
        x[i] = random_signed(&state_of_noise);
    for (int c = 0; c < LAYERS * TYPES; c++) {
        const struct layer *layer = &layers[c % LAYERS];
        const int kind = (c + c / LAYERS) % 4; /* one scale, one per index of an axis, blocks */
        const struct weights of = { .type = c / LAYERS,
                                    .axis = kind == 0                       ? -1
                                            : layer->rank == 2 || kind == 1 ? kind % 2
                                                                            : 1,
                                    .block = kind == 3 ? 8 : 0,
                                    .zeros = types[c / LAYERS].has_zeros && c % 3 != 0 };
        const uint64_t seed = random_bits(&state_of_noise);
        /* The steps of a recurrence accumulate rounding errors. */
        const bool recurs =
            strcmp(layer->op, "LSTM") == 0 || strcmp(layer->op, "GRU") == 0 || strcmp(layer->op, "RNN") == 0;
        int64_t count, same, held, bytes;
        float top = 0;

        if (!random_takes((uint64_t)(c + c / LAYERS)))
            continue;
        run_layer(layer, &of, seed, plain, x, want, &count, &held, &bytes);
        for (int64_t i = 0; i < count; i++)
            top = fmaxf(top, fabsf(want[i]));
        assert_true(top > 0 && isfinite(top));
        for (int way = 0; way < WAYS; way++) {
            if (way > 1 && (c + way) % 3 != 0)
                continue;
            run_layer(layer, &of, seed, ways[way], x, got, &same, &held, &bytes);
            assert_int_equal(same, count);
            for (int64_t i = 0; i < count; i++)
                if (!(fabsf(got[i] - want[i]) <= (recurs ? 1e-3f : 4e-6f) * top))
                    fail_msg("%s of %s, scales %d, way %d: element %lld is %.9g, not %.9g", layer->name,
                             types[of.type].name, kind, way, (long long)i, (double)got[i], (double)want[i]);
        }
    }
}

/* A session uses at most one and a half times the bytes of the file for the weights, independent of their size as
 * floats. */
static void stay_packed(void **state)
{
    static float x[MOST], y[MOST];

    (void)state;
    if (is_below_avx2())
        skip(); /* on these CPUs the weights are floats */
    for (int c = 0; c < LAYERS * TYPES; c++) {
        const struct layer *layer = &layers[c % LAYERS];
        const struct weights of = { .type = c / LAYERS, .axis = 1, .zeros = types[c / LAYERS].has_zeros && c % 2 != 0 };
        int64_t count, held, bytes;

        if (types[of.type].bits < 4 || (layer->group > 4 && types[of.type].bits < 8))
            continue; /* indexes of vectors, two bytes for each 16 elements, need more memory there */
        run_layer(layer, &of, 5, ways[0], x, y, &count, &held, &bytes);
        if (held > bytes + bytes / 2 + 16384)
            fail_msg("%s of %s: %lld bytes are held of %lld in the file", layer->name, types[of.type].name,
                     (long long)held, (long long)bytes);
    }
}

/* Weights of 4 and 8 bits stay quantized for windows without Winograd's algorithm, and for recurrences whose floats
 * would not fit into a cache; for these operators, weights of other types become floats when the model is loaded. */
static void stay_by_default(void **state)
{
    static const char *const options[] = { "fold_max_bytes", "24576", "providers", "cpu,reference",
                                           "intra_threads",  "1",     NULL };
    static const struct {
        const char *layer, *type;
        bool stays;
    } rows[] = {
        { "7x7, stride 2", "int8", true },   { "7x7, stride 2", "uint4", true },
        { "7x7, stride 2", "int16", false }, { "3x3 of many pixels", "int8", false },
        { "transposed", "int8", true },      { "one axis", "uint8", false }, /* few pixels */
        { "depthwise", "int8", false },      { "LSTM", "int4", true },
        { "LSTM", "int16", false },          { "GRU", "uint8", true },
    };
    static float x[MOST], y[MOST];

    (void)state;
    if (is_below_avx2())
        skip(); /* on these CPUs the weights are floats */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weights of = { .axis = 1, .zeros = true };
        int64_t count, held, bytes, floats = sizeof(float);
        const struct layer *l = layers;

        while (strcmp(l->name, rows[i].layer) != 0)
            l++;
        while (strcmp(types[of.type].name, rows[i].type) != 0)
            of.type++;
        for (uint32_t d = 0; d < l->rank; d++)
            floats *= l->w[d];
        run_layer(l, &of, 5, options, x, y, &count, &held, &bytes);
        if ((held < floats * 3 / 4) != rows[i].stays)
            fail_msg("%s of %s: %lld bytes are held of %lld in the file, %lld as floats", l->name, rows[i].type,
                     (long long)held, (long long)bytes, (long long)floats);
    }
}

/* BatchNormalization after a convolution is folded into the scales, per channel or per block of the weights; a single
 * scale without zero points becomes one per channel. */
static void scaled_by_channels(void **state)
{
    static const char *const ways_of[2][7] = { { "providers", "reference", "level", "0", NULL },
                                               { "fold_max_bytes", "0", "providers", "cpu,reference", NULL } };
    static const int64_t dims[] = { 128, 160, 1, 1 }, channels[] = { 128 };
    static const struct weights of[] = { { 0, 0, 0, true }, { 4, 1, 32, true }, { 5, -1, 0, false } };
    static float x[160 * 36], y[2][128 * 36];

    (void)state;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = random_signed(&state_of_noise);
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        for (int way = 0; way < 2; way++) {
            inlay_plan_info told = { .struct_size = sizeof told };
            struct wire wire = { 0 };
            int64_t bytes;
            wire_mark mark;
            struct rig rig;

            state_of_noise = 9;
            wire_int(&wire, 1, 13);
            mw_opset(&wire, 8, "", 25);
            mark = wire_begin(&wire, 7);
            wire_text(&wire, 2, "g");
            mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "1,160,6,6");
            bytes = put_weights(&wire, "w", &of[k], 4, dims);
            (void)put_floats(&wire, "gamma", 1, channels, -1, 2);
            (void)put_floats(&wire, "beta", 1, channels, -1, 1);
            (void)put_floats(&wire, "mean", 1, channels, -1, 1);
            (void)put_floats(&wire, "var", 1, channels, 0.5f, 2);
            script_add(&wire, "c = Conv(x,w)\n"
                              "y = BatchNormalization(c,gamma,beta,mean,var)\n"
                              "-> y");
            wire_end(&wire, mark);
            rig = rig_open(&wire, ways_of[way]);
            rig_floats(&rig, 0, "1,160,6,6", x);
            rig_run(&rig);
            memcpy(y[way], inlay_value_data(inlay_context_output(rig.context, 0)), sizeof y[way]);
            assert_int_equal(inlay_context_plan(rig.context, &told), INLAY_OK);
            if (way == 1 && !is_below_avx2()) {                            /* on these CPUs the weights are floats */
                assert_int_equal(rig.session->model->main->node_count, 2); /* DequantizeLinear, Conv */
                assert_in_range(told.constant_bytes, 1, bytes + bytes / 2 + 16384);
            }
            rig_close(&rig);
        }
        for (size_t i = 0; i < sizeof y[0] / sizeof y[0][0]; i++)
            if (!(fabsf(y[1][i] - y[0][i]) <= 1e-4f))
                fail_msg("%zu: element %zu is %.9g, not %.9g", k, i, (double)y[1][i], (double)y[0][i]);
    }
}

/* DynamicQuantizeLSTM keeps its weights in 8 bits, with one scale for each direction or each column, also if only the
 * weights of its input are large; floats have the reference's bounds. */
static void lstm_of_bytes(void **state)
{
    enum { STEPS = 7, DEPTH = 100, HIDDEN = 48, COLUMNS = 4 * HIDDEN, OUTPUTS = STEPS * 2 * HIDDEN };
    static const char *const ways_of[2][7] = {
        { "providers", "reference", "level", "0", NULL },
        { "fold_max_bytes", "32768", "providers", "cpu,reference", NULL },
    };
    static const int64_t w_dims[] = { 2, DEPTH, COLUMNS }, r_dims[] = { 2, HIDDEN, COLUMNS };
    static float x[STEPS * DEPTH], y[2][OUTPUTS];

    (void)state;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = random_signed(&state_of_noise);
    for (uint32_t k = 0; k < 4; k++) {
        const struct weights of = { .type = k % 2 == 0 ? 4 : 5 }; /* int8, uint8 */
        const uint32_t rank = 1 + k / 2;
        const int64_t scales = rank == 1 ? 2 : 2 * COLUMNS;

        for (int way = 0; way < 2; way++) {
            inlay_plan_info told = { .struct_size = sizeof told };
            struct wire wire = { 0 };
            wire_mark mark, node;
            struct rig rig;

            state_of_noise = 13;
            mark = mw_begin(&wire, 8, 21);
            mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "7,1,100");
            put_codes(&wire, "w", &of, 3, w_dims, 2 * DEPTH * COLUMNS, false);
            put_codes(&wire, "r", &of, 3, r_dims, 2 * HIDDEN * COLUMNS, false);
            (void)put_floats(&wire, "ws", rank, (const int64_t[]){ 2, COLUMNS }, 0.001f, 0.002f);
            (void)put_floats(&wire, "rs", rank, (const int64_t[]){ 2, COLUMNS }, 0.001f, 0.002f);
            put_codes(&wire, "wz", &of, rank, (const int64_t[]){ 2, COLUMNS }, scales, true);
            put_codes(&wire, "rz", &of, rank, (const int64_t[]){ 2, COLUMNS }, scales, true);
            node = mw_node_begin(&wire, "DynamicQuantizeLSTM", "x,w,r,_,_,_,_,_,ws,wz,rs,rz", "y");
            wire_text(&wire, 7, "com.microsoft");
            mw_attr_int(&wire, "hidden_size", HIDDEN);
            {
                wire_mark direction = mw_attr_begin(&wire, "direction", 3);

                wire_bytes(&wire, 4, "bidirectional", 13);
                wire_end(&wire, direction);
            }
            wire_end(&wire, node);
            mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, NULL);
            wire_end(&wire, mark);
            mw_opset(&wire, 8, "com.microsoft", 1);
            rig = rig_open(&wire, ways_of[way]);
            rig_floats(&rig, 0, "7,1,100", x);
            rig_run(&rig);
            assert_int_equal(inlay_value_count(inlay_context_output(rig.context, 0)), OUTPUTS);
            memcpy(y[way], inlay_value_data(inlay_context_output(rig.context, 0)), sizeof y[way]);
            assert_int_equal(inlay_context_plan(rig.context, &told), INLAY_OK);
            if (way == 1 && !is_below_avx2()) /* on these CPUs the weights are floats */
                assert_in_range(told.constant_bytes, 1, 2 * (DEPTH + HIDDEN) * COLUMNS * 3 / 2 + 16384);
            rig_close(&rig);
        }
        for (size_t i = 0; i < OUTPUTS; i++)
            if (!(fabsf(y[1][i] - y[0][i]) <= 1e-5f))
                fail_msg("%u: element %zu is %.9g, not %.9g", k, i, (double)y[1][i], (double)y[0][i]);
    }
}

/* NaN and infinity are kept as DequantizeLinear defines: weights that contain them do not stay quantized for a kernel
 * that would lose them. */
static void not_finite(void **state)
{
    static const char *const plain[] = { "providers", "reference", NULL };
    static const int64_t dims[4] = { 64, 256, 1, 1 };
    static uint8_t codes[64 * 256];
    static float x[256];
    float y[2][64];

    (void)state;
    for (int i = 0; i < 256; i++)
        x[i] = 1;
    memset(codes, 0x38, sizeof codes);
    codes[3 * 256 + 7] = 0x7f; /* NaN */
    for (int way = 0; way < 2; way++) {
        struct wire wire = { 0 };
        wire_mark mark, t;
        struct rig rig;

        wire_int(&wire, 1, 13);
        mw_opset(&wire, 8, "", 25);
        mark = wire_begin(&wire, 7);
        wire_text(&wire, 2, "g");
        mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "1,256,1,1");
        t = wire_begin(&wire, MW_INITIALIZER);
        mw_tensor_head(&wire, "q", INLAY_FLOAT8E4M3FN, 4, dims);
        wire_bytes(&wire, 9, codes, sizeof codes);
        wire_end(&wire, t);
        script_add(&wire, "s = [] 0.5\n"
                          "w = DequantizeLinear(q,s)\n"
                          "y = Conv(x,w)\n"
                          "-> y");
        wire_end(&wire, mark);
        rig = rig_open(&wire, way == 0 ? plain : ways[0]);
        rig_floats(&rig, 0, "1,256,1,1", x);
        rig_run(&rig);
        memcpy(y[way], inlay_value_data(inlay_context_output(rig.context, 0)), sizeof y[way]);
        rig_close(&rig);
    }
    for (int o = 0; o < 64; o++) {
        if (o == 3)
            assert_true(isnan(y[0][o]) && isnan(y[1][o]));
        else
            assert_true(y[1][o] == y[0][o]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_reference),  cmocka_unit_test(stay_packed), cmocka_unit_test(stay_by_default),
        cmocka_unit_test(scaled_by_channels), cmocka_unit_test(not_finite),  cmocka_unit_test(lstm_of_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
