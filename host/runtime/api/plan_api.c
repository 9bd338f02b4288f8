/* api/plan_api.c - inlay.h: saves the assignment of a session. */
#include "base/memory.h"
#include "session/versions.h"
#include <stdlib.h>

inlay_status inlay_session_plan_save(const inlay_session *session, inlay_write_fn write, void *user, inlay_diag *diag)
{
    partition_job *jobs;
    inlay_status status;
    uint32_t count;

    INLAY_CHECK(session_check(session));
    session_background_wait(session);
    session_hold(session);
    count = program_count(session->main);
    jobs = malloc(count * sizeof *jobs);
    if (jobs != NULL)
        (void)program_jobs(session->main, jobs);
    status = jobs == NULL ? no_memory(diag, "to save the plan") : partition_plan_save(jobs, count, write, user, diag);
    session_unhold(session);
    free(jobs);
    return status;
}
