/* Families of operators whose results are constants of the region: low-bit, float16 and sparse constants, and those of
 * blocks. Their readers use the packed constant; the ops themselves emit a step only for a result that leaves the
 * region. */
#include "cpu/weights/blocks.h"
#include "cpu/weights/read.h"
#include "cpu/weights/sparse_weights.h"

/* cpu_takes_low_bit_constant or cpu_takes_float16_constant has checked the node. */
static bool parse(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    (void)node, (void)op, (void)why;
    return true;
}

static inlay_status lower(cpu_build *build, const cpu_group *group)
{
    cpu_place output;
    inlay_status status = cpu_read_plain(build, group->out, &output);

    return status == INLAY_OK ? cpu_set_place(build, group->out, &output) : status;
}

/* A low-bit constant is read from a pack only: the file does not hold its floats. */
static inlay_status lower_low_bit(cpu_build *build, const cpu_group *group)
{
    cpu_place made;
    inlay_status status;
    tensor_layout plain;

    layout_plain(&plain, build->ranks[group->out], build->dims[group->out]);
    status = cpu_read_constant(build, group->out, &plain, &plain, &made);
    return status == INLAY_OK ? cpu_set_place(build, group->out, &made) : status;
}

static inlay_status lower_blocks(cpu_build *build, const cpu_group *group)
{
    inlay_status status = INLAY_OK;

    (void)group;
    for (uint32_t i = 0; i < build->op->out_count && status == INLAY_OK; i++) {
        const uint32_t value = build->op->out[i];
        cpu_place output;

        if (value == INLAY_NONE || build->compiled->values[value].output == INLAY_NONE)
            continue;
        INLAY_TRY(cpu_read_plain(build, value, &output));
        status = cpu_set_place(build, value, &output);
    }
done:
    return status;
}

const cpu_family cpu_narrow = {
    .kind = CPU_FAMILY_NARROW, .name = "low-bit constant", .parse = parse, .lower = lower_low_bit
};
const cpu_family cpu_halves = { .kind = CPU_FAMILY_HALVES, .name = "float16 constant", .parse = parse, .lower = lower };
const cpu_family cpu_blocks = {
    .kind = CPU_FAMILY_BLOCKS, .name = "blocks of quantized weights", .parse = blocks_parse, .lower = lower_blocks
};
const cpu_family cpu_sparse = {
    .kind = CPU_FAMILY_SPARSE, .name = "sparse weights", .parse = sparse_parse, .lower = lower
};
