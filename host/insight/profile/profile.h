/* profile/profile.h - measures the time of the steps of runs.
 *
 *     profile_create      allocates all memory, and observes the runs of one context (exec/run/observer.h)
 *     profile_write       writes the profile: text, JSON, a trace for Perfetto, folded stacks
 *
 * A profiled run waits for devices after each step, so that the measured time belongs to the step. */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H
#include "tables/words.h"
#include "session/session.h"

struct profile;

/* max_events: maximum number of steps that are stored, over all runs; later steps are only counted. session must
 * outlive the observer. The events of a run that fails are discarded. */
INLAY_NODISCARD inlay_status profile_create(const inlay_session *session, uint32_t max_events,
                                            run_observer **out_observer, inlay_diag *diag);
/* The profile of such an observer; NULL: it is another one, or NULL. */
const struct profile *profile_of(const run_observer *observer);

/* Writes the profile in options->format. INLAY_UNSUPPORTED: "html"; INLAY_INVALID_ARGUMENT: another format, or an
 * invalid rate. */
INLAY_NODISCARD inlay_status profile_write(const struct profile *profile, const inlay_profile_options *options,
                                           const explain_sink *sink, inlay_diag *diag);

/* For the profile of an observer; INLAY_INVALID_ARGUMENT: it has none. profile_write() without columns, and a call of
 * event for each stored event of a complete run. */
INLAY_NODISCARD inlay_status profile_write_observed(const run_observer *observer, const inlay_profile_options *options,
                                                    inlay_write_fn write, void *user, inlay_diag *diag);
INLAY_NODISCARD inlay_status profile_events(const run_observer *observer,
                                            void (*event)(void *user, const inlay_profile_event *event), void *user,
                                            inlay_diag *diag);
#endif
