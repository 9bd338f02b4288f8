/* tile.h - matrix tiles: eight registers of up to 16 rows of up to 64 bytes, and their products.
 *
 * A kernel that uses tiles is one source. At the level amx, tiles are registers of Intel's AMX; at other levels they
 * are arrays in memory with the same results, so that every machine can test the kernel. Registers are numbered 0 to 7;
 * a number is a literal or a macro (GCC's intrinsics paste it). s is a tile_file, a local variable of the kernel.
 *
 *   tile_begin(s, c)          starts: shapes c (tile_shapes), all registers 0. May be called again, with other shapes
 *   tile_end(s)               releases the registers. A kernel calls it before its thread does anything else, so that
 *                             neither other code nor the frames of later signals contain state of tiles
 *   TILE_STAYS                1: until then, all tile_files of a thread are the same; 0: each needs a tile_begin()
 *   tile_zero(s, t)
 *   tile_load(s, t, p, step)  rows of register t from p, p + step, ...; step counts bytes and may be 0
 *   tile_load_once(s, t, p, step)
 *                             the same for rows that are not read again soon: they displace less in the cache
 *   tile_store(s, t, p, step)
 *   tile_dot_uu us su ss(s, c, a, b)
 *                             c += a b in int32, modulo 2^32. A row of a contains quads of bytes along k; row q of b
 *                             the quad q of each column. First letter: a is unsigned or signed; second: b
 *   tile_dot_bf16(s, c, a, b) c += a b in float; pairs of bfloat16 instead of quads. Even and odd terms of a sum are
 *                             added apart, in the order of k, starting at 0, each with one rounding of product and
 *                             sum, to nearest even; then odd to even, then both to c. Subnormal operands and results
 *                             count as 0. No exceptions, and the rounding mode has no effect. Which NaN results is
 *                             not defined
 *
 * The shape of a product follows from the registers: rows of c and a, columns of c and b; the bytes of a row of a are
 * four times the rows of b. */
#ifndef SIMD_TILE_H
#define SIMD_TILE_H
#include <stdint.h>

enum { TILE_REGISTERS = 8, TILE_ROWS = 16, TILE_BYTES = 64 };

/* The shapes of all registers, as LDTILECFG reads them. */
typedef struct tile_shapes {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tile_shapes;
_Static_assert(sizeof(tile_shapes) == 64, "the operand of LDTILECFG");

/* Sets the shape of register t; shapes: {0} before the first call. */
static inline void tile_shape(tile_shapes *shapes, int t, int rows, int bytes)
{
    shapes->palette = 1;
    shapes->rows[t] = (uint8_t)rows;
    shapes->bytes[t] = (uint16_t)bytes;
}

#if defined(KERNEL_IS_amx)
#include "simd/tile_amx.h"
#else
#include "simd/tile_c.h"
#endif
#endif
