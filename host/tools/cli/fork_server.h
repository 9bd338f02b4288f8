/* cli/fork_server.h - a fork server: runs work in new processes. The allocations of a long-lived process affect the
 * page placement of the next model's weights and thereby its speed. */
#ifndef CLI_FORK_SERVER_H
#define CLI_FORK_SERVER_H
#include <stdbool.h>
#include <sys/types.h>

/* A process in the state that the caller had at fork_server_start(); it forks for each piece of work. {.in = -1}: no
 * server runs. */
struct fork_server {
    pid_t pid;
    int in; /* a socket */
};

/* The work for one text: returns a number, or NAN on failure. It must not print. */
typedef double (*fork_server_work)(void *user, const char *text);

/* Must be called while the process has one thread; the child keeps this state of user. false: failed, errno is set. */
bool fork_server_start(struct fork_server *server, fork_server_work work, void *user);
/* The result of the work for the text (shorter than PATH_MAX); false: it failed, or its process ended. */
bool fork_server_call(const struct fork_server *server, const char *text, double *out);
void fork_server_stop(struct fork_server *server); /* a no-op for {.in = -1} */
#endif
