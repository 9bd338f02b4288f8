/* cli/fresh.h - a fork server: runs work in new processes. The allocations of a long-lived process affect the page
 * placement of the next model's weights and thereby its speed. */
#ifndef CLI_FRESH_H
#define CLI_FRESH_H
#include <stdbool.h>
#include <sys/types.h>

/* A process in the state that the caller had at fresh_begin(); it forks for each piece of work. {.in = -1} is none. */
struct fresh {
    pid_t pid;
    int in; /* a socket */
};

/* The work for one text: returns a number, or NAN on failure. It must not print. */
typedef double (*fresh_work)(void *user, const char *text);

/* Must be called while the process has one thread; the child keeps this state of user. false: failed, errno is set. */
bool fresh_begin(struct fresh *fresh, fresh_work work, void *user);
/* The result of the work for the text (shorter than PATH_MAX); false: it failed, or its process ended. */
bool fresh_ask(const struct fresh *fresh, const char *text, double *out);
void fresh_end(struct fresh *fresh); /* a no-op for {.in = -1} */
#endif
