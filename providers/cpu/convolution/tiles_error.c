/* Measures the error of Winograd's algorithm for given weights, compared with the direct sum.
 *
 * The transforms add and subtract pixels, and weights, before they multiply: terms that cancel in a direct sum have
 * been rounded by then. The size of this error depends on the weights. So a few test images run through the real
 * kernels for a sample of the output channels, and are compared with sums in double; so is a direct sum in float. The
 * test images are noise, and the worst cases of Winograd's algorithm: one colour, an edge, channels of unequal size,
 * one bright pixel.
 *
 * A bright pixel costs digits in all results of its window, also in results that do not depend on the pixel. So each
 * run compares the largest pixel of a window with the pixels around each result (tiles_winograd.c). The measurement
 * determines how large that ratio may become before the error of a result exceeds what its own terms justify. If a
 * result has only a few terms, they may be those with the small weights: the guard must reject that, too. */
#include "cpu/convolution/sum_loops.h"
#include "cpu/convolution/tiles.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "simd/optional.h"
#include <float.h>
#include <math.h>

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(winograd_measure_accuracy, "cpu_conv");

/* The test images. RELU: noise without negative values; BRIGHT: one bright pixel; LONE and INNER: a pixel that is
 * bright in one channel only, in the corner and inside. */
enum { NOISE, RELU, EVEN, EDGE, UNEQUAL, BRIGHT, LONE, INNER, KINDS };
enum {
    SAMPLE = TILE_LANES,
    TAPS = 9,
    CHUNK = SGEMM_CHAIN,
    CHECKED = 4, /* results of a window that are compared */
    THREADS_BYTES = 1 << 20
};
static const float BRIGHT_PIXEL = 1e4F;
/* Rounding error that the terms of a result justify, in units of sqrt(terms): that of a float sum, with tolerance for
 * sums in another order. */
static const double OWN_ROUNDING = 8 * (FLT_EPSILON / 2.0);
/* The ratio that the guard allows must be at least MIN_MARGIN times that of ordinary images, and is at most
 * MAX_UNEVEN. */
static const double MIN_MARGIN = 2, MAX_UNEVEN = 1e3;
/* Bounds of the largest weight: beyond these, transforms might overflow, or lose small terms. */
static const float MIN_WEIGHT = 1e-18F, MAX_WEIGHT = 1e18F;

struct sample {
    const tile_set *set;
    const char *source; /* [out][in][3][3], at any address */
    int64_t in, out, points;
    int64_t picked[SAMPLE]; /* output channels */
    int64_t v_line;         /* floats of a window in v: the channels of a chunk */
    sum_channel *channels;  /* [out] */
    float *magnitudes;      /* [in][TAPS] largest magnitudes */
    float *weights;         /* [TAPS][in][SAMPLE] */
    float *input;           /* [KINDS][points^2][in] */
    float *u, *v, *m;       /* transformed weights, inputs and products of a chunk of input channels */
    float y[KINDS][(TILE_ALPHA - 2) * (TILE_ALPHA - 2)][SAMPLE];
};

static inlay_status measure_outputs(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct sample *sample = user;
    int64_t count = sample->in * TAPS;

    (void)worker;
    for (int64_t output = begin; output < end; output++)
        KERNEL_BEST(sum_loops)->measure_channel(sample->source + output * count * (int64_t)sizeof(float), count,
                                                &sample->channels[output]);
    return INLAY_OK;
}

static inlay_status measure_inputs(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct sample *sample = user;

    (void)worker;
    memset(sample->magnitudes + begin * TAPS, 0, (size_t)((end - begin) * TAPS) * sizeof *sample->magnitudes);
    for (int64_t output = 0; output < sample->out; output++)
        KERNEL_BEST(sum_loops)->max_magnitudes(sample->source +
                                                   (output * sample->in + begin) * TAPS * (int64_t)sizeof(float),
                                               (end - begin) * TAPS, sample->magnitudes + begin * TAPS);
    return INLAY_OK;
}

static void run_parallel(const struct sample *sample, const cpu_state *state, int64_t total, int64_t grain,
                         inlay_parallel_fn body)
{
    const bool many = sample->in * sample->out * TAPS * (int64_t)sizeof(float) > THREADS_BYTES;

    if (!many ||
        state->host->parallel_for(state->host->ctx, NULL, total, grain, body, (void *)(uintptr_t)sample) != INLAY_OK)
        (void)body((void *)(uintptr_t)sample, 0, total, 0);
}

static uint32_t classify_weights(const struct sample *sample)
{
    enum { INFINITE = 0x7f800000 };
    bool whole = true;

    for (int64_t o = 0; o < sample->out; o++) {
        if (sample->channels[o].largest >= INFINITE)
            return TILE_NO_NUMBERS;
        whole = whole && sample->channels[o].whole;
    }
    return whole ? TILE_INTEGERS : TILE_MEASURED;
}

/* Sets the weight of each input channel in the guard: its largest weight relative to the largest of all channels.
 * Channels without weights are included, because their pixels must not overflow either. */
static uint32_t weigh_inputs(const struct sample *sample, winograd_accuracy *accuracy)
{
    float top = 0;

    for (int64_t channel = 0; channel < sample->in; channel++) {
        accuracy->weight[channel] = 0;
        for (int64_t tap = 0; tap < TAPS; tap++)
            accuracy->weight[channel] = fmaxf(accuracy->weight[channel], sample->magnitudes[channel * TAPS + tap]);
        top = fmaxf(top, accuracy->weight[channel]);
    }
    if (!(top >= MIN_WEIGHT && top <= MAX_WEIGHT))
        return TILE_EXTREME;
    for (int64_t channel = 0; channel < sample->in; channel++)
        accuracy->weight[channel] = fmaxf(accuracy->weight[channel] / top, 1e-6F);
    accuracy->top = top;
    return TILE_MEASURED;
}

/* Picks a third each: channels of the largest weights, channels with the fewest significant weights, evenly spread
 * ones. Channels of zeros are not useful. */
static void pick_outputs(struct sample *sample)
{
    for (int64_t i = 0; i < SAMPLE; i++) {
        int64_t at = i * sample->out / SAMPLE;

        for (int64_t output = 0; output < sample->out; output++) {
            const sum_channel *channel = &sample->channels[output], *best = &sample->channels[at];

            if (i < SAMPLE / 3 ? channel->largest > best->largest
                               : i < 2 * (SAMPLE / 3) && channel->spread < best->spread)
                at = output;
        }
        sample->picked[i] = at;
        if (i < 2 * (SAMPLE / 3))
            sample->channels[at] = (sum_channel){ .spread = FLT_MAX };
    }
}

static void gather_weights(const struct sample *sample)
{
    for (int64_t output = 0; output < SAMPLE; output++) {
        const char *from = sample->source + sample->picked[output] * sample->in * TAPS * (int64_t)sizeof(float);

        for (int64_t channel = 0; channel < sample->in; channel++) {
            float window[TAPS];

            memcpy(window, from + channel * (int64_t)sizeof window, sizeof window);
            for (int64_t tap = 0; tap < TAPS; tap++)
                sample->weights[(tap * sample->in + channel) * SAMPLE + output] = window[tap];
        }
    }
}

/* The input channel of the largest weight in a filter with few significant weights. */
static int64_t lone_channel(const struct sample *sample)
{
    const int64_t output = SAMPLE / 3;
    int64_t at = 0;
    float top = -1;

    for (int64_t i = 0; i < TAPS * sample->in; i++) {
        const float magnitude = fabsf(sample->weights[i * SAMPLE + output]);

        at = magnitude > top ? i % sample->in : at;
        top = magnitude > top ? magnitude : top;
    }
    return at;
}

static void make_inputs(const struct sample *sample)
{
    const int64_t pixels = sample->points * sample->points, count = pixels * sample->in, lone = lone_channel(sample);

    KERNEL_BEST(sum_loops)->make_noise(sample->input, KINDS * count);
    for (int64_t i = 0; i < count; i++) {
        const int64_t column = i / sample->in % sample->points;
        float *at = sample->input + i;

        at[RELU * count] = fmaxf(at[RELU * count], 0);
        at[EVEN * count] = 1 + at[EVEN * count] / 1024;
        at[EDGE * count] = (1 + at[EDGE * count] / 8) / (2 * column >= sample->points ? 32 : 1);
        at[UNEQUAL * count] *= powf(10, 1.5F * sample->input[NOISE * count + i % sample->in]);
    }
    for (int64_t channel = 0; channel < sample->in; channel++)
        sample->input[BRIGHT * count + channel] = BRIGHT_PIXEL;
    sample->input[LONE * count + lone] = BRIGHT_PIXEL;
    sample->input[INNER * count + (2 * sample->points + sample->points / 2) * sample->in + lone] = BRIGHT_PIXEL;
}

static void add_chunk(const struct sample *sample, int64_t first, int64_t count)
{
    static const int64_t tap = 0;
    const int64_t squared = sample->points * sample->points;

    for (int64_t i = 0; i < count; i++)
        sample->set->window_weights((const char *)(sample->weights + (first + i) * SAMPLE), 1, sample->in * SAMPLE,
                                    SAMPLE, sample->points, sample->u + i * TILE_WIDTH, count * TILE_WIDTH);
    for (int64_t kind = 0; kind < KINDS; kind++) {
        const float *pixels[TILE_ALPHA * TILE_ALPHA];

        for (int64_t pixel = 0; pixel < squared; pixel++)
            pixels[pixel] = sample->input + (kind * squared + pixel) * sample->in + first;
        sample->set->window_in(pixels, count, sample->points, sample->v + kind * sample->v_line,
                               KINDS * sample->v_line);
    }
    for (int64_t point = 0; point < squared; point++) {
        float *m = sample->m + point * KINDS * TILE_LANES;
        const tile_product product = { .a = sample->v + point * KINDS * sample->v_line,
                                       .a_row = sample->v_line,
                                       .taps = &tap,
                                       .tap_count = 1,
                                       .depth = count,
                                       .b = sample->u + point * count * TILE_WIDTH,
                                       .add = first > 0 ? m : NULL,
                                       .add_row = TILE_LANES,
                                       .c = m,
                                       .c_row = TILE_LANES,
                                       .columns = SAMPLE };

        sample->set->multiply(&product, KINDS);
    }
}

static void run_kernels(struct sample *sample)
{
    const int64_t size = sample->points - 2;

    for (int64_t first = 0; first < sample->in; first += CHUNK)
        add_chunk(sample, first, sample->in - first < CHUNK ? sample->in - first : CHUNK);
    for (int64_t kind = 0; kind < KINDS; kind++) {
        const tile_window back = { .m = sample->m + kind * TILE_LANES,
                                   .step = KINDS * TILE_LANES,
                                   .points = sample->points,
                                   .channels = SAMPLE,
                                   .output = sample->y[kind][0],
                                   .y_row = size * SAMPLE,
                                   .y_pixel = SAMPLE,
                                   .rows = size,
                                   .columns = size };

        sample->set->window_out(&back);
    }
}

/* The result of one test image. */
typedef struct test_image {
    double error, plain_error, largest;       /* of its results */
    double excess;                            /* the largest error in units of the error that the terms justify */
    double uneven;                            /* ratio of its largest pixel to the smallest sum around a result */
    bool few[TILE_ALPHA - 2][TILE_ALPHA - 2]; /* results with too few terms for the guard */
} test_image;

static void compare(const struct sample *sample, int64_t kind, int64_t row, int64_t column, test_image *out)
{
    const double justified = OWN_ROUNDING * sqrt((double)(TAPS * sample->in));
    const float *input =
        sample->input + (kind * sample->points * sample->points + row * sample->points + column) * sample->in;
    const float *results = sample->y[kind][row * (sample->points - 2) + column];
    sum_terms want = { .plain = { 0 } };

    for (int64_t tap = 0; tap < TAPS; tap++)
        KERNEL_BEST(sum_loops)->add_terms(input + (tap / 3 * sample->points + tap % 3) * sample->in,
                                          sample->weights + tap * sample->in * SAMPLE, sample->in, &want);
    for (int64_t channel = 0; channel < SAMPLE; channel++) {
        const double error = fabs((double)results[channel] - want.exact[channel]),
                     plain = fabs((double)want.plain[channel] - want.exact[channel]);

        out->error = error > out->error || !isfinite(error) ? error : out->error;
        out->plain_error = fmax(plain, out->plain_error);
        out->largest = fmax(fabs(want.exact[channel]), out->largest);
        if (error > 0 && !out->few[row][column])
            out->excess = fmax(error / (justified * want.magnitudes[channel]), out->excess);
    }
}

/* Applies the guard of a run to one test image. */
static void guard(const struct sample *sample, int64_t kind, const winograd_accuracy *accuracy, test_image *out)
{
    const float *input = sample->input + kind * sample->points * sample->points * sample->in;
    double pixels[TILE_ALPHA * TILE_ALPHA], squares[TILE_ALPHA * TILE_ALPHA], largest = 0, smallest = INFINITY;

    for (int64_t pixel = 0; pixel < sample->points * sample->points; pixel++) {
        pixels[pixel] = squares[pixel] = 0;
        for (int64_t channel = 0; channel < sample->in; channel++) {
            const double weighed = (double)(accuracy->weight[channel] * fabsf(input[pixel * sample->in + channel]));

            pixels[pixel] += weighed;
            squares[pixel] += weighed * weighed;
        }
        largest = fmax(largest, pixels[pixel]);
    }
    for (int64_t row = 0; row < sample->points - 2; row++) {
        for (int64_t column = 0; column < sample->points - 2; column++) {
            double sum = 0, square = 0;

            for (int64_t tap = 0; tap < TAPS; tap++) {
                sum += pixels[(row + tap / 3) * sample->points + column + tap % 3];
                square += squares[(row + tap / 3) * sample->points + column + tap % 3];
            }
            smallest = fmin(smallest, sum);
            out->few[row][column] = sum * sum < TILE_LEAST_TERMS * square;
        }
    }
    out->uneven = largest / smallest;
}

static test_image evaluate_image(const struct sample *sample, int64_t kind, const winograd_accuracy *accuracy)
{
    static const uint8_t large[CHECKED][2] = { { 0, 0 }, { 1, 2 }, { 2, 1 }, { 3, 3 } };
    static const uint8_t small[CHECKED][2] = { { 0, 0 }, { 0, 1 }, { 1, 0 }, { 1, 1 } };
    test_image image = { .error = 0 };

    guard(sample, kind, accuracy, &image);
    for (int i = 0; i < CHECKED; i++)
        compare(sample, kind, (sample->points == 6 ? large : small)[i][0], (sample->points == 6 ? large : small)[i][1],
                &image);
    return image;
}

static void evaluate(const struct sample *sample, winograd_accuracy *accuracy)
{
    double ordinary = 0;

    accuracy->error = accuracy->times_plain = 0;
    accuracy->uneven = MAX_UNEVEN;
    for (int64_t kind = 0; kind < KINDS; kind++) {
        const test_image image = evaluate_image(sample, kind, accuracy);
        const double error = image.error > 0 ? image.error / image.largest : image.error;

        if (!(error <= DBL_MAX)) {
            accuracy->verdict = TILE_EXTREME;
            return;
        }
        accuracy->error = fmax(error, accuracy->error);
        if (image.error > 0)
            accuracy->times_plain = fmax(image.error / image.plain_error, accuracy->times_plain);
        if (image.excess > 0)
            accuracy->uneven = fmin(image.uneven / (MIN_MARGIN * image.excess), accuracy->uneven);
        ordinary = kind <= EVEN ? fmax(image.uneven, ordinary) : ordinary;
    }
    if (accuracy->uneven < MIN_MARGIN * ordinary)
        accuracy->uneven = 0;
}

static bool reserve(struct sample *sample)
{
    const size_t squared = (size_t)(sample->points * sample->points), in = (size_t)sample->in;
    const size_t chunk = in < CHUNK ? in : CHUNK;

    sample->v_line = (int64_t)(chunk + TILE_LANES - 1) / TILE_LANES * TILE_LANES;
    sample->channels = malloc((size_t)sample->out * sizeof *sample->channels);
    sample->magnitudes = malloc(in * TAPS * sizeof *sample->magnitudes);
    sample->weights = malloc(SAMPLE * TAPS * in * sizeof *sample->weights);
    sample->input = malloc(KINDS * squared * in * sizeof *sample->input);
    sample->u = malloc(squared * chunk * TILE_WIDTH * sizeof *sample->u);
    sample->v = malloc(squared * KINDS * (size_t)sample->v_line * sizeof *sample->v);
    sample->m = malloc(squared * KINDS * TILE_LANES * sizeof *sample->m);
    return sample->channels != NULL && sample->magnitudes != NULL && sample->weights != NULL && sample->input != NULL &&
           sample->u != NULL && sample->v != NULL && sample->m != NULL;
}

static void drop(struct sample *sample)
{
    free(sample->channels);
    free(sample->magnitudes);
    free(sample->weights);
    free(sample->input);
    free(sample->u);
    free(sample->v);
    free(sample->m);
}

bool winograd_measure_accuracy(const cpu_state *state, const tensor_layout *plain, const void *source, int64_t points,
                               winograd_accuracy *out)
{
    struct sample sample = { .set = tiles_of_cpu(), .source = source, .points = points };
    bool reserved;

    INLAY_CHECK(points == 4 || points == 6);
    memset(out, 0, winograd_accuracy_bytes(plain->rank > 1 ? plain->dims[1] : 0));
    out->verdict = TILE_EXTREME;
    if (sample.set == NULL || plain->rank != 4 || !layout_is_plain(plain) || plain->dims[2] != 3 || plain->dims[3] != 3)
        return true;
    sample.out = plain->dims[0];
    sample.in = plain->dims[1];
    reserved = reserve(&sample);
    if (reserved) {
        run_parallel(&sample, state, sample.out, 1, measure_outputs);
        run_parallel(&sample, state, sample.in, 64, measure_inputs);
        out->verdict = classify_weights(&sample);
    }
    if (out->verdict == TILE_MEASURED)
        out->verdict = weigh_inputs(&sample, out);
    if (out->verdict == TILE_MEASURED) {
        pick_outputs(&sample);
        gather_weights(&sample);
        make_inputs(&sample);
        run_kernels(&sample);
        evaluate(&sample, out);
    }
    drop(&sample);
    return reserved;
}
