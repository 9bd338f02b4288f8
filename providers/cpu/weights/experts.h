/* experts.h - the weights of MoE and QMoE of com.microsoft: up to three layers of matrices [experts, rows, columns], of
 * floats or of n-bit codes. The lowering is in product/lower_experts.c.
 *
 * The codes of a layer are packed as one matrix of n-bit weights (nbits.h) with experts * rows columns. An expert's
 * rows fill whole panels, so that its panels are contiguous. */
#ifndef CPU_EXPERTS_H
#define CPU_EXPERTS_H
#include "cpu/weights/nbits_weights.h"

enum { EXPERTS_FIRST, EXPERTS_SECOND, EXPERTS_GATE }; /* cpu_op.experts; the gate is parallel to the first layer */
enum { EXPERTS_RELU, EXPERTS_GELU, EXPERTS_SILU, EXPERTS_IDENTITY, EXPERTS_SWIGLU };
enum { EXPERTS_INPUT = 0, EXPERTS_PROBABILITIES = 1, EXPERTS_ROUTER_WEIGHTS = 14 };

typedef struct experts_layer {
    uint32_t weights, bias; /* values of the region; INLAY_NONE: the op has no such layer, or no bias */
    int64_t rows, columns;  /* of an expert's matrix */
    cpu_nbits nbits;        /* QMoE */
} experts_layer;

/* Reads a MoE or QMoE (cpu_family.parse). */
bool experts_parse(const kit_node *node, cpu_op *op, kit_refusal *why);
/* Finds the layers of an op whose zero points are all equal. Called once, while the original constants exist. */
void experts_bind(const inlay_compiled *compiled, cpu_op *op);
void experts_layer_of(const inlay_compiled *compiled, const cpu_op *op, int layer, experts_layer *out);
#endif
