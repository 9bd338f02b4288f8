#include "texts/decode/lane_output.h"

/* Texts that wait and have the prompt that the lane's only text has just read: they continue from its states. */
static void add_alike(struct lane *lane)
{
    struct decoder *decoder = lane->decoder;
    const decoding_text *text = lane->texts[0], *other;

    while ((other = decoder->first) != NULL && other->like != NULL && other->like == text->like &&
           decoder->active < decoder->model->limits.max_sequences && decoder_fits(decoder, text->count + KV_MARGIN)) {
        decoding_text *taken = decoder_begin_first(decoder);

        taken->read = text->read;
        taken->reused = taken->count;
        lane->texts[lane->row_count++] = taken;
    }
}

/* A row of the lane's states, which has all tokens that its text has read. */
static inlay_row row_of(const struct lane *lane, uint32_t row, const decoding_text *text)
{
    return (inlay_row){ .context = lane->step.context, .length = (int64_t)text->read, .row = row };
}

/* A run has read tokens of the prompt of the lane's only text: if they were the last ones, texts that are alike and
 * later texts may continue from its states. */
static void end_reading(struct lane *lane)
{
    decoding_text *text = lane->texts[0];
    inlay_row row = row_of(lane, 0, text);

    if (text->read + lane->columns < text->count)
        return;
    row.length = (int64_t)text->count;
    if (prefixes_add(lane->decoder->prefixes, text->adapter, text->tokens, &row, decoder_prefix_limit(lane->decoder)))
        text->kept = text->count - text->reused;
    if (lane->decoder->model->rows.layout != INLAY_ROWS_ALONE)
        add_alike(lane);
    lane->reads = false;
}

/* Chooses the next token of a text by the logits of its last token. As long as the chosen token is the guessed one,
 * also chooses the token after it, by the logits of the guess. logits: [1 + lane->ahead, words]. */
static bool choose_ahead(const struct lane *lane, decoding_text *text, const float *logits, size_t words,
                         inlay_diag *diag)
{
    decode_model *model = lane->decoder->model;
    uint32_t right = 0;
    bool goes_on;

    while ((goes_on = text->choose(text, logits + right * words, words, diag)) && right < lane->ahead &&
           text->tokens[text->count - 1] == lane->guesses[right])
        right++;
    text->read += right;
    ahead_add_guesses(lane->is_drafted ? &text->drafted : &text->ahead, lane->ahead, right);
    if (lane->ahead > 0 && model->program->count_guesses != NULL)
        model->program->count_guesses(model, lane->ahead, right);
    return goes_on;
}

/* Gives the text the logits of all tokens that the run has read. */
static bool score_tokens(const struct lane *lane, decoding_text *text, const decode_output *output, inlay_diag *diag)
{
    if (output->dims[1] != (int64_t)lane->columns)
        return inlay_fail(
                   diag, INLAY_UNSUPPORTED,
                   "the model returns the logits of its last token alone, so that the tokens of a prompt have no "
                   "log probabilities") == INLAY_OK;
    return text->score(text, output->data, text->read - lane->columns, lane->columns, (size_t)output->dims[2], diag);
}

/* Keeps the hidden states of the tokens from `first` on that the run has read of the text, for a head. */
static void keep_hidden(struct decoder *decoder, decoding_text *text, const hidden_run *run, size_t first)
{
    if (decoder->head != NULL && !hidden_add(&text->hidden, decoder->head, run, first, text->read - first) &&
        !decoder->lacks_hidden) {
        decoder->lacks_hidden = true;
        decoder->model->program->warn(decoder->model,
                                      "its outputs have not the hidden state of each token; the head guesses none");
    }
}

/* Chooses the next token of each text. Texts that end leave the lane. Writes the rows of the others; returns whether
 * these rows differ from the rows of the lane's states. */
static bool choose_tokens(struct lane *lane, const decode_output *outputs, inlay_row *rows)
{
    const decode_output *output = &outputs[0];
    struct decoder *decoder = lane->decoder;
    const uint32_t ran = (uint32_t)lane->step.rows, count = lane->row_count;
    const size_t words = output->rank == 3 ? (size_t)output->dims[2] : 0, columns = lane->columns - lane->ahead;
    const uint64_t limit = decoder_prefix_limit(decoder); /* counts the texts that end, too */
    const float *logits = output->data;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        decoding_text *text = lane->texts[i];
        const uint32_t row = i < ran ? i : 0; /* the others are alike */
        inlay_diag diag;
        const size_t first = text->read;
        bool goes_on = !decoder_is_over(text, &diag);

        text->read += columns;
        text->compute_ns += i < ran ? lane->step.compute_ns : 0;
        text->rows = ran > text->rows ? ran : text->rows;
        if (words == 0 || output->count < words * ran || output->dtype != INLAY_FLOAT)
            goes_on = inlay_fail(&diag, INLAY_UNSUPPORTED,
                                 "'logits' is not a float tensor [texts, tokens, vocabulary]") == INLAY_OK;
        if (goes_on && lane->scores)
            goes_on = score_tokens(lane, text, output, &diag);
        if (goes_on && text->read == text->count)
            goes_on = choose_ahead(lane, text, logits + output->count / ran * (row + 1) - (1 + lane->ahead) * words,
                                   words, &diag);
        if (goes_on) {
            keep_hidden(decoder, text, &(hidden_run){ outputs + 1, row, ran, columns + lane->ahead }, first);
            rows[kept] = row_of(lane, row, text);
            lane->texts[kept++] = text;
        } else {
            const inlay_row states = row_of(lane, row, text);

            (void)prefixes_add(decoder->prefixes, text->adapter, text->tokens, &states, limit);
            decoder_end_text(decoder, text, diag.code != INLAY_OK ? &diag : NULL);
        }
    }
    lane->row_count = kept;
    return kept != ran || (lane->ahead > 0 && rows[0].length < inlay_context_row_length(rows[0].context, 0));
}

void lane_find_rows(const struct lane *lane, inlay_row *rows)
{
    for (uint32_t i = 0; i < lane->row_count; i++)
        rows[i] = row_of(lane, i, lane->texts[i]);
}

/* Whether the output of the lane's run has the logits of each token. */
static bool has_logits(const struct lane *lane, const decode_output *output)
{
    return output->rank == 3 && output->dims[1] == 1 + (int64_t)lane->ahead;
}

/* The run of the lane's only text read guesses but did not return the logits that verify them: repeat it without. */
static bool drop_guesses(struct lane *lane, inlay_row *rows)
{
    lane->decoder->last_only = true;
    lane_find_rows(lane, rows);
    return true;
}

bool lane_take_outputs(struct lane *lane, const decode_output *outputs, inlay_row *rows)
{
    if (lane->reads)
        end_reading(lane);
    else if (lane->row_count == 1)
        ahead_add_run(&lane->decoder->ahead, lane->ahead, (double)lane->step.compute_ns);
    lane->plain = false;
    return lane->ahead > 0 && !has_logits(lane, &outputs[0]) ? drop_guesses(lane, rows)
                                                             : choose_tokens(lane, outputs, rows);
}
