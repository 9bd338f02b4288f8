/* Elementwise operators: every function over ordinary and special floats, integers, broadcasting, and chains that
 * are fused. */
#include "vulkan_case.h"

static void functions(void **state)
{
    static const char *const ops[] = {
        "Abs",       "Neg",
        "Sign",      "Relu",
        "Sqrt",      "Exp",
        "Log",       "Sin",
        "Cos",       "Tan",
        "Asin",      "Acos",
        "Atan",      "Sinh",
        "Cosh",      "Tanh",
        "Asinh",     "Acosh",
        "Atanh",     "Erf",
        "Floor",     "Ceil",
        "Round",     "Reciprocal",
        "Sigmoid",   "LeakyRelu",
        "Elu",       "Selu",
        "Celu",      "Softplus",
        "Softsign",  "HardSigmoid",
        "HardSwish", "ThresholdedRelu",
        "Shrink",    "IsNaN",
        "IsInf",     "Identity",
    };
    char script[128];

    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        (void)snprintf(script, sizeof script, "x : 5,67\ny = %s(x)\n-> y", ops[i]);
        vulkan_case_expect(script, 17, ops[i], 0);
        if (strcmp(ops[i], "Erf") != 0)
            vulkan_case_expect(script, 17, ops[i], 0.1f);
    }
    vulkan_case_expect("x : 3,50\ny = Gelu(x)\n-> y", 20, "Gelu", 0);
    vulkan_case_expect("x : 3,50\ny = Gelu(x) approximate=tanh\n-> y", 20, "Gelu", 0);
    vulkan_case_expect("x : 3,50\ny = Mish(x)\n-> y", 18, "Mish", 0);
}

static void operands(void **state)
{
    static const vulkan_case_row rows[] = {
        { "Add", "x : 2,3,4,5\nc : 3,1,1\ny = Add(x, c)\n-> y" },
        { "Sub", "x : 4,1,5\nc : 3,1\ny = Sub(x, c)\n-> y" },
        { "Mul", "x : 7\nc : -\ny = Mul(c, x)\n-> y" },
        { "Div", "x : 2,3,4\nc : 2,1,4\ny = Div(x, c)\n-> y" },
        { "Pow", "x : 40\na = Abs(x)\nc : 40\ny = Pow(a, c)\n-> y" },
        { "Pow", "x : 40\nc = [] 3\ny = Pow(x, c)\n-> y" },
        { "Max", "x : 2,3\nc : 3\nd : 2,1\ny = Max(x, c, d)\n-> y" },
        { "Min", "x : 2,3\nc : 3\nd : 2,1\ny = Min(x, c, d)\n-> y" },
        { "Sum", "x : 2,3\nc : 3\nd : 2,1\ny = Sum(x, c, d)\n-> y" },
        { "Mean", "x : 2,3\nc : 3\nd : 2,1\ny = Mean(x, c, d)\n-> y" },
        { "PRelu", "x : 2,6,3\nc = [6,1]\ny = PRelu(x, c)\n-> y" },
        { "Clip", "x : 40\nl = [] -1\nh = [] 0.5\ny = Clip(x, l, h)\n-> y" },
        { "Clip", "x : 40\nh = [] 0.5\ny = Clip(x, _, h)\n-> y" },
        { "Mod", "x : 40\nc : 40\ny = Mod(x, c) fmod=1\n-> y" },
        { "Where", "x : 4,5\nc : 5\nb = Less(x, c)\ny = Where(b, x, c)\n-> y" },
        { "Equal", "x : 4,5\ni = Cast(x) to=6\nj = Transpose(i)\nk = Transpose(j)\ny = Equal(i, k)\n-> y" },
        { "GreaterOrEqual", "x : 4,5\nc : 5\ny = GreaterOrEqual(x, c)\n-> y" },
        { "And", "x : 4,5\nc : 5\na = Less(x, c)\nz = [] 0\nb = Greater(x, z)\nd = And(a, b)\ne = Xor(d, b)\ny = "
                 "Not(e)\n-> y" },
        { "BatchNormalization",
          "x : 2,6,5\ns = [6]\nb = [6]\nm = [6]\nv = [6]\ny = BatchNormalization(x, s, b, m, v)\n-> y" },
        { "Add", "x : 1,1,1\nc : 3,1,4\ny = Add(x, c)\n-> y" },
        { "Add", "x : 0,4\nc : 4\ny = Add(x, c)\n-> y" },
    };

    (void)state;
    VULKAN_CASE_ROWS(rows, 17, 0);
}

/* 64-bit and negative integers, and divisions that round to zero. */
static void integers(void **state)
{
    static const char *const types[] = { "2", "3", "5", "6", "7" }; /* u8, i8, i16, i32, i64 */
    static const char *const ops[] = { "Add", "Sub", "Mul", "Max", "Min" };
    char script[200];

    (void)state;
    for (size_t type = 0; type < sizeof types / sizeof types[0]; type++)
        for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++) {
            if (type < 3 && o < 3) /* older ONNX versions define these for wide integers only */
                continue;
            (void)snprintf(script, sizeof script,
                           "x : 60\na = Abs(x)\nk = [] 9\nm = Mul(%s, k)\ni = Cast(m) to=%s\n"
                           "c = [60]\nd = Mul(c, k)\nj = Cast(d) to=%s\ny = %s(i, j)\n-> y",
                           type == 0 ? "a" : "x", types[type], types[type], ops[o]);
            vulkan_case_expect(script, 17, ops[o], 0);
        }
    vulkan_case_expect(
        "x : 60\ni = Cast(x) to=6\na = Abs(i)\nn = Neg(a)\ns = Sign(n)\nt = Add(s, i)\ny = Cast(t) to=1\n-> y", 17,
        "Abs", 0);
    vulkan_case_expect("x : 60\nk = [] 9\nm = Mul(x, k)\ni = Cast(m) to=7\nc = i[] -4\ny = Div(i, c)\nz = Mod(i, c)\n"
                       "w = Mod(i, c) fmod=1\n-> y, z, w",
                       17, "Mod", 0);
    vulkan_case_expect(
        "x : 60\ni = Cast(x) to=7\nc = i[] -2\ny = Mul(i, c)\nb = Less(y, i)\nz = Where(b, y, i)\n-> y, z", 17, "Where",
        0);
}

static void types(void **state)
{
    static const vulkan_case_row rows[] = {
        { "Cast", "x : 50\nh = Cast(x) to=10\ny = Cast(h) to=1\n-> y" },
        { "Cast", "x : 50\nh = Cast(x) to=16\ny = Cast(h) to=1\n-> y" },
        { "Cast",
          "x : 50\nk = [] 3000000000000000000\nm = Mul(x, k)\na = Cast(m) to=6\nb = Cast(m) to=7\nc = Cast(m) to=3\n"
          "-> a, b, c" },
        { "Cast", "x : 50\nb = Cast(x) to=9\ny = Cast(b) to=6\n-> y" },
        { "Cast", "x : 50\ni = Cast(x) to=3\nl = Cast(i) to=7\ny = Cast(l) to=1\n-> y" },
        { "Add", "x : 50\nh = Cast(x) to=10\na = Add(h, h)\ne = Exp(a)\ny = Cast(e) to=1\n-> y" },
    };

    (void)state;
    VULKAN_CASE_ROWS(rows, 17, 0);
    vulkan_case_expect(rows[0].script, 17, "Cast", 0.2f);
    vulkan_case_expect("x : 4,6\ns = [] 0.02\nq = QuantizeLinear(x, s)\ny = DequantizeLinear(q, s)\n-> q, y", 13,
                       "QuantizeLinear", 0);
    vulkan_case_expect("x : 20\ns = [] 0.02\nz = int8[] 5\ny = QuantizeLinear(x, s, z)\n-> y", 13, "QuantizeLinear",
                       0.5f); /* NaN becomes the lowest integer */
    vulkan_case_expect(
        "x : 4,6\ns = [6]\nz = [] 0\nq = QuantizeLinear(x, s) axis=1\ny = DequantizeLinear(q, s) axis=1\n-> q, y", 13,
        "DequantizeLinear", 0);
}

/* Fusion: results with several readers, operands that are computed later, and more steps than a program has. */
static void chains(void **state)
{
    static const vulkan_case_row rows[] = {
        { "Mul", "x : 3,9\ns = Sigmoid(x)\ny = Mul(x, s)\nz = Exp(y)\nw = Add(z, s)\n-> w" },
        { "Mul", "x : 3,9\na = Exp(x)\nb = Neg(a)\nc = Mul(a, b)\nd = Tanh(c)\n-> b, d" },
        { "Add", "x : 3,9\na = Exp(x)\nt = Transpose(x)\nu = Transpose(t)\nb = Abs(u)\nc = Add(a, b)\n-> c" },
        { "Add", "x : 3,9\nc : 9\nd : 3,1\na = Add(x, c)\nb = Mul(a, d)\ne = Sub(b, x)\nf = Div(e, c)\ng = Max(f, d)\n"
                 "h = Neg(g)\ni = Add(h, c)\nj = Mul(i, i)\nk = Add(j, a)\nl = Sqrt(j)\nm = Add(l, k)\nn = Tanh(m)\n"
                 "o = Add(n, d)\np = Mul(o, x)\nq = Neg(p)\nr = Add(q, c)\ns = Abs(r)\nt = Add(s, d)\nu = Exp(n)\n"
                 "v = Add(u, t)\n-> v" },
        { "Add", "x : 2,4,6,6\nk = [4,4,3,3]\nb = [4]\nc = Conv(x, k, b) pads=1,1,1,1\ns = Sigmoid(c)\nm = Mul(c, s)\n"
                 "y = Add(m, x)\nr = Relu(y)\n-> r" },
        { NULL, "x : 3,8\nw = [8,5]\nb = [5]\nm = MatMul(x, w)\na = Add(m, b)\ny = Relu(a)\nz = ReduceSum(y)\n-> z" },
    };

    (void)state;
    VULKAN_CASE_ROWS(rows, 17, 0);
}

/* A fused chain rounds each value of 16 bits as the tensors between its nodes would have been: equal bits. */
static void halves(void **state)
{
    static const vulkan_case_row rows[] = {
        { "Add", "x : 5,67\nc : 67\nh = Cast(x) to=10\nd = Cast(c) to=10\na = Mul(h, d)\nb = Add(a, h)\ne = Mul(b, b)\n"
                 "y = Sub(e, d)\n-> y" },
        { "Add", "x : 5,67\nc : 67\nh = Cast(x) to=16\nd = Cast(c) to=16\na = Mul(h, d)\nb = Add(a, h)\ne = Mul(b, b)\n"
                 "f = Cast(e) to=1\ny = Cast(f) to=16\n-> y" },
        { "MatMul",
          "x : 9,24\nw = [24,30]\nc = [30]\nf = Floor(x)\ng = Floor(w)\nh = Cast(f) to=10\nv = Cast(g) to=10\n"
          "d = Cast(c) to=10\nm = MatMul(h, v)\na = Add(m, d)\nb = Mul(a, d)\ny = Add(b, m)\n-> y" },
        { "Mul",
          "x : 5,67\nk = [] 3e-6\nl = [] 4e4\na = Mul(x, k)\nb = Mul(x, l)\nh = Cast(a) to=10\nd = Cast(b) to=10\n"
          "n = Neg(h)\np = Add(n, h)\nq = Add(d, d)\ny = Sub(h, n)\nz = Cast(y) to=1\nv = Abs(q)\nw = Cast(v) to=1\n"
          "-> p, y, z, w" },
        { "LayerNormalization", "x : 6,40\ns = [40]\nh = Cast(x) to=10\nt = Cast(s) to=10\n"
                                "n = LayerNormalization(h, t)\na = Add(n, h)\nf = Cast(a) to=1\n-> f" },
    };

    (void)state;
    VULKAN_CASE_ROWS(rows, 17, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(functions), cmocka_unit_test(operands),
                                        cmocka_unit_test(integers),  cmocka_unit_test(types),
                                        cmocka_unit_test(chains),    cmocka_unit_test(halves) };

    return cmocka_run_group_tests(tests, NULL, vulkan_case_end);
}
