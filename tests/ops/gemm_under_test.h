/* gemm_under_test.h - the kernels that gemm.c tests; each program that it is part of brings its own. */
#ifndef GEMM_UNDER_TEST_H
#define GEMM_UNDER_TEST_H
#include "gemm.h"

/* The i-th kernel for a type; NULL when there are no more. */
const gemm_kernel *gemm_under_test(uint32_t type, uint32_t i);
#endif
