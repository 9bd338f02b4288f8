/* modelkit/edit.h - adds constants and nodes to a graph before it is saved.
 *
 * New nodes are appended in any order; edit_finish() moves each in front of its first reader, so that related nodes
 * stay together. New names are derived from those of the replaced values and never collide with others of the graph. */
#ifndef MODELKIT_EDIT_H
#define MODELKIT_EDIT_H
#include "base/memory.h"
#include "graph/graph.h"

struct editor {
    struct graph *graph;
    names_table names;  /* of the graph's values */
    uint32_t old_count; /* nodes before the edit */
    bool failed;        /* out of memory: further calls do nothing, and edit_finish() reports it */
};

void edit_begin(struct editor *editor, struct graph *graph);
/* Orders the graph and releases the names. */
INLAY_NODISCARD inlay_status edit_finish(struct editor *editor, inlay_diag *diag);

/* Memory of the model for a constant. NULL: out of memory. */
void *edit_memory(struct editor *editor, uint64_t bytes);
/* Adds a value called <stem><suffix>. */
uint32_t edit_value(struct editor *editor, const char *stem, const char *suffix);
/* Adds a constant called <stem><suffix>; data is from edit_memory(). */
uint32_t edit_constant(struct editor *editor, const char *stem, const char *suffix, inlay_dtype dtype, uint32_t rank,
                       const int64_t *dims, const void *data, uint64_t bytes);
/* Adds a float constant of rank 0, or one of an 8-bit integer type. */
uint32_t edit_float(struct editor *editor, const char *stem, const char *suffix, float value);
uint32_t edit_byte(struct editor *editor, const char *stem, const char *suffix, inlay_dtype dtype, int value);
/* Adds a node with one output; both are called <stem><suffix>. Trailing INLAY_NONE inputs are dropped. out_node may be
 * NULL; *out_node is NULL when out of memory. */
uint32_t edit_node(struct editor *editor, const char *stem, const char *suffix, const char *op, const char *domain,
                   const uint32_t *inputs, uint32_t input_count, graph_node **out_node);
/* Sets an integer attribute; node may be NULL. */
void edit_int(struct editor *editor, graph_node *node, const char *name, int64_t value);
/* Makes input i of the node read the value. */
void edit_input(graph_node *node, uint32_t i, uint32_t value);
/* edit_input() that adds inputs if the node has no input i yet. */
void edit_set_input(struct editor *editor, graph_node *node, uint32_t i, uint32_t value);
/* Drops constants without readers, in bodies as well, so that they are not saved. False: out of memory. */
bool edit_drop_unused(struct graph *graph);
/* Counts the reads of each value of the graph: uses is [value_count], zeroed. Captures of bodies and outputs of the
 * graph count twice, because such values must not be changed for one reader. */
void edit_count_uses(const struct graph *graph, uint32_t *uses);
#endif
