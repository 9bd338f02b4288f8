/* noise.h - random floats in [-1, 1), the same for the same seed. */
#ifndef NOISE_H
#define NOISE_H
#include "cmocka_all.h"
#include "random.h"
#include <stdlib.h>

/* The caller frees the result. */
static inline float *fill(int64_t count, uint64_t seed)
{
    float *input = malloc((size_t)count * sizeof *input);

    assert_non_null(input);
    for (int64_t i = 0; i < count; i++)
        input[i] = random_signed(&seed);
    return input;
}

#endif
