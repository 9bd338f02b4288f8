/* fft.c - see fft.h. */
#include "common/fft.h"
#include "inlay/check.h"
#include <math.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

enum { MOST_RADIX = 31 }; /* a longer pass takes more steps than a chirp */

typedef struct {
    double re, im;
} complex_f64;

/* The factors of n, each a pass: fours first, then a two and odd primes. Returns their number, and 0 if one is above
 * MOST_RADIX. */
static int find_passes(int64_t n, unsigned char radix[FFT_MOST_PASSES])
{
    int count = 0;

    for (int r = 4; n > 1 && r <= MOST_RADIX; r = r == 4 ? 2 : r == 2 ? 3 : r + 2)
        for (; n % r == 0; n /= r)
            radix[count++] = (unsigned char)r;
    return n > 1 ? 0 : count;
}

/* The length of the passes: n, or for a chirp the least product of 2, 3 and 5 that holds twice the numbers. */
static int64_t inner_length(int64_t n)
{
    unsigned char radix[FFT_MOST_PASSES];
    int64_t best = INT64_MAX;

    if (n == 1 || find_passes(n, radix) > 0)
        return n;
    for (int64_t fives = 1; fives < best; fives *= 5)
        for (int64_t length = fives; length < best; length *= 3) {
            int64_t even = length;

            while (even < 2 * n - 1)
                even *= 2;
            best = even < best ? even : best;
        }
    return best;
}

size_t fft_table_count(int64_t n)
{
    int64_t m;

    if (n < 1 || n > INT64_C(1) << 40)
        return 0;
    m = inner_length(n);
    return (size_t)(m == n ? 2 * m : 6 * m + 2 * n);
}

size_t fft_scratch_count(const struct fft *fft)
{
    return (size_t)(fft->m == fft->n ? 2 * fft->m : 4 * fft->m);
}

static complex_f64 times(complex_f64 a, complex_f64 b)
{
    return (complex_f64){ a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re };
}

/* A pass of Stockham's algorithm: transforms of `radix` numbers m * step apart, turned by k p / (radix m), whose
 * results lie next to each other, in steps. turns: those of radix * m * step. */
struct pass {
    const complex_f64 *turns, *from;
    complex_f64 *to;
    int64_t m, step;
};

static void pass2(const struct pass *at)
{
    const int64_t m = at->m, step = at->step;

    for (int64_t p = 0; p < m; p++) {
        const complex_f64 *from = at->from + step * p, w = at->turns[p * step];
        complex_f64 *to = at->to + 2 * step * p;

        for (int64_t q = 0; q < step; q++) {
            const complex_f64 a = from[q], b = from[q + step * m];

            to[q] = (complex_f64){ a.re + b.re, a.im + b.im };
            to[q + step] = times((complex_f64){ a.re - b.re, a.im - b.im }, w);
        }
    }
}

static void pass4(const struct pass *at)
{
    const int64_t m = at->m, step = at->step;

    for (int64_t p = 0; p < m; p++) {
        const complex_f64 *from = at->from + step * p;
        const complex_f64 w1 = at->turns[p * step], w2 = at->turns[2 * p * step], w3 = at->turns[3 * p * step];
        complex_f64 *to = at->to + 4 * step * p;

        for (int64_t q = 0; q < step; q++) {
            const complex_f64 a = from[q], b = from[q + step * m], c = from[q + 2 * step * m],
                              d = from[q + 3 * step * m];
            const complex_f64 even = { a.re + c.re, a.im + c.im }, odd = { b.re + d.re, b.im + d.im };
            const complex_f64 left = { a.re - c.re, a.im - c.im }, turned = { b.im - d.im, d.re - b.re };

            to[q] = (complex_f64){ even.re + odd.re, even.im + odd.im };
            to[q + step] = times((complex_f64){ left.re + turned.re, left.im + turned.im }, w1);
            to[q + 2 * step] = times((complex_f64){ even.re - odd.re, even.im - odd.im }, w2);
            to[q + 3 * step] = times((complex_f64){ left.re - turned.re, left.im - turned.im }, w3);
        }
    }
}

/* An odd radix: the sums and differences of numbers that lie alike from both ends have real factors. */
static inline __attribute__((always_inline)) void pass_odd(const struct pass *at, int radix)
{
    const int half = radix / 2;
    const int64_t m = at->m, step = at->step;
    complex_f64 roots[MOST_RADIX], sums[MOST_RADIX / 2], rests[MOST_RADIX / 2];

    for (int k = 0; k < radix; k++)
        roots[k] = at->turns[k * m * step];
    for (int64_t p = 0; p < m; p++)
        for (int64_t q = 0; q < step; q++) {
            const complex_f64 *from = at->from + step * p + q;
            complex_f64 *to = at->to + radix * step * p + q, first = from[0], all = first;

            for (int j = 0; j < half; j++) {
                const complex_f64 a = from[(j + 1) * step * m], b = from[(radix - 1 - j) * step * m];

                sums[j] = (complex_f64){ a.re + b.re, a.im + b.im };
                rests[j] = (complex_f64){ a.re - b.re, a.im - b.im };
                all = (complex_f64){ all.re + sums[j].re, all.im + sums[j].im };
            }
            to[0] = all;
            for (int k = 1; k <= half; k++) {
                complex_f64 even = first, odd = { 0, 0 };

                for (int j = 0, turn = k; j < half; j++, turn = turn + k < radix ? turn + k : turn + k - radix) {
                    even =
                        (complex_f64){ even.re + roots[turn].re * sums[j].re, even.im + roots[turn].re * sums[j].im };
                    odd = (complex_f64){ odd.re + roots[turn].im * rests[j].re, odd.im + roots[turn].im * rests[j].im };
                }
                to[k * step] = times((complex_f64){ even.re - odd.im, even.im + odd.re }, at->turns[k * p * step]);
                to[(radix - k) * step] =
                    times((complex_f64){ even.re + odd.im, even.im - odd.re }, at->turns[(radix - k) * p * step]);
            }
        }
}

/* Transforms m numbers; spare has space for as many. */
static void transform(const struct fft *fft, double *data, double *spare)
{
    struct pass at = { .turns = (const complex_f64 *)(const void *)fft->turns, .m = fft->m, .step = 1 };
    complex_f64 *from = (complex_f64 *)(void *)data, *to = (complex_f64 *)(void *)spare;

    for (int i = 0; i < fft->pass_count; i++) {
        const int radix = fft->radix[i];
        complex_f64 *const read = from;

        at.m /= radix;
        at.from = from;
        at.to = to;
        if (radix == 4)
            pass4(&at);
        else if (radix == 2)
            pass2(&at);
        else if (radix == 3)
            pass_odd(&at, 3);
        else if (radix == 5)
            pass_odd(&at, 5);
        else
            pass_odd(&at, radix);
        at.step *= radix;
        from = to;
        to = read;
    }
    if (fft->pass_count % 2 != 0)
        memcpy(data, spare, (size_t)fft->m * sizeof(complex_f64));
}

void fft_init(struct fft *fft, int64_t n, double *tables)
{
    double *filter;

    INLAY_CHECK(n >= 1 && tables != NULL);
    *fft = (struct fft){ .n = n, .m = inner_length(n), .turns = tables };
    fft->pass_count = find_passes(fft->m, fft->radix);
    for (int64_t k = 0; k < fft->m; k++) {
        tables[2 * k] = cos(2 * PI * (double)k / (double)fft->m);
        tables[2 * k + 1] = -sin(2 * PI * (double)k / (double)fft->m);
    }
    if (fft->m == n)
        return;
    fft->chirp = tables + 2 * fft->m;
    fft->filter = filter = fft->chirp + 2 * n;
    memset(filter, 0, (size_t)(2 * fft->m) * sizeof(double));
    /* square = k^2 mod 2n, so that the angle stays small and its numerator exact */
    for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) {
        double angle = PI * (double)square / (double)n;
        double c = cos(angle), s = sin(angle);
        fft->chirp[2 * k] = c;
        fft->chirp[2 * k + 1] = -s;
        filter[2 * k] = c;
        filter[2 * k + 1] = s;
        if (k > 0) {
            filter[2 * (fft->m - k)] = c;
            filter[2 * (fft->m - k) + 1] = s;
        }
    }
    transform(fft, filter, filter + 2 * fft->m);
}

static void conjugate(double *input, int64_t n, double scale)
{
    for (int64_t k = 0; k < n; k++) {
        input[2 * k] *= scale;
        input[2 * k + 1] *= -scale;
    }
}

static void bluestein(const struct fft *fft, double *input, double *weights)
{
    const int64_t n = fft->n, m = fft->m;
    const complex_f64 *chirp = (const complex_f64 *)(const void *)fft->chirp,
                      *filter = (const complex_f64 *)(const void *)fft->filter;
    complex_f64 *numbers = (complex_f64 *)(void *)input, *products = (complex_f64 *)(void *)weights;

    memset(products + n, 0, (size_t)(m - n) * sizeof *products);
    for (int64_t k = 0; k < n; k++)
        products[k] = times(numbers[k], chirp[k]);
    transform(fft, weights, weights + 2 * m);
    for (int64_t k = 0; k < m; k++)
        products[k] = times(products[k], filter[k]);
    conjugate(weights, m, 1);
    transform(fft, weights, weights + 2 * m);
    conjugate(weights, n, 1 / (double)m);
    for (int64_t k = 0; k < n; k++)
        numbers[k] = times(products[k], chirp[k]);
}

void fft_run(const struct fft *fft, bool inverse, double *data, double *scratch)
{
    INLAY_CHECK(scratch != NULL);
    if (inverse)
        conjugate(data, fft->n, 1);
    if (fft->m == fft->n)
        transform(fft, data, scratch);
    else
        bluestein(fft, data, scratch);
    if (inverse)
        conjugate(data, fft->n, 1 / (double)fft->n);
}

double fft_ns(int64_t n)
{
    unsigned char radix[FFT_MOST_PASSES];
    double element_ns = 0;
    int64_t m;

    if (fft_table_count(n) == 0)
        return 0;
    m = inner_length(n);
    for (int i = find_passes(m, radix) - 1; i >= 0; i--)
        element_ns += radix[i] == 4 ? 1.4 : 0.9 + 0.35 * radix[i];
    return (double)m * (m == n ? element_ns : 2 * element_ns + 2);
}
