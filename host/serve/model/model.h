/* serve/model/model.h - one loaded version of a model: its session, contexts to run it, its queue and its statistics.
 *
 * Reference-counted: the repository holds one reference and each request holds one, so an unloaded model exists until
 * its last request has its reply. */
#ifndef SERVE_MODEL_H
#define SERVE_MODEL_H
#include "base/memory.h"
#include "base/wire.h"
#include "serve/model/batch_cost.h"
#include "serve/request/infer.h"
#include "serve/model/padding.h"
#include "serve/model/shares.h"
#include "serve/base/board.h"
#include "serve/base/rollout.h"
#include <protobuf-c/protobuf-c.h>
#include <pthread.h>

struct sequence;
struct ensemble;
struct file_output;
struct file_rows;
struct run_budget;
struct run_profile;
struct speech_model;
struct trial;

enum { PRIORITY_LEVELS = 3 }; /* 1 = highest, 2 = default, 3 = lowest */

/* How a model is served: the server's settings, overridden by those of its config.yaml. */
typedef struct model_settings {
    uint32_t
        max_batch; /* most rows of a batch; 1 = no dynamic batching; 0 until the model is loaded: see row_check() */
    bool chooses_batch;        /* max_batch was 0: the loaded model has the one that was measured */
    uint64_t batch_delay_us;   /* most time that a request waits for others */
    uint64_t batch_target_us;  /* target p99 of a request; 0 = none */
    uint32_t instances;        /* concurrent runs */
    uint32_t busy_threads;     /* threads of a run while as many runs as possible are active */
    uint32_t max_queue;        /* most waiting requests */
    uint32_t max_sequences;    /* most live sequences of a model with states */
    uint64_t context;          /* most tokens of a text, if the model has more; 0 = as many as it has */
    uint64_t kv_memory;        /* most bytes of the states of texts; 0 = no limit */
    uint32_t prompt_tokens;    /* most tokens of prompts that are read until its texts get their next tokens */
    uint32_t draft_tokens;     /* most guesses of the draft model that a run of one text reads; 0 = none */
    uint32_t lookup_tokens;    /* most guesses from its own tokens that such a run reads; 0 = none */
    uint64_t prefix_memory;    /* most bytes of kv_memory for the states of earlier texts; 0 = none are kept */
    uint64_t max_prompt_bytes; /* most bytes of a text; 0 = see text_model.most_bytes */
    uint64_t sequence_idle_ns; /* idle time after which another sequence may take the place */
    uint32_t priority;         /* of requests without one, 1 to PRIORITY_LEVELS */
    bool warmup;
    struct board *board;       /* of the server; borrowed */
    struct run_budget *budget; /* of all runs of the server; borrowed */
    const uint32_t *stop;      /* polled while the model is loaded: 1 = abandon the load; borrowed */
    padding_config padding;    /* set only by config.yaml */
    rollout_rules rollout;     /* of a new version */
} model_settings;

/* A context, and memory for the inputs of batched requests. Has one run at a time. */
struct instance {
    inlay_context *context;      /* NULL in an ensemble */
    inlay_context **stages;      /* of an ensemble's stages */
    inlay_value **values;        /* of an ensemble's tensors; the inputs' ones are references, the others borrowed */
    inlay_value *files;          /* the input of a model that reads files; a reference */
    struct file_rows *rows;      /* of that model, or of each stage */
    void **batch_inputs;         /* [input_count] concatenated inputs */
    uint64_t *batch_input_bytes; /* [input_count] capacity of each */
    void **trimmed;              /* [output_count] outputs without padding */
    uint64_t *trimmed_bytes;     /* [output_count] capacity of each */
    atomic_uint_fast64_t buffer_bytes; /* capacity of all of these */
    const infer_tensor **given;        /* [input_count] scratch */
    infer_output *outputs;             /* [output_count] scratch */
    struct job **jobs;                 /* [job_capacity] jobs of the run */
    struct run_profile *profile;       /* of the run, borrowed; NULL: it is not profiled */
    uint32_t job_capacity;
    uint32_t cancel;       /* polled by the run */
    uint32_t threads;      /* most threads of the run; 0 = those of the session */
    uint32_t live;         /* jobs of the run that are not cancelled; guarded by the scheduler's lock */
    bool is_spare;         /* the run is that of a job of sched_submit_spare() */
    bool is_extra;         /* the run is one beyond the runners, see sched.h */
    bool is_counted;       /* the budget counts its run, see model_run_idle() */
    uint64_t started_ns;   /* of the run */
    uint64_t until_ns;     /* when the run should have ended: its deadline, or when it was cancelled; 0 = no limit */
    struct instance *next; /* in the model's list of idle instances, or in the scheduler's list of runs */
};

/* Waiting requests, by level and arrival; guarded by the scheduler's lock. */
typedef struct job_queue {
    struct job *first[PRIORITY_LEVELS], *last[PRIORITY_LEVELS];
    uint32_t count;
    uint32_t held; /* requests that wait for an earlier request of their sequence */
    uint64_t rows;
    uint32_t running; /* runs of requests in progress */
    uint64_t used_ns; /* total time of the model's runs, for fairness */
    bool listed;      /* in the scheduler's list of models with requests */
    struct model *next;
    batch_cost cost;          /* time of batched runs by their rows */
    double run_ns, run_bytes; /* smoothed time of a run and size of its inputs; 0 = unknown */
    uint32_t quick_runs;      /* runs on threads that received their request */
    uint64_t quick_ns;        /* when the last of them began */
} job_queue;

typedef struct model_file {
    char *path;     /* for messages; owned */
    uint64_t bytes; /* size of all files of the model */
    uint64_t state; /* of the files when the model was loaded, see folder_state() */
    /* A run could not read them as they were: they were written to or cut short, or the disk failed. */
    atomic_bool lost;
} model_file;

typedef struct model_providers {
    provider_share *shares; /* [share_count] providers that run the model; owned */
    uint32_t share_count;
    char *lost;         /* providers in quarantine, see shares_lost(); owned; NULL: it lacks none */
    bool lacks_for_all; /* one of them is in quarantine for all models */
} model_providers;

/* States that requests of a sequence keep between them. */
typedef struct model_states {
    bool *inputs, *outputs; /* [input_count], [output_count]: which are states */
    uint32_t count;
    pthread_mutex_t lock;       /* guards the table of sequences */
    struct sequence *sequences; /* [settings.max_sequences]; NULL = none */
} model_states;

/* How a model for texts generates them. */
typedef struct model_decoding {
    struct model *draft; /* a smaller model, which guesses tokens of the texts; NULL: none; a reference */
    char **adapters;     /* [adapter_count] names of LoRA adapters, in the order of option adapter; owned */
    uint32_t adapter_count;
    struct sched *sched; /* the scheduler of its texts, see schedule/text_jobs.h; NULL before the first one */
} model_decoding;

/* The part of a model for texts that reads images. */
typedef struct model_vision {
    inlay_session *session; /* owned; NULL: the model has none */
    struct image_encoder *encoder;
    uint64_t bytes; /* of its file */
} model_vision;

/* What makes a model the encoder of one for speech, see speech.h. */
typedef struct model_speech {
    struct speech_model *model;   /* owned; NULL: it is none for speech */
    struct model *decoder, *past; /* references; past: decoder_with_past_model; NULL: none */
} model_speech;

typedef struct model_metrics {
    uint32_t board_index;                         /* of the model in settings.board */
    model_stats *stats;                           /* those of this process */
    atomic_uint_fast64_t watched[WATCHDOG_COUNT]; /* what was added to stats->watchdog for this session */
    stats_batch *batches; /* [settings.max_batch] runs of this process with 1, 2 ... rows; owned */
} model_metrics;

struct model {
    atomic_uint refs;
    char *name;
    char version[24];
    uint64_t number; /* the version as a number */
    model_file file;
    model_settings settings;
    inlay_session *session;    /* NULL: an ensemble */
    struct wire made;          /* the model in memory that the session reads instead of the file; empty: none */
    struct ensemble *ensemble; /* NULL: not one; owned */
    atomic_uint pins;          /* ensembles that run it, and rollouts: models_memory does not unload it */
    struct {
        inlay_io_info *inputs, *outputs;
        uint32_t input_count, output_count;
        struct file_output *files; /* [output_count] of a model that reads files, see files.h; NULL: it does not */
    } io;
    model_providers providers;
    atomic_uint_fast64_t requested_ns; /* time of the last request that named it */
    model_states states;
    model_decoding decoding;
    model_vision vision;
    model_speech speech;
    struct text_model *text; /* tokenizer and roles of inputs; NULL = not a model for texts */
    bool batchable;          /* all inputs and outputs have the same symbolic first axis */
    struct padding padding;
    struct {
        struct instance *all;  /* [settings.instances]; owned */
        struct instance *idle; /* linked by `next`; guarded by the scheduler's lock */
    } pool;
    job_queue queue;
    model_metrics metrics;
    ProtobufCMessage
        *config; /* its configuration in Triton's form, see config_text.c; owned; NULL while it is loaded */
};

/* What the inputs of a job take; set by model_check(). */
typedef struct job_size {
    uint64_t rows; /* size of the first axis */
    uint64_t bytes;
    uint64_t length; /* size of the padded axis */
    uint64_t padded; /* size after padding; 0 = not padded */
} job_size;

/* The run of a job. */
typedef struct job_run {
    uint64_t queued_ns, started_ns, compute_ns, ended_ns;
    uint64_t rows;               /* of all jobs of the run */
    uint32_t threads;            /* most threads */
    const char *variant;         /* of a package that ran; borrowed from the session; NULL: none */
    double variant_error;        /* negative: not stated */
    struct run_profile *profile; /* NULL: it is not profiled; otlp_add() takes it */
} job_run;

/* A request. The owner sets the first part, keeps it until finish was called, and frees it afterwards. */
struct job {
    struct model *model;
    infer_request *request;
    struct sequence *sequence; /* sequence_join() sets it; NULL = none */
    uint64_t arrived_ns;       /* of the header */
    uint64_t received_ns;      /* of the last byte: from here on, it waits for the server */
    uint64_t deadline_ns;      /* by clock_ns(); 0 = none */
    job_size size;
    uint32_t level;      /* set with the size */
    bool sampled;        /* its spans are exported, see otlp_sample() */
    bool is_profiled;    /* with those of the steps of its run */
    bool is_admitted;    /* max_queue does not apply: its texts were admitted */
    bool is_copy;        /* a job of sched_submit_spare(): no client gets its results, and statistics do not count it */
    bool is_retry;       /* it has run on another version; its thread may still be in that run, so that it is queued */
    struct trial *trial; /* a rollout compares it with its run on the other version, see trial.h; NULL: none */
    /* Called once, by the thread that ran the job: with outputs, or with a failure (then outputs is NULL). */
    void (*finish)(struct job *job, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count);
    void *user;

    /* Owned by the scheduler. */
    struct job *next, *next_held;
    struct instance *running;
    bool queued;
    atomic_bool cancelled; /* also read by `finish` */
    bool held;             /* waits for an earlier request of its sequence */
    job_run run;
};

/* Loads the file, creates the contexts and warms them up. options are library options. made: a model in memory that is
 * loaded in place of the file, unless it is empty; it is taken, and becomes empty. NULL: none. */
INLAY_NODISCARD inlay_status model_load(const char *name, uint64_t version, const char *path,
                                        const model_settings *settings, const inlay_options *options, struct wire *made,
                                        struct model **out_model, inlay_diag *diag);
/* Makes a model of an ensemble. The model owns the ensemble, also after a failure. */
INLAY_NODISCARD inlay_status model_load_ensemble(const char *name, uint64_t version, const char *path,
                                                 const model_settings *settings, struct ensemble *ensemble,
                                                 struct model **out_model, inlay_diag *diag);
/* Size of the model's files: of `path`, which may be a package, or of all files in its folder. */
uint64_t model_file_bytes(const char *path, bool whole_folder);
/* Bytes of its files, and of the memory of its contexts, sequences and batches at this moment. */
uint64_t model_bytes(struct model *model);
/* Those without its files. */
uint64_t model_run_bytes(struct model *model);
/* What the model does with texts: bits of enum text_purpose. */
uint32_t model_purposes(const struct model *model);
struct model *model_ref(struct model *model);
void model_unref(struct model *model); /* NULL is a no-op */

/* Index of the input or output with that name; INLAY_NONE: none. */
uint32_t model_find_io(const inlay_io_info *ios, uint32_t count, const char *name);

/* instance.c */

/* Initializes an instance for at most `jobs` jobs per run, with a separate context. */
INLAY_NODISCARD inlay_status instance_init(const struct model *model, struct instance *instance, uint32_t jobs,
                                           inlay_diag *diag);
void instance_deinit(const struct model *model, struct instance *instance);
/* Frees the memory that only later runs would use, and the outputs; bound inputs stay. Not during a run. */
void instance_trim(const struct model *model, struct instance *instance);
/* Binds input k; NULL unbinds it. */
inlay_status instance_bind(const struct model *model, struct instance *instance, uint32_t k, inlay_value *value,
                           inlay_diag *diag);
void instance_unbind(const struct model *model, struct instance *instance);
/* Adds to the instance's buffer_bytes. */
static inline void instance_grow(struct instance *instance, uint64_t bytes)
{
    (void)atomic_fetch_add_explicit(&instance->buffer_bytes, bytes, memory_order_relaxed);
}
/* Runs the model, or the stages of the ensemble. rows: of the inputs. */
/* Adds what option watchdog has done since the last call to model->stats. */
void model_count_watchdog(struct model *model);
INLAY_NODISCARD inlay_status instance_run(const struct model *model, struct instance *instance, uint64_t rows,
                                          const inlay_run_options *run, inlay_diag *diag);
/* Output k of the last run, borrowed; NULL: there is none. */
inlay_value *instance_output(const struct model *model, const struct instance *instance, uint32_t k);

/* Writes the shape of generated input k into out_dims [INLAY_MAX_RANK]: `rows` for the first axis of a batchable model,
 * `length` for the padded axis, 1 for other symbolic sizes. Returns the rank. */
uint32_t model_generated_dims(const struct model *model, uint32_t k, int64_t rows, int64_t length, int64_t *out_dims);
/* Runs the model on generated inputs: make() creates input k, or leaves *out_value NULL to omit it. */
typedef inlay_status (*model_input_fn)(const struct model *model, uint32_t k, const void *user, inlay_value **out_value,
                                       inlay_diag *diag);
INLAY_NODISCARD inlay_status instance_run_generated(const struct model *model, struct instance *instance,
                                                    model_input_fn make, const void *user, inlay_diag *diag);

/* row_check.c: whether each row of a batch of 2 to `rows` rows has the bits that it has alone, for pseudo-random inputs
 * of a batchable model whose other axes are fixed. */
bool row_check(const struct model *model, struct instance *instance, uint32_t rows);

/* model.c and run.c */

/* Finds the request's inputs and outputs in the model, compares types and shapes, sets the job's rows and level. */
INLAY_NODISCARD inlay_status model_check(struct job *job, inlay_diag *diag);

/* Runs the first `count` jobs of the instance as one batch, and finishes each. Returns whether that run completed; if
 * it fails because of one job, each of them is run alone. */
bool model_run(struct model *model, struct instance *instance, uint32_t count);

/* After model_run(), once the instance is idle: the budget counts its run as ended. */
void model_run_idle(const struct model *model, struct instance *instance);
#endif
