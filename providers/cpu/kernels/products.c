/* Kernels of matrix multiplications: where they run, and models of their time on cores with AVX-512. */
#include "cpu/elementwise/elementwise.h"
#include "cpu/kernels/table.h"
#include "inlay/check.h"
#include "cpu/matrix/sgemm.h"
#include "cpu/matrix/terms.h"
#include "cpu/weights/sparse_weights.h"
#include "cpu/weights/terms_weights.h"

#define BUILTIN_FLOPS_PER_NS 250.0
#define SPARSE_FLOPS_PER_NS 120.0 /* of nonzero blocks, including the transposition of rows */
#define BATCHED_FLOPS_PER_NS 205.0
#define LOOP_NS 1000.0          /* start and end of a parallel loop */
#define START_NS 150.0          /* of a built-in kernel */
#define FAR_BYTES_PER_NS 30.0   /* weights from memory */
#define NEAR_BYTES_PER_NS 105.0 /* from the caches */
#define NEAR_BYTES 1000000.0
#define COPY_BYTES_PER_NS 12.0 /* a matrix that is packed into panels for one run */

static double weights_bytes(const kernel_gemm_shape *product)
{
    return 4.0 * (double)product->n * (double)product->k;
}

static double larger(double x, double y)
{
    return x > y ? x : y;
}

/* Time of the multiplication at `rate` operations in a nanosecond. Rows are processed in blocks of about twelve,
 * columns in vectors, and weights arrive no faster than memory delivers them. */
static double work_ns(const kernel_gemm_shape *product, double rate)
{
    const double bytes = weights_bytes(product),
                 columns = (double)((product->n + SGEMM_LANES - 1) / SGEMM_LANES * SGEMM_LANES);
    const double flops = 2.0 * (double)product->batch * ((double)product->m + 1) * columns * (double)product->k;
    const double stream = (double)product->batch * bytes / (bytes > NEAR_BYTES ? FAR_BYTES_PER_NS : NEAR_BYTES_PER_NS);

    INLAY_CHECK(product->n >= 0 && product->k >= 0 && rate > 0);
    return larger(flops / rate, stream) / KERNEL_THREADS;
}

bool kernel_packed_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why)
{
    (void)group, (void)out_why;
    return layer->gemm.packed && build->state->sgemm != NULL;
}

double kernel_packed_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    (void)build, (void)group;
    return START_NS + LOOP_NS + work_ns(&layer->gemm, BUILTIN_FLOPS_PER_NS);
}

bool kernel_terms_run(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why)
{
    return kernel_packed_runs(build, group, layer, out_why) && terms_of_cpu() != NULL &&
           !kernel_weights_are_low_bit(build);
}

double kernel_terms_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    const kernel_gemm_shape *product = &layer->gemm;
    const double columns = (double)(terms_panels(product->n) * TERMS_WIDTH);
    const int terms = terms_of_constant(build, build->op->in[1]);
    const double bytes = columns * (double)product->k * terms_bytes(product->k, terms, build->state->strict);
    const double stream = bytes / (bytes > NEAR_BYTES ? FAR_BYTES_PER_NS : NEAR_BYTES_PER_NS);
    const double pace = cpu_tile_pace(cpu_measured_speed(build->state->host));

    (void)group;
    return START_NS + LOOP_NS +
           larger(terms_ns(product->m, product->n, product->k, terms, build->state->strict, pace), stream) /
               KERNEL_THREADS;
}

/* Not with option reproducible: sums that skip zeros are added in another order, and the order for one row differs from
 * that for several rows. */
bool kernel_sparse_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why)
{
    return kernel_packed_runs(build, group, layer, out_why) && !build->state->reproducible &&
           sparse_blocks_of(build, build->op) >= 0;
}

double kernel_sparse_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    const cpu_constant *weights = &build->compiled->constants[build->compiled->values[build->op->in[1]].constant];
    const double share =
        (double)(weights->sparse_blocks - 1) * SPARSE_WIDTH / ((double)layer->gemm.n * (double)layer->gemm.k);
    const double flops = 2.0 * (double)layer->gemm.batch * ((double)layer->gemm.m + 1) * (double)layer->gemm.n *
                         (double)layer->gemm.k * share;
    const double bytes = weights_bytes(&layer->gemm) * share * (1 + 1.0 / SPARSE_WIDTH);
    const double stream = bytes / (bytes > NEAR_BYTES ? FAR_BYTES_PER_NS : NEAR_BYTES_PER_NS);

    (void)group;
    return START_NS + LOOP_NS + larger(flops / SPARSE_FLOPS_PER_NS, stream) / KERNEL_THREADS;
}

bool kernel_batched_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why)
{
    (void)group, (void)out_why;
    return !layer->gemm.packed && build->state->sgemm != NULL && layer->gemm.rank >= 2 &&
           build->ranks[build->op->in[0]] >= 2 && build->ranks[build->op->in[1]] >= 2 && layer->gemm.m > 0 &&
           layer->gemm.n > 0 && layer->gemm.k > 0;
}

double kernel_batched_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    const kernel_gemm_shape *product = &layer->gemm;
    const double panels = (double)product->batch * weights_bytes(product) / COPY_BYTES_PER_NS;
    const double each =
        (double)product->batch * START_NS + (product->transposed && product->m > SGEMM_FEW ? panels : 0);

    (void)build, (void)group;
    return LOOP_NS + each / KERNEL_THREADS + work_ns(product, BATCHED_FLOPS_PER_NS);
}
