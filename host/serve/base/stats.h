/* serve/base/stats.h - statistics of a model's requests: counters that any thread updates without a lock. They are
 * 64-bit numbers only, see board.h. */
#ifndef SERVE_STATS_H
#define SERVE_STATS_H
#include "base/clock.h"
#include "inlay/status.h"
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

/* Why a request failed; the label `reason` of inlay_request_errors_total. */
#define STATS_ERROR_LIST(X)                                                                                            \
    X(INVALID, "invalid", "the request is invalid")                                                                    \
    X(REJECTED, "rejected", "the queue was full, or the server is shutting down")                                      \
    X(DEADLINE, "deadline", "the deadline passed")                                                                     \
    X(CANCELLED, "cancelled", "the client disconnected")                                                               \
    X(NON_FINITE, "non_finite", "the run made a NaN or an infinity (option check_finite)")                             \
    X(FAILED, "failed", "the run failed")
enum {
#define STATS_ERROR_ENUM(name, label, doc) STATS_##name,
    STATS_ERROR_LIST(STATS_ERROR_ENUM)
#undef STATS_ERROR_ENUM
        STATS_ERROR_COUNT
};

enum { STATS_BUCKETS = 18, STATS_BATCH_BUCKETS = 12 };
/* Upper bounds of the histograms of time, in nanoseconds; the last bucket has no bound. */
extern const uint64_t stats_bounds_ns[STATS_BUCKETS];

typedef struct stats_time {
    atomic_uint_fast64_t count, ns;
    atomic_uint_fast64_t buckets[STATS_BUCKETS + 1];
} stats_time;

/* The runs with a certain number of rows (model.batches), and the sums of their times. */
typedef struct stats_batch {
    atomic_uint_fast64_t count, input_ns, infer_ns, output_ns;
} stats_batch;

/* What option watchdog did with executions of regions; labels of inlay_watchdog_total. */
#define WATCHDOG_LIST(X)                                                                                               \
    X(RIGHT, "right")                                                                                                  \
    X(WRONG, "wrong")                                                                                                  \
    X(DROPPED, "dropped") /* chosen, but not checked */                                                                \
    X(SKIPPED, "skipped") /* of regions that cannot be compared */
enum {
#define WATCHDOG_ENUM(name, label) WATCHDOG_##name,
    WATCHDOG_LIST(WATCHDOG_ENUM)
#undef WATCHDOG_ENUM
        WATCHDOG_COUNT
};

typedef struct model_stats {
    stats_time request;               /* of successful requests, from arrival to reply */
    stats_time receive;               /* of successful requests, from arrival of the header to that of the last byte */
    atomic_uint_fast64_t over_target; /* successful requests that took longer than batch_target_us */
    stats_time queue;                 /* waiting time of requests that ran, from their last byte */
    stats_time compute;               /* of runs */
    atomic_uint_fast64_t errors[STATS_ERROR_COUNT];
    atomic_uint_fast64_t fail_ns;
    atomic_uint_fast64_t rows; /* of successful requests */
    atomic_uint_fast64_t prompt_tokens, generated_tokens;
    /* guesses that runs have read; the number of right guesses among them */
    atomic_uint_fast64_t guessed_tokens, right_tokens;
    /* of prompt_tokens, those whose states were copied from an earlier text */
    atomic_uint_fast64_t cached_tokens;
    atomic_uint_fast64_t loose_tools;         /* tools of requests whose parameters could not be obeyed */
    stats_time first_token;                   /* from the last byte of a request for a text to its first token */
    stats_time next_token;                    /* from a token of a text to the next one */
    atomic_uint_fast64_t input_ns, output_ns; /* of runs: preparing inputs, returning outputs */
    atomic_uint_fast64_t last_ms;             /* end of the last run, milliseconds since 1970 */
    atomic_uint_fast64_t watchdog[WATCHDOG_COUNT];
    atomic_uint_fast64_t batch_rows, batch_buckets[STATS_BATCH_BUCKETS + 1]; /* rows of runs: 1, 2, 4 ... */
} model_stats;

void stats_add_time(stats_time *time, uint64_t ns);
/* Adds a successful request, and how much of its time its client took to send it; target_us = target p99, 0 = none. */
void stats_add_request(model_stats *stats, uint64_t ns, uint64_t receive_ns, uint64_t target_us);
/* Adds a run with `rows` rows, and the times of preparing its inputs and of computing. batch: counters of runs with so
 * many rows; NULL: none. */
void stats_add_run(model_stats *stats, stats_batch *batch, uint64_t rows, uint64_t input_ns, uint64_t infer_ns);
/* Adds the time of returning its outputs. */
void stats_add_output(model_stats *stats, stats_batch *batch, uint64_t ns);
/* Maps a status to a reason. */
uint32_t stats_error_of(inlay_status status);
void stats_add_error(model_stats *stats, uint32_t error, uint64_t ns);

#endif
