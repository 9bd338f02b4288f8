/* product_cost.c - costs of matrix multiplications, see product_cost.h.
 *
 * The constants here and in the engines were measured on one core of a Zen 5 (AMD EPYC with AVX-512, 1 MB of L2 per
 * core, 32 MB of L3), alternating kernels of both engines. They are scaled to this machine's kind of CPU. */
#include "common/price.h"
#include "common/weights.h"
#include "inlay/check.h"
#include "operators/product_cost.h"
#include "simd/cpu.h"

#define CALL_NS 30.0       /* per node */
#define PARALLEL_NS 5000.0 /* shorter multiplications run on one thread */
#define UNEVEN_NS 2000.0   /* threads start later, and end at different times */
#define ROW_NS 9.0         /* at least: a row of the result */
/* A multiplication uses three quarters of the reference core's multipliers. A core with fewer of them comes closer to
 * their limit, because loads and stores are hidden behind more of the multiplications. */
#define REFERENCE_SHARE 0.765
#define MOST_SHARE 0.95
#define BASELINE 48.0 /* operations of the baseline on the core of the constants, in a nanosecond */

struct machine {
    price_memory memory;
    double slowdown; /* of multiplications, compared with the reference core */
    double weights;  /* bytes of all weights of the graph */
};

/* The time in which threads read the operands of a multiplication and write its result. Weights come from memory if
 * those of the whole graph exceed the shared cache, activations if they alone do. */
static double reading_ns(const struct machine *machine, const gemm_kernel *kernel, const product_size *size,
                         double threads)
{
    const double a = size->m * size->k * kernel->in_bytes,
                 b = size->b_windows ? 0
                                     : size->k * size->n * kernel->in_bytes; /* windows are read as they are packed */
    const double constant = (size->a_constant ? a : 0) + (size->b_constant ? b : 0),
                 other = a + b - constant + size->m * size->n * kernel->acc_bytes;

    price_memory weights = machine->memory;

    if (!size->b_constant || (kernel->packs & GEMM_PACKS_B) == 0 || size->m < kernel->pack_rows ||
        size->n < kernel->pack_columns) /* weights are read in place */
        weights.memory = weights.paged;
    return price_weights_ns(&weights, constant, fmax(machine->weights, constant), threads) +
           price_weights_ns(&machine->memory, other, other, threads);
}

/* The threads that share `batch` multiplications, on average. A last tile that is smaller ends a last round early, if
 * it is alone in it. */
static double tile_threads(const gemm_price *price, double batch, double threads)
{
    const double all = price->tiles * batch,
                 loop = price_loop_threads(all, fmax(1, floor(GEMM_GRAIN / fmax(price->tile, 1))), threads);
    const double last = fmin(fmax(price->whole - price->tiles + 1, 0), 1),
                 load = all / loop - (loop > 1 && batch <= 1 && fmod(all, threads) == 1 ? 1 - last : 0);

    return loop > 1 ? fmin(threads, fmax(1, price->whole * batch / load)) : 1;
}

static double multiply_ns(const struct machine *machine, const gemm_kernel *kernel, const product_size *sizes,
                          uint32_t count, double threads)
{
    double ns = 0;

    for (uint32_t i = 0; i < count; i++)
        if (sizes[i].batch > 0 && sizes[i].m > 0 && sizes[i].n > 0) {
            const gemm_price price = kernel->price(kernel, &sizes[i]);
            const double share = tile_threads(&price, sizes[i].batch, threads);
            const double least_ns = sizes[i].m * ROW_NS;
            const double work_ns = fmax(price.multiply_ns * machine->slowdown, least_ns) + price.more_ns;

            ns += sizes[i].batch * price_overlapped_ns(work_ns / share, reading_ns(machine, kernel, &sizes[i], share));
        }
    return ns;
}

/* The time of plain instructions, compared with the reference core. */
static double slower(const inlay_speed *speed)
{
    return speed != NULL && speed->flops_baseline > 0 ? BASELINE / speed->flops_baseline : 1;
}

double product_cost_slower(const inlay_host *host)
{
    return fmax(1, slower(cpu_measured_speed(host)));
}

/* Uniform kernels do not fuse multiplications and additions, and have half of the longest vectors. */
static double slowdown(const inlay_speed *speed)
{
    if (cpu_uniform() != CPU_UNIFORM_NO)
        return slower(speed);
    return fmax(1, REFERENCE_SHARE / MOST_SHARE * cpu_reference_pace().multiply / cpu_local_pace(speed).multiply);
}

void product_cost_set(const kit_node *node, const kit_plan *shapes, uint32_t type, const product_size *sizes,
                      uint32_t count, double more, inlay_cost *cost)
{
    const inlay_speed *speed = cpu_measured_speed(node->host);
    const struct machine machine = { price_memory_of(node->host), slowdown(speed), weights_of_graph(node->graph) };
    const gemm_kernel *kernel = type < GEMM_TYPE_COUNT ? gemm_kernel_for(node, type) : NULL;
    const double threads = shapes->max_threads > 1 ? shapes->max_threads : 1;
    double ns = more;

    INLAY_CHECK(count == 0 || sizes != NULL);
    cost->flops = 0;
    for (uint32_t i = 0; i < count; i++)
        cost->flops += 2 * sizes[i].batch * sizes[i].m * sizes[i].n * sizes[i].k;
    if (kernel == NULL)
        return;
    ns += multiply_ns(&machine, kernel, sizes, count, 1);
    if (threads > 1 && ns > PARALLEL_NS)
        ns = UNEVEN_NS * (1 - 1 / threads) + more / threads + multiply_ns(&machine, kernel, sizes, count, threads);
    cost->ns = CALL_NS + ns;
    if (INLAY_HAS(cost, local_ns))
        cost->local_ns = cost->ns;
    cost->confidence = INLAY_CONFIDENCE_MODEL;
}
