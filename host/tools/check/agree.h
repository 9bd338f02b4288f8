/* check/agree.h - do two results say the same? */
#ifndef CHECK_AGREE_H
#define CHECK_AGREE_H
#include "check/bench.h"

/* Types and shapes must be the same. Floats may differ by rtol * (|want| + the largest |want| of the tensor), with rtol
 * that of the type (agree_rtol), for sums of other orders lose what cancels; NaN is equal to NaN, infinities to their
 * like. All else exactly. False: text says where and how much. */
bool agree(const bench_result *got, const bench_result *want, char *text, size_t bytes);
double agree_rtol(inlay_dtype dtype);
/* One tensor against another with tolerances of the caller's. */
bool agree_tensor(const bench_output *got, const inlay_tensor_view *want, double rtol, double atol, char *text,
                  size_t bytes);
#endif
