/* api/plan_api.c - inlay.h: saves the assignment of a session. */
#include "base/memory.h"
#include "session/session.h"
#include <stdlib.h>

inlay_status inlay_session_plan_save(const inlay_session *session, inlay_write_fn write, void *user, inlay_diag *diag)
{
    partition_job *jobs;
    inlay_status status;
    uint32_t count;

    session_background_wait(session);
    count = program_count(session->main);
    jobs = malloc(count * sizeof *jobs);
    if (jobs == NULL)
        return no_memory(diag, "to save the plan");
    (void)program_jobs(session->main, jobs);
    status = partition_plan_save(jobs, count, write, user, diag);
    free(jobs);
    return status;
}
