#include "cli/plugins.h"
#include "config/search.h"

inlay_status cli_plugins(const cli_common *common, plugin_set **out_set, inlay_diag *diag)
{
    config_search search;

    config_search_init(&search, common->options, NULL, NULL);
    return plugin_set_search_listed(&search.search, search.list, out_set, diag);
}
