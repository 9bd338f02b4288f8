/* plugin/probe.h - tests a plugin in a separate process. Private to this folder and to the helper.
 *
 * The helper (host/probe/, installed as libexec/inlay/inlay-probe) is spawned, not forked, because the host may have
 * threads. It loads the file, gets its description and checks it, opens its providers, and makes them run a few
 * small nodes. It has no open files, no core dumps and a time limit. It starts with all signals blocked, and
 * discards those that were sent to its parent before it unblocks them. It reports through a pipe, descriptor 3, in
 * lines:
 *
 *     at STAGE            before each call into the plugin
 *     said TEXT           the plugin logged an error
 *     refused SENTENCE    the plugin cannot be loaded, and why
 *     lacks SENTENCE      the same, for want of descriptors: says nothing about the plugin
 *     note TEXT           the process state that the plugin changed
 *     ok                  the plugin can be loaded
 *     done                the last line, before main returns
 *
 * The verdict follows from how the process ended and from its last line. */
#ifndef PLUGIN_PROBE_H
#define PLUGIN_PROBE_H
#include "inlay/status.h"
#include "plugin/verdict.h"
#include <sys/types.h>

enum { PROBE_FD = 3, PROBE_DEFAULT_MS = 5000 };
#define PROBE_ISOLATED "--isolated" /* the helper's first argument for an isolated plugin */

/* A running probe; zero it before the first use. */
struct probe {
    pid_t pid; /* 0 = none */
    int fd;    /* read end of the helper's pipe */
    uint32_t limit_ms;
    int64_t deadline; /* by the monotonic clock, in milliseconds */
};

/* Finds the helper of this library or executable, if it exists and its owner is one from whom plugins may be loaded.
 * *host names this build of the host, helper included, for verdict_key_init. INLAY_NOT_FOUND: there is none; diag has
 * the reason. */
INLAY_NODISCARD inlay_status probe_find(char helper[PATH_MAX], char host[128], inlay_diag *diag);

/* Starts a probe of the file. settings: options of its provider, "NAME=VALUE", ended by NULL; NULL: the defaults.
 * is_isolated: with the environment of isolated providers, and the restrictions under which they are opened. Several
 * probes may run at a time. INLAY_OK: *out must be passed to probe_finish or probe_abandon. Otherwise the probe could
 * not be started; diag has the reason. */
INLAY_NODISCARD inlay_status probe_start(const char *helper, const char *path, char *const *settings, uint32_t limit_ms,
                                         bool is_isolated, struct probe *out, inlay_diag *diag);
/* Waits for the process, at most until limit_ms after its start, and derives the verdict from how it ended. The time
 * that it waits for a CPU does not count. */
void probe_finish(struct probe *probe, struct verdict *out);
/* Ends the process without a verdict; a no-op if no probe is running. */
void probe_abandon(struct probe *probe);
#endif
