/* cpu_plain.h - a switch from uniform kernels to baseline kernels, for provider reference in programs of `inlay
 * bundle`. */
#ifndef SIMD_CPU_PLAIN_H
#define SIMD_CPU_PLAIN_H
#include <stdbool.h>

/* While `plain` is true, the level is CPU_BASELINE and kernels are not uniform, as in the plugin reference. This does
 * not fix the level of the process. For programs with one thread. */
void cpu_run_plain(bool plain);
#endif
