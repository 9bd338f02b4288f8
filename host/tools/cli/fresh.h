/* cli/fresh.h - work in processes that have done nothing before: what a program has allocated and freed decides on
 * which pages the weights of its next model lie, and so how fast it is. */
#ifndef CLI_FRESH_H
#define CLI_FRESH_H
#include <stdbool.h>
#include <sys/types.h>

/* A process that waits, as the caller was when it was made, and forks for each piece of work. {.in = -1} is none. */
struct fresh {
    pid_t pid;
    int in; /* a socket */
};

/* What such a process does with a text: a number, or NAN where that failed. It must be silent. */
typedef double (*fresh_work)(void *user, const char *text);

/* To be called while the process has one thread; user stays as it is now. false: there is none, errno says why. */
bool fresh_begin(struct fresh *fresh, fresh_work work, void *user);
/* The number that the work makes of the text (shorter than PATH_MAX); false: it failed, or its process ended. */
bool fresh_ask(const struct fresh *fresh, const char *text, double *out);
void fresh_end(struct fresh *fresh); /* one that is none is a no-op */
#endif
