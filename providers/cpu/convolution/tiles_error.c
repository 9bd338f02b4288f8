/* How far a convolution by Winograd's algorithm is from the plain sum, with the weights at hand.
 *
 * The transforms add and subtract pixels, and weights, before they multiply: what cancels in a plain sum has been
 * rounded by then. How much that is depends on the weights, so a few windows are run by the very kernels, for a sample
 * of the output channels, and held against sums in double, and so is a plain sum in float. The pictures are noise, and
 * what Winograd's algorithm does worst: one colour, an edge, channels of unequal size, one bright pixel.
 *
 * A bright pixel costs digits in all results of its window, also in those whose own terms it is not among. So a run
 * compares the largest pixel of a window with what lies around each result (tiles_winograd.c); the pictures tell here
 * how much larger it may be until a result is off by more than its own terms justify. Where a result has but a few
 * terms, they may be those with the small weights: that is for the guard to refuse, too. */
#include "convolution/sum_loops.h"
#include "convolution/tiles.h"
#include "simd/optional.h"
#include <float.h>
#include <math.h>

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_WITH(tiles_measure_trust, "cpu_conv");

enum { NOISE, RELU, EVEN, EDGE, UNEQUAL, BRIGHT, LONE, INNER, KINDS };
enum {
    SAMPLE = TILE_LANES,
    TAPS = 9,
    CHUNK = SGEMM_CHAIN,
    CHECKED = 4, /* results of a window that are compared */
    THREADS_BYTES = 1 << 20
};
static const float BRIGHT_PIXEL = 1e4F;
/* Rounding that a result may have beside its own terms, in units of sqrt(terms): that of a sum in float, with room for
 * sums in another order. */
static const double OWN_ROUNDING = 8 * (FLT_EPSILON / 2.0);
/* A guard that a run would fail with ordinary pictures is of no use; one that lets anything pass is none. */
static const double LEAST_MARGIN = 2, MOST_UNEVEN = 1e3;
/* Beyond these, transforms might overflow, or lose small terms. */
static const float LEAST_WEIGHT = 1e-18F, MOST_WEIGHT = 1e18F;

struct sample {
    const tile_set *set;
    const char *source; /* [out][in][3][3], at any address */
    int64_t in, out, points;
    int64_t picked[SAMPLE]; /* channels of the output */
    int64_t v_line;         /* of a window in v, channels of a chunk */
    sum_channel *channels;  /* [out] */
    float *loudest;         /* [in][TAPS] largest magnitudes */
    float *weights;         /* [TAPS][in][SAMPLE] */
    float *input;           /* [KINDS][points^2][in] */
    float *u, *v, *m;       /* of a chunk of input channels */
    float y[KINDS][(TILE_ALPHA - 2) * (TILE_ALPHA - 2)][SAMPLE];
};

/* ------------------------------------------------------------------ which channels */

static inlay_status some_outputs(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct sample *sample = user;
    int64_t count = sample->in * TAPS;

    (void)worker;
    for (int64_t o = begin; o < end; o++)
        KERNEL_BEST(sum_loops)->look_at(sample->source + o * count * (int64_t)sizeof(float), count,
                                        &sample->channels[o]);
    return INLAY_OK;
}

static inlay_status some_inputs(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct sample *sample = user;

    (void)worker;
    memset(sample->loudest + begin * TAPS, 0, (size_t)((end - begin) * TAPS) * sizeof *sample->loudest);
    for (int64_t o = 0; o < sample->out; o++)
        KERNEL_BEST(sum_loops)->take_larger(sample->source + (o * sample->in + begin) * TAPS * (int64_t)sizeof(float),
                                            (end - begin) * TAPS, sample->loudest + begin * TAPS);
    return INLAY_OK;
}

static void share(const struct sample *sample, const cpu_state *state, int64_t total, int64_t grain,
                  inlay_parallel_fn body)
{
    const bool many = sample->in * sample->out * TAPS * (int64_t)sizeof(float) > THREADS_BYTES && cpu_threads_many();

    if (!many ||
        state->host->parallel_for(state->host->ctx, NULL, total, grain, body, (void *)(uintptr_t)sample) != INLAY_OK)
        (void)body((void *)(uintptr_t)sample, 0, total, 0);
}

static uint32_t look_at_all(const struct sample *sample)
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

/* What each channel of the input weighs in the guard: its largest weight, beside the largest of all. A channel without
 * weights is not left out, since its pixels must not overflow either. */
static uint32_t weigh_inputs(const struct sample *sample, tile_trust *trust)
{
    float top = 0;

    for (int64_t c = 0; c < sample->in; c++) {
        trust->weight[c] = 0;
        for (int64_t t = 0; t < TAPS; t++)
            trust->weight[c] = fmaxf(trust->weight[c], sample->loudest[c * TAPS + t]);
        top = fmaxf(top, trust->weight[c]);
    }
    if (!(top >= LEAST_WEIGHT && top <= MOST_WEIGHT))
        return TILE_EXTREME;
    for (int64_t c = 0; c < sample->in; c++)
        trust->weight[c] = fmaxf(trust->weight[c] / top, 1e-6F);
    trust->top = top;
    return TILE_MEASURED;
}

/* A third each: those of the largest weights, those whose weights are fewest, evenly spread ones. Channels that are all
 * zeros are not worth a look. */
static void pick(struct sample *sample)
{
    for (int64_t i = 0; i < SAMPLE; i++) {
        int64_t at = i * sample->out / SAMPLE;

        for (int64_t o = 0; o < sample->out; o++) {
            const sum_channel *channel = &sample->channels[o], *best = &sample->channels[at];

            if (i < SAMPLE / 3 ? channel->largest > best->largest
                               : i < 2 * (SAMPLE / 3) && channel->spread < best->spread)
                at = o;
        }
        sample->picked[i] = at;
        if (i < 2 * (SAMPLE / 3))
            sample->channels[at] = (sum_channel){ .spread = FLT_MAX };
    }
}

/* ------------------------------------------------------------------ operands */

static void gather(const struct sample *sample)
{
    for (int64_t o = 0; o < SAMPLE; o++) {
        const char *from = sample->source + sample->picked[o] * sample->in * TAPS * (int64_t)sizeof(float);

        for (int64_t c = 0; c < sample->in; c++) {
            float window[TAPS];

            memcpy(window, from + c * (int64_t)sizeof window, sizeof window);
            for (int64_t t = 0; t < TAPS; t++)
                sample->weights[(t * sample->in + c) * SAMPLE + o] = window[t];
        }
    }
}

/* The input channel of the largest weight of a filter that has few. */
static int64_t lone_channel(const struct sample *sample)
{
    const int64_t o = SAMPLE / 3;
    int64_t at = 0;
    float top = -1;

    for (int64_t i = 0; i < TAPS * sample->in; i++) {
        const float w = fabsf(sample->weights[i * SAMPLE + o]);

        at = w > top ? i % sample->in : at;
        top = w > top ? w : top;
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
    for (int64_t c = 0; c < sample->in; c++)
        sample->input[BRIGHT * count + c] = BRIGHT_PIXEL;
    sample->input[LONE * count + lone] = BRIGHT_PIXEL;
    sample->input[INNER * count + (2 * sample->points + sample->points / 2) * sample->in + lone] = BRIGHT_PIXEL;
}

/* ------------------------------------------------------------------ the kernels */

static void add_chunk(const struct sample *sample, int64_t first, int64_t count)
{
    static const int64_t tap = 0;
    const int64_t squared = sample->points * sample->points;

    for (int64_t i = 0; i < count; i++)
        sample->set->window_weights((const char *)(sample->weights + (first + i) * SAMPLE), 1, sample->in * SAMPLE,
                                    SAMPLE, sample->points, sample->u + i * TILE_WIDTH, count * TILE_WIDTH);
    for (int64_t k = 0; k < KINDS; k++) {
        const float *pixels[TILE_ALPHA * TILE_ALPHA];

        for (int64_t pixel = 0; pixel < squared; pixel++)
            pixels[pixel] = sample->input + (k * squared + pixel) * sample->in + first;
        sample->set->window_in(pixels, count, sample->points, sample->v + k * sample->v_line, KINDS * sample->v_line);
    }
    for (int64_t p = 0; p < squared; p++) {
        float *m = sample->m + p * KINDS * TILE_LANES;
        const tile_product product = { .a = sample->v + p * KINDS * sample->v_line,
                                       .a_row = sample->v_line,
                                       .taps = &tap,
                                       .tap_count = 1,
                                       .depth = count,
                                       .b = sample->u + p * count * TILE_WIDTH,
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
    for (int64_t k = 0; k < KINDS; k++) {
        const tile_window back = { .m = sample->m + k * TILE_LANES,
                                   .step = KINDS * TILE_LANES,
                                   .points = sample->points,
                                   .channels = SAMPLE,
                                   .output = sample->y[k][0],
                                   .y_row = size * SAMPLE,
                                   .y_pixel = SAMPLE,
                                   .rows = size,
                                   .columns = size };

        sample->set->window_out(&back);
    }
}

/* ------------------------------------------------------------------ beside double */

/* What one picture shows. */
struct picture {
    double error, plain_error, largest;       /* of its results */
    double beside_terms;                      /* the largest error in units of what its own terms justify */
    double uneven;                            /* its largest pixel beside the smallest sum around a result */
    bool few[TILE_ALPHA - 2][TILE_ALPHA - 2]; /* results that have too few terms for the guard */
};

static void compare(const struct sample *sample, int64_t kind, int64_t r, int64_t q, struct picture *out)
{
    const double justified = OWN_ROUNDING * sqrt((double)(TAPS * sample->in));
    const float *input = sample->input + (kind * sample->points * sample->points + r * sample->points + q) * sample->in;
    const float *output = sample->y[kind][r * (sample->points - 2) + q];
    sum_terms want = { .plain = { 0 } };

    for (int64_t t = 0; t < TAPS; t++)
        KERNEL_BEST(sum_loops)->add_terms(input + (t / 3 * sample->points + t % 3) * sample->in,
                                          sample->weights + t * sample->in * SAMPLE, sample->in, &want);
    for (int64_t o = 0; o < SAMPLE; o++) {
        const double off = fabs((double)output[o] - want.exact[o]), plain = fabs((double)want.plain[o] - want.exact[o]);

        out->error = off > out->error || !isfinite(off) ? off : out->error;
        out->plain_error = fmax(plain, out->plain_error);
        out->largest = fmax(fabs(want.exact[o]), out->largest);
        if (off > 0 && !out->few[r][q])
            out->beside_terms = fmax(off / (justified * want.terms[o]), out->beside_terms);
    }
}

/* The guard of a run, on one picture. */
static void guard(const struct sample *sample, int64_t kind, const tile_trust *trust, struct picture *out)
{
    const float *input = sample->input + kind * sample->points * sample->points * sample->in;
    double pixels[TILE_ALPHA * TILE_ALPHA], squares[TILE_ALPHA * TILE_ALPHA], largest = 0, smallest = INFINITY;

    for (int64_t pixel = 0; pixel < sample->points * sample->points; pixel++) {
        pixels[pixel] = squares[pixel] = 0;
        for (int64_t c = 0; c < sample->in; c++) {
            const double weighed = (double)(trust->weight[c] * fabsf(input[pixel * sample->in + c]));

            pixels[pixel] += weighed;
            squares[pixel] += weighed * weighed;
        }
        largest = fmax(largest, pixels[pixel]);
    }
    for (int64_t r = 0; r < sample->points - 2; r++) {
        for (int64_t q = 0; q < sample->points - 2; q++) {
            double sum = 0, square = 0;

            for (int64_t t = 0; t < TAPS; t++) {
                sum += pixels[(r + t / 3) * sample->points + q + t % 3];
                square += squares[(r + t / 3) * sample->points + q + t % 3];
            }
            smallest = fmin(smallest, sum);
            out->few[r][q] = sum * sum < TILE_LEAST_TERMS * square;
        }
    }
    out->uneven = largest / smallest;
}

static struct picture show(const struct sample *sample, int64_t kind, const tile_trust *trust)
{
    static const uint8_t large[CHECKED][2] = { { 0, 0 }, { 1, 2 }, { 2, 1 }, { 3, 3 } };
    static const uint8_t small[CHECKED][2] = { { 0, 0 }, { 0, 1 }, { 1, 0 }, { 1, 1 } };
    struct picture picture = { .error = 0 };

    guard(sample, kind, trust, &picture);
    for (int i = 0; i < CHECKED; i++)
        compare(sample, kind, (sample->points == 6 ? large : small)[i][0], (sample->points == 6 ? large : small)[i][1],
                &picture);
    return picture;
}

static void judge(const struct sample *sample, tile_trust *trust)
{
    double ordinary = 0;

    trust->error = trust->times_plain = 0;
    trust->uneven = MOST_UNEVEN;
    for (int64_t k = 0; k < KINDS; k++) {
        const struct picture picture = show(sample, k, trust);
        const double error = picture.error > 0 ? picture.error / picture.largest : picture.error;

        if (!(error <= DBL_MAX)) {
            trust->verdict = TILE_EXTREME;
            return;
        }
        trust->error = fmax(error, trust->error);
        if (picture.error > 0)
            trust->times_plain = fmax(picture.error / picture.plain_error, trust->times_plain);
        if (picture.beside_terms > 0)
            trust->uneven = fmin(picture.uneven / (LEAST_MARGIN * picture.beside_terms), trust->uneven);
        ordinary = k <= EVEN ? fmax(picture.uneven, ordinary) : ordinary;
    }
    if (trust->uneven < LEAST_MARGIN * ordinary)
        trust->uneven = 0;
}

static bool reserve(struct sample *sample)
{
    const size_t squared = (size_t)(sample->points * sample->points), in = (size_t)sample->in;
    const size_t chunk = in < CHUNK ? in : CHUNK;

    sample->v_line = (int64_t)(chunk + TILE_LANES - 1) / TILE_LANES * TILE_LANES;
    sample->channels = malloc((size_t)sample->out * sizeof *sample->channels);
    sample->loudest = malloc(in * TAPS * sizeof *sample->loudest);
    sample->weights = malloc(SAMPLE * TAPS * in * sizeof *sample->weights);
    sample->input = malloc(KINDS * squared * in * sizeof *sample->input);
    sample->u = malloc(squared * chunk * TILE_WIDTH * sizeof *sample->u);
    sample->v = malloc(squared * KINDS * (size_t)sample->v_line * sizeof *sample->v);
    sample->m = malloc(squared * KINDS * TILE_LANES * sizeof *sample->m);
    return sample->channels != NULL && sample->loudest != NULL && sample->weights != NULL && sample->input != NULL &&
           sample->u != NULL && sample->v != NULL && sample->m != NULL;
}

static void drop(struct sample *sample)
{
    free(sample->channels);
    free(sample->loudest);
    free(sample->weights);
    free(sample->input);
    free(sample->u);
    free(sample->v);
    free(sample->m);
}

uint64_t tiles_trust_bytes(int64_t in)
{
    return sizeof(tile_trust) + (uint64_t)in * sizeof(float);
}

bool tiles_measure_trust(const cpu_state *state, const memory_desc *plain, const void *source, int64_t points,
                         tile_trust *out)
{
    struct sample sample = { .set = tiles_of_cpu(), .source = source, .points = points };
    bool reserved;

    memset(out, 0, tiles_trust_bytes(plain->ndims > 1 ? plain->dims[1] : 0));
    out->verdict = TILE_EXTREME;
    if (sample.set == NULL || plain->ndims != 4 || !memory_desc_is_plain(plain) || plain->dims[2] != 3 ||
        plain->dims[3] != 3)
        return true;
    sample.out = plain->dims[0];
    sample.in = plain->dims[1];
    reserved = reserve(&sample);
    if (reserved) {
        share(&sample, state, sample.out, 1, some_outputs);
        share(&sample, state, sample.in, 64, some_inputs);
        out->verdict = look_at_all(&sample);
    }
    if (out->verdict == TILE_MEASURED)
        out->verdict = weigh_inputs(&sample, out);
    if (out->verdict == TILE_MEASURED) {
        pick(&sample);
        gather(&sample);
        make_inputs(&sample);
        run_kernels(&sample);
        judge(&sample, out);
    }
    drop(&sample);
    return reserved;
}

bool tiles_are_trusted(const cpu_state *state, const tile_trust *trust)
{
    if (trust->verdict != TILE_MEASURED)
        return false;
    if (state->fast)
        return trust->error <= TILE_FAST_ERROR;
    return trust->error <= TILE_MOST_ERROR && trust->times_plain <= TILE_MOST_TIMES && trust->uneven > 0;
}

void tiles_say_distrust(const cpu_state *state, const tile_trust *trust, char *text, size_t bytes)
{
    const double most = state->fast ? TILE_FAST_ERROR : TILE_MOST_ERROR;

    if (trust->verdict == TILE_NO_NUMBERS)
        (void)snprintf(text, bytes, "weights are infinite or NaN");
    else if (trust->verdict == TILE_INTEGERS)
        (void)snprintf(text, bytes, "weights are integers, whose sums are exact");
    else if (trust->verdict == TILE_EXTREME)
        (void)snprintf(text, bytes, "weights are too large or too small for its transforms");
    else if (!(trust->error <= most))
        (void)snprintf(text, bytes, "error %.1e with these weights, most %.0e", trust->error, most);
    else if (!(trust->times_plain <= TILE_MOST_TIMES))
        (void)snprintf(text, bytes, "error %.0f times a plain sum's with these weights, most %.0f", trust->times_plain,
                       TILE_MOST_TIMES);
    else
        (void)snprintf(text, bytes, "filters of few weights, whose results it would round too much");
}
