/* plugin/serial.h - at most one execute of an instance at a time (INLAY_PROVIDER_SERIAL_EXECUTE).
 *
 * An execute begins when the previous one of the same instance has returned and its fence is reached. Waiting runs poll
 * for cancellation. The functions may be called from any thread. */
#ifndef PLUGIN_SERIAL_H
#define PLUGIN_SERIAL_H
#include "inlay/execution.h"
#include <pthread.h>
#include <stdbool.h>

struct serial_entry;
struct serial {
    pthread_mutex_t mutex;
    pthread_cond_t freed;
    struct serial_entry *entries; /* of the instances that exist */
};

void serial_init(struct serial *serial);
void serial_deinit(struct serial *serial);
/* Adds an instance that specialize returned; several calls may have returned the same one. False: out of memory. */
bool serial_add(struct serial *serial, const void *instance);
/* Before release_instance. */
void serial_remove(struct serial *serial, const void *instance);
/* Waits for the turn of an execute. INLAY_CANCELLED, INLAY_DEADLINE_EXCEEDED: the run was stopped; do not execute. */
INLAY_NODISCARD inlay_status serial_enter(struct serial *serial, const void *instance, const inlay_run *run);
/* After the execute. signal: its fence; {0} if it failed, or if the provider is not asynchronous. */
void serial_leave(struct serial *serial, const void *instance, inlay_fence signal);
#endif
