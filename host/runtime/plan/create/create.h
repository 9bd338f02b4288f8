/* plan/create/create.h - a graph and its bodies, assigned and compiled until nothing new is learned.
 *
 * Providers answer in steps: what they offer, what they compile, what they specialize for the shapes of a run. A later
 * answer may take an earlier one back. assign_until_stable() therefore assigns, compiles, learns from what failed, and
 * repeats:
 *
 *     learned                                           kept in                        then
 *     a provider declines to compile a region           partition_offer.declined            the graph is assigned
 * without its offers (again.c) a provider declines to specialize one in a run    program_fallback.shapes likewise, as a
 * program of its own (fallback.h) no provider runs a node that a pass made          the graph, which has back      all
 * graphs are assigned from the what the pass replaced         start (undo.c) the saved plan names a node that a pass
 * replaced  likewise                       likewise
 *
 * No fact is ever taken back, so the loop ends. Where providers run what was replaced as well as what replaced it, the
 * assignment compares the two (weigh.c). */
#ifndef PLAN_CREATE_H
#define PLAN_CREATE_H
#include "plan/program/compile.h"

struct assignment {
    struct graph *graph;
    const program_env *env;
    struct program *program;   /* NULL: all graphs are to be assigned from the start */
    program_declined declined; /* what the last round has learned of a region */
    bool undone;               /* a rewrite was undone, so that rules may name nodes that have gone */
    bool shares_graph;         /* with a program that runs, so that no rewrite may be undone */
};

/* Ends with a->program compiled, or with the reason why that cannot be; a->program, the caller's, may then be NULL. */
INLAY_NODISCARD inlay_status assign_until_stable(struct assignment *assignment, inlay_diag *diag);

/* ------------------------------------------------------------------ assign.c
 *
 * The programs of the graphs as they are, without those offers that are known to be declined. *out_program is there
 * after a failure, too, for undo.h, unless memory is out. again: see assignment.undone. */
INLAY_NODISCARD inlay_status program_assign(struct graph *graph, const program_env *env, bool again,
                                            struct program **out_program, inlay_diag *diag);
/* Assigns the bodies of nodes that a provider was to run whole, and that the host runs now. */
INLAY_NODISCARD inlay_status program_assign_bodies(struct program *program, inlay_diag *diag);

/* ------------------------------------------------------------------ again.c
 *
 * Marks the offers in the program's partition as declined, with refusals that quote the provider, and assigns its
 * graph again. Steps of regions that stay keep what was compiled, the others are released. A failure is that of the
 * assignment, and leaves the program with the regions that it had. */
INLAY_NODISCARD inlay_status program_assign_without(const program_declined *declined, inlay_diag *diag);

/* ------------------------------------------------------------------ weigh.c
 *
 * Of rewrites for which a provider would run what was replaced but not what replaced it, undoes those without which the
 * model is expected to be faster by more than prices may be off; and shows bodies as the file has them where that makes
 * a provider take the node around them. The graphs are assigned. Only out of memory and a cancellation fail. */
INLAY_NODISCARD inlay_status program_weigh_rewrites(struct program **inout_program, inlay_diag *diag);
#endif
