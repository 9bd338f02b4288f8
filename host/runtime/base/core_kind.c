#include "base/core_kind.h"
#include "base/isa.h"
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "inlay/note.h"
#include "kit/memory_speed.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

static const core_kind kinds[] = {
#include "base/core_kind.def"
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

char core_identify(uint32_t *out_id)
{
    *out_id = 0;
#if defined(__x86_64__)
    uint32_t a = 0, b = 0, c, d;

    if (__get_cpuid(0, &a, &b, &c, &d) == 0 || __get_cpuid(1, &a, &(uint32_t){ 0 }, &c, &d) == 0)
        return 0;
    *out_id = (a >> 8 & 15) + ((a >> 8 & 15) == 15 ? a >> 20 & 255 : 0);
    return (char)(b & 255);
#else
#if defined(__aarch64__) && defined(HWCAP_CPUID)
    if ((getauxval(AT_HWCAP) & HWCAP_CPUID) != 0) {
        uint64_t midr;

        __asm__("mrs %0, midr_el1" : "=r"(midr));
        *out_id = (uint32_t)(midr >> 4 & 0xfff);
    }
#endif
    return 0;
#endif
}

#if defined(__x86_64__)
static const char architecture = 'x';
#elif defined(__aarch64__)
static const char architecture = 'a';
#elif defined(__wasm__)
static const char architecture = 'w';
#else
static const char architecture = 0;
#endif

static const core_kind *find_own_kind(void)
{
    const core_kind *kind = kinds;
    uint32_t id, extra;
    const char vendor = core_identify(&id);
    const uint32_t level = isa_of_cpu(&extra);

    while ((kind->architecture != 0 && kind->architecture != architecture) ||
           (kind->vendor != 0 && kind->vendor != vendor) || level < kind->level ||
           (extra & kind->extra) != kind->extra ||
           (architecture == 'a' && kind->id != 0 ? id != kind->id : id < kind->id))
        kind++;
    return kind;
}

const core_kind *core_kind_find(const char *name)
{
    for (uint32_t i = 0; name != NULL && i < KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

inlay_status core_kind_get(const char *name, const core_kind **out_kind, inlay_diag *diag)
{
    char names[KINDS * sizeof kinds[0].name];
    size_t used = 0;

    *out_kind = core_kind_find(name);
    if (*out_kind != NULL)
        return INLAY_OK;
    for (uint32_t i = 0; i < KINDS; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", kinds[i].name);
    return inlay_fail(diag, INLAY_NOT_FOUND, "no kind of CPU is named '%.60s'; there are %s", name, names);
}

const core_kind *core_kind_at(uint32_t place)
{
    return place < KINDS ? &kinds[place] : NULL;
}

static _Atomic(const core_kind *) in_use;
static atomic_bool is_assumed;

const core_kind *core_kind_in_use(void)
{
    const core_kind *kind = atomic_load(&in_use);

    if (kind == NULL) {
        kind = core_kind_find(secure_getenv("INLAY_CPU_KIND"));
        kind = kind != NULL ? kind : find_own_kind();
        atomic_store(&in_use, kind);
    }
    return kind;
}

inlay_status core_kind_assume(const char *name, inlay_diag *diag)
{
    const core_kind *kind;
    const inlay_status status = core_kind_get(name, &kind, diag);

    if (status == INLAY_OK) {
        atomic_store(&is_assumed, true);
        atomic_store(&in_use, kind);
    }
    return status;
}

bool core_kind_is_assumed(void)
{
    return atomic_load(&is_assumed);
}

const char *core_kind_isa(const core_kind *kind)
{
    return kind->tiles[0] > 0 ? "amx" : kind->flops[2] > 0 ? "avx512" : kind->flops[1] > 0 ? "avx2" : "baseline";
}

void core_kind_speed(const core_kind *kind, uint32_t level, inlay_speed *out)
{
    const bool v3 = level >= INLAY_ISA_X86_64_V3, v4 = level >= INLAY_ISA_X86_64_V4;
    const double narrow = kind->flops[2] > 0 && !v4 ? 2 : 1; /* loads are of half the width */

    *out = (inlay_speed){ .struct_size = sizeof *out,
                          .flops_baseline = kind->flops[0],
                          .flops_v3 = v3 ? kind->flops[1] : 0,
                          .flops_v4 = v4 ? kind->flops[2] : 0,
                          .core_bytes = kind->caches[0] / narrow,
                          .near_bytes = kind->caches[1],
                          .shared_bytes = kind->caches[2],
                          .memory_bytes = kind->memory[0],
                          .loop_ns = kind->loop_ns,
                          .tile_bytes = v4 ? kind->tiles[0] : 0,
                          .tile_bfloat16 = v4 ? kind->tiles[1] : 0 };
}

void core_kind_memory(const core_kind *kind, memory_speed *out)
{
    *out = (memory_speed){ .struct_size = sizeof *out,
                           .all_bytes = kind->memory[1],
                           .paged_bytes = kind->memory[2],
                           .near_size = 1024.0 * kind->sizes[0],
                           .shared_size = 1024.0 * kind->sizes[1],
                           .copied_bytes = kind->caches[3] };
}
