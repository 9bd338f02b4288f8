/* base.c - products of few rows for the instruction set that the compiler targets. */
#define VBYTES 16
#define MR 3 /* 12 sums, a vector of W and one of X in 16 registers */
#define SUFFIX(x) x##_base
#include "panels/kernels.inc"
