/* exec/dynamic/dynamic.h - steps whose shapes are known only at run time. */
#ifndef EXEC_DYNAMIC_H
#define EXEC_DYNAMIC_H
#include "exec/run/run.h"

/* Runs a DYNAMIC step: infers shapes, specialises, allocates, executes and waits. */
INLAY_NODISCARD inlay_status dynamic_run(struct runner *runner, struct bound *bound, bound_step *step,
                                         inlay_diag *diag);
/* inlay_host.output_alloc for the current step; ctx is the run_shared. */
inlay_status dynamic_output_alloc(void *ctx, uint32_t output, uint32_t rank, const int64_t *dims, inlay_buffer *out);
#endif
