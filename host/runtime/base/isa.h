/* base/isa.h - the instruction sets of this CPU, as inlay/note.h names them. */
#ifndef BASE_ISA_H
#define BASE_ISA_H
#include "inlay/status.h"
#include <stdint.h>

/* The highest level of this CPU, INLAY_ISA_*; *out_extra receives the extensions beyond that level. All functions here
 * are thread-safe. */
uint32_t isa_of_cpu(uint32_t *out_extra);

/* The level that built-in loops of the host may use: that of the CPU, limited by isa_cap(). */
uint32_t isa_in_use(void);
/* Limits isa_in_use() to a value of the option `isa`: auto, amx, avx512, avx2, neon_i8mm, neon_dot, rvv or baseline.
 * INLAY_INVALID_ARGUMENT for other names. */
INLAY_NODISCARD inlay_status isa_cap(const char *name, inlay_diag *diag);

/* "x86-64-v3 (AVX2, FMA, BMI2)" */
const char *isa_level_text(uint32_t level);
/* The name of the lowest set extension bit, for instance "AVX512-VNNI". */
const char *isa_extra_text(uint32_t extra);
#endif
