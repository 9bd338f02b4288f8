#include "config/search.h"

void config_search_init(config_search *out, const inlay_options *options, plugin_log_fn log, void *log_user)
{
    *out = (config_search){ .list = options_text(options, OPTION_plugin_dirs) };
    out->search = (plugin_search){ .allow = options_text(options, OPTION_plugin_allow), .log = log,
                                   .log_user = log_user };
}
