/* Compares Gradient with finite differences, at the first and the last level of optimisation; operators without a
 * rule are named in the error. */
#include "graph_script.h"
#include "modelkit/gradient.h"

enum { MOST_INPUTS = 4, PICKED = 5 };

struct row {
    const char *name;
    const char *script; /* inputs, and the computation of Y; da, db, ... are the derivatives by a, b, ... */
    int64_t opset;      /* 0 = 17 */
};

/* Inputs are floats in [0.5, 1.5); rows that need other values shift them. */
static const struct row rows[] = {
    { "Abs", "a : 2,N\nb : 2,N\nm = Sub(a, b)\nt = Abs(m)\nY = Mul(t, a)", 0 },
    { "Acos, Asin, Atan",
      "a : 4\nh = [] 0.25\nt = Mul(a, h)\nu = Acos(t)\nv = Asin(t)\nw = Atan(t)\nx = Mul(u, v)\n"
      "Y = Mul(x, w)",
      0 },
    { "Acosh, Asinh, Atanh",
      "a : 4\nh = [] 0.25\no = [] 1\nt = Mul(a, h)\ns = Add(a, o)\nu = Acosh(s)\nv = Asinh(t)\n"
      "w = Atanh(t)\nx = Mul(u, v)\nY = Mul(x, w)",
      0 },
    { "Add, broadcast both ways", "a : N,1,3\nb : 4,1\nt = Add(a, b)\nY = Mul(t, t)", 0 },
    { "Sub", "a : 2,1,3\nb : 4,N\nt = Sub(a, b)\nY = Mul(t, t)", 0 },
    { "Div", "a : 2,1,3\nb : 4,1\nt = Div(a, b)\nY = Mul(t, t)", 0 },
    { "Mul, a scalar", "a : -\nb : 2,N\nt = Mul(a, b)\nY = Exp(t)", 0 },
    { "Sum of four", "a : 3\nb : 2,3\nc : 1\nd : 2,1\nt = Sum(a, b, c, d)\nY = Mul(t, t)", 0 },
    { "Pow", "a : 2,3\nb : 3\nY = Pow(a, b)", 0 },
    { "Pow by a constant", "a : 2,3\nt = [] 3\nY = Pow(a, t)", 0 },
    { "Neg, Exp, Log, Sqrt", "a : N\nt = Log(a)\nu = Sqrt(a)\nv = Neg(a)\nw = Exp(v)\nx = Mul(t, u)\nY = Mul(x, w)",
      0 },
    { "Reciprocal", "a : 4\nt = Reciprocal(a)\nY = Mul(t, t)", 0 },
    { "Sin, Cos, Tan",
      "a : 4\nt = Sin(a)\nu = Cos(a)\nh = [] 0.25\ns = Mul(a, h)\nv = Tan(s)\nw = Mul(t, u)\n"
      "Y = Mul(w, v)",
      0 },
    { "Sinh, Cosh", "a : 4\nt = Sinh(a)\nu = Cosh(a)\nY = Mul(t, u)", 0 },
    { "Erf, Sigmoid, Tanh", "a : 4\nt = Erf(a)\nu = Sigmoid(a)\nv = Tanh(a)\nw = Mul(t, u)\nY = Mul(w, v)", 0 },
    { "Relu", "a : 2,N\nb : 2,N\nm = Sub(a, b)\nt = Relu(m)\nY = Mul(t, a)", 0 },
    { "LeakyRelu, Elu",
      "a : 2,N\nb : 2,N\nm = Sub(a, b)\nt = LeakyRelu(m) alpha=0.3\nu = Elu(m) alpha=0.7\nY = Mul(t, u)", 0 },
    { "Softplus, Softsign", "a : 4\nt = Softplus(a)\nu = Softsign(a)\nY = Mul(t, u)", 0 },
    { "Clip", "a : 9\nl = [] 0.75\nu = [] 1.25\nt = Clip(a, l, u)\nY = Mul(t, t)", 0 },
    { "Where", "a : 2,3\nb : 1\nm = [] 1\nc = Greater(a, m)\nt = Where(c, a, b)\nY = Mul(t, t)", 0 },
    { "Identity, Floor", "a : 4\nt = Identity(a)\nu = Floor(a)\nv = Add(t, u)\nY = Mul(v, v)", 0 },
    { "MatMul", "a : N,3,4\nb : 4,5\nt = MatMul(a, b)\nY = Mul(t, t)", 0 },
    { "MatMul, batches", "a : 3,1,2,4\nb : 2,4,3\nt = MatMul(a, b)\nY = Mul(t, t)", 0 },
    { "MatMul of a vector", "a : 4\nb : 2,4,3\nt = MatMul(a, b)\nY = Mul(t, t)", 0 },
    { "MatMul by a vector", "a : 2,3,4\nb : 4\nt = MatMul(a, b)\nY = Mul(t, t)", 0 },
    { "MatMul of vectors", "a : 4\nb : 4\nt = MatMul(a, b)\nY = Mul(t, t)", 0 },
    { "Gemm", "a : 3,4\nb : 4,5\nc : 5\nt = Gemm(a, b, c) alpha=0.5 beta=2.0\nY = Mul(t, t)", 0 },
    { "Gemm, A transposed", "a : 4,3\nb : 4,5\nc : 3,1\nt = Gemm(a, b, c) transA=1 alpha=0.5\nY = Mul(t, t)", 0 },
    { "Gemm, B transposed", "a : 3,4\nb : 5,4\nt = Gemm(a, b) transB=1\nY = Mul(t, t)", 0 },
    { "Gemm, both transposed", "a : 4,3\nb : 5,4\nt = Gemm(a, b) transA=1 transB=1 alpha=2.0\nY = Mul(t, t)", 0 },
    { "ReduceSum", "a : 2,N,4\nx = i[2] 0,-1\nt = ReduceSum(a, x) keepdims=0\nY = Mul(t, t)", 0 },
    { "ReduceSum of all", "a : 2,3\nt = ReduceSum(a)\nu = ReduceSum(a) keepdims=0\nY = Mul(t, u)", 0 },
    { "ReduceSum, attribute", "a : 2,3\nt = ReduceSum(a) axes=1, keepdims=0\nY = Mul(t, t)", 11 },
    { "ReduceMean", "a : 2,N,4\nt = ReduceMean(a) axes=1,2 keepdims=0\nY = Mul(t, t)", 0 },
    { "ReduceMean, kept", "a : 2,3,4\nt = ReduceMean(a) axes=-1,\nu = Sub(a, t)\nY = Mul(u, u)", 0 },
    { "ReduceL2, ReduceSumSquare",
      "a : 2,3\nt = ReduceL2(a) axes=1, keepdims=0\nu = ReduceSumSquare(a) axes=1, keepdims=0\n"
      "Y = Mul(t, u)",
      0 },
    { "ReduceLogSumExp", "a : 2,3\nt = ReduceLogSumExp(a) axes=1, keepdims=0\nY = Mul(t, t)", 0 },
    { "Reshape", "a : 2,N,4\ns = i[2] 4,-1\nt = Reshape(a, s)\nY = Exp(t)", 0 },
    { "Flatten, Squeeze, Unsqueeze",
      "a : 2,1,4\ns = i[1] 1\nu = i[2] 0,3\nt = Squeeze(a, s)\nv = Unsqueeze(t, u)\n"
      "w = Flatten(v)\nY = Exp(w)",
      0 },
    { "Transpose", "a : 2,3,4\nb : 4,2,3\nt = Transpose(a) perm=2,0,1\nY = Mul(t, b)", 0 },
    { "Transpose, reversed", "a : 2,N,4\nb : 4,N,2\nt = Transpose(a)\nY = Mul(t, b)", 0 },
    { "Expand", "a : 3,1\ns = i[3] 2,3,4\nt = Expand(a, s)\nY = Mul(t, t)", 0 },
    { "Softmax", "a : 2,N,4\nb : 2,N,4\nt = Softmax(a) axis=1\nY = Mul(t, b)", 0 },
    { "Softmax-11", "a : 2,3,4\nb : 2,3,4\nt = Softmax(a) axis=1\nY = Mul(t, b)", 11 },
    { "LogSoftmax", "a : 2,3\nb : 2,3\nt = LogSoftmax(a)\nY = Mul(t, b)", 0 },
    { "Concat", "a : 2,N\nb : 2,1\nt = Concat(a, b, a) axis=1\nY = Exp(t)", 0 },
    { "layer norm, loss",
      "a : 2,6\nb : 6\nc : 6\nk = [] 2\ne = [] 0.00001\nm = ReduceMean(a) axes=-1,\nd = Sub(a, m)\n"
      "q = Pow(d, k)\nv = ReduceMean(q) axes=-1,\nw = Add(v, e)\ns = Sqrt(w)\nn = Div(d, s)\n"
      "o = Mul(n, b)\np = Add(o, c)\nr = Tanh(p)\nY = ReduceMean(r) keepdims=0",
      0 },
    { "Max, Min of three", "a : 2,N\nb : N\nc : 2,1\nt = Max(a, b, c)\nu = Min(a, b, c)\nv = Mul(t, a)\nY = Mul(v, u)",
      0 },
    { "Max of equal operands", "a : 4\nb : 4\nt = Max(a, a)\nY = Mul(t, b)", 0 },
    { "Gather, elements twice", "a : N,4\nx = i[2,2] 1,-1,1,0\nt = Gather(a, x) axis=1\nY = Mul(t, t)", 0 },
    { "GatherElements, GatherND",
      "a : 3,2\nx = i[2,2] 2,0,2,-1\nz = i[2,1] 1,1\nt = GatherElements(a, x)\nu = GatherND(a, z)\nY = Mul(t, u)", 0 },
    { "Slice", "a : N,5\ns = i[1] 3\ne = i[1] -6\nx = i[1] 1\nk = i[1] -2\nt = Slice(a, s, e, x, k)\nY = Mul(t, t)",
      0 },
    { "Slice, attributes", "a : 2,5\nt = Slice(a) starts=1, ends=4, axes=1,\nY = Mul(t, t)", 9 },
    { "Tile, DepthToSpace",
      "a : 1,4,1,2\nr = i[4] 1,1,2,1\nt = Tile(a, r)\nu = DepthToSpace(t) blocksize=2\nv = SpaceToDepth(u) "
      "blocksize=2\n"
      "Y = Mul(v, v)",
      0 },
    { "MaxPool", "a : 1,2,4,5\nt = MaxPool(a) kernel_shape=3,2 strides=1,2 pads=1,0,1,1\nY = Mul(t, t)", 0 },
    { "MaxPool of a line", "a : 2,1,N\nt = MaxPool(a) kernel_shape=2, storage_order=1\nY = Mul(t, t)", 0 },
    { "AveragePool, padded", "a : 2,2,4,3\nt = AveragePool(a) kernel_shape=3,2 strides=2,1 pads=1,1,1,0\nY = Mul(t, t)",
      0 },
    { "AveragePool, padding counts",
      "a : 1,2,4,3\nt = AveragePool(a) kernel_shape=2,2 pads=1,1,0,0 count_include_pad=1\nY = Mul(t, t)", 0 },
    { "GlobalAveragePool", "a : 2,2,3,N\nt = GlobalAveragePool(a)\nY = Mul(t, t)", 0 },
    { "Conv", "a : 2,2,4,N\nb : 2,2,2,2\nc : 2\nt = Conv(a, b, c)\nY = Mul(t, t)", 0 },
    { "Conv, strides, pads, groups",
      "a : 1,4,5,3\nb : 2,2,2,3\nt = Conv(a, b) strides=2,2 pads=0,1,1,1 group=2\nY = Mul(t, t)", 0 },
    { "Conv, dilations of a line", "a : 2,2,8\nb : 3,2,2\nt = Conv(a, b) dilations=3, strides=2,\nY = Mul(t, t)", 0 },
    { "Conv, depthwise", "a : 1,3,4,4\nb : 6,1,3,3\nc : 6\nt = Conv(a, b, c) group=3 pads=1,1,1,1\nY = Tanh(t)", 0 },
    { "nothing to do with b", "a : 3\nb : 2,2\nY = Exp(a)", 0 },
};

static uint32_t inputs_of(const struct row *row, char names[MOST_INPUTS * 2])
{
    uint32_t count = 0;

    for (const char *line = row->script; line != NULL;
         line = strchr(line, '\n') != NULL ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line + 1, " : ", 3) == 0) {
            if (count > 0)
                names[2 * count - 1] = ',';
            assert_true(count < MOST_INPUTS);
            names[2 * count++] = line[0];
            names[2 * count - 1] = '\0';
        }
    return count;
}

static void feed(struct rig *rig, uint32_t input, uint64_t seed, int64_t moved, float by)
{
    inlay_io_info info = { .struct_size = sizeof info };
    int64_t dims[INLAY_MAX_RANK];
    inlay_value *value = NULL;

    (void)inlay_session_input(rig->session, input, &info);
    for (uint32_t d = 0; d < info.rank; d++)
        dims[d] = info.dims[d] < 0 ? 3 : info.dims[d];
    assert_int_equal(inlay_value_create(INLAY_FLOAT, info.rank, dims, &value, NULL), INLAY_OK);
    for (int64_t k = 0; k < inlay_value_count(value); k++)
        ((float *)inlay_value_data(value))[k] = 0.5f + random_unit(&seed) + (k == moved ? by : 0);
    rig_bind(rig, input, value);
}

static double total(struct rig *rig)
{
    const inlay_value *value;
    double sum = 0;

    rig_run(rig);
    value = inlay_context_output(rig->context, 0);
    for (int64_t i = 0; i < inlay_value_count(value); i++)
        sum += (double)((const float *)inlay_value_data(value))[i];
    return sum;
}

static void check_row(const struct row *row, const char *level)
{
    const char *options[] = { "providers", "reference", "level", level, NULL };
    const float step = 1.0f / 256;
    char names[MOST_INPUTS * 2 + 1], derived[4 * MOST_INPUTS + 1] = "", script[2000];
    const uint32_t count = inputs_of(row, names);
    struct wire wire = { 0 };
    struct rig rig;

    for (uint32_t i = 0; i < count; i++)
        (void)snprintf(derived + strlen(derived), sizeof derived - strlen(derived), "%sd%c", i > 0 ? ", " : "",
                       names[2 * i]);
    (void)snprintf(script, sizeof script, "%s\n%s = tr.Gradient(%s) xs='%s y=Y\n-> Y, %s", row->script, derived, names,
                   names, derived);
    script_model(&wire, row->opset == 0 ? 17 : row->opset, script);
    rig = rig_open(&wire, options);
    for (uint32_t i = 0; i < count; i++) {
        const inlay_value *slope;
        float got[64];
        int64_t elements;

        for (uint32_t k = 0; k < count; k++)
            feed(&rig, k, 11 + k, -1, 0);
        rig_run(&rig);
        slope = inlay_context_output(rig.context, 1 + i);
        elements = inlay_value_count(slope);
        assert_in_range(elements, 1, 64);
        memcpy(got, inlay_value_data(slope), (size_t)elements * sizeof *got);
        for (int64_t k = 0; k < elements; k += 1 + elements / PICKED) {
            double up, down, want;

            feed(&rig, i, 11 + i, k, step);
            up = total(&rig);
            feed(&rig, i, 11 + i, k, -step);
            down = total(&rig);
            want = (up - down) / (2 * (double)step);
            if (!(fabs((double)got[k] - want) <= 4e-3 * (1 + fabs(want))))
                fail_msg("%s, level %s: the derivative by element %lld of input %u is %g; by differences %g", row->name,
                         level, (long long)k, i, (double)got[k], want);
        }
    }
    rig_close(&rig);
}

static void finite_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_row(&rows[i], "0");
        check_row(&rows[i], "99");
    }
}

/* Expects the value of a scalar output for scalar inputs a and b, at the first and the last level. */
static void expect_one(const char *script, float a, float b, float want)
{
    static const char *const levels[] = { "0", "99" };

    for (uint32_t i = 0; i < 2; i++) {
        const char *options[] = { "providers", "reference", "level", levels[i], NULL };
        struct wire wire = { 0 };
        struct rig rig;

        script_model(&wire, 17, script);
        rig = rig_open(&wire, options);
        rig_floats(&rig, 0, "", &a);
        if (inlay_session_input_count(rig.session) > 1)
            rig_floats(&rig, 1, "", &b);
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "", &want);
        rig_close(&rig);
    }
}

/* Second derivatives; an input of Gradient that replaces x or an intermediate value; constants (zs); omitted
 * outputs. */
static void derivative_semantics(void **state)
{
    (void)state;
    expect_one("x : -\nt = Mul(x, x)\nY = Mul(t, x)\nd = tr.Gradient(x) xs='x y=Y\ne = tr.Gradient(x) xs='x y=d\n-> e",
               2, 0, 12);
    expect_one("x : -\nh : -\nt = Mul(x, x)\nY = Mul(t, x)\nd = tr.Gradient(h) xs='x y=Y\n-> d", 2, 3, 27);
    expect_one("x : -\nz : -\nt = Mul(x, z)\nY = Mul(t, z)\nd = tr.Gradient(x, z) xs='x zs='z y=Y\n-> d", 2, 3, 9);
    expect_one("x : -\nh : -\nt = Mul(x, x)\nY = Mul(t, t)\nd = tr.Gradient(h) xs='t y=Y\n-> d", 2, 3, 6);
    expect_one("x : -\nh : -\nt = Mul(x, h)\nY = Exp(t)\n_, d = tr.Gradient(x, h) xs='x,h y=t\n-> d", 2, 3, 2);
    expect_one("x : -\nY = Mul(x, x)\nd = tr.Gradient(x) xs='x y=x\n-> d", 2, 0, 1);
}

static void refused(const char *script, inlay_status want, const char *says)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    struct wire wire = { 0 };

    script_model(&wire, 17, script);
    if (inlay_session_create_from_bytes(wire.bytes, wire.count, NULL, &session, &diag) != want ||
        strstr(diag.text, says) == NULL)
        fail_msg("%s\n%d: %s", script, diag.code, diag.text);
    inlay_session_destroy(session);
    wire_deinit(&wire);
}

/* libinlay.so does not enable Gradient. */
static void library_rejects_gradient(void **state)
{
    (void)state;
    passes_set_gradient(NULL);
    refused("a : 3\nY = Exp(a)\nd = tr.Gradient(a) xs='a y=Y\n-> d", INLAY_UNSUPPORTED, "`inlay optimize --level 0");
    passes_set_gradient(gradient_expand);
}

static void refusals(void **state)
{
    (void)state;
    refused("a : 3,3\nt = Exp(a)\nu = Det(t)\nY = Exp(u)\nd = tr.Gradient(a) xs='a y=Y\n-> d", INLAY_UNSUPPORTED,
            "no rule for Det");
    refused("a : 1,1,4\nb : 1,1,2\nY = Conv(a, b) auto_pad=SAME_UPPER\nd = tr.Gradient(a) xs='a y=Y\n-> d",
            INLAY_UNSUPPORTED, "no rule for Conv with auto_pad SAME");
    refused("a : 3\nY = Exp(a)\nd = tr.Gradient(a) xs='a y=Z\n-> d", INLAY_INVALID_MODEL, "y is 'Z'");
    refused("a : 3\nY = Exp(a)\nd = tr.Gradient(a) xs='b y=Y\n-> d", INLAY_INVALID_MODEL, "xs names 'b'");
    refused("a : 3\nb : 3\nY = Mul(a, b)\nd = tr.Gradient(a) xs='a,b y=Y\n-> d", INLAY_INVALID_MODEL, "more values");
    refused("a : 3\nb : 3\nc = Greater(a, b)\nY = Where(c, a, b)\nd, _ = tr.Gradient(a, c) xs='a,c y=Y\n-> d",
            INLAY_INVALID_MODEL, "not a float");
    refused("a : 3\nb : 3\nc = Greater(a, b)\nd = tr.Gradient(a) xs='a y=c\n-> d", INLAY_INVALID_MODEL, "y is 'c'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finite_differences),
        cmocka_unit_test(derivative_semantics),
        cmocka_unit_test(refusals),
        cmocka_unit_test(library_rejects_gradient),
    };

    passes_set_gradient(gradient_expand);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
