/* Sets of plugins, and the process-wide registry of loaded files behind them. */
#include "base/memory.h"
#include "inlay/check.h"
#include "plugin/admit.h"
#include "plugin/clash.h"
#include "plugin/folder.h"
#include "plugin/library_probe.h"
#include "plugin/module.h"
#include "plugin/probe.h"
#include "threads/fork.h"
#include "threads/threads.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIRS = 64 };

/* ------------------------------------------------------------------ registry */

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

/* Does option isolate name a provider of this list, which is separated by spaces? */
static bool is_isolated(const char *isolate, const char *providers)
{
    char name[256];

    while (isolate != NULL && *isolate != '\0') {
        const size_t bytes = strcspn(isolate, ",");

        if (bytes > 0 && bytes < sizeof name) {
            memcpy(name, isolate, bytes);
            name[bytes] = '\0';
            if (note_list_contains(providers, name))
                return true;
        }
        isolate += bytes + (isolate[bytes] == ',');
    }
    return false;
}

/* The loaded module of this file with a reference for the caller, or NULL. A file that was replaced is another file, and
 * so is one that is isolated. */
static plugin_module *registry_find(const plugin_search *search, const struct stat *st)
{
    plugin_module *module;

    registry_lock();
    module = registry;
    while (module != NULL &&
           (module->device != st->st_dev || module->inode != st->st_ino ||
            module->changed.tv_sec != st->st_mtim.tv_sec || module->changed.tv_nsec != st->st_mtim.tv_nsec ||
            module->isolated != is_isolated(search->isolate, module->file.providers)))
        module = module->next;
    if (module != NULL)
        (void)registry_retain(module);
    registry_unlock();
    return module;
}

void registry_put(plugin_module *module)
{
    plugin_module **link = &registry;
    bool is_last;

    registry_lock();
    INLAY_CHECK(module->references > 0);
    is_last = --module->references == 0;
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
    is_last = module->references == 1;
    if (!is_last)
        module->references--;
    registry_unlock();
    if (!is_last)
        return;
    lifecycle_lock();
    registry_put(module); /* by now it may have another reference, and then stays */
    lifecycle_unlock();
}

/* ------------------------------------------------------------------ sets */

struct plugin_set {
    struct arena arena;
    plugin_log_fn log;
    void *log_user;
    const plugin_file **files;
    plugin_module **modules;
    const plugin_provider **providers;
    const inlay_operator **operators;
    uint32_t file_count, module_count, provider_count, operator_count;
    graph_operators lookup;
    char *searched;
    const char *cache_dir;
    probe_rules rules;
    uint64_t isolate_limit_ms;
};

/* A file that is being checked for the set. */
struct candidate {
    char path[PATH_MAX + NAME_MAX + 2];
    struct admission admission;
    plugin_module *module; /* with a reference if it is loaded; otherwise NULL */
    inlay_status status;   /* so far */
    inlay_diag why;
    const char *shadowed_by; /* the path of the file that has the same name and is used instead; NULL = none */
    bool is_override;        /* that file is in another folder */
};

static inlay_status add_file(plugin_set *set, const plugin_file *file, inlay_diag *diag)
{
    if (!ARENA_GROW(&set->arena, set->files, set->file_count))
        return no_memory(diag, "for the list of plugins");
    set->files[set->file_count++] = file;
    return INLAY_OK;
}

/* Copies a text unless it is empty; false: out of memory. */
static bool copy_text(struct arena *arena, const char *text, const char **out)
{
    *out = text != NULL && text[0] != '\0' ? arena_string(arena, text) : NULL;
    return *out != NULL || text == NULL || text[0] == '\0';
}

/* Warns that a file was not loaded. A file of a later folder is often shadowed on purpose, which is no problem. */
static void log_refused(const plugin_set *set, const plugin_file *file, bool is_expected)
{
    char line[2048];

    if (set->log == NULL)
        return;
    (void)snprintf(line, sizeof line, "plugin %.1000s was not loaded: %.500s%s%.500s", file->path, file->reason,
                   file->fix != NULL ? "; " : "", file->fix != NULL ? file->fix : "");
    set->log(set->log_user, is_expected ? INLAY_LOG_INFO : INLAY_LOG_WARNING, line);
}

static inlay_status add_refused(plugin_set *set, const struct candidate *candidate, inlay_diag *diag)
{
    const struct admission *admission = &candidate->admission;
    plugin_file *file = arena_alloc(&set->arena, sizeof *file);

    if (file == NULL || (file->path = arena_string(&set->arena, candidate->path)) == NULL ||
        (file->reason = arena_string(&set->arena, candidate->why.text)) == NULL ||
        (file->providers = arena_string(&set->arena, admission->facts.providers)) == NULL ||
        !copy_text(&set->arena, admission->facts.name, &file->name) ||
        !copy_text(&set->arena, admission->facts.version, &file->version) ||
        !copy_text(&set->arena, admission->fix, &file->fix) ||
        !copy_text(&set->arena, candidate->shadowed_by, &file->shadowed_by))
        return no_memory(diag, "for the list of plugins");
    file->outcome = admission->outcome;
    log_refused(set, file, candidate->is_override);
    return add_file(set, file, diag);
}

/* Adds the module and a reference to it. The registry's lock is held. */
static inlay_status add_module(plugin_set *set, plugin_module *module, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < set->module_count; i++)
        if (set->modules[i] == module)
            return INLAY_OK; /* the same file under another name */
    if (!ARENA_GROW(&set->arena, set->modules, set->module_count))
        return no_memory(diag, "for the list of plugins");
    set->modules[set->module_count++] = registry_retain(module);
    INLAY_TRY(add_file(set, &module->file, diag));
    for (uint32_t provider = 0; provider < module->file.provider_count; provider++) {
        INLAY_CHECK(plugin_set_find(set, module->providers[provider].table.name) == NULL);
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

/* ------------------------------------------------------------------ files */

/* All checks up to the start of the probe. */
static void begin_file(const plugin_search *search, const char *dir, const char *name, struct candidate *out)
{
    (void)snprintf(out->path, sizeof out->path, "%s/%s", dir, name);
    out->shadowed_by = NULL;
    out->is_override = false;
    out->module = NULL;
    out->why = (inlay_diag)INLAY_DIAG_INIT;
    out->status = admit_open(search, out->path, dir, &out->admission, &out->why);
    if (out->status == INLAY_OK)
        out->module = registry_find(search, &out->admission.st);
    if (out->status == INLAY_OK && out->module == NULL)
        out->status = admit_begin(search, &out->admission, &out->why);
}

/* Releases what begin_file() and load_file() acquired. */
static void end_file(struct candidate *candidate)
{
    if (candidate->module != NULL)
        registry_release(candidate->module);
    admission_close(&candidate->admission);
}

/* Fails if a plugin of the set has a name that the file has, too. */
static inlay_status check_not_shadowed(const plugin_set *set, struct candidate *candidate)
{
    const plugin_module *module = candidate->module;
    const char *version = module != NULL ? module->file.version : candidate->admission.facts.version;
    char common[CLASH_TEXT], why[CLASH_TEXT];

    for (uint32_t i = 0; module != NULL && i < set->module_count; i++)
        if (set->modules[i] == module)
            return INLAY_OK; /* the same file under another name */
    for (uint32_t i = 0; i < set->module_count; i++) {
        const plugin_file *first = &set->modules[i]->file;

        if (!clash_find(set->modules[i], &candidate->admission.facts, module, common))
            continue;
        candidate->admission.outcome = PLUGIN_SHADOWED;
        candidate->shadowed_by = first->path;
        candidate->is_override = !clash_same_folder(first->path, candidate->path);
        return inlay_fail(&candidate->why, INLAY_UNSUPPORTED, "%s is already provided by %s, %s", common, first->path,
                          clash_precedence(first, candidate->path, version, why));
    }
    return INLAY_OK;
}

/* Warns of a plugin that passed the probe but changed process state, or that costs speed as it is built. */
static void warn_of_behaviour(const plugin_set *set, const struct candidate *candidate)
{
    char line[VERDICT_TEXT + 600];

    if (set->log != NULL && !candidate->admission.facts.present)
        set->log(set->log_user, INLAY_LOG_INFO,
                 "a plugin has no note that states its ABI and CPU requirements; see inlay/note.h");
    if (set->log != NULL && candidate->module->file.advice != NULL) {
        (void)snprintf(line, sizeof line, "plugin %.300s: %s", candidate->path, candidate->module->file.advice);
        set->log(set->log_user, INLAY_LOG_WARNING, line);
    }
    if (set->log == NULL || candidate->admission.verdict.kind != VERDICT_OK ||
        candidate->admission.verdict.text[0] == '\0')
        return;
    (void)snprintf(line, sizeof line,
                   "plugin %.300s changes process state that it must not touch (details: inlay plugin-check): %s",
                   candidate->path, candidate->admission.verdict.text);
    set->log(set->log_user, INLAY_LOG_WARNING, line);
}

static inlay_status load_isolated(struct candidate *candidate)
{
    char helper[PATH_MAX], host[128];
    inlay_status status = probe_find(helper, host, &candidate->why);

    if (status == INLAY_OK)
        status =
            module_load_isolated(candidate->path, &candidate->admission, helper, &candidate->module, &candidate->why);
    return status;
}

/* Loads an admitted file, unless another session has loaded it meanwhile. */
static inlay_status load_admitted(const plugin_search *search, struct candidate *candidate, bool *out_loaded)
{
    inlay_status status = INLAY_OK;

    lifecycle_lock();
    candidate->module = registry_find(search, &candidate->admission.st);
    *out_loaded = candidate->module == NULL;
    if (candidate->module == NULL && is_isolated(search->isolate, candidate->admission.facts.providers))
        status = load_isolated(candidate);
    else if (candidate->module == NULL)
        status = module_load(candidate->path, &candidate->admission, &candidate->module, &candidate->why);
    if (status == INLAY_OK && *out_loaded) {
        registry_lock();
        candidate->module->next = registry;
        registry = registry_retain(candidate->module);
        registry_unlock();
    }
    lifecycle_unlock();
    return status;
}

/* Loads the file into the set. Fails only on errors that make the whole set unusable. */
static inlay_status load_file(plugin_set *set, const plugin_search *search, struct candidate *candidate,
                              inlay_diag *diag)
{
    inlay_status status = candidate->status;
    bool loaded = false;

    if (status == INLAY_OK && candidate->module == NULL)
        candidate->module =
            registry_find(search, &candidate->admission.st); /* it may have been loaded since begin_file() */
    if (status == INLAY_OK)
        status = check_not_shadowed(set, candidate);
    if (status == INLAY_OK && candidate->module == NULL) {
        status = admit_finish(&candidate->admission, &candidate->why);
        if (status == INLAY_OK)
            status = load_admitted(search, candidate, &loaded);
        if (loaded && status == INLAY_OK)
            warn_of_behaviour(set, candidate);
        if (status == INLAY_OK)
            status = check_not_shadowed(set, candidate);
    }
    if (status == INLAY_OUT_OF_MEMORY) {
        status = inlay_fail(diag, status, "plugin %.300s: %.150s", candidate->path, candidate->why.text);
    } else if (status != INLAY_OK) {
        status = add_refused(set, candidate, diag);
    } else {
        registry_lock();
        status = add_module(set, candidate->module, diag);
        registry_unlock();
    }
    return status;
}

enum { MAX_PROBES = 8 }; /* concurrent probes */

/* Loads files of one folder in their order while probes of the next files run: one more than there are CPUs. */
static inlay_status load_files(plugin_set *set, const plugin_search *search, const char *dir, char *const *names,
                               uint32_t count, inlay_diag *diag)
{
    const uint32_t window = threads_budget() < MAX_PROBES ? (uint32_t)threads_budget() + 1 : MAX_PROBES;
    struct candidate *list = calloc(window, sizeof *list);
    inlay_status status = INLAY_OK;
    uint32_t begun = 0;

    if (list == NULL)
        return no_memory(diag, "for the list of plugins");
    for (uint32_t i = 0; i < count; i++) {
        for (; status == INLAY_OK && begun < count && begun < i + window; begun++)
            begin_file(search, dir, names[begun], &list[begun % window]);
        INLAY_CHECK(status != INLAY_OK || i < begun);
        if (status == INLAY_OK)
            status = load_file(set, search, &list[i % window], diag);
        if (i < begun)
            end_file(&list[i % window]);
    }
    free(list);
    return status;
}

static inlay_status load_dir(plugin_set *set, const plugin_search *search, const char *dir, inlay_diag *diag)
{
    char real[PATH_MAX];
    folder_list files;
    inlay_status status = dir_check(dir, real, diag);

    if (status == INLAY_OK)
        status = folder_list_init(&files, real, dir, diag);
    if (status != INLAY_OK)
        return status;
    status = load_files(set, search, real, files.names, files.count, diag);
    folder_list_deinit(&files);
    return status;
}

/* Is the entry of the search path a plugin file? */
static bool is_plugin_file(const char *path)
{
    const size_t bytes = strlen(path);
    struct stat st;

    return bytes > 3 && strcmp(path + bytes - 3, ".so") == 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Loads a file that the search path names. Its folder has to pass the same checks as if it were searched. */
static inlay_status load_named_file(plugin_set *set, const plugin_search *search, const char *path, inlay_diag *diag)
{
    char dir[PATH_MAX], real[PATH_MAX];
    const char *slash = strrchr(path, '/');
    char *name;
    inlay_status status;

    if (snprintf(dir, sizeof dir, "%.*s", slash != NULL ? (int)(slash - path) : 1, slash != NULL ? path : ".") >=
        (int)sizeof dir)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "plugin_dirs: the path of a plugin is too long");
    status = dir_check(dir[0] != '\0' ? dir : "/", real, diag);
    if (status != INLAY_OK)
        return status;
    name = strdup(slash != NULL ? slash + 1 : path);
    if (name == NULL)
        return no_memory(diag, "for the list of plugins");
    status = load_files(set, search, real, &name, 1, diag);
    free(name);
    return status;
}

/* ------------------------------------------------------------------ accessors of the set */

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

/* Each provider that option isolate names must be one of a plugin file that was loaded. */
static inlay_status check_isolated(const plugin_set *set, const char *isolate, inlay_diag *diag)
{
    while (isolate != NULL && *isolate != '\0') {
        const int bytes = (int)strcspn(isolate, ",");
        char name[256];
        const plugin_provider *found;

        (void)snprintf(name, sizeof name, "%.*s", bytes, isolate);
        found = bytes > 0 ? plugin_set_find(set, name) : NULL;
        if (bytes > 0 && found == NULL) {
            const plugin_file *missed = plugin_set_find_missed(set, name);

            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option isolate: no provider '%s'%s%.300s", name,
                              missed != NULL ? ", because its plugin was not loaded: " : " in the plugin directories",
                              missed != NULL ? missed->reason : "");
        }
        if (found != NULL && !found->module->isolated)
            return inlay_fail(
                diag, INLAY_INVALID_ARGUMENT, "option isolate: provider '%s' cannot be isolated, because %s", name,
                found->module->handle == NULL ? "it is part of the program" : "its plugin has no note that names it");
        isolate += bytes + (isolate[bytes] == ',');
    }
    return INLAY_OK;
}

inlay_status plugin_set_search(const plugin_search *search, plugin_set **out_set, inlay_diag *diag)
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
    set->isolate_limit_ms = search->isolate_limit_ms;
    set->rules = (probe_rules){ search->probe, search->probe_ms, NULL };
    if (search->verdict_dir != NULL)
        set->rules.verdict_dir = arena_string(&set->arena, search->verdict_dir);
    status = note_searched(set, search->dirs, search->dir_count, diag);
    registry_lock();
    for (plugin_module *module = registry; module != NULL && status == INLAY_OK; module = module->next)
        if (module->open_plugin != NULL)
            status = add_module(set, module, diag);
    registry_unlock();
    for (uint32_t d = 0; d < search->dir_count && status == INLAY_OK; d++)
        if (is_plugin_file(search->dirs[d]))
            status = load_named_file(set, search, search->dirs[d], diag);
    for (uint32_t d = 0; d < search->dir_count && status == INLAY_OK; d++)
        if (!is_plugin_file(search->dirs[d]))
            status = load_dir(set, search, search->dirs[d], diag);
    if (status == INLAY_OK)
        status = check_isolated(set, search->isolate, diag);
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

/* The file's own name: "blur" of blur.so, libblur.so and inlay-blur.so. */
static bool is_stem(const char *path, const char *name)
{
    static const char *const prefixes[] = { "lib", "inlay-" };
    const char *stem = strrchr(path, '/');
    size_t bytes = strlen(name);

    stem = stem != NULL ? stem + 1 : path;
    if (strcmp(stem, name) == 0)
        return true;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        const size_t prefix = strlen(prefixes[i]);

        if (strncmp(stem, prefixes[i], prefix) == 0 && strncmp(stem + prefix, name, bytes) == 0) {
            stem += prefix;
            break;
        }
    }
    return strncmp(stem, name, bytes) == 0 && strcmp(stem + bytes, ".so") == 0;
}

const plugin_file *plugin_set_find_missed(const plugin_set *set, const char *name)
{
    for (uint32_t i = 0; i < set->file_count; i++)
        if (!set->files[i]->loaded && note_list_contains(set->files[i]->providers, name))
            return set->files[i];
    for (uint32_t i = 0; i < set->file_count; i++)
        if (!set->files[i]->loaded && set->files[i]->providers[0] == '\0' && is_stem(set->files[i]->path, name))
            return set->files[i];
    return NULL;
}

inlay_status plugin_retry(const plugin_search *search, const plugin_set *set, const char *name, inlay_diag *diag)
{
    char real[PATH_MAX];
    uint32_t found = 0;

    for (uint32_t i = 0; i < set->file_count; i++) {
        const plugin_file *file = set->files[i];

        if (file->loaded || realpath(file->path, real) == NULL ||
            (strcmp(file->path, name) != 0 && strcmp(real, name) != 0 && !is_stem(file->path, name) &&
             !note_list_contains(file->providers, name) && (file->name == NULL || strcmp(file->name, name) != 0)))
            continue;
        found += verdict_forget(search->verdict_dir, real);
    }
    if (realpath(name, real) != NULL) /* a library that a provider loads */
        found += verdict_forget(search->verdict_dir, real);
    return found > 0
               ? INLAY_OK
               : inlay_fail(diag, INLAY_NOT_FOUND,
                            "no plugin '%.200s' is in quarantine; see 'inlay providers' for the state of each file",
                            name);
}

const plugin_provider *plugin_set_find(const plugin_set *set, const char *name)
{
    const size_t bytes = strcspn(name, "#"); /* the suffix distinguishes devices of one kind */

    for (uint32_t i = 0; i < set->provider_count; i++) {
        const char *provider_name = set->providers[i]->table.name;

        if (strlen(provider_name) == bytes && strncmp(provider_name, name, bytes) == 0)
            return set->providers[i];
    }
    return NULL;
}

void plugin_set_cache(plugin_set *set, const char *dir)
{
    set->cache_dir = dir != NULL ? arena_string(&set->arena, dir) : NULL;
}

uint64_t plugin_set_isolate_limit(const plugin_set *set)
{
    return set->isolate_limit_ms;
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

inlay_status plugin_set_search_listed(const plugin_search *search, const char *list, plugin_set **out_set,
                                      inlay_diag *diag)
{
    plugin_search all = *search;
    const char *dirs[MAX_DIRS];
    char default_dir[4096], *copy = strdup(list), *next = NULL;
    uint32_t count = 0;
    bool listed = false;
    inlay_status status = INLAY_OK;

    *out_set = NULL;
    if (copy == NULL)
        return no_memory(diag, "for plugin directories");
    for (char *dir = strtok_r(copy, ":", &next); dir != NULL; dir = strtok_r(NULL, ":", &next)) {
        if (count == MAX_DIRS - 1) {
            status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "option plugin_dirs: more than %u directories", count);
            goto done;
        }
        dirs[count++] = dir;
    }
    if (plugin_default_dir(default_dir, sizeof default_dir) != NULL) {
        for (uint32_t i = 0; i < count; i++)
            listed |= strcmp(dirs[i], default_dir) == 0;
        if (!listed)
            dirs[count++] = default_dir;
    }
    all.dirs = dirs;
    all.dir_count = count;
    status = plugin_set_search(&all, out_set, diag);
done:
    free(copy);
    return status;
}
