/* The search for the plugins of a set. */
#include "plugin/set.h"
#include "base/memory.h"
#include "base/path.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_DIRS = 64 };

inlay_status plugin_set_search(const plugin_search *search, plugin_set **out_set, inlay_diag *diag)
{
    inlay_status status = plugin_set_create(search, out_set, diag);

    if (status == INLAY_OK)
        status = plugin_set_load_files(*out_set, search, diag);
    if (status != INLAY_OK) {
        plugin_set_destroy(*out_set);
        *out_set = NULL;
    }
    return status;
}

inlay_status plugin_set_search_listed(const plugin_search *search, const char *list, plugin_set **out_set,
                                      inlay_diag *diag)
{
    plugin_search all = *search;
    const char *dirs[MAX_DIRS];
    char default_dir[4096], *copy = strdup(list), *next = NULL;
    uint32_t count = 0;
    bool listed = false;
    inlay_status status = INLAY_OK;

    *out_set = NULL;
    if (copy == NULL)
        return no_memory(diag, "for plugin directories");
    for (char *dir = strtok_r(copy, PATH_LIST_SEPARATOR, &next); dir != NULL;
         dir = strtok_r(NULL, PATH_LIST_SEPARATOR, &next)) {
        if (count == MAX_DIRS - 1) {
            status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "option plugin_dirs: more than %u directories", count);
            goto done;
        }
        dirs[count++] = dir;
    }
    if (plugin_default_dir(default_dir, sizeof default_dir) != NULL) {
        for (uint32_t i = 0; i < count; i++)
            listed |= strcmp(dirs[i], default_dir) == 0;
        if (!listed)
            dirs[count++] = default_dir;
    }
    all.dirs = dirs;
    all.dir_count = count;
    status = plugin_set_search(&all, out_set, diag);
done:
    free(copy);
    return status;
}
