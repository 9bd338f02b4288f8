/* Invalid quantized weights: wrong numbers of scales and zero points, blocks that do not divide the size, wrong
 * sizes of packed data. Each is the same error on every provider and names the node or tensor. Also 16-bit integers,
 * which have no special kernels. */
#include "rig.h"
#include <math.h>

enum { K = 32, N = 16 };

static const char *const providers[] = { "reference", "cpu,reference" };
enum { PROVIDERS = 2 };

static void tensor(struct wire *wire, const char *name, int dtype, const char *shape, const void *data, size_t bytes)
{
    int64_t dims[INLAY_MAX_RANK];
    const uint32_t rank = mw_dims(shape, dims);
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    mw_tensor_head(wire, name, dtype, rank, dims);
    wire_bytes(wire, 9, data, bytes);
    wire_end(wire, mark);
}

static void floats(struct wire *wire, const char *name, const char *shape, size_t count)
{
    float values[K * N];

    for (size_t i = 0; i < count; i++)
        values[i] = 0.5f;
    tensor(wire, name, INLAY_FLOAT, shape, values, count * sizeof values[0]);
}

/* Expects that the creation or the run of the session fails with a message that contains both texts. */
static void expect_error(struct wire *wire, const char *provider, const char *who, const char *what)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    const float x[2 * K] = { 0 };
    struct rig rig;
    inlay_status status = rig_try_open(wire, (const char *const[]){ "providers", provider, NULL }, &rig, &diag);

    if (status == INLAY_OK) {
        rig_floats(&rig, 0, "2,32", x);
        status = inlay_context_run(rig.context, NULL, &diag);
    }
    if (status == INLAY_OK)
        fail_msg("runs on %s, although %s", provider, what);
    if (strstr(diag.text, who) == NULL || strstr(diag.text, what) == NULL)
        fail_msg("expected '%s' of '%s' in: %s", what, who, diag.text);
    rig_close(&rig);
}

struct dequantized {
    int dtype;
    size_t bytes;      /* of w [32, 16] */
    const char *scale; /* shape */
    size_t scales;
    int zero_dtype; /* 0: none */
    size_t zeros;
    int64_t axis, block;
    const char *who, *what;
};

static void one_dequantized(const struct dequantized *dequantized, const char *provider)
{
    static const int8_t bytes[K * N];
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 10, 21), n;
    char shape[16];

    mw_value(&wire, MW_INPUT, "x", RIG_FLOAT, "2,32");
    mw_value(&wire, MW_OUTPUT, "y", RIG_FLOAT, NULL);
    tensor(&wire, "w", dequantized->dtype, "32,16", bytes, dequantized->bytes);
    floats(&wire, "s", dequantized->scale, dequantized->scales);
    if (dequantized->zero_dtype != 0) {
        (void)snprintf(shape, sizeof shape, "%zu", dequantized->zeros);
        tensor(&wire, "z", dequantized->zero_dtype, shape, bytes, dequantized->zeros);
    }
    n = mw_node_begin(&wire, "DequantizeLinear", dequantized->zero_dtype != 0 ? "w,s,z" : "w,s", "f");
    wire_text(&wire, 3, "weights");
    mw_attr_int(&wire, "axis", dequantized->axis);
    mw_attr_int(&wire, "block_size", dequantized->block);
    wire_end(&wire, n);
    mw_node(&wire, "MatMul", "x,f", "y");
    wire_end(&wire, mark);
    expect_error(&wire, provider, dequantized->who, dequantized->what);
}

static void dequantize(void **state)
{
    static const struct dequantized rows[] = {
        { INLAY_INT8, K * N, "15", 15, 0, 0, 1, 0, "weights", "15 elements" },
        { INLAY_INT8, K * N, "16", 16, 0, 0, 5, 0, "weights", "axis 5" },
        { INLAY_INT8, K * N, "6,16", 96, 0, 0, 0, 5, "weights", "7 instead of 32" },
        { INLAY_INT8, K * N, "3,16", 48, 0, 0, 0, 8, "weights", "4 instead of 32" },
        { INLAY_INT8, K * N, "4,16", 64, 0, 0, 0, -8, "weights", "block_size is -8" },
        { INLAY_INT4, 100, "16", 16, 0, 0, 1, 0, "'w'", "raw_data holds 100 bytes" },
        { INLAY_INT8, K * N, "16", 16, INLAY_INT8, 15, 1, 0, "weights", "zero point has 15 elements" },
        { INLAY_INT8, K * N, "16", 16, INLAY_UINT8, 16, 1, 0, "weights", "is uint8 but input 0 is int8" },
        { INLAY_INT8, 100, "16", 16, 0, 0, 1, 0, "'w'", "raw_data holds 100 bytes" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int provider = 0; provider < PROVIDERS; provider++)
            one_dequantized(&rows[i], providers[provider]);
}

static void packed(void **state)
{
    static const struct {
        int64_t k, n, bits, block;
        const char *shape;
        size_t bytes, scales, zeros; /* zeros 0: none */
        const char *what;
    } rows[] = {
        { K, N, 5, 32, "16,1,16", 256, 16, 0, "bits is 5" },
        { K, N, 4, 24, "16,2,12", 384, 32, 0, "block_size is 24" },
        { K, N, 4, 32, "16,1,15", 240, 16, 0, "input 1 has 240 elements" },
        { K, N, 4, 32, "16,1,16", 256, 17, 0, "input 2 has 17 elements" },
        { K, N, 4, 32, "16,1,16", 256, 16, 3, "input 3 has 3 elements" },
        { K + 1, N, 4, 32, "16,2,16", 512, 32, 0, "K is 33" },
        { K, 0, 4, 32, "16,1,16", 256, 16, 0, "N 0" },
        { K, N, 4, 0, "16,1,16", 256, 16, 0, "block_size is 0" },
    };
    static const uint8_t bytes[2 * K * N];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int provider = 0; provider < PROVIDERS; provider++) {
            struct wire wire = { 0 };
            wire_mark mark = mw_begin(&wire, 10, 21), n;
            char shape[16];

            mw_value(&wire, MW_INPUT, "x", RIG_FLOAT, "2,32");
            mw_value(&wire, MW_OUTPUT, "y", RIG_FLOAT, NULL);
            tensor(&wire, "w", INLAY_UINT8, rows[i].shape, bytes, rows[i].bytes);
            (void)snprintf(shape, sizeof shape, "%zu", rows[i].scales);
            floats(&wire, "s", shape, rows[i].scales);
            (void)snprintf(shape, sizeof shape, "%zu", rows[i].zeros);
            tensor(&wire, "z", INLAY_UINT8, shape, bytes, rows[i].zeros);
            n = mw_node_begin(&wire, "MatMulNBits", rows[i].zeros > 0 ? "x,w,s,z" : "x,w,s", "y");
            wire_text(&wire, 3, "weights");
            wire_text(&wire, 7, "com.microsoft");
            mw_attr_int(&wire, "K", rows[i].k);
            mw_attr_int(&wire, "N", rows[i].n);
            mw_attr_int(&wire, "bits", rows[i].bits);
            mw_attr_int(&wire, "block_size", rows[i].block);
            wire_end(&wire, n);
            wire_end(&wire, mark);
            expect_error(&wire, providers[provider], "weights", rows[i].what);
        }
    }
}

/* QuantizeLinear and DequantizeLinear with 16 bits before a matrix multiplication with 8-bit or 16-bit weights: the
 * result is that of the rounded floats. */
static void sixteen_bits(void **state)
{
    enum { ROWS = 2, IN = 8, OUT = 3 };
    const float step = 1.0f / 4096;
    float x[ROWS * IN];
    int16_t weights[IN * OUT];
    int8_t narrow[IN * OUT];

    (void)state;
    for (int i = 0; i < ROWS * IN; i++)
        x[i] = sinf((float)i) * (i == 3 ? 40 : 3); /* one value exceeds the range of 16 bits */
    for (int i = 0; i < IN * OUT; i++)
        weights[i] = (int16_t)(narrow[i] = (int8_t)(i * 37 % 200 - 100));
    for (int way = 0; way < 2 * PROVIDERS; way++) {
        const bool wide = way / PROVIDERS == 1;
        const int16_t zero = 100;
        float want[ROWS * OUT] = { 0 };
        struct wire wire = { 0 };
        wire_mark mark = mw_begin(&wire, 10, 21);
        struct rig rig;

        mw_value(&wire, MW_INPUT, "x", RIG_FLOAT, "2,8");
        mw_value(&wire, MW_OUTPUT, "y", RIG_FLOAT, NULL);
        mw_scalar(&wire, "s", INLAY_FLOAT, (double)step);
        tensor(&wire, "z", INLAY_INT16, "", &zero, sizeof zero);
        if (wide)
            tensor(&wire, "w", INLAY_INT16, "8,3", weights, sizeof weights);
        else
            tensor(&wire, "w", INLAY_INT8, "8,3", narrow, sizeof narrow);
        mw_node(&wire, "QuantizeLinear", "x,s,z", "q");
        mw_node(&wire, "DequantizeLinear", "q,s,z", "d");
        mw_node(&wire, "DequantizeLinear", "w,s", "f");
        mw_node(&wire, "MatMul", "d,f", "y");
        wire_end(&wire, mark);
        rig = rig_open(&wire, (const char *const[]){ "providers", providers[way % PROVIDERS], NULL });
        rig_floats(&rig, 0, "2,8", x);
        rig_run(&rig);
        for (int i = 0; i < ROWS * IN; i++) {
            const float q = fminf(fmaxf(nearbyintf(x[i] / step) + zero, -32768), 32767), d = (q - zero) * step;

            for (int o = 0; o < OUT; o++)
                want[i / IN * OUT + o] += d * ((float)weights[i % IN * OUT + o] * step);
        }
        for (int i = 0; i < ROWS * OUT; i++) {
            const float got = ((const float *)inlay_value_data(inlay_context_output(rig.context, 0)))[i];

            if (!(fabsf(got - want[i]) <= 1e-5f))
                fail_msg("element %d is %g, expected %g", i, (double)got, (double)want[i]);
        }
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(dequantize), cmocka_unit_test(packed),
                                        cmocka_unit_test(sixteen_bits) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
