/* quantize/refine.h - codes of 4 bits once more, after the compensated rounding: each weight and each scale in turn
 * becomes what is best while all others stay. */
#ifndef QUANTIZE_REFINE_H
#define QUANTIZE_REFINE_H
#include "quantize/weights.h"

/* The whole matrix of second moments in the order of rounding, [depth, depth], with what was added to the diagonal. */
void refine_moments(const weight_inputs *in, int64_t depth, float *out);

/* Changes codes and scales of rows first .. first + count (at most WEIGHTS_TOGETHER); the error of what these rows make
 * never grows. moments is what refine_moments() makes, scratch [WEIGHTS_TOGETHER, 2 * depth + WEIGHTS_MOST_BLOCK].
 * Returns the mean square that the outputs of these rows together are off. */
double refine_nibbles(const weight_rows *rows, const weight_inputs *in, const float *moments, int64_t first,
                      int64_t count, uint8_t *codes, float *scales, const uint8_t *zeros, float *scratch);
#endif
