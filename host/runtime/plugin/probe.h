/* plugin/probe.h - a plugin tried out in a process of its own. Private to this folder, save for the helper.
 *
 * The helper (host/probe/, installed as libexec/inlay/inlay-probe) is spawned, not forked: the host may have threads.
 * It loads the file, asks it to describe itself, checks that, then opens its providers and has them run a few small
 * nodes; it has no files, no core dumps and a time limit, and may crash as it likes. It begins with all signals
 * blocked, and drops those that came for its parent before it unblocks them. What it has to say comes through a pipe,
 * descriptor 3, in lines:
 *
 *     at STAGE            before each call into the plugin
 *     refused SENTENCE    it can't be loaded, and why
 *     ok                  it can
 *     done                the last line, before main returns
 *
 * How the process ended, and after which line, is the verdict. */
#ifndef PLUGIN_PROBE_H
#define PLUGIN_PROBE_H
#include "plugin/verdict.h"
#include <sys/types.h>

enum { PROBE_FD = 3, PROBE_DEFAULT_MS = 5000 };

/* A trial that is under way; zero it first. */
struct probe {
    pid_t pid; /* 0 = none */
    int fd;    /* what it says */
    uint32_t limit_ms;
    int64_t deadline; /* by the monotonic clock, in milliseconds */
};

/* The helper of this library or executable, if it is there and belongs to somebody whom plugins may be loaded from;
 * *out_host names this build of the host, helper included, for verdict_key_init. */
bool probe_find(char helper[PATH_MAX], char host[128]);

/* Starts to try the file: several may be under way at a time. INLAY_OK: *out is for probe_finish or probe_abandon.
 * Otherwise the trial can't be held, and diag says why. */
INLAY_NODISCARD inlay_status probe_start(const char *helper, const char *path, uint32_t limit_ms, struct probe *out,
                                         inlay_diag *diag);
/* Waits for the process, until limit_ms after its start at most; what has ended by now is judged by how it ended. */
void probe_finish(struct probe *probe, struct verdict *out);
/* Ends the process without a verdict; one that is not under way is a no-op. */
void probe_abandon(struct probe *probe);
#endif
