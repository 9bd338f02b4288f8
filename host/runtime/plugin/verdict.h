/* plugin/verdict.h - results of probes, kept for the next time. Private to this folder.
 *
 * A verdict applies to one state of one file and to one build of the host: path, device, inode, size, times, build id,
 * and the host's version. A change of any of these makes another key, and the file is probed again. Verdicts are kept
 * in a folder, one small text file each, written under a temporary name and then renamed; without a folder they are
 * kept in this process. A file that is malformed or whose checksum is wrong is ignored. If a folder has more than 256
 * entries, verdicts on deleted files are removed.
 *
 * A probe that found a crash is believed for a day, one that hung for ten minutes: the machine may have been the
 * reason. Such a verdict on a plugin of the host's own folder is never stored, so that no single event takes it from
 * all programs of a user.
 *
 * Crashes with a model, in the process of a program, are kept in the folder of the verdict: up to CRASH_MARKS files,
 * one for each model, which count for a day. The plugin is not loaded for these models, and with CRASH_MARKS of them
 * for none.
 *
 * Any thread may call these functions; a signal handler only verdict_mark_crash(). */
#ifndef PLUGIN_VERDICT_H
#define PLUGIN_VERDICT_H
#include "inlay/status.h"
#include "inlay/types.h"
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

typedef enum verdict_kind { VERDICT_NONE, VERDICT_OK, VERDICT_REFUSED, VERDICT_CRASHED, VERDICT_HUNG } verdict_kind;

enum { VERDICT_TEXT = 400, VERDICT_KEY = PATH_MAX + 512, VERDICT_FILE = VERDICT_KEY + VERDICT_TEXT + 64 };

struct verdict {
    verdict_kind kind;
    /* The reason, one line; for OK the process state that the plugin changed, or ""; for NONE why the probe failed. */
    char text[VERDICT_TEXT];
};

/* The text that identifies a file and a host: the head of the verdict's file. */
typedef struct verdict_key {
    bool own; /* the plugin is in the host's own folder */
    char text[VERDICT_KEY];
    char file[PATH_MAX + 32]; /* the verdict's file; "" = in this process only */
} verdict_key;

/* dir may be NULL or "". host identifies the build of the host. */
void verdict_key_init(verdict_key *key, const char *dir, const char *path, const struct stat *st, const char *build_id,
                      const char *host);

/* The verdict for that key; kind VERDICT_NONE if no verdict is known. The process remembers one that permits loading,
 * and reads its file once. */
void verdict_find(const verdict_key *key, struct verdict *out);
/* Stores the verdict, unless its kind is VERDICT_NONE. If its file cannot be written, only this process remembers the
 * verdict. */
void verdict_keep(const verdict_key *key, const struct verdict *verdict);
/* Deletes every verdict and mark on the file at path (without links). True if one was known. */
bool verdict_forget(const char *dir, const char *path);

enum { CRASH_MARKS = 3 };

typedef struct crash_marks {
    uint32_t count;          /* models that the plugin crashed with in the last day */
    bool this_model;         /* the given model is one of them */
    char text[VERDICT_TEXT]; /* the reason: of that model, else of the latest; "" without marks */
} crash_marks;

/* Reads the marks on the plugin that has this key and verdict file, which may be NULL or "". model 0: none. */
void verdict_crashes(const char *key_text, const char *file, uint64_t model, crash_marks *out);
/* Stores a mark; with model 0, unknown, the reason stands for the model. */
bool verdict_mark_crash(const char *key_text, const char *file, uint64_t model, const char *why);
#endif
