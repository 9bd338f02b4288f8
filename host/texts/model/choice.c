#include "texts/model/choice.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool make_room(text_choice *choice, size_t count)
{
    int64_t *more;

    if (count <= choice->room)
        return true;
    more = realloc(choice->tokens, (count + 256) * sizeof *more);
    if (more == NULL)
        return false;
    choice->tokens = more;
    choice->room = count + 256;
    choice->decoding.tokens = more;
    return true;
}

bool text_choice_begin(text_choice *choice, const int64_t *tokens, size_t count)
{
    if (!make_room(choice, count + 1))
        return false;
    memcpy(choice->tokens, tokens, count * sizeof *tokens);
    choice->decoding.count = choice->prompt_count = choice->sampler.prompt_count = count;
    return true;
}

void text_choice_deinit(text_choice *choice)
{
    free(choice->tokens);
    sampler_deinit(&choice->sampler);
    strbuf_deinit(&choice->unsent);
}

void choice_scratch_deinit(choice_scratch *scratch)
{
    free(scratch->logits);
    free(scratch->allowed);
}

/* A copy of the logits of the last token, which the sampler changes. NULL: out of memory. */
static float *copy_logits(choice_scratch *scratch, const float *logits, size_t count)
{
    if (scratch->logit_room < count) {
        free(scratch->logits);
        scratch->logit_room = 0;
        scratch->logits = malloc(count * sizeof *scratch->logits);
        if (scratch->logits == NULL)
            return NULL;
        scratch->logit_room = count;
    }
    memcpy(scratch->logits, logits, count * sizeof *logits);
    return scratch->logits;
}

/* Makes room for the bits of `words` words, all 0. false: out of memory. */
static bool clear_allowed(choice_scratch *scratch, size_t words)
{
    if (scratch->allowed_words < words) {
        free(scratch->allowed);
        scratch->allowed = malloc(words * sizeof *scratch->allowed);
        scratch->allowed_words = scratch->allowed != NULL ? words : 0;
    }
    if (scratch->allowed != NULL)
        memset(scratch->allowed, 0, words * sizeof *scratch->allowed);
    return scratch->allowed != NULL;
}

/* Adds the tokens that form i allows next to `allowed`. *any: there are some; *ends: the text may end. false: they are
 * not known. */
static bool add_allowed(const text_choice *choice, int i, uint64_t *allowed, bool *any, bool *ends)
{
    const token_index *index = choice->model->index;
    struct grammar *form = choice->forms[i];
    const uint64_t *mask;
    bool some = false;

    if (choice->states[i] == GRAMMAR_DEAD)
        return form == NULL || !grammar_failed(form);
    mask = token_index_mask(index, form, choice->states[i], &some);
    if (mask == NULL || grammar_failed(form))
        return false;
    for (size_t k = 0; k < token_index_count(index) / 64 + 1 && some; k++)
        allowed[k] |= mask[k];
    *any |= some;
    *ends |= grammar_accepts(form, choice->states[i]);
    return true;
}

/* Sets the tokens that the forms of the text allow next, and those that end a text if it may end here. false: the text
 * ends, or diag says why there are none, or that they are unknown. */
static bool choose_allowed(text_choice *choice, size_t vocabulary, inlay_diag *diag)
{
    const text_model *model = choice->model;
    bool any = false, ends = false, good;
    size_t count;

    choice->sampler.allowed = NULL;
    choice->must_end = false;
    if (!choice->is_bound)
        return true;
    count = (token_index_count(model->index) / 64 + 1) * 64;
    count = count > vocabulary ? count : vocabulary;
    good = clear_allowed(choice->scratch, count / 64 + 1);
    for (int i = 0; i < CHOICE_FORMS && good; i++)
        good = add_allowed(choice, i, choice->scratch->allowed, &any, &ends);
    if (!good)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "the text's grammar needs more states than the limit") == INLAY_OK;
    choice->may_end = ends;
    if (!any && !ends)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "no token of the model's vocabulary may follow the %zu generated ones in the text's schema, "
                          "grammar or call of a tool",
                          choice->token_count) == INLAY_OK;
    if (!any && model->end_count == 0)
        return false;
    choice->must_end = !any;
    for (uint32_t i = 0; ends && i < model->end_count; i++)
        if (model->ends[i] >= 0 && (size_t)model->ends[i] < count)
            choice->scratch->allowed[model->ends[i] / 64] |= UINT64_C(1) << model->ends[i] % 64;
    choice->sampler.allowed = choice->scratch->allowed;
    return true;
}

/* Whether a text of `count` tokens, of which `generated` are new, has its maximum length. */
static bool is_longest(const text_choice *choice, size_t count, size_t generated)
{
    const size_t context = choice->model->decode.context;

    return generated == choice->ends->max_tokens || (context > 0 && count >= context);
}

/* The token that the sampler chooses; SAMPLER_NO_MEMORY or SAMPLER_NO_TOKEN: none. */
static int64_t sample(text_choice *choice, const float *logits, size_t logit_count)
{
    const text_ends *given = choice->ends;
    const size_t count = choice->decoding.count;
    /* A text whose form is complete ends nevertheless. */
    const bool is_short =
        !choice->must_end && (choice->token_count < given->min_tokens || count < choice->rules.min_tokens);
    const token_place place = { .tokens = choice->tokens,
                                .count = count,
                                .prompt_count = choice->prompt_count,
                                .ends = choice->model->ends,
                                .end_count = choice->model->end_count,
                                .forbids_ends = is_short || (given->ignores_ends && !choice->must_end),
                                .is_last = !choice->is_bound && !given->ignores_ends &&
                                           is_longest(choice, count + 1, choice->token_count + 1) };
    float *own = copy_logits(choice->scratch, logits, logit_count);

    if (own == NULL)
        return SAMPLER_NO_MEMORY;
    rules_weigh(&choice->rules.sequences, &place, own, logit_count);
    if (choice->banned != NULL)
        rules_weigh(choice->banned, &place, own, logit_count);
    if (!sampler_penalize(&choice->sampler, own, logit_count, choice->tokens, count))
        return SAMPLER_NO_MEMORY;
    rules_restrict(&choice->rules, &place, own, logit_count);
    if (is_short)
        rules_forbid(own, logit_count, given->stop_tokens, given->stop_token_count);
    return sampler_next(&choice->sampler, own, logit_count);
}

/* Says why no token may come next. */
static void explain_none(const text_choice *choice, const float *logits, size_t count, inlay_diag *diag)
{
    bool has_number = false;

    for (size_t i = 0; i < count && !has_number; i++)
        has_number = logits[i] > -INFINITY;
    if (!has_number)
        (void)inlay_fail(diag, INLAY_UNSUPPORTED, "the model returned no logit that is a number");
    else
        (void)inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                         "no token may follow the %zu generated ones: the request and the model's "
                         "generation_config.json exclude all tokens%s",
                         choice->token_count,
                         choice->is_bound ? " that continue the text's schema, grammar or call of a tool" : "");
}

int64_t text_choice_next(text_choice *choice, const float *logits, size_t count, inlay_diag *diag)
{
    int64_t token;

    if (!choose_allowed(choice, count, diag))
        return -1;
    token = sample(choice, logits, count);
    if (token == SAMPLER_NO_TOKEN && choice->is_bound && choice->may_end)
        return -1;
    if (token == SAMPLER_NO_TOKEN) {
        explain_none(choice, logits, count, diag);
        return -1;
    }
    if (token < 0 || !make_room(choice, choice->decoding.count + 1)) {
        (void)no_memory(diag, "to choose a token");
        return -1;
    }
    choice->tokens[choice->decoding.count++] = token;
    choice->token_count++;
    return token;
}

int64_t text_choice_guess(text_choice *choice, const float *logits, size_t count, uint32_t index)
{
    const uint64_t state = choice->sampler.state;
    int64_t token;

    if (index > 0)
        choice->sampler.state = choice->guess_state;
    choice->sampler.allowed = NULL; /* those of the text's form are not known for guesses */
    choice->must_end = false;
    token = sample(choice, logits, count);
    choice->guess_state = choice->sampler.state;
    choice->sampler.state = state;
    return token;
}

bool text_choice_is_end(const text_choice *choice, int64_t token)
{
    for (uint32_t i = 0; i < choice->ends->stop_token_count; i++)
        if (choice->ends->stop_tokens[i] == token)
            return true;
    return text_model_is_end(choice->model, token);
}

void text_choice_follow(text_choice *choice, int64_t token)
{
    for (int i = 0; i < CHOICE_FORMS; i++)
        if (choice->states[i] != GRAMMAR_DEAD)
            choice->states[i] = token_index_next(choice->model->index, choice->forms[i], choice->states[i], token);
}

bool text_choice_is_full(const text_choice *choice)
{
    return is_longest(choice, choice->decoding.count, choice->token_count);
}

/* Number of texts that end the text: of the request, and of the model after them. */
static uint32_t stop_count(const text_choice *choice)
{
    return choice->ends->stop_count + choice->model->generation.stop_count;
}

static const char *stop_of(const text_choice *choice, uint32_t i)
{
    return i < choice->ends->stop_count ? choice->ends->stops[i]
                                        : choice->model->generation.stops[i - choice->ends->stop_count];
}

bool text_choice_find_stop(text_choice *choice)
{
    struct strbuf *text = &choice->unsent;
    size_t first = SIZE_MAX;

    for (uint32_t i = 0; i < stop_count(choice) && text->size > 0; i++) {
        const char *stop = stop_of(choice, i), *at = memmem(text->data, text->size, stop, strlen(stop));

        if (at != NULL && (size_t)(at - text->data) < first) {
            first = (size_t)(at - text->data);
            choice->stop = stop;
        }
    }
    if (first != SIZE_MAX)
        text->size = first;
    return first != SIZE_MAX;
}

size_t text_choice_held_back(const text_choice *choice, const char *also)
{
    const struct strbuf *text = &choice->unsent;
    size_t held = text_incomplete(text->data, text->size);

    for (uint32_t i = 0; i <= stop_count(choice); i++) {
        const char *word = i < stop_count(choice) ? stop_of(choice, i) : also;

        for (size_t length = word[0] != '\0' ? strlen(word) - 1 : 0; length > held; length--)
            if (length <= text->size && memcmp(text->data + text->size - length, word, length) == 0)
                held = length;
    }
    return held;
}

size_t text_incomplete(const char *text, size_t bytes)
{
    for (size_t length = 1; length <= 3 && length <= bytes; length++) {
        unsigned char byte = (unsigned char)text[bytes - length];

        if (byte >> 6 == 3 && length < (byte >> 5 == 6 ? 2u : byte >> 4 == 14 ? 3u : 4u))
            return length;
        if (byte >> 6 != 2)
            break;
    }
    return 0;
}
