/* Channels by themselves, for x86-64-v4; compiled with that -march, called where the CPU has it. */
#include "groups.h"
#include <immintrin.h>

enum { LANES = 16, PIXELS = 8 };

/* `count` pixels of up to 16 channels; a tap's weights are read once for all of them. */
static inline __attribute__((always_inline)) void block(const thin_row *r, const int count, const __mmask16 mask,
                                                        const float *x, const float *w, __m512 first, float *y)
{
    __m512 sum[PIXELS];

    for (int p = 0; p < count; p++)
        sum[p] = first;
    for (int64_t t = 0; t < r->tap_count; t++) {
        const __m512 weight = _mm512_maskz_loadu_ps(mask, w + t * r->w_step);
        const float *from = x + r->taps[t];

#pragma GCC unroll 8
        for (int p = 0; p < count; p++)
            sum[p] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, from + p * r->x_step), weight, sum[p]);
    }
    for (int p = 0; p < count; p++)
        _mm512_mask_storeu_ps(y + p * r->y_step, mask, sum[p]);
}

void thin_row_avx512(const thin_row *r)
{
    for (int64_t c = 0; c < r->channels; c += LANES) {
        const int64_t lanes = r->channels - c < LANES ? r->channels - c : LANES;
        const __mmask16 mask = (__mmask16)(0xffffu >> (LANES - lanes));
        const __m512 first = r->bias != NULL ? _mm512_maskz_loadu_ps(mask, r->bias + c) : _mm512_setzero_ps();
        int64_t p = 0;

        for (; p + PIXELS <= r->pixels; p += PIXELS)
            block(r, PIXELS, mask, r->x + p * r->x_step + c, r->w + c, first, r->y + p * r->y_step + c);
        for (; p + 2 <= r->pixels; p += 2)
            block(r, 2, mask, r->x + p * r->x_step + c, r->w + c, first, r->y + p * r->y_step + c);
        if (p < r->pixels)
            block(r, 1, mask, r->x + p * r->x_step + c, r->w + c, first, r->y + p * r->y_step + c);
    }
}
