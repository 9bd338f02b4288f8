/* device.h - between device.c, which says what the device can do, and region.c, which does it. */
#ifndef DEVICE_H
#define DEVICE_H
#include "chip.h"
#include "inlay/plugin.h"
#include <pthread.h>

enum { MOST_WAITS = 16, MOST_JOBS = 64, MOST_RANK = 8 };

/* A job of the chip with what the provider has to remember of it. */
typedef struct job {
    chip_job chip; /* first: the chip hands back its address */
    struct job *next_free;
    inlay_run *run;
    inlay_fence waits[MOST_WAITS], signal;
    uint32_t wait_count;
    inlay_status status; /* of what stopped it */
    inlay_diag why;
} job;

typedef struct device {
    const inlay_host *host;
    chip *chip;
    pthread_mutex_t mutex;
    pthread_cond_t freed;
    job *free_jobs; /* execute takes one of these, since it may not use the heap */
    job jobs[MOST_JOBS];
} device;

/* The chip's operation for a node, -1: it has none. */
int device_op(const inlay_node_info *node);

inlay_status device_compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                            inlay_diag *diag);
void device_release_compiled(void *state, inlay_compiled *compiled);
inlay_status device_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out_instance, inlay_diag *diag);
void device_release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance);
inlay_status device_execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args);
inlay_status device_copy(void *state, inlay_run *run, const inlay_buffer *source, const inlay_buffer *target,
                         const inlay_fence *waits, uint32_t wait_count, inlay_fence signal, inlay_diag *diag);
#endif
