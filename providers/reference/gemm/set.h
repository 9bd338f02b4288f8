/* gemm/set.h - the sets of microkernels, one an instruction set. */
#ifndef GEMM_SET_H
#define GEMM_SET_H
#include "gemm.h"

extern const gemm_kernel *const gemm_set_base[GEMM_TYPE_COUNT];   /* what the compiler's target has */
extern const gemm_kernel *const gemm_set_avx2[GEMM_TYPE_COUNT];   /* x86-64-v3 */
extern const gemm_kernel *const gemm_set_avx512[GEMM_TYPE_COUNT]; /* x86-64-v4 */
#endif
