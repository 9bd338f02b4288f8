#include "serve/supervise.h"
#include "serve/grpc.h"
#include "serve/listen.h"
#include "serve/stats.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char mark[] = "INLAY_SERVE_WORKER";

enum { SOON_MS = 100, LATE_MS = 5000, YOUNG_MS = 1000 };

typedef struct worker {
    pid_t pid; /* 0 = does not run */
    uint64_t started_ns, start_at_ns;
    uint32_t pause_ms; /* before the next start */
} worker;

typedef struct supervisor {
    const settings *settings;
    char **argv;
    int sockets[2]; /* of REST and gRPC, from 10 on; -1 = none */
    worker *workers;
    uint32_t count;
    bool stop;
    int code;
} supervisor;

bool supervise_wanted(const settings *s)
{
    return settings_int(s, SET_workers) > 0 && !supervise_is_worker();
}

bool supervise_is_worker(void)
{
    return getenv(mark) != NULL;
}

/* The socket under a number that is out of the way of those that a worker gets them under. */
static inlay_status open_socket(const settings *s, const char *name, int port, int *out, inlay_diag *diag)
{
    char url[128];
    int fd, family;
    inlay_status status = listen_open(name, settings_text(s, SET_listen), port, &fd, &family, url, sizeof url, diag);

    if (status != INLAY_OK)
        return status;
    *out = fcntl(fd, F_DUPFD_CLOEXEC, 10);
    (void)close(fd);
    (void)fprintf(stderr, "inlay-serve: workers listen on %s (%s)\n", url, name);
    return *out >= 0 ? INLAY_OK : inlay_fail(diag, INLAY_IO_ERROR, "no more files: %s", strerror(errno));
}

/* In the child: the sockets as systemd passes them, and the program anew. SIGTERM and SIGINT stay blocked until the
 * worker waits for them: one told to end while it starts drains and ends well, too. */
static void become_worker(const supervisor *v, uint32_t index)
{
    char number[16], pid[16];
    sigset_t of_supervisor;

    (void)sigemptyset(&of_supervisor);
    (void)sigaddset(&of_supervisor, SIGCHLD);
    (void)sigprocmask(SIG_UNBLOCK, &of_supervisor, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)snprintf(number, sizeof number, "%u", index);
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
    if (dup2(v->sockets[0], 3) < 0 || (v->sockets[1] >= 0 && dup2(v->sockets[1], 4) < 0))
        _exit(1);
    (void)setenv(mark, number, 1);
    (void)setenv("LISTEN_PID", pid, 1);
    (void)setenv("LISTEN_FDS", v->sockets[1] >= 0 ? "2" : "1", 1);
    (void)setenv("LISTEN_FDNAMES", v->sockets[1] >= 0 ? "rest:grpc" : "rest", 1);
    (void)unsetenv("NOTIFY_SOCKET");
    (void)execv("/proc/self/exe", v->argv);
    _exit(1);
}

static void start_worker(const supervisor *v, uint32_t index)
{
    worker *w = &v->workers[index];

    w->started_ns = clock_ns();
    w->pid = fork();
    if (w->pid == 0)
        become_worker(v, index);
    if (w->pid < 0) {
        w->pid = 0;
        w->start_at_ns = w->started_ns + (uint64_t)LATE_MS * 1000000;
    }
}

/* One that crashed is started again, later each time if it does not last. One that ends by itself at once would do so
 * again: its settings are wrong, or its port. */
static void note_end(supervisor *v, uint32_t index, int status)
{
    worker *w = &v->workers[index];
    uint64_t now = clock_ns();
    bool young = now - w->started_ns < (uint64_t)YOUNG_MS * 1000000;

    w->pid = 0;
    if (v->stop) {
        if (v->code == 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
            v->code = 1;
        return;
    }
    if (WIFEXITED(status) && young) {
        v->stop = true;
        v->code = WEXITSTATUS(status);
        return;
    }
    w->pause_ms = !young || w->pause_ms == 0 ? SOON_MS : w->pause_ms * 2 < LATE_MS ? w->pause_ms * 2 : LATE_MS;
    w->start_at_ns = now + (uint64_t)w->pause_ms * 1000000;
    (void)fprintf(stderr, "inlay-serve: worker %u ended with %s %d; starting it again\n", index,
                  WIFSIGNALED(status) ? "signal" : "exit code",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void reap(supervisor *v)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (uint32_t i = 0; i < v->count; i++)
            if (v->workers[i].pid == pid)
                note_end(v, i, status);
}

static uint32_t running(const supervisor *v)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < v->count; i++)
        count += v->workers[i].pid > 0;
    return count;
}

static void tell_all(const supervisor *v, int signal_number)
{
    for (uint32_t i = 0; i < v->count; i++)
        if (v->workers[i].pid > 0)
            (void)kill(v->workers[i].pid, signal_number);
}

static void look_after(supervisor *v, const sigset_t *signals)
{
    const struct timespec tick = { 0, 50000000 };
    bool told = false;

    while (!v->stop || running(v) > 0) {
        int which;

        for (uint32_t i = 0; !v->stop && i < v->count; i++)
            if (v->workers[i].pid == 0 && clock_ns() >= v->workers[i].start_at_ns)
                start_worker(v, i);
        if (v->stop && !told) {
            told = true;
            tell_all(v, SIGTERM);
        }
        which = sigtimedwait(signals, NULL, &tick);
        if (which == SIGTERM || which == SIGINT) {
            v->stop = true;
            if (told)
                tell_all(v, which); /* a second one ends the wait of those that drain */
        }
        reap(v);
    }
}

int supervise(const settings *s, char **argv)
{
    supervisor v = { .settings = s, .argv = argv, .sockets = { -1, -1 } };
    int grpc_port = (int)settings_int(s, SET_grpc_port);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;
    sigset_t signals;

    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    v.count = (uint32_t)settings_int(s, SET_workers);
    v.workers = calloc(v.count, sizeof *v.workers);
    status = v.workers != NULL ? open_socket(s, "rest", (int)settings_int(s, SET_port), &v.sockets[0], &diag)
                               : inlay_fail(&diag, INLAY_OUT_OF_MEMORY, "no memory for workers");
    if (status == INLAY_OK && grpc_port >= 0 && grpc_is_built() && settings_text(s, SET_tls_cert)[0] == '\0')
        status = open_socket(s, "grpc", grpc_port, &v.sockets[1], &diag);
    if (status != INLAY_OK) {
        (void)fprintf(stderr, "inlay-serve: %s\n", diag.text);
        v.code = status == INLAY_INVALID_ARGUMENT ? 2 : 1;
    } else {
        listen_notify("READY=1");
        look_after(&v, &signals);
    }
    for (int i = 0; i < 2; i++)
        if (v.sockets[i] >= 0)
            (void)close(v.sockets[i]);
    free(v.workers);
    return v.code;
}
