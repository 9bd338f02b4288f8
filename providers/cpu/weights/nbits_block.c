/* Kernels over weight blocks, see nbits.h: weights are expanded once for all rows, and a word of activations is loaded
 * once for all panels.
 *
 * With 8 bits, activations are stored unsigned, plus 128, and the middle of their range is subtracted from weights. The
 * contribution of the 128 is one number for each part of a column. With 16 bits, every other group of four k uses one
 * multiplication for two products, as in dot_words() of nbits.c. */
#include "cpu/weights/nbits_block.h"
#include "inlay/check.h"

typedef uint8_t chars __attribute__((vector_size(VEC_LANES * 4)));
typedef uint16_t shorts __attribute__((vector_size(VEC_LANES * 4)));

enum { ROWS = NBITS_FEW_ROWS, BESIDE = NBITS_BESIDE, SIZE = sizeof(vint), NEXT = BESIDE * SIZE }; /* bytes of four k */

VEC_INLINE vint word_at(const int8_t *p)
{
    int32_t x;

    memcpy(&x, p, sizeof x);
    return vint_hold(vint_set(x));
}

/* Weights minus the middle of their range: of four k as bytes; or of k and k + 2 (odd = 0), or k + 1 and k + 3 (odd =
 * 1), as words. */
VEC_INLINE vint bytes_of(vint w, int bits, uint32_t shift)
{
    const vint x = (vint)((unsigned_words)w >> shift & ((1u << bits) - 1) * 0x01010101u);

    return (vint)((chars)x - (uint8_t)(1u << (bits - 1)));
}

VEC_INLINE vint words_of(vint w, int bits, uint32_t shift, int odd)
{
    const vint x = (vint)((unsigned_words)w >> (shift + 8 * (uint32_t)odd) & ((1u << bits) - 1) * 0x00010001u);

    return (vint)((shorts)x - (uint16_t)(1u << (bits - 1)));
}

/* coded: the weights are indexes of the table. */
VEC_INLINE void spread_bits(const nbits_tile *tile, nbits_mode mode, int size, bool coded, int64_t first, int64_t parts,
                            int at, int8_t *out, int32_t *starts)
{
    const nbits_shape *shape = tile->shape;
    const int part = (int)shape->part, per = nbits_unit(size) / 4, part_bytes = part * NBITS_COLUMNS * size / 8;
    const int unit_bytes = 4 * per * NBITS_COLUMNS * size / 8, bits = coded ? 8 : size;
    const bool planes = nbits_has_planes(size);
    const vint table = coded ? vint_table(shape->table) : vint_set(0);
    const uint8_t *weights = tile->weights + first * part_bytes,
                  *ahead = weights + parts_ahead(shape, first, parts) * part_bytes;

    out += at * SIZE;
    for (int64_t p = 0; p < parts; p++) {
        vint sum = vint_set(0);

        for (int k = 0; k < part; k += 4 * per, weights += unit_bytes, ahead += unit_bytes) {
            const vint packed = vint_load(weights);

            VEC_UNROLL
            for (int line = 0; line < unit_bytes; line += SIZE)
                vec_fetch_far(ahead + line);
            VEC_UNROLL
            for (int g = 0; g < per; g++) {
                const vint word = coded    ? vint_code(packed, 4 * g, table)
                                  : planes ? join_planes(weights, bits, g)
                                           : packed;
                const uint32_t shift = coded || planes ? 0 : (uint32_t)(bits * g);

                if (mode == NBITS_BYTE) {
                    sum = ints_dot_bytes(sum, vint_set(0x01010101), vint_store(out, bytes_of(word, bits, shift)));
                    out += NEXT;
                } else {
                    const vint even = words_of(word, bits, shift, 0), odd = words_of(word, bits, shift, 1);
                    const bool joined = (k / 4 + g) % 2 == 0;

                    sum = joined ? ints_dot_words(sum, even, odd) : sum;
                    vint_store(out, joined ? odd : even);
                    vint_store(out + NEXT, joined ? even : odd);
                    out += 2 * NEXT;
                }
            }
        }
        vint_store(starts + (p * BESIDE + at) * NBITS_COLUMNS, mode == NBITS_BYTE ? -128 * sum : -sum);
    }
}

void KERNEL(nbits_spread)(const nbits_tile *tile, nbits_mode mode, int64_t first, int64_t parts, int at,
                          const nbits_spread *out)
{
#define WAYS(bits, coded)                                                                                              \
    if (mode == NBITS_BYTE)                                                                                            \
        spread_bits(tile, NBITS_BYTE, bits, coded, first, parts, at, out->weights, out->starts);                       \
    else                                                                                                               \
        spread_bits(tile, NBITS_FINE, bits, coded, first, parts, at, out->weights, out->starts);
    INLAY_CHECK(at >= 0 && at < NBITS_BESIDE && parts <= NBITS_PARTS && first + parts <= nbits_parts(tile->shape));
    if (tile->shape->table != NULL) {
        WAYS(4, true)
    } else if (tile->shape->bits == 4) {
        WAYS(4, false)
    } else if (tile->shape->bits == 8) {
        WAYS(8, false)
    } else if (tile->shape->bits == 5) {
        WAYS(5, false)
    } else if (tile->shape->bits == 6) {
        WAYS(6, false)
    } else {
        WAYS(2, false)
    }
#undef WAYS
    spread_scales(tile, first, parts, at, out);
}

VEC_INLINE void load_words(const int8_t *weights, vint x[BESIDE])
{
    VEC_UNROLL
    for (int v = 0; v < BESIDE; v++)
        x[v] = vint_hold(vint_load(weights + v * SIZE));
}

/* Adds the products of eight k to acc: the rows at a[r] + at by weights. */
VEC_INLINE void add_bytes(const int8_t *const *a, int64_t at, const int8_t *weights, vint acc[ROWS][BESIDE])
{
    VEC_UNROLL
    for (int half = 0; half < 2; half++) {
        vint x[BESIDE];

        load_words(weights + half * NEXT, x);
        VEC_UNROLL
        for (int r = 0; r < ROWS; r++) {
            const vint four = word_at(a[r] + at + 4 * half);

            VEC_UNROLL
            for (int v = 0; v < BESIDE; v++)
                acc[r][v] = ints_dot_bytes(acc[r][v], four, x[v]);
        }
    }
}

/* The same with 16 bits. The first four k use one multiplication for two products, as described above. */
VEC_INLINE void add_words(const int8_t *const *a, int64_t at, const int8_t *weights, vint acc[ROWS][BESIDE])
{
    VEC_UNROLL
    for (int half = 0; half < 2; half++) {
        vint x[BESIDE], y[BESIDE];

        load_words(weights + 2 * half * NEXT, x);
        load_words(weights + (2 * half + 1) * NEXT, y);
        VEC_UNROLL
        for (int r = 0; r < ROWS; r++) {
            const vint even = word_at(a[r] + at + 8 * half), odd = word_at(a[r] + at + 8 * half + 4);

            VEC_UNROLL
            for (int v = 0; v < BESIDE; v++) {
                if (half == 0) {
                    acc[r][v] = ints_dot_words(acc[r][v], (vint)((shorts)even + (shorts)x[v]),
                                               (vint)((shorts)odd + (shorts)y[v]));
                } else {
                    acc[r][v] = ints_dot_words(acc[r][v], even, x[v]);
                }
            }
            VEC_UNROLL
            for (int v = 0; half == 1 && v < BESIDE; v++)
                acc[r][v] = ints_dot_words(acc[r][v], odd, y[v]);
        }
    }
}

VEC_INLINE void multiply_block(const nbits_weight_block *block, nbits_mode mode, bool zeros, bool joint)
{
    const nbits_tile *tile = &block->tile;
    const nbits_shape *shape = tile->shape;
    const int part = (int)shape->part;
    const int64_t all = nbits_parts(shape);
    const int8_t *weights = block->spread.weights, *a[ROWS];
    int64_t row[ROWS];
    vec sum[ROWS][BESIDE];

    VEC_UNROLL
    for (int r = 0; r < ROWS; r++) { /* missing rows repeat the last one */
        row[r] = (r < tile->rows ? r : tile->rows - 1) * all;
        a[r] = tile->limbs + (r < tile->rows ? r : tile->rows - 1) * tile->limbs_row + block->first * (int)mode * part;
        VEC_UNROLL
        for (int v = 0; v < BESIDE; v++)
            sum[r][v] = vec_zero();
    }
    for (int64_t p = 0; p < block->parts; p++) {
        const int64_t at = p * BESIDE * NBITS_COLUMNS;
        vint acc[ROWS][BESIDE];

        VEC_UNROLL
        for (int v = 0; v < BESIDE; v++) {
            const vint start = vint_load(block->spread.starts + at + v * NBITS_COLUMNS);

            VEC_UNROLL
            for (int r = 0; r < ROWS; r++)
                acc[r][v] = start;
        }
        for (int k = 0; k < part; k += 8, weights += 2 * (int)mode * NEXT) {
            if (mode == NBITS_BYTE)
                add_bytes(a, p * part + k, weights, acc);
            else
                add_words(a, 2 * (p * part + k), weights, acc);
        }
        VEC_UNROLL
        for (int r = 0; r < ROWS; r++) {
            const int64_t of_row = row[r] + block->first + p;
            const unsigned_words start = (unsigned_words)vint_set(tile->starts[of_row]);

            VEC_UNROLL
            for (int v = 0; v < BESIDE; v++) {
                const vint dot = (vint)((unsigned_words)acc[r][v] + start);
                const vec zero = zeros ? vec_load(block->spread.zeros + at + v * NBITS_COLUMNS) : vec_zero();

                sum[r][v] = add_part(sum[r][v], dot, vec_load(block->spread.scales + at + v * NBITS_COLUMNS), zero,
                                     tile->sums[of_row], tile->factors[of_row], zeros, joint);
            }
        }
    }
    VEC_UNROLL
    for (int r = 0; r < ROWS; r++) {
        float *c = tile->c + r * tile->c_row;

        VEC_UNROLL
        for (int v = 0; v < BESIDE; v++, c += NBITS_COLUMNS) {
            const vmask some = vec_first(r < tile->rows ? tile->columns - v * NBITS_COLUMNS : 0);

            vec_store_some(c, some, vec_add(block->first == 0 ? vec_zero() : vec_load_some(some, c), sum[r][v]));
        }
    }
}

void KERNEL(nbits_block)(const nbits_weight_block *block, nbits_mode mode)
{
    INLAY_CHECK(block->tile.rows >= 1 && block->tile.rows <= NBITS_FEW_ROWS);
    INLAY_CHECK(block->tile.columns >= 1 && block->tile.columns <= NBITS_BESIDE * NBITS_COLUMNS);
    INLAY_CHECK(block->parts >= 1 && block->first % NBITS_PARTS + block->parts <= NBITS_PARTS);
    if (block->tile.zeros != NULL && block->tile.shape->joint != 0)
        mode == NBITS_BYTE ? multiply_block(block, NBITS_BYTE, true, true)
                           : multiply_block(block, NBITS_FINE, true, true);
    else if (block->tile.zeros != NULL)
        mode == NBITS_BYTE ? multiply_block(block, NBITS_BYTE, true, false)
                           : multiply_block(block, NBITS_FINE, true, false);
    else /* scales are floats here */
        mode == NBITS_BYTE ? multiply_block(block, NBITS_BYTE, false, false)
                           : multiply_block(block, NBITS_FINE, false, false);
}
