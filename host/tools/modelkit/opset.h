/* modelkit/opset.h - converts a model to another opset of ai.onnx. */
#ifndef MODELKIT_OPSET_H
#define MODELKIT_OPSET_H
#include "graph/graph.h"

/* Raises the model to that opset of ai.onnx; no-op if it imports a later one. Attributes that became inputs become
 * constants; where the default of an attribute changed, the old default is written out. The model must be bound, with
 * functions inlined; changed nodes are no longer bound. INLAY_UNSUPPORTED names a node whose meaning the opset cannot
 * express. */
INLAY_NODISCARD inlay_status opset_raise(graph_model *model, int64_t opset, inlay_diag *diag);
/* Converts the model to any opset from 7 on, later or earlier: inputs of later forms become attributes, and operators
 * that the opset lacks are expanded into several that it has. */
INLAY_NODISCARD inlay_status opset_convert(graph_model *model, int64_t opset, inlay_diag *diag);
enum { OPSET_LOWEST = 7 };
#endif
