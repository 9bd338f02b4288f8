#include "serve/schedule/drafting.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "serve/model/sequence.h"
#include "serve/model/text.h"
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 256,       /* tokens of a prompt that are read by one run */
    SMOOTHING = 8,     /* runs */
    FIRST_TOKENS = 256 /* initial capacity of the states; it doubles */
};

struct drafter {
    struct sched *sched;
    struct model *model;
    void (*finish)(void *user);
    void *user;
    struct sequence sequence; /* its context, with one row */
    struct job job;
    infer_request request;
    infer_wanted wanted;
    const infer_output *logits; /* of the run that has ended; NULL: it failed */
    int64_t *tokens;            /* [length] the tokens that the row has; owned */
    size_t length, reads;       /* reads: tokens of the prepared run, which follow in `tokens` */
    decoding_text *text;        /* for which it guesses; NULL: none */
    int64_t guesses[MOST_AHEAD];
    uint32_t count, most; /* guesses so far; guesses that are wanted */
    double ns;
    uint32_t runs; /* runs that read one or two tokens */
    bool failed;
};

/* Called when a run ends. Any thread. */
static void finish_run(struct job *job, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count)
{
    struct drafter *drafter = job->user;

    drafter->logits = failure == NULL && output_count == 1 ? &outputs[0] : NULL;
    drafter->finish(drafter->user);
}

/* Reads the results of the run: a guess, if it has read all tokens of the text. false: it failed. */
static bool read_results(struct drafter *drafter)
{
    const infer_output *logits = drafter->logits;
    const double ns = (double)drafter->job.run.compute_ns;
    size_t words;
    int64_t guess;

    if (logits == NULL || logits->rank != 3 || logits->dims[2] < 1 || logits->count < (uint64_t)logits->dims[2] ||
        logits->dtype != INLAY_FLOAT)
        return false;
    words = (size_t)logits->dims[2];
    drafter->length += drafter->reads;
    if (drafter->reads <= 2 && drafter->runs++ > 0) /* the first run also plans */
        drafter->ns = drafter->runs < 4 ? ns : drafter->ns + (ns - drafter->ns) / SMOOTHING;
    if (drafter->length < drafter->text->count)
        return true;
    guess =
        drafter->text->guess(drafter->text, (const float *)logits->data + logits->count - words, words, drafter->count);
    if (guess >= 0)
        drafter->guesses[drafter->count++] = guess;
    return guess >= 0;
}

static void drafter_close(void *runner)
{
    struct drafter *drafter = runner;

    INLAY_CHECK(drafter->text == NULL);
    instance_deinit(drafter->model, &drafter->sequence.instance);
    free(drafter->tokens);
    free(drafter);
}

struct drafter *drafter_open(struct sched *sched, struct model *model, void (*finish)(void *user), void *user)
{
    struct drafter *drafter = calloc(1, sizeof *drafter);

    if (drafter == NULL)
        return NULL;
    drafter->sched = sched;
    drafter->model = model;
    drafter->finish = finish;
    drafter->user = user;
    drafter->wanted = (infer_wanted){ .name = "logits", .binary = -1, .output = model->text->logits };
    drafter->request.id = "";
    drafter->request.outputs = &drafter->wanted;
    drafter->request.output_count = 1;
    drafter->job.model = model;
    drafter->job.request = &drafter->request;
    drafter->job.sequence = &drafter->sequence;
    drafter->job.level = model->settings.priority;
    drafter->job.is_admitted = true;
    drafter->job.finish = finish_run;
    drafter->job.user = drafter;
    INLAY_CHECK(model->text->runner == NULL);
    model->text->runner = drafter;
    model->text->close_runner = drafter_close;
    return drafter;
}

bool drafter_is_free(const struct drafter *drafter)
{
    return drafter->text == NULL && !drafter->failed;
}

double drafter_ns(const struct drafter *drafter)
{
    return drafter->ns;
}

/* Prepares the run of the tokens after the first `length`. */
static bool prepare(struct drafter *drafter)
{
    const decoding_text *text = drafter->text;
    const size_t end = text->count + drafter->count;
    size_t reads = end - drafter->length;

    if (drafter->model->text->rows.in_parts && reads > CHUNK)
        reads = CHUNK;
    if (!list_reserve(&drafter->tokens, drafter->length, reads, sizeof *drafter->tokens))
        return false;
    for (size_t i = drafter->length; i < drafter->length + reads; i++)
        drafter->tokens[i] = i < text->count ? text->tokens[i] : drafter->guesses[i - text->count];
    drafter->reads = reads;
    drafter->job.size.rows = 1;
    drafter->job.size.bytes = reads * sizeof *drafter->tokens;
    drafter->job.arrived_ns = drafter->job.received_ns = clock_ns();
    return inlay_context_set_tokens(drafter->sequence.instance.context, drafter->tokens + drafter->length,
                                    (int64_t)reads, NULL) == INLAY_OK;
}

/* Keeps the first tokens of the row that the text has in common with it. The text's last token is read again in any
 * case. */
static bool rewind_row(struct drafter *drafter)
{
    inlay_context *context = drafter->sequence.instance.context;
    const decoding_text *text = drafter->text;
    size_t same = 0;
    inlay_row row;

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
    struct instance *instance = &drafter->sequence.instance;

    if (instance->context != NULL)
        return true;
    if (instance_init(drafter->model, instance, 1, NULL) == INLAY_OK &&
        inlay_context_keep_rows(instance->context, &drafter->model->text->rows, FIRST_TOKENS, NULL) == INLAY_OK &&
        text_model_keep_logits(drafter->model->text, instance->context, 1, NULL) == INLAY_OK)
        return true;
    instance_deinit(drafter->model, instance);
    return false;
}

bool drafter_begin(struct drafter *drafter, decoding_text *text, uint32_t count)
{
    const size_t context = drafter->model->text->context;

    INLAY_CHECK(drafter_is_free(drafter) && count <= MOST_AHEAD);
    if (text->guess == NULL || count == 0 || (context > 0 && text->count + count > context))
        return false;
    drafter->text = text;
    drafter->count = 0;
    drafter->most = count;
    if (open_context(drafter) && rewind_row(drafter) && prepare(drafter))
        return true;
    drafter->text = NULL;
    drafter->failed = true;
    return false;
}

static void keep_suspended(void *user)
{
    (void)user; /* the connections are suspended already */
}

void drafter_run(struct drafter *drafter)
{
    (void)sched_submit(drafter->sched, &drafter->job, keep_suspended, NULL); /* max_queue does not apply */
}

bool drafter_step(struct drafter *drafter, int64_t out[MOST_AHEAD], uint32_t *out_count)
{
    drafter->failed = !read_results(drafter);
    if (!drafter->failed && drafter->count < drafter->most) {
        if (prepare(drafter))
            return true;
        drafter->failed = true;
    }
    memcpy(out, drafter->guesses, drafter->count * sizeof *out);
    *out_count = drafter->count;
    drafter->text = NULL;
    return false;
}
