/* Kernels over weight blocks (nbits.h) with AVX2: weights are expanded once for all rows, to what a tile of several
 * rows of nbits.c multiplies, and rows are prepared as for tiles. Products by words: for each four k a line of k and
 * k + 2, and one of k + 1 and k + 3. Products by bytes, of weights of at most 4 bits: a line of the four k. */
#include "cpu/weights/nbits_block.h"
#include "inlay/check.h"

enum {
    ROWS = NBITS_FEW_ROWS, /* with two vectors, eight sums in 16 registers */
    VECTORS = NBITS_COLUMNS / VEC_LANES,
    SIZE = sizeof(vint),
    LINE = VECTORS * SIZE, /* all columns of a panel */
    PANEL_BYTES = NBITS_BLOCK_BYTES / NBITS_BESIDE
};

static inline bool are_bytes(const nbits_shape *shape, nbits_mode mode)
{
    return mode == NBITS_BYTE && shape->bits <= 4 && shape->table == NULL;
}

void KERNEL(nbits_spread)(const nbits_tile *tile, nbits_mode mode, int64_t first, int64_t parts, int at,
                          const nbits_spread *out)
{
    const nbits_shape *shape = tile->shape;
    const bool coded = shape->table != NULL, as_bytes = are_bytes(shape, mode), planes = nbits_has_planes(shape->bits);
    const int bits = (int)shape->bits, step = as_bytes ? LINE : 2 * LINE, unit = nbits_unit(bits);
    const int64_t part_bytes = shape->part * NBITS_COLUMNS * bits / 8;
    const uint32_t mask = coded || planes ? 255 : (1u << bits) - 1;
    const vint table = coded ? vint_table(shape->table) : vint_set(0);
    const uint8_t *weights = tile->weights + first * part_bytes, *const end = weights + parts * part_bytes;
    const int64_t ahead = parts_ahead(shape, first, parts) * part_bytes;
    char *to = (char *)out->weights + at * PANEL_BYTES;

    INLAY_CHECK(at >= 0 && at < NBITS_BESIDE && parts <= NBITS_PARTS && first + parts <= nbits_parts(shape));
    for (; weights < end; weights += unit * bits / 32 * LINE) {
        for (int line = 0; line < unit * bits / 32; line++)
            vec_fetch_far(weights + ahead + line * LINE);
        for (int group = 0; group < unit / 4; group++, to += step) {
            VEC_UNROLL
            for (int v = 0; v < VECTORS; v++) {
                const vint packed = vint_load(weights + v * SIZE);
                const unsigned_words four = (unsigned_words)(planes  ? join_planes(weights + v * SIZE, bits, group)
                                                             : coded ? vint_code(packed, bits * group, table)
                                                                     : packed >> bits * group);

                if (as_bytes) {
                    vint_store(to + v * SIZE, (vint)(four & mask * 0x01010101u));
                } else {
                    vint_store(to + v * SIZE, (vint)(four & mask * 0x00010001u));
                    vint_store(to + LINE + v * SIZE, (vint)(four >> 8 & mask * 0x00010001u));
                }
            }
        }
    }
    spread_scales(tile, first, parts, at, out);
}

/* Adds the products of four bytes of each row: pairs of words, or, if as_bytes, four k. */
VEC_INLINE void add_line(const int8_t *const *a, int64_t at, const char *weights, bool as_bytes,
                         vint sum[ROWS][VECTORS])
{
    vint x[VECTORS];

    VEC_UNROLL
    for (int v = 0; v < VECTORS; v++)
        x[v] = vint_hold(vint_load(weights + v * SIZE));
    VEC_UNROLL
    for (int r = 0; r < ROWS; r++) {
        int32_t four;

        memcpy(&four, a[r] + at, sizeof four);
        VEC_UNROLL
        for (int v = 0; v < VECTORS; v++)
            sum[r][v] = as_bytes ? ints_dot_nibbles(sum[r][v], x[v], four) : ints_dot(sum[r][v], x[v], four);
    }
}

/* Integers have no initial values if weights have zero points or minima: prepare() of nbits.c sets them to 0. */
VEC_INLINE void multiply_panel(const nbits_weight_block *block, int panel, bool as_bytes, bool zeros)
{
    const nbits_tile *tile = &block->tile;
    const nbits_shape *shape = tile->shape;
    const bool joint = shape->joint != 0;
    const int64_t all = nbits_parts(shape), part_bytes = as_bytes ? shape->part : 2 * shape->part;
    const char *weights = (const char *)block->spread.weights + panel * PANEL_BYTES;
    const int8_t *a[ROWS];
    int64_t row[ROWS];
    vec sum[ROWS][VECTORS];

    VEC_UNROLL
    for (int r = 0; r < ROWS; r++) { /* missing rows repeat the last one */
        const int64_t from = r < tile->rows ? r : tile->rows - 1;

        row[r] = from * all + block->first;
        a[r] = tile->limbs + from * tile->limbs_row + block->first * tile->limbs_part;
        VEC_UNROLL
        for (int v = 0; v < VECTORS; v++)
            sum[r][v] = vec_zero();
    }
    for (int64_t p = 0; p < block->parts; p++) {
        const int64_t at = (p * NBITS_BESIDE + panel) * NBITS_COLUMNS;
        int64_t k = p * tile->limbs_part;
        const int64_t end = k + part_bytes;
        vint dot[ROWS][VECTORS];

        VEC_UNROLL
        for (int r = 0; r < ROWS; r++) {
            VEC_UNROLL
            for (int v = 0; v < VECTORS; v++)
                dot[r][v] = vint_set(as_bytes || zeros ? 0 : tile->starts[row[r] + p]);
        }
        add_line(a, k, weights, as_bytes, dot); /* outside of the loop an addition to 0 takes no instruction */
        add_line(a, k + 4, weights + LINE, as_bytes, dot);
        weights += 2 * LINE;
        for (k += 8; k < end; k += 8, weights += 2 * LINE) {
            add_line(a, k, weights, as_bytes, dot);
            add_line(a, k + 4, weights + LINE, as_bytes, dot);
        }
        VEC_UNROLL
        for (int r = 0; r < ROWS; r++) {
            VEC_UNROLL
            for (int v = 0; v < VECTORS; v++) {
                const vec scale = vec_load(block->spread.scales + at + v * VEC_LANES),
                          zero = zeros ? vec_load(block->spread.zeros + at + v * VEC_LANES) : vec_zero();

                if (as_bytes)
                    dot[r][v] = ints_of_words(dot[r][v]) + vint_set(zeros ? 0 : tile->starts[row[r] + p]);
                sum[r][v] = add_part(sum[r][v], dot[r][v], scale, zero, tile->sums[row[r] + p],
                                     tile->factors[row[r] + p], zeros, joint);
            }
        }
    }
    VEC_UNROLL
    for (int r = 0; r < ROWS; r++) {
        VEC_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            const int column = panel * NBITS_COLUMNS + v * VEC_LANES;
            const vmask some = vec_first(r < tile->rows ? tile->columns - column : 0);
            float *c = tile->c + r * tile->c_row + column;

            vec_store_some(c, some, vec_add(block->first == 0 ? vec_zero() : vec_load_some(some, c), sum[r][v]));
        }
    }
}

#define PANEL(name, as_bytes, zeros)                                                                                   \
    static void name(const nbits_weight_block *block, int panel)                                                       \
    {                                                                                                                  \
        multiply_panel(block, panel, as_bytes, zeros);                                                                 \
    }
PANEL(words, false, false)
PANEL(words_with_zeros, false, true)
PANEL(bytes, true, false)
PANEL(bytes_with_zeros, true, true)

void KERNEL(nbits_block)(const nbits_weight_block *block, nbits_mode mode)
{
    INLAY_CHECK(block->tile.rows >= 1 && block->tile.rows <= NBITS_FEW_ROWS);
    INLAY_CHECK(block->tile.columns >= 1 && block->tile.columns <= NBITS_BESIDE * NBITS_COLUMNS);
    INLAY_CHECK(block->parts >= 1 && block->first % NBITS_PARTS + block->parts <= NBITS_PARTS);
    for (int panel = 0; panel * NBITS_COLUMNS < block->tile.columns; panel++) {
        if (are_bytes(block->tile.shape, mode))
            (block->tile.zeros != NULL ? bytes_with_zeros : bytes)(block, panel);
        else
            (block->tile.zeros != NULL ? words_with_zeros : words)(block, panel);
    }
}
