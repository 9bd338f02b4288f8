/* plugin/trust.h - which files may be loaded into this process. Private to this folder.
 *
 * A plugin is code: a user who can change the file, or any part of its path, controls this process. The rules, for the
 * directory and for each file in it:
 *  - owner: root, or the effective user of this process;
 *  - not writable by others; writable by the group only if it is root's or the owner's private group (the group whose
 *    number is the owner's, as on Debian);
 *  - the folders above: writable by others only with the sticky bit, which prevents others from renaming files that
 *    they do not own (/tmp). The plugin directory itself must not be such a folder, because any user may add files;
 *  - the target of a symbolic link must satisfy the same rules.
 * The owner of a folder above can still move everything below it. That is accepted, because the owner set it up. */
#ifndef PLUGIN_TRUST_H
#define PLUGIN_TRUST_H
#include "inlay/status.h"
#include <limits.h>
#include <sys/stat.h>

/* Checks whether plugins may be loaded from the directory. dir is absolute and without links.
 * INLAY_INVALID_ARGUMENT: no; diag names the chmod or chown command that fixes it. */
INLAY_NODISCARD inlay_status trust_dir(const char *dir, inlay_diag *diag);

/* Opens the file at path if its owner and mode permit loading, and returns its real path. dir is the directory of
 * path, which has passed trust_dir; path is dir, a slash and a name. On success the caller closes *out_fd. */
INLAY_NODISCARD inlay_status trust_open(const char *path, const char *dir, char real[PATH_MAX], int *out_fd,
                                        struct stat *out_st, inlay_diag *diag);

/* Checks that the mapping at address, in a library whose first page is at lowest, is the file behind fd.
 * INLAY_INVALID_ARGUMENT: it is not; the file was replaced after the checks. */
INLAY_NODISCARD inlay_status trust_mapped(int fd, const void *address, const void *lowest, inlay_diag *diag);

/* To call before a library is unmapped: its address may become that of another file. */
void trust_forget(void);

/* Checks that the list, a file in the format of sha256sum, contains the file behind fd. INLAY_INVALID_ARGUMENT: it
 * does not, and diag has the line to add; or the list itself is not trusted or not readable. */
INLAY_NODISCARD inlay_status trust_allowed(const char *list, int fd, const char *path, inlay_diag *diag);
#endif
