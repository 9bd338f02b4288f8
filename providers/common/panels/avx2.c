/* avx2.c - products of few rows for x86-64-v3; compiled with that -march. */
#define VBYTES 32
#define MR 3 /* 12 sums, a vector of W and one of X in 16 registers */
#define SUFFIX(x) x##_avx2
#include "panels/kernels.inc"
