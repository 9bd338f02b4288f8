/* Passes on quantized models: the operators that remain, and equal results. */
#include "cmocka_all.h"
#include "rewrite_rows.h"

/* Scales are powers of two, so that floats are as exact as integers. */
#define BYTES                                                                                                          \
    "s = [] 0.0625\nzi = i[] 0\nz = Cast(zi) to=2\nzs = Cast(zi) to=3\nq = QuantizeLinear(x, s, z)\n"                  \
    "d = DequantizeLinear(q, s, z)\nwq = QuantizeLinear(w, s, zs)\nwd = DequantizeLinear(wq, s, zs)\n"
static void quantized(void **state)
{
    static const struct row rows[] = {
        { "convolution",
          "x : 1,2,5,5\nw = [3,2,3,3]\n" BYTES "c = Conv(d, wd) pads=1,1,1,1\n"
          "yq = QuantizeLinear(c, s, z)\ny = DequantizeLinear(yq, s, z)\n-> y",
          "QuantizeLinear QLinearConv DequantizeLinear", 0 },
        { "convolution with a bias, Relu",
          "x : 1,2,5,5\nw = [3,2,3,3]\nb = [3] 0.5,-0.25,1\n" BYTES "c = Conv(d, wd, b) pads=1,1,1,1\nr = Relu(c)\n"
          "yq = QuantizeLinear(r, s, z)\ny = DequantizeLinear(yq, s, z)\n-> y",
          "QuantizeLinear QLinearConv DequantizeLinear", 0 },
        { "Clip within the range of the type",
          "x : 1,2,5,5\nw = [3,2,3,3]\nl = [] -1\nh = [] 3\n" BYTES "c = Conv(d, wd)\nr = Clip(c, l, h)\n"
          "yq = QuantizeLinear(r, s, zs)\ny = DequantizeLinear(yq, s, zs)\n-> y",
          "QuantizeLinear QLinearConv Clip DequantizeLinear", 0 },
        { "floats behind it", "x : 1,2,5,5\nw = [3,2,3,3]\n" BYTES "y = Conv(d, wd)\n-> y",
          "QuantizeLinear ConvInteger Cast Mul", 0 },
        { "the sum is an output, too",
          "x : 1,2,5,5\nw = [3,2,3,3]\n" BYTES "c = Conv(d, wd)\nyq = QuantizeLinear(c, s, z)\n"
          "y = DequantizeLinear(yq, s, z)\n-> y, c",
          "QuantizeLinear ConvInteger Cast Mul QuantizeLinear DequantizeLinear", 0 },
        { "product", "x : 2,4\nw = [4,3]\n" BYTES "y = MatMul(d, wd)\n-> y", "QuantizeLinear MatMulInteger Cast Mul",
          0 },
        { "Gemm, transposed weights",
          "x : 2,4\nw = [3,4]\nb = [3] 0.5,-0.25,1\n" BYTES "y = Gemm(d, wd, b) transB=1\n-> y",
          "QuantizeLinear MatMulInteger Cast Mul Add", 0 },
        { "weights with a zero point",
          "x : 1,2,5,5\nw = [3,2,3,3]\ns = [] 0.0625\nzi = i[] 3\nz = Cast(zi) to=3\nq = QuantizeLinear(x, s, z)\n"
          "d = DequantizeLinear(q, s, z)\nwq = QuantizeLinear(w, s, z)\nwd = DequantizeLinear(wq, s, z)\n"
          "c = Conv(d, wd)\nyq = QuantizeLinear(c, s, z)\ny = DequantizeLinear(yq, s, z)\n-> y",
          "QuantizeLinear ConvInteger Cast Mul QuantizeLinear DequantizeLinear", 0 },
        { "a product of two tensors", "x : 2,4\nv : 4,3\nw = [4,3]\n" BYTES "y = MatMul(d, v)\n-> y",
          "QuantizeLinear DequantizeLinear MatMul", 0 },
    };
    const struct row *first = &rows[0],
                     left = { first->name, first->script,
                              "QuantizeLinear DequantizeLinear Conv QuantizeLinear DequantizeLinear", 0 };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct row at_level_0 = rows[i];

        check_row_with(&rows[i], (const char *const[]){ "pass", "quantized_ops", "pass", "fold_constants", "pass",
                                                        "fold_weights", "pass", "dead_code", NULL });
        /* The operators of level 0, except weights whose rewrite no provider supports. */
        if (strstr(rows[i].ops, "QLinear") == NULL && strstr(rows[i].ops, "Integer") == NULL)
            at_level_0.ops = NULL;
        check_row_with(&at_level_0, (const char *const[]){ "level", "0", "pass", "quantized_ops", NULL });
    }
    check_row(&left); /* the reference has no faster integers */
}

/* Applies DynamicQuantizeLinear and DequantizeLinear to a row of two. */
static void round_row(const float *input, float *out)
{
    const float low = fminf(fminf(input[0], input[1]), 0), high = fmaxf(fmaxf(input[0], input[1]), 0);
    const float scale = high > low ? (high - low) / 255 : 1, zero = nearbyintf(-low / scale);

    for (int i = 0; i < 2; i++)
        out[i] = (fminf(fmaxf(nearbyintf(input[i] / scale) + zero, 0), 255) - zero) * scale;
}

/* Option dynamic_activations: a row of large numbers does not affect the accuracy of the others. */
static void float_activations(void **state)
{
    static const struct row with = {
        "dynamic",
        "x : 3,2\nw = [2,3] 5,-3,7,1,0,-2\nv = Cast(w) to=3\nws = [] 0.25\n"
        "q, s, z = DynamicQuantizeLinear(x)\ni = MatMulInteger(q, v, z)\nf = Cast(i) to=1\n"
        "u = Mul(s, ws)\ny = Mul(f, u)\n-> y",
        "", 0
    };
    static const char *const on[] = { "dynamic_activations", "floats", NULL };
    static const char *const rows[] = { "dynamic_activations", "rows", NULL };
    static const float x[] = { 0.1f, 0.2f, 1000, 2000, -0.3f, 0.4f }, w[] = { 5, -3, 7, 1, 0, -2 };
    float rounded[6];

    (void)state;
    for (int i = 0; i < 3; i++)
        round_row(x + 2 * i, rounded + 2 * i);
    for (int round = 0; round < 3; round++) {
        const float *a = round == 2 ? rounded : x;
        struct rig rig = open_row(&with, round == 0 ? NULL : round == 1 ? on : rows);
        float worst = 0;

        rig_floats(&rig, 0, "3,2", x);
        rig_run(&rig);
        for (int i = 0; i < 9; i++) {
            const float want = 0.25f * (a[i / 3 * 2] * w[i % 3] + a[i / 3 * 2 + 1] * w[3 + i % 3]);
            const float got = ((const float *)inlay_value_data(inlay_context_output(rig.context, 0)))[i];

            if (i / 3 != 1 && fabsf(got - want) > worst)
                worst = fabsf(got - want);
        }
        assert_true(round == 0 ? worst > 0.1f : worst < 1e-5f);
        rig_close(&rig);
    }
}

/* A table of low-bit weights [64, 80] with lookups: Gather moves before the conversion to float, and results are
 * bitwise equal. scales: their number, along axis. */
static void check_table(const char *name, int dtype, int64_t scales, int64_t axis, bool zeros, const char *ops)
{
    enum { ROWS = 64, COLUMNS = 80 };
    static const char *const off[] = { "level", "0", NULL };
    static const int64_t dims[] = { ROWS, COLUMNS }, picked[] = { 3, 63, 0, -1, 17, 3 };
    uint16_t table[ROWS * COLUMNS];
    uint8_t zero[COLUMNS];
    float *want = NULL;
    char left[200];

    for (int i = 0; i < ROWS * COLUMNS; i++)
        table[i] = dtype == INLAY_FLOAT16 ? (uint16_t)(0x3000 + i) : (uint16_t)(i * 2654435761u >> 13);
    for (int i = 0; i < COLUMNS; i++)
        zero[i] = (uint8_t)(100 + i);
    for (int round = 0; round < 2; round++) {
        struct wire wire = { 0 };
        wire_mark mark = mw_begin(&wire, 8, 17), t = wire_begin(&wire, MW_INITIALIZER), n;
        inlay_value *value = NULL;
        struct rig rig;

        mw_tensor_head(&wire, "w", dtype, 2, dims);
        wire_bytes(&wire, 9, table, dtype == INLAY_FLOAT16 ? sizeof table : sizeof table / 2);
        wire_end(&wire, t);
        t = wire_begin(&wire, MW_INITIALIZER);
        mw_tensor_head(&wire, "s", INLAY_FLOAT, scales > 1, &scales);
        for (int64_t i = 0; i < scales; i++)
            wire_float(&wire, 4, 0.01f * (float)(i + 1));
        wire_end(&wire, t);
        t = wire_begin(&wire, MW_INITIALIZER);
        mw_tensor_head(&wire, "z", INLAY_UINT8, scales > 1, &scales);
        wire_bytes(&wire, 9, zero, (size_t)scales);
        wire_end(&wire, t);
        mw_value(&wire, MW_INPUT, "i", INLAY_INT64, "A,B");
        n = mw_node_begin(&wire, dtype == INLAY_FLOAT16 ? "Cast" : "DequantizeLinear",
                          dtype == INLAY_FLOAT16 ? "w"
                          : zeros                ? "w,s,z"
                                                 : "w,s",
                          "f");
        mw_attr_int(&wire, dtype == INLAY_FLOAT16 ? "to" : "axis", dtype == INLAY_FLOAT16 ? INLAY_FLOAT : axis);
        wire_end(&wire, n);
        mw_node(&wire, "Gather", "f,i", "y");
        mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, NULL);
        wire_end(&wire, mark);
        rig = rig_open(&wire, round == 0 ? off : NULL);
        assert_int_equal(inlay_value_create(INLAY_INT64, 2, (const int64_t[]){ 2, 3 }, &value, NULL), INLAY_OK);
        memcpy(inlay_value_data(value), picked, sizeof picked);
        rig_bind(&rig, 0, value);
        rig_run(&rig);
        value = inlay_context_output(rig.context, 0);
        assert_int_equal(inlay_value_bytes(value), sizeof picked / sizeof picked[0] * COLUMNS * sizeof(float));
        if (round == 0) {
            want = malloc((size_t)inlay_value_bytes(value));
            assert_non_null(want);
            memcpy(want, inlay_value_data(value), (size_t)inlay_value_bytes(value));
        } else {
            list_ops(rig.session->model->main, left, sizeof left);
            if (strcmp(left, ops) != 0)
                fail_msg("%s: '%s' remains", name, left);
            assert_memory_equal(inlay_value_data(value), want, (size_t)inlay_value_bytes(value));
        }
        rig_close(&rig);
    }
    free(want);
}

static void tables(void **state)
{
    (void)state;
    check_table("one scale", INLAY_UINT8, 1, 1, true, "Gather DequantizeLinear");
    check_table("one scale without a zero point", INLAY_INT8, 1, 1, false, "Gather DequantizeLinear");
    check_table("columns", INLAY_UINT8, 80, -1, true, "Gather DequantizeLinear");
    check_table("rows", INLAY_UINT8, 64, 0, true, "Gather Gather Gather DequantizeLinear");
    check_table("rows without zero points", INLAY_INT8, 64, 0, false, "Gather Gather DequantizeLinear");
    check_table("float16", INLAY_FLOAT16, 1, 1, false, "Gather Cast");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantized),
        cmocka_unit_test(float_activations),
        cmocka_unit_test(tables),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
