/* plan/program.h - a partitioned and compiled graph: the part that all shapes and all threads share.
 *
 * Each graph (the main one and every body of If, Loop, Scan) has a program. It owns the compiled regions and a cache of
 * plans, one for each signature of input shapes. Immutable once created, except for the plans, which a lock guards. */
#ifndef PLAN_PROGRAM_H
#define PLAN_PROGRAM_H
#include "partition/partition.h"
#include "plan/packs/packs.h"
#include "plan/stream/stream.h"
#include <pthread.h>

/* The environment that all programs of a session share. */
/* Options of the runs of a session. */
typedef struct program_runs {
    uint32_t inter_threads;     /* option inter_threads */
    uint32_t priority;          /* option priority: INLAY_PRIORITY_* of runs that state none, and of device memory */
    uint32_t power;             /* option power: INLAY_POWER_* of runs that state none */
    bool realtime;              /* option realtime, see exec/loop/realtime.h */
    bool without_failed;        /* option device_failure: repeat runs without a device that failed */
    uint64_t device_timeout_ms; /* time after which a device that does not finish its work counts as hung; 0 = never */
    uint64_t max_bytes;         /* limit for one tensor created in a run, and for one slab of host memory */
} program_runs;

/* Counts of the memory of a session. The counts are atomic. */
typedef struct program_memory {
    uint64_t *device_bytes;   /* [provider_count] device memory held by runs; may be NULL */
    uint64_t *resident_bytes; /* [provider_count] device memory held by compiled regions; likewise */
    uint64_t *held_bytes;     /* host memory held between runs (option memory_limit); NULL = not counted */
    /* Used while a session with such a limit is created. Returns how many bytes the session may still allocate, given
     * that `more` uncounted bytes are about to be allocated; 0: none. If `over` is not NULL, it receives the required
     * limit, assuming that `coming` further bytes will be needed. */
    uint64_t (*room)(void *ctx, uint64_t more, uint64_t coming, inlay_diag *over);
    void *room_ctx;
} program_memory;

typedef struct program_env {
    const partition_provider *providers; /* [provider_count] */
    uint32_t provider_count;
    uint32_t max_threads;
    uint32_t build_threads; /* threads that compile regions at the same time; 0 = 1 */
    program_runs runs;
    program_memory memory;
    struct weight_stream
        *stream; /* reads weights while the model runs (plan/stream/stream.h); NULL: all stay in memory */
    const partition_rules *rules;  /* NULL = none */
    const struct cost_book *costs; /* NULL = none */
    struct cost_sizes *sizes;      /* NULL = none; used while programs are created */
    const graph_state *states;     /* [state_count] */
    uint32_t state_count;
    const char *cache_dir;                                    /* see plan/program/blob_cache.h; NULL or "" = none */
    packs_place packs;                                        /* see plan/packs/packs.h */
    void (*log)(void *ctx, uint32_t level, const char *text); /* or NULL */
    void *log_ctx;
    /* Called between regions; may be NULL. steps: regions completed since the last call. A status other than INLAY_OK
     * stops the compilation. */
    inlay_status (*progress)(void *ctx, const char *what, uint32_t steps);
    void *progress_ctx;
    /* While a program is created: a compiled program of the same model with other weights, from which unchanged regions
     * are taken over (plan/program/take_over.h). NULL: none. */
    struct program *donor;
} program_env;

struct program;
typedef struct declined_shapes declined_shapes;

/* The key of a region in the engine cache, see plan/program/region_key.h: two independent hashes. */
typedef struct region_key {
    uint64_t word[2];
} region_key;

/* A mapped file of the engine cache; {0}: none. */
typedef struct blob_map {
    void *address;
    uint64_t bytes;
} blob_map;
void blob_unmap(blob_map *file); /* {0} is a no-op */

/* A compiled region that steps of several programs run, see plan/program/take_over.h. */
typedef struct program_share {
    uint32_t references;        /* atomic: steps */
    const struct program *home; /* the main graph's program that compiled it: it owns data that the region reads */
} program_share;

typedef struct program_step {
    const partition_region *region;
    const partition_provider *provider; /* NULL: the host runs `node` */
    inlay_compiled *compiled;
    graph_node *node;                  /* first node of the region */
    struct program **bodies;           /* [node->body_count] */
    const inlay_placement *placements; /* [inputs, then outputs] as negotiated; NULL for host nodes */
    bool foldable;           /* may run while planning: deterministic, one node, in host memory, synchronous */
    bool view;               /* the output is the input's memory with another shape */
    bool borrowed;           /* compiled belongs to a step of another program */
    program_share *share;    /* NULL: no other program runs compiled, unless it borrows it */
    bool counted;            /* the progress of the session's creation includes the step */
    uint64_t resident_bytes; /* memory of compiled: as reported by the provider, otherwise according to its offers */
    struct step_weights *weights; /* weights in mapped files that `compiled` reads; NULL: none, or no env.stream */
    bool has_key;                 /* the engine cache serves the region */
    region_key key;
    blob_map blob; /* the file from which the region was compiled; unmapped after compiled is released */
} program_step;

enum { PLANS_REMEMBERED = 128 };

/* The readers of each value. */
typedef struct program_uses {
    uint32_t *last; /* [value_count] last step that reads the value; step_count for outputs; INLAY_NONE if unread */
    /* [value_count] a domain other than the host's in which some step reads the value; otherwise the host's */
    uint32_t *reader_domain;
    uint32_t *region_domain; /* [value_count] the same for regions only: bodies copy the values that they read */
    bool *read_on_host;      /* [value_count] some step reads it in host memory */
} program_uses;

/* Constants with the alignment that regions require. */
typedef struct program_constants {
    pthread_mutex_t lock; /* guards the other members */
    const void **aligned; /* [value_count] results of program_align_constant, or NULL */
    void **owned;         /* [owned_count] heap copies among them */
    uint32_t owned_count;
} program_constants;

/* The cached plans (layout/plan_cache.c). */
typedef struct program_kept {
    pthread_mutex_t lock;            /* guards the other members except spare; held while a plan is created */
    struct plan *plans;              /* most recently used first */
    uint32_t plan_count;             /* without pinned ones */
    uint64_t bytes;                  /* size of these plans */
    uint64_t made;                   /* number of plans created */
    uint64_t gone;                   /* number of plans dropped */
    uint64_t hash[PLANS_REMEMBERED]; /* keys of the plans dropped last, a ring */
    bool sizes_return;               /* a plan was created again after it had been dropped */
    struct plan *spare;              /* atomic: a dropped plan whose memory the next one reuses; may be NULL */
} program_kept;

/* Data for creating plans; guarded by the lock of the plans. */
typedef struct program_planning {
    /* Initial state of every plan, [value_count] each: constants are known, other values unknown. Created with the
     * first plan. */
    inlay_value_info *first_infos;
    inlay_value_state *first_states;
    bool *passed_on;         /* [value_count] the host passes the value on to a body or to the caller */
    inlay_value_info *infos; /* [value_count] of the plan being created; afterwards, what was inferred for it */
    bool inferred;           /* infos describe the values of the previous plan; their data may be gone */
    bool *changed; /* [value_count] not as for the previous plan; valid for values that are inferred already */
    struct shape_room *rooms; /* [value_count] memory of infos' dims and elements, NULL: none yet */
    struct arena shapes;      /* of rooms */
    uint32_t *copies;         /* [value_count * domain_count] of the plan being created */
    uint32_t domain_count;
    uint32_t place_hint, step_hint; /* counts of the previous plan */
    struct arena scratch;           /* for the plan being created */
    /* [step_count] number of the step's group of concurrent branches, 0 = none; created with the first plan */
    uint32_t *branch_groups;
    double *alone_ns;      /* [step_count] time on one thread; negative: not in a group */
    bool no_branch_groups; /* the program has no groups */
} program_planning;

/* Fallback programs, see create/fallback.h. */
typedef struct program_fallback {
    struct program *base;     /* the program that this one replaces at some shapes; NULL: it is not a fallback */
    struct program *programs; /* fallbacks of this program */
    struct program *next;     /* next in the list of fallbacks */
    const uint8_t *without;   /* [base's offer_count] the offers that this one must not use */
    const char *why;          /* why not */
    declined_shapes *shapes;  /* atomic: shapes with declined offers, newest first; kept.lock guards the list */
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
    struct program **bodies; /* [body_count] all of them, even after the graph's nodes were replaced (create/undo.h) */
    uint32_t body_count;
    program_step *steps; /* [step_count] in execution order */
    uint32_t step_count;
    program_uses uses;
    uint32_t *output_of; /* [value_count] index of the first graph output with this value; INLAY_NONE: none */
    program_constants constants;
    struct packs *packs; /* of the session: owned by the main graph's program; may be NULL */
    /* [state_count] of the main graph: the step that appends to the state in place; INLAY_NONE: none */
    uint32_t *state_steps;
    program_kept kept;
    program_planning planning;
    program_fallback fallback;
    bool compiled; /* all steps are compiled */
};

/* Partitions and compiles a graph and its bodies. env and the model must outlive the program. */
INLAY_NODISCARD inlay_status program_create(struct graph *graph, const program_env *env, struct program **out_program,
                                            inlay_diag *diag);
/* The same in two parts: program_assign_only() partitions, program_finish() compiles. The latter undoes no rewrites, so
 * that other programs of the same graph may run meanwhile. After a failure the caller destroys *inout_program. */
INLAY_NODISCARD inlay_status program_assign_only(struct graph *graph, const program_env *env,
                                                 struct program **out_program, inlay_diag *diag);
INLAY_NODISCARD inlay_status program_finish(struct program **inout_program, inlay_diag *diag);
/* Creates another program of a graph that was partitioned before. */
INLAY_NODISCARD inlay_status program_create_beside(struct graph *graph, const program_env *env,
                                                   struct program **out_program, inlay_diag *diag);
/* Returns whether a region of the program, or of a body, is on one of these providers: [provider_count] not 0. */
bool program_runs_on(const struct program *program, const uint8_t *providers);
/* Returns whether the step is a host node that passes value `value` on to its bodies unchanged
 * (partition_passes_to_bodies). */
bool program_passes_to_bodies(const program_step *step, uint32_t value);
/* Number of programs: this program and the programs of its bodies. */
uint32_t program_count(const struct program *program);
/* The partition request for this program. */
partition_request program_request(const struct program *program);
/* Lists the jobs of the program and its bodies in the order of partitioning, in next [program_count]; returns the end
 * of the list. */
partition_job *program_jobs(struct program *program, partition_job *next);
/* Calls `say` for the shapes for which specialize declined an offer, newest first, at most `most` times. Returns the
 * number of all such shapes. In declined.c. */
uint32_t declined_list(struct program *program, uint32_t most,
                       void (*say)(void *ctx, const char *shapes, const char *text), void *ctx);
/* Releases compiled regions, plans and bodies. NULL is a no-op. */
void program_destroy(struct program *program);
/* Releases compiled regions, plans and fallbacks of the program and its bodies, which cannot run any more. Constants
 * and packed weights stay, for other programs that have taken over regions (program/take_over.h). */
void program_release_regions(struct program *program);
/* Calls `each` for the home of each step of the program and its bodies that was taken over, also several times. In
 * program/take_over.c. */
void program_each_home(const struct program *program, void (*each)(void *ctx, const struct program *home), void *ctx);

/* Releases the compiled region of a step, unless it belongs to another program. */
void program_release_step(const program_env *env, program_step *step);

/* Prepares the step for the shapes in request, whose struct_size and description of the shapes and outputs the caller
 * has set; sets the other members. *out_blob has to be unmapped after release_instance. run: the run that needs the
 * shapes, which may be cancelled or late; NULL: none. INLAY_UNSUPPORTED: the provider declines. Any thread. */
INLAY_NODISCARD inlay_status program_specialize(struct program *program, const program_step *step, const inlay_run *run,
                                                inlay_specialize_request *request, inlay_instance **out_instance,
                                                blob_map *out_blob, inlay_diag *diag);

/* Checks the workspace that a provider requested in specialize: INLAY_LIMIT_EXCEEDED if it is too large,
 * INLAY_INTERNAL if its alignment is not a power of two. diag names the node. */
INLAY_NODISCARD inlay_status program_check_workspace(const program_step *step, const inlay_specialize_request *request,
                                                     inlay_diag *diag);

/* Prepends the failed node to the message, and sets diag->node. Returns the status; diag may be NULL. */
inlay_status program_step_failed(const struct graph *graph, const program_step *step, inlay_status status,
                                 inlay_diag *diag);

/* The elements of a constant, aligned to 16 bytes, valid as long as the program: in the file, or copied once. NULL: out
 * of memory. Thread-safe. */
const void *program_constant(struct program *program, uint32_t value);
/* The same with another alignment, a power of two up to 4096. NULL also if the alignment is invalid, or the value is
 * not a constant. */
const void *program_align_constant(struct program *program, uint32_t value, uint32_t alignment);
/* Releases the file pages of a constant that was copied, and subtracts them from the held bytes. */
void program_release_pages(const struct program *program, const inlay_value_info *value);
/* A provider with a device that runs a part of the program or of its bodies; NULL: none. */
const partition_provider *program_device(const struct program *program);
/* In a child of fork(): false if another thread was using the program, or one of its bodies, during the fork. */
bool program_inherit(struct program *program);
/* The measured times of a provider's kernels, in the program's memory; NULL: none, or out of memory. */
const struct run_timings *program_timings(struct program *program, const partition_provider *provider);
/* Estimates the host memory that the program will need once the regions from `first` on are compiled: packed weights,
 * and values during a run. */
uint64_t program_expected_bytes(const struct program *program, uint32_t first);

/* Constant folding.
 *
 * Runs a compiled region on host tensors, waits, and leaves the outputs in memory of the caller's arena. Constants and
 * shape arithmetic are folded this way. With an owner, outputs of GRAPH_LARGE_CONSTANT bytes and more are blobs of that
 * model instead. */
typedef struct fold_tensor {
    inlay_dtype dtype;
    uint32_t rank;
    const int64_t *dims;
    void *data;
    uint64_t bytes;
} fold_tensor;

typedef struct fold_run {
    const partition_provider *provider;
    inlay_compiled *compiled;
    const inlay_value_state *values; /* [value_count] parallel to the snapshot that the region was compiled from */
    uint32_t value_count;
    const fold_tensor *inputs; /* [input_count] in the region's order */
    uint32_t input_count;
    fold_tensor *outputs; /* [output_count] in the region's order; dims may be missing if `values` does not have them */
    uint32_t output_count;
    uint32_t max_threads;
    uint64_t max_bytes;     /* limit for all outputs together */
    const uint32_t *cancel; /* atomic: not 0 cancels the run; may be NULL */
    graph_model *owner;     /* may be NULL */
    bool overwrites;        /* an output may be in the memory of the input that the provider lets it share */
    struct arena *arena;
} fold_run;
INLAY_NODISCARD inlay_status program_fold_region(const fold_run *run, inlay_diag *diag);
/* State of folding; the caller sets env, and the other members to 0. Unaligned constants of the file are copied for the
 * providers. A few megabytes of copies are cached, because many nodes may slice the same weight matrix. */
typedef struct program_folder {
    const program_env *env;
    struct aligned_copy *copies;
    uint64_t copied_bytes;
} program_folder;

void program_folder_deinit(program_folder *folder); /* frees the copies */
/* The optimiser's pass_fold_fn: runs the node with the first provider that offers it. fold_ctx is a program_folder. */
INLAY_NODISCARD inlay_status program_fold_node(void *fold_ctx, struct graph *graph, graph_node *node, uint32_t dying,
                                               uint64_t max_bytes, inlay_tensor_view *results, struct arena *arena,
                                               inlay_diag *diag);
/* Returns whether the provider offers the node by itself. The node need not be in the graph. */
bool program_offers(const partition_provider *provider, const struct graph *graph, const graph_node *node);
/* Returns whether the operator only moves elements. */
bool program_only_moves(const inlay_node_info *node);
/* The low-bit weights that the provider reads in packed form (extension inlay.weights/1). */
uint32_t program_has_weights(const partition_provider *provider);
/* Returns whether the provider computes faster with 8-bit integers than with floats (extension inlay.integers/1). */
bool program_has_integers(const partition_provider *provider);
/* The optimiser's pass_offers_fn: returns whether a provider for which program_has_integers() holds offers the node,
 * which is not in the graph yet. `made` describes its output. fold_ctx is a program_folder. */
bool program_offers_integers(void *fold_ctx, const struct graph *graph, const graph_node *node,
                             const inlay_value_info *made);
/* The same for a sparse weight matrix, and for providers that read packed weights (program_has_weights()). */
bool program_offers_sparse(void *fold_ctx, const struct graph *graph, const graph_node *node,
                           const inlay_value_info *made);
#endif
