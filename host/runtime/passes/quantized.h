/* passes/quantized.h - helpers for passes that match DequantizeLinear and QuantizeLinear. */
#ifndef PASSES_QUANTIZED_H
#define PASSES_QUANTIZED_H
#include "passes/rewrite.h"

/* The parameters of a DequantizeLinear or QuantizeLinear: one scale for all elements, or one scale for each index of an
 * axis. */
struct quant {
    uint32_t value;       /* the 8-bit value */
    uint32_t scale, zero; /* values of the graph; zero may be INLAY_NONE */
    inlay_dtype dtype;
    int64_t count; /* number of scales */
    int64_t axis;  /* valid if count > 1 */
};

/* Reads the scale and zero point of node for integers of type dtype. Returns false unless they are constant and scales
 * > 0. */
bool quant_read_scales(const struct rewrite *rewrite, const graph_node *node, inlay_dtype dtype, struct quant *quant);
/* Returns true if `value` is produced by an 8-bit DequantizeLinear. */
bool quant_read(const struct rewrite *rewrite, uint32_t value, struct quant *quant);
/* The scale and the zero point of index i of the axis; with a single scale, they are the same for every i. */
double quant_scale(const struct rewrite *rewrite, const struct quant *quant, int64_t i);
int64_t quant_zero(const struct rewrite *rewrite, const struct quant *quant, int64_t i);
/* The largest number that can be added to a filter's sum of products without an overflow of int32, for constant weights
 * [filters, ..] and products of at most `most`. Negative: the sum itself may not fit, or there are no filters. */
int64_t quant_room(const struct rewrite *rewrite, const struct quant *weights, int64_t most);
/* Adds a scalar constant of an 8-bit type. INLAY_NONE: out of memory. */
uint32_t quant_byte(struct rewrite *rewrite, inlay_dtype dtype, int64_t value);
/* Returns the zero point; creates a scalar 0 if it is missing. */
uint32_t quant_zero_value(struct rewrite *rewrite, const struct quant *quant);
/* A constant [filters, 1, ..] that broadcasts over [N, filters, ..] of rank `rank`. INLAY_NONE: out of memory. */
uint32_t quant_along_filters(struct rewrite *rewrite, uint32_t rank, int64_t filters, const float *values);
/* Returns true if a provider with fast integers would run `new_node`, whose output has type dtype and the shape of
 * `like`. Also true if there is no such provider: then the user requested this pass by name. */
bool quant_is_offered(const struct rewrite *rewrite, graph_node *new_node, uint32_t like, inlay_dtype dtype);
/* Appends Cast -> Mul to `product`, which computes the product as floats times `scale`. `product` is an integer matrix
 * multiplication in the graph that replaces the multiplication of `node`. If `last`, the Mul replaces node; otherwise
 * *out receives its output. */
INLAY_NODISCARD inlay_status quant_scale_product(struct rewrite *rewrite, graph_node *node, const graph_node *product,
                                                 uint32_t scale, bool last, uint32_t *out);
/* Reads the bias of a convolution as a number and a factor for each filter. It is a float constant (factor 1) or the
 * DequantizeLinear of an int32 constant. Returns false for anything else. */
bool quant_bias(const struct rewrite *rewrite, uint32_t value, int64_t filters, double *out, double *out_factor);

/* Rewrites a Conv of dequantized 8-bit values whose result stays float (quantized_convs.c). */
inlay_status quantized_conv(struct rewrite *rewrite, graph_node *node);
#endif
