/* passes/conv_scale.h - folds a scale and a shift per output channel into the weights of Conv or ConvTranspose. */
#ifndef PASSES_CONV_SCALE_H
#define PASSES_CONV_SCALE_H
#include "passes/rewrite.h"

/* Returns the Conv or ConvTranspose (float, constant weights, constant or no bias) that produces `value`, if value has
 * a single reader; otherwise NULL. *out_channels receives its number of output channels. */
graph_node *conv_to_scale(const struct rewrite *rewrite, uint32_t value, int64_t *out_channels);
/* Replaces `last`, the reader of conv's output, by a convolution that computes conv * scale[c] + shift[c]. scale and
 * shift: [channels]; scale NULL means 1. */
INLAY_NODISCARD inlay_status conv_scale(struct rewrite *rewrite, graph_node *conv, graph_node *last, int64_t channels,
                                        const double *scale, const double *shift);
#endif
