/* exec/loop/runner.h - a program in one context: memory, addresses, and the loop that runs it.
 *
 * The first run with new shapes binds a plan: it allocates the slab and writes every address into a flat array of
 * calls. Later runs patch only the addresses of inputs and outputs, and call the steps in order. Steps with
 * data-dependent sizes, control flow and sequences take a slower path in dynamic/ and control/. */
#ifndef EXEC_RUNNER_H
#define EXEC_RUNNER_H
#include "exec/run/run.h"

INLAY_NODISCARD inlay_status runner_create(struct program *prog, run_shared *shared, struct runner **out_runner,
                                           inlay_diag *diag);
void runner_destroy(struct runner *runner);
/* Frees what the runner keeps for later runs: bound plans, the slab, the runners of bodies and of fallback programs,
 * and earlier memory of outputs; with `outputs` also the results of the last run. The next run binds a plan again. Not
 * during a run. In release.c, like runner_destroy(). */
void runner_trim(struct runner *runner, bool outputs);

/* Runs the program. inputs: the graph's inputs, then its captured values; borrowed. On success runner.out.values hold
 * the results. On failure they are NULL and diag names the node. */
INLAY_NODISCARD inlay_status runner_run(struct runner *runner, const run_value *inputs, inlay_diag *diag);
/* The shape that output `output` of a run on these inputs would have. Only types, shapes and domains of the inputs are
 * read. dims[INLAY_MAX_RANK]; sizes that depend on data are 0. False: the rank is not known, or the program refuses
 * these inputs. */
bool runner_output_shape(struct runner *runner, const run_value *inputs, uint32_t output, uint32_t *out_rank,
                         int64_t *dims);
#endif
