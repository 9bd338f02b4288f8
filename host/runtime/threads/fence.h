/* threads/fence.h - timelines: counters that devices move and others wait for.
 *
 * A timeline is a number that is never used again, so a device that signals late, after its timeline is gone, does no
 * harm. Fences name a point on one (inlay_fence); those of timeline 0 are always reached. */
#ifndef THREADS_FENCE_H
#define THREADS_FENCE_H
#include "inlay/plugin.h"
#include <stdbool.h>

/* A new timeline at 0. */
INLAY_NODISCARD inlay_status timeline_create(uint64_t *out_timeline, inlay_diag *diag);
/* Nobody may be waiting. 0 is a no-op. */
void timeline_destroy(uint64_t id);
/* Turns a timeline into a new one at 0, after a failure poisoned it; *id is then another number. Cannot fail.
 * Nobody may be waiting, and nothing be under way that signals. */
void timeline_renew(uint64_t *id);
/* See inlay_host.fence_signal and fence_wait. */
void fence_signal(inlay_fence fence, inlay_status status, const inlay_diag *why);
INLAY_NODISCARD inlay_status fence_wait(inlay_fence fence, const inlay_run *run, inlay_diag *diag);
/* The same, run may be NULL; INLAY_BUSY once until_ns (CLOCK_MONOTONIC, 0 = never) has passed. */
INLAY_NODISCARD inlay_status fence_wait_until(inlay_fence fence, const inlay_run *run, uint64_t until_ns,
                                              inlay_diag *diag);
/* Waits until the fence is reached or poisoned, also when the run is cancelled: for memory that a device may still be
 * using. The device has been told by the run's cancel word, and keeps its promise (inlay_provider.poll_ms). */
INLAY_NODISCARD inlay_status fence_settle(inlay_fence fence, inlay_diag *diag);
/* See inlay_host.fence_notify and fence_forget. A timeline that goes tells who still waits that nobody will signal. */
void fence_notify(inlay_fence_notice *notice);
bool fence_forget(inlay_fence_notice *notice);
/* Has it been reached (or will never be)? *out_status (may be NULL) is what a wait would return. */
bool fence_reached(inlay_fence fence, inlay_status *out_status);
#endif
