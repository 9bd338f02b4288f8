/* speed.h - how much a core multiplies and adds when all is in its registers. Private to this folder. */
#ifndef KERNELS_SPEED_H
#define KERNELS_SPEED_H
#include "instances.h"
#include <stdint.h>

typedef struct speed_loop {
    int64_t flops; /* of a turn */
    /* sums[k] = sums[k] * factor + term, for each of `turns`; some vectors of them. */
    void (*run)(float *sums, float factor, float term, int64_t turns);
} speed_loop;

enum { SPEED_FLOATS = 256 }; /* that sums has room for, at least */

KERNEL_INSTANCES(speed_loop, speed_turns)
#endif
