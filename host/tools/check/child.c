/* The child process: runs one group of checks and sends the lines of the report to the parent. */
#include "check/check.h"
#include "check/engines.h"
#include "check/process.h"
#include "check/surroundings.h"
#include "probe/process_snapshot.h"
#include "inlay/check.h"
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static check_progress *shared_progress;

/* A forked copy of this process would continue the checks and report twice, so it ends at once (end_fork).
 * posix_spawn() and system() do not call these handlers. */
static void note_fork(void)
{
    (void)__atomic_add_fetch(&shared_progress->forked, 1, __ATOMIC_RELAXED);
}

static void end_fork(void)
{
    _exit(0);
}

/* Detects what would corrupt the report: a closed report descriptor, or a fork. */
static void detect_interference(struct check *check)
{
    if (fcntl(CHECK_REPORT_FD, F_GETFD) < 0) {
        check->progress->closed = 1;
        _exit(1);
    }
    if (__atomic_exchange_n(&check->progress->forked, 0, __ATOMIC_RELAXED) != 0 && !check->fork_reported) {
        check->fork_reported = true;
        check_fail(check, "process", check->progress->subject, "no fork",
                   "use threads, or posix_spawn for another program: a copy of the host's process is useless",
                   "it forked in %s", check->progress->phase);
    }
}

void check_phase(struct check *check, const char *phase)
{
    INLAY_CHECK(phase != NULL);
    detect_interference(check);
    (void)snprintf(check->progress->phase, sizeof check->progress->phase, "%s", phase);
    check_tick(check);
}

void check_tick(struct check *check)
{
    (void)__atomic_add_fetch(&check->progress->ticks, 1, __ATOMIC_RELAXED);
}

void check_subject(struct check *check, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(check->progress->subject, sizeof check->progress->subject, format, args);
    va_end(args);
    check_tick(check);
}

bool check_unit(struct check *check, const char *format, ...)
{
    va_list args;

    INLAY_CHECK(check->unit != CHECK_NO_UNIT);
    if (check->unit++ < check->args->child.from)
        return false;
    check->progress->unit = check->unit - 1;
    check->compiles.in_unit = 0;
    va_start(args, format);
    (void)vsnprintf(check->progress->subject, sizeof check->progress->subject, format, args);
    va_end(args);
    check_tick(check);
    return true;
}

/* Names come from the plugin: characters that are not printable ASCII become '?'. */
static void plain(char *text)
{
    for (char *p = text; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || (unsigned char)*p > '~')
            *p = '?';
}

static void put(struct check *check, uint32_t result, const char *name, const char *subject, const char *expected,
                const char *fix, const char *format, va_list args)
{
    char got[700], about[300], want[400];
    json_t *object;

    INLAY_CHECK(result < CHECK_RESULTS && name != NULL && expected != NULL && fix != NULL);
    (void)vsnprintf(got, sizeof got, format, args);
    (void)snprintf(about, sizeof about, "%s", subject != NULL ? subject : "");
    (void)snprintf(want, sizeof want, "%s", expected);
    plain(got);
    plain(about);
    plain(want);
    object = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s}", "result", (int)result, "check", name, "subject", about,
                       "expected", want, "got", got, "fix", fix);
    if (object != NULL && json_dumpf(object, check->report, JSON_COMPACT) == 0) {
        (void)fputc('\n', check->report);
        (void)fflush(check->report);
    }
    json_decref(object);
    check_tick(check);
}

void check_pass(struct check *check, const char *name, const char *subject, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    put(check, CHECK_PASS, name, subject, "", "", format, args);
    va_end(args);
}

void check_skip(struct check *check, const char *name, const char *subject, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    put(check, CHECK_SKIP, name, subject, "", "", format, args);
    va_end(args);
}

void check_fail(struct check *check, const char *name, const char *subject, const char *expected, const char *fix,
                const char *format, ...)
{
    va_list args;

    va_start(args, format);
    put(check, CHECK_FAIL, name, subject, expected, fix, format, args);
    va_end(args);
}

void check_warn(struct check *check, const char *name, const char *subject, const char *expected, const char *fix,
                const char *format, ...)
{
    va_list args;

    va_start(args, format);
    put(check, CHECK_WARN, name, subject, expected, fix, format, args);
    va_end(args);
}

void check_rule(struct check *check, const char *expected, const char *fix, const char *format, ...)
{
    va_list args;

    for (uint32_t i = 0; i < check->rule_count; i++)
        if (strcmp(check->rules[i], expected) == 0)
            return;
    if (check->rule_count < CHECK_RULES)
        check->rules[check->rule_count++] = expected;
    va_start(args, format);
    put(check, CHECK_FAIL, "rules", check->progress->subject, expected, fix, format, args);
    va_end(args);
}

/* Makes the private folder the working directory. */
static void enter_work_folder(const check_args *args)
{
    char path[4200], left[8];

    if (args->child.work == NULL)
        return;
    (void)snprintf(path, sizeof path, "%s/cwd", args->child.work);
    if (chdir(path) == 0)
        /* discards the files of a process that crashed; the crash is reported already */
        (void)process_take_files(left, sizeof left);
}

void check_files(struct check *check, const char *subject)
{
    char names[300];

    if (check->args->child.work != NULL && process_take_files(names, sizeof names) > 0)
        check_fail(check, "process", subject, "no file in the working directory",
                   "write files only in inlay_create_args.cache_dir, in temporary folders, or where an option says so",
                   "it created %s", names);
}

void check_process(struct check *check, const char *subject, const process_snapshot *before)
{
    const char *forbidden = surroundings_take_forbidden();
    char changed[700] = "";
    unsigned count = process_snapshot_compare(before, changed, sizeof changed);

    if (forbidden != NULL) {
        const size_t used = strlen(changed);

        (void)snprintf(changed + used, sizeof changed - used, "%s%s was called", count++ > 0 ? ", " : "", forbidden);
    }
    if (count == 0 || check->process_reported)
        return;
    check->process_reported = true;
    check_fail(check, "process", subject, "unchanged process state",
               "see \"Process state\" in inlay/plugin.h; write messages with inlay_host.log", "%s", changed);
}

int check_child(const check_args *args)
{
    static const struct {
        const char *name;
        void (*run)(struct check *check);
    } groups[] = {
#define GROUP(name, doc, left_out) { #name, check_group_##name },
#include "check/groups.def"
#undef GROUP
    };
    struct check check = { .args = args };
    process_snapshot before;

    INLAY_CHECK(args->child.group != NULL);

    check.progress = mmap(NULL, sizeof *check.progress, PROT_READ | PROT_WRITE, MAP_SHARED, CHECK_PROGRESS_FD, 0);
    check.report = fdopen(CHECK_REPORT_FD, "w");
    if (check.progress == MAP_FAILED || check.report == NULL)
        return 1;
    (void)snprintf(check.progress->phase, sizeof check.progress->phase, "the checker");
    crash_install_handlers(check.progress);
    shared_progress = check.progress;
    enter_work_folder(args);
    (void)pthread_atfork(note_fork, NULL, end_fork);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* makes this process the parent of orphaned processes of the plugin */
    before = process_snapshot_take();
    for (size_t group = 0; group < sizeof groups / sizeof groups[0]; group++)
        if (strcmp(groups[group].name, args->child.group) == 0)
            groups[group].run(&check);
    engines_report(&check);
    check_process(&check, args->child.group, &before);
    check_files(&check, args->child.group);
    check_phase(&check, "the end of the process");
    if (waitpid(-1, NULL, WNOHANG) == 0)
        check_fail(&check, "process", args->child.group, "no process that outlives the plugin",
                   "wait for those that it starts", "processes that it started are still running");
    (void)fputs("done\n", check.report);
    return fclose(check.report) == 0 ? 0 : 1;
}
