/* Emits dispatches of programs, including the ops that group.c fuses. */
#include "inlay/check.h"
#include "vulkan/region.h"

static uint32_t load_addressing(const vulkan_program *program, const vulkan_load *load)
{
    bool scalar = true, linear = true, column = program->has_columns;
    int64_t step = 1;

    for (uint32_t d = program->rank; d-- > 0; step *= program->dims[d]) {
        if (program->dims[d] == 1)
            continue;
        scalar &= load->strides[d] == 0;
        linear &= load->strides[d] == step;
        column &= load->strides[d] == (d == program->column_dim);
    }
    if (load->value == INLAY_NONE)
        return AT_POSITION;
    return scalar ? AT_SCALAR : column ? AT_COLUMN : linear ? AT_LINEAR : AT_STRIDED;
}

vulkan_dispatch *vulkan_add_fused_dispatch(vulkan_build *build, const vulkan_op *op, vulkan_program *program,
                                           gpu_shader shader, uint32_t own_words)
{
    vulkan_fuse_epilogue(build, op, program);
    return vulkan_add_dispatch(build, shader, own_words);
}

/* Writes the strides of strided inputs, over as few dimensions as possible. */
static void set_stride_words(const vulkan_build *build, vulkan_dispatch *dispatch, const vulkan_program *program,
                             uint32_t strided)
{
    int64_t dims[VULKAN_RANK], strides[MOST_INPUTS][VULKAN_RANK], *lists[MOST_INPUTS];
    uint32_t count = 0, *words = build->instance->words + dispatch->words;

    if (strided == 0 || build->status != INLAY_OK)
        return;
    memcpy(dims, program->dims, sizeof dims);
    for (uint32_t k = 0; k < program->load_count; k++) {
        memcpy(strides[k], program->loads[k].strides, sizeof strides[k]);
        if ((strided >> k & 1u) != 0)
            lists[count++] = strides[k];
    }
    dispatch->constants[ID_RANK] = vulkan_merge_dims(program->rank, dims, count, lists);
    for (uint32_t i = 0; i < dispatch->constants[ID_RANK]; i++) {
        words[WORD_DIM + i] = (uint32_t)dims[i];
        for (uint32_t k = 0; k < program->load_count; k++)
            words[WORD_STRIDE + MOST_RANK * k + i] = (uint32_t)strides[k][i];
    }
}

void vulkan_finish(vulkan_build *build, vulkan_dispatch *dispatch, const vulkan_program *program)
{
    uint32_t strided = 0;

    INLAY_CHECK(build->status != INLAY_OK || !program->overflow);
    vulkan_allocate_value(build, program->result);
    for (uint32_t k = 0; k < program->load_count; k++) {
        const vulkan_load *load = &program->loads[k];
        const uint32_t addressing = load_addressing(program, load);

        strided |= addressing == AT_STRIDED || addressing == AT_POSITION ? 1u << k : 0;
        dispatch->constants[ID_INPUT + k] = addressing << 8;
        if (load->value == INLAY_NONE)
            continue;
        vulkan_source source = vulkan_source_of(build, load->value);
        const uint64_t skipped = (uint64_t)load->first * vulkan_size_of(source.dtype);

        dispatch->constants[ID_INPUT + k] |= vulkan_element(source.dtype);
        source.place.offset += skipped;
        vulkan_add_operand(build, dispatch, PUSH_INPUT + k, source.place, source.bytes - skipped, false);
    }
    set_stride_words(build, dispatch, program, strided);
    INLAY_CHECK(program->slot_count <= MOST_SLOTS && program->literal_count <= MOST_NUMBERS);
    dispatch->constants[ID_SLOTS] = program->slot_count;
    memcpy(&dispatch->constants[ID_SLOT], program->slots, program->slot_count * sizeof program->slots[0]);
    dispatch->constants[ID_OUT] = vulkan_element(build->tensors[program->result].dtype);
    if (build->status == INLAY_OK)
        memcpy(build->instance->words + dispatch->words + WORD_NUMBER, program->literals,
               program->literal_count * sizeof program->literals[0]);
    vulkan_add_value_operand(build, dispatch, PUSH_OUT, program->result, true);
}

inlay_status vulkan_finish_each(vulkan_build *build, vulkan_dispatch *dispatch, const vulkan_program *program,
                                int64_t items)
{
    vulkan_finish(build, dispatch, program);
    return vulkan_grid(build, dispatch, items);
}

inlay_status vulkan_emit_elements(vulkan_build *build, const vulkan_program *program)
{
    static const gpu_shader shaders[] = { SHADER_pointwise, SHADER_pointwise_int, SHADER_pointwise_double };
    const bool is_gpu = !build->device->facts.is_cpu;
    const int64_t count = build->tensors[program->result].count, each = is_gpu && count >= 1 << 20 ? 4 : 1;
    vulkan_dispatch *dispatch = vulkan_add_dispatch(build, shaders[program->arithmetic], 1);

    if (is_gpu)
        dispatch->constants[ID_LOCAL] = VULKAN_GPU_WORKGROUP_SIZE;
    VULKAN_SET_CONSTANTS(dispatch, (uint32_t)each);
    VULKAN_SET_WORDS(build, dispatch, 0, count);
    vulkan_expect_bytes(build, dispatch, (double)count, 4 * (1 + program->load_count));
    return vulkan_finish_each(build, dispatch, program, (count + each - 1) / each);
}

inlay_status vulkan_emit_program(vulkan_build *build, const vulkan_op *op, vulkan_program *program)
{
    vulkan_fuse_epilogue(build, op, program);
    return vulkan_emit_elements(build, program);
}

void vulkan_emit_fill(vulkan_build *build, uint32_t value, double x)
{
    vulkan_program program;

    vulkan_program_start(build, &program, value, VULKAN_SINGLE);
    (void)vulkan_add_slot(&program, OP_MOVE, vulkan_literal(&program, x), 0, 0);
    (void)vulkan_emit_elements(build, &program);
}
