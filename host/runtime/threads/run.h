/* threads/run.h - the state of one run that the functions of the host table use.
 *
 * inlay_run is opaque to plugins. The run loop sets the members below; the host table (plugin/host_table.c) reads them
 * and calls the hooks. An inlay_run is on the stack or in a context; nothing here is allocated per run. */
#ifndef THREADS_RUN_H
#define THREADS_RUN_H
#include "inlay/types.h"

struct inlay_pack_parts;

/* The time that a worker spent in a parallel loop. */
typedef struct run_span {
    uint64_t begin_ns, end_ns; /* on CLOCK_MONOTONIC */
    uint32_t worker;
    uint32_t reserved;
} run_span;
/* A list of spans. A profiler owns it; a run appends to it. */
typedef struct run_spans {
    run_span *list; /* [capacity] */
    uint32_t capacity;
    uint32_t count; /* atomic; may exceed capacity, further spans are counted but not stored */
} run_spans;

/* Reads parts of constants, see inlay_ext_packs.need and done. */
typedef struct run_parts {
    void *ctx;
    inlay_status (*need)(void *ctx, const struct inlay_pack_parts *parts, uint32_t *out_count);
    void (*done)(void *ctx, const struct inlay_pack_parts *parts);
} run_parts;

struct inlay_run {
    const uint32_t *cancel; /* read atomically; never NULL */
    uint64_t deadline_ns;   /* CLOCK_MONOTONIC; 0 = none */
    uint32_t max_threads;   /* the session's intra_threads or fewer, at least 1 */
    uint32_t priority;      /* INLAY_PRIORITY_* */
    uint32_t power;         /* INLAY_POWER_* */
    uint32_t watched;       /* 1: the run has a deadline or may be cancelled, and its loops poll for both (threads.c) */
    /* Receives the times of the kernels of a region, see inlay_ext_steps; may be NULL. name: NULL, or that of the
     * work. */
    void (*part)(void *ctx, uint32_t node, const char *name, uint64_t begin_ns, uint64_t end_ns);
    void *part_ctx;
    run_spans *spans;       /* receives the times of workers; usually NULL */
    const run_parts *parts; /* NULL: all constants are in memory */
    void *ctx;              /* first argument of the hooks */
    /* See inlay_host.output_alloc and string_alloc. Any thread. */
    inlay_status (*output_alloc)(void *ctx, uint32_t output, uint32_t rank, const int64_t *dims, inlay_buffer *out);
    char *(*string_alloc)(void *ctx, uint64_t bytes);
};

/* Measured times of a provider's kernels, see inlay_ext_timings. */
typedef struct run_timings {
    const void *ctx;
    double (*find)(const void *ctx, const void *key, uint64_t key_bytes);
} run_timings;

/* inlay_compile_request.handle points to this: callbacks for the region that is being compiled. */
typedef struct run_compile_hooks {
    void *ctx;
    const void *(*align_constant)(void *ctx, uint32_t value, uint32_t alignment);
    /* Optional, see inlay_ext_constants.release. */
    void (*release_constant)(void *ctx, uint32_t value);
    /* Optional, see inlay_ext_packs. */
    inlay_status (*take_pack)(void *ctx, const void *key, uint64_t key_bytes, uint64_t bytes, void **out_data,
                              uint32_t *out_known);
    void (*keep_pack)(void *ctx, const void *data);
    void (*divide_pack)(void *ctx, const void *data, uint64_t bytes, uint32_t part_count);
    const run_timings *timings; /* outlives the compiled region; NULL: none */
} run_compile_hooks;

/* INLAY_OK, INLAY_CANCELLED or INLAY_DEADLINE_EXCEEDED; in run.c. */
inlay_status run_poll(const inlay_run *run);
#endif
