/* quantize/qoperator.h - QuantizeLinear and DequantizeLinear around convolutions and products as QLinearConv and
 * QLinearMatMul, for what reads no other form. */
#ifndef QUANTIZE_QOPERATOR_H
#define QUANTIZE_QOPERATOR_H
#include "graph/graph.h"

/* Rewrites the main graph where a Conv or MatMul reads bytes and what it makes is read as bytes alone; all else stays.
 * *out_count is how many were rewritten. */
INLAY_NODISCARD inlay_status qoperator_model(graph_model *model, uint32_t *out_count, inlay_diag *diag);
#endif
