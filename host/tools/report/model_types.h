/* report/model_types.h - the type of a value of a model as loaded from its file, where possible from the same model
 * with inferred types. Private to this folder. */
#ifndef REPORT_MODEL_TYPES_H
#define REPORT_MODEL_TYPES_H
#include "base/names.h"
#include "graph/graph.h"

/* The values of the typed graph that corresponds to a graph of the file; {0}: none. Release with
 * model_types_deinit(). */
typedef struct model_types {
    const struct graph *typed;
    names_table values; /* name -> value of `typed` */
} model_types;

/* typed may be NULL. False: out of memory. */
bool model_types_init(model_types *types, const struct graph *typed);
void model_types_deinit(model_types *types);

/* The value with the best known type: the value of `graph` if the file declares its type, otherwise the value of the
 * typed graph. *out_model owns the names of its dimensions. NULL: its type is unknown. */
const graph_value *model_types_find(const model_types *types, const struct graph *graph, uint32_t value,
                                    const graph_model **out_model);

/* The typed graph that corresponds to body `index` of a node; NULL if there is none. */
const struct graph *model_types_body(const model_types *types, const graph_node *node, uint32_t index);
#endif
