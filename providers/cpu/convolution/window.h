/* window.h - attributes of windows. */
#ifndef CPU_WINDOW_H
#define CPU_WINDOW_H
#include "region/region.h"

/* Reads strides, dilations, pads, auto_pad and output_padding for a window of `spatial` axes. */
bool cpu_parse_window(const kit_node *node, uint32_t spatial, cpu_op *op, kit_refusal *why);

/* Lowers the maximum over windows of input to a loop (pool_max.c); all of [spatial], dilations counted from 0 as
 * oneDNN's are. *out_done: it was one, and *out is the result's place. */
inlay_status cpu_lower_max(cpu_build *build, const cpu_place *input, const int64_t *out_dims, const int64_t *kernel,
                           const int64_t *strides, const int64_t *dilations, const int64_t *begins, uint32_t result,
                           cpu_place *out, bool *out_done);

/* The same of the mean over all of each image (pool_mean.c). */
inlay_status cpu_lower_mean(cpu_build *build, const cpu_place *input, uint32_t result, cpu_place *out, bool *out_done);

/* The maximum or mean over windows of input, which lies row by row (pool_rows.c), by the op that is built. */
inlay_status cpu_lower_rows(cpu_build *build, const cpu_place *input, const int64_t *out_dims, const int64_t *kernel,
                            const int64_t *strides, const int64_t *dilations, const int64_t *begins, uint32_t result,
                            cpu_place *out, bool *out_done);

/* The same where the only window is all of an image that has pixels. */
inlay_status cpu_lower_planes(cpu_build *build, const cpu_place *input, uint32_t result, cpu_place *out);

/* ------------------------------------------------------------------ transposed convolutions */

/* Pads at these sizes, [spatial], as ONNX ConvTranspose-11 has them: stated, or what is left of the output's shape.
 * ends may be negative: the output then goes on behind the last window (transposed.c). */
void cpu_deconvolution_pads(const cpu_op *op, const int64_t *in, const int64_t *out, int64_t *begins, int64_t *ends);
/* Attributes and weights, and the lowering to oneDNN's own primitive (conv.c). */
bool cpu_parse_deconvolution(const kit_node *node, cpu_op *op, kit_refusal *why);
inlay_status cpu_lower_deconvolution(cpu_build *build, const cpu_group *group);
#endif
