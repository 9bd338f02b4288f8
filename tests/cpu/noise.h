/* noise.h - random floats in [-1, 1), the same for the same seed. */
#ifndef NOISE_H
#define NOISE_H
#include "cmocka_all.h"
#include <stdlib.h>

static inline float noise(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)((double)(*seed >> 40) / (1 << 23) - 1);
}

/* The caller frees the result. */
static inline float *fill(int64_t count, uint64_t seed)
{
    float *input = malloc((size_t)count * sizeof *input);

    assert_non_null(input);
    for (int64_t i = 0; i < count; i++)
        input[i] = noise(&seed);
    return input;
}

#endif
