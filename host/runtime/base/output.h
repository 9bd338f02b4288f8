/* base/output.h - a file that a user names: the one way to write it.
 *
 * A regular file, or one that does not exist yet, appears whole or not at all: the bytes go into a temporary file in
 * the same folder, which takes the name when everything is written, with the owner and the mode of the file that it
 * replaces. Symbolic links are followed, dangling ones too. What is no regular file (a device, a FIFO) is written to as
 * it is, and so are open descriptors: /dev/stdout, /dev/stderr, /dev/fd/N, /proc/self/fd/N. A regular file that cannot
 * be replaced (its folder is read-only, its owner cannot be kept, it is a mount point) is overwritten in place, once
 * everything is there and the space is reserved.
 *
 * Files of the cache folders are written by kept_write() (base/kept.h): those never go through links. */
#ifndef BASE_OUTPUT_H
#define BASE_OUTPUT_H
#include "inlay/status.h"
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct output_file {
    const char *path; /* as the caller named it; it has to live as long */
    int fd;           /* write here, or to `to`, not to both */
    FILE *to;         /* of output_open_stream(), otherwise NULL */
    int error;        /* errno of the first write of `to` that failed; 0 */
    bool open, in_place;
    char target[PATH_MAX];         /* `path` with its links followed; "" = fd is no regular file */
    char temporary[PATH_MAX + 32]; /* beside target; "" = there is none */
} output_file;

/* Opens path for writing. INLAY_IO_ERROR: it cannot be written; nothing has changed. On failure, too, output_drop() is
 * a no-op. Opening a FIFO waits for its reader. */
INLAY_NODISCARD inlay_status output_open(output_file *out, const char *path, inlay_diag *diag);
INLAY_NODISCARD inlay_status output_open_stream(output_file *out, const char *path, inlay_diag *diag);
/* Opens path and fills it with the file `from`, which is gone afterwards if that saves a copy of its bytes. What can be
 * executed stays so. */
INLAY_NODISCARD inlay_status output_take(output_file *out, const char *path, const char *from, inlay_diag *diag);

/* Writes all of it to a descriptor, of an output or of another file; false, with errno set: it failed. Beyond
 * RLIMIT_FSIZE, where a write would be a signal, nothing is written and errno is EFBIG. */
bool output_write(int fd, const void *data, uint64_t bytes);

/* Puts the outputs into their places; `second` may be NULL. No place changes before both are complete. On failure both
 * are dropped. */
INLAY_NODISCARD inlay_status output_commit(output_file *first, output_file *second, inlay_diag *diag);
/* Forgets what was written, as far as it is not out on a device. {0} and a committed one are a no-op. */
void output_drop(output_file *out);
/* INLAY_IO_ERROR with a sentence made of errno: "PATH: cannot be written: No space left on device". */
inlay_status output_failed(const output_file *out, inlay_diag *diag);

/* The place that path leads to, links followed, in target; false: no regular file, and none that could be made one. */
bool output_target(const char *path, char target[PATH_MAX]);

/* ------------------------------------------------------------------ the streams of a program */

/* For main(), first: opens what is closed of descriptors 0 to 2, so that no file gets one of them; makes a write beyond
 * RLIMIT_FSIZE an error instead of a signal; and has standard output closed at exit. If something that was printed
 * could not be written, the exit code becomes 1, with a line on stderr that begins with `name`. A reader that went away
 * (EPIPE) is no failure. */
void output_guard(const char *name);

/* From here on /dev/stdout, as an output, is what standard output was, and what is printed goes to stderr. false: it
 * was done before. */
bool output_claim_stdout(void);
/* Undoes it for a program that is about to be executed. Async-signal-safe. */
void output_return_stdout(void);
#endif
