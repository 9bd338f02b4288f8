/* plan/plan.h - a program at concrete input shapes: all steps and the place of every tensor, computed once and cached.
 *
 * A place is a memory location during a run. Steps whose shapes are all known get their places and their specialised
 * instance here, so that running them is a single call. Steps with data-dependent shapes are marked DYNAMIC and sized
 * when they run. Shape arithmetic with known inputs is computed here and needs no step. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H
#include "plan/program.h"
#include "inlay/execution.h"

enum plan_source {
    PLACE_NONE = 0,
    PLACE_SLAB,    /* offset in the slab of its domain */
    PLACE_INPUT,   /* the memory of input `index` */
    PLACE_OUTPUT,  /* the memory of output `index` */
    PLACE_DATA,    /* constant host memory */
    PLACE_DYNAMIC, /* a run_value, known after its step has run */
    /* an alias of place `index`, which may be an input or an output, in its own domain: for devices that share memory
     * with the host or with each other */
    PLACE_VIEW
};

typedef struct plan_place {
    uint32_t source;
    uint32_t domain;
    uint32_t index;
    uint32_t first, last; /* SLAB: first and last plan step that uses it */
    /* SLAB: the domain whose slab contains it; a host place may be in the slab of a device with shared memory */
    uint32_t memory_domain;
    bool viewed;       /* SLAB: the place has a view */
    bool kept;         /* the contents stay valid for the next run with the same captured values */
    uint32_t last_use; /* last program step that reads any value in the place */
    uint64_t offset, bytes;
    const void *data; /* DATA */
} plan_place;

/* A value at these shapes. */
typedef struct plan_value {
    uint32_t place; /* index into places; INLAY_NONE until the node that computes the value is planned */
    bool known;     /* all dims are known */
} plan_value;

enum plan_kind { PLAN_EXEC, PLAN_DYNAMIC, PLAN_HOST, PLAN_COPY };
typedef struct plan_step {
    uint32_t kind;
    const program_step *step; /* NULL: COPY */
    inlay_instance *instance; /* EXEC */
    blob_map blob;            /* the file from which instance was built; unmapped after instance is released */
    uint32_t *in;             /* [input_count] places; in host memory for DYNAMIC and HOST steps; COPY: the source */
    uint32_t *out;            /* EXEC: [output_count] places; COPY: the target */
    uint32_t workspace;       /* place, or INLAY_NONE */
    uint32_t workspace_alignment;
    uint32_t copy_provider; /* COPY: the provider that executes the copy */
    uint32_t copy_value;    /* COPY: the copied value */
    uint64_t copy_bytes;
    uint32_t group; /* COPY: copies of one group are read by the same step */
    bool kept;      /* COPY: of a captured value or of a constant; the target stays valid until the plan's next run */
} plan_step;

/* Consecutive steps that form independent branches, which may run concurrently. */
typedef struct branch_group {
    uint32_t first, end; /* plan steps [first, end) */
    uint32_t branch_count;
    uint32_t *begins; /* [branch_count + 1] start of each branch in steps */
    uint32_t *steps;  /* [end - first] plan steps, in order within a branch */
} branch_group;

struct plan;
struct plan {
    struct plan *next;
    uint32_t references; /* atomic */
    bool pinned;         /* plan_pin(); kept.lock guards it */
    struct program *program;
    struct arena arena;
    int64_t *key;  /* types, dims and domains of the inputs and captured values; see plan_set_key() */
    uint64_t hash; /* of the key */
    uint32_t key_count;
    inlay_value_state *states; /* [value_count] */
    inlay_value_info *infos;   /* [value_count] as inferred; NULL if no step is dynamic */
    plan_value *values;        /* [value_count] */
    plan_place *places;
    uint32_t place_count, place_capacity;
    plan_step *steps;
    uint32_t step_count, step_capacity;
    uint64_t *slab_bytes; /* [domain_count] */
    uint32_t domain_count;
    uint64_t lower_bound_bytes; /* of all domains together */
    uint32_t dynamic_count;
    uint32_t port_views;         /* views of inputs and outputs */
    uint64_t held_bytes;         /* bytes added to the environment's held_bytes */
    branch_group *branch_groups; /* in the order of their steps; disjoint */
    uint32_t branch_group_count;
};

/* The description of an input for planning. */
typedef struct plan_input {
    inlay_dtype dtype;
    uint32_t rank; /* INLAY_RANK_UNKNOWN: not a tensor */
    const int64_t *dims;
    uint64_t room;   /* not 0: a state in place, with capacity for this many rows along its axis */
    uint32_t domain; /* domain of its memory */
    uint32_t also;   /* 1 + another domain in which this memory is accessible; 0: none */
} plan_input;

/* Number of plans that a program caches; the least recently used one is dropped.
 *
 * FEW_PLANS_KEPT: the limit as long as sizes do not recur. The next plan reuses the memory of a dropped plan, which is
 * still in the CPU caches; allocating fresh memory takes longer than planning. PLANS_KEPT: the limit once a size recurs
 * whose plan was dropped. BODY_PLANS_KEPT: the limit for bodies. A loop-carried value may grow from one iteration to
 * the next, and each run of the loop needs all these shapes again, so a cache that is slightly too small would never
 * hit. */
enum { FEW_PLANS_KEPT = 4, PLANS_KEPT = 16, BODY_PLANS_KEPT = 128 };
/* Limit of the plans' total size in bytes. Memory that providers allocate for them is not included; it is usually about
 * as much. */
enum { PLANS_BYTES = 16 << 20 };

/* The provider of the domain; INLAY_NONE: the host. */
uint32_t plan_owner_of(const program_env *env, uint32_t domain);
/* The provider's description of the domain; NULL: the host's domain. */
const struct inlay_domain_info *plan_domain(const program_env *env, uint32_t domain);
/* Returns whether host and device share the domain's memory, at a fixed host address. */
bool plan_is_unified(const program_env *env, uint32_t domain);
/* Alignment of buffers and offsets in the domain. */
uint64_t plan_alignment(const program_env *env, uint32_t domain);
/* The place whose memory `place` uses: for a view, the place that it refers to; otherwise `place` itself. */
static inline uint32_t plan_memory_place(const struct plan *plan, uint32_t place)
{
    return plan->places[place].source == PLACE_VIEW ? plan->places[place].index : place;
}

/* Returns whether the place of a value is filled before any step reads it. Any other place may be the location of the
 * value after all steps only; the location that a step reads is in plan_step.in. */
static inline bool plan_is_ready(const plan_place *place)
{
    return place->source == PLACE_INPUT || place->source == PLACE_DATA || place->source == PLACE_DYNAMIC;
}

/* The plan for these shapes, cached or new. inputs: the graph's inputs, then its captured values; then, if an output is
 * wanted in device memory, one entry for each output, in which only the domain counts. run: the run that waits for the
 * plan, see program_specialize(); NULL: none. *out_plan gains a reference. Errors name the node whose shapes do not
 * fit. INLAY_NOT_FOUND: the capacity of a state is too small; INLAY_BUSY: the state cannot be in place at these
 * shapes. */
INLAY_NODISCARD inlay_status plan_get(struct program *program, const plan_input *inputs, uint32_t count,
                                      const inlay_run *run, struct plan **out_plan, inlay_diag *diag);
/* Creates the plan for these shapes before a run needs it, and pins it; if a provider declines them, that of a program
 * which does without its offers. */
INLAY_NODISCARD inlay_status plan_prepare(struct program *program, const plan_input *inputs, uint32_t count,
                                          inlay_diag *diag);
static inline void plan_ref(struct plan *plan)
{
    (void)__atomic_fetch_add(&plan->references, 1, __ATOMIC_RELAXED);
}
void plan_unref(struct plan *plan); /* NULL is a no-op */
/* Keeps a cached plan until the program is destroyed or plan_drop_idle(). */
void plan_pin(struct plan *plan);
/* Drops the cached plans that no run uses, of the program, its bodies and its fallbacks, and frees the memory that is
 * kept for creating the next plan. pinned: also drops the plans of plan_pin(). Any thread, also during runs. */
void plan_drop_idle(struct program *prog, bool pinned);

/* Host memory that a run of the plan needs: the slab, and the outputs of known size. */
uint64_t plan_run_bytes(const struct plan *plan);
/* Creates a plan for these shapes, with one reference, which is not cached. Called by plan_get with kept.lock held. */
INLAY_NODISCARD inlay_status plan_build(struct program *program, const plan_input *inputs, uint32_t count,
                                        const inlay_run *run, struct plan **out_plan, inlay_diag *diag);
/* Stores the key: the description of the inputs that the plan is for. False: out of memory. */
bool plan_set_key(struct plan *plan, const plan_input *inputs, uint32_t count);

/* Hash of the key. */
uint64_t plan_key_hash(const plan_input *inputs, uint32_t count);

/* Returns whether the plan is for inputs of these shapes. */
bool plan_fits(const struct plan *plan, const plan_input *inputs, uint32_t count);

/* Infers the shapes of a region's nodes in order, at run time (dynamic steps) or at plan time. infos is parallel to the
 * graph's values; entries of the region's inputs must be complete. Results are written to infos; their memory is from
 * scratch. */
INLAY_NODISCARD inlay_status plan_infer_region(const struct program *program, const partition_region *region,
                                               inlay_value_info *infos, struct arena *scratch, inlay_diag *diag);
/* Converts an info to a state (dims are -1 if not fixed). False: out of memory. */
bool plan_state_from_info(const inlay_value_info *info, struct arena *arena, inlay_value_state *out);
#endif
