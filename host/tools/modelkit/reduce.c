#include "modelkit/reduce.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

struct searcher {
    struct reduction *r;
    reduce_try_fn try;
    void *ctx;
    uint32_t *part; /* what is tried */
    bool stopped;
    inlay_status status;
    inlay_diag *diag;
};

/* Tries chunk i of n alone, or all but it; takes it over when it fails. */
static bool try_chunk(struct searcher *s, uint32_t i, uint32_t n, bool alone)
{
    struct reduction *r = s->r;
    const uint32_t from = (uint32_t)((uint64_t)r->count * i / n), to = (uint32_t)((uint64_t)r->count * (i + 1) / n);
    uint32_t count = 0;
    reduce_answer answer;

    for (uint32_t k = 0; k < r->count; k++)
        if ((k >= from && k < to) == alone)
            s->part[count++] = r->list[k];
    if (count == 0 || count == r->count)
        return false;
    if (r->tries >= r->most) {
        s->stopped = true;
        return false;
    }
    r->tries++;
    answer = s->try(s->ctx, s->part, count, &s->status, s->diag);
    s->stopped = answer == REDUCE_STOP;
    if (answer != REDUCE_FAILS)
        return false;
    memcpy(r->list, s->part, count * sizeof *r->list);
    r->count = count;
    return true;
}

inlay_status reduce_nodes(struct reduction *r, reduce_try_fn try, void *ctx, inlay_diag *diag)
{
    struct searcher s = { .r = r, .try = try, .ctx = ctx, .status = INLAY_OK, .diag = diag };
    uint32_t n = 2;

    s.part = malloc(((size_t)r->count + 1) * sizeof *s.part);
    if (s.part == NULL)
        return no_memory(diag, "for %u nodes", r->count);
    while (r->count >= 2 && !s.stopped) {
        bool smaller = false;

        for (uint32_t i = 0; i < n && !smaller && !s.stopped; i++)
            smaller = try_chunk(&s, i, n, true);
        if (smaller) {
            n = 2;
            continue;
        }
        for (uint32_t i = 0; n > 2 && i < n && !smaller && !s.stopped; i++)
            smaller = try_chunk(&s, i, n, false);
        if (smaller)
            n = n - 1 > 2 ? n - 1 : 2;
        else if (n >= r->count)
            break;
        else
            n = n * 2 < r->count ? n * 2 : r->count;
        n = n > r->count ? r->count : n;
        n = n < 2 ? 2 : n;
    }
    free(s.part);
    return s.status;
}
