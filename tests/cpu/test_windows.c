/* Generated convolutions, transposed ones and pools of one to three dimensions, by the kernel that the model chooses
 * and by others: the results are those of the reference, and the same bits on one thread and two. */
#define COMPARE_TOLERANCE 4e-5f /* the reference, plain C, sums up to thousands of terms without fused multiply-add */
#include "compare.h"
#include "random.h"

static void expect(const char *script, const char *kernel)
{
    struct rig reference = compare_open(script, 19, "reference", "1", NULL), by[2];

    script_feed(&reference, 1);
    rig_run(&reference);
    for (int threads = 1; threads <= 2; threads++) {
        struct rig *rig = &by[threads - 1];
        struct wire wire = { 0 };

        script_model(&wire, 19, script);
        *rig =
            rig_open(&wire, (const char *const[]){ "providers", "cpu,reference", "policy", "priority", "intra_threads",
                                                   threads == 1 ? "1" : "2", "cpu.kernel", kernel, NULL });
        script_feed(rig, 1);
        rig_run(rig);
    }
    compare_outputs(&by[0], &reference, script);
    for (uint32_t i = 0; i < inlay_session_output_count(by[0].session); i++) {
        const inlay_value *one = inlay_context_output(by[0].context, i), *two = inlay_context_output(by[1].context, i);

        if (memcmp(inlay_value_data(one), inlay_value_data(two), (size_t)inlay_value_bytes(one)) != 0)
            fail_msg("output %u differs on two threads, by kernel %s, in\n%s", i, kernel, script);
    }
    rig_close(&by[0]);
    rig_close(&by[1]);
    rig_close(&reference);
}

/* Appends " name=a,b,.." to the text. */
static void append(char *text, size_t size, const char *name, const int *numbers, int count)
{
    for (int i = 0; i < count; i++) {
        const size_t used = strlen(text);

        (void)snprintf(text + used, size - used, i == 0 ? " %s=%d" : "%s%d", i == 0 ? name : ",", numbers[i]);
    }
    if (count == 1) /* a list, not a number */
        (void)snprintf(text + strlen(text), size - strlen(text), ",");
}

/* The sizes of an image, and the attributes of a window inside it. */
struct drawing {
    int spatial, size[3], kernel[3];
    char dims[64], kernels[64], attributes[256];
};

static void draw(uint64_t *dice, bool is_pool, struct drawing *out)
{
    static const int sides[] = { 1, 1, 2, 3, 3, 5, 7 };
    int stride[3], dilation[3], pads[6] = { 0 };
    const bool single = random_between(dice, 0, 2) == 0; /* pixels */
    const int padding = single ? 0 : (int)random_between(dice, 0, 3);

    *out = (struct drawing){ .spatial = (int[]){ 1, 2, 2, 2, 3 }[random_between(dice, 0, 4)] };
    for (int i = 0; i < out->spatial; i++) {
        const int most = out->spatial == 3 ? 9 : out->spatial == 1 ? 150 : 40;

        out->kernel[i] = single ? 1 : sides[random_between(dice, 0, out->spatial == 3 ? 4 : 6)];
        stride[i] = (int)random_between(dice, 1, 3);
        dilation[i] = is_pool || random_between(dice, 0, 3) > 0 ? 1 : 2;
        out->size[i] = (out->kernel[i] - 1) * dilation[i] + (int)random_between(dice, 1, most);
        for (int end = 0; end < 2 && padding == 1; end++)
            pads[i + end * out->spatial] = (int)random_between(dice, 0, out->kernel[i] - (is_pool ? 1 : 0));
    }
    for (int i = 0; i < out->spatial; i++) {
        const size_t dims = strlen(out->dims), kernels = strlen(out->kernels);

        (void)snprintf(out->dims + dims, sizeof out->dims - dims, ",%d", out->size[i]);
        (void)snprintf(out->kernels + kernels, sizeof out->kernels - kernels, ",%d", out->kernel[i]);
    }
    append(out->attributes, sizeof out->attributes, "strides", stride, out->spatial);
    if (!is_pool)
        append(out->attributes, sizeof out->attributes, "dilations", dilation, out->spatial);
    if (padding == 1)
        append(out->attributes, sizeof out->attributes, "pads", pads, 2 * out->spatial);
    if (padding > 1)
        (void)strcat(out->attributes, padding == 2 ? " auto_pad=SAME_UPPER" : " auto_pad=SAME_LOWER");
}

static void convolutions(void **state)
{
    static const char *const kernels[] = { "auto", "auto", "tiles", "rows", "gemm", "groups", "planes" };
    static const char *const endings[] = {
        "y = Relu(k)\n-> y",
        "y = Identity(k)\n-> y",
        "a = Sigmoid(k)\ny = Mul(a, k)\n-> y",
        "a = Relu(k)\ny = Add(a, k)\n-> y, k",
        "y = Clip(k, lo, hi)\n-> y",
    };
    uint64_t dice = 11;

    (void)state;
    for (uint32_t n = 0; n < random_rounds(240); n++) {
        const bool thin = n % 9 == 0; /* one channel in a group */
        const int images = (int)random_between(&dice, 1, 3), each = thin ? 1 : (int)random_between(&dice, 1, 20),
                  group = n % 3 > 0 ? 1 : (int)random_between(&dice, 2, thin ? 40 : 6),
                  filters = group * (n % 18 == 0 ? 1 : (int)random_between(&dice, 1, n % 5 == 0 ? 90 : 20)),
                  in = each * group;
        char script[1024], image[160];
        struct drawing drawn;

        draw(&dice, false, &drawn);
        /* row-major, or the result of another convolution */
        if (n % 4 == 3)
            (void)snprintf(image, sizeof image, "v : %d,7%s\nu = [%d,7%.*s]\nx = Conv(v, u)\n", images, drawn.dims, in,
                           2 * drawn.spatial, ",1,1,1");
        else
            (void)snprintf(image, sizeof image, "x : %d,%d%s\n", images, in, drawn.dims);
        (void)snprintf(script, sizeof script,
                       "%sw = [%d,%d%s]\nb = [%d]\nlo = [] -1\nhi = [] 100\nk = Conv(x, w%s)%s group=%d\n%s", image,
                       filters, each, drawn.kernels, filters, n % 2 == 0 ? ", b" : "", drawn.attributes, group,
                       endings[n % 5]);
        expect(script, kernels[n % 7]);
    }
}

static void transposed_convolutions(void **state)
{
    uint64_t dice = 13;

    (void)state;
    for (uint32_t n = 0; n < random_rounds(120); n++) {
        const int group = n % 2 == 0 ? 1 : (int)random_between(&dice, 2, 6);
        const int images = (int)random_between(&dice, 1, 2), each = n % 9 == 3 ? 1 : (int)random_between(&dice, 1, 12),
                  filters = n % 9 == 3 ? 1 : (int)random_between(&dice, 1, 12), in = each * group;
        char script[1024];
        struct drawing drawn;

        draw(&dice, true, &drawn);
        (void)snprintf(script, sizeof script,
                       "x : %d,%d%s\nw = [%d,%d%s]\nb = [%d]\nk = ConvTranspose(x, w%s)%s group=%d\ny = %s(k)\n-> y%s",
                       images, in, drawn.dims, in, filters, drawn.kernels, filters * group, n % 4 < 2 ? ", b" : "",
                       drawn.attributes, group, n % 3 == 0 ? "Relu" : "Sigmoid", n % 5 == 0 ? ", k" : "");
        expect(script, "auto");
    }
}

static void pools(void **state)
{
    uint64_t dice = 12;

    (void)state;
    for (uint32_t n = 0; n < random_rounds(200); n++) {
        const int images = (int)random_between(&dice, 1, 3), channels = (int)random_between(&dice, 1, 40);
        const bool is_mean = n % 2 == 0;
        char script[1024], image[160], shape[64] = "";
        struct drawing drawn;

        draw(&dice, true, &drawn);
        append(shape, sizeof shape, "kernel_shape", drawn.kernel, drawn.spatial);
        if (n % 3 == 2)
            (void)snprintf(image, sizeof image, "v : %d,7%s\nu = [%d,7%.*s]\nx = Conv(v, u)\n", images, drawn.dims,
                           channels, 2 * drawn.spatial, ",1,1,1");
        else
            (void)snprintf(image, sizeof image, "x : %d,%d%s\n", images, channels, drawn.dims);
        (void)snprintf(script, sizeof script, "%sk = %s(x)%s%s%s%s\ny = Neg(k)\n-> y, k", image,
                       is_mean ? "AveragePool" : "MaxPool", shape, drawn.attributes,
                       n % 5 == 1 && strstr(drawn.attributes, "auto_pad") == NULL ? " ceil_mode=1" : "",
                       is_mean && n % 4 == 0 ? " count_include_pad=1" : "");
        expect(script, "auto");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions),
        cmocka_unit_test(transposed_convolutions),
        cmocka_unit_test(pools),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
