/* serve/network/front_task.h - requests that other threads hand back to the thread of their connection. */
#ifndef SERVE_FRONT_TASK_H
#define SERVE_FRONT_TASK_H
#include <stdbool.h>
#include <stdint.h>

struct connection;
struct front_thread;

/* Part of a request that another thread hands back: resume() runs on the connection's thread. */
typedef struct front_task {
    struct front_thread *thread;
    struct connection *connection; /* that has the request; NULL: it is gone */
    void (*resume)(struct front_task *task);
    bool queued;        /* guarded by the thread's lock */
    uint64_t resume_ns; /* see front_delay() */
    bool counted;       /* among the delayed ones */
    struct front_task *next;
} front_task;

/* Hands a task back to its thread. Any thread; from here the task may be freed. */
void front_wake(front_task *task);
/* Resumes a task on this thread, which is the task's, at that time. At most a quarter of max_connections are delayed at
 * a time, so that clients that guess tokens do not lock others out. false: a quarter is delayed already, and the task
 * is not resumed. */
bool front_delay(front_task *task, uint64_t resume_ns);
/* As front_delay(), without the limit: for tasks of clients that do not guess tokens. */
void front_later(front_task *task, uint64_t resume_ns);
#endif
