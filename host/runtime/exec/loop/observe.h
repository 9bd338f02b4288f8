/* exec/loop/observe.h - calls the observers of a context (exec/run/observer.h). */
#ifndef EXEC_OBSERVE_H
#define EXEC_OBSERVE_H
#include "exec/run/run.h"

/* Adds an observer, which the context owns from now on. Not during a run, like observers_remove(). */
void observers_add(run_shared *shared, run_observer *observer);
/* Removes and destroys the observer. NULL is a no-op. */
void observers_remove(run_shared *shared, run_observer *observer);
void observers_destroy(run_shared *shared); /* all of them */

/* Around each run of a context that has observers. */
void observers_begin_run(run_shared *shared);
void observers_end_run(run_shared *shared, uint64_t ns, bool ok);

/* Marks the steps to observe in the run that begins. True: the steps must run one after the other. */
bool observers_mark(run_shared *shared, struct bound *bound);
/* For run_observer_calls.mark. */
static inline void observers_mark_step(bound_step *step, uint8_t mark)
{
    step->observed |= mark;
    step->simple = false;
}

/* One execution of a marked step. */
struct observation {
    run_event event;
    uint8_t wanted; /* bit i: observer i is called at the end */
    void *own[RUN_OBSERVERS];
};

/* Before the step, whose mark it removes. */
void observation_begin(struct observation *observation, struct runner *runner, struct bound *bound, bound_step *step);
/* After the step, whose work on a device is done if an observer wants it; returns its status, or the failure of an
 * observer. */
inlay_status observation_end(struct observation *observation, inlay_status status, inlay_diag *diag);
#endif
