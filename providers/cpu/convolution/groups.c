/* Convolutions whose groups have one channel, see groups.h. */
#include "cpu/convolution/groups.h"
#include "inlay/check.h"
#include "simd/vec.h"

enum { PIXELS = 8 };

/* Computes `count` pixels of up to VEC_LANES channels; the weights of a tap are read once for all of them. */
VEC_INLINE void block(const thin_row *row, const int count, const bool full, const vmask mask, const float *input,
                      const float *weights, vec first, float *output)
{
    vec sum[PIXELS];

#define LOAD(pixel) (full ? vec_load(pixel) : vec_load_some(mask, pixel))
    for (int pixel = 0; pixel < count; pixel++)
        sum[pixel] = first;
    for (int64_t tap = 0; tap < row->tap_count; tap++) {
        const vec weight = LOAD(weights + tap * row->w_step);
        const float *from = input + row->taps[tap];

        VEC_UNROLL
        for (int pixel = 0; pixel < count; pixel++)
            sum[pixel] = vec_fma(LOAD(from + pixel * row->x_step), weight, sum[pixel]);
    }
    for (int pixel = 0; pixel < count; pixel++)
        if (full)
            vec_store(output + pixel * row->y_step, sum[pixel]);
        else
            vec_store_some(output + pixel * row->y_step, mask, sum[pixel]);
#undef LOAD
}

VEC_INLINE void row(const thin_row *args, int64_t c, const bool full)
{
    const vmask mask = vec_first(args->channels - c);
    const vec first = args->bias != NULL ? vec_load_some(mask, args->bias + c) : vec_zero();
    int64_t pixel = 0;

    for (; pixel + PIXELS <= args->pixels; pixel += PIXELS)
        block(args, PIXELS, full, mask, args->input + pixel * args->x_step + c, args->weights + c, first,
              args->output + pixel * args->y_step + c);
    for (; pixel + 2 <= args->pixels; pixel += 2)
        block(args, 2, full, mask, args->input + pixel * args->x_step + c, args->weights + c, first,
              args->output + pixel * args->y_step + c);
    if (pixel < args->pixels)
        block(args, 1, full, mask, args->input + pixel * args->x_step + c, args->weights + c, first,
              args->output + pixel * args->y_step + c);
}

void KERNEL(thin_row)(const thin_row *r)
{
    int64_t c = 0;
    INLAY_CHECK(r->channels > 0 && r->tap_count > 0);

    for (; !VEC_HAS_MASKS && c + VEC_LANES <= r->channels; c += VEC_LANES)
        row(r, c, true);
    for (; c < r->channels; c += VEC_LANES)
        row(r, c, false);
}
