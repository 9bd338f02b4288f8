/* The parent's side: a process for each group, its lines, its end. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/spawn.h"
#include "check/check.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CRASHES = 20, LINE_BYTES = 8192, POLL_MS = 100, HIGH_FD = 10 };

extern char **environ;

static const char *const groups[] = {
#define GROUP(name, doc) #name,
#include "check/groups.def"
#undef GROUP
};
enum { GROUP_COUNT = sizeof groups / sizeof groups[0] };

/* A running child. */
struct child {
    pid_t pid;
    int report; /* the end of the pipe that is read */
    int output; /* what it and the plugin print */
    check_beacon *beacon;
    int beacon_fd;
    char line[LINE_BYTES]; /* the report's last, unfinished line */
    size_t line_bytes;
    bool done; /* it said that it got to the end */
};

struct watch {
    const check_args *args;
    const uint32_t *cancel;
    check_line_fn say;
    void *user;
    check_summary *summary;
};

static void say(const struct watch *watch, const check_line *line)
{
    watch->summary->counts[line->result]++;
    watch->say(watch->user, line);
}

/* ------------------------------------------------------------------ starting */

/* Descriptors from HIGH_FD on, so that moving them to the child's fixed numbers overwrites none of them. */
static int high_fd(int fd)
{
    int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);

    if (fd >= 0)
        (void)close(fd);
    return high;
}

static inlay_status start_actions(struct child *child, int report_end, const char *const argv[], inlay_diag *diag)
{
    const spawn_fd fds[] = { { child->beacon_fd, CHECK_BEACON_FD },
                             { report_end, CHECK_REPORT_FD },
                             { child->output, STDOUT_FILENO },
                             { child->output, STDERR_FILENO } };
    const int error = spawn_start(&(spawn_args){ argv, fds, 4, true, false }, &child->pid);

    return error == 0
               ? INLAY_OK
               : inlay_fail(diag, INLAY_IO_ERROR, "cannot start a process to check the plugin in: %s", strerror(error));
}

static inlay_status start(const struct watch *watch, const char *group, uint32_t from, struct child *child,
                          inlay_diag *diag)
{
    const check_args *args = watch->args;
    char seed[32], first[32], limit[32];
    const char *argv[32 + 2 * CHECK_OPTIONS];
    uint32_t n = 0;
    int ends[2] = { -1, -1 };
    inlay_status status;

    *child = (struct child){ .pid = -1, .report = -1, .output = -1, .beacon_fd = -1, .beacon = MAP_FAILED };
    child->beacon_fd = high_fd(memfd_create("inlay-check", MFD_CLOEXEC));
    child->output = high_fd(memfd_create("inlay-check-output", MFD_CLOEXEC));
    if (child->beacon_fd < 0 || child->output < 0 || ftruncate(child->beacon_fd, sizeof *child->beacon) != 0 ||
        pipe2(ends, O_CLOEXEC) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "no pipe to the checking process: %s", strerror(errno));
    child->report = high_fd(ends[0]);
    ends[1] = high_fd(ends[1]);
    child->beacon = mmap(NULL, sizeof *child->beacon, PROT_READ | PROT_WRITE, MAP_SHARED, child->beacon_fd, 0);
    if (child->report < 0 || ends[1] < 0 || child->beacon == MAP_FAILED) {
        if (ends[1] >= 0)
            (void)close(ends[1]);
        return inlay_fail(diag, INLAY_IO_ERROR, "no memory to share with the checking process: %s", strerror(errno));
    }
    child->beacon->unit = CHECK_NO_UNIT;
    (void)snprintf(seed, sizeof seed, "%llu", (unsigned long long)args->seed);
    (void)snprintf(first, sizeof first, "%u", from);
    (void)snprintf(limit, sizeof limit, "%g", args->time_limit);
#define ADD(flag, value) (argv[n++] = (flag), argv[n++] = (value))
    argv[n++] = "/proc/self/exe";
    argv[n++] = "plugin-check";
    argv[n++] = args->file;
    ADD("--group", group);
    ADD("--from", first);
    ADD("--seed", seed);
    ADD("--time-limit", limit);
    if (args->with != NULL)
        ADD("--with", args->with);
    if (args->provider != NULL)
        ADD("--provider", args->provider);
    if (args->op != NULL)
        ADD("--op", args->op);
    if (args->data != NULL)
        ADD("--data", args->data);
    for (uint32_t i = 0; i < args->option_count; i++)
        ADD("--option", args->options[i]);
    if (args->quick)
        argv[n++] = "--quick";
    if (args->no_timing)
        argv[n++] = "--no-timing";
#undef ADD
    argv[n] = NULL;
    status = start_actions(child, ends[1], argv, diag);
    (void)close(ends[1]);
    return status;
}

static void finish(struct child *child)
{
    if (child->pid > 0) {
        (void)kill(-child->pid, SIGKILL); /* its group: what the plugin started goes with it */
        (void)kill(child->pid, SIGKILL);
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    if (child->beacon != MAP_FAILED)
        (void)munmap(child->beacon, sizeof *child->beacon);
    for (int i = 0; i < 3; i++) {
        int fd = (int[]){ child->beacon_fd, child->report, child->output }[i];

        if (fd >= 0)
            (void)close(fd);
    }
}

/* ------------------------------------------------------------------ listening */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

/* A line of the report: a JSON object, or "done". */
static void take_line(const struct watch *watch, struct child *child, const char *text, size_t bytes)
{
    json_t *object;
    check_line line;

    if (bytes == 4 && memcmp(text, "done", 4) == 0) {
        child->done = true;
        return;
    }
    object = json_loadb(text, bytes, 0, NULL);
    line = (check_line){ .result = (uint32_t)json_integer_value(json_object_get(object, "result")),
                         .check = text_of(object, "check"),
                         .subject = text_of(object, "subject"),
                         .expected = text_of(object, "expected"),
                         .got = text_of(object, "got"),
                         .fix = text_of(object, "fix") };
    if (object != NULL && line.result < CHECK_RESULTS)
        say(watch, &line);
    json_decref(object);
}

/* Reads what there is. False: the other end is closed. */
static bool listen_once(const struct watch *watch, struct child *child)
{
    ssize_t n = read(child->report, child->line + child->line_bytes, sizeof child->line - child->line_bytes);
    char *begin = child->line, *end;

    if (n <= 0)
        return n < 0 && errno == EINTR;
    child->line_bytes += (size_t)n;
    while ((end = memchr(begin, '\n', child->line_bytes - (size_t)(begin - child->line))) != NULL) {
        take_line(watch, child, begin, (size_t)(end - begin));
        begin = end + 1;
    }
    child->line_bytes -= (size_t)(begin - child->line);
    memmove(child->line, begin, child->line_bytes);
    if (child->line_bytes == sizeof child->line)
        child->line_bytes = 0; /* no line of ours is that long */
    return true;
}

/* Listens until the child is gone or has been silent for too long: then *out_hung. A turn counts for a second at most:
 * who stops this process, or the machine, stops the child too. */
static inlay_status follow(const struct watch *watch, struct child *child, bool *out_hung, inlay_diag *diag)
{
    uint32_t ticks = 0;
    double silent = 0, before = clock_ms();

    *out_hung = false;
    for (;;) {
        struct pollfd pollfd = { .fd = child->report, .events = POLLIN };
        const uint32_t now_ticks = __atomic_load_n(&child->beacon->ticks, __ATOMIC_RELAXED);
        const double now = clock_ms(), turn = (now - before) * 1e-3;

        silent += turn < 1 ? turn : 1;
        before = now;
        if (watch->cancel != NULL && __atomic_load_n(watch->cancel, __ATOMIC_RELAXED) != 0)
            return inlay_fail(diag, INLAY_CANCELLED, "stopped");
        if (poll(&pollfd, 1, POLL_MS) > 0) {
            silent = 0;
            if (!listen_once(watch, child))
                return INLAY_OK;
        }
        if (now_ticks != ticks) {
            ticks = now_ticks;
            silent = 0;
        }
        if (silent > watch->args->time_limit) {
            *out_hung = true;
            return INLAY_OK;
        }
    }
}

/* ------------------------------------------------------------------ the end of a child */

/* The last line that the child printed, for sanitizers and failed assertions say there what happened. */
static void read_last_output(const struct child *child, char *text, size_t bytes)
{
    char tail[2048];
    const off_t most = sizeof tail - 1, size = lseek(child->output, 0, SEEK_END), from = size > most ? size - most : 0;
    ssize_t n = size > 0 ? pread(child->output, tail, (size_t)most, from) : 0;
    char *line;

    text[0] = '\0';
    while (n > 0 && (tail[n - 1] == '\n' || tail[n - 1] == '\r'))
        n--;
    if (n <= 0)
        return;
    tail[n] = '\0';
    line = strrchr(tail, '\n');
    (void)snprintf(text, bytes, "; it printed: %.300s", line != NULL ? line + 1 : tail);
}

static void report_crash(const struct watch *watch, const struct child *child, const char *group, int wait_status,
                         bool hung)
{
    const check_beacon *beacon = child->beacon;
    int sig = beacon->signal != 0 ? beacon->signal : WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
    char got[1024], words[400], expected[96];
    check_line line = {
        .result = CHECK_FAIL, .check = group, .subject = beacon->subject, .got = got, .expected = expected
    };

    read_last_output(child, words, sizeof words);
    if (beacon->closed != 0) {
        (void)snprintf(expected, sizeof expected, "that it closes only what it opened");
        (void)snprintf(got, sizeof got, "it closed descriptor %d, the checker's own, in %s", CHECK_REPORT_FD,
                       beacon->phase);
        line.fix = "close descriptors by the number that open returned, never a range of them";
    } else if (hung) {
        (void)snprintf(expected, sizeof expected, "an answer within %g seconds", watch->args->time_limit);
        (void)snprintf(got, sizeof got, "nothing happened in %s for that long%s", beacon->phase, words);
        line.fix = "find the endless loop or the lock that is never released: run the same under a debugger, or raise "
                   "--time-limit if it really takes that long";
    } else if (sig != 0) {
        (void)snprintf(expected, sizeof expected, "no crash");
        (void)snprintf(got, sizeof got, "signal %d (%s) in %s: %s%s", sig, strsignal(sig), beacon->phase, beacon->crash,
                       words);
        line.fix = "run the same with --op under a debugger, or build the plugin with -fsanitize=address";
    } else {
        (void)snprintf(expected, sizeof expected, "that the process goes on");
        (void)snprintf(got, sizeof got, "it ended with code %d in %s%s", WEXITSTATUS(wait_status), beacon->phase,
                       words);
        line.fix = "a plugin returns a status; it never calls exit";
    }
    say(watch, &line);
}

/* Waits for a child that closed its report to end; false: it does not, within the limit. */
static bool await_end(const struct watch *watch, struct child *child, int *out_wait_status)
{
    const struct timespec pause = { .tv_nsec = 2000000 };
    const double until = clock_ms() + 1e3 * watch->args->time_limit;

    while (clock_ms() < until) {
        pid_t got = waitpid(child->pid, out_wait_status, WNOHANG);

        if (got == child->pid) {
            (void)kill(-child->pid, SIGKILL); /* the group lives as long as one that was left behind */
            child->pid = -1;
            return true;
        }
        (void)nanosleep(&pause, NULL);
    }
    return false;
}

/* How a process ended. */
enum { ENDED, CRASHED, CRASHED_OUTSIDE, CANNOT_OPEN, CANNOT_ASSESS };

/* One process. *io_from: the unit to begin with, and after a crash the one behind it. */
static inlay_status run_once(const struct watch *watch, const char *group, uint32_t *io_from, uint32_t *out_end,
                             inlay_diag *diag)
{
    struct child child;
    bool hung = false;
    int wait_status = 0;
    inlay_status status = start(watch, group, *io_from, &child, diag);

    *out_end = ENDED;
    if (status == INLAY_OK)
        status = follow(watch, &child, &hung, diag);
    if (status == INLAY_OK && !hung)
        hung = !await_end(watch, &child, &wait_status);
    if (status == INLAY_OK && (hung || !child.done || wait_status != 0)) {
        report_crash(watch, &child, group, wait_status, hung);
        *out_end = child.done                            ? ENDED
                   : child.beacon->open != 0             ? CANNOT_OPEN
                   : child.beacon->unit == CHECK_NO_UNIT ? CRASHED_OUTSIDE
                                                         : CRASHED;
        *io_from = child.beacon->unit + 1;
        if (hung && strcmp(child.beacon->phase, "assess") == 0)
            *out_end = CANNOT_ASSESS;
    }
    if (status == INLAY_OK && child.beacon->broken != 0)
        *out_end = CANNOT_OPEN;
    finish(&child);
    return status;
}

/* All processes of a group. *out_end: how the last one ended. */
static inlay_status run_group(const struct watch *watch, const char *group, uint32_t *out_end, inlay_diag *diag)
{
    uint32_t from = 0, crashes = 0;
    inlay_status status;

    do {
        status = run_once(watch, group, &from, out_end, diag);
    } while (status == INLAY_OK && *out_end == CRASHED && ++crashes < MAX_CRASHES);
    if (crashes == MAX_CRASHES)
        say(watch, &(check_line){ .result = CHECK_SKIP,
                                  .check = group,
                                  .subject = "",
                                  .expected = "",
                                  .fix = "",
                                  .got = "the rest of these checks: it crashed too often" });
    return status;
}

inlay_status check_plugin(const check_args *args, const uint32_t *cancel, check_line_fn say_line, void *user,
                          check_summary *out_summary, inlay_diag *diag)
{
    const struct watch watch = { args, cancel, say_line, user, out_summary };
    inlay_status status = INLAY_OK;
    uint32_t end = ENDED;

    *out_summary = (check_summary){ { 0 } };
    for (uint32_t group = 0; group < GROUP_COUNT && status == INLAY_OK && end != CANNOT_OPEN && end != CANNOT_ASSESS;
         group++)
        if (args->group == NULL || strcmp(args->group, groups[group]) == 0)
            status = run_group(&watch, groups[group], &end, diag);
    if (status == INLAY_OK && (end == CANNOT_OPEN || end == CANNOT_ASSESS) && args->group == NULL)
        say(&watch,
            &(check_line){ .result = CHECK_SKIP,
                           .check = "all",
                           .subject = "",
                           .expected = "",
                           .fix = "",
                           .got = end == CANNOT_OPEN
                                      ? "the other checks: the plugin cannot be opened"
                                      : "the other checks: every one begins with assess, which does not come back" });
    return status;
}
