/* nbits_coding.h - how packed weights are read by the kernels of nbits.h, and how one kernel becomes one function for
 * each number of bits. */
#ifndef CPU_NBITS_CODING_H
#define CPU_NBITS_CODING_H
#include "cpu/weights/nbits_scales.h"
#include "inlay/check.h"

enum { VECTORS = NBITS_COLUMNS / VEC_LANES };

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
#endif
