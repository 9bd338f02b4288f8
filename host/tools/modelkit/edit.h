/* modelkit/edit.h - new constants and nodes in a graph that is about to be saved.
 *
 * Nodes are added at the end and in no order; edit_finish() puts each in front of the first that reads it, so that what
 * belongs together stays together. Names are made from those of what is replaced
 * and never collide with others of the graph. */
#ifndef MODELKIT_EDIT_H
#define MODELKIT_EDIT_H
#include "base/memory.h"
#include "graph/graph.h"

struct editor {
    struct graph *graph;
    names_table names;  /* of the graph's values */
    uint32_t old_count; /* nodes that were there before */
    bool failed;        /* memory ran out: nothing more is done, and edit_finish() says so */
};

void edit_begin(struct editor *editor, struct graph *graph);
/* Orders the graph, and lets go of the names. */
INLAY_NODISCARD inlay_status edit_finish(struct editor *editor, inlay_diag *diag);

/* Memory of the model for a constant. NULL: none is left. */
void *edit_memory(struct editor *editor, uint64_t bytes);
/* A value called <stem><suffix>. */
uint32_t edit_value(struct editor *editor, const char *stem, const char *suffix);
/* A constant called <stem><suffix>; data is from edit_memory(). */
uint32_t edit_constant(struct editor *editor, const char *stem, const char *suffix, inlay_dtype dtype, uint32_t rank,
                       const int64_t *dims, const void *data, uint64_t bytes);
/* A constant float of rank 0, and one of an integer of 8 bits. */
uint32_t edit_float(struct editor *editor, const char *stem, const char *suffix, float value);
uint32_t edit_byte(struct editor *editor, const char *stem, const char *suffix, inlay_dtype dtype, int value);
/* A node with one output, called <stem><suffix> as the node is. INLAY_NONE inputs are left out. *out_node may be NULL;
 * so is what it gets when memory is out. */
uint32_t edit_node(struct editor *editor, const char *stem, const char *suffix, const char *op, const char *domain,
                   const uint32_t *inputs, uint32_t input_count, graph_node **out_node);
void edit_int(struct editor *editor, graph_node *node, const char *name,
              int64_t value); /* an attribute; n may be NULL */
/* Input i of the node reads v. */
void edit_input(graph_node *node, uint32_t i, uint32_t v);
/* The same where the node may have had fewer inputs. */
void edit_set_input(struct editor *editor, graph_node *node, uint32_t i, uint32_t v);
/* Constants that nobody reads are written no more, in bodies neither. False: no memory. */
bool edit_drop_unused(struct graph *graph);
/* How often each value of the graph is read: uses is [value_count], zeros. What a body captures, and an output of the
 * graph, counts twice, for nobody else may then change the value. */
void edit_count_uses(const struct graph *graph, uint32_t *uses);
#endif
