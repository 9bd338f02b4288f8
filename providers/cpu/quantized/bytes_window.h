/* bytes_window.h - the depthwise kernels of bytes_window.c, which bytes.c puts into the table of the same instance. */
#ifndef CPU_BYTES_WINDOW_H
#define CPU_BYTES_WINDOW_H
#include "cpu/quantized/byte_set.h"
#include "simd/vec.h"

/* Channels of a block: 64 with quads, two vectors with pairs. */
enum { BYTES_BLOCK = VEC_LANES == 16 ? 64 : 2 * VEC_LANES };

void KERNEL(bytes_window)(const byte_window *window);
int KERNEL(bytes_sum_place)(byte_block kind, int channel);
int KERNEL(bytes_tap_place)(byte_block kind, int channel, int row);
#endif
