/* exec/device/device_memory.h - device memory of a session. All contexts of a session together stay within the user's
 * limit per provider. If a run needs more, bound plans of its context that are not running free their memory first. */
#ifndef EXEC_DEVICE_MEMORY_H
#define EXEC_DEVICE_MEMORY_H
#include "base/provider_calls.h"
#include "exec/run/run.h"

/* Allocates a buffer of provider `provider` (its index in the session) in one of its domains, with the session's
 * priority (option priority): use.priority is ignored. INLAY_LIMIT_EXCEEDED: above the limit. Sets runner.failed on
 * failure. */
INLAY_NODISCARD inlay_status device_memory_alloc(struct runner *runner, uint32_t provider, uint32_t domain,
                                                 uint64_t bytes, buffer_use use, inlay_buffer *out, inlay_diag *diag);
/* Like device_memory_alloc(), but frees nothing to make room, and does not set runner.failed. */
INLAY_NODISCARD inlay_status device_memory_try_alloc(struct runner *runner, uint32_t provider, uint32_t domain,
                                                     uint64_t bytes, buffer_use use, inlay_buffer *out,
                                                     inlay_diag *diag);
/* Frees the buffer and clears *buffer; no-op for {0}. */
void device_memory_free(const program_env *env, uint32_t provider, inlay_buffer *buffer);
#endif
