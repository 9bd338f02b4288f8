/* Equal refusals of many nodes told as one. */
#include "explain/internal.h"
#include <stdlib.h>
#include <string.h>

static const partition_refusal *refusal_of(const facts_refused *refused)
{
    return &refused->graph->parts->refusals[refused->refusal];
}

static int compare_texts(const char *a, const char *b)
{
    return a == NULL || b == NULL ? (a != NULL) - (b != NULL) : strcmp(a, b);
}

static int same_words(const partition_refusal *refusal, const partition_refusal *y)
{
    int order = (refusal->provider > y->provider) - (refusal->provider < y->provider);

    if (order == 0)
        order = (refusal->code > y->code) - (refusal->code < y->code);
    if (order == 0)
        order = strcmp(refusal->text, y->text);
    return order != 0 ? order : compare_texts(refusal->accepted_if, y->accepted_if);
}

static int by_words(const void *a, const void *b)
{
    const facts_refused *refused = a, *y = b;
    const partition_refusal *refusal = refusal_of(refused), *q = refusal_of(y);
    int order = same_words(refusal, q);

    if (order == 0)
        order = strcmp(refused->graph->path, y->graph->path);
    return order != 0 ? order : (refusal->node > q->node) - (refusal->node < q->node);
}

static int by_count(const void *a, const void *b)
{
    const facts_refusals *refusals = a, *y = b;

    if (refusals->count != y->count)
        return refusals->count < y->count ? 1 : -1;
    return (refusals->first > y->first) - (refusals->first < y->first);
}

bool facts_fold_refusals(struct facts *facts)
{
    size_t total = 0, at = 0;

    for (uint32_t i = 0; i < facts->graph_count; i++)
        total += facts->graphs[i]->parts->refusal_count;
    facts->refused = arena_array(&facts->arena, total + 1, sizeof *facts->refused);
    facts->refusals = arena_array(&facts->arena, total + 1, sizeof *facts->refusals);
    if (facts->refused == NULL || facts->refusals == NULL)
        return false;
    for (uint32_t i = 0; i < facts->graph_count; i++)
        for (uint32_t r = 0; r < facts->graphs[i]->parts->refusal_count; r++)
            facts->refused[at++] = (facts_refused){ facts->graphs[i], r };
    qsort(facts->refused, total, sizeof *facts->refused, by_words);
    for (uint32_t i = 0; i < total; i++) {
        const partition_refusal *refusal = refusal_of(&facts->refused[i]);
        if (i == 0 || same_words(refusal_of(&facts->refused[i - 1]), refusal) != 0)
            facts->refusals[facts->refusals_count++] = (facts_refusals){ .provider = refusal->provider,
                                                                         .code = refusal->code,
                                                                         .text = refusal->text,
                                                                         .accepted_if = refusal->accepted_if,
                                                                         .first = i };
        facts->refusals[facts->refusals_count - 1].count++;
    }
    qsort(facts->refusals, facts->refusals_count, sizeof *facts->refusals, by_count);
    return true;
}
