/* measure/measure.h - how long an offer takes on its own, by running it.
 *
 * The offer is compiled, specialised and executed as the run loop would do it, on made-up contents: floats between -1
 * and 1, integers 0 and 1, what the sizes settle as it is. In a model a kernel finds little of its weights in
 * the caches, for all other weights were read since it last ran, but the kernels before it have just been at work on
 * its inputs; so before each timed run the caches are swept (not where the weights of the whole model stay near), and
 * then the inputs are read. Copies to and from a device are not part of the time. */
#ifndef MEASURE_MEASURE_H
#define MEASURE_MEASURE_H
#include "partition/partition.h"

struct run_timings;

/* What is measured. Everything is borrowed. */
typedef struct measure_job {
    const struct graph *graph;
    const inlay_graph *snapshot; /* of g */
    const partition_provider *provider;
    const partition_offer *offer;
    const uint64_t *cookies; /* [cookie_count] of the offers that were merged into this one; NULL: it is one */
    uint32_t cookie_count;
    const inlay_value_state *values; /* [value_count] */
    uint32_t max_threads;
    uint64_t max_bytes;       /* limit of one tensor; more is INLAY_LIMIT_EXCEEDED */
    inlay_value_state *found; /* [value_count] or NULL: gets rank and dims, which have room for INLAY_MAX_RANK, of
                               * outputs whose size the last run decided; the others stay */
    uint32_t weights_in; /* COST_NEAR, COST_SHARED, COST_FAR: where the model's weights are when the kernel starts */
    const struct run_timings *timings; /* of kernels, as the session will have them; NULL: none */
    bool (*stop)(void *ctx);           /* NULL, or asked while the offer is compiled ... */
    void *stop_ctx;
    uint64_t deadline_ns;       /* ... and runs end then, on CLOCK_MONOTONIC; 0 = never */
    uint64_t device_timeout_ms; /* INLAY_DEVICE_LOST after so long, as in runs; 0 = never */
} measure_job;

/* How long, and when to give up: stop (may be NULL) is asked between runs. */
typedef struct measure_plan {
    uint32_t min_runs, max_runs; /* timed ones, after one that is not */
    double budget_ns;            /* no further run after so much time, once min_runs are done */
    bool (*stop)(void *ctx);
    void *stop_ctx;
} measure_plan;

struct measurement {
    double ns;     /* the median of the runs; of several threads the lower quartile */
    double spread; /* from the lower quartile to the median, relative */
    uint32_t samples;
    bool calm; /* nobody else was given the CPU of a thread meanwhile; such runs alone count where there are any */
};

/* Memory that sweeps the caches; one for many measurements, used by one thread at a time. */
typedef struct measure_sweep {
    char *memory;
    size_t bytes;
    size_t near_bytes; /* of the cache next to one core */
} measure_sweep;
INLAY_NODISCARD inlay_status measure_sweep_init(measure_sweep *sweep, inlay_diag *diag);
void measure_sweep_deinit(measure_sweep *sweep);

/* INLAY_UNSUPPORTED: an offer that cannot be run on made-up contents. INLAY_CANCELLED or
 * INLAY_DEADLINE_EXCEEDED: stop said so, or the time is over. Other failures are those of the provider. */
INLAY_NODISCARD inlay_status measure_offer(const measure_job *job, const measure_plan *plan, measure_sweep *sweep,
                                           struct measurement *out, inlay_diag *diag);

/* Has the provider times its kernels in the offer (inlay.kernels/1); keep gets the figures. INLAY_UNSUPPORTED: it has
 * but one of each. */
typedef inlay_status (*measure_keep_fn)(void *ctx, const void *key, uint64_t key_bytes, double ns, const char *what);
INLAY_NODISCARD inlay_status measure_within(const measure_job *job, double budget_ns, bool (*stop)(void *ctx),
                                            measure_keep_fn keep, void *ctx, inlay_diag *diag);

/* Copies of `bytes` between the host and domain number `domain` (0 = the first) of the provider, to it or from it;
 * limit_ms as measure_job.device_timeout_ms. */
INLAY_NODISCARD inlay_status measure_copy(const partition_provider *provider, uint32_t domain, bool to_device,
                                          uint64_t bytes, uint64_t limit_ms, const measure_plan *plan,
                                          struct measurement *out, inlay_diag *diag);
#endif
