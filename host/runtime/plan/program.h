/* plan/program.h - a graph, partitioned and compiled: what all shapes and all threads share.
 *
 * Each graph (the main one and every body of If, Loop, Scan) has a program. It owns the compiled regions and the list
 * of plans made from it, one for each signature of input shapes. Immutable once created, but for the plans behind a
 * lock. */
#ifndef PLAN_PROGRAM_H
#define PLAN_PROGRAM_H
#include "partition/partition.h"
#include "plan/packs/packs.h"
#include <pthread.h>

/* An input of the main graph that the next run gets from an output. */
typedef struct program_state {
    uint32_t input, output; /* numbers among the graph's */
    uint32_t axis;          /* along which the output is longer; INLAY_NONE: it replaces the input */
} program_state;

/* What every program of a session has in common. */
typedef struct program_env {
    const partition_provider *providers; /* [provider_count] */
    uint32_t provider_count;
    uint32_t max_threads;
    uint32_t inter_threads;   /* option of that name */
    uint64_t *device_bytes;   /* [provider_count] atomic: what runs hold of each one's devices; may be NULL */
    uint64_t *resident_bytes; /* [provider_count] atomic: what compiled regions keep there; likewise */
    uint64_t *held_bytes; /* atomic: of the host's memory between runs (option memory_limit); NULL = nobody counts */
    /* While a session with such a limit is made: how many bytes it may still take, where `more` are about to be taken
     * or counted nowhere. 0: none; over, unless it is NULL, tells what would do when `coming` more are known. */
    uint64_t (*room)(void *ctx, uint64_t more, uint64_t coming, inlay_diag *over);
    void *room_ctx;
    bool without_failed;           /* option device_failure: runs are repeated without a device that failed */
    uint64_t device_timeout_ms;    /* after which a device that does not end its work hangs; 0 = never */
    uint64_t max_run_bytes;        /* limit: one tensor made in a run, one slab of host memory */
    const partition_rules *rules;  /* NULL = none */
    const struct cost_book *costs; /* NULL = none */
    struct cost_sizes *sizes;      /* NULL = none; used while programs are created */
    const program_state *states;   /* [state_count] */
    uint32_t state_count;
    const char *cache_dir;                                    /* see plan/program/blob_cache.h; NULL or "" = none */
    packs_place packs;                                        /* see plan/packs/packs.h */
    void (*log)(void *ctx, uint32_t level, const char *text); /* or NULL */
    void *log_ctx;
    /* Called between regions; a status other than INLAY_OK stops the compilation. May be NULL. */
    inlay_status (*progress)(void *ctx, const char *what, uint32_t steps); /* steps: regions done since the last call */
    void *progress_ctx;
} program_env;

struct program;
typedef struct declined_shapes declined_shapes;

typedef struct program_step {
    const partition_region *region;
    const partition_provider *provider; /* NULL: the host runs `node` */
    inlay_compiled *compiled;
    graph_node *node;                  /* the region's first node */
    struct program **bodies;           /* [node->body_count] */
    const inlay_placement *placements; /* [inputs, then outputs] as negotiated; NULL for host nodes */
    bool foldable;                     /* may run while planning: deterministic, one node, on the host, synchronous */
    bool view;                         /* the output is the input's memory under another shape */
    bool borrowed;                     /* compiled belongs to another program's step */
    uint64_t resident_bytes;           /* that compiled keeps, as the provider told, or as its offers had it */
} program_step;

enum { PLANS_REMEMBERED = 128 };

/* Who reads each value where. */
typedef struct program_uses {
    uint32_t *last;     /* [value_count] last step that reads the value; step_count for outputs; INLAY_NONE if unread */
    uint32_t *read_in;  /* [value_count] a domain that some step reads the value in, but the host's where none does */
    uint32_t *taken_in; /* [value_count] the same of regions alone: bodies fetch what they read themselves */
    bool *read_here;    /* [value_count] somebody reads it in the host's memory */
} program_uses;

/* Constants as regions read them. */
typedef struct program_constants {
    pthread_mutex_t lock; /* guards the rest */
    const void **aligned; /* [value_count] as program_align_constant gave them, or NULL */
    void **owned;         /* [owned_count] heap copies among them */
    uint32_t owned_count;
} program_constants;

/* The plans that were made (layout/plan_cache.c). */
typedef struct program_kept {
    pthread_mutex_t lock; /* guards the rest, but for spare; held while a plan is made */
    struct plan *plans;   /* newest use first */
    uint32_t plan_count;
    uint64_t bytes;                  /* that they take */
    uint64_t made;                   /* ever */
    uint64_t gone;                   /* ever */
    uint64_t hash[PLANS_REMEMBERED]; /* of the keys of those that have gone, the latest, in a ring */
    bool sizes_return;               /* a plan was made whose like had gone */
    struct plan *spare;              /* atomic: a plan that has gone, whose memory is the next one's; may be NULL */
} program_kept;

/* What planning works with; the lock of the plans guards it. */
typedef struct program_planning {
    /* What every plan begins with, [value_count] each: constants settled, all else unknown. Made with the first
     * plan. */
    inlay_value_info *first_infos;
    inlay_value_state *first_states;
    bool *handed_on;         /* [value_count] the host gives the value to a body or to the caller */
    inlay_value_info *infos; /* [value_count] of the plan that is being made */
    uint32_t *copies;        /* [value_count * domain_count] likewise */
    uint32_t domain_count;
    uint32_t place_hint, step_hint; /* how many the last plan had */
    struct arena scratch;           /* of the plan that is being made */
    uint32_t *waves;  /* [step_count] number of the row that goes side by side, 0 = none; with the first plan */
    double *alone_ns; /* [step_count] on one thread; negative: not in a row */
    bool no_waves;
} program_planning;

/* What was declined in runs, see create/fallback.h. */
typedef struct program_fallback {
    struct program *base;     /* this one stands in for it at some shapes; NULL: it is its own */
    struct program *programs; /* those that stand in for this one ... */
    struct program *next;     /* ... as a list */
    const uint8_t *without;   /* [base's offer_count] the offers that this one does not use */
    declined_shapes *shapes;  /* atomic: that were declined, newest first; kept.lock guards the list */
} program_fallback;

struct program {
    graph_model *model;
    struct graph *graph;
    const program_env *env;
    struct arena arena;
    inlay_graph snapshot;
    struct partition parts;
    const char *path;            /* see partition_job */
    struct program ***bodies_of; /* [node_count] [body_count] the programs of a node's bodies, or NULL */
    struct program **bodies;     /* [body_count] all of them, also when the graph has got other nodes (create/undo.h) */
    uint32_t body_count;
    program_step *steps; /* [step_count] in execution order */
    uint32_t step_count;
    program_uses uses;
    uint32_t *output_of; /* [value_count] first graph output that the value is, INLAY_NONE */
    program_constants constants;
    struct packs *packs; /* of the session: the main graph's program owns it; may be NULL */
    uint32_t
        *state_steps; /* [state_count] of the main graph: the step that appends to the state in place, INLAY_NONE */
    program_kept kept;
    program_planning planning;
    program_fallback fallback;
    bool compiled; /* all steps are */
};

/* Partitions and compiles graph and its bodies. env and the model outlive the program. */
INLAY_NODISCARD inlay_status program_create(struct graph *graph, const program_env *env, struct program **out_program,
                                            inlay_diag *diag);
/* Is the step a node of the host's that hands v on to its bodies as it is (partition_hands_on)? They are planned for
 * that.
 */
bool program_hands_on(const program_step *step, uint32_t v);
/* Which states the program's regions append to in place (states.c). false: no memory. */
bool program_find_states(struct program *program);
/* How many programs: this one and its bodies'. */
uint32_t program_count(const struct program *program);
/* What the partitioner is asked for this one. */
partition_request program_request(const struct program *program);
/* Lists them as they were partitioned, into next [program_count]; returns the end of the list. */
partition_job *program_jobs(struct program *program, partition_job *next);
/* declined.c: what specialize has declined so far, for which shapes of the inputs, the newest first: calls say for at
 * most `most` of them, and returns how many there are. */
uint32_t declined_list(struct program *program, uint32_t most,
                       void (*say)(void *ctx, const char *shapes, const char *text), void *ctx);
/* Releases compiled regions, plans, bodies. NULL is a no-op. */
void program_destroy(struct program *program);

/* Releases what a step has compiled, unless that is another's. */
void program_release_step(const program_env *env, program_step *step);

/* Puts the node that a step failed at in front of what diag says, and into diag->node. Returns status; diag may be
 * NULL. */
inlay_status program_step_failed(const struct graph *graph, const program_step *step, inlay_status status,
                                 inlay_diag *diag);

/* The elements of a constant, aligned to 16 bytes, as long as the program: in the file, or copied once. NULL: no
 * memory. Thread-safe. */
const void *program_constant(struct program *program, uint32_t value);
/* The same at a multiple of `alignment`, a power of two up to 4096. NULL also where it is none, or no constant. */
const void *program_align_constant(struct program *program, uint32_t value, uint32_t alignment);
/* The constant's pages of the file may go, for there is a copy; what is held is less by them. */
void program_forget(const struct program *program, const inlay_value_info *value);
/* A provider with a device that runs some of the program, or of one below it; NULL: none. */
const partition_provider *program_device(const struct program *program);
/* In a child of fork(): false where another thread was at the program, or at one below it, when the process forked. */
bool program_inherit(struct program *program);
/* What was measured of a provider's kernels, in the program's memory; NULL: nothing, or no memory. */
const struct run_timings *program_timings(struct program *program, const partition_provider *provider);
/* What is known of what the program will have of the host's memory once regions from `first` on are compiled: what they
 * keep, and what values need in a run. An estimate. */
uint64_t program_coming(const struct program *program, uint32_t first);

/* ------------------------------------------------------------------ one region, once
 *
 * Runs a compiled region on host tensors, waits, and leaves the outputs in memory of the caller's arena: how constants
 * and shape arithmetic are folded. With an owner, outputs of GRAPH_LARGE_CONSTANT bytes and more are blocks of that
 * model's instead. */
typedef struct once_tensor {
    inlay_dtype dtype;
    uint32_t rank;
    const int64_t *dims;
    void *data;
    uint64_t bytes;
} once_tensor;

typedef struct once_run {
    const partition_provider *provider;
    inlay_compiled *compiled;
    const inlay_value_state *values; /* [value_count] parallel to the snapshot the region was compiled from */
    uint32_t value_count;
    const once_tensor *inputs; /* [input_count] in the region's order */
    uint32_t input_count;
    once_tensor *outputs; /* [output_count] in the region's order; need no dims where values doesn't know them */
    uint32_t output_count;
    uint32_t max_threads;
    uint64_t max_bytes; /* that outputs may take together */
    graph_model *owner; /* may be NULL */
    struct arena *arena;
} once_run;
INLAY_NODISCARD inlay_status program_run_once(const once_run *run, inlay_diag *diag);
/* What folding needs: set env, the rest is {0}. Constants that lie at an odd address in the file are copied to be shown
 * to providers; some megabytes of copies are kept, for a matrix of weights is often cut up by many nodes. */
typedef struct program_folder {
    const program_env *env;
    struct aligned_copy *copies;
    uint64_t copied_bytes;
} program_folder;

void program_folder_deinit(program_folder *folder); /* frees the copies */
/* The optimiser's pass_fold_fn: runs the node through the first provider that offers it. fold_ctx is a
 * program_folder. */
INLAY_NODISCARD inlay_status program_fold_node(void *fold_ctx, struct graph *graph, graph_node *node,
                                               uint64_t max_bytes, inlay_tensor_view *results, struct arena *arena,
                                               inlay_diag *diag);
/* Does the provider offer node alone, a node that need not be in graph? */
bool program_offers(const partition_provider *provider, const struct graph *graph, const graph_node *node);
/* Does the operator move elements and compute nothing? */
bool program_only_moves(const inlay_node_info *node);
/* Are weights of a few bits read packed there (extension inlay.weights/1)? */
uint32_t program_has_weights(const partition_provider *provider);
/* Are integers of 8 bits faster than floats there (extension inlay.integers/1)? */
bool program_has_integers(const partition_provider *provider);
/* The optimiser's pass_offers_fn: would such a provider run node, a node that is not in the graph yet? `made` describes
 * its output. fold_ctx is a program_folder. */
bool program_offers_integers(void *fold_ctx, const struct graph *graph, const graph_node *node,
                             const inlay_value_info *made);
/* The same of a matrix whose zeros are left out, by a provider that reads packed weights. */
bool program_offers_sparse(void *fold_ctx, const struct graph *graph, const graph_node *node,
                           const inlay_value_info *made);
#endif
