/* bundled.h - the providers as programs of `inlay bundle` have them: linked in, without a plugin around them. */
#ifndef BUNDLED_H
#define BUNDLED_H
#include "inlay/kit.h"

/* The provider reference with these tables, those of the operators that the model has. */
const inlay_provider *bundled_reference(const inlay_host *host, const kit_table *const *tables, uint32_t count);
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
