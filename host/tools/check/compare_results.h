/* check/compare_results.h - do two results say the same? */
#ifndef CHECK_COMPARE_RESULTS_H
#define CHECK_COMPARE_RESULTS_H
#include "check/harness.h"

/* Types and shapes must be the same. Floats may differ by rtol * (|want| + the largest |want| of the tensor), with rtol
 * that of the type (result_rtol), for sums of other orders lose what cancels; NaN is equal to NaN, infinities to their
 * like. All else exactly. False: text says where and how much. */
bool compare_results(const harness_result *got, const harness_result *want, char *text, size_t bytes);
double result_rtol(inlay_dtype dtype);
/* One tensor against another with tolerances of the caller's. */
bool compare_result_tensor(const harness_output *got, const inlay_tensor_view *want, double rtol, double atol,
                           char *text, size_t bytes);
#endif
