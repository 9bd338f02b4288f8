/* threads/fence.h - timelines: counters that devices advance and other threads wait for (timeline semaphores).
 *
 * The number of a timeline is never used again, so a device that signals after its timeline was destroyed does no harm.
 * A fence (inlay_fence) is a value on a timeline; fences of timeline 0 are always reached. */
#ifndef THREADS_FENCE_H
#define THREADS_FENCE_H
#include "inlay/host.h"
#include <stdbool.h>

/* Creates a timeline with value 0. Its number is never 0. */
INLAY_NODISCARD inlay_status timeline_create(uint64_t *out_timeline, inlay_diag *diag);
/* Destroys a timeline, for which no thread may be waiting. 0 is a no-op. */
void timeline_destroy(uint64_t id);
/* Replaces a timeline that a failure poisoned with a new one with value 0; *id becomes another number. Cannot fail. No
 * thread may be waiting for it, and no pending work may signal it. */
void timeline_renew(uint64_t *id);
/* See inlay_host.fence_signal and fence_wait. */
void fence_signal(inlay_fence fence, inlay_status status, const inlay_diag *why);
INLAY_NODISCARD inlay_status fence_wait(inlay_fence fence, const inlay_run *run, inlay_diag *diag);
/* As fence_wait(), but run may be NULL, and the result is INLAY_BUSY once until_ns (CLOCK_MONOTONIC, 0 = never) has
 * passed. */
INLAY_NODISCARD inlay_status fence_wait_until(inlay_fence fence, const inlay_run *run, uint64_t until_ns,
                                              inlay_diag *diag);
/* Waits until the fence is reached or poisoned, even if the run is cancelled, because the device may still use the
 * run's memory. The run's cancel word stops the device within inlay_provider.poll_ms. */
INLAY_NODISCARD inlay_status fence_wait_uncancelled(inlay_fence fence, inlay_diag *diag);
/* See inlay_host.fence_notify and fence_forget. Destroying a timeline calls its remaining notices with
 * INLAY_CANCELLED. */
void fence_notify(inlay_fence_notice *notice);
bool fence_forget(inlay_fence_notice *notice);
/* True if the fence is reached or poisoned. *out_status (may be NULL): the status that a wait would return. */
bool fence_reached(inlay_fence fence, inlay_status *out_status);
#endif
