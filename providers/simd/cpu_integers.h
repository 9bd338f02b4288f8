/* cpu_integers.h - the level of kernels of integers. */
#ifndef SIMD_CPU_INTEGERS_H
#define SIMD_CPU_INTEGERS_H
#include "simd/cpu.h"

/* The level of the CPU and of the cap also while uniform kernels are in use (cpu.h), since results of integers are
 * exact on every level; cpu_has_vnni() and cpu_has_avx_vnni() agree with it. */
cpu_level cpu_level_of_integers(void);
#endif
