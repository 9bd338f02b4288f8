/* plugin/dirs.c - plugin directories. */
#include "base/path.h"
#include "plugin/module.h"
#include "plugin/trust.h"
#include "threads/fork.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
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
    if ((file != NULL && path_is_absolute(file)) || getcwd(cwd, sizeof cwd) == NULL || strcmp(cwd, real) != 0)
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

static char host_dir[PATH_MAX]; /* "": not known */

static void find_host_dir(void)
{
    static const char here; /* an address within the library or executable that contains this code */
    struct link_map *map = NULL;
    char path[PATH_MAX];
    Dl_info info;
    char *slash;

    if (dladdr1(&here, &info, (void **)&map, RTLD_DL_LINKMAP) == 0)
        return;
    if (map == NULL || map->l_name == NULL || map->l_name[0] == '\0') {
        /* The executable. The linker's name of it may be relative to a former working directory. */
        ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
        const char *started = (const char *)getauxval(AT_EXECFN);

        if (n > 0)
            path[n] = '\0';
        else if (started == NULL || !path_is_absolute(started) || realpath(started, path) == NULL) /* without /proc */
            return;
    } else if (realpath(map->l_name, path) == NULL) {
        return;
    }
    slash = strrchr(path, '/');
    if (slash == NULL)
        return;
    *slash = '\0';
    memcpy(host_dir, path, (size_t)(slash - path) + 1);
}

bool dir_of_host(char path[PATH_MAX])
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, find_host_dir);
    memcpy(path, host_dir, strlen(host_dir) + 1);
    return host_dir[0] != '\0';
}

static char default_dir[PATH_MAX]; /* once it was found; "": not yet */
static pthread_mutex_t default_lock = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void guard_default(void)
{
    fork_guard(&default_lock);
}

/* Every session asks several times, and each answer takes a dozen system calls. */
const char *plugin_default_dir(char *text, size_t bytes)
{
    static const char *const places[] = { "../lib/inlay/plugins", ("../" INLAY_PLUGIN_SUBDIR), "inlay/plugins" };
    const char *found = NULL;
    char path[PATH_MAX];

    (void)pthread_mutex_lock(&default_lock);
    if (default_dir[0] == '\0' && dir_of_host(path))
        for (size_t i = 0; i < sizeof places / sizeof places[0] && found == NULL; i++)
            found = find_dir(path, places[i], default_dir, sizeof default_dir);
    found = default_dir[0] != '\0' && strlen(default_dir) < bytes ? strcpy(text, default_dir) : NULL;
    (void)pthread_mutex_unlock(&default_lock);
    return found;
}
