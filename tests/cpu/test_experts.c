/* MoE and QMoE of random sizes with constant weights, each element compared with a sum in double of the file's values,
 * on cpu with every precision of activations, and on the reference; rows that do not affect each other; nodes that the
 * kernels of regions leave to single operators. */
#include "loops.h"
#include "rig.h"
#include "random.h"
#include <math.h>

enum { MOST_ROWS = 64, MOST_EXPERTS = 8, MOST_HIDDEN = 112, MOST_INNER = 96, MOST = MOST_EXPERTS * 2 * 112 * 112 };
enum { ACT_RELU, ACT_GELU, ACT_SILU, ACT_IDENTITY, ACT_SWIGLU, ACTS };
enum { NO_ZEROS, CODES, FLOATS, SAME_FLOATS };

static const char *const act_names[] = { "relu", "gelu", "silu", "identity", "swiglu" };
static uint64_t noise = 11;

struct layer {
    int64_t rows, columns;
    bool biased;
    int zeros;
    double weights[MOST], bias[MOST_EXPERTS * 2 * MOST_HIDDEN];
};

struct mixture {
    int bits, act, fusion, level; /* bits: 0 = floats; level: accuracy_level */
    int64_t block, experts, k, hidden, inner;
    bool gated, normalizes, given, halves; /* halves: floats of a Cast of float16 */
    double alpha, beta, limit;
    struct layer layers[3];
};

static void put_bytes(struct wire *wire, const char *name, int dtype, const int64_t *dims, const void *data,
                      size_t bytes)
{
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    mw_tensor_head(wire, name, dtype, 3, dims);
    wire_bytes(wire, 9, data, bytes);
    wire_end(wire, mark);
}

static void put_floats(struct wire *wire, const char *name, int64_t a, int64_t b, int64_t c, float low, float high,
                       float *out)
{
    for (int64_t i = 0; i < a * b * c; i++)
        out[i] = low + (high - low) * random_unit(&noise);
    put_bytes(wire, name, INLAY_FLOAT, (int64_t[]){ a, b, c }, out, (size_t)(a * b * c) * sizeof *out);
}

/* The constant, and a Cast of it in the graph. */
static void put_halves(struct wire *wire, const char *name, const int64_t *dims, double *out)
{
    static uint16_t halves[MOST];
    const char plain[] = { name[0], name[1], 'h', '\0' };
    const int64_t count = dims[0] * dims[1] * dims[2];

    for (int64_t i = 0; i < count; i++) {
        const int value = (int)random_below(&noise, 1023) + 1, sign = (int)random_below(&noise, 2);
        int top = 0;

        while (value >> (top + 1) != 0)
            top++;
        halves[i] = (uint16_t)(sign << 15 | (top - 12 + 15) << 10 | (value << (10 - top) & 1023));
        out[i] = (sign != 0 ? -1 : 1) * value / 4096.0;
    }
    put_bytes(wire, plain, INLAY_FLOAT16, dims, halves, (size_t)count * sizeof *halves);
}

static void append(char *list, const char *name, char letter, bool present)
{
    const size_t used = strlen(list);

    if (present)
        (void)snprintf(list + used, 400 - used, ",%s%c", name, letter);
    else
        (void)snprintf(list + used, 400 - used, ",_");
}

/* Writes the constants of a layer, and computes its weights in double. */
static void write_layer(struct wire *wire, const struct mixture *mixture, struct layer *layer, char letter)
{
    static uint8_t codes[MOST], zero_codes[MOST];
    static float floats[MOST], scales[MOST], zero_floats[MOST];
    const int64_t experts = mixture->experts, rows = layer->rows, columns = layer->columns, bits = mixture->bits;
    const int64_t block = mixture->block > 0 && mixture->block < columns ? mixture->block : columns,
                  blocks = (columns + block - 1) / block;
    const float size = 1 / sqrtf((float)columns);
    char name[8] = { 'w', letter };

    if (bits == 0 && mixture->halves) {
        put_halves(wire, name, (int64_t[]){ experts, rows, columns }, layer->weights);
    } else if (bits == 0) {
        put_floats(wire, name, experts, rows, columns, -2 * size, 2 * size, floats);
        for (int64_t i = 0; i < experts * rows * columns; i++)
            layer->weights[i] = (double)floats[i];
    } else {
        const int64_t per = 8 / bits, zero_row = blocks > 1 ? (blocks + per - 1) / per : 0,
                      zero_bytes = blocks > 1 ? experts * rows * zero_row : experts * rows / per;

        for (int64_t i = 0; i < experts * rows * columns / per; i++)
            codes[i] = (uint8_t)random_bits(&noise);
        put_bytes(wire, name, INLAY_UINT8, (int64_t[]){ experts, rows, columns / per }, codes,
                  (size_t)(experts * rows * columns / per));
        name[0] = 's';
        put_floats(wire, name, experts, rows, blocks, size / (float)(1 << bits), 4 * size / (float)(1 << bits), scales);
        name[0] = 'z';
        for (int64_t i = 0; i < zero_bytes; i++)
            zero_codes[i] = (uint8_t)random_bits(&noise);
        if (layer->zeros == CODES)
            put_bytes(wire, name, INLAY_UINT8, (int64_t[]){ 1, 1, zero_bytes }, zero_codes, (size_t)zero_bytes);
        if (layer->zeros == FLOATS)
            put_floats(wire, name, experts, rows, blocks, -1, (float)(1 << bits), zero_floats);
        for (int64_t i = 0; layer->zeros == SAME_FLOATS && i < experts * rows * blocks; i++)
            zero_floats[i] = 3;
        if (layer->zeros == SAME_FLOATS)
            put_bytes(wire, name, INLAY_FLOAT, (int64_t[]){ experts, rows, blocks }, zero_floats,
                      (size_t)(experts * rows * blocks) * sizeof(float));
        for (int64_t row = 0; row < experts * rows; row++)
            for (int64_t k = 0; k < columns; k++) {
                const int64_t at = row * blocks + k / block, element = row * columns + k;
                const int64_t byte = blocks > 1 ? row * zero_row + k / block / per : row / per,
                              place = blocks > 1 ? k / block % per : row % per;
                const int code = codes[element / per] >> (element % per * bits) & ((1 << bits) - 1);
                const double zero = layer->zeros == NO_ZEROS ? 1 << (bits - 1)
                                    : layer->zeros == CODES  ? zero_codes[byte] >> (place * bits) & ((1 << bits) - 1)
                                                             : (double)zero_floats[at];

                layer->weights[element] = (code - zero) * (double)scales[at];
            }
    }
    name[0] = 'b';
    for (int64_t i = 0; i < experts * rows; i++)
        layer->bias[i] = 0;
    if (!layer->biased)
        return;
    put_floats(wire, name, 1, experts, rows, -1, 1, floats);
    for (int64_t i = 0; i < experts * rows; i++)
        layer->bias[i] = (double)floats[i];
}

static void attr_float(struct wire *wire, const char *name, double value)
{
    wire_mark mark = mw_attr_begin(wire, name, 1);

    wire_float(wire, 2, (float)value);
    wire_end(wire, mark);
}

static void write_mixture(struct mixture *mixture, struct wire *wire)
{
    static const char letters[] = { '1', '2', '3' };
    const bool coded = mixture->bits != 0;
    char inputs[400] = "x,r";
    wire_mark graph, node, attr;

    wire_int(wire, 1, 13);
    mw_opset(wire, 8, "", 21);
    mw_opset(wire, 8, "com.microsoft", 1);
    graph = wire_begin(wire, 7);
    wire_text(wire, 2, "g");
    mixture->layers[0].rows = mixture->layers[2].rows = mixture->inner * (mixture->fusion != 0 ? 2 : 1);
    mixture->layers[0].columns = mixture->layers[1].rows = mixture->layers[2].columns = mixture->hidden;
    mixture->layers[1].columns = mixture->inner;
    for (int i = 0; i < 3; i++) {
        const bool on = i < 2 || mixture->gated;

        if (on)
            write_layer(wire, mixture, &mixture->layers[i], letters[i]);
        append(inputs, "w", letters[i], on);
        if (coded)
            append(inputs, "s", letters[i], on);
        append(inputs, "b", letters[i], on && mixture->layers[i].biased);
    }
    for (int i = 0; coded && i < 3; i++)
        append(inputs, "z", letters[i], (i < 2 || mixture->gated) && mixture->layers[i].zeros != NO_ZEROS);
    if (coded && mixture->given)
        append(inputs, "g", 'w', true);
    mw_value(wire, MW_INPUT, "x", INLAY_FLOAT, "R,H");
    mw_value(wire, MW_INPUT, "r", INLAY_FLOAT, "R,E");
    if (mixture->given)
        mw_value(wire, MW_INPUT, "gw", INLAY_FLOAT, "R,E");
    for (int i = 0; i < 3 && mixture->halves; i++) {
        const char plain[] = { 'w', letters[i], 'h', '\0' }, name[] = { 'w', letters[i], '\0' };

        if (i == 2 && !mixture->gated)
            continue;
        node = mw_node_begin(wire, "Cast", plain, name);
        mw_attr_int(wire, "to", INLAY_FLOAT);
        wire_end(wire, node);
    }
    node = mw_node_begin(wire, coded ? "QMoE" : "MoE", inputs, "y");
    wire_text(wire, 3, "the_node");
    wire_text(wire, 7, "com.microsoft");
    attr = mw_attr_begin(wire, "activation_type", 3);
    wire_text(wire, 4, act_names[mixture->act]);
    wire_end(wire, attr);
    mw_attr_int(wire, "k", mixture->k);
    mw_attr_int(wire, "normalize_routing_weights", mixture->normalizes);
    attr_float(wire, "activation_alpha", mixture->alpha);
    attr_float(wire, "activation_beta", mixture->beta);
    if (mixture->limit < 1e9)
        attr_float(wire, "swiglu_limit", mixture->limit);
    mw_attr_int(wire, "swiglu_fusion", mixture->fusion);
    if (coded) {
        mw_attr_int(wire, "accuracy_level", mixture->level);
        mw_attr_int(wire, "expert_weight_bits", mixture->bits);
        mw_attr_int(wire, "block_size", mixture->block);
    }
    wire_end(wire, node);
    mw_value(wire, MW_OUTPUT, "y", INLAY_FLOAT, NULL);
    wire_end(wire, graph);
}

/* out = weights of the expert times a row, plus the bias; lost: the error that a rounding by `step` of the row's
 * largest element causes, and that `lost_in` of each element causes. */
static void multiply(const struct layer *layer, int64_t expert, const double *input, double step, double lost_in,
                     double *out, double *out_lost)
{
    double top = 0;

    *out_lost = 0;
    for (int64_t k = 0; k < layer->columns; k++)
        top = fmax(top, fabs(input[k]));
    for (int64_t row = 0; row < layer->rows; row++) {
        const double *weights = layer->weights + (expert * layer->rows + row) * layer->columns;
        double sum = layer->bias[expert * layer->rows + row], size = fabs(sum), lost = 0;

        for (int64_t k = 0; k < layer->columns; k++) {
            sum += weights[k] * input[k];
            size += fabs(weights[k] * input[k]);
            lost += fabs(weights[k]) * (top * step + lost_in);
        }
        out[row] = sum;
        *out_lost = fmax(*out_lost, lost + 2e-6 * size);
    }
}

static double act_of(int act, double value)
{
    const double cube = value + 0.044715 * value * value * value;

    return act == ACT_RELU   ? fmax(value, 0)
           : act == ACT_GELU ? 0.5 * value * (1 + tanh(0.7978845608028654 * cube))
           : act == ACT_SILU ? value / (1 + exp(-value))
                             : value;
}

/* The layer between the products. *lost: the error before, and after. The slope of every activation is below 1.2. */
static void activate(const struct mixture *mixture, const double *first, const double *gate, double *out, double *lost,
                     double gate_lost)
{
    double most_gate = 1, most_act = 0;

    for (int64_t i = 0; i < mixture->inner; i++) {
        double gated = mixture->fusion == 1 ? first[2 * i] : first[i];
        double linear = mixture->fusion == 1   ? first[2 * i + 1]
                        : mixture->fusion == 2 ? first[mixture->inner + i]
                        : mixture->gated       ? gate[i]
                                               : 1;

        if (mixture->act == ACT_SWIGLU) {
            gated = fmin(gated, mixture->limit);
            linear = fmax(fmin(linear, mixture->limit), -mixture->limit) + mixture->beta;
            gated = gated / (1 + exp(-mixture->alpha * gated));
        } else {
            gated = act_of(mixture->act, gated);
        }
        out[i] = gated * linear;
        most_gate = fmax(most_gate, fabs(linear));
        most_act = fmax(most_act, fabs(gated));
    }
    *lost =
        *lost * 1.2 * most_gate + (mixture->fusion != 0 ? *lost : gate_lost) * most_act + 1e-6 * most_gate * most_act;
}

/* The result and its error bound for each row. */
static void expected(const struct mixture *mixture, int64_t rows, const float *x, const float *router,
                     const float *given, double step, double *want, double *bound)
{
    static double input[MOST_HIDDEN], first[2 * MOST_HIDDEN], gate[2 * MOST_HIDDEN], inner[MOST_HIDDEN],
        out[MOST_HIDDEN];

    for (int64_t row = 0; row < rows; row++) {
        const float *scores = router + row * mixture->experts;
        bool taken[MOST_EXPERTS] = { false };
        double all = 0, kept = 0, shares[MOST_EXPERTS];
        int64_t chosen[MOST_EXPERTS];

        for (int64_t e = 0; e < mixture->experts; e++)
            all += exp((double)scores[e]);
        for (int64_t i = 0; i < mixture->k; i++) {
            int64_t best = -1;

            for (int64_t e = 0; e < mixture->experts; e++)
                if (!taken[e] && (best < 0 || scores[e] > scores[best]))
                    best = e;
            taken[best] = true;
            chosen[i] = best;
            shares[i] = given != NULL ? (double)given[row * mixture->experts + best] : exp((double)scores[best]) / all;
            kept += shares[i];
        }
        for (int64_t k = 0; k < mixture->hidden; k++)
            input[k] = (double)x[row * mixture->hidden + k];
        bound[row] = 1e-6;
        for (int64_t n = 0; n < mixture->hidden; n++)
            want[row * mixture->hidden + n] = 0;
        for (int64_t i = 0; i < mixture->k; i++) {
            const double share = shares[i] / (mixture->normalizes ? kept : 1);
            double lost, gate_lost = 0, top = 0;

            multiply(&mixture->layers[0], chosen[i], input, step, 0, first, &lost);
            if (mixture->gated)
                multiply(&mixture->layers[2], chosen[i], input, step, 0, gate, &gate_lost);
            activate(mixture, first, gate, inner, &lost, gate_lost);
            multiply(&mixture->layers[1], chosen[i], inner, step, lost, out, &lost);
            for (int64_t n = 0; n < mixture->hidden; n++) {
                want[row * mixture->hidden + n] += share * out[n];
                top = fmax(top, fabs(out[n]));
            }
            bound[row] += share * (lost + 2e-6 * top);
        }
    }
}

#define FINE (0.5001 / 32639)

static const struct {
    const char *options[9];
    double step;
    bool by_model; /* the model may request 16 bits */
} ways[] = {
    { { "providers", "reference", NULL }, 0, false },
    { { "providers", "cpu,reference", "intra_threads", "1", NULL }, 0, true },
    { { "providers", "cpu,reference", "intra_threads", "3", NULL }, 0, true },
    { { "providers", "cpu,reference", "cpu.activations", "fine", "intra_threads", "2", NULL }, FINE, false },
    { { "providers", "cpu,reference", "cpu.activations", "byte", NULL }, 0.5001 / 127, false },
    { { "providers", "cpu,reference", "precision", "strict", NULL }, 0, false },
    { { "providers", "cpu,reference", "reproducible", "1", NULL }, 0, true },
};
enum { WAYS = sizeof ways / sizeof *ways };

static void draw(struct mixture *mixture, int i)
{
    static const int64_t blocks[] = { 0, 16, 32, 64 };

    mixture->bits = (const int[]){ 4, 8, 2, 0 }[i % 4];
    mixture->level = random_below(&noise, 2) != 0 ? 4 : 0;
    mixture->block = blocks[random_below(&noise, 4)];
    mixture->experts = random_between(&noise, 1, MOST_EXPERTS);
    mixture->k = random_between(&noise, 1, mixture->experts < 4 ? mixture->experts : 4);
    mixture->hidden = 16 * random_between(&noise, 1, MOST_HIDDEN / 16);
    mixture->inner = 16 * random_between(&noise, 1, MOST_INNER / 16);
    mixture->act = i / 4 % ACTS;
    mixture->fusion = mixture->act == ACT_SWIGLU ? i / 20 % 3 : 0;
    mixture->gated = mixture->fusion == 0 && random_below(&noise, 2) != 0;
    mixture->halves = mixture->bits == 0 && i / 4 % 2 == 0;
    if (mixture->halves) { /* smaller constants become floats */
        mixture->experts = MOST_EXPERTS;
        mixture->hidden = MOST_HIDDEN;
        mixture->inner = MOST_INNER;
    }
    mixture->normalizes = random_below(&noise, 2) != 0;
    mixture->given = mixture->bits != 0 && random_below(&noise, 3) == 0;
    mixture->alpha = 1.25;
    mixture->beta = mixture->act == ACT_SWIGLU && random_below(&noise, 2) != 0 ? 1 : 0;
    mixture->limit = random_below(&noise, 2) != 0 ? 1.5 : 1e30;
    for (int layer = 0, kind = (int)random_below(&noise, 2); layer < 3; layer++) { /* zero points have one type */
        mixture->layers[layer].biased = random_below(&noise, 2) != 0;
        mixture->layers[layer].zeros = random_below(&noise, 3) == 0   ? NO_ZEROS
                                       : kind == 0                    ? CODES
                                       : random_below(&noise, 2) == 0 ? FLOATS
                                                                      : SAME_FLOATS;
    }
}

static void fill(float *out, int64_t count, float low, float high)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = low + (high - low) * random_unit(&noise);
}

/* The output for rows of x. The caller closes the rig. */
static const float *run(struct rig *rig, const struct mixture *mixture, int64_t rows, const float *x,
                        const float *router, const float *given)
{
    char dims[40];

    (void)snprintf(dims, sizeof dims, "%lld,%lld", (long long)rows, (long long)mixture->hidden);
    rig_floats(rig, 0, dims, x);
    (void)snprintf(dims, sizeof dims, "%lld,%lld", (long long)rows, (long long)mixture->experts);
    rig_floats(rig, 1, dims, router);
    if (given != NULL)
        rig_floats(rig, 2, dims, given);
    rig_run(rig);
    assert_int_equal(inlay_value_count(inlay_context_output(rig->context, 0)), rows * mixture->hidden);
    return inlay_value_data(inlay_context_output(rig->context, 0));
}

static void random_mixtures(void **state)
{
    static struct mixture mixture;
    static float x[MOST_ROWS * MOST_HIDDEN], router[MOST_ROWS * MOST_EXPERTS], given[MOST_ROWS * MOST_EXPERTS];
    static double want[MOST_ROWS * MOST_HIDDEN], bound[MOST_ROWS];

    (void)state;
    for (int i = 0; i < (int)random_rounds(80); i++) {
        uint64_t seed;

        draw(&mixture, i);
        fill(x, MOST_ROWS * MOST_HIDDEN, -1, 1);
        fill(router, MOST_ROWS * MOST_EXPERTS, -3, 3);
        fill(given, MOST_ROWS * MOST_EXPERTS, 0.1f, 2);
        seed = noise;
        for (int way = 0; way < WAYS; way++) {
            const int64_t rows = (const int64_t[]){ 1, 2, 7, 33, MOST_ROWS }[(i + way) % 5];
            struct wire wire = { 0 };
            const float *output;
            struct rig rig;

            noise = seed;
            write_mixture(&mixture, &wire);
            rig = rig_open(&wire, ways[way].options);
            output = run(&rig, &mixture, rows, x, router, mixture.given ? given : NULL);
            expected(&mixture, rows, x, router, mixture.given ? given : NULL,
                     ways[way].by_model && mixture.level == 4 ? FINE : ways[way].step, want, bound);
            for (int64_t at = 0; at < rows * mixture.hidden; at++)
                if (!(fabs((double)output[at] - want[at]) <= bound[at / mixture.hidden]))
                    fail_msg(
                        "mixture %d (%d bits, %s, fusion %d), way %d, %lld rows: element %lld is %.9g, not %.9g +- %g",
                        i, mixture.bits, act_names[mixture.act], mixture.fusion, way, (long long)rows, (long long)at,
                        (double)output[at], want[at], bound[at / mixture.hidden]);
            rig_close(&rig);
        }
    }
}

/* With option reproducible, the number of rows has no effect on a row; neither has the number of threads, ever. */
static void same_bits(void **state)
{
    static const char *const options[][7] = {
        { "providers", "cpu,reference", "reproducible", "1", "intra_threads", "2", NULL },
        { "providers", "cpu,reference", "intra_threads", "1", NULL },
        { "providers", "cpu,reference", "intra_threads", "3", NULL },
    };
    static struct mixture mixture;
    static float x[MOST_ROWS * MOST_HIDDEN], router[MOST_ROWS * MOST_EXPERTS], all[MOST_ROWS * MOST_HIDDEN];

    (void)state;
    for (int i = 0; i < 12; i++) {
        uint64_t seed;

        draw(&mixture, i);
        mixture.given = false;
        fill(x, MOST_ROWS * MOST_HIDDEN, -1, 1);
        fill(router, MOST_ROWS * MOST_EXPERTS, -3, 3);
        seed = noise;
        for (int way = 0; way < 3; way++) {
            const size_t bytes = (size_t)(MOST_ROWS * mixture.hidden) * sizeof *all;
            struct wire wire = { 0 };
            const float *output;
            struct rig rig;

            noise = seed;
            write_mixture(&mixture, &wire);
            rig = rig_open(&wire, options[way]);
            output = run(&rig, &mixture, MOST_ROWS, x, router, NULL);
            if (way == 2)
                assert_memory_equal(all, output, bytes);
            memcpy(all, output, bytes);
            for (int64_t row = 0; way == 0 && row < MOST_ROWS; row += 13) {
                output = run(&rig, &mixture, 1, x + row * mixture.hidden, router + row * mixture.experts, NULL);
                assert_memory_equal(all + row * mixture.hidden, output, (size_t)mixture.hidden * sizeof *output);
            }
            rig_close(&rig);
        }
    }
}

/* Bytes of the constants of a mixture of two layers. */
static uint64_t constant_bytes(int i)
{
    static struct mixture mixture;
    static float x[MOST_HIDDEN], router[MOST_EXPERTS];
    inlay_plan_info plan = { .struct_size = sizeof plan };
    struct wire wire = { 0 };
    struct rig rig;

    draw(&mixture, i);
    mixture.experts = MOST_EXPERTS;
    mixture.block = 32;
    mixture.hidden = MOST_HIDDEN;
    mixture.inner = MOST_INNER;
    mixture.given = mixture.gated = false;
    mixture.layers[0].zeros = mixture.layers[1].zeros = NO_ZEROS;
    write_mixture(&mixture, &wire);
    rig = rig_open(&wire, ways[1].options);
    (void)run(&rig, &mixture, 1, x, router, NULL);
    assert_int_equal(inlay_context_plan(rig.context, &plan), INLAY_OK);
    rig_close(&rig);
    return plan.constant_bytes;
}

/* As floats, the weights would have 8 bytes for a pair of one of each layer. */
static void stay_packed(void **state)
{
    const uint64_t pairs = MOST_EXPERTS * MOST_HIDDEN * MOST_INNER;

    (void)state;
    if (is_below_avx2())
        skip();                                       /* these CPUs have no kernels for packed weights */
    assert_in_range(constant_bytes(0), 1, 2 * pairs); /* 4 bits */
    assert_in_range(constant_bytes(3), 1, 5 * pairs); /* float16 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_mixtures),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(stay_packed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
