/* watchdog/watchdog.h - option watchdog: computes a share of the executions of regions again on provider `reference`.
 *
 * A run copies the tensors of a chosen execution (sample.h) into a queue of a few entries. A thread of the
 * lowest priority judges them (judge.h), reports what is wrong (report.h), and excludes the provider for these
 * nodes. */
#ifndef WATCHDOG_WATCHDOG_H
#define WATCHDOG_WATCHDOG_H
#include "session/session.h"

struct watchdog;

typedef struct watchdog_settings {
    double rate;                  /* share of executions, above 0, at most 1 */
    const program_env *env;       /* outlives the watchdog */
    const struct provider *judge; /* the provider reference, which the watchdog closes */
    const char *folder;           /* for models of findings; "" = none; copied */
    bool reduced;                 /* floats may be computed with 16 bits (option precision) */
} watchdog_settings;

/* Sets the session's client, for option watchdog with a rate above 0. In attach.c. */
INLAY_NODISCARD inlay_status watchdog_attach(inlay_session *session, const inlay_options *options, double rate,
                                             inlay_diag *diag);
/* A client whose observers take samples, and which has a thread from the first sample on. It is destroyed by its own
 * function; if the call fails, the caller closes the judge. */
INLAY_NODISCARD inlay_status watchdog_create(const watchdog_settings *settings, session_client **out_client,
                                             inlay_diag *diag);
/* The watchdog of the session; NULL: none. */
struct watchdog *watchdog_of(const inlay_session *session);
/* Implement inlay_session_watchdog() and inlay_session_watchdog_finding() for a session with a watchdog, without a
 * lock. wait: until all samples taken so far are judged; any thread, but not during a run of the same thread. False:
 * no such finding. */
void watchdog_get_info(const inlay_session *session, bool wait, inlay_watchdog_info *out_info);
bool watchdog_get_finding(const inlay_session *session, uint32_t index, inlay_watchdog_finding *out_finding);
#endif
