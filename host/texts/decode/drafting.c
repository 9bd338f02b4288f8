#include "texts/decode/drafting.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "texts/decode/head_rows.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 256,       /* tokens of a prompt that are read by one run */
    SMOOTHING = 8,     /* runs */
    FIRST_TOKENS = 256 /* initial capacity of the states; it doubles */
};

struct drafter {
    decode_model *model;
    void (*finish)(void *user);
    void *user;
    decode_step step; /* of its context, with one row */
    struct head_rows *head;      /* NULL: the draft model is a decoder */
    bool ran; /* the last run completed; otherwise: */
    inlay_diag failure;
    int64_t *tokens;      /* [length] the tokens that the row of a decoder has; owned */
    size_t length, reads; /* reads: tokens of the prepared run, which follow in `tokens` */
    decoding_text *text;  /* for which it guesses; NULL: none */
    int64_t guesses[MOST_AHEAD];
    uint32_t count, most; /* guesses so far; guesses that are wanted */
    double ns;
    uint32_t runs; /* runs that read one or two tokens */
    bool failed;
};

/* Called when a run ends. Any thread. */
static void finish_run(decode_step *step, const inlay_diag *failure)
{
    struct drafter *drafter = step->user;

    drafter->ran = failure == NULL;
    drafter->failure = failure != NULL ? *failure : (inlay_diag)INLAY_DIAG_INIT;
    drafter->finish(drafter->user);
}

/* Takes the outputs of a run of a decoder; as head_rows_read(). */
static inlay_status read_decoder(struct drafter *drafter, const decode_output *logits, const float **out_logits,
                                 size_t *out_words, inlay_diag *diag)
{

    *out_logits = NULL;
    if (logits->rank != 3 || logits->dims[2] < 1 || logits->count < (uint64_t)logits->dims[2] ||
        logits->dtype != INLAY_FLOAT)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "'logits' is not a float tensor [1, tokens, vocabulary]");
    drafter->length += drafter->reads;
    if (drafter->length < drafter->text->count)
        return INLAY_OK;
    *out_words = (size_t)logits->dims[2];
    *out_logits = (const float *)logits->data + logits->count - *out_words;
    return INLAY_OK;
}

/* Reads the results of the run: a guess, if it has read all tokens of the text. false: it failed. */
static bool read_results(struct drafter *drafter)
{
    const double ns = (double)drafter->step.compute_ns;
    decode_output outputs[1 + HEAD_SOURCES];
    inlay_diag *diag = &drafter->failure;
    const float *logits;
    size_t words = 0;
    int64_t guess;
    inlay_status status;

    if (!drafter->ran || decode_step_outputs(&drafter->step, outputs, diag) != INLAY_OK)
        return false;
    status = drafter->head != NULL ? head_rows_read(drafter->head, drafter->text, outputs, drafter->step.output_count,
                                                    &logits, &words, diag)
                                   : read_decoder(drafter, outputs, &logits, &words, diag);
    if (status != INLAY_OK)
        return false;
    if (drafter->reads <= 2 && drafter->runs++ > 0) /* the first run also plans */
        drafter->ns = drafter->runs < 4 ? ns : drafter->ns + (ns - drafter->ns) / SMOOTHING;
    if (logits == NULL)
        return true;
    guess = drafter->text->guess(drafter->text, logits, words, drafter->count);
    if (guess >= 0)
        drafter->guesses[drafter->count++] = guess;
    return guess >= 0;
}

/* The draft model guesses no more: its runs fail. */
static void set_failed(struct drafter *drafter)
{
    char line[sizeof drafter->failure.text + 32];

    drafter->failed = true;
    (void)snprintf(line, sizeof line, "it guesses no more: %s",
                   drafter->failure.text[0] != '\0' ? drafter->failure.text : "no memory for its runs");
    drafter->model->program->warn(drafter->model, line);
}

static void drafter_close(void *runner)
{
    struct drafter *drafter = runner;

    INLAY_CHECK(drafter->text == NULL);
    drafter->model->program->close(&drafter->step);
    head_rows_destroy(drafter->head);
    free(drafter->tokens);
    free(drafter);
}

struct drafter *drafter_open(decode_model *model, void (*finish)(void *user), void *user)
{
    struct drafter *drafter = calloc(1, sizeof *drafter);

    if (drafter == NULL)
        return NULL;
    if (model->head != NULL && (drafter->head = head_rows_create(model)) == NULL) {
        free(drafter);
        return NULL;
    }
    drafter->model = model;
    drafter->finish = finish;
    drafter->user = user;
    drafter->step = (decode_step){ .model = model, .finish = finish_run, .user = drafter };
    if (drafter->head != NULL)
        head_rows_want(drafter->head, &drafter->step);
    else
        drafter->step.outputs[drafter->step.output_count++] = model->logits;
    INLAY_CHECK(model->runner == NULL);
    model->runner = drafter;
    model->close_runner = drafter_close;
    return drafter;
}

bool drafter_is_free(const struct drafter *drafter)
{
    return drafter->text == NULL && !drafter->failed;
}

uint32_t drafter_most(const struct drafter *drafter, const decoding_text *text, uint32_t most)
{
    const text_head *head = drafter->model->head;

    if (head == NULL)
        return most;
    if (!head_rows_can_begin(text))
        return 0;
    return head->next == INLAY_NONE && most > 1 ? 1 : most;
}

double drafter_ns(const struct drafter *drafter)
{
    return drafter->ns;
}

/* Binds the tokens after the first `length` to the context of a decoder. Returns how many; 0: out of memory. */
static size_t bind_tokens(struct drafter *drafter)
{
    const decoding_text *text = drafter->text;
    const size_t end = text->count + drafter->count;
    size_t reads = end - drafter->length;

    if (drafter->model->rows.in_parts && reads > CHUNK)
        reads = CHUNK;
    if (!list_reserve(&drafter->tokens, drafter->length, reads, sizeof *drafter->tokens))
        return 0;
    for (size_t i = drafter->length; i < drafter->length + reads; i++)
        drafter->tokens[i] = i < text->count ? text->tokens[i] : drafter->guesses[i - text->count];
    return inlay_context_set_tokens(drafter->step.context, drafter->tokens + drafter->length,
                                    (int64_t)reads, NULL) == INLAY_OK
               ? reads
               : 0;
}

/* Prepares the run of the tokens that are not read yet. */
static bool prepare(struct drafter *drafter)
{
    drafter->reads = drafter->head != NULL ? head_rows_prepare(drafter->head, drafter->text, drafter->guesses,
                                                               drafter->count, CHUNK, &drafter->step)
                                           : bind_tokens(drafter);
    drafter->step.rows = 1;
    drafter->step.bytes = drafter->reads * sizeof *drafter->tokens;
    return drafter->reads > 0;
}

/* Keeps the first tokens of the row that the text has in common with it. The text's last token is read again in any
 * case. */
static bool rewind_row(struct drafter *drafter)
{
    inlay_context *context = drafter->step.context;
    const decoding_text *text = drafter->text;
    size_t same = 0;
    inlay_row row;

    if (drafter->head != NULL)
        return head_rows_begin(drafter->head, context, text);
    while (same < drafter->length && same + 1 < text->count && drafter->tokens[same] == text->tokens[same])
        same++;
    row = (inlay_row){ .context = same > 0 ? context : NULL, .length = (int64_t)same };
    if (same == drafter->length && same > 0)
        return true;
    drafter->length = same;
    return inlay_context_set_rows(context, &row, 1, NULL) == INLAY_OK;
}

/* Makes the context, if it has none. */
static bool open_context(struct drafter *drafter)
{
    const decode_model *model = drafter->model;
    decode_step *step = &drafter->step;
    inlay_status status;

    if (step->context != NULL)
        return true;
    status = model->program->open(step, &drafter->failure);
    if (status == INLAY_OK)
        status = drafter->head != NULL
                     ? head_rows_keep(drafter->head, step->context, &drafter->failure)
                     : inlay_context_keep_rows(step->context, &model->rows, FIRST_TOKENS, &drafter->failure);
    if (status == INLAY_OK)
        status = decode_model_keep_logits(model, step->context, 1, &drafter->failure);
    if (status != INLAY_OK)
        model->program->close(step);
    return status == INLAY_OK;
}

bool drafter_begin(struct drafter *drafter, decoding_text *text, uint32_t count)
{
    const size_t context = drafter->model->context;

    INLAY_CHECK(drafter_is_free(drafter) && count <= MOST_AHEAD);
    if (text->guess == NULL || count == 0 || (context > 0 && text->count + count > context))
        return false;
    drafter->text = text;
    drafter->count = 0;
    drafter->most = count;
    if (open_context(drafter) && rewind_row(drafter) && prepare(drafter))
        return true;
    drafter->text = NULL;
    set_failed(drafter);
    return false;
}

void drafter_run(struct drafter *drafter)
{
    drafter->model->program->run(&drafter->step);
}

bool drafter_step(struct drafter *drafter, int64_t out[MOST_AHEAD], uint32_t *out_count)
{
    const bool good = read_results(drafter);

    if (good && drafter->count < drafter->most && prepare(drafter))
        return true;
    if (!good || drafter->count < drafter->most)
        set_failed(drafter);
    memcpy(out, drafter->guesses, drafter->count * sizeof *out);
    *out_count = drafter->count;
    drafter->text = NULL;
    return false;
}
