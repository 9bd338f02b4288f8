/* Moves for x86-64-v4; compiled with that -march, called where the CPU has it. */
#include "moves.h"
#include "tiles.h"
#include <immintrin.h>

enum { LANES = 16 };

static inline __mmask16 mask_of(int64_t columns)
{
    return columns >= LANES ? (__mmask16)0xffff : (__mmask16)((1u << columns) - 1);
}

static void move_rows(const float *x, int64_t x_row, float *y, int64_t y_row, int64_t rows, int64_t columns)
{
    const int64_t whole = columns / LANES * LANES;
    const __mmask16 tail = mask_of(columns - whole);

    for (int64_t r = 0; r < rows; r++, x += x_row, y += y_row) {
        for (int64_t c = 0; c < whole; c += LANES)
            _mm512_storeu_ps(y + c, _mm512_loadu_ps(x + c));
        if (tail != 0)
            _mm512_mask_storeu_ps(y + whole, tail, _mm512_maskz_loadu_ps(tail, x + whole));
    }
}

/* v[r][c] and v[c][r] change places. */
static inline __attribute__((always_inline)) void turn_square(__m512 v[LANES])
{
    __m512 t[LANES];

    for (int i = 0; i < LANES; i += 2) {
        t[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
    }
    for (int i = 0; i < LANES; i += 4) { /* v[i + j]: column j of each group of four columns, from rows i ... i + 3 */
        const __m512d a = _mm512_castps_pd(t[i]), b = _mm512_castps_pd(t[i + 1]), c = _mm512_castps_pd(t[i + 2]),
                      d = _mm512_castps_pd(t[i + 3]);

        v[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        v[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        v[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        v[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
    for (int j = 0; j < 4; j++) { /* groups of four columns go to four rows of the result */
        const __m512 low = _mm512_shuffle_f32x4(v[j], v[4 + j], 0x44),
                     high = _mm512_shuffle_f32x4(v[j], v[4 + j], 0xee),
                     low2 = _mm512_shuffle_f32x4(v[8 + j], v[12 + j], 0x44),
                     high2 = _mm512_shuffle_f32x4(v[8 + j], v[12 + j], 0xee);

        t[j] = _mm512_shuffle_f32x4(low, low2, 0x88);
        t[4 + j] = _mm512_shuffle_f32x4(low, low2, 0xdd);
        t[8 + j] = _mm512_shuffle_f32x4(high, high2, 0x88);
        t[12 + j] = _mm512_shuffle_f32x4(high, high2, 0xdd);
    }
    for (int i = 0; i < LANES; i++)
        v[i] = t[i];
}

static inline __attribute__((always_inline)) void turn_block(const float *x, int64_t x_row, float *y, int64_t y_row,
                                                             int64_t rows, int64_t columns, bool full)
{
    const __mmask16 in = mask_of(columns), out = mask_of(rows);
    __m512 v[LANES];

    for (int r = 0; r < LANES; r++)
        v[r] = full ? _mm512_loadu_ps(x + r * x_row)
                    : r < rows ? _mm512_maskz_loadu_ps(in, x + r * x_row) : _mm512_setzero_ps();
    turn_square(v);
    for (int c = 0; c < LANES; c++)
        if (full)
            _mm512_storeu_ps(y + c * y_row, v[c]);
        else if (c < columns)
            _mm512_mask_storeu_ps(y + c * y_row, out, v[c]);
}

/* Few rows whose columns follow each other without gaps, as pixels of few channels do: whole vectors are stored, and
 * what is too much is written over by the next. Returns how many columns were done; the last may not run over. */
static int64_t turn_few(const float *x, int64_t x_row, float *y, int64_t rows, int64_t columns)
{
    int64_t c = 0;

    for (; (columns - c - LANES + 1) * rows >= LANES; c += LANES) {
        __m512 v[LANES];

        for (int r = 0; r < LANES; r++)
            v[r] = r < rows ? _mm512_loadu_ps(x + r * x_row + c) : _mm512_setzero_ps();
        turn_square(v);
        for (int i = 0; i < LANES; i++)
            _mm512_storeu_ps(y + (c + i) * rows, v[i]);
    }
    return c;
}

static void move_turn(const float *x, int64_t x_row, float *y, int64_t y_row, int64_t rows, int64_t columns)
{
    int64_t first = 0;

    if (rows == 3 && y_row == 3) {
        tiles_avx512.interleave_3(x, x_row, columns, y);
        return;
    }
    if (rows < LANES && y_row == rows)
        first = turn_few(x, x_row, y, rows, columns);
    for (int64_t c = first; c < columns; c += LANES) {
        for (int64_t r = 0; r < rows; r += LANES) {
            const float *from = x + r * x_row + c;
            float *to = y + c * y_row + r;

            if (rows - r >= LANES && columns - c >= LANES)
                turn_block(from, x_row, to, y_row, LANES, LANES, true);
            else
                turn_block(from, x_row, to, y_row, rows - r < LANES ? rows - r : LANES,
                           columns - c < LANES ? columns - c : LANES, false);
        }
    }
}

const move_set moves_avx512 = { move_rows, move_turn };
