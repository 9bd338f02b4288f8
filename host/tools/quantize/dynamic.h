/* quantize/dynamic.h - products whose activations become bytes in each run, by the range that they have then. */
#ifndef QUANTIZE_DYNAMIC_H
#define QUANTIZE_DYNAMIC_H
#include "quantize/narrow.h"

enum { DYNAMIC_OPSET = 11 }; /* the first with DynamicQuantizeLinear */

/* MatMul and Gemm of the main graph by matrices become DynamicQuantizeLinear, MatMulInteger and what scales its sums;
 * forms is [list->count]. One range holds for a whole tensor: a single large row takes the digits of all others. */
INLAY_NODISCARD inlay_status dynamic_model(graph_model *model, const layer_list *list, layer_form *forms,
                                           inlay_diag *diag);
#endif
