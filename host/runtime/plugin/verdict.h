/* plugin/verdict.h - results of probes, kept for the next time. Private to this folder.
 *
 * A verdict applies to one state of one file and to one build of the host: path, device, inode, size, times, build id,
 * and the host's version. A change of any of these makes another key, and the file is probed again. Verdicts are kept
 * in a folder, one small text file each, written under a temporary name and then renamed; without a folder they are
 * kept in this process. A file that is malformed or whose checksum is wrong is ignored. If a folder has more than 256
 * entries, verdicts on deleted files are removed.
 *
 * Any thread may call these functions; a signal handler only verdict_compose() and verdict_write(). */
#ifndef PLUGIN_VERDICT_H
#define PLUGIN_VERDICT_H
#include "inlay/plugin.h"
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

typedef enum verdict_kind { VERDICT_NONE, VERDICT_OK, VERDICT_REFUSED, VERDICT_CRASHED, VERDICT_HUNG } verdict_kind;

enum { VERDICT_TEXT = 400, VERDICT_KEY = PATH_MAX + 512, VERDICT_FILE = VERDICT_KEY + VERDICT_TEXT + 64 };

struct verdict {
    verdict_kind kind;
    char text[VERDICT_TEXT]; /* the reason, one line; for OK the process state that the plugin changed, or "" */
};

/* The text that identifies a file and a host: the head of the verdict's file. */
typedef struct verdict_key {
    char text[VERDICT_KEY];
    char file[PATH_MAX + 32]; /* the verdict's file; "" = in this process only */
} verdict_key;

/* dir may be NULL or "". host identifies the build of the host. */
void verdict_key_init(verdict_key *key, const char *dir, const char *path, const struct stat *st, const char *build_id,
                      const char *host);

/* The verdict for that key; kind VERDICT_NONE if no verdict is known. */
void verdict_find(const verdict_key *key, struct verdict *out);
/* Stores the verdict. If its file cannot be written, only this process remembers the verdict. */
void verdict_keep(const verdict_key *key, const struct verdict *verdict);
/* Deletes every verdict on the file at path (without links). True if one was known. */
bool verdict_forget(const char *dir, const char *path);

/* Composes the text of a verdict file; returns its length, 0 if it does not fit. */
size_t verdict_compose(const char *key_text, verdict_kind kind, const char *why, char text[VERDICT_FILE]);
/* Writes the text to a temporary file in the same folder, then renames that file to `file`. */
bool verdict_write(const char *file, const char *text, size_t bytes);
#endif
