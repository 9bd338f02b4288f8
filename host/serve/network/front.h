/* serve/network/front.h - the network front: one epoll loop for all connections, REST and gRPC, HTTP/1.1 and HTTP/2.
 *
 * `serve_threads` threads run the loop. Each connection belongs to one of them, which receives its requests, sends its
 * replies and frees it; no other thread touches it. While a run keeps a thread busy, a spare one takes its place. A
 * request that waits for another thread (a run, a load) is handed back by front_wake(). */
#ifndef SERVE_FRONT_H
#define SERVE_FRONT_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stdint.h>

struct server;
struct front;
struct connection;

/* Opens the sockets of REST and of gRPC (grpc_port -1: none; equal to port: the same one) and starts the threads.
 * open: selects the protocol of a new connection and opens it; false: the connection is closed. */
INLAY_NODISCARD inlay_status front_start(struct server *server, bool (*open)(struct connection *connection),
                                         struct front **out_front, inlay_diag *diag);
/* Accepts all connections that wait, then no more. No connection is reset. Functions below: NULL is a no-op. */
void front_drain(struct front *front);
/* Whether every connection has waited for its client for a while, so that closing it cuts off no request. */
bool front_is_quiet(struct front *front);
/* Closes the idle connections of HTTP/1.1, except those on which a request arrives meanwhile. Those of HTTP/2 were
 * closed by front_drain(). front_is_quiet() returns true when this is done. */
void front_close_idle(struct front *front);
/* Ends the gRPC calls in progress. */
void front_cancel_calls(struct front *front);
/* Closes all connections and ends the threads. false: a run does not end, so the front was not freed. */
bool front_stop(struct front *front);

/* A thread of the front calls these before and after work that may take long. If the work does take long, a spare
 * thread serves the thread's other connections meanwhile. front_lend() returns false on other threads, and if the loop
 * is lent already; otherwise front_take_back() has to follow. Between the two calls, the thread touches no connection.
 * */
bool front_lend(void);
void front_take_back(void);
/* Lets spare threads serve the loops that have been lent for long. Called periodically; NULL is a no-op. */
void front_relieve(struct front *front);
#endif
