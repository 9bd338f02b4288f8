/* exec/device/in_flight.h - work that devices do while the host goes on.
 *
 * A step of an asynchronous provider is over when its fence is reached. Whoever waits for one waits for as long as the
 * run may take, and no longer than option device_timeout_ms: after that the device hangs. It then counts as lost for
 * every later session, and what it may still read or write (the context, its session, the provider) is never given
 * back: run_shared.hang.abandoned says so. The context can run again where option device_failure lets others take over.
 */
#ifndef EXEC_IN_FLIGHT_H
#define EXEC_IN_FLIGHT_H
#include "exec/run/run.h"

/* Waits for the work of step step within the run. INLAY_DEVICE_LOST also when a device hangs. */
INLAY_NODISCARD inlay_status in_flight_wait(struct runner *runner, struct bound *bound, const bound_step *step,
                                            inlay_diag *diag);
/* The same for a fence that is no step's; whatever comes of it, the work is over or the device hangs. */
INLAY_NODISCARD inlay_status in_flight_finish(struct runner *runner, const partition_provider *provider,
                                              inlay_fence fence, inlay_diag *diag);
/* Nothing is in flight when a run returns, for its buffers change hands: waits for all steps, the run having got as far
 * as status. */
INLAY_NODISCARD inlay_status in_flight_settle(struct runner *runner, struct bound *bound, inlay_status status,
                                              inlay_diag *diag);
/* Where a failure began that step step only heard of: step itself, or a step that it waited for. */
const bound_step *in_flight_origin(const struct bound *bound, const bound_step *step);
/* Step step failed with this status: sets runner.failed, and a device that is lost is not handed to later sessions. */
void in_flight_note(struct runner *runner, const bound_step *step, inlay_status status);
/* Completes the diag of a step that failed: which node, of which graph, through which provider. Returns status. */
inlay_status runner_step_failed(struct runner *runner, const bound_step *step, inlay_status status, inlay_diag *diag);
/* An asynchronous provider of the session whose device is lost; NULL: none is. */
const partition_provider *in_flight_lost(const struct runner *runner);
#endif
