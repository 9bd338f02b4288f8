/* session/trim.h - gives memory back that runs have left behind, on request (inlay_session_trim()) or when contexts
 * were idle for a time (option idle_trim_ms).
 *
 * A context is trimmed by another thread only while no call uses its runner: each such call is between
 * session_context_enter() and session_context_leave(). */
#ifndef SESSION_TRIM_H
#define SESSION_TRIM_H
#include "session/session.h"

/* Before a call that uses the context's runner: waits while the context is being trimmed. Calls may be nested. */
void session_context_enter(inlay_session *session, session_context *context);
void session_context_leave(session_context *context);
/* After a run, before session_context_leave(). */
void session_context_ran(const inlay_session *session, session_context *context);

/* Trims all contexts that no call uses, drops plans that no run uses, lets the providers release unused memory, and
 * returns free memory to the system. Any thread, also during runs. Fails with the status of the first provider that
 * fails, after everything is trimmed. */
inlay_status session_trim(inlay_session *session, inlay_diag *diag);

/* Option idle_trim_ms: starts the thread that trims idle contexts, if the option is set. */
INLAY_NODISCARD inlay_status session_idle_begin(inlay_session *session, const inlay_options *options, inlay_diag *diag);
/* In a child of fork(): starts a thread of this process. */
void session_idle_inherit(inlay_session *session);
/* Ends the thread, unless it is one of the parent of this process. No-op without the option. */
void session_idle_end(inlay_session *session);
#endif
