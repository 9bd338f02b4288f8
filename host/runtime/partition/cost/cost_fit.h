/* partition/cost/cost_fit.h - a small model of time fitted to measurements.
 *
 *     ns = launch + flops / F + bytes / B + far_bytes / C + factor * model_ns + cold_bytes / D
 *
 * with far_bytes the traffic beyond what the caches next to a core hold, and model_ns what the provider expects: it
 * knows its kernels better than flops and bytes tell, and what it leaves out is much the same for all providers, so
 * scaling what they expect keeps their relation. cold_bytes are weights that no cache next to the core holds when the
 * kernel starts: all, or none when those of the whole model fit there. Every term is at least 0: rates are physical.
 *
 * A fit has the least squares of the *relative* error, so that small kernels count as much as large ones and twice as
 * much is as far off as half: a line through points that scatter is in their middle. Which terms it has is decided by
 * how well each point is foretold by the others: with a few points, any set of terms comes close to the points
 * themselves. Other terms than what the provider expects and cold bytes are taken only when they do far better: lines
 * of two providers that follow different terms agree where both were measured, and part beyond.
 * Non-negativity is had by trying every subset of the terms (there are 63). */
#ifndef PARTITION_COST_FIT_H
#define PARTITION_COST_FIT_H
#include <stdbool.h>
#include <stdint.h>

enum { FIT_ONE, FIT_FLOPS, FIT_BYTES, FIT_FAR, FIT_MODEL, FIT_COLD, FIT_TERMS };

typedef struct fit_point {
    double x[FIT_TERMS]; /* 1, flops, bytes, far bytes, the provider's own figure, cold bytes */
    double ns;           /* measured, above 0 */
} fit_point;

typedef struct fit_line {
    double ns_per[FIT_TERMS]; /* nanoseconds per unit of each term */
    double error;             /* three points of four are foretold by the others but for this factor, at least 1 */
    uint32_t points;
} fit_line;

/* The terms of a kernel; model_ns: what its provider expects, 0 when it does not say. */
void fit_terms(double flops, double bytes, double model_ns, double cold_bytes, double out_x[FIT_TERMS]);
/* Fits a line through count points; false when there is none that could be used. Fewer points use fewer terms. terms:
 * the set that may be used, bit t for term t (0 = all), unless the points have none of it. */
bool fit_points(const fit_point *points, uint32_t count, unsigned terms, fit_line *out);
/* Nanoseconds at x. */
double fit_at(const fit_line *line, const double x[FIT_TERMS]);
#endif
