/* The definitions are those of the logits processors of transformers. */
#include "texts/tokens/rules.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool has_logit(int64_t token, size_t count)
{
    return token >= 0 && (uint64_t)token < count;
}

void rules_forbid(float *logits, size_t count, const int64_t *tokens, uint32_t token_count)
{
    for (uint32_t i = 0; i < token_count; i++)
        if (has_logit(tokens[i], count))
            logits[tokens[i]] = -INFINITY;
}

/* Leaves the tokens of the list alone. */
static void force(float *logits, size_t count, const int64_t *tokens, uint32_t token_count)
{
    for (size_t i = 0; i < count; i++)
        logits[i] = -INFINITY;
    for (uint32_t i = 0; i < token_count; i++)
        if (has_logit(tokens[i], count))
            logits[tokens[i]] = 0;
}

void rules_weigh(const sequence_list *sequences, const token_place *place, float *logits, size_t count)
{
    for (uint32_t i = 0; i < sequences->count; i++) {
        const token_list *sequence = &sequences->items[i].list;
        const size_t before = sequence->count - 1;
        const int64_t last = sequence->tokens[before];

        if (has_logit(last, count) && (before == 0 || before < place->count) &&
            memcmp(sequence->tokens, place->tokens + place->count - before, before * sizeof last) == 0)
            logits[last] += sequences->items[i].bias;
    }
}

/* Forbids the tokens that would repeat `size` tokens of the first `end` ones of the text. */
static void forbid_repeated(const token_place *place, size_t end, size_t size, float *logits, size_t count)
{
    const size_t before = size - 1;

    for (size_t i = 0; before <= place->count && i + before < end; i++)
        if (memcmp(place->tokens + i, place->tokens + place->count - before, before * sizeof *place->tokens) == 0)
            rules_forbid(logits, count, &place->tokens[i + before], 1);
}

/* Makes end tokens more probable, the more the longer the text is. */
static void apply_decay(const token_rules *rules, const token_place *place, float *logits, size_t count)
{
    const size_t generated = place->count - place->prompt_count;
    double growth;

    if (rules->decay == 0 || generated <= rules->decay_start)
        return;
    growth = pow(rules->decay, (double)(generated - rules->decay_start));
    for (uint32_t i = 0; i < place->end_count; i++) {
        float *logit = has_logit(place->ends[i], count) ? &logits[place->ends[i]] : NULL;

        if (logit != NULL && isfinite(*logit) && *logit != 0)
            *logit += (float)(fabs((double)*logit) * (growth - 1));
    }
}

void rules_restrict(const token_rules *rules, const token_place *place, float *logits, size_t count)
{
    const bool forces_first = rules->first >= 0 && place->count == 1;
    /* The first token of a prompt of one token is the one that is forced. */
    const size_t first = rules->first >= 0 && place->prompt_count <= 1 ? place->prompt_count + 1 : place->prompt_count;

    if (rules->no_repeat > 0)
        forbid_repeated(place, place->count, rules->no_repeat, logits, count);
    if (rules->no_copy > 0)
        forbid_repeated(place, place->prompt_count, rules->no_copy, logits, count);
    if (place->forbids_ends)
        rules_forbid(logits, count, place->ends, place->end_count);
    if (forces_first)
        force(logits, count, &rules->first, 1);
    if (place->is_last && rules->last.count > 0)
        force(logits, count, rules->last.tokens, rules->last.count);
    apply_decay(rules, place, logits, count);
    rules_forbid(logits, count, rules->suppressed.tokens, rules->suppressed.count);
    if (place->count == first)
        rules_forbid(logits, count, rules->first_not.tokens, rules->first_not.count);
}

bool sequence_add(sequence_list *list, const int64_t *tokens, uint32_t count, float bias)
{
    int64_t *copy = LIST_GROW(list->items, list->count) ? calloc(count, sizeof *copy) : NULL;

    if (copy == NULL)
        return false;
    memcpy(copy, tokens, count * sizeof *copy);
    list->items[list->count++] = (token_sequence){ { copy, count }, bias };
    return true;
}

void sequences_deinit(sequence_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        free(list->items[i].list.tokens);
    free(list->items);
    *list = (sequence_list){ NULL, 0 };
}

void rules_deinit(token_rules *rules)
{
    sequences_deinit(&rules->sequences);
    free(rules->suppressed.tokens);
    free(rules->first_not.tokens);
    free(rules->last.tokens);
    *rules = (token_rules)TOKEN_RULES_INIT;
}
