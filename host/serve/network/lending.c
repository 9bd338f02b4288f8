/* Runs that keep a thread of the network busy. Such a thread lends its loop before a run. If the run takes long,
 * front_relieve() wakes a spare thread, which serves the loop's other connections meanwhile. The thread that returns
 * from the run waits until the loop is free: a spare thread leaves it between two events. */
#include "base/clock.h"
#include "inlay/check.h"
#include "serve/base/server.h"
#include "serve/network/front.h"
#include "serve/network/front_internal.h"
#include <stdlib.h>
#include <sys/epoll.h>

enum { TAKE_OVER_NS = 5000000 }; /* many times what the scheduler expects of a run on this thread */

/* A spare thread. */
struct spare {
    struct front *front;
    pthread_t thread;
    struct spare *next;
    char buffer[CONNECTION_READ_BYTES];
};

/* What this thread has lent. */
struct loan {
    struct front_thread *thread;
    struct connection *connection;
    uint64_t since_ns;
    char *buffer;
};

static _Thread_local struct front_thread *serving; /* the loop of this thread; NULL: none, or it is lent */
static _Thread_local struct loan lent;

void lending_begin(struct front_thread *thread)
{
    uint64_t turn;

    (void)pthread_mutex_lock(&thread->lock);
    turn = thread->lending.asked++;
    if (thread->lending.is_served)
        front_interrupt(thread);
    while (thread->lending.is_served || thread->lending.came != turn)
        (void)pthread_cond_wait(&thread->lending.free, &thread->lock);
    thread->lending.came++;
    thread->lending.is_served = true;
    thread->lending.served_by = pthread_self();
    (void)pthread_mutex_unlock(&thread->lock);
    serving = thread;
}

bool lending_yield(struct front_thread *thread)
{
    bool waits;

    (void)pthread_mutex_lock(&thread->lock);
    waits = thread->lending.asked != thread->lending.came;
    if (waits) {
        thread->lending.is_served = false;
        (void)pthread_cond_broadcast(&thread->lending.free);
        serving = NULL;
    }
    (void)pthread_mutex_unlock(&thread->lock);
    return waits;
}

bool front_lend(void)
{
    struct front_thread *thread = serving;

    if (thread == NULL || thread->serving.current == NULL)
        return false;
    lent = (struct loan){ thread, thread->serving.current, clock_ns(), thread->serving.buffer };
    serving = NULL;
    atomic_store(&thread->lending.lent_ns, lent.since_ns); /* from here, a spare thread may serve it */
    return true;
}

void front_take_back(void)
{
    struct front_thread *thread = lent.thread;
    struct connection *connection = lent.connection;
    uint_fast64_t since = lent.since_ns;
    struct epoll_event event = { .events = connection->interest, .data.ptr = connection };

    if (atomic_compare_exchange_strong(&thread->lending.lent_ns, &since, 0)) {
        serving = thread;
        return;
    }
    lending_begin(thread);
    thread->serving.buffer = lent.buffer;
    thread->serving.current = connection;
    connection->lent.active = false;
    (void)epoll_ctl(thread->epoll, EPOLL_CTL_ADD, connection->fd, &event);
    for (front_task *task = thread->serving.held, *next; task != NULL; task = next) {
        next = task->next;
        task->next = thread->serving.resuming;
        thread->serving.resuming = task;
    }
    thread->serving.held = NULL;
    (void)pthread_mutex_lock(&thread->lock);
    thread->goaway |= connection->lent.missed_goaway;
    thread->cancel |= connection->lent.missed_cancel;
    (void)pthread_mutex_unlock(&thread->lock);
    connection->lent.missed_goaway = connection->lent.missed_cancel = false;
}

static bool is_overdue(struct front_thread *thread, uint64_t now)
{
    uint64_t since = atomic_load(&thread->lending.lent_ns);

    return since != 0 && now > since + TAKE_OVER_NS;
}

/* A loop that this thread now serves; NULL: none is needed. */
static struct front_thread *take_over(struct spare *spare)
{
    struct front *front = spare->front;
    uint64_t now = clock_ns();

    for (uint32_t i = 0; i < front->thread_count; i++) {
        struct front_thread *thread = front->threads[i];
        uint_fast64_t since = atomic_load(&thread->lending.lent_ns);

        if (!is_overdue(thread, now) || !atomic_compare_exchange_strong(&thread->lending.lent_ns, &since, 0))
            continue;
        (void)pthread_mutex_lock(&thread->lock);
        thread->lending.served_by = pthread_self();
        (void)pthread_mutex_unlock(&thread->lock);
        serving = thread;
        thread->serving.takeovers++;
        thread->serving.buffer = spare->buffer;
        thread->serving.current->lent.active = true;
        (void)epoll_ctl(thread->epoll, EPOLL_CTL_DEL, thread->serving.current->fd, NULL);
        return thread;
    }
    return NULL;
}

static void *relieve(void *user)
{
    struct spare *spare = user;
    struct front *front = spare->front;

    (void)pthread_mutex_lock(&front->spare_lock);
    while (!front->spares_end) {
        struct front_thread *thread = take_over(spare);

        if (thread == NULL) {
            (void)pthread_cond_wait(&front->relief, &front->spare_lock);
            continue;
        }
        front->spares_busy++;
        (void)pthread_mutex_unlock(&front->spare_lock);
        (void)front->serve(thread);
        (void)pthread_mutex_lock(&front->spare_lock);
        front->spares_busy--;
    }
    (void)pthread_mutex_unlock(&front->spare_lock);
    return NULL;
}

/* Starts a spare thread. The caller holds the lock. */
static bool add_spare(struct front *front)
{
    struct spare *spare = malloc(sizeof *spare);

    if (spare == NULL)
        return false;
    spare->front = front;
    if (pthread_create(&spare->thread, NULL, relieve, spare) != 0) {
        free(spare);
        return false;
    }
    spare->next = front->spares;
    front->spares = spare;
    front->spare_count++;
    return true;
}

void front_relieve(struct front *front)
{
    uint64_t now = clock_ns();
    uint32_t overdue = 0;

    if (front == NULL)
        return;
    for (uint32_t i = 0; i < front->thread_count; i++)
        overdue += is_overdue(front->threads[i], now);
    if (overdue == 0)
        return;
    (void)pthread_mutex_lock(&front->spare_lock);
    while (front->spare_count - front->spares_busy < overdue && add_spare(front))
        ;
    (void)pthread_cond_broadcast(&front->relief);
    (void)pthread_mutex_unlock(&front->spare_lock);
}

void lending_end(struct front *front)
{
    (void)pthread_mutex_lock(&front->spare_lock);
    front->spares_end = true;
    (void)pthread_cond_broadcast(&front->relief);
    (void)pthread_mutex_unlock(&front->spare_lock);
    while (front->spares != NULL) {
        struct spare *spare = front->spares;

        front->spares = spare->next;
        (void)pthread_join(spare->thread, NULL);
        free(spare);
    }
}
