/* price.h - what the cost models of providers share: the sizes of values in a request, and the constants of the
 * reference core, a core with AVX-512. The constants of other x86 levels are derived from them. */
#ifndef COMMON_PRICE_H
#define COMMON_PRICE_H
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include "kit/memory_speed.h"
#include <math.h>
#include <stdbool.h>

#define PRICE_CHANNELS_PER_NS 32.0 /* depthwise convolutions: outputs, without the time of their taps */
#define PRICE_TAP_NS 0.0094        /* depthwise convolutions: one tap of one output */
#define PRICE_FAR_REORDER 6.0
#define PRICE_FETCHED 0.6      /* of the lines of memory that are written, those that are read first */
#define PRICE_NEAR_WRITTEN 2.0 /* the time of a byte written to the near cache, relative to one read */
#define PRICE_CORE_SIZE 32768.0
#define PRICE_NEAR_KEPT                                                                                                \
    0.6                  /* of the size of the near cache: from here on, a growing part of data is in the shared one */
#define PRICE_RANGES 4.0 /* parts of a loop for each thread, at most */

/* How fast data arrives, in bytes per nanosecond, and the price of threads. */
typedef struct price_memory {
    double core, near;  /* one core from its caches of the first and the second level */
    double shared;      /* one core from the shared cache */
    double copied;      /* one core that reads and writes in the shared cache, both together */
    double memory, all; /* one core, and all of them together, from memory */
    double paged;       /* one core from memory in small pages: weights that are read in the model's file */
    double near_size;   /* bytes of the second level, ... */
    double size;        /* ... and of the shared cache */
    double team_ns;     /* starting and joining the threads of a step */
} price_memory;

/* Of this machine; of the reference core if the host does not know it. */
static inline price_memory price_memory_of(const inlay_host *host)
{
    const inlay_ext_speed *core = host->extension(host->ctx, INLAY_EXT_SPEED);
    const ext_memory_speed *rest = host->extension(host->ctx, EXT_MEMORY_SPEED);
    const inlay_speed *speed = core != NULL ? core->get(host->ctx) : NULL;
    const memory_speed *memory = rest != NULL ? rest->get(host->ctx) : NULL;

    if (speed == NULL || memory == NULL || !(speed->shared_bytes > 0) || !(speed->memory_bytes > 0))
        return (price_memory){ 400, 128, 105, 147, 24, 34, 24, 1 << 20, 32 << 20, 700 };
    return (price_memory){ .core = speed->core_bytes,
                           .near = speed->near_bytes,
                           .shared = speed->shared_bytes,
                           .copied = INLAY_HAS(memory, copied_bytes) && memory->copied_bytes > 0 ? memory->copied_bytes
                                                                                                 : speed->shared_bytes,
                           .memory = speed->memory_bytes,
                           .all = memory->all_bytes,
                           .paged = memory->paged_bytes,
                           .near_size = memory->near_size,
                           .size = memory->shared_size,
                           .team_ns = speed->loop_ns };
}

/* Bytes per nanosecond from memory, for threads together. */
static inline double price_memory_rate(const price_memory *memory, double threads)
{
    return fmin(memory->memory * threads, memory->all);
}

/* The average number of threads that share a loop of `count` steps, if each thread takes at least `grain` steps
 * (parallel_for). */
static inline double price_loop_threads(double count, double grain, double threads)
{
    const double ranges = fmin(floor(count / grain), PRICE_RANGES * threads);

    return threads <= 1 || ranges < 2 ? 1 : ranges / ceil(ranges / threads);
}

/* The share of weights that come from memory. The shared cache keeps them if all of a run are at most half of its
 * size. */
static inline double price_far_share(const price_memory *memory, double bytes)
{
    return fmin(fmax(2 * bytes / memory->size - 1, 0), 1);
}

/* The share of activations that come from memory, of `bytes` that a step reads and writes in all. The cache keeps up to
 * 0.4 of its size, and a decreasing part of more; with several threads, a larger part. reach: 1, or less if every byte
 * is moved twice. */
static inline double price_stream_share(const price_memory *memory, double bytes, double threads, double reach)
{
    const double over = fmax(bytes / memory->size - 0.4, 0) / (reach * (threads > 1 ? 1.7 : 1));

    return 1 - 1 / (1 + over + over * over / 2);
}

/* The time in which threads read weights together. Between two reads of them, a run reads `all` bytes of weights. The
 * near cache keeps them if all fit; the shared cache, if all are at most half of its size; above that, a growing share
 * comes from memory, and from its size on all of them. */
static inline double price_weights_ns(const price_memory *memory, double bytes, double all, double threads)
{
    const double far = price_far_share(memory, all);

    return all < memory->near_size
               ? bytes / memory->near / threads
               : bytes * ((1 - far) / (memory->shared * threads) + far / price_memory_rate(memory, threads));
}

/* The time of work and of the data that it waits for: prefetching hides the less of them, the closer both are. Measured
 * on a Xeon and a Zen 4 with products of 1 to 40 rows, whose weights are in the shared cache. */
static inline double price_overlapped_ns(double work_ns, double data_ns)
{
    return sqrt(work_ns * work_ns + data_ns * data_ns); /* hypot() may differ between CPUs */
}

/* The state of a value; NULL: there is none (an omitted input). */
static inline const inlay_value_state *price_state(const inlay_cost_request *request, uint32_t value)
{
    return value != INLAY_NONE && value < request->value_count
               ? INLAY_AT(inlay_value_state, request->values, request->value_stride, value)
               : NULL;
}

/* The elements of a value; unknown axes count as 1. 0: there is no value, or its rank is unknown. */
static inline double price_count(const inlay_value_state *state)
{
    double count = 1;

    if (state == NULL || state->rank == INLAY_RANK_UNKNOWN)
        return 0;
    for (uint32_t d = 0; d < state->rank; d++)
        count *= state->dims[d] < 0 ? 1 : (double)state->dims[d];
    return count;
}

/* The size of axis d; 1 if unknown. */
static inline double price_axis(const inlay_value_state *state, uint32_t d)
{
    return state == NULL || state->rank == INLAY_RANK_UNKNOWN || d >= state->rank || state->dims[d] < 1
               ? 1
               : (double)state->dims[d];
}

/* The length of the rows of a loop: the elements of the innermost axes of a result along which an input is broadcast,
 * or along which it is not. The axes of the input are aligned with the last ones of the result. */
static inline double price_row_length(const int64_t *out, uint32_t out_rank, const int64_t *in, uint32_t in_rank)
{
    double length = 1;
    int repeats = -1; /* unknown yet */

    for (uint32_t d = 0; d < out_rank; d++) {
        const int64_t size = out[out_rank - 1 - d];
        const int repeated = d >= in_rank || in[in_rank - 1 - d] != size;

        if (size == 1)
            continue;
        if (repeats >= 0 && repeats != repeated)
            return length;
        repeats = repeated;
        length *= size < 1 ? 1 : (double)size;
    }
    return length;
}

/* The work of a kernel along an axis of [outer, n, inner] elements (simd/axis.h). */
typedef struct price_along {
    double rows;     /* starts of contiguous rows, or of tiles of columns */
    double elements; /* with the empty ends of vectors */
    double turned;   /* elements that are transposed first */
} price_along;

/* lanes: elements of a vector; rows_from: shorter rows are transposed. */
static inline price_along price_along_of(double outer, double n, double inner, double lanes, double rows_from)
{
    enum { FULL = 64, SQUARE = 16, ROOM = 8192 }; /* columns that fill vectors; columns, and elements, of a buffer */
    const bool one = n <= 1, thin = inner > 1 ? inner < FULL && fmod(inner, SQUARE) != 0 : n < rows_from;
    const double columns = one || (thin && n * inner * SQUARE <= ROOM) ? outer * inner : inner;
    price_along work = { .elements = outer * n * inner };

    if (columns > inner && !one) /* rows of several outer indices become columns of the same tile */
        work.turned = work.elements;
    else
        work.rows = one ? 1 : outer;
    if (inner == 1 && work.turned == 0)
        return work;
    work.elements *=
        columns < FULL && (work.turned > 0 || fmod(inner, SQUARE) == 0) ? ceil(columns / lanes) * lanes / columns : 1;
    return work;
}

/* The part of price_stream_ns() that memory takes. Most lines of memory are read before they are written. */
static inline double price_far_stream_ns(const price_memory *memory, double read, double written, double threads)
{
    return price_stream_share(memory, read + written, threads, 1) * (read + (1 + PRICE_FETCHED) * written) /
           price_memory_rate(memory, threads);
}

/* The time in which threads stream through activations. Each keeps its part in its own caches; parts that these do not
 * hold are in the shared cache. */
static inline double price_stream_ns(const price_memory *memory, double read, double written, double threads)
{
    const double bytes = read + written, part = bytes / threads, far = price_stream_share(memory, bytes, threads, 1);
    const double near = (read + PRICE_NEAR_WRITTEN * written) / memory->near;
    const double beyond = fmin(fmax(part / memory->near_size - PRICE_NEAR_KEPT, 0) / (1 - PRICE_NEAR_KEPT), 1);
    const double cached =
        part > PRICE_CORE_SIZE ? near + beyond * fmax(bytes / memory->copied - near, 0) : bytes / memory->core;

    return cached * (1 - far) / threads + price_far_stream_ns(memory, read, written, threads);
}

/* The time to change the layout of bytes, without the call; cached_rate: bytes per nanosecond of one thread, for data
 * in the cache. Layout changes of values too large for two copies in the shared cache are several times slower than
 * plain reads, and are limited by the latency of memory, which each thread waits for on its own. */
static inline double price_reorder_ns(const price_memory *memory, double bytes, double cached_rate, double threads)
{
    const double far = price_stream_share(memory, 2 * bytes, threads, 0.5);

    return bytes * ((1 - far) / cached_rate + far * PRICE_FAR_REORDER / memory->memory) / threads;
}
#endif
