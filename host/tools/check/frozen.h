/* check/frozen.h - a copy of a snapshot in memory that cannot be written to, laid out as by a host of another age. */
#ifndef CHECK_FROZEN_H
#define CHECK_FROZEN_H
#include "check/guarded.h"
#include "inlay/plugin.h"

struct frozen {
    const inlay_graph *graph;
    struct guarded memory;
};

/* Copies the whole graph, texts and constants too; with borrowed, constants stay where they are, as compile's do.
 * extra: bytes, multiple of 8, that each struct and each element of an array has beyond what this host knows; they are
 * zero. False: no memory. */
bool frozen_create(const inlay_graph *from, uint32_t extra, bool borrowed, struct frozen *out);
/* Forbids reading it, too: the call that it was for has returned. */
void frozen_hide(struct frozen *frozen);
void frozen_destroy(struct frozen *frozen); /* one that is zero is a no-op */
#endif
