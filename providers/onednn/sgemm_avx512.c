/* sgemm_avx512.c - blocks of products for x86-64-v4 (AVX-512 F, BW, DQ, VL); compiled with that -march. */
#define SG_KERNEL sg_kernel_avx512
#define SG_ISA "avx512"
#include "sgemm_tile.inc"
