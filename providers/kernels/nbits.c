/* The loops of products by packed weights (nbits.h), written once over vectors. */
#include "nbits.h"
#include "vec_words.h"

enum {
    VECTORS = NB_COLUMNS / VEC_LANES,
    RUN = 64,         /* parts that are added one after the other */
    TOP_FINE = 32639, /* the largest integer of two limbs: 256 * 127 + 127 */
    AHEAD = 3072      /* bytes of weights that are fetched ahead: their stream is what a row waits for */
};
#define LEAST_TOP 1e-30f /* of a part that has a factor */

/* Sums of many parts are added up in runs, so that chains of additions stay short. */
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

VEC_INLINE void store_tile(const nb_tile *t, vec total[][VECTORS], vec sum[][VECTORS], int rows)
{
    VEC_UNROLL
    for (int r = 0; r < rows; r++) {
        VEC_UNROLL
        for (int v = 0; v < VECTORS; v++)
            vec_store_some(t->c + r * t->c_row + v * VEC_LANES, vec_first(t->columns - v * VEC_LANES),
                           vec_add(total[r][v], sum[r][v]));
    }
}

/* ------------------------------------------------------------------ floats */

/* What vec_pick looks up for weights of which `zero` is taken away. */
static inline void make_table(int bits, float zero, float *table)
{
    for (int i = 0; i < 16; i++)
        table[i] = (float)(bits == 2 ? i & 3 : i) - zero;
}

VEC_INLINE vec weight_of(vint w, int shift, int bits, const float *table)
{
    if (bits == 8)
        return vec_sub(vec_of(vint_pick(w, shift, bits)), vec_set(-table[0]));
    return vec_pick(w, shift, bits, table);
}

/* Elements of a row in the order of the bits of a word; four sums, since one addition waits for the other. */
VEC_INLINE void exact_tile(const nb_tile *t, int bits, int rows, bool zeros)
{
    enum { SUMS = 4 };
    const nb_shape *s = t->shape;
    const int chains = rows == 1 ? SUMS : rows == 2 ? 2 : 1, words = 32 / bits;
    const int64_t parts = s->padded / s->part;
    const uint8_t *w = t->w;
    int64_t done = 0, k = 0;
    float table[16];
    vec sum[NB_ROWS][VECTORS], total[NB_ROWS][VECTORS];

    make_table(bits, zeros ? 0 : t->zero, table);
    VEC_UNROLL
    for (int r = 0; r < rows; r++) {
        VEC_UNROLL
        for (int v = 0; v < VECTORS; v++)
            sum[r][v] = total[r][v] = vec_zero();
    }
    for (int64_t b = 0; b < s->blocks; b++) {
        const float *scales = t->scales + b * NB_COLUMNS;

        for (int64_t p = 0; p < parts; p++) {
            VEC_UNROLL
            for (int v = 0; v < VECTORS; v++) {
                const vec scale = vec_load(scales + v * VEC_LANES);
                const vec zero = zeros ? vec_load(t->zeros + b * NB_COLUMNS + v * VEC_LANES) : vec_zero();
                vec part[NB_ROWS][SUMS];

                VEC_UNROLL
                for (int r = 0; r < rows; r++) {
                    VEC_UNROLL
                    for (int c = 0; c < SUMS; c++)
                        part[r][c] = vec_zero();
                }
                for (uint32_t i = 0; i < s->part; i += (uint32_t)words) {
                    const vint word = vint_load(w + i * NB_COLUMNS * (uint32_t)bits / 8 + v * VEC_LANES * 4);
                    const float *a = t->a + k + i;

                    VEC_UNROLL
                    for (int e = 0; e < words; e++) {
                        vec x = weight_of(word, e % 4 * 8 + e / 4 * bits, bits, table);

                        x = zeros ? vec_sub(x, zero) : x;
                        VEC_UNROLL
                        for (int r = 0; r < rows; r++)
                            part[r][e % chains] = vec_fma(x, vec_set(a[r * t->a_row + e]), part[r][e % chains]);
                    }
                }
                VEC_UNROLL
                for (int r = 0; r < rows; r++) {
                    if (chains == 4)
                        part[r][0] = vec_add(vec_add(part[r][0], part[r][1]), vec_add(part[r][2], part[r][3]));
                    else if (chains == 2)
                        part[r][0] = vec_add(part[r][0], part[r][1]);
                    sum[r][v] = vec_fma(part[r][0], scale, sum[r][v]);
                }
            }
            for (uint32_t i = 0; rows == 1 && i < s->part * (uint32_t)bits / 32; i++)
                vec_fetch_near(w + AHEAD + 64 * i);
            k += s->part;
            w += s->part * NB_COLUMNS * (uint32_t)bits / 8;
            if (++done % RUN == 0)
                end_run(total, sum, rows);
        }
    }
    store_tile(t, total, sum, rows);
}

#define BY_ROWS(function, ...)                                                                                         \
    switch (t->rows) {                                                                                                 \
    case 1:                                                                                                            \
        function(t, __VA_ARGS__, 1, zeros);                                                                            \
        break;                                                                                                         \
    case 2:                                                                                                            \
        function(t, __VA_ARGS__, 2, zeros);                                                                            \
        break;                                                                                                         \
    case 3:                                                                                                            \
        function(t, __VA_ARGS__, 3, zeros);                                                                            \
        break;                                                                                                         \
    default:                                                                                                           \
        function(t, __VA_ARGS__, 4, zeros);                                                                            \
    }
#define BY_BITS(name, function, BY_ROWS)                                                                               \
    static void name(const nb_tile *t)                                                                                 \
    {                                                                                                                  \
        if (t->shape->bits == 4 && t->zeros == NULL) {                                                                 \
            const bool zeros = false;                                                                                  \
            BY_ROWS(function, 4)                                                                                       \
        } else if (t->shape->bits == 4) {                                                                              \
            const bool zeros = true;                                                                                   \
            BY_ROWS(function, 4)                                                                                       \
        } else if (t->shape->bits == 8) {                                                                              \
            const bool zeros = t->zeros != NULL;                                                                       \
            BY_ROWS(function, 8)                                                                                       \
        } else {                                                                                                       \
            const bool zeros = t->zeros != NULL;                                                                       \
            BY_ROWS(function, 2)                                                                                       \
        }                                                                                                              \
    }

BY_BITS(exact, exact_tile, BY_ROWS)

/* Weight e of each word. */
VEC_INLINE void unfold_one(vint word, int e, int bits, const float *table, vec zero, vec scale, float *to)
{
    vec_store(to, vec_mul(vec_sub(weight_of(word, e % 4 * 8 + e / 4 * bits, bits, table), zero), scale));
}

/* (q - zero) * scale, rounded as DequantizeLinear does. */
VEC_INLINE void unfold_bits(const nb_tile *t, int bits, float *out, int64_t out_row)
{
    const nb_shape *s = t->shape;
    const int words = 32 / bits;
    float table[16];

    make_table(bits, 0, table);
    for (int64_t b = 0; b < s->blocks; b++) {
        const int64_t begin = b * s->block, last = begin + s->block < s->k ? begin + s->block : s->k;
        const uint8_t *w = t->w + b * s->padded / words * NB_COLUMNS * 4;

        for (int64_t k = begin; k < last; k += words, w += NB_COLUMNS * 4) {
            VEC_UNROLL
            for (int v = 0; v < VECTORS; v++) {
                const vec scale = vec_load(t->scales + b * NB_COLUMNS + v * VEC_LANES);
                const vec zero =
                    t->zeros != NULL ? vec_load(t->zeros + b * NB_COLUMNS + v * VEC_LANES) : vec_set(t->zero);
                const vint word = vint_load(w + v * VEC_LANES * 4);

                float *const to = out + k * out_row + v * VEC_LANES;

                if (k + words <= last) {
                    VEC_UNROLL
                    for (int e = 0; e < words; e++)
                        unfold_one(word, e, bits, table, zero, scale, to + e * out_row);
                    continue;
                }
                for (int e = 0; e < (int)(last - k); e++) {
                    const vint one = word >> (e % 4 * 8 + e / 4 * bits);

                    unfold_one(one, 0, bits, table, zero, scale, to + e * out_row);
                }
            }
        }
    }
}

static void unfold(const nb_tile *t, float *out, int64_t out_row)
{
    if (t->shape->bits == 4)
        unfold_bits(t, 4, out, out_row);
    else if (t->shape->bits == 8)
        unfold_bits(t, 8, out, out_row);
    else
        unfold_bits(t, 2, out, out_row);
}

/* ------------------------------------------------------------------ integers */

#if defined(INTS_BYTES) || defined(INTS_WORDS)

/* A part's integers as ints_dot reads them: bytes of the higher limb, then those of the lower one, or words of k and
 * k + 2 side by side. */
static inline void lay_out(const int32_t *q, int part, nb_mode mode, int8_t *out)
{
#ifdef INTS_BYTES
    for (int i = 0; i < part; i++) {
        const int8_t low = (int8_t)q[i];

        out[i] = mode == NB_FINE ? (int8_t)((q[i] - low) >> 8) : low;
        if (mode == NB_FINE)
            out[part + i] = low;
    }
#else
    (void)mode;
    for (int g = 0; g < part; g += 4) {
        const int16_t words[4] = { (int16_t)q[g], (int16_t)q[g + 2], (int16_t)q[g + 1], (int16_t)q[g + 3] };

        memcpy(out + 2 * g, words, sizeof words);
    }
#endif
}

static bool prepare(const nb_shape *s, nb_mode mode, const float *zero, const float *a, int8_t *limbs,
                    int64_t limbs_part, float *factors, int32_t *sums)
{
    const int64_t parts = nb_parts(s);
    const int32_t times = zero == NULL ? 1 : -(int32_t)*zero;
    const int part = (int)s->part;
    const float most = mode == NB_FINE ? TOP_FINE : 127;

    for (int64_t p = 0; p < parts; p++, a += part, limbs += limbs_part) {
        float top[VEC_LANES], largest = 0, rest = 0;
        vec tops = vec_zero(), finite = vec_zero();
        int32_t q[32], sum = 0;

        for (int i = 0; i < part; i += VEC_LANES) {
            const vec x = vec_load(a + i);

            tops = vec_max(tops, vec_abs(x));
            finite = vec_fma(x, vec_zero(), finite); /* NaN where one is not */
        }
        vec_store(top, tops);
        for (int i = 0; i < VEC_LANES; i++)
            largest = top[i] > largest ? top[i] : largest;
        vec_store(top, finite);
        for (int i = 0; i < VEC_LANES; i++)
            rest += top[i];
        if (rest != 0 || (largest > 0 && largest < LEAST_TOP) || rest != rest)
            return false;
        factors[p] = largest / most;
        for (int i = 0; i < part; i += VEC_LANES) {
            const vint whole = __builtin_convertvector(
                vec_round(vec_mul(vec_load(a + i), vec_set(largest > 0 ? most / largest : 0))), vint);

            memcpy(q + i, &whole, sizeof whole);
        }
        for (int i = 0; i < part; i++)
            sum += q[i];
        sums[p] = sum * times;
        lay_out(q, part, mode, limbs);
    }
    return true;
}

/* Weights of four k, one in each byte of a word; or, of words, those of k and k + 2 for each half of the four. */
#ifdef INTS_BYTES
enum { DOTS = 1 };
#else
enum { DOTS = 2 };
#endif

VEC_INLINE vint spread(vint w, int bits, int group, int dot)
{
    typedef uint32_t unsigned_words __attribute__((vector_size(VEC_LANES * 4)));
    const uint32_t mask = (1u << bits) - 1;

    return (vint)((unsigned_words)w >> (uint32_t)(8 * dot + bits * group) &
                  (DOTS == 1 ? mask * 0x01010101u : mask * 0x00010001u));
}

VEC_INLINE int32_t four(const int8_t *p)
{
    int32_t x;

    memcpy(&x, p, sizeof x);
    return x;
}

/* One part: groups of four k of `count` words, by one row. */
VEC_INLINE vint dot_part(const vint *u, int groups, nb_mode mode, const int8_t *limbs, int32_t first)
{
#ifdef INTS_BYTES
    vint low = vint_set(first), high = { 0 };

    VEC_UNROLL
    for (int g = 0; g < groups; g++) {
        if (mode == NB_FINE)
            high = ints_dot(high, u[g], four(limbs + 4 * g));
        low = ints_dot(low, u[g], four(limbs + (mode == NB_FINE ? 4 * groups : 0) + 4 * g));
    }
    return mode == NB_FINE ? (high << 8) + low : low;
#else
    vint even = vint_set(first), odd = { 0 };

    (void)mode;
    VEC_UNROLL
    for (int g = 0; g < groups; g++) {
        even = ints_dot(even, u[2 * g], four(limbs + 8 * g));
        odd = ints_dot(odd, u[2 * g + 1], four(limbs + 8 * g + 4));
    }
    return even + odd;
#endif
}

VEC_INLINE void limb_tile(const nb_tile *t, nb_mode mode, int bits, int part, int rows, bool zeros)
{
    const nb_shape *s = t->shape;
    const int groups = part / 4, per = 8 / bits; /* per: groups of four in a word */
    const int64_t parts = s->padded / part, all = s->blocks * parts;
    const uint8_t *w = t->w;
    vec sum[NB_ROWS][VECTORS], total[NB_ROWS][VECTORS];
    int64_t done = 0;

    VEC_UNROLL
    for (int r = 0; r < rows; r++) {
        VEC_UNROLL
        for (int v = 0; v < VECTORS; v++)
            sum[r][v] = total[r][v] = vec_zero();
    }
    for (int64_t b = 0; b < s->blocks; b++) {
        const float *scales = t->scales + b * NB_COLUMNS;

        for (int64_t p = 0; p < parts; p++) {
            VEC_UNROLL
            for (int v = 0; v < VECTORS; v++) {
                const vec scale = vec_load(scales + v * VEC_LANES);
                vint u[8 * DOTS], taken = { 0 };

                if (zeros)
                    taken = __builtin_convertvector(vec_load(t->zeros + b * NB_COLUMNS + v * VEC_LANES), vint);
                VEC_UNROLL
                for (int g = 0; g < groups; g++) {
                    const vint word = vint_load(w + g / per * NB_COLUMNS * 4 + v * VEC_LANES * 4);

                    VEC_UNROLL
                    for (int d = 0; d < DOTS; d++)
                        u[g * DOTS + d] = spread(word, bits, g % per, d);
                }
                VEC_UNROLL
                for (int r = 0; r < rows; r++) {
                    const int64_t at = r * all + done;
                    const int8_t *limbs = t->limbs + r * t->limbs_row + done * t->limbs_part;
                    vint dot = dot_part(u, groups, mode, limbs, zeros ? 0 : t->sums[at]);

                    if (zeros)
                        dot -= taken * vint_set(t->sums[at]);
                    sum[r][v] = vec_fma(vec_mul(vec_of(dot), vec_set(t->factors[at])), scale, sum[r][v]);
                }
            }
            for (int i = 0; rows == 1 && i < part * bits / 32; i++)
                vec_fetch_near(w + AHEAD + 64 * i);
            w += part * NB_COLUMNS * bits / 8;
            if (++done % RUN == 0)
                end_run(total, sum, rows);
        }
    }
    store_tile(t, total, sum, rows);
}

#if defined(INTS_BYTES) && VEC_LANES == NB_COLUMNS
enum { MANY = NB_MANY };

/* limb_tile of NB_MANY rows, whose parts lie side by side: a word of weights is spread once for all of them, and their
 * sums do not wait for each other. */
VEC_INLINE void many_rows(const nb_tile *t, nb_mode mode, int bits, int part, bool zeros)
{
    const nb_shape *s = t->shape;
    const int groups = part / 4, per = 8 / bits, low_at = mode == NB_FINE ? part : 0;
    const int64_t parts = s->padded / part, all = s->blocks * parts;
    float total[MANY * NB_COLUMNS] = { 0 }; /* in memory: there are not registers for these, too */
    vec sum[MANY];
    const uint8_t *w = t->w;
    int64_t done = 0;

    VEC_UNROLL
    for (int r = 0; r < MANY; r++)
        sum[r] = vec_zero();
    for (int64_t b = 0; b < s->blocks; b++) {
        const vec scale = vec_load(t->scales + b * NB_COLUMNS);

        for (int64_t p = 0; p < parts; p++) {
            const int8_t *limbs = t->limbs + done * t->limbs_part; /* rows beside each other */
            vint low[MANY], high[MANY];

            VEC_UNROLL
            for (int r = 0; r < MANY; r++) {
                low[r] = vint_set(zeros ? 0 : t->sums[r * all + done]);
                high[r] = vint_set(0);
            }
            VEC_UNROLL
            for (int g = 0; g < groups; g++) {
                const vint u = spread(vint_load(w + g / per * NB_COLUMNS * 4), bits, g % per, 0);

                VEC_UNROLL
                for (int r = 0; r < MANY; r++) {
                    const int8_t *row = limbs + r * 2 * part + 4 * g;

                    if (mode == NB_FINE)
                        high[r] = ints_dot_at(high[r], u, row);
                    low[r] = ints_dot_at(low[r], u, row + low_at);
                }
            }
            VEC_UNROLL
            for (int r = 0; r < MANY; r++) {
                vint dot = mode == NB_FINE ? (high[r] << 8) + low[r] : low[r];

                if (zeros)
                    dot -= __builtin_convertvector(vec_load(t->zeros + b * NB_COLUMNS), vint) *
                           vint_set(t->sums[r * all + done]);
                sum[r] = vec_fma(vec_mul(vec_of(dot), vec_set(t->factors[r * all + done])), scale, sum[r]);
            }
            w += part * NB_COLUMNS * bits / 8;
            if (++done % RUN != 0)
                continue;
            __asm__ volatile("" : : "r"(total) : "memory");
            VEC_UNROLL
            for (int r = 0; r < MANY; r++) {
                vec_store(total + r * NB_COLUMNS, vec_add(vec_load(total + r * NB_COLUMNS), sum[r]));
                sum[r] = vec_zero();
            }
        }
    }
    VEC_UNROLL
    for (int r = 0; r < MANY; r++)
        vec_store_some(t->c + r * t->c_row, vec_first(t->columns), vec_add(vec_load(total + r * NB_COLUMNS), sum[r]));
}
#else
enum { MANY = 0 };
VEC_INLINE void many_rows(const nb_tile *t, nb_mode mode, int bits, int part, bool zeros)
{
    (void)t, (void)mode, (void)bits, (void)part, (void)zeros;
}
#endif

VEC_INLINE void any_rows(const nb_tile *t, nb_mode mode, int bits, int part, int rows, bool zeros)
{
    if (rows == NB_MANY)
        many_rows(t, mode, bits, part, zeros);
    else
        limb_tile(t, mode, bits, part, rows, zeros);
}

VEC_INLINE void fine_tile(const nb_tile *t, int bits, int rows, bool zeros)
{
    if (t->shape->part == 32)
        any_rows(t, NB_FINE, bits, 32, rows, zeros);
    else
        any_rows(t, NB_FINE, bits, 16, rows, zeros);
}

VEC_INLINE void byte_tile(const nb_tile *t, int bits, int rows, bool zeros)
{
    if (t->shape->part == 32)
        any_rows(t, NB_BYTE, bits, 32, rows, zeros);
    else
        any_rows(t, NB_BYTE, bits, 16, rows, zeros);
}

#define BY_MORE_ROWS(function, ...)                                                                                    \
    if (MANY > 0 && t->rows == MANY)                                                                                   \
        function(t, __VA_ARGS__, NB_MANY, zeros);                                                                      \
    else                                                                                                               \
        BY_ROWS(function, __VA_ARGS__)
BY_BITS(fine, fine_tile, BY_MORE_ROWS)
BY_BITS(byte, byte_tile, BY_MORE_ROWS)
enum { HAS_LIMBS = 1 };
#else
static bool prepare(const nb_shape *s, nb_mode mode, const float *zero, const float *a, int8_t *limbs,
                    int64_t limbs_part, float *factors, int32_t *sums)
{
    (void)s, (void)mode, (void)zero, (void)a, (void)limbs, (void)limbs_part, (void)factors, (void)sums;
    return false;
}
#define fine exact
#define byte exact
enum { HAS_LIMBS = 0, MANY = 0 };
#endif

const nb_kernel KERNEL(nbits) = {
    .isa = KERNEL_TEXT,
    .has_limbs = HAS_LIMBS,
    .many = MANY,
    .prepare = prepare,
    .tile = { exact, byte, fine },
    .unfold = unfold,
};
