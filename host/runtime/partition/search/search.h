/* partition/search/search.h - the search for the cheapest choice.
 *
 *     solve.c     label after label, family after family, until nothing improves
 *     fuse.c      the best mix of two choices, by a minimum cut (flow.c)
 *     exact.c     branch and bound, where the graph is small enough
 *     steady.c    changes that would hardly be seen, undone
 *     limits.c    memory bounds, max_partitions, require */
#ifndef PARTITION_SEARCH_H
#define PARTITION_SEARCH_H
#include "partition/problem/problem.h"

/* ------------------------------------------------------------------ fuse.c */

/* One alternative for every node: a single offer, or a group offer that counts if all its nodes take it (single is then
 * what they fall back on). NONE = no such. */
typedef struct partition_side {
    uint32_t *single, *group; /* [nodes] */
} partition_side;

/* Room for partition_fuse(), once a problem. False: no memory. */
bool partition_fuse_init(struct problem *problem);
/* The side that a choice is. */
void partition_side_of(const struct problem *problem, const uint32_t *choice, partition_side *out);
/* The best mix of now (complete) and then into choice. Exact when copies meet in the host domain and nothing is merged;
 * otherwise near it, so judge the result. False: out of memory. */
bool partition_fuse(struct problem *problem, const partition_side *now, const partition_side *then, uint32_t *choice);

/* ------------------------------------------------------------------ solve.c, exact.c, steady.c, limits.c */

/* The best choice that the search finds; *uncovered is a node that nobody runs, or NONE. */
INLAY_NODISCARD bool partition_solve(struct problem *problem, uint32_t *choice, uint32_t *uncovered);
/* Gives nodes back to whom the user's order would have them run by, while what is lost by it is too little to be
 * known. */
INLAY_NODISCARD bool drop_marginal_moves(struct problem *problem, uint32_t *choice);
/* Improves *verdict, whose choice may be infeasible, by trying everything within a budget of steps. True: that sufficed
 * to know the best. */
bool partition_exact(struct problem *problem, uint32_t budget, uint32_t *choice, partition_verdict *verdict);
/* Keeps memory bounds, max_partitions and require. Errors say which could not be kept and by how much. */
INLAY_NODISCARD inlay_status partition_keep_limits(struct problem *problem, uint32_t *choice, inlay_diag *diag);
#endif
