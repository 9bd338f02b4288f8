/* Dispatches of programs, with what group.c adds to them. */
#include "region.h"

static uint32_t how_it_lies(const vr_program *program, const vr_load *load)
{
    bool scalar = true, linear = true, column = program->has_columns;
    int64_t step = 1;

    for (uint32_t d = program->rank; d-- > 0; step *= program->dims[d]) {
        if (program->dims[d] == 1)
            continue;
        scalar &= load->strides[d] == 0;
        linear &= load->strides[d] == step;
        column &= load->strides[d] == (d == program->columns);
    }
    if (load->value == INLAY_NONE)
        return AT_POSITION;
    return scalar ? AT_SCALAR : column ? AT_COLUMN : linear ? AT_LINEAR : AT_STRIDED;
}

vr_dispatch *vr_skeleton(vr_build *build, const vr_op *op, vr_program *program, gpu_shader shader, uint32_t own_words)
{
    vr_grow(build, op, program);
    return vr_emit(build, shader, own_words);
}

/* Of inputs that lie by strides: the fewest dimensions that all of them walk through. */
static void put_strides(const vr_build *build, vr_dispatch *dispatch, const vr_program *program, uint32_t strided)
{
    int64_t dims[VR_RANK], strides[MOST_INPUTS][VR_RANK], *lists[MOST_INPUTS];
    uint32_t count = 0, *w = build->in->words + dispatch->words;

    if (strided == 0 || build->status != INLAY_OK)
        return;
    memcpy(dims, program->dims, sizeof dims);
    for (uint32_t k = 0; k < program->load_count; k++) {
        memcpy(strides[k], program->loads[k].strides, sizeof strides[k]);
        if ((strided >> k & 1u) != 0)
            lists[count++] = strides[k];
    }
    dispatch->constants[ID_RANK] = vr_merge(program->rank, dims, count, lists);
    for (uint32_t i = 0; i < dispatch->constants[ID_RANK]; i++) {
        w[WORD_DIM + i] = (uint32_t)dims[i];
        for (uint32_t k = 0; k < program->load_count; k++)
            w[WORD_STRIDE + MOST_RANK * k + i] = (uint32_t)strides[k][i];
    }
}

void vr_finish(vr_build *build, vr_dispatch *dispatch, const vr_program *program)
{
    uint32_t strided = 0;

    vr_make(build, program->result);
    for (uint32_t k = 0; k < program->load_count; k++) {
        const vr_load *load = &program->loads[k];
        const uint32_t how = how_it_lies(program, load);

        strided |= how == AT_STRIDED || how == AT_POSITION ? 1u << k : 0;
        dispatch->constants[ID_INPUT + k] = how << 8;
        if (load->value == INLAY_NONE)
            continue;
        vr_source source = vr_source_of(build, load->value);
        const uint64_t skipped = (uint64_t)load->first * vr_size_of(source.dtype);

        dispatch->constants[ID_INPUT + k] |= vr_element(source.dtype);
        source.place.offset += skipped;
        vr_touch(build, dispatch, PUSH_INPUT + k, source.place, source.bytes - skipped, false);
    }
    put_strides(build, dispatch, program, strided);
    dispatch->constants[ID_SLOTS] = program->slot_count;
    memcpy(&dispatch->constants[ID_SLOT], program->slots, program->slot_count * sizeof program->slots[0]);
    dispatch->constants[ID_OUT] = vr_element(build->tensors[program->result].dtype);
    if (build->status == INLAY_OK)
        memcpy(build->in->words + dispatch->words + WORD_NUMBER, program->numbers,
               program->number_count * sizeof program->numbers[0]);
    vr_touch_value(build, dispatch, PUSH_OUT, program->result, true);
}

inlay_status vr_finish_each(vr_build *build, vr_dispatch *dispatch, const vr_program *program, int64_t items)
{
    vr_finish(build, dispatch, program);
    return vr_grid(build, dispatch, items);
}

inlay_status vr_emit_elements(vr_build *build, const vr_program *program)
{
    static const gpu_shader shaders[] = { SHADER_pointwise, SHADER_pointwise_int, SHADER_pointwise_double };
    const int64_t count = build->tensors[program->result].count;
    vr_dispatch *dispatch = vr_emit(build, shaders[program->in], 1);

    VR_PUT(build, dispatch, 0, count);
    vr_expect_bytes(build, dispatch, (double)count, 4 * (1 + program->load_count));
    return vr_finish_each(build, dispatch, program, count);
}

inlay_status vr_emit_program(vr_build *build, const vr_op *op, vr_program *program)
{
    vr_grow(build, op, program);
    return vr_emit_elements(build, program);
}

void vr_fill(vr_build *build, uint32_t value, double x)
{
    vr_program program;

    vr_program_start(build, &program, value, VR_SINGLE);
    (void)vr_slot(&program, OP_MOVE, vr_number(&program, x), 0, 0);
    (void)vr_emit_elements(build, &program);
}
