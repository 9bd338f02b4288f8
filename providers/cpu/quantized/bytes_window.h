/* bytes_window.h - the depthwise kernels of bytes_window.c, which bytes.c puts into the table of the same instance. */
#ifndef CPU_BYTES_WINDOW_H
#define CPU_BYTES_WINDOW_H
#include "cpu/quantized/byte_set.h"
#include "simd/vec.h"

/* Channels of a block: 64 with quads, two vectors with pairs. */
enum { BYTES_BLOCK = VEC_LANES == 16 ? 64 : 2 * VEC_LANES };

/* They multiply pairs of words on arm64, so all instances of bytes.c use those of neon there.
 * Those of avx2_pairs would be the same as those of avx2. */
#if defined(KERNEL_IS_neon)
#define BYTES_WINDOW(name) name##_neon
#elif defined(KERNEL_IS_avx2_pairs)
#define BYTES_WINDOW(name) name##_avx2
#else
#define BYTES_WINDOW(name) KERNEL(name)
#endif
void BYTES_WINDOW(bytes_window)(const byte_window *window);
int BYTES_WINDOW(bytes_sum_place)(byte_block kind, int channel);
int BYTES_WINDOW(bytes_tap_place)(byte_block kind, int channel, int row);
#endif
