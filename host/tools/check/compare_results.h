/* check/compare_results.h - compares the results of two runs. */
#ifndef CHECK_COMPARE_RESULTS_H
#define CHECK_COMPARE_RESULTS_H
#include "check/harness.h"

/* Types and shapes must be equal. Floats may differ by rtol * (|want| + the largest |want| of the tensor), where rtol
 * is result_rtol() of the type: a sum in another order may differ by cancellation. NaN equals NaN, and an infinity
 * equals an infinity of the same sign. Other types must be equal exactly. False: text names the place and the
 * difference. */
bool compare_results(const harness_result *got, const harness_result *want, char *text, size_t bytes);
/* The same for one output, whose numbers may differ by more_atol more. */
bool compare_one_result(const harness_result *got, const harness_result *want, uint32_t output, double more_atol,
                        char *text, size_t bytes);
/* The largest difference of an output, relative to its largest element; 0 for outputs that hold no numbers. */
double result_distance(const harness_result *got, const harness_result *want);
double result_rtol(inlay_dtype dtype);
/* Compares one tensor with the caller's tolerances. */
bool compare_result_tensor(const harness_output *got, const inlay_tensor_view *want, double rtol, double atol,
                           char *text, size_t bytes);
#endif
