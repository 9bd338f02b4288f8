#include "plugin/serial.h"
#include "base/clock.h"
#include "inlay/check.h"
#include "threads/fence.h"
#include "threads/run.h"
#include <stdlib.h>
#include <time.h>

enum { POLL_NS = 5000000 };

struct serial_entry {
    struct serial_entry *next;
    const void *instance;
    inlay_fence last; /* of the latest execute */
    uint32_t references;
    bool busy;
};

void serial_init(struct serial *serial)
{
    pthread_condattr_t attributes;

    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&serial->mutex, NULL);
    (void)pthread_cond_init(&serial->freed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    serial->entries = NULL;
}

void serial_deinit(struct serial *serial)
{
    while (serial->entries != NULL) {
        struct serial_entry *entry = serial->entries;

        serial->entries = entry->next;
        free(entry);
    }
    (void)pthread_cond_destroy(&serial->freed);
    (void)pthread_mutex_destroy(&serial->mutex);
}

/* The link to the entry, or to NULL. The mutex is held. */
static struct serial_entry **find(struct serial *serial, const void *instance)
{
    struct serial_entry **link = &serial->entries;

    while (*link != NULL && (*link)->instance != instance)
        link = &(*link)->next;
    return link;
}

bool serial_add(struct serial *serial, const void *instance)
{
    struct serial_entry **link, *entry;

    (void)pthread_mutex_lock(&serial->mutex);
    link = find(serial, instance);
    entry = *link != NULL ? *link : calloc(1, sizeof *entry);
    if (entry != NULL) {
        entry->instance = instance;
        entry->references++;
        *link = entry;
    }
    (void)pthread_mutex_unlock(&serial->mutex);
    return entry != NULL;
}

void serial_remove(struct serial *serial, const void *instance)
{
    struct serial_entry **link, *entry;

    (void)pthread_mutex_lock(&serial->mutex);
    link = find(serial, instance);
    entry = *link;
    INLAY_CHECK(entry != NULL && entry->references > 0);
    if (entry != NULL && --entry->references == 0) {
        *link = entry->next;
        free(entry);
    }
    (void)pthread_mutex_unlock(&serial->mutex);
}

/* Waits until no other thread executes the instance. The mutex is held. */
static inlay_status wait_for_turn(struct serial *serial, const struct serial_entry *entry, const inlay_run *run)
{
    inlay_status status = INLAY_OK;

    while (entry->busy && status == INLAY_OK) {
        const uint64_t until = clock_ns() + POLL_NS;
        const struct timespec time = { (time_t)(until / 1000000000), (long)(until % 1000000000) };

        (void)pthread_cond_timedwait(&serial->freed, &serial->mutex, &time);
        status = run != NULL ? run_poll(run) : INLAY_OK;
    }
    return status;
}

inlay_status serial_enter(struct serial *serial, const void *instance, const inlay_run *run)
{
    struct serial_entry *entry;
    inlay_status status;
    inlay_fence last = { 0, 0 };

    (void)pthread_mutex_lock(&serial->mutex);
    entry = *find(serial, instance);
    INLAY_CHECK(entry != NULL);
    status = wait_for_turn(serial, entry, run);
    if (status == INLAY_OK) {
        entry->busy = true;
        last = entry->last;
    }
    (void)pthread_mutex_unlock(&serial->mutex);
    /* A failure of the earlier work does not concern this run. */
    if (status != INLAY_OK || last.timeline == 0 || fence_wait(last, run, NULL) == INLAY_OK ||
        fence_reached(last, NULL))
        return status;
    status = run != NULL ? run_poll(run) : INLAY_OK;
    if (status != INLAY_OK)
        serial_leave(serial, instance, last);
    return status;
}

void serial_leave(struct serial *serial, const void *instance, inlay_fence signal)
{
    struct serial_entry *entry;

    (void)pthread_mutex_lock(&serial->mutex);
    entry = *find(serial, instance);
    INLAY_CHECK(entry != NULL && entry->busy);
    entry->busy = false;
    if (signal.timeline != 0)
        entry->last = signal;
    (void)pthread_cond_broadcast(&serial->freed);
    (void)pthread_mutex_unlock(&serial->mutex);
}
