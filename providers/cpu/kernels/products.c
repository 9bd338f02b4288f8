/* Kernels of matrix multiplications: where they run, and the model of their time, which is also the price of nodes. */
#include "cpu/elementwise/elementwise.h"
#include "cpu/kernels/table.h"
#include "inlay/check.h"
#include "cpu/matrix/sgemm.h"
#include "cpu/matrix/terms.h"
#include "cpu/weights/sparse_weights.h"
#include "cpu/weights/terms_weights.h"
#include <math.h>

#define TERMS_FLOPS 250.0    /* the products in whose times terms_ns() is stated */
#define SPARSE_PACE 0.48     /* speed of block-sparse relative to dense multiplication, per non-zero block */
#define ROW_NS 5.0           /* at least: a row of the result, ... */
#define STORE_NS 0.5         /* ... and a vector of it */
#define COMPUTED_PER_NS 55.0 /* bytes of a matrix that is not packed, whose rows are read in pieces */
/* How dense.c divides a multiplication among threads, by its own estimate of the time. */
#define WAKE_NS 4000.0
#define ESTIMATED_FLOPS_PER_NS 200.0
#define ESTIMATED_BYTES_PER_NS 30.0
#define BLOCK_ROWS 160.0
#define MIN_THREAD_ROWS 48.0
#define MIN_UNEVEN_ROWS 8.0
#define PANEL_COLUMNS 64.0

double kernel_gemm_threads(const kernel_gemm_shape *product, double threads)
{
    const double m = (double)product->m, n = (double)product->n, k = (double)product->k, batch = (double)product->batch;
    const double flops_ns = 2 * m * n * k / ESTIMATED_FLOPS_PER_NS, bytes_ns = 4 * n * k / ESTIMATED_BYTES_PER_NS;
    double blocks = ceil(m / BLOCK_ROWS), units;

    if (m < 1 || threads <= 1 || batch * fmax(flops_ns, bytes_ns) < WAKE_NS)
        return 1;
    if (m / threads >= (product->batch == 1 && !sgemm_shares_evenly(product->n, SGEMM_WIDTH, (int64_t)threads)
                            ? MIN_UNEVEN_ROWS
                            : MIN_THREAD_ROWS))
        blocks = ceil(blocks / threads) * threads;
    units = fmin(batch * blocks * ceil(n / PANEL_COLUMNS), batch * fmax(flops_ns, bytes_ns) * 4 / WAKE_NS);
    units = fmin(units, 4 * threads);
    return units <= 1 ? 1 : units / ceil(units / threads);
}

double kernel_gemm_product_ns(const kernel_gemm_shape *product, const kernel_gemm_bytes *bytes,
                              const kernel_machine *machine, double threads)
{
    const double sharing = kernel_gemm_threads(product, threads);
    const double rows = (double)product->batch * (double)product->m, vectors = ceil((double)product->n / SGEMM_LANES);
    const double share = bytes->share < SPARSE_PACE ? bytes->share / SPARSE_PACE : 1;
    const double work = fmax(share * kernel_product_ns(machine, rows, vectors, (double)product->k),
                             rows * (ROW_NS + vectors * STORE_NS) * machine->other) /
                        sharing;
    const double streams = price_stream_ns(&machine->memory, bytes->read, bytes->written, sharing) +
                           kernel_weights_ns(machine, bytes->weights, bytes->graph, sharing);
    const double ns = KERNEL_CALL_NS + price_overlapped_ns(work, streams) + (sharing > 1 ? machine->memory.team_ns : 0);

    INLAY_CHECK(product->n >= 0 && product->k >= 0 && bytes->share >= 0);
    return fmax(ns, KERNEL_CALL_NS + bytes->matrix / COMPUTED_PER_NS / sharing);
}

/* The time if a share of the weights is multiplied. */
static double product_ns(const cpu_build *build, const kernel_layer *layer, const kernel_machine *machine, double share,
                         double threads)
{
    const kernel_gemm_shape *product = &layer->gemm;
    const double first = 4.0 * (double)cpu_count(build, build->op->in[0]),
                 second = 4.0 * (double)cpu_count(build, build->op->in[1]);
    const kernel_gemm_bytes bytes = { .read = first + (product->packed ? 0 : second),
                                      .written = 4.0 * (double)(product->batch * product->m * product->n),
                                      .weights = product->packed ? share * second : 0,
                                      .graph = build->compiled->graph_weights,
                                      .matrix = product->packed ? 0 : second,
                                      .share = share };

    return kernel_gemm_product_ns(product, &bytes, machine, threads);
}

bool kernel_packed_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why)
{
    (void)group, (void)out_why;
    return layer->gemm.packed && build->state->sgemm != NULL;
}

double kernel_packed_ns(const cpu_build *build, const kernel_layer *layer, const kernel_machine *machine,
                        double threads)
{
    return product_ns(build, layer, machine, 1, threads);
}

bool kernel_terms_run(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why)
{
    return kernel_packed_runs(build, group, layer, out_why) && terms_of_cpu() != NULL &&
           !kernel_weights_are_low_bit(build);
}

double kernel_terms_ns(const cpu_build *build, const kernel_layer *layer, const kernel_machine *machine, double threads)
{
    const kernel_gemm_shape *product = &layer->gemm;
    const int terms = terms_of_constant(build, build->op->in[1]);
    const double bytes = (double)(terms_panels(product->n) * TERMS_WIDTH) * (double)product->k *
                         terms_bytes(product->k, terms, build->state->strict);
    const double pace = cpu_tile_pace(cpu_measured_speed(build->state->host)),
                 sharing = kernel_gemm_threads(product, threads);

    return KERNEL_CALL_NS + (sharing > 1 ? machine->memory.team_ns : 0) +
           fmax(terms_ns(product->m, product->n, product->k, terms, build->state->strict, pace) * TERMS_FLOPS /
                    machine->flops / sharing,
                kernel_weights_ns(machine, bytes, build->compiled->graph_weights, sharing));
}

/* Not with option reproducible: sums that skip zeros are added in another order, and the order for one row differs from
 * that for several rows. */
bool kernel_sparse_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why)
{
    return kernel_packed_runs(build, group, layer, out_why) && !build->state->reproducible &&
           sparse_blocks_of(build, build->op) >= 0;
}

double kernel_sparse_ns(const cpu_build *build, const kernel_layer *layer, const kernel_machine *machine,
                        double threads)
{
    const cpu_constant *weights = &build->compiled->constants[build->compiled->values[build->op->in[1]].constant];
    const double share =
        (double)(weights->sparse_blocks - 1) * SPARSE_WIDTH / ((double)layer->gemm.n * (double)layer->gemm.k);

    return product_ns(build, layer, machine, share, threads);
}

bool kernel_batched_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why)
{
    (void)group, (void)out_why;
    return !layer->gemm.packed && build->state->sgemm != NULL && layer->gemm.rank >= 2 &&
           build->ranks[build->op->in[0]] >= 2 && build->ranks[build->op->in[1]] >= 2 && layer->gemm.m > 0 &&
           layer->gemm.n > 0 && layer->gemm.k > 0;
}

double kernel_batched_ns(const cpu_build *build, const kernel_layer *layer, const kernel_machine *machine,
                         double threads)
{
    return product_ns(build, layer, machine, 1, threads);
}
