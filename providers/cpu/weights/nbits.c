/* The kernels of nbits.h for one instruction set, written in terms of simd/vec.h. */
#include "cpu/weights/nbits_block.h"
#include "cpu/weights/nbits_scales.h"
#include "inlay/check.h"
#include <float.h>

enum {
    VECTORS = NBITS_COLUMNS / VEC_LANES,
    RUN = NBITS_PARTS, /* parts in one chain of additions */
    TOP_FINE = 32639,  /* the largest integer of two limbs: 256 * 127 + 127 */
    AHEAD = 6144       /* prefetch distance in bytes of weights: reading them bounds the speed of a single row */
};
#define LEAST_TOP 1e-30f /* the smallest maximum of a part that gets a factor; smaller parts use floats */

/* How weights are packed; a constant, but for the table. */
struct coding {
    int bits;
    bool coded; /* bits: 4; indexes of the table */
    vint table;
};

VEC_INLINE struct coding plain_bits(int bits)
{
    return (struct coding){ .bits = bits };
}

#ifdef INTS_CODES
enum { HAS_TABLES = 1 };
#else
enum { HAS_TABLES = 0 };
#endif

/* The kernels of WebAssembly take 8 bits instead. */
#ifdef __wasm__
enum { HAS_PLANES = 0 };
#else
enum { HAS_PLANES = 1 };
#endif

/* The weights of a shape with a table. */
VEC_INLINE struct coding codes_of(const nbits_shape *shape)
{
#ifdef INTS_CODES
    return (struct coding){ .bits = 4, .coded = true, .table = vint_table(shape->table) };
#else
    (void)shape;
    return plain_bits(4); /* not called */
#endif
}

/* Returns four weights of 8 bits: those of the first (group 0) or second (group 1) half of a word of indexes. */
VEC_INLINE vint look_up(vint word, struct coding c, int group)
{
#ifdef INTS_CODES
    return vint_code(word, 4 * group, c.table);
#else
    (void)c, (void)group;
    return word;
#endif
}

/* Bytes of a panel with `count` elements of each column: a multiple of nbits_unit. */
VEC_INLINE int bytes_of(struct coding c, int count)
{
    return count * c.bits / 8 * NBITS_COLUMNS;
}

/* The word with weights from `element` of a unit on: all of the unit, or of two planes four as bytes. */
VEC_INLINE vint word_of(const uint8_t *unit, struct coding c, int element)
{
    return nbits_has_planes(c.bits) ? join_planes(unit, c.bits, element / 4) : vint_load(unit);
}

/* Adds the sums of a run to the totals. Chains of additions stay short, which bounds the rounding error. */
VEC_INLINE void end_run(vec total[][VECTORS], vec sum[][VECTORS], int rows)
{
    VEC_UNROLL
    for (int r = 0; r < rows; r++) {
        VEC_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            total[r][v] = vec_add(total[r][v], sum[r][v]);
            sum[r][v] = vec_zero();
        }
    }
}

VEC_INLINE void store_tile(const nbits_tile *tile, vec total[][VECTORS], vec sum[][VECTORS], int rows)
{
    VEC_UNROLL
    for (int r = 0; r < rows; r++) {
        VEC_UNROLL
        for (int v = 0; v < VECTORS; v++)
            vec_store_some(tile->c + r * tile->c_row + v * VEC_LANES,
                           vec_first(r < tile->rows ? tile->columns - v * VEC_LANES : 0),
                           vec_add(total[r][v], sum[r][v]));
    }
}

/* The table of vec_pick: the values of the codes minus `zero`, or minus NBITS_TABLE_ZERO; entry 16 is -zero. */
static inline void make_table(const nbits_shape *shape, struct coding c, float zero, float *table)
{
    for (int i = 0; i < 16; i++)
        table[i] = c.coded ? (float)(shape->table[i] - NBITS_TABLE_ZERO) : (float)(c.bits == 2 ? i & 3 : i) - zero;
    table[16] = -zero;
}

/* The same with a table of signed bytes. */
VEC_INLINE struct coding exact_coding(struct coding c)
{
    _Static_assert(NBITS_TABLE_ZERO == 128, "flipping the sign bit subtracts it");
    c.table ^= (int32_t)0x80808080;
    return c;
}

/* Element e of a unit, minus the zero point of make_table; w: from word_of, c: from exact_coding. */
VEC_INLINE vec weight_of(vint w, int e, struct coding c, const float *table)
{
    if (nbits_has_planes(c.bits))
        c = plain_bits(8);
#ifdef KERNEL_IS_avx512
    const bool permutes = c.bits != 8;
#else
    const bool permutes = c.bits != 8 && !c.coded;
#endif
    const int shift = e % 4 * 8;

    if (permutes)
        return vec_pick(w, shift + e / 4 * c.bits, c.bits, table);
    if (c.coded)
        return vec_of((vint)((unsigned_words)look_up(w, c, e / 4) << (24 - shift)) >> 24);
    return vec_sub(vec_of(vint_pick(w, shift, 8)), vec_set(-table[16]));
}

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

/* Calls `function` with the number of rows as a constant. */
#define UP_TO_FOUR(function, ...)                                                                                      \
    switch (tile->rows) {                                                                                              \
    case 1:                                                                                                            \
        function(tile, __VA_ARGS__, 1, zeros, joint);                                                                  \
        break;                                                                                                         \
    case 2:                                                                                                            \
        function(tile, __VA_ARGS__, 2, zeros, joint);                                                                  \
        break;                                                                                                         \
    case 3:                                                                                                            \
        function(tile, __VA_ARGS__, 3, zeros, joint);                                                                  \
        break;                                                                                                         \
    default:                                                                                                           \
        function(tile, __VA_ARGS__, 4, zeros, joint);                                                                  \
    }
#ifdef INTS_BLOCKS
/* Eight rows lack the registers for choices at run time. */
#define UP_TO_EIGHT(function, ...)                                                                                     \
    if (tile->rows <= NBITS_FEW_ROWS)                                                                                  \
        UP_TO_FOUR(function, __VA_ARGS__)                                                                              \
    else if (zeros && joint)                                                                                           \
        function(tile, __VA_ARGS__, 8, true, true);                                                                    \
    else if (zeros)                                                                                                    \
        function(tile, __VA_ARGS__, 8, true, false);                                                                   \
    else if (joint)                                                                                                    \
        function(tile, __VA_ARGS__, 8, false, true);                                                                   \
    else                                                                                                               \
        function(tile, __VA_ARGS__, 8, false, false);
#else
#define UP_TO_EIGHT UP_TO_FOUR
#endif
/* Defines the kernel for weights of one kind. A function of its own: compilers take far longer for one of all kinds. */
#define OF_KIND(name, coding, zeros_value, joint_value, function, BY_ROWS)                                             \
    static __attribute__((noinline)) void name(const nbits_tile *tile)                                                 \
    {                                                                                                                  \
        const bool has_zeros = tile->zeros != NULL, is_joint = tile->shape->joint != 0;                                \
        const bool zeros = (zeros_value), joint = (joint_value);                                                       \
                                                                                                                       \
        (void)has_zeros, (void)is_joint;                                                                               \
        BY_ROWS(function, coding)                                                                                      \
    }
/* Defines kernel `name`, which calls `function` with bits, rows and, for 4 bits, zeros and joint as constants; apart:
 * also for 2 bits. */
#define BY_BITS(name, function, BY_ROWS, apart)                                                                        \
    OF_KIND(name##_table, codes_of(tile->shape), false, is_joint, function, BY_ROWS)                                   \
    OF_KIND(name##_4, plain_bits(4), false, false, function, BY_ROWS)                                                  \
    OF_KIND(name##_4_zeros, plain_bits(4), true, false, function, BY_ROWS)                                             \
    OF_KIND(name##_4_joint, plain_bits(4), false, true, function, BY_ROWS)                                             \
    OF_KIND(name##_4_both, plain_bits(4), true, true, function, BY_ROWS)                                               \
    OF_KIND(name##_8, plain_bits(8), has_zeros, is_joint, function, BY_ROWS)                                           \
    OF_KIND(name##_5, plain_bits(5), has_zeros, is_joint, function, BY_ROWS)                                           \
    OF_KIND(name##_6, plain_bits(6), has_zeros, is_joint, function, BY_ROWS)                                           \
    OF_KIND(name##_2_apart, plain_bits(2), false, false, function, BY_ROWS)                                            \
    OF_KIND(name##_2, plain_bits(2), has_zeros, is_joint, function, BY_ROWS)                                           \
    static void name(const nbits_tile *tile)                                                                           \
    {                                                                                                                  \
        const bool has_zeros = tile->zeros != NULL, is_joint = tile->shape->joint != 0;                                \
                                                                                                                       \
        INLAY_CHECK(tile->rows >= 1 && tile->rows <= NBITS_ROWS && tile->columns >= 1 &&                               \
                    tile->columns <= NBITS_COLUMNS);                                                                   \
        if (HAS_TABLES && tile->shape->table != NULL)                                                                  \
            name##_table(tile);                                                                                        \
        else if (tile->shape->bits == 4 && has_zeros)                                                                  \
            (is_joint ? name##_4_both : name##_4_zeros)(tile);                                                         \
        else if (tile->shape->bits == 4)                                                                               \
            (is_joint ? name##_4_joint : name##_4)(tile);                                                              \
        else if (tile->shape->bits == 8)                                                                               \
            name##_8(tile);                                                                                            \
        else if (HAS_PLANES && tile->shape->bits == 5)                                                                 \
            name##_5(tile);                                                                                            \
        else if (HAS_PLANES && tile->shape->bits == 6)                                                                 \
            name##_6(tile);                                                                                            \
        else if ((apart) && !has_zeros && !is_joint)                                                                   \
            name##_2_apart(tile);                                                                                      \
        else                                                                                                           \
            name##_2(tile);                                                                                            \
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

/* Bits of weights when they are multiplied. */
VEC_INLINE int bits_of(struct coding c)
{
    return c.coded ? 8 : c.bits;
}

/* The number that is subtracted from weights before a tile multiplies them. */
VEC_INLINE int32_t subtrahend(int bits, bool as_bytes)
{
#if defined(INTS_SIGNED)
    (void)as_bytes;
    return bits == 8 ? 128 : 0;
#elif defined(INTS_BLOCKS)
    return bits == 8 && !as_bytes ? 128 : 0;
#else
    (void)bits, (void)as_bytes;
    return 0;
#endif
}

#ifdef INTS_BLOCKS
enum { PAIRS = 1, MOST_ROWS = NBITS_ROWS }; /* sums of eight rows fit into 32 registers beside expanded weights */
typedef uint16_t shorts __attribute__((vector_size(VEC_LANES * 4)));
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

/* Expands weights: group `group` of four k of a unit as the bytes of a word; or k and k + 2 (odd = 0), or k + 1 and k +
 * 3 (odd = 1), as two words. */
#if defined(INTS_BYTES) || defined(INTS_NIBBLES)
VEC_INLINE vint spread_bytes(const uint8_t *unit, struct coding c, int group)
{
    const vint w = word_of(unit, c, 4 * group);
    const uint32_t mask = ((1u << c.bits) - 1) * 0x01010101u,
                   flip = (uint32_t)subtrahend(bits_of(c), true) * 0x01010101u;

    if (c.coded)
        return (vint)((unsigned_words)look_up(w, c, group) ^ flip);
    if (nbits_has_planes(c.bits))
        return w;
    return (vint)(((unsigned_words)w >> (uint32_t)(c.bits * group) & mask) ^ flip);
}
#endif

#ifdef INTS_WORDS
VEC_INLINE vint spread_words(const uint8_t *unit, struct coding c, int group, int odd)
{
    const vint w = word_of(unit, c, 4 * group);
    const unsigned_words four = (unsigned_words)(c.coded ? look_up(w, c, group) : w);
    const bool spread = c.coded || nbits_has_planes(c.bits);
    const int bits = spread ? 8 : c.bits;

    return (vint)(four >> (uint32_t)(8 * odd + (spread ? 0 : bits * group)) & ((1u << bits) - 1) * 0x00010001u);
}
#endif

#ifndef INTS_STEPS
VEC_INLINE int32_t four(const int8_t *p)
{
    int32_t x;

    memcpy(&x, p, sizeof x);
    return x;
}
#endif

#ifdef INTS_BYTES
/* Adds the products by four of the limbs: group g. */
VEC_INLINE vint dot_group(vint acc, vint u, const int8_t *limbs, int g)
{
#ifdef INTS_STEPS
    return ints_dot_step(acc, u, vint_load(limbs + g / INTS_STEPS * INTS_STEPS * 4), g % INTS_STEPS);
#else
    return ints_dot(acc, u, four(limbs + 4 * g));
#endif
}

#ifdef INTS_BLOCKS
/* A group of four k, expanded: k and k + 2 (even), and k + 1 and k + 3 (odd). */
typedef struct word_pair {
    vint even, odd;
} word_pair;

VEC_INLINE word_pair spread_pair(const uint8_t *unit, struct coding c, int group)
{
    const int bits = bits_of(c);
    const vint word = word_of(unit, c, 4 * group);
    const unsigned_words four = (unsigned_words)(c.coded ? look_up(word, c, group) : word);
    const uint32_t mask = ((1u << bits) - 1) * 0x00010001u;
    const uint32_t shift = c.coded || nbits_has_planes(c.bits) ? 0 : (uint32_t)(bits * group);
    const uint16_t middle = (uint16_t)subtrahend(bits, false);

    return (word_pair){ (vint)((shorts)(four >> shift & mask) - middle),
                        (vint)((shorts)(four >> (shift + 8) & mask) - middle) };
}

VEC_INLINE vint word_at(const int8_t *p)
{
    int32_t x;

    memcpy(&x, p, sizeof x);
    return vint_set(x);
}

/* Adds to dot the products of one part of each row of words with a vector of columns. Every other group of four k uses
 * one multiplication for two products (Winograd's inner product):
 *     (a0 + w1) (a1 + w0) = a0 w0 + a1 w1 + a0 a1 + w0 w1
 * where a0 a1 is one number for each part of a row (nbits_row.starts), w0 w1 for each part of a column (excess).
 * Additions run in other execution units than multiplications; if all groups used this formula, additions would be the
 * bottleneck. Sums wrap around, but the final result fits into 32 bits, so it is exact. */
VEC_INLINE void dot_words(const uint8_t *weights, const int8_t *limbs, int64_t limbs_row, struct coding c, int part,
                          int rows, vint dot[NBITS_ROWS])
{
    const int per = nbits_unit(c.bits) / 4, step = per > 2 ? 4 * per : 8; /* groups of a unit; k of a step */
    vint excess = vint_set(0);

    VEC_UNROLL
    for (int k = 0; k < part; k += step, weights += bytes_of(c, step)) {
        VEC_UNROLL
        for (int g = 0; g < step / 4; g += 2) {
            const word_pair w = spread_pair(weights + bytes_of(c, g / per * 4 * per), c, g % per),
                            x = spread_pair(weights + bytes_of(c, (g + 1) / per * 4 * per), c, (g + 1) % per);

            excess = ints_dot_words(excess, w.even, w.odd);
            VEC_UNROLL
            for (int r = 0; r < rows; r++) {
                const int8_t *a = limbs + r * limbs_row + 2 * (k + 4 * g);

                dot[r] = ints_dot_words(dot[r], (vint)((shorts)word_at(a) + (shorts)w.odd),
                                        (vint)((shorts)word_at(a + 4) + (shorts)w.even));
                dot[r] = ints_dot_words(dot[r], word_at(a + 8), x.even);
                dot[r] = ints_dot_words(dot[r], word_at(a + 12), x.odd);
            }
        }
    }
    VEC_UNROLL
    for (int r = 0; r < rows; r++)
        dot[r] = (vint)((unsigned_words)dot[r] - (unsigned_words)excess);
}
#endif

/* Adds to dot the products of one part of each row with a vector of columns. All expanded weights stay in registers. */
VEC_INLINE void dot_rows(const uint8_t *weights, const int8_t *limbs, int64_t limbs_row, nbits_mode mode,
                         struct coding c, int part, int rows, bool as_bytes, vint dot[NBITS_ROWS])
{
    const int groups = part / 4, per = nbits_unit(c.bits) / 4; /* groups of four k in a part, and in a unit */
    vint u[8];

#ifdef INTS_BLOCKS
    if (!as_bytes) {
        dot_words(weights, limbs, limbs_row, c, part, rows, dot);
        return;
    }
#endif
    (void)as_bytes;
    VEC_UNROLL
    for (int g = 0; g < groups; g++)
        u[g] = spread_bytes(weights + bytes_of(c, g / per * 4 * per), c, g % per);
    VEC_UNROLL
    for (int r = 0; r < rows; r++, limbs += limbs_row) {
        vint high = { 0 };

        VEC_UNROLL
        for (int g = 0; g < groups; g++) {
            if (mode == NBITS_FINE)
                high = dot_group(high, u[g], limbs, g);
            dot[r] = dot_group(dot[r], u[g], limbs + (mode == NBITS_FINE ? part : 0), g);
        }
        dot[r] += mode == NBITS_FINE ? high << 8 : vint_set(0);
    }
}
#else
/* Unrolled, the compiler would load all operands first, and store them for lack of registers. */
#define UNROLL_WORDS _Pragma("GCC unroll 1")

#ifdef INTS_NIBBLES
/* The same for integers that are bytes: one row, or one limb of each row. */
VEC_INLINE void dot_nibbles(const uint8_t *weights, const int8_t *limbs, int64_t limbs_row, nbits_mode mode,
                            struct coding c, int part, int rows, vint dot[NBITS_ROWS])
{
    const int unit = nbits_unit(c.bits), step = bytes_of(c, unit);
    vint low[NBITS_ROWS], high = { 0 };

    INLAY_CHECK(rows == 1 || mode == NBITS_BYTE);
    VEC_UNROLL
    for (int r = 0; r < rows; r++)
        low[r] = vint_set(0);
    UNROLL_WORDS
    for (int k = 0; k < part; k += unit, weights += step) {
        VEC_UNROLL
        for (int g = 0; g < unit / 4; g++, limbs += 4) {
            const vint u = spread_bytes(weights, c, g);

            if (mode == NBITS_FINE)
                high = ints_dot_nibbles(high, u, four(limbs));
            VEC_UNROLL
            for (int r = 0; r < rows; r++)
                low[r] = ints_dot_nibbles(low[r], u, four(limbs + r * limbs_row + (mode == NBITS_FINE ? part : 0)));
        }
    }
    VEC_UNROLL
    for (int r = 0; r < rows; r++)
        dot[r] += ints_of_words(low[r]);
    if (mode == NBITS_FINE)
        dot[0] += ints_of_words(high) << 8;
}
#endif

/* Adds to dot the products of one part of each row with a vector of columns. A word of weights is expanded and
 * multiplied by all rows, one after the other, because there are 16 registers. */
VEC_INLINE void dot_rows(const uint8_t *weights, const int8_t *limbs, int64_t limbs_row, nbits_mode mode,
                         struct coding c, int part, int rows, bool as_bytes, vint dot[NBITS_ROWS])
{
    const int unit = nbits_unit(c.bits), step = bytes_of(c, unit);

#ifdef INTS_NIBBLES
    if (as_bytes) {
        dot_nibbles(weights, limbs, limbs_row, mode, c, part, rows, dot);
        return;
    }
#endif
    (void)mode, (void)part, (void)as_bytes;
    UNROLL_WORDS
    for (int k = 0; k < part; k += unit, weights += step) {
        VEC_UNROLL
        for (int g = 0; g < unit / 4; g++, limbs += 8) {
            const vint even = spread_words(weights, c, g, 0), odd = spread_words(weights, c, g, 1);

            VEC_UNROLL
            for (int r = 0; r < rows; r++) {
                dot[r] = ints_dot(dot[r], even, four(limbs + r * limbs_row));
                dot[r] = ints_dot(dot[r], odd, four(limbs + r * limbs_row + 4));
            }
        }
    }
}

#ifdef INTS_NIBBLES
_Static_assert(VECTORS == 2, "dot_both() takes both vectors of a panel");

/* The same for several rows of bytes and both vectors of columns, which share the loads of activations. */
VEC_INLINE void dot_both_nibbles(const uint8_t *weights, const int8_t *limbs, int64_t limbs_row, struct coding c,
                                 int part, int rows, vint dot[VECTORS][NBITS_ROWS])
{
    const int unit = nbits_unit(c.bits), step = bytes_of(c, unit);
    vint low[VECTORS][NBITS_ROWS];

    VEC_UNROLL
    for (int r = 0; r < rows; r++)
        low[0][r] = low[1][r] = vint_set(0);
    UNROLL_WORDS
    for (int k = 0; k < part; k += unit, weights += step) {
        VEC_UNROLL
        for (int g = 0; g < unit / 4; g++, limbs += 4) {
            const vint left = spread_bytes(weights, c, g), right = spread_bytes(weights + VEC_LANES * 4, c, g);

            VEC_UNROLL
            for (int r = 0; r < rows; r++) {
                const int32_t a = four(limbs + r * limbs_row);

                low[0][r] = ints_dot_nibbles(low[0][r], left, a);
                low[1][r] = ints_dot_nibbles(low[1][r], right, a);
            }
        }
    }
    VEC_UNROLL
    for (int r = 0; r < rows; r++) {
        dot[0][r] += ints_of_words(low[0][r]);
        dot[1][r] += ints_of_words(low[1][r]);
    }
}

/* The same for words. */
VEC_INLINE void dot_both(const uint8_t *weights, const int8_t *limbs, int64_t limbs_row, struct coding c, int part,
                         int rows, vint dot[VECTORS][NBITS_ROWS])
{
    const int unit = nbits_unit(c.bits), step = bytes_of(c, unit);

    UNROLL_WORDS
    for (int k = 0; k < part; k += unit, weights += step) {
        VEC_UNROLL
        for (int g = 0; g < unit / 4; g++, limbs += 8) {
            VEC_UNROLL
            for (int odd = 0; odd < 2; odd++) {
                const vint left = spread_words(weights, c, g, odd),
                           right = spread_words(weights + VEC_LANES * 4, c, g, odd);

                VEC_UNROLL
                for (int r = 0; r < rows; r++) {
                    const int32_t a = four(limbs + r * limbs_row + 4 * odd);

                    dot[0][r] = ints_dot(dot[0][r], left, a);
                    dot[1][r] = ints_dot(dot[1][r], right, a);
                }
            }
        }
    }
}
#endif
#endif

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
