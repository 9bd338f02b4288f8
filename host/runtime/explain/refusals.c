/* Equal refusals of many nodes told as one. */
#include "explain/internal.h"
#include <stdlib.h>
#include <string.h>

static const part_refusal *refusal_of(const facts_refused *r)
{
    return &r->graph->parts->refusals[r->refusal];
}

static int compare_texts(const char *a, const char *b)
{
    return a == NULL || b == NULL ? (a != NULL) - (b != NULL) : strcmp(a, b);
}

static int same_words(const part_refusal *x, const part_refusal *y)
{
    int order = (x->provider > y->provider) - (x->provider < y->provider);

    if (order == 0)
        order = (x->code > y->code) - (x->code < y->code);
    if (order == 0)
        order = strcmp(x->text, y->text);
    return order != 0 ? order : compare_texts(x->accepted_if, y->accepted_if);
}

static int by_words(const void *a, const void *b)
{
    const facts_refused *x = a, *y = b;
    const part_refusal *p = refusal_of(x), *q = refusal_of(y);
    int order = same_words(p, q);

    if (order == 0)
        order = strcmp(x->graph->path, y->graph->path);
    return order != 0 ? order : (p->node > q->node) - (p->node < q->node);
}

static int by_count(const void *a, const void *b)
{
    const facts_refusals *x = a, *y = b;

    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return (x->first > y->first) - (x->first < y->first);
}

bool facts_fold_refusals(struct facts *f)
{
    size_t total = 0, at = 0;

    for (uint32_t i = 0; i < f->graph_count; i++)
        total += f->graphs[i]->parts->refusal_count;
    f->refused = arena_array(&f->a, total + 1, sizeof *f->refused);
    f->refusals = arena_array(&f->a, total + 1, sizeof *f->refusals);
    if (f->refused == NULL || f->refusals == NULL)
        return false;
    for (uint32_t i = 0; i < f->graph_count; i++)
        for (uint32_t r = 0; r < f->graphs[i]->parts->refusal_count; r++)
            f->refused[at++] = (facts_refused){ f->graphs[i], r };
    qsort(f->refused, total, sizeof *f->refused, by_words);
    for (uint32_t i = 0; i < total; i++) {
        const part_refusal *r = refusal_of(&f->refused[i]);
        if (i == 0 || same_words(refusal_of(&f->refused[i - 1]), r) != 0)
            f->refusals[f->refusals_count++] = (facts_refusals){
                .provider = r->provider, .code = r->code, .text = r->text, .accepted_if = r->accepted_if, .first = i
            };
        f->refusals[f->refusals_count - 1].count++;
    }
    qsort(f->refusals, f->refusals_count, sizeof *f->refusals, by_count);
    return true;
}
