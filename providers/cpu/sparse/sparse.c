/* Sparse GEMM: selects block-sparse or 2:4 sparse (fours.h) kernels. */
#include "sparse/fours.h"

int64_t sparse_units(const sgemm_job *job)
{
    return (job->width == SPARSE24_WIDTH ? fours_units : sparse_blocks_units)(job);
}

int64_t sparse_scratch_floats(const sgemm_job *job)
{
    return (job->width == SPARSE24_WIDTH ? fours_scratch_floats : sparse_blocks_scratch_floats)(job);
}

void sparse_run(const sgemm_job *job, float *scratch, int64_t begin, int64_t end)
{
    (job->width == SPARSE24_WIDTH ? fours_run : sparse_blocks_run)(job, scratch, begin, end);
}
