/* device.h - shared by device.c, which describes the device, and region.c, which runs regions on it. */
#ifndef DEVICE_H
#define DEVICE_H
#include "chip.h"
#include "inlay/plugin.h"
#include <pthread.h>

enum { MOST_WAITS = 16, MOST_JOBS = 64, MOST_RANK = 8 };

/* A job of the chip, and the provider's data for the job. */
struct job {
    chip_job chip; /* first member: the chip passes its address to the callbacks */
    struct job *next_free;
    inlay_run *run;
    inlay_fence waits[MOST_WAITS], signal;
    uint32_t wait_count;
    inlay_status status; /* why it stopped */
    inlay_diag why;
};

struct device {
    const inlay_host *host;
    struct chip *chip;
    pthread_mutex_t mutex;
    pthread_cond_t freed;
    struct job *free_jobs; /* for execute, which must not use the heap */
    struct job jobs[MOST_JOBS];
};

/* Returns the chip's operation for a node, -1: not supported. */
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
