/* base/core_kind.h - kinds of CPUs, and the speed of a core of each: a table, so that the same machine always has the
 * same prices, and makes the same choices. */
#ifndef BASE_CORE_KIND_H
#define BASE_CORE_KIND_H
#include "inlay/status.h"
#include <stdbool.h>

struct inlay_speed;

struct memory_speed; /* kit/memory_speed.h */

typedef struct core_kind {
    char name[12];     /* for INLAY_CPU_KIND, --on and reports: "zen5" */
    char title[24];    /* "AMD Zen 5" */
    char architecture; /* 'x': x86-64, 'a': arm64, 'w': WebAssembly; 0: any */
    char vendor;       /* the first letter of CPUID's vendor; 0: any */
    bool measured;     /* otherwise the speeds are computed from published figures */
    uint16_t id;       /* the least family of CPUID, or the part number of MIDR; 0: any */
    uint16_t level;    /* what the CPU must have at least: INLAY_ISA_* */
    uint32_t extra;
    uint16_t flops[3], caches[4], memory[3], loop_ns, tiles[2]; /* in the order of the speeds */
    uint32_t sizes[2];                                          /* of the caches, in KiB */
} core_kind;

/* The kind of this machine's CPU by its identification; that of environment variable INLAY_CPU_KIND, if it is the name
 * of one; or the assumed one. Any thread. */
const core_kind *core_kind_in_use(void);
/* The first letter of the vendor, and the family, of this x86 CPU, or the part number of this ARM CPU; 0: not known. */
char core_identify(uint32_t *out_id);
/* The kind of that name; NULL: there is none, or name is NULL. */
const core_kind *core_kind_find(const char *name);
/* The same. INLAY_NOT_FOUND, with the known names: there is none. */
INLAY_NODISCARD inlay_status core_kind_get(const char *name, const core_kind **out_kind, inlay_diag *diag);
/* The kind at a place of the table, from 0 on; NULL: after the last one. */
const core_kind *core_kind_at(uint32_t place);
/* Makes core_kind_in_use() return the kind of that name. Call before the first session of the process.
 * INLAY_NOT_FOUND, with the known names: there is no such kind. */
INLAY_NODISCARD inlay_status core_kind_assume(const char *name, inlay_diag *diag);
/* Returns whether core_kind_assume() was called. */
bool core_kind_is_assumed(void);
/* The value of option isa for that kind: its kernels, unless this CPU lacks their instructions. */
const char *core_kind_isa(const core_kind *kind);
/* The speed of a core, without levels above `level`. */
void core_kind_speed(const core_kind *kind, uint32_t level, struct inlay_speed *out);
void core_kind_memory(const core_kind *kind, struct memory_speed *out);
#endif
