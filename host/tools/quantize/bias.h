/* quantize/bias.h - bias correction: rounding the weights of a layer shifts the mean of its outputs; the bias is
 * changed by the opposite amount (Nagel and others, "Data-free quantization through weight equalization and bias
 * correction"). */
#ifndef QUANTIZE_BIAS_H
#define QUANTIZE_BIAS_H
#include "quantize/low_bit.h"

/* The corrected bias of a layer whose weights became int8, [layer_channels()]: the old bias plus (weights - codes *
 * scales) times the means of the layer's input, [channels]. NULL: the layer has no bias or place for one, or out of
 * memory (editor->failed). */
const float *bias_corrected(struct editor *editor, const struct layer *layer, const float *weights,
                            const int8_weights *bytes, const double *means, int64_t channels);
/* Stores the bias: as third input of Conv and Gemm, or as the constant of the Add after MatMul. */
void bias_store(struct editor *editor, const struct layer *layer, const float *bias);

/* Computes the change of the bias only; out is [layer_channels()]. False: the number of means does not fit the weights.
 */
bool bias_correction(const struct layer *layer, const float *weights, const int8_weights *bytes, const double *means,
                     int64_t channels, double *out);
#endif
