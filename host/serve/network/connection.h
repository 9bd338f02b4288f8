/* serve/network/connection.h - a connection of the front: its socket, TLS and pending output, below HTTP/1.1 and
 * HTTP/2. */
#ifndef SERVE_CONNECTION_H
#define SERVE_CONNECTION_H
#include "base/strbuf.h"
#include "serve/network/front_task.h"
#include "serve/base/server.h"
#include "serve/network/tls.h"
#include <pthread.h>

enum { CONNECTION_READ_BYTES = 65536 };

struct connection;

/* LISTENER_GRPC: HTTP/2 only; LISTENER_ADMIN: health and metrics only. */
typedef enum listener_kind { LISTENER_REST, LISTENER_GRPC, LISTENER_ADMIN } listener_kind;
typedef struct listener_socket {
    int fd; /* -1 = closed */
    listener_kind kind;
    bool is_ours; /* not passed by a parent, which may hold it, too */
    bool is_loopback;
} listener_socket;

/* Each group has a separate limit, so that clients do not keep health checks out. CONNECTION_REFUSED: beyond
 * max_connections; they are answered 503. */
typedef enum connection_group {
    CONNECTION_CLIENTS,
    CONNECTION_ADMIN,
    CONNECTION_REFUSED,
    CONNECTION_GROUPS
} connection_group;

/* Whom a connection waits for. */
typedef enum connection_turn {
    CONNECTION_SERVER,  /* a request is in progress */
    CONNECTION_CLIENT,  /* the rest of a body, or the client has to read */
    CONNECTION_IDLE,    /* the next request; may give way to another connection */
    CONNECTION_READING, /* its thread handles an event of the idle connection: a request may have arrived */
    CONNECTION_EVICTED  /* it was closed to make room for a new connection, or lingers */
} connection_turn;

/* What speaks on a connection: HTTP/1.1 or HTTP/2. Called by the connection's thread. */
struct protocol {
    bool (*event)(struct connection *connection, uint32_t events); /* of epoll; false: it has to be closed */
    bool (*is_slow)(struct connection *connection, uint64_t now);  /* its client is too slow */
    bool (*goaway)(struct connection *connection); /* accepts no new requests; false: it has to be closed. NULL: none */
    bool (*close)(struct connection *connection);  /* false: the connection is freed when its request ends */
};

struct front;
struct http1_connection;
struct http2_connection;
/* Who serves the connections of a thread: itself, or a spare one while a run keeps it busy; see lending.c. */
typedef struct front_lending {
    pthread_t served_by;
    bool is_served;       /* false: the first that waits becomes `served_by` */
    uint64_t asked, came; /* threads that have waited to serve it, and those that no longer wait */
    pthread_cond_t free;
    atomic_uint_fast64_t lent_ns; /* since when a run has kept `served_by` busy; 0 = none, or a spare thread serves */
} front_lending;

/* The state of serving the connections of a thread: used only by lending.served_by. */
typedef struct front_serving {
    struct connection *current; /* whose event or task is handled; NULL: it is gone */
    uint64_t takeovers;         /* by spare threads so far */
    front_task *resuming;       /* of `tasks`, in the order in which they are resumed */
    front_task *held;           /* their connection is lent */
    front_task *delayed, *due;
    bool ending;     /* `stop` is set */
    bool has_probes; /* a client that sends no more may be gone */
    char *buffer;    /* [CONNECTION_READ_BYTES] for receiving: own_buffer, or a spare thread's */
} front_serving;

struct front_thread {
    struct front *front;
    struct server *server;
    int epoll, event;
    pthread_t thread;
    bool started;
    struct connection *connections; /* changed by the thread, under the lock */
    atomic_uint connection_count;   /* with those of `incoming` */
    pthread_mutex_t lock;           /* guards the list `connections` and the fields up to `lending` */
    struct connection *incoming;    /* accepted by other threads, linked by `next` */
    front_task *tasks;              /* handed back, latest first */
    bool goaway, cancel, stop;
    bool evicted;    /* a connection of this thread was closed to make room for another */
    bool close_idle; /* see front_close_idle(); until it is done */
    front_lending lending;
    front_serving serving;
    char own_buffer[CONNECTION_READ_BYTES];
};

struct connection {
    struct front_thread *thread;
    struct server *server;
    const listener_socket *from;
    connection_group group;
    int fd;
    uint32_t interest;    /* events of epoll */
    struct client client; /* see connection_client() */
    struct {
        gnutls_session_t session; /* NULL: no TLS */
        bool secured;             /* the handshake is complete */
    } tls;
    bool checked;       /* client.is_trusted is known */
    bool is_registered; /* with epoll */
    struct {
        bool active;                       /* a run of it keeps a thread busy, and a spare thread serves the others */
        bool missed_goaway, missed_cancel; /* requested meanwhile */
    } lent;
    bool is_heard;                   /* bytes of the client have arrived */
    bool goaway_sent;                /* HTTP/2 */
    bool lingers;                    /* nothing is sent any more, and input is ignored until the client closes it */
    const struct protocol *protocol; /* NULL: not known yet */
    struct http1_connection *http1;  /* this or http2 is set once the protocol is known */
    struct http2_connection *http2;
    struct strbuf out; /* output; the socket has taken the first `sent` bytes */
    size_t sent;
    uint64_t reply_bytes; /* of requests, see request_hold_reply() */
    /* it was closed to make room for a new connection; set under the lock of the thread */
    atomic_bool evicted;
    atomic_int turn;               /* connection_turn */
    atomic_uint_fast64_t since_ns; /* when it began to wait for the client */
    struct connection *next, *previous;
};

/* Writes the address of a client; "": it has none. */
void connection_client_text(const struct sockaddr *client, char *text, size_t bytes);
/* Closes the connection, unless a request in progress still needs it. */
void connection_close(struct connection *connection);
/* Closes it after its last output. After GOAWAY, requests may arrive that the client sent before it received it.
 * They would cause a reset, which can discard GOAWAY unread, so the connection waits until the client closes it. */
void connection_leave(struct connection *connection);
/* Frees it. Called by connection_close() and by protocols, on its thread. */
void connection_destroy(struct connection *connection);
/* Handles events of epoll. */
void connection_event(struct connection *connection, uint32_t events);
/* Closes it if its client is too slow. */
void connection_check_time(struct connection *connection, uint64_t now);

/* Nanoseconds since it began to wait for its client. */
uint64_t connection_waited_ns(const struct connection *connection, uint64_t now);

/* As recv() and send(), over TLS or not; -1 with errno EAGAIN: try again later. */
ssize_t connection_receive(struct connection *connection, void *to, size_t bytes);
/* Sends a prefix of the first part followed by the second. */
ssize_t connection_send(struct connection *connection, const void *first, size_t first_bytes, const void *second,
                        size_t second_bytes);
/* Whether TLS holds bytes that epoll does not report. */
bool connection_has_more(const struct connection *connection);
/* Selects the events to wait for (EPOLLIN, EPOLLOUT, EPOLLRDHUP). */
void connection_watch(struct connection *connection, uint32_t events);
void connection_set_turn(struct connection *connection, connection_turn turn);
/* Whether bytes have arrived that its thread has not read yet. Any thread may call it. */
bool connection_has_input(const struct connection *connection);
/* CONNECTION_IDLE or CONNECTION_READING to CONNECTION_SERVER. A connection that just gave way is kept; false: it cannot
 * be. */
bool connection_begin_request(struct connection *connection);
/* The client, after the TLS handshake; valid as long as the connection. */
const struct client *connection_client(struct connection *connection);
#endif
