/* gemm_under_test.h - the kernels that gemm.c tests. Each test program with gemm.c implements it. */
#ifndef GEMM_UNDER_TEST_H
#define GEMM_UNDER_TEST_H
#include "operators/gemm.h"

/* The i-th kernel for a type; NULL after the last one. */
const gemm_kernel *gemm_under_test(uint32_t type, uint32_t i);
#endif
