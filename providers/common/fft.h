/* fft.h - discrete Fourier transforms of any length, in double.
 *
 * Lengths without a prime factor above 31 take a pass for each factor (Stockham). Others are a convolution with a chirp
 * (Bluestein), computed by transforms of the next product of 2, 3 and 5 above twice the length. Tables are computed
 * once. */
#ifndef FFT_H
#define FFT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FFT_MOST_PASSES = 40 };

struct fft {
    int64_t n;
    int64_t m; /* length of the passes: n, or that of the transforms of the convolution */
    int pass_count;
    unsigned char radix[FFT_MOST_PASSES]; /* 4, 2, 3, 5 ... */
    double *turns;                        /* [2 m] cos and -sin of 2 pi k / m */
    double *chirp;                        /* [2 n] cos and -sin of pi k^2 / n; NULL when m == n */
    double *filter;                       /* [2 m] transform of the conjugate chirp */
};

/* Number of doubles that fft_init needs for tables; 0 if n is not in [1, 2^40]. */
size_t fft_table_count(int64_t n);
void fft_init(struct fft *fft, int64_t n, double *tables);
/* Number of doubles of scratch memory for a run. */
size_t fft_scratch_count(const struct fft *fft);
/* Transforms n complex numbers in place. The inverse transform divides by n. */
void fft_run(const struct fft *fft, bool inverse, double *data, double *scratch);
/* Nanoseconds of a run, for prices; 0 if n is not in [1, 2^40]. */
double fft_ns(int64_t n);
#endif
