/* Sparse GEMM: selects block-sparse or 2:4 sparse (sparse24.h) kernels. */
#include "cpu/sparse/sparse24.h"

int64_t sparse_units(const sgemm_job *job)
{
    return (job->width == SPARSE24_WIDTH ? sparse24_units : sparse_blocks_units)(job);
}

int64_t sparse_scratch_floats(const sgemm_job *job)
{
    return (job->width == SPARSE24_WIDTH ? sparse24_scratch_floats : sparse_blocks_scratch_floats)(job);
}

void sparse_run(const sgemm_job *job, float *scratch, int64_t begin, int64_t end)
{
    (job->width == SPARSE24_WIDTH ? sparse24_run : sparse_blocks_run)(job, scratch, begin, end);
}
