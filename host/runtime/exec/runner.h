/* exec/runner.h - a program in one context: memory, addresses, and the loop that runs it.
 *
 * The first run with new shapes binds the plan: takes the slab, writes every address into flat arrays of calls. From
 * then on a run patches the addresses of inputs and outputs and walks the array. Steps that depend on data, control
 * flow and sequences take the slower way in dynamic.c, control.c and sequence.c. */
#ifndef EXEC_RUNNER_H
#define EXEC_RUNNER_H
#include "exec/run_memory.h"
#include "exec/value.h"
#include "partition/cost.h"
#include "plan/plan.h"
#include "threads/run.h"

typedef struct runner runner;

enum { POOL_SIZE = 64 };

/* What the runners of one context (the main graph's and those of its bodies) share. Used by one thread at a time, but
 * for string_alloc, which kernels call from theirs. */
typedef struct run_shared {
    inlay_run run;
    uint64_t max_bytes;    /* limit of one tensor */
    run_memory *memory;    /* the session's; NULL = malloc */
    bool abandoned;        /* a device hangs that may still write here: nothing of the context is ever freed */
    bool unwinding;        /* ... and the run in progress gives up ... */
    const uint32_t *asked; /* ... whose own run.cancel this is, for when others take over */
    bool watched;          /* a cancel word or a deadline is set: poll between steps */
    arena strings;         /* elements made by this run */
    pthread_mutex_t strings_lock;
    inlay_value *pool[POOL_SIZE]; /* unshared tensors whose memory is free for use */
    uint32_t pool_count;
    inlay_diag diag;               /* what steps write to; copied to the caller's when a run fails */
    struct dynamic_call *dynamic;  /* the step whose outputs output_alloc is for */
    struct runner *root;           /* the main graph's */
    const struct watch_hook *hook; /* who hears of every step, see watch.h; NULL = nobody, the usual case */
} run_shared;

/* memory may be NULL and outlives s. */
inlay_status run_shared_init(run_shared *s, uint32_t max_threads, uint64_t max_bytes, run_memory *memory);
void run_shared_deinit(run_shared *s);
/* Frees the tensors of the pool. */
void run_shared_drop(run_shared *s);
/* Is a tensor of these bytes within the limit? Otherwise INLAY_LIMIT_EXCEEDED, and diag names the option. */
INLAY_NODISCARD inlay_status run_may_take(const run_shared *s, uint64_t bytes, inlay_diag *diag);
/* run_memory_take() of the session's; the pool is given up for it. */
INLAY_NODISCARD inlay_status run_take(run_shared *s, uint64_t bytes, uint64_t alignment, void **out_memory,
                                      inlay_diag *diag);
/* A tensor from the pool or new, unshared, not cleared. INLAY_LIMIT_EXCEEDED beyond max_run_bytes. */
INLAY_NODISCARD inlay_status pool_take(run_shared *s, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                       inlay_value **out_value, inlay_diag *diag);
/* An object for the value, as rt_to_value() makes it, but copies lie in memory from the pool. */
INLAY_NODISCARD inlay_status pool_value(run_shared *s, const rt_value *value, inlay_value **out_value,
                                        inlay_diag *diag);
/* Takes over the reference: back into the pool when nobody else has one. NULL is a no-op. */
void pool_give(run_shared *s, inlay_value *v);

/* A step, ready to be called. */
typedef struct bound_step {
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
    uint32_t own_wait_count;     /* so many of them are its own provider's */
    uint32_t copy_count;         /* COPY: this one and those behind it that go with it; 0: goes with one before */
    inlay_copy *copies;          /* room for as many, where there are several */
    inlay_fence *waits;          /* room for as many, and for what comes before the caller's values, see runner.ready */
    struct dynamic_cache *cache; /* DYNAMIC: the last specialisation */
} bound_step;

/* Where an address has to be written when an input or output moves. */
typedef struct patch {
    uint32_t place;
    inlay_buffer *target;
} patch;

/* The size of a value that a plan does not know, as the last run found it; rank INLAY_RANK_UNKNOWN: none did. */
typedef struct seen_shape {
    uint32_t rank;
    int64_t dims[INLAY_MAX_RANK];
} seen_shape;

/* A plan with memory. */
typedef struct bound {
    plan *plan; /* a reference */
    arena a;
    const void *base;      /* where the runner's slab was when addresses were written; see bound_settle */
    inlay_buffer *slabs;   /* [domain_count] of devices; handle 0 = none */
    void **maps;           /* [domain_count] where the host sees them; NULL = it does not */
    inlay_buffer *buffers; /* [place_count] current addresses */
    bound_step *steps;
    const bound_step *at; /* the slow step in hand, or the last one; NULL: none yet */
    patch *patches;       /* of INPUT and OUTPUT places */
    uint32_t patch_count;
    const rt_value *inputs;    /* of the run in progress */
    rt_value *dynamic;         /* [value_count] DYNAMIC values of the run */
    inlay_value **twins;       /* [value_count] the same values in another domain, where somebody has read them there; a
                                  reference each. NULL without such steps */
    inlay_fence *arrivals;     /* [value_count] of twins that are on their way; timeline 0: it is there. Likewise */
    inlay_fence arrival;       /* the last of them, on a timeline that is made with the first */
    inlay_value_state *states; /* [value_count] the plan's, overwritten by dynamic steps; NULL without such */
    inlay_value_info *infos;
    seen_shape **seen; /* [value_count] NULL where the plan knows; NULL without such steps */
    arena scratch;     /* of the dynamic or host step that runs */
    uint64_t captures; /* of which set the device has copies, see runner.captures; 0 = none */
    bool has_async;
    bool poisoned;          /* the last run failed on a device: its timelines are to be renewed */
    bool has_objects;       /* some input is an object held in dynamic */
    const uint32_t *cancel; /* what the steps' args hold */
    uint64_t deadline_ns;
    uint64_t last_used;
    uint64_t counted_bytes; /* what it added to program_env.held_bytes */
    struct side *side;      /* how its waves go, see side.h; NULL: it has none */
} bound;

/* The memory of an output that a device has in common with the host; domain INLAY_DOMAIN_HOST: none has. */
typedef struct output_share {
    uint32_t domain; /* that makes or reads it */
    uint32_t now;    /* the one in this run */
    bool made;       /* it makes it */
} output_share;

enum { BOUNDS_KEPT = 4 };
struct runner {
    program *prog;
    run_shared *shared;
    bound *bounds[BOUNDS_KEPT];
    bound *now;  /* of the last run */
    bound *busy; /* of the run in progress; NULL = none, so that all may be dropped that is kept for another */
    uint64_t clock;
    void *slab; /* host memory of whichever plan runs: one run at a time, and none leaves anything there */
    uint64_t slab_bytes;
    bound *spare;                /* a bound plan that has gone, whose memory is the next one's; or NULL */
    runner ***children;          /* [step_count][body_count], made when first needed */
    inlay_value **outputs;       /* [output_count] of the last run; a reference each, NULL after a failure */
    inlay_value **spares;        /* [output_count] memory that an output had before, to be used again */
    const inlay_buffer *placed;  /* [output_count] where outputs lie that are states in place, and then have no object;
                                    handle 0: not this one. NULL: none is. Borrowed */
    const uint32_t *homes;       /* [output_count] domains in which outputs stay that nobody wants elsewhere; NULL: the
                                    host's. Borrowed from the node whose body it is */
    struct output_share *shares; /* [output_count]; NULL: nothing is shared */
    inlay_value **wanted;        /* [output_count] where the caller wants outputs; borrowed; NULL = anywhere */
    const inlay_fence *ready;    /* [input_count + output_count] what comes before the use of the caller's values on
                                   devices; timeline 0: nothing. NULL: nothing at all, the usual case. Borrowed */
    plan_input *key;             /* [input_count + captured_count + output_count] */
    const part_provider *failed; /* whose device failed in this run: lost, hanging or without memory; NULL = none */
    uint64_t captures;           /* counts the sets of captured values that runs have seen */
    bool same_captures;          /* the next run's are those of the last: a loop goes on */
    const program_step *late_step; /* the dynamic step of this run whose specialize declined; NULL = none */
    inlay_diag late_why;
    runner *instead;      /* runners of programs that stand in for this one at some shapes (plan/late.h) ... */
    runner *next_instead; /* ... as a list */
};

INLAY_NODISCARD inlay_status runner_create(program *prog, run_shared *shared, runner **out_runner, inlay_diag *diag);
void runner_destroy(runner *r);

/* Runs the program. inputs: the graph's inputs, then what it captures; borrowed. On success runner.outputs hold the
 * results; on failure they are NULL and diag says which node. */
INLAY_NODISCARD inlay_status runner_run(runner *r, const rt_value *inputs, inlay_diag *diag);

/* ------------------------------------------------------------------ bound plans, bind.c */

/* Gives the plan memory in the runner's context. Takes over the reference to p, also when it fails. */
INLAY_NODISCARD inlay_status bound_create(runner *r, plan *p, bound **out_bound, inlay_diag *diag);
void bound_destroy(runner *r, bound *b); /* NULL is a no-op */
/* The slab has room for the plan, and its steps know where it is: before each run, for other plans may have had it
 * made anew. */
INLAY_NODISCARD inlay_status bound_settle(runner *r, bound *b, inlay_diag *diag);

/* Does a run of the bound plan fit into what the host's memory is limited to? What is kept for other sizes and results
 * goes for it. INLAY_LIMIT_EXCEEDED names the limit that would do. Always where there is none. In keep.c. */
INLAY_NODISCARD inlay_status runner_keep_limit(runner *r, const bound *b, inlay_diag *diag);

/* ------------------------------------------------------------------ for the loop that is watched, watch.c */

/* Runs one step; asynchronous ones may be under way when it returns. */
inlay_status runner_step(runner *r, bound *b, bound_step *s, inlay_diag *diag);
/* Completes the diag of a step that failed: which node, of which graph, through which provider. Returns status. */
inlay_status runner_step_failed(runner *r, const bound_step *s, inlay_status status, inlay_diag *diag);

/* ------------------------------------------------------------------ sizes that runs found, seen.c */

/* Room for what the plan of b does not know. False: out of memory. */
bool seen_create(bound *b, uint32_t value_count);
/* The value has this size now. */
void seen_keep(bound *b, uint32_t v, uint32_t rank, const int64_t *dims);
/* The sizes of the last run, [value_count] from the arena, of rank INLAY_RANK_UNKNOWN where it did not come by; they
 * hold until the next. NULL: no memory. */
const cost_input *seen_sizes(const runner *r, arena *a);
/* As states, with the sizes that were assumed when the graph was assigned where it did not; there was a run. */
inlay_value_state *seen_states(const runner *r, arena *a);
/* The runner of a program among those of r, of its bodies and theirs; NULL: that did not run. r may be NULL. */
const runner *runner_of(const runner *r, const program *p);

/* ------------------------------------------------------------------ what enters and leaves a run, ports.c */

/* The place as the other of host and device knows its memory; handle 0: there is none. */
inlay_buffer bound_alias(const bound *b, uint32_t place);
/* The plan reads the inputs where they are. */
void runner_bind_inputs(runner *r, bound *b, const rt_value *inputs);
/* Memory for the outputs that steps write straight into. */
INLAY_NODISCARD inlay_status runner_bind_outputs(runner *r, bound *b, const rt_value *inputs, inlay_diag *diag);
/* Where outputs are wanted is a part of the key, once one of them is wanted in a device's memory. Returns how many
 * parts were written. */
uint32_t runner_wants(const runner *r, plan_input *out);
/* The domain in which output k is wanted. */
uint32_t runner_wanted(const runner *r, uint32_t k);
/* Outputs that no step wrote in place: dynamic values, inputs passed through, constants, a value output twice. */
INLAY_NODISCARD inlay_status runner_gather_outputs(runner *r, bound *b, inlay_diag *diag);
/* What a device that hangs may still write to is not given to the next run. */
void runner_keep_outputs(runner *r);

/* ------------------------------------------------------------------ values that stay on a device, stay.c */

/* A tensor on a device, of the session's memory there; gone before the session. */
INLAY_NODISCARD inlay_status stay_make(runner *r, uint32_t domain, inlay_dtype dtype, uint32_t rank,
                                       const int64_t *dims, inlay_value **out, inlay_diag *diag);
/* Sets runner.shares. False: no memory. */
bool stay_share(runner *r);
/* Is the domain's memory the host's, too, so that values of the run lie in both? Where the user limits a device's
 * memory, what is kept there is counted, and lies there alone. */
bool stay_is_shared(const program_env *env, uint32_t domain);
/* A tensor in host memory, which a device that reads v there has in common with the host where that is possible. */
INLAY_NODISCARD inlay_status stay_make_home(runner *r, uint32_t v, inlay_dtype dtype, uint32_t rank,
                                            const int64_t *dims, inlay_value **out, inlay_diag *diag);
/* Does the domain know the memory of v, which is at home, or can it be told of it? *there: as it does. */
bool stay_lend(const runner *r, inlay_value *v, uint32_t domain, inlay_buffer *there);
/* One in the memory of such a domain. */
INLAY_NODISCARD inlay_status stay_make_shared(uint32_t domain, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                              inlay_value **out, inlay_diag *diag);
/* Is it such a tensor, in that domain, that nobody else holds? */
bool stay_is_free(const inlay_value *v, uint32_t domain);
/* A copy of x in that domain, made when it returns. */
INLAY_NODISCARD inlay_status stay_move(runner *r, const rt_value *x, uint32_t domain, inlay_value **out,
                                       inlay_diag *diag);
/* Copies between two domains that the session knows, or within one; returns when it is done. */
INLAY_NODISCARD inlay_status stay_copy(runner *r, const inlay_buffer *from, const inlay_buffer *to, inlay_diag *diag);
/* Where what a run makes of v stays: where a step reads it, or the caller wants it; otherwise in the host's memory. */
uint32_t stay_domain(const runner *r, uint32_t v);
/* Value v, which *x is, in that domain: it is copied at most once in a run. A list or an absent value is left. */
INLAY_NODISCARD inlay_status stay_read(runner *r, bound *b, uint32_t v, uint32_t domain, rt_value *x, inlay_diag *diag);
/* Begins to copy v, which the run has made at home, to where a later step reads it. What that lacks, it will say then.
 */
void stay_begin(runner *r, bound *b, uint32_t v);
/* The twin of v is there, or the device hangs. */
INLAY_NODISCARD inlay_status stay_arrive(runner *r, bound *b, uint32_t v, inlay_diag *diag);
/* Gives back what the runner and those below it keep on devices for later runs; `all`: and takes home what this run
 * holds for steps to come. idle: none of them runs. */
void stay_make_room(runner *r, bool idle, bool all);
/* Has the device no room for it? What a run holds there can come home then. */
static inline bool stay_lacks_room(inlay_status status)
{
    return status == INLAY_LIMIT_EXCEEDED || status == INLAY_OUT_OF_MEMORY;
}

/* ------------------------------------------------------------------ for the slower steps */

/* Value v as it is now: a place, or a dynamic value. kind 0: not there. */
rt_value runner_value(const bound *b, uint32_t v);
/* Makes object v the dynamic value; takes over the reference. */
void runner_set(runner *r, bound *b, uint32_t v, inlay_value *value);
/* Runs a DYNAMIC step: infers, specialises, allocates, executes, waits. */
INLAY_NODISCARD inlay_status dynamic_run(runner *r, bound *b, bound_step *s, inlay_diag *diag);
void dynamic_cache_destroy(bound_step *s);
/* inlay_host.output_alloc for the step in hand; ctx is the run_shared. */
inlay_status dynamic_output_alloc(void *ctx, uint32_t output, uint32_t rank, const int64_t *dims, inlay_buffer *out);
/* Runs a HOST step. */
INLAY_NODISCARD inlay_status host_node_run(runner *r, bound *b, bound_step *s, inlay_diag *diag);
#endif
