/* cpu.h - the instruction set ("level") of the kernels in this process: the CPU's, limited by a cap.
 *
 * Kernels are compiled for each level, so there are few levels. The cap applies to the whole process. It makes it
 * possible to test and measure the kernels of older CPUs. */
#ifndef SIMD_CPU_H
#define SIMD_CPU_H
#include "inlay/status.h"
#include <stdbool.h>

typedef enum cpu_level {
    CPU_BASELINE, /* supported by every CPU of this architecture */
    CPU_AVX2,     /* x86-64-v3: AVX2 and FMA */
    CPU_AVX512,   /* x86-64-v4: AVX-512 F, BW, DQ, VL */
    CPU_LEVEL_COUNT
} cpu_level;

/* Choices and help text of a provider's option `isa` (inlay_option). */
#define CPU_ISA_CHOICES "auto|avx512|avx2|baseline"
#define CPU_ISA_DOC                                                                                                    \
    "highest instruction set of kernels: auto = that of the CPU; applies to the whole process and to the libraries "   \
    "that this provider opens; set by the session option of the same name"

/* The level in use. The first call fixes it for the process: the CPU's level, limited by the environment variable
 * INLAY_ISA (ignored if the process has more privileges than its user). All functions here are thread-safe. */
cpu_level cpu_level_in_use(void);
bool cpu_has(cpu_level level);

/* True if the level is capped below that of the CPU. */
bool cpu_is_capped(void);
/* Speed of arithmetic at this level relative to a core with AVX-512, for cost estimates. */
double cpu_speed(void);
/* True if VNNI with 512 bits is usable; false below CPU_AVX512. */
bool cpu_has_vnni(void);
/* True if AVX-VNNI is usable; false below CPU_AVX2. */
bool cpu_has_avx_vnni(void);
/* Makes cpu_has_avx_vnni() return false, for programs that must run alike on other CPUs. Call before any query. */
void cpu_hide_avx_vnni(void);

/* Caps the level; name: one of CPU_ISA_CHOICES. Fails if kernels of a higher level are already in use, or if another
 * cap was set. "auto" has no effect. */
inlay_status cpu_limit_isa(const char *name, inlay_diag *diag);
#endif
