/* plugin/set.h - the members of a set, and the search for plugin files. Private to this folder. */
#ifndef PLUGIN_SET_H
#define PLUGIN_SET_H
#include "graph/graph.h"
#include "plugin/library_probe.h"
#include "plugin/module.h"

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
    isolate_limits isolate_limits;
};

/* Creates a set of the plugins within the program. */
INLAY_NODISCARD inlay_status plugin_set_create(const plugin_search *search, plugin_set **out_set, inlay_diag *diag);
INLAY_NODISCARD inlay_status plugin_set_add_file(plugin_set *set, const plugin_file *file, inlay_diag *diag);
/* Adds the module and a reference to it. The registry's lock is held. */
INLAY_NODISCARD inlay_status plugin_set_add_module(plugin_set *set, plugin_module *module, inlay_diag *diag);
/* Loads the files that search->dirs names, then those of the folders, and checks that the providers of option isolate
 * are among them; in files.c. Fails only on errors that make the whole set unusable. */
INLAY_NODISCARD inlay_status plugin_set_load_files(plugin_set *set, const plugin_search *search, inlay_diag *diag);
#endif
