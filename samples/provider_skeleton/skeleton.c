/* A provider to start from: copy this folder, rename `skeleton`, and replace the kernels.
 *
 *     cmake -B build -DCMAKE_PREFIX_PATH=/where/inlay/is && cmake --build build
 *     inlay run model.onnx --plugin-dirs build --providers skeleton,reference
 *
 * It has three kernels, from the simplest to one that uses every phase. What a node needs that none of them can do is
 * refused with a reason, and another provider runs that node. */
#include "inlay/kit.h"
#include <stdlib.h>

/* ------------------------------------------------------------------ Relu: just run */

static inlay_status relu_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const float *x = call->in[0].data;
    float *y = call->out[0].data;

    (void)worker;
    for (int64_t i = begin; i < end; i++)
        y[i] = x[i] < 0 ? 0 : x[i]; /* NaN stays NaN, as ONNX wants */
    return INLAY_OK;
}

static inlay_status relu_run(const kit_call *call)
{
    /* In ranges of at least 16384 elements; a smaller tensor is not worth a second thread. */
    return kit_parallel(call, call->in[0].count, 16384, relu_range, (void *)(uintptr_t)call);
}

/* ------------------------------------------------------------------ LeakyRelu: an attribute, read once */

static inlay_status leaky_prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    float *alpha = malloc(sizeof *alpha); /* freed by the kit */

    if (alpha == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "LeakyRelu");
    *alpha = (float)kit_attr_float(node->info, "alpha", 0.01);
    *out_state = alpha;
    return INLAY_OK;
}

static inlay_status leaky_run(const kit_call *call)
{
    const float *x = call->in[0].data, alpha = *(const float *)call->state;
    float *y = call->out[0].data;

    for (int64_t i = 0; i < call->in[0].count; i++)
        y[i] = x[i] < 0 ? alpha * x[i] : x[i];
    return INLAY_OK;
}

/* ------------------------------------------------------------------ MatMul with constant weights: every phase
 *
 * X [..., K] times W [K, N], W being a constant, which prepare stores transposed so that run reads along rows. */

typedef struct matmul {
    int64_t k, n;
    float weights[]; /* [n][k] */
} matmul;

/* Can this node be run here? If not, the sentence and the advice appear in `inlay explain`. */
static bool matmul_supports(const kit_node *node, kit_refusal *why)
{
    const inlay_value_info *w = kit_input(node, 1);

    if (!kit_is_constant(node, 1) || w->rank != 2)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make input 1 a constant matrix",
                          "this kernel multiplies by constant matrices only");
    if (kit_input(node, 0)->rank == INLAY_RANK_UNKNOWN || kit_input(node, 0)->rank < 2)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "input 0 must have a known rank of at least 2");
    return true;
}

/* The host compares costs: tell it how many operations there are, and the time follows. */
static void matmul_cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    int64_t k = kit_input(node, 1)->dims[0].value;

    if (shapes->out[0].count >= 0)
        cost->flops = 2.0 * (double)shapes->out[0].count * (double)k;
}

static inlay_status matmul_prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const int64_t k = kit_input(node, 1)->dims[0].value, n = kit_input(node, 1)->dims[1].value;
    const float *w = kit_constant(node, 1);
    matmul *m = w != NULL ? malloc(sizeof *m + (size_t)(k * n) * sizeof(float)) : NULL;

    if (m == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "packing a matrix of %lld x %lld", (long long)k, (long long)n);
    m->k = k;
    m->n = n;
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < n; j++)
            m->weights[j * k + i] = w[i * n + j];
    kit_drop_constant(node, 1); /* ours is packed: the host may free the original */
    *out_state = m;
    return INLAY_OK;
}

static inlay_status matmul_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const matmul *m = call->state;

    (void)worker;
    for (int64_t r = begin; r < end; r++) {
        const float *x = (const float *)call->in[0].data + r * m->k;
        float *y = (float *)call->out[0].data + r * m->n;

        for (int64_t j = 0; j < m->n; j++) {
            float sum = 0;

            for (int64_t i = 0; i < m->k; i++)
                sum += x[i] * m->weights[j * m->k + i];
            y[j] = sum;
        }
    }
    return INLAY_OK;
}

static inlay_status matmul_run(const kit_call *call)
{
    const matmul *m = call->state;
    int64_t rows = m->n > 0 ? call->out[0].count / m->n : 0;

    return kit_parallel(call, rows, 1 + 65536 / (m->k * m->n + 1), matmul_rows, (void *)(uintptr_t)call);
}

/* ------------------------------------------------------------------ the list */

static const kit_kernel kernels[] = {
    { .op_type = "Relu", .in_types = { KIT_BIT(FLOAT) }, .flags = KIT_IN_PLACE, .run = relu_run },
    { .op_type = "LeakyRelu", .in_types = { KIT_BIT(FLOAT) }, .flags = KIT_IN_PLACE, .prepare = leaky_prepare,
      .run = leaky_run },
    { .op_type = "MatMul", .in_types = { KIT_BIT(FLOAT), KIT_BIT(FLOAT) }, .supports = matmul_supports,
      .cost = matmul_cost, .prepare = matmul_prepare, .run = matmul_run },
};
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };

static const kit_provider provider = { .name = "skeleton", .description = "a provider to start from",
                                       .tables = tables, .table_count = KIT_COUNT(tables) };
static const kit_plugin skeleton = { .name = "skeleton", .version = "1.0.0", .provider = &provider };
KIT_PLUGIN_NAMED(skeleton, "skeleton", "skeleton", "")
