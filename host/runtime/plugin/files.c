/* The plugin files of a set: found, admitted, loaded. */
#include "base/among.h"
#include "base/memory.h"
#include "base/path.h"
#include "inlay/check.h"
#include "plugin/clash.h"
#include "plugin/folder.h"
#include "plugin/isolate.h"
#include "plugin/note_memo.h"
#include "plugin/set.h"
#include "threads/threads.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file that is being checked for the set. */
struct candidate {
    char path[PATH_MAX + NAME_MAX + 2];
    struct admission admission;
    plugin_module *module; /* with a reference if it is loaded; otherwise NULL */
    inlay_status status;   /* so far */
    inlay_diag why;
    const char *shadowed_by; /* the path of the file that has the same name and is used instead; NULL = none */
    bool is_override;        /* the file that is used instead is in another folder */
};

/* The loaded module of this file with a reference for the caller, or NULL. A file that was replaced, or that is
 * isolated, counts as another file. */
static plugin_module *registry_find(const plugin_search *search, const struct stat *st)
{
    plugin_module *module;

    registry_lock();
    module = registry_first();
    while (module != NULL &&
           (module->device != st->st_dev || module->inode != st->st_ino ||
            module->changed.tv_sec != st->st_mtim.tv_sec || module->changed.tv_nsec != st->st_mtim.tv_nsec ||
            module->isolated != admit_isolates(search->isolate, module->file.providers)))
        module = module->next;
    if (module != NULL)
        (void)registry_retain(module);
    registry_unlock();
    return module;
}

/* Copies a text unless it is empty; false: out of memory. */
static bool copy_text(struct arena *arena, const char *text, const char **out)
{
    *out = text != NULL && text[0] != '\0' ? arena_string(arena, text) : NULL;
    return *out != NULL || text == NULL || text[0] == '\0';
}

/* Warns that a file was not loaded. A file of a later folder is often shadowed on purpose, which is not a problem. */
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
    const note_facts *facts = &admission->facts; /* of a file that no session has loaded */
    const plugin_file *loaded = candidate->module != NULL ? &candidate->module->file : NULL;
    plugin_file *file = arena_alloc(&set->arena, sizeof *file);

    if (file == NULL || (file->path = arena_string(&set->arena, candidate->path)) == NULL ||
        (file->reason = arena_string(&set->arena, candidate->why.text)) == NULL ||
        (file->providers = arena_string(&set->arena, loaded != NULL ? loaded->providers : facts->providers)) == NULL ||
        !copy_text(&set->arena, loaded != NULL ? loaded->name : facts->name, &file->name) ||
        !copy_text(&set->arena, loaded != NULL ? loaded->version : facts->version, &file->version) ||
        !copy_text(&set->arena, admission->fix, &file->fix) ||
        !copy_text(&set->arena, candidate->shadowed_by, &file->shadowed_by))
        return no_memory(diag, "for the list of plugins");
    file->outcome = admission->outcome;
    file->lost = admission->lost;
    file->for_one_model = admission->for_one_model;
    log_refused(set, file, candidate->is_override);
    return plugin_set_add_file(set, file, diag);
}

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

/* Fails if the plugin crashed with the model of the search. */
static inlay_status check_crashes(const plugin_search *search, struct candidate *candidate)
{
    const plugin_module *module = candidate->module;
    struct admission *admission = &candidate->admission;

    return module != NULL
               ? admit_crashes(module->mark_key, module->mark_file, search->model, admission, &candidate->why)
               : admit_crashes(admission->key.text, admission->key.file, search->model, admission, &candidate->why);
}

static inlay_status load_isolated(struct candidate *candidate)
{
    char helper[PATH_MAX], host[128];
    inlay_status status;

    if (candidate->admission.facts.domains[0] != '\0') /* without a process that would report the same each time */
        return inlay_fail(&candidate->why, INLAY_UNSUPPORTED, ISOLATE_HAS_OPERATORS);
    status = probe_find(helper, host, &candidate->why);
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
    if (candidate->module == NULL && admit_isolates(search->isolate, candidate->admission.facts.providers))
        status = load_isolated(candidate);
    else if (candidate->module == NULL)
        status = module_load(candidate->path, &candidate->admission, &candidate->module, &candidate->why);
    if (status == INLAY_OK && *out_loaded) {
        registry_lock();
        registry_add(candidate->module);
        registry_unlock();
    }
    lifecycle_unlock();
    return status;
}

/* Is the state of the machine the reason, and not the file? Such a file must not be missing silently: the set would
 * differ from the one that the same program has at another time. */
static bool is_passing(inlay_status status, const inlay_diag *why)
{
    return status == INLAY_OUT_OF_MEMORY || why->error_class == INLAY_CLASS_RETRY || is_shortage(why->text);
}

static inlay_status fail_for_now(inlay_status status, const struct candidate *candidate, inlay_diag *diag)
{
    const bool is_memory = status == INLAY_OUT_OF_MEMORY;

    status = inlay_fail(
        diag, is_memory ? status : INLAY_IO_ERROR, "plugin %.200s: %.200s%s", candidate->path, candidate->why.text,
        strstr(candidate->why.text, strerror(EMFILE)) != NULL ? "; raise the limit of open files (ulimit -n)" : "");
    if (diag != NULL && !is_memory)
        diag->error_class = INLAY_CLASS_RETRY;
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
            registry_find(search, &candidate->admission.st); /* another thread may have loaded it since begin_file() */
    if (status == INLAY_OK)
        status = check_not_shadowed(set, candidate);
    if (status == INLAY_OK)
        status = check_crashes(search, candidate);
    if (status == INLAY_OK && candidate->module == NULL) {
        status = admit_finish(&candidate->admission, &candidate->why);
        if (status == INLAY_OK)
            status = load_admitted(search, candidate, &loaded);
        if (loaded && status == INLAY_OK)
            warn_of_behaviour(set, candidate);
        if (status == INLAY_OK)
            status = check_not_shadowed(set, candidate);
    }
    if (status != INLAY_OK && is_passing(status, &candidate->why)) {
        status = fail_for_now(status, candidate, diag);
    } else if (status != INLAY_OK) {
        status = add_refused(set, candidate, diag);
    } else {
        registry_lock();
        status = plugin_set_add_module(set, candidate->module, diag);
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
    inlay_status status = dir_check(dir, NULL, real, diag);

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

    return bytes >= sizeof LIBRARY_SUFFIX && strcmp(path + bytes - (sizeof LIBRARY_SUFFIX - 1), LIBRARY_SUFFIX) == 0 &&
           stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Checks the folder of a file that the search path names, as a folder that is searched; *out_name: in path. */
static inlay_status find_named_file(const char *path, char real[PATH_MAX], const char **out_name, inlay_diag *diag)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');

    *out_name = slash != NULL ? slash + 1 : path;
    if (snprintf(dir, sizeof dir, "%.*s", slash != NULL ? (int)(slash - path) : 1, slash != NULL ? path : ".") >=
        (int)sizeof dir)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                          "plugin_dirs: the path of a plugin has more than %d bytes: '%.100s...'", PATH_MAX - 1, path);
    return dir_check(dir[0] != '\0' ? dir : "/", path, real, diag);
}

/* Loads a file that the search path names. */
static inlay_status load_named_file(plugin_set *set, const plugin_search *search, const char *path, inlay_diag *diag)
{
    char real[PATH_MAX], *name;
    const char *found;
    inlay_status status = find_named_file(path, real, &found, diag);

    if (status != INLAY_OK)
        return status;
    name = strdup(found);
    if (name == NULL)
        return no_memory(diag, "for the list of plugins");
    status = load_files(set, search, real, &name, 1, diag);
    free(name);
    return status;
}

inlay_status plugin_check_file(const plugin_search *search, const char *path, char providers[PLUGIN_NAMES_BYTES],
                               inlay_diag *diag)
{
    char dir[PATH_MAX], file[2 * PATH_MAX];
    struct admission admission;
    const char *name;
    inlay_status status;

    providers[0] = '\0';
    if (access(path, F_OK) != 0)
        return inlay_fail(diag, INLAY_NOT_FOUND, "plugin file '%.300s': %s", path, strerror(errno));
    if (!is_plugin_file(path))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "'%.300s' is not a file whose name ends with " LIBRARY_SUFFIX ", as those of plugins do",
                          path);
    status = find_named_file(path, dir, &name, diag);
    if (status != INLAY_OK)
        return status;
    (void)snprintf(file, sizeof file, "%s/%s", dir, name);
    status = admit_open(search, file, dir, &admission, diag);
    if (status == INLAY_OK) {
        (void)!note_read_once(admission.fd, &admission.st, &admission.facts, NULL);
        (void)snprintf(providers, PLUGIN_NAMES_BYTES, "%s", admission.facts.providers);
    }
    admission_close(&admission);
    return status;
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
    return strncmp(stem, name, bytes) == 0 && strcmp(stem + bytes, LIBRARY_SUFFIX) == 0;
}

const plugin_file *plugin_set_find_missed(const plugin_set *set, const char *name)
{
    for (uint32_t i = 0; i < set->file_count; i++)
        if (!set->files[i]->loaded && is_among(name, set->files[i]->providers))
            return set->files[i];
    for (uint32_t i = 0; i < set->file_count; i++)
        if (!set->files[i]->loaded && set->files[i]->providers[0] == '\0' && is_stem(set->files[i]->path, name))
            return set->files[i];
    return NULL;
}

uint32_t plugin_file_crashes(const plugin_file *file, char *text, size_t bytes)
{
    const plugin_module *module = (const plugin_module *)(const void *)file; /* the first member of the file */
    crash_marks marks = { .count = 0 };

    if (file->loaded)
        verdict_crashes(module->mark_key, module->mark_file, 0, &marks);
    (void)snprintf(text, bytes, "%s", marks.text);
    return marks.count;
}

inlay_status plugin_retry(const plugin_search *search, const plugin_set *set, const char *name, inlay_diag *diag)
{
    char real[PATH_MAX], why[VERDICT_TEXT];
    uint32_t found = 0;

    for (uint32_t i = 0; i < set->file_count; i++) {
        const plugin_file *file = set->files[i];

        if ((file->loaded && plugin_file_crashes(file, why, sizeof why) == 0) || realpath(file->path, real) == NULL ||
            (strcmp(file->path, name) != 0 && strcmp(real, name) != 0 && !is_stem(file->path, name) &&
             !is_among(name, file->providers) && (file->name == NULL || strcmp(file->name, name) != 0)))
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

static inlay_status refuse_isolated(const plugin_provider *provider, inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option isolate: provider '%s' cannot be isolated, because %s",
                      provider->table->name,
                      provider->module->handle == NULL ? "it is part of the program"
                                                       : "its plugin has no note that names it");
}

/* Each provider that option isolate names must be one of a plugin file that was loaded. */
static inlay_status check_isolated(const plugin_set *set, const char *isolate, inlay_diag *diag)
{
    if (admit_isolates(isolate, "")) {
        for (uint32_t i = 0; i < set->provider_count; i++)
            if (!set->providers[i]->module->isolated)
                return refuse_isolated(set->providers[i], diag);
        return INLAY_OK;
    }
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
            return refuse_isolated(found, diag);
        isolate += bytes + (isolate[bytes] == ',');
    }
    return INLAY_OK;
}

inlay_status plugin_set_load_files(plugin_set *set, const plugin_search *search, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t d = 0; d < search->dir_count && status == INLAY_OK; d++)
        if (is_plugin_file(search->dirs[d]))
            status = load_named_file(set, search, search->dirs[d], diag);
    for (uint32_t d = 0; d < search->dir_count && status == INLAY_OK; d++)
        if (!is_plugin_file(search->dirs[d]))
            status = load_dir(set, search, search->dirs[d], diag);
    return status == INLAY_OK ? check_isolated(set, search->isolate, diag) : status;
}
