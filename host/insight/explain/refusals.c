/* Merges equal refusals of many nodes. */
#include "explain/internal.h"
#include "inlay/check.h"
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

static int compare_reasons(const partition_refusal *a, const partition_refusal *b)
{
    int order = (a->provider > b->provider) - (a->provider < b->provider);

    if (order == 0)
        order = (a->code > b->code) - (a->code < b->code);
    if (order == 0)
        order = strcmp(a->text, b->text);
    return order != 0 ? order : compare_texts(a->accepted_if, b->accepted_if);
}

static int by_reason(const void *a, const void *b)
{
    const facts_refused *refused = a, *other = b;
    const partition_refusal *refusal = refusal_of(refused), *other_refusal = refusal_of(other);
    int order = refused->could_run != other->could_run ? other->could_run - refused->could_run
                                                       : compare_reasons(refusal, other_refusal);

    if (order == 0)
        order = strcmp(refused->graph->path, other->graph->path);
    return order != 0 ? order : (refusal->node > other_refusal->node) - (refusal->node < other_refusal->node);
}

static int by_count(const void *a, const void *b)
{
    const facts_refusals *first = a, *second = b;

    if (first->count != second->count)
        return first->count < second->count ? 1 : -1;
    return (first->first > second->first) - (first->first < second->first);
}

inlay_status facts_merge_refusals(struct facts *facts, inlay_diag *diag)
{
    size_t total = 0, at = 0;

    for (uint32_t i = 0; i < facts->graph_count; i++)
        total += facts->graphs[i]->parts->refusal_count;
    facts->refused = arena_array(&facts->arena, total + 1, sizeof *facts->refused);
    facts->refusals = arena_array(&facts->arena, total + 1, sizeof *facts->refusals);
    if (facts->refused == NULL || facts->refusals == NULL)
        return no_memory(diag, "to explain the session");
    for (uint32_t i = 0; i < facts->graph_count; i++)
        for (uint32_t r = 0; r < facts->graphs[i]->parts->refusal_count; r++) {
            const partition_refusal *refusal = &facts->graphs[i]->parts->refusals[r];

            facts->refused[at++] =
                (facts_refused){ .graph = facts->graphs[i],
                                 .refusal = r,
                                 .could_run = refusal->code != INLAY_REFUSE_OPERATOR &&
                                              facts_may_run(facts->graphs[i], refusal->node, refusal->provider) };
        }
    INLAY_CHECK(at == total);
    qsort(facts->refused, total, sizeof *facts->refused, by_reason);
    for (uint32_t i = 0; i < total; i++) {
        const partition_refusal *refusal = refusal_of(&facts->refused[i]);
        if (i == 0 || facts->refused[i - 1].could_run != facts->refused[i].could_run ||
            compare_reasons(refusal_of(&facts->refused[i - 1]), refusal) != 0)
            facts->refusals[facts->refusals_count++] = (facts_refusals){ .provider = refusal->provider,
                                                                         .code = refusal->code,
                                                                         .text = refusal->text,
                                                                         .accepted_if = refusal->accepted_if,
                                                                         .first = i,
                                                                         .could_run = facts->refused[i].could_run };
        facts->refusals[facts->refusals_count - 1].count++;
    }
    qsort(facts->refusals, facts->refusals_count, sizeof *facts->refusals, by_count);
    return INLAY_OK;
}
