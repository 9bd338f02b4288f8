#include "exec/loop/realtime.h"
#include "inlay/plugin.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* Why a step may allocate or wait; NULL: it does neither. */
static const char *obstacle(const plan_step *step)
{
    return step->kind == PLAN_DYNAMIC ? "its sizes depend on data"
           : step->kind == PLAN_HOST  ? "it is run by the host, with bodies or lists"
           : step->kind == PLAN_COPY || (step->step->provider->table->flags & INLAY_PROVIDER_ASYNC) != 0
               ? "it waits for a device"
               : NULL;
}

inlay_status realtime_prepare(const struct runner *runner, const struct plan *plan, inlay_diag *diag)
{
    if (!runner->prog->env->runs.realtime)
        return INLAY_OK;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const char *why = obstacle(&plan->steps[i]);
        const inlay_node_info *node = plan->steps[i].step != NULL ? &plan->steps[i].step->node->info : NULL;

        if (why != NULL && node == NULL)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "option realtime: a copy between devices waits for them");
        if (why != NULL)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "option realtime: %s node '%s': %s", node->op_type.data,
                              node->name.data, why);
    }
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                          "option realtime: memory cannot be locked: %s; raise the limit (ulimit -l)", strerror(errno));
    return INLAY_OK;
}

inlay_status realtime_forbid_growth(const struct runner *runner, inlay_diag *diag)
{
    if (!runner->prog->env->runs.realtime || runner->plans.now == NULL)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_UNSUPPORTED,
                      "option realtime: other input sizes than in the first run; use a context for each");
}
