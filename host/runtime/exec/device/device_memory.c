/* exec/device/device_memory.c - allocates device memory within the limits that the user has set (option
 * memory_limit). */
#include "exec/device/device_memory.h"
#include "base/provider_calls.h"
#include "exec/device/residency.h"
#include "inlay/check.h"
#include "plugin/plugin.h"
#include <string.h>

/* The user's limit for values and workspace: memory_limit minus weights, at least 1; 0 = no limit. */
static uint64_t limit_of(const struct runner *runner, uint32_t provider)
{
    const program_env *env = runner->prog->env;
    const uint64_t resident = env->memory.resident_bytes != NULL
                                  ? __atomic_load_n(&env->memory.resident_bytes[provider], __ATOMIC_RELAXED)
                                  : 0;

    for (uint32_t i = 0; env->rules != NULL && i < env->rules->limit_count; i++)
        if (strcmp(env->rules->limits[i].provider, env->providers[provider].name) == 0)
            return env->rules->limits[i].bytes > resident ? env->rules->limits[i].bytes - resident : 1;
    return 0;
}

static bool reserve(const program_env *env, uint32_t provider, uint64_t bytes, uint64_t limit)
{
    uint64_t used = __atomic_add_fetch(&env->memory.device_bytes[provider], bytes, __ATOMIC_RELAXED);

    if (limit == 0 || used <= limit)
        return true;
    (void)__atomic_sub_fetch(&env->memory.device_bytes[provider], bytes, __ATOMIC_RELAXED);
    return false;
}

inlay_status device_memory_try_alloc(struct runner *runner, uint32_t provider, uint32_t domain, uint64_t bytes,
                                     buffer_use use, inlay_buffer *out, inlay_diag *diag)
{
    const program_env *env = runner->prog->env;
    const partition_provider *owner = &env->providers[provider];
    const uint64_t limit = limit_of(runner, provider);
    inlay_status status;
    INLAY_CHECK(provider < env->provider_count);

    *out = (inlay_buffer){ 0 };
    if (env->memory.device_bytes != NULL && !reserve(env, provider, bytes, limit))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                          "the run needs %llu more bytes of provider %s, above its limit (option memory_limit, %llu "
                          "without weights)",
                          (unsigned long long)bytes, owner->name, (unsigned long long)limit);
    use.priority = env->runs.priority;
    status = call_alloc(owner->table, owner->state, owner->first_domain, domain, bytes, use, out, diag);
    if (status == INLAY_OK)
        return status;
    if (env->memory.device_bytes != NULL)
        (void)__atomic_sub_fetch(&env->memory.device_bytes[provider], bytes, __ATOMIC_RELAXED);
    if (status == INLAY_DEVICE_LOST)
        provider_lost(owner->state);
    *out = (inlay_buffer){ 0 };
    return status;
}

/* If the device is full, first frees what bound plans of other shapes and spare results hold, then moves values that
 * the run holds for later steps to the host. */
inlay_status device_memory_alloc(struct runner *runner, uint32_t provider, uint32_t domain, uint64_t bytes,
                                 buffer_use use, inlay_buffer *out, inlay_diag *diag)
{
    inlay_status status = device_memory_try_alloc(runner, provider, domain, bytes, use, out, diag);

    for (int all = 0; all < 2 && is_out_of_room(status); all++) {
        runner->shared->calls->make_room(runner->shared->root, false, all != 0);
        status = device_memory_try_alloc(runner, provider, domain, bytes, use, out, diag);
    }
    if (status != INLAY_OK)
        runner->failed = &runner->prog->env->providers[provider];
    return status;
}

void device_memory_free(const program_env *env, uint32_t provider, inlay_buffer *buffer)
{
    if (buffer->handle == 0)
        return;
    INLAY_CHECK(provider < env->provider_count);
    INLAY_CHECK(env->memory.device_bytes == NULL ||
                __atomic_load_n(&env->memory.device_bytes[provider], __ATOMIC_RELAXED) >= buffer->bytes);
    if (env->memory.device_bytes != NULL)
        (void)__atomic_sub_fetch(&env->memory.device_bytes[provider], buffer->bytes, __ATOMIC_RELAXED);
    call_free(env->providers[provider].table, env->providers[provider].state, buffer);
    *buffer = (inlay_buffer){ 0 };
}
