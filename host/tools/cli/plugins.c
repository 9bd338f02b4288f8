#include "cli/plugins.h"
#include "session/search.h"

inlay_status cli_plugins(const cli_common *common, uint64_t model, plugin_set **out_set, inlay_diag *diag)
{
    config_search search;
    inlay_status status;

    config_search_init(&search, common->options, NULL, NULL);
    search.search.model = model;
    cli_restart_allow(true);
    status = plugin_set_search_listed(&search.search, search.list, out_set, diag);
    cli_restart_allow(false);
    return status;
}

inlay_status cli_plugins_again(const cli_common *common, const char *name, plugin_set **out_set, inlay_diag *diag)
{
    config_search search;
    plugin_set *set;
    inlay_status status = cli_plugins(common, 0, &set, diag);

    *out_set = NULL;
    if (status != INLAY_OK)
        return status;
    config_search_init(&search, common->options, NULL, NULL);
    status = plugin_retry(&search.search, set, name, diag);
    plugin_set_destroy(set);
    return status == INLAY_OK ? cli_plugins(common, 0, out_set, diag) : status;
}
