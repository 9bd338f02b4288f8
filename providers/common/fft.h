/* fft.h - discrete Fourier transforms of any length, in double.
 *
 * Powers of two use the radix-2 algorithm. Other lengths are a convolution with a chirp (Bluestein), computed by
 * transforms of the next power of two above twice the length. Tables are computed once. */
#ifndef FFT_H
#define FFT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fft {
    int64_t n;
    int64_t m;      /* length of the inner transforms, a power of two; equals n if n is a power of two */
    double *turns;  /* [m] cos and -sin of 2 pi k / m, k < m / 2 */
    double *chirp;  /* [2 n] cos and -sin of pi k^2 / n; NULL when m == n */
    double *filter; /* [2 m] transform of the conjugate chirp */
};

/* Number of doubles that fft_init needs for tables; 0 if n is not in [1, 2^40]. */
size_t fft_table_count(int64_t n);
void fft_init(struct fft *fft, int64_t n, double *tables);
/* Number of doubles of scratch memory for a run. */
size_t fft_scratch_count(const struct fft *fft);
/* Transforms n complex numbers in place. The inverse transform divides by n. */
void fft_run(const struct fft *fft, bool inverse, double *data, double *scratch);
#endif
