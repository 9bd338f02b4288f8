/* exec/run_memory.h - where tensors, slabs and workspaces of a session's runs come from: the caller's allocator or
 * malloc, within a budget, counted. Values may outlive the session, so this has references, too. Any thread. */
#ifndef EXEC_RUN_MEMORY_H
#define EXEC_RUN_MEMORY_H
#include "inlay/inlay.h"

typedef struct run_memory run_memory;

/* allocator is copied; NULL: malloc. budget in bytes; 0 = none. NULL: no memory. */
run_memory *run_memory_create(const inlay_allocator *allocator, uint64_t budget);
run_memory *run_memory_ref(run_memory *m); /* NULL is a no-op, here and below */
void run_memory_unref(run_memory *m);

/* At least `bytes` bytes at a multiple of alignment (a power of two from 64), not cleared. INLAY_LIMIT_EXCEEDED: that
 * is beyond the budget. m NULL: malloc, and nobody counts. */
INLAY_NODISCARD inlay_status run_memory_take(run_memory *m, uint64_t bytes, uint64_t alignment, void **out_memory,
                                             inlay_diag *diag);
/* memory NULL is a no-op; bytes as it was taken. */
void run_memory_give(run_memory *m, void *memory, uint64_t bytes);
void run_memory_look(const run_memory *m, inlay_memory_info *out);
#endif
