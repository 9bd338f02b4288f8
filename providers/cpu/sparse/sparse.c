/* Sparse products: by blocks that are not zero, or by two of each four (fours.h). */
#include "sparse/fours.h"

#define FLOPS_PER_NS 190.0 /* one core with AVX-512 */
#define BYTES_PER_NS 20.0

int64_t sparse_units(const sg_job *job)
{
    return (job->width == FR_WIDTH ? fours_units : sparse_blocks_units)(job);
}

int64_t sparse_scratch_floats(const sg_job *job)
{
    return (job->width == FR_WIDTH ? fours_scratch_floats : sparse_blocks_scratch_floats)(job);
}

double sparse_estimate_ns(int64_t m, int64_t n, int64_t k, double share)
{
    const double count = (double)n * (double)k * share, work = 2 * ((double)m + 1) * count / FLOPS_PER_NS;
    const double bytes = count * (4 + 4.0 / SP_WIDTH) / BYTES_PER_NS, turning = (double)m * (double)k / 2;

    return (work > bytes ? work : bytes) + (m > 1 ? turning : 0);
}

void sparse_run(const sg_job *job, float *scratch, int64_t begin, int64_t end)
{
    (job->width == FR_WIDTH ? fours_run : sparse_blocks_run)(job, scratch, begin, end);
}
