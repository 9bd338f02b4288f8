/* plugin_dirs.h - opens the plugins of some folders, with defaults for all other parameters of plugin_set_search(). */
#ifndef PLUGIN_DIRS_H
#define PLUGIN_DIRS_H
#include "plugin/plugin.h"

INLAY_NODISCARD static inline inlay_status plugin_set_create(const char *const *dirs, uint32_t dir_count,
                                                             plugin_log_fn log, void *log_user, plugin_set **out_set,
                                                             inlay_diag *diag)
{
    const plugin_search search = { .dirs = dirs, .dir_count = dir_count, .log = log, .log_user = log_user };

    return plugin_set_search(&search, out_set, diag);
}
#endif
