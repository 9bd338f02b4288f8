/* bytes.h - convolutions and products of bytes by loops of our own (kernels/byte_set.h): tiles (quant_tiles.c, rows of
 * products (quant_rows.c) and windows of single channels (quant_depthwise.c). */
#ifndef ONEDNN_BYTES_H
#define ONEDNN_BYTES_H
#include "byte_set.h"
#include "kernels.h"
#include "quantize.h"

/* Can these loops run a convolution of constant weights, told by its parser? Sets why not. */
bool bytes_offers_conv(const kit_node *node, const rg_op *op, kit_refusal *why);
/* The QLinearConv in hand by loops of our own; *out_done = false, and nothing was emitted: there are none for it. */
inlay_status bytes_lower_conv(rg_build *b, const rg_group *group, bool *out_done);

/* Products of bytes into int32 by loops of our own (quant_rows.c): whether they can run this one, whether they run all,
 * and one of rows `a` by the constant of w (int8 from now on). */
bool bytes_offer_product(const kit_node *node, uint32_t matrix, kit_refusal *why);
bool bytes_run_products(const rg_state *state);
inlay_status bytes_emit_product(rg_build *b, const rg_place *a, uint32_t weights, int64_t m, int64_t k, int64_t n,
                                rg_place *out);

/* ------------------------------------------------------------------ between the two kinds */

/* A convolution of bytes as it is lowered. */
typedef struct bytes_case {
    kn_window w;
    rg_md weights;        /* as oneDNN numbers the axes of the original, int8 */
    rg_place x;
    uint8_t border;       /* what lies around the image, as it is stored */
    int32_t x_zero;       /* of x as an unsigned byte */
    const rg_group *group;
} bytes_case;

/* What an ending has for one channel. sum: of the weights of its filter. */
inlay_status bytes_end_channel(rg_build *b, const bytes_case *c, int64_t channel, int32_t sum, int32_t *out_first,
                               float *out_scale);
/* The rest of an ending: zero point, bounds, sign. */
void bytes_end(const rg_build *b, const bytes_case *c, byte_ending *out);
/* Single channels (quant_depthwise.c). */
bool bytes_depthwise_runs(const byte_set *set, const kn_window *w);
inlay_status bytes_lower_depthwise(rg_build *b, const bytes_case *c);
/* The layout of weights of one group for tiles: panels of channels (the last may have fewer vectors) by taps of a window
 * of channels in fours, each [lines * lanes][4], or where inputs are widened [2][lines * lanes][2]; then the sum of each
 * filter. Six axes, which no weights have, tell it from others, the fourth which loops read it. false: too large. */
bool bytes_tiles_layout(const byte_set *set, const rg_md *weights, rg_md *md);
const int32_t *bytes_tiles_sums(const byte_set *set, const rg_md *md, const void *packed, int64_t channels);
/* Is md a layout of weights that these convolutions read? Then they are made here from an original that lies as `plain`
 * says, sums of filters behind them. */
bool bytes_pack_tiles(const rg_md *plain, const void *source, const rg_md *md, void *target);
bool bytes_pack_depthwise(const rg_md *plain, const void *source, const rg_md *md, void *target);
#endif
