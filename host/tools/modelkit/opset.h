/* modelkit/opset.h - operators in the form of a later opset. */
#ifndef MODELKIT_OPSET_H
#define MODELKIT_OPSET_H
#include "graph/graph.h"

/* Makes the model import that opset of ai.onnx, or leaves it where it imports a later one. Attributes that became
 * inputs become constants, and where the default of an attribute changed it is stated. The model must be bound, its
 * functions inlined; what is changed is bound no more. INLAY_UNSUPPORTED names a node that means another thing there.
 */
INLAY_NODISCARD inlay_status opset_raise(graph_model *model, int64_t opset, inlay_diag *diag);
/* The same to any opset from 7 on: inputs of later forms become attributes, and operators that the opset does not have
 * become several that it has. */
INLAY_NODISCARD inlay_status opset_convert(graph_model *model, int64_t opset, inlay_diag *diag);
enum { OPSET_LOWEST = 7 };
#endif
