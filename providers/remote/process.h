/* remote/process.h - the process of an isolated provider: starting it, calling it, and noticing that it has ended.
 *
 * A process that ends, because it crashed or was killed after it did not answer, may be started again. Each start has a
 * number, its generation; what the process returned in an earlier generation no longer exists. */
#ifndef ISOLATE_PROCESS_H
#define ISOLATE_PROCESS_H
#include "remote/heap.h"
#include "remote/shared.h"
#include <pthread.h>
#include <sys/types.h>

/* A process that has ended more than ISOLATE_MAX_ENDS times within the last ISOLATE_ENDS_SECONDS is not started again
 * until the first of these ends is that long ago. */
enum { ISOLATE_MAX_ENDS = 5, ISOLATE_ENDS_SECONDS = 60, ISOLATE_START_MS = 60000 };

typedef struct isolate_process {
    const char *helper;              /* path of inlay-probe; outlives this */
    const char *name;                /* of the provider or the plug-in, for messages; outlives this */
    int file;                        /* descriptor of the plug-in; outlives this */
    isolate_heap arguments, results; /* used by the holder of lock */
    isolate_header *header;
    uint32_t spins;       /* polls of a state before the host sleeps */
    uint32_t forks;       /* fork_count when it was initialised: a child of fork() does not use or end the process */
    pthread_mutex_t lock; /* guards all that follows, and both heaps */
    pthread_mutex_t start_lock;       /* held while the process is started; taken before lock */
    pthread_cond_t idle;              /* a channel has become free */
    uint32_t busy, served;            /* bit N: channel N carries a call; has a thread in the process */
    char *outboxes[ISOLATE_CHANNELS]; /* NULL: not used yet */
    pid_t pid;
    int pidfd, socket;
    uint32_t generation; /* 0 = never started */
    uint64_t tickets;    /* of calls; atomic */
    bool collided;       /* it ended because an address of the shared memory was in use there */
    bool running;
    uint64_t memory_bytes;               /* limit, see isolate_limits */
    uint64_t ends[ISOLATE_MAX_ENDS + 1]; /* times of the last ends, oldest first */
    uint32_t end_count;
    char why[250]; /* why it ended last */
} isolate_process;

/* How a call waits. Any member may be 0. */
typedef struct isolate_wait {
    /* Called every few milliseconds. A status other than INLAY_OK stops the call in the process, see
     * isolate_channel.stop; the process is killed if it has not returned after grace_ms. */
    inlay_status (*poll)(void *ctx);
    inlay_status (*callback)(void *ctx, isolate_channel *channel, isolate_callback *callback);
    void *ctx;         /* first argument of both */
    uint64_t limit_ms; /* after this time the process is killed; 0 = never */
    uint64_t grace_ms; /* 0 = limit_ms */
} isolate_wait;

/* Follow with isolate_process_deinit(), also after a failure. */
INLAY_NODISCARD inlay_status isolate_process_init(isolate_process *process, const char *helper, const char *name,
                                                  int file, inlay_diag *diag);
/* Limits the memory of the process, of the running one and of those that are started later. 0 = the default limit. */
void isolate_process_limit(isolate_process *process, uint64_t memory_bytes);
/* Kills the process. No call is in progress. */
void isolate_process_deinit(isolate_process *process);

/* Starts the process unless it runs, with a first call (DESCRIBE, CREATE). first (may be NULL) gets the channel and the
 * outbox of that call after it has succeeded. Returns the status of the call, or INLAY_DEVICE_LOST if the process
 * ended, or may not be started again. *out_generation: that of the running process. */
INLAY_NODISCARD inlay_status isolate_process_start(isolate_process *process, uint32_t call, const isolate_start *start,
                                                   void (*first)(void *ctx, const isolate_channel *channel,
                                                                 const char *outbox),
                                                   void *ctx, uint32_t *out_generation, inlay_diag *diag);

/* Reserves a channel of the running process. NULL: the process of this generation has ended. */
isolate_channel *isolate_channel_take(isolate_process *process, uint32_t generation);
void isolate_channel_give(isolate_process *process, isolate_channel *channel);
/* Gives the next call an outbox; *out_box is its address. */
INLAY_NODISCARD inlay_status isolate_channel_outbox(isolate_process *process, isolate_channel *channel,
                                                    const char **out_box, inlay_diag *diag);
/* Makes a call and returns its status; the caller has set the members of the channel. INLAY_DEVICE_LOST: the process
 * has ended; diag (may be NULL) says how. If wait->poll had stopped the call, its status is returned instead. */
inlay_status isolate_channel_call(isolate_process *process, isolate_channel *channel, uint32_t generation,
                                  uint32_t call, const void *request, const isolate_wait *wait, inlay_diag *diag);
/* May the process be started again now if it does not run? */
bool isolate_process_may_run(isolate_process *process);
#endif
