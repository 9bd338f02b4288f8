/* partition/cost/cost_fit.h - a small model of execution time fitted to measurements.
 *
 *     ns = launch + flops / F + bytes / B + far_bytes / C + factor * model_ns + cold_bytes / D
 *
 * far_bytes is the traffic that exceeds the cache next to a core. model_ns is the provider's own estimate: it knows its
 * kernels better than flops and bytes do, and its systematic error is similar for all providers, so scaling the
 * estimates keeps their relation. cold_bytes are the weights that are not in the cache next to the core when the kernel
 * starts: all of them, or none if those of the whole model fit. Every term is at least 0, because rates are physical.
 *
 * A fit minimises the squares of the *relative* error, so that small kernels count as much as large ones, and twice the
 * time is as wrong as half of it. The set of terms is chosen by leave-one-out prediction: with few points, any set of
 * terms comes close to the points themselves. Terms other than the provider's estimate and cold bytes are used only if
 * they do much better: lines of two providers with different terms agree where both were measured, but diverge beyond.
 * Non-negativity is ensured by fitting every subset of the terms (63). */
#ifndef PARTITION_COST_FIT_H
#define PARTITION_COST_FIT_H
#include <stdbool.h>
#include <stdint.h>

enum { FIT_ONE, FIT_FLOPS, FIT_BYTES, FIT_FAR, FIT_MODEL, FIT_COLD, FIT_TERMS };

typedef struct fit_point {
    double x[FIT_TERMS]; /* 1, flops, bytes, far bytes, the provider's estimate, cold bytes */
    double ns;           /* measured, greater than 0 */
} fit_point;

typedef struct fit_line {
    double ns_per[FIT_TERMS]; /* nanoseconds per unit of each term */
    double error;             /* three of four points are predicted by the others within this factor, at least 1 */
    uint32_t points;
} fit_line;

/* Computes the terms of a kernel; model_ns: the provider's estimate, 0 if it has none. */
void fit_terms(double flops, double bytes, double model_ns, double cold_bytes, double out_x[FIT_TERMS]);
/* Fits a line to `count` points; false if no usable fit exists. Fewer points use fewer terms. terms: the allowed set,
 * bit t for term t (0 = all), unless no point has any of them. */
bool fit_points(const fit_point *points, uint32_t count, unsigned terms, fit_line *out);
/* Predicted nanoseconds at x. */
double fit_at(const fit_line *line, const double x[FIT_TERMS]);
#endif
