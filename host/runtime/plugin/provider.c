/* Open providers, shared by sessions that request the same one with the same settings. */
#include "base/float_state.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "base/sized_struct.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/boundary.h"
#include "base/clock.h"
#include "graph/graph.h"
#include "plugin/isolate.h"
#include "plugin/crash.h"
#include "plugin/guard.h"
#include "plugin/library_probe.h"
#include "plugin/module.h"
#include "threads/fence.h"
#include "threads/fork.h"
#include "threads/threads.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct open_provider {
    struct provider handle; /* first, so that a struct provider * can be cast to an open_provider * */
    const plugin_provider *info;
    /* the name that the user gave: the name in the plugin's table, or "NAME#WORD" if there are several */
    char *name;
    char *key;                  /* all settings as text */
    struct guard guard;         /* handle.table and handle.state point into it */
    inlay_device_info device;   /* the result of describe; {0} without it */
    inlay_domain_info *domains; /* [domain_count], the result of describe; NULL: the plugin's static domains */
    struct arena arena;         /* of handle.operators */
    uint32_t references;
    bool lost;
    bool hung;      /* holds one reference, which is never released */
    uint32_t forks; /* fork_count when it was opened */
    struct open_provider *next;
} open_provider;

enum { MAX_OPERATORS = 4096 }; /* of an open provider */

static open_provider *opened; /* guarded by the registry's lock, like references, lost and hung of each */

/* Returns the values as text "a=1;b=x;", to be freed by the caller; NULL: out of memory. */
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
    return plugin_set_provider(ctx, i)->table->name;
}

static inlay_status unknown_provider(const plugin_set *set, const char *name, inlay_diag *diag)
{
    const char *nearest = nearest_name(name, provider_name, set, plugin_set_provider_count(set));
    const plugin_file *unloaded = plugin_set_find_missed(set, name);
    char names[256] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < plugin_set_provider_count(set) && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", provider_name(set, i));
    if (unloaded != NULL)
        (void)inlay_fail(diag, INLAY_INVALID_ARGUMENT, "no provider '%s': %.150s was not loaded: %s%s%s", name,
                         unloaded->path, unloaded->reason, unloaded->fix != NULL ? "; " : "",
                         unloaded->fix != NULL ? unloaded->fix : "");
    else if (nearest != NULL)
        (void)inlay_fail(diag, INLAY_INVALID_ARGUMENT, "no provider '%s'; did you mean '%s'? (Available: %s)", name,
                         nearest, names);
    else
        (void)inlay_fail(diag, INLAY_INVALID_ARGUMENT, "no provider '%s' in %s; available: %s", name,
                         plugin_set_operators(set)->searched, used > 0 ? names : "none");
    if (diag != NULL)
        diag->error_class = INLAY_CLASS_RETRY; /* the file of the plugin may be there later */
    return INLAY_INVALID_ARGUMENT;
}

/* Ends a provider that no session uses any more. */
static void end_provider(const inlay_provider *table, void *state)
{
    if (table->quiesce != NULL)
        table->quiesce(state);
    table->destroy(state);
}

/* Gets the description of the opened device. An invalid description fails. */
static inlay_status describe(open_provider *provider, inlay_diag *diag)
{
    const inlay_provider *real = provider->info->table;
    const uint32_t count = real->domain_count;
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_describe_request request = { .struct_size = sizeof request,
                                       .device = &provider->device,
                                       .domain_count = count,
                                       .domain_stride = sizeof(inlay_domain_info) };
    inlay_domain_info *domains;
    crash_scene before;
    float_state floats;
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
    request.domains = domains;
    floats = float_state_get();
    status = real->describe(provider->guard.state, &request, &own);
    (void)float_state_restore(floats);
    crash_leave(&before);
    if (status == INLAY_OK && (request.domain_count != count || request.domains != domains ||
                               request.domain_stride != sizeof *domains || request.device != &provider->device))
        status = inlay_fail(&own, INLAY_INVALID_ARGUMENT,
                            "describe changes its request, to %u domains; it describes the %u domains that the plugin "
                            "states, and no others",
                            request.domain_count, count);
    for (uint32_t i = 0; i < count && status == INLAY_OK; i++) {
        if (domains[i].name == NULL || domains[i].alignment < provider->info->domains[i].alignment)
            status = inlay_fail(&own, INLAY_INVALID_ARGUMENT,
                                "describe gives domain %u no name, or a lower alignment than the plugin", i);
        else
            status = module_check_domain(real, &domains[i], &own);
    }
    if (status != INLAY_OK) {
        free(domains);
        return forward_plugin_error(&(boundary_call){ NULL, NULL }, status, &own, diag);
    }
    provider->domains = domains;
    provider->guard.table.domains = domains;
    return INLAY_OK;
}

/* Gets the operators that only the open provider defines. */
static inlay_status list_operators(open_provider *provider, inlay_diag *diag)
{
    const inlay_provider *table = &provider->guard.table;
    const inlay_ext_operators *list =
        table->extension != NULL ? table->extension(&provider->guard, INLAY_EXT_OPERATORS) : NULL;
    inlay_operator *operators = NULL;
    inlay_status status = INLAY_OK;

    if (list == NULL || !INLAY_HAS(list, operator_stride) || list->operator_count == 0)
        return INLAY_OK;
    if (list->operators == NULL || list->operator_stride == 0 || list->operator_count > MAX_OPERATORS)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "its list of %u operators is invalid", list->operator_count);
    status = module_adopt_operators(provider->info->module, list->operators, list->operator_stride,
                                    list->operator_count, &provider->arena, &operators, diag);
    provider->handle.operators = operators;
    provider->handle.operator_count = list->operator_count;
    return status;
}

/* Has the process forked since the provider opened a device, or started the process of an isolated provider? These
 * belong to the parent process only: the child does not use, share or close them. A provider without domains has no
 * device. */
static bool belongs_to_parent(const open_provider *provider)
{
    return provider->forks != fork_count &&
           (provider->info->table->domain_count > 0 || provider->info->module->isolated);
}

/* The lowest ids of `count` successive domains that no open provider has; 0 is the host's. Tables of sessions are as
 * long as the highest id, so ids are used again: a provider is closed when nothing refers to it, under the lifecycle
 * lock, which the caller holds. */
static uint32_t find_free_domains(uint32_t count)
{
    uint32_t first = 1;
    bool is_free;

    registry_lock();
    do {
        is_free = true;
        for (const open_provider *provider = opened; provider != NULL; provider = provider->next) {
            const uint32_t begin = provider->handle.first_domain, end = begin + provider->info->table->domain_count;

            if (first < end && begin < first + count) {
                first = end;
                is_free = false;
            }
        }
    } while (!is_free);
    registry_unlock();
    return first;
}

/* Opens a new provider with one reference; the lifecycle lock is held. On success it takes over key. */
static inlay_status open_new(const plugin_provider *info, const char *name, const inlay_option_value *values, char *key,
                             const char *cache_dir, open_provider **out, inlay_diag *diag)
{
    open_provider *provider = calloc(1, sizeof *provider);
    const inlay_create_args args = { .struct_size = sizeof args,
                                     .options = values,
                                     .option_count = info->table->option_count,
                                     .option_stride = sizeof *values,
                                     .first_domain = find_free_domains(info->table->domain_count),
                                     .max_threads = threads_budget(),
                                     .cache_dir = cache_dir };
    inlay_diag own = INLAY_DIAG_INIT;
    crash_scene before;
    float_state floats;
    inlay_status status;
    void *state = NULL;

    if (provider == NULL || (provider->name = strdup(name)) == NULL) {
        free(provider);
        return no_memory(diag, "to open provider %s", info->table->name);
    }
    before = crash_enter(info->module, "create", info->table->name, NULL);
    floats = float_state_get();
    status = info->table->create(info->table->ctx, host_table(), &args, &state, &own);
    (void)float_state_restore(floats);
    crash_leave(&before);
    if (status != INLAY_OK) {
        free(provider->name);
        free(provider);
        return forward_plugin_error(&(boundary_call){ NULL, NULL }, status, &own,
                                    diag); /* the session adds the provider's name */
    }
    guard_init(&provider->guard, info->table, provider->name, state, info->module);
    provider->info = info;
    status = describe(provider, diag);
    if (status == INLAY_OK)
        status = list_operators(provider, diag);
    if (status != INLAY_OK) {
        end_provider(&provider->guard.table, &provider->guard);
        arena_deinit(&provider->arena);
        free(provider->domains);
        free(provider->name);
        free(provider);
        return status;
    }
    provider->handle.table = &provider->guard.table;
    provider->handle.state = &provider->guard;
    provider->handle.device = &provider->device;
    provider->handle.name = provider->name;
    provider->handle.path = info->file->path;
    provider->handle.version = info->file->version;
    provider->handle.build_id = info->file->build_id;
    provider->handle.abi_minor = info->file->abi_minor;
    provider->handle.first_domain = args.first_domain;
    provider->key = key;
    provider->forks = fork_count;
    provider->references = 1;
    registry_lock();
    (void)registry_retain(info->module);
    provider->next = opened;
    opened = provider;
    registry_unlock();
    *out = provider;
    return INLAY_OK;
}

/* NULL: the provider is not isolated. */
static const isolate_control *control_of(const open_provider *provider)
{
    const plugin_provider *info = provider->info;

    return info->module->isolated ? info->table->extension(provider->guard.state, ISOLATE_CONTROL) : NULL;
}

/* Finds an open provider with these settings and adds a reference to it; *out is NULL if there is none. An isolated one
 * is not shared, so that its process fails one session alone. INLAY_BUSY: it is suspended. */
static inlay_status share_open(const plugin_provider *info, const char *name, const char *key, open_provider **out,
                               inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    open_provider *provider;

    registry_lock();
    for (provider = opened; provider != NULL && (provider->info != info || info->module->isolated || provider->lost ||
                                                 belongs_to_parent(provider) || strcmp(provider->name, name) != 0 ||
                                                 strcmp(provider->key, key) != 0);)
        provider = provider->next;
    if (provider != NULL)
        status = provider_begin_use(&provider->handle, diag);
    if (provider != NULL && status == INLAY_OK) {
        provider_end_use(&provider->handle);
        provider->references++;
    }
    registry_unlock();
    *out = provider;
    return status;
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
    values = calloc(info->table->option_count + 1, sizeof *values);
    if (values == NULL)
        return no_memory(diag, "to open provider %s", name);
    INLAY_TRY(
        provider_parse_options(name, info->options, info->table->option_count, settings, setting_count, values, diag));
    key = make_key(values, info->table->option_count);
    if (key == NULL) {
        status = no_memory(diag, "to open provider %s", name);
        goto done;
    }
    INLAY_TRY(share_open(info, name, key, &provider, diag));
    if (provider == NULL)
        INLAY_TRY(library_probe(plugin_set_rules(set), info, settings, setting_count, diag));
    if (provider == NULL) {
        lifecycle_lock();
        status = share_open(info, name, key, &provider, diag); /* another thread may have opened it meanwhile */
        if (status == INLAY_OK && provider == NULL) {
            status = open_new(info, name, values, key, plugin_set_cache_dir(set), &provider, diag);
            if (status == INLAY_OK)
                key = NULL;
            if (status == INLAY_OK && info->module->isolated)
                control_of(provider)->set_limits(provider->guard.state, plugin_set_isolate_limits(set));
        }
        lifecycle_unlock();
    }
    if (status == INLAY_OK) {
        INLAY_CHECK(provider->handle.state != NULL);
        *out_provider = &provider->handle;
    }
done:
    free(key);
    free(values);
    return status;
}

/* A quiesce call that may never return. */
struct quiesce_job {
    const struct provider *handle;
    inlay_fence done;
    bool left; /* by the thread or by the caller; the second of them frees the job */
};

static void leave_job(struct quiesce_job *quiesce_job)
{
    if (!__atomic_exchange_n(&quiesce_job->left, true, __ATOMIC_ACQ_REL))
        return;
    timeline_destroy(quiesce_job->done.timeline);
    free(quiesce_job);
}

void provider_close(const struct provider *handle)
{
    open_provider *provider = (open_provider *)(uintptr_t)handle, **link = &opened;
    bool is_last;

    if (provider == NULL)
        return;
    registry_lock();
    INLAY_CHECK(provider->references > 0);
    is_last = provider->references == 1;
    if (!is_last)
        provider->references--;
    registry_unlock();
    if (!is_last)
        return;
    lifecycle_lock();
    registry_lock();
    is_last = --provider->references == 0 && !belongs_to_parent(provider); /* another session may share it by now */
    while (is_last && *link != provider)
        link = &(*link)->next;
    if (is_last)
        *link = provider->next;
    registry_unlock();
    if (is_last) {
        end_provider(provider->handle.table, provider->handle.state);
        registry_put(provider->info->module);
        free(provider->key);
        free(provider->name);
        free(provider->domains);
        arena_deinit(&provider->arena);
        free(provider);
    }
    lifecycle_unlock();
}

static void *run_quiesce(void *arg)
{
    struct quiesce_job *quiesce_job = arg;

    quiesce_job->handle->table->quiesce(quiesce_job->handle->state);
    fence_signal(quiesce_job->done, INLAY_OK, NULL);
    leave_job(quiesce_job);
    return NULL;
}

void provider_quiesce_lost(const struct provider *handle, uint64_t limit_ms)
{
    struct quiesce_job *quiesce_job = handle->table->quiesce != NULL ? malloc(sizeof *quiesce_job) : NULL;
    pthread_t thread;

    if (quiesce_job == NULL)
        return;
    *quiesce_job = (struct quiesce_job){ .handle = handle, .done.value = 1 };
    if (timeline_create(&quiesce_job->done.timeline, NULL) != INLAY_OK ||
        pthread_create(&thread, NULL, run_quiesce, quiesce_job) != 0) {
        timeline_destroy(quiesce_job->done.timeline);
        free(quiesce_job);
        return;
    }
    if (fence_wait_until(quiesce_job->done, NULL, clock_ns() + limit_ms * 1000000, NULL) == INLAY_OK)
        (void)pthread_join(thread, NULL);
    else
        (void)pthread_detach(thread);
    leave_job(quiesce_job);
}

const struct provider *provider_retain(const struct provider *handle)
{
    registry_lock();
    INLAY_CHECK(((const open_provider *)(uintptr_t)handle)->references > 0);
    ((open_provider *)(uintptr_t)handle)->references++;
    registry_unlock();
    return handle;
}

void provider_lost(const void *state)
{
    registry_lock();
    for (open_provider *provider = opened; provider != NULL; provider = provider->next)
        if (provider->handle.state == state)
            provider->lost = true;
    registry_unlock();
}

bool provider_restarts(const void *state)
{
    bool restarts = false;

    registry_lock();
    for (const open_provider *provider = opened; provider != NULL; provider = provider->next)
        restarts |= provider->handle.state == state && control_of(provider) != NULL &&
                    control_of(provider)->may_restart(provider->guard.state);
    registry_unlock();
    return restarts;
}

bool provider_is_lost(const void *state)
{
    bool lost = false;

    registry_lock();
    for (const open_provider *provider = opened; provider != NULL; provider = provider->next)
        lost |= provider->handle.state == state && provider->lost;
    registry_unlock();
    return lost;
}

void provider_hung(const struct provider *handle)
{
    open_provider *provider = (open_provider *)(uintptr_t)handle;

    registry_lock();
    INLAY_CHECK(provider->references > 0);
    if (!provider->hung)
        provider->references++;
    provider->lost = provider->hung = true;
    registry_unlock();
}

bool provider_hangs(const struct provider *handle)
{
    bool hangs;

    if (handle == NULL)
        return false;
    registry_lock();
    hangs = ((const open_provider *)(uintptr_t)handle)->hung;
    registry_unlock();
    return hangs;
}

const struct provider *provider_of_domain(uint32_t domain, const inlay_domain_info **out_info)
{
    const struct provider *found = NULL;

    registry_lock();
    for (const open_provider *provider = opened; provider != NULL && found == NULL; provider = provider->next) {
        /* Unsigned: a domain below the first wraps to a large number. */
        if (domain != INLAY_DOMAIN_HOST &&
            domain - provider->handle.first_domain < provider->handle.table->domain_count) {
            found = &provider->handle;
            if (out_info != NULL)
                *out_info = &provider->handle.table->domains[domain - provider->handle.first_domain];
        }
    }
    registry_unlock();
    return found;
}

typedef struct device_call {
    plugin_device_fn device;
    void *user;
} device_call;

/* Passes a device to the caller's function in this host's layout. */
static inlay_status pass_device(void *user, const inlay_device_info *info)
{
    const device_call *call = user;
    inlay_device_info names;

    sized_struct_read(&names, sizeof names, info, info->struct_size);
    return call->device(call->user, &names);
}

inlay_status plugin_devices(const plugin_provider *provider, plugin_device_fn device, void *user, inlay_diag *diag)
{
    const inlay_device_info only = { .struct_size = sizeof only,
                                     .name = provider->table->description,
                                     .memory_bytes =
                                         provider->table->domain_count > 0 ? provider->domains[0].memory_bytes : 0,
                                     .kind = provider->table->device_kind };
    device_call call = { device, user };
    const inlay_enumerate_request request = {
        .struct_size = sizeof request, .host = host_table(), .user = &call, .device = pass_device
    };
    inlay_diag own = INLAY_DIAG_INIT;
    crash_scene before;
    float_state floats;
    inlay_status status;

    if (provider->table->enumerate == NULL)
        return device(user, &only);
    before = crash_enter(provider->module, "enumerate", provider->table->name, NULL);
    floats = float_state_get();
    status = provider->table->enumerate(provider->table->ctx, &request, &own);
    (void)float_state_restore(floats);
    crash_leave(&before);
    return status == INLAY_OK ? status : forward_plugin_error(&(boundary_call){ NULL, NULL }, status, &own, diag);
}
