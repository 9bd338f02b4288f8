/* Binary elementwise operators: parsing and lowering. */
#include "cpu/elementwise/elementwise.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"

static bool parse_binary(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    static const struct {
        const char *op_type;
        library_alg alg;
    } algs[] = { { "Add", LIBRARY_BINARY_ADD }, { "Sub", LIBRARY_BINARY_SUB }, { "Mul", LIBRARY_BINARY_MUL },
                 { "Div", LIBRARY_BINARY_DIV }, { "Max", LIBRARY_BINARY_MAX }, { "Min", LIBRARY_BINARY_MIN },
                 { "PRelu", CPU_PRELU },        { "Sum", LIBRARY_BINARY_ADD }, { "Mean", LIBRARY_BINARY_ADD } };

    if (!cpu_is_large(node, why))
        return false;
    for (uint32_t i = 0; i < node->info->input_count; i++)
        if (kit_input(node, i) == NULL)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "input %u is omitted", i);
    for (uint32_t i = 0; i < KIT_COUNT(algs); i++)
        if (strcmp(op->row->op_type, algs[i].op_type) == 0)
            op->alg = algs[i].alg;
    return true;
}

/* Lowers an op whose operands both have the result's dims to one loop with the epilogue, or, if there is padding, to
 * one primitive of oneDNN. */
static inlay_status lower_whole(cpu_build *build, const cpu_group *group, cpu_place x0, cpu_place x1, bool overwrite)
{
    const uint32_t original_buffer = x0.buffer;
    library_op desc = { .kind = LIBRARY_BINARY, .alg = build->op->alg };
    cpu_fused fused = { 0 };
    inlay_status status;

    if (memory_desc_is_image(&x1.md) && !memory_desc_is_image(&x0.md))
        INLAY_TRY(cpu_reorder(build, &x0, &x1.md, &x0));
    else
        INLAY_TRY(cpu_reorder(build, &x1, &x0.md, &x1));
    if (cpu_is_simple_layout(&x0.md) && !cpu_is_padded(&x0.md) && x0.md.data_type == LIBRARY_F32 &&
        x1.md.data_type == LIBRARY_F32)
        return cpu_lower_binary_chain(build, group, &x0, &x1, overwrite && x0.buffer == original_buffer);
    desc.input = desc.output = x0.md;
    desc.weights = x1.md;
    INLAY_TRY(cpu_fuse_posts(build, group, &desc, &fused));
    status = cpu_emit_fused(build, group, &fused,
                            (const cpu_operand[]){ { LIBRARY_ARG_SRC_0, &x0 }, { LIBRARY_ARG_SRC_1, &x1 } }, 2);
done:
    library_destroy(fused.pd);
    return status;
}

/* The only consumer of the value; INLAY_NONE: there are others, or it leaves the region. */
static uint32_t only_consumer(const cpu_build *build, uint32_t value)
{
    uint32_t found = INLAY_NONE;

    if (build->compiled->values[value].output != INLAY_NONE || build->compiled->values[value].uses != 1)
        return INLAY_NONE;
    for (uint32_t o = 0; o < build->compiled->op_count; o++)
        for (uint32_t i = 0; i < build->compiled->ops[o].in_count; i++)
            if (build->compiled->ops[o].in[i] == value)
                found = o;
    return found;
}

/* Defers a product by one factor for each channel to its only consumer, which then scales its weights, if that is
 * faster. */
static inlay_status defer_scale(cpu_build *build, const cpu_group *group, bool *out_done)
{
    const uint32_t consumer = build->op->alg == LIBRARY_BINARY_MUL && group->post_count == 0
                                  ? only_consumer(build, build->op->out[0])
                                  : INLAY_NONE;
    const cpu_family *family = consumer == INLAY_NONE ? NULL : build->compiled->ops[consumer].row->family;

    *out_done = false;
    return family == NULL || family->defer_scale == NULL ? INLAY_OK
                                                         : family->defer_scale(build, group, consumer, out_done);
}

static inlay_status lower_binary(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    uint32_t y = op->out[0], rank = build->ranks[y];
    cpu_place x0, x1, out;
    inlay_status status;
    bool overwrite = cpu_is_last_use(build, op->in[0]) && op->in[0] != op->in[1], done;

    INLAY_CHECK(op->in_count == 2);
    INLAY_TRY(defer_scale(build, group, &done));
    if (done)
        goto done;

    INLAY_TRY(cpu_read(build, op->in[0], &x0));
    INLAY_TRY(cpu_read(build, op->in[1], &x1));
    if (op->alg != CPU_PRELU && !cpu_binary_loses_nan(op->alg) && cpu_has_dims(&x0.md, rank, build->dims[y]) &&
        cpu_has_dims(&x1.md, rank, build->dims[y]) &&
        (memory_desc_is_blocked(&x0.md) || memory_desc_is_dense(&x0.md)) &&
        (memory_desc_is_blocked(&x1.md) || memory_desc_is_dense(&x1.md)))
        return lower_whole(build, group, x0, x1, overwrite);
    INLAY_TRY(cpu_binary_at(build, op->alg, &x0, overwrite, op->in[1], y,
                            group->post_count == 0 ? group->out : INLAY_NONE, &out));
    status = cpu_finish(build, group, 0, &out, true);
done:
    return status;
}

const cpu_family cpu_binary = { .name = "binary", .parse = parse_binary, .lower = lower_binary, .takes_posts = true };
