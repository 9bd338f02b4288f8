/* Open providers: shared by sessions that ask for the same one with the same settings. */
#include "base/float_state.h"
#include "base/known.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/boundary.h"
#include "base/clock.h"
#include "plugin/crash.h"
#include "plugin/guard.h"
#include "plugin/module.h"
#include "threads/fence.h"
#include "threads/fork.h"
#include "threads/threads.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct open_provider {
    struct provider shown; /* first, so that a provider * is an open_provider * */
    const plugin_provider *info;
    char *name;         /* what the user calls it: that of the plugin's table, or "NAME#WORD" for one of several */
    char *key;          /* the settings, all of them, as text */
    struct guard guard; /* what shown.table and shown.state are */
    inlay_device_info device;   /* what describe said; {0} without it */
    inlay_domain_info *domains; /* [domain_count] likewise; NULL: as the plugin says before */
    uint32_t references;
    bool lost;
    uint32_t forks; /* fork_count when it was opened */
    struct open_provider *next;
} open_provider;

static open_provider *opened;    /* the registry's lock guards it */
static uint32_t next_domain = 1; /* ids are never used again; 0 is the host's */

/* Writes the values as "a=1;b=x;" into memory of the caller; NULL: out of memory. */
static char *make_key(const inlay_option_value *values, uint32_t count)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);

    if (file == NULL)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        (void)fprintf(file, "%s=%lld,%a,%s;", values[i].name, (long long)values[i].i, values[i].f,
                      values[i].s != NULL ? values[i].s : "");
    if (fclose(file) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static const char *provider_name(const void *ctx, uint32_t i)
{
    return plugin_set_provider(ctx, i)->table.name;
}

static inlay_status unknown_provider(const plugin_set *set, const char *name, inlay_diag *diag)
{
    const char *near = nearest_name(name, provider_name, set, plugin_set_provider_count(set));
    const plugin_file *missed = plugin_set_find_missed(set, name);
    char known[256] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < plugin_set_provider_count(set) && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", provider_name(set, i));
    if (missed != NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "no provider '%s': %.150s was not loaded: %s%s%s", name,
                          missed->path, missed->reason, missed->fix != NULL ? "; " : "",
                          missed->fix != NULL ? missed->fix : "");
    if (near != NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "no provider '%s'; did you mean '%s'? (There are: %s)", name,
                          near, known);
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "no provider '%s' in %s; there are: %s", name,
                      plugin_set_operators(set)->searched, used > 0 ? known : "none");
}

/* What the device is like, now that it is open. A provider that says nonsense is believed what it said before. */
static inlay_status describe(open_provider *provider, inlay_diag *diag)
{
    const inlay_provider *real = &provider->info->table;
    const uint32_t count = real->domain_count;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_domain_info *domains;
    crash_scene before;
    inlay_status status;

    provider->device.struct_size = sizeof provider->device;
    if (real->describe == NULL)
        return INLAY_OK;
    domains = calloc((size_t)count + 1, sizeof *domains);
    if (domains == NULL)
        return no_memory(diag, "to open provider %s", provider->name);
    if (count > 0)
        memcpy(domains, provider->info->domains, count * sizeof *domains);
    before = crash_enter(provider->info->module, "describe", provider->name, NULL);
    status = real->describe(provider->guard.state, &provider->device, domains, &own);
    crash_leave(&before);
    for (uint32_t i = 0; i < count && status == INLAY_OK; i++) {
        const uint64_t a = domains[i].alignment;

        if (domains[i].name == NULL || (a & (a - 1)) != 0 || a < provider->info->domains[i].alignment ||
            ((domains[i].flags & INLAY_DOMAIN_HOST_VISIBLE) != 0 &&
             (real->buffer_map == NULL || real->buffer_unmap == NULL)))
            status = inlay_fail(&own, INLAY_INVALID_ARGUMENT,
                                "describe gives domain %u a name, alignment or flags that "
                                "can't be",
                                i);
    }
    if (status != INLAY_OK) {
        free(domains);
        return forward_plugin_error(&(boundary_call){ NULL, NULL }, status, &own, diag);
    }
    provider->domains = domains;
    provider->guard.table.domains = domains;
    return INLAY_OK;
}

/* Has the process forked since? A device, and the threads that serve it, are the parent's alone: it is not used, not
 * shared and not closed. */
static bool is_left_behind(const open_provider *provider)
{
    return provider->forks != fork_count && provider->info->table.domain_count > 0;
}

/* Makes a new open provider; the lock is held. Takes key. */
static inlay_status open_anew(const plugin_provider *info, const char *name, const inlay_option_value *values,
                              char *key, const char *cache_dir, open_provider **out, inlay_diag *diag)
{
    open_provider *provider = calloc(1, sizeof *provider);
    const inlay_create_args args = { .struct_size = sizeof args,
                                     .options = values,
                                     .option_count = info->table.option_count,
                                     .option_stride = sizeof *values,
                                     .first_domain = next_domain,
                                     .max_threads = threads_budget(),
                                     .cache_dir = cache_dir };
    inlay_diag own = INLAY_DIAG_INIT;
    crash_scene before;
    float_state floats;
    inlay_status status;
    void *state = NULL;

    if (provider == NULL || info->table.domain_count > UINT32_MAX - next_domain ||
        (provider->name = strdup(name)) == NULL) {
        free(provider);
        return no_memory(diag, "to open provider %s", info->table.name);
    }
    before = crash_enter(info->module, "create", info->table.name, NULL);
    floats = float_state_get();
    status = info->table.create(info->table.ctx, host_table(), &args, &state, &own);
    (void)float_state_restore(floats);
    crash_leave(&before);
    if (status != INLAY_OK) {
        free(provider->name);
        free(provider);
        return forward_plugin_error(&(boundary_call){ NULL, NULL }, status, &own, diag); /* the session names it */
    }
    guard_init(&provider->guard, &info->table, provider->name, state, info->module);
    provider->info = info;
    status = describe(provider, diag);
    if (status != INLAY_OK) {
        provider->guard.table.destroy(&provider->guard);
        free(provider->name);
        free(provider);
        return status;
    }
    provider->shown.table = &provider->guard.table;
    provider->shown.state = &provider->guard;
    provider->shown.device = &provider->device;
    provider->shown.name = provider->name;
    provider->shown.path = info->file->path;
    provider->shown.version = info->file->version;
    provider->shown.build_id = info->file->build_id;
    provider->shown.abi_minor = info->file->abi_minor;
    provider->shown.first_domain = next_domain;
    next_domain += info->table.domain_count;
    provider->key = key;
    provider->forks = fork_count;
    info->module->references++;
    provider->next = opened;
    opened = provider;
    *out = provider;
    return INLAY_OK;
}

inlay_status provider_open(plugin_set *set, const char *name, const provider_setting *settings, uint32_t setting_count,
                           const struct provider **out_provider, inlay_diag *diag)
{
    const plugin_provider *info = plugin_set_find(set, name);
    inlay_option_value *values = NULL;
    open_provider *provider = NULL;
    inlay_status status;
    char *key = NULL;

    *out_provider = NULL;
    if (info == NULL)
        return unknown_provider(set, name, diag);
    values = calloc(info->table.option_count + 1, sizeof *values);
    if (values == NULL)
        return no_memory(diag, "to open provider %s", name);
    INLAY_TRY(
        provider_parse_options(name, info->options, info->table.option_count, settings, setting_count, values, diag));
    key = make_key(values, info->table.option_count);
    if (key == NULL) {
        status = no_memory(diag, "to open provider %s", name);
        goto done;
    }
    registry_lock();
    for (provider = opened; provider != NULL && (provider->info != info || provider->lost || is_left_behind(provider) ||
                                                 strcmp(provider->name, name) != 0 || strcmp(provider->key, key) != 0);)
        provider = provider->next;
    if (provider == NULL) {
        status = open_anew(info, name, values, key, plugin_set_cache_dir(set), &provider, diag);
        if (status == INLAY_OK)
            key = NULL;
    }
    if (status == INLAY_OK) {
        provider->references++;
        *out_provider = &provider->shown;
    }
    registry_unlock();
done:
    free(key);
    free(values);
    return status;
}

/* A device that is asked to end its work, and may not. */
struct leaving {
    const struct provider *shown;
    inlay_fence done;
};

void provider_close(const struct provider *shown)
{
    open_provider *provider = (open_provider *)(uintptr_t)shown, **link = &opened;

    if (provider == NULL)
        return;
    registry_lock();
    if (--provider->references == 0 && !is_left_behind(provider)) {
        while (*link != provider)
            link = &(*link)->next;
        *link = provider->next;
        if (provider->shown.table->quiesce != NULL)
            provider->shown.table->quiesce(provider->shown.state);
        provider->shown.table->destroy(provider->shown.state);
        registry_put(provider->info->module);
        free(provider->key);
        free(provider->name);
        free(provider->domains);
        free(provider);
    }
    registry_unlock();
}

static void *end_work(void *arg)
{
    const struct leaving *leaving = arg;

    leaving->shown->table->quiesce(leaving->shown->state);
    fence_signal(leaving->done, INLAY_OK, NULL);
    return NULL;
}

/* What it hands to the thread stays with it where that does not end. */
void provider_leave(const struct provider *shown, uint64_t limit_ms)
{
    struct leaving *leaving = shown->table->quiesce != NULL ? malloc(sizeof *leaving) : NULL;
    pthread_t thread;

    if (leaving == NULL)
        return;
    *leaving = (struct leaving){ .shown = shown, .done.value = 1 };
    if (timeline_create(&leaving->done.timeline, NULL) != INLAY_OK ||
        pthread_create(&thread, NULL, end_work, leaving) != 0) {
        timeline_destroy(leaving->done.timeline);
        free(leaving);
        return;
    }
    if (fence_wait_until(leaving->done, NULL, clock_ns() + limit_ms * 1000000, NULL) != INLAY_OK) {
        (void)pthread_detach(thread);
        return;
    }
    (void)pthread_join(thread, NULL);
    timeline_destroy(leaving->done.timeline);
    free(leaving);
}

const struct provider *provider_hold(const struct provider *shown)
{
    registry_lock();
    ((open_provider *)(uintptr_t)shown)->references++;
    registry_unlock();
    return shown;
}

void provider_lost(const void *state)
{
    registry_lock();
    for (open_provider *provider = opened; provider != NULL; provider = provider->next)
        if (provider->shown.state == state)
            provider->lost = true;
    registry_unlock();
}

bool provider_is_lost(const void *state)
{
    bool lost = false;

    registry_lock();
    for (const open_provider *provider = opened; provider != NULL; provider = provider->next)
        lost |= provider->shown.state == state && provider->lost;
    registry_unlock();
    return lost;
}

const struct provider *provider_of_domain(uint32_t domain, const inlay_domain_info **out_info)
{
    const struct provider *found = NULL;

    registry_lock();
    for (const open_provider *provider = opened; provider != NULL && found == NULL; provider = provider->next) {
        /* Unsigned: a domain below the first is far above the last. */
        if (domain != INLAY_DOMAIN_HOST &&
            domain - provider->shown.first_domain < provider->shown.table->domain_count) {
            found = &provider->shown;
            if (out_info != NULL)
                *out_info = &provider->shown.table->domains[domain - provider->shown.first_domain];
        }
    }
    registry_unlock();
    return found;
}

/* ------------------------------------------------------------------ devices that nobody has opened */

typedef struct device_call {
    plugin_device_fn device;
    void *user;
} device_call;

/* The caller's, with what a plugin of another age said. */
static inlay_status pass_device(void *user, const inlay_device_info *info)
{
    const device_call *call = user;
    inlay_device_info known;

    known_take(&known, sizeof known, info, info->struct_size);
    return call->device(call->user, &known);
}

inlay_status plugin_devices(const plugin_provider *provider, plugin_device_fn device, void *user, inlay_diag *diag)
{
    const inlay_device_info only = { .struct_size = sizeof only,
                                     .name = provider->table.description,
                                     .memory_bytes =
                                         provider->table.domain_count > 0 ? provider->domains[0].memory_bytes : 0,
                                     .kind = provider->table.device_kind };
    device_call call = { device, user };
    inlay_diag own = INLAY_DIAG_INIT;
    crash_scene before;
    float_state floats;
    inlay_status status;

    if (provider->table.enumerate == NULL)
        return device(user, &only);
    before = crash_enter(provider->module, "enumerate", provider->table.name, NULL);
    floats = float_state_get();
    status = provider->table.enumerate(provider->table.ctx, host_table(), pass_device, &call, &own);
    (void)float_state_restore(floats);
    crash_leave(&before);
    return status == INLAY_OK ? status : forward_plugin_error(&(boundary_call){ NULL, NULL }, status, &own, diag);
}
