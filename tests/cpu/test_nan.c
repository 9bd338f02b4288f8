/* NaN and infinity pass through layers, their epilogues and single operators as ONNX defines, with every kernel: placed
 * in the input, the weights, the bias and the addend, in the default precision and in strict. */
#include "compare.h"
#include "random.h"

/* Functions of k; z has k's shape, c is a constant, l and h are bounds. They return NaN for NaN. */
static const char *const endings[] = {
    "Relu(k)",
    "Clip(k, l, h)",
    "Clip(k, l)",
    "Clip(k, _, h)",
    "LeakyRelu(k) alpha=0.1",
    "HardSigmoid(k)",
    "HardSwish(k)",
    "Sigmoid(k)",
    "Tanh(k)",
    "Elu(k)",
    "Softplus(k)",
    "Mish(k)",
    "Abs(k)",
    "Max(k, z)",
    "Max(z, k)",
    "Min(k, z)",
    "Max(k, c)",
    "Min(c, k)",
    "Add(k, z)",
    "Mul(k, z)",
    "PRelu(k, c)",
    "Swish(k)",
    "Gelu(k)",
    "Gelu(k) approximate=tanh",
    "Exp(k)",
    "Sqrt(k)",
    "Selu(k)",
    "Softsign(k)",
    "Sin(k)",
    "Cos(k)",
};
/* Chains with a second function; k is the layer's result. */
static const char *const chains[] = {
    "m = Add(k, z)\ny = Relu(m)",        "m = Relu(k)\ny = Add(m, z)",       "m = Sigmoid(k)\ny = Mul(k, m)",
    "m = HardSigmoid(k)\ny = Mul(k, m)", "m = Sub(z, k)\ny = Clip(m, l, h)", "m = Max(k, z)\ny = Relu(m)",
    "m = Mul(k, c)\ny = Max(m, z)",      "m = Relu(k)\ny = Relu(m)",         "m = Elu(k)\ny = HardSigmoid(m)",
};

/* A layer; the special value is placed into one element of weights and bias. */
struct layer {
    const char *what;
    const char *x, *w, *b; /* the shapes of the inputs; "": no constant of that name */
    int64_t at;            /* the element of w that receives the value; every window reads it */
    const char *node;      /* the node that computes k from x, w and b */
    const char *y;         /* shape of the constant y; c: a shape that broadcasts to it */
    const char *c;
};

static const struct layer layers[] = {
    { "pixels", "1,24,9,10", "[40,24,1,1]", "[40]", 100, "Conv(q, w, b)", "1,40,9,10", "[40,1,1]" },
    { "windows", "1,20,9,10", "[36,20,3,3]", "[36]", 4 + 9 * 50, "Conv(q, w, b) pads=1,1,1,1", "1,36,9,10",
      "[36,1,1]" },
    { "steps", "1,12,11,10", "[33,12,3,3]", "[33]", 4 + 9 * 50, "Conv(q, w, b) strides=2,2 pads=1,1,1,1", "1,33,6,5",
      "[33,1,1]" },
    { "single", "1,32,9,10", "[32,1,3,3]", "[32]", 4 + 9 * 3, "Conv(q, w, b) group=32 pads=1,1,1,1", "1,32,9,10",
      "[32,1,1]" },
    { "groups", "1,32,9,10", "[32,8,3,3]", "[32]", 4 + 9 * 70, "Conv(q, w, b) group=4 pads=1,1,1,1", "1,32,9,10",
      "[32,1,1]" },
    { "wide groups", "1,32,7,7", "[64,16,3,3]", "[64]", 4 + 9 * 70, "Conv(q, w, b) group=2 pads=1,1,1,1", "1,64,7,7",
      "[64,1,1]" },
    { "row", "2,16,30", "[24,16,3]", "[24]", 1 + 3 * 40, "Conv(q, w, b) pads=1,1", "2,24,30", "[24,1]" },
    { "row of groups", "2,16,30", "[24,8,3]", "[24]", 1 + 3 * 40, "Conv(q, w, b) group=2 pads=1,1", "2,24,30",
      "[24,1]" },
    { "volume", "1,8,5,6,7", "[16,8,3,3,3]", "[16]", 13 + 27 * 20, "Conv(q, w, b) pads=1,1,1,1,1,1", "1,16,5,6,7",
      "[16,1,1,1]" },
    { "transposed", "1,12,5,6", "[12,20,2,2]", "[20]", 81, "ConvTranspose(q, w, b) strides=2,2", "1,20,10,12",
      "[20,1,1]" },
    { "product", "7,24", "[24,40]", "[40]", 50, "Gemm(q, w, b)", "7,40", "[40]" },
    { "product of many", "2,5,24", "[24,33]", "", 50, "MatMul(q, w)", "2,5,33", "[33]" },
    { "of both", "2,5,24", "", "", 0, "MatMul(q, x2)", "2,5,17", "[17]" },
    { "normalised", "2,16,6,7", "", "", 0, "BatchNormalization(q, g, g, g, g)", "2,16,6,7", "[16,1,1]" },
    { "nothing", "2,16,26,7", "", "", 0, "Add(q, x)", "2,16,26,7", "[16,1,1]" }, /* many elements */
};

/* Operators of x and z = [2,8,13,12], and of c, a convolution of x, which return NaN somewhere if x has NaN. */
static const char *const operators[] = {
    "MaxPool(x) kernel_shape=3,3",
    "MaxPool(x) kernel_shape=3,3 strides=2,2 pads=1,1,1,1",
    "MaxPool(x) kernel_shape=2,2 strides=2,2",
    "MaxPool(x) kernel_shape=3,1 dilations=2,1",
    "GlobalMaxPool(x)",
    "MaxPool(c) kernel_shape=3,3 pads=1,1,1,1",
    "MaxPool(c) kernel_shape=2,2 strides=2,2",
    "MaxPool(c) kernel_shape=5,6 pads=2,3,0,1",
    "GlobalMaxPool(c)",
    "AveragePool(c) kernel_shape=3,3 pads=1,1,1,1",
    "AveragePool(c) kernel_shape=5,6 strides=2,2",
    "AveragePool(x) kernel_shape=3,3",
    "AveragePool(x) kernel_shape=2,2 strides=2,2 count_include_pad=1",
    "GlobalAveragePool(x)",
    "Softmax(x)",
    "Softmax(x) axis=1",
    "LogSoftmax(x)",
    "LogSoftmax(x) axis=2",
    "ReduceMax(x, a3)",
    "ReduceMax(x, a1)",
    "ReduceMax(x, a23)",
    "ReduceMax(x)",
    "ReduceMin(x, a3)",
    "ReduceMin(x, a1)",
    "ReduceMin(x, a23)",
    "ReduceMin(x)",
    "ReduceSum(x, a3)",
    "ReduceSum(x, a1)",
    "ReduceMean(x, a23)",
    "ReduceMean(x, a1)",
    "ReduceProd(x, a3)",
    "ReduceL1(x, a1)",
    "ReduceL2(x, a3)",
    "ReduceSumSquare(x, a23)",
    "ReduceLogSum(x, a3)",
    "ReduceLogSumExp(x, a3)",
    "ReduceLogSumExp(x, a1)",
    "LayerNormalization(x, r)",
    "RMSNormalization(x, r)",
    "InstanceNormalization(x, v, v)",
    "GroupNormalization(x, v, v) num_groups=2",
    "LRN(x) size=3",
    "Resize(x, _, two) mode=linear",
    "Resize(x, _, two) mode=nearest",
    "TopK(x, three) axis=3",
    "TopK(x, three) axis=1",
    "TopK(x, three) axis=3 largest=0",
    "CumSum(x, axis)",
    "Max(x, z, r)",
    "Min(z, x, r)",
    "Sum(x, z, r)",
    "Mean(z, x, r)",
    "Max(x, r)",
    "Min(r, x)",
    "Pow(x, half)",
    "Pow(x, z)",
    "Erf(x)",
    "Log(x)",
    "Sin(x)",
    "Cosh(x)",
    "Neg(x)",
    "Sign(x)",
    "Floor(x)",
    "Round(x)",
    "Reciprocal(x)",
    "Celu(x)",
    "ThresholdedRelu(x)",
    "Shrink(x)",
    "Softsign(x)",
    "Sin(x)",
    "Cos(x)",
    "Concat(x, z) axis=1",
    "Pad(x, pads) mode=reflect",
    "Transpose(x) perm=0,2,3,1",
    "Slice(x, begin, end)",
    "Expand(x, shape)",
    "Where(flag, x, z)",
    "Einsum(x, z) equation=abcd,abcd->acd",
    "Attention(x, z, z)",
    "Attention(z, x, x)",
    "Attention(z, z, x)",
    "CastLike(x, z)",
    "Hardmax(x)",
};

static const char *const kernels[] = { "auto", "winograd_4x4", "winograd_2x2", "tiles",         "depthwise", "groups",
                                       "gemm", "packed",       "packed_terms", "packed_sparse", "batched" };

enum { ROOM = 40000, EACH = (int)(sizeof endings / sizeof *endings) };

/* Writes a model with one layer per ending. Their inputs differ a little, so that common subexpressions are not merged.
 * Outputs are the results, then the layer alone. */
static void write(char *to, const struct layer *layer, const char *value)
{
    size_t n = (size_t)snprintf(to, ROOM, "x : %s\nz : %s\nc = %s\nl = [] -0.3\nh = [] 0.6\ng = [16]\n", layer->x,
                                layer->y, layer->c);
    const size_t count = sizeof chains / sizeof *chains + EACH;
    const char *names[] = { "k", "y", "m", "q", "s", NULL };

    if (strcmp(layer->what, "of both") == 0)
        n += (size_t)snprintf(to + n, ROOM - n, "x2 : 2,24,17\n");
    if (layer->w[0] != '\0')
        n += (size_t)snprintf(to + n, ROOM - n, "w = %s @%lld %s\n", layer->w, (long long)layer->at, value);
    if (layer->b[0] != '\0')
        n += (size_t)snprintf(to + n, ROOM - n, "b = %s @3 %s\n", layer->b, value);
    for (size_t i = 0; i < count; i++) {
        char text[200];

        n += (size_t)snprintf(to + n, ROOM - n, "s%zu = [] %g\n", i, 0.75 + 0.0078125 * (double)i);
        (void)snprintf(text, sizeof text, "q = Mul(x, s)\nk = %s\n%s%s\n", layer->node, i < EACH ? "y = " : "",
                       i < EACH ? endings[i] : chains[i - EACH]);
        for (const char *at = text; *at != '\0'; at++) { /* rename the values for this copy */
            const bool whole = (at == text || strchr("(, \n", at[-1]) != NULL) && strchr("), \n", at[1]) != NULL;

            to[n++] = *at;
            for (int k = 0; whole && names[k] != NULL; k++)
                if (*at == *names[k])
                    n += (size_t)snprintf(to + n, ROOM - n, "%zu", i);
        }
    }
    n += (size_t)snprintf(to + n, ROOM - n, "q = Identity(x)\nalone = %s\n->", layer->node);
    for (size_t i = 0; i < count; i++)
        n += (size_t)snprintf(to + n, ROOM - n, " y%zu", i);
    n += (size_t)snprintf(to + n, ROOM - n, " alone\n");
    assert_true(n < ROOM);
}

static void feed(struct rig *rig, float value)
{
    uint64_t state = 5;

    for (uint32_t i = 0; i < inlay_session_input_count(rig->session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        inlay_value *v = NULL;
        float *data;

        (void)inlay_session_input(rig->session, i, &info);
        assert_int_equal(inlay_value_create(INLAY_FLOAT, info.rank, info.dims, &v, NULL), INLAY_OK);
        data = inlay_value_data(v);
        for (int64_t k = 0; k < inlay_value_count(v); k++)
            data[k] = random_signed(&state);
        data[17 + i * 13] = value; /* at another position in z */
        rig_bind(rig, i, v);
    }
}

static struct rig open_as(const char *script, const char *kernel, const char *precision)
{
    struct wire wire = { 0 };

    script_model(&wire, 24, script);
    if (kernel == NULL)
        return rig_open(&wire, (const char *const[]){ "providers", "reference", "policy", "priority", NULL });
    return rig_open(&wire, (const char *const[]){ "providers", "cpu,reference", "policy", "priority", "intra_threads",
                                                  "1", "cpu.kernel", kernel, "precision", precision, NULL });
}

static int wrong_outputs;

/* May the result have no NaN even if an input has one? Hardmax marks the largest element, which is the NaN. NaN selects
 * 0 in the function bodies that ONNX states for ThresholdedRelu and Shrink. */
static bool may_lose_nan(const char *op)
{
    return strncmp(op, "Hardmax", 7) == 0 || strstr(op, "largest=0") != NULL ||
           strncmp(op, "ThresholdedRelu", 15) == 0 || strncmp(op, "Shrink", 6) == 0;
}

static struct rig run_operator(const char *op, bool reference, const char *precision, float value)
{
    char script[800];
    struct wire wire = { 0 };
    struct rig rig;

    (void)snprintf(
        script, sizeof script,
        "x : 2,8,13,12\nz : 2,8,13,12\nr = [12]\nv = [8]\na1 = i[1] 1\na3 = i[1] 3\na23 = i[2] 2,3\n"
        "two = [4] 1,1,2,2\nthree = i[1] 3\naxis = i[] 1\nhalf = [] 0.5\npads = i[8] 0,0,1,1,0,0,2,2\n"
        "w = [72,8,1,1]\nc = Conv(x, w)\nbegin = i[4] 0,0,0,1\nend = i[4] 2,8,12,12\nshape = i[5] 2,2,8,13,12\n"
        "one = Exp(r)\nflag = Greater(one, half)\ny%s = %s\n-> y\n",
        strncmp(op, "TopK", 4) == 0 ? ", at" : "", op);
    script_model(&wire, 24, script);
    rig = rig_open(&wire, (const char *const[]){ "providers", reference ? "reference" : "cpu,reference", "policy",
                                                 "priority", "precision", precision, NULL });
    feed(&rig, value);
    rig_run(&rig);
    return rig;
}

static void expect_operator(const char *op, float value)
{
    struct rig want = run_operator(op, true, "f32", value);
    const inlay_value *b = inlay_context_output(want.context, 0);
    const float *output = inlay_value_data(b);
    bool found = false;

    for (int64_t n = 0; n < inlay_value_count(b); n++)
        found = found || isnan(output[n]);
    if (isnan(value) && !found && !may_lose_nan(op))
        print_error("the reference loses NaN in %s\n", op), wrong_outputs++;
    for (int k = 0; k < 2; k++) {
        struct rig got = run_operator(op, false, k == 0 ? "f32" : "strict", value);
        const float *input = inlay_value_data(inlay_context_output(got.context, 0));

        for (int64_t n = 0; n < inlay_value_count(b); n++)
            if (!(fabsf(input[n] - output[n]) <= 1e-4f * (1 + fabsf(output[n])) || input[n] == output[n] ||
                  (isnan(input[n]) && isnan(output[n])))) {
                print_error("%s with %g: element %lld is %g, not %g\n", op, (double)value, (long long)n,
                            (double)input[n], (double)output[n]);
                wrong_outputs++;
                break;
            }
        rig_close(&got);
    }
    rig_close(&want);
}

static void single_operators(void **state)
{
    const float values[] = { NAN, INFINITY, -INFINITY, 3.4e38f };

    (void)state;
    wrong_outputs = 0;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        for (size_t k = 0; k < random_rounds(sizeof values / sizeof *values); k++)
            expect_operator(operators[i], values[k]);
    if (wrong_outputs > 0)
        fail_msg("%d results differ from the reference", wrong_outputs);
}

static const char *ending_of(uint32_t i, uint32_t count)
{
    return i < EACH ? endings[i] : i + 1 < count ? chains[i - EACH] : "the layer alone";
}

/* NaN must stay NaN, with any provider. */
static void expect_kept(const struct rig *rig, const struct layer *layer)
{
    const uint32_t last = inlay_session_output_count(rig->session) - 1;
    const inlay_value *alone = inlay_context_output(rig->context, last);
    const float *k = inlay_value_data(alone);

    for (uint32_t i = 0; i < last; i++) {
        const float *output = inlay_value_data(inlay_context_output(rig->context, i));

        for (int64_t n = 0; n < inlay_value_count(alone); n++)
            if (isnan(k[n]) && !isnan(output[n]))
                fail_msg("%s: NaN became %g in %s", layer->what, (double)output[n], ending_of(i, last + 1));
    }
}

static void expect_same(const struct rig *got, const struct rig *want, const struct layer *layer, const char *kernel,
                        const char *value)
{
    const uint32_t count = inlay_session_output_count(got->session);

    for (uint32_t i = 0; i < count; i++) {
        const inlay_value *a = inlay_context_output(got->context, i), *b = inlay_context_output(want->context, i);
        const float *input = inlay_value_data(a), *output = inlay_value_data(b);

        assert_int_equal(inlay_value_bytes(a), inlay_value_bytes(b));
        for (int64_t n = 0; n < inlay_value_count(a); n++) {
            if (fabsf(input[n] - output[n]) <= 1e-4f * (1 + fabsf(output[n])) || input[n] == output[n] ||
                (isnan(input[n]) && isnan(output[n])))
                continue;
            print_error("%s by %s with %s: element %lld is %g, not %g, in %s\n", layer->what, kernel, value,
                        (long long)n, (double)input[n], (double)output[n], ending_of(i, count));
            wrong_outputs++;
            break;
        }
    }
}

static void expect_planted(const char *text, float value)
{
    char *script = malloc(ROOM);

    assert_non_null(script);
    wrong_outputs = 0;
    for (size_t n = 0; n < sizeof layers / sizeof *layers; n++) {
        const struct layer *layer = &layers[n];
        struct rig want;

        write(script, layer, text);
        want = open_as(script, NULL, NULL);
        feed(&want, value);
        rig_run(&want);
        expect_kept(&want, layer);
        for (size_t k = 0; k < 2 * (sizeof kernels / sizeof *kernels); k++) {
            const char *kernel = kernels[k / 2];
            struct rig got = open_as(script, kernel, k % 2 == 0 ? "f32" : "strict");

            feed(&got, value);
            rig_run(&got);
            expect_same(&got, &want, layer, kernel, text);
            rig_close(&got);
        }
        rig_close(&want);
    }
    free(script);
    if (wrong_outputs > 0)
        fail_msg("%d results differ from the reference", wrong_outputs);
}

static void planted(void **state)
{
    static const struct {
        const char *text;
        float value;
    } plants[] = { { "nan", NAN }, { "inf", INFINITY }, { "-inf", -INFINITY } };

    (void)state;
    for (uint32_t i = 0; i < random_rounds(sizeof plants / sizeof *plants); i++)
        expect_planted(plants[i].text, plants[i].value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted),
        cmocka_unit_test(single_operators),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
