/* serve/request/shared_memory.h - tensors in POSIX shared memory: the system shared memory extension of the protocol.
 *
 * A client creates an object (shm_open), registers a part of it under a name, and sends the name instead of tensors.
 * The server reads and writes it by system calls and maps nothing: a client that shortens the object or changes it
 * meanwhile cannot harm the server, and a run sees each tensor as it was when it was read. */
#ifndef SERVE_SHARED_MEMORY_H
#define SERVE_SHARED_MEMORY_H
#include "serve/request/infer.h"

struct shared_memory;

INLAY_NODISCARD inlay_status shared_memory_create(struct shared_memory **out_shared, inlay_diag *diag);
void shared_memory_destroy(struct shared_memory *shared); /* NULL is a no-op */

/* The functions below may be called by any thread. shared NULL: the extension is not enabled, which is a failure. */

/* key: "/NAME" of the object. */
INLAY_NODISCARD inlay_status shared_memory_register(struct shared_memory *shared, const char *name, const char *key,
                                                    uint64_t offset, uint64_t bytes, inlay_diag *diag);
/* name "": all regions. An unknown name is not a failure. */
INLAY_NODISCARD inlay_status shared_memory_unregister(struct shared_memory *shared, const char *name, inlay_diag *diag);
/* Calls each() for the region, or with name "" for all. INLAY_NOT_FOUND: there is no such region. */
INLAY_NODISCARD inlay_status shared_memory_each(struct shared_memory *shared, const char *name,
                                                void (*each)(void *user, const char *name, const char *key,
                                                             uint64_t offset, uint64_t bytes),
                                                void *user, inlay_diag *diag);

/* Bytes of the request's inputs in shared memory. */
uint64_t shared_memory_input_bytes(const infer_request *request);
/* Reads the inputs that are in shared memory. Without such inputs and outputs: INLAY_OK. */
INLAY_NODISCARD inlay_status shared_memory_load(struct shared_memory *shared, infer_request *request, inlay_diag *diag);
/* Writes the outputs for which the request names a region, and sets the size that was written. */
INLAY_NODISCARD inlay_status shared_memory_store(struct shared_memory *shared, infer_request *request,
                                                 const infer_output *outputs, uint32_t count, inlay_diag *diag);
#endif
