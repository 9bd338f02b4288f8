/* passes/quantized.h - DequantizeLinear and QuantizeLinear, as passes read them. */
#ifndef PASSES_QUANTIZED_H
#define PASSES_QUANTIZED_H
#include "passes/rewrite.h"

/* One side of DequantizeLinear or QuantizeLinear, one number for each index of an axis or one for all. */
struct quant {
    uint32_t value;       /* of 8 bits */
    uint32_t scale, zero; /* values of the model; zero may be INLAY_NONE */
    inlay_dtype dtype;
    int64_t count; /* of scales */
    int64_t axis;  /* where count > 1 */
};

/* The scale and zero point of node, in which the integers have type dtype: constants, and scales above 0. */
bool quant_read_scales(const struct rewrite *rewrite, const graph_node *node, inlay_dtype dtype, struct quant *quant);
/* v is DequantizeLinear of 8 bits. */
bool quant_read(const struct rewrite *rewrite, uint32_t v, struct quant *quant);
double quant_scale(const struct rewrite *rewrite, const struct quant *quant, int64_t i);
int64_t quant_zero(const struct rewrite *rewrite, const struct quant *quant, int64_t i);
/* Elements of a value whose dims are known. */
int64_t quant_count(const inlay_value_info *value);
/* A scalar constant; INLAY_NONE: no memory. */
uint32_t quant_byte(struct rewrite *rewrite, inlay_dtype dtype, int64_t value);
/* The zero point, made if there is none: a scalar 0. */
uint32_t quant_zero_value(struct rewrite *rewrite, const struct quant *quant);
/* Is there a provider with fast integers that would run the node, which makes dtype where the model has a value like
 * `like`? When nobody has any, somebody asked for this pass by name, and gets it. */
bool quant_is_offered(const struct rewrite *rewrite, graph_node *fresh, uint32_t like, inlay_dtype dtype);
/* Cast -> Mul behind a product of n's integers that is in the graph: its floats times `scale`. They replace node if
 * they are the `last` nodes; otherwise *out is their value. */
INLAY_NODISCARD inlay_status quant_scale_product(struct rewrite *rewrite, graph_node *node, const graph_node *product,
                                                 uint32_t scale, bool last, uint32_t *out);
/* The bias of a convolution, for each of the filters a number and a factor: a float constant (the factor is 1), or
 * DequantizeLinear of an int32 constant. false: it is neither. */
bool quant_bias(const struct rewrite *rewrite, uint32_t v, int64_t filters, double *out, double *out_factor);

/* Conv of dequantized bytes whose result stays floats (quantized_convs.c). */
inlay_status quantized_conv(struct rewrite *rewrite, graph_node *node);
#endif
