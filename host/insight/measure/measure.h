/* measure/measure.h - measures the time of one offer by running it.
 *
 * The offer is compiled, specialised and executed as the run loop does it, with random inputs: floats between -1 and
 * 1, integers 0 and 1; values that the sizes determine are exact. In a model, a kernel finds few of its weights in
 * the caches, because all other weights were read since its last run, but its inputs have just been written. So
 * before each timed run the caches are swept (unless the weights of the whole model fit into them), and then the
 * inputs are read. Copies to and from a device are not part of the time. */
#ifndef MEASURE_MEASURE_H
#define MEASURE_MEASURE_H
#include "inlay/extensions.h"
#include "partition/partition.h"

struct run_timings;

/* The offer to measure. All pointers are borrowed. */
typedef struct measure_job {
    const struct graph *graph;
    const inlay_graph *snapshot; /* of graph */
    const partition_provider *provider;
    const partition_offer *offer;
    const uint64_t
        *cookies; /* [cookie_count] of the offers that were merged into this one; NULL: it is a single offer */
    uint32_t cookie_count;
    const inlay_value_state *values; /* [value_count] */
    uint32_t max_threads;
    uint64_t max_bytes;       /* limit of one tensor; a larger one is INLAY_LIMIT_EXCEEDED */
    inlay_value_state *found; /* [value_count] or NULL: gets rank and dims (with space for INLAY_MAX_RANK) of outputs
                                 whose size the last run decided; the others stay unchanged */
    uint32_t weights_in; /* COST_NEAR, COST_SHARED, COST_FAR: the memory level of the model's weights when the kernel
                            starts */
    const struct run_timings *timings; /* kernel timings, as the session will have them; NULL: none */
    bool (*stop)(void *ctx);           /* NULL, or called during compilation; true aborts it */
    void *stop_ctx;
    uint64_t deadline_ns;       /* runs end at this time of CLOCK_MONOTONIC; 0 = never */
    uint64_t device_timeout_ms; /* INLAY_DEVICE_LOST after this time, as in runs; 0 = never */
} measure_job;

/* How long to measure. stop (may be NULL) is called between runs; true aborts. */
typedef struct measure_plan {
    uint32_t min_runs, max_runs; /* timed runs, after one warm-up run */
    double budget_ns;            /* no further run after this time, once min_runs are done */
    bool shortest;               /* report the shortest run, which other processes disturb least */
    bool (*stop)(void *ctx);
    void *stop_ctx;
} measure_plan;

struct measurement {
    double ns;     /* the median of the runs; with several threads the lower quartile */
    double spread; /* from the lower quartile to the median, relative */
    uint32_t samples;
    bool calm; /* no thread lost its CPU to another process; only such runs count if there are any */
};

/* Memory that is read to evict other data from the caches; shared by many measurements, used by one thread at a
 * time. */
typedef struct measure_sweep {
    char *memory;
    size_t bytes;
    size_t near_bytes; /* of the cache closest to one core */
} measure_sweep;
INLAY_NODISCARD inlay_status measure_sweep_init(measure_sweep *sweep, inlay_diag *diag);
void measure_sweep_deinit(measure_sweep *sweep);

/* Measures all members of inlay.speed/1. out_memory, unless NULL, gets three rates in bytes per nanosecond: two threads
 * that read memory together, one that reads it in pages of 4 KB, and one that copies within the shared cache (bytes
 * read and written). Takes about a tenth of a second. */
void measure_speed(const measure_sweep *sweep, inlay_speed *out, double out_memory[3]);

/* Measures the offer. INLAY_UNSUPPORTED: it cannot run with random inputs. INLAY_CANCELLED or INLAY_DEADLINE_EXCEEDED:
 * stop returned true, or the deadline passed. Other failures are those of the provider. */
INLAY_NODISCARD inlay_status measure_offer(const measure_job *job, const measure_plan *plan, measure_sweep *sweep,
                                           struct measurement *out, inlay_diag *diag);

/* Makes the provider time its kernels in the offer (inlay.kernels/1) and passes each time to `record`.
 * INLAY_UNSUPPORTED: the provider has no alternative kernels. */
typedef inlay_status (*measure_record_fn)(void *ctx, const void *key, uint64_t key_bytes, double ns, const char *what);
INLAY_NODISCARD inlay_status measure_kernels(const measure_job *job, double budget_ns, bool (*stop)(void *ctx),
                                             measure_record_fn record, void *ctx, inlay_diag *diag);

/* Measures copies of `bytes` between the host and domain number `domain` (0 = the first) of the provider, in one
 * direction; limit_ms as measure_job.device_timeout_ms. */
INLAY_NODISCARD inlay_status measure_copy(const partition_provider *provider, uint32_t domain, bool to_device,
                                          uint64_t bytes, uint64_t limit_ms, const measure_plan *plan,
                                          struct measurement *out, inlay_diag *diag);
#endif
