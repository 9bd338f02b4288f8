/* conv.h - shared code of Conv, ConvInteger, QLinearConv, ConvTranspose and DeformConv: attributes, window geometry,
 * and convolution as a matrix multiplication.
 *
 * The multiplication of one image and group is Y[m, j] = sum over k of W[m, k] * X'[k, j], where m is an output
 * channel, j an output position (d, h, w), and k a channel and a tap of the window. X' is never stored as a whole.
 * Instead the input is *staged*: it is copied once into a buffer that includes the padding, with element types
 * converted and each row split into the `stride` interleaved sets of columns that taps step through. In this buffer,
 * the elements that consecutive outputs of a row read at one tap are adjacent, so packing a panel of X' copies short
 * runs. A 1x1 window with stride 1 reads the input directly. */
#ifndef CONV_H
#define CONV_H
#include "inlay/kit_table.h"
#include "operators/gemm.h"

enum { CONV_MAX_SPATIAL = 3 };
enum { CONV_PAD_EXPLICIT = 0, CONV_PAD_SAME_UPPER = 1, CONV_PAD_SAME_LOWER = 2, CONV_PAD_VALID = 3 };

/* Attributes of the node; counts are -1 if absent. */
typedef struct conv_attrs {
    uint32_t auto_pad; /* CONV_PAD_* */
    int64_t group;
    int64_t kernel[CONV_MAX_SPATIAL], strides[CONV_MAX_SPATIAL], dilations[CONV_MAX_SPATIAL];
    int64_t pads[2 * CONV_MAX_SPATIAL];
    int32_t kernel_count, strides_count, dilations_count, pads_count;
} conv_attrs;

/* A convolution at concrete shapes, always with three spatial dims; missing leading ones are 1. */
typedef struct conv_geometry {
    int64_t images, group;
    int64_t channels, filters; /* of all groups together */
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3];
    int64_t begin[3];                /* padding before the first element; may be negative */
    int64_t taps;                    /* kernel[0] * kernel[1] * kernel[2] */
    int64_t positions, in_positions; /* products of out and in */
} conv_geometry;

INLAY_NODISCARD inlay_status conv_read_attrs(const kit_node *node, conv_attrs *out, inlay_diag *diag);
/* Computes the geometry for X [N, C, spatial...] and W [M, C / group, spatial...]. */
INLAY_NODISCARD inlay_status conv_resolve(const conv_attrs *attrs, const kit_tensor *input, const kit_tensor *weights,
                                          conv_geometry *out, inlay_diag *diag);
/* Fails unless output has the shape of the convolution. */
INLAY_NODISCARD inlay_status conv_check_output(const conv_geometry *geometry, const kit_tensor *output,
                                               inlay_diag *diag);
void conv_cost(const conv_geometry *geometry, const kit_plan *shapes, struct inlay_cost *cost);
/* kit_kernel.supports of all convolutions: at most three spatial dims, if the rank is known. */
bool conv_supports(const kit_node *node, kit_refusal *why);

/* The layout and the conversion of staged channels. */
typedef struct conv_stage {
    inlay_dtype dtype; /* of the input */
    uint32_t bytes;    /* size of a staged element: float (4), double (8), int16_t (2) */
    int32_t zero;      /* int8, uint8: the zero point to subtract */
    int64_t padded[3]; /* planes and rows of a padded channel; [2] is the columns of one set */
    int64_t row;       /* elements per staged row: stride[2] sets of padded[2] */
    int64_t channel;   /* elements per staged channel */
    /* listed[i]: the stride or the padding of dim i is far larger than its taps need. The dim is then staged as a list:
     * for each output, the elements of its taps. The geometry gets stride `kernel` and dilation 1, and the original
     * values are stored here. */
    bool listed[3];
    int64_t stride[3], dilation[3], begin[3];
} conv_stage;

/* Initializes the stage, and changes the geometry of listed dims. false: a channel has too many elements. */
INLAY_NODISCARD bool conv_stage_init(conv_stage *stage, conv_geometry *geometry, inlay_dtype dtype, uint32_t bytes);
/* Stages the channel that starts at input[first]. out: stage->channel elements. */
void conv_stage_channel(const conv_stage *stage, const conv_geometry *geometry, const void *input, int64_t first,
                        void *out);
/* Offset in a staged channel of the element that output 0 reads at a tap. */
int64_t conv_tap_offset(const conv_stage *stage, const conv_geometry *geometry, int64_t tap);

typedef struct conv_plan {
    conv_geometry geometry;
    conv_stage stage;
    gemm_job job; /* the batch of the job is `chunk` images of all groups */
    bool direct;  /* 1x1 window: the input is the matrix */
    /* One input channel per group: windows slide over a staged channel, without a matrix multiplication. */
    bool depthwise;
    int64_t chunk;         /* images that are staged together */
    uint64_t stage_bytes;  /* workspace bytes before those of the job */
    uint64_t thread_bytes; /* depthwise: workspace per thread */
    /* The two arrays are part of the allocation of the plan. */
    int64_t *offset; /* [k] staged element that output 0 reads, relative to the group's first channel */
    int64_t *which;  /* [batch] group */
} conv_plan;

/* Creates the plan. weights: the A operand, packed or strided. in_workspace: sums stay in the workspace, and the caller
 * stores them; otherwise they are stored as out_dtype. */
INLAY_NODISCARD inlay_status conv_plan_create(const conv_geometry *geometry, const gemm_kernel *kernel,
                                              const gemm_operand *weights, inlay_dtype in_dtype, inlay_dtype out_dtype,
                                              bool in_workspace, uint32_t threads, conv_plan **out_plan,
                                              uint64_t *out_workspace, inlay_diag *diag);
/* Packs constant weights [M, C / group, window...] of input `input` into *operand, and drops the constant. Leaves
 * *operand unchanged if they are not constant. */
INLAY_NODISCARD inlay_status conv_pack_weights(const kit_node *node, uint32_t input, const conv_attrs *attrs,
                                               const gemm_kernel *kernel, gemm_operand *operand, kit_pack *out_pack,
                                               inlay_diag *diag);

/* A run: the plan with the pointers of this run. The batch of a tile that hooks get is image * group + g, where images
 * count from first_image and g is the index of the group. */
typedef struct conv_run {
    const kit_call *call;
    const conv_plan *plan;
    gemm_job job; /* copy of plan->job with a.data and the hooks set */
    const void *input;
    const void *bias; /* optional, [M] of the input's float type */
    inlay_dtype bias_dtype;
    int64_t first_image; /* of the current chunk */
    int32_t zero;        /* integers: zero point of the input */
    void *output;
    inlay_dtype y_dtype;
    bool caller_stores; /* the caller sets job.finish, and sums are not stored to output automatically */
} conv_run;
INLAY_NODISCARD inlay_status conv_execute(conv_run *run);

/* Depthwise convolution of floats. Weights and bias have the layout of their tensors. */
INLAY_NODISCARD inlay_status conv_execute_depthwise(conv_run *run, const void *weights);

/* The output channel of row 0 of a tile. */
static inline int64_t conv_first_filter(const conv_run *run, const gemm_tile *tile)
{
    return tile->batch % run->plan->geometry.group * run->plan->job.m;
}
#endif
