/* plugin_dirs.h - opens the plugins of some folders, with defaults for all other parameters of plugin_set_search(), and
 * finds files of the result. */
#ifndef PLUGIN_DIRS_H
#define PLUGIN_DIRS_H
#include "cmocka_all.h"
#include "plugin/plugin.h"

INLAY_NODISCARD static inline inlay_status plugin_set_create(const char *const *dirs, uint32_t dir_count,
                                                             plugin_log_fn log, void *log_user, plugin_set **out_set,
                                                             inlay_diag *diag)
{
    const plugin_search search = { .dirs = dirs, .dir_count = dir_count, .log = log, .log_user = log_user };

    return plugin_set_search(&search, out_set, diag);
}

/* The file of that name; fails the test if there is none. */
static inline const plugin_file *plugin_file_named(const plugin_set *set, const char *name)
{
    for (uint32_t i = 0; i < plugin_set_file_count(set); i++)
        if (strcmp(strrchr(plugin_set_file(set, i)->path, '/') + 1, name) == 0)
            return plugin_set_file(set, i);
    fail_msg("no file %s", name);
    return NULL;
}
#endif
