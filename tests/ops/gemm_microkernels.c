/* gemm_microkernels.c - the microkernels of the reference provider that this CPU can run, for gemm.c. */
#include "operators/gemm/set.h"
#include "gemm_under_test.h"

const gemm_kernel *gemm_under_test(uint32_t type, uint32_t i)
{
    return gemm_kernel_at(type, i);
}
