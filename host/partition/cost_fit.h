/* partition/cost_fit.h - a small model of time fitted to measurements.
 *
 *     ns = launch + flops / F + bytes / B + far_bytes / C
 *
 * with far_bytes the traffic beyond what the caches next to a core hold. Every term is at least 0: rates are physical.
 * The fit is the one with the least squares of the *relative* error, so that small kernels count as much as large
 * ones; non-negativity is had by trying every subset of the terms (there are 15). */
#ifndef PARTITION_COST_FIT_H
#define PARTITION_COST_FIT_H
#include <stdbool.h>
#include <stdint.h>

enum { FIT_ONE, FIT_FLOPS, FIT_BYTES, FIT_FAR, FIT_TERMS };

typedef struct fit_point {
    double x[FIT_TERMS]; /* 1, flops, bytes, far bytes */
    double ns;           /* measured, above 0 */
} fit_point;

typedef struct fit_line {
    double ns_per[FIT_TERMS]; /* nanoseconds per unit of each term */
    double error;             /* the median point is off by this factor, at least 1 */
    uint32_t points;
} fit_line;

/* The terms of a kernel. */
void fit_terms(double flops, double bytes, double out_x[FIT_TERMS]);
/* Fits a line through count points; false when there is none that could be used. Fewer points use fewer terms. */
bool fit_points(const fit_point *points, uint32_t count, fit_line *out);
/* Nanoseconds at x. */
double fit_at(const fit_line *line, const double x[FIT_TERMS]);
#endif
