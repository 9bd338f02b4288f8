/* Convolutions by FFT, compared with sums in double: each result is as near as its own terms justify, also where pixels
 * differ in magnitude or are NaN or infinity, and is the same on any number of threads and in any batch. */
#include "compare.h"
#include "oracle.h"
#include "random.h"
#include "text_buffer.h"
#include <float.h>

enum { MOST_WEIGHTS = 40000, MOST = 1 << 19 };

/* A convolution, in one dimension (lines) or two. */
struct shape {
    bool lines, biased, relu;
    int images, group, in, out; /* in, out: of a group */
    int height, width, kernel[2], begin[2], end[2];
};

static float weights[MOST_WEIGHTS], x[MOST], bias[64];
static double sums[MOST], terms[MOST];
static char script[MOST_WEIGHTS * 16 + 2048];

static int out_size(const struct shape *s, int axis)
{
    return (axis == 0 ? s->height : s->width) + s->begin[axis] + s->end[axis] - s->kernel[axis] + 1;
}

static int x_count(const struct shape *s, int images)
{
    return images * s->group * s->in * s->height * s->width;
}

static int y_count(const struct shape *s, int images)
{
    return images * s->group * s->out * out_size(s, 0) * out_size(s, 1);
}

static int taps_of(const struct shape *s)
{
    return s->in * s->kernel[0] * s->kernel[1];
}

static size_t write_numbers(size_t at, const float *numbers, int count)
{
    for (int i = 0; i < count; i++)
        at += (size_t)snprintf(script + at, sizeof script - at, "%s%.9g", i > 0 ? "," : "", (double)numbers[i]);
    return at;
}

static void write_script(const struct shape *s, int images)
{
    const int outs = s->group * s->out;
    char height[32] = "", kernel[32] = "", pads[64];
    size_t at;

    if (s->lines)
        (void)snprintf(pads, sizeof pads, "%d,%d", s->begin[1], s->end[1]);
    else {
        (void)snprintf(height, sizeof height, "%d,", s->height);
        (void)snprintf(kernel, sizeof kernel, "%d,", s->kernel[0]);
        (void)snprintf(pads, sizeof pads, "%d,%d,%d,%d", s->begin[0], s->begin[1], s->end[0], s->end[1]);
    }
    at = (size_t)snprintf(script, sizeof script, "x : %d,%d,%s%d\nw = [%d,%d,%s%d] ", images, s->group * s->in, height,
                          s->width, outs, s->in, kernel, s->kernel[1]);
    at = write_numbers(at, weights, outs * taps_of(s));
    if (s->biased) {
        at += (size_t)snprintf(script + at, sizeof script - at, "\nc = [%d] ", outs);
        at = write_numbers(at, bias, outs);
    }
    at += (size_t)snprintf(script + at, sizeof script - at, "\n%s = Conv(x, w%s) pads=%s group=%d\n%s-> y",
                           s->relu ? "k" : "y", s->biased ? ", c" : "", pads, s->group, s->relu ? "y = Relu(k)\n" : "");
    assert_true(at < sizeof script);
}

/* sums and terms of output n, without the Relu. */
ORACLE static void sum_one(const struct shape *s, int n)
{
    const int height = out_size(s, 0), width = out_size(s, 1), column = n % width, row = n / width % height,
              output = n / width / height % (s->group * s->out), image = n / width / height / (s->group * s->out);

    sums[n] = s->biased ? (double)bias[output] : 0;
    terms[n] = fabs(sums[n]);
    for (int c = 0; c < s->in; c++)
        for (int i = 0; i < s->kernel[0]; i++) {
            const int h = row + i - s->begin[0], left = column - s->begin[1];
            const int first =
                ((image * s->group * s->in + output / s->out * s->in + c) * s->height + h) * s->width + left;
            const float *taps = weights + ((output * s->in + c) * s->kernel[0] + i) * s->kernel[1];

            for (int j = left < 0 ? -left : 0; h >= 0 && h < s->height && j < s->kernel[1] && left + j < s->width;
                 j++) {
                const double term = (double)x[first + j] * (double)taps[j];

                sums[n] += term;
                terms[n] += fabs(term);
            }
        }
}

static struct rig open_with(const char *kernel, const char *threads, const char *precision)
{
    struct wire wire = { 0 };

    script_model(&wire, 17, script);
    return rig_open(&wire, (const char *const[]){ "providers", "cpu,reference", "policy", "priority", "intra_threads",
                                                  threads, "cpu.kernel", kernel, "precision", precision, NULL });
}

static void feed(const struct shape *s, struct rig *rig, int first, int images)
{
    char text[64];

    if (s->lines)
        (void)snprintf(text, sizeof text, "%d,%d,%d", images, s->group * s->in, s->width);
    else
        (void)snprintf(text, sizeof text, "%d,%d,%d,%d", images, s->group * s->in, s->height, s->width);
    rig_floats(rig, 0, text, x + x_count(s, first));
    rig_run(rig);
}

static const float *result(const struct rig *rig)
{
    return inlay_value_data(inlay_context_output(rig->context, 0));
}

static bool told(const struct rig *rig, const char *what)
{
    const inlay_explain_options how = { .struct_size = sizeof how, .format = "json", .flags = INLAY_EXPLAIN_KERNELS };
    struct text_buffer text = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    bool found;

    if (inlay_session_explain(rig->session, &how, text_buffer_append, &text, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    found = strstr(text.data, what) != NULL;
    text_buffer_free(&text);
    return found;
}

static const char by_fft[] = "\"kernel\": {\"name\": \"fft\"";

/* The bound is the rounding error of a sum of this many terms of this magnitude, or the underflow of each of them. */
static void expect_close(const struct shape *s, const struct rig *rig, const char *what)
{
    const double share = 8 * FLT_EPSILON * sqrt(taps_of(s)), least = taps_of(s) * (double)FLT_TRUE_MIN;
    const float *output = result(rig);

    for (int n = 0; n < y_count(s, s->images); n++) {
        const double want = s->relu && sums[n] < 0 ? 0 : sums[n];

        if (!isfinite(want)) {
            if (isnan(want) ? !isnan(output[n]) : (double)output[n] != want)
                fail_msg("%s: result %d is %g, not %g", what, n, (double)output[n], want);
        } else if (!(fabs((double)output[n] - want) <= share * terms[n] + least)) {
            fail_msg("%s: result %d is %.9g, not %.9g, %.1f times what its terms justify", what, n, (double)output[n],
                     want, fabs((double)output[n] - want) / (share * terms[n]));
        }
    }
}

static void describe(const struct shape *s, char *text, size_t size)
{
    (void)snprintf(text, size, "%d images, %d groups of %d to %d, %dx%d, kernel %dx%d, pads %d,%d,%d,%d", s->images,
                   s->group, s->in, s->out, s->height, s->width, s->kernel[0], s->kernel[1], s->begin[0], s->begin[1],
                   s->end[0], s->end[1]);
}

static void check(const struct shape *s)
{
    static const char *const threads[] = { "2", "3", "4" };
    const int outs = y_count(s, s->images);
    char text[200];
    struct rig one, lone;

    describe(s, text, sizeof text);
    for (int n = 0; n < outs; n++)
        sum_one(s, n);
    write_script(s, s->images);
    one = open_with("fft", "1", "f32");
    if (!told(&one, by_fft))
        fail_msg("%s: not by FFT", text);
    feed(s, &one, 0, s->images);
    expect_close(s, &one, text);
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        struct rig several = open_with("fft", threads[t], "f32");

        feed(s, &several, 0, s->images);
        for (int n = 0; n < outs; n++)
            if (memcmp(result(&one) + n, result(&several) + n, sizeof(float)) != 0)
                fail_msg("%s: on %s threads result %d is %.9g, not %.9g", text, threads[t], n,
                         (double)result(&several)[n], (double)result(&one)[n]);
        rig_close(&several);
    }
    write_script(s, 1);
    lone = open_with("fft", "2", "f32");
    feed(s, &lone, s->images - 1, 1);
    if (memcmp(result(&one) + y_count(s, s->images - 1), result(&lone), (size_t)y_count(s, 1) * sizeof(float)) != 0)
        fail_msg("%s: different bits in a batch", text);
    rig_close(&lone);
    rig_close(&one);
}

static void fill(float *to, int count, uint64_t *dice)
{
    for (int i = 0; i < count; i++)
        to[i] = random_signed(dice);
}

/* Pads of at most half the kernel, on both sides of an axis. */
static void choose_axis(struct shape *s, int axis, int kernel, int size, uint64_t *dice)
{
    s->kernel[axis] = kernel;
    s->begin[axis] = (int)random_between(dice, 0, kernel / 2);
    s->end[axis] = (int)random_between(dice, 0, kernel / 2);
    *(axis == 0 ? &s->height : &s->width) = size > kernel ? size : kernel;
}

static struct shape choose(uint64_t *dice, uint32_t n)
{
    /* results of a block: 16 - kernel + 1, 32 - kernel + 1 ...: sizes around these */
    struct shape s = { .lines = n % 3 == 2, .biased = n % 2 == 0, .relu = n % 4 < 2 };
    const bool dense = n % 2 == 1;

    s.images = (int)random_between(dice, 1, 2);
    s.group = dense ? (int)random_between(dice, 1, 2) : (int)random_between(dice, 1, 6);
    s.in = dense ? (int)random_between(dice, 2, 7) : 1;
    s.out = (int)random_between(dice, 1, dense ? 4 : 2);
    if (s.lines) {
        s.height = s.kernel[0] = 1;
        choose_axis(&s, 1, (int)random_between(dice, 64, dense ? 300 : 1200), (int)random_between(dice, 100, 2500),
                    dice);
    } else {
        for (int axis = 0; axis < 2; axis++) {
            const int kernel = (int)random_between(dice, n % 5 == 0 ? 3 : 9, dense ? 19 : 35);

            choose_axis(&s, axis, n % 5 == 0 && axis == 1 ? 23 : kernel,
                        (int)random_between(dice, 0, 3) * (33 - kernel % 32) + (int)random_between(dice, 20, 40), dice);
        }
    }
    return s;
}

static void random_shapes(void **state)
{
    uint64_t dice = 5;
    uint32_t done = 0;

    (void)state;
    for (uint32_t n = 0; done < random_rounds(36); n++) {
        const struct shape s = choose(&dice, n);
        const int count = s.group * s.out * taps_of(&s);

        if (count > MOST_WEIGHTS || x_count(&s, s.images) > MOST || y_count(&s, s.images) > MOST ||
            (double)y_count(&s, s.images) * taps_of(&s) > 6e7)
            continue;
        fill(weights, count, &dice);
        fill(bias, s.group * s.out, &dice);
        fill(x, x_count(&s, s.images), &dice);
        check(&s);
        done++;
    }
}

static void set_one(const struct shape *s, int image, int channel, int row, int column, float value)
{
    x[((image * s->group * s->in + channel) * s->height + row) * s->width + column] = value;
}

typedef enum picture {
    NOISE,
    BRIGHT_PIXELS,
    STEP,
    ONE_COLOUR,
    TINY,
    ENORMOUS,
    FEW_PIXELS,
    NO_NUMBERS,
    ZEROS,
    SLOPE,
    DARK_HALF,
    SILENT_CHANNEL,
    PICTURES
} picture_kind;

static void draw(const struct shape *s, picture_kind picture)
{
    const int count = x_count(s, s->images), channels = s->group * s->in;
    uint64_t dice = 7;

    fill(x, count, &dice);
    for (int i = 0; i < count; i++) {
        const int column = i % s->width, channel = i / s->width / s->height % channels;

        x[i] *= picture == STEP         ? column < s->width / 3 ? 1e-5F : 1e5F
                : picture == TINY       ? 1e-37F
                : picture == ENORMOUS   ? 1e35F
                : picture == FEW_PIXELS ? (float)(random_unit(&dice) > 0.998F)
                : picture == SLOPE      ? expf((float)(column % 200) / 8)
                                        : 1;
        x[i] = picture == ONE_COLOUR                                  ? 1 + (float)channel
               : picture == ZEROS                                     ? 0
               : picture == DARK_HALF && column > s->width / 2        ? 0
               : picture == SILENT_CHANNEL && channel == channels - 1 ? 0
                                                                      : x[i];
    }
    if (picture == BRIGHT_PIXELS) {
        set_one(s, 0, 0, s->height / 2, 3, 1e6F);
        set_one(s, s->images - 1, channels - 1, 0, s->width - 1, -1e8F);
    }
    if (picture == NO_NUMBERS) {
        set_one(s, 0, 0, s->height / 2, 3, NAN);
        set_one(s, s->images - 1, channels - 1, 0, s->width - 1, -INFINITY);
    }
}

static void hard_images(void **state)
{
    static const struct shape shapes[] = {
        { .images = 2,
          .group = 2,
          .in = 1,
          .out = 1,
          .height = 40,
          .width = 150,
          .kernel = { 15, 21 },
          .begin = { 7, 10 },
          .end = { 7, 10 } },
        { .images = 2,
          .group = 1,
          .in = 5,
          .out = 3,
          .height = 30,
          .width = 90,
          .kernel = { 9, 11 },
          .begin = { 4, 5 },
          .end = { 4, 5 },
          .biased = true,
          .relu = true },
        { .lines = true,
          .images = 2,
          .group = 3,
          .in = 1,
          .out = 1,
          .height = 1,
          .width = 3000,
          .kernel = { 1, 300 },
          .begin = { 0, 150 },
          .end = { 0, 149 } },
    };
    uint64_t dice = 11;

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        fill(weights, shapes[i].group * shapes[i].out * taps_of(&shapes[i]), &dice);
        fill(bias, shapes[i].group * shapes[i].out, &dice);
        for (picture_kind picture = NOISE; picture < PICTURES; picture++) {
            draw(&shapes[i], picture);
            check(&shapes[i]);
        }
    }
}

/* With precision fast only infinite pixels are summed directly: noise gives the same bits, so its results are not
 * direct sums with f32 either, and bright pixels exceed the bound, which shows that they are hard. */
static void unguarded(void **state)
{
    const struct shape s = { .images = 2,
                             .group = 2,
                             .in = 1,
                             .out = 1,
                             .height = 40,
                             .width = 150,
                             .kernel = { 15, 21 },
                             .begin = { 7, 10 },
                             .end = { 7, 10 } };
    const double share = 8 * FLT_EPSILON * sqrt(taps_of(&s));
    const int count = y_count(&s, s.images);
    struct rig fast, bounded;
    uint64_t dice = 11;
    int off = 0;

    (void)state;
    fill(weights, s.group * taps_of(&s), &dice);
    write_script(&s, s.images);
    fast = open_with("fft", "1", "fast");
    bounded = open_with("fft", "1", "f32");
    draw(&s, NOISE);
    feed(&s, &fast, 0, s.images);
    feed(&s, &bounded, 0, s.images);
    assert_memory_equal(result(&fast), result(&bounded), (size_t)count * sizeof(float));
    draw(&s, BRIGHT_PIXELS);
    for (int n = 0; n < count; n++)
        sum_one(&s, n);
    feed(&s, &fast, 0, s.images);
    for (int n = 0; n < count; n++)
        off += fabs((double)result(&fast)[n] - sums[n]) > 10 * share * terms[n];
    assert_true(off > 0);
    rig_close(&bounded);
    rig_close(&fast);
}

static void expect_not(const char *why, const char *precision)
{
    struct rig rig = open_with("fft", "1", precision);

    if (told(&rig, by_fft) || (why != NULL && !told(&rig, why)))
        fail_msg("the layer runs by FFT, or explain does not name the reason: %s", why != NULL ? why : "any");
    rig_close(&rig);
}

static void excluded(void **state)
{
    struct shape s = { .images = 1,
                       .group = 1,
                       .in = 1,
                       .out = 1,
                       .height = 60,
                       .width = 60,
                       .kernel = { 15, 15 },
                       .begin = { 7, 7 },
                       .end = { 7, 7 } };
    uint64_t dice = 13;

    (void)state;
    fill(weights, taps_of(&s), &dice);
    write_script(&s, 1);
    expect_not("precision strict excludes convolution by FFT", "strict");
    for (int i = 0; i < taps_of(&s); i++)
        weights[i] = (float)(i % 5);
    write_script(&s, 1);
    expect_not("weights are integers", "f32");
    for (int i = 0; i < taps_of(&s); i++)
        weights[i] = i == 100 ? 0.75F : 1e-6F;
    write_script(&s, 1);
    expect_not("some filters have few significant weights", "f32");
    fill(weights, taps_of(&s), &dice);
    for (int i = 0; i < taps_of(&s); i++)
        weights[i] *= 1e30F;
    write_script(&s, 1);
    expect_not("weights are too large or too small", "f32");
    fill(weights, taps_of(&s), &dice);
    s.begin[1] = s.end[1] = 14; /* results of a few terms */
    write_script(&s, 1);
    expect_not(NULL, "f32");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_shapes), cmocka_unit_test(hard_images),
                                        cmocka_unit_test(unguarded), cmocka_unit_test(excluded) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
