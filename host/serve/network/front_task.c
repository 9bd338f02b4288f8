#include "serve/network/front_task.h"
#include "base/clock.h"
#include "inlay/check.h"
#include "serve/network/front_internal.h"
#include "serve/schedule/sched.h"
#include <unistd.h>

void front_interrupt(struct front_thread *thread)
{
    uint64_t one = 1;

    if (write(thread->event, &one, sizeof one) < 0) {
        /* The counter is at its maximum, so the thread wakes up anyway. */
    }
}

void front_wake(front_task *task)
{
    struct front_thread *thread = task->thread;

    (void)pthread_mutex_lock(&thread->lock);
    INLAY_CHECK(!task->queued);
    task->queued = true;
    task->next = thread->tasks;
    thread->tasks = task;
    if (task->next == NULL && !pthread_equal(thread->lending.served_by, pthread_self()))
        front_interrupt(thread); /* under the lock: afterwards the thread may end */
    (void)pthread_mutex_unlock(&thread->lock);
}

void front_later(front_task *task, uint64_t resume_ns)
{
    struct front_thread *thread = task->thread;

    INLAY_CHECK(pthread_equal(thread->lending.served_by, pthread_self()));
    task->resume_ns = resume_ns;
    task->counted = false;
    task->next = thread->serving.delayed;
    thread->serving.delayed = task;
}

bool front_delay(front_task *task, uint64_t resume_ns)
{
    struct front *front = task->thread->front;

    if (atomic_fetch_add(&front->delayed, 1) >= (front->limits[CONNECTION_CLIENTS] + 3) / 4) {
        (void)atomic_fetch_sub(&front->delayed, 1);
        return false;
    }
    front_later(task, resume_ns);
    task->counted = true;
    return true;
}

/* Whether its connection has a run that keeps another thread busy, so that the task has to wait. */
static bool is_lent(const front_task *task)
{
    return task->connection != NULL && task->connection->lent.active;
}

static void resume(struct front_thread *thread, front_task *task)
{
    thread->serving.current = task->connection;
    task->resume(task);
}

void front_resume_delayed(struct front_thread *thread)
{
    uint64_t now = thread->serving.delayed != NULL ? clock_ns() : 0;
    front_task *list = thread->serving.delayed;

    thread->serving.delayed = NULL;
    for (front_task *task = list, *next; task != NULL; task = next) {
        bool waits = is_lent(task) || (now < task->resume_ns && !thread->serving.ending);
        front_task **to = waits ? &thread->serving.delayed : &thread->serving.due;

        next = task->next;
        task->next = *to;
        *to = task;
    }
    /* A run in resume() may let another thread continue here. */
    for (front_task *task; (task = thread->serving.due) != NULL;) {
        thread->serving.due = task->next;
        if (task->counted)
            (void)atomic_fetch_sub(&thread->front->delayed, 1);
        resume(thread, task);
    }
}

bool front_resume_tasks(struct front_thread *thread)
{
    front_task *latest, *first = NULL, **end = &thread->serving.resuming;
    bool any = false;

    (void)pthread_mutex_lock(&thread->lock);
    latest = thread->tasks;
    thread->tasks = NULL;
    (void)pthread_mutex_unlock(&thread->lock);
    for (front_task *task = latest, *next; task != NULL; task = next) {
        next = task->next;
        task->next = first;
        first = task;
    }
    while (*end != NULL)
        end = &(*end)->next;
    *end = first;
    /* A run in resume() may let another thread continue here. */
    for (front_task *task; (task = thread->serving.resuming) != NULL;) {
        thread->serving.resuming = task->next;
        if (is_lent(task)) {
            task->next = thread->serving.held;
            thread->serving.held = task;
            continue;
        }
        any = true;
        (void)pthread_mutex_lock(&thread->lock);
        task->queued = false;
        (void)pthread_mutex_unlock(&thread->lock);
        resume(thread, task);
    }
    return any;
}
