/* transposed.h - what the ways of ConvTranspose share: functions behind its sums (transposed.c). */
#ifndef CPU_TRANSPOSED_H
#define CPU_TRANSPOSED_H
#include "region/build.h"

enum { TRANSPOSED_MOST_BEHIND = 4 };

/* Done row by row, while a row is in the cache. */
typedef struct transposed_ending {
    bool relu; /* first, with this slope */
    float slope;
    cpu_eltwise behind[TRANSPOSED_MOST_BEHIND];
    uint32_t behind_count;
} transposed_ending;

/* Takes functions from the group's posts; returns how many of these that are. */
uint32_t transposed_take(const cpu_group *group, transposed_ending *out);
/* kernel: NULL where there is none. */
void transposed_end(const transposed_ending *ending, const struct sgemm_kernel *kernel, float *output, int64_t n);

/* Images that lie row by row (transposed_planes.c); *out_done is false, and nothing was emitted, for others. */
inlay_status transposed_lower_planes(cpu_build *build, const cpu_group *group, bool *out_done);
#endif
