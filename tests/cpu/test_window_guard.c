/* Winograd's convolutions on images that are hard for the transforms: each result is as near to the sum in double as
 * its own terms justify, independent of its neighbours, and is the same on any number of threads. */
#include "compare.h"
#include "text_buffer.h"
#include <float.h>

enum { IMAGES = 2, IN = 20, OUT = 24, HEIGHT = 14, WIDTH = 19, TAPS = 9 };
enum { PIXELS = HEIGHT * WIDTH, X_COUNT = IMAGES * IN * PIXELS, Y_COUNT = IMAGES * OUT * PIXELS };
enum { W_COUNT = OUT * IN * TAPS };

static float weights[W_COUNT], x[X_COUNT], residual[Y_COUNT];
static double sums[Y_COUNT], terms[Y_COUNT];

/* Outputs y and z: without and with an epilogue of all kinds of posts. */
static const char *make_script(void)
{
    static char text[W_COUNT * 16 + 512];
    uint64_t seed = 3;
    size_t at = (size_t)snprintf(text, sizeof text, "x : %d,%d,%d,%d\nr : %d,%d,%d,%d\nw = [%d,%d,3,3] ", IMAGES, IN,
                                 HEIGHT, WIDTH, IMAGES, OUT, HEIGHT, WIDTH, OUT, IN);

    for (int i = 0; i < W_COUNT; i++) {
        weights[i] = random_signed(&seed);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%.9g", i > 0 ? "," : "", (double)weights[i]);
    }
    at += (size_t)snprintf(text + at, sizeof text - at,
                           "\nc = [%d]\ny = Conv(x, w) pads=1,1,1,1\nk = Conv(x, w, c) pads=1,1,1,1\na = Add(k, r)\n"
                           "z = Relu(a)\ns = Sigmoid(k)\nu = Mul(k, s)\n-> y, z, u",
                           OUT);
    assert_true(at < sizeof text);
    return text;
}

static void sum_exactly(void)
{
    for (int n = 0; n < Y_COUNT; n++) {
        const int image = n / PIXELS / OUT, o = n / PIXELS % OUT, h = n % PIXELS / WIDTH, q = n % WIDTH;

        sums[n] = terms[n] = 0;
        for (int i = 0; i < IN; i++) {
            for (int t = 0; t < TAPS; t++) {
                const int row = h + t / 3 - 1, column = q + t % 3 - 1;
                double term;

                if (row < 0 || row >= HEIGHT || column < 0 || column >= WIDTH)
                    continue;
                term = (double)x[((image * IN + i) * HEIGHT + row) * WIDTH + column] *
                       (double)weights[(o * IN + i) * TAPS + t];
                sums[n] += term;
                terms[n] += fabs(term);
            }
        }
    }
}

static float *pixel_of(int image, int channel, int h, int q)
{
    return &x[((image * IN + channel) * HEIGHT + h) * WIDTH + q];
}

static void noise(void)
{
    uint64_t seed = 11;

    for (int i = 0; i < X_COUNT; i++)
        x[i] = random_signed(&seed);
}

static void bright_pixel(void)
{
    noise();
    for (int c = 0; c < IN; c++)
        *pixel_of(0, c, 6, 7) = 1e4F;
}

static void bright_channel_of_a_pixel(void)
{
    noise();
    *pixel_of(1, 3, 0, 0) = -1e6F;
    *pixel_of(1, 3, HEIGHT - 1, WIDTH - 1) = 3e7F;
}

static void step(void)
{
    uint64_t seed = 5;

    for (int i = 0; i < X_COUNT; i++)
        x[i] = random_signed(&seed) * (i % WIDTH < 9 ? 1e-4F : 1e4F);
}

static void unequal_channels(void)
{
    uint64_t seed = 7;

    for (int i = 0; i < X_COUNT; i++)
        x[i] = random_signed(&seed) * powf(10, (float)(i / PIXELS % IN) / 2 - 5);
}

static void steep(void)
{
    uint64_t seed = 9;

    for (int i = 0; i < X_COUNT; i++)
        x[i] = random_signed(&seed) * expf((float)(i % WIDTH + i / WIDTH % HEIGHT));
}

static void one_colour(void)
{
    for (int i = 0; i < X_COUNT; i++)
        x[i] = 1 + (float)(i / PIXELS % IN) / IN;
}

static void tiny(void)
{
    uint64_t seed = 13;

    for (int i = 0; i < X_COUNT; i++)
        x[i] = random_signed(&seed) * 1e-37F;
}

static void enormous(void)
{
    uint64_t seed = 15;

    for (int i = 0; i < X_COUNT; i++)
        x[i] = random_signed(&seed) * 1e36F;
}

static void mostly_zeros(void)
{
    uint64_t seed = 17;

    for (int i = 0; i < X_COUNT; i++) {
        x[i] = random_signed(&seed);
        x[i] = random_unit(&seed) < 0.98F ? 0 : x[i];
    }
}

static void no_numbers(void)
{
    noise();
    *pixel_of(0, 2, 3, 4) = NAN;
    *pixel_of(1, 0, 9, 9) = INFINITY;
    *pixel_of(1, 5, 0, 18) = -INFINITY;
}

static const struct {
    const char *name;
    void (*draw)(void);
} pictures[] = {
    { "noise", noise },
    { "a bright pixel", bright_pixel },
    { "a bright channel of one pixel", bright_channel_of_a_pixel },
    { "a step", step },
    { "channels of unequal size", unequal_channels },
    { "an exponential slope", steep },
    { "one colour", one_colour },
    { "tiny numbers", tiny },
    { "enormous numbers", enormous },
    { "zeros but for a few", mostly_zeros },
    { "NaN and infinities", no_numbers },
};

static struct rig open_with(const char *script, const char *kernel, const char *threads, const char *precision)
{
    struct wire wire = { 0 };

    script_model(&wire, 17, script);
    return rig_open(&wire, (const char *const[]){ "providers", "cpu,reference", "policy", "priority", "intra_threads",
                                                  threads, "cpu.kernel", kernel, "precision", precision, NULL });
}

static void feed(struct rig *rig)
{
    char shape[64];

    (void)snprintf(shape, sizeof shape, "%d,%d,%d,%d", IMAGES, IN, HEIGHT, WIDTH);
    rig_floats(rig, 0, shape, x);
    (void)snprintf(shape, sizeof shape, "%d,%d,%d,%d", IMAGES, OUT, HEIGHT, WIDTH);
    rig_floats(rig, 1, shape, residual);
}

static const float *result(const struct rig *rig, uint32_t output)
{
    return inlay_value_data(inlay_context_output(rig->context, output));
}

/* Checks each element: the bound is the rounding error of a sum of this many terms of this magnitude, or the underflow
 * of each of them. */
static void expect_close(const struct rig *rig, const char *kernel, const char *picture)
{
    const double share = 8 * FLT_EPSILON * sqrt(IN * TAPS), least = IN * TAPS * (double)FLT_TRUE_MIN;
    const float *output = result(rig, 0);

    for (int n = 0; n < Y_COUNT; n++) {
        if (!isfinite(sums[n])) {
            if (isnan(sums[n]) ? !isnan(output[n]) : (double)output[n] != sums[n])
                fail_msg("%s, %s: result %d is %g, not %g", kernel, picture, n, (double)output[n], sums[n]);
        } else if (!(fabs((double)output[n] - sums[n]) <= share * terms[n] + least)) {
            fail_msg("%s, %s: result %d is %.9g, not %.9g, %.1f times what its terms justify", kernel, picture, n,
                     (double)output[n], sums[n], fabs((double)output[n] - sums[n]) / (share * terms[n]));
        }
    }
}

static void expect_same(const struct rig *a, const struct rig *b, const char *kernel, const char *picture)
{
    for (uint32_t o = 0; o < 3; o++)
        if (memcmp(result(a, o), result(b, o), Y_COUNT * sizeof(float)) != 0)
            fail_msg("%s, %s: output %u has different bits on several threads", kernel, picture, o);
}

/* z and u are y with an epilogue. */
static void expect_ending(const struct rig *rig, const float *bias, const char *kernel, const char *picture)
{
    for (int n = 0; n < Y_COUNT; n++) {
        const double k = (double)result(rig, 0)[n] + (double)bias[n / PIXELS % OUT], a = k + (double)residual[n];
        const double relu = a > 0 || isnan(a) ? a : 0, size = fabs(k) + terms[n] + fabs((double)residual[n]) + 2;
        const double z = (double)result(rig, 1)[n], u = (double)result(rig, 2)[n], silu = k / (1 + exp(-k));

        if (isfinite(k) && !(fabs(z - relu) <= 2e-5 * size && fabs(u - silu) <= 2e-5 * size))
            fail_msg("%s, %s: result %d ends as %g and %g, not %g and %g", kernel, picture, n, z, u, relu, silu);
    }
}

static void guarded(void **unused)
{
    static const char *const kernels[] = { "winograd_4x4", "winograd_2x2", "auto", "tiles" };
    static const char *const threads[] = { "2", "3" };
    const char *script = make_script();
    float bias[OUT];
    uint64_t seed = 7;

    (void)unused;
    for (int o = 0; o < OUT; o++) /* as script_model generates it */
        bias[o] = 0.5F + random_unit(&seed);
    for (int i = 0; i < Y_COUNT; i++)
        residual[i] = random_signed(&seed);
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        struct rig alone = open_with(script, kernels[k], "1", "f32");

        for (size_t picture = 0; picture < sizeof pictures / sizeof *pictures; picture++) {
            pictures[picture].draw();
            sum_exactly();
            feed(&alone);
            rig_run(&alone);
            expect_close(&alone, kernels[k], pictures[picture].name);
            expect_ending(&alone, bias, kernels[k], pictures[picture].name);
            for (size_t thread = 0; thread < sizeof threads / sizeof *threads; thread++) {
                struct rig several = open_with(script, kernels[k], threads[thread], "f32");

                feed(&several);
                rig_run(&several);
                expect_same(&alone, &several, kernels[k], pictures[picture].name);
                rig_close(&several);
            }
        }
        rig_close(&alone);
    }
}

/* Without the guard some images exceed the bound, which shows that they are hard. */
static void unguarded(void **unused)
{
    const double share = 8 * FLT_EPSILON * sqrt(IN * TAPS);
    const char *script = make_script();
    struct rig rig = open_with(script, "winograd_4x4", "1", "fast");
    struct text_buffer told = { 0 };
    const inlay_explain_options how = { .struct_size = sizeof how, .format = "json", .flags = INLAY_EXPLAIN_KERNELS };
    inlay_diag diag = INLAY_DIAG_INIT;
    int off = 0;

    (void)unused;
    if (inlay_session_explain(rig.session, &how, text_buffer_append, &told, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    if (strstr(told.data, "\"winograd_4x4\"") != NULL) { /* the CPU has Winograd kernels */
        bright_pixel();
        sum_exactly();
        feed(&rig);
        rig_run(&rig);
        for (int n = 0; n < Y_COUNT; n++)
            off += fabs((double)result(&rig, 0)[n] - sums[n]) > 10 * share * terms[n];
        assert_true(off > 0);
    }
    text_buffer_free(&told);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(guarded), cmocka_unit_test(unguarded) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
