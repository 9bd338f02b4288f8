/* inlay-probe PLUGIN: the process in which a plugin is tried before a host loads it. See plugin/probe.h for what it
 * says and to whom; people have no use for it. */
#include "probe/process_snapshot.h"
#include "plugin/crash.h"
#include "plugin/note.h"
#include "plugin/probe.h"
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
/* The signal is the news here, and leaks are not. The runtimes look these up. */
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

static void say(const char *word, const char *text)
{
    char line[VERDICT_TEXT + 16];
    int bytes = snprintf(line, sizeof line - 1, "%s%s%.*s", word, text[0] != '\0' ? " " : "", VERDICT_TEXT, text);

    if (bytes > (int)sizeof line - 2)
        bytes = (int)sizeof line - 2;
    for (int i = 0; i < bytes; i++)
        if (line[i] == '\n')
            line[i] = '?';
    line[bytes] = '\n';
    (void)!write(PROBE_FD, line, (size_t)bytes + 1);
}

static void say_scene(const crash_scene *scene)
{
    char text[VERDICT_TEXT];

    (void)snprintf(text, sizeof text, "%s%s%.150s%s%s%.100s", scene->call, scene->node != NULL ? " of node '" : "",
                   scene->node != NULL ? scene->node : "", scene->node != NULL ? "'" : "",
                   scene->provider != NULL ? ", provider " : "", scene->provider != NULL ? scene->provider : "");
    say("at", text);
}

/* What is printed goes to a file that nobody keeps, so that it can be seen that something was. */
static void catch_prints(void)
{
    int fd = memfd_create("prints", MFD_CLOEXEC);

    if (fd < 0)
        return; /* what is printed goes unseen */
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    (void)close(fd);
}

static void add(char *text, size_t bytes, const char *more)
{
    size_t used = strlen(text);

    (void)snprintf(text + used, bytes - used, "%s%s", used > 0 && more[0] != '\0' ? ", " : "", more);
}

/* Says what the plugin has changed that it should leave alone, now that all of it has been tried. */
static void report_process_snapshot(const process_snapshot *before, int threads, uint32_t float_changes)
{
    char text[VERDICT_TEXT], all[VERDICT_TEXT] = "", some[64];
    int more = threads < 0 ? 0 : process_snapshot_threads() - threads;

    if (float_changes > 0)
        add(all, sizeof all, "rounding, flushing of tiny floats or traps were changed");
    if (more > 0) {
        (void)snprintf(some, sizeof some, "%d thread%s left behind", more, more == 1 ? " is" : "s are");
        add(all, sizeof all, some);
    }
    (void)process_snapshot_compare(before, text, sizeof text);
    add(all, sizeof all, text);
    if (all[0] != '\0')
        say("note", all);
}

/* Nothing outlives this process, and it leaves nothing behind. */
static void keep_small(void)
{
    const struct rlimit none = { 0, 0 };

    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_DUMPABLE, 0); /* the limit does not hold where dumps are piped */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* What came so far was for our parent's process group, of which we are no more: ignoring a signal drops it. */
static void begin_signals(void)
{
    sigset_t none;

    for (int s = 1; s < NSIG; s++)
        if (signal(s, SIG_IGN) != SIG_ERR)
            (void)signal(s, SIG_DFL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

int main(int argc, char **argv)
{
    static struct admission admission;
    inlay_diag diag = INLAY_DIAG_INIT;
    plugin_module *module = NULL;
    inlay_status status;
    process_snapshot before;
    int threads;

    if (argc != 2 || fcntl(PROBE_FD, F_GETFL) < 0) {
        (void)fprintf(stderr, "inlay-probe is started by inlay, to try a plugin\n");
        return 2;
    }
    begin_signals();
    keep_small();
    catch_prints();
    crash_on_enter = say_scene;
    before = process_snapshot_take();
    threads = process_snapshot_threads();
    admission.fd = open(argv[1], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (admission.fd < 0 || fstat(admission.fd, &admission.st) != 0 || strlen(argv[1]) >= sizeof admission.path)
        status = inlay_fail(&diag, INLAY_IO_ERROR, "the helper cannot open it");
    else
        status = note_read(admission.fd, (uint64_t)admission.st.st_size, &admission.facts, &diag);
    if (status == INLAY_OK) {
        (void)strcpy(admission.path, argv[1]);
        status = module_load(argv[1], &admission, &module, &diag);
    }
    if (status == INLAY_OK) {
        report_process_snapshot(&before, threads, trial_run(module));
        say("ok", "");
        module_unload(module);
    } else {
        say("refused", diag.text);
    }
    say("at", "the end of the process");
    say("done", "");
    return 0;
}
