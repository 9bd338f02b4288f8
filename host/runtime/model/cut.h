/* model/cut.h - a part of a model as a model of its own. */
#ifndef MODEL_CUT_H
#define MODEL_CUT_H
#include "model/model.h"

/* A part of the main graph: the nodes in it, and what enters and leaves. */
typedef struct model_part {
    bool *nodes;                /* [node_count] */
    uint32_t *inputs, *outputs; /* values */
    uint32_t input_count, output_count;
    uint32_t kept; /* nodes */
} model_part;

/* What `outputs` are computed from, back to `inputs`; without inputs back to the graph's own. Fails naming an input
 * that the part does not need, or one that it needs besides. Memory is the model's. */
INLAY_NODISCARD inlay_status model_part_between(graph_model *model, const uint32_t *inputs, uint32_t input_count,
                                                const uint32_t *outputs, uint32_t output_count, model_part *out,
                                                inlay_diag *diag);
/* The nodes that `nodes` marks, [node_count], their neighbours at most depth edges away, and the Constant nodes that
 * they read. nodes is kept. */
INLAY_NODISCARD inlay_status model_part_of(graph_model *model, bool *nodes, uint32_t depth, model_part *out,
                                           inlay_diag *diag);

/* Makes the model that part: other nodes, values and constants are dropped. Types of the values at the cut are taken
 * from `typed`, a graph that was inferred, by name; NULL: only what the file declares is known, and `why` says why. A
 * value at the cut without a type is an error. */
INLAY_NODISCARD inlay_status model_cut(graph_model *model, const model_part *part, const struct graph *typed,
                                       const char *why, inlay_diag *diag);
#endif
