/* The microkernels of the reference provider, for gemm.c: all that this CPU can run. */
#include "gemm/set.h"
#include "gemm_under_test.h"

const gemm_kernel *gemm_under_test(uint32_t type, uint32_t i)
{
    return gemm_kernel_at(type, i);
}
