/* threads/run.h - one execution in progress, as the host table's functions see it.
 *
 * inlay_run is opaque to plugins. The table (plugin/host_table.c) reads the members below and calls the hooks; the run
 * loop fills them in. A run lives on the stack or in a context; nothing here is allocated per run. */
#ifndef THREADS_RUN_H
#define THREADS_RUN_H
#include "inlay/plugin.h"

/* When workers of parallel loops were at it: what a profiler lends to a run. */
typedef struct run_span {
    uint64_t begin_ns, end_ns; /* on CLOCK_MONOTONIC */
    uint32_t worker;
    uint32_t reserved;
} run_span;
typedef struct run_spans {
    run_span *list; /* [capacity] */
    uint32_t capacity;
    uint32_t count; /* atomic; beyond capacity nothing is kept, only counted */
} run_spans;

struct inlay_run {
    const uint32_t *cancel; /* read atomically; never NULL */
    uint64_t deadline_ns;   /* CLOCK_MONOTONIC; 0 = none */
    uint32_t max_threads;   /* the session's intra_threads or fewer, at least 1 */
    uint32_t watched;       /* 1: it may be cancelled, or has a deadline: its loops look at both (threads.c) */
    /* Who wants to know what the kernels of a region take, see inlay_ext_steps; NULL = nobody. */
    void (*part)(void *ctx, uint32_t node, uint64_t begin_ns, uint64_t end_ns);
    void *part_ctx;
    run_spans *spans; /* who wants to know what workers do; NULL = nobody, the usual case */
    void *ctx;        /* first argument of the hooks */
    /* See inlay_host.output_alloc and string_alloc. Any thread. */
    inlay_status (*output_alloc)(void *ctx, uint32_t output, uint32_t rank, const int64_t *dims, inlay_buffer *out);
    char *(*string_alloc)(void *ctx, uint64_t bytes);
};

/* What was measured of a provider's kernels, see inlay_ext_timings. */
typedef struct run_timings {
    const void *ctx;
    double (*find)(const void *ctx, const void *key, uint64_t key_bytes);
} run_timings;

/* What inlay_compile_request.handle points to: the owner of align_constant for the region in hand. */
typedef struct run_compile_hooks {
    void *ctx;
    const void *(*align_constant)(void *ctx, uint32_t value, uint32_t alignment);
    /* Optional, see inlay_ext_constants.release. */
    void (*release_constant)(void *ctx, uint32_t value);
    /* Optional, see inlay_ext_packs. */
    inlay_status (*take_pack)(void *ctx, const void *key, uint64_t key_bytes, uint64_t bytes, void **out_data,
                              uint32_t *out_known);
    void (*keep_pack)(void *ctx, const void *data);
    const run_timings *timings; /* lives as long as what is compiled; NULL: none */
} run_compile_hooks;

/* INLAY_OK, INLAY_CANCELLED or INLAY_DEADLINE_EXCEEDED; in run.c. */
inlay_status run_poll(const inlay_run *run);
#endif
