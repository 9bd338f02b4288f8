#include "cli/sweep.h"
#include <math.h>

/* A wider interval, in parts of the rate, is the machine's noise. */
#define NOISE 0.05
/* Processes differ by so much of the rate, two in three of them by less, and none sees it in itself: where its memory
 * lies, what ran before. Measured on an idle machine with one model in 8 repeats; holds with five (tests/bench). */
#define BETWEEN 0.01

/* Student's t, 97.5 %, by degrees of freedom. */
static double student(uint32_t freedom)
{
    static const double table[] = { 0, 12.706, 4.303, 3.182, 2.776, 2.571 };

    return freedom < sizeof table / sizeof table[0] ? table[freedom] : table[sizeof table / sizeof table[0] - 1];
}

void sweep_settle(sweep_point *p)
{
    double sum = 0, squares = 0, half;

    if (p->slices == 0)
        return;
    for (uint32_t i = 0; i < p->slices; i++)
        sum += p->rates[i];
    p->rate = sum / p->slices;
    for (uint32_t i = 0; i < p->slices; i++)
        squares += (p->rates[i] - p->rate) * (p->rates[i] - p->rate);
    /* Of another mean of as many slices, which has an error of its own. */
    half = p->slices < 2 ? p->rate : student(p->slices - 1) * sqrt(squares / (p->slices - 1)) * sqrt(2.0 / p->slices);
    half = sqrt(half * half + 2 * 2 * BETWEEN * BETWEEN * p->rate * p->rate);
    p->low = p->rate > half ? p->rate - half : 0;
    p->high = p->rate + half;
    p->noisy = half > NOISE * p->rate;
    p->joules = p->items > 0 && p->spent_joules >= 0 ? p->spent_joules / p->items : -1;
}
