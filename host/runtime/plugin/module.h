/* plugin/module.h - one loaded file, and the locks of this folder. Private to this folder. */
#ifndef PLUGIN_MODULE_H
#define PLUGIN_MODULE_H
#include "base/arena.h"
#include "plugin/admit.h"
#include "inlay/plugin.h"

typedef struct plugin_module {
    plugin_file file;                 /* first, see plugin_file_crashes() */
    plugin_provider *providers;       /* [file.provider_count] */
    inlay_operator *operators;        /* [file.operator_count] */
    inlay_plugin table;               /* in this host's layout */
    void *handle;                     /* NULL: registered by the program */
    inlay_plugin_open_fn open_plugin; /* of a plugin registered by the program */
    bool isolated;                    /* the plugin's code runs in separate processes, see plugin/isolate.h */
    bool warned_of;                   /* each session that loads the file logs a warning about it */
    dev_t device;                     /* the file's identity */
    ino_t inode;
    struct timespec changed;
    uint32_t references; /* sets and open providers; guarded by the registry's lock */
    struct arena arena;
    const char *mark_key, *mark_file; /* for a quarantine mark, see plugin/crash.h; NULL = marks cannot be stored */
    struct plugin_module *next;       /* in the registry, and guarded by its lock */
} plugin_module;

/* Calls the plugin's entry, and checks and copies its description. */
INLAY_NODISCARD inlay_status module_open(plugin_module *module, inlay_plugin_open_fn open_plugin, inlay_diag *diag);
/* Checks and copies the description. */
INLAY_NODISCARD inlay_status module_adopt(plugin_module *module, const inlay_plugin *raw, inlay_diag *diag);
/* In module_file.c, like the next two functions: maps the admitted file, calls its entry and checks its description,
 * also against its note. path is the name for messages. The new module has no reference yet. On failure diag has the
 * reason; at most the mapping remains. The lifecycle lock is held, as for the next function and module_unload(). */
inlay_status module_load(const char *path, const struct admission *admission, plugin_module **out_module,
                         inlay_diag *diag);
/* As module_load(), but the code of the file runs in processes of the helper inlay-probe only. */
inlay_status module_load_isolated(const char *path, const struct admission *admission, const char *helper,
                                  plugin_module **out_module, inlay_diag *diag);
/* As module_load(), for a plugin that is part of the program. */
INLAY_NODISCARD inlay_status module_register(inlay_plugin_open_fn open_plugin, plugin_module **out_module,
                                             inlay_diag *diag);
/* Have both the same domain, type and version? */
bool module_same_operator(const inlay_operator *a, const inlay_operator *b);
/* Checks operators of the module and copies them to *out, in the arena. */
inlay_status module_adopt_operators(const plugin_module *module, const inlay_operator *raw, uint32_t stride,
                                    uint32_t count, struct arena *arena, inlay_operator **out, inlay_diag *diag);
/* Checks a domain of a provider, as described by the plugin or by describe. */
inlay_status module_check_domain(const inlay_provider *table, const inlay_domain_info *info, inlay_diag *diag);
/* Calls shutdown, and dlclose where the plugin allows it. */
void module_unload(plugin_module *module);

/* The directory as an absolute path without links, or an error that says why it may not be searched. file: the path by
 * which the user names a file in it; NULL: all of its files. An absolute one may be in the working directory. */
inlay_status dir_check(const char *dir, const char *file, char real[PATH_MAX], inlay_diag *diag);

/* The directory of the library or executable that this code is in. */
bool dir_of_host(char path[PATH_MAX]);

/* The registry's lock guards the list of modules, the list of open providers and their references. It is held for a
 * few instructions: neither while files are read nor while code of a plugin runs. */
void registry_lock(void);
void registry_unlock(void);
/* The lifecycle lock is held during dlopen, dlclose, open, create, describe, quiesce, destroy and shutdown of a plugin,
 * which are called by one thread at a time. A caller that needs only loaded and open plugins does not wait for it. It
 * is taken before the registry's lock. */
void lifecycle_lock(void);
void lifecycle_unlock(void);
/* The first module; the others follow. The registry's lock is held, as for the next two functions. */
plugin_module *registry_first(void);
/* Adds a module with a reference. An unused one of an isolated file that it has replaced is unloaded. */
void registry_add(plugin_module *module);
/* Adds a reference. */
plugin_module *registry_retain(plugin_module *module);
/* Releases a reference; the last one unloads the module, unless it is a file without warnings that is isolated, or
 * whose plugin has no shutdown and must not be unmapped: later sessions use such a module again. No lock is held. */
void registry_release(plugin_module *module);
/* As registry_release() for a caller that holds the lifecycle lock. */
void registry_put(plugin_module *module);
#endif
