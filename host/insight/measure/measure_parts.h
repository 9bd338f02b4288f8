/* measure/measure_parts.h - shared by the measurements of kernels and of copies; only for measure*.c. */
#ifndef MEASURE_MEASURE_PARTS_H
#define MEASURE_MEASURE_PARTS_H
#include "measure/measure.h"
#include "threads/run.h"

enum { MEASURE_SWEEP_MIN = 32 << 20 }; /* bytes: more than any cache of one core */

enum { MEASURE_ALIGN = 64 };

/* The speed of arithmetic and of the caches next to the core. The other members of *out are 0. Any thread. */
void measure_core(inlay_speed *out);
/* Bytes per nanosecond that one thread reads from memory, by the shortest of `slices` measurements of `passes` passes.
 * memory is aligned to MEASURE_ALIGN; bytes: a multiple of 8 * MEASURE_ALIGN. */
double measure_read_rate(const void *memory, size_t bytes, uint32_t passes, uint32_t slices);

/* Operations of matrix tiles in a nanosecond, on bytes and on bfloat16; 0: the process may not use them. */
void measure_tiles(double *out_bytes, double *out_bfloat16);

/* Reads a byte of every line. */
void measure_read_through(const char *memory, size_t bytes);
/* Each thread of the run reads `bytes` of the sweep's memory, at most sweep->bytes. */
void measure_sweep_run(const measure_sweep *sweep, const inlay_run *run, size_t bytes);

/* Allocates memory of a domain, of the host or of a device; free it with measure_buffer_free. alignment: a power of
 * two, or 0 for that of the domain. */
INLAY_NODISCARD inlay_status measure_buffer(const partition_provider *provider, uint32_t domain, uint64_t bytes,
                                            uint64_t alignment, inlay_buffer *out, inlay_diag *diag);
void measure_buffer_free(const partition_provider *provider, inlay_buffer *buffer); /* handle 0 is a no-op */

/* Does the provider signal fences? */
bool measure_is_async(const partition_provider *provider);

/* Sequential work of a provider, each piece waited for. Heap-allocated, because a hanging device may still read it. */
typedef struct measure_queue {
    inlay_run run;
    uint64_t timeline, signalled; /* the last value given to the provider */
    uint64_t limit_ms;            /* timeout of the device, as in runs; 0 = none */
    bool hung;                    /* the device did not finish: none of its arguments may be freed */
} measure_queue;
/* The fence of the next piece of work; timeline 0 if the provider waits itself. */
inlay_fence measure_next_fence(const partition_provider *provider, measure_queue *queue);
/* Waits for the fence. INLAY_DEVICE_LOST: queue->hung is set, and the device counts as lost from now on. */
INLAY_NODISCARD inlay_status measure_wait(const partition_provider *provider, measure_queue *queue, inlay_fence fence,
                                          inlay_diag *diag);
INLAY_NODISCARD inlay_status measure_copy_now(const partition_provider *provider, measure_queue *queue,
                                              const inlay_buffer *from, const inlay_buffer *to, inlay_diag *diag);
#endif
