/* profile/profile.h - measures the time of the steps of runs.
 *
 *     profile_create      allocates all memory; its hook observes the runs of one context (exec/loop/watch.h)
 *     profile_begin/end   are called around each run
 *     profile_write       writes the profile: text, JSON, a trace for Perfetto, folded stacks
 *
 * A profiled run waits for devices after each step, so that the measured time belongs to the step. */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H
#include "exec/loop/watch.h"
#include "base/words.h"
#include "session/session.h"

struct profile;

/* max_events: maximum number of steps that are stored, over all runs; later steps are only counted. session must
 * outlive the profile. */
INLAY_NODISCARD inlay_status profile_create(const inlay_session *session, uint32_t max_events,
                                            struct profile **out_profile, inlay_diag *diag);
void profile_destroy(struct profile *profile); /* NULL is a no-op */
const watch_hook *profile_hook(const struct profile *profile);
/* The list to which the run reports the times of workers. */
run_spans *profile_spans(struct profile *profile);
/* Mark the begin and the end of a run, which took ns. If the run failed (not ok), its events are discarded. */
void profile_begin(struct profile *profile);
void profile_end(struct profile *profile, uint64_t ns, bool ok);

/* Calls event for each stored event of a complete run. */
void profile_each(const struct profile *profile, void (*event)(void *user, const inlay_profile_event *event),
                  void *user);
/* Writes the profile in options->format. INLAY_UNSUPPORTED: "html"; INLAY_INVALID_ARGUMENT: another format, or an
 * invalid rate. */
INLAY_NODISCARD inlay_status profile_write(const struct profile *profile, const inlay_profile_options *options,
                                           const explain_sink *sink, inlay_diag *diag);
#endif
