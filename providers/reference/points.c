/* points.c - see points.h; no kernels here. */
#include "points.h"
#include "simd/move_set.h"

int64_t points_floats(int64_t channels, int64_t pixels)
{
    int64_t floats;

    return pixels == INT64_MAX || __builtin_mul_overflow(channels, pixels + 1, &floats) ||
                   floats > INT64_MAX / (int64_t)sizeof(float)
               ? -1
               : floats;
}

typedef struct turn_job {
    const float *input;
    float *out;
    int64_t channels, pixels;
} turn_job;

static inlay_status turn_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const turn_job *job = user;

    (void)worker;
    KERNEL_BEST(moves)->turn(job->input + begin, job->pixels, job->out + begin * job->channels, job->channels,
                             job->channels, end - begin);
    return INLAY_OK;
}

inlay_status points_turn(const kit_call *call, const float *input, int64_t channels, int64_t pixels, float *out)
{
    turn_job job = { input, out, channels, pixels };

    memset(out + pixels * channels, 0, (size_t)channels * sizeof *out);
    return kit_parallel(call, pixels, 65536 / (channels + 1) + 64, turn_range, &job);
}

/* Four corners, added to output where it `goes_on`. */
static inline __attribute__((always_inline)) void mix_four(const float *const row[4], const float w[4], int64_t count,
                                                           float *restrict output, const bool goes_on)
{
    for (int64_t c = 0; c < count; c++) {
        const float sum = (w[0] * row[0][c] + w[1] * row[1][c]) + (w[2] * row[2][c] + w[3] * row[3][c]);
        output[c] = goes_on ? output[c] + sum : sum;
    }
}

void points_mix(const struct points *points, int64_t first, int64_t count, int64_t n, float *restrict output)
{
    for (int64_t i = 0; i < n; i++, output += count) {
        for (int64_t k = 0; k < points->corners; k += 4) {
            const float *row[4];
            float w[4];

            for (int64_t j = 0; j < 4; j++) {
                const int32_t at = points->index[(k + j) * points->step + i];

                row[j] = points->input + (at < 0 ? points->pixels : at) * points->channels + first;
                w[j] = points->weight[(k + j) * points->step + i];
            }
            if (k == 0)
                mix_four(row, w, count, output, false);
            else
                mix_four(row, w, count, output, true);
        }
    }
}
