/* serve/exchange/prepare.h - the threads that do what a request needs before its run, if that may take long: they
 * decode and read its body, build grammars, render templates and make tokens. The threads of the network answer other
 * requests meanwhile.
 *
 * A thread whose request takes more than some ms goes on at a low priority and ends after it; another thread takes its
 * place. So requests that take long keep neither other requests nor runs waiting. Large requests begin at the low
 * priority, and only as many as CPUs at a time. */
#ifndef SERVE_PREPARE_H
#define SERVE_PREPARE_H
#include "codecs/coding.h"
#include "serve/exchange/request.h"

struct prepare;

enum { PREPARE_BYTES = 256 << 10, PREPARE_LARGE_BYTES = 4 << 20, PREPARE_LARGE_CODED_BYTES = 64 << 10 };

typedef struct prepare_figures {
    uint32_t running, waiting;
    uint32_t stuck; /* running, though the time limit has passed, or the client has left, some seconds ago */
    uint64_t count; /* requests so far */
    uint64_t ns;    /* the time that they took together */
} prepare_figures;

INLAY_NODISCARD inlay_status prepare_create(struct prepare **out_prepare, inlay_diag *diag);
/* Whether a body may take long, so that prepare_submit() should get its request. json_bytes: what has to be read of it;
 * is_coded: it is compressed. */
static inline bool prepare_is_needed(size_t json_bytes, bool is_coded)
{
    return json_bytes > (is_coded ? PREPARE_BYTES / CODING_DEFLATE_RATIO : PREPARE_BYTES);
}

/* Whether a body certainly takes long. */
static inline bool prepare_is_large(size_t body_bytes, bool is_coded)
{
    return body_bytes > (is_coded ? PREPARE_LARGE_CODED_BYTES : PREPARE_LARGE_BYTES);
}

/* Waits for the requests that run. NULL is a no-op. */
void prepare_destroy(struct prepare *prepare);
/* Suspends the request until one of the threads has called work(request, NULL), or any thread has called work(request,
 * failure): the request was not begun, because its client left, its deadline passed or the server ends. work() passes
 * the request on to another thread by request_suspend() or request_wake(); otherwise the request is woken afterwards.
 * Called by the connection's thread. */
void prepare_submit(struct prepare *prepare, struct request *request, bool is_large, prepare_work work);
/* The client has left: the request is ended if it waits, and request_goes_on() returns false if it runs. Called by the
 * connection's thread. */
void prepare_cancel(struct prepare *prepare, struct request *request);
/* Ends requests whose deadline passed while they waited, and lowers the priority of threads. Called periodically. */
void prepare_check(struct prepare *prepare);
/* The server ends: ends the requests that wait, and stops those that run. */
void prepare_end(struct prepare *prepare);
prepare_figures prepare_figures_of(struct prepare *prepare);
#endif
