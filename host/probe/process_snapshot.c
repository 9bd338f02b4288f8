#include "probe/process_snapshot.h"
#include "base/hash.h"
#include "inlay/check.h"
#include <dirent.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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
    CPU_ZERO(&snapshot->cpus);
    (void)sched_getaffinity(0, sizeof snapshot->cpus, &snapshot->cpus);
    snapshot->niceness = getpriority(PRIO_PROCESS, 0);
    snapshot->scheduler = sched_getscheduler(0);
    (void)getitimer(ITIMER_REAL, &snapshot->timer);
    snapshot->thread_locale = uselocale((locale_t)0);
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

static long locked_kb(void)
{
    FILE *status = fopen("/proc/self/status", "re");
    char line[128];
    long kb = 0;

    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "VmLck:", 6) == 0)
            kb = strtol(line + 6, NULL, 10);
    if (status != NULL)
        (void)fclose(status);
    return kb;
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
    (void)prctl(PR_GET_NAME, snapshot->thread_name);
    snapshot->signal_stack = sigaltstack(NULL, &stack) == 0 ? stack.ss_sp : NULL;
    snapshot->random = hash_random();
    snapshot->locked_kb = locked_kb();
}

process_snapshot process_snapshot_take(void)
{
    process_snapshot snapshot = { .floats = float_state_get() };
    const char *locale = setlocale(LC_ALL, NULL);

    for (int s = 1; s < PROCESS_SNAPSHOT_SIGNALS; s++) {
        struct sigaction action;

        snapshot.handlers[s] = sigaction(s, NULL, &action) == 0 ? action.sa_handler : SIG_DFL;
    }
    (void)sigprocmask(SIG_BLOCK, NULL, &snapshot.blocked);
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
        bool changed = now->handlers[s] != before->handlers[s];

        if (changed) {
            (void)snprintf(what, sizeof what, "the handler of signal %d was changed", s);
            add(text, bytes, count, what);
        }
        if (s < 32 && sigismember(&now->blocked, s) != sigismember(&before->blocked, s)) {
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
    if (!CPU_EQUAL(&now->cpus, &before->cpus)) {
        add(text, bytes, count, "the CPU affinity of the calling thread was changed");
        (void)sched_setaffinity(0, sizeof before->cpus, &before->cpus);
    }
    if (now->niceness != before->niceness || now->scheduler != before->scheduler)
        add(text, bytes, count, "the nice value or scheduling class of the calling thread was changed");
    if ((now->timer.it_value.tv_sec != 0 || now->timer.it_value.tv_usec != 0) !=
        (before->timer.it_value.tv_sec != 0 || before->timer.it_value.tv_usec != 0))
        add(text, bytes, count, "a timer was started or stopped (setitimer, alarm)");
    if (now->thread_locale != before->thread_locale) {
        add(text, bytes, count, "the locale of the calling thread was changed (uselocale)");
        (void)uselocale((locale_t)before->thread_locale);
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
    if (strcmp(now->thread_name, before->thread_name) != 0) {
        add(text, bytes, count, "the name of the calling thread was changed");
        (void)prctl(PR_SET_NAME, before->thread_name);
    }
    if (now->signal_stack != before->signal_stack)
        add(text, bytes, count, "the signal stack of the calling thread was changed (sigaltstack)");
    if (now->random != before->random)
        add(text, bytes, count, "the random numbers of the process were used or changed (rand, srand)");
    if (now->locked_kb > before->locked_kb)
        add(text, bytes, count, "memory was locked (mlock, mlockall)");
}

unsigned process_snapshot_compare(const process_snapshot *before, char *text, size_t bytes)
{
    process_snapshot now = process_snapshot_take();
    unsigned count = 0;
    char what[64];

    INLAY_CHECK(bytes > 0);
    text[0] = '\0';
    if (float_state_restore(before->floats))
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
    if (now.printed > before->printed)
        add(text, bytes, &count, "something was printed");
    return count;
}
