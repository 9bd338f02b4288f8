/* fft.c - see fft.h. */
#include "inlay/check.h"
#include "common/fft.h"
#include <math.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

static int64_t inner_length(int64_t n)
{
    int64_t length = 1;

    if ((n & (n - 1)) == 0)
        return n;
    while (length < 2 * n - 1)
        length *= 2;
    return length;
}

size_t fft_table_count(int64_t n)
{
    int64_t m;

    if (n < 1 || n > INT64_C(1) << 40)
        return 0;
    m = inner_length(n);
    return (size_t)(m == n ? m : m + 2 * n + 2 * m) + 2;
}

size_t fft_scratch_count(const struct fft *fft)
{
    return fft->m == fft->n ? 1 : (size_t)(2 * fft->m);
}

/* Transforms m = 2^k numbers in place: bit reversal, then butterflies. */
static void radix2(const struct fft *fft, double *input)
{
    int64_t m = fft->m;

    for (int64_t i = 1, j = 0; i < m; i++) {
        int64_t bit = m >> 1;
        for (; (j & bit) != 0; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            double re = input[2 * i], im = input[2 * i + 1];
            input[2 * i] = input[2 * j];
            input[2 * i + 1] = input[2 * j + 1];
            input[2 * j] = re;
            input[2 * j + 1] = im;
        }
    }
    for (int64_t half = 1; half < m; half *= 2) {
        int64_t step = m / (2 * half);
        for (int64_t at = 0; at < m; at += 2 * half) {
            double *a = input + 2 * at, *b = a + 2 * half;
            for (int64_t k = 0; k < half; k++) {
                double c = fft->turns[2 * k * step], s = fft->turns[2 * k * step + 1];
                double re = b[2 * k] * c - b[2 * k + 1] * s, im = b[2 * k] * s + b[2 * k + 1] * c;
                b[2 * k] = a[2 * k] - re;
                b[2 * k + 1] = a[2 * k + 1] - im;
                a[2 * k] += re;
                a[2 * k + 1] += im;
            }
        }
    }
}

void fft_init(struct fft *fft, int64_t n, double *tables)
{
    INLAY_CHECK(n >= 1 && tables != NULL);
    *fft = (struct fft){ .n = n, .m = inner_length(n), .turns = tables };
    for (int64_t k = 0; k < fft->m / 2 || k == 0; k++) {
        fft->turns[2 * k] = cos(2 * PI * (double)k / (double)fft->m);
        fft->turns[2 * k + 1] = -sin(2 * PI * (double)k / (double)fft->m);
    }
    if (fft->m == n)
        return;
    fft->chirp = tables + fft->m;
    fft->filter = fft->chirp + 2 * n;
    memset(fft->filter, 0, (size_t)(2 * fft->m) * sizeof(double));
    /* square = k^2 mod 2n, so that the angle stays small and its numerator exact */
    for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) {
        double angle = PI * (double)square / (double)n;
        double c = cos(angle), s = sin(angle);
        fft->chirp[2 * k] = c;
        fft->chirp[2 * k + 1] = -s;
        fft->filter[2 * k] = c;
        fft->filter[2 * k + 1] = s;
        if (k > 0) {
            fft->filter[2 * (fft->m - k)] = c;
            fft->filter[2 * (fft->m - k) + 1] = s;
        }
    }
    radix2(fft, fft->filter);
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
    int64_t n = fft->n, m = fft->m;

    memset(weights + 2 * n, 0, (size_t)(2 * (m - n)) * sizeof(double));
    for (int64_t k = 0; k < n; k++) {
        double c = fft->chirp[2 * k], s = fft->chirp[2 * k + 1];
        weights[2 * k] = input[2 * k] * c - input[2 * k + 1] * s;
        weights[2 * k + 1] = input[2 * k] * s + input[2 * k + 1] * c;
    }
    radix2(fft, weights);
    for (int64_t k = 0; k < m; k++) {
        double re = weights[2 * k] * fft->filter[2 * k] - weights[2 * k + 1] * fft->filter[2 * k + 1];
        weights[2 * k + 1] = weights[2 * k] * fft->filter[2 * k + 1] + weights[2 * k + 1] * fft->filter[2 * k];
        weights[2 * k] = re;
    }
    conjugate(weights, m, 1);
    radix2(fft, weights);
    conjugate(weights, n, 1 / (double)m);
    for (int64_t k = 0; k < n; k++) {
        double c = fft->chirp[2 * k], s = fft->chirp[2 * k + 1];
        input[2 * k] = weights[2 * k] * c - weights[2 * k + 1] * s;
        input[2 * k + 1] = weights[2 * k] * s + weights[2 * k + 1] * c;
    }
}

void fft_run(const struct fft *fft, bool inverse, double *data, double *scratch)
{
    INLAY_CHECK(fft->m == fft->n || scratch != NULL);
    if (inverse)
        conjugate(data, fft->n, 1);
    if (fft->m == fft->n)
        radix2(fft, data);
    else
        bluestein(fft, data, scratch);
    if (inverse)
        conjugate(data, fft->n, 1 / (double)fft->n);
}
