/* base/spawn.h - starts other programs, waits for them, and kills them when they take too long. */
#ifndef BASE_SPAWN_H
#define BASE_SPAWN_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { SPAWN_NULL = -1, SPAWN_TIMED_OUT = 124, SPAWN_LOST = 125, SPAWN_NOT_EXECUTABLE = 126, SPAWN_NOT_FOUND = 127 };

/* Descriptor `from` of this process, SPAWN_NULL for /dev/null, becomes `to` in the child. */
typedef struct spawn_fd {
    int from, to;
} spawn_fd;

typedef struct spawn_args {
    const char *const *argv; /* NULL-terminated; [0] is the program, searched in PATH unless it has a slash */
    const spawn_fd *fds;     /* [fd_count] applied in this order; other descriptors stay unchanged */
    uint32_t fd_count;
    bool own_group; /* starts a new process group, so that it can be killed with all of its children */
    /* Start with default actions for all signals, all signals blocked, and no descriptor above the last one of fds. */
    bool bare;
    const char *const *environment; /* NULL-terminated; NULL: that of this process */
} spawn_args;

/* Starts the program. Returns 0 or an errno. */
int spawn_start(const spawn_args *args, pid_t *out_child);

/* Waits for a child that was started with own_group. Kills its group after `seconds` (0 = never), or once cancelled()
 * (may be NULL) returns true. Returns its exit code, 128 + the signal that ended it, or SPAWN_TIMED_OUT. SPAWN_LOST:
 * the exit code is unknown, because the application ignores SIGCHLD or has waited for the child. */
int spawn_wait(pid_t child, double seconds, bool (*cancelled)(void));

/* Writes the variables of this process's environment that processes with the code of a plug-in get, ended by NULL:
 * those that libraries and drivers need, no keys and tokens. They are borrowed. */
enum { SPAWN_VARIABLES = 128 };
void spawn_pick_environment(const char *out[SPAWN_VARIABLES]);
#endif
