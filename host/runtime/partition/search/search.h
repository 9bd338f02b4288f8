/* partition/search/search.h - the search for the cheapest choice.
 *
 * - solve.c: alpha-expansion over providers and families of groups
 * - fuse.c: the best mix of two choices, by a minimum cut (flow.c)
 * - exact.c: branch and bound for small graphs
 * - marginal_moves.c: undoes changes with insignificant gain
 * - whole_regions.c: undoes divisions of merged regions for the sake of guesses
 * - single_providers.c: compares the result with one provider for all nodes
 * - limits.c: device memory, max_partitions, require */
#ifndef PARTITION_SEARCH_H
#define PARTITION_SEARCH_H
#include "partition/problem/problem.h"

/* One alternative for every node: a single offer, or a group offer that counts only if all its nodes take it (`single`
 * is then the fallback). NONE = none. */
typedef struct partition_alternative {
    uint32_t *single, *group; /* [nodes] */
} partition_alternative;

/* Allocates the state of partition_fuse(), once per problem. False: out of memory. */
bool partition_fuse_init(struct problem *problem);
/* Converts a choice to an alternative. */
void partition_alternative_of(const struct problem *problem, const uint32_t *choice, partition_alternative *out);
/* Writes the best mix of `current` (complete) and `proposed` to choice. Exact if copies go through the host domain and
 * nothing is merged; otherwise an approximation, so evaluate the result. False: out of memory. */
bool partition_fuse(struct problem *problem, const partition_alternative *current,
                    const partition_alternative *proposed, uint32_t *choice);

/* The best choice that the search finds. *uncovered is a node that no provider runs, or NONE. */
INLAY_NODISCARD bool partition_solve(struct problem *problem, uint32_t *choice, uint32_t *uncovered);
/* Returns nodes to the provider that the user's order prefers, as long as the loss is below the error of the prices. */
INLAY_NODISCARD bool drop_marginal_moves(struct problem *problem, uint32_t *choice);
/* Returns nodes to the provider whose merged regions they divide, as long as the loss is below the margin for guesses
 * (partition_offer.kept_whole). Other prices have no such margin. */
INLAY_NODISCARD bool keep_regions_whole(struct problem *problem, uint32_t *choice);
/* Replaces a choice that deviates from the user's order of providers by that of one provider, where that is cheaper
 * without margins. Nodes that this provider does not offer run on others. */
INLAY_NODISCARD bool compare_single_providers(struct problem *problem, uint32_t *choice);
/* Improves the choice, which may be infeasible, and *verdict by exhaustive search within a budget of steps. True: the
 * result is the optimum. */
bool partition_exact(struct problem *problem, uint32_t budget, uint32_t *choice, partition_verdict *verdict);
/* Enforces memory limits, max_partitions and require. Errors name the constraint and the excess. */
INLAY_NODISCARD inlay_status partition_keep_limits(struct problem *problem, uint32_t *choice, inlay_diag *diag);
#endif
