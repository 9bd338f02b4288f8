/* Ops with an empty input and a nonempty output, such as a sum, mean or maximum of no elements. */
#include "cpu/elementwise/elementwise.h"
#include "cpu/normalization/normalize.h"
#include "cpu/region/build.h"
#include "cpu/weights/read.h"
#include <math.h>

/* Writes value + bias[channel] to each element of a row-major tensor. */
struct fill {
    cpu_native native;
    int64_t count, channels, inner; /* inner: elements per channel */
    float value;
    bool biased;
};

static inlay_status run_fill(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const struct fill *fill = (const struct fill *)(const void *)native;
    const float *bias = fill->biased ? args[1] : NULL;
    float *output = args[0];

    (void)state;
    (void)run;
    (void)threads;
    for (int64_t i = 0; i < fill->count; i++)
        output[i] = fill->value + (bias != NULL ? bias[i / fill->inner % fill->channels] : 0);
    return INLAY_OK;
}

static bool is_family(const cpu_op *op, cpu_family_kind kind)
{
    return op->row->family->kind == kind;
}

/* The result of a pool whose window has padding only. A global mean divides by zero elements. */
static float empty_pool_result(const cpu_op *op)
{
    return op->function == FUNCTION_POOL_MAX ? -INFINITY : op->window.global ? NAN : 0;
}

bool cpu_reads_empty_input(const cpu_build *build)
{
    const cpu_op *op = build->op;
    uint32_t operands = is_family(op, CPU_FAMILY_PRODUCT) || is_family(op, CPU_FAMILY_ATTENTION) ? 2 : 1;

    INLAY_CHECK(operands <= op->in_count);
    if (is_family(op, CPU_FAMILY_CONCAT) || is_family(op, CPU_FAMILY_SPLIT) || is_family(op, CPU_FAMILY_PAD) ||
        is_family(op, CPU_FAMILY_RECURRENT) || is_family(op, CPU_FAMILY_DYNAMIC))
        return false;
    for (uint32_t i = 0; i < operands; i++)
        if (build->compiled->values[op->in[i]].type == ELEMENT_FLOAT && cpu_count(build, op->in[i]) == 0)
            return true;
    return false;
}

inlay_status cpu_lower_empty_input(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    bool conv = is_family(op, CPU_FAMILY_CONV) || is_family(op, CPU_FAMILY_CONV_TRANSPOSE);
    bool gemm = is_family(op, CPU_FAMILY_PRODUCT);
    bool reduce = is_family(op, CPU_FAMILY_REDUCE), pool = is_family(op, CPU_FAMILY_POOL);
    uint32_t y_value = op->out[0], third = op->in_count > 2 ? op->in[2] : INLAY_NONE;
    uint32_t bias_value = conv && third != INLAY_NONE ? third : group->bias;
    struct fill fill;
    cpu_place output, bias;
    const cpu_place *places[2] = { &output, &bias };
    inlay_status status;
    tensor_layout layout;

    if (!conv && !gemm && !is_family(op, CPU_FAMILY_ATTENTION) && !reduce && !pool)
        return inlay_fail(build->diag, INLAY_SHAPE_MISMATCH,
                          "node '%s': the output has elements, but an input has none", op->name);
    layout_plain(&layout, build->ranks[y_value], build->dims[y_value]);
    INLAY_TRY(cpu_new_place(build, &layout, &output));
    if (bias_value != INLAY_NONE)
        INLAY_TRY(cpu_read_plain(build, bias_value, &bias));
    fill = (struct fill){
        .native.run = run_fill, .count = cpu_count(build, y_value), .inner = 1, .biased = bias_value != INLAY_NONE
    };
    fill.channels = fill.biased ? cpu_count(build, bias_value) : 1;
    for (uint32_t d = 2; conv && d < build->ranks[y_value]; d++)
        fill.inner *= build->dims[y_value][d];
    fill.value = reduce ? cpu_reduce_empty(op) : pool ? empty_pool_result(op) : 0;
    INLAY_TRY(cpu_emit_step(build, &fill.native, sizeof fill, places, fill.biased ? 2 : 1));
    if (gemm && third != INLAY_NONE)
        INLAY_TRY(cpu_binary_at(build, FUNCTION_ADD, &output, true, third, y_value, INLAY_NONE, &output));
    status = cpu_finish(build, group, 0, &output, true);
done:
    return status;
}
