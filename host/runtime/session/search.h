/* session/search.h - the plugin search that a session with given options performs. */
#ifndef SESSION_SEARCH_H
#define SESSION_SEARCH_H
#include "config/options.h"
#include "plugin/plugin.h"

typedef struct config_search {
    plugin_search search; /* without directories: the caller passes `list`, option plugin_dirs */
    const char *list;
    char verdict_dir[4096];
} config_search;

/* Initialises *out, which borrows from options (may be NULL). *out must not be moved, because it has pointers to
 * itself. */
void config_search_init(config_search *out, const inlay_options *options, plugin_log_fn log, void *log_user);
#endif
