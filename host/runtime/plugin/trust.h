/* plugin/trust.h - which files may become part of this process. Private to this folder.
 *
 * A plugin is code, so whoever may change the file, or the name that leads to it, decides what this process does. The
 * rules, for the directory and for the file in it:
 *  - owner: root, or the user that this process acts as;
 *  - writable by nobody else: not by others, and by the group only where it is root's or the owner's private one (the
 *    group whose number is the owner's, as Debian makes it);
 *  - the folders above: writable by others only with the sticky bit, with which others cannot rename what is not theirs
 *    (/tmp). A sticky folder may be above, but not be the plugin directory itself, where everybody may put files;
 *  - what a symbolic link leads to is held to the same rules.
 * Whoever owns a folder above may still move everything below it: that is the one who set the folder up. */
#ifndef PLUGIN_TRUST_H
#define PLUGIN_TRUST_H
#include "inlay/plugin.h"
#include <limits.h>
#include <sys/stat.h>

/* May plugins be loaded from the directory? dir is absolute and without links. INLAY_INVALID_ARGUMENT: no, and which
 * chmod or chown would change that. */
INLAY_NODISCARD inlay_status trust_dir(const char *dir, inlay_diag *diag);

/* Opens the file that path leads to, when it may be loaded by its owner and mode, and gives its real path. dir is the
 * directory that path is in, which trust_dir has passed. On success *out_fd is the caller's to close. */
INLAY_NODISCARD inlay_status trust_open(const char *path, const char *dir, char real[PATH_MAX], int *out_fd,
                                        struct stat *out_st, inlay_diag *diag);

/* Is what is mapped at address, of a library whose first page is at lowest, the file behind fd? INLAY_INVALID_ARGUMENT:
 * no, it was exchanged after it had been checked. */
INLAY_NODISCARD inlay_status trust_mapped(int fd, const void *address, const void *lowest, inlay_diag *diag);

/* Is the content of the file behind fd in the list, a file as sha256sum writes it? INLAY_INVALID_ARGUMENT: no, and the
 * line to add; or the list itself is not to be trusted, or not readable. */
INLAY_NODISCARD inlay_status trust_allowed(const char *list, int fd, const char *path, inlay_diag *diag);
#endif
