/* Programs of elementwise operations: put together here, run by shaders/program.glsl. */
#include "region.h"

void vr_program_start(const vr_build *b, vr_program *p, uint32_t result, vr_arithmetic in)
{
    const vr_tensor *t = &b->tensors[result];

    *p = (vr_program){ .in = in, .rank = t->rank, .result = result };
    memcpy(p->dims, t->dims, sizeof p->dims);
}

uint32_t vr_slot(vr_program *p, uint32_t op, uint32_t a, uint32_t b, uint32_t c)
{
    if (p->slot_count == MOST_SLOTS) {
        p->full = true;
        return 0;
    }
    p->slots[p->slot_count] = op | (a & 31u) << 8 | (b & 31u) << 16 | (c & 31u) << 24;
    return REG_SLOT + p->slot_count++;
}

uint32_t vr_number_bits(vr_program *p, uint64_t bits)
{
    for (uint32_t k = 0; k < p->number_count; k++)
        if (p->numbers[k] == bits)
            return REG_NUMBER + k;
    if (p->number_count == MOST_NUMBERS) {
        p->full = true;
        return 0;
    }
    p->numbers[p->number_count] = bits;
    return REG_NUMBER + p->number_count++;
}

uint32_t vr_number(vr_program *p, double x)
{
    uint64_t bits = 0;
    const float f = (float)x;
    const int64_t i = x >= 9.2e18 ? INT64_MAX : x <= -9.2e18 ? INT64_MIN : (int64_t)x;

    if (p->in == VR_INTEGER)
        memcpy(&bits, &i, sizeof i);
    else if (p->in == VR_DOUBLE)
        memcpy(&bits, &x, sizeof x);
    else
        memcpy(&bits, &f, sizeof f);
    return vr_number_bits(p, bits);
}

static uint32_t add_load(vr_program *p, const vr_load *load)
{
    for (uint32_t k = 0; k < p->load_count; k++)
        if (p->loads[k].value == load->value && p->loads[k].first == load->first &&
            memcmp(p->loads[k].strides, load->strides, sizeof load->strides) == 0)
            return REG_INPUT + k;
    if (p->load_count == MOST_INPUTS) {
        p->full = true;
        return 0;
    }
    p->loads[p->load_count] = *load;
    return REG_INPUT + p->load_count++;
}

uint32_t vr_load_value(const vr_build *b, vr_program *p, uint32_t value)
{
    const vr_tensor *t = &b->tensors[value];
    const uint32_t shift = p->rank - t->rank;
    vr_load load = { .value = value };
    int64_t strides[VR_RANK];

    if (t->rank > p->rank) { /* leading ones */
        p->full = true;
        return 0;
    }
    vr_strides(b, value, strides);
    for (uint32_t d = t->rank; d-- > 0;) {
        load.strides[d + shift] = t->dims[d] == 1 ? 0 : strides[d];
        p->full |= t->dims[d] != 1 && t->dims[d] != p->dims[d + shift];
    }
    return add_load(p, &load);
}

bool vr_in_register(const vr_program *p, uint32_t value, uint32_t *out)
{
    for (uint32_t i = 0; i < p->made_count; i++)
        if (p->made[i] == value) {
            *out = p->made_in[i];
            return true;
        }
    return false;
}

uint32_t vr_get(const vr_build *b, vr_program *p, uint32_t value)
{
    uint32_t reg;

    return vr_in_register(p, value, &reg) ? reg : vr_load_value(b, p, value);
}

uint32_t vr_load_axis(const vr_build *b, vr_program *p, uint32_t value, uint32_t axis)
{
    vr_load load = { .value = value };

    if (b->tensors[value].count != 1 && b->tensors[value].count != p->dims[axis])
        p->full = true;
    if (b->tensors[value].count > 1)
        load.strides[axis] = 1;
    return add_load(p, &load);
}

uint32_t vr_load_at(const vr_build *b, vr_program *p, uint32_t value, const int64_t *strides, uint32_t first)
{
    vr_load load = { .value = value, .first = first };

    if (strides != NULL)
        memcpy(load.strides, strides, sizeof load.strides);
    for (uint32_t d = 0; d < p->rank; d++) /* a float counts that far */
        p->full |= value == INLAY_NONE && load.strides[d] != 0 && p->in == VR_SINGLE && p->dims[d] >= 1 << 24;
    p->full |= value != INLAY_NONE && first >= b->tensors[value].count;
    return add_load(p, &load);
}
