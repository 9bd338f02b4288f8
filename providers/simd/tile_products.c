/* The products of tile_products.h for one implementation of tiles. */
#include "simd/tile_products.h"
#include "simd/vec.h"

#define C 0
#define A 1
#define B 2

static void product(tile_kind kind, int rows, int columns, int quads, const void *a, const void *b, void *c)
{
    tile_shapes shapes = { 0 };
    tile_file s;

    tile_shape(&shapes, C, rows, 4 * columns);
    tile_shape(&shapes, A, rows, 4 * quads);
    tile_shape(&shapes, B, quads, 4 * columns);
    tile_begin(&s, &shapes);
    tile_load(&s, C, c, 4 * columns);
    tile_load(&s, A, a, 4 * quads);
    tile_load(&s, B, b, 4 * columns);
    switch (kind) {
    case TILE_UU:
        tile_dot_uu(&s, C, A, B);
        break;
    case TILE_US:
        tile_dot_us(&s, C, A, B);
        break;
    case TILE_SU:
        tile_dot_su(&s, C, A, B);
        break;
    case TILE_SS:
        tile_dot_ss(&s, C, A, B);
        break;
    default:
        tile_dot_bf16(&s, C, A, B);
        break;
    }
    tile_store(&s, C, c, 4 * columns);
    tile_end(&s);
}

const tile_products KERNEL(tile_products) = { .product = product };
