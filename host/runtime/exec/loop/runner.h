/* exec/loop/runner.h - a program in one context: memory, addresses, and the loop that runs it.
 *
 * The first run with new shapes binds the plan: takes the slab, writes every address into flat arrays of calls. From
 * then on a run patches the addresses of inputs and outputs and walks the array. Steps that depend on data, control
 * flow and sequences take the slower way in dynamic/ and control/. */
#ifndef EXEC_RUNNER_H
#define EXEC_RUNNER_H
#include "exec/run/run.h"

INLAY_NODISCARD inlay_status runner_create(struct program *prog, run_shared *shared, struct runner **out_runner,
                                           inlay_diag *diag);
void runner_destroy(struct runner *runner);

/* Runs the program. inputs: the graph's inputs, then what it captures; borrowed. On success runner.out.values hold the
 * results; on failure they are NULL and diag says which node. */
INLAY_NODISCARD inlay_status runner_run(struct runner *runner, const rt_value *inputs, inlay_diag *diag);
#endif
