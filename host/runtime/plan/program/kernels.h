/* plan/program/kernels.h - the kernels that a provider chose for a region. */
#ifndef PLAN_KERNELS_H
#define PLAN_KERNELS_H
#include "inlay/extensions.h"
#include "plan/program.h"

/* Calls `each` for the kernels of the step's region at these shapes ([value_count]; NULL: unknown), if its provider
 * lists them (extension inlay.kernels/1). A failure comes from the provider's list. */
INLAY_NODISCARD inlay_status program_list_kernels(struct program *program, const program_step *step,
                                                  const inlay_value_state *values,
                                                  inlay_status (*each)(void *ctx, const inlay_kernel *kernel),
                                                  void *ctx, inlay_diag *diag);
#endif
