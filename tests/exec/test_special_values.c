/* Special values give the same result at every level and on every provider: the result of the model's operators
 * executed one by one (sdk/docs/pages/numerics.md, "Special values"). Graphs that passes fuse and kernels of every
 * family, with NaN, infinities and numbers from the smallest to the largest, are compared with the reference at level
 * 0. */
#include "cmocka_all.h"
#include "each_provider.h"
#include "random.h"
#include <float.h>

/* The value of one element of an input. */
struct element_setting {
    const char *input;
    int64_t at;
    float value;
};

struct planted {
    const char *what;
    struct element_setting plants[6];
    size_t count;
};

static void feed(struct rig *rig, const void *fed)
{
    const struct planted *with = fed;
    uint64_t state = 5;

    for (uint32_t i = 0; i < inlay_session_input_count(rig->session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        inlay_value *value = NULL;
        float *data;

        (void)inlay_session_input(rig->session, i, &info);
        assert_int_equal(inlay_value_create(INLAY_FLOAT, info.rank, info.dims, &value, NULL), INLAY_OK);
        data = inlay_value_data(value);
        for (int64_t k = 0; k < inlay_value_count(value); k++)
            data[k] = random_signed(&state);
        for (size_t k = 0; k < with->count; k++)
            if (strcmp(with->plants[k].input, info.name) == 0)
                data[with->plants[k].at % inlay_value_count(value)] = with->plants[k].value;
        rig_bind(rig, i, value);
    }
}

static void compare(const struct rig *got, const struct rig *want, const char *setting, const char *what,
                    const char *script)
{
    for (uint32_t o = 0; o < inlay_session_output_count(want->session); o++) {
        const inlay_value *a = inlay_context_output(got->context, o), *b = inlay_context_output(want->context, o);
        const float *input = inlay_value_data(a), *output = inlay_value_data(b);
        float most = 1e-6f;

        assert_int_equal(inlay_value_count(a), inlay_value_count(b));
        for (int64_t i = 0; i < inlay_value_count(b); i++)
            most = isfinite(output[i]) && fabsf(output[i]) > most ? fabsf(output[i]) : most;
        for (int64_t i = 0; i < inlay_value_count(b); i++)
            if (!(input[i] == output[i] || (isnan(input[i]) && isnan(output[i])) ||
                  fabsf(input[i] - output[i]) <= 2e-5f * most)) {
                print_error("%s, %s: element %lld of output %u is %g, not %g, in\n%s\n", setting, what, (long long)i, o,
                            (double)input[i], (double)output[i], script);
                wrong++;
                break;
            }
    }
}

/* From the scores s to the input a of Softmax. pad, hole: conditions on keys and on scores; m, n: additive masks. */
static const char *const masks[] = {
    "a = Identity(s)",
    "a = Add(s, m)",
    "b = Add(s, m)\na = Add(n, b)",
    "a = Where(pad, low, s)",
    "a = Where(hole, s, low)",
    "a = Where(all, low, s)",
    "b = Where(hole, low, s)\na = Add(b, m)",
    "b = Add(s, m)\na = Where(pad, low, b)",
    "b = Where(pad, low, s)\na = Where(hole, high, b)",
    "b = Where(hole, low, s)\nc = Add(b, m)\na = Where(pad, high, c)",
    "a = Add(s, tri)",
};
/* The scores s with the scale on them, or on their operands. */
static const char *const scaled[] = {
    "r = MatMul(q, t)\ns = Mul(r, scale)",
    "qs = Mul(q, scale)\ns = MatMul(qs, t)",
    "ts = Mul(t, scale)\ns = MatMul(q, ts)",
    "qs = Mul(q, half)\nts = Mul(t, half)\nr = MatMul(qs, ts)\ns = Mul(r, scale)",
};
static const char *const lows[] = { "-1e9", "-inf", "-3.4028235e38", "-10", "5" };
static const char *const guards[] = { "w = Identity(p)", "e = IsNaN(p)\nw = Where(e, zero, p)" };

static const struct planted attended[] = {
    { "ordinary numbers", { { "q", 0, 0.5f } }, 1 },
    { "a query that is NaN", { { "q", 9, NAN } }, 1 },
    { "a key that is NaN", { { "k", 33, NAN } }, 1 },
    { "a key that is infinite", { { "k", 33, INFINITY } }, 1 },
    { "a key that overflows", { { "k", 33, -3e38f }, { "q", 1, 3e38f }, { "q", 9, 3e38f } }, 3 },
    { "large scores", { { "k", 33, 1e18f }, { "k", 17, -1e18f }, { "q", 1, 1e18f } }, 3 },
    { "a product that overflows unless it is scaled", { { "k", 33, 2.8e19f }, { "q", 1, 2.8e19f } }, 2 },
    { "a value that is NaN", { { "v", 35, NAN } }, 1 },
    { "a value that is infinite", { { "v", 35, -INFINITY } }, 1 },
    { "an infinite query", { { "q", 10, INFINITY } }, 1 },
    { "a hidden row",
      { { "m", 0, -INFINITY },
        { "m", 1, -INFINITY },
        { "m", 2, -INFINITY },
        { "m", 3, -INFINITY },
        { "m", 4, -INFINITY } },
      5 },
    { "a row at -1e9",
      { { "m", 0, -1e9f }, { "m", 1, -1e9f }, { "m", 2, -1e9f }, { "m", 3, -1e9f }, { "m", 4, -1e9f } },
      5 },
    { "a mask that is NaN", { { "m", 7, NAN } }, 1 },
    { "a mask that is infinite", { { "m", 7, INFINITY } }, 1 },
    { "keys padded on the left", { { "m", 0, -3.4028235e38f }, { "u", 0, 9 }, { "u", 1, 9 } }, 3 },
    { "all keys padded", { { "u", 0, 9 }, { "u", 1, 9 }, { "u", 2, 9 }, { "u", 3, 9 }, { "u", 4, 9 } }, 5 },
    { "NaN where keys are padded", { { "u", 4, 9 }, { "k", 33, NAN } }, 2 },
    { "NaN at a hole",
      { { "h", 4, 9 }, { "h", 9, 9 }, { "h", 14, 9 }, { "h", 19, 9 }, { "h", 24, 9 }, { "k", 33, NAN } },
      6 },
};

static void write_attention(char *script, size_t room, const char *low, const char *scores, const char *mask,
                            const char *guard)
{
    static const char shape[] =
        "q : 2,2,5,8\nk : 2,2,5,8\nv : 2,2,5,8\nm : 1,1,5,5\nn : 2,1,1,5\nu : 1,1,1,5\nh : 1,1,5,5\none = [] 1.5\n"
        "zero = [] 0\nhigh = [] -1e9\nlow = [] %s\nscale = [] 0.35\nhalf = [] 0.5\nt = Transpose(k) perm=0,1,3,2\n"
        "tri = [5,5] 0,%s,%s,%s,%s,0,0,%s,%s,%s,0,0,0,%s,%s,0,0,0,0,%s,0,0,0,0,0\nminus = [] -2\n"
        "pad = Greater(u, one)\nhole = Greater(h, one)\nall = Greater(m, minus)\n%s\n%s\n"
        "p = Softmax(a) axis=-1\n%s\ny = MatMul(w, v)\n-> y";

    assert_true((size_t)snprintf(script, room, shape, low, low, low, low, low, low, low, low, low, low, low, scores,
                                 mask, guard) < room);
}

/* Compares all inputs on all providers; on vulkan, which is slow, only every eighth input. `from` varies which ones. */
static void attend(const char *script, size_t from)
{
    struct sessions sessions = { .script = script };

    for (size_t k = 0; k < sizeof attended / sizeof *attended; k++) {
        const struct rig *want = sessions_run(&sessions, LEVEL_0, feed, &attended[k]);

        for (size_t p = 0; p < SETTINGS; p++)
            if (available[p] && (p != VULKAN || (from + k) % 8 == 0))
                compare(sessions_run(&sessions, p, feed, &attended[k]), want, settings[p].name, attended[k].what,
                        script);
    }
    sessions_close(&sessions);
}

static void attention(void **state)
{
    (void)state;
    wrong = 0;
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
        for (size_t l = 0; l < random_rounds(sizeof lows / sizeof *lows); l++)
            for (size_t guard = 0; guard < 2; guard++) {
                if (l > 0 && strstr(masks[i], "low") == NULL && (strstr(masks[i], "tri") == NULL || l > 2))
                    continue;
                for (size_t scale = 0; scale < (i < 2 ? sizeof scaled / sizeof *scaled : 1); scale++) {
                    char script[1600];

                    write_attention(script, sizeof script, lows[l], scaled[scale], masks[i], guards[guard]);
                    attend(script, i + l + guard);
                }
            }
    expect_none_wrong();
}

/* Each provider with an attention kernel runs the fused node: a pin that cannot be met is an error. */
static void attention_on_each_provider(void **state)
{
    static const char script[] =
        "q : 2,4,5,8\nk : 2,4,6,8\nv : 2,4,6,8\nm : 1,1,5,6\nu : 2,1,1,6\nlow = [] -inf\none = [] 0.5\nzero = [] 0\n"
        "pad = Greater(u, one)\nt = Transpose(k) perm=0,1,3,2\ns = MatMul(q, t)\nb = Where(pad, low, s)\n"
        "a = Add(b, m)\np = Softmax(a) axis=-1\ne = IsNaN(p)\nw = Where(e, zero, p)\ny = MatMul(w, v)\n-> y";
    static const char *const names[SETTINGS] = { "reference", "cpu", "onednn", "vulkan" };

    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        const char *options[12] = { 0 };
        char pin[40];
        size_t n = 0;
        struct rig rig;

        for (; settings[i].options[n] != NULL; n++)
            options[n] = settings[i].options[n];
        options[n] = "pin";
        options[n + 1] = pin;
        (void)snprintf(pin, sizeof pin, "op:Relu=%s", names[i]);
        if (!available[i] || !try_open("x : 3\ny = Relu(x)\n-> y", options, &rig)) /* an optional provider is missing */
            continue;
        rig_close(&rig);
        (void)snprintf(pin, sizeof pin, "op:Attention=%s", names[i]);
        if (!try_open(script, options, &rig))
            fail_msg("%s does not run the attention", settings[i].name);
        rig_close(&rig);
    }
}

/* An operator, and the same formula as operators that are executed one by one. */
static const struct {
    const char *inputs, *op, *formula;
} formulas[] = {
    { "x : 5,4\nw = [4,3] @5 nan\nc : 3\nalpha = [] 0\n", "y = Gemm(x, w, c) alpha=0.0",
      "p = MatMul(x, w)\nq = Mul(p, alpha)\ny = Add(q, c)" },
    { "x : 5,4\nw : 4,3\nc : 3\nalpha = [] 0\n", "y = Gemm(x, w, c) alpha=0.0",
      "p = MatMul(x, w)\nq = Mul(p, alpha)\ny = Add(q, c)" },
    { "x : 5,4\nw = [4,3] @2 inf\nc : 3\nalpha = [] 0.5\n", "y = Gemm(x, w, c) alpha=0.5 beta=0.0",
      "p = MatMul(x, w)\ny = Mul(p, alpha)" },
    { "x : 5,4\nw : 4,3\nc : 3\nalpha = [] 0\n", "y = Gemm(x, w, c) alpha=0.0 beta=0.0",
      "p = MatMul(x, w)\ny = Mul(p, alpha)" },
    { "x : 5,4\nw : 4,3\nc : 3\nalpha = [] 0\n",
      "xh = Cast(x) to=10\nwh = Cast(w) to=10\nch = Cast(c) to=10\nh = Gemm(xh, wh, ch) alpha=0.0\ny = Cast(h) to=1",
      "xh = Cast(x) to=10\nwh = Cast(w) to=10\nch = Cast(c) to=10\nxf = Cast(xh) to=1\nwf = Cast(wh) to=1\n"
      "cf = Cast(ch) to=1\np = MatMul(xf, wf)\nq = Mul(p, alpha)\ns = Add(q, cf)\nh = Cast(s) to=10\ny = Cast(h) "
      "to=1" },
#define BATCH_NORM(scale, bias, mean, variance)                                                                        \
    {                                                                                                                  \
        "x : 5,3,4\nc : 3\n" scale bias mean variance "e = [] 0.00001\n", "y = BatchNormalization(x, s, b, m, v)",     \
            "n = i[2] 3,1\nm1 = Reshape(m, n)\nv1 = Reshape(v, n)\ns1 = Reshape(s, n)\nb1 = Reshape(b, "               \
            "n)\n"                                                                                                     \
            "d = Sub(x, m1)\na = Add(v1, e)\nr = Sqrt(a)\nf = Div(s1, r)\nq = Mul(d, f)\ny = Add(q, b1)"               \
    }
    BATCH_NORM("s = [3] @1 -inf\n", "b = [3]\n", "m = [3] @1 0\n", "v = [3]\n"),
    BATCH_NORM("s = [3] @1 inf\n", "b = [3]\n", "m = [3]\n", "v = [3]\n"),
    BATCH_NORM("s = [3] @1 1e38\n", "b = [3]\n", "m = [3] @1 100\n", "v = [3]\n"),
    BATCH_NORM("s = [3] @0 nan\n", "b = [3] @1 inf\n", "m = [3] @2 -inf\n", "v = [3]\n"),
    BATCH_NORM("s = [3]\n", "b = [3]\n", "m = [3]\n", "v = [3] @1 inf\n"),
    BATCH_NORM("s = [3]\n", "b = [3]\n", "m = [3]\n", "v = [3] @1 -1\n"),
    { "x : 5,3,4\ns : 3\nc : 3\nm : 3\nk : 3\ne = [] 0.00001\n", "v = Abs(k)\ny = BatchNormalization(x, s, c, m, v)",
      "v = Abs(k)\nn = i[2] 3,1\nm1 = Reshape(m, n)\nv1 = Reshape(v, n)\ns1 = Reshape(s, n)\nb1 = Reshape(c, n)\n"
      "d = Sub(x, m1)\na = Add(v1, e)\nr = Sqrt(a)\nf = Div(s1, r)\nq = Mul(d, f)\ny = Add(q, b1)" },
};
#undef BATCH_NORM

static const struct planted formula_inputs[] = {
    { "ordinary numbers", { { "x", 0, 0.5f } }, 1 },
    { "an input that is NaN", { { "x", 5, NAN }, { "w", 3, INFINITY } }, 2 },
    { "an input that is infinite", { { "x", 6, INFINITY }, { "x", 19, -INFINITY } }, 2 },
    { "an addend that is not finite", { { "c", 0, NAN }, { "c", 1, -INFINITY } }, 2 },
    { "infinite scales", { { "s", 0, INFINITY }, { "s", 1, -INFINITY }, { "m", 1, 0 } }, 3 },
};

static void operators_as_defined(void **state)
{
    static const char *const openblas_options[] = { "policy", "priority", "providers", "openblas?,reference", NULL };

    (void)state;
    wrong = 0;
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
        char script[1024], written[1024];
        struct rig want, openblas;
        struct sessions sessions = { .script = script };

        (void)snprintf(script, sizeof script, "%s%s\n-> y", formulas[i].inputs, formulas[i].op);
        (void)snprintf(written, sizeof written, "%s%s\n-> y", formulas[i].inputs, formulas[i].formula);
        assert_true(try_open(written, settings[LEVEL_0].options, &want));
        assert_true(try_open(script, openblas_options, &openblas));
        for (size_t k = 0; k < sizeof formula_inputs / sizeof *formula_inputs; k++) {
            feed(&want, &formula_inputs[k]);
            rig_run(&want);
            feed(&openblas, &formula_inputs[k]);
            rig_run(&openblas);
            compare(&openblas, &want, "openblas", formula_inputs[k].what, script);
            for (size_t p = 0; p < SESSIONS; p++)
                if (p == LEVEL_0 || available[p])
                    compare(sessions_run(&sessions, p, feed, &formula_inputs[k]), &want,
                            p == LEVEL_0 ? "level 0" : settings[p].name, formula_inputs[k].what, script);
        }
        rig_close(&openblas);
        rig_close(&want);
        sessions_close(&sessions);
    }
    expect_none_wrong();
}

/* Quantizing to a float that has -0 keeps its sign, as Cast does. */
static void negative_zeros(void **state)
{
    static const char *const nodes[] = {
        "q = QuantizeLinear(x, s) output_dtype=17", "z = float8e4m3fn[] 0\nq = QuantizeLinear(x, s, z)",
        "q = QuantizeLinear(x, s) output_dtype=19", "z = float8e5m2[] 0\nq = QuantizeLinear(x, s, z)",
        "q = QuantizeLinear(x, s) output_dtype=23", "q = Cast(x) to=17",
    };

    (void)state;
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        for (int level = 0; level < 2; level++) {
            char script[160];
            struct rig rig;

            (void)snprintf(script, sizeof script, "x : 1\ns = [] 0.5\n%s\ny = Cast(q) to=1\n-> y", nodes[i]);
            assert_true(try_open(script, settings[level == 0 ? LEVEL_0 : REFERENCE].options, &rig));
            feed(&rig, &(struct planted){ .plants = { { "x", 0, -0.0f } }, .count = 1 });
            rig_run(&rig);
            if (!signbit(*(const float *)inlay_value_data(inlay_context_output(rig.context, 0))))
                fail_msg("-0 becomes 0 in\n%s", script);
            rig_close(&rig);
        }
}

/* A computed shape of an empty tensor: ONNX's 0 copies a size of the Reshape's input, which the optimiser avoids. See
 * sdk/docs/pages/numerics.md, "Computed shapes". */
static void computed_shape_of_nothing(void **state)
{
    static const char script[] = "x : B,S,4\na = i[2] -1,4\nv = Relu(x)\nt = Reshape(v, a)\nn = Shape(v)\nz = i[1] 0\n"
                                 "e = i[1] 2\nb = Slice(n, z, e)\nc = i[1] 4\ns = Concat(b, c) axis=0\n"
                                 "y = Reshape(t, s)\n-> y";
    static const int64_t as_stated[] = { 0, 4, 4 }, as_meant[] = { 0, 0, 4 };

    (void)state;
    for (int level = 0; level < 2; level++) {
        const inlay_value *value;
        struct rig rig;

        assert_true(try_open(script, settings[level == 0 ? LEVEL_0 : REFERENCE].options, &rig));
        script_feed_sized(&rig, 0, 1, 0);
        rig_run(&rig);
        value = inlay_context_output(rig.context, 0);
        assert_int_equal(inlay_value_rank(value), 3);
        assert_memory_equal(inlay_value_dims(value), level == 0 ? as_stated : as_meant, sizeof as_meant);
        rig_close(&rig);
    }
}

static void texts(void **state)
{
    static const struct {
        const char *script;
        float value;
        const char *text;
    } rows[] = {
        { "y = Cast(x) to=8", 0.0999755859375f, "0.099975586" },
        { "y = Cast(x) to=8", 0.6048455f, "0.6048455" },
        { "y = Cast(x) to=8", 1, "1" },
        { "y = Cast(x) to=8", -0.0f, "-0" },
        { "y = Cast(x) to=8", 100, "100" },
        { "y = Cast(x) to=8", 16777216, "16777216" },
        { "y = Cast(x) to=8", 1e8f, "1e+08" },
        { "y = Cast(x) to=8", 1e-4f, "0.0001" },
        { "y = Cast(x) to=8", 1e-5f, "1e-05" },
        { "y = Cast(x) to=8", NAN, "NaN" },
        { "y = Cast(x) to=8", INFINITY, "INF" },
        { "y = Cast(x) to=8", -INFINITY, "-INF" },
        { "d = Cast(x) to=11\ny = Cast(d) to=8", 0.0999755859375f, "0.0999755859375" },
        { "d = Cast(x) to=11\ny = Cast(d) to=8", 1e6f, "1000000" },
        { "i = Cast(x) to=6\ny = Cast(i) to=8", 1e6f, "1000000" },
        { "i = Cast(x) to=6\nd = Cast(i) to=11\ny = Cast(d) to=8", 123456792, "123456792" },
        { "b = Cast(x) to=9\ny = Cast(b) to=8", 7, "1" },
        { "b = Cast(x) to=9\ny = Cast(b) to=8", 0, "0" },
        { "b = Cast(x) to=9\ni = Cast(b) to=6\ny = Cast(i) to=8", 7, "1" },
        { "b = Cast(x) to=9\nf = Cast(b) to=1\ny = Cast(f) to=8", 7, "1" },
        { "h = Cast(x) to=10\nf = Cast(h) to=1\ny = Cast(f) to=8", 0.1f, "0.099975586" },
        { "i = Cast(x) to=7\nf = Cast(i) to=1\ny = Cast(f) to=8", 123456792, "1.2345679e+08" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < 2; k++) {
            char script[160];
            const inlay_str *string;
            struct rig rig;

            (void)snprintf(script, sizeof script, "x : 1\n%s\n-> y", rows[i].script);
            assert_true(try_open(script, settings[k == 0 ? LEVEL_0 : REFERENCE].options, &rig));
            feed(&rig, &(struct planted){ .plants = { { "x", 0, rows[i].value } }, .count = 1 });
            rig_run(&rig);
            string = inlay_value_data(inlay_context_output(rig.context, 0));
            if (string->bytes != strlen(rows[i].text) || memcmp(string->data, rows[i].text, (size_t)string->bytes) != 0)
                fail_msg("%s of %g is '%.*s', not '%s'", rows[i].script, (double)rows[i].value, (int)string->bytes,
                         string->data, rows[i].text);
            rig_close(&rig);
        }
}

static void no_elements(void **state)
{
    static const char *const nodes[] = {
        "q = Pad(x, p)\ny = Conv(q, w)",
        "y = Conv(x, w) pads=1,1",
        "q = Pad(x, p)\ny = ConvTranspose(q, u) pads=1,1",
        "y = ConvTranspose(x, u)",
        "y = ConvTranspose(x, v)",
        "y = GlobalAveragePool(x)",
        "y = GlobalMaxPool(x)",
        "y = ReduceMax(x, last)",
        "y = ReduceMin(x, last)",
        "y = ReduceSum(x, last)",
        "y = ReduceMean(x, last)",
        "y = ReduceProd(x, last)",
        "y = ReduceL1(x, last)",
        "y = ReduceL2(x, last)",
        "y = ReduceSumSquare(x, last)",
        "y = ReduceLogSum(x, last)",
        "y = ReduceLogSumExp(x, last)",
        "y = Softmax(x)",
        "y = Softmax(x) axis=1",
        "y = LogSoftmax(x)",
        "t = Transpose(x) perm=0,2,1\ny = MatMul(x, t)",
        "t = Transpose(x) perm=0,2,1\ns = MatMul(x, t)\nr = Softmax(s) axis=-1\ny = MatMul(r, x)",
    };

    (void)state;
    wrong = 0;
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        char script[400];
        struct rig want;

        (void)snprintf(script, sizeof script,
                       "x : 1,4,N\np = i[6] 0,0,1,0,0,1\nc = [] -inf\nw = [3,4,2]\nu = [4,3,2]\nv = [4,3,1]\nlast = "
                       "i[1] 2\n%s\n-> y",
                       nodes[i]);
        assert_true(try_open(script, settings[LEVEL_0].options, &want));
        rig_floats(&want, 0, "1,4,0", (float[]){ 0 });
        rig_run(&want);
        for (size_t k = 0; k < SETTINGS; k++) {
            struct rig got;

            if (!available[k] || k == VULKAN)
                continue;
            assert_true(try_open(script, settings[k].options, &got));
            rig_floats(&got, 0, "1,4,0", (float[]){ 0 });
            rig_run(&got);
            compare(&got, &want, settings[k].name, "no elements", script);
            rig_close(&got);
        }
        rig_close(&want);
    }
    expect_none_wrong();
}

/* Images without pixels that padding enlarges, by the pool's own pads and by Pad. Sizes are known, or symbolic (N). */
static const struct {
    const char *dims, *symbolic, *shape; /* of x: fixed, symbolic, and at run time */
    const char *pads;                    /* of Pad */
    const char *window;                  /* attributes of the pool after Pad */
    const char *padded;                  /* attributes of a pool with pads */
    const char *weights;                 /* of a convolution with that kernel size */
} voids[] = {
    { "1,4,0", "1,4,N", "1,4,0", "i[6] 0,0,1,0,0,1", "kernel_shape=2,", "kernel_shape=2, pads=1,1", "[3,4,2]" },
    { "1,4,0", "1,4,N", "1,4,0", "i[6] 0,0,9,0,0,9", "kernel_shape=10, strides=2,", "kernel_shape=10, pads=9,9",
      "[3,4,10]" },
    { "2,9,0,5", "2,9,M,N", "2,9,0,5", "i[8] 0,0,1,1,0,0,1,1", "kernel_shape=2,3", "kernel_shape=2,3 pads=1,1,1,1",
      "[3,9,2,3]" },
    { "2,9,5,0", "2,9,M,N", "2,9,5,0", "i[8] 0,0,1,2,0,0,1,1", "kernel_shape=3,3 strides=2,1",
      "kernel_shape=3,3 strides=2,1 pads=1,2,1,1", "[3,9,3,3]" },
    { "1,2,3,0,4", "1,2,L,M,N", "1,2,3,0,4", "i[10] 0,0,1,1,1,0,0,1,1,1", "kernel_shape=2,2,2",
      "kernel_shape=2,2,2 pads=1,1,1,1,1,1", "[3,2,2,2,2]" },
};

static void expect_void(const char *script, const char *dims, const char *filler)
{
    struct rig want;

    if (!try_open(script, settings[LEVEL_0].options, &want))
        fail_msg("does not open:\n%s", script);
    rig_floats(&want, 0, dims, (float[]){ 0 });
    rig_run(&want);
    for (int64_t i = 0; filler != NULL && i < inlay_value_count(inlay_context_output(want.context, 0)); i++)
        if (((const float *)inlay_value_data(inlay_context_output(want.context, 0)))[i] != strtof(filler, NULL))
            fail_msg("level 0 does not give %s for padding alone:\n%s", filler, script);
    for (size_t k = 0; k < SETTINGS; k++) {
        struct rig got;

        if (!available[k])
            continue;
        if (!try_open(script, settings[k].options, &got))
            fail_msg("%s does not open\n%s", settings[k].name, script);
        rig_floats(&got, 0, dims, (float[]){ 0 });
        rig_run(&got);
        compare(&got, &want, settings[k].name, "no pixels", script);
        rig_close(&got);
    }
    rig_close(&want);
}

static void no_pixels(void **state)
{
    static const struct {
        const char *call;   /* %s: the input of the pool, and the kernel size */
        const char *filler; /* of Pad; the result for padding alone */
    } pools[] = {
        { "y = MaxPool(%s) %s", "-inf" },
        { "y = AveragePool(%s) %s", "0" },
        { "y = AveragePool(%s) %s count_include_pad=1", "0" },
        { "y = LpPool(%s) %s", "0" },
        { "y = LpPool(%s) %s p=1", "0" },
        { "y = LpPool(%s) %s p=3", "0" },
        { "y = Conv(%s, w) %s", "0" },
        { "r = MaxPool(%s) %s\ny = Relu(r)", NULL },
        { "b = Cast(%s) to=3\nr = MaxPool(b) %s\ny = Cast(r) to=1", NULL },
        { "b = Cast(%s) to=2\nr = MaxPool(b) %s\ny = Cast(r) to=1", NULL },
        { "b = Cast(%s) to=10\nr = MaxPool(b) %s\ny = Cast(r) to=1", "-inf" },
        { "b = Cast(%s) to=10\nr = AveragePool(b) %s\ny = Cast(r) to=1", "0" },
        { "b = Cast(%s) to=11\nr = MaxPool(b) %s\ny = Cast(r) to=1", "-inf" },
        { "r, i = MaxPool(%s) %s\nj = Cast(i) to=1\ny = Max(r, j)", NULL },
    };

    (void)state;
    wrong = 0;
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
        for (size_t v = 0; v < sizeof voids / sizeof *voids; v++)
            for (int k = 0; k < 4; k++) { /* fixed or symbolic, with a Pad or pads */
                const bool pad = k % 2 == 0;
                char script[400], call[200];

                (void)snprintf(call, sizeof call, pools[i].call, pad ? "q" : "x",
                               pad ? voids[v].window : voids[v].padded);
                (void)snprintf(script, sizeof script, "x : %s\np = %s\nw = %s\nc = [] %s\n%s%s\n-> y",
                               k < 2 ? voids[v].dims : voids[v].symbolic, voids[v].pads, voids[v].weights,
                               pools[i].filler != NULL ? pools[i].filler : "0", pad ? "q = Pad(x, p, c)\n" : "", call);
                expect_void(script, voids[v].shape, pools[i].filler);
            }
    expect_none_wrong();
}

/* Windows that see NaN, infinities, -infinity alone, or padding alone because of dilations. */
static void odd_windows(void **state)
{
    static const char *const pools[] = {
        "x : 2,3,9\ny = MaxPool(x) kernel_shape=2, strides=2,\n-> y",
        "x : 2,9,9,4\ny = MaxPool(x) kernel_shape=2,3 pads=1,1,0,1\n-> y",
        "x : 2,3,5,4,6\ny = MaxPool(x) kernel_shape=2,2,3 pads=1,0,1,0,1,1\n-> y",
        "x : 1,16,5,4,6\ny = MaxPool(x) kernel_shape=2,2,2 strides=2,2,2\n-> y",
        "x : 1,16,5,4,6\nw = [16,16,1,1,1] 0.5\nc = Conv(x, w)\ny = MaxPool(c) kernel_shape=2,2,2\n-> y",
        "x : 1,16,5,4,6\nw = [16,16,1,1,1] 0.5\nc = Conv(x, w)\ny = GlobalMaxPool(c)\n-> y",
        "x : 1,16,5,4,6\nw = [16,16,1,1,1] 0.5\nc = Conv(x, w)\na = i[3] 2,3,4\ny = ReduceMax(c, a)\n-> y",
        "x : 2,3,2\ny = MaxPool(x) kernel_shape=2, dilations=3, pads=1,1\n-> y",
        "x : 2,9,2,2\ny = MaxPool(x) kernel_shape=2,2 dilations=3,2 pads=1,1,1,1\n-> y",
        "x : 2,3,2,2,2\ny = MaxPool(x) kernel_shape=2,2,2 dilations=2,3,2 pads=1,1,1,1,1,1\n-> y",
        "x : 2,3,5,4,6\ny = AveragePool(x) kernel_shape=2,2,3 pads=1,0,1,0,1,1\n-> y",
        "x : 2,16,5,4,6\ny = AveragePool(x) kernel_shape=2,3,3 pads=0,2,1,1,1,1 count_include_pad=1\n-> y",
    };
    static const float odd[] = { NAN, INFINITY, -INFINITY, 1e38f, -1e38f };
    enum { ODD = sizeof odd / sizeof *odd };

    (void)state;
    wrong = 0;
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) {
        struct sessions sessions = { .script = pools[i] };

        for (size_t k = 0; k <= ODD; k++) {
            struct planted with = { .what = k < ODD ? "one odd pixel" : "several odd pixels",
                                    .count = k < ODD ? 1 : 6 };
            const struct rig *want;

            for (size_t at = 0; at < 6; at++)
                with.plants[at] = (struct element_setting){ "x", (int64_t)(3 + at), odd[k < ODD ? k : (at + 3) % ODD] };
            want = sessions_run(&sessions, LEVEL_0, feed, &with);
            for (size_t p = 0; p < SETTINGS; p++)
                if (available[p])
                    compare(sessions_run(&sessions, p, feed, &with), want, settings[p].name, with.what, pools[i]);
        }
        sessions_close(&sessions);
    }
    expect_none_wrong();
}

/* Runs at a size that a node refuses, and returns the message after the name of the node. */
static const char *refusal_of(struct rig *rig, const char *dims, const char *script, inlay_diag *diag)
{
    float x[64] = { 0 };

    rig_floats(rig, 0, dims, x);
    if (inlay_context_run(rig->context, NULL, diag) == INLAY_OK)
        fail_msg("[%s] is not refused by\n%s", dims, script);
    return strstr(diag->text, "': ") != NULL ? strstr(diag->text, "': ") : diag->text;
}

/* A node whose result nothing reads, or nothing after the optimiser, refuses sizes as it does at level 0. */
static void refused_sizes(void **state)
{
    static const struct {
        const char *script, *dims, *fits;
    } rows[] = {
        { "x : 1,2,N\nw = [2,2,3]\nd = Conv(x, w) dilations=2,\ny = Relu(x)\n-> y", "1,2,4", "1,2,5" },
        { "x : 1,2,N\nd = MaxPool(x) kernel_shape=3,\ny = Relu(x)\n-> y", "1,2,2", "1,2,3" },
        { "x : 1,2,N\nn = Neg(x)\nd = AveragePool(n) kernel_shape=3,\ne = Exp(d)\ny = Relu(x)\n-> y", "1,2,2",
          "1,2,3" },
        { "x : 1,2,N\np = i[6] 0,0,1,0,0,0\nd = Pad(x, p) mode=edge\ny = Relu(x)\n-> y", "1,2,0", "1,2,1" },
        { "x : 1,2,N\nk = [1,2,5]\nd = Add(x, k)\ny = Relu(x)\n-> y", "1,2,4", "1,2,5" },
        { "x : 1,2,N\nw = [2,2,3]\nc = Conv(x, w)\nz = [1,1,1]\nd = Mul(c, z)\ny = Relu(x)\n-> y", "1,2,2", "1,2,3" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        inlay_diag first = INLAY_DIAG_INIT;
        struct rig rig;

        assert_true(try_open(rows[i].script, settings[LEVEL_0].options, &rig));
        (void)refusal_of(&rig, rows[i].dims, rows[i].script, &first);
        rig_close(&rig);
        for (size_t k = 0; k < SETTINGS; k++) {
            inlay_diag diag = INLAY_DIAG_INIT;
            float x[64] = { 0 };

            if (!available[k])
                continue;
            assert_true(try_open(rows[i].script, settings[k].options, &rig));
            assert_string_equal(refusal_of(&rig, rows[i].dims, rows[i].script, &diag), strstr(first.text, "': "));
            rig_floats(&rig, 0, rows[i].fits, x);
            rig_run(&rig);
            rig_close(&rig);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_elements),
        cmocka_unit_test(no_pixels),
        cmocka_unit_test(odd_windows),
        cmocka_unit_test(refused_sizes),
        cmocka_unit_test(operators_as_defined),
        cmocka_unit_test(negative_zeros),
        cmocka_unit_test(computed_shape_of_nothing),
        cmocka_unit_test(texts),
        cmocka_unit_test(attention),
        cmocka_unit_test(attention_on_each_provider),
    };

    return cmocka_run_group_tests(tests, find_providers, release_providers);
}
