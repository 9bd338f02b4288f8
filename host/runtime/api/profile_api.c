/* api/profile_api.c - inlay.h: profiles of the runs of a context. */
#include "api/context.h"
#include "api/insight.h"
#include "base/sized_struct.h"

inlay_status inlay_context_profile(inlay_context *context, uint32_t on, uint32_t max_events, inlay_diag *diag)
{
    const insight_part *insight = api_insight("inlay_context_profile", diag);
    run_observer *observer = NULL;
    inlay_status status;

    if (insight == NULL)
        return INLAY_UNSUPPORTED;
    session_context_enter(context->session, &context->entry);
    status = context_end_measuring(context, diag);
    if (status == INLAY_OK && on != 0)
        status = insight->profile(context->session, max_events == 0 ? 262144 : max_events, &observer, diag);
    if (observer != NULL)
        context_begin_measuring(context, observer);
    session_context_leave(&context->entry);
    return status;
}

inlay_status inlay_context_profile_write(const inlay_context *context, const inlay_profile_options *options,
                                         inlay_write_fn write, void *user, inlay_diag *diag)
{
    const insight_part *insight = api_insight("inlay_context_profile_write", diag);
    inlay_profile_options complete = { 0 };

    if (insight == NULL)
        return INLAY_UNSUPPORTED;
    if (options != NULL)
        sized_struct_read(&complete, sizeof complete, options, options->struct_size);
    return insight->profile_write(context->measuring, &complete, write, user, diag);
}

inlay_status inlay_context_profile_events(const inlay_context *context,
                                          void (*event)(void *user, const inlay_profile_event *event), void *user,
                                          inlay_diag *diag)
{
    const insight_part *insight = api_insight("inlay_context_profile_events", diag);

    return insight != NULL ? insight->profile_events(context->measuring, event, user, diag) : INLAY_UNSUPPORTED;
}
