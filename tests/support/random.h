/* random.h - the random numbers of all tests. *seed is any number, and changes with each call; the same seed gives the
 * same numbers in every build. */
#ifndef RANDOM_H
#define RANDOM_H
#include "base/random.h"
#include <stdbool.h>

/* Returns the number of random cases to test: `count`, or a quarter of it with a sanitizer, which makes them several
 * times as slow. The optimised build compares the results of all of them; a quarter makes the same memory accesses. */
static inline uint32_t random_rounds(uint32_t count)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return (count + 3) / 4;
#else
    return count;
#endif
}

/* Returns whether to test case `index` of a table: each, or every fourth with a sanitizer, as random_rounds(). */
static inline bool random_takes(uint64_t index)
{
    return index % (4 / random_rounds(4)) == 0;
}

/* Returns a number in [low, high]. */
static inline int64_t random_between(uint64_t *seed, int64_t low, int64_t high)
{
    return low + (int64_t)random_below(seed, (uint64_t)(high - low) + 1);
}

/* Returns a number in [0, 1). */
static inline float random_unit(uint64_t *seed)
{
    return (float)(random_bits(seed) >> 40) / (1 << 24);
}

/* Returns a number in [-1, 1). */
static inline float random_signed(uint64_t *seed)
{
    return 2 * random_unit(seed) - 1;
}
#endif
