/* The instruction set in use, see cpu.h. */
#include "simd/cpu.h"
#include "simd/cpu_arm64.h"
#include "simd/cpu_riscv64.h"
#include "simd/cpu_integers.h"
#include "simd/cpu_plain.h"
#include "simd/at_fork.h"
#include "simd/row_set.h"
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "inlay/kit_kernel.h"
#include "inlay/note.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Float operations per nanosecond of the reference core. */
#define REFERENCE_FLOPS 320.0
/* Bytes that a core reads per nanosecond from the first-level cache to execute the kernels that do not multiply as fast
 * as the cost models say; a core that reads more is as fast. */
#define ENOUGH_BYTES 200.0
/* Float operations per nanosecond, with registers of 32 bytes, of the core on which these kernels were timed. Cores
 * with AVX-512 all do 32 of them in a cycle, so the rate stands for the clock. */
#define ENOUGH_FLOPS 117.0

static const char *const level_names[CPU_LEVEL_COUNT] = { "baseline", "neon_dot", "neon_i8mm", "rvv",
                                                          "avx2",     "avx512",   "amx" };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void guard_lock(void)
{
    lock_at_fork(&lock);
}

static int in_use = -1;   /* cpu_level; -1: not fixed yet. Atomic; written under lock */
static int avx_vnni = -1; /* 1: the CPU supports AVX-VNNI; -1: not determined yet. Atomic */
static int uniform = -1;  /* cpu_uniform_kind; -1: not fixed yet. Atomic; written under lock */
static bool runs_plain;   /* see cpu_run_plain() */
int cpu_instance_in_use = CPU_INSTANCE_OPEN;

#if defined(SIMD_ONLY_LEVEL)
/* There are kernels of one level alone, for CPUs that have it. */
static cpu_level level_of_cpu(void)
{
    return SIMD_ONLY_LEVEL;
}

static cpu_level cap_level(cpu_level cap)
{
    (void)cap;
    return SIMD_ONLY_LEVEL;
}
#elif defined(__aarch64__)
static cpu_level level_of_cpu(void)
{
    return cpu_arm64_level();
}

static cpu_level cap_level(cpu_level cap)
{
    const cpu_level most = level_of_cpu();

    return cap < most ? cap : most;
}
#elif defined(__riscv)
static cpu_level level_of_cpu(void)
{
    return cpu_riscv64_level();
}

static cpu_level cap_level(cpu_level cap)
{
    return cap < CPU_RVV ? CPU_BASELINE : level_of_cpu(); /* below CPU_RVV: levels of arm64 */
}
#else
static cpu_level level_of_cpu(void)
{
    const uint32_t with_amx = INLAY_ISA_AMX | INLAY_ISA_AVX512_VNNI | INLAY_ISA_AVX512_BF16;
    uint32_t extra;
    const uint32_t level = kit_isa(&extra);

    if (level >= INLAY_ISA_X86_64_V4)
        return (extra & with_amx) == with_amx ? CPU_AMX : CPU_AVX512;
    return level >= INLAY_ISA_X86_64_V3 ? CPU_AVX2 : CPU_BASELINE;
}

static cpu_level cap_level(cpu_level cap)
{
    const cpu_level most = level_of_cpu();

    return cap < CPU_AVX2 ? CPU_BASELINE : cap < most ? cap : most; /* below CPU_AVX2: levels of arm64 */
}
#endif

/* The level of the CPU, capped by the level of this name; CPU_LEVEL_COUNT: unknown name. */
static cpu_level level_below(const char *name)
{
    if (strcmp(name, "auto") == 0 || name[0] == '\0')
        return level_of_cpu();
    for (cpu_level level = 0; level < CPU_LEVEL_COUNT; level++)
        if (strcmp(name, level_names[level]) == 0)
            return cap_level(level);
    return CPU_LEVEL_COUNT;
}

/* Fixes the level. Under lock. */
static void fix_level(void)
{
    if (in_use < 0) {
        const char *variable = secure_getenv("INLAY_ISA");
        const cpu_level cap = level_below(variable != NULL ? variable : "auto");

        __atomic_store_n(&in_use, (int)(cap < CPU_LEVEL_COUNT ? cap : level_of_cpu()), __ATOMIC_RELEASE);
    }
}

cpu_uniform_kind cpu_uniform(void)
{
    int kind = runs_plain ? (int)CPU_UNIFORM_NO : __atomic_load_n(&uniform, __ATOMIC_ACQUIRE);

    if (kind >= 0)
        return (cpu_uniform_kind)kind;
    (void)pthread_mutex_lock(&lock);
    if (uniform < 0)
        __atomic_store_n(&uniform, (int)CPU_UNIFORM_NO, __ATOMIC_RELEASE);
    kind = uniform;
    (void)pthread_mutex_unlock(&lock);
    return (cpu_uniform_kind)kind;
}

inlay_status cpu_use_uniform(inlay_diag *diag)
{
    int kind;

    (void)pthread_mutex_lock(&lock);
    fix_level();
    kind = uniform >= 0 ? uniform : (int)(in_use >= CPU_AVX2 ? CPU_UNIFORM_AVX2 : CPU_UNIFORM_C);
    if ((kind == CPU_UNIFORM_AVX2 ? &rows_uniform : &rows_uniform_c) != NULL)
        __atomic_store_n(&uniform, kind, __ATOMIC_RELEASE);
    else
        kind = -1;
    (void)pthread_mutex_unlock(&lock);
    if (kind < 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "reproducible is cpu, but this build lacks the kernels for it");
    if (kind != CPU_UNIFORM_NO)
        return INLAY_OK;
    return inlay_fail(
        diag, INLAY_INVALID_ARGUMENT,
        "reproducible is cpu, but other kernels are in use in this process: set it for the first session");
}

void cpu_run_plain(bool plain)
{
    runs_plain = plain;
    __atomic_store_n(&cpu_instance_in_use, (int)CPU_INSTANCE_OPEN, __ATOMIC_RELAXED);
}

cpu_level cpu_level_in_use(void)
{
    return cpu_uniform() != CPU_UNIFORM_NO ? CPU_AVX2 : cpu_level_of_integers();
}

cpu_level cpu_level_of_integers(void)
{
    int level = runs_plain ? (int)CPU_BASELINE : __atomic_load_n(&in_use, __ATOMIC_ACQUIRE);

    if (level >= 0)
        return (cpu_level)level;
    (void)pthread_mutex_lock(&lock);
    fix_level();
    level = in_use;
    (void)pthread_mutex_unlock(&lock);
    return (cpu_level)level;
}

bool cpu_has(cpu_level level)
{
    return cpu_level_in_use() >= level;
}

cpu_instance_kind cpu_fix_instance(void)
{
    const cpu_uniform_kind kind = cpu_uniform();
    const cpu_level level = cpu_level_in_use();
    const cpu_instance_kind instance = kind == CPU_UNIFORM_AVX2 ? CPU_INSTANCE_UNIFORM
                                       : kind == CPU_UNIFORM_C  ? CPU_INSTANCE_UNIFORM_C
                                       : level >= CPU_AVX512    ? CPU_INSTANCE_AVX512
                                       : level >= CPU_AVX2      ? CPU_INSTANCE_AVX2
                                       : level >= CPU_RVV       ? CPU_INSTANCE_RVV
                                                                : CPU_INSTANCE_BASELINE;

    __atomic_store_n(&cpu_instance_in_use, (int)instance, __ATOMIC_RELAXED);
    return instance;
}

bool cpu_is_capped(void)
{
    return cpu_uniform() == CPU_UNIFORM_NO && cpu_level_in_use() < level_of_cpu();
}

cpu_pace cpu_reference_pace(void)
{
    static const double speeds[CPU_LEVEL_COUNT] = {
        [CPU_BASELINE] = 0.25, [CPU_NEON_DOT] = 0.25, [CPU_NEON_I8MM] = 0.25, [CPU_RVV] = 0.25,
        [CPU_AVX2] = 0.5,      [CPU_AVX512] = 1,      [CPU_AMX] = 1
    };
    const cpu_level level = cpu_level_in_use();

    INLAY_CHECK(level < CPU_LEVEL_COUNT);
    return (cpu_pace){ speeds[level], speeds[level] };
}

cpu_pace cpu_local_pace(const inlay_speed *measured)
{
    const cpu_level level = cpu_level_in_use();
    cpu_pace pace = cpu_reference_pace();
    double flops;

    if (measured == NULL)
        return pace;
    flops = level >= CPU_AVX512 ? measured->flops_v4
            : level == CPU_AVX2 ? measured->flops_v3
                                : measured->flops_baseline;
    if (flops > 0)
        pace.multiply = flops / REFERENCE_FLOPS;
    if (measured->core_bytes > 0)
        pace.other = measured->core_bytes < ENOUGH_BYTES ? measured->core_bytes / ENOUGH_BYTES : 1;
    if (level >= CPU_AVX512 && measured->flops_v3 > 0 && measured->flops_v3 < ENOUGH_FLOPS)
        pace.other *= measured->flops_v3 / ENOUGH_FLOPS;
    return pace;
}

double cpu_tile_pace(const inlay_speed *measured)
{
    const double flops = 242, tiles = 3800; /* of one core of the Xeon, in a nanosecond */

    if (measured == NULL || !INLAY_HAS(measured, tile_bfloat16) || !(measured->tile_bfloat16 > 0) ||
        !(measured->flops_v4 > 0))
        return 1;
    return measured->flops_v4 / flops / (measured->tile_bfloat16 / tiles);
}

const inlay_speed *cpu_measured_speed(const inlay_host *host)
{
    const inlay_ext_speed *speed = host->extension(host->ctx, INLAY_EXT_SPEED);
    const inlay_speed *measured = speed != NULL && INLAY_HAS(speed, get) ? speed->get(host->ctx) : NULL;

    return measured != NULL && INLAY_HAS(measured, memory_bytes) ? measured : NULL;
}

bool cpu_has_vnni(void)
{
#if defined(__x86_64__)
    return cpu_level_of_integers() >= CPU_AVX512 && __builtin_cpu_supports("avx512vnni");
#else
    return false;
#endif
}

bool cpu_has_dot(void)
{
#if defined(__aarch64__)
    return cpu_level_of_integers() >= CPU_NEON_DOT;
#else
    return false;
#endif
}

bool cpu_has_i8mm(void)
{
#if defined(__aarch64__)
    return cpu_level_of_integers() >= CPU_NEON_I8MM;
#else
    return false;
#endif
}

bool cpu_has_avx_vnni(void)
{
    int has = __atomic_load_n(&avx_vnni, __ATOMIC_RELAXED);

    if (has < 0) { /* called for each packed weight, so the result is cached */
        uint32_t extra;

        (void)kit_isa(&extra);
        has = (extra & INLAY_ISA_AVX_VNNI) != 0;
        __atomic_store_n(&avx_vnni, has, __ATOMIC_RELAXED);
    }
    return cpu_level_of_integers() >= CPU_AVX2 && has != 0;
}

void cpu_hide_avx_vnni(void)
{
    __atomic_store_n(&avx_vnni, 0, __ATOMIC_RELAXED);
}

inlay_status cpu_limit_isa(const char *name, inlay_diag *diag)
{
    const cpu_level cap = level_below(name);
    int level;

    if (cap == CPU_LEVEL_COUNT)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "isa is '%s'; it can be auto, amx, avx512, avx2, neon_i8mm, "
                          "neon_dot, rvv or baseline",
                          name);
    if (strcmp(name, "auto") == 0 || name[0] == '\0')
        return INLAY_OK;
    (void)pthread_mutex_lock(&lock);
    if (in_use < 0)
        __atomic_store_n(&in_use, (int)cap, __ATOMIC_RELEASE);
    level = in_use;
    (void)pthread_mutex_unlock(&lock);
    if (level == (int)cap)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "isa is '%s', but kernels for %s are in use in this process: set it for the first session, or "
                      "INLAY_ISA=%s before the process starts",
                      name, level_names[level], name);
}
