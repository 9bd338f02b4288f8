/* model/model_part.h - extracts a part of a model as a separate model. */
#ifndef MODEL_MODEL_PART_H
#define MODEL_MODEL_PART_H
#include "model/model.h"

/* A part of the main graph: its nodes, inputs and outputs. */
typedef struct model_part {
    bool *nodes;                /* [node_count] */
    uint32_t *inputs, *outputs; /* values */
    uint32_t input_count, output_count;
    uint32_t kept; /* number of nodes */
} model_part;

/* The nodes that compute `outputs` from `inputs`, or from the graph's inputs if there are no inputs. Fails if the
 * outputs do not depend on one of the inputs, or if they also depend on another one; the message names it. The model
 * owns the memory. */
INLAY_NODISCARD inlay_status model_part_between(graph_model *model, const uint32_t *inputs, uint32_t input_count,
                                                const uint32_t *outputs, uint32_t output_count, model_part *out,
                                                inlay_diag *diag);
/* What a value of the main graph depends on. */
enum {
    MODEL_PART_VARIES,   /* elements of an input, or a random number */
    MODEL_PART_CONSTANT, /* constants alone */
    MODEL_PART_SIZE      /* constants, and sizes of other values */
};
/* Returns MODEL_PART_* for each value, [value_count], which the model owns. NULL: out of memory. */
uint8_t *model_part_kinds(graph_model *model);
/* The nodes that are marked in nodes [node_count], their neighbours at a distance of at most depth edges, and the nodes
 * that compute what they read from constants alone, such as Constant. The part keeps a reference to nodes. */
INLAY_NODISCARD inlay_status model_part_of(graph_model *model, bool *nodes, uint32_t depth, model_part *out,
                                           inlay_diag *diag);

/* Splits the nodes that the outputs depend on, in execution order, into `parts` stages of about the same number of
 * nodes, and selects stage `part`, from 0. (Other nodes could make a stage without outputs.) INLAY_INVALID_ARGUMENT:
 * there are fewer nodes, or fewer stages. */
INLAY_NODISCARD inlay_status model_part_stage(graph_model *model, uint32_t part, uint32_t parts, model_part *out,
                                              inlay_diag *diag);

/* Reduces the model to the part: removes other nodes, values and constants. The types of the part's inputs and outputs
 * come from values of the same name in `typed`, a graph after inference. NULL: only declared types are known, for the
 * reason `why`; an input or output without a type is then an error. typed and why NULL: outputs may stay without a
 * type, for a model that is run and not saved. */
INLAY_NODISCARD inlay_status model_cut(graph_model *model, const model_part *part, const struct graph *typed,
                                       const char *why, inlay_diag *diag);
#endif
