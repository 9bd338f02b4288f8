/* passes/contributed.h - functions that decompose operators of ONNX Runtime (com.microsoft) into operators of ONNX.
 * Each function inspects the node. If the node cannot be decomposed, the function adds no nodes (last stays NULL) and
 * states the reason (builder_refuse). */
#ifndef PASSES_CONTRIBUTED_H
#define PASSES_CONTRIBUTED_H
#include "passes/subgraph_builder.h"

#define CONTRIBUTED(name, function) void function(subgraph_builder *builder);
#include "passes/contributed.def"
#undef CONTRIBUTED

/* Returns true if pass `contributed` decomposes nodes of that operator. */
bool contributed_has(const char *domain, const char *op_type);
/* decompose_attention() for an Attention of ai.onnx with past keys and values (attention_past.c). */
void decompose_attention_past(subgraph_builder *builder);
/* Applies the activation `name` of FusedConv and FusedGemm to `input`. params holds its alpha, beta and gamma (for Clip
 * the lower and the upper bound); NaN stands for the default. */
uint32_t contributed_activation(subgraph_builder *builder, const char *name, uint32_t input, const double params[3]);
/* Integer matrix multiplication of a and w, multiplied by both scales, plus a bias. Zero points and bias may be
 * INLAY_NONE. */
uint32_t contributed_scaled_mat_mul(subgraph_builder *builder, uint32_t a, uint32_t w, uint32_t a_zero, uint32_t w_zero,
                                    uint32_t a_scale, uint32_t w_scale, uint32_t bias);
#endif
