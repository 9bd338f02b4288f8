/* serve/base/run_budget.h - runs that wait until other runs have freed memory.
 *
 * The runs of all models together may use as many bytes as library option process_memory_budget states. A run whose
 * allocation exceeds the budget frees its own memory. If other runs hold the memory that it needs, it waits until they
 * have freed a part, and is attempted again; only one of the runs that have waited is attempted at a time. A run fails
 * if its allocation exceeds the budget although other runs hold almost no memory. */
#ifndef SERVE_BASE_RUN_BUDGET_H
#define SERVE_BASE_RUN_BUDGET_H
#include "inlay/inlay.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Of the process. Any thread may use it. */
struct run_budget {
    uint64_t bytes;                   /* the budget; 0 = none */
    uint64_t (*used)(void *user);     /* bytes that all runs hold now, also between runs */
    void (*release_idle)(void *user); /* frees what only later runs would use */
    void *user;                       /* of both functions */
    atomic_uint_fast64_t *waits;      /* counts the runs that have waited; borrowed */
    pthread_mutex_t release_lock; /* held during release_idle() */
    pthread_mutex_t lock;
    uint32_t running; /* runs whose memory is not idle, without those that wait */
    uint64_t begun;   /* runs so far */
    uint64_t ended;   /* runs that have ended */
    bool is_taken;    /* a run that has waited is attempted again now */
};

/* A run, from its first attempt to the last; zero it before. */
typedef struct run_turn {
    uint64_t number; /* of the attempt */
    uint64_t ended;  /* runs that had ended when the run became the next */
    uint64_t others; /* bytes that other runs held when the attempt began; set if is_next */
    bool was_alone;  /* no other run was in progress when the attempt began */
    bool is_next;    /* it has waited, and is attempted again now */
    uint32_t attempts;
    const uint32_t *cancel; /* 1 = the run is to stop; polled */
    uint64_t deadline_ns;   /* by clock_ns(); 0 = none */
} run_turn;

/* Sets the lock; the caller sets the other fields. */
void run_budget_init(struct run_budget *budget);
void run_budget_deinit(struct run_budget *budget);

/* Before each attempt. */
void run_budget_begin(struct run_budget *budget, run_turn *turn);
/* After each attempt: once it was refused memory and has freed its own, or once its memory is idle, so that
 * release_idle() finds it. */
void run_budget_end(struct run_budget *budget);
/* After an attempt that was refused memory, and run_budget_end(): waits. INLAY_OK: try again. Otherwise the status of
 * the run: INLAY_LIMIT_EXCEEDED, with *diag as it was, if waiting would not help; INLAY_BUSY if it has not helped
 * often; INLAY_CANCELLED; INLAY_DEADLINE_EXCEEDED. */
inlay_status run_budget_wait(struct run_budget *budget, run_turn *turn, inlay_diag *diag);
/* After the last attempt. */
void run_budget_leave(struct run_budget *budget, run_turn *turn);
#endif
