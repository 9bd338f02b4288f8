/* modelkit/change.h - small changes of a model as loaded from its file: metadata, names, sizes. All memory is the
 * model's; the model need not be bound or inferred. */
#ifndef MODELKIT_CHANGE_H
#define MODELKIT_CHANGE_H
#include "graph/graph.h"

/* Sets an entry of metadata_props; value NULL removes it, and fails if the key does not exist. */
INLAY_NODISCARD inlay_status change_metadata(graph_model *model, const char *key, const char *value, inlay_diag *diag);
/* Does the graph, or a body in it, have a value of that name? Values that a body captures have the name of the outer
 * value. */
bool change_has_name(const struct graph *graph, const char *name);
/* Renames an input or an output of the main graph. The new name must not exist, in bodies either. */
INLAY_NODISCARD inlay_status change_input_name(graph_model *model, const char *from, const char *to, inlay_diag *diag);
INLAY_NODISCARD inlay_status change_output_name(graph_model *model, const char *from, const char *to, inlay_diag *diag);
/* Fixes a dimension wherever it is declared. name is its symbol, or INPUT:AXIS of an input (AXIS may be negative). */
INLAY_NODISCARD inlay_status change_dim(graph_model *model, const char *name, int64_t size, inlay_diag *diag);
/* Turns an input that holds one number, with declared type and shape, into a constant. */
INLAY_NODISCARD inlay_status change_constant(graph_model *model, const char *input, const char *value,
                                             inlay_diag *diag);
/* The name of the input of at most one axis on which alone the condition of an If in the main graph depends; NULL:
 * there is none. */
const char *change_find_switch(const graph_model *model);
#endif
