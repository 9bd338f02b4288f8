/* quantize/bias.h - what rounding the weights of a layer takes from the mean of its outputs, given back to its bias
 * (Nagel and others, "Data-free quantization through weight equalization and bias correction"). */
#ifndef QUANTIZE_BIAS_H
#define QUANTIZE_BIAS_H
#include "quantize/narrow.h"

/* The bias of a layer whose weights have become bytes, [layer_channels()]: what it has, and (weights - bytes * scales)
 * times the means of what it reads. means: [channels] of the layer's input. NULL: the layer has no place for it, or no
 * memory (editor->failed). */
const float *bias_made_good(struct editor *editor, const struct layer *layer, const float *weights,
                            const narrowed_bytes *bytes, const double *means, int64_t channels);
/* Writes it: the third input of Conv and Gemm, or the constant of the Add behind MatMul. */
void bias_store(struct editor *editor, const struct layer *layer, const float *bias);

/* Arithmetic alone: out is [layer_channels()]. False: means are those of another number of channels. */
bool bias_lost(const struct layer *layer, const float *weights, const narrowed_bytes *bytes, const double *means,
               int64_t channels, double *out);
#endif
