/* bytes.h - convolutions and products of bytes by loops of our own (cpu/quantized/byte_set.h): tiles (quant_tiles.c,
 * rows of products (quant_rows.c) and windows of single channels (quant_depthwise.c). */
#ifndef CPU_BYTES_H
#define CPU_BYTES_H
#include "quantized/byte_set.h"
#include "choice/kernels.h"
#include "quantized/quantize.h"
#include "convolution/tiles.h"

/* Can these loops run a convolution of constant weights, told by its parser? Sets why not. */
bool bytes_offers_conv(const kit_node *node, const cpu_op *op, kit_refusal *why);
/* The QLinearConv or ConvInteger in hand by loops of our own; *out_done = false, and nothing was emitted: there are
 * none for it. */
inlay_status bytes_lower_conv(cpu_build *build, const cpu_group *group, bool *out_done);
/* Are there, for such an op; and if its sums become floats, for all that the group has behind it (quant_floats.c)? */
bool bytes_runs_conv(const cpu_build *build, const cpu_op *op);
bool bytes_takes_posts(const cpu_build *build, const cpu_group *group);

/* Products of bytes into int32 by loops of our own (quant_rows.c): whether somebody can run this one, whether these
 * loops run one with sums of k products, and one of rows `a` by the constant of w (int8 from now on). */
bool bytes_offer_product(const kit_node *node, uint32_t matrix, kit_refusal *why);
bool bytes_run_product(const cpu_state *state, int64_t k);
inlay_status bytes_emit_product(cpu_build *build, const cpu_place *place, uint32_t weights, int64_t m, int64_t k,
                                int64_t n, cpu_place *out);

/* ------------------------------------------------------------------ between the two kinds */

enum { BYTES_X, BYTES_W, BYTES_Y, BYTES_OTHERS }; /* arguments of steps; operands of functions from the last on */

/* What follows sums that become floats. */
typedef struct bytes_floats {
    tile_epilogue epilogue; /* functions */
    uint32_t operand_count;
    const tile_set *set;
    const sgemm_kernel *kernel;
    bool quantizes, y_signed;
    float y_scale, y_zero;
} bytes_floats;

/* Is what loops make no result yet? */
static inline bool bytes_has_more(const bytes_floats *floats)
{
    return floats->epilogue.post_count > 0 || floats->quantizes;
}

/* A convolution of bytes as it is lowered. */
typedef struct bytes_case {
    kernel_conv_shape window;
    byte_kind kind;
    uint32_t w_value;    /* the weights */
    memory_desc weights; /* as oneDNN numbers the axes of the original, int8 */
    cpu_place input;
    float *scale, *shift; /* [out] of BYTE_FLOATS */
    bytes_floats floats;
    cpu_place others[CPU_MAX_POSTS];
    uint32_t posts; /* that the step does, of BYTE_FLOATS */
    uint8_t border; /* what lies around the image, as it is stored */
    int32_t x_zero; /* of x as an unsigned byte */
    const cpu_group *group;
} bytes_case;

/* What the endings of all channels are made of; elements lie as in the file. */
typedef struct bytes_ends {
    const char *scales, *biases; /* biases NULL: there are none */
    int64_t scale_step;          /* 0: one for all channels */
    double factor;               /* of each scale */
    const float *scale, *shift;  /* instead of all these, of endings that are floats */
    byte_kind kind;
    uint32_t x_zero;
} bytes_ends;
/* Are all scales of sums below 1? From there on sums might leave the range of int32. */
bool bytes_scales_fit(const cpu_op *op, const char *scales, int64_t count);
inlay_status bytes_ends_of(cpu_build *build, const bytes_case *layer, bytes_ends *out);
/* What an epilogue has for one channel. sum: of the weights of its filter. */
void bytes_end_channel(const bytes_ends *ends, int64_t channel, int32_t sum, int32_t *out_first, float *out_scale,
                       float *out_shift);
/* Reads the posts of layer, scales first; the place of what the step makes; and the step. */
inlay_status bytes_read_posts(cpu_build *build, bytes_case *layer);
inlay_status bytes_result(cpu_build *build, const bytes_case *layer, cpu_place *out);
inlay_status bytes_emit(cpu_build *build, const bytes_case *layer, const cpu_place *weights, const cpu_place *output,
                        cpu_native *native);
/* The functions of rows [pixel, pixel + rows), columns [column, column + columns), on c[rows][columns]; they end in
 * output, with y_pixel elements from one to the next. */
void bytes_finish(const bytes_floats *floats, void *const *args, float *c, int64_t pixel, int64_t rows, int64_t column,
                  int64_t columns, void *output, int64_t y_pixel);
/* The rest of an epilogue: zero point, bounds, sign. */
void bytes_end(const cpu_build *build, const bytes_case *layer, byte_ending *out);
/* layer->x in a copy, channels last in fours, with the border that layer->w tells; layer->w then has the size of the
 * copy (quant_border.c). */
inlay_status bytes_add_border(cpu_build *build, bytes_case *layer);
static inline int64_t bytes_in_fours(int64_t channels)
{
    return (channels + 3) / 4 * 4;
}
/* Single channels (quant_depthwise.c). */
bool bytes_depthwise_runs(const byte_set *set, const kernel_conv_shape *window);
inlay_status bytes_lower_depthwise(cpu_build *build, const bytes_case *layer);
/* The layout of weights of one group for tiles: panels of channels (the last may have fewer vectors) by taps of a
 * window of channels in fours, each [lines * lanes][4], or where inputs are widened [2][lines * lanes][2]; then the sum
 * of each filter. Six axes, which no weights have, tell it from others, the fourth which loops read it. false: too
 * large. */
bool bytes_tiles_layout(const byte_set *set, const memory_desc *weights, memory_desc *md);
const int32_t *bytes_tiles_sums(const byte_set *set, const memory_desc *md, const void *packed, int64_t channels);
/* Is md a layout of weights that these convolutions read? Then they are made here from an original that lies as `plain`
 * says, sums of filters behind them. */
bool bytes_pack_tiles(const memory_desc *plain, const void *source, const memory_desc *md, void *target);
bool bytes_pack_depthwise(const memory_desc *plain, const void *source, const memory_desc *md, void *target);
#endif
