/* session/session.h - a model made ready to run: loaded, checked, optimised, partitioned, compiled.
 *
 * Immutable after session_open, but for the plans that its programs gather behind their locks. */
#ifndef SESSION_H
#define SESSION_H
#include "config/options.h"
#include "exec/loop/watch.h"
#include "partition/cost/cost.h"
#include "plugin/plugin.h"
#include "threads/fork.h"

/* An optional provider that could not be opened. */
typedef struct session_skipped {
    const struct session_skipped *next;
    const char *name, *reason;
} session_skipped;

/* Who follows the optimiser; see pass_ctx. */
typedef struct session_watch {
    void (*note)(void *ctx, const char *pass, int64_t rewrite, const struct graph *graph, const graph_node *node,
                 const char *text);
    inlay_status (*after)(void *ctx, const inlay_session *session, const char *pass); /* "" = before the first */
    void *ctx;
    int64_t newest_opset; /* of pass_ctx; -1: the one that the model imports */
    int64_t later_opset;  /* of graph_model */
} session_watch;

/* A context, as its session knows it. */
typedef struct session_use {
    struct session_use *next;
    uint32_t running; /* atomic: 1 during a run */
} session_use;

struct inlay_session {
    graph_model *model;
    plugin_set *plugins;
    const struct provider **open; /* [env.provider_count] */
    partition_provider *providers;
    const session_skipped *skipped; /* the latest first */
    program_env env;
    partition_rules rules;
    cost_sizes sizes;      /* env.sizes */
    cost_book *book;       /* env.costs; may be NULL */
    run_memory *memory;    /* of runs */
    uint64_t host_limit;   /* session_host_limit() */
    uint64_t heap_before;  /* bytes that the process had from malloc when it began; counted where there is a limit */
    const char *cache_dir; /* option cache_dir, for what is measured later */
    struct program *main;
    struct arena arena;
    inlay_io_info *inputs; /* [main->graph->input_count] */
    inlay_io_info *outputs;
    const session_watch *watch; /* while optimising only */
    bool keeps_sparse;          /* before loading: sparse matrices may stay so, for the model is only run */
    uint32_t nodes_in_file;     /* before optimisation, bodies included */
    int64_t lowerings;          /* rewrites that the optimiser did before all its levels (passes/pass.h) */
    bool abandoned;             /* a device hangs that may still read it: it is never given back */
    session_use *uses;          /* contexts alive; uses_lock guards the list */
    pthread_mutex_t uses_lock;
    uint32_t forks; /* atomic: fork_count of the process that may use it */
    inlay_log_fn log;
    void *log_user;
    inlay_progress_fn progress; /* while opening only */
    void *progress_user;
    double progress_done;
    double progress_step;
};

/* Where the model comes from: exactly one of path, data, fd (>= 0). */
typedef struct session_source {
    const char *path;
    const void *data;
    uint64_t bytes;
    int fd;
} session_source;

/* Loads, checks and optimises, with costs at hand, but compiles nothing: the session has no program. watch may be
 * NULL. */
INLAY_NODISCARD inlay_status session_prepare(const session_source *source, const inlay_options *options,
                                             const session_watch *watch, inlay_session **out_session, inlay_diag *diag);
/* What inlay_session_input() and inlay_session_output() tell; session_open() does it, too. */
INLAY_NODISCARD inlay_status session_describe(inlay_session *session, inlay_diag *diag);
INLAY_NODISCARD inlay_status session_open(const session_source *source, const inlay_options *options,
                                          inlay_session **out_session, inlay_diag *diag);

/* What inlay_session_destroy() does; NULL is a no-op. */
void session_close(inlay_session *session);

/* May this process use the session? INLAY_UNSUPPORTED: it is from before a fork, and says why not. Any thread. In
 * inherit.c, as are the next two. */
INLAY_NODISCARD inlay_status session_inherit(const inlay_session *session, inlay_diag *diag);
static inline inlay_status session_here(const inlay_session *session, inlay_diag *diag)
{
    return __atomic_load_n(&session->forks, __ATOMIC_ACQUIRE) == fork_count ? INLAY_OK : session_inherit(session, diag);
}
void session_use_begin(inlay_session *session, session_use *use);
void session_use_end(inlay_session *session, const session_use *use);

/* A session without a model: the providers of the options, open, and the log and progress function. The caller ends it
 * with session_close(). */
INLAY_NODISCARD inlay_status session_open_providers(const inlay_options *options, inlay_session **out_session,
                                                    inlay_diag *diag);

/* What the user asks of the assignment: policy, pin, forbid, require, max_partitions, no_cpu, memory_limit, plan.
 * Errors name the option. In rules.c. */
INLAY_NODISCARD inlay_status session_rules_read(inlay_session *session, const inlay_options *options, inlay_diag *diag);

/* Option memory_limit, host=BYTES; 0 = none. limit.c has this and the next three. */
uint64_t session_host_limit(const inlay_options *options);
/* What there is of the graph so far: once the model is loaded, and once it is optimised. */
void session_limit_begin(inlay_session *session);
/* program_env.room of a session with such a limit. */
uint64_t session_limit_room(void *ctx, uint64_t more, uint64_t coming, inlay_diag *over);
/* Afterwards: with the plan, where the inputs' sizes are known, all that a first run holds. INLAY_LIMIT_EXCEEDED says
 * how much would do. */
INLAY_NODISCARD inlay_status session_limit_check(inlay_session *session, inlay_diag *diag);

/* The parts of session_prepare; in model.c. */
INLAY_NODISCARD inlay_status session_load_model(inlay_session *session, const session_source *source,
                                                const inlay_options *options, inlay_diag *diag);
INLAY_NODISCARD inlay_status session_optimise(inlay_session *session, const inlay_options *options, inlay_diag *diag);
/* env.states, by the names of inputs and outputs. In states.c. */
INLAY_NODISCARD inlay_status session_find_states(inlay_session *session, const inlay_options *options,
                                                 inlay_diag *diag);
/* Nodes of the graph and all bodies. */
uint32_t session_count_nodes(const struct graph *graph);
/* Tells the progress; INLAY_CANCELLED when the caller gave up. */
inlay_status session_report(inlay_session *session, double fraction, const char *what, inlay_diag *diag);

/* What is known of costs before the graph is assigned: the profile and the measurements of the cache folder, and what
 * symbols are taken to be (option assume). In costs.c, as is the next. */
INLAY_NODISCARD inlay_status session_costs_open(inlay_session *session, const inlay_options *options, inlay_diag *diag);
void session_costs_close(inlay_session *session);
/* Where option profile puts the machine profile, cut into folder and name in place[PATH_MAX]: both NULL = in the cache
 * folder; a NULL folder with a name = nowhere. */
INLAY_NODISCARD inlay_status session_profile_place(const inlay_options *options, char *place, const char **out_folder,
                                                   const char **out_name, inlay_diag *diag);
/* The folder that measurements are kept in, made where it is missing; INLAY_IO_ERROR says how to get one. */
INLAY_NODISCARD inlay_status session_costs_folder(const inlay_session *session, char *text, size_t bytes,
                                                  inlay_diag *diag);
#endif
