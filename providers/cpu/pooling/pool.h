/* pool.h - lowerings of pooling to built-in loops. */
#ifndef CPU_POOL_H
#define CPU_POOL_H
#include "cpu/pooling/pool_lanes.h"
#include "cpu/region/build.h"

/* Lowers max or average pooling of input in its layout (pool_image.c) for build->op. *out_done: the layout is
 * supported, and *out is the result's placement. */
inlay_status cpu_lower_image(cpu_build *build, const cpu_place *input, const int64_t *out_dims,
                             const pool_window *window, uint32_t result, cpu_place *out, bool *out_done);

/* Lowers global average pooling (pool_mean.c). */
inlay_status cpu_lower_mean(cpu_build *build, const cpu_place *input, uint32_t result, cpu_place *out, bool *out_done);

/* Lowers max or average pooling of a row-major input (pool_rows.c) for build->op. */
inlay_status cpu_lower_rows(cpu_build *build, const cpu_place *input, const int64_t *out_dims,
                            const pool_window *window, uint32_t result, cpu_place *out, bool *out_done);

/* Lowers global pooling of a row-major image that is not empty. */
inlay_status cpu_lower_planes(cpu_build *build, const cpu_place *input, uint32_t result, cpu_place *out);
#endif
