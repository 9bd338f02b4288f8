/* A provider whose runs take a time that depends on the number of rows, as if they read large weights: Neg and the
 * operators that are not right in a batch 5 ms for one row and 1 ms for more; Sigmoid and Exp less for one row than for
 * a row of several. Abs adds a number of the first row; Relu changes the last bit of numbers in a batch. Only rows of 5
 * elements do this, because the host probes a plugin with other sizes before it loads the plugin. */
#include "inlay/kit.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { ROW = 5 };

static inlay_status run(const kit_call *call, unsigned one_us, unsigned more_us,
                        float (*row)(float, const float *, int64_t))
{
    const float *x = call->in[0].data;
    float *y = call->out[0].data;
    int64_t count = call->out[0].count, rows = count / ROW;

    if (count > 0 && count % ROW == 0)
        (void)usleep(rows == 1 ? one_us : more_us * (unsigned)rows);
    for (int64_t i = 0; i < count; i++)
        y[i] = row(x[i], x, rows);
    return INLAY_OK;
}

static float negate(float value, const float *x, int64_t rows)
{
    (void)x, (void)rows;
    return -value;
}

static float add_first(float value, const float *x, int64_t rows)
{
    return rows > 0 ? fabsf(value) + x[0] : fabsf(value);
}

static float change_bit(float value, const float *x, int64_t rows)
{
    uint32_t bits;

    (void)x;
    memcpy(&bits, &value, sizeof bits);
    bits ^= rows > 1;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

static inlay_status run_neg(const kit_call *call)
{
    return run(call, 5000, 250, negate);
}

static inlay_status run_abs(const kit_call *call)
{
    return run(call, 5000, 250, add_first);
}

static inlay_status run_relu(const kit_call *call)
{
    return run(call, 5000, 250, change_bit);
}

static inlay_status run_sigmoid(const kit_call *call)
{
    return run(call, 1000, 5000, negate);
}

static inlay_status run_exp(const kit_call *call)
{
    return run(call, 40000, 250, negate);
}

/* Low enough to always win. */
static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    (void)node, (void)shapes;
    out->ns = 0.001;
}

static const kit_kernel kernels[] = {
    { .op_type = "Neg", .in_types = { KIT_BIT(FLOAT) }, .cost = cost, .run = run_neg },
    { .op_type = "Abs", .in_types = { KIT_BIT(FLOAT) }, .cost = cost, .run = run_abs },
    { .op_type = "Relu", .in_types = { KIT_BIT(FLOAT) }, .cost = cost, .run = run_relu },
    { .op_type = "Sigmoid", .in_types = { KIT_BIT(FLOAT) }, .cost = cost, .run = run_sigmoid },
    { .op_type = "Exp", .in_types = { KIT_BIT(FLOAT) }, .cost = cost, .run = run_exp },
};
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const kit_provider provider = {
    .name = "rows", .description = "runs that gain by batches", .tables = tables, .table_count = 1
};
static const kit_plugin plugin = { .name = "rows", .version = "1.0", .provider = &provider };
KIT_PLUGIN_NAMED(plugin, "rows", "rows", "")
