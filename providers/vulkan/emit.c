/* Dispatches of programs, with what group.c adds to them. */
#include "region.h"

static uint32_t how_it_lies(const vr_program *p, const vr_load *load)
{
    bool scalar = true, linear = true, column = p->has_columns;
    int64_t step = 1;

    for (uint32_t d = p->rank; d-- > 0; step *= p->dims[d]) {
        if (p->dims[d] == 1)
            continue;
        scalar &= load->strides[d] == 0;
        linear &= load->strides[d] == step;
        column &= load->strides[d] == (d == p->columns);
    }
    if (load->value == INLAY_NONE)
        return AT_POSITION;
    return scalar ? AT_SCALAR : column ? AT_COLUMN : linear ? AT_LINEAR : AT_STRIDED;
}

vr_dispatch *vr_skeleton(vr_build *b, const vr_op *op, vr_program *p, gpu_shader shader, uint32_t own_words)
{
    vr_grow(b, op, p);
    return vr_emit(b, shader, own_words);
}

/* Of inputs that lie by strides: the fewest dimensions that all of them walk through. */
static void put_strides(const vr_build *b, vr_dispatch *d, const vr_program *p, uint32_t strided)
{
    int64_t dims[VR_RANK], strides[MOST_INPUTS][VR_RANK], *lists[MOST_INPUTS];
    uint32_t count = 0, *w = b->in->words + d->words;

    if (strided == 0 || b->status != INLAY_OK)
        return;
    memcpy(dims, p->dims, sizeof dims);
    for (uint32_t k = 0; k < p->load_count; k++) {
        memcpy(strides[k], p->loads[k].strides, sizeof strides[k]);
        if ((strided >> k & 1u) != 0)
            lists[count++] = strides[k];
    }
    d->constants[ID_RANK] = vr_merge(p->rank, dims, count, lists);
    for (uint32_t i = 0; i < d->constants[ID_RANK]; i++) {
        w[WORD_DIM + i] = (uint32_t)dims[i];
        for (uint32_t k = 0; k < p->load_count; k++)
            w[WORD_STRIDE + MOST_RANK * k + i] = (uint32_t)strides[k][i];
    }
}

void vr_finish(vr_build *b, vr_dispatch *d, const vr_program *p)
{
    uint32_t strided = 0;

    vr_make(b, p->result);
    for (uint32_t k = 0; k < p->load_count; k++) {
        const vr_load *load = &p->loads[k];
        const uint32_t how = how_it_lies(p, load);

        strided |= how == AT_STRIDED || how == AT_POSITION ? 1u << k : 0;
        d->constants[ID_INPUT + k] = how << 8;
        if (load->value == INLAY_NONE)
            continue;
        vr_source s = vr_source_of(b, load->value);
        const uint64_t skipped = (uint64_t)load->first * vr_size_of(s.dtype);

        d->constants[ID_INPUT + k] |= vr_element(s.dtype);
        s.place.offset += skipped;
        vr_touch(b, d, PUSH_INPUT + k, s.place, s.bytes - skipped, false);
    }
    put_strides(b, d, p, strided);
    d->constants[ID_SLOTS] = p->slot_count;
    memcpy(&d->constants[ID_SLOT], p->slots, p->slot_count * sizeof p->slots[0]);
    d->constants[ID_OUT] = vr_element(b->tensors[p->result].dtype);
    if (b->status == INLAY_OK)
        memcpy(b->in->words + d->words + WORD_NUMBER, p->numbers, p->number_count * sizeof p->numbers[0]);
    vr_touch_value(b, d, PUSH_OUT, p->result, true);
}

inlay_status vr_finish_each(vr_build *b, vr_dispatch *d, const vr_program *p, int64_t items)
{
    vr_finish(b, d, p);
    return vr_grid(b, d, items);
}

inlay_status vr_emit_elements(vr_build *b, const vr_program *p)
{
    static const gpu_shader shaders[] = { SHADER_pointwise, SHADER_pointwise_int, SHADER_pointwise_double };
    const int64_t count = b->tensors[p->result].count;
    vr_dispatch *d = vr_emit(b, shaders[p->in], 1);

    VR_PUT(b, d, 0, count);
    vr_expect_bytes(b, d, (double)count, 4 * (1 + p->load_count));
    return vr_finish_each(b, d, p, count);
}

inlay_status vr_emit_program(vr_build *b, const vr_op *op, vr_program *p)
{
    vr_grow(b, op, p);
    return vr_emit_elements(b, p);
}

void vr_fill(vr_build *b, uint32_t value, double x)
{
    vr_program p;

    vr_program_start(b, &p, value, VR_SINGLE);
    (void)vr_slot(&p, OP_MOVE, vr_number(&p, x), 0, 0);
    (void)vr_emit_elements(b, &p);
}
