/* plan/layout/memory.h - assigns offsets in the slab.
 *
 * Tensors with disjoint lifetimes share bytes. The problem is dynamic storage allocation, NP-hard in general. Placing
 * the largest tensors first, each at the lowest offset that is free during its lifetime, comes within a few per cent of
 * the lower bound on the graphs of real models. */
#ifndef PLAN_MEMORY_H
#define PLAN_MEMORY_H
#include "base/arena.h"
#include <stdbool.h>

typedef struct memory_item {
    uint64_t bytes;
    uint32_t first, last; /* steps, inclusive, during which the bytes are in use */
    uint64_t offset;      /* result: a multiple of the alignment */
} memory_item;

/* Sets the offsets to multiples of alignment (a power of two). *out_bytes is the size of the slab, *out_lower_bound the
 * maximum of live bytes at any step. scratch is used temporarily. False: out of memory. */
bool memory_place(memory_item *items, uint32_t count, uint32_t step_count, uint64_t alignment, struct arena *scratch,
                  uint64_t *out_bytes, uint64_t *out_lower_bound);
#endif
