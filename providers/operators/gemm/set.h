/* gemm/set.h - the sets of microkernels, one per instruction set. */
#ifndef GEMM_SET_H
#define GEMM_SET_H
#include "operators/gemm.h"

typedef const gemm_kernel *const gemm_set[GEMM_TYPE_COUNT];
extern gemm_set gemm_set_avx512, gemm_set_avx2, gemm_set_neon, gemm_set_rvv, gemm_set_wasm, gemm_set_c;
extern __attribute__((weak)) gemm_set gemm_set_uniform, gemm_set_uniform_c;
extern __attribute__((weak)) const gemm_kernel gemm_bf16_neon_i8mm; /* only in the plugin cpu */

/* The engine of blocked multiplication, which uses the best of these sets for this CPU. */
extern const gemm_engine blocked_engine;
const gemm_kernel *gemm_kernel_best(uint32_t type);
/* The i-th kernel that this CPU can run, best first; NULL after the last. For tests. */
const gemm_kernel *gemm_kernel_at(uint32_t type, uint32_t i);

/* The functions of a gemm_kernel besides its microkernels, see gemm.h. */
void gemm_blocks_plan(const gemm_job *job, uint32_t threads, int64_t *out_tile_m, int64_t *out_tile_n);
uint64_t gemm_blocks_pack_bytes(const gemm_job *job);
gemm_price gemm_blocks_price(const gemm_kernel *kernel, const product_size *size);
void gemm_blocks_multiply(const gemm_job *job, const gemm_tile *tile, void *workspace);
#endif
