/* check/constants.h - the constants of a region in memory that detects forbidden accesses: read-only from compile on,
 * and inaccessible once compile has returned if the provider answered INLAY_CONST_COPIED or _PACKED. */
#ifndef CHECK_CONSTANTS_H
#define CHECK_CONSTANTS_H
#include "base/arena.h"
#include "check/guarded.h"
#include "inlay/graph_view.h"

struct constant_copy {
    uint32_t value;
    struct guarded memory;  /* the constant as in a file */
    struct guarded aligned; /* a copy made by align_constant */
};

struct constant_set {
    struct constant_copy *list; /* [count] in the caller's arena */
    uint32_t count;
    inlay_graph graph; /* the caller's graph, its values pointing to the copies; in the caller's arena */
};

/* Copies the constants of the graph. misaligned: each at an odd address, as a file may have it; otherwise aligned to 64
 * bytes. Constants of strings stay in the caller's memory. False: no memory. */
bool constants_create(const inlay_graph *graph, bool misaligned, struct arena *arena, struct constant_set *out);
/* Like inlay_host.align_constant. NULL: not a constant, or no memory. */
const void *constants_align(struct constant_set *set, uint32_t value, uint32_t alignment);
/* To be called when compile has returned its decisions ([value_count] INLAY_CONST_*). */
void constants_settle(struct constant_set *set, const uint8_t *decisions);
void constants_destroy(struct constant_set *set); /* a no-op on a zeroed struct */
#endif
