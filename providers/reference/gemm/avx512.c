/* avx512.c - microkernels for x86-64-v4 (AVX-512 F, BW, DQ, VL); compiled with that -march. */
#include <immintrin.h>
#define VBYTES 64
#define MR 8 /* 24 sums, 3 lines of B and one element of A in 32 registers */
#define SET gemm_set_avx512
#define ISA "avx512"
#define MADD(pair, line) ((s16_vec)_mm512_madd_epi16((__m512i)(pair), (__m512i)(line)))
#include "gemm/kernels.inc"
