/* session/insight.h - what host/insight does for sessions and for the functions of inlay.h (base/parts.h). */
#ifndef SESSION_INSIGHT_H
#define SESSION_INSIGHT_H
#include "session/session.h"

/* Measurements, reports and profiles. Observers are those that time() and profile() have created, or NULL. */
typedef struct insight_part {
    /* Implements inlay_session_explain(). options has this host's full size. measured and runner: the observer of
     * measured runs and their runner, or both NULL. */
    inlay_status (*explain)(const inlay_session *session, const inlay_explain_options *options,
                            const run_observer *measured, const struct runner *runner, inlay_write_fn write, void *user,
                            inlay_diag *diag);
    /* inlay_calibrate(), and inlay_tune() of a session without work in the background. Both, and record(), are NULL in
     * a build that writes no files. */
    inlay_status (*calibrate)(const inlay_options *options, const inlay_calibrate_options *what,
                              inlay_calibrate_result *out_result, inlay_diag *diag);
    inlay_status (*tune)(inlay_session *session, const inlay_tune_options *how, inlay_tune_result *out_result,
                         inlay_diag *diag);
    /* An observer for inlay_context_measure(); the program must outlive it. */
    inlay_status (*time)(const struct program *main, run_observer **out_observer, inlay_diag *diag);
    /* Implements inlay_context_record(). INLAY_INVALID_ARGUMENT: the observer has measured no run. */
    inlay_status (*record)(const inlay_session *session, const struct runner *runner, const run_observer *measured,
                           uint32_t *out_count, inlay_diag *diag);
    /* inlay_plan_info.predicted_ns */
    double (*predict)(const struct runner *runner);
    /* An observer for inlay_context_profile(); the session must outlive it. */
    inlay_status (*profile)(const inlay_session *session, uint32_t max_events, run_observer **out_observer,
                            inlay_diag *diag);
    /* Implement inlay_context_profile_write(), with options of this host's full size, and
     * inlay_context_profile_events(). INLAY_INVALID_ARGUMENT: the observer is not one of profile(). */
    inlay_status (*profile_write)(const run_observer *observer, const inlay_profile_options *options,
                                  inlay_write_fn write, void *user, inlay_diag *diag);
    inlay_status (*profile_events)(const run_observer *observer,
                                   void (*event)(void *user, const inlay_profile_event *event), void *user,
                                   inlay_diag *diag);
} insight_part;

/* Option watchdog. */
typedef struct watchdog_part {
    /* Sets the client of a session that is otherwise complete. rate: the option's value, above 0. */
    inlay_status (*attach)(inlay_session *session, const inlay_options *options, double rate, inlay_diag *diag);
    /* Implement inlay_session_watchdog() and inlay_session_watchdog_finding() for a session with a client. False: no
     * such finding. */
    void (*get_info)(const inlay_session *session, bool wait, inlay_watchdog_info *out_info);
    bool (*get_finding)(const inlay_session *session, uint32_t index, inlay_watchdog_finding *out_finding);
} watchdog_part;
#endif
