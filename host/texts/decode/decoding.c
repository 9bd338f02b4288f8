#include "texts/decode/decoding.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "texts/decode/lane.h"
#include "texts/decode/lane_output.h"
#include <stdlib.h>
#include <string.h>

enum {
    READERS = 2, /* lanes of texts that have not joined the main lane yet */
    CHUNK = 256  /* tokens of a prompt that one run reads while no text generates tokens */
};

static void run_queue(struct decoder *decoder, struct lane *queue)
{
    for (struct lane *lane = queue, *after; lane != NULL; lane = after) {
        after = lane->queue; /* the lane may be queued again as soon as its step runs */
        if (lane->drafts)
            drafter_run(decoder->drafter);
        else
            decoder->model->program->run(&lane->step);
    }
}

/* Takes the texts whose states outgrow kv_memory out of the lane, the latest first. If no other text is active, the
 * text ends. Returns whether it took one. */
static bool shrink(struct lane *lane, inlay_row *rows)
{
    struct decoder *decoder = lane->decoder;
    const uint64_t limit = decoder->model->limits.kv_memory;
    bool taken = false;

    while (limit > 0 && lane->row_count > 0 && decoder_used_bytes(decoder) > limit) {
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
            decoder_wait_again(decoder, text);
        else
            decoder_end_text(decoder, text, NULL);
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
        lane_find_rows(lane, rows + main->row_count);
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
    decoder_drop_waiting(decoder);
    for (uint32_t k = 0; k < decoder->lane_count; k++) {
        struct lane *lane = &decoder->lanes[k];

        if (decoder->first == NULL || decoder->active >= decoder->model->limits.max_sequences ||
            !decoder_fits(decoder, decoder->first->count + KV_MARGIN))
            return;
        if (lane->row_count == 0 && lane != decoder->main) {
            inlay_diag diag = INLAY_DIAG_INIT;

            lane->texts[0] = decoder_begin_first(decoder);
            lane->row_count = 1;
            lane->reads = true;
            if (lane_begin(lane, &diag) != INLAY_OK)
                lane_fail(lane, &diag);
        }
    }
}

/* Between two runs of the main lane, texts join it and leave it. own: `rows` already lists its texts, and `changed`
 * says whether these differ from the rows of its states. */
static void change_main(struct decoder *decoder, bool own, bool changed, inlay_row *rows)
{
    struct lane *main = decoder->main;

    for (uint32_t k = 0; main == NULL && k < decoder->lane_count; k++)
        if (is_ready(&decoder->lanes[k]))
            main = decoder->main = &decoder->lanes[k];
    if (main == NULL || main->runs)
        return;
    if (!own)
        lane_find_rows(main, rows);
    changed |= take_ready(decoder, rows);
    changed |= shrink(main, rows);
    if (changed && main->row_count > 0)
        lane_join(main, rows);
    if (main->row_count == 0)
        decoder->main = NULL;
}

static bool has_rows(const struct lane *lane)
{
    const inlay_context *context = lane->step.context;

    return context != NULL && inlay_context_row_count(context) > 0;
}

/* Whether a text has read its prompt and has not ended. */
static bool generates(const struct decoder *decoder)
{
    for (uint32_t k = 0; k < decoder->lane_count; k++)
        if (decoder->lanes[k].row_count > 0 && !decoder->lanes[k].reads)
            return true;
    return false;
}

/* Whether a run reads a prompt, or is queued to do so. */
static bool reads_prompt(const struct decoder *decoder)
{
    for (uint32_t k = 0; k < decoder->lane_count; k++)
        if (decoder->lanes[k].runs && decoder->lanes[k].reads)
            return true;
    return false;
}

/* Returns the lane whose text began first, of the lanes that read a prompt, or only of those that do not run now; NULL:
 * there is none. */
static struct lane *first_reader(const struct decoder *decoder, bool waits)
{
    struct lane *first = NULL;

    for (uint32_t k = 0; k < decoder->lane_count; k++) {
        struct lane *lane = &decoder->lanes[k];

        if (lane->row_count > 0 && lane->reads && !(waits && lane->runs) &&
            (first == NULL || lane->texts[0]->order < first->texts[0]->order))
            first = lane;
    }
    return first;
}

/* Queues lanes that read prompts. While texts generate tokens, one lane reads at a time, and as many tokens as
 * decoder->prompt_tokens has until texts get their next tokens. Otherwise only the first lane reads many tokens: its
 * text will wait for the runs of the other lanes that are queued when its prompt ends. */
static void read_prompts(struct decoder *decoder, struct lane **queue)
{
    const bool limited = generates(decoder);

    for (struct lane *lane; (lane = first_reader(decoder, true)) != NULL;) {
        if (limited && (decoder->prompt_tokens == 0 || reads_prompt(decoder)))
            return;
        lane->most = limited                                ? decoder->prompt_tokens
                     : lane == first_reader(decoder, false) ? CHUNK
                                                            : decoder->model->limits.prompt_tokens;
        lane_queue(lane, queue);
        if (limited && lane->runs) /* not every model can read a prompt in parts */
            decoder->prompt_tokens -= lane->columns < decoder->prompt_tokens ? lane->columns : decoder->prompt_tokens;
    }
}

/* Prepares what can run. Returns the lanes to be run. */
static struct lane *next_steps(struct decoder *decoder)
{
    struct lane *queue = NULL;

    prefixes_trim(decoder->prefixes, decoder_prefix_limit(decoder), false);
    do { /* again if the texts that began have failed, because no finished run would begin the others */
        begin_waiting(decoder);
        for (uint32_t k = 0; k < decoder->lane_count; k++) {
            struct lane *lane = &decoder->lanes[k];

            if (is_ready(lane) && (lane == decoder->main || decoder->model->rows.layout == INLAY_ROWS_ALONE))
                lane_queue(lane, &queue);
            if (lane->row_count == 0 && has_rows(lane))
                (void)inlay_context_set_rows(lane->step.context, NULL, 0, NULL);
        }
        read_prompts(decoder, &queue);
    } while (decoder->active == 0 && decoder->first != NULL);
    return queue;
}

/* Whether the lane's run, which has failed, may succeed if it is repeated: without guesses, or with the memory of
 * earlier texts' states. */
static bool may_repeat(struct lane *lane, const inlay_diag *failure)
{
    const inlay_status status = failure->code;

    if (lane->ahead > 0 && status != INLAY_CANCELLED && status != INLAY_DEADLINE_EXCEEDED) {
        lane->plain = true; /* a guess may be at a position that the model does not have */
        return true;
    }
    return decoder_drop_prefixes(lane->decoder, status) ||
           ((status == INLAY_OUT_OF_MEMORY || status == INLAY_LIMIT_EXCEEDED) && lane->drops != lane->decoder->drops);
}

/* Tokens of prompts that may be read after a run in which the lane's texts got tokens: as many as it has texts take
 * about as long as the run. */
static size_t most_prompt_tokens(const struct lane *lane)
{
    const uint32_t most = lane->decoder->model->limits.prompt_tokens;

    return most > lane->row_count ? most : lane->row_count;
}

/* Called when a run of a lane ends. Any thread. */
static void finish_step(decode_step *step, const inlay_diag *failure)
{
    struct lane *lane = step->user, *queue;
    struct decoder *decoder = lane->decoder;
    const bool alone = decoder->model->rows.layout == INLAY_ROWS_ALONE;
    inlay_row *rows = decoder->rows;
    decode_output outputs[1 + HEAD_SOURCES];
    inlay_diag unread = INLAY_DIAG_INIT;
    bool ran = true, changed = false;

    (void)pthread_mutex_lock(&decoder->lock);
    lane->runs = false;
    if (!lane->reads)
        decoder->prompt_tokens = most_prompt_tokens(lane);
    if (failure == NULL && decode_step_outputs(step, outputs, &unread) != INLAY_OK)
        failure = &unread;
    if (failure != NULL) {
        ran = false;
        if (!may_repeat(lane, failure))
            lane_fail(lane, failure);
    } else {
        changed = lane_take_outputs(lane, outputs, rows);
    }
    if (alone)
        (void)shrink(lane, rows);
    if ((alone || lane != decoder->main) && changed && lane->row_count > 0)
        lane_join(lane, rows);
    if (!alone)
        change_main(decoder, ran && lane == decoder->main, changed, rows);
    queue = next_steps(decoder);
    (void)pthread_mutex_unlock(&decoder->lock);
    run_queue(decoder, queue);
}

/* Called when a run of the draft model ends: the lane that waits for its guesses runs when they are complete. Any
 * thread. */
static void finish_draft(void *user)
{
    struct decoder *decoder = user;
    decode_model *model = decoder->model;
    struct lane *lane = decoder->lanes, *queue = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;

    model->program->hold(model); /* the run is one of the draft model, and the text may end */
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
    run_queue(decoder, queue);
    model->program->release(model);
}

static void decoder_close(void *runner)
{
    struct decoder *decoder = runner;

    if (decoder == NULL)
        return;
    INLAY_CHECK(decoder->waiting == 0 && decoder->active == 0);
    for (uint32_t k = 0; decoder->lanes != NULL && k < decoder->lane_count; k++) {
        struct lane *lane = &decoder->lanes[k];

        decoder->model->program->close(&lane->step);
        inlay_value_unref(lane->adapter_input);
        free(lane->adapters);
        free(lane->shifts);
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
    decode_model *model = decoder->model;
    decode_step *step = &lane->step;

    lane->decoder = decoder;
    lane->texts = calloc(model->limits.max_sequences, sizeof(decoding_text *));
    lane->adapters = calloc(model->limits.max_sequences, sizeof *lane->adapters);
    if (model->image_shifts != INLAY_NONE) {
        const size_t most =
            model->limits.max_sequences > IMAGE_TOKENS ? model->limits.max_sequences : (size_t)IMAGE_TOKENS;

        lane->shifts = calloc(most, IMAGE_AXES * sizeof *lane->shifts);
        if (lane->shifts == NULL)
            return false;
    }
    step->model = model;
    step->finish = finish_step;
    step->user = lane;
    step->outputs[step->output_count++] = model->logits;
    for (uint32_t i = 0; decoder->head != NULL && i < decoder->head->source_count; i++)
        step->outputs[step->output_count++] = decoder->head->sources[i];
    return lane->texts != NULL && lane->adapters != NULL;
}

/* NULL: out of memory. */
static struct decoder *decoder_create(decode_model *model)
{
    const bool alone = model->rows.layout == INLAY_ROWS_ALONE;
    struct decoder *decoder = calloc(1, sizeof *decoder);
    bool good;

    if (decoder == NULL)
        return NULL;
    (void)pthread_mutex_init(&decoder->lock, NULL);
    decoder->model = model;
    decoder->lane_count = alone ? model->limits.max_sequences : READERS + 1;
    decoder->head = model->draft != NULL ? model->draft->head : NULL;
    decoder->lanes = calloc(decoder->lane_count, sizeof *decoder->lanes);
    decoder->rows = calloc(model->limits.max_sequences, sizeof *decoder->rows);
    decoder->tokens = calloc(model->limits.max_sequences + (size_t)MOST_AHEAD, sizeof *decoder->tokens);
    decoder->prefixes = prefixes_create(model);
    for (int i = 0; i < IMAGE_TOKENS; i++)
        decoder->image_tokens[i] = -1 - i;
    good = decoder->prefixes != NULL && decoder->lanes != NULL && decoder->rows != NULL && decoder->tokens != NULL;
    for (uint32_t k = 0; good && k < decoder->lane_count; k++)
        good = lane_init(&decoder->lanes[k], decoder);
    if (good && model->draft != NULL) {
        decoder->drafter = drafter_open(model->draft, finish_draft, decoder);
        good = decoder->drafter != NULL;
    }
    if (good)
        return decoder;
    decoder_close(decoder);
    return NULL;
}

static pthread_mutex_t runner_lock = PTHREAD_MUTEX_INITIALIZER; /* of decode_model.runner */

/* The model's decoder, which is created for its first text. NULL: out of memory. */
static struct decoder *decoder_of(decode_model *model)
{
    struct decoder *decoder;

    (void)pthread_mutex_lock(&runner_lock);
    if (model->runner == NULL) {
        model->runner = decoder_create(model);
        model->close_runner = decoder_close;
    }
    decoder = model->runner;
    (void)pthread_mutex_unlock(&runner_lock);
    return decoder;
}

static void mark_adapter(const decoding_text *text, uint8_t mark, uint8_t *adapters)
{
    if (adapters != NULL && text->adapter >= 0)
        adapters[text->adapter] |= mark;
}

decoding_load decoding_load_of(const decode_model *model, uint8_t *adapters)
{
    decoding_load load = { 0 };
    struct decoder *decoder = NULL;

    if (model->logits == INLAY_NONE) /* that of an embedding model is another runner */
        return load;
    (void)pthread_mutex_lock(&runner_lock);
    decoder = model->runner;
    (void)pthread_mutex_unlock(&runner_lock);
    if (decoder == NULL)
        return load;
    (void)pthread_mutex_lock(&decoder->lock);
    load = (decoding_load){ decoder->active, decoder->waiting, decoder_used_bytes(decoder) };
    for (const decoding_text *text = decoder->first; text != NULL; text = text->next)
        mark_adapter(text, ADAPTER_WAITS, adapters);
    for (uint32_t i = 0; i < decoder->lane_count; i++)
        for (uint32_t k = 0; k < decoder->lanes[i].row_count; k++)
            mark_adapter(decoder->lanes[i].texts[k], ADAPTER_RUNS, adapters);
    (void)pthread_mutex_unlock(&decoder->lock);
    return load;
}

inlay_status decoding_add(decode_model *model, decoding_text *texts, inlay_diag *diag)
{
    struct decoder *decoder = decoder_of(model);
    const uint64_t limit = model->limits.kv_memory;
    struct lane *queue;

    if (decoder == NULL)
        return no_memory(diag, "for the texts of model '%s'", model->name);
    for (const decoding_text *text = texts; text != NULL && limit > 0; text = text->next)
        if (decoder_bytes(decoder, 1, text->count + 1) > limit)
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the states of the prompt's %zu tokens exceed kv_memory",
                              text->count);
    (void)pthread_mutex_lock(&decoder->lock);
    if (decoder->waiting >= model->limits.max_waiting) {
        (void)pthread_mutex_unlock(&decoder->lock);
        return inlay_fail(diag, INLAY_BUSY, "the model's queue is full; try again later");
    }
    model->program->hold(model); /* the texts may end, and their references, before this function does */
    for (decoding_text *text = texts, *after; text != NULL; text = after) {
        after = text->next;
        (void)atomic_fetch_add(&model->texts, 1);
        decoder_add(decoder, text);
    }
    queue = next_steps(decoder);
    (void)pthread_mutex_unlock(&decoder->lock);
    run_queue(decoder, queue);
    model->program->release(model);
    return INLAY_OK;
}
