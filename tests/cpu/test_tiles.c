/* Built-in convolutions, compared with the reference: random windows, strides, dilations and pads, one group or
 * depthwise, with residuals, functions and per-channel factors around them. */
#define COMPARE_TOLERANCE 2e-5f /* with AMX: three products of terms (matrix/terms.h), then x HardSigmoid(x) */
#include "compare.h"
#include "random.h"

/* The ops after the convolution `k`; they compute y. */
static const char *const endings[] = {
    "y = Relu(k)\n-> y",
    "y = Clip(k, lo, hi)\n-> y",
    "s = Sigmoid(k)\ny = Mul(k, s)\n-> y",
    "g = HardSigmoid(k) alpha=0.16666667 beta=0.5\ny = Mul(k, g)\n-> y",
    "a = Add(k, r)\ny = Relu(a)\n-> y",
    "a = Relu(k)\ny = Mul(a, r)\n-> y",
    "y = Identity(k)\n-> y",
};

static void expect_conv(int images, int in, int height, int width, int out, int group, const int *kernel,
                        const int *stride, const int *dilation, const int *pads, const char *ending)
{
    char script[768];

    (void)snprintf(script, sizeof script,
                   "x : %d,%d,%d,%d\nw = [%d,%d,%d,%d]\nc = [%d]\nlo = [] -1\nhi = [] 100\n"
                   "v = [%d,%d,%d,%d]\nr = Conv(x, v) strides=%d,%d, dilations=%d,%d, pads=%d,%d,%d,%d, group=%d\n"
                   "k = Conv(x, w, c) strides=%d,%d, dilations=%d,%d, pads=%d,%d,%d,%d, group=%d\n%s",
                   images, in, height, width, out, in / group, kernel[0], kernel[1], out, out, in / group, kernel[0],
                   kernel[1], stride[0], stride[1], dilation[0], dilation[1], pads[0], pads[1], pads[2], pads[3], group,
                   stride[0], stride[1], dilation[0], dilation[1], pads[0], pads[1], pads[2], pads[3], group, ending);
    compare_expect(&(compare_case){ "Conv", script }, 17, NULL);
}

static void random_convolutions(void **state)
{
    uint64_t dice = 7;

    (void)state;
    for (int n = 0; n < 90; n++) {
        bool deep = n % 3 == 0;
        int kernel[2], stride[2], dilation[2], pads[4], in = (int)random_between(&dice, 1, 40), size[2];
        int out = deep ? in + 8 : (int)random_between(&dice, 1, 70);

        in = deep ? in + 8 : in;
        for (int i = 0; i < 2; i++) {
            kernel[i] = (int)random_between(&dice, 1, 5);
            stride[i] = (int)random_between(&dice, 1, 3);
            dilation[i] = (int)random_between(&dice, 1, 2);
            pads[i] = (int)random_between(&dice, 0, kernel[i] - 1);
            pads[2 + i] = (int)random_between(&dice, 0, kernel[i] - 1);
            size[i] = (kernel[i] - 1) * dilation[i] + (int)random_between(&dice, 1, 24);
        }
        expect_conv((int)random_between(&dice, 1, 2), in, size[0], size[1], out, deep ? in : 1, kernel, stride,
                    dilation, pads, endings[random_between(&dice, 0, 6)]);
    }
}

/* Last panels of any width, with even and odd depths, short sums and long ones. */
static void narrow(void **state)
{
    static const int outs[] = { 1, 7, 8, 9, 16, 17, 23, 24, 25, 40, 56 }, ins[] = { 2, 11, 64, 800 };
    char script[512];

    (void)state;
    for (size_t out_index = 0; out_index < sizeof outs / sizeof *outs; out_index++) {
        for (size_t i = 0; i < sizeof ins / sizeof *ins; i++) {
            const int size = i < 2 ? 3 : 1, out = outs[out_index], in = ins[i];
            struct rig a, b;
            struct wire wire = { 0 };

            (void)snprintf(script, sizeof script,
                           "x : 1,%d,7,5\nw = [%d,%d,%d,%d]\nc = [%d]\nlo = [] -1\nhi = [] 100\nv = [%d,%d,1,1]\n"
                           "r = Conv(x, v)\n"
                           "k = Conv(x, w, c) pads=%d,%d,%d,%d\n%s",
                           in, out, in, size, size, out, out, in, size / 2, size / 2, size / 2, size / 2,
                           endings[(out_index + i) % 7]);
            script_model(&wire, 17, script);
            a = rig_open(&wire,
                         (const char *const[]){ "providers", "cpu,reference", "policy", "priority", "intra_threads",
                                                out_index % 2 ? "1" : "2", "cpu.kernel", "tiles", NULL });
            b = compare_open(script, 17, "reference", "1", NULL);
            compare_runs(&a, &b, script);
        }
    }
}

/* Windows of 3x3 at sizes that do not fill Winograd's windows. */
static void windows(void **state)
{
    static const int three[] = { 3, 3 }, one[] = { 1, 1 };
    uint64_t dice = 11;

    (void)state;
    for (int n = 0; n < 24; n++) {
        int pads[4];

        for (int i = 0; i < 4; i++)
            pads[i] = (int)random_between(&dice, 0, 2);
        expect_conv((int)random_between(&dice, 1, 2), (int)random_between(&dice, 16, 50),
                    (int)random_between(&dice, 5, 33), (int)random_between(&dice, 5, 33),
                    (int)random_between(&dice, 16, 70), 1, three, one, one, pads, endings[n % 7]);
    }
}

static void factors(void **state)
{
    static const compare_case rows[] = {
        { NULL, "x : 1,20,12,9\nw = [20,20,1,1]\nv = [30,20,1,1]\np = GlobalAveragePool(x)\na = Conv(p, w)\n"
                "s = Sigmoid(a)\nm = Mul(x, s)\ny = Conv(m, v)\n-> y" },
        { NULL, "x : 1,20,12,9\nw = [20,20,1,1]\nv = [30,20,1,1]\np = GlobalAveragePool(x)\na = Conv(p, w)\n"
                "s = HardSigmoid(a)\nm = Mul(s, x)\nk = Conv(m, v)\nr = Conv(x, v)\nb = Add(k, r)\ny = Relu(b)\n"
                "-> y, s" },
        { NULL, "x : 2,20,12,9\nw = [20,20,1,1]\np = GlobalAveragePool(x)\ns = Sigmoid(p)\nm = Mul(x, s)\n"
                "y = Conv(m, w)\n-> y" },
        { NULL, "x : N,20,H,W\nw = [20,20,1,1]\np = GlobalAveragePool(x)\ns = Sigmoid(p)\nm = Mul(x, s)\n"
                "y = Conv(m, w)\nz = Conv(y, w)\n-> z" },
        { NULL, "x : 1,20,12,9\nw = [20,20,1,1]\np = GlobalAveragePool(x)\ns = Sigmoid(p)\nm = Mul(x, s)\n"
                "y = Conv(m, w)\nz = Relu(m)\n-> y, z" },
    };

    (void)state;
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++)
        compare_expect(&rows[i], 17, NULL);
}

/* Parts of a concatenation that are written in place, and parts that are not. */
static void parts(void **state)
{
    static const compare_case rows[] = {
        { NULL, "x : 1,20,12,9\nw = [24,20,1,1]\nv = [16,20,3,3]\na = Conv(x, w)\nb = Conv(x, v) pads=1,1,1,1\n"
                "d = Relu(b)\nc = Concat(a, d) axis=1\nu = [8,40,1,1]\ny = Conv(c, u)\n-> y" },
        { NULL, "x : 2,20,12,9\nw = [24,20,1,1]\na = Conv(x, w)\np = MaxPool(x) kernel_shape=3,3, pads=1,1,1,1\n"
                "c = Concat(p, a, x) axis=1\ny = Relu(c)\nz = Sigmoid(y)\n-> z, y" },
        { NULL, "x : 1,20,12,9\nw = [24,20,1,1]\na = Conv(x, w)\nc = Concat(a, x) axis=1\nr = Relu(a)\n"
                "d = Concat(r, c) axis=1\ny = Relu(d)\n-> y" },
        { NULL, "x : 1,20,12,9\nw = [24,20,1,1]\na = Conv(x, w)\nc = Concat(a, a) axis=1\ny = Relu(c)\n-> y" },
        { NULL, "x : 1,20,12,9\nw = [24,20,1,1]\na = Conv(x, w)\ny = Concat(x, a) axis=1\n-> y" },
        { NULL, "x : N,20,H,W\nw = [24,20,1,1]\na = Conv(x, w)\nb = Conv(x, w)\nd = Add(b, a)\n"
                "c = Concat(x, d) axis=1\ne = Conv(x, w)\nf = Concat(c, e) axis=1\nt = Transpose(f) perm=0,2,3,1\n"
                "-> t" },
        { NULL, "x : 1,20,12,9\nw = [20,20,1,1]\na = Conv(x, w)\nb = Conv(x, w)\nc = Concat(a, b) axis=2\n"
                "y = Relu(c)\n-> y" },
    };

    (void)state;
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++)
        compare_expect(&rows[i], 17, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_convolutions), cmocka_unit_test(narrow),
                                        cmocka_unit_test(windows), cmocka_unit_test(factors), cmocka_unit_test(parts) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
