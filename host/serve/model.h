/* serve/model.h - one version of a model that is loaded: its session, contexts to run it, its queue and its figures.
 *
 * Counted by references: the repository has one, each request has one, so a model that is unloaded stays until its last
 * request is answered. */
#ifndef SERVE_MODEL_H
#define SERVE_MODEL_H
#include "base/memory.h"
#include "serve/batch_cost.h"
#include "serve/infer.h"
#include "serve/padding.h"
#include "serve/shares.h"
#include "serve/stats.h"
#include <pthread.h>

struct sequence;

enum { PRIORITY_LEVELS = 3 }; /* 1 = first, 2 = usual, 3 = when there is nothing else */

/* How a model is served: the server's settings, over which go those of its config.yaml. */
typedef struct model_settings {
    uint32_t max_batch;        /* rows that requests are joined to; 1 = never */
    uint64_t batch_delay_us;   /* how long the first of them may wait for others */
    uint64_t batch_target_us;  /* how long a request may take, joined with others; 0 = no limit */
    uint32_t instances;        /* runs at once */
    uint32_t max_queue;        /* requests that may wait */
    uint32_t max_sequences;    /* at once, of a model with states */
    uint64_t sequence_idle_ns; /* after which a sequence may be given up for another */
    uint32_t priority;         /* of requests that name none, 1 to PRIORITY_LEVELS */
    bool warmup;
    const uint32_t *stop;   /* polled while the model is loaded: 1 = it need not be finished; borrowed */
    padding_config padding; /* of config.yaml alone */
} model_settings;

/* A context, and memory for the inputs of joined requests. One run at a time. */
struct instance {
    inlay_context *context;
    void **joined;              /* [input_count] */
    uint64_t *joined_bytes;     /* [input_count] room in each */
    void **cut;                 /* [output_count] outputs without padding */
    uint64_t *cut_bytes;        /* [output_count] room in each */
    const infer_tensor **given; /* [input_count] scratch */
    infer_output *outputs;      /* [output_count] scratch */
    struct job **jobs;          /* [job_capacity] of the run */
    uint32_t job_capacity;
    uint32_t cancel;       /* polled by the run */
    uint32_t threads;      /* of the run, at most; 0 = those of the session */
    uint32_t live;         /* jobs of the run that nobody cancelled; under the scheduler's lock */
    struct instance *next; /* of the model's idle ones */
};

/* Requests that wait, by level and arrival; under the scheduler's lock. */
typedef struct job_queue {
    struct job *first[PRIORITY_LEVELS], *last[PRIORITY_LEVELS];
    uint32_t count;
    uint32_t held; /* requests behind others of their sequence */
    uint64_t rows;
    uint64_t used_ns; /* time that the model's runs took, for fairness */
    bool listed;      /* among the scheduler's models that have requests */
    struct model *next;
    batch_cost cost;          /* of runs by their rows, where requests are joined */
    double run_ns, run_bytes; /* what a run takes, and the size of its inputs, smoothed; 0 = not known */
} job_queue;

struct model {
    atomic_uint refs;
    char *name;
    char version[24];
    uint64_t number; /* the version as a number */
    char *path;      /* of the file, for the log */
    model_settings settings;
    inlay_session *session;
    inlay_io_info *inputs, *outputs;
    uint32_t input_count, output_count;
    provider_share shares[SHARES_MOST]; /* [share_count] who runs it */
    uint32_t share_count;
    uint64_t bytes;                     /* of its files and of its runs, after the first */
    atomic_uint_fast64_t asked_ns;      /* when a request last named it */
    bool *state_inputs, *state_outputs; /* [input_count], [output_count] */
    uint32_t state_count;
    pthread_mutex_t sequence_lock; /* of what requests know of sequences */
    struct text_model *text;       /* of a decoder with a tokenizer; NULL = none */
    struct sequence *sequences;    /* [settings.max_sequences]; NULL = none */
    bool joinable;                 /* all inputs and outputs have one symbolic first axis */
    struct padding padding;
    struct instance *instances, *idle;
    job_queue queue;
    model_stats stats;
};

/* A request on its way. The owner sets the first part, keeps it until finish was called, and frees it after. */
struct job {
    struct model *model;
    infer_request *request;
    struct sequence *sequence; /* sequence_join() sets it; NULL = none */
    uint64_t arrived_ns;
    uint64_t deadline_ns; /* by clock_ns(); 0 = none */
    uint64_t rows;        /* of the first axis; model_check() sets it, and the next two */
    uint64_t bytes;       /* of its inputs */
    uint64_t length;      /* of the axis that is padded, and to what; padded 0 = it stays as it is */
    uint64_t padded;
    uint32_t level;
    /* Called once, by the thread that ran it: outputs, or a failure (then outputs is NULL). */
    void (*finish)(struct job *job, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count);
    void *user;

    /* The scheduler's. */
    struct job *next, *next_held;
    struct instance *running;
    bool queued;
    atomic_bool cancelled; /* also read by who finishes the job */
    bool held;             /* behind another of its sequence */
    uint64_t queued_ns, started_ns, compute_ns, ended_ns;
    uint64_t run_rows; /* of the run that it was part of */
};

/* Loads the file, makes the contexts and warms them up. options are the library's. */
INLAY_NODISCARD inlay_status model_load(const char *name, uint64_t version, const char *path,
                                        const model_settings *settings, const inlay_options *options,
                                        struct model **out_model, inlay_diag *diag);
/* The files' part of `bytes`: of path, or of the folder that it lies in. */
uint64_t model_file_bytes(const char *path, bool whole_folder);
struct model *model_ref(struct model *model);
void model_unref(struct model *model); /* NULL is a no-op */

/* An instance for so many jobs at once, with a context of its own. */
INLAY_NODISCARD inlay_status instance_init(const struct model *model, struct instance *instance, uint32_t jobs,
                                           inlay_diag *diag);
void instance_deinit(const struct model *model, struct instance *instance);

/* The shape of a made-up input k, into [INLAY_MAX_RANK]: `rows` along the first axis where requests are joined by it,
 * `length` along the axis that is padded; other open sizes are 1. Returns the rank. */
uint32_t model_made_dims(const struct model *model, uint32_t k, int64_t rows, int64_t length, int64_t *out_dims);
/* Runs inputs that nobody sent: make() makes input k, or leaves *out_value NULL where the run goes without it. */
typedef inlay_status (*model_input_fn)(const struct model *model, uint32_t k, const void *user, inlay_value **out_value,
                                       inlay_diag *diag);
INLAY_NODISCARD inlay_status instance_try(const struct model *model, const struct instance *instance,
                                          model_input_fn make, const void *user, inlay_diag *diag);

/* Finds the request's inputs and outputs in the model and compares types and sizes; sets the job's rows and level. */
INLAY_NODISCARD inlay_status model_check(struct job *job, inlay_diag *diag);

/* Runs the instance's first `count` jobs as one, and finishes each. */
void model_run(struct model *model, struct instance *instance, uint32_t count);
#endif
