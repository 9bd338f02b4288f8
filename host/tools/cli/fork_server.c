#include "cli/fork_server.h"
#include "inlay/check.h"
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Receives a whole message, also across signals. False: the socket is closed. */
static bool receive(int fd, void *data, size_t bytes)
{
    ssize_t got;

    do
        got = recv(fd, data, bytes, MSG_WAITALL);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)bytes;
}

static bool transmit(int fd, const void *data, size_t bytes)
{
    ssize_t sent;

    do
        sent = send(fd, data, bytes, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)bytes;
}

/* Runs the work in a child process, so that it leaves no state behind for the next piece of work. */
static void work_once(int fd, fork_server_work work, void *user, const char *text)
{
    const pid_t pid = fork();
    double answer = NAN;
    int state;

    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        answer = work(user, text);
        _exit(transmit(fd, &answer, sizeof answer) ? 0 : 1);
    }
    while (pid > 0 && waitpid(pid, &state, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0 || state != 0)
        (void)transmit(fd, &answer, sizeof answer);
}

bool fork_server_start(struct fork_server *server, fork_server_work work, void *user)
{
    char text[PATH_MAX];
    int sockets[2];

    *server = (struct fork_server){ .pid = -1, .in = -1 };
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
        return false;
    server->pid = fork();
    if (server->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(sockets[0]);
        while (receive(sockets[1], text, sizeof text))
            work_once(sockets[1], work, user, text);
        _exit(0);
    }
    (void)close(sockets[1]);
    server->in = sockets[0];
    if (server->pid < 0)
        fork_server_stop(server);
    return server->in >= 0;
}

bool fork_server_call(const struct fork_server *server, const char *text, double *out)
{
    char message[PATH_MAX] = { 0 };

    INLAY_CHECK(text != NULL && out != NULL);
    if (server->in < 0 || strlen(text) >= sizeof message)
        return false;
    memcpy(message, text, strlen(text));
    return transmit(server->in, message, sizeof message) && receive(server->in, out, sizeof *out) && !isnan(*out);
}

void fork_server_stop(struct fork_server *server)
{
    if (server->in < 0)
        return;
    (void)close(server->in);
    while (server->pid > 0 && waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *server = (struct fork_server){ .pid = -1, .in = -1 };
}
