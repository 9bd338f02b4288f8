#include "modelkit/reduce.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

struct searcher {
    struct reduction *reduction;
    reduce_try_fn try;
    void *ctx;
    uint32_t *part; /* what is tried */
    bool stopped;
    inlay_status status;
    inlay_diag *diag;
};

/* Tries chunk i of n alone, or all but it; takes it over when it fails. */
static bool try_chunk(struct searcher *searcher, uint32_t i, uint32_t n, bool alone)
{
    struct reduction *reduction = searcher->reduction;
    const uint32_t from = (uint32_t)((uint64_t)reduction->count * i / n),
                   to = (uint32_t)((uint64_t)reduction->count * (i + 1) / n);
    uint32_t count = 0;
    reduce_answer answer;

    for (uint32_t k = 0; k < reduction->count; k++)
        if ((k >= from && k < to) == alone)
            searcher->part[count++] = reduction->list[k];
    if (count == 0 || count == reduction->count)
        return false;
    if (reduction->tries >= reduction->most) {
        searcher->stopped = true;
        return false;
    }
    reduction->tries++;
    answer = searcher->try(searcher->ctx, searcher->part, count, &searcher->status, searcher->diag);
    searcher->stopped = answer == REDUCE_STOP;
    if (answer != REDUCE_FAILS)
        return false;
    memcpy(reduction->list, searcher->part, count * sizeof *reduction->list);
    reduction->count = count;
    return true;
}

inlay_status reduce_nodes(struct reduction *reduction, reduce_try_fn try, void *ctx, inlay_diag *diag)
{
    struct searcher searcher = { .reduction = reduction, .try = try, .ctx = ctx, .status = INLAY_OK, .diag = diag };
    uint32_t n = 2;

    searcher.part = malloc(((size_t)reduction->count + 1) * sizeof *searcher.part);
    if (searcher.part == NULL)
        return no_memory(diag, "for %u nodes", reduction->count);
    while (reduction->count >= 2 && !searcher.stopped) {
        bool smaller = false;

        for (uint32_t i = 0; i < n && !smaller && !searcher.stopped; i++)
            smaller = try_chunk(&searcher, i, n, true);
        if (smaller) {
            n = 2;
            continue;
        }
        for (uint32_t i = 0; n > 2 && i < n && !smaller && !searcher.stopped; i++)
            smaller = try_chunk(&searcher, i, n, false);
        if (smaller)
            n = n - 1 > 2 ? n - 1 : 2;
        else if (n >= reduction->count)
            break;
        else
            n = n * 2 < reduction->count ? n * 2 : reduction->count;
        n = n > reduction->count ? reduction->count : n;
        n = n < 2 ? 2 : n;
    }
    free(searcher.part);
    return searcher.status;
}
