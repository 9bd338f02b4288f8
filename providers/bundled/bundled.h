/* bundled.h - the providers of programs of `inlay bundle`. They are linked statically and have no plugin interface. */
#ifndef BUNDLED_H
#define BUNDLED_H
#include "inlay/kit_kernel.h"
#include "inlay/plugin.h"
#include <stdbool.h>

/* Tables of the model's operators: one list per instruction level, terminated by NULL. A list may be empty. */
typedef struct bundled_tables {
    const kit_table *const *avx512, *const *avx2;
    const kit_table *const *only;  /* of arm64 and WebAssembly, which have one level */
    const kit_table *const *plain; /* for operators without a table of the level in use */
} bundled_tables;
/* The operators outside of regions: those of the providers cpu and reference. */
const inlay_provider *bundled_reference(const inlay_host *host, const bundled_tables *tables);
/* The provider cpu. */
const inlay_provider *bundled_cpu(const inlay_host *host);
/* A number that identifies the instructions that kernels use on this CPU. It is part of the key of cached packed
 * weights. */
uint32_t bundle_level(void);
/* Uses uniform kernels (simd/cpu.h) if the program contains them, as it does with --reproducible cpu. Returns whether
 * it contains them. Call after bundle_limit_isa(). */
bool bundle_use_uniform(void);
/* Limits the instruction level, for example to "avx2". Call before any kernel is chosen. */
void bundle_limit_isa(const char *isa);
/* Reduces the CPU to one of the three kinds that 8-bit kernels support: AVX-512 VNNI, AVX-VNNI, AVX2. A CPU with
 * AVX-512 but without VNNI counts as AVX2. Call before any kernel is chosen. */
void bundle_limit_byte_kernels(void);
#endif
