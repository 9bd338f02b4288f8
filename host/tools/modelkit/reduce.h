/* modelkit/reduce.h - the smallest part of a model that still fails: Zeller's delta debugging over the nodes of the
 * main graph. */
#ifndef MODELKIT_REDUCE_H
#define MODELKIT_REDUCE_H
#include "graph/graph.h"

typedef enum reduce_answer { REDUCE_FAILS, REDUCE_PASSES, REDUCE_STOP } reduce_answer;

/* Does the part of these nodes fail? count of them in list, ascending. A part that is no model passes. STOP ends the
 * search with what is found so far, and *status says why. */
typedef reduce_answer (*reduce_try_fn)(void *ctx, const uint32_t *list, uint32_t count, inlay_status *status,
                                       inlay_diag *diag);

struct reduction {
    uint32_t *list; /* [count] the nodes that are left; the caller's, with room for all */
    uint32_t count;
    uint32_t tries; /* so far */
    uint32_t most;  /* tries */
};

/* reduction->list holds all nodes, which fail; on return, those of the smallest part found, also when it was stopped.
 * It is minimal (no node of it can be left out) unless tries ran out. */
INLAY_NODISCARD inlay_status reduce_nodes(struct reduction *reduction, reduce_try_fn try, void *ctx, inlay_diag *diag);
#endif
