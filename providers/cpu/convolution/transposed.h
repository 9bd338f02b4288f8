/* transposed.h - transposed convolutions: parsing and pads (conv.c), and the epilogue that all kernels share. */
#ifndef CPU_TRANSPOSED_H
#define CPU_TRANSPOSED_H
#include "cpu/region/build.h"

/* Computes the pads for input sizes `in` and output sizes `out`, [spatial], as in ONNX ConvTranspose-11: from the
 * attribute, or computed from the output's shape. ends may be negative: the output then extends past the last window
 * (transposed.c). */
void cpu_deconvolution_pads(const cpu_op *op, const int64_t *in, const int64_t *out, int64_t *begins, int64_t *ends);
/* Parses the attributes and weights that Conv and ConvTranspose share; false: refused. */
bool cpu_parse_window_op(const kit_node *node, cpu_op *op, kit_refusal *why);
/* Lowers the group as a convolution by a kernel of kernel_table. weights: the original's layout, as [out][in of a
 * group][taps], with an axis for groups in front if there are several. */
inlay_status cpu_lower_conv(cpu_build *build, const cpu_group *group, const tensor_layout *weights);
/* Fails if the weights of the op being lowered are not a constant of this region: a DequantizeLinear of constants may
 * be in another region. */
inlay_status cpu_check_weights(const cpu_build *build);

enum { TRANSPOSED_MAX_POSTS = 4 };

/* The epilogue, applied row by row while a row is in the cache. */
typedef struct transposed_epilogue {
    bool relu; /* applied first, with this slope */
    float slope;
    cpu_unary posts[TRANSPOSED_MAX_POSTS];
    uint32_t post_count;
} transposed_epilogue;

/* Moves post-ops from the group into the epilogue; returns their number. */
uint32_t transposed_fuse_posts(const cpu_group *group, transposed_epilogue *out);
/* kernel: NULL if this CPU has none. */
void transposed_apply_epilogue(const transposed_epilogue *epilogue, const struct sgemm_kernel *kernel, float *output,
                               int64_t n);

/* Kernels that are a multiple of the stride, as one convolution for each residue modulo the stride
 * (transposed_phases.c). *out_done is false, and nothing was emitted, for others. */
inlay_status transposed_lower_phases(cpu_build *build, const cpu_group *group, bool *out_done);
/* Row-major images (transposed_planes.c). *out_done is false, and nothing was emitted, for other layouts. */
inlay_status transposed_lower_planes(cpu_build *build, const cpu_group *group, bool *out_done);
#endif
