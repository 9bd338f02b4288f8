/* modelkit/doctor_types.h - repairs of element types that an operator does not take, in a model that is bound and
 * inferred as far as possible (graph_model.collect). Save the model and load it again afterwards. */
#ifndef MODELKIT_DOCTOR_TYPES_H
#define MODELKIT_DOCTOR_TYPES_H
#include "graph/graph.h"

/* Inserts a Cast where only one is possible: before an int32 input that must be int64, and before a float constant
 * whose type differs from that of the computed inputs which must have the same type. */
INLAY_NODISCARD inlay_status doctor_insert_casts(graph_model *model, uint32_t *out_count, inlay_diag *diag);
/* Number of inputs, in bodies as well, whose type the operator version does not take; a later version may. */
uint32_t doctor_count_disallowed(const struct graph *graph);
#endif
