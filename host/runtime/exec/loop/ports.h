/* exec/loop/ports.h - graph inputs and outputs of a run. */
#ifndef EXEC_PORTS_H
#define EXEC_PORTS_H
#include "exec/run/run.h"

/* Sets dynamic value `value_index` to the object; takes over the reference. NULL clears it. */
void runner_set(struct runner *runner, struct bound *bound, uint32_t value_index, inlay_value *value);
/* Makes the plan read the inputs in the caller's memory. */
void runner_bind_inputs(struct runner *runner, struct bound *bound, const run_value *inputs);
/* Allocates the outputs that steps write directly. */
INLAY_NODISCARD inlay_status runner_bind_outputs(struct runner *runner, struct bound *bound, const run_value *inputs,
                                                 inlay_diag *diag);
/* If an output is wanted in device memory, the domains of all outputs are part of the plan's key. Writes these entries;
 * returns how many. */
uint32_t runner_output_key(const struct runner *runner, plan_input *out);
/* Creates the outputs that no step wrote in place: dynamic values, inputs passed through, constants, and a value that
 * is output twice. */
INLAY_NODISCARD inlay_status runner_gather_outputs(struct runner *runner, struct bound *bound, inlay_diag *diag);
/* After a hang the device may still write to the outputs. Retains their memory, so that the next run does not use
 * it. */
void runner_retain_outputs(struct runner *runner);
#endif
