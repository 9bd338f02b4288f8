/* work.h - what kernels take whose work is no row of equal elements: searches, sorts, transforms, points of a grid. */
#ifndef WORK_H
#define WORK_H
#include "inlay/kit.h"
#include <math.h>

/* *cost of so many steps (comparisons, look-ups, samples) of so many nanoseconds each, beside the bytes that it already
 * says are read and written. parts: among how many threads can share them; 1 = none. */
static inline void work_cost(const kit_plan *plan, double steps, double step_ns, double parts, inlay_cost *cost)
{
    const double alone_ns = 20000, bytes_per_ns = 8; /* a loop shorter than that is not shared */
    double ns = steps * step_ns, threads = plan->max_threads < parts ? plan->max_threads : parts;

    if (threads > 1 && ns > alone_ns)
        ns = alone_ns + (ns - alone_ns) / threads;
    cost->flops = steps;
    cost->ns = 60 + ns + (double)(cost->bytes_read + cost->bytes_written) / bytes_per_ns;
}

/* Comparisons of a sort of n. */
static inline double work_sort(double n)
{
    return n > 1 ? n * log2(n) : 0;
}

/* Elements of a tensor, 0 when that is not known. */
static inline double work_count(const kit_tensor *input)
{
    return input->count > 0 ? (double)input->count : 0;
}
#endif
