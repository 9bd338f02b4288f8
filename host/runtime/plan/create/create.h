/* plan/create/create.h - partitions and compiles a graph and its bodies until the result is stable.
 *
 * Providers answer in stages: what they offer, what they compile, and what they specialise for the shapes of a run. A
 * later answer may contradict an earlier one. assign_until_stable() therefore partitions, compiles, records what
 * failed, and repeats:
 *
 * - A provider declines to compile a region: recorded in partition_offer.declined; the graph is partitioned again
 *   without these offers (reassign.c).
 * - A provider declines to specialise a region in a run: recorded in program_fallback.shapes; the same, as a separate
 *   program (fallback.c).
 * - No provider runs a node that a pass created: the rewrite is undone in the graph; all graphs are partitioned from
 *   the start (undo.c).
 * - The saved plan names a node that a pass replaced: likewise.
 *
 * No recorded fact is ever withdrawn, so the loop terminates. If providers support both the original nodes and their
 * replacement, both variants are partitioned and compared (compare_rewrites.c). */
#ifndef PLAN_CREATE_H
#define PLAN_CREATE_H
#include "plan/program/compile.h"

struct assignment {
    struct graph *graph;
    const program_env *env;
    struct program *program;   /* NULL: all graphs must be partitioned from the start */
    program_declined declined; /* declined offers found in the last round */
    bool undone;               /* a rewrite was undone, so rules may name removed nodes */
    bool shares_graph;         /* a running program uses the graph, so no rewrite may be undone */
    bool only_assign;          /* compile nothing */
};

/* On success assignment->program is compiled. On failure diag has the reason, and assignment->program, which the caller
 * owns, may be NULL. */
INLAY_NODISCARD inlay_status assign_until_stable(struct assignment *assignment, inlay_diag *diag);

/* assign.c.
 *
 * Creates and partitions the programs of the graphs, without offers known to be declined. *out_program is also set
 * after a failure, for undo.h, unless out of memory. again: see assignment.undone. */
INLAY_NODISCARD inlay_status program_assign(struct graph *graph, const program_env *env, bool again,
                                            struct program **out_program, inlay_diag *diag);
/* Partitions the bodies of nodes that a provider was to run whole, and that the host runs now. */
INLAY_NODISCARD inlay_status program_assign_bodies(struct program *program, inlay_diag *diag);

/* reassign.c.
 *
 * Marks offers in the program's partition as declined, with refusals that quote the provider, and partitions its graph
 * again. Steps of unchanged regions keep their compiled code, the others are released. After a failure the program has
 * its previous regions. */
INLAY_NODISCARD inlay_status program_assign_without(const program_declined *declined, inlay_diag *diag);

/* compare_rewrites.c.
 *
 * Undoes rewrites whose original nodes some provider supports, but not their replacement, if the model is expected to
 * be faster without them by more than the error of the prices. Also restores the original bodies of a node if a
 * provider then runs the whole node. The graphs must be partitioned. Fails only if out of memory or cancelled. */
INLAY_NODISCARD inlay_status program_compare_rewrites(struct program **inout_program, inlay_diag *diag);
#endif
