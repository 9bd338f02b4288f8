/* plan/plan.h - a program at concrete input shapes: every step, every tensor's place, computed once and kept.
 *
 * A place is where bytes lie during a run. Steps whose shapes are all known get their places and their specialised
 * instance here, so that running them is one call. Steps whose shapes depend on data are marked DYNAMIC and sized when
 * they are reached. Shape arithmetic whose inputs are known is done here and leaves no step. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H
#include "plan/program.h"

enum plan_source {
    PLACE_NONE = 0,
    PLACE_SLAB,    /* offset in the slab of its domain */
    PLACE_INPUT,   /* the memory of input `index` */
    PLACE_OUTPUT,  /* the memory of output `index` */
    PLACE_DATA,    /* constant host memory */
    PLACE_DYNAMIC, /* an rt_value of the run, known when its step has run */
    PLACE_VIEW     /* the bytes of place `index`, which may be an input or an output, as its own domain sees them: of a
                      device whose memory is the host's */
};

typedef struct plan_place {
    uint32_t source;
    uint32_t domain;
    uint32_t index;
    uint32_t first, last; /* plan steps of its life, SLAB */
    uint32_t lies_in;     /* SLAB: the domain whose slab it is in; the host's own may be in that of such a device */
    bool viewed;          /* SLAB: there is a view of it */
    bool kept;            /* what lies there is for the next run too, if that captures the same */
    uint32_t last_use;    /* last program step that reads any value in it */
    uint64_t offset, bytes;
    const void *data; /* DATA */
} plan_place;

/* A value at these shapes. */
typedef struct plan_value {
    uint32_t place; /* index into places, INLAY_NONE before its maker has been planned */
    bool known;     /* all dims are */
} plan_value;

enum plan_kind { PLAN_EXEC, PLAN_DYNAMIC, PLAN_HOST, PLAN_COPY };
typedef struct plan_step {
    uint32_t kind;
    const program_step *step; /* NULL: COPY */
    inlay_instance *instance; /* EXEC */
    uint32_t *in;             /* [input_count] places; of DYNAMIC and HOST steps on the host; COPY: the source */
    uint32_t *out;            /* EXEC: [output_count] places; COPY: the target */
    uint32_t workspace;       /* place, or INLAY_NONE */
    uint32_t workspace_alignment;
    uint32_t copy_provider; /* COPY: who moves the bytes ... */
    uint32_t copy_value;    /* ... of which value */
    uint64_t copy_bytes;
    uint32_t group; /* COPY: those of a group are read by the same step */
    bool kept;      /* COPY: of a captured value, or of data, which stay in their places until the plan's next run */
} plan_step;

/* Steps in a row that may go side by side: branches, of which none touches what another one makes. */
typedef struct plan_wave {
    uint32_t first, end; /* plan steps [first, end) */
    uint32_t branch_count;
    uint32_t *begins; /* [branch_count + 1] of each branch in steps */
    uint32_t *steps;  /* [end - first] plan steps, in order within a branch */
} plan_wave;

struct plan;
struct plan {
    struct plan *next;
    uint32_t references; /* atomic */
    struct program *program;
    struct arena arena;
    int64_t *key;  /* ranks and dims of the inputs, then of the captured values */
    uint64_t hash; /* of the key */
    uint32_t key_count;
    inlay_value_state *states; /* [value_count] */
    inlay_value_info *infos;   /* [value_count] as inferred; NULL where no step is dynamic */
    plan_value *values;        /* [value_count] */
    plan_place *places;
    uint32_t place_count, place_capacity;
    plan_step *steps;
    uint32_t step_count, step_capacity;
    uint64_t *slab_bytes; /* [domain_count] */
    uint32_t domain_count;
    uint64_t lower_bound_bytes; /* of all domains together */
    uint32_t dynamic_count;
    uint32_t port_views; /* views of inputs and outputs */
    uint64_t held_bytes; /* what was added to the environment's for it */
    plan_wave *waves;    /* in the order of their steps; they share no step */
    uint32_t wave_count;
};

/* An input for planning. */
typedef struct plan_input {
    inlay_dtype dtype;
    uint32_t rank; /* INLAY_RANK_UNKNOWN: not a tensor */
    const int64_t *dims;
    uint64_t room;   /* not 0: a state in place, with room for so many along its axis */
    uint32_t domain; /* where its memory is */
    uint32_t also;   /* 1 + another domain that knows this memory; 0: none does */
} plan_input;

/* How many a program keeps; the least recently used goes. Where sizes never come again few do: a plan that goes leaves
 * its memory to the next one, in the caches, and fresh memory takes longer than planning does. Once a size has come
 * again whose plan was gone, more are kept. What a loop carries may grow from one iteration to the next, and each run
 * of the loop comes by all those shapes again: a cache that is a little too small would never hit. */
enum { FEW_PLANS_KEPT = 4, PLANS_KEPT = 16, BODY_PLANS_KEPT = 128 };
/* Where plans are large, few are kept too: of more bytes than this together. What providers keep for them comes on top,
 * and is usually about as much. */
enum { PLANS_BYTES = 16 << 20 };

/* The provider that brought the domain; INLAY_NONE: it is the host's. */
uint32_t plan_owner_of(const program_env *env, uint32_t domain);
/* What its provider says of the domain; NULL: it is the host's. */
const inlay_domain_info *plan_domain(const program_env *env, uint32_t domain);
/* Is the domain's memory the host's too, at an address that stays? */
bool plan_is_unified(const program_env *env, uint32_t domain);
/* What buffers and offsets in the domain are multiples of. */
uint64_t plan_alignment(const program_env *env, uint32_t domain);
/* The place that has the bytes of a view; any other itself. */
static inline uint32_t plan_bytes_of(const struct plan *plan, uint32_t place)
{
    return plan->places[place].source == PLACE_VIEW ? plan->places[place].index : place;
}

/* Is the place of a value filled before anybody reads it? One that the plan makes may be where the value ends up when
 * all steps are done: a step finds in its own list where the value is when it runs. */
static inline bool plan_is_ready(const plan_place *pl)
{
    return pl->source == PLACE_INPUT || pl->source == PLACE_DATA || pl->source == PLACE_DYNAMIC;
}

/* The plan for these shapes, from the program's list or made now. inputs: the graph's inputs, then what it captures;
 * then, where an output is wanted in a device's memory, one for each output, of which only domain counts.
 * *out_plan gains a reference. Errors name the node whose shapes don't fit. INLAY_NOT_FOUND: a state's room is too
 * small; INLAY_BUSY: the state can't be in place at these shapes. */
INLAY_NODISCARD inlay_status plan_get(struct program *program, const plan_input *inputs, uint32_t count,
                                      struct plan **out_plan, inlay_diag *diag);
static inline void plan_ref(struct plan *plan)
{
    (void)__atomic_fetch_add(&plan->references, 1, __ATOMIC_RELAXED);
}
void plan_unref(struct plan *plan); /* NULL is a no-op */
/* Drops the plans of the program and of its bodies that nobody runs. */
void plan_drop_idle(struct program *prog);

/* What a run of it takes of the host's memory: the slab, and the outputs whose sizes are known. */
uint64_t plan_run_bytes(const struct plan *plan);
/* Makes a plan for these shapes, with one reference, that is in no list; for plan_get, which holds kept.lock. */
INLAY_NODISCARD inlay_status plan_build(struct program *program, const plan_input *inputs, uint32_t count,
                                        struct plan **out_plan, inlay_diag *diag);
/* Remembers the shapes that the plan is for. False: out of memory. */
bool plan_set_key(struct plan *plan, const plan_input *inputs, uint32_t count);

/* The shapes in one number. */
uint64_t plan_key_hash(const plan_input *inputs, uint32_t count);

/* Does the plan fit inputs of these shapes? */
bool plan_fits(const struct plan *plan, const plan_input *inputs, uint32_t count);

/* Shapes of a region at run time (dynamic steps) or plan time: infers its nodes in order. infos is parallel to the
 * graph's values; entries of the region's inputs are complete. Results land in infos; memory is scratch. */
INLAY_NODISCARD inlay_status plan_infer_region(const struct program *program, const partition_region *region,
                                               inlay_value_info *infos, struct arena *scratch, inlay_diag *diag);
/* The state that corresponds to an info (dims -1 where not fixed). NULL dims on out of memory with rank > 0. */
bool plan_state_from_info(const inlay_value_info *info, struct arena *arena, inlay_value_state *out);
#endif
