/* plugin/dirs.c - from a list of directories to a set of plugins. */
#include "plugin/plugin.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_DIRS = 64 };

inlay_status plugin_set_create_listed(const char *list, plugin_log_fn log, void *log_user, plugin_set **out_set,
                                      inlay_diag *diag)
{
    const char *dirs[MAX_DIRS];
    char fallback[4096], *copy = strdup(list), *next = NULL;
    uint32_t count = 0;
    bool listed = false;
    inlay_status status = INLAY_OK;

    *out_set = NULL;
    if (copy == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for plugin directories");
    for (char *dir = strtok_r(copy, ":", &next); dir != NULL; dir = strtok_r(NULL, ":", &next)) {
        if (count == MAX_DIRS - 1) {
            status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "option plugin_dirs: more than %u directories", count);
            goto done;
        }
        dirs[count++] = dir;
    }
    if (plugin_default_dir(fallback, sizeof fallback) != NULL) {
        for (uint32_t i = 0; i < count; i++)
            listed |= strcmp(dirs[i], fallback) == 0;
        if (!listed)
            dirs[count++] = fallback;
    }
    status = plugin_set_create(dirs, count, log, log_user, out_set, diag);
done:
    free(copy);
    return status;
}
