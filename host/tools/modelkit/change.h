/* modelkit/change.h - small changes of a model as it stands in its file: metadata, names, sizes. All memory is the
 * model's; nothing has to be bound or inferred. */
#ifndef MODELKIT_CHANGE_H
#define MODELKIT_CHANGE_H
#include "graph/graph.h"

/* Sets an entry of metadata_props; value NULL removes it, and fails where there is none. */
INLAY_NODISCARD inlay_status change_metadata(graph_model *model, const char *key, const char *value, inlay_diag *diag);
/* Is a value of the graph, or of a body in it, called so? What a body captures has the name of the outer value. */
bool change_has_name(const struct graph *graph, const char *name);
/* Renames an input or an output of the main graph. No other value, in bodies neither, may have the new name. */
INLAY_NODISCARD inlay_status change_input_name(graph_model *model, const char *from, const char *to, inlay_diag *diag);
INLAY_NODISCARD inlay_status change_output_name(graph_model *model, const char *from, const char *to, inlay_diag *diag);
/* Fixes a dimension, wherever it is declared: its name, or INPUT:AXIS of an input (AXIS may be negative). */
INLAY_NODISCARD inlay_status change_dim(graph_model *model, const char *name, int64_t size, inlay_diag *diag);
/* Makes an input of one number, whose type and shape are declared, a constant. */
INLAY_NODISCARD inlay_status change_constant(graph_model *model, const char *input, const char *value,
                                             inlay_diag *diag);
#endif
