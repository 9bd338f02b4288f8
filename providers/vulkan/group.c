/* Epilogue fusion: elementwise ops, and a Transpose of the result, become part of the dispatch before them. */
#include "inlay/check.h"
#include "vulkan/region.h"

enum { MAX_MEMBERS = VULKAN_MAX_REGISTER_VALUES - 1, LOOK_AHEAD = 64 };

static void note_register(vulkan_program *program, uint32_t value, uint32_t reg)
{
    INLAY_CHECK(program->register_count < VULKAN_MAX_REGISTER_VALUES);
    program->register_values[program->register_count] = value;
    program->registers[program->register_count++] = reg;
}

/* A register holds a value exactly only if the value has the type of the program's arithmetic. */
static bool is_exact_in_register(const vulkan_program *program, inlay_dtype dtype)
{
    static const inlay_dtype exact[] = {
        [VULKAN_SINGLE] = INLAY_FLOAT, [VULKAN_INTEGER] = INLAY_INT64, [VULKAN_DOUBLE] = INLAY_DOUBLE
    };

    return dtype == INLAY_BOOL || dtype == exact[program->arithmetic];
}

/* The operation that rounds a float to a type of 16 bits; OP_COUNT: none. */
static uint32_t rounding(const vulkan_program *program, inlay_dtype dtype)
{
    if (program->arithmetic != VULKAN_SINGLE)
        return OP_COUNT;
    return dtype == INLAY_FLOAT16 ? OP_TO_F16 : dtype == INLAY_BFLOAT16 ? OP_TO_BF16 : OP_COUNT;
}

/* Rounds the values of 16 bits that op reads from registers, as the tensors between two ops would have been. */
static void round_inputs(const vulkan_build *build, vulkan_program *program, const vulkan_op *op)
{
    for (uint32_t i = 0; i < program->register_count; i++) {
        const uint32_t code = rounding(program, build->tensors[program->register_values[i]].dtype);
        bool reads = false;

        for (uint32_t k = 0; k < op->info.input_count; k++)
            reads |= op->info.inputs[k] == program->register_values[i];
        if (reads && code != OP_COUNT && !program->rounded[i]) {
            program->registers[i] = vulkan_add_slot(program, code, program->registers[i], 0, 0);
            program->rounded[i] = true;
        }
    }
}

/* Whether op reads a value of the program, and all its other inputs are available. */
static bool can_fuse(const vulkan_build *build, const vulkan_program *program, const vulkan_op *op)
{
    const vulkan_tensor *output = vulkan_output(build, op, 0);
    bool reads = false;
    uint32_t reg;

    if (op->row->family->append_slots == NULL || !vulkan_computes_in(build, op, program->arithmetic) ||
        output == NULL || output->rank != program->rank ||
        memcmp(output->dims, program->dims, output->rank * sizeof output->dims[0]) != 0)
        return false;
    for (uint32_t i = 0; i < op->info.input_count; i++) {
        const uint32_t value = op->info.inputs[i];

        if (value == INLAY_NONE || vulkan_is_host_input(op->row, i))
            continue;
        if (vulkan_in_register(program, value, &reg)) {
            reads = true;
            if (!is_exact_in_register(program, build->tensors[value].dtype) &&
                rounding(program, build->tensors[value].dtype) == OP_COUNT)
                return false;
        } else if (build->tensors[value].place.buffer == INLAY_NONE) {
            return false;
        }
    }
    return reads;
}

/* Whether the program may end here: all its values but the last are read by its members only. */
static bool has_single_result(const vulkan_build *build, const vulkan_program *program, const uint32_t *members,
                              uint32_t member_count)
{
    for (uint32_t value = 0; value + 1 < program->register_count; value++) {
        uint32_t reads = 0;

        for (uint32_t member = 0; member < member_count; member++)
            for (uint32_t i = 0; i < build->compiled->ops[members[member]].info.input_count; i++)
                reads += build->compiled->ops[members[member]].info.inputs[i] == program->register_values[value];
        if (reads != build->compiled->values[program->register_values[value]].uses)
            return false;
    }
    return true;
}

void vulkan_fuse_epilogue(vulkan_build *build, const vulkan_op *op, vulkan_program *program)
{
    const uint32_t first = vulkan_number_of(build, op) + 1;
    uint32_t members[MAX_MEMBERS], member_count = 0, best = 0;
    vulkan_program candidate = *program;

    if (program->overflow) {
        (void)vulkan_decline(build, op, "its operands do not fit into a program of the shader, or have other sizes");
        return;
    }
    note_register(&candidate, program->result, program->slot_count > 0 ? REG_SLOT + program->slot_count - 1 : REG_ACC);
    for (uint32_t o = first; o < build->compiled->op_count && o < first + LOOK_AHEAD && member_count < MAX_MEMBERS;
         o++) {
        const vulkan_op *next = &build->compiled->ops[o];
        const vulkan_program before = candidate;
        uint32_t reg;

        if (build->done[o] || !can_fuse(build, &candidate, next))
            continue;
        round_inputs(build, &candidate, next);
        reg = next->row->family->append_slots(build, &candidate, next);
        if (candidate.overflow || reg != REG_SLOT + candidate.slot_count - 1) {
            candidate = before;
            continue;
        }
        members[member_count++] = o;
        note_register(&candidate, next->info.outputs[0], reg);
        if (has_single_result(build, &candidate, members, member_count)) {
            best = member_count;
            *program = candidate;
            program->result = next->info.outputs[0];
        }
    }
    for (uint32_t m = 0; m < best; m++)
        build->done[members[m]] = true;
}

void vulkan_follow_transpose(vulkan_build *build, vulkan_program *program, int64_t *strides)
{
    const vulkan_program before = *program;
    uint32_t from[VULKAN_RANK];
    const vulkan_op *op = vulkan_single_reader(build, program->result);
    int64_t transposed[VULKAN_RANK];

    vulkan_row_major(program->dims, program->rank, strides);
    if (op == NULL || op->row->family != &vulkan_transpose || !vulkan_permutation(op, program->rank, from) ||
        build->tensors[program->result].dtype != build->tensors[op->info.outputs[0]].dtype)
        return;
    program->result = op->info.outputs[0];
    build->done[vulkan_number_of(build, op)] = true;
    for (uint32_t d = 0; d < program->rank; d++) {
        program->column_dim = before.column_dim == from[d] ? d : program->column_dim;
        program->dims[d] = before.dims[from[d]];
        for (uint32_t k = 0; k < program->load_count; k++)
            program->loads[k].strides[d] = before.loads[k].strides[from[d]];
    }
    vulkan_row_major(program->dims, program->rank, transposed);
    for (uint32_t d = 0; d < program->rank; d++)
        strides[from[d]] = transposed[d];
}
