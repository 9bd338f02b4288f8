/* plan/create/undo.h - undoes rewrites of the optimiser, in all graphs of a model.
 *
 * Passes create operators that the file does not have, and a provider may support only the operators of the file.
 * Undoing a rewrite must keep the types and shapes of all values (passes/type_guard.h); otherwise nothing is undone. */
#ifndef PLAN_UNDO_H
#define PLAN_UNDO_H
#include "graph/history.h"
#include "plan/program.h"

/* The programs of a model: the main program, then the programs of its bodies, recursively; and a saved state of their
 * graphs. */
struct programs {
    struct program **list; /* [count] */
    graph_saved *saved;    /* [count] */
    uint32_t count;
    struct arena arena;
};

/* Lists the programs and saves their graphs. False: out of memory. Call arena_deinit(&all->arena) in any case. */
bool programs_open(struct programs *all, struct program *program);
/* Orders nodes and infers shapes after rewrites were undone. False: the graphs are inconsistent, and were restored. */
bool programs_complete(const struct programs *all);
/* Restores the saved graphs. */
void programs_restore(const struct programs *all);

/* Logs that the rewrite which created the node was undone. */
void undo_report(const struct program *program, const graph_node *node, const char *why);

/* Undoes the rewrites that created nodes which no provider may run; declined offers do not count. False: nothing was
 * undone. */
bool undo_uncovered(struct program *program);
/* Undoes rewrites that removed nodes named in the saved plan, and rewrites that created nodes not named in it. */
bool undo_for_plan(struct program *program);
#endif
