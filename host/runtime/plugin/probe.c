#include "plugin/probe.h"
#include "base/spawn.h"
#include "inlay/check.h"
#include "base/clock.h"
#include "plugin/module.h"
#include "threads/fork.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* Whether the helper may be started; otherwise diag has the reason. */
static bool is_usable(const char *helper, struct stat *st, inlay_diag *diag)
{
    if (stat(helper, st) != 0 || !S_ISREG(st->st_mode))
        (void)inlay_fail(diag, INLAY_NOT_FOUND, "inlay-probe is not installed");
    else if ((st->st_mode & S_IXUSR) == 0)
        (void)inlay_fail(diag, INLAY_NOT_FOUND, "%.300s is not executable", helper);
    else if ((st->st_mode & S_IWOTH) != 0 || (st->st_uid != 0 && st->st_uid != geteuid()))
        (void)inlay_fail(diag, INLAY_NOT_FOUND, "another user could have written %.300s", helper);
    else
        return true;
    return false;
}

static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void guard_known(void)
{
    fork_guard(&known_lock);
}

inlay_status probe_find(char helper[PATH_MAX], char host[128], inlay_diag *diag)
{
    static const char *const candidates[] = { INLAY_LIBEXEC_FROM_LIB "/inlay-probe",
                                              INLAY_LIBEXEC_FROM_BIN "/inlay-probe" };
    static char known[PATH_MAX]; /* once it was found; "": not yet */
    char here[PATH_MAX], path[PATH_MAX + 256];
    struct stat st;
    bool found;

    (void)snprintf(host, 128, "%s abi %u.%u", INLAY_VERSION, INLAY_ABI_MAJOR, INLAY_ABI_MINOR);
    if (!dir_of_host(here))
        return inlay_fail(diag, INLAY_NOT_FOUND,
                          "inlay-probe cannot be found, because this process cannot determine the folder of its "
                          "executable%s",
                          access("/proc/self/exe", F_OK) != 0 ? ": /proc is not mounted" : "");
    (void)pthread_mutex_lock(&known_lock);
    (void)strcpy(helper, known);
    found = known[0] != '\0' && is_usable(helper, &st, diag);
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0] && !found; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", here, candidates[i]);
        if (realpath(path, helper) == NULL)
            (void)inlay_fail(diag, INLAY_NOT_FOUND, "inlay-probe is not installed");
        else
            found = is_usable(helper, &st, diag);
    }
    if (found)
        (void)strcpy(known, helper);
    (void)pthread_mutex_unlock(&known_lock);
    if (!found)
        return INLAY_NOT_FOUND;
    (void)snprintf(host, 128, "%s abi %u.%u helper %llx %lld %lld.%09ld", INLAY_VERSION, INLAY_ABI_MAJOR,
                   INLAY_ABI_MINOR, (unsigned long long)st.st_ino, (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                   st.st_mtim.tv_nsec);
    return INLAY_OK;
}

/* Spawns the helper in a new process group with default signals, /dev/null on 0, 1 and 2, the pipe on 3, and no
 * other open file. All signals are blocked until the helper unblocks them: a terminal sends Ctrl-C to our group
 * while the process is still in it, and that would look like a crash of the plugin. */
static int spawn(const char *helper, const char *path, char *const *settings, bool is_isolated, int pipe_fd,
                 pid_t *out_pid)
{
    enum { MOST_SETTINGS = 64 };
    char *arguments[MOST_SETTINGS + 4] = { (char *)(uintptr_t)helper };
    const char *environment[SPAWN_VARIABLES];
    uint32_t count = 1;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all;
    int error;

    if (is_isolated)
        arguments[count++] = (char *)(uintptr_t)PROBE_ISOLATED;
    arguments[count++] = (char *)(uintptr_t)path;
    for (uint32_t i = 0; settings != NULL && settings[i] != NULL && i < MOST_SETTINGS; i++)
        arguments[count++] = settings[i];
    spawn_pick_environment(environment);
    (void)sigfillset(&all);
    error = posix_spawn_file_actions_init(&actions);
    if (error != 0)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (error != 0) {
        (void)posix_spawn_file_actions_destroy(&actions);
        return error;
    }
    error = posix_spawn_file_actions_adddup2(&actions, pipe_fd, PROBE_FD);
    for (int fd = 0; fd < 3 && error == 0; fd++)
        error = posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", fd == 0 ? O_RDONLY : O_WRONLY, 0);
    if (error == 0)
        error = posix_spawn_file_actions_addclosefrom_np(&actions, PROBE_FD + 1);
    if (error == 0)
        error = posix_spawnattr_setflags(&attributes,
                                         POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    if (error == 0)
        error = posix_spawnattr_setsigmask(&attributes, &all);
    if (error == 0)
        error = posix_spawnattr_setsigdefault(&attributes, &all);
    if (error == 0)
        error = posix_spawnattr_setpgroup(&attributes, 0);
    if (error == 0)
        error = posix_spawn(out_pid, helper, &actions, &attributes, arguments,
                            is_isolated ? (char *const *)(uintptr_t)environment : environ);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

static int64_t now_ms(void)
{
    return (int64_t)(clock_ns() / 1000000);
}

struct report {
    char line[VERDICT_TEXT]; /* the line being received */
    size_t line_bytes;
    char stage[VERDICT_TEXT];
    char said[VERDICT_TEXT];
    char refused[VERDICT_TEXT];
    char note[VERDICT_TEXT];
    bool is_refused, is_short, is_ok, is_done;
};

static void parse_line(struct report *report)
{
    report->line[report->line_bytes] = '\0';
    for (char *c = report->line; *c != '\0'; c++) /* a plugin may write to the pipe, too */
        if (*c < ' ' || *c == 0x7f)
            *c = '?';
    if (strncmp(report->line, "at ", 3) == 0)
        (void)snprintf(report->stage, sizeof report->stage, "%s", report->line + 3);
    else if (strncmp(report->line, "said ", 5) == 0)
        (void)snprintf(report->said, sizeof report->said, "%s", report->line + 5);
    else if (strncmp(report->line, "refused ", 8) == 0 && !report->is_refused)
        (void)snprintf(report->refused, sizeof report->refused, "%s", report->line + 8), report->is_refused = true;
    else if (strncmp(report->line, "lacks ", 6) == 0 && !report->is_refused)
        (void)snprintf(report->refused, sizeof report->refused, "%s", report->line + 6), report->is_short = true;
    else if (strncmp(report->line, "note ", 5) == 0 && !report->is_ok)
        (void)snprintf(report->note, sizeof report->note, "%s", report->line + 5);
    else if (strcmp(report->line, "ok") == 0)
        report->is_ok = true;
    else if (strcmp(report->line, "done") == 0)
        report->is_done = true;
    report->line_bytes = 0;
}

/* Reads and parses the available bytes; returns the result of read(). */
static ssize_t read_report(struct report *report, int fd)
{
    char bytes[1024];
    ssize_t byte_count = read(fd, bytes, sizeof bytes);

    for (ssize_t i = 0; i < byte_count; i++) {
        if (bytes[i] == '\n')
            parse_line(report);
        else if (report->line_bytes + 1 < sizeof report->line)
            report->line[report->line_bytes++] = bytes[i];
    }
    return byte_count;
}

/* The time that the process was ready to run but had no CPU, in milliseconds; 0 if the kernel does not count it. */
static int64_t starved_ms(pid_t pid)
{
    char path[64], text[128] = "";
    unsigned long long ran, waited = 0;
    int fd;

    (void)snprintf(path, sizeof path, "/proc/%d/schedstat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (read(fd, text, sizeof text - 1) <= 0 || sscanf(text, "%llu %llu", &ran, &waited) != 2)
        waited = 0;
    (void)close(fd);
    return (int64_t)(waited / 1000000);
}

/* Reads the report until the process has ended or the deadline has passed; returns whether it has ended. The
 * process is not reaped yet. On a busy machine the deadline is later, at most MOST_LIMITS limits after the start. */
static bool wait_for_helper(const struct probe *probe, struct report *report)
{
    enum { MOST_LIMITS = 20 };
    const pid_t pid = probe->pid;
    const int fd = probe->fd;
    const int64_t longest = (int64_t)probe->limit_ms * (MOST_LIMITS - 1);
    int64_t deadline = probe->deadline;
    bool open = true;

    for (;;) {
        int64_t left = deadline - now_ms(), starved;
        struct pollfd pollfd = { .fd = open ? fd : -1, .events = POLLIN };
        siginfo_t info = { 0 };
        ssize_t byte_count;

        /* The end of the pipe usually shows that the process ended. A child of the helper may hold it open, hence
         * the short timeouts. */
        if (poll(&pollfd, 1, !open ? 1 : left > 20 ? 20 : left > 0 ? (int)left : 0) > 0) {
            byte_count = read_report(report, fd);
            open = byte_count > 0 || (byte_count < 0 && (errno == EINTR || errno == EAGAIN));
            if (byte_count > 0 && left > 0)
                continue; /* read all lines: the last ones decide the verdict */
        }
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid) {
            while (open && read_report(report, fd) > 0)
                ;
            return true;
        }
        if (left > 0)
            continue;
        starved = starved_ms(pid);
        if (probe->deadline + starved <= deadline || deadline >= probe->deadline + longest)
            return false;
        deadline = probe->deadline + starved;
    }
}

static const char *signal_text(int number)
{
    const char *name = sigabbrev_np(number);

    return name != NULL ? name : "?";
}

static void make_verdict(const struct report *report, bool has_ended, int status, uint32_t limit_ms,
                         struct verdict *out)
{
    const char *stage = report->stage[0] != '\0' ? report->stage : "the start of the helper";
    const bool has_exited = has_ended && status != -1 && WIFEXITED(status);

    out->text[0] = '\0';
    if (!has_ended) {
        out->kind = VERDICT_HUNG;
        (void)snprintf(out->text, sizeof out->text, "%.250s had not returned after %u ms", stage, limit_ms);
    } else if (status != -1 && WIFSIGNALED(status)) {
        out->kind = VERDICT_CRASHED;
        (void)snprintf(out->text, sizeof out->text, "it crashed (SIG%s) in %.150s%s%.200s",
                       signal_text(WTERMSIG(status)), stage, report->said[0] != '\0' ? ", after the error: " : "",
                       report->said);
    } else if (report->is_short) {
        out->kind = VERDICT_NONE;
        (void)snprintf(out->text, sizeof out->text, "%s", report->refused);
    } else if (has_exited && !report->is_done && report->stage[0] == '\0') {
        out->kind = VERDICT_NONE;
        (void)snprintf(out->text, sizeof out->text, "inlay-probe ended with exit code %d at its start",
                       WEXITSTATUS(status));
    } else if (!report->is_done) {
        out->kind = VERDICT_CRASHED;
        (void)snprintf(out->text, sizeof out->text, "it ended the process (exit code %d) in %.300s",
                       status != -1 ? WEXITSTATUS(status) : -1, stage);
    } else if (report->is_refused) {
        out->kind = VERDICT_REFUSED;
        (void)snprintf(out->text, sizeof out->text, "%s", report->refused);
    } else if (status != -1 && WEXITSTATUS(status) != 0) {
        out->kind = VERDICT_CRASHED;
        (void)snprintf(out->text, sizeof out->text, "its process ended with exit code %d", WEXITSTATUS(status));
    } else {
        out->kind = report->is_ok ? VERDICT_OK : VERDICT_CRASHED;
        (void)snprintf(out->text, sizeof out->text, "%s", report->is_ok ? report->note : "");
    }
}

inlay_status probe_start(const char *helper, const char *path, char *const *settings, uint32_t limit_ms,
                         bool is_isolated, struct probe *out, inlay_diag *diag)
{
    int ends[2], error;
    pid_t pid = 0;

    *out = (struct probe){ .limit_ms = limit_ms, .deadline = now_ms() + limit_ms };
    if (pipe2(ends, O_CLOEXEC) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "cannot create a pipe to the helper: %s", strerror(errno));
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    error = spawn(helper, path, settings, is_isolated, ends[1], &pid);
    (void)close(ends[1]);
    if (error != 0) {
        (void)close(ends[0]);
        (void)inlay_fail(diag, INLAY_IO_ERROR, "%.300s cannot be started: %s", helper, strerror(error));
        if (error == EAGAIN || error == ENOMEM) /* too many processes, or no memory for one */
            diag->error_class = INLAY_CLASS_RETRY;
        return INLAY_IO_ERROR;
    }
    out->pid = pid;
    out->fd = ends[0];
    return INLAY_OK;
}

/* Kills the process group and returns the status from waitpid(); -1: the application reaps all children of its
 * process and was faster. */
static int reap(struct probe *probe)
{
    int status = 0;
    pid_t reaped;

    INLAY_CHECK(probe->pid > 0);      /* -0 would be this process group */
    (void)kill(-probe->pid, SIGKILL); /* the probe with its child processes */
    while ((reaped = waitpid(probe->pid, &status, 0)) < 0 && errno == EINTR)
        ;
    (void)close(probe->fd);
    probe->pid = 0;
    return reaped < 0 ? -1 : status;
}

void probe_finish(struct probe *probe, struct verdict *out)
{
    struct report report = { .line_bytes = 0 };
    bool has_ended = wait_for_helper(probe, &report);

    INLAY_CHECK(probe->pid > 0 && probe->fd >= 0);
    make_verdict(&report, has_ended, reap(probe), probe->limit_ms, out);
}

void probe_abandon(struct probe *probe)
{
    if (probe->pid != 0)
        (void)reap(probe);
}
