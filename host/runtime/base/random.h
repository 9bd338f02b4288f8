/* base/random.h - pseudo-random numbers: Steele, Lea and Flood's SplitMix64, good enough for contents of measured
 * tensors and for inputs of tests. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H
#include <stdint.h>

/* Returns 64 random bits, and changes *seed. Every seed is a good one. */
static inline uint64_t random_bits(uint64_t *seed)
{
    uint64_t mixed = *seed += UINT64_C(0x9e3779b97f4a7c15);

    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

/* Returns a number in [0, limit), 0 if limit is 0. */
static inline uint64_t random_below(uint64_t *seed, uint64_t limit)
{
    return limit == 0 ? 0 : random_bits(seed) % limit;
}
#endif
