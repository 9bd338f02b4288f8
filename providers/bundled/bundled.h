/* bundled.h - the providers as programs of `inlay bundle` have them: linked in, without a plugin around them. */
#ifndef BUNDLED_H
#define BUNDLED_H
#include "inlay/kit.h"

/* Tables of the operators that the model has, those for one level of instructions in each list, which ends in NULL. A
 * list may be empty. */
typedef struct bundled_tables {
    const kit_table *const *avx512, *const *avx2, *const *neon;
    const kit_table *const *plain; /* runs what the level in use has no table for */
} bundled_tables;
/* The operators that are no regions of the provider cpu: its own and those of the provider reference. */
const inlay_provider *bundled_reference(const inlay_host *host, const bundled_tables *tables);
/* The provider cpu. */
const inlay_provider *bundled_cpu(const inlay_host *host);
/* The instructions that kernels use on this CPU, as a number: what is packed is kept under it. */
uint32_t bundle_level(void);
/* The most that kernels may use, before anything asks: "avx2". */
void bundle_cap(const char *isa);
/* Takes one of the three kinds of CPU that loops over bytes know, before anything asks: AVX-512 VNNI, AVX-VNNI, AVX2.
 * One with AVX-512 and no VNNI is of the last. */
void bundle_cap_bytes(void);
#endif
