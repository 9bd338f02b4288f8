/* conv.h - what Conv, ConvInteger, QLinearConv, ConvTranspose and DeformConv share: attributes, window arithmetic, and
 * convolution as a matrix product.
 *
 * The product of one image and group is Y[m, j] = sum over k of W[m, k] * X'[k, j]: m an output channel, j an output
 * position (d, h, w), k a channel and a tap of the window. X' is never made whole. Instead the input is *staged*:
 * copied once into a buffer with the padding in place, element type converted, and each row split into the `stride`
 * interleaved sets of columns that taps step through. There, the elements that consecutive outputs of a row meet at one
 * tap are neighbours, so packing a panel of X' is a matter of copying short runs. A 1x1 window with stride 1 reads the
 * input where it lies. */
#ifndef CONV_H
#define CONV_H
#include "gemm.h"

enum { CONV_MAX_SPATIAL = 3 };
enum { CONV_PAD_EXPLICIT = 0, CONV_PAD_SAME_UPPER = 1, CONV_PAD_SAME_LOWER = 2, CONV_PAD_VALID = 3 };

/* Attributes as the node gives them; counts are -1 where absent. */
typedef struct conv_attrs {
    uint32_t auto_pad; /* CONV_PAD_* */
    int64_t group;
    int64_t kernel[CONV_MAX_SPATIAL], strides[CONV_MAX_SPATIAL], dilations[CONV_MAX_SPATIAL];
    int64_t pads[2 * CONV_MAX_SPATIAL];
    int32_t kernel_count, strides_count, dilations_count, pads_count;
} conv_attrs;

/* A convolution at concrete shapes, always with three spatial dims: those that are missing in front are 1. */
typedef struct conv_geometry {
    int64_t images, group;
    int64_t channels, filters; /* in all groups */
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3];
    int64_t begin[3];                /* padding before the first element; may be negative */
    int64_t taps;                    /* kernel[0] * kernel[1] * kernel[2] */
    int64_t positions, in_positions; /* products of out and in */
} conv_geometry;

INLAY_NODISCARD inlay_status conv_read_attrs(const kit_node *node, conv_attrs *out, inlay_diag *diag);
/* Applies the attributes to X [N, C, spatial...] and W [M, C / group, spatial...]. */
INLAY_NODISCARD inlay_status conv_resolve(const conv_attrs *attrs, const kit_tensor *input, const kit_tensor *weights,
                                          conv_geometry *out, inlay_diag *diag);
/* Fails unless output has the convolution's shape. */
INLAY_NODISCARD inlay_status conv_check_output(const conv_geometry *geometry, const kit_tensor *output,
                                               inlay_diag *diag);
void conv_cost(const conv_geometry *geometry, const kit_plan *shapes, inlay_cost *cost);
/* kit_kernel.supports of all: at most three spatial dims, where the rank is known. */
bool conv_supports(const kit_node *node, kit_refusal *why);

/* ------------------------------------------------------------------ staging */

/* How elements enter the staging buffer. */
typedef struct conv_stage {
    inlay_dtype dtype; /* of the input */
    uint32_t bytes;    /* of a staged element: float (4), double (8), int16_t (2) */
    int32_t zero;      /* int8, uint8: zero point to subtract */
    int64_t padded[3]; /* rows and planes of a channel with padding; [2] is the columns of one set */
    int64_t row;       /* elements of a staged row: stride[2] sets of padded[2] */
    int64_t channel;   /* elements of a staged channel */
    /* Dims with gaps or padding far larger than what windows meet have, for each output, what its taps meet one by one:
     * the geometry then has stride `kernel` and dilation 1, and what the input has is here. */
    bool listed[3];
    int64_t stride[3], dilation[3], begin[3];
} conv_stage;

/* Changes the geometry of dims that are listed. false: a channel has more elements than can be counted. */
INLAY_NODISCARD bool conv_stage_init(conv_stage *stage, conv_geometry *geometry, inlay_dtype dtype, uint32_t bytes);
/* Stages the channel whose first element is input[first]. out: stage->channel elements. */
void conv_stage_channel(const conv_stage *stage, const conv_geometry *geometry, const void *input, int64_t first,
                        void *out);
/* Elements from a staged channel's start to what output 0 meets at a tap. */
int64_t conv_tap_offset(const conv_stage *stage, const conv_geometry *geometry, int64_t tap);

/* ------------------------------------------------------------------ convolution as a product */

typedef struct conv_plan {
    conv_geometry geometry;
    conv_stage stage;
    gemm_job job;          /* batch: chunk images of all groups */
    bool direct;           /* 1x1: the input is the matrix */
    bool depthwise;        /* one input channel a group: windows slide over a staged channel, no product */
    int64_t chunk;         /* images staged at a time */
    uint64_t stage_bytes;  /* of the workspace, in front of what the job needs */
    uint64_t thread_bytes; /* depthwise: workspace of a thread */
    int64_t *offset;       /* [k] staged element that output 0 meets, from the group's first channel; in this block */
    int64_t *which;        /* [batch] group; likewise */
} conv_plan;

/* Makes the plan. weights: the A operand, packed or strided; out_dtype decides how sums leave, unless in_workspace. */
INLAY_NODISCARD inlay_status conv_plan_create(const conv_geometry *geometry, const gemm_kernel *kernel,
                                              const gemm_operand *weights, inlay_dtype in_dtype, inlay_dtype out_dtype,
                                              bool in_workspace, uint32_t threads, conv_plan **out_plan,
                                              uint64_t *out_workspace, inlay_diag *diag);
/* Packs constant weights [M, C / group, window...] of input `input` into *operand; leaves it alone when they are not
 * constant. drop: run does not read them. */
INLAY_NODISCARD inlay_status conv_pack_weights(const kit_node *node, uint32_t input, const conv_attrs *attrs,
                                               const gemm_kernel *kernel, gemm_operand *operand, kit_pack *out_pack,
                                               inlay_diag *diag);

/* A run: the plan with this run's pointers. Hooks see tiles whose batch is image * group + g, from first_image on. */
typedef struct conv_run {
    const kit_call *call;
    const conv_plan *plan;
    gemm_job job; /* copy of plan->job with a.data and the hooks set */
    const void *input;
    const void *bias; /* optional, [M] of the input's float type: see conv_fill_bias */
    inlay_dtype bias_dtype;
    int64_t first_image; /* of the chunk in hand */
    int32_t zero;        /* integers: zero point of x */
    void *output;
    inlay_dtype y_dtype;
    bool own_store; /* job.finish is the caller's: sums do not go to y by themselves */
} conv_run;
INLAY_NODISCARD inlay_status conv_execute(conv_run *run);

/* Depthwise convolution of floats: weights and bias as the tensors have them. */
INLAY_NODISCARD inlay_status conv_execute_depthwise(conv_run *run, const void *weights);

/* The output channel of row 0 of a tile. */
static inline int64_t conv_first_filter(const conv_run *run, const gemm_tile *tile)
{
    return tile->batch % run->plan->geometry.group * run->plan->job.m;
}
#endif
