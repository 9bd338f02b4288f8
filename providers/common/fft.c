/* fft.c - see fft.h. */
#include "fft.h"
#include <math.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

static int64_t inner_length(int64_t n)
{
    int64_t m = 1;

    if ((n & (n - 1)) == 0)
        return n;
    while (m < 2 * n - 1)
        m *= 2;
    return m;
}

size_t fft_table_count(int64_t n)
{
    int64_t m;

    if (n < 1 || n > INT64_C(1) << 40)
        return 0;
    m = inner_length(n);
    return (size_t)(m == n ? m : m + 2 * n + 2 * m) + 2;
}

size_t fft_scratch_count(const struct fft *f)
{
    return f->m == f->n ? 1 : (size_t)(2 * f->m);
}

/* Transform of m = 2^k numbers in place: bit-reversed order, then butterflies. */
static void radix2(const struct fft *f, double *x)
{
    int64_t m = f->m;

    for (int64_t i = 1, j = 0; i < m; i++) {
        int64_t bit = m >> 1;
        for (; (j & bit) != 0; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            double re = x[2 * i], im = x[2 * i + 1];
            x[2 * i] = x[2 * j];
            x[2 * i + 1] = x[2 * j + 1];
            x[2 * j] = re;
            x[2 * j + 1] = im;
        }
    }
    for (int64_t half = 1; half < m; half *= 2) {
        int64_t step = m / (2 * half);
        for (int64_t at = 0; at < m; at += 2 * half) {
            double *a = x + 2 * at, *b = a + 2 * half;
            for (int64_t k = 0; k < half; k++) {
                double c = f->turns[2 * k * step], s = f->turns[2 * k * step + 1];
                double re = b[2 * k] * c - b[2 * k + 1] * s, im = b[2 * k] * s + b[2 * k + 1] * c;
                b[2 * k] = a[2 * k] - re;
                b[2 * k + 1] = a[2 * k + 1] - im;
                a[2 * k] += re;
                a[2 * k + 1] += im;
            }
        }
    }
}

void fft_init(struct fft *f, int64_t n, double *tables)
{
    *f = (struct fft){ .n = n, .m = inner_length(n), .turns = tables };
    for (int64_t k = 0; k < f->m / 2 || k == 0; k++) {
        f->turns[2 * k] = cos(2 * PI * (double)k / (double)f->m);
        f->turns[2 * k + 1] = -sin(2 * PI * (double)k / (double)f->m);
    }
    if (f->m == n)
        return;
    f->chirp = tables + f->m;
    f->filter = f->chirp + 2 * n;
    memset(f->filter, 0, (size_t)(2 * f->m) * sizeof(double));
    /* square is k^2 mod 2n, so that the angle stays small and exact */
    for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) {
        double angle = PI * (double)square / (double)n;
        double c = cos(angle), s = sin(angle);
        f->chirp[2 * k] = c;
        f->chirp[2 * k + 1] = -s;
        f->filter[2 * k] = c;
        f->filter[2 * k + 1] = s;
        if (k > 0) {
            f->filter[2 * (f->m - k)] = c;
            f->filter[2 * (f->m - k) + 1] = s;
        }
    }
    radix2(f, f->filter);
}

static void conjugate(double *x, int64_t n, double scale)
{
    for (int64_t k = 0; k < n; k++) {
        x[2 * k] *= scale;
        x[2 * k + 1] *= -scale;
    }
}

static void bluestein(const struct fft *f, double *x, double *w)
{
    int64_t n = f->n, m = f->m;

    memset(w + 2 * n, 0, (size_t)(2 * (m - n)) * sizeof(double));
    for (int64_t k = 0; k < n; k++) {
        double c = f->chirp[2 * k], s = f->chirp[2 * k + 1];
        w[2 * k] = x[2 * k] * c - x[2 * k + 1] * s;
        w[2 * k + 1] = x[2 * k] * s + x[2 * k + 1] * c;
    }
    radix2(f, w);
    for (int64_t k = 0; k < m; k++) {
        double re = w[2 * k] * f->filter[2 * k] - w[2 * k + 1] * f->filter[2 * k + 1];
        w[2 * k + 1] = w[2 * k] * f->filter[2 * k + 1] + w[2 * k + 1] * f->filter[2 * k];
        w[2 * k] = re;
    }
    conjugate(w, m, 1);
    radix2(f, w);
    conjugate(w, n, 1 / (double)m);
    for (int64_t k = 0; k < n; k++) {
        double c = f->chirp[2 * k], s = f->chirp[2 * k + 1];
        x[2 * k] = w[2 * k] * c - w[2 * k + 1] * s;
        x[2 * k + 1] = w[2 * k] * s + w[2 * k + 1] * c;
    }
}

void fft_run(const struct fft *f, bool inverse, double *data, double *scratch)
{
    if (inverse)
        conjugate(data, f->n, 1);
    if (f->m == f->n)
        radix2(f, data);
    else
        bluestein(f, data, scratch);
    if (inverse)
        conjugate(data, f->n, 1 / (double)f->n);
}
