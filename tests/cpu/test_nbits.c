/* GEMM with weights of 2, 4 and 8 bits, each element compared with a sum in double of the file's values:
 * DequantizeLinear of every low-bit type and layout before MatMul and Gemm, MatMulNBits, MatMulBnb4 and
 * GatherBlockQuantized, on cpu and on the reference; and inconsistent files. */
#include "loops.h"
#include "rig.h"
#include "oracle.h"
#include "random.h"
#include <math.h>

enum { K = 104, N = 168, MOST_ROWS = 20 };

static uint64_t state_of_noise = 7;

/* A code of `bits` bits; every fourth one is the smallest, and every fourth the largest. */
static int32_t noise_code(int bits)
{
    const uint32_t random = (uint32_t)random_bits(&state_of_noise), most = (1u << bits) - 1;

    return (int32_t)(random % 4 == 0 ? 0 : random % 4 == 1 ? most : random / 4 % (most + 1));
}

/* Writes elements of `bits` bits, packed from the low bits on; rows of `row` elements begin with a new byte. */
static void put_integers(struct wire *wire, const char *name, int dtype, uint32_t rank, const int64_t *dims,
                         const int32_t *q, int64_t count, int bits, int64_t row)
{
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    mw_tensor_head(wire, name, dtype, rank, dims);
    for (int64_t r = 0; r < count; r += row)
        for (int64_t i = 0; i < row; i += 8 / bits) {
            uint32_t byte = 0;

            for (int64_t e = 0; e < 8 / bits && i + e < row; e++)
                byte |= ((uint32_t)q[r + i + e] & ((1u << bits) - 1)) << (e * bits);
            wire_int(wire, 5, dtype == INLAY_INT8 ? (int8_t)byte : (int64_t)byte);
        }
    wire_end(wire, mark);
}

static void put_floats(struct wire *wire, const char *name, uint32_t rank, const int64_t *dims, const float *input,
                       int64_t count)
{
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    mw_tensor_head(wire, name, INLAY_FLOAT, rank, dims);
    for (int64_t i = 0; i < count; i++)
        wire_float(wire, 4, input[i]);
    wire_end(wire, mark);
}

static wire_mark begin_model(struct wire *wire)
{
    wire_int(wire, 1, 13);
    mw_opset(wire, 8, "", 25);
    mw_opset(wire, 8, "com.microsoft", 1);
    wire_mark mark = wire_begin(wire, 7);
    wire_text(wire, 2, "g");
    return mark;
}

static wire_mark contributed(struct wire *wire, const char *op, const char *inputs)
{
    wire_mark mark = mw_node_begin(wire, op, inputs, "y");

    wire_text(wire, 3, "the_node");
    wire_text(wire, 7, "com.microsoft");
    return mark;
}

static void expect(struct wire *wire, const char *const *options, const float *input, int64_t rows, const double *want,
                   const double *bound, int64_t columns, const char *what)
{
    char dims[32];
    struct rig rig = rig_open(wire, options);
    const float *output;

    (void)snprintf(dims, sizeof dims, "%lld,%d", (long long)rows, K);
    rig_floats(&rig, 0, dims, input);
    rig_run(&rig);
    output = inlay_value_data(inlay_context_output(rig.context, 0));
    assert_int_equal(inlay_value_count(inlay_context_output(rig.context, 0)), rows * columns);
    for (int64_t i = 0; i < rows * columns; i++) {
        if (!(fabs(output[i] - want[i]) <= bound[i]))
            fail_msg("%s, %lld rows: element %lld is %.9g, not %.9g", what, (long long)rows, (long long)i,
                     (double)output[i], want[i]);
    }
    rig_close(&rig);
}

/* input * weights + bias in double, and the sums of the sizes of the terms, and of those of the largest activation of
 * the row. */
struct sums {
    double want[MOST_ROWS * N], sizes[MOST_ROWS * N], tops[MOST_ROWS * N];
};

ORACLE static void sum_rows(struct sums *sums, const float *input, int64_t rows, const double *weights,
                            const float *bias)
{
    for (int64_t r = 0; r < rows; r++) {
        double top = 0;

        for (int64_t k = 0; k < K; k++)
            top = fmax(top, fabs((double)input[r * K + k]));
        for (int64_t n = 0; n < N; n++) {
            double sum = bias != NULL ? bias[n] : 0, size = fabs(sum), weight = 0;

            for (int64_t k = 0; k < K; k++) {
                sum += (double)input[r * K + k] * weights[k * N + n];
                size += fabs((double)input[r * K + k] * weights[k * N + n]);
                weight += fabs(weights[k * N + n]);
            }
            sums->want[r * N + n] = sum;
            sums->sizes[r * N + n] = size;
            sums->tops[r * N + n] = top * weight;
        }
    }
}

/* The error bound: that of float sums plus, if activations are quantized, `step` times the largest activation of the
 * row for each term. */
static const double *bounds(const struct sums *sums, double step)
{
    static double bound[MOST_ROWS * N];

    for (int64_t i = 0; i < MOST_ROWS * N; i++)
        bound[i] = 2e-6 * sums->sizes[i] + sums->tops[i] * step;
    return bound;
}

static const struct {
    const char *options[9];
    double step;
} ways[] = {
    { { "providers", "reference", NULL }, 0 },
    { { "providers", "cpu,reference", "cpu.activations", "exact", "intra_threads", "1", NULL }, 0 },
    { { "providers", "cpu,reference", "intra_threads", "1", NULL }, 0 }, /* exact by default */
    { { "providers", "cpu,reference", "cpu.activations", "fine", "intra_threads", "1", NULL }, 0.5001 / 32639 },
    { { "providers", "cpu,reference", "cpu.activations", "fine", "intra_threads", "2", NULL }, 0.5001 / 32639 },
    { { "providers", "cpu,reference", "precision", "fast", NULL }, 0.5001 / 32639 },
    { { "providers", "cpu,reference", "cpu.activations", "byte", NULL }, 0.5001 / 127 },
    { { "providers", "cpu,reference", "precision", "strict", NULL }, 0 },
    { { "providers", "cpu,reference", "level", "0", NULL }, 0 },
    { { "providers", "cpu,reference", "reproducible", "1", "cpu.activations", "exact", NULL }, 0 },
};
enum { WAYS = sizeof ways / sizeof *ways };

static const struct {
    const char *name;
    int dtype, bits;
    bool is_signed, powers; /* powers: scales are float8e8m0 */
} types[] = {
    { "int4", INLAY_INT4, 4, true, false },          { "uint4", INLAY_UINT4, 4, false, false },
    { "int8", INLAY_INT8, 8, true, false },          { "uint8", INLAY_UINT8, 8, false, false },
    { "int2", INLAY_INT2, 2, true, false },          { "uint2", INLAY_UINT2, 2, false, false },
    { "float4", INLAY_FLOAT4E2M1, 4, false, false }, { "mxfp4", INLAY_FLOAT4E2M1, 4, false, true },
};
enum { TYPES = sizeof types / sizeof *types };

/* The value of a code. */
static double value_of(int type, int32_t code)
{
    static const double magnitudes[8] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6 };

    if (types[type].dtype != INLAY_FLOAT4E2M1)
        return code;
    return (code & 8) != 0 ? -magnitudes[code & 7] : magnitudes[code & 7];
}

/* FORM_GEMM and FORM_TURNED have weights [N, K]. */
enum { FORM_MATMUL, FORM_GEMM, FORM_TURNED, FORM_ADDED, FORMS };

struct linear {
    int type, form;
    int64_t block;         /* elements per scale; 0: one scale per column, -1: one scale for all */
    bool zeros, largest;   /* largest: all codes are */
    double weights[K * N]; /* [K, N] */
    float bias[N];
};

static void write_linear(struct linear *linear, struct wire *wire)
{
    static int32_t q[K * N], zeros[K * N], exponents[K * N];
    static float scales[K * N];
    const bool turned = linear->form == FORM_GEMM || linear->form == FORM_TURNED;
    const int64_t dims[2] = { turned ? N : K, turned ? K : N },
                  blocks = linear->block > 0 ? (K + linear->block - 1) / linear->block : 1;
    const int64_t scale_dims[2] = { turned ? N : blocks, turned ? blocks : N }, n = N,
                  *scale_of = linear->block > 0 ? scale_dims : &n;
    const uint32_t scale_rank = linear->block > 0 ? 2 : linear->block == 0 ? 1 : 0;
    const int bits = types[linear->type].bits, low = types[linear->type].is_signed ? -(1 << (bits - 1)) : 0;
    const int64_t count = linear->block < 0 ? 1 : blocks * N;
    wire_mark mark = begin_model(wire), node;

    for (int64_t i = 0; i < K * N; i++)
        q[i] = low + (linear->largest ? (1 << bits) - 1 : noise_code(bits));
    for (int64_t i = 0; i < count; i++) {
        zeros[i] = low + noise_code(bits);
        scales[i] = 0.25f + 0.125f * random_signed(&state_of_noise);
        exponents[i] = 125 + (int32_t)(random_bits(&state_of_noise) % 3);
        if (types[linear->type].powers)
            scales[i] = ldexpf(1, exponents[i] - 127);
    }
    for (int64_t k = 0; k < K; k++)
        for (int64_t j = 0; j < N; j++) {
            const int64_t b = linear->block > 0 ? k / linear->block : 0, at = linear->block < 0 ? 0
                                                                              : turned          ? j * blocks + b
                                                                                                : b * N + j;

            linear->weights[k * N + j] =
                (value_of(linear->type, q[turned ? j * K + k : k * N + j]) - (linear->zeros ? zeros[at] : 0)) *
                (double)scales[at];
        }
    for (int64_t j = 0; j < N; j++)
        linear->bias[j] = random_signed(&state_of_noise);
    put_integers(wire, "q", types[linear->type].dtype, 2, dims, q, K * N, bits, K * N);
    if (types[linear->type].powers)
        put_integers(wire, "s", INLAY_FLOAT8E8M0, scale_rank, scale_of, exponents, count, 8, count);
    else
        put_floats(wire, "s", scale_rank, scale_of, scales, count);
    if (linear->zeros)
        put_integers(wire, "z", types[linear->type].dtype, scale_rank, scale_of, zeros, count, bits, count);
    put_floats(wire, "b", 1, &n, linear->bias, N);
    mw_value(wire, MW_INPUT, "x", INLAY_FLOAT, "R,104");
    node = mw_node_begin(wire, "DequantizeLinear", linear->zeros ? "q,s,z" : "q,s", "f");
    mw_attr_int(wire, "axis", linear->block > 0 ? (turned ? 1 : 0) : turned ? 0 : 1);
    if (linear->block > 0)
        mw_attr_int(wire, "block_size", linear->block);
    if (types[linear->type].powers)
        mw_attr_int(wire, "output_dtype", INLAY_FLOAT);
    wire_end(wire, node);
    if (linear->form == FORM_GEMM) {
        mw_node_int(wire, "Gemm", "x,f,b", "y", "transB", 1);
    } else if (linear->form == FORM_TURNED) {
        node = mw_node_begin(wire, "Transpose", "f", "t");
        mw_attr_ints(wire, "perm", 2, (const int64_t[]){ 1, 0 });
        wire_end(wire, node);
        mw_node(wire, "MatMul", "x,t", "y");
    } else {
        mw_node(wire, "MatMul", "x,f", linear->form == FORM_ADDED ? "p" : "y");
        if (linear->form == FORM_ADDED)
            mw_node(wire, "Add", "p,b", "y");
    }
    mw_value(wire, MW_OUTPUT, "y", INLAY_FLOAT, NULL);
    wire_end(wire, mark);
}

static void linears(void **state)
{
    static const int64_t blocks[] = { -1, 0, 16, 32, 24, 8 };
    static struct linear linear;
    static float x[MOST_ROWS * K];
    static struct sums sums;

    (void)state;
    for (int64_t i = 0; i < MOST_ROWS * K; i++)
        x[i] = random_signed(&state_of_noise);
    for (int c = 0; c < TYPES * 6 * 2; c++) {
        const uint64_t seed = state_of_noise;

        linear.type = c % TYPES;
        linear.block = blocks[c / TYPES % 6];
        linear.zeros = c / TYPES / 6 != 0 && types[linear.type].dtype != INLAY_FLOAT4E2M1;
        linear.form = (c + c / TYPES) % FORMS;
        for (int i = 0; i < WAYS; i++) {
            const int64_t rows = (const int64_t[]){ 1, 5, MOST_ROWS }[(c + i) % 3];
            char what[96];
            struct wire wire = { 0 };

            (void)snprintf(what, sizeof what, "%s, form %d, block %lld, zeros %d, way %d", types[linear.type].name,
                           linear.form, (long long)linear.block, linear.zeros, i);
            state_of_noise = seed;
            write_linear(&linear, &wire);
            if (i == 0)
                sum_rows(&sums, x, MOST_ROWS, linear.weights,
                         linear.form == FORM_GEMM || linear.form == FORM_ADDED ? linear.bias : NULL);
            expect(&wire, ways[i].options, x, rows, sums.want, bounds(&sums, ways[i].step), N, what);
        }
    }
}

/* The largest weights by activations whose low bytes are the most negative ones, and exact as 16-bit integers: the
 * largest sums of bytes. */
static void largest_sums(void **state)
{
    static struct linear linear = { .block = 32, .largest = true };
    static float x[5 * K];
    static struct sums sums;

    (void)state;
    for (int64_t i = 0; i < 5 * K; i++)
        x[i] = i % K % 32 == 0 ? 32639.0f : i / K % 2 == 0 ? 128.0f : -128.0f;
    for (linear.type = 0; linear.type < TYPES; linear.type++)
        for (int64_t rows = 1; rows <= 5; rows += 4) {
            struct wire wire = { 0 };

            write_linear(&linear, &wire);
            sum_rows(&sums, x, rows, linear.weights, NULL);
            expect(&wire, (const char *const[]){ "providers", "cpu,reference", "cpu.activations", "fine", NULL }, x,
                   rows, sums.want, bounds(&sums, 0), N, types[linear.type].name);
        }
}

/* As floats, the weights would have eight times the size of 4 bits. Those of float4 are packed as 8 bits. */
static void stay_packed(void **state)
{
    static const int kinds[] = { 0, TYPES - 2, TYPES - 1 };
    static struct linear linear = { .block = 32 };

    (void)state;
    if (is_below_avx2())
        skip(); /* on these CPUs the weights are floats */
    for (int i = 0; i < 3 * FORMS; i++) {
        inlay_plan_info plan = { .struct_size = sizeof plan };
        static const float x[K];
        struct wire wire = { 0 };
        struct rig rig;

        linear.type = kinds[i / FORMS];
        linear.form = i % FORMS;
        write_linear(&linear, &wire);
        rig = rig_open(&wire, ways[2].options);
        rig_floats(&rig, 0, "1,104", x);
        rig_run(&rig);
        assert_int_equal(inlay_context_plan(rig.context, &plan), INLAY_OK);
        assert_in_range(plan.constant_bytes, 1, K * N * 2);
        rig_close(&rig);
    }
}

/* Rows that cannot be converted to integers are float sums, and do not affect the rows next to them: with few rows and
 * many, with activations as floats, in 16 bits and in 8. */
static void not_finite(void **state)
{
    enum { ROWS = 13 };
    static const struct {
        int way, rows;
        float bound;
    } cases[] = {
        { 0, ROWS, 0 }, { 2, ROWS, 1e-2f }, { 3, 6, 1e-2f }, { 3, ROWS, 1e-2f }, { 6, 6, 2 }, { 6, ROWS, 2 }
    };
    static struct linear linear = { .type = 0, .block = 32 };
    static float x[ROWS * K], want[ROWS * N];
    static const int odd[] = { 2, 3, 4, ROWS - 1 };
    const uint64_t seed = state_of_noise;

    (void)state;
    for (int64_t i = 0; i < ROWS * K; i++)
        x[i] = random_signed(&state_of_noise);
    x[2 * K + 40] = INFINITY;
    x[3 * K + 7] = NAN;
    x[4 * K + 9] = 1e-35f;
    for (int64_t k = 64; k < 96; k++)
        x[4 * K + k] = 0;
    x[4 * K + 70] = 1e-35f;
    x[(ROWS - 1) * K] = -INFINITY;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char dims[32];
        struct wire wire = { 0 };
        const float *got;
        struct rig rig;

        state_of_noise = seed;
        write_linear(&linear, &wire);
        rig = rig_open(&wire, ways[cases[c].way].options);
        (void)snprintf(dims, sizeof dims, "%d,%d", cases[c].rows, K);
        rig_floats(&rig, 0, dims, x);
        rig_run(&rig);
        got = inlay_value_data(inlay_context_output(rig.context, 0));
        if (c == 0)
            memcpy(want, got, sizeof want);
        for (int64_t i = 0; i < cases[c].rows * N; i++) {
            bool exact = false;

            for (size_t o = 0; o < sizeof odd / sizeof *odd; o++)
                exact |= i / N == odd[o];
            if (isnan(want[i]))
                assert_true(isnan(got[i]));
            else if (isinf(want[i]))
                assert_true(got[i] == want[i]);
            else
                assert_true(fabsf(got[i] - want[i]) <= (exact ? fminf(cases[c].bound, 1e-4f) : cases[c].bound));
        }
        rig_close(&rig);
    }
}

struct nbits {
    int bits;
    int64_t block;
    bool zeros, halves, bias, groups; /* halves: zero points are floats, in steps of 1/2 */
    double weights[K * N];
    float added[N];
};

static void write_nbits(struct nbits *nbits, struct wire *wire)
{
    static int32_t q[2 * K * N], zeros[K * N], groups[K];
    static float scales[K * N], halves[K * N];
    const int64_t blocks = (K + nbits->block - 1) / nbits->block, n = N, k = K, all = N * blocks;
    const int64_t dims[3] = { N, blocks, nbits->block * nbits->bits / 8 },
                  zero_bytes = N * ((blocks * nbits->bits + 7) / 8);
    wire_mark mark = begin_model(wire), node;

    for (int64_t i = 0; i < N * blocks * nbits->block; i++)
        q[i] = noise_code(nbits->bits);
    for (int64_t i = 0; i < all; i++) {
        zeros[i] = noise_code(nbits->bits);
        scales[i] = 0.25f + 0.125f * random_signed(&state_of_noise);
    }
    for (int64_t i = 0; i < K; i++)
        groups[i] = (int32_t)random_below(&state_of_noise, blocks);
    for (int64_t i = 0; i < K; i++)
        for (int64_t j = 0; j < N; j++) {
            const int64_t at = j * blocks + (nbits->groups ? groups[i] : i / nbits->block);

            nbits->weights[i * N + j] =
                ((double)q[j * blocks * nbits->block + i] -
                 (nbits->zeros ? (nbits->halves ? 0.5 : 1) * zeros[at] : 1 << (nbits->bits - 1))) *
                (double)scales[at];
        }
    for (int64_t j = 0; j < N; j++)
        nbits->added[j] = random_signed(&state_of_noise);
    put_integers(wire, "q", INLAY_UINT8, 3, dims, q, N * blocks * nbits->block, nbits->bits, nbits->block);
    put_floats(wire, "s", 1, &all, scales, all);
    for (int64_t i = 0; i < all; i++)
        halves[i] = 0.5f * (float)zeros[i];
    if (nbits->zeros && nbits->halves)
        put_floats(wire, "z", 1, &all, halves, all);
    else if (nbits->zeros)
        put_integers(wire, "z", INLAY_UINT8, 1, &zero_bytes, zeros, all, nbits->bits, blocks);
    put_floats(wire, "b", 1, &n, nbits->added, N);
    put_integers(wire, "g", INLAY_INT32, 1, &k, groups, K, 8, 1);
    mw_value(wire, MW_INPUT, "x", INLAY_FLOAT, "R,104");
    node = contributed(wire, "MatMulNBits",
                       nbits->bias     ? (nbits->zeros ? "x,q,s,z,,b" : "x,q,s,,,b")
                       : nbits->groups ? (nbits->zeros ? "x,q,s,z,g" : "x,q,s,,g")
                                       : (nbits->zeros ? "x,q,s,z" : "x,q,s"));
    mw_attr_int(wire, "K", K);
    mw_attr_int(wire, "N", N);
    mw_attr_int(wire, "bits", nbits->bits);
    mw_attr_int(wire, "block_size", nbits->block);
    wire_end(wire, node);
    mw_value(wire, MW_OUTPUT, "y", INLAY_FLOAT, NULL);
    wire_end(wire, mark);
}

static void mat_mul_nbits(void **state)
{
    static struct nbits nbits;
    static float x[MOST_ROWS * K];
    static struct sums sums;

    (void)state;
    for (int64_t i = 0; i < MOST_ROWS * K; i++)
        x[i] = random_signed(&state_of_noise);
    for (int c = 0; c < 36; c++) {
        const uint64_t seed = state_of_noise;

        nbits.bits = (const int[]){ 2, 4, 8 }[c % 3];
        nbits.block = (const int64_t[]){ 16, 32, 128 }[c / 3 % 3];
        nbits.zeros = c / 9 % 2 != 0;
        nbits.halves = c / 3 % 2 != 0;
        nbits.bias = c / 18 != 0 && c % 2 == 0;
        nbits.groups = c / 18 != 0 && c % 2 != 0;
        for (int i = 0; i < WAYS; i++) {
            const int64_t rows = (const int64_t[]){ 1, 5, MOST_ROWS }[(c + i) % 3];
            char what[96];
            struct wire wire = { 0 };

            (void)snprintf(what, sizeof what, "%d bits, block %lld, zeros %d, bias %d, groups %d, way %d", nbits.bits,
                           (long long)nbits.block, nbits.zeros, nbits.bias, nbits.groups, i);
            state_of_noise = seed;
            write_nbits(&nbits, &wire);
            if (i == 0)
                sum_rows(&sums, x, MOST_ROWS, nbits.weights, nbits.bias ? nbits.added : NULL);
            expect(&wire, ways[i].options, x, rows, sums.want, bounds(&sums, ways[i].step), N, what);
        }
    }
}

/* Two table indexes per byte, the first in the high nibble; blocks over all of [N, K]. */
static void bnb4(void **state)
{
    static const double nf4[] = { -1.0,
                                  -0.6961928009986877,
                                  -0.5250730514526367,
                                  -0.39491748809814453,
                                  -0.28444138169288635,
                                  -0.18477343022823334,
                                  -0.09105003625154495,
                                  0.0,
                                  0.07958029955625534,
                                  0.16093020141124725,
                                  0.24611230194568634,
                                  0.33791524171829224,
                                  0.44070982933044434,
                                  0.5626170039176941,
                                  0.7229568362236023,
                                  1.0 };
    static const double fp4[] = { 0, 0.0052083333, 2.0 / 3, 1, 1.0 / 3, 0.5, 1.0 / 6, 0.25 };
    static int32_t q[K * N];
    static float x[3 * K], top[K * N / 64];
    static double weights[K * N];
    static struct sums sums;
    const int64_t bytes = K * N / 2, tops = K * N / 64;

    (void)state;
    for (int type = 0; type < 2; type++) {
        struct wire wire = { 0 };
        wire_mark mark = begin_model(&wire), node;

        for (int64_t i = 0; i < 3 * K; i++)
            x[i] = random_signed(&state_of_noise);
        for (int64_t i = 0; i < tops; i++)
            top[i] = 1 + random_signed(&state_of_noise) / 2;
        for (int64_t i = 0; i < K * N; i++) {
            const int index = (int)random_below(&state_of_noise, 16);

            q[i ^ 1] = index;
            weights[i % K * N + i / K] = (type == 1   ? nf4[index]
                                          : index < 8 ? fp4[index]
                                                      : -fp4[index - 8]) *
                                         top[i / 64];
        }
        put_integers(&wire, "q", INLAY_UINT8, 1, &bytes, q, K * N, 4, K * N);
        put_floats(&wire, "s", 1, &tops, top, tops);
        mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "R,104");
        node = contributed(&wire, "MatMulBnb4", "x,q,s");
        mw_attr_int(&wire, "K", K);
        mw_attr_int(&wire, "N", N);
        mw_attr_int(&wire, "block_size", 64);
        mw_attr_int(&wire, "quant_type", type);
        wire_end(&wire, node);
        mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, NULL);
        wire_end(&wire, mark);
        sum_rows(&sums, x, 3, weights, NULL);
        expect(&wire, ways[0].options, x, 3, sums.want, bounds(&sums, 0), N, type == 1 ? "NF4" : "FP4");
    }
}

/* Rows 2, -1 and 0 of a table. kind 0: int4, 1: uint8 with 4 bits, 2: uint8 with 8 bits. */
static void gathered(void **state)
{
    enum { ROWS = 5, COLUMNS = 40, BLOCK = 16, BLOCKS = 3 };

    (void)state;
    for (int kind = 0; kind < 3; kind++)
        for (int variant = 0; variant < (kind == 1 ? 2 : 4); variant++) {
            const int bits = kind == 2 ? 8 : 4;
            const bool zeros = variant % 2 != 0, columns = variant / 2 != 0; /* gathers along the axis of the blocks */
            const int64_t dims[2] = { ROWS, kind == 1 ? COLUMNS / 2 : COLUMNS }, scale_dims[2] = { ROWS, BLOCKS };
            const int64_t zero_dims[2] = { ROWS, kind == 1 ? (BLOCKS + 1) / 2 : BLOCKS };
            const int64_t indices[3] = { 2, -1, 0 };
            const int low = kind == 0 ? -8 : 0;
            int32_t q[ROWS * COLUMNS], z[ROWS * BLOCKS];
            float scales[ROWS * BLOCKS];
            struct wire wire = { 0 };
            wire_mark mark = begin_model(&wire), node;
            struct rig rig;

            for (int i = 0; i < ROWS * COLUMNS; i++)
                q[i] = low + noise_code(bits);
            for (int i = 0; i < ROWS * BLOCKS; i++) {
                z[i] = low + noise_code(bits);
                scales[i] = 1 + random_signed(&state_of_noise) / 2;
            }
            put_integers(&wire, "q", kind == 0 ? INLAY_INT4 : INLAY_UINT8, 2, dims, q, ROWS * COLUMNS, bits,
                         ROWS * COLUMNS);
            put_floats(&wire, "s", 2, scale_dims, scales, ROWS * BLOCKS);
            if (zeros)
                put_integers(&wire, "z", kind == 0 ? INLAY_INT4 : INLAY_UINT8, 2, zero_dims, z, ROWS * BLOCKS, bits,
                             kind == 1 ? BLOCKS : ROWS * BLOCKS);
            mw_value(&wire, MW_INPUT, "i", INLAY_INT64, "3");
            node = contributed(&wire, "GatherBlockQuantized", zeros ? "q,i,s,z" : "q,i,s");
            mw_attr_int(&wire, "bits", bits);
            mw_attr_int(&wire, "block_size", BLOCK);
            mw_attr_int(&wire, "gather_axis", columns);
            wire_end(&wire, node);
            mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, NULL);
            wire_end(&wire, mark);
            rig = rig_open(&wire, NULL);
            rig_set(&rig, 0, INLAY_INT64, "3", indices);
            rig_run(&rig);
            const float *output = inlay_value_data(inlay_context_output(rig.context, 0));
            for (int64_t i = 0; i < (columns ? ROWS : 3); i++)
                for (int64_t c = 0; c < (columns ? 3 : COLUMNS); c++) {
                    const int64_t row = columns ? i : (indices[i] + ROWS) % ROWS;
                    const int64_t column = columns ? (indices[c] + COLUMNS) % COLUMNS : c;
                    const int64_t at = row * BLOCKS + column / BLOCK;
                    const int32_t zero = zeros ? z[at] : kind == 0 ? 0 : 1 << (bits - 1);

                    assert_true(*output++ == (float)(q[row * COLUMNS + column] - zero) * scales[at]);
                }
            rig_close(&rig);
        }
}

static void contradictions(void **state)
{
    static const struct {
        int64_t k, n, bits, block, bytes, scales;
        const char *says;
    } rows[] = {
        { 64, 2, 4, 32, 64, 4, NULL },
        { 64, 2, 3, 32, 64, 4, "bits is 3" },
        { 64, 2, 4, 24, 64, 4, "block_size is 24" },
        { 64, 2, 4, 0, 64, 4, "block_size is 0" },
        { 64, 2, 4, -32, 64, 4, "block_size is -32" },
        { 64, 2, 4, 32, 63, 4, "input 1 has 63 elements" },
        { 64, 2, 8, 32, 64, 4, "input 1 has 64 elements" },
        { 64, 2, 4, 32, 64, 3, "input 2 has 3 elements" },
        { 0, 2, 4, 32, 64, 4, "K is 0" },
        { INT64_MAX, INT64_MAX, 4, 32, 64, 4, "K is" },
        { 96, 2, 4, 32, 96, 6, "but K is 96" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int32_t q[96] = { 0 };
        float scales[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_status status;
        struct wire wire = { 0 };
        wire_mark mark = begin_model(&wire), node;
        struct rig rig;

        put_integers(&wire, "q", INLAY_UINT8, 1, &rows[i].bytes, q, rows[i].bytes, 8, rows[i].bytes);
        put_floats(&wire, "s", 1, &rows[i].scales, scales, rows[i].scales);
        mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "R,64");
        node = contributed(&wire, "MatMulNBits", "x,q,s");
        mw_attr_int(&wire, "K", rows[i].k);
        mw_attr_int(&wire, "N", rows[i].n);
        mw_attr_int(&wire, "bits", rows[i].bits);
        mw_attr_int(&wire, "block_size", rows[i].block);
        wire_end(&wire, node);
        mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, NULL);
        wire_end(&wire, mark);
        status = rig_try_open(&wire, NULL, &rig, &diag);
        if (rows[i].says == NULL) {
            assert_int_equal(status, INLAY_OK);
        } else {
            assert_int_not_equal(status, INLAY_OK);
            if (strstr(diag.text, rows[i].says) == NULL || strstr(diag.text, "the_node") == NULL)
                fail_msg("row %zu: %s", i, diag.text);
        }
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linears),    cmocka_unit_test(largest_sums),   cmocka_unit_test(stay_packed),
        cmocka_unit_test(not_finite), cmocka_unit_test(mat_mul_nbits),  cmocka_unit_test(bnb4),
        cmocka_unit_test(gathered),   cmocka_unit_test(contradictions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
