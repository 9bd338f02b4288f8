#include "texts/speech/transcriber.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "texts/speech/rules.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Temperatures of further attempts at a window, as in openai/whisper. HOTTEST: 1, and errors of sums. */
#define WARMER 0.2F
#define HOTTEST 1.001F

/* What the run of a lane is for. */
typedef enum lane_phase { LANE_ENCODES, LANE_DETECTS, LANE_WRITES } lane_phase;

struct lane {
    speech_model *model;
    struct transcription *text; /* NULL: the lane is idle */
    decode_step encoder, decoder, next;
    lane_phase phase;
    float *window;           /* [mels, window_frames] */
    inlay_value *hidden;     /* what the encoder has made of the window */
    inlay_value **states;    /* [state_count] of the decoder */
    int64_t *tokens;         /* [count] of the window, with its prompt; room for tokens.most + 1 */
    int64_t *positions;      /* [tokens.most + 1] 0, 1, 2 ... */
    size_t begin, count;     /* begin: of the window's text, behind the prompt */
    size_t start, read;      /* place of the token of the start; tokens that the states have */
    float *logits, *scratch; /* [words] */
    size_t words;
    struct sampler sampler;
    double logprob, no_speech; /* the sum of the window's tokens */
    float temperature;         /* of this attempt */
    struct lane *after;        /* in the list of idle lanes */
};

struct speech_runner {
    pthread_mutex_t lock;
    struct lane *lanes, *idle; /* [most_lanes] */
    struct transcription *first, *last;
    uint32_t waiting;
};

static pthread_mutex_t runner_lock = PTHREAD_MUTEX_INITIALIZER; /* of speech_model.runner */

/* Frees what belongs to a window or a transcription. */
static void clear_lane(struct lane *lane)
{
    inlay_value_unref(lane->hidden);
    lane->hidden = NULL;
    for (uint32_t k = 0; lane->states != NULL && k < lane->model->state_count; k++) {
        inlay_value_unref(lane->states[k]);
        lane->states[k] = NULL;
    }
}

static void close_lane(struct lane *lane)
{
    decode_step *const steps[] = { &lane->encoder, &lane->decoder, &lane->next };

    INLAY_CHECK(lane->text == NULL);
    clear_lane(lane);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (steps[i]->program != NULL)
            steps[i]->model->program->close(steps[i]);
    sampler_deinit(&lane->sampler);
    free(lane->window);
    free((void *)lane->states);
    free(lane->tokens);
    free(lane->positions);
    free(lane->logits);
    free(lane->scratch);
}

void speech_runner_close(speech_model *model)
{
    struct speech_runner *runner = model->runner;

    if (runner == NULL)
        return;
    INLAY_CHECK(runner->waiting == 0);
    for (uint32_t i = 0; runner->lanes != NULL && i < model->most_lanes; i++)
        close_lane(&runner->lanes[i]);
    free(runner->lanes);
    (void)pthread_mutex_destroy(&runner->lock);
    free(runner);
    model->runner = NULL;
}

static void finish_step(decode_step *step, const inlay_diag *failure);

/* NULL: out of memory. */
static struct speech_runner *runner_of(speech_model *model)
{
    struct speech_runner *runner;

    (void)pthread_mutex_lock(&runner_lock);
    if (model->runner == NULL && (runner = calloc(1, sizeof *runner)) != NULL) {
        (void)pthread_mutex_init(&runner->lock, NULL);
        runner->lanes = calloc(model->most_lanes, sizeof *runner->lanes);
        model->runner = runner;
        for (uint32_t i = model->most_lanes; runner->lanes != NULL && i-- > 0;) {
            struct lane *lane = &runner->lanes[i];

            lane->model = model;
            lane->encoder = (decode_step){ .model = &model->encoder, .finish = finish_step, .user = lane };
            lane->decoder = (decode_step){ .model = &model->decoder.model, .finish = finish_step, .user = lane };
            lane->next = (decode_step){ .model = &model->next.model, .finish = finish_step, .user = lane };
            lane->encoder.outputs[lane->encoder.output_count++] = model->hidden;
            lane->decoder.outputs[lane->decoder.output_count++] = model->decoder.model.logits;
            lane->next.outputs[lane->next.output_count++] = model->next.model.logits;
            lane->after = runner->idle;
            runner->idle = lane;
        }
        if (runner->lanes == NULL)
            speech_runner_close(model);
    }
    runner = model->runner;
    (void)pthread_mutex_unlock(&runner_lock);
    return runner;
}

/* Makes the memory and the contexts of a lane, once. */
static inlay_status open_lane(struct lane *lane, inlay_diag *diag)
{
    const speech_model *model = lane->model;
    decode_step *const steps[] = { &lane->encoder, &lane->decoder, &lane->next };
    const size_t tokens = model->tokens.most + 1;
    inlay_status status = INLAY_OK;

    if (lane->tokens == NULL) {
        lane->window = calloc((size_t)(model->mels * model->window_frames), sizeof *lane->window);
        lane->states = calloc(model->state_count + 1u, sizeof(inlay_value *));
        lane->positions = calloc(tokens, sizeof *lane->positions);
        for (size_t i = 0; lane->positions != NULL && i < tokens; i++)
            lane->positions[i] = (int64_t)i;
        lane->tokens = lane->window != NULL && lane->states != NULL && lane->positions != NULL
                           ? calloc(tokens, sizeof *lane->tokens)
                           : NULL;
        if (lane->tokens == NULL) {
            free(lane->window);
            free((void *)lane->states);
            free(lane->positions);
            lane->window = NULL;
            lane->states = NULL;
            lane->positions = NULL;
            return no_memory(diag, "for a transcription");
        }
    }
    for (size_t i = 0; status == INLAY_OK && i < sizeof steps / sizeof *steps; i++) {
        if (steps[i]->program != NULL || steps[i]->model->session == NULL)
            continue;
        status = steps[i]->model->program->open(steps[i], diag);
        if (status != INLAY_OK)
            steps[i]->model->program->close(steps[i]);
    }
    return status;
}

static inlay_status set_input(const decode_step *step, uint32_t input, inlay_dtype dtype, uint32_t rank,
                              const int64_t *dims, void *data, uint64_t bytes, inlay_diag *diag)
{
    inlay_value *value = NULL;
    inlay_status status = inlay_value_borrow(dtype, rank, dims, data, bytes, &value, diag);

    if (status == INLAY_OK)
        status = inlay_context_set_input(step->context, input, value, diag);
    inlay_value_unref(value);
    return status;
}

/* Prepares the run of the encoder for the window at text->seek; none is left: *out_step is NULL. */
static inlay_status begin_window(struct lane *lane, decode_step **out_step, inlay_diag *diag)
{
    const speech_model *model = lane->model;
    const struct transcription *text = lane->text;
    const int64_t mels = model->mels, frames = model->window_frames;
    const int64_t dims[3] = { 1, mels, frames }, rest = text->sound.frames - text->seek;
    const int64_t copied = rest < frames ? rest : frames;
    decode_step *step = &lane->encoder;

    *out_step = NULL;
    clear_lane(lane);
    if (text->seek >= text->sound.heard)
        return INLAY_OK;
    for (int64_t i = 0; i < mels; i++) { /* zeros follow the end of a long sound, as in transformers */
        memcpy(lane->window + i * frames, text->sound.mel + i * text->sound.frames + text->seek,
               (size_t)copied * sizeof *lane->window);
        memset(lane->window + i * frames + copied, 0, (size_t)(frames - copied) * sizeof *lane->window);
    }
    lane->phase = LANE_ENCODES;
    lane->temperature = text->temperature;
    step->rows = 1;
    step->bytes = (uint64_t)(mels * frames) * sizeof *lane->window;
    *out_step = step;
    return set_input(step, model->features, INLAY_FLOAT, 3, dims, lane->window, step->bytes, diag);
}

/* Binds input i of a decoder, whose run reads the tokens from `from` on. */
static inlay_status bind_input(struct lane *lane, const speech_decoder *decoder, const decode_step *step, uint32_t i,
                               size_t from, inlay_diag *diag)
{
    static uint8_t flags[2] = { 0, 1 };
    const int64_t one = 1, count = (int64_t)(lane->count - from), ids[2] = { 1, count };
    const int64_t none[4] = { 1, lane->model->heads, 0, lane->model->head_width };
    const speech_input *input = &decoder->inputs[i];
    inlay_value *state;

    switch (input->role) {
    case SPEECH_IDS:
        return set_input(step, i, INLAY_INT64, 2, ids, lane->tokens + from, (uint64_t)count * sizeof *lane->tokens,
                         diag);
    case SPEECH_POSITIONS:
        return set_input(step, i, INLAY_INT64, 1, &count, lane->positions + from,
                         (uint64_t)count * sizeof *lane->positions, diag);
    case SPEECH_HIDDEN:
        return inlay_context_set_input(step->context, i, lane->hidden, diag);
    case SPEECH_BRANCH:
        return set_input(step, i, INLAY_BOOL, 1, &one, &flags[lane->read > 0], 1, diag);
    case SPEECH_PAST:
        break;
    }
    state = lane->states[input->state];
    return state != NULL ? inlay_context_set_input(step->context, i, state, diag)
                         : set_input(step, i, INLAY_FLOAT, 4, none, NULL, 0, diag);
}

/* Prepares the run of a decoder for the tokens that the states lack. A decoder without states reads all again. */
static inlay_status begin_tokens(struct lane *lane, decode_step **out_step, inlay_diag *diag)
{
    speech_model *model = lane->model;
    const bool uses_next = lane->read > 0 && model->next.model.session != NULL;
    const speech_decoder *decoder = uses_next ? &model->next : &model->decoder;
    decode_step *step = uses_next ? &lane->next : &lane->decoder;
    const size_t from = decoder->has_past ? lane->read : 0;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(from < lane->count);
    for (uint32_t i = 0; status == INLAY_OK && i < decoder->input_count; i++)
        status = bind_input(lane, decoder, step, i, from, diag);
    step->rows = 1;
    step->bytes = (lane->count - from) * sizeof *lane->tokens;
    *out_step = step;
    return status;
}

static void add_token(struct lane *lane, int64_t token)
{
    INLAY_CHECK(lane->count <= lane->model->tokens.most);
    lane->tokens[lane->count++] = token;
}

/* The tokens before those of the window: an earlier text, the language, the task. */
static inlay_status begin_prompt(struct lane *lane, decode_step **out_step, inlay_diag *diag)
{
    const speech_tokens *tokens = &lane->model->tokens;
    const struct transcription *text = lane->text;

    lane->count = lane->read = 0;
    for (uint32_t k = 0; k < lane->model->state_count; k++) {
        inlay_value_unref(lane->states[k]);
        lane->states[k] = NULL;
    }
    if (text->prompt_count > 0 && text->seek == 0) {
        add_token(lane, tokens->previous);
        for (size_t i = 0; i < text->prompt_count; i++)
            add_token(lane, text->prompt_tokens[i]);
    }
    lane->start = lane->count;
    add_token(lane, tokens->start);
    if (text->language != SPEECH_DETECT) {
        add_token(lane, tokens->languages[text->language].token);
        add_token(lane, text->translates ? tokens->translate : tokens->transcribe);
    }
    if (!text->has_times && tokens->no_times >= 0)
        add_token(lane, tokens->no_times);
    lane->begin = lane->count;
    lane->phase = LANE_WRITES;
    lane->logprob = lane->no_speech = 0;
    lane->sampler.temperature = lane->temperature;
    lane->sampler.prompt_count = lane->begin;
    lane->sampler.state = (uint64_t)text->seek; /* the same text for the same window, whatever came before */
    return begin_tokens(lane, out_step, diag);
}

/* Copies the logits of the last token of a run into lane->logits. *all: the logits of all its tokens. */
static inlay_status take_logits(struct lane *lane, const decode_step *step, decode_output *all, inlay_diag *diag)
{
    inlay_status status = decode_step_outputs(step, all, diag);
    size_t words;

    if (status != INLAY_OK)
        return status;
    if (all->dtype != INLAY_FLOAT || all->rank != 3 || all->dims[1] < 1 || all->dims[2] < 1)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "logits is not a float tensor [1, tokens, vocabulary]");
    words = (size_t)all->dims[2];
    if (lane->words != words) {
        free(lane->logits);
        free(lane->scratch);
        lane->logits = malloc(words * sizeof *lane->logits);
        lane->scratch = malloc(words * sizeof *lane->scratch);
        lane->words = lane->logits != NULL && lane->scratch != NULL ? words : 0;
        if (lane->words == 0)
            return no_memory(diag, "for the logits");
    }
    memcpy(lane->logits, (const float *)all->data + (size_t)(all->dims[1] - 1) * words, words * sizeof *lane->logits);
    return INLAY_OK;
}

/* Keeps the states that a run of the decoder has made. */
static void take_states(struct lane *lane, const decode_step *step)
{
    const speech_model *model = lane->model;
    const speech_decoder *decoder = step == &lane->next ? &model->next : &model->decoder;

    for (uint32_t k = 0; k < model->state_count; k++) {
        inlay_value *state;

        if (lane->read > 0 && model->is_cross[k]) /* the branch of a merged decoder returns none */
            continue;
        state = inlay_value_ref(inlay_context_output(step->context, decoder->states[k]));
        inlay_value_unref(lane->states[k]);
        lane->states[k] = state;
    }
    lane->read = lane->count;
}

/* The most probable language. */
static inlay_status detect(struct lane *lane, inlay_diag *diag)
{
    const speech_tokens *tokens = &lane->model->tokens;
    float most = -INFINITY;

    for (size_t i = 0; i < tokens->language_count; i++) {
        const int64_t token = tokens->languages[i].token;

        if ((size_t)token < lane->words && lane->logits[token] > most) {
            most = lane->logits[token];
            lane->text->language = (int32_t)i;
        }
    }
    return lane->text->language != SPEECH_DETECT
               ? INLAY_OK
               : inlay_fail(diag, INLAY_UNSUPPORTED, "the decoder gives no language a probability");
}

/* Ends the window: its tokens become segments, unless the window is silent, or is written again. */
static inlay_status end_window(struct lane *lane, decode_step **out_step, inlay_diag *diag)
{
    const speech_model *model = lane->model;
    struct transcription *text = lane->text;
    const size_t written = lane->count - lane->begin;
    const int64_t *tokens = lane->tokens + lane->begin;
    const int64_t rest = text->sound.heard - text->seek;
    const int64_t frames = rest < model->window_frames ? rest : model->window_frames;
    const speech_segment form = { .logprob = lane->logprob / (double)(written + 1),
                                  .no_speech = lane->no_speech,
                                  .temperature = (double)lane->temperature };
    const speech_verdict verdict = speech_rules_judge(model, tokens, written, form.logprob, form.no_speech);
    int64_t moved = frames;

    if (verdict == SPEECH_DOUBTED && lane->temperature + WARMER <= HOTTEST) {
        lane->temperature += WARMER;
        return begin_prompt(lane, out_step, diag);
    }
    if (verdict != SPEECH_SILENCE)
        moved = verdict == SPEECH_FAILED ? 0 : speech_rules_cut(model, text, tokens, written, frames, &form);
    if (moved == 0)
        return no_memory(diag, "for the text of a sound");
    text->seek += text->has_times ? moved : frames;
    return begin_window(lane, out_step, diag);
}

/* The probability that there is no speech, by the logits after the token of the start. */
static double no_speech_of(const struct lane *lane, const decode_output *all)
{
    const int64_t token = lane->model->tokens.no_speech;
    const float *logits = (const float *)all->data + lane->start * lane->words;

    if (token < 0 || (size_t)token >= lane->words || (size_t)all->dims[1] != lane->count)
        return 0;
    return exp((double)logits[token] - speech_log_sum(logits, lane->words));
}

/* Changes lane->logits by the rules of generation_config.json, and those of times. false: out of memory. */
static bool apply_rules(struct lane *lane)
{
    const speech_tokens *tokens = &lane->model->tokens;
    const token_rules *rules = &lane->model->generation.rules;
    const size_t written = lane->count - lane->begin;
    const token_place place = { .tokens = lane->tokens,
                                .count = lane->count,
                                .prompt_count = lane->begin,
                                .ends = &tokens->end,
                                .end_count = 1,
                                .forbids_ends = lane->count < rules->min_tokens || written < rules->min_generated,
                                .is_last = lane->count + 1 >= tokens->most };

    rules_weigh(&rules->sequences, &place, lane->logits, lane->words);
    if (!sampler_penalize(&lane->sampler, lane->logits, lane->words, lane->tokens, lane->count))
        return false;
    rules_restrict(rules, &place, lane->logits, lane->words);
    if (lane->text->has_times)
        speech_rules_mask(tokens, lane->tokens + lane->begin, written, lane->logits, lane->words);
    return true;
}

/* Chooses the next token of the window. */
static inlay_status write_token(struct lane *lane, const decode_output *all, decode_step **out_step, inlay_diag *diag)
{
    const speech_tokens *tokens = &lane->model->tokens;
    double sum;
    int64_t token;

    if (lane->count == lane->begin)
        lane->no_speech = no_speech_of(lane, all);
    if (!apply_rules(lane))
        return no_memory(diag, "to choose a token");
    sum = speech_log_sum(lane->logits, lane->words);
    if (!isfinite(sum))
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "no token may come next: the decoder and generation_config.json exclude all");
    memcpy(lane->scratch, lane->logits, lane->words * sizeof *lane->scratch);
    token = sampler_next(&lane->sampler, lane->scratch, lane->words);
    if (token < 0)
        return no_memory(diag, "to choose a token");
    lane->logprob += (double)lane->logits[token] - sum;
    if (token == tokens->end)
        return end_window(lane, out_step, diag);
    add_token(lane, token);
    return lane->count < tokens->most ? begin_tokens(lane, out_step, diag) : end_window(lane, out_step, diag);
}

/* A run is complete: prepares the next one of the transcription; *out_step is NULL: it has ended. */
static inlay_status go_on(struct lane *lane, const decode_step *step, decode_step **out_step, inlay_diag *diag)
{
    decode_output output;
    inlay_status status;

    *out_step = NULL;
    lane->text->compute_ns += step->compute_ns;
    if (lane->text->is_over(lane->text, diag))
        return diag->code;
    if (lane->phase == LANE_ENCODES) {
        lane->hidden = inlay_value_ref(inlay_context_output(step->context, lane->model->hidden));
        if (lane->text->language != SPEECH_DETECT || lane->model->tokens.language_count == 0)
            return begin_prompt(lane, out_step, diag);
        lane->phase = LANE_DETECTS;
        lane->count = lane->read = 0;
        add_token(lane, lane->model->tokens.start);
        return begin_tokens(lane, out_step, diag);
    }
    status = take_logits(lane, step, &output, diag);
    if (status != INLAY_OK)
        return status;
    if (lane->phase == LANE_DETECTS) {
        status = detect(lane, diag);
        return status == INLAY_OK ? begin_prompt(lane, out_step, diag) : status;
    }
    take_states(lane, step);
    return write_token(lane, &output, out_step, diag);
}

/* The tokens of the prompt: the last ones, at most half of a window. */
static inlay_status read_prompt(struct lane *lane, inlay_diag *diag)
{
    const speech_tokens *tokens = &lane->model->tokens;
    struct transcription *text = lane->text;
    const size_t most = tokens->most / 2 - 1, bytes = text->prompt != NULL ? strlen(text->prompt) : 0;
    char *spaced;
    bool good;

    if (bytes == 0)
        return INLAY_OK;
    if (tokens->previous < 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "prompt: the model has no token <|startofprev|>; remove it");
    spaced = malloc(bytes + 2);
    if (spaced == NULL)
        return no_memory(diag, "for the prompt");
    (void)snprintf(spaced, bytes + 2, "%s%s", text->prompt[0] != ' ' ? " " : "", text->prompt);
    good = tokenizer_encode(lane->model->tokenizer, spaced, false, &text->prompt_tokens, &text->prompt_count);
    free(spaced);
    if (!good)
        return no_memory(diag, "for the prompt");
    for (size_t i = 0; i < text->prompt_count; i++)
        if (text->prompt_tokens[i] >= tokens->end)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "prompt: it has a special token, such as <|endoftext|>");
    if (text->prompt_count > most) {
        memmove(text->prompt_tokens, text->prompt_tokens + (text->prompt_count - most),
                most * sizeof *text->prompt_tokens);
        text->prompt_count = most;
    }
    return INLAY_OK;
}

/* Prepares the first run of the lane's transcription. */
static inlay_status begin(struct lane *lane, decode_step **out_step, inlay_diag *diag)
{
    struct transcription *text = lane->text;
    inlay_status status;

    *out_step = NULL;
    if (text->is_over(text, diag))
        return diag->code;
    text->seek = 0;
    if (lane->model->tokens.first_time < 0)
        text->has_times = false;
    else if (text->sound.heard > lane->model->window_frames) /* they say where windows begin */
        text->has_times = true;
    sampler_deinit(&lane->sampler);
    lane->sampler = lane->model->generation.sampler;
    status = open_lane(lane, diag);
    if (status == INLAY_OK)
        status = read_prompt(lane, diag);
    return status == INLAY_OK ? begin_window(lane, out_step, diag) : status;
}

/* Ends the lane's transcription and begins those that wait, until one has a run. Returns the run; NULL: the lane is
 * idle. failure NULL: it is complete. */
static decode_step *end_text(struct lane *lane, const inlay_diag *failure)
{
    struct speech_runner *runner = lane->model->runner;
    decode_step *step = NULL;
    inlay_diag diag = failure != NULL ? *failure : (inlay_diag)INLAY_DIAG_INIT;

    do {
        struct transcription *const ended = lane->text, *next;
        const bool failed = diag.code != INLAY_OK;

        clear_lane(lane);
        (void)pthread_mutex_lock(&runner->lock);
        next = lane->text = runner->first;
        if (next != NULL) {
            runner->first = next->next;
            runner->waiting--;
        } else {
            lane->after = runner->idle;
            runner->idle = lane;
        }
        (void)pthread_mutex_unlock(&runner->lock);
        ended->end(ended, failed ? &diag : NULL);
        if (next == NULL) /* another thread may have the lane already */
            return NULL;
        diag = (inlay_diag)INLAY_DIAG_INIT;
        if (begin(lane, &step, &diag) != INLAY_OK)
            step = NULL;
    } while (step == NULL);
    return step;
}

static void finish_step(decode_step *step, const inlay_diag *failure)
{
    struct lane *lane = step->user;
    decode_model *model = &lane->model->encoder;
    decode_step *next = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;

    model->program->hold(model); /* the transcription may end, and its reference */
    if (failure != NULL)
        diag = *failure;
    else if (go_on(lane, step, &next, &diag) != INLAY_OK)
        next = NULL;
    if (next == NULL)
        next = end_text(lane, diag.code != INLAY_OK ? &diag : NULL);
    if (next != NULL)
        next->model->program->run(next);
    model->program->release(model);
}

inlay_status transcription_add(speech_model *model, struct transcription *text, inlay_diag *diag)
{
    struct speech_runner *runner = runner_of(model);
    decode_model *encoder = &model->encoder;
    decode_step *step = NULL;
    struct lane *lane;
    inlay_status status = INLAY_OK;
    inlay_diag failure = INLAY_DIAG_INIT;

    if (runner == NULL)
        return no_memory(diag, "for the transcriptions of the model");
    encoder->program->hold(encoder); /* it may end before this function does */
    (void)pthread_mutex_lock(&runner->lock);
    lane = runner->idle;
    text->next = NULL;
    if (lane != NULL) {
        runner->idle = lane->after;
        lane->text = text;
    } else if (runner->waiting >= model->most_waiting) {
        status = inlay_fail(diag, INLAY_BUSY, "the model's queue is full; try again later");
    } else {
        if (runner->first == NULL)
            runner->first = text;
        else
            runner->last->next = text;
        runner->last = text;
        runner->waiting++;
    }
    (void)pthread_mutex_unlock(&runner->lock);
    if (lane != NULL && (begin(lane, &step, &failure) != INLAY_OK || step == NULL))
        step = end_text(lane, failure.code != INLAY_OK ? &failure : NULL);
    if (step != NULL)
        step->model->program->run(step);
    encoder->program->release(encoder);
    return status;
}

void transcription_deinit(struct transcription *text)
{
    speech_sound_deinit(&text->sound);
    free(text->tokens);
    free(text->segments);
    free(text->prompt_tokens);
    *text = (struct transcription){ .tokens = NULL };
}
