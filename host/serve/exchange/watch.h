/* serve/exchange/watch.h - cancels requests whose client has disconnected; the thread that ends those whose deadline
 * has passed. */
#ifndef SERVE_WATCH_H
#define SERVE_WATCH_H
#include "serve/exchange/request.h"

struct front;
struct watch;
INLAY_NODISCARD inlay_status watch_create(struct server *server, struct watch **out_watch, inlay_diag *diag);
void watch_destroy(struct watch *watch);
/* Calls front_relieve() for this front; NULL = for none. */
void watch_set_front(struct watch *watch, struct front *front);
/* Marks a request that runs or waits to run, and one that no longer does. */
void watch_add(struct watch *watch, struct request *request);
void watch_remove(struct watch *watch, struct request *request);
/* Cancels a request whose client has disconnected. Called by the connection's thread. */
void watch_cancel(struct watch *watch, struct request *request);
/* Stores gauges of this process in the board, where the others read them. Any thread. */
void watch_publish(struct server *server);
/* Runs, and requests before their runs, that have not ended some seconds after their deadline or their cancellation. */
uint32_t watch_stuck(const struct server *server);
/* Whether the server reports that it is ready: it has announced that, and nothing is stuck. */
bool watch_is_ready(const struct server *server);
#endif
