#include "modelkit/reduce.h"
#include "inlay/check.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

struct reducer {
    struct reduction *reduction;
    reduce_try_fn try;
    void *ctx;
    uint32_t *part; /* the part under test */
    bool stopped;
    inlay_status status;
    inlay_diag *diag;
};

/* Tests chunk `index` of `chunks` alone, or everything except it; keeps the part if it fails. */
static bool test_chunk(struct reducer *reducer, uint32_t index, uint32_t chunks, bool alone)
{
    struct reduction *reduction = reducer->reduction;
    const uint32_t from = (uint32_t)((uint64_t)reduction->count * index / chunks),
                   to = (uint32_t)((uint64_t)reduction->count * (index + 1) / chunks);
    uint32_t count = 0;
    reduce_answer answer;

    INLAY_CHECK(index < chunks && from <= to && to <= reduction->count);
    for (uint32_t k = 0; k < reduction->count; k++)
        if ((k >= from && k < to) == alone)
            reducer->part[count++] = reduction->list[k];
    if (count == 0 || count == reduction->count)
        return false;
    if (reduction->tries >= reduction->most) {
        reducer->stopped = true;
        return false;
    }
    reduction->tries++;
    answer = reducer->try(reducer->ctx, reducer->part, count, &reducer->status, reducer->diag);
    reducer->stopped = answer == REDUCE_STOP;
    if (answer != REDUCE_FAILS)
        return false;
    memcpy(reduction->list, reducer->part, count * sizeof *reduction->list);
    reduction->count = count;
    return true;
}

inlay_status reduce_nodes(struct reduction *reduction, reduce_try_fn try, void *ctx, inlay_diag *diag)
{
    struct reducer reducer = { .reduction = reduction, .try = try, .ctx = ctx, .status = INLAY_OK, .diag = diag };
    uint32_t chunks = 2;

    reducer.part = malloc(((size_t)reduction->count + 1) * sizeof *reducer.part);
    if (reducer.part == NULL)
        return no_memory(diag, "for %u nodes", reduction->count);
    while (reduction->count >= 2 && !reducer.stopped) {
        bool smaller = false;

        for (uint32_t i = 0; i < chunks && !smaller && !reducer.stopped; i++)
            smaller = test_chunk(&reducer, i, chunks, true);
        if (smaller) {
            chunks = 2;
            continue;
        }
        for (uint32_t i = 0; chunks > 2 && i < chunks && !smaller && !reducer.stopped; i++)
            smaller = test_chunk(&reducer, i, chunks, false);
        if (smaller)
            chunks = chunks - 1 > 2 ? chunks - 1 : 2;
        else if (chunks >= reduction->count)
            break;
        else
            chunks = chunks * 2 < reduction->count ? chunks * 2 : reduction->count;
        chunks = chunks > reduction->count ? reduction->count : chunks;
        chunks = chunks < 2 ? 2 : chunks;
    }
    free(reducer.part);
    return reducer.status;
}
