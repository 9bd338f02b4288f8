/* exec/device/device_memory.h - buffers of devices. What all contexts of a session hold of a provider's stays within
 * the limit that the user has set, at every size; where a run needs more, plans of its context that do not run give
 * theirs up first. */
#ifndef EXEC_DEVICE_MEMORY_H
#define EXEC_DEVICE_MEMORY_H
#include "exec/run/run.h"

/* A buffer of provider p (its number in the session) in one of its domains. INLAY_LIMIT_EXCEEDED: above the limit.
 * Failures set runner.failed. */
INLAY_NODISCARD inlay_status device_take(struct runner *runner, uint32_t p, uint32_t domain, uint64_t bytes,
                                         inlay_buffer *out, inlay_diag *diag);
/* The same where there is room: nothing is given up for it, and a failure is none. */
INLAY_NODISCARD inlay_status device_try(struct runner *runner, uint32_t p, uint32_t domain, uint64_t bytes,
                                        inlay_buffer *out, inlay_diag *diag);
/* Gives it back and forgets the handle; of {0} a no-op. */
void device_give(const program_env *env, uint32_t p, inlay_buffer *buffer);
#endif
