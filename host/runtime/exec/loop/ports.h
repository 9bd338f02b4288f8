/* exec/loop/ports.h - what enters and leaves a run. */
#ifndef EXEC_PORTS_H
#define EXEC_PORTS_H
#include "exec/run/run.h"

/* Makes object v the dynamic value; takes over the reference. */
void runner_set(struct runner *runner, struct bound *bound, uint32_t v, inlay_value *value);
/* The plan reads the inputs where they are. */
void runner_bind_inputs(struct runner *runner, struct bound *bound, const rt_value *inputs);
/* Memory for the outputs that steps write straight into. */
INLAY_NODISCARD inlay_status runner_bind_outputs(struct runner *runner, struct bound *bound, const rt_value *inputs,
                                                 inlay_diag *diag);
/* Where outputs are wanted is a part of the key, once one of them is wanted in a device's memory. Returns how many
 * parts were written. */
uint32_t runner_wants(const struct runner *runner, plan_input *out);
/* Outputs that no step wrote in place: dynamic values, inputs passed through, constants, a value output twice. */
INLAY_NODISCARD inlay_status runner_gather_outputs(struct runner *runner, struct bound *bound, inlay_diag *diag);
/* What a device that hangs may still write to is not given to the next run. */
void runner_keep_outputs(struct runner *runner);
#endif
