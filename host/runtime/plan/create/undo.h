/* plan/create/undo.h - undoes rewrites of the optimiser, in all graphs of a model.
 *
 * Passes write operators that the file does not have, and a provider may know only what the file has. A rewrite that is
 * undone keeps the types and shapes of all values (passes/type_guard.h); otherwise nothing is undone. */
#ifndef PLAN_UNDO_H
#define PLAN_UNDO_H
#include "graph/history.h"
#include "plan/program.h"

/* The programs of a model, the main one first, then those of its bodies, to any depth; and their graphs as they were.
 */
struct programs {
    struct program **list; /* [count] */
    graph_saved *saved;    /* [count] */
    uint32_t count;
    struct arena arena;
};

/* Lists them and saves their graphs; false: no memory. End it with arena_deinit(&all->a) in any case. */
bool programs_open(struct programs *all, struct program *program);
/* After something was undone: orders nodes and infers shapes. False: the graphs do not hold together, and are as they
 * were saved. */
bool programs_complete(const struct programs *all);
/* The graphs are as they were saved. */
void programs_restore(const struct programs *all);

/* Says in the log that the rewrite which made node was undone. */
void undo_report(const struct program *program, const graph_node *node, const char *why);

/* Undoes the rewrites that made nodes which no provider may run, offers that were declined left out. False: nothing
 * was undone. */
bool undo_uncovered(struct program *program);
/* Undoes what passes made of nodes that the saved plan names, and what they made that it does not name. */
bool undo_for_plan(struct program *program);
#endif
