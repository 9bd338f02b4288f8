/* base/output.h - writes files that a user names.
 *
 * A regular file, or a new one, is written atomically: the bytes go into a temporary file in the same folder, which is
 * renamed when it is complete and gets the owner and the mode of the file that it replaces. Symbolic links are
 * followed, dangling ones too. Other files (devices, FIFOs) are written directly, and so are open descriptors:
 * /dev/stdout, /dev/stderr, /dev/fd/N, /proc/self/fd/N. A regular file that cannot be replaced (its folder is
 * read-only, its owner cannot be preserved, or it is a mount point) is overwritten in place after the data is complete
 * and the space is reserved.
 *
 * Files of the cache folders are written by cache_folder_write() (base/cache_folder.h), which never follows links. */
#ifndef BASE_OUTPUT_H
#define BASE_OUTPUT_H
#include "inlay/status.h"
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

typedef struct output_file {
    const char *path; /* borrowed, as the caller named it */
    int fd;           /* write to this descriptor or to `to`, not to both */
    FILE *to;         /* of output_open_stream(), otherwise NULL */
    int error;        /* errno of the first failed write of `to`; 0 = none */
    bool open, in_place;
    /* Set after the file was opened: output_commit() does not wait until the data is on the disk. For files whose
     * readers verify their contents. */
    bool is_unsynced;
    char target[PATH_MAX];         /* `path` with its links followed; "" = fd is not a regular file */
    char temporary[PATH_MAX + 32]; /* in the folder of target; "" = none */
} output_file;

/* Opens path for writing. INLAY_IO_ERROR: it cannot be written, and nothing has changed; output_drop() is then a no-op.
 * Opening a FIFO waits for its reader. */
INLAY_NODISCARD inlay_status output_open(output_file *out, const char *path, inlay_diag *diag);
INLAY_NODISCARD inlay_status output_open_stream(output_file *out, const char *path, inlay_diag *diag);
/* Opens path and fills it with the contents of the file `from`, which is moved if that avoids a copy. An executable
 * file stays executable. */
INLAY_NODISCARD inlay_status output_move_file(output_file *out, const char *path, const char *from, inlay_diag *diag);

/* Writes all bytes to a descriptor of an output or of another file. On failure returns false and sets errno. If the
 * file would exceed RLIMIT_FSIZE, where write() raises a signal, nothing is written and errno is EFBIG. A signal
 * handler may call it. */
bool output_write(int fd, const void *data, uint64_t bytes);

/* Publishes the outputs under their names; `second` may be NULL. No file changes before both are complete. On failure
 * both are dropped. */
INLAY_NODISCARD inlay_status output_commit(output_file *first, output_file *second, inlay_diag *diag);
/* Discards the written bytes, unless they already reached a device. A no-op for {0} and after output_commit(). */
void output_drop(output_file *out);
/* Returns INLAY_IO_ERROR with a message from errno, for a file or folder that could not be created: "PATH: cannot be
 * created: Permission denied"; if its folder does not exist, the message names the folder. */
inlay_status output_not_created(const char *path, inlay_diag *diag);
/* Returns INLAY_IO_ERROR with a message from errno: "PATH: cannot be written: No space left on device". */
inlay_status output_failed(const output_file *out, inlay_diag *diag);

/* A program's record of the files that it reads, which its outputs must not replace. */
typedef struct output_rules {
    void (*note_read)(const struct stat *file);
    void (*note_written)(const struct stat *file); /* the program's own: it may read the file and replace it again */
    bool (*refuses)(const struct stat *file, const char *path); /* path: a name of the file */
    inlay_status (*check_all)(inlay_diag *diag); /* output_check() of all outputs of the program, before one changes */
} output_rules;
/* Called once, before files are read. Without rules, an output may replace any file. */
void output_set_rules(const output_rules *rules);
/* Records that the program reads the file fd. Whatever opens a file that a user names calls it. */
void output_note_read(int fd);
void output_note_read_path(const char *path);
/* INLAY_INVALID_ARGUMENT: path is a file that the program reads; diag names it. output_open() and output_commit() check
 * this, too; a program that writes several files checks all of them first. */
INLAY_NODISCARD inlay_status output_check(const char *path, inlay_diag *diag);
/* For output_commit(): checks all outputs of the program, and records that the complete file `out` is one. */
INLAY_NODISCARD inlay_status output_permit(const output_file *out, inlay_diag *diag);

/* Follows the links of path into target. False if it is neither a regular file nor a name for a new one. */
bool output_target(const char *path, char target[PATH_MAX]);

/* main() calls this first. Opens closed descriptors among 0 to 2, so that no other file gets their numbers; makes a
 * write beyond RLIMIT_FSIZE an error instead of a signal; and closes standard output at exit. If printed text could not
 * be written, the exit code becomes 1, with a line on stderr that begins with `name`. A reader that closed the pipe
 * (EPIPE) is not a failure. */
void output_guard_streams(const char *name);

/* From now on, an output named /dev/stdout writes to the present standard output, and printed text is written to
 * stderr. False if it was called before. */
bool output_claim_stdout(void);
/* The descriptor that /dev/stdout names. */
int output_standard(void);
/* Restores standard output for a program that is about to be executed. Async-signal-safe. */
void output_return_stdout(void);
#endif
