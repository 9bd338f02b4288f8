/* product_cost.c - costs of matrix multiplications, see product_cost.h.
 *
 * The constants here and in the engines were measured on one core of a Zen 5 (AMD EPYC with AVX-512, 1 MB of L2 per
 * core, 32 MB of L3), alternating kernels of both engines. Elsewhere the machine profile scales them; the choice of a
 * provider depends on their ratio. */
#include "inlay/check.h"
#include "operators/product_cost.h"
#include "common/weights.h"

#define CALL_NS 30.0        /* per node */
#define PARALLEL_NS 20000.0 /* shorter multiplications run on one thread */
#define CACHE_BYTES 24e6    /* of all cache levels */
#define CACHE_BYTES_PER_NS 105.0
#define MEMORY_BYTES_PER_NS 36.0

double product_memory_ns(double bytes)
{
    return bytes / (bytes < CACHE_BYTES ? CACHE_BYTES_PER_NS : MEMORY_BYTES_PER_NS);
}

void product_cost_set(const kit_node *node, const kit_plan *shapes, uint32_t type, const product_size *sizes,
                      uint32_t count, double more, inlay_cost *cost)
{
    const gemm_kernel *kernel = type < GEMM_TYPE_COUNT ? gemm_kernel_for(node, type) : NULL;
    double ns = more, weights = 0;

    INLAY_CHECK(count == 0 || sizes != NULL);
    cost->flops = 0;
    for (uint32_t i = 0; i < count; i++) {
        const product_size *size = &sizes[i];
        cost->flops += 2 * size->batch * size->m * size->n * size->k;
        if (kernel != NULL && size->batch > 0 && size->m > 0 && size->n > 0) {
            ns += size->batch * kernel->product_ns(kernel, size);
            weights +=
                size->batch * ((size->a_constant ? size->m * size->k : 0) + (size->b_constant ? size->k * size->n : 0));
        }
    }
    if (kernel == NULL)
        return;
    weights *= kernel->in_bytes;
    if (weights > 0 && weights < CACHE_BYTES) /* product_memory_ns() covers larger weights */
        ns += weights_memory_ns(weights_of_graph(node->graph), weights);
    if (shapes->max_threads > 1 && ns > PARALLEL_NS)
        ns = PARALLEL_NS + (ns - PARALLEL_NS) / shapes->max_threads;
    cost->ns = CALL_NS + ns;
    cost->confidence = INLAY_CONFIDENCE_MODEL;
}
