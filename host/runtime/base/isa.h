/* base/isa.h - which instructions this CPU has, in the words of inlay/note.h. */
#ifndef BASE_ISA_H
#define BASE_ISA_H
#include "inlay/status.h"
#include <stdint.h>

/* The highest level of this CPU, INLAY_ISA_*; *out_extra has the instructions beyond. Thread-safe, as is all of this.
 */
uint32_t isa_of_cpu(uint32_t *out_extra);

/* The level that the host's own loops may use: that of the CPU, at most what isa_cap() says. */
uint32_t isa_in_use(void);
/* Caps isa_in_use() by a value of the option `isa`: auto, avx512, avx2 or baseline. INLAY_INVALID_ARGUMENT: another
 * word. */
INLAY_NODISCARD inlay_status isa_cap(const char *name, inlay_diag *diag);

/* "x86-64-v3 (AVX2, FMA, BMI2)" */
const char *isa_level_text(uint32_t level);
/* The first of the instructions, for instance "AVX512-VNNI". */
const char *isa_extra_text(uint32_t extra);
#endif
