/* plugin/dirs.c - plugin directories. */
#include "plugin/module.h"
#include "plugin/trust.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

inlay_status dir_check(const char *dir, const char *file, char real[PATH_MAX], inlay_diag *diag)
{
    char cwd[PATH_MAX];

    if (*dir == '\0')
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "plugin_dirs: an empty name would mean the working directory");
    if (realpath(dir, real) == NULL)
        return inlay_fail(diag, INLAY_NOT_FOUND, "plugin directory '%s': %s", dir, strerror(errno));
    /* Who writes an absolute path has seen where the file is. */
    if ((file != NULL && file[0] == '/') || getcwd(cwd, sizeof cwd) == NULL || strcmp(cwd, real) != 0)
        return trust_dir(real, diag);
    if (file != NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "plugin file '%s' is in the working directory; name it by its absolute path: \"$PWD/%s\"",
                          file, file);
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "plugin directory '%s' is the working directory, and plugins are never loaded from there; "
                      "change the working directory or move the plugins",
                      dir);
}

static const char *find_dir(const char *dir, const char *relative, char *text, size_t bytes)
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
    static const char here; /* an address within the library or executable that contains this code */
    struct link_map *map = NULL;
    Dl_info info;
    char *slash;

    if (dladdr1(&here, &info, (void **)&map, RTLD_DL_LINKMAP) == 0)
        return false;
    if (map == NULL || map->l_name == NULL || map->l_name[0] == '\0') {
        /* The executable. The linker's name of it may be relative to a former working directory. */
        ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
        const char *started = (const char *)getauxval(AT_EXECFN);

        if (n > 0)
            path[n] = '\0';
        else if (started == NULL || started[0] != '/' || realpath(started, path) == NULL) /* without /proc */
            return false;
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
    found = find_dir(path, "../lib/inlay/plugins", text, bytes);
    if (found == NULL)
        found = find_dir(path, "../" INLAY_PLUGIN_SUBDIR, text, bytes);
    return found != NULL ? found : find_dir(path, "inlay/plugins", text, bytes);
}
