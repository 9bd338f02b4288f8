/* The kernels of nbits.h for one instruction set, written in terms of simd/vec.h. */
#include "cpu/weights/nbits_block.h"
#include "cpu/weights/nbits_coding.h"
#include "inlay/check.h"
#include <float.h>

enum {
    RUN = NBITS_PARTS, /* parts in one chain of additions */
    TOP_FINE = 32639,  /* the largest integer of two limbs: 256 * 127 + 127 */
    AHEAD = 6144       /* prefetch distance in bytes of weights: reading them bounds the speed of a single row */
};
#define LEAST_TOP 1e-30f /* the smallest maximum of a part that gets a factor; smaller parts use floats */

/* Multiplies in the order of the bits of a word. With few rows there are up to four sums per row, to hide the latency
 * of additions. */
VEC_INLINE void exact_tile(const nbits_tile *tile, struct coding packed, int rows, bool zeros, bool joint)
{
    enum { SUMS = 4 };
    const nbits_shape *shape = tile->shape;
    const struct coding c = exact_coding(packed);
    const int bits = c.bits, chains = rows == 1 ? SUMS : rows == 2 ? 2 : 1, unit = nbits_unit(bits);
    const int64_t parts = shape->padded / shape->part;
    const uint8_t *weights = tile->weights;
    int64_t done = 0, k = 0;
    float table[17];
    vec sum[NBITS_ROWS][VECTORS], total[NBITS_ROWS][VECTORS];

    make_table(shape, c, zeros ? 0 : tile->zero, table);
    VEC_UNROLL
    for (int r = 0; r < rows; r++) {
        VEC_UNROLL
        for (int v = 0; v < VECTORS; v++)
            sum[r][v] = total[r][v] = vec_zero();
    }
    for (int64_t b = 0; b < shape->blocks; b++) {
        const block_scales scales = scales_at(tile->scales, joint, shape->joint, b),
                           minima = scales_at(zeros ? tile->zeros : tile->scales, joint, shape->joint, b);

        for (int64_t p = 0; p < parts; p++) {
            VEC_UNROLL
            for (int v = 0; v < VECTORS; v++) {
                const vec scale = scale_of(scales, joint, v * VEC_LANES);
                const vec zero = zeros ? scale_of(minima, joint, v * VEC_LANES) : vec_zero();
                vec part[NBITS_ROWS][SUMS];

                VEC_UNROLL
                for (int r = 0; r < rows; r++) {
                    VEC_UNROLL
                    for (int s = 0; s < SUMS; s++)
                        part[r][s] = vec_zero();
                }
                for (int i = 0; i < (int)shape->part; i += unit) {
                    const uint8_t *from = weights + bytes_of(c, i) + v * VEC_LANES * 4;
                    const float *a = tile->a + k + i;

                    VEC_UNROLL
                    for (int e = 0; e < unit; e++) {
                        vec x = weight_of(word_of(from, c, e), e, c, table);

                        x = zeros && joint ? vec_fms(x, scale, zero) : zeros ? vec_sub(x, zero) : x;
                        VEC_UNROLL
                        for (int r = 0; r < rows; r++)
                            part[r][e % chains] = vec_fma(x, vec_set(a[r * tile->a_row + e]), part[r][e % chains]);
                    }
                }
                VEC_UNROLL
                for (int r = 0; r < rows; r++) {
                    if (chains == 4)
                        part[r][0] = vec_add(vec_add(part[r][0], part[r][1]), vec_add(part[r][2], part[r][3]));
                    else if (chains == 2)
                        part[r][0] = vec_add(part[r][0], part[r][1]);
                    sum[r][v] = zeros && joint ? vec_add(sum[r][v], part[r][0]) : vec_fma(part[r][0], scale, sum[r][v]);
                }
            }
            for (int i = 0; rows == 1 && i < bytes_of(c, (int)shape->part) / 64; i++)
                vec_fetch_near(weights + AHEAD + 64 * i);
            k += shape->part;
            weights += bytes_of(c, (int)shape->part);
            if (++done % RUN == 0)
                end_run(total, sum, rows);
        }
    }
    store_tile(tile, total, sum, rows);
}

BY_BITS(exact, exact_tile, UP_TO_FOUR, true)

/* Dequantizes weight e of each word. minima: `zero` is one. */
VEC_INLINE void unfold_one(vint word, int e, struct coding c, const float *table, vec zero, vec scale, bool minima,
                           float *to)
{
    const vec x = weight_of(word, e, c, table);

    vec_store(to, minima ? vec_fms(x, scale, zero) : vec_mul(vec_sub(x, zero), scale));
}

/* Dequantizes the panel: (q - zero) * scale, rounded after each operation, as DequantizeLinear does; or with minima. */
VEC_INLINE void unfold_bits(const nbits_tile *tile, struct coding packed, bool minima, float *out, int64_t out_row)
{
    const nbits_shape *shape = tile->shape;
    const struct coding c = exact_coding(packed);
    const int unit = nbits_unit(c.bits);
    float table[17];

    make_table(shape, c, 0, table);
    for (int64_t b = 0; b < shape->blocks; b++) {
        const int64_t begin = b * shape->block,
                      last = begin + shape->block < shape->k ? begin + shape->block : shape->k;
        const uint8_t *weights = tile->weights + b * shape->padded * c.bits / 8 * NBITS_COLUMNS;

        for (int64_t k = begin; k < last; k += unit, weights += bytes_of(c, unit)) {
            VEC_UNROLL
            for (int v = 0; v < VECTORS; v++) {
                const bool joint = shape->joint != 0;
                const vec scale = scale_of(scales_at(tile->scales, joint, shape->joint, b), joint, v * VEC_LANES);
                const vec zero = tile->zeros != NULL
                                     ? scale_of(scales_at(tile->zeros, joint, shape->joint, b), joint, v * VEC_LANES)
                                     : vec_set(c.coded ? 0 : tile->zero);
                const uint8_t *from = weights + v * VEC_LANES * 4;

                float *const to = out + k * out_row + v * VEC_LANES;

                if (k + unit <= last) {
                    VEC_UNROLL
                    for (int e = 0; e < unit; e++)
                        unfold_one(word_of(from, c, e), e, c, table, zero, scale, minima, to + e * out_row);
                    continue;
                }
                for (int e = 0; e < (int)(last - k); e++) {
                    const vint one =
                        word_of(from, c, e) >> (e % 4 * 8 + (nbits_has_planes(c.bits) ? 0 : e / 4 * c.bits));

                    unfold_one(one, 0, c, table, zero, scale, minima, to + e * out_row);
                }
            }
        }
    }
}

static void unfold(const nbits_tile *tile, float *out, int64_t out_row)
{
    const bool minima = tile->shape->joint != 0 && tile->zeros != NULL;

    if (HAS_TABLES && tile->shape->table != NULL)
        unfold_bits(tile, codes_of(tile->shape), false, out, out_row);
    else if (tile->shape->bits == 4 && minima)
        unfold_bits(tile, plain_bits(4), true, out, out_row);
    else if (tile->shape->bits == 4)
        unfold_bits(tile, plain_bits(4), false, out, out_row);
    else if (tile->shape->bits == 8 && minima)
        unfold_bits(tile, plain_bits(8), true, out, out_row);
    else if (tile->shape->bits == 8)
        unfold_bits(tile, plain_bits(8), false, out, out_row);
    else if (HAS_PLANES && tile->shape->bits == 5)
        unfold_bits(tile, plain_bits(5), minima, out, out_row);
    else if (HAS_PLANES && tile->shape->bits == 6)
        unfold_bits(tile, plain_bits(6), minima, out, out_row);
    else if (minima)
        unfold_bits(tile, plain_bits(2), true, out, out_row);
    else
        unfold_bits(tile, plain_bits(2), false, out, out_row);
}

#if defined(INTS_BYTES) || defined(INTS_WORDS)
#include "cpu/weights/nbits_dots.h"

#ifdef INTS_BLOCKS
enum { PAIRS = 1, MOST_ROWS = NBITS_ROWS }; /* sums of eight rows fit into 32 registers beside expanded weights */
#else
enum { PAIRS = 0, MOST_ROWS = NBITS_FEW_ROWS };
#endif

typedef int16_t words __attribute__((vector_size(VEC_LANES * 2)));
typedef uint64_t quads __attribute__((vector_size(VEC_LANES * 2)));
typedef int8_t bytes __attribute__((vector_size(VEC_LANES)));

/* Stores 16-bit words in the order k, k + 2, k + 1, k + 3, in which weights are expanded to pairs of words. */
VEC_INLINE void store_words(vint q, int8_t *out)
{
    quads w = (quads) __builtin_convertvector(q, words);
    const quads turned = (w >> 16 ^ w) & 0xffff0000u;

    w ^= turned ^ turned << 16;
    memcpy(out, &w, sizeof w);
}

/* Are the integers of a tile bytes? Otherwise they are words. Products of bytes need less expansion of weights, but two
 * limbs need more instructions for each row than words. */
VEC_INLINE bool are_bytes(int bits, nbits_mode mode, bool single)
{
#if defined(INTS_NIBBLES)
    return bits <= 4 && (single || mode == NBITS_BYTE);
#elif defined(INTS_BLOCKS)
    (void)bits;
    return single || mode == NBITS_BYTE;
#elif defined(INTS_BYTES)
    (void)bits, (void)mode, (void)single;
    return true;
#else
    (void)bits, (void)mode, (void)single;
    return false;
#endif
}

VEC_INLINE void store_bytes(vint q, int8_t flip, int8_t *out)
{
    const bytes b = __builtin_convertvector(q, bytes) ^ flip;

    memcpy(out, &b, sizeof b);
}

/* Stores a vector of a part's integers in the layout of a tile (the bytes of the high limb, then of the low limb; or
 * words) or of a weight block (bytes plus 128; or words). */
VEC_INLINE void store_integers(vint q, int part, bool as_bytes, nbits_mode mode, bool blocks, int8_t *out, int i)
{
    if (as_bytes) {
        const vint low = mode == NBITS_FINE ? (vint)((unsigned_words)q << 24) >> 24 : q;

        if (mode == NBITS_FINE)
            store_bytes((q - low) >> 8, 0, out + i);
        store_bytes(low, blocks ? -128 : 0, out + (mode == NBITS_FINE ? part : 0) + i);
        return;
    }
    store_words(q, out + 2 * i);
}

/* The sum of q[i] * q[i + 1] modulo 2^32, over even i in the first four of each eight: the excess of
 * dot_words(), and of weight blocks. */
VEC_INLINE vint pairs_of(vint q)
{
    typedef uint64_t pairs __attribute__((vector_size(VEC_LANES * 4)));
    vint first;

    for (int i = 0; i < VEC_LANES; i++)
        first[i] = i % 8 < 4 ? -1 : 0;
    return (vint)((unsigned_words)(q & first) * (unsigned_words)((pairs)q >> 32));
}

VEC_INLINE uint32_t sum_of(vint q)
{
    uint32_t x[VEC_LANES], sum = 0;

    memcpy(x, &q, sizeof x);
    for (int i = 0; i < VEC_LANES; i++)
        sum += x[i];
    return sum;
}

static bool prepare_mode(const nbits_shape *shape, const nbits_mode mode, const bool blocks, const float *zero,
                         const float *a, const nbits_row *row)
{
    const int part = (int)shape->part;
    const int64_t parts = nbits_parts(shape);
    const int bits = shape->table != NULL ? 8 : (int)shape->bits;
    const int32_t zero_value = zero == NULL ? 0 : (int32_t)*zero;
    const float most = mode == NBITS_FINE ? TOP_FINE : 127;
    const bool as_bytes = blocks ? mode == NBITS_BYTE : are_bytes(bits, mode, row->single);
    const int32_t subtracted = blocks ? 1 << (bits - 1) : subtrahend(bits, as_bytes);

    INLAY_CHECK(part % VEC_LANES == 0);
    for (int64_t p = 0; p < parts; p++, a += part) {
        int8_t *limbs = row->limbs + p * row->limbs_part;
        vec tops = vec_zero(), sums = vec_zero();
        vint pairs = vint_set(0);
        int32_t sum;
        float top, exact_sum;

        for (int i = 0; i < part; i += VEC_LANES)
            tops = vec_max(tops, vec_abs(vec_load(a + i)));
        top = vec_top(tops);
        if (top > FLT_MAX || (top > 0 && top < LEAST_TOP))
            return false;
        row->factors[p] = top / most;
        for (int i = 0; i < part; i += VEC_LANES) {
            const vec x = vec_round(vec_mul(vec_load(a + i), vec_set(top > 0 ? most / top : 0)));
            const vint q = __builtin_convertvector(x, vint);

            sums = vec_add(sums, x);
            if (PAIRS && !as_bytes)
                pairs = (vint)((unsigned_words)pairs + (unsigned_words)pairs_of(q));
            store_integers(q, part, as_bytes, mode, blocks, limbs, i);
        }
        exact_sum = vec_sum(sums); /* exact, since it is below 2^24; NaN if an element is NaN */
        if (exact_sum != exact_sum)
            return false;
        sum = (int32_t)exact_sum;
        row->sums[p] = (float)sum;
        row->starts[p] = (subtracted - zero_value) * sum;
        if (PAIRS && !as_bytes)
            row->starts[p] = (int32_t)((uint32_t)row->starts[p] - sum_of(pairs));
    }
    return true;
}

static bool prepare(const nbits_shape *shape, nbits_mode mode, const float *zero, const float *a, const nbits_row *row)
{
    INLAY_CHECK(PAIRS || !row->blocks);
    if (PAIRS && row->blocks)
        return mode == NBITS_FINE ? prepare_mode(shape, NBITS_FINE, true, zero, a, row)
                                  : prepare_mode(shape, NBITS_BYTE, true, zero, a, row);
    return mode == NBITS_FINE ? prepare_mode(shape, NBITS_FINE, false, zero, a, row)
                              : prepare_mode(shape, NBITS_BYTE, false, zero, a, row);
}

/* Sums of a tile may not fit into the registers beside the weights and activations of a part. */
#if defined(INTS_STEPS) || defined(INTS_WORDS)
#define UNROLL_VECTORS _Pragma("GCC unroll 1")
#else
#define UNROLL_VECTORS VEC_UNROLL
#endif
#ifdef INTS_WORDS
#define COMPILER_FENCE() __asm__("" ::: "memory")
#else
#define COMPILER_FENCE() (void)0
#endif

VEC_INLINE void limb_tile(const nbits_tile *tile, nbits_mode mode, struct coding c, int part, int rows, bool as_bytes,
                          bool zeros, bool joint)
{
    const nbits_shape *shape = tile->shape;
    const int64_t parts = shape->padded / part, all = shape->blocks * parts;
    const uint8_t *weights = tile->weights;
    const int shift = part == 32 ? 3 : 4; /* shape->joint as a constant */
    vec sum[NBITS_ROWS][VECTORS], total[NBITS_ROWS][VECTORS];
    int64_t done = 0;

    INLAY_CHECK(!joint || (int)shape->joint == shift);
    VEC_UNROLL
    for (int r = 0; r < rows; r++) {
        VEC_UNROLL
        for (int v = 0; v < VECTORS; v++)
            sum[r][v] = total[r][v] = vec_zero();
    }
    for (int64_t b = 0; b < shape->blocks; b++) {
        const block_scales scales = scales_at(tile->scales, joint, shift, b),
                           minima = scales_at(zeros ? tile->zeros : tile->scales, joint, shift, b);

        for (int64_t p = 0; p < parts; p++) {
#ifdef INTS_NIBBLES
            const int8_t *limbs = tile->limbs + done * tile->limbs_part;
            const bool shares = !as_bytes || rows > 1;
            vint both[VECTORS][NBITS_ROWS];

            VEC_UNROLL
            for (int r = 0; shares && r < rows; r++)
                both[0][r] = both[1][r] = vint_set(tile->starts[r * all + done]);
            if (!as_bytes)
                dot_both(weights, limbs, tile->limbs_row, c, part, rows, both);
            else if (shares)
                dot_both_nibbles(weights, limbs, tile->limbs_row, c, part, rows, both);
#endif
            UNROLL_VECTORS
            for (int v = 0; v < VECTORS; v++) {
                vint dot[NBITS_ROWS];
                vec scale, zero = vec_zero();

                VEC_UNROLL
                for (int r = 0; r < rows; r++)
                    dot[r] = vint_set(tile->starts[r * all + done]);
#ifdef INTS_NIBBLES
                if (shares) {
                    VEC_UNROLL
                    for (int r = 0; r < rows; r++)
                        dot[r] = both[v][r];
                } else
#endif
                    dot_rows(weights + v * VEC_LANES * 4, tile->limbs + done * tile->limbs_part, tile->limbs_row, mode,
                             c, part, rows, as_bytes, dot);
                COMPILER_FENCE(); /* factors are loaded after the products */
                scale = scale_of(scales, joint, v * VEC_LANES);
                if (zeros)
                    zero = scale_of(minima, joint, v * VEC_LANES);
                VEC_UNROLL
                for (int r = 0; r < rows; r++) {
                    const int64_t at = r * all + done;

                    sum[r][v] =
                        add_part(sum[r][v], dot[r], scale, zero, tile->sums[at], tile->factors[at], zeros, joint);
                }
            }
            for (int i = 0; i < bytes_of(c, part) / 64; i++)
                vec_fetch_near(weights + AHEAD + 64 * i);
            weights += bytes_of(c, part);
            if (++done % RUN == 0)
                end_run(total, sum, rows);
        }
    }
    store_tile(tile, total, sum, rows);
}

VEC_INLINE void tile_of_part(const nbits_tile *tile, nbits_mode mode, struct coding c, int part, int rows, bool zeros,
                             bool joint)
{
    if (are_bytes(bits_of(c), mode, rows == 1 && tile->single))
        limb_tile(tile, mode, c, part, rows, true, zeros, joint);
    else
        limb_tile(tile, mode, c, part, rows, false, zeros, joint);
}

VEC_INLINE void fine_tile(const nbits_tile *tile, struct coding c, int rows, bool zeros, bool joint)
{
    if (tile->shape->part == 32)
        tile_of_part(tile, NBITS_FINE, c, 32, rows, zeros, joint);
    else
        tile_of_part(tile, NBITS_FINE, c, 16, rows, zeros, joint);
}

BY_BITS(fine, fine_tile, UP_TO_EIGHT, false)
#if defined(INTS_NIBBLES) || defined(INTS_BLOCKS) || defined(INTS_BYTES)

VEC_INLINE void byte_tile(const nbits_tile *tile, struct coding c, int rows, bool zeros, bool joint)
{
    if (tile->shape->part == 32)
        tile_of_part(tile, NBITS_BYTE, c, 32, rows, zeros, joint);
    else
        tile_of_part(tile, NBITS_BYTE, c, 16, rows, zeros, joint);
}

BY_BITS(byte, byte_tile, UP_TO_EIGHT, false)
#else
#define byte fine /* products of words are the same in both modes */
#endif
enum { HAS_LIMBS = 1 };
#else
static bool prepare(const nbits_shape *shape, nbits_mode mode, const float *zero, const float *a, const nbits_row *row)
{
    (void)shape, (void)mode, (void)zero, (void)a, (void)row;
    return false;
}
#define fine exact
#define byte exact
enum { HAS_LIMBS = 0, MOST_ROWS = NBITS_FEW_ROWS };
#endif

const nbits_kernel KERNEL(nbits) = {
    .isa = KERNEL_TEXT,
    .has_limbs = HAS_LIMBS,
    .tables = HAS_TABLES,
    .planes = HAS_PLANES,
    .rows = MOST_ROWS,
    .prepare = prepare,
    .tile = { exact, byte, fine },
    .unfold = unfold,
#ifdef INTS_BLOCKS
    .block_rows = true,
#endif
#if defined(INTS_BLOCKS) || defined(INTS_PANELS)
    .many = PAIRS ? 32 : 16,
    .spread = KERNEL(nbits_spread),
    .block = KERNEL(nbits_block),
#endif
};
