/* session/versions.h - the versions of a session: one for each set of weights that a run may still use.
 *
 * A version is a model and its program. The latest one serves contexts that begin a run; earlier ones stay as long as
 * contexts use them. Then their regions are released. Their data stay as long as later versions run regions that they
 * compiled (plan/program/take_over.h). */
#ifndef SESSION_VERSIONS_H
#define SESSION_VERSIONS_H
#include "exec/values/value.h"
#include "session/session.h"

/* A tensor that replaces an initializer. Several versions may have it. */
typedef struct session_weight {
    uint32_t references; /* atomic */
    inlay_value *value;  /* a copy of the caller's */
    char name[];         /* of the initializer */
} session_weight;
void session_weight_unref(session_weight *weight); /* NULL is a no-op */

/* Makes the first version the latest. */
void session_versions_begin(inlay_session *session);
/* Destroys all versions but the first; session->main becomes the program of the first one, or NULL if that was released
 * before. No context is left. */
void session_versions_close(inlay_session *session);

/* A reference to the latest version, and its program. Any thread. */
session_version *session_version_take(inlay_session *session, struct program **out_program);
/* Drops the reference of a context. The last one releases an earlier version. Any thread. */
void session_version_give(inlay_session *session, session_version *version);
/* Makes a version, which is not in the list yet, the latest one. */
void session_version_set(inlay_session *session, session_version *version);
/* Destroys a version that never was the latest. NULL is a no-op. */
void session_version_destroy(session_version *version);

/* Begins and ends the use of all providers of the session. INLAY_BUSY or another status: one is suspended. */
INLAY_NODISCARD inlay_status session_enter_providers(const inlay_session *session, inlay_diag *diag);
void session_leave_providers(const inlay_session *session);

/* While held, session->main does not change, except by the background. */
void session_hold(const inlay_session *session);
void session_unhold(const inlay_session *session);
#endif
