/* measure/measure_parts.h - what measurements of kernels and of copies have in common; for measure*.c only. */
#ifndef MEASURE_MEASURE_PARTS_H
#define MEASURE_MEASURE_PARTS_H
#include "measure/measure.h"
#include "threads/run.h"

/* ------------------------------------------------------------------ caches, measure_caches.c */

enum { MEASURE_SWEEP_LEAST = 32 << 20 }; /* bytes: more than any cache of one core */

/* Reads a byte of every line. */
void measure_read_through(const char *memory, size_t bytes);
/* Each thread of the run reads `bytes` of the sweep's memory, at most sweep->bytes. */
void measure_sweep_run(const measure_sweep *sweep, const inlay_run *run, size_t bytes);

/* ------------------------------------------------------------------ buffers, copies, measure_copies.c */

/* Memory of a domain, host or a device's; free it with the next. */
INLAY_NODISCARD inlay_status measure_buffer(const partition_provider *provider, uint32_t domain, uint64_t bytes,
                                            inlay_buffer *out, inlay_diag *diag);
void measure_buffer_free(const partition_provider *provider, inlay_buffer *buffer); /* handle 0 is a no-op */

/* Does the provider signal fences? */
bool measure_is_async(const partition_provider *provider);

/* Work of a provider, one piece after the other, each waited for. On the heap: a device that hangs may still read it.
 */
typedef struct measure_line {
    inlay_run run;
    uint64_t timeline, signalled; /* what the timeline was told */
    uint64_t limit_ms;            /* as long as runs wait for a device; 0 = for ever */
    bool hangs;                   /* it did not end its work: nothing that it was handed may be freed */
} measure_line;
/* The fence of what is asked for next; of timeline 0 where the provider waits itself. */
inlay_fence measure_next(const partition_provider *provider, measure_line *line);
/* INLAY_DEVICE_LOST: line->hangs; the device counts as lost from now on. */
INLAY_NODISCARD inlay_status measure_settle(const partition_provider *provider, measure_line *line, inlay_fence fence,
                                            inlay_diag *diag);
INLAY_NODISCARD inlay_status measure_copy_now(const partition_provider *provider, measure_line *line,
                                              const inlay_buffer *from, const inlay_buffer *to, inlay_diag *diag);
#endif
