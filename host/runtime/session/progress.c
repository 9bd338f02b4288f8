/* session/progress.c - reports progress while a session is being created. */
#include "session/session.h"
#include "inlay/check.h"

inlay_status session_report(inlay_session *session, double fraction, const char *what, inlay_diag *diag)
{
    INLAY_CHECK(fraction >= 0 && fraction <= 1);
    if (session->progress.report != NULL && session->progress.report(session->progress.user, fraction, what) != 0)
        return inlay_fail(diag, INLAY_CANCELLED, "cancelled while the session was created (%s)", what);
    return INLAY_OK;
}
