/* serve/process/supervise.h - several server processes that share one socket and are restarted after a crash. */
#ifndef SERVE_SUPERVISE_H
#define SERVE_SUPERVISE_H
#include "serve/base/board.h"
#include "serve/base/settings.h"

/* Whether this process supervises others: `workers` is set, and it is not a worker. */
bool supervise_wanted(const struct settings *settings);
/* Whether this process is a worker. It accepts no connection before its models are loaded. */
bool supervise_is_worker(void);
/* Whether this process is a worker and its supervisor opened the sockets: their connections are not accepted once all
 * workers have stopped. */
bool supervise_owns_sockets(void);
/* The first call of a worker. */
void supervise_begin_worker(void);
/* Opens the metrics that the workers share; without a supervisor, the metrics of this process. Close them by
 * board_close(). */
INLAY_NODISCARD inlay_status supervise_open_board(const struct settings *settings, struct board *out_board,
                                                  inlay_diag *diag);
/* A worker calls it once its models are loaded. */
void supervise_ready(void);
/* Opens the sockets, starts the workers as this program with the same arguments, and supervises them until SIGTERM or
 * SIGINT. Returns the exit code. */
int supervise(const struct settings *settings, char **argv);
#endif
