/* base/mapped_file.h - files that are mapped while other programs may write to them.
 *
 * A mapping does not protect its bytes: a program that writes to the file changes them, and an access beyond the end of
 * a file that was cut short, or to a page that the disk cannot deliver, raises SIGBUS in the code that reads.
 * This file turns both into a status. The signal handler puts zeros in place of the rest of the mapping and marks it,
 * so the interrupted code continues, with data that must not be used. mapped_file_check() reports the mark, and a file
 * whose size or time has changed since it was mapped. Code that has read a mapping calls it afterwards.
 *
 * The handler for SIGBUS is installed with the first mapping, unless the program has one. With option crash_report the
 * handler of plugin/crash.h precedes that of the program. A SIGBUS of another cause takes its usual course. */
#ifndef BASE_MAPPED_FILE_H
#define BASE_MAPPED_FILE_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* Identity of a file at one time. Writing to the file changes a member. */
typedef struct file_id {
    uint64_t device, inode, bytes;
    int64_t modified[2], changed[2]; /* seconds, nanoseconds */
} file_id;

typedef struct mapped_file mapped_file;

file_id file_id_of(const struct stat *st);

/* Watches the mapping [address, address + bytes) of fd, which may be closed afterwards. NULL: out of memory.
 * Thread-safe, as all functions of this header. */
mapped_file *mapped_file_watch(const void *address, size_t bytes, int fd, const struct stat *st);
/* Ends the watch, before or after the mapping ends, when no thread reads it any more. NULL is a no-op. */
void mapped_file_forget(mapped_file *file);
/* The file as it was mapped. */
const file_id *mapped_file_id(const mapped_file *file);

/* INLAY_IO_ERROR: bytes read from the mapping may be wrong, since an access failed or the file has changed; diag
 * names the file. Fails from then on. Costs one stat(). */
INLAY_NODISCARD inlay_status mapped_file_check(mapped_file *file, inlay_diag *diag);

/* For handlers of SIGBUS, with si_code and si_addr: if the fault is in a watched mapping, makes the address readable
 * and returns true; the handler then returns. Async-signal-safe. */
bool mapped_file_repair(int code, const void *address);
#endif
