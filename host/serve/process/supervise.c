#include "serve/process/supervise.h"
#include "inlay/check.h"
#include "base/memory.h"
#include "serve/base/log.h"
#include "serve/process/listen.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const char worker_variable[] = "INLAY_SERVE_WORKER", owner_variable[] = "INLAY_SERVE_OWNER";

/* The shortest and the longest pause before a restart; a worker that ends earlier than YOUNG_MS doubles its pause. */
enum { MIN_PAUSE_MS = 100, MAX_PAUSE_MS = 5000, YOUNG_MS = 1000 };
/* Descriptors of a worker. READY_FD: it writes a byte to it when its models are loaded. BOARD_FD: see board.h. */
enum { SOCKETS = 3, READY_FD = 3 + SOCKETS, BOARD_FD };

struct worker {
    pid_t pid; /* 0 = not running */
    uint64_t started_ns, start_at_ns;
    uint32_t pause_ms; /* before the next start */
};

struct supervisor {
    const struct settings *settings;
    char **argv;
    int sockets[SOCKETS]; /* of REST, gRPC and admin_port, numbers from 10; -1 = none */
    struct worker *workers;
    uint32_t count;
    pid_t pid;
    struct board board;  /* its descriptor is a number from 10 */
    int ready[2];        /* a pipe; workers write to the second end, number from 10 */
    bool owns_sockets;   /* not passed by a parent, which may hold them, too */
    bool served;         /* a worker was ready */
    bool stop, signaled; /* signaled: SIGTERM was sent to the workers */
    int code;
};

bool supervise_wanted(const struct settings *settings)
{
    return settings_int(settings, SET_workers) > 0 && !supervise_is_worker();
}

bool supervise_is_worker(void)
{
    return getenv(worker_variable) != NULL;
}

bool supervise_owns_sockets(void)
{
    return supervise_is_worker() && getenv(owner_variable) != NULL;
}

void supervise_begin_worker(void)
{
    (void)fcntl(READY_FD, F_SETFD, FD_CLOEXEC);
    (void)fcntl(BOARD_FD, F_SETFD, FD_CLOEXEC);
}

inlay_status supervise_open_board(const struct settings *settings, struct board *out_board, inlay_diag *diag)
{
    const char *index = getenv(worker_variable);

    if (index == NULL)
        return board_create(1, out_board, diag);
    return board_open(BOARD_FD, (uint32_t)settings_int(settings, SET_workers), (uint32_t)strtoul(index, NULL, 10),
                      out_board, diag);
}

void supervise_ready(void)
{
    if (write(READY_FD, "", 1) < 0) {
        /* The supervisor has ended, and PR_SET_PDEATHSIG has sent a signal. */
    }
}

/* Opens a socket with a number from 10, because workers get sockets from 3. */
static inlay_status open_socket(struct supervisor *supervisor, const char *name, int port, int *out, inlay_diag *diag)
{
    char url[128];
    bool is_ours;
    int fd;
    inlay_status status =
        listen_open(name, settings_text(supervisor->settings, SET_listen), port, &fd, &is_ours, url, sizeof url, diag);

    if (status != INLAY_OK)
        return status;
    supervisor->owns_sockets &= is_ours;
    *out = fcntl(fd, F_DUPFD_CLOEXEC, 10);
    (void)close(fd);
    log_line(LOG_INFO_LINE, "workers listen on %s (%s)", url, name);
    return *out >= 0 ? INLAY_OK : inlay_fail(diag, INLAY_IO_ERROR, "cannot duplicate a socket: %s", strerror(errno));
}

static inlay_status open_pipe(struct supervisor *supervisor, inlay_diag *diag)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "cannot create a pipe: %s", strerror(errno));
    supervisor->ready[0] = ends[0];
    supervisor->ready[1] = fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
    (void)close(ends[1]);
    return supervisor->ready[1] >= 0 ? INLAY_OK
                                     : inlay_fail(diag, INLAY_IO_ERROR, "cannot create a pipe: %s", strerror(errno));
}

static inlay_status open_board(struct supervisor *supervisor, inlay_diag *diag)
{
    inlay_status status = board_create(supervisor->count, &supervisor->board, diag);
    int fd = status == INLAY_OK ? fcntl(supervisor->board.fd, F_DUPFD_CLOEXEC, 10) : -1;

    if (status != INLAY_OK)
        return status;
    if (fd < 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "cannot duplicate a descriptor: %s", strerror(errno));
    (void)close(supervisor->board.fd);
    supervisor->board.fd = fd;
    return INLAY_OK;
}

/* In the child: passes the sockets as systemd does, and executes the program again. SIGTERM stays blocked until the
 * worker waits for it, so that a worker that gets it during its start drains and exits normally. SIGINT, which a
 * terminal sends to all processes, is ignored: the supervisor signals each worker. */
static void become_worker(const struct supervisor *supervisor, uint32_t index)
{
    static const char *const names[SOCKETS] = { "rest", ":grpc", ":admin" };
    char number[16], pid[16], count[16], list[32] = "";
    sigset_t supervisor_signals;
    int next = 3;

    (void)sigemptyset(&supervisor_signals);
    (void)sigaddset(&supervisor_signals, SIGCHLD);
    (void)sigaddset(&supervisor_signals, SIGINT);
    (void)signal(SIGINT, SIG_IGN);
    (void)sigprocmask(SIG_UNBLOCK, &supervisor_signals, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != supervisor->pid)
        _exit(1); /* the supervisor died before prctl() */
    (void)snprintf(number, sizeof number, "%u", index);
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
    for (int i = 0; i < SOCKETS; i++) {
        if (supervisor->sockets[i] < 0)
            continue;
        if (dup2(supervisor->sockets[i], next++) < 0)
            _exit(1);
        (void)strcat(list, names[i]);
    }
    if (dup2(supervisor->ready[1], READY_FD) < 0 || dup2(supervisor->board.fd, BOARD_FD) < 0)
        _exit(1);
    (void)snprintf(count, sizeof count, "%d", next - 3);
    (void)setenv(worker_variable, number, 1);
    if (supervisor->owns_sockets)
        (void)setenv(owner_variable, "1", 1);
    else
        (void)unsetenv(owner_variable);
    (void)setenv("LISTEN_PID", pid, 1);
    (void)setenv("LISTEN_FDS", count, 1);
    (void)setenv("LISTEN_FDNAMES", list, 1);
    (void)unsetenv("NOTIFY_SOCKET");
    (void)execv("/proc/self/exe", supervisor->argv);
    _exit(1);
}

static void start_worker(const struct supervisor *supervisor, uint32_t index)
{
    struct worker *worker = &supervisor->workers[index];

    INLAY_CHECK(worker->pid == 0);
    worker->started_ns = clock_ns();
    worker->pid = fork();
    if (worker->pid == 0)
        become_worker(supervisor, index);
    if (worker->pid < 0) {
        worker->pid = 0;
        worker->start_at_ns = worker->started_ns + (uint64_t)MAX_PAUSE_MS * 1000000;
    }
}

static void print_end(uint32_t index, int status, const char *action)
{
    log_line(LOG_WARNING_LINE, "worker %u ended with %s %d; %s", index, WIFSIGNALED(status) ? "signal" : "exit code",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), action);
}

static uint64_t cpu_us(const struct timeval *time)
{
    return (uint64_t)time->tv_sec * 1000000 + (uint64_t)time->tv_usec;
}

/* A worker that crashed is restarted, with a growing pause if it crashes soon. If it exits and no worker was ever
 * ready, the settings or the models are wrong: the others would exit, too. */
static void note_end(struct supervisor *supervisor, uint32_t index, int status, const struct rusage *usage)
{
    struct worker *worker = &supervisor->workers[index];
    uint64_t now = clock_ns();
    bool young = now - worker->started_ns < (uint64_t)YOUNG_MS * 1000000;

    INLAY_CHECK(index < supervisor->count);
    worker->pid = 0;
    board_process_ended(&supervisor->board, index, cpu_us(&usage->ru_utime) + cpu_us(&usage->ru_stime));
    if (supervisor->stop) {
        /* A worker's exit before it was signaled does not count. */
        if (supervisor->signaled && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
            supervisor->code = supervisor->code == 0 ? 1 : supervisor->code;
            print_end(index, status, "after SIGTERM");
        }
        return;
    }
    if (WIFEXITED(status) && !supervisor->served) {
        supervisor->stop = true;
        supervisor->code = WEXITSTATUS(status);
        return;
    }
    worker->pause_ms = !young || worker->pause_ms == 0       ? MIN_PAUSE_MS
                       : worker->pause_ms * 2 < MAX_PAUSE_MS ? worker->pause_ms * 2
                                                             : MAX_PAUSE_MS;
    worker->start_at_ns = now + (uint64_t)worker->pause_ms * 1000000;
    print_end(index, status, "restarting it");
}

static void reap(struct supervisor *supervisor)
{
    struct rusage usage;
    int status;
    pid_t pid;

    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0)
        for (uint32_t i = 0; i < supervisor->count; i++)
            if (supervisor->workers[i].pid == pid)
                note_end(supervisor, i, status, &usage);
}

static uint32_t running_workers(const struct supervisor *supervisor)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < supervisor->count; i++)
        count += supervisor->workers[i].pid > 0;
    return count;
}

static void signal_workers(struct supervisor *supervisor, int signal_number)
{
    for (uint32_t i = 0; i < supervisor->count; i++)
        if (supervisor->workers[i].pid > 0)
            (void)kill(supervisor->workers[i].pid, signal_number);
}

/* The server is ready when the first worker is. */
static void read_ready(struct supervisor *supervisor)
{
    char bytes[64];

    if (read(supervisor->ready[0], bytes, sizeof bytes) <= 0 || supervisor->served)
        return;
    supervisor->served = true;
    listen_notify("READY=1");
}

static void supervise_workers(struct supervisor *supervisor, const sigset_t *signals)
{
    const struct timespec tick = { 0, 50000000 };

    while (!supervisor->stop || running_workers(supervisor) > 0) {
        int which;

        for (uint32_t i = 0; !supervisor->stop && i < supervisor->count; i++)
            if (supervisor->workers[i].pid == 0 && clock_ns() >= supervisor->workers[i].start_at_ns)
                start_worker(supervisor, i);
        if (supervisor->stop && !supervisor->signaled) {
            supervisor->signaled = true;
            signal_workers(supervisor, SIGTERM);
        }
        which = sigtimedwait(signals, NULL, &tick);
        if (which == SIGTERM || which == SIGINT) {
            if (!supervisor->stop)
                listen_notify("STOPPING=1");
            supervisor->stop = true;
            if (supervisor->signaled)
                signal_workers(supervisor, SIGTERM); /* a second signal ends the wait for drain_ms */
        }
        if (which == SIGHUP) /* which a worker that still starts has blocked */
            signal_workers(supervisor, SIGHUP);
        read_ready(supervisor);
        reap(supervisor);
    }
}

int supervise(const struct settings *settings, char **argv)
{
    struct supervisor supervisor = { .settings = settings,
                                     .argv = argv,
                                     .sockets = { -1, -1, -1 },
                                     .ready = { -1, -1 },
                                     .board = { .fd = -1 },
                                     .pid = getpid(),
                                     .owns_sockets = true };
    int grpc_port = (int)settings_int(settings, SET_grpc_port),
        admin_port = (int)settings_int(settings, SET_admin_port);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;
    sigset_t signals;

    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGHUP);
    (void)sigaddset(&signals, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    supervisor.count = (uint32_t)settings_int(settings, SET_workers);
    supervisor.workers = calloc(supervisor.count, sizeof *supervisor.workers);
    status = supervisor.workers != NULL ? open_socket(&supervisor, "rest", (int)settings_int(settings, SET_port),
                                                      &supervisor.sockets[0], &diag)
                                        : no_memory(&diag, "for workers");
    if (status == INLAY_OK && grpc_port >= 0 && (grpc_port == 0 || grpc_port != settings_int(settings, SET_port)))
        status = open_socket(&supervisor, "grpc", grpc_port, &supervisor.sockets[1], &diag);
    if (status == INLAY_OK && admin_port >= 0)
        status = open_socket(&supervisor, "admin", admin_port, &supervisor.sockets[2], &diag);
    if (status == INLAY_OK)
        listen_warn(settings, listen_is_loopback(supervisor.sockets[0]));
    if (status == INLAY_OK)
        status = open_pipe(&supervisor, &diag);
    if (status == INLAY_OK)
        status = open_board(&supervisor, &diag);
    if (status != INLAY_OK) {
        log_line(LOG_ERROR_LINE, "%s", diag.text);
        supervisor.code = status == INLAY_INVALID_ARGUMENT ? 2 : 1;
    } else {
        supervise_workers(&supervisor, &signals);
    }
    for (int i = 0; i < SOCKETS; i++)
        if (supervisor.sockets[i] >= 0)
            (void)close(supervisor.sockets[i]);
    for (int i = 0; i < 2; i++)
        if (supervisor.ready[i] >= 0)
            (void)close(supervisor.ready[i]);
    board_close(&supervisor.board);
    free(supervisor.workers);
    return supervisor.code;
}
