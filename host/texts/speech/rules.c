#include "texts/speech/rules.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <zlib.h>

static void forbid(float *logits, size_t words, int64_t from, int64_t to)
{
    for (int64_t i = from > 0 ? from : 0; i < to && (size_t)i < words; i++)
        logits[i] = -INFINITY;
}

static float largest(const float *logits, size_t count)
{
    float most = -INFINITY;

    for (size_t i = 0; i < count; i++)
        most = logits[i] > most ? logits[i] : most;
    return most;
}

double speech_log_sum(const float *logits, size_t words)
{
    const double most = (double)largest(logits, words);
    double sum = 0;

    if (!isfinite(most))
        return most;
    for (size_t i = 0; i < words; i++)
        sum += exp((double)logits[i] - most);
    return most + log(sum);
}

/* Times come in pairs around a text, and do not decrease. */
static void mask_times(const speech_tokens *tokens, const int64_t *written, size_t count, float *logits, size_t words)
{
    const int64_t first = tokens->first_time, all = (int64_t)words;
    const bool after_time = count >= 1 && written[count - 1] >= first;
    const bool after_pair = after_time && (count < 2 || written[count - 2] >= first);
    int64_t last = -1;

    forbid(logits, words, tokens->no_times, tokens->no_times + 1);
    if (after_pair)
        forbid(logits, words, first, all);
    else if (after_time)
        forbid(logits, words, 0, tokens->end);
    for (size_t i = 0; i < count; i++)
        last = written[i] >= first ? written[i] : last;
    if (last >= 0) /* the time of an end may be that of the next beginning; otherwise a segment has a length */
        forbid(logits, words, first, after_time && !after_pair ? last : last + 1);
    if (count > 0)
        return;
    forbid(logits, words, 0, first);
    if (tokens->initial_time >= 0)
        forbid(logits, words, first + tokens->initial_time + 1, all);
}

void speech_rules_mask(const speech_tokens *tokens, const int64_t *written, size_t count, float *logits, size_t words)
{
    const size_t texts = tokens->first_time < 0               ? words
                         : (size_t)tokens->first_time < words ? (size_t)tokens->first_time
                                                              : words;

    mask_times(tokens, written, count, logits, words);
    /* A time comes if all times together are more probable than the most probable text. */
    if (texts < words && speech_log_sum(logits + texts, words - texts) > (double)largest(logits, texts))
        forbid(logits, words, 0, (int64_t)texts);
}

/* Adds a segment of the tokens [from, to). false: out of memory. */
static bool add_segment(struct transcription *text, const speech_tokens *tokens, const int64_t *written, size_t from,
                        size_t to, const speech_segment *form)
{
    speech_segment segment = *form;

    if (!LIST_GROW(text->segments, text->segment_count) ||
        !list_reserve(&text->tokens, text->token_count, to - from, sizeof *text->tokens))
        return false;
    segment.first = text->token_count;
    for (size_t i = from; i < to; i++)
        if (tokens->first_time < 0 || written[i] < tokens->first_time)
            text->tokens[text->token_count++] = written[i];
    segment.count = text->token_count - segment.first;
    if (segment.count > 0)
        text->segments[text->segment_count++] = segment;
    return true;
}

/* By how much zlib makes a text shorter; 0: it is empty, -1: out of memory. */
static double compression_of(const struct strbuf *text)
{
    uLongf bytes = compressBound((uLong)text->size);
    unsigned char *made = text->size > 0 && !text->failed ? malloc(bytes) : NULL;
    double ratio = text->size > 0 || text->failed ? -1 : 0;

    if (made != NULL && compress(made, &bytes, (const unsigned char *)text->data, (uLong)text->size) == Z_OK)
        ratio = (double)text->size / (double)bytes;
    free(made);
    return ratio;
}

speech_verdict speech_rules_judge(const speech_model *model, const int64_t *tokens, size_t count, double logprob,
                                  double no_speech)
{
    const speech_doubts *doubts = &model->doubts;
    const bool is_improbable = logprob < doubts->logprob;
    struct strbuf text = { .data = NULL };
    double compression;

    if (no_speech > doubts->no_speech && (is_improbable || isinf(doubts->logprob)))
        return SPEECH_SILENCE;
    speech_text(model, tokens, count, &text); /* times are special tokens, which it leaves out */
    compression = compression_of(&text);
    strbuf_deinit(&text);
    return compression < 0                                      ? SPEECH_FAILED
           : is_improbable || compression > doubts->compression ? SPEECH_DOUBTED
                                                                : SPEECH_GOOD;
}

int64_t speech_rules_cut(const speech_model *model, struct transcription *text, const int64_t *written, size_t count,
                         int64_t frames, const speech_segment *form)
{
    const int64_t first = model->tokens.first_time;
    const double frame = (double)model->hop / (double)model->rate; /* seconds; a time is two frames */
    const double offset = (double)text->seek * frame;
    const bool ends_alone = count >= 2 && first >= 0 && written[count - 1] >= first && written[count - 2] < first;
    speech_segment segment = *form;
    size_t from = 0;

    segment.seek = text->seek;
    segment.begin = offset;
    segment.end = offset + (double)frames * frame;
    for (size_t i = 1; first >= 0 && i <= count; i++) {
        const bool cuts = i < count ? written[i] >= first && written[i - 1] >= first : from > 0 && ends_alone;

        if (!cuts)
            continue;
        segment.begin = offset + (double)(written[from] >= first ? written[from] - first : 0) * 2 * frame;
        segment.end = offset + (double)(written[i - 1] - first) * 2 * frame;
        if (!add_segment(text, &model->tokens, written, from, i, &segment))
            return 0;
        from = i;
    }
    if (from > 0) {
        const int64_t moved = (written[from - 1] - first) * 2;

        /* What begins after the last pair is not complete: the next window begins with it. */
        return from == count || moved <= 0 || moved > frames ? frames : moved;
    }
    for (size_t i = 0, times = 0; first >= 0 && i < count; i++) { /* of a single segment, whose end may have no time */
        if (written[i] < first)
            continue;
        *(times++ == 0 ? &segment.begin : &segment.end) = offset + (double)(written[i] - first) * 2 * frame;
    }
    return add_segment(text, &model->tokens, written, 0, count, &segment) ? frames : 0;
}
