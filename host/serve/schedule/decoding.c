#include "serve/schedule/decoding.h"
#include "inlay/check.h"
#include "lookup.h"
#include "serve/model/sequence.h"
#include "serve/model/text.h"
#include "serve/schedule/drafting.h"
#include "serve/schedule/prefixes.h"
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 256,      /* tokens of a prompt that are read by one run, so that it does not hold up the other texts */
    READERS = 2,      /* lanes of texts that have not joined the main lane yet */
    KV_MARGIN = 64,   /* tokens for which a text that begins must have room, so that it need not wait again at once */
    FIRST_TOKENS = 64 /* initial capacity of states that grow; it doubles */
};

struct lane {
    struct decoder *decoder;
    struct sequence sequence; /* its context, whose rows are the states of its texts between runs */
    struct job job;
    infer_request request; /* without inputs: inlay_context_set_tokens() binds them */
    infer_wanted wanted;
    decoding_text **texts; /* [row_count], capacity of max_sequences; 0: the lane is free */
    uint32_t row_count;
    bool reads;                  /* its only text has tokens that must be read before the next one is chosen */
    bool runs;                   /* its job is queued or runs */
    uint64_t drops;              /* decoder->drops when it was queued */
    int64_t guesses[MOST_AHEAD]; /* [ahead] guesses that its run reads after the last token of its only text */
    uint32_t ahead;
    int64_t *adapters;          /* [max_sequences] of the texts of its run; owned */
    inlay_value *adapter_input; /* its first adapter_rows; NULL: none yet */
    uint32_t adapter_rows;
    bool drafts;        /* the draft model guesses for its only text; its job follows */
    bool is_drafted;    /* the guesses of its run are those of the draft model */
    bool plain;         /* its run failed with guesses, and is repeated without */
    struct lane *queue; /* lanes whose jobs are to be submitted when the lock is released */
};

struct decoder {
    pthread_mutex_t lock;
    struct sched *sched;
    struct model *model;
    decoding_text *first, *last; /* the texts that wait, linked by next */
    uint32_t waiting, active;    /* texts that wait; that are in a lane */
    struct lane *lanes;          /* [lane_count] */
    uint32_t lane_count;
    struct lane *main; /* the lane that texts join; NULL: none */
    prefix_store *prefixes;
    ahead_cost ahead;        /* times of runs of one text */
    struct drafter *drafter; /* of the draft model; NULL: the model has none */
    bool last_only;          /* the model returns the logits of the last token alone: no guesses are read */
    uint64_t drops;          /* how often they were dropped because an allocation failed */
    inlay_row *rows;         /* [max_sequences] scratch */
    int64_t *tokens;         /* [max_sequences + MOST_AHEAD] scratch */
    uint64_t began;          /* texts so far */
};

/* ------------------------------------------------------------------ memory */

static size_t longest(const struct lane *lane)
{
    size_t tokens = 0;

    for (uint32_t i = 0; i < lane->row_count; i++)
        tokens = lane->texts[i]->count > tokens ? lane->texts[i]->count : tokens;
    return tokens;
}

/* Bytes of the states of `rows` texts in one context, of which the longest has `tokens`. */
static uint64_t bytes_of(const struct decoder *decoder, uint64_t rows, uint64_t tokens)
{
    const inlay_rows_info *info = &decoder->model->text->rows;

    return rows * (tokens * info->token_bytes + info->fixed_bytes);
}

static uint64_t used_bytes(const struct decoder *decoder)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < decoder->lane_count; i++)
        bytes += bytes_of(decoder, decoder->lanes[i].row_count, longest(&decoder->lanes[i]));
    return bytes;
}

/* Whether the texts with one more of `tokens` tokens stay within kv_memory, also when it joins the main lane. */
static bool fits(const struct decoder *decoder, uint64_t tokens)
{
    const uint64_t limit = decoder->model->settings.kv_memory;
    const struct lane *main = decoder->main;
    const uint64_t rows = main != NULL ? main->row_count : 0, most = main != NULL ? longest(main) : 0;

    return limit == 0 || decoder->active == 0 ||
           used_bytes(decoder) - bytes_of(decoder, rows, most) +
                   bytes_of(decoder, rows + 1, most > tokens ? most : tokens) <=
               limit;
}

/* Most bytes of the states of earlier texts: what texts in progress leave. */
static uint64_t prefix_limit(const struct decoder *decoder)
{
    const model_settings *settings = &decoder->model->settings;
    const uint64_t used = settings->kv_memory > 0 ? used_bytes(decoder) : 0;
    const uint64_t left = settings->kv_memory > used ? settings->kv_memory - used : 0;

    return settings->kv_memory > 0 && left < settings->prefix_memory ? left : settings->prefix_memory;
}

/* Whether a failure may be due to the memory of earlier texts' states, which are then dropped. */
static bool drop_prefixes(struct decoder *decoder, inlay_status status)
{
    if ((status != INLAY_OUT_OF_MEMORY && status != INLAY_LIMIT_EXCEEDED) || prefixes_bytes(decoder->prefixes) == 0)
        return false;
    prefixes_trim(decoder->prefixes, 0, false);
    decoder->drops++;
    return true;
}

/* ------------------------------------------------------------------ texts */

static void wait_last(struct decoder *decoder, decoding_text *text)
{
    if (decoder->last != NULL)
        decoder->last->next = text;
    else
        decoder->first = text;
    text->next = NULL;
    decoder->last = text;
    decoder->waiting++;
}

static decoding_text *take_first(struct decoder *decoder)
{
    decoding_text *text = decoder->first;

    INLAY_CHECK(text != NULL && decoder->waiting > 0);
    decoder->first = text->next;
    if (decoder->first == NULL)
        decoder->last = NULL;
    decoder->waiting--;
    text->next = NULL;
    return text;
}

/* Takes the first text that waits to put it into a lane. */
static decoding_text *begin_first(struct decoder *decoder)
{
    decoding_text *text = take_first(decoder);

    text->order = ++decoder->began;
    text->read = text->reused = 0;
    decoder->active++;
    return text;
}

/* There is no memory for more tokens: the text waits at the front, and its tokens are read again when it begins. */
static void wait_again(struct decoder *decoder, decoding_text *text)
{
    text->read = 0;
    text->like = NULL; /* it has generated tokens, so it equals no prompt */
    text->next = decoder->first;
    decoder->first = text;
    if (decoder->last == NULL)
        decoder->last = text;
    decoder->waiting++;
    decoder->active--;
}

static void end_text(struct decoder *decoder, decoding_text *text, const inlay_diag *failure)
{
    INLAY_CHECK(decoder->active > 0);
    decoder->active--;
    (void)atomic_fetch_sub(&decoder->model->texts, 1);
    text->end(text, failure);
}

/* Whether nobody waits for the text any more; *diag says why. */
static bool is_over(const decoding_text *text, inlay_diag *diag)
{
    const struct job *request = text->request;

    *diag = (inlay_diag)INLAY_DIAG_INIT;
    if (request->cancelled)
        (void)inlay_fail(diag, INLAY_CANCELLED, "the text was not finished");
    else if (request->deadline_ns != 0 && request->deadline_ns <= clock_ns())
        (void)inlay_fail(diag, INLAY_DEADLINE_EXCEEDED, "the request's deadline passed before its text was finished");
    return diag->code != INLAY_OK;
}

/* Ends the texts that wait and are over. */
static void drop_waiting(struct decoder *decoder)
{
    uint32_t count = decoder->waiting;
    inlay_diag diag;

    for (uint32_t i = 0; i < count; i++) {
        decoding_text *text = take_first(decoder);

        if (!is_over(text, &diag)) {
            wait_last(decoder, text);
        } else {
            decoder->active++;
            end_text(decoder, text, &diag);
        }
    }
}

/* ------------------------------------------------------------------ lanes */

static void lane_fail(struct lane *lane, const inlay_diag *failure)
{
    for (uint32_t i = 0; i < lane->row_count; i++)
        end_text(lane->decoder, lane->texts[i], failure);
    lane->row_count = 0;
}

/* Makes the lane's states those of its texts, which are at `rows`. */
static void lane_join(struct lane *lane, const inlay_row *rows)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    do {
        status = inlay_context_set_rows(lane->sequence.instance.context, rows, lane->row_count, &diag);
    } while (drop_prefixes(lane->decoder, status));
    if (status != INLAY_OK)
        lane_fail(lane, &diag);
}

/* Makes the row of the text that begins in the lane: it has the tokens that an earlier text has, too. */
static inlay_status begin_row(struct lane *lane, inlay_diag *diag)
{
    struct decoder *decoder = lane->decoder;
    decoding_text *text = lane->texts[0];
    inlay_status status;
    inlay_row row;

    do {
        text->read = text->reused = prefixes_find(decoder->prefixes, text->adapter, text->tokens, text->count, &row);
        prefixes_trim(decoder->prefixes, prefix_limit(decoder), text->reused > 0);
        status = inlay_context_set_rows(lane->sequence.instance.context, &row, 1, diag);
    } while (drop_prefixes(decoder, status));
    return status;
}

/* Makes the lane's context, if it has none, with a row for the text that begins. */
static inlay_status lane_begin(struct lane *lane, inlay_diag *diag)
{
    const struct model *model = lane->decoder->model;
    struct instance *instance = &lane->sequence.instance;
    inlay_status status = INLAY_OK;

    if (instance->context == NULL) {
        status = instance_init(model, instance, 1, diag);
        if (status == INLAY_OK)
            status = inlay_context_keep_rows(instance->context, &model->text->rows, FIRST_TOKENS, diag);
        if (status != INLAY_OK)
            instance_deinit(model, instance);
    }
    return status == INLAY_OK ? begin_row(lane, diag) : status;
}

/* The most guesses, up to `most`, that the lane's next run may read. */
static size_t most_guesses(const struct lane *lane, size_t most)
{
    const struct decoder *decoder = lane->decoder;
    const struct text_model *model = decoder->model->text;
    const model_settings *settings = &decoder->model->settings;
    const decoding_text *text = lane->texts[0];

    if (lane->plain || lane->reads || lane->row_count > 1 || text->count - text->read != 1 || decoder->last_only ||
        !model->rows.in_parts || model->rows.fixed_bytes > 0)
        return 0;
    if (model->context > 0 && text->count + most > model->context)
        most = text->count < model->context ? model->context - text->count : 0;
    return settings->kv_memory == 0 || used_bytes(decoder) + most * model->rows.token_bytes <= settings->kv_memory
               ? most
               : 0;
}

/* Guesses the next tokens of the lane's only text by its own tokens. Sets lane->ahead to the number of those that its
 * next run reads. */
static void lane_guess(struct lane *lane)
{
    struct decoder *decoder = lane->decoder;
    decoding_text *text = lane->texts[0];
    const size_t most = most_guesses(lane, decoder->model->settings.lookup_tokens);
    size_t found;

    lane->ahead = 0;
    lane->is_drafted = false;
    if (most == 0)
        return;
    found = lookup_next(text->tokens, text->count, most, lane->guesses);
    lane->ahead = ahead_best(&decoder->ahead, &text->ahead, (uint32_t)found, 0);
}

/* Begins guesses of the draft model for the lane's only text, if no other text is generated. */
static bool lane_draft(struct lane *lane)
{
    struct decoder *decoder = lane->decoder;
    decoding_text *text = lane->texts[0];
    size_t most;

    if (decoder->drafter == NULL || lane->ahead > 0 || decoder->active > 1 || !drafter_is_free(decoder->drafter))
        return false;
    most = most_guesses(lane, decoder->model->settings.draft_tokens);
    most = ahead_best(&decoder->ahead, &text->drafted, (uint32_t)most, drafter_ns(decoder->drafter));
    return most > 0 && drafter_begin(decoder->drafter, text, (uint32_t)most);
}

/* Tokens of each text that the lane's next run reads, and the guesses after them. */
static size_t step_tokens(const struct lane *lane)
{
    const decoding_text *text = lane->texts[0];
    const size_t left = text->count - text->read + lane->ahead;

    return lane->decoder->model->text->rows.in_parts && left > CHUNK ? CHUNK : left;
}

/* Binds the adapters of the lane's texts, if the model has some. */
static inlay_status bind_adapters(struct lane *lane, inlay_diag *diag)
{
    const text_model *model = lane->decoder->model->text;
    const int64_t rows = lane->row_count;
    inlay_status status = INLAY_OK;

    if (model->adapter == INLAY_NONE || lane->decoder->model->adapter_count == 0)
        return INLAY_OK;
    for (uint32_t r = 0; r < lane->row_count; r++)
        lane->adapters[r] = lane->texts[r]->adapter;
    if (lane->adapter_rows != lane->row_count) {
        inlay_value_unref(lane->adapter_input);
        lane->adapter_input = NULL;
        lane->adapter_rows = 0;
        status = inlay_value_borrow(INLAY_INT64, 1, &rows, lane->adapters, lane->row_count * sizeof *lane->adapters,
                                    &lane->adapter_input, diag);
        if (status == INLAY_OK)
            lane->adapter_rows = lane->row_count;
    }
    return status == INLAY_OK
               ? inlay_context_set_input(lane->sequence.instance.context, model->adapter, lane->adapter_input, diag)
               : status;
}

/* Sets the inputs of the lane's next run. */
static inlay_status lane_prepare(struct lane *lane, inlay_diag *diag)
{
    const uint32_t rows = lane->row_count;
    const int64_t *tokens = lane->texts[0]->tokens + lane->texts[0]->read;
    const inlay_status status = bind_adapters(lane, diag);
    size_t columns;

    if (status != INLAY_OK)
        return status;
    columns = step_tokens(lane);
    if (lane->ahead > 0) {
        lane->decoder->tokens[0] = *tokens;
        memcpy(lane->decoder->tokens + 1, lane->guesses, lane->ahead * sizeof *lane->guesses);
        tokens = lane->decoder->tokens;
    }
    for (uint32_t r = 0; r < rows; r++) {
        const decoding_text *text = lane->texts[r];

        INLAY_CHECK(text->read + columns <= text->count + lane->ahead);
        if (rows > 1) {
            INLAY_CHECK(columns == 1); /* prompts are read alone */
            lane->decoder->tokens[r] = text->tokens[text->read];
            tokens = lane->decoder->tokens;
        }
    }
    lane->job.rows = rows;
    lane->job.bytes = rows * columns * sizeof *tokens;
    lane->job.arrived_ns = lane->job.received_ns = clock_ns();
    return inlay_context_set_tokens(lane->sequence.instance.context, tokens, (int64_t)columns, diag);
}

/* Queues the lane's next run, if it has texts. It is submitted after the lock is released, since a short run may happen
 * within the submission. */
static void lane_queue(struct lane *lane, struct lane **queue)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (lane->row_count == 0 || lane->runs)
        return;
    lane_guess(lane);
    lane->drafts = lane_draft(lane);
    if (!lane->drafts && lane_prepare(lane, &diag) != INLAY_OK) {
        lane_fail(lane, &diag);
        return;
    }
    lane->runs = true;
    lane->drops = lane->decoder->drops;
    lane->queue = *queue;
    *queue = lane;
}

static void keep_suspended(void *user)
{
    (void)user; /* the connections are suspended already, or have their responses */
}

static void submit_queue(struct decoder *decoder, struct lane *queue)
{
    for (struct lane *lane = queue, *after; lane != NULL; lane = after) {
        after = lane->queue; /* the lane may be queued again as soon as it is submitted */
        if (lane->drafts)
            drafter_run(decoder->drafter);
        else
            (void)sched_submit(decoder->sched, &lane->job, keep_suspended, NULL); /* max_queue does not apply */
    }
}

/* ------------------------------------------------------------------ steps, under the lock */

/* Texts that wait and have the prompt that the lane's only text has just read: they continue from its states. */
static void add_alike(struct lane *lane)
{
    struct decoder *decoder = lane->decoder;
    const decoding_text *text = lane->texts[0], *other;

    while ((other = decoder->first) != NULL && other->like != NULL && other->like == text->like &&
           decoder->active < decoder->model->settings.max_sequences && fits(decoder, text->count + KV_MARGIN)) {
        decoding_text *taken = begin_first(decoder);

        taken->read = text->read;
        taken->reused = taken->count;
        lane->texts[lane->row_count++] = taken;
    }
}

/* A row of the lane's states, which has all tokens that its text has read. */
static inlay_row row_of(const struct lane *lane, uint32_t row, const decoding_text *text)
{
    return (inlay_row){ .context = lane->sequence.instance.context, .length = (int64_t)text->read, .row = row };
}

/* A run has read tokens of the prompt of the lane's only text: if they were the last ones, texts that are alike and later
 * texts may continue from its states. */
static void end_reading(struct lane *lane)
{
    const decoding_text *text = lane->texts[0];
    inlay_row row = row_of(lane, 0, text);

    if (text->read + step_tokens(lane) < text->count)
        return;
    row.length = (int64_t)text->count;
    prefixes_add(lane->decoder->prefixes, text->adapter, text->tokens, &row, prefix_limit(lane->decoder));
    if (lane->decoder->model->text->rows.layout != INLAY_ROWS_ALONE)
        add_alike(lane);
    lane->reads = false;
}

/* Chooses the next token of a text by the logits of its last one, and while it is the one guessed, the token after it by
 * those of the guess. logits: [1 + lane->ahead, words]. */
static bool choose_ahead(const struct lane *lane, decoding_text *text, const float *logits, size_t words,
                         inlay_diag *diag)
{
    uint32_t right = 0;
    bool goes_on;

    while ((goes_on = text->choose(text, logits + right * words, words, diag)) && right < lane->ahead &&
           text->tokens[text->count - 1] == lane->guesses[right])
        right++;
    text->read += right;
    ahead_add_guesses(lane->is_drafted ? &text->drafted : &text->ahead, lane->ahead, right);
    if (lane->ahead > 0) {
        model_stats *stats = lane->decoder->model->stats;

        (void)atomic_fetch_add_explicit(&stats->guessed_tokens, lane->ahead, memory_order_relaxed);
        (void)atomic_fetch_add_explicit(&stats->right_tokens, right, memory_order_relaxed);
    }
    return goes_on;
}

/* Chooses the next token of each text. Texts that end leave the lane. Writes the rows of the others; returns whether
 * they are not those of the lane's states any more. */
static bool choose_tokens(struct lane *lane, const infer_output *output, inlay_row *rows)
{
    struct decoder *decoder = lane->decoder;
    const uint32_t ran = (uint32_t)lane->job.rows, count = lane->row_count;
    const size_t words = output->rank == 3 ? (size_t)output->dims[2] : 0, columns = step_tokens(lane) - lane->ahead;
    const uint64_t limit = prefix_limit(decoder); /* counts the texts that end, too */
    const float *logits = output->data;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        decoding_text *text = lane->texts[i];
        const uint32_t row = i < ran ? i : 0; /* the others are alike */
        inlay_diag diag;
        bool goes_on = !is_over(text, &diag);

        text->read += columns;
        text->compute_ns += i < ran ? lane->job.compute_ns : 0;
        text->rows = ran > text->rows ? ran : text->rows;
        if (words == 0 || output->count < words * ran || output->dtype != INLAY_FLOAT)
            goes_on = inlay_fail(&diag, INLAY_UNSUPPORTED,
                                 "'logits' is not a float tensor [texts, tokens, vocabulary]") == INLAY_OK;
        if (goes_on && text->read == text->count)
            goes_on = choose_ahead(lane, text, logits + output->count / ran * (row + 1) - (1 + lane->ahead) * words,
                                   words, &diag);
        if (goes_on) {
            rows[kept] = row_of(lane, row, text);
            lane->texts[kept++] = text;
        } else {
            const inlay_row states = row_of(lane, row, text);

            prefixes_add(decoder->prefixes, text->adapter, text->tokens, &states, limit);
            end_text(decoder, text, diag.code != INLAY_OK ? &diag : NULL);
        }
    }
    lane->row_count = kept;
    return kept != ran || (lane->ahead > 0 && rows[0].length < inlay_context_row_length(rows[0].context, 0));
}

/* The place of the states of the lane's texts. */
static void find_rows(const struct lane *lane, inlay_row *rows)
{
    for (uint32_t i = 0; i < lane->row_count; i++)
        rows[i] = row_of(lane, i, lane->texts[i]);
}

/* Whether the output of the lane's run has the logits of each token. */
static bool has_logits(const struct lane *lane, const infer_output *output)
{
    return output->rank == 3 && output->dims[1] == 1 + (int64_t)lane->ahead;
}

/* The run of the lane's only text has read guesses, but does not tell which are right: it is repeated without. */
static bool drop_guesses(struct lane *lane, inlay_row *rows)
{
    lane->decoder->last_only = true;
    find_rows(lane, rows);
    return true;
}

/* Takes the texts whose states outgrow kv_memory out of the lane, the latest first; the last one of all ends. Returns
 * whether it took one. */
static bool shrink(struct lane *lane, inlay_row *rows)
{
    struct decoder *decoder = lane->decoder;
    const uint64_t limit = decoder->model->settings.kv_memory;
    bool taken = false;

    while (limit > 0 && lane->row_count > 0 && used_bytes(decoder) > limit) {
        uint32_t latest = 0;
        decoding_text *text;

        for (uint32_t i = 1; i < lane->row_count; i++)
            latest = lane->texts[i]->order > lane->texts[latest]->order ? i : latest;
        text = lane->texts[latest];
        lane->row_count--;
        memmove(&lane->texts[latest], &lane->texts[latest + 1], (lane->row_count - latest) * sizeof(decoding_text *));
        memmove(&rows[latest], &rows[latest + 1], (lane->row_count - latest) * sizeof *rows);
        taken = true;
        if (decoder->active > 1)
            wait_again(decoder, text);
        else
            end_text(decoder, text, NULL);
    }
    return taken;
}

/* Whether the lane's texts have read their prompts. */
static bool is_ready(const struct lane *lane)
{
    return !lane->runs && lane->row_count > 0 && !lane->reads;
}

/* Moves the texts of other lanes that are ready to the main lane, whose own are at `rows`. Returns whether there were
 * some. */
static bool take_ready(struct decoder *decoder, inlay_row *rows)
{
    struct lane *main = decoder->main;
    bool taken = false;

    for (uint32_t k = 0; k < decoder->lane_count; k++) {
        struct lane *lane = &decoder->lanes[k];

        if (lane == main || !is_ready(lane))
            continue;
        find_rows(lane, rows + main->row_count);
        memcpy(main->texts + main->row_count, lane->texts, lane->row_count * sizeof(decoding_text *));
        main->row_count += lane->row_count;
        lane->row_count = 0;
        taken = true;
    }
    return taken;
}

/* Puts each text that waits into a free lane while they fit. */
static void begin_waiting(struct decoder *decoder)
{
    drop_waiting(decoder);
    for (uint32_t k = 0; k < decoder->lane_count; k++) {
        struct lane *lane = &decoder->lanes[k];

        if (decoder->first == NULL || decoder->active >= decoder->model->settings.max_sequences ||
            !fits(decoder, decoder->first->count + KV_MARGIN))
            return;
        if (lane->row_count == 0 && lane != decoder->main) {
            inlay_diag diag = INLAY_DIAG_INIT;

            lane->texts[0] = begin_first(decoder);
            lane->row_count = 1;
            lane->reads = true;
            if (lane_begin(lane, &diag) != INLAY_OK)
                lane_fail(lane, &diag);
        }
    }
}

/* Between two runs of the main lane: texts join it and leave it. own: `rows` are those of its texts already, and
 * `changed` says whether they differ from those of its states. */
static void change_main(struct decoder *decoder, bool own, bool changed, inlay_row *rows)
{
    struct lane *main = decoder->main;

    for (uint32_t k = 0; main == NULL && k < decoder->lane_count; k++)
        if (is_ready(&decoder->lanes[k]))
            main = decoder->main = &decoder->lanes[k];
    if (main == NULL || main->runs)
        return;
    if (!own)
        find_rows(main, rows);
    changed |= take_ready(decoder, rows);
    changed |= shrink(main, rows);
    if (changed && main->row_count > 0)
        lane_join(main, rows);
    if (main->row_count == 0)
        decoder->main = NULL;
}

static bool has_rows(const struct lane *lane)
{
    const inlay_context *context = lane->sequence.instance.context;

    return context != NULL && inlay_context_row_count(context) > 0;
}

/* Starts what can run. Returns the lanes to be submitted. */
static struct lane *next_steps(struct decoder *decoder)
{
    struct lane *queue = NULL;

    prefixes_trim(decoder->prefixes, prefix_limit(decoder), false);
    do { /* again if the texts that began have failed, because no finished run would begin the others */
        begin_waiting(decoder);
        for (uint32_t k = 0; k < decoder->lane_count; k++) {
            struct lane *lane = &decoder->lanes[k];

            if (lane == decoder->main || decoder->model->text->rows.layout == INLAY_ROWS_ALONE || !is_ready(lane))
                lane_queue(lane, &queue);
            if (lane->row_count == 0 && has_rows(lane))
                (void)inlay_context_set_rows(lane->sequence.instance.context, NULL, 0, NULL);
        }
    } while (decoder->active == 0 && decoder->first != NULL);
    return queue;
}

/* Whether the lane's run, which has failed, may succeed if it is repeated: without guesses, or with the memory of earlier
 * texts' states. */
static bool may_repeat(struct lane *lane, const inlay_diag *failure)
{
    const inlay_status status = failure != NULL ? failure->code : INLAY_OK;

    if (lane->ahead > 0 && status != INLAY_CANCELLED && status != INLAY_DEADLINE_EXCEEDED) {
        lane->plain = true; /* a guess may be at a position that the model does not have */
        return true;
    }
    return drop_prefixes(lane->decoder, status) ||
           ((status == INLAY_OUT_OF_MEMORY || status == INLAY_LIMIT_EXCEEDED) && lane->drops != lane->decoder->drops);
}

/* Called when a run of a lane ends. Any thread. */
static void finish_step(struct job *job, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count)
{
    struct lane *lane = job->user, *queue;
    struct decoder *decoder = lane->decoder;
    const bool alone = decoder->model->text->rows.layout == INLAY_ROWS_ALONE;
    inlay_row *rows = decoder->rows;
    bool ran = true, changed = false;

    (void)pthread_mutex_lock(&decoder->lock);
    lane->runs = false;
    if (failure != NULL || output_count != 1) {
        inlay_diag diag = INLAY_DIAG_INIT;

        (void)inlay_fail(&diag, INLAY_UNSUPPORTED, "the run did not return exactly one output");
        ran = false;
        if (!may_repeat(lane, failure))
            lane_fail(lane, failure != NULL ? failure : &diag);
    } else {
        if (lane->reads)
            end_reading(lane);
        else if (lane->row_count == 1)
            ahead_add_run(&decoder->ahead, lane->ahead, (double)job->compute_ns);
        lane->plain = false;
        changed = lane->ahead > 0 && !has_logits(lane, &outputs[0]) ? drop_guesses(lane, rows)
                                                                    : choose_tokens(lane, &outputs[0], rows);
    }
    if (alone)
        (void)shrink(lane, rows);
    if ((alone || lane != decoder->main) && changed && lane->row_count > 0)
        lane_join(lane, rows);
    if (!alone)
        change_main(decoder, ran && lane == decoder->main, changed, rows);
    queue = next_steps(decoder);
    (void)pthread_mutex_unlock(&decoder->lock);
    submit_queue(decoder, queue);
}

/* Called when a run of the draft model ends: the lane that waits for its guesses runs when they are complete. Any
 * thread. */
static void finish_draft(void *user)
{
    struct decoder *decoder = user;
    struct model *model = model_ref(decoder->model); /* the run is one of the draft model, and the text may end */
    struct lane *lane = decoder->lanes, *queue = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)pthread_mutex_lock(&decoder->lock);
    while (!lane->drafts) {
        lane++;
        INLAY_CHECK(lane < decoder->lanes + decoder->lane_count);
    }
    if (!drafter_step(decoder->drafter, lane->guesses, &lane->ahead)) {
        lane->drafts = false;
        lane->is_drafted = true;
        lane->queue = NULL;
        if (lane_prepare(lane, &diag) == INLAY_OK) {
            queue = lane;
        } else {
            lane->runs = false;
            lane_fail(lane, &diag);
            queue = next_steps(decoder);
        }
    } else {
        lane->queue = NULL;
        queue = lane;
    }
    (void)pthread_mutex_unlock(&decoder->lock);
    submit_queue(decoder, queue);
    model_unref(model);
}

/* ------------------------------------------------------------------ the decoder of a model */

static void decoder_close(void *runner)
{
    struct decoder *decoder = runner;

    if (decoder == NULL)
        return;
    INLAY_CHECK(decoder->waiting == 0 && decoder->active == 0);
    for (uint32_t k = 0; decoder->lanes != NULL && k < decoder->lane_count; k++) {
        struct lane *lane = &decoder->lanes[k];

        instance_deinit(decoder->model, &lane->sequence.instance);
        inlay_value_unref(lane->adapter_input);
        free(lane->adapters);
        free((void *)lane->texts);
    }
    prefixes_destroy(decoder->prefixes);
    free(decoder->lanes);
    free(decoder->rows);
    free(decoder->tokens);
    (void)pthread_mutex_destroy(&decoder->lock);
    free(decoder);
}

static bool lane_init(struct lane *lane, struct decoder *decoder)
{
    struct model *model = decoder->model;

    lane->decoder = decoder;
    lane->texts = calloc(model->settings.max_sequences, sizeof(decoding_text *));
    lane->adapters = calloc(model->settings.max_sequences, sizeof *lane->adapters);
    lane->wanted = (infer_wanted){ .name = "logits", .binary = -1, .output = model->text->logits };
    lane->request.id = "";
    lane->request.outputs = &lane->wanted;
    lane->request.output_count = 1;
    lane->job.model = model;
    lane->job.request = &lane->request;
    lane->job.sequence = &lane->sequence;
    lane->job.level = model->settings.priority;
    lane->job.is_admitted = true;
    lane->job.finish = finish_step;
    lane->job.user = lane;
    return lane->texts != NULL && lane->adapters != NULL;
}

/* NULL: out of memory. */
static struct decoder *decoder_create(struct sched *sched, struct model *model)
{
    const bool alone = model->text->rows.layout == INLAY_ROWS_ALONE;
    struct decoder *decoder = calloc(1, sizeof *decoder);
    bool good;

    if (decoder == NULL)
        return NULL;
    (void)pthread_mutex_init(&decoder->lock, NULL);
    decoder->sched = sched;
    decoder->model = model;
    decoder->lane_count = alone ? model->settings.max_sequences : READERS + 1;
    decoder->lanes = calloc(decoder->lane_count, sizeof *decoder->lanes);
    decoder->rows = calloc(model->settings.max_sequences, sizeof *decoder->rows);
    decoder->tokens = calloc(model->settings.max_sequences + (size_t)MOST_AHEAD, sizeof *decoder->tokens);
    decoder->prefixes = prefixes_create(model);
    good = decoder->prefixes != NULL && decoder->lanes != NULL && decoder->rows != NULL && decoder->tokens != NULL;
    for (uint32_t k = 0; good && k < decoder->lane_count; k++)
        good = lane_init(&decoder->lanes[k], decoder);
    if (good && model->draft != NULL) {
        decoder->drafter = drafter_open(sched, model->draft, finish_draft, decoder);
        good = decoder->drafter != NULL;
    }
    if (good)
        return decoder;
    decoder_close(decoder);
    return NULL;
}

/* The model's decoder, made for its first text. NULL: out of memory. */
static struct decoder *decoder_of(struct sched *sched, struct model *model)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct decoder *decoder;

    (void)pthread_mutex_lock(&lock);
    if (model->text->runner == NULL) {
        model->text->runner = decoder_create(sched, model);
        model->text->close_runner = decoder_close;
    }
    decoder = model->text->runner;
    (void)pthread_mutex_unlock(&lock);
    return decoder;
}

inlay_status decoding_add(struct sched *sched, struct model *model, decoding_text *texts, inlay_diag *diag)
{
    struct decoder *decoder = decoder_of(sched, model);
    const uint64_t limit = model->settings.kv_memory;
    struct lane *queue;

    if (decoder == NULL)
        return no_memory(diag, "for the texts of model '%s'", model->name);
    for (const decoding_text *text = texts; text != NULL && limit > 0; text = text->next)
        if (bytes_of(decoder, 1, text->count + 1) > limit)
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the states of the prompt's %zu tokens exceed kv_memory",
                              text->count);
    (void)pthread_mutex_lock(&decoder->lock);
    if (decoder->waiting >= model->settings.max_queue) {
        (void)pthread_mutex_unlock(&decoder->lock);
        return inlay_fail(diag, INLAY_BUSY, "the model's queue is full; try again later");
    }
    (void)model_ref(model); /* the texts may end, and their references, before this function does */
    for (decoding_text *text = texts, *after; text != NULL; text = after) {
        after = text->next;
        (void)atomic_fetch_add(&model->texts, 1);
        wait_last(decoder, text);
    }
    queue = next_steps(decoder);
    (void)pthread_mutex_unlock(&decoder->lock);
    submit_queue(decoder, queue);
    model_unref(model);
    return INLAY_OK;
}
