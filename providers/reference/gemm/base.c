/* base.c - microkernels for whatever the compiler targets: SSE2 on x86-64, NEON on aarch64, or plain C. */
#include <stdint.h>
#define VBYTES 16
#define SET gemm_set_base
#define ISA "base"
#if defined(__x86_64__)
#define MR 4 /* 16 registers */
#include <emmintrin.h>
#define MADD(pair, line) ((s16_vec)_mm_madd_epi16((__m128i)(pair), (__m128i)(line)))
#else
#define MR 8
/* The halves of each 32-bit lane; which is first does not matter, both sides are packed alike. */
typedef int32_t lanes __attribute__((vector_size(VBYTES)));
#define LOW(x) ((lanes)((x) << 16) >> 16)
#define HIGH(x) ((lanes)(x) >> 16)
#define MADD(pair, line) ((s16_vec)(LOW(pair) * LOW(line) + HIGH(pair) * HIGH(line)))
#endif
#include "gemm/kernels.inc"
