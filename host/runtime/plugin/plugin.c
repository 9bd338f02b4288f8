/* Sets of plugins, and the process-wide registry of loaded files behind them. */
#include "plugin/set.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "plugin/clash.h"
#include "threads/fork.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static plugin_module *registry; /* loaded files */
static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER, lifecycle_mutex = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void guard_registry(void)
{
    fork_guard(&lifecycle_mutex);
    fork_guard(&registry_mutex);
}

void registry_lock(void)
{
    (void)pthread_mutex_lock(&registry_mutex);
}

void registry_unlock(void)
{
    (void)pthread_mutex_unlock(&registry_mutex);
}

void lifecycle_lock(void)
{
    (void)pthread_mutex_lock(&lifecycle_mutex);
}

void lifecycle_unlock(void)
{
    (void)pthread_mutex_unlock(&lifecycle_mutex);
}

plugin_module *registry_retain(plugin_module *module)
{
    module->references++;
    return module;
}

plugin_module *registry_first(void)
{
    return registry;
}

/* Unloads the descriptions of isolated files that this one has replaced and no session uses. The lock is held. */
static void unload_replaced(const plugin_module *by)
{
    for (plugin_module **link = &registry, *module; (module = *link) != NULL;) {
        if (module->isolated && module->references == 0 && strcmp(module->file.path, by->file.path) == 0) {
            *link = module->next;
            module_unload(module);
        } else {
            link = &module->next;
        }
    }
}

void registry_add(plugin_module *module)
{
    if (module->isolated)
        unload_replaced(module);
    module->next = registry;
    registry = registry_retain(module);
}

/* To unload such a file would only forget its description, which the next session would read and check again: of an
 * isolated one in a process that it starts for that. */
static bool stays_loaded(const plugin_module *module)
{
    return !module->warned_of && (module->isolated || (module->handle != NULL && module->table.shutdown == NULL &&
                                                       (module->table.flags & INLAY_PLUGIN_DLCLOSE) == 0));
}

void registry_put(plugin_module *module)
{
    plugin_module **link = &registry;
    bool is_last;

    registry_lock();
    INLAY_CHECK(module->references > 0);
    is_last = --module->references == 0 && !stays_loaded(module);
    while (is_last && *link != module)
        link = &(*link)->next;
    if (is_last)
        *link = module->next;
    registry_unlock();
    if (is_last)
        module_unload(module);
}

void registry_release(plugin_module *module)
{
    bool is_last;

    registry_lock();
    INLAY_CHECK(module->references > 0);
    is_last = module->references == 1 && !stays_loaded(module);
    if (!is_last)
        module->references--;
    registry_unlock();
    if (!is_last)
        return;
    lifecycle_lock();
    registry_put(module); /* the module stays if another thread has got a reference by now */
    lifecycle_unlock();
}

inlay_status plugin_set_add_file(plugin_set *set, const plugin_file *file, inlay_diag *diag)
{
    if (!ARENA_GROW(&set->arena, set->files, set->file_count))
        return no_memory(diag, "for the list of plugins");
    set->files[set->file_count++] = file;
    return INLAY_OK;
}

inlay_status plugin_set_add_module(plugin_set *set, plugin_module *module, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < set->module_count; i++)
        if (set->modules[i] == module)
            return INLAY_OK; /* the same file under another name */
    if (!ARENA_GROW(&set->arena, set->modules, set->module_count))
        return no_memory(diag, "for the list of plugins");
    set->modules[set->module_count++] = registry_retain(module);
    INLAY_TRY(plugin_set_add_file(set, &module->file, diag));
    for (uint32_t provider = 0; provider < module->file.provider_count; provider++) {
        INLAY_CHECK(plugin_set_find(set, module->providers[provider].table->name) == NULL);
        if (!ARENA_GROW(&set->arena, set->providers, set->provider_count))
            return no_memory(diag, "for the list of plugins");
        set->providers[set->provider_count++] = &module->providers[provider];
    }
    for (uint32_t i = 0; i < module->file.operator_count; i++) {
        if (!ARENA_GROW(&set->arena, set->operators, set->operator_count))
            return no_memory(diag, "for the list of plugins");
        set->operators[set->operator_count++] = &module->operators[i];
    }
done:
    return status;
}

inlay_status plugin_register(inlay_plugin_open_fn open_plugin, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    const note_facts nothing = { .name = "", .providers = "", .version = "" };
    plugin_module *module = NULL, **link = &registry;
    char common[CLASH_TEXT];
    bool is_registered;

    if (open_plugin == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_plugin_register without an entry");
    lifecycle_lock();
    registry_lock();
    while (*link != NULL && (*link)->open_plugin != open_plugin)
        link = &(*link)->next;
    is_registered = *link != NULL;
    registry_unlock();
    if (!is_registered)
        status = module_register(open_plugin, &module, diag);
    registry_lock();
    for (link = &registry; module != NULL && *link != NULL && status == INLAY_OK; link = &(*link)->next)
        if ((*link)->open_plugin != NULL && clash_find(*link, &nothing, module, common))
            status =
                inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s is already provided by another registered plugin", common);
    if (module != NULL && status == INLAY_OK) {
        module->references = 1; /* held by the process forever */
        *link = module;         /* after those registered earlier */
    }
    registry_unlock();
    if (module != NULL && status != INLAY_OK)
        module_unload(module);
    lifecycle_unlock();
    return status;
}

/* The better one for a model: best, or op if it has the name and a higher version that is not above opset. */
static const inlay_operator *better_operator(const inlay_operator *best, const inlay_operator *op, const char *domain,
                                             const char *op_type, int64_t opset)
{
    INLAY_CHECK(op->domain != NULL && op->op_type != NULL);
    return (int64_t)op->since_version <= opset && (best == NULL || op->since_version > best->since_version) &&
                   strcmp(op->op_type, op_type) == 0 && strcmp(op->domain, domain) == 0
               ? op
               : best;
}

const inlay_operator *plugin_find_operator(const inlay_operator *operators, uint32_t count, const char *domain,
                                           const char *op_type, int64_t opset)
{
    const inlay_operator *best = NULL;

    for (uint32_t i = 0; i < count; i++)
        best = better_operator(best, &operators[i], domain, op_type, opset);
    return best;
}

static const inlay_operator *find_operator(void *ctx, const char *domain, const char *op_type, int64_t opset)
{
    const plugin_set *set = ctx;
    const inlay_operator *best = NULL;

    for (uint32_t i = 0; i < set->operator_count; i++)
        best = better_operator(best, set->operators[i], domain, op_type, opset);
    return best;
}

static inlay_status note_searched(plugin_set *set, const char *const *dirs, uint32_t dir_count, inlay_diag *diag)
{
    size_t bytes = 1, used = 0;

    for (uint32_t d = 0; d < dir_count; d++)
        bytes += strlen(dirs[d]) + 2;
    set->searched = arena_alloc(&set->arena, bytes);
    if (set->searched == NULL)
        return no_memory(diag, "for the list of plugins");
    for (uint32_t d = 0; d < dir_count; d++)
        used += (size_t)snprintf(set->searched + used, bytes - used, "%s%s", d > 0 ? ", " : "", dirs[d]);
    return INLAY_OK;
}

inlay_status plugin_set_create(const plugin_search *search, plugin_set **out_set, inlay_diag *diag)
{
    plugin_set *set = calloc(1, sizeof *set);
    inlay_status status;

    *out_set = NULL;
    if (set == NULL)
        return no_memory(diag, "for the list of plugins");
    if (host_log_add(search->log, search->log_user) != INLAY_OK) {
        free(set);
        return no_memory(diag, "for the list of plugins");
    }
    set->log = search->log;
    set->log_user = search->log_user;
    set->isolate_limits = search->isolate_limits;
    set->rules = (probe_rules){ search->probe, search->probe_ms, NULL };
    if (search->verdict_dir != NULL)
        set->rules.verdict_dir = arena_string(&set->arena, search->verdict_dir);
    status = note_searched(set, search->dirs, search->dir_count, diag);
    registry_lock();
    for (plugin_module *module = registry; module != NULL && status == INLAY_OK; module = module->next)
        if (module->open_plugin != NULL)
            status = plugin_set_add_module(set, module, diag);
    registry_unlock();
    set->lookup = (graph_operators){
        .find = find_operator, .missing = plugin_set_missing, .ctx = set, .searched = set->searched
    };
    if (status != INLAY_OK) {
        plugin_set_destroy(set);
        return status;
    }
    *out_set = set;
    return INLAY_OK;
}

void plugin_set_destroy(plugin_set *set)
{
    if (set == NULL)
        return;
    for (uint32_t m = set->module_count; m-- > 0;)
        registry_release(set->modules[m]);
    host_log_remove(set->log, set->log_user);
    arena_deinit(&set->arena);
    free(set);
}

uint32_t plugin_set_file_count(const plugin_set *set)
{
    return set->file_count;
}

const plugin_file *plugin_set_file(const plugin_set *set, uint32_t i)
{
    return i < set->file_count ? set->files[i] : NULL;
}

uint32_t plugin_set_provider_count(const plugin_set *set)
{
    return set->provider_count;
}

const plugin_provider *plugin_set_provider(const plugin_set *set, uint32_t i)
{
    return i < set->provider_count ? set->providers[i] : NULL;
}

const plugin_provider *plugin_set_find(const plugin_set *set, const char *name)
{
    const size_t bytes = strcspn(name, "#"); /* the suffix distinguishes devices of one kind */

    for (uint32_t i = 0; i < set->provider_count; i++) {
        const char *provider_name = set->providers[i]->table->name;

        if (strlen(provider_name) == bytes && strncmp(provider_name, name, bytes) == 0)
            return set->providers[i];
    }
    return NULL;
}

void plugin_set_cache(plugin_set *set, const char *dir)
{
    set->cache_dir = dir != NULL ? arena_string(&set->arena, dir) : NULL;
}

const isolate_limits *plugin_set_isolate_limits(const plugin_set *set)
{
    return &set->isolate_limits;
}

const char *plugin_set_cache_dir(const plugin_set *set)
{
    return set->cache_dir;
}

const probe_rules *plugin_set_rules(const plugin_set *set)
{
    return &set->rules;
}

const graph_operators *plugin_set_operators(const plugin_set *set)
{
    return &set->lookup;
}

uint32_t plugin_set_operator_count(const plugin_set *set)
{
    return set->operator_count;
}

const inlay_operator *plugin_set_operator(const plugin_set *set, uint32_t i)
{
    return i < set->operator_count ? set->operators[i] : NULL;
}
