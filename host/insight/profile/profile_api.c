/* profile/profile_api.c - inlay.h: profiles of the runs of a context. */
#include "api/context.h"
#include "base/sized_struct.h"
#include "profile/profile.h"

inlay_status inlay_context_profile(inlay_context *context, uint32_t on, uint32_t max_events, inlay_diag *diag)
{
    run_observer *observer = NULL;
    inlay_status status;

    session_context_enter(context->session, &context->entry);
    status = context_end_measuring(context, diag);
    if (status == INLAY_OK && on != 0)
        status = profile_create(context->session, max_events == 0 ? 262144 : max_events, &observer, diag);
    if (observer != NULL)
        context_begin_measuring(context, observer);
    session_context_leave(&context->entry);
    return status;
}

static inlay_status fail_not_profiled(inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the context is not profiled; call inlay_context_profile() first");
}

inlay_status inlay_context_profile_write(const inlay_context *context, const inlay_profile_options *options,
                                         inlay_write_fn write, void *user, inlay_diag *diag)
{
    const struct profile *profile = profile_of(context->measuring);
    explain_sink sink = { .write = write, .user = user };
    inlay_profile_options complete = { 0 };

    if (profile == NULL)
        return fail_not_profiled(diag);
    if (options != NULL)
        sized_struct_read(&complete, sizeof complete, options, options->struct_size);
    return profile_write(profile, &complete, &sink, diag);
}

inlay_status inlay_context_profile_events(const inlay_context *context,
                                          void (*event)(void *user, const inlay_profile_event *event), void *user,
                                          inlay_diag *diag)
{
    const struct profile *profile = profile_of(context->measuring);

    if (profile == NULL)
        return fail_not_profiled(diag);
    profile_each(profile, event, user);
    return INLAY_OK;
}
