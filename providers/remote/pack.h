/* remote/pack.h - deep copies of graphs and of planning values into the shared memory of an isolated provider. */
#ifndef ISOLATE_PACK_H
#define ISOLATE_PACK_H
#include "remote/constants.h"
#include "inlay/execution.h"

/* A graph in the shared memory, and the constants that it refers to. */
typedef struct isolate_graph {
    struct isolate_graph *next;
    inlay_graph *graph;           /* in the shared memory */
    uint64_t key;                 /* see isolate_graph_key() */
    isolate_constant **constants; /* [graph->value_count] NULL: not a constant, or stored with the graph */
    uint32_t value_count;
    uint32_t references;
    isolate_arena arena;
    struct proxy_record *records; /* the results of assess for this graph */
} isolate_graph;

/* A hash of all that a copy of the graph contains, except the contents of constants, which content_hash identifies. */
uint64_t isolate_graph_key(const inlay_graph *graph);
/* Copies a graph, with one reference. Bodies are left out. The caller locks. NULL: out of memory. */
isolate_graph *isolate_graph_create(isolate_constants *constants, const inlay_graph *graph, uint64_t key);
void isolate_graph_destroy(isolate_constants *constants, isolate_graph *graph);

/* Copies planning values [count], parallel to the values of the graph `known`. The data of a large constant is left out
 * if it is not in the shared memory. wanted (may be NULL): [count] values other than 0 are copied; of the others only
 * the type is stated. NULL if values is NULL, or if arena->failed. */
inlay_value_state *isolate_pack_states(isolate_arena *arena, const isolate_graph *known, const uint8_t *wanted,
                                       const inlay_value_state *values, uint32_t count, uint32_t stride);
#endif
