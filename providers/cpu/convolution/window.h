/* window.h - attributes of kernel windows, and lowerings of pooling. */
#ifndef CPU_WINDOW_H
#define CPU_WINDOW_H
#include "region/region.h"

/* Reads strides, dilations, pads, auto_pad and output_padding for a kernel of `spatial` axes. */
bool cpu_parse_window(const kit_node *node, uint32_t spatial, cpu_op *op, kit_refusal *why);

/* Lowers max pooling of input to a built-in loop (pool_max.c). Arrays have [spatial] elements; dilations count from
 * 0, as in oneDNN. *out_done: the loop supports it, and *out is the result's placement. */
inlay_status cpu_lower_max(cpu_build *build, const cpu_place *input, const int64_t *out_dims, const int64_t *kernel,
                           const int64_t *strides, const int64_t *dilations, const int64_t *begins, uint32_t result,
                           cpu_place *out, bool *out_done);

/* Lowers global average pooling (pool_mean.c). */
inlay_status cpu_lower_mean(cpu_build *build, const cpu_place *input, uint32_t result, cpu_place *out, bool *out_done);

/* Lowers max or average pooling of a row-major input (pool_rows.c) for build->op. */
inlay_status cpu_lower_rows(cpu_build *build, const cpu_place *input, const int64_t *out_dims, const int64_t *kernel,
                            const int64_t *strides, const int64_t *dilations, const int64_t *begins, uint32_t result,
                            cpu_place *out, bool *out_done);

/* Lowers global pooling of a row-major image that is not empty. */
inlay_status cpu_lower_planes(cpu_build *build, const cpu_place *input, uint32_t result, cpu_place *out);

/* ------------------------------------------------------------------ transposed convolutions */

/* Computes the pads for input sizes `in` and output sizes `out`, [spatial], as in ONNX ConvTranspose-11: from the
 * attribute, or computed from the output's shape. ends may be negative: the output then extends past the last window
 * (transposed.c). */
void cpu_deconvolution_pads(const cpu_op *op, const int64_t *in, const int64_t *out, int64_t *begins, int64_t *ends);
/* Parses the attributes and weights of ConvTranspose, and lowers it to oneDNN's primitive (conv.c). */
bool cpu_parse_deconvolution(const kit_node *node, cpu_op *op, kit_refusal *why);
inlay_status cpu_lower_deconvolution(cpu_build *build, const cpu_group *group);
#endif
