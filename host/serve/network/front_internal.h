/* serve/network/front_internal.h - shared by the files of the front: its listeners, threads and connections. */
#ifndef SERVE_FRONT_INTERNAL_H
#define SERVE_FRONT_INTERNAL_H
#include "serve/network/connection.h"
#include "serve/network/front_task.h"

enum {
    MAX_LISTENERS = 3,
    MAX_ADMIN_CONNECTIONS = 64,
    MAX_REFUSED_CONNECTIONS = 64,
    MAX_EVICTED = 16,
    QUIET_NS = 100000000, /* a client that is about to send its next request does so in this time */
};

struct front {
    struct server *server;
    bool (*open)(struct connection *connection); /* see front_start() */
    listener_socket listeners[MAX_LISTENERS];
    uint32_t listener_count;
    pthread_mutex_t accepting; /* for one at a time; guards the listeners' descriptors and changes of the next field */
    atomic_uint_fast64_t accepts_ns; /* no client is accepted until then; 0 = they are */
    uint32_t limits[CONNECTION_GROUPS];
    atomic_uint counts[CONNECTION_GROUPS]; /* without those of the next two */
    atomic_uint evicted;                   /* connections that gave way and are not closed yet */
    atomic_uint lingering;                 /* connections, see connection_leave() */
    atomic_uint delayed;                   /* tasks */
    int tick_ms;
    atomic_uint running; /* threads */
    struct front_thread **threads;
    uint32_t thread_count;
    /* Serves the thread's loop. true: it has ended; false: another thread waits to serve it. */
    bool (*serve)(struct front_thread *thread);
    pthread_mutex_t spare_lock; /* guards the fields below */
    pthread_cond_t relief;      /* a loop is to be taken over */
    struct spare *spares;       /* threads that serve a loop while its thread is busy, linked by `next` */
    uint32_t spare_count, spares_busy;
    bool spares_end;
};

/* lending.c: waits for its turn to serve the loop. */
void lending_begin(struct front_thread *thread);
/* Whether another thread waits to serve the loop; then this one no longer does. */
bool lending_yield(struct front_thread *thread);
/* Ends the spare threads. */
void lending_end(struct front *front);

/* front_task.c: wakes up the thread. The caller holds its lock. */
void front_interrupt(struct front_thread *thread);
/* Resumes the tasks in the order in which they were handed back. true: there were any. */
bool front_resume_tasks(struct front_thread *thread);
/* Resumes the delayed tasks whose time has come; all if the thread ends. */
void front_resume_delayed(struct front_thread *thread);
/* accept.c: accepts a connection that waits. false: none does, or, with out_wait_ns > 0, all that the server may have
 * are in use, and it has to wait that long until a client may give way. out_wait_ns NULL: it does not wait. */
bool front_accept(struct front *front, const listener_socket *listener, uint64_t *out_wait_ns);
#endif
