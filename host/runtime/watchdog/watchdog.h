/* watchdog/watchdog.h - option watchdog: computes a share of the executions of regions again on provider `reference`.
 *
 * A run copies the tensors of a chosen execution (sample.h) into a queue of a few entries. A thread of the
 * lowest priority judges them (judge.h), reports what is wrong (report.h), and excludes the provider for these
 * nodes. */
#ifndef WATCHDOG_WATCHDOG_H
#define WATCHDOG_WATCHDOG_H
#include "exec/run/run.h"

struct watchdog;

typedef struct watchdog_settings {
    double rate;                  /* share of executions, above 0, at most 1 */
    const program_env *env;       /* outlives the watchdog */
    partition_provider reference; /* likewise its members */
    const char *folder;           /* for models of findings; "" = none; copied */
    bool reduced;                 /* floats may be computed with 16 bits (option precision) */
} watchdog_settings;

INLAY_NODISCARD inlay_status watchdog_create(const watchdog_settings *settings, struct watchdog **out_watchdog,
                                             inlay_diag *diag);
/* Ends the thread. No run is in progress. NULL is a no-op. */
void watchdog_destroy(struct watchdog *watchdog);
/* An observer of the runs of a context, which takes samples. */
INLAY_NODISCARD inlay_status watchdog_observer(const struct watchdog *watchdog, run_observer **out_observer,
                                               inlay_diag *diag);
/* No sample may refer to regions that are about to be released: drops the waiting ones. NULL is a no-op. */
void watchdog_forget(struct watchdog *watchdog);
/* In a child of fork(), which has no thread: no more samples are taken. NULL is a no-op. */
void watchdog_inherit(struct watchdog *watchdog);
/* Waits until all samples taken so far are judged. Any thread, but not during a run of the same thread. */
void watchdog_wait(struct watchdog *watchdog);
/* Implement inlay_session_watchdog() and inlay_session_watchdog_finding(), without a lock. False: no such finding. */
void watchdog_get_info(const struct watchdog *watchdog, inlay_watchdog_info *out_info);
bool watchdog_get_finding(const struct watchdog *watchdog, uint32_t index, inlay_watchdog_finding *out_finding);
#endif
