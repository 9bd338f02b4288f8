/* A template of a provider: copy this folder, rename `skeleton`, and replace the kernels. README.md describes each
 * step, from the copy to a plugin that passes `inlay plugin-check`.
 *
 * It has three kernels, from the simplest to one that uses every phase. Nodes that none of them supports are refused
 * with a reason, and another provider runs them. */
#define INLAY_NOTE_VERSION "1.0.0" /* of two versions in one folder, the host takes the higher one */
#include "inlay/kit.h"
#include <stdlib.h>

/* Relu: only run.
 *
 * No cost function: the kit estimates the cost from the bytes of inputs and outputs and one operation per element,
 * which is accurate for element-wise operators. */

static inlay_status relu_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const float *x = call->in[0].data;
    float *y = call->out[0].data;

    (void)worker;
    for (int64_t i = begin; i < end; i++)
        y[i] = x[i] < 0 ? 0 : x[i]; /* NaN stays NaN, as ONNX requires */
    return INLAY_OK;
}

static inlay_status relu_run(const kit_call *call)
{
    /* Ranges of at least 16384 elements; a smaller tensor does not justify a second thread. */
    return kit_parallel(call, call->in[0].count, 16384, relu_range, (void *)(uintptr_t)call);
}

static inlay_status leaky_prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    float *alpha = malloc(sizeof *alpha); /* freed by the kit */

    if (alpha == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "LeakyRelu");
    *alpha = (float)kit_attr_float(node->info, "alpha", 0.01);
    *out_state = alpha;
    return INLAY_OK;
}

static inlay_status leaky_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const float *x = call->in[0].data, slopes[] = { 1, *(const float *)call->state };
    float *y = call->out[0].data;

    (void)worker;
    for (int64_t i = begin; i < end; i++)
        y[i] = x[i] * slopes[x[i] < 0]; /* an unpredictable branch would cost more than all the rest */
    return INLAY_OK;
}

static inlay_status leaky_run(const kit_call *call)
{
    return kit_parallel(call, call->in[0].count, 16384, leaky_range, (void *)(uintptr_t)call);
}

/* MatMul with constant weights: every phase.
 *
 * X [..., K] times a constant W [K, N]. prepare packs W into panels of 32 columns, row after row, so that run reads a
 * panel sequentially while 32 sums stay in registers. */

enum { PANEL = 32 };

typedef struct packed_matrix {
    int64_t k, n;
    int64_t panels;
    float weights[]; /* [panels][k][PANEL]; columns past n are zero */
} packed_matrix;

static int64_t panels_of(int64_t columns)
{
    return columns / PANEL + (columns % PANEL != 0);
}

/* Reports whether this node can be run. A refusal states the reason and the fix; `inlay explain` shows both texts.
 * Types need no check here: the row in `kernels` lists them. */
static bool matmul_supports(const kit_node *node, kit_refusal *why)
{
    const inlay_value_info *x = kit_input(node, 0), *w = kit_input(node, 1);

    if (!kit_is_constant(node, 1))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make input 1 a constant",
                          "this kernel multiplies by constant matrices only");
    if (w->rank != 2)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make input 1 a matrix", "input 1 has rank %u", w->rank);
    if (x->rank == INLAY_RANK_UNKNOWN || x->rank < 2)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "declare the shape of input 0",
                          "input 0 must have a known rank of at least 2");
    return true;
}

/* Estimates the time at these shapes. The host compares the estimates of providers, so be accurate: a provider that
 * underestimates its time is chosen even if others are faster. On the machine where this was measured, the loop does 50
 * operations per nanosecond, including the columns that pad the last panel (`inlay bench` measures yours); threads
 * share the rows. */
static void matmul_cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const int64_t k = kit_input(node, 1)->dims[0].value, n = kit_input(node, 1)->dims[1].value;
    double rows, ns;

    if (shapes->out[0].count < 0)
        return; /* the shape is not known yet: keep the kit's estimate */
    rows = n > 0 ? (double)(shapes->out[0].count / n) : 0;
    cost->flops = 2 * rows * (double)k * (double)n;
    ns = 2 * rows * (double)k * (double)panels_of(n) * PANEL / 50;
    cost->ns = 100 + (ns > 20000 && rows > 1 ? ns / shapes->max_threads : ns);
    cost->confidence = INLAY_CONFIDENCE_MODEL;
}

static inlay_status matmul_prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const int64_t k = kit_input(node, 1)->dims[0].value, n = kit_input(node, 1)->dims[1].value;
    const int64_t panels = panels_of(n);
    const float *w = kit_constant(node, 1);
    packed_matrix *packed = NULL;
    size_t bytes;

    /* Sizes come from a file: a matrix without rows may claim 2^60 columns. */
    if (!__builtin_mul_overflow((size_t)panels * PANEL, (size_t)k * sizeof(float), &bytes) && w != NULL)
        packed = calloc(1, sizeof *packed + bytes);
    if (packed == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "packing a matrix of %lld x %lld", (long long)k, (long long)n);
    packed->k = k;
    packed->n = n;
    packed->panels = panels;
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < n; j++)
            packed->weights[(j / PANEL * k + i) * PANEL + j % PANEL] = w[i * n + j];
    kit_drop_constant(node, 1); /* packed: the host may release the original */
    *out_state = packed;
    return INLAY_OK;
}

/* Compiled for several instruction sets; the best one is selected when the plugin is loaded. */
KIT_MULTIVERSION
static void multiply_row(const packed_matrix *packed, const float *x, float *y)
{
    for (int64_t panel = 0; panel < packed->panels; panel++) {
        const float *w = packed->weights + panel * packed->k * PANEL;
        const int64_t columns = packed->n - panel * PANEL < PANEL ? packed->n - panel * PANEL : PANEL;
        float sums[PANEL] = { 0 };

        for (int64_t i = 0; i < packed->k; i++)
            for (int j = 0; j < PANEL; j++)
                sums[j] += x[i] * w[i * PANEL + j];
        memcpy(y + panel * PANEL, sums, (size_t)columns * sizeof *y);
    }
}

static inlay_status matmul_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const packed_matrix *packed = call->state;
    /* The rows that take about a tenth of a millisecond. */
    const int64_t rows_per_poll = 1 + 4000000 / (packed->k * packed->n + 1);

    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        inlay_status status = (row - begin) % rows_per_poll == 0 ? kit_poll(call) : INLAY_OK;

        if (status != INLAY_OK)
            return status; /* cancelled, or deadline exceeded */
        multiply_row(packed, (const float *)call->in[0].data + row * packed->k,
                     (float *)call->out[0].data + row * packed->n);
    }
    return INLAY_OK;
}

static inlay_status matmul_run(const kit_call *call)
{
    const packed_matrix *packed = call->state;
    int64_t rows = packed->n > 0 ? call->out[0].count / packed->n : 0;

    return kit_parallel(call, rows, 1 + 65536 / (packed->k * packed->n + 1), matmul_rows, (void *)(uintptr_t)call);
}

/* The table of kernels.
 *
 * The first row that matches a node's operator, version and types, and whose `supports` agrees, runs it. since_max is
 * the newest version of the operator whose definition the author has read: a later one may differ. */

static const kit_kernel kernels[] = {
    { .op_type = "Relu", .since_max = 14, .in_types = { KIT_BIT(FLOAT) }, .flags = KIT_IN_PLACE, .run = relu_run },
    { .op_type = "LeakyRelu",
      .since_max = 16,
      .in_types = { KIT_BIT(FLOAT) },
      .flags = KIT_IN_PLACE,
      .prepare = leaky_prepare,
      .run = leaky_run },
    { .op_type = "MatMul",
      .since_max = 13,
      .in_types = { KIT_BIT(FLOAT), KIT_BIT(FLOAT) },
      .supports = matmul_supports,
      .cost = matmul_cost,
      .prepare = matmul_prepare,
      .run = matmul_run },
};
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };

static const kit_provider provider = { .name = "skeleton",
                                       .description = "a provider to start from",
                                       .tables = tables,
                                       .table_count = KIT_COUNT(tables),
                                       .poll_ms = 50,
                                       .flags = INLAY_PROVIDER_REFERENCE_CORE };
static const kit_plugin skeleton = { .name = "skeleton", .version = INLAY_NOTE_VERSION, .provider = &provider };
KIT_PLUGIN_NAMED(skeleton, "skeleton", "skeleton", "")
