/* transposed.h - the epilogue that all kernels of ConvTranspose share (transposed.c). */
#ifndef CPU_TRANSPOSED_H
#define CPU_TRANSPOSED_H
#include "region/build.h"

enum { TRANSPOSED_MAX_POSTS = 4 };

/* The epilogue, applied row by row while a row is in the cache. */
typedef struct transposed_epilogue {
    bool relu; /* applied first, with this slope */
    float slope;
    cpu_eltwise posts[TRANSPOSED_MAX_POSTS];
    uint32_t post_count;
} transposed_epilogue;

/* Moves post-ops from the group into the epilogue; returns their number. */
uint32_t transposed_fuse_posts(const cpu_group *group, transposed_epilogue *out);
/* kernel: NULL if this CPU has none. */
void transposed_apply_epilogue(const transposed_epilogue *epilogue, const struct sgemm_kernel *kernel, float *output,
                               int64_t n);

/* Row-major images (transposed_planes.c). *out_done is false, and nothing was emitted, for other layouts. */
inlay_status transposed_lower_planes(cpu_build *build, const cpu_group *group, bool *out_done);
#endif
