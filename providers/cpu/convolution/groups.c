/* Channels by themselves, see groups.h. */
#include "convolution/groups.h"
#include "simd/vec.h"

enum { PIXELS = 8 };

/* `count` pixels of up to VEC_LANES channels; a tap's weights are read once for all of them. */
VEC_INLINE void block(const thin_row *row, const int count, const bool full, const vmask mask, const float *input,
                      const float *weights, vec first, float *output)
{
    vec sum[PIXELS];

#define LOAD(p) (full ? vec_load(p) : vec_load_some(mask, p))
    for (int p = 0; p < count; p++)
        sum[p] = first;
    for (int64_t tap = 0; tap < row->tap_count; tap++) {
        const vec weight = LOAD(weights + tap * row->w_step);
        const float *from = input + row->taps[tap];

        VEC_UNROLL
        for (int p = 0; p < count; p++)
            sum[p] = vec_fma(LOAD(from + p * row->x_step), weight, sum[p]);
    }
    for (int p = 0; p < count; p++)
        if (full)
            vec_store(output + p * row->y_step, sum[p]);
        else
            vec_store_some(output + p * row->y_step, mask, sum[p]);
#undef LOAD
}

VEC_INLINE void row(const thin_row *r, int64_t c, const bool full)
{
    const vmask mask = vec_first(r->channels - c);
    const vec first = r->bias != NULL ? vec_load_some(mask, r->bias + c) : vec_zero();
    int64_t p = 0;

    for (; p + PIXELS <= r->pixels; p += PIXELS)
        block(r, PIXELS, full, mask, r->input + p * r->x_step + c, r->weights + c, first,
              r->output + p * r->y_step + c);
    for (; p + 2 <= r->pixels; p += 2)
        block(r, 2, full, mask, r->input + p * r->x_step + c, r->weights + c, first, r->output + p * r->y_step + c);
    if (p < r->pixels)
        block(r, 1, full, mask, r->input + p * r->x_step + c, r->weights + c, first, r->output + p * r->y_step + c);
}

void KERNEL(thin_row)(const thin_row *r)
{
    int64_t c = 0;

    for (; !VEC_HAS_MASKS && c + VEC_LANES <= r->channels; c += VEC_LANES)
        row(r, c, true);
    for (; c < r->channels; c += VEC_LANES)
        row(r, c, false);
}
