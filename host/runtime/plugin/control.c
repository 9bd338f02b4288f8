/* Control of open providers (inlay.control/1). Runs and other calls of the application enter a provider; while it is
 * suspended, nothing enters. A provider without the extension cannot be suspended, and entering it costs nothing. */
#include "inlay/check.h"
#include "inlay/status.h"
#include "plugin/guard.h"
#include <time.h>

#define SUSPENDED (UINT32_C(1) << 31) /* in guard.users: the rest counts the runs and calls in progress */

inlay_status provider_begin_use(const struct provider *handle, inlay_diag *diag)
{
    struct guard *guard = handle->state;

    if (guard->real_control == NULL)
        return INLAY_OK;
    if ((__atomic_fetch_add(&guard->users, 1, __ATOMIC_ACQ_REL) & SUSPENDED) == 0)
        return INLAY_OK;
    (void)__atomic_fetch_sub(&guard->users, 1, __ATOMIC_ACQ_REL);
    return inlay_fail(diag, INLAY_BUSY, "provider %s is suspended; resume it with inlay_session_control()",
                      handle->name);
}

void provider_end_use(const struct provider *handle)
{
    struct guard *guard = handle->state;

    if (guard->real_control == NULL)
        return;
    INLAY_CHECK((__atomic_load_n(&guard->users, __ATOMIC_ACQUIRE) & ~SUSPENDED) > 0);
    (void)__atomic_fetch_sub(&guard->users, 1, __ATOMIC_ACQ_REL);
}

static void wait_for_users(struct guard *guard)
{
    const struct timespec pause = { 0, 1000000 };

    while ((__atomic_load_n(&guard->users, __ATOMIC_ACQUIRE) & ~SUSPENDED) != 0)
        (void)nanosleep(&pause, NULL);
}

inlay_status provider_control(const struct provider *handle, inlay_control_args *args, inlay_diag *diag)
{
    struct guard *guard = handle->state;
    inlay_status status = INLAY_OK;
    bool suspended;

    if (guard->real_control == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "provider %s cannot be controlled while it is open", handle->name);
    (void)pthread_mutex_lock(&guard->control_lock);
    suspended = (__atomic_load_n(&guard->users, __ATOMIC_ACQUIRE) & SUSPENDED) != 0;
    if (args->action == INLAY_CONTROL_SUSPEND && !suspended) {
        (void)__atomic_fetch_or(&guard->users, SUSPENDED, __ATOMIC_ACQ_REL);
        wait_for_users(guard);
    }
    if (suspended ? args->action != INLAY_CONTROL_SUSPEND : args->action != INLAY_CONTROL_RESUME)
        status = guard_control(guard, args, diag);
    /* After a failure the state is as it was. */
    if ((args->action == INLAY_CONTROL_SUSPEND && !suspended && status != INLAY_OK) ||
        (args->action == INLAY_CONTROL_RESUME && suspended && status == INLAY_OK))
        (void)__atomic_fetch_and(&guard->users, ~SUSPENDED, __ATOMIC_ACQ_REL);
    (void)pthread_mutex_unlock(&guard->control_lock);
    return status;
}
