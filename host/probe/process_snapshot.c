#include "probe/process_snapshot.h"
#include "base/hash.h"
#include "inlay/check.h"
#include <dirent.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Arguments that no header names: to ask for the personality, and for the I/O priority of a thread. */
#define PERSONALITY_UNCHANGED 0xffffffffUL
enum { IO_PRIORITY_OF_PROCESS = 1 };

int process_snapshot_threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry;
    int count = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL)
        count += entry->d_name[0] != '.';
    if (dir != NULL)
        (void)closedir(dir);
    return dir != NULL ? count : -1;
}

int process_snapshot_more_threads(int before)
{
    static const struct timespec pause = { 0, 2000000 };
    enum { PATIENCE = 100 };
    int now = process_snapshot_threads();

    if (before < 0)
        return 0;
    for (int i = 0; i < PATIENCE && now > before; i++) {
        (void)nanosleep(&pause, NULL);
        now = process_snapshot_threads();
    }
    return now > before ? now - before : 0;
}

static off_t printed(void)
{
    struct stat st;

    (void)fflush(stdout);
    return fstat(STDOUT_FILENO, &st) == 0 ? st.st_size : 0;
}

extern char **environ;

static uint64_t hash_environment(void)
{
    uint64_t hash = 0; /* a sum: the order of the variables does not matter */

    for (char **entry = environ; entry != NULL && *entry != NULL; entry++)
        hash += hash_bytes(*entry, strlen(*entry), 1);
    return hash;
}

static void take_limits(process_snapshot *snapshot)
{
    snapshot->environment = hash_environment();
    for (int i = 0; i < PROCESS_SNAPSHOT_LIMITS; i++)
        if (getrlimit(i, &snapshot->limits[i]) != 0)
            memset(&snapshot->limits[i], 0, sizeof snapshot->limits[i]);
    CPU_ZERO(&snapshot->thread.cpus);
    (void)sched_getaffinity(0, sizeof snapshot->thread.cpus, &snapshot->thread.cpus);
    snapshot->thread.niceness = getpriority(PRIO_PROCESS, 0);
    snapshot->thread.scheduler = sched_getscheduler(0);
    for (int i = 0; i < PROCESS_SNAPSHOT_TIMERS; i++) {
        struct itimerval timer;

        snapshot->timers[i] = getitimer(i, &timer) == 0 && (timer.it_value.tv_sec != 0 || timer.it_value.tv_usec != 0);
    }
    snapshot->thread.locale = uselocale((locale_t)0);
}

/* The first call gives rand() a state of its own, which later calls can read. */
static uint64_t hash_random(void)
{
    static char state[128];
    static bool is_set;

    if (!is_set)
        (void)initstate(1, state, sizeof state);
    else if (setstate(state) != state)
        return 0; /* another state was in use, by initstate() or setstate() */
    is_set = true;
    return hash_bytes(state, sizeof state, 1);
}

/* seed48() returns the state and replaces it. */
static uint64_t hash_random_48(void)
{
    unsigned short none[3] = { 0 }, state[3];

    memcpy(state, seed48(none), sizeof state);
    (void)seed48(state);
    return hash_bytes(state, sizeof state, 1);
}

/* The number after `key` in a file of /proc; key "": its first number. */
static long number_in(const char *path, const char *key)
{
    FILE *file = fopen(path, "re");
    char line[128];
    long number = 0;

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            number = strtol(line + strlen(key), NULL, 10);
    if (file != NULL)
        (void)fclose(file);
    return number;
}

static const struct {
    int get;
    const char *name;
} attributes[PROCESS_SNAPSHOT_ATTRIBUTES] = { { PR_GET_DUMPABLE, "PR_SET_DUMPABLE" },
                                              { PR_GET_KEEPCAPS, "PR_SET_KEEPCAPS" },
                                              { PR_GET_TIMERSLACK, "PR_SET_TIMERSLACK" },
                                              { PR_GET_NO_NEW_PRIVS, "PR_SET_NO_NEW_PRIVS" },
                                              { PR_GET_THP_DISABLE, "PR_SET_THP_DISABLE" } };

static void take_attributes(process_snapshot *snapshot)
{
    stack_t stack;

    for (int i = 0; i < PROCESS_SNAPSHOT_ATTRIBUTES; i++)
        snapshot->attributes[i] = prctl(attributes[i].get, 0L, 0L, 0L, 0L);
    (void)prctl(PR_GET_NAME, snapshot->thread.name);
    snapshot->thread.signal_stack = sigaltstack(NULL, &stack) == 0 ? stack.ss_sp : NULL;
    snapshot->random = hash_random() + hash_random_48();
    snapshot->locked_kb = number_in("/proc/self/status", "VmLck:");
    snapshot->oom_score = number_in("/proc/self/oom_score_adj", "");
    (void)prctl(PR_GET_PDEATHSIG, &snapshot->death_signal);
    (void)prctl(PR_GET_CHILD_SUBREAPER, &snapshot->subreaper);
    snapshot->group = getpgrp();
    snapshot->session = getsid(0);
}

/* The lines of a file of /proc that begin with `key`. */
static unsigned lines_in(const char *path, const char *key)
{
    FILE *file = fopen(path, "re");
    char line[128];
    unsigned count = 0;

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        count += strncmp(line, key, strlen(key)) == 0;
    if (file != NULL)
        (void)fclose(file);
    return count;
}

static void take_thread(process_snapshot *snapshot)
{
    int unused;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &snapshot->thread.cancel_state);
    (void)pthread_setcancelstate(snapshot->thread.cancel_state, &unused);
    (void)pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &snapshot->thread.cancel_type);
    (void)pthread_setcanceltype(snapshot->thread.cancel_type, &unused);
    snapshot->personality = personality(PERSONALITY_UNCHANGED);
    snapshot->thread.io_priority = (int)syscall(SYS_ioprio_get, IO_PRIORITY_OF_PROCESS, 0);
    if (syscall(SYS_get_mempolicy, &snapshot->thread.memory_policy, NULL, 0L, NULL, 0L) != 0)
        snapshot->thread.memory_policy = 0;
    snapshot->timers_created = lines_in("/proc/self/timers", "ID:");
}

static void take_streams(process_snapshot *snapshot)
{
    snapshot->buffers[0] = __fbufsize(stdout);
    snapshot->buffers[1] = __fbufsize(stderr);
    for (int fd = 0; fd < 3; fd++) {
        struct stat st;

        if (fstat(fd, &st) != 0)
            continue;
        snapshot->streams[fd] = (process_snapshot_stream){ .device = st.st_dev,
                                                           .inode = st.st_ino,
                                                           .flags = fcntl(fd, F_GETFL),
                                                           .own_flags = fcntl(fd, F_GETFD),
                                                           .position = lseek(fd, 0, SEEK_CUR) };
    }
}

process_snapshot process_snapshot_take(void)
{
    process_snapshot snapshot = { .thread.floats = float_state_get() };
    const char *locale = setlocale(LC_ALL, NULL);

    for (int s = 1; s < PROCESS_SNAPSHOT_SIGNALS; s++) {
        struct sigaction action;

        if (sigaction(s, NULL, &action) != 0)
            continue;
        snapshot.handlers[s] = action.sa_handler;
        snapshot.handler_flags[s] = action.sa_flags;
    }
    (void)sigprocmask(SIG_BLOCK, NULL, &snapshot.thread.blocked);
    if (getcwd(snapshot.cwd, sizeof snapshot.cwd) == NULL)
        snapshot.cwd[0] = '\0';
    (void)snprintf(snapshot.locale, sizeof snapshot.locale, "%s", locale != NULL ? locale : "");
    snapshot.mask = umask(0);
    (void)umask(snapshot.mask);
    for (int fd = 0; fd < 5; fd++)
        snapshot.files |= fcntl(fd, F_GETFD) >= 0 ? 1u << fd : 0;
    snapshot.printed = printed();
    take_limits(&snapshot);
    take_attributes(&snapshot);
    take_streams(&snapshot);
    take_thread(&snapshot);
    return snapshot;
}

static void add(char *text, size_t bytes, unsigned *count, const char *difference)
{
    size_t used = strlen(text);

    (void)snprintf(text + used, bytes - used, "%s%s", *count > 0 ? ", " : "", difference);
    ++*count;
}

static void compare_signals(const process_snapshot *before, const process_snapshot *now, char *text, size_t bytes,
                            unsigned *count)
{
    char what[64];

    for (int s = 1; s < PROCESS_SNAPSHOT_SIGNALS; s++) {
        bool changed = now->handlers[s] != before->handlers[s] || now->handler_flags[s] != before->handler_flags[s];

        if (changed) {
            (void)snprintf(what, sizeof what, "the handler of signal %d was changed", s);
            add(text, bytes, count, what);
        }
        if (sigismember(&now->thread.blocked, s) != sigismember(&before->thread.blocked, s)) {
            (void)snprintf(what, sizeof what, "signal %d was blocked or unblocked", s);
            add(text, bytes, count, what);
        }
    }
}

static void compare_limits(const process_snapshot *before, const process_snapshot *now, char *text, size_t bytes,
                           unsigned *count)
{
    char what[64];

    if (now->environment != before->environment)
        add(text, bytes, count, "an environment variable was changed");
    for (int i = 0; i < PROCESS_SNAPSHOT_LIMITS; i++)
        if (now->limits[i].rlim_cur != before->limits[i].rlim_cur ||
            now->limits[i].rlim_max != before->limits[i].rlim_max) {
            (void)snprintf(what, sizeof what, "resource limit %d was changed (setrlimit)", i);
            add(text, bytes, count, what);
            (void)setrlimit(i, &before->limits[i]);
        }
    if (!CPU_EQUAL(&now->thread.cpus, &before->thread.cpus)) {
        add(text, bytes, count, "the CPU affinity of the calling thread was changed");
        (void)sched_setaffinity(0, sizeof before->thread.cpus, &before->thread.cpus);
    }
    if (now->thread.niceness != before->thread.niceness || now->thread.scheduler != before->thread.scheduler)
        add(text, bytes, count, "the nice value or scheduling class of the calling thread was changed");
    for (int i = 0; i < PROCESS_SNAPSHOT_TIMERS; i++)
        if (now->timers[i] != before->timers[i])
            add(text, bytes, count, "a timer was started or stopped (setitimer, alarm)");
    if (now->thread.locale != before->thread.locale) {
        add(text, bytes, count, "the locale of the calling thread was changed (uselocale)");
        (void)uselocale((locale_t)before->thread.locale);
    }
}

static void compare_attributes(const process_snapshot *before, const process_snapshot *now, char *text, size_t bytes,
                               unsigned *count)
{
    char what[80];

    for (int i = 0; i < PROCESS_SNAPSHOT_ATTRIBUTES; i++)
        if (now->attributes[i] != before->attributes[i]) {
            (void)snprintf(what, sizeof what, "an attribute of the process was changed (prctl, %s)",
                           attributes[i].name);
            add(text, bytes, count, what);
        }
    if (strcmp(now->thread.name, before->thread.name) != 0) {
        add(text, bytes, count, "the name of the calling thread was changed");
        (void)prctl(PR_SET_NAME, before->thread.name);
    }
    if (now->thread.signal_stack != before->thread.signal_stack)
        add(text, bytes, count, "the signal stack of the calling thread was changed (sigaltstack)");
    if (now->random != before->random)
        add(text, bytes, count, "the random numbers of the process were used or changed (rand, srand)");
    if (now->locked_kb > before->locked_kb)
        add(text, bytes, count, "memory was locked (mlock, mlockall)");
    if (now->death_signal != before->death_signal || now->subreaper != before->subreaper)
        add(text, bytes, count, "an attribute of the process was changed (prctl, PR_SET_PDEATHSIG or _SUBREAPER)");
    if (now->oom_score != before->oom_score)
        add(text, bytes, count, "the oom_score_adj of the process was changed");
    if (now->group != before->group || now->session != before->session)
        add(text, bytes, count, "the process group or session was changed");
}

static void compare_streams(const process_snapshot *before, const process_snapshot *now, char *text, size_t bytes,
                            unsigned *count)
{
    char what[64];

    for (int fd = 0; fd < 3; fd++) {
        const process_snapshot_stream *was = &before->streams[fd], *is = &now->streams[fd];

        if ((now->files & 1u << fd) != 0 && (is->device != was->device || is->inode != was->inode)) {
            (void)snprintf(what, sizeof what, "descriptor %d, which it did not open, was replaced", fd);
            add(text, bytes, count, what);
        } else if ((now->files & 1u << fd) != 0 && (is->flags != was->flags || is->own_flags != was->own_flags)) {
            (void)snprintf(what, sizeof what, "the flags of descriptor %d were changed (fcntl)", fd);
            add(text, bytes, count, what);
            (void)fcntl(fd, F_SETFL, was->flags);
            (void)fcntl(fd, F_SETFD, was->own_flags);
        } else if (is->position != was->position && now->printed == before->printed) {
            (void)snprintf(what, sizeof what, "the position of descriptor %d was changed (lseek)", fd);
            add(text, bytes, count, what);
            (void)lseek(fd, was->position, SEEK_SET);
        }
    }
    if (memcmp(now->buffers, before->buffers, sizeof now->buffers) != 0 && now->printed == before->printed)
        add(text, bytes, count, "the buffer of stdout or stderr was changed (setvbuf)");
}

static void compare_thread(const process_snapshot *before, const process_snapshot *now, char *text, size_t bytes,
                           unsigned *count)
{
    if (now->thread.cancel_state != before->thread.cancel_state ||
        now->thread.cancel_type != before->thread.cancel_type)
        add(text, bytes, count, "the cancel state of the calling thread was changed (pthread_setcancelstate)");
    if (now->personality != before->personality)
        add(text, bytes, count, "the personality of the process was changed (personality)");
    if (now->thread.io_priority != before->thread.io_priority)
        add(text, bytes, count, "the I/O priority of the calling thread was changed (ioprio_set)");
    if (now->thread.memory_policy != before->thread.memory_policy)
        add(text, bytes, count, "the memory policy of the calling thread was changed (set_mempolicy)");
    if (now->timers_created != before->timers_created)
        add(text, bytes, count, "a timer was created or deleted (timer_create)");
}

unsigned process_snapshot_compare(const process_snapshot *before, char *text, size_t bytes)
{
    process_snapshot now = process_snapshot_take();
    unsigned count = 0;
    char what[64];

    INLAY_CHECK(bytes > 0);
    text[0] = '\0';
    if (float_state_restore(before->thread.floats))
        add(text, bytes, &count, "rounding, flushing of tiny floats or traps were changed");
    if (strcmp(now.cwd, before->cwd) != 0) {
        add(text, bytes, &count, "the working directory was changed");
        (void)!chdir(before->cwd);
    }
    if (strcmp(now.locale, before->locale) != 0) {
        add(text, bytes, &count, "the locale was changed");
        (void)setlocale(LC_ALL, before->locale);
    }
    if (now.mask != before->mask) {
        add(text, bytes, &count, "the umask was changed");
        (void)umask(before->mask);
    }
    for (int fd = 0; fd < 5; fd++)
        if ((before->files & ~now.files & 1u << fd) != 0) {
            (void)snprintf(what, sizeof what, "descriptor %d, which it did not open, was closed", fd);
            add(text, bytes, &count, what);
        }
    compare_signals(before, &now, text, bytes, &count);
    compare_limits(before, &now, text, bytes, &count);
    compare_attributes(before, &now, text, bytes, &count);
    compare_streams(before, &now, text, bytes, &count);
    compare_thread(before, &now, text, bytes, &count);
    if (now.printed > before->printed)
        add(text, bytes, &count, "something was printed");
    return count;
}
