/* exec/run/run.h - the state of runs: what a context has, a bound plan, a runner; and where they find values.
 *
 * Whatever runs works on these: devices, the loop over the steps, slow steps, control flow. */
#ifndef EXEC_RUN_H
#define EXEC_RUN_H
#include "exec/values/run_memory.h"
#include "exec/values/value.h"
#include "partition/cost/cost.h"
#include "plan/plan.h"
#include "threads/run.h"

struct runner;
struct bound;
typedef struct bound_step bound_step;

/* What the loop and devices have done by what is built on top of them. */
typedef struct run_calls {
    /* Run a HOST step, and a DYNAMIC one. */
    inlay_status (*host_step)(struct runner *runner, struct bound *bound, bound_step *step, inlay_diag *diag);
    inlay_status (*dynamic_step)(struct runner *runner, struct bound *bound, bound_step *step, inlay_diag *diag);
    /* stay_make_room() */
    void (*make_room)(struct runner *runner, bool idle, bool all);
} run_calls;

enum { POOL_SIZE = 64 };

/* Memory for tensors that are made in a run. */
typedef struct run_tensors {
    run_memory *memory;           /* the session's; NULL = malloc */
    uint64_t max_bytes;           /* limit of one tensor */
    inlay_value *pool[POOL_SIZE]; /* unshared tensors whose memory is free for use */
    uint32_t pool_count;
} run_tensors;

/* Elements of string tensors that a run has made; kernels allocate them from their threads. */
typedef struct run_texts {
    struct arena arena;
    pthread_mutex_t lock; /* guards a */
} run_texts;

/* What is left of a run whose device hangs. */
typedef struct run_hang {
    bool abandoned;        /* the device may still write here: nothing of the context is ever freed */
    bool unwinding;        /* the run in progress gives up ... */
    const uint32_t *asked; /* ... whose own run.cancel this is, for when others take over */
} run_hang;

/* What the runners of one context (the main graph's and those of its bodies) share. Used by one thread at a time, but
 * for texts. */
typedef struct run_shared {
    inlay_run run;
    bool watched; /* a cancel word or a deadline is set: poll between steps */
    run_hang hang;
    run_tensors tensors;
    run_texts texts;
    inlay_diag diag;               /* what steps write to; copied to the caller's when a run fails */
    struct dynamic_call *dynamic;  /* the step whose outputs output_alloc is for */
    struct runner *root;           /* the main graph's */
    const struct watch_hook *hook; /* who hears of every step, see watch.h; NULL = nobody, the usual case */
    const run_calls *calls;
} run_shared;

/* ------------------------------------------------------------------ memory that is used again, pool.c */

/* Frees the tensors of the pool. */
void run_shared_drop(run_shared *shared);
/* Is a tensor of these bytes within the limit? Otherwise INLAY_LIMIT_EXCEEDED, and diag names the option. */
INLAY_NODISCARD inlay_status run_may_take(const run_shared *shared, uint64_t bytes, inlay_diag *diag);
/* run_memory_take() of the session's; the pool is given up for it. */
INLAY_NODISCARD inlay_status run_take(run_shared *shared, uint64_t bytes, uint64_t alignment, void **out_memory,
                                      inlay_diag *diag);
/* A tensor from the pool or new, unshared, not cleared. INLAY_LIMIT_EXCEEDED beyond max_run_bytes. */
INLAY_NODISCARD inlay_status pool_take(run_shared *shared, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                       inlay_value **out_value, inlay_diag *diag);
/* An object for the value, as rt_to_value() makes it, but copies lie in memory from the pool. */
INLAY_NODISCARD inlay_status pool_value(run_shared *shared, const rt_value *value, inlay_value **out_value,
                                        inlay_diag *diag);
/* Takes over the reference: back into the pool when nobody else has one. NULL is a no-op. */
void pool_give(run_shared *shared, inlay_value *value);

/* A step, ready to be called. */
struct bound_step {
    inlay_status (*execute)(void *state, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args);
    void *state;
    inlay_compiled *compiled;
    inlay_instance *instance;
    inlay_exec_args args;
    bool simple;       /* synchronous EXEC that waits for nobody: one call */
    bool async;        /* signals fence when done */
    inlay_fence fence; /* its own timeline; value counts runs */
    const plan_step *plan;
    uint32_t *wait_steps; /* [wait_step_count] asynchronous steps whose places it reads or bytes it writes, its own
                             provider's first */
    uint32_t wait_step_count;
    uint32_t own_wait_count; /* so many of them are its own provider's */
    uint32_t copy_count;     /* COPY: this one and those behind it that go with it; 0: goes with one before */
    inlay_copy *copies;      /* room for as many, where there are several */
    inlay_fence *waits; /* room for as many, and for what comes before the caller's values, see runner_inputs.ready */
    struct dynamic_cache *cache; /* DYNAMIC: the last specialisation */
};

/* Where an address has to be written when an input or output moves. */
struct patch {
    uint32_t place;
    inlay_buffer *target;
};

/* The size of a value that a plan does not know, as the last run found it; rank INLAY_RANK_UNKNOWN: none did. */
typedef struct seen_shape {
    uint32_t rank;
    int64_t dims[INLAY_MAX_RANK];
} seen_shape;

/* Values whose sizes the plan does not know. All but values is NULL where it knows them all. */
typedef struct bound_made {
    rt_value *values;          /* [value_count] DYNAMIC values of the run */
    inlay_value **twins;       /* [value_count] the same values in another domain, where somebody has read them there; a
                                  reference each */
    inlay_fence *arrivals;     /* [value_count] of twins that are on their way; timeline 0: it is there */
    inlay_fence arrival;       /* the last of them, on a timeline that is made with the first */
    inlay_value_state *states; /* [value_count] the plan's, overwritten by dynamic steps */
    inlay_value_info *infos;   /* likewise */
    seen_shape **seen;         /* [value_count] NULL where the plan knows */
    struct arena scratch;      /* of the dynamic or host step that runs */
    bool has_objects;          /* some input is an object held in values */
} bound_made;

/* Where a bound plan's bytes are. */
typedef struct bound_memory {
    const void *base;       /* where the runner's slab was when addresses were written; see bound_settle */
    inlay_buffer *slabs;    /* [domain_count] of devices; handle 0 = none */
    void **maps;            /* [domain_count] where the host sees them; NULL = it does not */
    inlay_buffer *buffers;  /* [place_count] current addresses */
    uint64_t captures;      /* of which set the device has copies, see runner_inputs.captures; 0 = none */
    uint64_t counted_bytes; /* what it added to program_env.held_bytes */
} bound_memory;

/* What comes from the caller and goes to it. */
typedef struct bound_ports {
    struct patch *patches; /* [patch_count] of INPUT and OUTPUT places */
    uint32_t patch_count;
    const rt_value *inputs; /* of the run in progress */
} bound_ports;

/* Work that a device does behind the host's back. */
typedef struct bound_flight {
    bool has_async; /* some step does such work */
    bool poisoned;  /* the last run failed on a device: its timelines are to be renewed */
} bound_flight;

/* What the arguments of steps say of when to stop. */
typedef struct bound_control {
    const uint32_t *cancel;
    uint64_t deadline_ns;
} bound_control;

/* A plan with memory. */
struct bound {
    struct plan *plan; /* a reference */
    struct arena arena;
    bound_memory memory;
    bound_ports ports;
    bound_step *steps;    /* [plan->step_count] */
    const bound_step *at; /* the slow step in hand, or the last one; NULL: none yet */
    bound_made made;
    bound_flight flight;
    bound_control control;
    struct side *side;  /* how its waves go, see side.h; NULL: it has none */
    uint64_t last_used; /* runner_plans.clock */
};

/* The memory of an output that a device has in common with the host; domain INLAY_DOMAIN_HOST: none has. */
typedef struct output_share {
    uint32_t domain; /* that makes or reads it */
    uint32_t now;    /* the one in this run */
    bool made;       /* it makes it */
} output_share;

typedef struct runner_outputs {
    inlay_value **values;        /* [output_count] of the last run; a reference each, NULL after a failure */
    inlay_value **spares;        /* [output_count] memory that an output had before, to be used again */
    const inlay_buffer *placed;  /* [output_count] where outputs lie that are states in place, and then have no object;
                                    handle 0: not this one. NULL: none is. Borrowed */
    const uint32_t *homes;       /* [output_count] domains in which outputs stay that nobody wants elsewhere; NULL: the
                                    host's. Borrowed from the node whose body it is */
    struct output_share *shares; /* [output_count]; NULL: nothing is shared */
    inlay_value **wanted;        /* [output_count] where the caller wants outputs; borrowed; NULL = anywhere */
} runner_outputs;

/* What specialize declined in the run. */
typedef struct runner_declined {
    const program_step *step; /* the dynamic step; NULL = none */
    inlay_diag why;
} runner_declined;

/* Runners of programs that stand in for a runner's own at some shapes (plan/create/fallback.h). */
typedef struct runner_fallback {
    struct runner *runners; /* as a list ... */
    struct runner *next;    /* ... in which this one is, too, where it stands in */
} runner_fallback;

enum { BOUNDS_KEPT = 4 };

/* The plans that a runner has memory for, and the host memory of whichever runs: one run at a time, and none leaves
 * anything there. */
typedef struct runner_plans {
    struct bound *kept[BOUNDS_KEPT];
    struct bound *now;   /* of the last run */
    struct bound *busy;  /* of the run in progress; NULL = none, so that all may be dropped that is kept for another */
    struct bound *spare; /* a bound plan that has gone, whose memory is the next one's; or NULL */
    uint64_t clock;
    void *slab;
    uint64_t slab_bytes;
} runner_plans;

/* What a run is given. */
typedef struct runner_inputs {
    plan_input *key;          /* [input_count + captured_count + output_count] */
    const inlay_fence *ready; /* [input_count + output_count] what comes before the use of the caller's values on
                                 devices; timeline 0: nothing. NULL: nothing at all, the usual case. Borrowed */
    uint64_t captures;        /* counts the sets of captured values that runs have seen */
    bool same_captures;       /* the next run's are those of the last: a loop goes on */
} runner_inputs;

struct runner {
    struct program *prog;
    run_shared *shared;
    runner_plans plans;
    runner_inputs in;
    runner_outputs out;
    struct runner ***children; /* [step_count][body_count], made when first needed */
    const partition_provider
        *failed; /* whose device failed in this run: lost, hanging or without memory; NULL = none */
    runner_declined declined;
    runner_fallback fallback;
};

/* ------------------------------------------------------------------ sizes that runs found, seen.c */

/* Room for what the plan of bound does not know. False: out of memory. */
bool seen_create(struct bound *bound, uint32_t value_count);
/* The value has this size now. */
void seen_keep(struct bound *bound, uint32_t v, uint32_t rank, const int64_t *dims);
/* The sizes of the last run, [value_count] from the arena, of rank INLAY_RANK_UNKNOWN where it did not come by; they
 * hold until the next. NULL: no memory. */
const cost_input *seen_sizes(const struct runner *runner, struct arena *arena);
/* As states, with the sizes that were assumed when the graph was assigned where it did not; there was a run. */
inlay_value_state *seen_states(const struct runner *runner, struct arena *arena);
/* The runner of a program among those of runner, of its bodies and theirs; NULL: that did not run. runner may be NULL.
 */
const struct runner *runner_of(const struct runner *runner, const struct program *program);

/* ------------------------------------------------------------------ where values are, bound.c */

/* What lies in a slab, as `domain` sees it; runner may be NULL where it is not the runner's. */
inlay_buffer bound_in_slab(const struct runner *runner, const struct bound *bound, const plan_place *pl,
                           uint32_t domain);
/* The place as the other of host and device knows its memory; handle 0: there is none. */
inlay_buffer bound_alias(const struct bound *bound, uint32_t place);
/* Value v as it is now: a place, or a dynamic value. kind 0: not there. */
rt_value runner_value(const struct bound *bound, uint32_t v);
#endif
