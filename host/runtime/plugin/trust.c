#include "plugin/trust.h"
#include "base/path.h"
#include "inlay/check.h"
#include "base/memory.h"
#include "base/owner.h"
#include "base/sha256.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inlay_status check_owner(const char *what, const char *path, const struct stat *st, inlay_diag *diag)
{
    uid_t user = geteuid();

    if (st->st_uid == 0 || st->st_uid == user)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "%s '%.250s' belongs to user %u, who can change it at any time: chown %u it, or copy it", what,
                      path, (unsigned)st->st_uid, (unsigned)user);
}

static inlay_status check_mode(const char *what, const char *path, const struct stat *st, inlay_diag *diag)
{
    if ((st->st_mode & S_IWOTH) != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s '%.250s' is writable by all users: chmod o-w it", what,
                          path);
    if (owner_group_writes(st))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s '%.250s' is writable by group %u: chmod g-w it", what, path,
                          (unsigned)st->st_gid);
    return INLAY_OK;
}

/* The folders above dir, the root included. */
static inlay_status check_parents(const char *dir, inlay_diag *diag)
{
    char parent[PATH_MAX];
    struct stat st;
    char *slash;

    (void)snprintf(parent, sizeof parent, "%s", dir);
    while ((slash = strrchr(parent, '/')) != NULL && strcmp(parent, "/") != 0) {
        slash[slash == parent ? 1 : 0] = '\0';
        if (stat(parent, &st) != 0)
            return inlay_fail(diag, INLAY_IO_ERROR, "folder '%s': %s", parent, strerror(errno));
        if ((st.st_mode & S_ISVTX) == 0 && owner_others_write(&st))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "folder '%.150s' is writable by %s, who can replace '%.200s': chmod %s-w it", parent,
                              (st.st_mode & S_IWOTH) != 0 ? "all users" : "a group", dir,
                              (st.st_mode & S_IWOTH) != 0 ? "o" : "g");
    }
    return INLAY_OK;
}

inlay_status trust_dir(const char *dir, inlay_diag *diag)
{
    inlay_status status;
    struct stat st;

    if (stat(dir, &st) != 0)
        return inlay_fail(diag, INLAY_NOT_FOUND, "plugin directory '%s': %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "plugin directory '%s' is not a directory", dir);
    if ((st.st_mode & S_ISVTX) != 0 && (st.st_mode & S_IWOTH) != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "plugin directory '%.250s' allows all users to add files: use a private folder", dir);
    INLAY_TRY(check_mode("plugin directory", dir, &st, diag));
    INLAY_TRY(check_owner("plugin directory", dir, &st, diag));
    status = check_parents(dir, diag);
done:
    return status;
}

inlay_status trust_open(const char *path, const char *dir, char real[PATH_MAX], int *out_fd, struct stat *out_st,
                        inlay_diag *diag)
{
    struct stat found, *st = out_st;
    inlay_status status = INLAY_OK;
    char *slash;
    int fd = -1;

    *out_fd = -1;
    if (lstat(path, &found) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s", strerror(errno));
    if (!S_ISLNK(found.st_mode) && strlen(path) < PATH_MAX) /* dir has no links either */
        (void)strcpy(real, path);
    else if (realpath(path, real) == NULL || stat(real, &found) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s", strerror(errno));
    if (!S_ISREG(found.st_mode)) /* checked before open(): a pipe would block, a device might react */
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "not a regular file");
    INLAY_CHECK(path_is_absolute(real) && path_is_absolute(dir));
    slash = strrchr(real, '/');
    *slash = '\0';
    if (strcmp(real, dir) != 0) /* a link into another folder */
        status = trust_dir(slash == real ? "/" : real, diag);
    *slash = '/';
    if (status != INLAY_OK)
        return status;
    fd = open(real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, st) != 0) {
        status = inlay_fail(diag, INLAY_IO_ERROR, "%s", strerror(errno));
        goto done;
    }
    if (!S_ISREG(st->st_mode) || st->st_dev != found.st_dev || st->st_ino != found.st_ino) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "it was replaced during the checks");
        goto done;
    }
    INLAY_TRY(check_mode("file", real, st, diag));
    INLAY_TRY(check_owner("file", real, st, diag));
    *out_fd = fd;
    fd = -1;
done:
    if (fd >= 0)
        (void)close(fd);
    return status;
}

static inlay_status hash_file(int fd, char hex[65], inlay_diag *diag)
{
    uint8_t block[16384];
    off_t at = 0;
    ssize_t byte_count;
    struct sha256 sha256;

    sha256_init(&sha256);
    while ((byte_count = pread(fd, block, sizeof block, at)) > 0) {
        sha256_update(&sha256, block, (size_t)byte_count);
        at += byte_count;
    }
    if (byte_count < 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s", strerror(errno));
    sha256_hex(&sha256, hex);
    return INLAY_OK;
}

inlay_status trust_allowed(const char *list, int fd, const char *path, inlay_diag *diag)
{
    int list_fd = open(list, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char line[PATH_MAX + 80], hex[65];
    bool listed = false;
    inlay_status status;
    struct stat st;
    FILE *file = NULL;

    if (list_fd < 0 || fstat(list_fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option plugin_allow: '%s': %s", list,
                            list_fd < 0 ? strerror(errno) : "not a regular file");
        goto done;
    }
    INLAY_TRY(check_mode("option plugin_allow: file", list, &st, diag));
    INLAY_TRY(check_owner("option plugin_allow: file", list, &st, diag));
    INLAY_TRY(hash_file(fd, hex, diag));
    file = fdopen(list_fd, "r");
    if (file == NULL) {
        status = no_memory(diag, "to read '%s'", list);
        goto done;
    }
    list_fd = -1;
    while (!listed && fgets(line, sizeof line, file) != NULL) {
        /* "SUM  NAME" or "SUM *NAME"; sha256sum puts a backslash in front if it escaped the name. */
        const char *sum = line[0] == '\\' ? line + 1 : line;
        listed = strncasecmp(sum, hex, 64) == 0 && (sum[64] == '\0' || isspace((unsigned char)sum[64]));
    }
    if (!listed)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "not in the list %.120s of option plugin_allow; if it may be "
                            "loaded, add the line: %s  %.120s",
                            list, hex, path);
done:
    if (file != NULL)
        (void)fclose(file);
    if (list_fd >= 0)
        (void)close(list_fd);
    return status;
}
