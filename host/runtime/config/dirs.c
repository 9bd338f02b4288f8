#include "config/dirs.h"
#include "base/owner.h"
#include "base/path.h"
#include "config/options.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

config_user config_user_of_process(void)
{
    return (config_user){ secure_getenv("HOME"), secure_getenv("XDG_CACHE_HOME"), secure_getenv("XDG_CONFIG_HOME"),
                          getauxval(AT_SECURE) != 0 };
}

bool config_join(char *text, size_t bytes, const char *dir, const char *name)
{
    int length = snprintf(text, bytes, "%s%s%s", dir, name[0] != '\0' ? "/" : "", name);

    if (length >= 0 && (size_t)length < bytes)
        return true;
    if (bytes > 0)
        text[0] = '\0';
    return false;
}

bool config_user_dir(const config_user *user, const char *xdg, const char *fallback, char *text, size_t bytes)
{
    char base[4096];

    if (bytes > 0)
        text[0] = '\0';
    if (user->privileged)
        return false;
    if (xdg != NULL && path_is_absolute(xdg)) /* XDG Base Directory Specification 0.8: relative paths must be ignored */
        return config_join(text, bytes, xdg, "inlay");
    return user->home != NULL && path_is_absolute(user->home) && config_join(base, sizeof base, user->home, fallback) &&
           config_join(text, bytes, base, "inlay");
}

/* Can path be written to or created: is its nearest existing ancestor a writable folder? */
static bool can_write(const char *path)
{
    char part[4096];
    char *slash;

    if (!config_join(part, sizeof part, path, ""))
        return false;
    while (access(part, F_OK) != 0) {
        slash = strrchr(part, '/');
        if (errno != ENOENT || slash == NULL)
            return false;
        slash[slash == part ? 1 : 0] = '\0';
    }
    return access(part, W_OK | X_OK) == 0;
}

static bool is_auto(const inlay_options *options)
{
    return strcmp(options_text(options, OPTION_cache_dir), "auto") == 0;
}

bool config_cache_dir(const inlay_options *options, char *text, size_t bytes)
{
    const char *dir = options_text(options, OPTION_cache_dir);
    config_user user = config_user_of_process();

    if (!is_auto(options))
        return config_join(text, bytes, dir, "") && text[0] != '\0';
    if (config_user_dir(&user, user.cache_home, ".cache", text, bytes) && can_write(text))
        return true;
    if (bytes > 0)
        text[0] = '\0';
    return false;
}

/* Creates path and its parents. */
static bool make_dir(char *path)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return true;
    if (errno != ENOENT)
        return false;
    for (char *slash = path + 1; *slash != '\0'; slash++) {
        if (*slash != '/')
            continue;
        *slash = '\0';
        (void)mkdir(path, 0700); /* errors show at the last mkdir */
        *slash = '/';
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* Is the path a folder in which only the user and root may create files? */
static bool is_private_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && !owner_others_write(&st) &&
           (st.st_uid == geteuid() || st.st_uid == 0);
}

/* Is the path a private folder, now that it is created if missing? Every session asks for several that exist. */
static bool is_ready(char *path)
{
    return is_private_folder(path) || (make_dir(path) && is_private_folder(path));
}

bool config_cache_folder(const inlay_options *options, const char *name, char *text, size_t bytes)
{
    char dir[4096];

    if (config_cache_dir(options, dir, sizeof dir) && is_ready(dir) && config_join(text, bytes, dir, name) &&
        is_ready(text))
        return true;
    if (bytes > 0)
        text[0] = '\0';
    return false;
}

bool config_blob_dir(const inlay_options *options, char *text, size_t bytes)
{
    if (is_auto(options))
        return config_cache_folder(options, "compiled", text, bytes);
    return config_cache_dir(options, text, bytes);
}
