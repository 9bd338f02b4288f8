/* cpu.h - the instruction set ("level") of the kernels in this process: the CPU's, limited by a cap.
 *
 * Kernels are compiled for each level, so there are few levels. The cap applies to the whole process. It makes it
 * possible to test and measure the kernels of older CPUs. */
#ifndef SIMD_CPU_H
#define SIMD_CPU_H
#include "inlay/status.h"
#include <stdbool.h>

struct inlay_host;
struct inlay_speed;

typedef enum cpu_level {
    CPU_BASELINE,  /* supported by every CPU of this architecture */
    CPU_NEON_DOT,  /* arm64: dot products of bytes (SDOT, UDOT) */
    CPU_NEON_I8MM, /* the same with matrix products of bytes (USMMLA) and of bfloat16 (BFMMLA) */
    CPU_RVV,       /* riscv64: the extension V with registers of 256 bits */
    CPU_AVX2,      /* x86-64-v3: AVX2 and FMA */
    CPU_AVX512,    /* x86-64-v4: AVX-512 F, BW, DQ, VL */
    CPU_AMX,       /* the same with VNNI, BF16 and AMX, see also tile_problem() */
    CPU_LEVEL_COUNT
} cpu_level;

/* Choices and help text of a provider's option `isa` (inlay_option). */
#define CPU_ISA_CHOICES "auto|amx|avx512|avx2|neon_i8mm|neon_dot|rvv|baseline"
#define CPU_ISA_DOC                                                                                                    \
    "highest instruction set of kernels: auto = that of the CPU; applies to the whole process and to the libraries "   \
    "that this provider opens; set by the session option of the same name"

/* The level in use. The first call fixes it for the process: the CPU's level, limited by the environment variable
 * INLAY_ISA (ignored if the process has more privileges than its user). All functions here are thread-safe. */
cpu_level cpu_level_in_use(void);
bool cpu_has(cpu_level level);

/* Kernels with the same results on every CPU, see vec_c.h. While they are in use, the level is CPU_AVX2 on any CPU,
 * so that no choice depends on the CPU. */
typedef enum cpu_uniform_kind {
    CPU_UNIFORM_NO,   /* kernels of the level in use */
    CPU_UNIFORM_AVX2, /* uniform kernels, compiled for AVX2 */
    CPU_UNIFORM_C     /* uniform kernels, compiled for the baseline */
} cpu_uniform_kind;
cpu_uniform_kind cpu_uniform(void);
/* Uses uniform kernels in this process. Fails if others are already in use. Only the plugin cpu contains them. Call
 * after cpu_limit_isa(). */
inlay_status cpu_use_uniform(inlay_diag *diag);

/* The instances of kernels (instances.h) of the level in use, and uniform ones. */
typedef enum cpu_instance_kind {
    CPU_INSTANCE_OPEN, /* not fixed yet */
    CPU_INSTANCE_BASELINE,
    CPU_INSTANCE_RVV,
    CPU_INSTANCE_AVX2,
    CPU_INSTANCE_AVX512,
    CPU_INSTANCE_UNIFORM,
    CPU_INSTANCE_UNIFORM_C
} cpu_instance_kind;
extern int cpu_instance_in_use; /* cpu_instance_kind. Atomic; written by cpu.c alone */
cpu_instance_kind cpu_fix_instance(void);

/* True if instance `kind` is in use. Call after cpu_instance(). */
static inline bool cpu_instance_is(cpu_instance_kind kind)
{
    return __atomic_load_n(&cpu_instance_in_use, __ATOMIC_RELAXED) == (int)kind;
}

/* The instance in use; the first call fixes it, and the level, for the process. */
static inline cpu_instance_kind cpu_instance(void)
{
    const int kind = __atomic_load_n(&cpu_instance_in_use, __ATOMIC_RELAXED);

    return __builtin_expect(kind != (int)CPU_INSTANCE_OPEN, 1) ? (cpu_instance_kind)kind : cpu_fix_instance();
}

/* True if the level is capped below that of the CPU. */
bool cpu_is_capped(void);
/* Speed relative to the reference core with AVX-512 (INLAY_PROVIDER_REFERENCE_CORE), for cost estimates. */
typedef struct cpu_pace {
    double multiply; /* multiply-adds */
    double other;    /* other vector instructions, on data in the cache */
} cpu_pace;
/* Of the reference core at this level. */
cpu_pace cpu_reference_pace(void);
/* Of this machine at this level; measured: by the host, or NULL. Parts that were not measured are those of the
 * reference core. */
cpu_pace cpu_local_pace(const struct inlay_speed *measured);
/* The time of a product of bfloat16 by matrix tiles, in multiply-adds of floats, relative to the Xeon whose times the
 * prices are. 1: not measured. For choices between kernels. */
double cpu_tile_pace(const struct inlay_speed *measured);
/* The host's measurement; NULL: it has none. */
const struct inlay_speed *cpu_measured_speed(const struct inlay_host *host);
/* Why kernels may not use tiles of AMX (tile.h), in one sentence; NULL: they may. The first call, if the CPU has them
 * and the cap permits them, asks the kernel for permission and compares products with those of plain C. */
const char *tile_problem(void);
/* True if VNNI with 512 bits is usable; false below CPU_AVX512. */
bool cpu_has_vnni(void);
/* True if AVX-VNNI is usable; false below CPU_AVX2. */
bool cpu_has_avx_vnni(void);
/* True if the instructions of CPU_NEON_DOT, or of CPU_NEON_I8MM, are usable: the CPU has them, the cap permits them,
 * and the first call found that their products equal those of plain C. False on other architectures than arm64. */
bool cpu_has_dot(void);
bool cpu_has_i8mm(void);
/* Makes cpu_has_avx_vnni() return false, for programs that must run alike on other CPUs. Call before any query. */
void cpu_hide_avx_vnni(void);

/* Caps the level; name: one of CPU_ISA_CHOICES. Fails if kernels of a higher level are already in use, or if another
 * cap was set. "auto" has no effect. */
inlay_status cpu_limit_isa(const char *name, inlay_diag *diag);
#endif
