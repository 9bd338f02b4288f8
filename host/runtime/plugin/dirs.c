/* plugin/dirs.c - the directories that plugins come from. */
#include "plugin/module.h"
#include "plugin/trust.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_DIRS = 64 };

inlay_status dir_check(const char *dir, char real[PATH_MAX], inlay_diag *diag)
{
    char cwd[PATH_MAX];

    if (*dir == '\0')
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "plugin_dirs: an empty name would mean the working directory");
    if (realpath(dir, real) == NULL)
        return inlay_fail(diag, INLAY_NOT_FOUND, "plugin directory '%s': %s", dir, strerror(errno));
    if (getcwd(cwd, sizeof cwd) != NULL && strcmp(cwd, real) == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "plugin directory '%s' is the working directory, from which "
                          "nothing is loaded; start from elsewhere or move the plugins",
                          dir);
    return trust_dir(real, diag);
}

static const char *beside(const char *dir, const char *relative, char *text, size_t bytes)
{
    char path[PATH_MAX + 256];
    char real[PATH_MAX];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/%s", dir, relative);
    if (realpath(path, real) == NULL || stat(real, &st) != 0 || !S_ISDIR(st.st_mode) || strlen(real) >= bytes)
        return NULL;
    return strcpy(text, real);
}

bool dir_of_host(char path[PATH_MAX])
{
    static const char here; /* an address in the library or executable that this is part of */
    struct link_map *map = NULL;
    Dl_info info;
    char *slash;

    if (dladdr1(&here, &info, (void **)&map, RTLD_DL_LINKMAP) == 0)
        return false;
    if (map == NULL || map->l_name == NULL || map->l_name[0] == '\0') {
        /* The executable, whose name as the linker knows it may be relative to a directory that was left since. */
        ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

        if (n <= 0)
            return false;
        path[n] = '\0';
    } else if (realpath(map->l_name, path) == NULL) {
        return false;
    }
    slash = strrchr(path, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    return true;
}

const char *plugin_default_dir(char *text, size_t bytes)
{
    char path[PATH_MAX];
    const char *found;

    if (!dir_of_host(path))
        return NULL;
    found = beside(path, "../lib/inlay/plugins", text, bytes);
    if (found == NULL)
        found = beside(path, "../" INLAY_PLUGIN_SUBDIR, text, bytes);
    return found != NULL ? found : beside(path, "inlay/plugins", text, bytes);
}

inlay_status plugin_set_create(const char *const *dirs, uint32_t dir_count, plugin_log_fn log, void *log_user,
                               plugin_set **out_set, inlay_diag *diag)
{
    const plugin_search search = { .dirs = dirs, .dir_count = dir_count, .log = log, .log_user = log_user };

    return plugin_set_search(&search, out_set, diag);
}

inlay_status plugin_set_search_listed(const plugin_search *search, const char *list, plugin_set **out_set,
                                      inlay_diag *diag)
{
    plugin_search all = *search;
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
    all.dirs = dirs;
    all.dir_count = count;
    status = plugin_set_search(&all, out_set, diag);
done:
    free(copy);
    return status;
}
