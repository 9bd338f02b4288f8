/* Sums and means of windows, for every instruction set that this CPU supports: the bits of plain loops that add in the
 * documented order and divide, at any length, step and stride, also for infinities, NaN and zeros of either sign. */
#include "cpu/pooling/pool_loops.h"
#include "simd/cpu.h"
#include "cmocka_all.h"
#include "guard.h"
#include "random.h"
#include <math.h>
#include <string.h>

enum { LEVELS = 4, ROUNDS = 3000, MOST = 100, TAPS = 9, STEPS = 3, STRIDES = 3, ROWS = 5 };
static uint64_t seed = 104;

static uint32_t levels(const pool_loops *out[LEVELS])
{
    uint32_t n = 0;

#if defined(__x86_64__)
    if (cpu_has(CPU_AVX512))
        out[n++] = &pool_loops_avx512;
    if (cpu_has(CPU_AVX2))
        out[n++] = &pool_loops_avx2;
#elif defined(__aarch64__)
    out[n++] = &pool_loops_neon;
#elif defined(SIMD_RVV)
    if (cpu_has(CPU_RVV))
        out[n++] = &pool_loops_rvv;
#endif
    out[n++] = &pool_loops_c;
    return n;
}

/* A number of any usual size; in some rounds, zeros of both signs, and infinities and NaN. */
static float draw(uint32_t round)
{
    static const float odd[] = { 0, -0.0F, INFINITY, -INFINITY, NAN };
    const int64_t kind = random_between(&seed, 0, 99);
    const double size =
        ldexp((double)random_between(&seed, 1 << 23, (1 << 24) - 1), (int)random_between(&seed, -60, 60));

    if (round % 3 == 0 && kind < 50)
        return odd[kind % 2];
    if (round % 5 == 0 && kind < 10)
        return odd[kind % 5];
    return (float)(kind % 2 != 0 ? size : -size);
}

/* The sum of a window: POOL_TAPS taps together, then the next ones. */
static float sum_of(const float *at, int64_t taps, int64_t step)
{
    float sum = 0;

    for (int64_t first = 0; first < taps; first += POOL_TAPS) {
        float part = at[first * step];

        for (int64_t k = first + 1; k < taps && k < first + POOL_TAPS; k++)
            part += at[k * step];
        sum = first == 0 ? part : sum + part;
    }
    return sum;
}

static void assert_same(const float *got, const float *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0 && !(isnan(got[i]) && isnan(want[i])))
            fail_msg("element %lld of %lld: %a, not %a", (long long)i, (long long)n, (double)got[i], (double)want[i]);
}

static void random_windows(void **state)
{
    const pool_loops *all[LEVELS];
    const uint32_t count = levels(all);

    (void)state;
    for (uint32_t round = 0; round < random_rounds(ROUNDS); round++) {
        const bool is_mean = random_between(&seed, 0, 1) != 0;
        const int64_t n = random_between(&seed, 1, MOST), taps = random_between(&seed, 1, TAPS),
                      step = random_between(&seed, 1, STEPS), stride = is_mean ? random_between(&seed, 1, STRIDES) : 1,
                      height = random_between(&seed, 1, ROWS), span = (n - 1) * stride + (taps - 1) * step + 1,
                      in_pitch = span + random_between(&seed, 0, 4), out_pitch = n + random_between(&seed, 0, 4),
                      made = (height - 1) * out_pitch + n;
        const size_t length = (size_t)((height - 1) * in_pitch + span);
        struct guard input = guard_alloc(length * sizeof(float)), output = guard_alloc((size_t)made * sizeof(float)),
                     divisors = guard_alloc((size_t)n * sizeof(float));
        float *in = input.data, *divisor = divisors.data, want[ROWS * (MOST + 4)];
        pool_rows rows = { .input = in,
                           .output = output.data,
                           .rows = height,
                           .in_pitch = in_pitch,
                           .out_pitch = out_pitch,
                           .n = n,
                           .taps = taps,
                           .step = step,
                           .stride = stride,
                           .divisors = divisor };

        for (size_t i = 0; i < length; i++)
            in[i] = draw(round);
        for (int64_t i = 0; i < n; i++)
            divisor[i] = (float)random_between(&seed, 1, 4096);
        memset(want, 0, sizeof want);
        for (int64_t row = 0; row < height; row++)
            for (int64_t i = 0; i < n; i++)
                want[row * out_pitch + i] =
                    sum_of(in + row * in_pitch + i * stride, taps, step) / (is_mean ? divisor[i] : 1);
        for (uint32_t level = 0; level < count; level++) {
            memset(output.data, 0, (size_t)made * sizeof(float));
            (is_mean ? all[level]->means_of_rows : all[level]->sums_of_rows)(&rows);
            assert_same(output.data, want, made);
        }
        guard_free(&input);
        guard_free(&output);
        guard_free(&divisors);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_windows) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
