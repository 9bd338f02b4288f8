/* plugin/shared_probe.h - one probe of a file for all sessions that need its verdict. Private to this folder.
 *
 * If a session needs a file that another session already probes, it waits for that probe. The first caller that needs
 * the result reads the helper's report; the others wait for it. No caller waits here for the progress of another
 * session, so two sessions that need each other's files cannot block each other. The time limit is that of the session
 * that started the probe. Any thread may call these functions. A child of fork() does not join the probes of its
 * parent. */
#ifndef PLUGIN_SHARED_PROBE_H
#define PLUGIN_SHARED_PROBE_H
#include "plugin/probe.h"

typedef struct shared_probe shared_probe;

/* Joins the probe with this key, or starts one, and returns it in *out_probe; is_isolated: see probe_start(). If a
 * probe of the key has ended since the caller asked, there is none to join: *verdict gets its result and *out_probe
 * is NULL. On failure *out_probe is NULL and diag has the reason. */
INLAY_NODISCARD inlay_status shared_probe_join(const char *helper, const char *path, uint32_t limit_ms,
                                               bool is_isolated, const verdict_key *key, shared_probe **out_probe,
                                               struct verdict *verdict, inlay_diag *diag);
/* Waits for the end of the probe, stores its verdict under the key of the caller, and returns it. */
void shared_probe_wait(shared_probe *probe, const verdict_key *key, struct verdict *out);
/* Leaves the probe. If no session needs it any more, the process is ended without a verdict. The helper ends with the
 * thread that started it. So the thread that started the probe must call this function, and it waits here while others
 * need the result. NULL is a no-op. */
void shared_probe_leave(shared_probe *probe);
#endif
