/* plugin/verdict.h - what became of plugin files when they were tried, kept for the next time. Private to this folder.
 *
 * A verdict is about one file as it was at one time, and about one build of the host: path, device, inode, size, times,
 * build id, and the host's version. Whatever differs makes another key, and the file is tried again. Verdicts lie in a
 * folder, one small text file each, written under another name and then renamed; and in this process, for those who
 * have no folder. A file that does not read as one from the first byte to its check sum counts as not there. A folder
 * of more than 256 is rid of verdicts on files that are gone.
 *
 * Nothing here but verdict_compose() and verdict_write() may be called by a signal handler. */
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
    char text[VERDICT_TEXT]; /* what happened, one line; for OK what it did not leave alone, or "" */
};

/* The text that stands for a file and a host: the head of the verdict's file. */
typedef struct verdict_key {
    char text[VERDICT_KEY];
    char file[PATH_MAX + 32]; /* where it is kept; "" = in this process only */
} verdict_key;

/* dir may be NULL or "". host names the build of the host. */
void verdict_key_init(verdict_key *key, const char *dir, const char *path, const struct stat *st, const char *build_id,
                      const char *host);

/* The verdict for that key; kind VERDICT_NONE when there is none. */
void verdict_find(const verdict_key *key, struct verdict *out);
/* Keeps it. Where a file cannot be written, this process remembers it all the same. */
void verdict_keep(const verdict_key *key, const struct verdict *verdict);
/* Forgets every verdict on the file at path (without links). True if there was one. */
bool verdict_forget(const char *dir, const char *path);

/* The file's text for a verdict, into text; returns its length, 0 when it does not fit. */
size_t verdict_compose(const char *key_text, verdict_kind kind, const char *why, char text[VERDICT_FILE]);
/* Writes it under a name beside file, then renames. */
bool verdict_write(const char *file, const char *text, size_t bytes);
#endif
