/* The kernels of unfold.h for one instruction set, written in terms of simd/vec.h. */
#include "cpu/weights/unfold.h"
#include "inlay/check.h"
#include "simd/vec_words.h"

typedef float lanes __attribute__((vector_size(UNFOLD_LANES * sizeof(float))));

/* unfold_kernel.scale. It uses vector types explicitly, because compilers would vectorise a plain loop over `count`
 * with gather instructions. */
static void scale_lanes(const float *restrict input, float *restrict output, int64_t count,
                        const uint32_t *restrict ids, const float *restrict scales, const float *restrict zeros)
{
    for (int64_t g = 0; g * UNFOLD_LANES < count; g++) {
        lanes values, scale, zero = { 0 };

        memcpy(&values, input + g * UNFOLD_LANES, sizeof values);
        memcpy(&scale, scales + (size_t)ids[g] * UNFOLD_LANES, sizeof scale);
        if (zeros != NULL)
            memcpy(&zero, zeros + (size_t)ids[g] * UNFOLD_LANES, sizeof zero);
        values = (values - zero) * scale;
        memcpy(output + g * UNFOLD_LANES, &values, sizeof values);
    }
}

#if defined(KERNEL_IS_c)
const unfold_kernel KERNEL(unfold) = { .scale = scale_lanes };
#else

enum {
    EACH = UNFOLD_LANES / VEC_LANES,         /* vectors of a group */
    VECTORS = EACH > 4 ? EACH : 4,           /* vectors of a row that are summed in parallel */
    SIDE = VECTORS / EACH,                   /* their groups */
    MOST_ROWS = VEC_REGISTERS >= 32 ? 4 : 2, /* rows whose sums stay in registers */
    AHEAD = 2048                             /* prefetch distance in bytes of codes */
};

/* Loads VEC_LANES signed bytes. (GCC splits vectors of bytes to convert them.) */
VEC_INLINE vint bytes_at(const uint8_t *data)
{
#if defined(KERNEL_IS_avx512)
    return (vint)_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)data));
#elif defined(KERNEL_IS_avx2)
    return (vint)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)data));
#else
    vint v;

    for (int l = 0; l < VEC_LANES; l++)
        v[l] = (int8_t)data[l];
    return v;
#endif
}

/* Loads VEC_LANES bytes, each with the nibbles of two groups. */
VEC_INLINE vint pairs_at(const uint8_t *data)
{
#if defined(KERNEL_IS_avx512)
    return (vint)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)data));
#elif defined(KERNEL_IS_avx2)
    return (vint)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)data));
#else
    vint v;

    for (int l = 0; l < VEC_LANES; l++)
        v[l] = data[l];
    return v;
#endif
}

/* The first byte of group g; for nibbles, of the pair that contains it. */
VEC_INLINE const uint8_t *group_at(const uint8_t *data, int64_t g, int bits)
{
    return data + (bits == 8 ? g : g / 2) * UNFOLD_LANES;
}

/* Vector v of group g, counted from group_at. */
VEC_INLINE vec codes_at(const uint8_t *data, int g, int v, int bits, const float *table)
{
    if (bits == 8)
        return vec_of(bytes_at(data + g * UNFOLD_LANES + v * VEC_LANES));
    return vec_pick(pairs_at(data + g / 2 * UNFOLD_LANES + v * VEC_LANES), g % 2 * 4, 4, table);
}

static inline void make_table(const unfold_codes *codes, float *table)
{
    for (int i = 0; i < 16; i++)
        table[i] = codes->least + (float)i;
}

VEC_INLINE void unfold_bits(const unfold_codes *codes, int bits, bool zeros, int64_t first, int64_t last, float *out)
{
    const int64_t end = last / UNFOLD_LANES, id_step = codes->id_step;
    const uint8_t *data = codes->data;
    const uint16_t *ids = codes->ids;
    const float *scales = codes->scales, *zero = codes->zeros;
    float table[16];

    make_table(codes, table);
    for (int64_t g = first / UNFOLD_LANES; g < end; g++, out += UNFOLD_LANES) {
        const size_t at = (size_t)ids[g * id_step] * UNFOLD_LANES;
        const uint8_t *from = group_at(data, g, bits);

        vec_fetch_near(from + AHEAD);
        VEC_UNROLL
        for (int v = 0; v < EACH; v++) {
            vec x = codes_at(from, bits == 8 ? 0 : (int)(g % 2), v, bits, table);

            if (zeros)
                x = vec_sub(x, vec_load(zero + at + v * VEC_LANES));
            vec_store(out + v * VEC_LANES, vec_mul(x, vec_load(scales + at + v * VEC_LANES)));
        }
    }
}

static void unfold(const unfold_codes *codes, int64_t first, int64_t last, float *out)
{
    INLAY_CHECK(first % UNFOLD_LANES == 0 && last % UNFOLD_LANES == 0 && first <= last);
    INLAY_CHECK(codes->bits == 4 || codes->bits == 8);
    if (codes->bits == 8 && codes->zeros == NULL)
        unfold_bits(codes, 8, false, first, last, out);
    else if (codes->bits == 8)
        unfold_bits(codes, 8, true, first, last, out);
    else if (codes->zeros == NULL)
        unfold_bits(codes, 4, false, first, last, out);
    else
        unfold_bits(codes, 4, true, first, last, out);
}

/* The position in a product: groups from `block` on, rows from `row` on. */
struct slice {
    const unfold_product *product;
    int64_t block, row;
};

/* Adds the products of one k to the sums of the rows. at: the group that holds the first column of this k; zero: NULL
 * if all zero points are 0. */
VEC_INLINE void add_step(const uint8_t *data, int64_t at, const float *const *x, int64_t k, int bits, int vectors,
                         int rows, const float *table, const vec *zero, vec (*sum)[VECTORS])
{
    const uint8_t *from = group_at(data, at, bits);
    const int odd = vectors > EACH || bits == 8 ? 0 : (int)(at % 2); /* several groups begin with a low nibble */

    VEC_UNROLL
    for (int v = 0; v < vectors; v++) {
        const vec code = codes_at(from, odd + v / EACH, v % EACH, bits, table);
        const vec w = zero != NULL ? vec_sub(code, zero[v]) : code;

        VEC_UNROLL
        for (int r = 0; r < rows; r++)
            sum[r][v] = vec_fma(vec_set(x[r][k]), w, sum[r][v]);
    }
}

/* The position of the scales and zero points of vector v; id: of its first group. */
VEC_INLINE size_t lanes_of(const unfold_product *product, const uint16_t *id, int v)
{
    return (size_t)id[v / EACH * product->codes->id_step] * UNFOLD_LANES + (size_t)(v % EACH * VEC_LANES);
}

/* Multiplies `rows` rows from slice->row on by `vectors` vectors of columns. Missing rows repeat the last row. Sums of
 * codes are scaled at the end, since all k have the same scales: dequantizing each weight would take longer than
 * multiplying it. */
VEC_INLINE void multiply_rows(const struct slice *slice, int bits, bool zeros, int vectors, int rows, bool lone)
{
    const unfold_product *product = slice->product;
    const int64_t column = slice->block * UNFOLD_LANES, step = product->step, depth = product->depth;
    const uint8_t *data = product->codes->data;
    const uint16_t *id = product->codes->ids + (product->first + slice->block) * product->codes->id_step;
    int64_t at = product->first + slice->block, k = 0, of[MOST_ROWS];
    const float *x[MOST_ROWS];
    vec sum[MOST_ROWS][VECTORS], odd[1][VECTORS], zero[VECTORS];
    float table[16];

    make_table(product->codes, table);
    VEC_UNROLL
    for (int r = 0; r < rows; r++) {
        of[r] = slice->row + r < product->rows ? slice->row + r : product->rows - 1;
        x[r] = product->x[of[r]];
    }
    VEC_UNROLL
    for (int v = 0; v < vectors; v++) {
        zero[v] = zeros ? vec_load(product->codes->zeros + lanes_of(product, id, v)) : vec_zero();
        odd[0][v] = vec_zero();
        VEC_UNROLL
        for (int r = 0; r < rows; r++)
            sum[r][v] = vec_zero();
    }
    for (; lone && k + 1 < depth; k += 2, at += 2 * step) {
        vec_fetch_near(data + at * UNFOLD_LANES / 8 * bits + AHEAD);
        vec_fetch_near(data + (at + step) * UNFOLD_LANES / 8 * bits + AHEAD);
        add_step(data, at, x, k, bits, vectors, rows, table, zeros ? zero : NULL, sum);
        add_step(data, at + step, x, k + 1, bits, vectors, rows, table, zeros ? zero : NULL, odd);
    }
    VEC_UNROLL
    for (int v = 0; lone && v < vectors; v++)
        sum[0][v] = vec_add(sum[0][v], odd[0][v]);
    for (; k < depth; k++, at += step)
        add_step(data, at, x, k, bits, vectors, rows, table, zeros ? zero : NULL, sum);
    VEC_UNROLL
    for (int v = 0; v < vectors; v++) {
        const vec scale = vec_load(product->codes->scales + lanes_of(product, id, v)),
                  start = product->start != NULL ? vec_load(product->start + column + v * VEC_LANES) : vec_zero();

        VEC_UNROLL
        for (int r = 0; r < rows; r++)
            vec_store(product->y[of[r]] + column + v * VEC_LANES, vec_fma(sum[r][v], scale, start));
    }
}

VEC_INLINE void multiply_all_rows(struct slice *slice, int bits, bool zeros, int vectors)
{
    if (slice->product->rows == 1 && slice->product->lone)
        multiply_rows(slice, bits, zeros, vectors, 1, true);
    else
        for (; slice->row < slice->product->rows; slice->row += MOST_ROWS)
            multiply_rows(slice, bits, zeros, vectors, MOST_ROWS, false);
    slice->row = 0;
}

VEC_INLINE void multiply_group(struct slice *slice, int bits, int vectors)
{
    if (slice->product->codes->zeros != NULL)
        multiply_all_rows(slice, bits, true, vectors);
    else
        multiply_all_rows(slice, bits, false, vectors);
}

/* Nibbles of several groups are computed at once only if each k begins with a low nibble. */
static void product(const unfold_product *call)
{
    INLAY_CHECK(call->blocks >= 1 && call->blocks <= UNFOLD_BLOCKS && call->rows >= 1);
    const int side = call->codes->bits == 8 || (call->first % 2 == 0 && call->step % 2 == 0) ? SIDE : 1;
    struct slice slice = { .product = call };

    while (slice.block < call->blocks) {
        const bool full = call->blocks - slice.block >= side && side == SIDE;

        if (call->codes->bits == 8 && full)
            multiply_group(&slice, 8, VECTORS);
        else if (call->codes->bits == 8)
            multiply_group(&slice, 8, EACH);
        else if (full)
            multiply_group(&slice, 4, VECTORS);
        else
            multiply_group(&slice, 4, EACH);
        slice.block += full ? SIDE : 1;
    }
}

const unfold_kernel KERNEL(unfold) = { .unfold = unfold, .product = product, .scale = scale_lanes };
#endif
