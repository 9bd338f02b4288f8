/* cache_loops.h - kernels of attention over keys and values in 8 or 4 bits (common/cache_rows.h), which read the codes
 * where they are.
 *
 * Queries and results are in the order of codes: as the elements are for 8 bits; for 4 bits, the elements with even
 * indexes, then those with odd indexes, each `cache_code_bytes` many, so that an odd size has one more, 0. */
#ifndef CPU_CACHE_LOOPS_H
#define CPU_CACHE_LOOPS_H
#include "common/cache_rows.h"
#include "simd/instances.h"

/* Rows in memory, `stride` bytes apart. */
typedef struct cache_rows {
    cache_format format;
    const uint8_t *data;
    int64_t stride;
} cache_rows;

/* Elements of a query or result. */
static inline int64_t cache_words(const cache_format *format)
{
    return format->bits == 4 ? 2 * cache_code_bytes(format) : format->size;
}

typedef struct cache_loops {
    /* out[r * out_row + t] = dot product of query r with the codes of row t, times the row's own scale. Each element is
     * summed in the same order for any number of queries and rows. */
    void (*dots)(const cache_rows *rows, int64_t count, const float *queries, int64_t query_row, int64_t query_count,
                 float *out, int64_t out_row);
    /* out[r * out_row + i] = sum over rows t of weights[r * weight_row + t] times code i, times the row's own scale.
     * The sums of CACHE_CHAIN rows are added. */
    void (*sums)(const cache_rows *rows, int64_t count, const float *weights, int64_t weight_row, int64_t weight_count,
                 float *out, int64_t out_row);
    /* Writes a row with its own scale; `row` is overwritten. */
    void (*encode_own)(const cache_format *format, float *row, uint8_t *out);
    /* cache_codes() with one factor for each element. */
    void (*encode)(const cache_format *format, const float *row, const float *inverse, uint8_t *out);
    /* cache_decode() */
    void (*decode)(const cache_format *format, const uint8_t *row, const float *scales, int64_t step, float *out);
} cache_loops;

enum { CACHE_CHAIN = 128 };

KERNEL_INSTANCES(cache_loops, cache_loops)
#endif
