/* No process is started, also none that tests or runs plug-ins: base/spawn.h, plugin/probe.h, plugin/shared_probe.h,
 * plugin/library_probe.h. */
#include "base/spawn.h"
#include "inlay/plugin.h"
#include "plugin/library_probe.h"
#include "plugin/shared_probe.h"
#include <errno.h>
#include <stdio.h>

inlay_status probe_find(char helper[PATH_MAX], char host[128], inlay_diag *diag)
{
    helper[0] = '\0';
    (void)snprintf(host, 128, "%s abi %u.%u", INLAY_VERSION, INLAY_ABI_MAJOR, INLAY_ABI_MINOR);
    return inlay_fail(diag, INLAY_UNSUPPORTED, "inlay has no probe on this system");
}

inlay_status shared_probe_join(const char *helper, const char *path, uint32_t limit_ms, bool is_isolated,
                               const verdict_key *key, shared_probe **out_probe, struct verdict *verdict,
                               inlay_diag *diag)
{
    (void)helper, (void)path, (void)limit_ms, (void)is_isolated, (void)key;
    *out_probe = NULL;
    verdict->kind = VERDICT_NONE;
    return inlay_fail(diag, INLAY_UNSUPPORTED, "inlay has no probe on this system");
}

void shared_probe_wait(shared_probe *probe, const verdict_key *key, struct verdict *out)
{
    (void)probe, (void)key;
    out->kind = VERDICT_NONE;
}

void shared_probe_leave(shared_probe *probe)
{
    (void)probe;
}

inlay_status library_probe(const probe_rules *rules, const plugin_provider *provider, const provider_setting *settings,
                           uint32_t setting_count, inlay_diag *diag)
{
    (void)rules, (void)provider, (void)settings, (void)setting_count, (void)diag;
    return INLAY_OK;
}

int spawn_start(const spawn_args *args, pid_t *out_child)
{
    (void)args, (void)out_child;
    return ENOSYS;
}

int spawn_wait(pid_t child, double seconds, bool (*cancelled)(void))
{
    (void)child, (void)seconds, (void)cancelled;
    return SPAWN_LOST;
}
