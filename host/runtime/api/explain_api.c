/* api/explain_api.c - inlay.h: explains a session. */
#include "api/context.h"
#include "api/insight.h"
#include "base/sized_struct.h"

inlay_status inlay_session_explain(const inlay_session *session, const inlay_explain_options *options,
                                   inlay_write_fn write, void *user, inlay_diag *diag)
{
    static const inlay_explain_options defaults = { .struct_size = sizeof defaults };
    const insight_part *insight = api_insight("inlay_session_explain", diag);
    inlay_explain_options complete;
    inlay_context *measured;
    inlay_status status;

    if (insight == NULL)
        return INLAY_UNSUPPORTED;
    if (options == NULL)
        options = &defaults;
    if (options->struct_size < sizeof options->struct_size)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_explain_options.struct_size is not set");
    sized_struct_read(&complete, sizeof complete, options, options->struct_size);
    if (complete.reserved != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_explain_options.reserved is not 0");
    if (session_check_process(session, diag) != INLAY_OK)
        return INLAY_UNSUPPORTED;
    measured = (inlay_context *)(uintptr_t)complete.measured;
    if (measured != NULL && measured->session != session)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the measured context belongs to another session");
    session_background_wait(session);
    session_hold(session);
    if (measured != NULL)
        session_context_enter(measured->session, &measured->entry);
    if (measured != NULL && measured->runner->prog != session->main)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "the context was measured before the session ran on all its providers, or before its "
                            "weights were changed; measure it again");
    else
        status = insight->explain(session, &complete, measured == NULL ? NULL : measured->measuring,
                                  measured == NULL ? NULL : measured->runner, write, user, diag);
    if (measured != NULL)
        session_context_leave(&measured->entry);
    session_unhold(session);
    return status;
}
