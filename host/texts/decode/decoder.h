/* texts/decode/decoder.h - the state of decoding.c for one model: its lanes, its texts that wait, and the memory of
 * their states. Everything is called under the decoder's lock. */
#ifndef TEXTS_DECODER_H
#define TEXTS_DECODER_H
#include "texts/decode/model.h"
#include "texts/decode/decoding.h"
#include "texts/decode/drafting.h"
#include "texts/decode/prefixes.h"
#include <pthread.h>

enum {
    KV_MARGIN = 64 /* tokens for which a text that begins must have room, so that it need not wait again at once */
};

struct lane {
    struct decoder *decoder;
    /* Of its context, whose rows are the states of its texts between runs. Its outputs are the logits, and the hidden
     * states that a head reads. */
    decode_step step;
    decoding_text **texts; /* [row_count], capacity of max_sequences; 0: the lane is free */
    uint32_t row_count;
    bool reads;                  /* its only text has tokens that must be read before the next one is chosen */
    bool scores;                 /* its run returns the logits of all tokens that it reads */
    size_t most;                 /* tokens that its next run reads at most, if it reads */
    size_t columns;              /* tokens of each text that its run reads, and the guesses after them */
    bool runs;                   /* its step is queued or runs */
    uint64_t drops;              /* decoder->drops when it was queued */
    int64_t guesses[MOST_AHEAD]; /* [ahead] guesses that its run reads after the last token of its only text */
    uint32_t ahead;
    int64_t kept;               /* last tokens of each text whose logits its runs return; 0: not bound yet */
    int64_t *adapters;          /* [max_sequences] of the texts of its run; owned */
    inlay_value *adapter_input; /* its first adapter_rows; NULL: none yet */
    uint32_t adapter_rows;
    bool drafts;        /* the draft model guesses for its only text; its step follows */
    bool is_drafted;    /* the guesses of its run are those of the draft model */
    bool has_image;     /* rows of an image are bound to its context */
    bool has_shifts;    /* its shifts are bound to its context */
    int64_t *shifts;    /* [max_sequences or IMAGE_TOKENS, IMAGE_AXES] of its run; owned; NULL: the model has none */
    bool plain;         /* its run failed with guesses, and is repeated without */
    struct lane *queue; /* lanes whose steps are to be run when the lock is released */
};

struct decoder {
    pthread_mutex_t lock;
    decode_model *model;
    decoding_text *first, *last; /* the texts that wait, linked by next */
    uint32_t waiting, active;    /* texts that wait; that are in a lane */
    struct lane *lanes;          /* [lane_count] */
    uint32_t lane_count;
    struct lane *main;    /* the lane that texts join; NULL: none */
    size_t prompt_tokens; /* that may be read until a lane has chosen tokens again */
    prefix_store *prefixes;
    ahead_cost ahead;        /* times of runs of one text */
    struct drafter *drafter; /* of the draft model; NULL: the model has none */
    const text_head *head;   /* of the draft model, if it reads hidden states; NULL: it does not */
    bool lacks_hidden;       /* a run did not return the hidden states, and a line of the log said so */
    bool last_only;          /* the model returns the logits of the last token alone: no guesses are read */
    uint64_t drops;          /* how often the states of earlier texts were dropped because an allocation failed */
    inlay_row *rows;         /* [max_sequences] scratch */
    int64_t *tokens;         /* [max_sequences + MOST_AHEAD] scratch */
    int64_t image_tokens[IMAGE_TOKENS]; /* -1, -2, ...: those of the rows of a run */
    uint64_t began;                     /* texts so far */
};

/* Bytes of the states of `rows` texts in one context, where the longest text has `tokens` tokens. */
uint64_t decoder_bytes(const struct decoder *decoder, uint64_t rows, uint64_t tokens);

/* Bytes of the states of all texts in lanes. */
uint64_t decoder_used_bytes(const struct decoder *decoder);

/* Whether the texts with one more of `tokens` tokens stay within kv_memory, also when it joins the main lane. */
bool decoder_fits(const struct decoder *decoder, uint64_t tokens);

/* Most bytes of the states of earlier texts: what texts in progress leave. */
uint64_t decoder_prefix_limit(const struct decoder *decoder);

/* Whether a failure may be due to the memory of earlier texts' states, which are then dropped. */
bool decoder_drop_prefixes(struct decoder *decoder, inlay_status status);

/* Puts the text after those that wait. */
void decoder_add(struct decoder *decoder, decoding_text *text);

/* Takes the first text that waits to put it into a lane. */
decoding_text *decoder_begin_first(struct decoder *decoder);

/* There is no memory for more tokens: the text waits at the front, and its tokens are read again when it begins. */
void decoder_wait_again(struct decoder *decoder, decoding_text *text);

/* The text of a lane ends; failure: NULL if it is complete. */
void decoder_end_text(struct decoder *decoder, decoding_text *text, const inlay_diag *failure);

/* Whether nobody waits for the text any more; *diag says why. */
bool decoder_is_over(const decoding_text *text, inlay_diag *diag);

/* Ends the texts that wait and are over. */
void decoder_drop_waiting(struct decoder *decoder);
#endif
