/* exec/run/observer.h - what observes the runs of a context: profiles, measurements, checks, samples.
 *
 * A context has one list of observers. An observer chooses the steps that it wants to see, or sees all; the loop passes
 * these steps to exec/loop/observe.h, and runs all other steps as without an observer. An observer is the first member
 * of a struct of its owner:
 *
 *     struct counter { run_observer observer; uint64_t steps; };
 *     static inlay_status count(run_observer *observer, const run_event *event, inlay_diag *diag)
 *     {
 *         ((struct counter *)observer)->steps++; ...
 *     }
 *     static const run_observer_calls calls = { .end_step = count, .destroy = ... };
 */
#ifndef EXEC_OBSERVER_H
#define EXEC_OBSERVER_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stdint.h>

struct bound;
struct bound_step;
struct runner;
struct run_shared;

/* One execution of a step of a program, or of a kernel within a step. */
typedef struct run_event {
    struct runner *runner;
    struct bound *bound; /* bound->plan has the sizes; an observer that stores the plan takes a reference */
    const struct bound_step *step;
    uint64_t begin_ns, end_ns; /* on CLOCK_MONOTONIC; includes the time on the device, but no time of observers */
    uint32_t node; /* INLAY_NONE: the whole step; otherwise a kernel within it, for this node of the program's graph */
    const char *name;    /* of a kernel that has one, valid during the call; otherwise NULL */
    inlay_status status; /* of the step; end_ns is valid for INLAY_OK only */
    void *own;           /* what begin_step stored; NULL without it */
} run_event;

typedef struct run_observer run_observer;

/* The functions of an observer. Called by the thread that runs; those of a step also by other threads, for steps of
 * concurrent branches, if mark is set. A member may be NULL, except destroy. */
typedef struct run_observer_calls {
    /* Called before and after each run of the context. ok: it succeeded, and took ns. */
    void (*begin_run)(run_observer *observer, struct run_shared *shared);
    void (*end_run)(run_observer *observer, struct run_shared *shared, uint64_t ns, bool ok);
    /* Called before the steps of a program run: calls observers_mark_step() for those to observe, with `mark`. NULL:
     * all steps are observed, those of bodies and copies too, and run one after the other. */
    void (*mark)(run_observer *observer, struct bound *bound, uint8_t mark);
    /* Before a marked step. False: end_step is not called for this execution. NULL = true. */
    bool (*begin_step)(run_observer *observer, run_event *event);
    /* After the step and its work on a device, and after the events of the steps of its bodies. A failure ends the run;
     * the diag then has the whole message. */
    inlay_status (*end_step)(run_observer *observer, const run_event *event, inlay_diag *diag);
    /* For each kernel within a region, before the event of the region, if the provider reports kernels
     * (inlay_ext_steps). NULL: not wanted; the provider then need not read the clock. Only without mark. */
    void (*kernel)(run_observer *observer, const run_event *event);
    void (*destroy)(run_observer *observer);
} run_observer_calls;

struct run_observer {
    const run_observer_calls *calls;
};

enum { RUN_OBSERVERS = 8 }; /* at most, of one context: the bits of bound_step.observed */

/* The list of a context. All 0: no observers. */
typedef struct run_observers {
    run_observer *list[RUN_OBSERVERS]; /* owned; NULL = free */
    uint8_t used;                      /* bit i: list[i] is set */
    uint8_t all;                       /* bit i: list[i] observes all steps */
    bool failed;                       /* atomic; an observer ended the run: the message of the diag is complete */
} run_observers;
#endif
