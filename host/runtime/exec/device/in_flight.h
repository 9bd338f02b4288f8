/* exec/device/in_flight.h - asynchronous work on devices.
 *
 * A step of an asynchronous provider is complete when its fence is reached. The host waits for a fence as long as the
 * run may take, but at most device_timeout_ms (an option); after that the device counts as hung. It is then treated as
 * lost by every later session, and memory that it may still access (of the context, its session and the provider) is
 * never freed: run_shared.hang.abandoned is set. The context can run again if option device_failure lets other
 * providers take over. */
#ifndef EXEC_IN_FLIGHT_H
#define EXEC_IN_FLIGHT_H
#include "exec/run/run.h"

/* Waits for the work of `step` within the run's deadline. INLAY_DEVICE_LOST also if a device hangs. */
INLAY_NODISCARD inlay_status in_flight_wait(struct runner *runner, struct bound *bound, const bound_step *step,
                                            inlay_diag *diag);
/* The same for a fence that does not belong to a step. When it returns, the work is finished or the device hangs,
 * regardless of the status. */
INLAY_NODISCARD inlay_status in_flight_wait_fence(struct runner *runner, const partition_provider *provider,
                                                  inlay_fence fence, inlay_diag *diag);
/* Waits for all steps of a run that ended with `status`. Required before a run returns, because its buffers are
 * reused. */
INLAY_NODISCARD inlay_status in_flight_wait_all(struct runner *runner, struct bound *bound, inlay_status status,
                                                inlay_diag *diag);
/* Completes the diag of a failed step: names the node, the graph and the provider. Returns the status. */
inlay_status runner_step_failed(struct runner *runner, const bound_step *step, inlay_status status, inlay_diag *diag);
/* An asynchronous provider of the session whose device is lost; NULL: none. */
const partition_provider *in_flight_lost(const struct runner *runner);
#endif
