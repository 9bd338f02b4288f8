/* exec/values/run_memory.h - where tensors, slabs and workspaces of a session's runs come from: the caller's allocator
 * or malloc, within a budget, counted. Values may outlive the session, so this has references, too. Any thread.
 *
 * Beside the budget of runs there is a cap on all that the session has of the host's memory (option memory_limit,
 * host=BYTES): there what is held between runs counts, too - weights, what providers made of them, plans. */
#ifndef EXEC_RUN_MEMORY_H
#define EXEC_RUN_MEMORY_H
#include "inlay/inlay.h"
#include <stdbool.h>

typedef struct run_memory run_memory;

/* allocator is copied; NULL: malloc. budget and cap in bytes; 0 = none. NULL: no memory. */
run_memory *run_memory_create(const inlay_allocator *allocator, uint64_t budget, uint64_t cap);
/* Counts, atomically, the bytes that the session holds between runs; NULL: there is no cap, and nobody counts. */
uint64_t *run_memory_held(run_memory *memory);
/* Is there no cap, or is there room for all that is held and in use and `more` bytes, if `mine` of what is in use goes?
 * Otherwise *out_least is the smallest cap that would do. memory may be NULL. */
bool run_memory_fits(const run_memory *memory, uint64_t more, uint64_t mine, uint64_t *out_least);
/* INLAY_LIMIT_EXCEEDED, and diag says which cap would do for `what`. */
inlay_status run_memory_over(const run_memory *memory, const char *what, uint64_t least, inlay_diag *diag);
run_memory *run_memory_ref(run_memory *memory); /* NULL is a no-op, here and below */
void run_memory_unref(run_memory *memory);

/* At least `bytes` bytes at a multiple of alignment (a power of two from 64), not cleared. INLAY_LIMIT_EXCEEDED: that
 * is beyond the budget. memory NULL: malloc, and nobody counts. */
INLAY_NODISCARD inlay_status run_memory_take(run_memory *memory, uint64_t bytes, uint64_t alignment, void **out_memory,
                                             inlay_diag *diag);
/* memory NULL is a no-op; bytes as it was taken. */
void run_memory_give(run_memory *m, void *memory, uint64_t bytes);
void run_memory_look(const run_memory *memory, inlay_memory_info *out);
#endif
