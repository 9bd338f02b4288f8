/* nbits_dots.h - integer products of one part of rows of activations with a vector of packed columns, for the tiles of
 * nbits.c. */
#ifndef CPU_NBITS_DOTS_H
#define CPU_NBITS_DOTS_H
#include "cpu/weights/nbits_coding.h"

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
typedef uint16_t shorts __attribute__((vector_size(VEC_LANES * 4)));

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
 * multiplied by one row at a time: all rows at once would need more than the 16 registers. */
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
#endif
