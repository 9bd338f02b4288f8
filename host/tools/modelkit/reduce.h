/* modelkit/reduce.h - finds a minimal part of a model that still fails, with Zeller's delta debugging over the nodes of
 * the main graph. */
#ifndef MODELKIT_REDUCE_H
#define MODELKIT_REDUCE_H
#include "graph/graph.h"

typedef enum reduce_answer { REDUCE_FAILS, REDUCE_PASSES, REDUCE_STOP } reduce_answer;

/* Does the part with these nodes fail? list holds count nodes, ascending. A part that is not a valid model passes.
 * REDUCE_STOP ends the search with the part found so far, and *status holds the reason. */
typedef reduce_answer (*reduce_try_fn)(void *ctx, const uint32_t *list, uint32_t count, inlay_status *status,
                                       inlay_diag *diag);

struct reduction {
    uint32_t *list; /* [count] the remaining nodes; memory of the caller, for all nodes */
    uint32_t count;
    uint32_t tries; /* attempts so far */
    uint32_t most;  /* limit of attempts */
};

/* On entry reduction->list holds all nodes, which must fail; on return, the smallest failing part found, also after
 * REDUCE_STOP. The part is minimal (no node can be removed) unless the attempts ran out. */
INLAY_NODISCARD inlay_status reduce_nodes(struct reduction *reduction, reduce_try_fn try, void *ctx, inlay_diag *diag);
#endif
