/* profile/profile.h - where the time of runs goes.
 *
 *     profile_create      takes all memory; its hook watches the runs of one context (exec/loop/watch.h)
 *     profile_begin/end   around each run
 *     profile_write       what came of it: text, JSON, a trace for Perfetto, folded stacks
 *
 * A run that is profiled waits for devices after each step, so that a step's time is its own. */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H
#include "exec/loop/watch.h"
#include "base/words.h"
#include "session/session.h"

struct profile;

/* max_events: steps that are kept, of all runs together; what comes later is only counted. main outlives the
 * profile. */
INLAY_NODISCARD inlay_status profile_create(const inlay_session *session, uint32_t max_events,
                                            struct profile **out_profile, inlay_diag *diag);
void profile_destroy(struct profile *profile); /* NULL is a no-op */
const watch_hook *profile_hook(const struct profile *profile);
/* What the run is to report workers to. */
run_spans *profile_spans(struct profile *profile);
/* A run begins, and is over after ns. ok: it counts; otherwise what it left is forgotten. */
void profile_begin(struct profile *profile);
void profile_end(struct profile *profile, uint64_t ns, bool ok);

/* What the machine does at most a second with integers of 8 bits and floats of 16; 0 = unknown. */
void profile_peaks(struct profile *profile, double integers, double halves);
/* format: "text", "json", "trace" (Chrome's trace events), "stacks" (folded, a line each). Peaks of the machine are for
 * the roofline, 0 = unknown. INLAY_UNSUPPORTED: "html"; INLAY_INVALID_ARGUMENT: another format. */
INLAY_NODISCARD inlay_status profile_write(const struct profile *profile, const char *format, double peak_flops_per_s,
                                           double peak_bytes_per_s, const explain_sink *sink, inlay_diag *diag);
#endif
