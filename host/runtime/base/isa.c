#include "base/isa.h"
#include "inlay/kit_call.h"
#include "inlay/note.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static uint32_t cpu_level = INLAY_ISA_BASELINE, cpu_extra;
static pthread_once_t cpu_once = PTHREAD_ONCE_INIT;

static void detect_cpu(void)
{
    cpu_level = kit_isa(&cpu_extra);
}

uint32_t isa_of_cpu(uint32_t *out_extra)
{
    (void)pthread_once(&cpu_once, detect_cpu);
    *out_extra = cpu_extra;
    return cpu_level;
}

/* *out: the highest level that value `name` of option isa permits. False for unknown names. */
static bool level_of_name(const char *name, uint32_t *out)
{
    static const struct {
        const char *name;
        uint32_t level;
    } caps[] = { { "auto", UINT32_MAX },
                 { "amx", UINT32_MAX },
                 { "avx512", INLAY_ISA_X86_64_V4 },
                 { "avx2", INLAY_ISA_X86_64_V3 },
                 { "neon_i8mm", INLAY_ISA_BASELINE }, /* the host has no code for it */
                 { "neon_dot", INLAY_ISA_BASELINE },
                 { "rvv", INLAY_ISA_BASELINE },
                 { "baseline", INLAY_ISA_BASELINE } };

    for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++)
        if (strcmp(name, caps[i].name) == 0) {
            *out = caps[i].level;
            return true;
        }
    return false;
}

static atomic_uint cap = UINT32_MAX;

uint32_t isa_in_use(void)
{
    uint32_t extra, level = isa_of_cpu(&extra), most = atomic_load(&cap);

    return level < most ? level : most;
}

inlay_status isa_cap(const char *name, inlay_diag *diag)
{
    uint32_t level;

    if (!level_of_name(name, &level))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "isa is '%s'; it can be auto, amx, avx512, avx2, neon_i8mm, "
                          "neon_dot, rvv or baseline",
                          name);
    atomic_store(&cap, level);
    return INLAY_OK;
}

const char *isa_level_text(uint32_t level)
{
    switch (level) {
    case INLAY_ISA_BASELINE:
        return "the baseline";
    case INLAY_ISA_X86_64_V2:
        return "x86-64-v2 (SSE4.2)";
    case INLAY_ISA_X86_64_V3:
        return "x86-64-v3 (AVX2, FMA, BMI2)";
    case INLAY_ISA_X86_64_V4:
        return "x86-64-v4 (AVX-512)";
    default:
        return "a level that this host does not know";
    }
}

const char *isa_extra_text(uint32_t extra)
{
    static const char *const names[] = {
        "AVX512-VNNI", "AVX512-BF16", "AVX512-FP16", "AVX512-VBMI", "AVX-VNNI", "AMX"
    };

    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if ((extra >> i & 1) != 0)
            return names[i];
    return "instructions that this host does not know";
}
