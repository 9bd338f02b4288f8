/* The loops of unfold.h, written once over vectors. */
#include "unfold.h"
#include "vec_words.h"

enum {
    EACH = UF_LANES / VEC_LANES,              /* vectors of a group */
    VECTORS = EACH > 4 ? EACH : 4,            /* that are summed side by side, */
    SIDE = VECTORS / EACH,                    /* and the groups that this is */
    MOST_ROWS = VEC_REGISTERS >= 32 ? 4 : 2,  /* whose sums stay in registers beside them */
    AHEAD = 1024                              /* bytes of codes that are fetched ahead */
};

/* VEC_LANES signed bytes. (GCC takes vectors of bytes apart to convert them.) */
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

/* VEC_LANES words whose lowest bits are a nibble each. */
VEC_INLINE vint nibbles_at(const uint8_t *data)
{
#if defined(KERNEL_IS_avx512)
    const __m512i halves = _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m512i shifts = _mm512_set_epi32(28, 24, 20, 16, 12, 8, 4, 0, 28, 24, 20, 16, 12, 8, 4, 0);

    return (vint)_mm512_srlv_epi32(
        _mm512_permutexvar_epi32(halves, _mm512_castsi128_si512(_mm_loadl_epi64((const void *)data))), shifts);
#else
    uint32_t word = 0;
    vint shifts;

    memcpy(&word, data, VEC_LANES / 2);
    for (int l = 0; l < VEC_LANES; l++)
        shifts[l] = 4 * l;
    return vint_set((int32_t)word) >> shifts;
#endif
}

/* VEC_LANES codes. */
VEC_INLINE vec codes_at(const uint8_t *data, int bits, const float *table)
{
    return bits == 8 ? vec_of(bytes_at(data)) : vec_pick(nibbles_at(data), 0, 4, table);
}

static inline void make_table(const uf_codes *c, float *table)
{
    for (int i = 0; i < 16; i++)
        table[i] = c->least + (float)i;
}

VEC_INLINE void unfold_bits(const uf_codes *c, int bits, bool zeros, int64_t first, int64_t last, float *out)
{
    const int64_t groups = (last - first) / UF_LANES;
    const uint8_t *data = c->data + first / 8 * bits;
    const uint16_t *id = c->ids + first / UF_LANES * c->id_step;
    const int64_t id_step = c->id_step;
    const float *scales = c->scales, *zero = c->zeros;
    float table[16];

    make_table(c, table);
    for (int64_t g = 0; g < groups; g++, data += UF_LANES / 8 * bits, id += id_step, out += UF_LANES) {
        const size_t at = (size_t)*id * UF_LANES;

        vec_fetch_near(data + AHEAD);
        VEC_UNROLL
        for (int v = 0; v < EACH; v++) {
            vec x = codes_at(data + v * VEC_LANES * bits / 8, bits, table);

            if (zeros)
                x = vec_sub(x, vec_load(zero + at + v * VEC_LANES));
            vec_store(out + v * VEC_LANES, vec_mul(x, vec_load(scales + at + v * VEC_LANES)));
        }
    }
}

static void unfold(const uf_codes *c, int64_t first, int64_t last, float *out)
{
    if (c->bits == 8 && c->zeros == NULL)
        unfold_bits(c, 8, false, first, last, out);
    else if (c->bits == 8)
        unfold_bits(c, 8, true, first, last, out);
    else if (c->zeros == NULL)
        unfold_bits(c, 4, false, first, last, out);
    else
        unfold_bits(c, 4, true, first, last, out);
}

/* ------------------------------------------------------------------ products */

/* Groups [block, + vectors / EACH) of the slice, rows from `row` on. */
typedef struct slice {
    const uf_product *p;
    int64_t block, row;
} slice;

/* One k of some rows. */
VEC_INLINE void add_step(const uint8_t *data, const float *const *x, int64_t k, int bits, int vectors, int rows,
                         const float *table, const vec *scale, const vec *zero, vec (*sum)[VECTORS])
{
    VEC_UNROLL
    for (int v = 0; v < vectors; v++) {
        const vec w = vec_mul(vec_sub(codes_at(data + v * VEC_LANES * bits / 8, bits, table), zero[v]), scale[v]);

        VEC_UNROLL
        for (int r = 0; r < rows; r++)
            sum[r][v] = vec_fma(vec_set(x[r][k]), w, sum[r][v]);
    }
}

VEC_INLINE void some_rows(const slice *s, int bits, int vectors, int rows, bool lone)
{
    const uf_product *p = s->p;
    const int64_t column = s->block * UF_LANES, step = p->step * UF_LANES / 8 * bits, depth = p->depth;
    const uint8_t *data = p->codes->data + (p->first + s->block) * UF_LANES / 8 * bits;
    const uint16_t *id = p->codes->ids + (p->first + s->block) * p->codes->id_step;
    const float *x[MOST_ROWS];
    vec sum[MOST_ROWS][VECTORS], odd[1][VECTORS], scale[VECTORS], zero[VECTORS];
    float table[16];
    int64_t k = 0;

    make_table(p->codes, table);
    VEC_UNROLL
    for (int r = 0; r < rows; r++)
        x[r] = p->x[s->row + r];
    VEC_UNROLL
    for (int v = 0; v < vectors; v++) {
        const size_t from = (size_t)id[v / EACH * p->codes->id_step] * UF_LANES + (size_t)(v % EACH * VEC_LANES);

        scale[v] = vec_load(p->codes->scales + from);
        zero[v] = p->codes->zeros != NULL ? vec_load(p->codes->zeros + from) : vec_zero();
        odd[0][v] = vec_zero();
        VEC_UNROLL
        for (int r = 0; r < rows; r++)
            sum[r][v] = p->start != NULL ? vec_load(p->start + column + v * VEC_LANES) : vec_zero();
    }
    for (; lone && k + 1 < depth; k += 2, data += 2 * step) {
        vec_fetch_near(data + AHEAD);
        add_step(data, x, k, bits, vectors, rows, table, scale, zero, sum);
        add_step(data + step, x, k + 1, bits, vectors, rows, table, scale, zero, odd);
    }
    VEC_UNROLL
    for (int v = 0; lone && v < vectors; v++)
        sum[0][v] = vec_add(sum[0][v], odd[0][v]);
    for (; k < depth; k++, data += step)
        add_step(data, x, k, bits, vectors, rows, table, scale, zero, sum);
    VEC_UNROLL
    for (int r = 0; r < rows; r++) {
        VEC_UNROLL
        for (int v = 0; v < vectors; v++)
            vec_store(p->y[s->row + r] + column + v * VEC_LANES, sum[r][v]);
    }
}

VEC_INLINE void all_rows(slice *s, int bits, int vectors)
{
    const int64_t rows = s->p->rows;

    for (s->row = 0; rows - s->row >= MOST_ROWS; s->row += MOST_ROWS)
        some_rows(s, bits, vectors, MOST_ROWS, false);
    for (; s->row < rows; s->row++)
        if (rows == 1 && s->p->lone)
            some_rows(s, bits, vectors, 1, true);
        else
            some_rows(s, bits, vectors, 1, false);
}

static void product(const uf_product *p)
{
    slice s = { .p = p };

    while (s.block < p->blocks) {
        const bool full = p->blocks - s.block >= SIDE;

        if (p->codes->bits == 8 && full)
            all_rows(&s, 8, VECTORS);
        else if (p->codes->bits == 8)
            all_rows(&s, 8, EACH);
        else if (full)
            all_rows(&s, 4, VECTORS);
        else
            all_rows(&s, 4, EACH);
        s.block += full ? SIDE : 1;
    }
}

const unfold_kernel KERNEL(unfold) = { .unfold = unfold, .product = product };
