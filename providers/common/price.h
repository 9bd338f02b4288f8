/* price.h - what the cost models of providers share: the sizes of values in a request, and the constants of the
 * reference core, a core with AVX-512. The constants of other x86 levels are derived from them. */
#ifndef COMMON_PRICE_H
#define COMMON_PRICE_H
#include "inlay/plugin.h"
#include <math.h>

#define PRICE_CHANNELS_PER_NS 32.0 /* depthwise convolutions: outputs, without the time of their taps */
#define PRICE_TAP_NS 0.0094        /* depthwise convolutions: one tap of one output */
#define PRICE_CACHED_BYTES 8e6
#define PRICE_MEMORY_BYTES_PER_NS 24.0
#define PRICE_WEIGHTS_BYTES_PER_NS 105.0
#define PRICE_FAR_REORDER_BYTES_PER_NS 5.0 /* values too large for two copies in the cache */
#define PRICE_TEAM_NS 700.0                /* starting and joining the threads of a step */

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

/* The time to read or write bytes; cached_rate: bytes per nanosecond for data in the cache. */
static inline double price_stream_ns(double bytes, double cached_rate)
{
    return bytes / (bytes < PRICE_CACHED_BYTES ? cached_rate : PRICE_MEMORY_BYTES_PER_NS);
}

/* The time to change the layout of bytes, without the call; cached_rate as above. */
static inline double price_reorder_ns(double bytes, double cached_rate, double threads)
{
    return 2 * bytes < PRICE_CACHED_BYTES ? bytes / cached_rate / threads
                                          : bytes / PRICE_FAR_REORDER_BYTES_PER_NS / sqrt(threads);
}
#endif
