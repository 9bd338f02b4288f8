/* watchdog/floats.h - arrays of floats and of quantized numbers: rounding units, noise, errors. */
#ifndef WATCHDOG_FLOATS_H
#define WATCHDOG_FLOATS_H
#include "inlay/types.h"
#include <stdbool.h>

/* The largest relative error of rounding to the type; 0: it is not a float of at least 16 bits. */
double floats_unit(inlay_dtype dtype);
int64_t floats_view_count(const inlay_tensor_view *view);
/* Marks of floats with which kernels may differ: so small that a CPU may flush it to 0; at most -1e18; at least 1e18,
 * or NaN (float16: 1e4). Squares of large floats overflow. */
enum { FLOATS_TINY = 1, FLOATS_NEGATIVE = 2, FLOATS_LARGE = 4 };
uint8_t floats_marks(inlay_dtype dtype, const void *data, int64_t count);
/* Types with a unit only: replaces elements by their absolute values. */
void floats_make_absolute(inlay_dtype dtype, void *data, int64_t count);
/* Changes each element x by units * |x| + magnitude_units * |magnitude|, with a random sign. magnitudes: NULL = 0. */
void floats_add_noise(inlay_dtype dtype, void *data, int64_t count, const void *magnitudes, double units,
                      double magnitude_units, uint64_t *seed);
/* Changes one of `share` elements of a type of 8 bits by a step. No effect on other types. */
void floats_add_steps(inlay_dtype dtype, void *data, int64_t count, uint32_t share, uint64_t *seed);

/* Differences between two arrays. */
typedef struct floats_difference {
    double largest;        /* of the elements that are finite in both */
    double largest_excess; /* largest error beyond the tolerance below; of these elements `at` is the index */
    int64_t at;            /* -1: no element has such an error */
    int64_t not_finite;    /* first element that is finite in one array only, or differs as infinity or NaN; -1: none */
} floats_difference;
/* An error beyond atol + rtol * |want| counts. Bytes of two equal arrays are equal elements. */
floats_difference floats_compare(inlay_dtype dtype, const void *want, const void *got, int64_t count, double rtol,
                                 double atol);
#endif
