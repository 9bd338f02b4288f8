/* The kernel nbits_tiles (nbits.h) over the tiles of one implementation (simd/tile.h). The weights of a panel are
 * expanded to unsigned bytes, once for all rows. A product of tiles sums one part: its activations are one factor per
 * row, and its weights one scale per column. */
#include "cpu/weights/nbits_scales.h"
#include "inlay/check.h"
#include "simd/tile.h"

_Static_assert((int)VEC_LANES == (int)NBITS_COLUMNS, "a vector is a row of a panel");
enum { MOST_PART = 32 };

/* coded: the weights are indexes of the table. */
VEC_INLINE void spread(const nbits_tile *tile, int bits, bool coded, int64_t first, int64_t count, uint8_t *out)
{
    const int part = (int)tile->shape->part, per = nbits_unit(bits) / 4;
    const bool planes = nbits_has_planes(bits);
    const uint8_t *weights = tile->weights + first * part * NBITS_COLUMNS * bits / 8;
    const vint table = coded ? vint_table(tile->shape->table) : vint_set(0);

    for (int64_t k = 0; k < count * part; k += 4 * per, weights += 4 * per * NBITS_COLUMNS * bits / 8) {
        const vint word = vint_load(weights);

        VEC_UNROLL
        for (int g = 0; g < per; g++, out += sizeof(vint)) {
            const vint quads =
                coded    ? vint_code(word, bits * g, table)
                : planes ? join_planes(weights, bits, g)
                         : (vint)((unsigned_words)word >> (uint32_t)(bits * g) & ((1u << bits) - 1) * 0x01010101u);

            memcpy(out, &quads, sizeof quads);
        }
    }
}

/* The sums of a few parts; all are stored before the first is loaded, since a load has to wait for stores of tiles. */
enum { TOGETHER = 8 };
typedef struct part_sums {
    _Alignas(64) int32_t high[TOGETHER][TILE_ROWS][NBITS_COLUMNS], low[TOGETHER][TILE_ROWS][NBITS_COLUMNS];
} part_sums;

VEC_INLINE void sum_parts(const nbits_mode mode, int part, tile_file *s, const int8_t *limbs, int64_t limbs_row,
                          int64_t limbs_part, const uint8_t *weights, int64_t count, part_sums *out)
{
    for (int64_t p = 0; p < count; p++, limbs += limbs_part, weights += part * NBITS_COLUMNS) {
        tile_zero(s, 0);
        tile_load(s, 6, weights, (int)sizeof(vint));
        if (mode == NBITS_FINE) {
            tile_load(s, 4, limbs, limbs_row);
            tile_zero(s, 1);
            tile_load(s, 5, limbs + part, limbs_row);
            tile_dot_su(s, 1, 4, 6);
            tile_dot_su(s, 0, 5, 6);
            tile_store(s, 1, out->high[p], sizeof out->high[p][0]);
        } else {
            tile_load(s, 5, limbs, limbs_row);
            tile_dot_su(s, 0, 5, 6);
        }
        tile_store(s, 0, out->low[p], sizeof out->low[p][0]);
    }
}

/* Up to TILE_ROWS rows from `row` on, by parts [first, first + count), whose expanded weights are given. */
VEC_INLINE void multiply_rows(const nbits_tile *tile, const nbits_mode mode, const bool zeros, const bool joint,
                              tile_file *s, int64_t row, int rows, int64_t first, int64_t count, const uint8_t *weights)
{
    const int part = (int)tile->shape->part;
    const int64_t all = nbits_parts(tile->shape), of_block = tile->shape->padded / part;
    const int8_t *limbs = tile->limbs + row * tile->limbs_row + first * tile->limbs_part;
    const float *factors = tile->factors + row * all + first;
    const float *sums = tile->sums + row * all + first;
    const int32_t *starts = tile->starts + row * all + first;
    int64_t block = first / of_block, left = of_block - first % of_block; /* left: parts of the block of k */
    vec sum[TILE_ROWS];
    part_sums out;

    if (rows < TILE_ROWS)
        memset(&out, 0, sizeof out); /* rows that the tiles lack */
    VEC_UNROLL
    for (int r = 0; r < TILE_ROWS; r++)
        sum[r] = vec_zero();
    for (int64_t p = 0; p < count; p++) {
        const int shift = (int)tile->shape->joint;
        const vec scale = scale_of(scales_at(tile->scales, joint, shift, block), joint, 0),
                  zero = zeros ? scale_of(scales_at(tile->zeros, joint, shift, block), joint, 0) : vec_zero();
        int64_t at = p;
        const int in = (int)(p % TOGETHER);

        if (in == 0)
            sum_parts(mode, part, s, limbs + p * tile->limbs_part, tile->limbs_row, tile->limbs_part,
                      weights + p * part * NBITS_COLUMNS, count - p < TOGETHER ? count - p : TOGETHER, &out);
        VEC_UNROLL
        for (int r = 0; r < TILE_ROWS; r++, at += all) {
            vint dot = vint_load(out.low[in][r]);

            if (mode == NBITS_FINE)
                dot += vint_load(out.high[in][r]) << 8;
            if (!zeros)
                dot += vint_set(starts[at]);
            sum[r] = add_part(sum[r], dot, scale, zero, sums[at], factors[at], zeros, joint);
        }
        if (--left == 0) {
            left = of_block;
            block++;
        }
    }
    VEC_UNROLL
    for (int r = 0; r < TILE_ROWS; r++) {
        const vmask some = vec_first(r < rows ? tile->columns : 0);
        float *c = tile->c + (row + r) * tile->c_row;

        vec_store_some(c, some, vec_add(first == 0 ? vec_zero() : vec_load_some(some, c), sum[r]));
    }
}

static void set_shapes(tile_shapes *shapes, int rows, int part)
{
    for (int t = 0; t < 2; t++)
        tile_shape(shapes, t, rows, TILE_BYTES);
    for (int t = 4; t < 6; t++)
        tile_shape(shapes, t, rows, part);
    tile_shape(shapes, 6, part / 4, TILE_BYTES);
}

VEC_INLINE void multiply_panel(const nbits_tile *tile, const nbits_mode mode, const bool zeros, const bool joint)
{
    const int64_t parts = nbits_parts(tile->shape);
    _Alignas(64) uint8_t weights[NBITS_PARTS * MOST_PART * NBITS_COLUMNS];
    tile_shapes shapes = { 0 };
    int shaped = 0;
    tile_file s;

    for (int64_t first = 0; first < parts; first += NBITS_PARTS) {
        const int64_t count = parts - first < NBITS_PARTS ? parts - first : NBITS_PARTS;

        if (tile->shape->table != NULL)
            spread(tile, 4, true, first, count, weights);
        else if (tile->shape->bits == 4)
            spread(tile, 4, false, first, count, weights);
        else if (tile->shape->bits == 8)
            spread(tile, 8, false, first, count, weights);
        else if (tile->shape->bits == 5)
            spread(tile, 5, false, first, count, weights);
        else if (tile->shape->bits == 6)
            spread(tile, 6, false, first, count, weights);
        else
            spread(tile, 2, false, first, count, weights);
        for (int64_t row = 0; row < tile->rows; row += TILE_ROWS) {
            const int rows = tile->rows - row < TILE_ROWS ? (int)(tile->rows - row) : TILE_ROWS;

            if (rows != shaped) {
                set_shapes(&shapes, rows, (int)tile->shape->part);
                tile_begin(&s, &shapes);
                shaped = rows;
            }
            multiply_rows(tile, mode, zeros, joint, &s, row, rows, first, count, weights);
        }
    }
    tile_end(&s);
}

static void panel(const nbits_tile *tile, nbits_mode mode)
{
    const bool joint = tile->shape->joint != 0;

    INLAY_CHECK(tile->shape->part <= MOST_PART && tile->rows >= 1);
    if (mode == NBITS_FINE && tile->zeros != NULL)
        joint ? multiply_panel(tile, NBITS_FINE, true, true) : multiply_panel(tile, NBITS_FINE, true, false);
    else if (mode == NBITS_FINE)
        joint ? multiply_panel(tile, NBITS_FINE, false, true) : multiply_panel(tile, NBITS_FINE, false, false);
    else if (tile->zeros != NULL)
        joint ? multiply_panel(tile, NBITS_BYTE, true, true) : multiply_panel(tile, NBITS_BYTE, true, false);
    else
        joint ? multiply_panel(tile, NBITS_BYTE, false, true) : multiply_panel(tile, NBITS_BYTE, false, false);
}

const nbits_tiles KERNEL(nbits_tiles) = { .many = NBITS_TILE_ROWS, .panel = panel };
