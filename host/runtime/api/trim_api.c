/* api/trim_api.c - inlay.h: gives memory of runs back to the system. */
#include "api/context.h"
#include "base/heap.h"
#include "exec/loop/runner.h"

bool context_trim_idle(session_context *entry)
{
    inlay_context *context = (inlay_context *)(void *)((char *)entry - offsetof(inlay_context, entry));

    if (context->measuring != NULL || context->shared.hang.abandoned)
        return false;
    runner_trim(context->runner, false);
    run_shared_drop(&context->shared);
    return true;
}

inlay_status inlay_context_trim(inlay_context *context, inlay_diag *diag)
{
    inlay_status status = session_check_process(context->session, diag);

    if (status != INLAY_OK)
        return status;
    if (context_is_pending(context))
        return inlay_fail(diag, INLAY_BUSY, "a run of this context is pending; see inlay_context_wait()");
    session_context_enter(context->session, &context->entry);
    if (context->measuring != NULL)
        status = inlay_fail(diag, INLAY_BUSY,
                            "the context measures or profiles its runs; end that first, with "
                            "inlay_context_measure(context, 0, diag)");
    if (status == INLAY_OK && !context->shared.hang.abandoned && !session_device_hangs(context->session)) {
        runner_trim(context->runner, true);
        run_shared_drop(&context->shared);
        arena_deinit(&context->shared.texts.arena);
        context->entry.used = false;
    }
    session_context_leave(&context->entry);
    for (uint32_t i = 1; context->ladder != NULL && i < context->ladder->count && status == INLAY_OK; i++)
        status = inlay_context_trim(context->ladder->contexts[i], diag);
    if (status == INLAY_OK)
        heap_trim();
    return status;
}

inlay_status inlay_session_trim(inlay_session *session, inlay_diag *diag)
{
    inlay_status status = session_check_process(session, diag);

    if (status == INLAY_OK)
        status = session_trim(session, diag);
    for (uint32_t i = 1; i < session->ladder.count && status == INLAY_OK; i++)
        status = inlay_session_trim(session->ladder.variants[i], diag);
    return status;
}
