/* The parent process: starts a process for each group, reads its report and observes how it ends. */
#include "base/clock.h"
#include "base/among.h"
#include "base/json_text.h"
#include "base/memory.h"
#include "base/spawn.h"
#include "check/certify.h"
#include "check/check.h"
#include "check/process.h"
#include "inlay/check.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CRASHES = 20, LINE_BYTES = 8192, POLL_MS = 100, HIGH_FD = 10 };

extern char **environ;

static const char *const groups[] = {
#define GROUP(name, doc, left_out) #name,
#include "check/groups.def"
#undef GROUP
};
static const char *const left_out[] = {
#define GROUP(name, doc, left_out) left_out,
#include "check/groups.def"
#undef GROUP
};
enum { GROUP_COUNT = sizeof groups / sizeof groups[0] };

/* A running child. */
struct child {
    pid_t pid;
    int report; /* read end of the pipe */
    int output; /* stdout and stderr of the child and the plugin */
    check_progress *progress;
    int progress_fd;
    char line[LINE_BYTES]; /* the last, incomplete line of the report */
    size_t line_bytes;
    bool done; /* the child reported that it reached the end */
};

struct supervisor {
    const check_args *args;
    const uint32_t *cancel;
    check_line_fn report_line;
    void *user;
    check_summary *summary;
    certify_records *records; /* NULL: no certificate */
};

static void report_line(const struct supervisor *supervisor, const check_line *line)
{
    INLAY_CHECK(line->result < CHECK_RESULTS);
    supervisor->summary->counts[line->result]++;
    supervisor->report_line(supervisor->user, line);
}

/* Moves a descriptor to HIGH_FD or above, so that assigning the fixed numbers in the child overwrites none of them. */
static int high_fd(int fd)
{
    int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);

    if (fd >= 0)
        (void)close(fd);
    return high;
}

static inlay_status spawn_child(struct child *child, int report_end, const char *const argv[], inlay_diag *diag)
{
    const spawn_fd fds[] = { { child->progress_fd, CHECK_PROGRESS_FD },
                             { report_end, CHECK_REPORT_FD },
                             { child->output, STDOUT_FILENO },
                             { child->output, STDERR_FILENO } };
    const int error = spawn_start(&(spawn_args){ argv, fds, 4, true, false, NULL }, &child->pid);

    return error == 0
               ? INLAY_OK
               : inlay_fail(diag, INLAY_IO_ERROR, "cannot start a process to check the plugin in: %s", strerror(error));
}

/* What a process checks. */
struct part {
    const char *group;
    uint32_t from; /* the first unit */
    bool again;    /* see check_args */
};

static inlay_status start(const struct supervisor *supervisor, const struct part *part, struct child *child,
                          inlay_diag *diag)
{
    const check_args *args = supervisor->args;
    char seed[32], first[32], limit[32], budget[32], compiles[32];
    const char *argv[32 + 2 * CHECK_OPTIONS + 2 * CHECK_MODELS];
    uint32_t argument_count = 0;
    int ends[2] = { -1, -1 };
    inlay_status status;

    INLAY_CHECK(args->option_count <= CHECK_OPTIONS);
    *child = (struct child){ .pid = -1, .report = -1, .output = -1, .progress_fd = -1, .progress = MAP_FAILED };
    child->progress_fd = high_fd(memfd_create("inlay-check", MFD_CLOEXEC));
    child->output = high_fd(memfd_create("inlay-check-output", MFD_CLOEXEC));
    if (child->progress_fd < 0 || child->output < 0 || ftruncate(child->progress_fd, sizeof *child->progress) != 0 ||
        pipe2(ends, O_CLOEXEC) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "no pipe to the checking process: %s", strerror(errno));
    child->report = high_fd(ends[0]);
    ends[1] = high_fd(ends[1]);
    child->progress = mmap(NULL, sizeof *child->progress, PROT_READ | PROT_WRITE, MAP_SHARED, child->progress_fd, 0);
    if (child->report < 0 || ends[1] < 0 || child->progress == MAP_FAILED) {
        if (ends[1] >= 0)
            (void)close(ends[1]);
        return inlay_fail(diag, INLAY_IO_ERROR, "no memory to share with the checking process: %s", strerror(errno));
    }
    child->progress->unit = CHECK_NO_UNIT;
    (void)snprintf(seed, sizeof seed, "%llu", (unsigned long long)args->seed);
    (void)snprintf(first, sizeof first, "%u", part->from);
    (void)snprintf(limit, sizeof limit, "%g", args->time_limit);
    (void)snprintf(budget, sizeof budget, "%g", args->compile_budget);
    (void)snprintf(compiles, sizeof compiles, "%u", args->max_compiles);
#define ADD(flag, value) (argv[argument_count++] = (flag), argv[argument_count++] = (value))
    argv[argument_count++] = "/proc/self/exe";
    argv[argument_count++] = "plugin-check";
    argv[argument_count++] = args->file;
    ADD("--group", part->group);
    ADD("--from", first);
    ADD("--seed", seed);
    ADD("--time-limit", limit);
    ADD("--compile-budget", budget);
    if (args->max_compiles > 0)
        ADD("--max-compiles", compiles);
    if (args->child.work != NULL)
        ADD("--work", args->child.work);
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
    for (uint32_t i = 0; i < args->model_count; i++)
        ADD("--model", args->models[i]);
    if (part->again)
        argv[argument_count++] = "--again";
    if (args->quick)
        argv[argument_count++] = "--quick";
    if (args->strict)
        argv[argument_count++] = "--strict";
    if (args->no_timing)
        argv[argument_count++] = "--no-timing";
    if (args->foreign)
        argv[argument_count++] = "--foreign";
    if (args->isolate)
        argv[argument_count++] = "--isolate";
    if (args->certificate != NULL)
        argv[argument_count++] = "--certify";
#undef ADD
    INLAY_CHECK(argument_count < sizeof argv / sizeof argv[0]);
    argv[argument_count] = NULL;
    status = spawn_child(child, ends[1], argv, diag);
    (void)close(ends[1]);
    return status;
}

static void finish(struct child *child)
{
    if (child->pid > 0) {
        (void)kill(-child->pid, SIGKILL); /* the child's process group, including processes that the plugin started */
        (void)kill(child->pid, SIGKILL);
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    if (child->progress != MAP_FAILED)
        (void)munmap(child->progress, sizeof *child->progress);
    for (int i = 0; i < 3; i++) {
        int fd = (int[]){ child->progress_fd, child->report, child->output }[i];

        if (fd >= 0)
            (void)close(fd);
    }
}

/* A line of the report: a JSON object, or "done". */
static void take_line(const struct supervisor *supervisor, struct child *child, const char *text, size_t bytes)
{
    json_t *object;
    check_line line;

    if (bytes == 4 && memcmp(text, "done", 4) == 0) {
        child->done = true;
        return;
    }
    object = json_loadb(text, bytes, 0, NULL);
    line = (check_line){ .result = (uint32_t)json_integer_value(json_object_get(object, "result")),
                         .check = json_text_of(object, "check"),
                         .subject = json_text_of(object, "subject"),
                         .expected = json_text_of(object, "expected"),
                         .got = json_text_of(object, "got"),
                         .fix = json_text_of(object, "fix") };
    if (object != NULL && (supervisor->records == NULL || !certify_take(supervisor->records, object)) &&
        line.result < CHECK_RESULTS) {
        if (supervisor->records != NULL && line.result == CHECK_FAIL)
            certify_note_failure(supervisor->records, line.check, false);
        report_line(supervisor, &line);
    }
    json_decref(object);
}

/* Reads the available bytes and reports complete lines. False: the child closed the pipe. */
static bool read_report(const struct supervisor *supervisor, struct child *child)
{
    ssize_t received = read(child->report, child->line + child->line_bytes, sizeof child->line - child->line_bytes);
    char *begin = child->line, *end;

    INLAY_CHECK(child->line_bytes < sizeof child->line);
    if (received <= 0)
        return received < 0 && errno == EINTR;
    child->line_bytes += (size_t)received;
    while ((end = memchr(begin, '\n', child->line_bytes - (size_t)(begin - child->line))) != NULL) {
        take_line(supervisor, child, begin, (size_t)(end - begin));
        begin = end + 1;
    }
    child->line_bytes -= (size_t)(begin - child->line);
    memmove(child->line, begin, child->line_bytes);
    if (child->line_bytes == sizeof child->line)
        child->line_bytes = 0; /* the checker writes no line of that length */
    return true;
}

/* Reads the report until the child closes it, or until the child has shown no progress for the time limit (*out_hung).
 * An iteration counts as one second at most, because the child makes no progress while the machine is suspended. */
static inlay_status wait_until_closed(const struct supervisor *supervisor, struct child *child, bool *out_hung,
                                      inlay_diag *diag)
{
    uint32_t ticks = 0;
    double quiet = 0, before = clock_ms();

    *out_hung = false;
    for (;;) {
        struct pollfd pollfd = { .fd = child->report, .events = POLLIN };
        const uint32_t now_ticks = __atomic_load_n(&child->progress->ticks, __ATOMIC_RELAXED);
        const double now = clock_ms(), turn = (now - before) * 1e-3;

        quiet += turn < 1 ? turn : 1;
        before = now;
        if (supervisor->cancel != NULL && __atomic_load_n(supervisor->cancel, __ATOMIC_RELAXED) != 0)
            return inlay_fail(diag, INLAY_CANCELLED, "stopped");
        if (poll(&pollfd, 1, POLL_MS) > 0) {
            quiet = 0;
            if (!read_report(supervisor, child))
                return INLAY_OK;
        }
        if (now_ticks != ticks) {
            ticks = now_ticks;
            quiet = 0;
        }
        if (quiet > supervisor->args->time_limit) {
            *out_hung = true;
            return INLAY_OK;
        }
    }
}

/* Reads the last line that the child printed: sanitizers and failed assertions describe the defect there. */
static void read_last_output(const struct child *child, char *text, size_t bytes)
{
    char tail[2048];
    const off_t most = sizeof tail - 1, size = lseek(child->output, 0, SEEK_END), from = size > most ? size - most : 0;
    ssize_t read_bytes = size > 0 ? pread(child->output, tail, (size_t)most, from) : 0;
    char *line;

    text[0] = '\0';
    while (read_bytes > 0 && (tail[read_bytes - 1] == '\n' || tail[read_bytes - 1] == '\r'))
        read_bytes--;
    if (read_bytes <= 0)
        return;
    tail[read_bytes] = '\0';
    line = strrchr(tail, '\n');
    (void)snprintf(text, bytes, "; it printed: %.300s", line != NULL ? line + 1 : tail);
}

static void report_crash(const struct supervisor *supervisor, const struct child *child, const char *group,
                         int wait_status, bool hung)
{
    const check_progress *progress = child->progress;
    int sig = progress->signal != 0 ? progress->signal : WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
    char got[1024], words[400], expected[96];
    check_line line = {
        .result = CHECK_FAIL, .check = group, .subject = progress->subject, .got = got, .expected = expected
    };

    read_last_output(child, words, sizeof words);
    if (progress->closed != 0) {
        (void)snprintf(expected, sizeof expected, "it closes only descriptors that it opened");
        (void)snprintf(got, sizeof got, "it closed descriptor %d, the checker's own, in %s", CHECK_REPORT_FD,
                       progress->phase);
        line.fix = "close descriptors by the number that open returned, never a range of them";
    } else if (hung) {
        (void)snprintf(expected, sizeof expected, "an answer within %g seconds", supervisor->args->time_limit);
        (void)snprintf(got, sizeof got, "no progress in %s for that long%s", progress->phase, words);
        line.fix = "find the endless loop or the lock that is never released with a debugger, or raise "
                   "--time-limit if it really takes that long";
    } else if (sig != 0) {
        (void)snprintf(expected, sizeof expected, "no crash");
        (void)snprintf(got, sizeof got, "signal %d (%s) in %s: %s%s", sig, strsignal(sig), progress->phase,
                       progress->crash, words);
        line.fix = "repeat the check with --op in a debugger, or build the plugin with -fsanitize=address";
        if (sig == SIGABRT && strstr(progress->subject, "when memory runs out") != NULL &&
            (supervisor->args->may_abort || process_is_rust(supervisor->args->file))) {
            line.result = CHECK_WARN;
            line.fix = "the allocator of the language aborts; use fallible allocation for large buffers (try_reserve)";
        }
    } else {
        (void)snprintf(expected, sizeof expected, "the process continues");
        (void)snprintf(got, sizeof got, "it ended with code %d in %s%s", WEXITSTATUS(wait_status), progress->phase,
                       words);
        line.fix = "a plugin returns a status; it never calls exit";
    }
    if (supervisor->records != NULL && line.result == CHECK_FAIL)
        certify_note_failure(supervisor->records, group, true);
    report_line(supervisor, &line);
}

/* Waits until a child that closed its report ends. False: it does not end within the time limit. */
static bool await_end(const struct supervisor *supervisor, struct child *child, int *out_wait_status)
{
    const struct timespec pause = { .tv_nsec = 2000000 };
    const double until = clock_ms() + 1e3 * supervisor->args->time_limit;

    while (clock_ms() < until) {
        pid_t got = waitpid(child->pid, out_wait_status, WNOHANG);

        if (got == child->pid) {
            (void)kill(-child->pid, SIGKILL); /* ends processes of the group that the plugin left running */
            child->pid = -1;
            return true;
        }
        (void)nanosleep(&pause, NULL);
    }
    return false;
}

/* How a process ended. */
enum { ENDED, CRASHED, CRASHED_OUTSIDE, CANNOT_OPEN, CANNOT_ASSESS };

/* Runs one process. part->from: after a crash, the unit behind the crashed one. *io_again: set if the group asks for
 * another process. */
static inlay_status run_once(const struct supervisor *supervisor, struct part *part, bool *io_again, uint32_t *out_end,
                             inlay_diag *diag)
{
    struct child child;
    bool hung = false;
    int wait_status = 0;
    inlay_status status = start(supervisor, part, &child, diag);

    *out_end = ENDED;
    if (status == INLAY_OK)
        status = wait_until_closed(supervisor, &child, &hung, diag);
    if (status == INLAY_OK && !hung)
        hung = !await_end(supervisor, &child, &wait_status);
    if (status == INLAY_OK && (hung || !child.done || wait_status != 0)) {
        report_crash(supervisor, &child, part->group, wait_status, hung);
        *out_end = child.done                              ? ENDED
                   : child.progress->open != 0             ? CANNOT_OPEN
                   : child.progress->unit == CHECK_NO_UNIT ? CRASHED_OUTSIDE
                                                           : CRASHED;
        part->from = child.progress->unit + 1;
        if (hung && strcmp(child.progress->phase, "assess") == 0)
            *out_end = CANNOT_ASSESS;
    }
    if (status == INLAY_OK && child.progress->broken != 0)
        *out_end = CANNOT_OPEN;
    *io_again = *io_again || (status == INLAY_OK && child.progress->again != 0);
    finish(&child);
    return status;
}

/* Runs all processes of a group. *out_end: how the last one ended. */
static inlay_status run_group(const struct supervisor *supervisor, const char *group, uint32_t *out_end,
                              inlay_diag *diag)
{
    struct part part = { .group = group };
    bool again = false;
    uint32_t crashes = 0;
    inlay_status status;

    do {
        status = run_once(supervisor, &part, &again, out_end, diag);
        if (status == INLAY_OK && *out_end == ENDED && again && !part.again) {
            part = (struct part){ .group = group, .again = true };
            status = run_once(supervisor, &part, &again, out_end, diag);
        }
    } while (status == INLAY_OK && *out_end == CRASHED && ++crashes < MAX_CRASHES);
    if (crashes == MAX_CRASHES)
        report_line(supervisor, &(check_line){ .result = CHECK_SKIP,
                                               .check = group,
                                               .subject = "",
                                               .expected = "",
                                               .fix = "",
                                               .got = "the rest of this group: the plugin crashed too often" });
    return status;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info, (void)kind, (void)place;
    (void)remove(path);
    return 0;
}

/* Creates a folder for the children. Their working directory is in it: files that appear there are the plugin's. NULL:
 * it cannot be created; the children then run in the working directory of the user. */
static char *make_work_folder(struct arena *arena)
{
    const char *parent = getenv("TMPDIR");
    char *path = arena_format(arena, "%s/inlay-check-XXXXXX", parent != NULL && parent[0] == '/' ? parent : "/tmp");
    char *cwd, *blobs;

    if (path == NULL || mkdtemp(path) == NULL)
        return NULL;
    cwd = arena_format(arena, "%s/cwd", path);
    blobs = arena_format(arena, "%s/blobs", path);
    if (cwd != NULL && blobs != NULL && mkdir(cwd, 0700) == 0 && mkdir(blobs, 0700) == 0)
        return path;
    (void)nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    return NULL;
}

/* An absolute path for a path of the user; paths that do not exist stay as they are, and the groups report them. */
static const char *absolute(const char *path, struct arena *arena)
{
    char *real = path != NULL ? realpath(path, NULL) : NULL;
    const char *copy = real != NULL ? arena_string(arena, real) : NULL;

    free(real);
    return copy != NULL ? copy : path;
}

/* The same for an option NAME=VALUE whose value is an existing relative path. */
static const char *absolute_value(const char *setting, struct arena *arena)
{
    const char *value = strchr(setting, '=');
    const char *path =
        value != NULL && value[1] != '/' && strchr(value, '/') != NULL ? absolute(value + 1, arena) : NULL;
    const char *copy = path != NULL && path != value + 1
                           ? arena_format(arena, "%.*s=%s", (int)(value - setting), setting, path)
                           : NULL;

    return copy != NULL ? copy : setting;
}

/* list: words separated by commas. */
static bool is_listed(const char *list, const char *word)
{
    const size_t bytes = strlen(word);

    while (list != NULL) {
        const size_t found = strcspn(list, ",");

        if (found == bytes && memcmp(list, word, bytes) == 0)
            return true;
        list = list[found] == ',' ? list + found + 1 : NULL;
    }
    return false;
}

/* Is the group one of those to run? With --isolate only those that check calls of providers, not the file, nor what the
 * process of the host shares with a plugin. */
static bool is_wanted(const check_args *args, const char *group)
{
    return (!args->isolate || is_among(group, "offers results random models values sharing regions patterns cancel")) &&
           (args->child.group == NULL || is_listed(args->child.group, group));
}

/* The checks of the groups that ran that --quick skipped. */
static void report_left_out(const struct supervisor *supervisor)
{
    char text[1000] = "";
    size_t used = 0;

    for (uint32_t group = 0; group < GROUP_COUNT && used < sizeof text; group++)
        if (left_out[group][0] != '\0' && is_wanted(supervisor->args, groups[group]))
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s: %s",
                                     used > 0 ? "; " : "not run: ", groups[group], left_out[group]);
    if (used > 0)
        report_line(
            supervisor,
            &(check_line){
                .result = CHECK_SKIP, .check = "quick", .subject = "", .expected = "", .fix = "", .got = text });
}

static inlay_status write_certificate(const struct supervisor *supervisor, inlay_diag *diag)
{
    char text[300];
    const inlay_status status = certify_write(supervisor->records, supervisor->args, text, sizeof text, diag);

    if (status == INLAY_OK)
        report_line(supervisor, &(check_line){ .result = CHECK_PASS,
                                               .check = "certificate",
                                               .subject = supervisor->args->certificate,
                                               .expected = "",
                                               .fix = "",
                                               .got = text });
    return status;
}

inlay_status check_plugin(const check_args *args, const uint32_t *cancel, check_line_fn say_line, void *user,
                          check_summary *out_summary, inlay_diag *diag)
{
    check_args own = *args;
    const struct supervisor supervisor = { &own, cancel,      say_line,
                                           user, out_summary, args->certificate != NULL ? certify_open() : NULL };
    inlay_status status = args->certificate != NULL && supervisor.records == NULL
                              ? no_memory(diag, "for the certificate %s", args->certificate)
                              : INLAY_OK;
    struct arena arena = { 0 };
    uint32_t end = ENDED;

    *out_summary = (check_summary){ { 0 } };
    own.child.work = make_work_folder(&arena);
    own.file = absolute(args->file, &arena);
    own.with = absolute(args->with, &arena);
    own.data = absolute(args->data, &arena);
    for (uint32_t i = 0; i < args->option_count; i++)
        own.options[i] = absolute_value(args->options[i], &arena);
    for (uint32_t i = 0; i < args->model_count; i++)
        own.models[i] = absolute(args->models[i], &arena);
    for (uint32_t group = 0; group < GROUP_COUNT && status == INLAY_OK && end != CANNOT_OPEN && end != CANNOT_ASSESS;
         group++)
        if (is_wanted(args, groups[group])) {
            status = run_group(&supervisor, groups[group], &end, diag);
            if (supervisor.records != NULL)
                certify_note_group(supervisor.records, groups[group]);
        }
    if (status == INLAY_OK && (end == CANNOT_OPEN || end == CANNOT_ASSESS) && args->child.group == NULL)
        report_line(
            &supervisor,
            &(check_line){ .result = CHECK_SKIP,
                           .check = "all",
                           .subject = "",
                           .expected = "",
                           .fix = "",
                           .got = end == CANNOT_OPEN
                                      ? "the other checks: the plugin cannot be opened, or no provider created"
                                      : "the other checks: they all begin with assess, which does not return" });
    if (status == INLAY_OK && end == CANNOT_OPEN && args->child.group != NULL && out_summary->counts[CHECK_FAIL] == 0)
        report_line(&supervisor,
                    &(check_line){ .result = CHECK_FAIL,
                                   .check = args->child.group,
                                   .subject = "",
                                   .expected = "a plugin that can be opened, and a provider that can be created",
                                   .got = "nothing was checked",
                                   .fix = "the line above and --group open name the reason" });
    if (args->quick && status == INLAY_OK)
        report_left_out(&supervisor);
    if (status == INLAY_OK && supervisor.records != NULL && end != CANNOT_OPEN)
        status = write_certificate(&supervisor, diag);
    certify_close(supervisor.records);
    if (own.child.work != NULL)
        (void)nftw(own.child.work, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    arena_deinit(&arena);
    return status;
}
