/* session/progress.c - what the caller is told while a session opens. */
#include "session/session.h"

inlay_status session_report(inlay_session *session, double fraction, const char *what, inlay_diag *diag)
{
    if (session->progress != NULL && session->progress(session->progress_user, fraction, what) != 0)
        return inlay_fail(diag, INLAY_CANCELLED, "cancelled while the session was created (%s)", what);
    return INLAY_OK;
}
