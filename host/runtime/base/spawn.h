/* base/spawn.h - other programs: started, awaited, and killed when they take too long. */
#ifndef BASE_SPAWN_H
#define BASE_SPAWN_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { SPAWN_NULL = -1, SPAWN_TIMED_OUT = 124, SPAWN_NOT_EXECUTABLE = 126, SPAWN_NOT_FOUND = 127 };

/* Descriptor `from` of this process, SPAWN_NULL for /dev/null, becomes `to` in the child. */
typedef struct spawn_fd {
    int from, to;
} spawn_fd;

typedef struct spawn_args {
    const char *const *argv; /* NULL at the end; the first is the program, looked for in PATH unless it has a slash */
    const spawn_fd *fds;     /* [fd_count] in this order; the others stay as they are */
    uint32_t fd_count;
    bool own_group; /* a process group of its own, so that it can be killed with all that it starts */
    /* With default actions for all signals, which are blocked, and no descriptor beyond the last of fds. */
    bool bare;
} spawn_args;

/* Starts the program; 0, or errno's number. */
int spawn_start(const spawn_args *args, pid_t *out_child);

/* Waits for a child of own_group; after `seconds` (0 = never), or once cancelled() (may be NULL) is true, its group is
 * killed. Returns its exit code, 128 + the signal that ended it, or SPAWN_TIMED_OUT. */
int spawn_wait(pid_t child, double seconds, bool (*cancelled)(void));
#endif
