/* Sums, means and maxima of nothing: what ops with a tensor without elements among their inputs make, where they make
 * elements all the same. oneDNN describes no such thing. */
#include "region/build.h"
#include <math.h>

/* y[i] = value + bias[channel of i], row-major; or bytes, all alike. */
struct fill {
    rg_native native;
    int64_t count, channels, inner; /* inner: elements behind the channels */
    float value;
    bool biased, bytes;
    uint8_t byte;
};

static inlay_status run_fill(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const struct fill *fill = (const struct fill *)(const void *)native;
    const float *bias = fill->biased ? args[1] : NULL;
    float *output = args[0];

    (void)state;
    (void)run;
    (void)threads;
    if (fill->bytes)
        memset(args[0], fill->byte, (size_t)fill->count);
    for (int64_t i = 0; i < fill->count && !fill->bytes; i++)
        output[i] = fill->value + (bias != NULL ? bias[i / fill->inner % fill->channels] : 0);
    return INLAY_OK;
}

static bool is_family(const rg_op *op, const rg_family *family)
{
    return op->row->family == family;
}

/* What a pool makes of padding alone; what of nothing at all, as a global one does: there is nothing to divide by. */
static float pooled_nothing(const rg_op *op)
{
    return op->alg == DN_POOLING_MAX ? -INFINITY : op->window.global ? NAN : 0;
}

bool rg_reads_nothing(const rg_build *build)
{
    const rg_op *op = build->op;

    uint32_t operands = is_family(op, &rg_product) || is_family(op, &rg_attention) ? 2 : 1;

    if (is_family(op, &rg_concat) || is_family(op, &rg_split) || is_family(op, &rg_pad) ||
        is_family(op, &rg_recurrent) || is_family(op, &rg_dynamic))
        return false;
    for (uint32_t i = 0; i < operands; i++)
        if ((build->compiled->values[op->in[i]].type == DN_F32 || is_family(op, &rg_pool)) &&
            rg_count(build, op->in[i]) == 0)
            return true;
    return false;
}

inlay_status rg_lower_nothing(rg_build *build, const rg_group *group)
{
    const rg_op *op = build->op;
    bool conv = is_family(op, &rg_conv) || is_family(op, &rg_conv_transpose) || is_family(op, &rg_conv_computed);
    bool gemm = is_family(op, &rg_product);
    bool reduce = is_family(op, &rg_reduce), pool = is_family(op, &rg_pool);
    uint32_t y_value = op->out[0], third = op->in_count > 2 ? op->in[2] : INLAY_NONE;
    uint32_t bias_value = conv && third != INLAY_NONE ? third : group->bias;
    struct fill fill;
    rg_place output, bias;
    const rg_place *places[2] = { &output, &bias };
    inlay_status status;
    rg_md md;

    if (!conv && !gemm && !is_family(op, &rg_attention) && !reduce && !pool)
        return inlay_fail(build->diag, INLAY_SHAPE_MISMATCH, "node '%s' makes elements of a tensor that has none",
                          op->name);
    rg_md_plain(&md, build->ranks[y_value], build->dims[y_value]);
    if (pool)
        md.data_type = rg_type(build, y_value);
    INLAY_TRY(rg_new_place(build, &md, &output));
    if (bias_value != INLAY_NONE)
        INLAY_TRY(rg_read_plain(build, bias_value, &bias));
    fill = (struct fill){
        .native.run = run_fill, .count = rg_count(build, y_value), .inner = 1, .biased = bias_value != INLAY_NONE
    };
    fill.channels = fill.biased ? rg_count(build, bias_value) : 1;
    for (uint32_t d = 2; conv && d < build->ranks[y_value]; d++)
        fill.inner *= build->dims[y_value][d];
    fill.value = reduce ? rg_reduced_nothing(op) : pool ? pooled_nothing(op) : 0;
    fill.bytes = pool && md.data_type != DN_F32;
    fill.byte = md.data_type == DN_S8 ? 0x80 : 0; /* the least */
    INLAY_TRY(rg_emit_step(build, &fill.native, sizeof fill, places, fill.biased ? 2 : 1));
    if (gemm && third != INLAY_NONE)
        INLAY_TRY(rg_binary_at(build, DN_BINARY_ADD, &output, true, third, y_value, INLAY_NONE, &output));
    status = rg_finish(build, group, 0, &output, true);
done:
    return status;
}
