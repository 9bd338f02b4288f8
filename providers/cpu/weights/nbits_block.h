/* nbits_block.h - kernels over weight blocks (nbits.h), for CPUs with dot products of bytes and of 16-bit words.
 * nbits.c puts them into the kernel table. */
#ifndef CPU_NBITS_BLOCK_H
#define CPU_NBITS_BLOCK_H
#include "cpu/weights/nbits.h"
#include "simd/vec.h"

void KERNEL(nbits_spread)(const nbits_tile *tile, nbits_mode mode, int64_t first, int64_t parts, int at,
                          const nbits_spread *out);
void KERNEL(nbits_block)(const nbits_weight_block *block, nbits_mode mode);
#endif
