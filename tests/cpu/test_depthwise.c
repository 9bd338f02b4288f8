/* Depthwise convolutions by built-in kernels, compared with the reference, on one thread and two. */
#define COMPARE_TOLERANCE 4e-5f /* the reference, plain C, sums up to a thousand terms without fused multiply-add */
#include "loops.h"
#include "compare.h"
#include "random.h"

static void expect_by(const char *script, const char *kernel)
{
    struct rig b = compare_open(script, 17, "reference", "1", NULL);

    script_feed(&b, 1);
    rig_run(&b);
    for (int threads = 1; threads <= 2; threads++) {
        struct wire wire = { 0 };
        struct rig a;

        script_model(&wire, 17, script);
        a = rig_open(&wire, (const char *const[]){ "providers", "cpu,reference", "policy", "priority", "intra_threads",
                                                   threads == 1 ? "1" : "2", "cpu.kernel", kernel, NULL });
        script_feed(&a, 1);
        rig_run(&a);
        compare_outputs(&a, &b, script);
        rig_close(&a);
    }
    rig_close(&b);
}

static void expect(const char *script)
{
    expect_by(script, "depthwise");
    expect_by(script, "planes");
}

static const char *const endings[] = {
    "y = Relu(k)\n-> y",
    "y = Clip(k, lo, hi)\n-> y",
    "s = Sigmoid(k)\ny = Mul(k, s)\n-> y",
    "g = HardSigmoid(k) alpha=0.16666667 beta=0.5\ny = Mul(k, g)\n-> y",
    "a = Add(k, r)\ny = Relu(a)\n-> y",
    "a = Relu(k)\ny = Mul(a, r)\n-> y",
    "y = Identity(k)\n-> y",
    "y = Sigmoid(k)\n-> y",
    "a = Tanh(k)\ny = Concat(r, a, k) axis=1\n-> y",
};

/* Windows with specialised kernels and others, row and channel counts around block sizes, padding on every side. */
static void windows(void **state)
{
    static const int sides[] = { 3, 3, 5, 5, 1, 2, 4, 7, 11 };
    uint64_t dice = 3;

    (void)state;
    for (uint32_t n = 0; n < random_rounds(96); n++) {
        const int specialised = n % 2 == 0,
                  c = n % 8 == 7 ? (int)random_between(&dice, 250, 530) : (int)random_between(&dice, 2, 80);
        int kernel[2], stride[2], dilation[2], pads[4], size[2];
        char window[160], script[700];

        for (int i = 0; i < 2; i++) {
            kernel[i] = sides[random_between(&dice, 0, specialised ? 3 : 8)];
            stride[i] = (int)random_between(&dice, 1, specialised ? 2 : 3);
            dilation[i] = specialised ? 1 : (int)random_between(&dice, 1, 3);
            pads[i] = (int)random_between(&dice, 0, kernel[i]);
            pads[2 + i] = (int)random_between(&dice, 0, kernel[i]);
            size[i] = (kernel[i] - 1) * dilation[i] + (int)random_between(&dice, 1, c > 80 ? 9 : 40);
        }
        (void)snprintf(window, sizeof window, "strides=%d,%d, dilations=%d,%d, pads=%d,%d,%d,%d, group=%d", stride[0],
                       stride[1], dilation[0], dilation[1], pads[0], pads[1], pads[2], pads[3], c);
        (void)snprintf(script, sizeof script,
                       "x : %d,%d,%d,%d\nw = [%d,1,%d,%d]\nc = [%d]\nlo = [] -1\nhi = [] 100\nv = [%d,1,%d,%d]\n"
                       "r = Conv(x, v) %s\nk = Conv(x, w%s) %s\n%s",
                       (int)random_between(&dice, 1, 2), c, size[0], size[1], c, kernel[0], kernel[1], c, c, kernel[0],
                       kernel[1], window, n % 3 == 0 ? "" : ", c", window, endings[n % 9]);
        expect(script);
    }
}

/* Kernels of many taps, of one channel or several, in one and two dimensions, so large that rows and columns are
 * divided among units: padding on every side, dilation, and a stride between rows. */
static void many_taps(void **state)
{
    uint64_t dice = 8;

    (void)state;
    for (uint32_t n = 0; n < random_rounds(40); n++) {
        const int c = n % 3 == 0 ? (int)random_between(&dice, 2, 5) : 1, spatial = n % 4 == 1 ? 1 : 2;
        int kernel[2], dilation[2], pads[4], size[2], stride = (int)random_between(&dice, 1, 4) == 1 ? 2 : 1;
        char window[200], shape[60], script[700];

        kernel[0] = spatial == 1 ? 1 : (int)random_between(&dice, 1, 33);
        kernel[1] = 65 / kernel[0] + (int)random_between(&dice, 1, spatial == 1 ? 700 : 40);
        for (int i = 0; i < 2; i++) {
            const int most = spatial == 1 && i == 1 ? (n % 8 == 1 ? 9000 : 300) : n % 10 == 0 ? 200 : 40;

            dilation[i] = random_between(&dice, 1, 4) == 1 ? 2 : 1;
            pads[i] = (int)random_between(&dice, 0, kernel[i]);
            pads[2 + i] = (int)random_between(&dice, 0, kernel[i]);
            size[i] = (kernel[i] - 1) * dilation[i] + (int)random_between(&dice, 1, most);
        }
        if (spatial == 1)
            (void)snprintf(window, sizeof window, "strides=1, dilations=%d, pads=%d,%d, group=%d", dilation[1], pads[1],
                           pads[3], c);
        else
            (void)snprintf(window, sizeof window, "strides=%d,1, dilations=%d,%d, pads=%d,%d,%d,%d, group=%d", stride,
                           dilation[0], dilation[1], pads[0], pads[1], pads[2], pads[3], c);
        if (spatial == 1) {
            (void)snprintf(shape, sizeof shape, "%d", kernel[1]);
            (void)snprintf(script, sizeof script, "x : %d,%d,%d\n", (int)random_between(&dice, 1, 2), c, size[1]);
        } else {
            (void)snprintf(shape, sizeof shape, "%d,%d", kernel[0], kernel[1]);
            (void)snprintf(script, sizeof script, "x : %d,%d,%d,%d\n", (int)random_between(&dice, 1, 2), c, size[0],
                           size[1]);
        }
        (void)snprintf(script + strlen(script), sizeof script - strlen(script),
                       "w = [%d,1,%s]\nc = [%d]\nlo = [] -1\nhi = [] 100\nv = [%d,1,%s]\nr = Conv(x, v) %s\n"
                       "k = Conv(x, w%s) %s\n%s",
                       c, shape, c, c, shape, window, n % 3 == 0 ? "" : ", c", window, endings[n % 9]);
        expect_by(script, "planes");
    }
}

static void unusual_shapes(void **state)
{
    static const char *const scripts[] = {
        /* one dimension; a part of a concatenation; a window larger than the image; padding only */
        "x : 2,40,95\nw = [40,1,9]\nb = [40]\nc = Conv(x, w, b) pads=4,3 strides=2, group=40\ny = Relu(c)\n-> y",
        ("x : 1,20,12,9\nu = [24,20,1,1]\nv = [16,20,1,1]\nw = [40,1,3,3]\na = Conv(x, u)\nb = Conv(x, v)\n"
         "c = Concat(a, b) axis=1\ny = Conv(c, w) pads=1,1,1,1 group=40\n-> y"),
        "x : 1,33,4,3\nw = [33,1,9,11]\ny = Conv(x, w) pads=4,5,4,5 group=33\n-> y",
        "x : 1,17,2,2\nw = [17,1,3,3]\ny = Conv(x, w) pads=8,8,8,8 strides=2,2 group=17\n-> y",
        "x : N,48,H,W\nw = [48,1,3,3]\nb = [48]\nc = Conv(x, w, b) pads=1,1,1,1 group=48\ny = Add(c, x)\n-> y",
        "x : 1,8,70,300\nw = [8,1,40,3]\ny = Conv(x, w) pads=0,1,0,1 group=8\n-> y",
        "x : 1,8,300,9\nw = [8,1,3,3]\ny = Conv(x, w) dilations=40,1 pads=40,1,40,1 group=8\n-> y",
        "x : 1,8,9,400\nw = [8,1,3,3]\ny = Conv(x, w) dilations=1,90 pads=1,90,1,90 group=8\n-> y",
        "x : 1,8,60,60\nw = [8,1,31,31]\ny = Conv(x, w) pads=15,15,15,15 group=8\n-> y",
    };

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        expect(scripts[i]);
}

/* After a convolution that computes their input row by row: epilogues of both, channel counts around panels, image
 * sizes around tiles, windows of all kinds. */
static void deferred_producers(void **state)
{
    static const char *const functions[] = {
        "h = Relu(e)",
        "h = Clip(e, lo, hi)",
        "s = Sigmoid(e)\nh = Mul(e, s)",
        "h = Identity(e)",
        "g = HardSigmoid(e) alpha=0.16666667 beta=0.5\nh = Mul(e, g)",
        "h = Tanh(e)",
    };
    uint64_t dice = 29;

    (void)state;
    for (uint32_t n = 0; n < random_rounds(72); n++) {
        const int in = (int)random_between(&dice, 1, n % 6 == 5 ? 500 : 60),
                  c = (int)random_between(&dice, 2, n % 6 == 4 ? 400 : 150);
        int kernel[2], stride[2], dilation[2], pads[4], size[2];
        char script[1000];

        for (int i = 0; i < 2; i++) {
            kernel[i] = n % 3 == 2 ? (int)random_between(&dice, 1, 7) : n % 3 == 1 ? 5 : 3;
            stride[i] = (int)random_between(&dice, 1, n % 7 == 6 ? 4 : 2);
            dilation[i] = n % 5 == 4 ? (int)random_between(&dice, 1, 3) : 1;
            pads[i] = (int)random_between(&dice, 0, kernel[i]);
            pads[2 + i] = (int)random_between(&dice, 0, kernel[i]);
            size[i] = (kernel[i] - 1) * dilation[i] + (int)random_between(&dice, 1, 24);
        }
        (void)snprintf(script, sizeof script,
                       "x : %d,%d,%d,%d\nu = [%d,%d,1,1]\nf = [%d]\nw = [%d,1,%d,%d]\nc = [%d]\nlo = [] -1\n"
                       "hi = [] 100\nv = [20,%d,1,1]\np = Identity(x)\ne = Conv(p, u%s)\n%s\n"
                       "k = Conv(h, w%s) strides=%d,%d, dilations=%d,%d, pads=%d,%d,%d,%d, group=%d\n"
                       "r = Relu(k)\ny = Conv(r, v)\n-> y",
                       (int)random_between(&dice, 1, 2), in, size[0], size[1], c, in, c, c, kernel[0], kernel[1], c, c,
                       n % 4 == 0 ? "" : ", f", functions[n % 6], n % 4 == 1 ? "" : ", c", stride[0], stride[1],
                       dilation[0], dilation[1], pads[0], pads[1], pads[2], pads[3], c);
        expect(script);
    }
}

/* Whole inverted residual blocks; and convolutions that cannot be deferred, because of other readers, operands or
 * outputs. */
static void blocks(void **state)
{
    static const char *const scripts[] = {
        "x : 1,24,28,28\nz = [24,24,1,1]\na = [96,24,1,1]\nb = [96]\nw = [96,1,3,3]\nc = [96]\nv = [24,96,1,1]\n"
        "lo = [] 0\nhi = [] 6\nx0 = Conv(x, z)\ne = Conv(x0, a, b)\ne6 = Clip(e, lo, hi)\n"
        "k = Conv(e6, w, c) pads=1,1,1,1 group=96\nk6 = Clip(k, lo, hi)\np = Conv(k6, v)\ns = Add(p, x0)\n"
        "t = Conv(s, a, b)\nt6 = Clip(t, lo, hi)\nm = Conv(t6, w, c) strides=2,2, pads=1,1,1,1 group=96\n"
        "y = Conv(m, v)\n-> y",
        "x : N,16,H,W\na = [64,16,1,1]\nw = [64,1,5,5]\nv = [16,64,1,1]\nq = [64,64,1,1]\nx0 = Relu(x)\n"
        "e = Conv(x0, a)\nk = Conv(e, w) pads=2,2,2,2 group=64\ng = GlobalAveragePool(k)\nf = Conv(g, q)\n"
        "s = Sigmoid(f)\nm = Mul(k, s)\np = Conv(m, v)\ny = Add(p, x0)\n-> y",
        "x : 1,16,9,9\na = [32,16,1,1]\nw = [32,1,3,3]\ne = Conv(x, a)\nk = Conv(e, w) pads=1,1,1,1 group=32\n"
        "y = Add(k, e)\n-> y",
        "x : 1,16,9,9\na = [32,16,1,1]\nw = [32,1,3,3]\ne = Conv(x, a)\nk = Conv(e, w) pads=1,1,1,1 group=32\n"
        "-> k, e",
        "x : 1,32,9,9\na = [32,32,1,1]\nw = [32,1,3,3]\ne = Conv(x, a)\nr = Add(e, x)\n"
        "k = Conv(r, w) pads=1,1,1,1 group=32\n-> k",
        "x : 2,12,40\na = [32,12,1]\nw = [32,1,7]\nx0 = Relu(x)\ne = Conv(x0, a)\nr = Relu(e)\n"
        "k = Conv(r, w) pads=3,3 group=32\n-> k",
        "x : 1,8,5,2100\na = [16,8,1,1]\nw = [16,1,3,3]\nx0 = Relu(x)\ne = Conv(x0, a)\n"
        "k = Conv(e, w) pads=1,1,1,1 group=16\n-> k",
        "x : 1,20,12,9\na = [40,20,1,1]\nw = [40,1,3,3]\nv = [8,20,1,1]\nu = [20,20,1,1]\np = GlobalAveragePool(x)\n"
        "h = Conv(p, u)\ns = Sigmoid(h)\nm = Mul(x, s)\ne = Conv(m, a)\nk = Conv(e, w) pads=1,1,1,1 group=40\n-> k",
    };

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        expect(scripts[i]);
}

/* Convolutions of row-major images by kernel `rows`, with groups and without. */
static void rows(void **state)
{
    uint64_t dice = 11;

    (void)state;
    for (uint32_t n = 0; n < random_rounds(60); n++) {
        const int group = n % 3 == 0 ? (int)random_between(&dice, 2, 3) : 1,
                  in = (int)random_between(&dice, 2, n % 5 == 0 ? 70 : 9), out = (int)random_between(&dice, 1, 40);
        const int linear = n % 4 == 3;
        int kernel[2], stride[2], dilation[2], pads[4], size[2];
        char window[200], script[500];

        for (int i = 0; i < 2; i++) {
            kernel[i] = (int)random_between(&dice, 1, 5);
            stride[i] = (int)random_between(&dice, 1, 3);
            dilation[i] = (int)random_between(&dice, 1, 2);
            pads[i] = n % 4 == 0 ? 0 : (int)random_between(&dice, 0, kernel[i]);
            pads[2 + i] = n % 4 == 0 ? 0 : (int)random_between(&dice, 0, kernel[i]);
            size[i] = (kernel[i] - 1) * dilation[i] + (int)random_between(&dice, 1, n % 7 == 0 ? 150 : 30);
        }
        if (linear)
            (void)snprintf(window, sizeof window, "strides=%d, dilations=%d, pads=%d,%d group=%d", stride[0],
                           dilation[0], pads[0], pads[2], group);
        else
            (void)snprintf(window, sizeof window, "strides=%d,%d dilations=%d,%d pads=%d,%d,%d,%d group=%d", stride[0],
                           stride[1], dilation[0], dilation[1], pads[0], pads[1], pads[2], pads[3], group);
        if (linear)
            (void)snprintf(script, sizeof script, "x : %d,%d,%d\nw = [%d,%d,%d]\nc = [%d]\nk = Conv(x, w, c) %s\n%s",
                           (int)random_between(&dice, 1, 2), in * group, size[0], out * group, in, kernel[0],
                           out * group, window, n % 2 == 0 ? "-> k" : "y = Relu(k)\n-> y");
        else
            (void)snprintf(
                script, sizeof script, "x : %d,%d,%d,%d\nw = [%d,%d,%d,%d]\nc = [%d]\nk = Conv(x, w%s) %s\n%s",
                (int)random_between(&dice, 1, 2), in * group, size[0], size[1], out * group, in, kernel[0], kernel[1],
                out * group, n % 2 == 0 ? "" : ", c", window, n % 3 == 0 ? "y = Tanh(k)\n-> y" : "-> k");
        expect_by(script, "rows");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(windows),        cmocka_unit_test(many_taps),
                                        cmocka_unit_test(unusual_shapes), cmocka_unit_test(deferred_producers),
                                        cmocka_unit_test(blocks),         cmocka_unit_test(rows) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
