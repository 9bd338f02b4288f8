/* session/session.h - a model that is ready to run: loaded, checked, optimised, partitioned, compiled.
 *
 * Immutable after session_open(), except for the plans of its programs, which are guarded by locks, for the lists of
 * contexts and versions, and for main, which changes once with option compile_in_background, and with each change of
 * weights (update.h). */
#ifndef SESSION_H
#define SESSION_H
#include "base/clock.h"
#include "config/options.h"
#include "exec/run/run.h"
#include "model/model.h"
#include "partition/cost/cost.h"
#include "plugin/plugin.h"
#include "threads/fork.h"
#include "inlay/check.h"

/* An optional provider that could not be opened. */
typedef struct session_skipped {
    const struct session_skipped *next;
    const char *name, *reason;
} session_skipped;

/* Callbacks that observe the optimiser; see pass_report. */
typedef struct session_watch {
    void (*note)(void *ctx, const char *pass, int64_t rewrite, const struct graph *graph, const graph_node *node,
                 const char *text);
    inlay_status (*after)(void *ctx, const inlay_session *session, const char *pass); /* "" = before the first */
    void *ctx;
    bool near_misses;     /* see pass_report */
    int64_t newest_opset; /* see pass_options; -1: the imported opset */
    int64_t later_opset;  /* see graph_model */
} session_watch;

/* What observes the runs of a session, such as option watchdog (host/insight). */
typedef struct session_client {
    const struct session_client_calls *calls;
} session_client;
typedef struct session_client_calls {
    /* The observer of a new context. */
    inlay_status (*observe)(session_client *client, run_observer **out_observer, inlay_diag *diag);
    /* Regions are about to be released: the client must not use them after the call. */
    void (*forget)(session_client *client);
    void (*inherit)(session_client *client); /* in a child of fork() */
    void (*destroy)(session_client *client); /* no run is in progress; the programs exist */
} session_client_calls;

/* An entry for each context of a session, see trim.h. */
typedef struct session_context {
    struct session_context *next;
    uint32_t users;       /* atomic: the calls that use the context's runner, and a flag of trim.c */
    bool used;            /* a run has ended since the context was trimmed */
    uint64_t last_run_ns; /* clock_ns() at the end of the last run; 0 without option idle_trim_ms */
    /* Frees what the context keeps for later runs, except outputs. Called while users is 0. False: it keeps everything
     * for now. */
    bool (*trim)(struct session_context *context);
} session_context;

/* The contexts of a session. lock also guards the members of session_versions and session_version that change. */
typedef struct session_contexts {
    session_context *first;
    struct session_idle *idle; /* NULL: no option idle_trim_ms */
    pthread_mutex_t lock;
} session_contexts;

/* The session with certain weights (session/update.h). contexts.lock guards the members that change. */
typedef struct session_version {
    struct session_version *next; /* in the list of the session, newest first */
    graph_model *model;
    struct program *main;
    program_env env;                 /* of main, except for the first version */
    cost_sizes sizes;                /* env.sizes */
    struct session_weight **weights; /* [weight_count] the tensors that replace the file's, a reference each */
    uint32_t weight_count;
    struct session_version **homes; /* [home_count] the versions that compiled regions of main */
    uint32_t home_count;
    uint32_t users; /* contexts, and 1 while it is the latest */
    uint32_t kept;  /* versions that have this one among their homes */
    bool ended;     /* the version's regions are released: no context uses it any more */
} session_version;

typedef struct session_versions {
    session_version first;
    session_version *latest; /* with session->main */
    session_version *all;
    inlay_options *options;      /* of session_open(), for updates; NULL: none */
    pthread_mutex_t update_lock; /* held during an update, and while main must not change */
} session_versions;

/* What runs and weights may take. */
typedef struct session_limits {
    run_memory *memory;   /* for runs */
    uint64_t host;        /* session_host_limit() */
    uint64_t least;       /* that would have sufficed so far, see session_open(); 0 = not known */
    uint64_t heap_before; /* heap_bytes() when the session was created; 0 without host */
} session_limits;

/* What the assignment knows of times and sizes. */
typedef struct session_costs {
    cost_sizes sizes;      /* env.sizes */
    cost_book *book;       /* env.costs; may be NULL */
    uint64_t model_hash;   /* see cost_whole_model */
    const char *cache_dir; /* option cache_dir, for later measurements */
} session_costs;

/* How the model was loaded and optimised. */
typedef struct session_loading {
    const session_watch *watch; /* while optimising only */
    bool keeps_sparse;          /* set before loading: matrices may stay sparse, because the model is only run */
    uint32_t nodes_in_file;     /* before optimisation, bodies included */
    int64_t lowerings;          /* number of rewrites that the optimiser did before all levels (passes/pass.h) */
    const char *chosen;         /* which variant of a package the model is, and why; NULL: of none */
    const char *variant;        /* its name */
    double variant_error;       /* that the package states; negative: none */
} session_loading;

/* The variants of a package, with option ladder. */
typedef struct session_ladder {
    inlay_session **variants; /* [count] the most exact one first, which is this session; it owns the others */
    uint32_t count;           /* 0: without the option */
} session_ladder;

/* Callback of the caller while the session is being created. */
typedef struct session_progress {
    inlay_progress_fn report; /* NULL: none, or the session is complete */
    void *user;
    double done; /* of 1 */
    double step; /* for a node that is compiled */
} session_progress;

typedef struct session_log {
    inlay_log_fn write; /* NULL: none */
    void *user;
} session_log;

/* The inputs of option sizes. */
typedef struct session_sizes {
    struct plan_input **inputs; /* [count] */
    uint32_t count;
} session_sizes;

struct inlay_session {
    graph_model *model; /* of the first version: also has inputs, outputs and metadata of all others */
    plugin_set *plugins;
    const struct provider **open; /* [env.provider_count] */
    partition_provider *providers;
    const session_skipped *skipped; /* the latest first */
    program_env env;
    partition_rules rules;
    session_costs costs;
    session_limits limits;
    session_sizes prepared;
    bool reproducible;                     /* option of this name */
    bool abandoned;                        /* never freed, because a hung device may still access it */
    uint32_t forks;                        /* atomic: fork_count of the process that may use the session */
    struct program *main;                  /* atomic: changed by the background and by updates */
    struct session_background *background; /* NULL: nothing was left to the background */
    session_client *client;                /* owned; NULL: none */
    session_contexts contexts;
    session_versions versions;
    inlay_io_info *inputs; /* [main->graph->input_count]; NULL while the session is being created */
    inlay_io_info *outputs;
    session_loading loading;
    session_ladder ladder;
    session_progress progress;
    session_log log;
    struct arena arena;
};

/* Checks what holds for a complete session, as INLAY_CHECK(session_check(session)) at the entries of inlay.h: returns
 * true, or the process ends at the condition that does not hold. No effect while the session is being created, and on
 * one that compiles nothing. Any thread. In session_check.c. */
bool session_check(const inlay_session *session);

/* The source of the model: exactly one of path, data, fd (>= 0), whole. */
typedef struct session_source {
    const char *path;
    const void *data;
    uint64_t bytes;
    int fd;
    /* A loaded model, which outlives the session, of which the session runs a part. It is loaded once more from the
     * same bytes, without sparse matrices, so that it has the same values and nodes; `reduce` then cuts it. The weights
     * of such a session cannot be updated. */
    const graph_model *whole;
    inlay_status (*reduce)(void *ctx, graph_model *model, inlay_diag *diag);
    void *ctx;
} session_source;

/* How a session with these options (may be NULL) loads a model file; borrows from the options. In model.c. */
model_load_options session_load_options(const inlay_options *options);
/* Loads, checks and optimises the model, and opens the cost data, but compiles nothing: the session has no program.
 * watch may be NULL. */
INLAY_NODISCARD inlay_status session_prepare(const session_source *source, const inlay_options *options,
                                             const session_watch *watch, inlay_session **out_session, inlay_diag *diag);
/* Creates the data that inlay_session_input() and inlay_session_output() return. session_open() calls this function. */
INLAY_NODISCARD inlay_status session_describe(inlay_session *session, inlay_diag *diag);
/* Checks that the value has the declared type and shape of the input. In fits.c, like session_misfit(), which fails and
 * describes both; role: "input" or "output". */
INLAY_NODISCARD inlay_status session_input_fits(const inlay_session *session, uint32_t index, const inlay_value *value,
                                                inlay_diag *diag);
inlay_status session_misfit(const inlay_io_info *info, const inlay_value *value, const char *role, inlay_diag *diag);
/* For a session that compiles nothing: the shapes at which its model would be compiled, [value_count] from the arena.
 * NULL: unknown, or out of memory. In costs.c. */
inlay_value_state *session_guess_shapes(const inlay_session *session, struct arena *arena);
/* Implements inlay_session_create(). */
INLAY_NODISCARD inlay_status session_open(const session_source *source, const inlay_options *options,
                                          inlay_session **out_session, inlay_diag *diag);

/* Does the device of a provider of the session hang (provider_hung())? Its memory must then stay allocated. In
 * versions.c. */
bool session_device_hangs(const inlay_session *session);

/* Implements inlay_session_destroy(). NULL is a no-op. */
void session_close(inlay_session *session);

/* For session_check_process(): the session was created before fork(), and this process is the child. In inherit.c, like
 * session_add_context() and session_remove_context(). */
INLAY_NODISCARD inlay_status session_adopt_after_fork(const inlay_session *session, inlay_diag *diag);
/* Checks that this process may use the session. INLAY_UNSUPPORTED: it was created before fork() and cannot be used in
 * the child; the message is the reason. Any thread. */
static inline inlay_status session_check_process(const inlay_session *session, inlay_diag *diag)
{
    if (__atomic_load_n(&session->forks, __ATOMIC_ACQUIRE) != fork_count)
        return session_adopt_after_fork(session, diag);
    INLAY_CHECK(session_check(session));
    return INLAY_OK;
}
void session_add_context(inlay_session *session, session_context *context);
void session_remove_context(inlay_session *session, const session_context *context);

/* Creates a session without a model: it has the open providers of the options and the log and progress functions. The
 * caller destroys it with session_close(). */
INLAY_NODISCARD inlay_status session_open_providers(const inlay_options *options, inlay_session **out_session,
                                                    inlay_diag *diag);

/* Reads the options for the assignment: policy, pin, forbid, require, max_partitions, no_cpu, memory_limit, plan.
 * Messages name the option. In rules.c. */
INLAY_NODISCARD inlay_status session_rules_read(inlay_session *session, const inlay_options *options, inlay_diag *diag);

/* Option memory_limit, host=BYTES; 0 = none. In limit.c, like the next three functions. */
uint64_t session_host_limit(const inlay_options *options);
/* Counts the graph's mapped weights. Called after loading, and again after optimisation. stream: with a limit, weights
 * are read during runs even if those of the files fit. */
INLAY_NODISCARD inlay_status session_limit_begin(inlay_session *session, bool stream, inlay_diag *diag);
/* Implements program_env.memory.room for a session with such a limit. */
uint64_t session_limit_room(void *ctx, uint64_t more, uint64_t coming, inlay_diag *over);
/* Checks the limit after compilation, including the memory of a first run if the input shapes are fixed. The message of
 * INLAY_LIMIT_EXCEEDED contains the minimum required limit. */
INLAY_NODISCARD inlay_status session_limit_check(inlay_session *session, inlay_diag *diag);

/* Reads option sizes. In sizes.c. */
INLAY_NODISCARD inlay_status session_read_sizes(inlay_session *session, const inlay_options *options, inlay_diag *diag);
/* Creates the plans of a program for these sizes. Any thread. */
INLAY_NODISCARD inlay_status session_prepare_sizes(const inlay_session *session, struct program *program,
                                                   inlay_diag *diag);

/* Option compile_in_background; in background.c. Sets session->main to a program of the other providers, and prepares
 * the program of all providers; session_background_start() then compiles the latter in a thread. Sets main to a program
 * of all providers if nothing can be left to the background. */
INLAY_NODISCARD inlay_status session_background_prepare(inlay_session *session, inlay_diag *diag);
void session_background_start(inlay_session *session);
/* Waits until the thread has ended; session->main no longer changes. Any thread. */
void session_background_wait(const inlay_session *session);
/* In a child of fork(), if the thread had ended. */
void session_background_inherit(inlay_session *session);
/* Returns whether the thread has not ended. */
bool session_background_runs(const inlay_session *session);
/* The program that session->main has replaced, which contexts may still use; NULL: none. */
struct program *session_background_replaced(const inlay_session *session);
/* Stops the thread, and destroys all programs of the session. */
void session_background_end(inlay_session *session);

/* Steps of session_prepare(); in model.c. */
INLAY_NODISCARD inlay_status session_load_model(inlay_session *session, const session_source *source,
                                                const inlay_options *options, inlay_diag *diag);
/* The session's model once more, from the same bytes, with the options of session_open(). */
INLAY_NODISCARD inlay_status session_load_again(const inlay_session *session, graph_model **out_model,
                                                inlay_diag *diag);
INLAY_NODISCARD inlay_status session_optimise(inlay_session *session, graph_model *model, const inlay_options *options,
                                              inlay_diag *diag);
/* Option kv_cache_bits: keeps the caches of keys and values of an optimised model in 8 or 4 bits, and fails if a state
 * that grows is not kept so. In kv_cache.c. */
INLAY_NODISCARD inlay_status session_shrink_caches(graph_model *model, const inlay_options *options, inlay_diag *diag);
INLAY_NODISCARD inlay_status session_check_caches(const inlay_session *session, const inlay_options *options,
                                                  inlay_diag *diag);
/* Option last_logits: gives the inferred model the input last_logits, if it is a language model whose logits are a
 * product of rows. In last_logits.c. */
INLAY_NODISCARD inlay_status session_keep_last_logits(graph_model *model, const inlay_options *options,
                                                      inlay_diag *diag);
/* Option image_rows: gives the inferred model the input image_rows, if it has a value `inputs_embeds`. In
 * image_rows.c. */
INLAY_NODISCARD inlay_status session_take_image_rows(graph_model *model, const inlay_options *options,
                                                     inlay_diag *diag);
/* Adds a node of ai.onnx, NAME/op_type, with one output, which *value becomes. false: out of memory. In insert.c, like
 * the next function. */
bool session_insert_node(struct graph *graph, const char *name, const char *op_type, const uint32_t *inputs,
                         uint32_t count, uint32_t *value);
/* Adds a constant int64 [1]. */
bool session_insert_number(struct graph *graph, int64_t number, uint32_t *value);
/* Whether an input and an output have the names of a state. In states.c, like the next function. */
bool session_names_states(const struct graph *graph, const inlay_options *options);
/* Sets env.states from the names of inputs and outputs. */
INLAY_NODISCARD inlay_status session_find_states(inlay_session *session, const inlay_options *options,
                                                 inlay_diag *diag);
/* Number of nodes of the graph and all bodies. */
uint32_t session_count_nodes(const struct graph *graph);
/* Reports progress. INLAY_CANCELLED: the callback requested cancellation. */
inlay_status session_report(inlay_session *session, double fraction, const char *what, inlay_diag *diag);

/* Opens the cost data for the assignment: machine profile and measurements of the cache folder, and assumed sizes of
 * symbols (option dim). In costs.c, like the next four functions. */
INLAY_NODISCARD inlay_status session_costs_open(inlay_session *session, const inlay_options *options, inlay_diag *diag);
void session_costs_close(inlay_session *session);
/* Sets model_hash, and rules.left_out from the measurements. Called before the first assignment. */
INLAY_NODISCARD inlay_status session_read_left_out(inlay_session *session, inlay_diag *diag);
/* Splits the path of option profile into folder and name, which point into place[PATH_MAX]. Both NULL: the profile is
 * in the cache folder. folder NULL and name "": no profile. */
INLAY_NODISCARD inlay_status session_profile_place(const inlay_options *options, char *place, const char **out_folder,
                                                   const char **out_name, inlay_diag *diag);
/* The folder for measurements, which is created if it is missing. The message of INLAY_IO_ERROR explains how to set
 * it. */
INLAY_NODISCARD inlay_status session_costs_folder(const inlay_session *session, char *text, size_t bytes,
                                                  inlay_diag *diag);
#endif
