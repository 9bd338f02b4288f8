/* quantize/qoperator.h - QOperator format: turns QuantizeLinear and DequantizeLinear around convolutions and matrix
 * multiplications into QLinearConv and QLinearMatMul, for runtimes that support no other form. */
#ifndef QUANTIZE_QOPERATOR_H
#define QUANTIZE_QOPERATOR_H
#include "graph/graph.h"

/* Rewrites each Conv and MatMul of the main graph that reads quantized values and whose output is read as quantized
 * value only; all other nodes stay. *out_count: number of rewritten nodes. */
INLAY_NODISCARD inlay_status qoperator_model(graph_model *model, uint32_t *out_count, inlay_diag *diag);
#endif
