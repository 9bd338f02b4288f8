#include "cli/plugins.h"
#include <string.h>

enum { MAX_DIRS = 64 };

inlay_status cli_plugins(const cli_common *common, plugin_set **out_set, inlay_diag *diag)
{
    char text[8192] = "", fallback[4096];
    const char *dirs[MAX_DIRS];
    uint32_t count = 0;
    inlay_status status = inlay_options_get(common->options, "plugin_dirs", text, sizeof text, diag);

    *out_set = NULL;
    if (status != INLAY_OK)
        return status;
    for (char *rest = text, *dir; (dir = strtok_r(rest, ":,", &rest)) != NULL && count < MAX_DIRS;)
        dirs[count++] = dir;
    if (count == 0 && plugin_default_dir(fallback, sizeof fallback) != NULL)
        dirs[count++] = fallback;
    return plugin_set_create(dirs, count, NULL, NULL, out_set, diag);
}
