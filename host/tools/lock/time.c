/* A round of a time measurement: runs and a fixed loop, alternately. */
#include "lock/lock.h"
#include "base/clock.h"
#include <math.h>

/* The loop takes about half a millisecond, and uses registers alone: its shortest time is the same on a busy machine. A
 * change of the loop is a new format of records. */
enum { LANES = 16, STEPS = 1 << 17, MOST_PAIRS = 200, LEAST_PAIRS = 5, MOST_RUNS = 2000 };
static const double ROUND_MS = 300, PAIR_MS = 2;

/* A clock that stands still while other programs run, as long as only one thread works. */
struct stopwatch {
    double wall, cpu;
};

static struct stopwatch begin(void)
{
    return (struct stopwatch){ clock_ms(), clock_cpu_ms() };
}

static double elapsed_ms(struct stopwatch start)
{
    const double wall = clock_ms() - start.wall, cpu = clock_cpu_ms() - start.cpu;

    return cpu > 0 && cpu < wall ? cpu : wall;
}

static double calibrate_ms(void)
{
    static volatile float sink;
    const struct stopwatch start = begin();
    float lanes[LANES] = { 0 };

    for (uint32_t step = 0; step < STEPS; step++)
        for (uint32_t lane = 0; lane < LANES; lane++)
            lanes[lane] = lanes[lane] * 0.999f + 0.25f;
    for (uint32_t lane = 0; lane < LANES; lane++)
        sink = sink + lanes[lane];
    return elapsed_ms(start);
}

static inlay_status runs_ms(const struct samples *samples, inlay_value *const *values, const inlay_session *session,
                            inlay_context *context, uint32_t runs, double *out_ms, inlay_diag *diag)
{
    const struct stopwatch start = begin();
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < runs; i++)
        INLAY_TRY(samples_run(samples, values, session, context, diag));
    *out_ms = elapsed_ms(start) / runs;
done:
    return status;
}

inlay_status lock_time_round(const struct samples *samples, inlay_session *session, inlay_context *context,
                             double *out_ratio, inlay_diag *diag)
{
    inlay_value **values = NULL;
    double one = 0, least_ms = INFINITY, least_loop_ms = INFINITY;
    uint32_t count = 0, runs;
    const double start = clock_ms();
    inlay_status status;

    INLAY_TRY(samples_load(samples, 0, &values, diag));
    for (uint32_t i = 0; i < 3; i++) /* the first run builds the plan */
        INLAY_TRY(runs_ms(samples, values, session, context, 1, &one, diag));
    runs = one * MOST_RUNS < PAIR_MS ? MOST_RUNS : one < PAIR_MS ? (uint32_t)(PAIR_MS / one) : 1;
    for (; count < MOST_PAIRS && (count < LEAST_PAIRS || clock_ms() - start < ROUND_MS); count++) {
        least_loop_ms = fmin(least_loop_ms, calibrate_ms());
        INLAY_TRY(runs_ms(samples, values, session, context, runs, &one, diag));
        least_ms = fmin(least_ms, one);
    }
    *out_ratio = least_ms / fmax(least_loop_ms, 1e-6);
done:
    samples_release(samples, values);
    return status;
}
