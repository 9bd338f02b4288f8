/* texts/decode/decoding.h - generates texts token by token, for all requests of a model together.
 *
 * A lane is a context with the states of one text or of several, as rows (inlay_context_keep_rows()), and a step that
 * runs all of them. A text begins in a separate lane, which reads its prompt in chunks. Then its row joins the main
 * lane: between two of its runs, rows join and leave. The chunks are so small that at most prompt_tokens tokens are
 * read between two runs of the main lane. If the model holds only one text per context, each text stays in its own
 * lane.
 *
 * Texts that do not fit wait in the order of their arrival: at most max_sequences are generated at once, and the states
 * of their tokens have at most kv_memory bytes. When the texts outgrow kv_memory, the text that began last waits again,
 * and its tokens are read anew. The rest of this memory, at most prefix_memory, keeps states of earlier texts, from
 * which texts with the same beginning continue (prefixes.h).
 *
 * A run of a single text may also read guesses of its next tokens: the tokens that followed its last tokens earlier in
 * the text. The logits of the last token choose the next token, as without guesses. As long as the chosen token is the
 * guessed one, the logits of the guess choose the token after it. The states of wrong guesses are dropped. A draft
 * model guesses while only one text is generated (drafting.h). If the draft model reads hidden states, all runs return
 * them, and the hidden states of each text are kept for it (hidden.h). */
#ifndef TEXTS_DECODING_H
#define TEXTS_DECODING_H
#include "texts/decode/model.h"
#include "texts/decode/ahead.h"
#include "texts/decode/hidden.h"

typedef struct decoding_text decoding_text;

enum { IMAGE_TOKENS = 256 /* rows of an image that a run reads at most */ };

/* An image in a text: rows that an encoder has made, in the places of `count` tokens from the token `first` on. */
typedef struct image_span {
    size_t first, count;
    const float *rows; /* [count, width of the model's input image_rows] */
    bool whole;        /* one run reads all rows, IMAGE_TOKENS at most, because they see each other */
    /* Number of columns of the grid of image patches that the rows come from, for models with the input image_shifts.
     * The position of a row of the image consists of a time, which all its rows share, a row and a column of the grid;
     * the next token's position is larger than all of these. 0: rows have positions like those of tokens. */
    size_t columns;
} image_span;

/* A text. Its owner sets the first part; the functions are called under the model's lock of texts, sequentially. */
struct decoding_text {
    /* [count] at first the prompt. In the place of an image's row is a negative number, which is the same for the same
     * row of the same image, and for no other. */
    const int64_t *tokens;
    size_t count;
    const image_span *images; /* [image_count] of the prompt, in their order; the model has the input image_rows */
    uint32_t image_count;
    int64_t adapter;     /* of the model's LoRA adapters; -1: none */
    const void *like;    /* equal for texts with the same prompt; NULL: none is known */
    decoding_text *next; /* the request's next text */
    /* Chooses the next token by the logits [words] of the last one, and adds it to the tokens. false: the text is
     * complete, or diag says why it cannot continue. */
    bool (*choose)(decoding_text *text, const float *logits, size_t words, inlay_diag *diag);
    /* Takes the logits [count, words] of the tokens from position `first` on, which a run has read. Called in the order
     * of the tokens, and from the first one on if the text had to wait and its tokens are read again. false: diag says
     * why the text cannot continue. NULL: only those of the last token are of interest. */
    bool (*score)(decoding_text *text, const float *logits, size_t first, size_t count, size_t words, inlay_diag *diag);
    /* Whether the text ends before it is complete, as cancelled or too late; diag then says why. NULL: never. */
    bool (*is_over)(const decoding_text *text, inlay_diag *diag);
    /* Guesses the token `index` positions ahead from the logits [words] of another model, without any other effect.
     * NULL: the text has no guesses. -1: out of memory. */
    int64_t (*guess)(decoding_text *text, const float *logits, size_t words, uint32_t index);
    /* The text has ended: failure is NULL if it is complete, or if no memory was left for more tokens. */
    void (*end)(decoding_text *text, const inlay_diag *failure);

    size_t read;        /* tokens whose states the lane has */
    size_t reused;      /* number of first tokens whose states were copied from another text when this text began */
    size_t kept;        /* number of tokens of the prompt, beyond the reused ones, whose states later texts may copy */
    ahead_record ahead; /* guesses from the text's own tokens */
    ahead_record drafted; /* guesses of the draft model */
    hidden_states hidden; /* for a draft model that is a head */
    uint64_t order;       /* number of the text, in the order in which texts began */
    uint64_t compute_ns;  /* time of the runs that the text was in */
    uint64_t rows;        /* largest number of texts in one of these runs */
};

enum { IMAGE_AXES = 3 }; /* time, row and column */
/* What the position of the text's token or row i, along each axis, differs by from i. */
void decoding_shifts(const decoding_text *text, size_t i, int64_t out[IMAGE_AXES]);

/* Generates texts, linked by next. INLAY_BUSY: max_waiting texts wait already. From here on another thread may end the
 * texts. */
INLAY_NODISCARD inlay_status decoding_add(decode_model *model, decoding_text *texts, inlay_diag *diag);

typedef struct decoding_load {
    uint32_t running, waiting; /* texts being generated; texts that wait */
    uint64_t bytes;            /* of the states of the running ones */
} decoding_load;
enum { ADAPTER_RUNS = 1, ADAPTER_WAITS = 2 };
/* The texts of a model in this process; zeros if it generates none. adapters: NULL, or [adapter_count] zeros that get
 * ADAPTER_* of the texts that use each. */
decoding_load decoding_load_of(const decode_model *model, uint8_t *adapters);
#endif
