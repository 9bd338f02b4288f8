/* avx2.c - microkernels for x86-64-v3 (AVX2 and FMA); compiled with that -march. */
#include <immintrin.h>
#define VBYTES 32
#define MR 4 /* 12 sums, 3 lines of B and one element of A in 16 registers */
#define SET gemm_set_avx2
#define ISA "avx2"
#define MADD(pair, line) ((s16_vec)_mm256_madd_epi16((__m256i)(pair), (__m256i)(line)))
#include "gemm/kernels.inc"
