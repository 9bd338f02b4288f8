/* cpu_riscv64.h - the level of a riscv64 CPU, for cpu.c. */
#ifndef SIMD_CPU_RISCV64_H
#define SIMD_CPU_RISCV64_H
#include "simd/cpu.h"

/* CPU_RVV if this build has its kernels, Linux reports the extension V, the registers have 256 bits, and their results
 * equal those of plain C; otherwise CPU_BASELINE. Thread-safe; the first call compares the results. */
cpu_level cpu_riscv64_level(void);
/* Do operations on vectors equal their definition? Only on CPUs that have them. */
bool riscv64_vectors_rvv(void);
#endif
