/* points.c - see points.h. It contains no kernels. */
#include "operators/points.h"
#include "inlay/check.h"
#include "simd/move_set.h"
#include <string.h>

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
    move_turn(KERNEL_BEST(moves), job->input + begin, job->pixels, job->out + begin * job->channels, job->channels,
              job->channels, end - begin);
    return INLAY_OK;
}

inlay_status points_transpose(const kit_call *call, const float *input, int64_t channels, int64_t pixels, float *out)
{
    turn_job job = { input, out, channels, pixels };

    memset(out + pixels * channels, 0, (size_t)channels * sizeof *out);
    return kit_parallel(call, pixels, 65536 / (channels + 1) + 64, turn_range, &job);
}

/* Computes the weighted sum of four corners; adds it to output if `accumulates`, otherwise stores it. */
static inline __attribute__((always_inline)) void interpolate_four(const float *const row[4], const float weight[4],
                                                                   int64_t count, float *restrict output,
                                                                   const bool accumulates)
{
    for (int64_t channel = 0; channel < count; channel++) {
        const float sum = (weight[0] * row[0][channel] + weight[1] * row[1][channel]) +
                          (weight[2] * row[2][channel] + weight[3] * row[3][channel]);
        output[channel] = accumulates ? output[channel] + sum : sum;
    }
}

void points_interpolate(const struct points *points, int64_t first, int64_t count, int64_t point_count,
                        float *restrict output)
{
    INLAY_CHECK(points->corners % 4 == 0 && first >= 0 && first + count <= points->channels);
    for (int64_t point = 0; point < point_count; point++, output += count) {
        for (int64_t corner = 0; corner < points->corners; corner += 4) {
            const float *row[4];
            float weight[4];

            for (int64_t j = 0; j < 4; j++) {
                const int32_t at = points->index[(corner + j) * points->step + point];

                row[j] = points->input + (at < 0 ? points->pixels : at) * points->channels + first;
                weight[j] = points->weight[(corner + j) * points->step + point];
            }
            if (corner == 0)
                interpolate_four(row, weight, count, output, false);
            else
                interpolate_four(row, weight, count, output, true);
        }
    }
}
