#include "probe/process_snapshot.h"
#include "inlay/check.h"
#include <dirent.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
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

static off_t printed(void)
{
    struct stat st;

    (void)fflush(stdout);
    return fstat(STDOUT_FILENO, &st) == 0 ? st.st_size : 0;
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
    if (now.printed > before->printed)
        add(text, bytes, &count, "something was printed");
    return count;
}
