/* exec/values/run_memory.h - allocates the tensors, slabs and workspaces of a session's runs, from the caller's
 * allocator, from malloc, or as mappings if they are large, and counts them against a budget. The object is
 * reference-counted, because values may outlive the session. Any thread may use it.
 *
 * In addition to the budget of runs there is a cap on all host memory of the session (option memory_limit, host=BYTES).
 * It includes the memory held between runs: weights, packed weights and plans. */
#ifndef EXEC_RUN_MEMORY_H
#define EXEC_RUN_MEMORY_H
#include "inlay/inlay.h"
#include <stdbool.h>

typedef struct run_memory run_memory;

/* allocator is copied; NULL: malloc. Limits in bytes, 0 = none; process_budget: of all objects of the process together
 * that have one. Returns NULL if out of memory. */
run_memory *run_memory_create(const inlay_allocator *allocator, uint64_t budget, uint64_t process_budget, uint64_t cap);
/* The counter of bytes that the session holds between runs, to be updated atomically; NULL: there is no cap, and the
 * bytes are not counted. */
uint64_t *run_memory_held(run_memory *memory);
/* Returns whether `more` bytes fit under the cap in addition to all bytes held and in use, if `mine` of those in use
 * are freed first. Always true without a cap. If false, *out_least is the minimum cap required. memory may be NULL. */
bool run_memory_fits(const run_memory *memory, uint64_t more, uint64_t mine, uint64_t *out_least);
/* Bytes under the cap that are neither held nor in use; without a cap UINT64_MAX. */
uint64_t run_memory_spare(const run_memory *memory);
/* Returns INLAY_LIMIT_EXCEEDED; the message names the minimum cap for `what`, or an estimate of it. */
inlay_status run_memory_limit_error(const run_memory *memory, const char *what, uint64_t least, bool estimated,
                                    inlay_diag *diag);
run_memory *run_memory_ref(run_memory *memory); /* NULL is a no-op, here and below */
void run_memory_unref(run_memory *memory);

/* Allocates at least `bytes` bytes at a multiple of alignment (a power of two, 64 or more), not cleared. states: for
 * states of texts, which are mapped from a smaller size on. INLAY_LIMIT_EXCEEDED: beyond a budget or the cap; the error
 * class is INLAY_CLASS_RETRY if it would fit but for other sessions. memory NULL: malloc, not counted. */
INLAY_NODISCARD inlay_status run_memory_take(run_memory *memory, bool states, uint64_t bytes, uint64_t alignment,
                                             void **out_memory, inlay_diag *diag);
/* `memory` NULL is a no-op; `states` and `bytes` as passed to run_memory_take(). `source` NULL: malloc. */
void run_memory_give(run_memory *source, bool states, void *memory, uint64_t bytes);
/* Whether a block for states is private memory of its own, whose pages may be replaced by others. */
bool run_memory_is_mapped(const run_memory *source, uint64_t bytes);
uint64_t run_memory_used(const run_memory *memory); /* bytes in use */
void run_memory_get_info(const run_memory *memory, inlay_memory_info *out);
#endif
