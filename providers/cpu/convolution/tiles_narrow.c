/* Tiles of few output channels with vectors of 16 lanes: two elements of a pixel at a time by the weights of eight
 * channels each, so that vectors are full for 8, 16 and 24 channels, and one load serves two elements. The sums of
 * even and of odd elements are added at the end. */
#include "cpu/convolution/tile_set.h"
#include "inlay/check.h"
#include "simd/vec.h"

#if VEC_NARROW

enum { MAX_ROWS = 7 }; /* of three vectors: 21 sums, 3 of weights, and their operands */

static inline __m512 two_of(const float *input)
{
    double both;

    memcpy(&both, input, sizeof both);
    return _mm512_castpd_ps(_mm512_set1_pd(both));
}

/* vectors: number of vectors of 8 channels by two elements. */
static inline __attribute__((always_inline)) void narrow(const int rows, const int vectors, const tile_product *p)
{
    const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i high = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    const int lines = (vectors + 1) / 2;
    const int64_t a_row = p->a_row;
    const float *b = p->b;
    const char *ahead = (const char *)p->ahead;
    __m512 sum[TILE_ROWS][3];

    VEC_UNROLL
    for (int v = 0; v < vectors; v++) {
        VEC_UNROLL
        for (int r = 0; r < rows; r++)
            sum[r][v] = _mm512_setzero_ps();
    }
    for (int64_t tap = 0; tap < p->tap_count; tap++) {
        const float
            *base[(TILE_ROWS + 2) / 3]; /* one base address for three rows: offsets that an instruction can encode */

        VEC_UNROLL
        for (int i = 0; 3 * i < rows; i++)
            base[i] = p->a + p->taps[tap] + 3 * i * a_row;
        for (int64_t k = 0; k < p->depth; k += 2, b += 2 * TILE_WIDTH) {
            const __m512 first = _mm512_loadu_ps(b), second = _mm512_loadu_ps(b + TILE_WIDTH);
            __m512 weights[3];

            weights[0] = _mm512_permutex2var_ps(first, low, second);
            if (vectors > 1)
                weights[1] = _mm512_permutex2var_ps(first, high, second);
            if (vectors > 2)
                weights[2] = _mm512_permutex2var_ps(_mm512_loadu_ps(b + TILE_LANES), low,
                                                    _mm512_loadu_ps(b + TILE_WIDTH + TILE_LANES));
            if (ahead != NULL) {
                VEC_UNROLL
                for (int i = 0; i < 2; i++, ahead += 64 * p->ahead_lines) {
                    _mm_prefetch(ahead, _MM_HINT_T1);
                    if (p->ahead_lines > 1)
                        _mm_prefetch(ahead + 64, _MM_HINT_T1);
                }
            }
            VEC_UNROLL
            for (int r = 0; r < rows; r++) {
                const __m512 x = two_of(base[r / 3] + r % 3 * a_row);

                VEC_UNROLL
                for (int v = 0; v < vectors; v++)
                    sum[r][v] = _mm512_fmadd_ps(x, weights[v], sum[r][v]);
            }
            VEC_UNROLL
            for (int i = 0; 3 * i < rows; i++)
                base[i] += 2;
        }
    }
    VEC_UNROLL
    for (int l = 0; l < lines; l++) {
        const int64_t left = p->columns - l * TILE_LANES;
        const __mmask16 mask = left >= TILE_LANES ? (__mmask16)0xffff : (__mmask16)((1u << left) - 1);
        const __m512 bias =
            p->bias == NULL ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, p->bias + l * TILE_LANES);

        VEC_UNROLL
        for (int r = 0; r < rows; r++) {
            const __m512 x = sum[r][2 * l], y = 2 * l + 1 < vectors ? sum[r][2 * l + 1] : x;
            __m512 z = _mm512_add_ps(_mm512_permutex2var_ps(x, even, y), _mm512_permutex2var_ps(x, odd, y));

            z = _mm512_add_ps(z, bias);
            if (p->add != NULL)
                z = _mm512_add_ps(z, _mm512_maskz_loadu_ps(mask, p->add + r * p->add_row + l * TILE_LANES));
            if (p->clamp) /* this order of min and max keeps NaN */
                z = _mm512_min_ps(_mm512_set1_ps(p->high), _mm512_max_ps(_mm512_set1_ps(p->low), z));
            _mm512_mask_storeu_ps(p->c + r * p->c_row + l * TILE_LANES, mask, z);
        }
    }
}

#define ROWS_7(X, v) X(1, v) X(2, v) X(3, v) X(4, v) X(5, v) X(6, v) X(7, v)
#define ROWS_14(X, v) ROWS_7(X, v) X(8, v) X(9, v) X(10, v) X(11, v) X(12, v) X(13, v) X(14, v)
#define CELLS(X) ROWS_14(X, 1) ROWS_14(X, 2) ROWS_7(X, 3)
#define CELL(rows, vectors)                                                                                            \
    KERNEL_PART(void, narrow_##rows##_##vectors, const tile_product *p)                                                \
    {                                                                                                                  \
        narrow(rows, vectors, p);                                                                                      \
    }
CELLS(CELL)
#undef CELL

void KERNEL(tiles_narrow)(const tile_product *p, int rows)
{
    static void (*const table[][TILE_ROWS])(const tile_product *) = {
#define CELL(rows, vectors) [vectors - 1][rows - 1] = KERNEL_PART_OF(narrow_##rows##_##vectors),
        CELLS(CELL)
#undef CELL
    };
    const int vectors = (int)(p->columns + 7) / 8;
    tile_product rest = *p;

    INLAY_CHECK(p->depth % 2 == 0 && vectors > 0 && vectors <= 3 && rows > 0 && rows <= TILE_ROWS);
    if (vectors < 3 || rows <= MAX_ROWS) {
        table[vectors - 1][rows - 1](p);
        return;
    }
    table[vectors - 1][rows / 2 - 1](p);
    rest.a += rows / 2 * p->a_row;
    rest.c += rows / 2 * p->c_row;
    rest.add = p->add != NULL ? p->add + rows / 2 * p->add_row : NULL;
    rest.ahead = NULL;
    table[vectors - 1][rows - rows / 2 - 1](&rest);
}
#else
typedef int nothing; /* shorter vectors are full without this */
#endif
