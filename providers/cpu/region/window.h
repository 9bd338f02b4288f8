/* window.h - the kernel windows of convolutions and pooling. */
#ifndef CPU_WINDOW_H
#define CPU_WINDOW_H
#include "cpu/region/build.h"

/* Reads strides, dilations, pads, auto_pad and output_padding for a kernel of `spatial` axes. */
bool cpu_parse_window(const kit_node *node, uint32_t spatial, cpu_op *op, kit_refusal *why);
/* Pads of a window at these sizes, explicit or by auto_pad; `in` and `out` are [spatial]. */
void cpu_window_pads(const cpu_op *op, const int64_t *in, const int64_t *out, const int64_t *kernel, int64_t *begins,
                     int64_t *ends);
/* The layout of the weights of the convolution being lowered: [O, I/g, ..], or [g, O/g, I/g, ..] if g > 1. */
void cpu_window_weights(const cpu_build *build, uint32_t value, tensor_layout *out);
/* The share of a window's taps along one axis that are inside the image, over all outputs; 1 if there is no output.
 * With dilation, most taps may be in the padding. */
double cpu_window_share(int64_t kernel, int64_t dilation, int64_t stride, int64_t begin, int64_t in, int64_t out);
#endif
