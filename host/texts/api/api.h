/* texts/api/api.h - the objects of inlay/text.h. */
#ifndef TEXTS_API_H
#define TEXTS_API_H
#include "base/wire.h"
#include "inlay/text.h"
#include "texts/model/choice.h"
#include "texts/model/images.h"
#include <limits.h>

/* A session, and what its texts need. */
typedef struct text_part {
    char path[PATH_MAX];
    struct wire made; /* the model in memory that the session reads instead of the file; empty: none */
    inlay_session *session;
    text_model *text;
} text_part;

struct inlay_text_model {
    text_part model, draft;           /* draft.session NULL: none */
    text_part vision;                 /* without a text; session NULL: none */
    image_encoder *encoder;           /* of the vision part */
    struct queued_step *first, *last; /* steps that will run, in their order */
    bool is_closing;                  /* steps end without a run */
    uint32_t running;                 /* texts that have not ended */
    uint64_t runs, guessed_tokens, right_tokens;
    choice_scratch scratch;
    char **adapters; /* [adapter_count] their names, in the order of option adapter; owned */
    uint32_t adapter_count;
    inlay_context *embedding; /* of inlay_text_model_embed(); NULL: none yet */
    float *vector;            /* [vector_size] its last result */
    double *sums;             /* [vector_size] scratch */
    size_t vector_size;
};

struct inlay_text {
    text_choice choice;
    inlay_text_model *model;
    text_ends ends;
    image_prompt prompt; /* of a text with images */
    char **stops;        /* [ends.stop_count] owned */
    struct strbuf taken; /* the last piece */
    atomic_bool is_stopped;
    bool is_dropped; /* it is freed when it ends */
    uint32_t state;  /* INLAY_TEXT_* */
    inlay_diag failure;
};

/* Runs the steps of the decoder on the thread that calls text_queue_run(). */
extern const decode_program text_program;
/* Runs the steps that are queued up to the next one of the model. */
void text_queue_run(inlay_text_model *model);

/* Opens the sessions. The caller closes the model also after a failure. */
INLAY_NODISCARD inlay_status text_parts_open(inlay_text_model *model, const char *path,
                                             const inlay_text_options *options, inlay_diag *diag);
void text_parts_close(inlay_text_model *model);
#endif
