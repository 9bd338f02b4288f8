/* inlay-probe [--isolated] PLUGIN [NAME=VALUE...]: the process in which a plugin is tested before a host loads it,
 * with default options or with these. The host starts it, not the user. See plugin/probe.h for its output. With
 * --serve-provider it is the process of an isolated provider (serve_provider.c). */
#include "probe/process_snapshot.h"
#include "base/memory.h"
#include "plugin/crash.h"
#include "plugin/note.h"
#include "plugin/probe.h"
#include "probe/load.h"
#include "probe/restrict.h"
#include "probe/serve_provider.h"
#include "probe/trial.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || INLAY_NOTE_FEATURE(address_sanitizer) ||          \
    INLAY_NOTE_FEATURE(thread_sanitizer)
/* The host needs the signal of a crash, and leaks do not matter here. The sanitizer runtimes call these functions. */
INLAY_EXPORT const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:handle_sigfpe=0:detect_leaks=0";
}
INLAY_EXPORT const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:handle_sigfpe=0:report_bugs=0";
}
#endif

static void report(const char *keyword, const char *text)
{
    char line[VERDICT_TEXT + 16];
    int bytes = snprintf(line, sizeof line - 1, "%s%s%.*s", keyword, text[0] != '\0' ? " " : "", VERDICT_TEXT, text);

    if (bytes > (int)sizeof line - 2)
        bytes = (int)sizeof line - 2;
    for (int i = 0; i < bytes; i++)
        if (line[i] == '\n')
            line[i] = '?';
    line[bytes] = '\n';
    (void)!write(PROBE_FD, line, (size_t)bytes + 1);
}

/* plugin_log_fn */
static void report_error(void *user, uint32_t level, const char *text)
{
    (void)user;
    if (level == INLAY_LOG_ERROR)
        report("said", text);
}

static void report_scene(const crash_scene *scene)
{
    char text[VERDICT_TEXT];

    (void)snprintf(text, sizeof text, "%s%s%.150s%s%s%.100s", scene->call, scene->node != NULL ? " of node '" : "",
                   scene->node != NULL ? scene->node : "", scene->node != NULL ? "'" : "",
                   scene->provider != NULL ? ", provider " : "", scene->provider != NULL ? scene->provider : "");
    report("at", text);
}

/* Redirects standard output and error to an anonymous file, so that output of the plugin can be detected. */
static void redirect_output(void)
{
    int fd = memfd_create("prints", MFD_CLOEXEC);

    if (fd < 0)
        return; /* output is not detected */
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    (void)close(fd);
}

static void add(char *text, size_t bytes, const char *more)
{
    size_t used = strlen(text);

    (void)snprintf(text + used, bytes - used, "%s%s", used > 0 && more[0] != '\0' ? ", " : "", more);
}

/* Reports process state that the plugin has changed although it must not. */
static void report_process_snapshot(const process_snapshot *before, int threads, uint32_t float_changes)
{
    char text[VERDICT_TEXT], all[VERDICT_TEXT] = "", some[64];
    int more = process_snapshot_more_threads(threads);

    if (float_changes > 0)
        add(all, sizeof all, "rounding, flushing of tiny floats or traps were changed");
    if (more > 0) {
        (void)snprintf(some, sizeof some, "%d thread%s left behind", more, more == 1 ? " is" : "s are");
        add(all, sizeof all, some);
    }
    (void)process_snapshot_compare(before, text, sizeof text);
    add(all, sizeof all, text);
    if (all[0] != '\0')
        report("note", all);
}

int main(int argc, char **argv)
{
    const bool is_isolated = argc > 1 && strcmp(argv[1], PROBE_ISOLATED) == 0;
    char *const *const given = argv + (is_isolated ? 2 : 1); /* the file, then its settings */
    inlay_diag diag = INLAY_DIAG_INIT;
    plugin_module *module = NULL;
    inlay_status status = INLAY_OK;
    process_snapshot before;
    int threads;

    if (argc == 7 && strcmp(argv[1], "--serve-provider") == 0)
        return serve_provider(argv + 2);
    if (argc < 2 || given[0] == NULL || fcntl(PROBE_FD, F_GETFL) < 0) {
        (void)fprintf(stderr, "inlay-probe is started by inlay to test a plugin\n");
        return 2;
    }
    restrict_signals();
    restrict_process();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    redirect_output();
    crash_on_enter = report_scene;
    before = process_snapshot_take();
    threads = process_snapshot_threads();
    (void)host_log_add(report_error, NULL); /* if out of memory, errors are not reported */
    if (is_isolated)
        status = restrict_opening(&diag);
    if (status == INLAY_OK)
        status = load_plugin(open(given[0], O_RDONLY | O_CLOEXEC | O_NONBLOCK), given[0], &module, &diag);
    if (status == INLAY_OK) {
        report_process_snapshot(&before, threads, trial_run(module, given + 1));
        report("ok", "");
        module_unload(module);
    } else {
        report(is_shortage(diag.text) ? "lacks" : "refused", diag.text);
    }
    report("at", "the end of the process");
    report("done", "");
    return 0;
}
