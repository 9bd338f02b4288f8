/* avx512.c - products of few rows for x86-64-v4; compiled with that -march. */
#define VBYTES 64
#define MR 6 /* 24 sums, 4 vectors of W and one of X in 32 registers */
#define SUFFIX(x) x##_avx512
#include "panels/kernels.inc"
