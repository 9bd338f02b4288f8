/* session/search.h - how a session with these options looks for plugins. */
#ifndef SESSION_SEARCH_H
#define SESSION_SEARCH_H
#include "config/options.h"
#include "plugin/plugin.h"

typedef struct config_search {
    plugin_search search; /* dirs are not set: option plugin_dirs is `list` */
    const char *list;
    char verdict_dir[4096];
} config_search;

/* Fills *out, which borrows from options (may be NULL) and points into itself. */
void config_search_init(config_search *out, const inlay_options *options, plugin_log_fn log, void *log_user);
#endif
