/* exec/run/run.h - the state of runs: a context's shared state, bound plans and runners; and functions that locate
 * values.
 *
 * Used by all parts of exec: devices, the loop over the steps, dynamic steps and control flow. */
#ifndef EXEC_RUN_H
#define EXEC_RUN_H
#include "exec/run/observer.h"
#include "exec/values/run_memory.h"
#include "exec/values/value.h"
#include "partition/cost/cost.h"
#include "plan/plan.h"
#include "threads/run.h"

struct runner;
struct bound;
typedef struct bound_step bound_step;

/* Callbacks from the loop and from devices into the layers above them. */
typedef struct run_calls {
    /* Run a HOST step, and a DYNAMIC one. */
    inlay_status (*host_step)(struct runner *runner, struct bound *bound, bound_step *step, inlay_diag *diag);
    inlay_status (*dynamic_step)(struct runner *runner, struct bound *bound, bound_step *step, inlay_diag *diag);
    /* evict_device_values() */
    void (*make_room)(struct runner *runner, bool idle, bool all);
} run_calls;

enum { POOL_SIZE = 64, POOL_SPARE_BYTES = 16 << 20 };

/* Memory of tensors that are created during a run. */
typedef struct run_tensors {
    run_memory *memory;           /* the session's; NULL = malloc */
    uint64_t max_bytes;           /* limit of one tensor */
    inlay_value *pool[POOL_SIZE]; /* unshared tensors whose memory may be reused */
    uint32_t pool_count;
    uint64_t pool_bytes; /* of the pool's tensors */
    uint64_t most_bytes; /* the most that runs had in use when they allocated memory, without what was idle */
    void *workspace;     /* host memory of dynamic steps, of which one runs at a time; see run_take_workspace() */
    uint64_t workspace_room;
    uint32_t refused_class; /* atomic: error class of the last allocation that a budget refused in this run; 0: none */
} run_tensors;

/* Elements of string tensors that a run created; kernels allocate them from their threads. */
typedef struct run_texts {
    struct arena arena;
    pthread_mutex_t lock; /* guards arena */
} run_texts;

/* State of a context whose device hangs. */
typedef struct run_hang {
    bool abandoned;                /* the device may still write here: no memory of the context is ever freed */
    bool unwinding;                /* the run in progress is being aborted */
    const uint32_t *caller_cancel; /* run.cancel of the caller, restored when a fallback program takes over */
} run_hang;

/* State shared by the runners of one context (those of the main graph and of its bodies). Used by one thread at a time,
 * except texts. */
typedef struct run_shared {
    inlay_run run;
    bool watched; /* a cancel flag or a deadline is set: poll between steps */
    run_hang hang;
    run_tensors tensors;
    run_texts texts;
    inlay_diag diag;              /* written by steps; copied to the caller's diag if a run fails */
    struct dynamic_call *dynamic; /* the step that output_alloc allocates outputs for */
    struct runner *root;          /* the runner of the main graph */
    run_observers observers;      /* usually none */
    const run_calls *calls;
} run_shared;

/* Frees the tensors of the pool, and the workspace unless a dynamic step is using it. */
void run_shared_drop(run_shared *shared);
/* The workspace of the dynamic step that runs next: at least `bytes` bytes at a multiple of alignment, valid until the
 * next call. All dynamic steps of the context share it. */
INLAY_NODISCARD inlay_status run_take_workspace(run_shared *shared, uint64_t bytes, uint64_t alignment,
                                                void **out_memory, inlay_diag *diag);
/* Checks a tensor size against max_run_bytes. INLAY_LIMIT_EXCEEDED: diag names the option. */
INLAY_NODISCARD inlay_status run_check_tensor_size(const run_shared *shared, uint64_t bytes, inlay_diag *diag);
/* Calls run_memory_take() with the session's memory; if that fails, empties the pool and tries again. */
INLAY_NODISCARD inlay_status run_take(run_shared *shared, uint64_t bytes, uint64_t alignment, void **out_memory,
                                      inlay_diag *diag);
/* A tensor from the pool, or a new one: unshared, not cleared. INLAY_LIMIT_EXCEEDED beyond max_run_bytes. */
INLAY_NODISCARD inlay_status pool_take(run_shared *shared, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                       inlay_value **out_value, inlay_diag *diag);
/* Creates an object for the value as run_value_to_object() does, but copies use memory from the pool. */
INLAY_NODISCARD inlay_status pool_value(run_shared *shared, const run_value *value, inlay_value **out_value,
                                        inlay_diag *diag);
/* Takes over the reference and returns the tensor to the pool if that was the last one. NULL is a no-op. */
void pool_give(run_shared *shared, inlay_value *value);

/* A step, ready to be called. */
struct bound_step {
    inlay_status (*execute)(void *state, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args);
    void *state;
    inlay_compiled *compiled;
    inlay_instance *instance;
    inlay_exec_args args;
    bool simple;       /* bound_step_is_simple(), and without a mark: one call */
    bool async;        /* signals the fence when done */
    uint8_t observed;  /* the next execution is passed to these observers (run_observers.list), see loop/observe.h */
    inlay_fence fence; /* on its own timeline; the value counts runs */
    const plan_step *plan;
    /* [wait_step_count] asynchronous steps whose results this step reads or whose bytes it overwrites; steps of the
     * same provider first */
    uint32_t *wait_steps;
    uint32_t wait_step_count;
    uint32_t own_wait_count; /* number of wait_steps that belong to its own provider */
    uint32_t copy_count; /* COPY: number of copies in this request, this one first; 0: part of a preceding request */
    struct inlay_copy *copies; /* [copy_count] arguments of the request, if it has several copies */
    /* room for wait_step_count fences and the fences of the caller's values (runner_inputs.ready) */
    inlay_fence *waits;
    struct dynamic_cache *cache; /* DYNAMIC: the last specialisation */
};

/* Returns whether the step is a synchronous EXEC that waits for no other step and for no weights. */
static inline bool bound_step_is_simple(const bound_step *step)
{
    return step->plan->kind == PLAN_EXEC && !step->async && step->wait_step_count == 0 &&
           step->plan->step->weights == NULL;
}

/* An address that must be updated when an input or output moves. */
struct patch {
    uint32_t place;
    inlay_buffer *target;
};

/* The shape of a value that the plan does not know, as observed in the last run; rank INLAY_RANK_UNKNOWN: not
 * observed. */
typedef struct observed_shape {
    uint32_t rank;
    int64_t dims[INLAY_MAX_RANK];
} observed_shape;

/* Values whose sizes the plan does not know. All pointers but `values` are NULL if the plan knows all sizes. */
typedef struct bound_dynamic {
    run_value *values; /* [value_count] DYNAMIC values of the run */
    /* [value_count] copies of values in another domain, made when a step there read them; a reference each */
    inlay_value **mirrors;
    inlay_fence *mirror_fences; /* [value_count] fences of mirrors that are still being copied; timeline 0: complete */
    inlay_fence last_mirror_fence; /* of the last copy that was started; the first copy creates its timeline */
    inlay_value_state *states;     /* [value_count] the plan's states, updated by dynamic steps */
    inlay_value_info *infos;       /* likewise */
    observed_shape **observed;     /* [value_count] NULL where the plan knows the shape */
    struct arena scratch;          /* of the dynamic or host step that runs */
    bool has_objects;              /* some input is an object that is held in values */
} bound_dynamic;

/* The slab of domain `from`, imported by another device: a buffer of its domain. */
typedef struct slab_import {
    inlay_buffer buffer;
    uint32_t from, reserved;
} slab_import;

/* The memory of a bound plan. */
typedef struct bound_memory {
    const void *base;     /* address of the runner's slab when the addresses were written; see bound_prepare */
    inlay_buffer *slabs;  /* [domain_count] slabs of devices; handle 0 = none */
    void **maps;          /* [domain_count] their addresses in host memory; NULL = not mapped */
    slab_import *imports; /* [import_count] slabs of devices that other devices read or write */
    uint32_t import_count;
    inlay_buffer *buffers; /* [place_count] current addresses */
    /* runner_inputs.captures of the run whose captured values the device has copies of; 0 = none */
    uint64_t captures;
    uint64_t counted_bytes; /* bytes added to program_env.memory.held_bytes */
} bound_memory;

/* Inputs and outputs that belong to the caller. */
typedef struct bound_ports {
    struct patch *patches; /* [patch_count] of INPUT and OUTPUT places */
    uint32_t patch_count;
    const run_value *inputs; /* of the run in progress */
} bound_ports;

/* State of asynchronous work. */
typedef struct bound_flight {
    bool has_async; /* some step is asynchronous */
    bool poisoned;  /* the last run failed on a device: the timelines must be replaced */
} bound_flight;

/* Data of the current run, as stored in the arguments of the steps. */
typedef struct bound_control {
    const uint32_t *cancel;
    uint64_t deadline_ns;
    uint32_t priority, power;
} bound_control;

/* A plan with memory. */
struct bound {
    struct plan *plan; /* a reference */
    struct arena arena;
    bound_memory memory;
    bound_ports ports;
    bound_step *steps;              /* [plan->step_count] */
    const bound_step *current_step; /* the slow step that runs, or ran last; NULL: none yet */
    bound_dynamic dynamic;
    bound_flight flight;
    bound_control control;
    /* how its concurrent branches run, see parallel_branches.h; NULL: it has none */
    struct parallel_branches *parallel;
    uint64_t last_used; /* runner_plans.clock */
};

/* Memory of an output that the host shares with a device; domain INLAY_DOMAIN_HOST: not shared. */
typedef struct output_share {
    uint32_t domain; /* the device that computes or reads the output */
    uint32_t now;    /* the domain used in this run */
    bool made;       /* the device computes the output */
} output_share;

typedef struct runner_outputs {
    inlay_value **values; /* [output_count] of the last run; a reference each, NULL after a failure */
    inlay_value **spares; /* [output_count] earlier memory of the outputs, for reuse */
    /* [output_count] buffers of outputs that are states kept in place; such an output has no value object. handle 0:
     * another output. NULL: no output is such a state. Borrowed */
    const inlay_buffer *placed;
    /* [output_count] domains where outputs stay unless the caller wants them elsewhere; NULL: host. Borrowed from the
     * node whose body this is */
    const uint32_t *domains;
    struct output_share *shares; /* [output_count]; NULL: no output is shared */
    inlay_value **wanted;        /* [output_count] the caller's values for outputs; borrowed; NULL = none given */
} runner_outputs;

/* A step that its provider declined to specialise during the run. */
typedef struct runner_declined {
    const program_step *step; /* the dynamic step; NULL = none */
    inlay_diag why;
} runner_declined;

/* Runners of fallback programs, which replace the runner's own program at some shapes (plan/create/fallback.h). */
typedef struct runner_fallback {
    struct runner *runners; /* head of the list */
    struct runner *next;    /* next in the list, if this runner is one of a fallback program */
} runner_fallback;

enum { MAX_BOUND_PLANS = 4 };

/* The plans that a runner has bound, and the host slab, which they share because only one of them runs at a time and no
 * run leaves values there. */
typedef struct runner_plans {
    struct bound *kept[MAX_BOUND_PLANS];
    struct bound *now;   /* of the last run */
    struct bound *busy;  /* of the run in progress; NULL = none, so that all of `kept` may be freed */
    struct bound *spare; /* a destroyed bound plan whose arena the next one reuses; or NULL */
    uint64_t clock;
    void *slab;
    uint64_t slab_bytes;
} runner_plans;

/* The inputs of a run. */
typedef struct runner_inputs {
    plan_input *key; /* [input_count + captured_count + output_count] */
    /* [input_count + output_count] fences that must be reached before the caller's device values are used; timeline 0:
     * none. NULL: no fences, the usual case. Borrowed */
    const inlay_fence *ready;
    uint64_t captures;  /* counts the distinct sets of captured values */
    bool same_captures; /* the next run has the same captured values as the last one: a later loop iteration */
} runner_inputs;

struct runner {
    struct program *prog;
    run_shared *shared;
    runner_plans plans;
    runner_inputs in;
    runner_outputs out;
    struct runner ***children; /* [step_count][body_count], created when first needed */
    /* the provider whose device failed in this run: lost, hanging or out of memory; NULL = none */
    const partition_provider *failed;
    runner_declined declined;
    runner_fallback fallback;
};

/* Allocates the entries for shapes that the plan does not know. False: out of memory. */
bool observed_shapes_create(struct bound *bound, uint32_t value_count);
/* Records the current shape of the value. */
void observed_shapes_record(struct bound *bound, uint32_t value, uint32_t rank, const int64_t *dims);
/* The shapes of the last run, [value_count] from the arena; rank INLAY_RANK_UNKNOWN for values that it did not compute.
 * Valid until the next run. NULL: out of memory. */
const cost_input *observed_sizes(const struct runner *runner, struct arena *arena);
/* The same shapes as inlay_value_state. Values that the last run did not compute have the shapes that were assumed when
 * the graph was partitioned. Requires a completed run. */
inlay_value_state *observed_states(const struct runner *runner, struct arena *arena);
/* The runner of `program`: `runner` itself or one of its bodies, recursively. NULL: that program did not run. runner
 * may be NULL. */
const struct runner *runner_of(const struct runner *runner, const struct program *program);

/* The buffer of a slab place as `domain` addresses it. runner may be NULL if the place is not in the runner's slab. */
inlay_buffer bound_in_slab(const struct runner *runner, const struct bound *bound, const plan_place *place,
                           uint32_t domain);
/* The alias of a place: the buffer by which the device addresses a host place in shared memory, or the host a device
 * place; handle 0: none. */
inlay_buffer bound_alias(const struct bound *bound, uint32_t place);
/* The current state of a value: a place, or a dynamic value. kind 0: absent. */
run_value runner_value(const struct bound *bound, uint32_t value);
#endif
