/* passes/conv_scale.h - a factor and an offset per output channel, moved into the weights of Conv or ConvTranspose. */
#ifndef PASSES_CONV_SCALE_H
#define PASSES_CONV_SCALE_H
#include "passes/rewrite.h"

/* The Conv or ConvTranspose (float, constant weights, constant or no bias) that alone makes v for its only reader; NULL
 * if there is none. *out_channels: of its output. */
graph_node *conv_to_scale(const struct rewrite *rewrite, uint32_t v, int64_t *out_channels);
/* Replaces `last`, the reader of conv's output, by a convolution whose output is conv's * scale[c] + shift[c]. scale
 * and shift: [channels]; scale NULL = 1. */
INLAY_NODISCARD inlay_status conv_scale(struct rewrite *rewrite, graph_node *conv, graph_node *last, int64_t channels,
                                        const double *scale, const double *shift);
#endif
