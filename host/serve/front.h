/* serve/front.h - the network front: one epoll loop for all connections, REST and gRPC, HTTP/1.1 and HTTP/2.
 *
 * `serve_threads` threads run the loop. Each connection belongs to one of them, which receives its requests, sends its
 * replies and frees it; no other thread touches it. A request that waits for another thread (a run, a load) is handed
 * back by front_wake(). */
#ifndef SERVE_FRONT_H
#define SERVE_FRONT_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stdint.h>

struct server;
struct sched;
struct job;
struct front;
struct front_thread;

/* Part of a request that another thread hands back: resume() runs on the connection's thread. */
typedef struct front_task {
    struct front_thread *thread;
    void (*resume)(struct front_task *task);
    bool queued;        /* guarded by the thread's lock */
    uint64_t resume_ns; /* see front_delay() */
    struct front_task *next;
} front_task;

/* Hands a task back to its thread. Any thread; from here the task may be freed. */
void front_wake(front_task *task);
/* Resumes a task on this thread, which is the task's, at that time. At most a quarter of max_connections are delayed at
 * once, so that those who guess tokens do not keep others out. false: they are; the task is not resumed. */
bool front_delay(front_task *task, uint64_t resume_ns);
/* sched_cancel() unless the task is being handed back: true: the job was still waiting and no longer is. */
bool front_cancel(front_task *task, struct sched *sched, struct job *job);

/* Opens the sockets of REST and of gRPC (grpc_port -1: none; equal to port: the same one) and starts the threads. */
INLAY_NODISCARD inlay_status front_start(struct server *server, struct front **out_front, inlay_diag *diag);
/* Accepts all connections that wait, then no more. No connection is reset. Functions below: NULL is a no-op. */
void front_drain(struct front *front);
/* Whether every connection has waited for its client for a while, so that closing it cuts off no request. */
bool front_is_quiet(struct front *front);
/* Ends the gRPC calls in progress. */
void front_cancel_calls(struct front *front);
/* Closes all connections and ends the threads. false: a run does not end, so the front was not freed. */
bool front_stop(struct front *front);
#endif
