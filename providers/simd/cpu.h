/* cpu.h - which level of instructions the kernels of this process use: what the CPU has, up to a cap.
 *
 * A level is what kernels are compiled for, so there are few of them. The cap counts for the whole process: it is there
 * so that one machine can test and measure the kernels of lesser ones. */
#ifndef SIMD_CPU_H
#define SIMD_CPU_H
#include "inlay/status.h"
#include <stdbool.h>

typedef enum cpu_level {
    CPU_BASELINE, /* what every CPU of this architecture has */
    CPU_AVX2,     /* x86-64-v3: AVX2 and FMA */
    CPU_AVX512,   /* x86-64-v4: AVX-512 F, BW, DQ, VL */
    CPU_LEVEL_COUNT
} cpu_level;

/* Choices of a provider's option `isa`, as inlay_option has them. */
#define CPU_ISA_CHOICES "auto|avx512|avx2|baseline"
#define CPU_ISA_DOC                                                                                                    \
    "highest instruction-set level of the kernels: auto = that of the CPU; applies to the whole process, and to the "   \
    "libraries that this provider opens; the session's option of this name sets it"

/* The level in use. The first call fixes it for the process: what the CPU has, at most INLAY_ISA of the environment
 * (unless the process has more rights than its user). Thread-safe, as is all of this. */
cpu_level cpu_level_in_use(void);
bool cpu_has(cpu_level level);

/* Is the level capped below what the CPU has? */
bool cpu_is_capped(void);
/* How fast arithmetic is at this level beside a core with AVX-512: for estimates. */
double cpu_speed(void);
/* With VNNI of 512 bits; never below CPU_AVX512. */
bool cpu_has_vnni(void);
/* With AVX-VNNI, from CPU_AVX2 on. */
bool cpu_has_avx_vnni(void);
/* From now on the CPU has none, for a program that is to run as it does elsewhere; before anything asks. */
void cpu_hide_avx_vnni(void);

/* Caps the level: one of CPU_ISA_CHOICES. An error where kernels of a higher level are in use by now, or another cap
 * was set. "auto" leaves things as they are. */
inlay_status cpu_cap(const char *name, inlay_diag *diag);
#endif
