#include "base/spawn.h"
#include "inlay/check.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int add_fds(const spawn_args *args, posix_spawn_file_actions_t *actions)
{
    int error = 0;

    INLAY_CHECK(!args->bare || args->fd_count > 0);
    for (uint32_t i = 0; i < args->fd_count && error == 0; i++)
        error = args->fds[i].from == SPAWN_NULL
                    ? posix_spawn_file_actions_addopen(actions, args->fds[i].to, "/dev/null", O_RDWR, 0)
                    : posix_spawn_file_actions_adddup2(actions, args->fds[i].from, args->fds[i].to);
    if (error == 0 && args->bare)
        error = posix_spawn_file_actions_addclosefrom_np(actions, args->fds[args->fd_count - 1].to + 1);
    return error;
}

static int set_attributes(const spawn_args *args, posix_spawnattr_t *attributes)
{
    const int flags = (args->own_group ? POSIX_SPAWN_SETPGROUP : 0) |
                      (args->bare ? POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF : 0);
    sigset_t all;
    int error = posix_spawnattr_setflags(attributes, (short)flags);

    (void)sigfillset(&all);
    if (error == 0)
        error = posix_spawnattr_setsigmask(attributes, &all);
    return error == 0 ? posix_spawnattr_setsigdefault(attributes, &all) : error;
}

int spawn_start(const spawn_args *args, pid_t *out_child)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);

    if (error != 0)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        error = set_attributes(args, &attributes);
        if (error == 0)
            error = add_fds(args, &actions);
        if (error == 0)
            error = posix_spawnp(out_child, args->argv[0], &actions, &attributes, (char *const *)(uintptr_t)args->argv,
                                 args->environment != NULL ? (char *const *)(uintptr_t)args->environment : environ);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

int spawn_wait(pid_t child, double seconds, bool (*cancelled)(void))
{
    const double begin_ms = clock_ms();
    const bool watched = seconds > 0 || cancelled != NULL;
    struct timespec nap = { .tv_nsec = 500000 };
    bool late = false, killed = false;
    int state = 0;

    INLAY_CHECK(child > 0);
    for (;;) {
        const pid_t got = waitpid(child, &state, watched && !killed ? WNOHANG : 0);

        if (got < 0 && errno != EINTR) /* the application ignores SIGCHLD: the exit code is unknown */
            return SPAWN_LOST;
        if (got == child)
            return late ? SPAWN_TIMED_OUT : WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
        if (!watched || killed)
            continue;
        late = seconds > 0 && clock_ms() - begin_ms > seconds * 1e3;
        killed = late || (cancelled != NULL && cancelled());
        if (killed) {
            (void)kill(-child, SIGKILL);
            continue;
        }
        (void)nanosleep(&nap, NULL);
        if (nap.tv_nsec < 10000000)
            nap.tv_nsec *= 2;
    }
}

/* The variables that a process needs to find libraries, devices and their settings. Others, such as the application's
 * keys and tokens, are not passed on. */
static bool is_passed_on(const char *variable)
{
    static const char *const names[] = { "HOME=", "LANG=", "LD_LIBRARY_PATH=", "PATH=", "TMPDIR=", "USER=" };
    static const char *const prefixes[] = { "ASAN_", "CUDA_VISIBLE_", "DNNL_",   "GOMP_", "INLAY_",  "LC_",
                                            "LP_",   "MESA_",         "MALLOC_", "OMP_",  "ONEDNN_", "OPENBLAS_",
                                            "TSAN_", "UBSAN_",        "VK_",     "XDG_" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

void spawn_pick_environment(const char *out[SPAWN_VARIABLES])
{
    size_t count = 0;

    for (char **variable = environ; variable != NULL && *variable != NULL && count + 1 < SPAWN_VARIABLES; variable++)
        if (is_passed_on(*variable))
            out[count++] = *variable;
    out[count] = NULL;
}
