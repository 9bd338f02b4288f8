#include "cli/sweep.h"
#include <math.h>

/* A wider interval, as a fraction of the rate, is reported as noise of the machine. */
#define NOISE 0.05
/* Standard deviation between processes, as a fraction of the rate: memory placement and earlier load differ, which a
 * single process cannot observe. Measured on an idle machine with one model in 8 repeats; confirmed with five models
 * (tests/bench). */
#define BETWEEN 0.01

/* 97.5 % quantile of Student's t distribution, by degrees of freedom. */
static double student(uint32_t freedom)
{
    static const double table[] = { 0, 12.706, 4.303, 3.182, 2.776, 2.571 };

    return freedom < sizeof table / sizeof table[0] ? table[freedom] : table[sizeof table / sizeof table[0] - 1];
}

void sweep_estimate(sweep_point *point)
{
    double sum = 0, squares = 0, half;

    if (point->slices == 0)
        return;
    for (uint32_t i = 0; i < point->slices; i++)
        sum += point->rates[i];
    point->rate = sum / point->slices;
    for (uint32_t i = 0; i < point->slices; i++)
        squares += (point->rates[i] - point->rate) * (point->rates[i] - point->rate);
    /* The interval for the mean of another measurement with as many slices: both means have an error, hence 2. */
    half = point->slices < 2
               ? point->rate
               : student(point->slices - 1) * sqrt(squares / (point->slices - 1)) * sqrt(2.0 / point->slices);
    half = sqrt(half * half + 2 * 2 * BETWEEN * BETWEEN * point->rate * point->rate);
    point->low = point->rate > half ? point->rate - half : 0;
    point->high = point->rate + half;
    point->noisy = half > NOISE * point->rate;
    point->joules = point->items > 0 && point->spent_joules >= 0 ? point->spent_joules / point->items : -1;
}
