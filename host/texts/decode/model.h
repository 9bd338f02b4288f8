/* texts/decode/model.h - what the generation of texts needs to know of a model, and of the program that runs it.
 *
 * The program owns the threads: a server puts each run into the queues of its scheduler, a program with a single
 * thread runs one after another. */
#ifndef TEXTS_MODEL_H
#define TEXTS_MODEL_H
#include "inlay/inlay.h"
#include "texts/draft/head.h"
#include <stdatomic.h>
#include <stdbool.h>

struct decode_model;

/* A run of a context, which is repeated. `context`, `rows` and `bytes` are set before each run; the inputs are bound to
 * the context, and the outputs remain in it until the next run. */
typedef struct decode_step {
    struct decode_model *model;
    inlay_context *context;             /* made by decode_program.open(); NULL: none yet */
    uint32_t outputs[1 + HEAD_SOURCES]; /* [output_count] that are read after the run */
    uint32_t output_count;
    uint64_t rows, bytes; /* of the inputs */
    uint64_t compute_ns;  /* the program sets it: time of the last run */
    /* The program calls it after each run, on any thread. failure: NULL: the run completed. */
    void (*finish)(struct decode_step *step, const inlay_diag *failure);
    void *user;    /* of finish() */
    void *program; /* the program's part of the step */
} decode_step;

/* The functions of a program. None is called with a lock of the program held; run() is called without the lock of the
 * model's texts. */
typedef struct decode_program {
    /* Makes the context of a step, and the program's part. close() is called also after a failure. */
    inlay_status (*open)(decode_step *step, inlay_diag *diag);
    void (*close)(decode_step *step);
    /* Runs the step, now or later, and calls its finish(). */
    void (*run)(decode_step *step);
    /* References to the model, which may be its last. */
    void (*hold)(struct decode_model *model);
    void (*release)(struct decode_model *model);
    /* Guesses that a run has read, and those of them that were right. NULL: they are not counted. */
    void (*count_guesses)(struct decode_model *model, uint32_t read, uint32_t right);
    /* A line for the operator. */
    void (*warn)(const struct decode_model *model, const char *text);
} decode_program;

/* Limits of the texts that are generated at once. Bytes are of their states. */
typedef struct decode_limits {
    uint32_t max_sequences; /* texts */
    uint32_t max_waiting;   /* texts that wait until others end */
    uint64_t kv_memory;     /* bytes; 0: no limit */
    uint64_t prefix_memory; /* bytes of kv_memory for the states of earlier texts; 0: none are kept */
    uint32_t prompt_tokens; /* tokens of prompts that are read until texts get their next tokens */
    uint32_t draft_tokens;  /* guesses of the draft model that a run of one text reads; 0: none */
    uint32_t lookup_tokens; /* guesses from its own tokens that such a run reads; 0: none */
} decode_limits;

typedef struct decode_model {
    inlay_session *session;        /* borrowed */
    const char *name;              /* for messages; borrowed */
    uint32_t ids, mask, positions; /* inputs; INLAY_NONE: missing */
    uint32_t adapter;              /* input: the LoRA adapter of each text; INLAY_NONE: missing */
    uint32_t last_logits;          /* input of option last_logits; INLAY_NONE: all tokens have logits */
    uint32_t image_rows;           /* input of option image_rows; INLAY_NONE: missing */
    int64_t image_width;           /* of its rows */
    uint32_t image_shifts;         /* input of option image_rows: what positions differ by; INLAY_NONE: missing */
    uint32_t logits;               /* output */
    uint32_t adapter_count;        /* LoRA adapters of the session */
    bool has_states;
    size_t context;             /* maximum length of a text in tokens; 0: unknown */
    inlay_rows_info rows;       /* how texts share a run */
    text_head *head;            /* of a draft model that reads hidden states; NULL: it is none */
    struct decode_model *draft; /* guesses tokens of the texts; NULL: none; borrowed */
    decode_limits limits;
    const decode_program *program;
    void *owner;       /* the program's model */
    atomic_uint texts; /* in progress */
    /* Runs the model on texts: of decoding.c or drafting.c, or the program's. NULL before the first text. */
    void *runner;
    void (*close_runner)(void *runner); /* destroys the runner; set with it */
} decode_model;

/* Makes the context's next runs return the logits of the last `count` tokens of each text, if the model can. */
INLAY_NODISCARD inlay_status decode_model_keep_logits(const decode_model *model, inlay_context *context, int64_t count,
                                                      inlay_diag *diag);

/* An output of a step, in the memory of its context. */
typedef struct decode_output {
    inlay_dtype dtype;
    uint32_t rank;
    int64_t dims[INLAY_MAX_RANK];
    uint64_t count; /* elements */
    const void *data;
} decode_output;

/* Reads the outputs of a step whose run completed. INLAY_UNSUPPORTED: one is not a tensor in host memory. */
INLAY_NODISCARD inlay_status decode_step_outputs(const decode_step *step, decode_output *out, inlay_diag *diag);
#endif
