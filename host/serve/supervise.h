/* serve/supervise.h - several servers behind one socket, each a process, started again when one crashes. */
#ifndef SERVE_SUPERVISE_H
#define SERVE_SUPERVISE_H
#include "serve/settings.h"

/* Whether this process is to look after others: `workers` is set, and it is not one of them. */
bool supervise_wanted(const struct settings *settings);
/* Whether this process is a worker. It takes no connection before its models are loaded: others do meanwhile. */
bool supervise_is_worker(void);
/* What a worker does first, and once its models are loaded. */
void supervise_begin_worker(void);
void supervise_ready(void);
/* Opens the sockets, starts the workers as this program with the same arguments, and looks after them until SIGTERM or
 * SIGINT. Returns the exit code. */
int supervise(const struct settings *settings, char **argv);
#endif
