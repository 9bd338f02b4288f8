/* work.h - cost estimates for kernels whose work is not proportional to the number of elements: searches, sorts,
 * transforms. */
#ifndef WORK_H
#define WORK_H
#include "common/price.h"
#include "inlay/cost.h"
#include "inlay/kit_table.h"
#include <math.h>

/* Sets *cost for `steps` operations (comparisons, look-ups, samples) of step_ns nanoseconds each. The kit compares
 * their time with that of the bytes read and written, which *cost already contains. parts: maximum number of threads
 * that can share the operations; 1: they run on one thread. */
static inline void work_cost(const kit_plan *plan, double steps, double step_ns, double parts, inlay_cost *cost)
{
    const double alone_ns = 8000, shared_ns = 1000; /* as the kit's */
    double ns = steps * step_ns, threads = plan->max_threads < parts ? plan->max_threads : parts;

    if (threads > 1 && ns > alone_ns)
        ns = shared_ns + ns / threads;
    cost->flops = steps;
    cost->ns = 60 + ns;
}

/* kit_kernel.cost of a kernel that only one provider has, and that runs on one thread: the time in which this machine
 * reads and writes the bytes of *cost once. */
static inline void work_cost_of_stream(const kit_node *node, const kit_plan *plan, inlay_cost *cost)
{
    const price_memory memory = price_memory_of(node->host);

    (void)plan;
    cost->ns = 60 + price_stream_ns(&memory, (double)cost->bytes_read, (double)cost->bytes_written, 1);
}

/* The same where threads share the bytes. */
static inline void work_cost_of_shared_stream(const kit_node *node, const kit_plan *plan, inlay_cost *cost)
{
    const price_memory memory = price_memory_of(node->host);
    const double bytes = (double)(cost->bytes_read + cost->bytes_written);

    cost->ns = 60 + price_stream_ns(&memory, (double)cost->bytes_read, (double)cost->bytes_written,
                                    price_loop_threads(bytes, 131072, plan->max_threads));
}

/* Returns the number of comparisons of a sort of n elements. */
static inline double work_sort(double n)
{
    return n > 1 ? n * log2(n) : 0;
}

/* Returns the number of elements of a tensor; 0 if unknown. */
static inline double work_count(const kit_tensor *input)
{
    return input->count > 0 ? (double)input->count : 0;
}
#endif
