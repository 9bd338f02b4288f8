/* Which ops of a region update a state in place, and the layout of the state. */
#include "cpu/region/states.h"

cpu_op *cpu_find_scatter(const inlay_compiled *compiled, uint32_t value)
{
    const uint32_t reader = cpu_only_reader(compiled, value);
    cpu_op *op = reader == INLAY_NONE ? NULL : &compiled->ops[reader];

    return op != NULL && op->row->family->kind == CPU_FAMILY_SCATTER && op->in[0] == value ? op : NULL;
}

static bool is_of_bytes(const inlay_compiled *compiled, uint32_t value)
{
    return compiled->values[value].type == ELEMENT_INT8 || compiled->values[value].type == ELEMENT_UINT8;
}

/* The Concat that makes region output `output` by appending rows to region input `input`, directly or followed by a
 * TensorScatter; NULL: none. */
static cpu_op *find_append(const inlay_compiled *compiled, uint32_t input, uint32_t output)
{
    for (uint32_t o = 0; o < compiled->op_count; o++) {
        cpu_op *op = &compiled->ops[o], *scatter;

        if (op->row->family->kind == CPU_FAMILY_CONCAT && op->in_count == 2 && op->size == 4 &&
            op->axis == CPU_STATE_AXIS && compiled->values[op->in[0]].input == input &&
            compiled->values[op->in[0]].uses == 1 && op->in[0] != op->in[1] &&
            (compiled->values[op->out[0]].type == ELEMENT_FLOAT || is_of_bytes(compiled, op->out[0]))) {
            scatter = cpu_find_scatter(compiled, op->out[0]);
            if (compiled->values[(scatter != NULL ? scatter : op)->out[0]].output == output)
                return op;
        }
    }
    return NULL;
}

uint32_t cpu_state_appends(void *state, inlay_compiled *compiled, uint32_t input, uint32_t output, uint32_t *out_axis)
{
    cpu_op *op = find_append(compiled, input, output), *scatter;

    (void)state;
    if (op == NULL)
        return 0;
    op->appends = true;
    scatter = cpu_find_scatter(compiled, op->out[0]);
    if (scatter != NULL)
        scatter->appends = true;
    *out_axis = (uint32_t)op->axis;
    return 1;
}

/* Every reader of floats accepts gaps between rows, or makes a dense copy. Of bytes, those of keys and values do. */
static bool reads_with_gaps(const inlay_compiled *compiled, uint32_t value)
{
    const cpu_value *read = &compiled->values[value];
    bool all = is_of_bytes(compiled, value) && read->uses <= 2;

    for (uint32_t i = 0; all && i < read->uses; i++)
        all = compiled->ops[read->readers[i]].code_bits != 0;
    return all || read->type == ELEMENT_FLOAT;
}

uint32_t cpu_state_reads(void *state, inlay_compiled *compiled, uint32_t input, uint32_t axis)
{
    (void)state;
    for (uint32_t value = 0; value < compiled->value_count; value++)
        if (compiled->values[value].input == input && compiled->values[value].constant == INLAY_NONE)
            return axis == CPU_STATE_AXIS && reads_with_gaps(compiled, value);
    return 0;
}

void cpu_inplace_state_strides(const cpu_build *build, uint32_t value, int64_t *strides)
{
    int64_t step = 1;

    for (uint32_t d = build->ranks[value]; d-- > 0;) {
        strides[d] = step;
        step *= d == CPU_STATE_AXIS ? (int64_t)build->rooms[value] : build->dims[value][d];
    }
}

void cpu_read_capacities(cpu_build *build, const uint64_t *rooms)
{
    const inlay_compiled *compiled = build->compiled;

    for (uint32_t value = 0; value < compiled->value_count; value++)
        if (rooms != NULL && compiled->values[value].input != INLAY_NONE &&
            compiled->values[value].constant == INLAY_NONE)
            build->rooms[value] = rooms[compiled->values[value].input];
    for (uint32_t o = 0; rooms != NULL && o < compiled->op_count; o++)
        if (compiled->ops[o].appends && build->rooms[compiled->ops[o].in[0]] != 0)
            build->rooms[compiled->ops[o].out[0]] = build->rooms[compiled->ops[o].in[0]];
}
