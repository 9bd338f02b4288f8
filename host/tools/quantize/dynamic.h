/* quantize/dynamic.h - dynamic quantization: matrix multiplications whose activations become uint8 in each run, by the
 * range they have in that run. */
#ifndef QUANTIZE_DYNAMIC_H
#define QUANTIZE_DYNAMIC_H
#include "quantize/low_bit.h"

enum { DYNAMIC_OPSET = 11 }; /* the first opset with DynamicQuantizeLinear */

/* Rewrites MatMul and Gemm of the main graph with a constant matrix as DynamicQuantizeLinear, MatMulInteger and the
 * scaling of its sums; forms is [list->count]. One range applies to a whole tensor, so a single large row costs all
 * others precision. */
INLAY_NODISCARD inlay_status dynamic_model(graph_model *model, const layer_list *list, layer_form *forms,
                                           inlay_diag *diag);
#endif
