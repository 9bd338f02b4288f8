/* quantize/refine.h - refines 4-bit codes after compensated rounding, by coordinate descent: one weight or scale after
 * another gets its best value while all others are fixed. */
#ifndef QUANTIZE_REFINE_H
#define QUANTIZE_REFINE_H
#include "quantize/weights.h"

/* The full symmetric matrix of second moments in the order of rounding, [depth, depth], with the damping on its
 * diagonal. */
void refine_moments(const weight_inputs *in, int64_t depth, float *out);

/* Refines codes and scales of rows first .. first + count, at most WEIGHTS_TOGETHER; the output error never grows.
 * moments comes from refine_moments(), scratch is [WEIGHTS_TOGETHER, 2 * depth + WEIGHTS_MOST_BLOCK]. Returns the sum
 * of the mean squared output errors of these rows. */
double refine_nibbles(const weight_rows *rows, const weight_inputs *in, const float *moments, int64_t first,
                      int64_t count, uint8_t *codes, float *scales, const uint8_t *zeros, float *scratch);
#endif
