/* check/harness_run.h - the state of one run of the harness, shared by harness_run.c and harness_queue.c. */
#ifndef CHECK_HARNESS_RUN_H
#define CHECK_HARNESS_RUN_H
#include "check/harness.h"
#include <pthread.h>

/* The value of fences that others signal: not one that fits into 32 bits. */
#define FENCE_VALUE ((UINT64_C(1) << 32) + 3)

/* What execute gets besides the memory of tensors. */
struct frame {
    inlay_exec_args args;
    struct frame_arg {
        inlay_tensor_arg arg;
        uint64_t later[4]; /* members that a later host appends */
    } ins[CASE_INPUTS], outs[CASE_OUTPUTS];
    int64_t in_dims[CASE_INPUTS][CASE_RANK], out_dims[CASE_OUTPUTS][INLAY_MAX_RANK];
    inlay_fence waits[HARNESS_WAITS];
    inlay_diag diag;
};

/* The memory, arguments and fences of a run. */
struct run_state {
    const struct harness *harness;
    const op_case *entry; /* with the elements of the inputs */
    const harness_options *options;
    harness_result *result;
    struct guarded in[CASE_INPUTS], out[CASE_OUTPUTS], workspace;
    /* Inputs, outputs and workspace on the device; whole.handle 0: in host memory. */
    device_tensor device[CASE_INPUTS + CASE_OUTPUTS + 1];
    struct frame frame;   /* the arguments; after execute with its results */
    struct guarded bound; /* the arguments of bind, likewise */
    struct guarded hooks; /* an inlay_run, inaccessible when the run has ended */
    struct guarded shown; /* a copy of the frame, which execute gets; inaccessible as soon as execute has returned */
    bool allocated[CASE_OUTPUTS];
    pthread_mutex_t lock;
    device_link link;
    uint32_t wait_count;
    uint32_t own_wait_count; /* the number of leading waits that the provider itself signals */
};

static inline struct frame *shown_frame(const struct run_state *run)
{
    return (struct frame *)(void *)run->shown.data;
}

/* Notes the first violation of the contract. */
INLAY_PRINTF(3, 4)
void run_fault(harness_result *result, const char *fix, const char *format, ...);
/* Names the phase of the run, unless it is on another thread than the checker's. */
void run_phase(const struct run_state *run, const char *what);

/* Creates the buffer of tensor `index`: the host memory itself, or a device buffer with a copy of its content. */
INLAY_NODISCARD inlay_status run_place_buffer(struct run_state *run, uint32_t index, uint32_t domain,
                                              const struct guarded *host, inlay_buffer *out, inlay_diag *diag);
/* See inlay_run; ctx is the run_state. */
inlay_status run_allocate_output(void *ctx, uint32_t output, uint32_t rank, const int64_t *dims, inlay_buffer *out);
char *run_allocate_string(void *ctx, uint64_t bytes);

/* Calls execute once, with the waits, the binding and the workspace that the options ask for, and waits for the
 * work. */
INLAY_NODISCARD inlay_status run_call(struct run_state *run, inlay_diag *diag);
/* Releases the arguments of the last call. */
void run_call_release(struct run_state *run);

/* Inputs that are still being copied when execute is called. */
struct gate {
    struct run_state *run;
    pthread_t thread;
    inlay_fence open;
    uint64_t timelines[CASE_INPUTS]; /* of the copies; 0: none */
    char *sources[CASE_INPUTS];      /* of the copies; of inputs in host memory: their elements */
    uint32_t returned;               /* atomic: execute has returned */
    bool is_open, is_running;
};

/* Queues copies of the device inputs behind the gate. gate: zeroed. */
INLAY_NODISCARD inlay_status gate_queue_inputs(struct run_state *run, struct gate *gate, inlay_diag *diag);
/* Opens the gate on another thread, a little later than execute returns. */
void gate_start(struct gate *gate);
/* Opens the gate if it is closed, and waits for the copies. */
void gate_close(struct run_state *run, struct gate *gate);

/* Fences that are signalled in order while the run waits for them. */
struct fence_series {
    struct run_state *run;
    pthread_t thread;
    uint64_t timelines[HARNESS_WAITS];
    inlay_fence signal; /* of the run */
    uint32_t count;
    uint32_t returned; /* atomic: execute has returned */
    bool is_running;
};
/* Creates the fences of options->fences as further waits of the run. series: zeroed. */
INLAY_NODISCARD inlay_status fences_create(struct run_state *run, struct fence_series *series, inlay_diag *diag);
/* Signals them on another thread, in the order of the plan, as soon as execute has returned. */
void fences_start(struct fence_series *series, inlay_fence signal);
void fences_finish(struct fence_series *series);
#endif
