/* How fast this core is beside the one whose figures the prices are written in. */
#include "speed.h"
#include <math.h>
#include <pthread.h>
#include <time.h>

/* Multiplications and additions a nanosecond that a core of a Zen 5 at 5 GHz does from its registers with AVX-512, where
 * the products of the prices come to 250: both are four fifths of that on other cores, too. */
#define KNOWN_FLOPS_PER_NS 320.0
enum { TURNS = 1000, ROUNDS = 7 };

static double measured = 1;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static double now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void measure(void)
{
    const speed_loop *loop = KERNEL_FAST(speed_turns);
    float sums[SPEED_FLOATS] = { 0 };
    double least = INFINITY;

    if (loop == NULL) /* plain C: as fast as the compiler made it, which no price knows any better */
        return;
    for (int round = 0; round < ROUNDS; round++) {
        const double begin = now_ns();

        loop->run(sums, 0.5f, 1, TURNS);
        least = fmin(least, now_ns() - begin);
    }
    /* In steps, so that two processes on one machine have the same prices. */
    measured = exp2(round(2 * log2((double)(loop->flops * TURNS) / least / KNOWN_FLOPS_PER_NS / cpu_speed())) / 2);
    measured = fmin(fmax(measured, 1.0 / 16), 4);
}

double cpu_beside_known(void)
{
    (void)pthread_once(&once, measure);
    return measured;
}
