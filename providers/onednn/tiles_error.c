/* How far a convolution by Winograd's algorithm is from the sum as it is written, with the weights at hand.
 *
 * The transforms add and subtract pixels, and weights, before they multiply: what cancels in the sum as written has
 * been rounded by then. How much that is depends on the weights, so a few windows are run by the very kernels, for a
 * sample of the output channels, and held against sums in double. The inputs are of three kinds: noise around zero,
 * noise as Relu leaves it, and a picture of one colour with noise of one in a thousand, which filters whose weights
 * add up to nothing make next to nothing of. The scale does not matter; the error is relative to the largest result
 * of a kind. */
#include "tiles.h"
#include <math.h>

enum { SAMPLE = TILE_LANES, KINDS = 3, TAPS = 9, CHUNK = SG_CHAIN, ALONE_BYTES = 1 << 20 };

typedef struct sample {
    const tile_set *set;
    const char *source;      /* [out][in][3][3], at any address */
    int64_t in, out, points;
    int64_t picked[SAMPLE];  /* channels of the output */
    int64_t v_line;          /* of a window in v, channels of a chunk */
    float *weights;          /* [SAMPLE][TAPS][in] */
    float *x;                /* [KINDS][points^2][in] */
    float *u, *v, *m;        /* of a chunk of input channels */
    float y[KINDS][(TILE_ALPHA - 2) * (TILE_ALPHA - 2)][SAMPLE];
    uint32_t *largest;       /* [out] */
} sample;

/* ------------------------------------------------------------------ which channels */

/* The bits of the largest magnitude; NaN and infinity are larger than any number. */
static KIT_MULTIVERSION uint32_t largest_bits(const char *data, int64_t count)
{
    uint32_t largest = 0;

    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;

        memcpy(&bits, data + i * (int64_t)sizeof bits, sizeof bits);
        bits &= 0x7fffffffu;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

static inlay_status some_channels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const sample *s = user;
    int64_t count = s->in * TAPS;

    (void)worker;
    for (int64_t o = begin; o < end; o++)
        s->largest[o] = largest_bits(s->source + o * count * (int64_t)sizeof(float), count);
    return INLAY_OK;
}

/* Half of them are those of the largest weights, the others are evenly spread. false: some weight is no number. */
static bool pick(sample *s, const rg_state *state)
{
    enum { INFINITE = 0x7f800000 };
    const bool many = s->in * s->out * TAPS * (int64_t)sizeof(float) > ALONE_BYTES && rg_threads_many();

    if (!many || state->host->parallel_for(state->host->ctx, NULL, s->out, 1, some_channels, s) != INLAY_OK)
        (void)some_channels(s, 0, s->out, 0);
    for (int64_t i = 0; i < SAMPLE; i++) {
        int64_t at = i * s->out / SAMPLE;

        for (int64_t o = 0; i < SAMPLE / 2 && o < s->out; o++)
            at = s->largest[o] > s->largest[at] ? o : at;
        if (s->largest[at] >= INFINITE)
            return false;
        s->picked[i] = at;
        s->largest[at] = i < SAMPLE / 2 ? 0 : s->largest[at];
    }
    return true;
}

/* ------------------------------------------------------------------ operands */

static void gather(const sample *s)
{
    for (int64_t o = 0; o < SAMPLE; o++) {
        const char *from = s->source + s->picked[o] * s->in * TAPS * (int64_t)sizeof(float);

        for (int64_t c = 0; c < s->in; c++) {
            float window[TAPS];

            memcpy(window, from + c * (int64_t)sizeof window, sizeof window);
            for (int64_t t = 0; t < TAPS; t++)
                s->weights[(o * TAPS + t) * s->in + c] = window[t];
        }
    }
}

/* The same numbers each time, in [-1, 1). */
static KIT_MULTIVERSION void make_noise(float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t h = (uint32_t)i * 0x9e3779b1u;

        h = (h ^ h >> 15) * 0x85ebca77u;
        h = (h ^ h >> 13) * 0xc2b2ae3du;
        x[i] = (float)(int32_t)(h ^ h >> 16) * 0x1p-31f;
    }
}

static void make_inputs(const sample *s)
{
    int64_t count = s->points * s->points * s->in;

    make_noise(s->x, KINDS * count);
    for (int64_t i = 0; i < count; i++) {
        float *relu = s->x + count + i, *even = relu + count;

        *relu = *relu > 0 ? *relu : 0;
        *even = 1 + *even / 1024;
    }
}

/* ------------------------------------------------------------------ the kernels */

static void add_chunk(const sample *s, int64_t first, int64_t count)
{
    static const int64_t tap = 0;
    const int64_t squared = s->points * s->points;

    for (int64_t i = 0; i < count; i++)
        s->set->window_weights((const char *)(s->weights + first + i), TAPS * s->in, s->in, SAMPLE, s->points,
                               s->u + i * TILE_WIDTH, count * TILE_WIDTH);
    for (int64_t k = 0; k < KINDS; k++) {
        const float *pixels[TILE_ALPHA * TILE_ALPHA];

        for (int64_t p = 0; p < squared; p++)
            pixels[p] = s->x + (k * squared + p) * s->in + first;
        s->set->window_in(pixels, count, s->points, s->v + k * s->v_line, KINDS * s->v_line);
    }
    for (int64_t p = 0; p < squared; p++) {
        float *m = s->m + p * KINDS * TILE_LANES;
        const tile_product product = { .a = s->v + p * KINDS * s->v_line, .a_row = s->v_line, .taps = &tap,
                                       .tap_count = 1, .depth = count, .b = s->u + p * count * TILE_WIDTH,
                                       .add = first > 0 ? m : NULL, .add_row = TILE_LANES, .c = m,
                                       .c_row = TILE_LANES, .columns = SAMPLE };

        s->set->multiply(&product, KINDS);
    }
}

static void run_kernels(sample *s)
{
    const int64_t size = s->points - 2;

    for (int64_t first = 0; first < s->in; first += CHUNK)
        add_chunk(s, first, s->in - first < CHUNK ? s->in - first : CHUNK);
    for (int64_t k = 0; k < KINDS; k++) {
        const tile_window back = { .m = s->m + k * TILE_LANES, .step = KINDS * TILE_LANES, .points = s->points,
                                   .channels = SAMPLE, .y = s->y[k][0], .y_row = size * SAMPLE, .y_pixel = SAMPLE,
                                   .rows = size, .columns = size };

        s->set->window_out(&back);
    }
}

/* ------------------------------------------------------------------ beside double */

static KIT_MULTIVERSION double dot(const float *a, const float *b, int64_t count)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Every second pixel, as on a chessboard: the corners that the transforms round most are among them. */
static double error_of(const sample *s, int64_t kind)
{
    const int64_t size = s->points - 2;
    double worst = 0, largest = 0;

    for (int64_t p = 0; p < size * size; p++) {
        const int64_t r = p / size, q = p % size;

        for (int64_t o = 0; (r + q) % 2 == 0 && o < SAMPLE; o++) {
            double want = 0, off;

            for (int64_t row = 0; row < 3; row++)
                want += dot(s->x + (kind * s->points * s->points + (r + row) * s->points + q) * s->in,
                            s->weights + (o * TAPS + 3 * row) * s->in, 3 * s->in);
            off = fabs((double)s->y[kind][p][o] - want);
            if (!isfinite(off))
                return INFINITY;
            worst = off > worst ? off : worst;
            largest = fabs(want) > largest ? fabs(want) : largest;
        }
    }
    return worst > 0 ? worst / largest : 0;
}

static bool reserve(sample *s)
{
    const size_t squared = (size_t)(s->points * s->points), in = (size_t)s->in;
    const size_t chunk = in < CHUNK ? in : CHUNK;

    s->v_line = (int64_t)(chunk + TILE_LANES - 1) / TILE_LANES * TILE_LANES;
    s->largest = malloc((size_t)s->out * sizeof *s->largest);
    s->weights = malloc(SAMPLE * TAPS * in * sizeof *s->weights);
    s->x = malloc(KINDS * squared * in * sizeof *s->x);
    s->u = malloc(squared * chunk * TILE_WIDTH * sizeof *s->u);
    s->v = malloc(squared * KINDS * (size_t)s->v_line * sizeof *s->v);
    s->m = malloc(squared * KINDS * TILE_LANES * sizeof *s->m);
    return s->largest != NULL && s->weights != NULL && s->x != NULL && s->u != NULL && s->v != NULL && s->m != NULL;
}

bool tiles_window_error(const rg_state *state, const rg_md *plain, const void *source, int64_t points,
                        double *out_error)
{
    sample s = { .set = tiles_of_cpu(), .source = source, .points = points };
    bool reserved = true;

    *out_error = INFINITY;
    if (s.set == NULL || plain->ndims != 4 || !rg_md_is_plain(plain) || plain->dims[2] != 3 || plain->dims[3] != 3)
        return true;
    s.out = plain->dims[0];
    s.in = plain->dims[1];
    reserved = reserve(&s);
    if (reserved && pick(&s, state)) {
        *out_error = 0;
        gather(&s);
        make_inputs(&s);
        run_kernels(&s);
        for (int64_t k = 0; k < KINDS; k++) {
            double error = error_of(&s, k);

            *out_error = error > *out_error ? error : *out_error;
        }
    }
    free(s.largest);
    free(s.weights);
    free(s.x);
    free(s.u);
    free(s.v);
    free(s.m);
    return reserved;
}
