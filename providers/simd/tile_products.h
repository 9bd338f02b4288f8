/* tile_products.h - single products of tiles (tile.h), for tests. */
#ifndef SIMD_TILE_PRODUCTS_H
#define SIMD_TILE_PRODUCTS_H
#include "simd/tile.h"
#include "simd/instances.h"

typedef enum tile_kind { TILE_UU, TILE_US, TILE_SU, TILE_SS, TILE_BF16, TILE_KINDS } tile_kind;

typedef struct tile_products {
    /* c[rows][columns] += a b, int32 or float; a: [rows][4 quads] bytes or [rows][2 quads] bfloat16, b:
     * [quads][columns] quads or pairs. Rows, columns and quads: 1 to 16. */
    void (*product)(tile_kind kind, int rows, int columns, int quads, const void *a, const void *b, void *c);
} tile_products;
extern const tile_products tile_products_amx; /* x86-64 only; where tile_problem() is NULL */
extern const tile_products tile_products_c;
#endif
