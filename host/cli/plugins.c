#include "cli/plugins.h"

inlay_status cli_plugins(const cli_common *common, plugin_set **out_set, inlay_diag *diag)
{
    char list[8192] = "";
    inlay_status status = inlay_options_get(common->options, "plugin_dirs", list, sizeof list, diag);

    *out_set = NULL;
    return status == INLAY_OK ? plugin_set_create_listed(list, NULL, NULL, out_set, diag) : status;
}
