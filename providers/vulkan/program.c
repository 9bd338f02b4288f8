/* Builds programs of elementwise operations, which shaders/program.glsl runs. */
#include "inlay/check.h"
#include "vulkan/region.h"

void vulkan_program_start(const vulkan_build *build, vulkan_program *program, uint32_t result, vulkan_arithmetic in)
{
    const vulkan_tensor *tensor = &build->tensors[result];

    INLAY_CHECK(tensor->rank <= VULKAN_RANK);
    *program = (vulkan_program){ .arithmetic = in, .rank = tensor->rank, .result = result };
    memcpy(program->dims, tensor->dims, sizeof program->dims);
}

uint32_t vulkan_add_slot(vulkan_program *program, uint32_t op, uint32_t a, uint32_t b, uint32_t c)
{
    INLAY_CHECK(op < OP_COUNT && a < 32 && b < 32 && c < 32);
    if (program->slot_count == MOST_SLOTS) {
        program->overflow = true;
        return 0;
    }
    program->slots[program->slot_count] = op | (a & 31u) << 8 | (b & 31u) << 16 | (c & 31u) << 24;
    return REG_SLOT + program->slot_count++;
}

uint32_t vulkan_literal_bits(vulkan_program *program, uint64_t bits)
{
    for (uint32_t k = 0; k < program->literal_count; k++)
        if (program->literals[k] == bits)
            return REG_NUMBER + k;
    if (program->literal_count == MOST_NUMBERS) {
        program->overflow = true;
        return 0;
    }
    program->literals[program->literal_count] = bits;
    return REG_NUMBER + program->literal_count++;
}

uint32_t vulkan_literal(vulkan_program *program, double x)
{
    uint64_t bits = 0;
    const float f = (float)x;
    const int64_t i = x >= 9.2e18 ? INT64_MAX : x <= -9.2e18 ? INT64_MIN : (int64_t)x;

    if (program->arithmetic == VULKAN_INTEGER)
        memcpy(&bits, &i, sizeof i);
    else if (program->arithmetic == VULKAN_DOUBLE)
        memcpy(&bits, &x, sizeof x);
    else
        memcpy(&bits, &f, sizeof f);
    return vulkan_literal_bits(program, bits);
}

static uint32_t add_load(vulkan_program *program, const vulkan_load *load)
{
    for (uint32_t k = 0; k < program->load_count; k++)
        if (program->loads[k].value == load->value && program->loads[k].first == load->first &&
            memcmp(program->loads[k].strides, load->strides, sizeof load->strides) == 0)
            return REG_INPUT + k;
    if (program->load_count == MOST_INPUTS) {
        program->overflow = true;
        return 0;
    }
    program->loads[program->load_count] = *load;
    return REG_INPUT + program->load_count++;
}

uint32_t vulkan_load_value(const vulkan_build *build, vulkan_program *program, uint32_t value)
{
    const vulkan_tensor *tensor = &build->tensors[value];
    const uint32_t shift = program->rank - tensor->rank;
    vulkan_load load = { .value = value };
    int64_t strides[VULKAN_RANK];

    if (tensor->rank > program->rank) { /* the tensor has more dimensions than the result */
        program->overflow = true;
        return 0;
    }
    vulkan_strides(build, value, strides);
    for (uint32_t d = tensor->rank; d-- > 0;) {
        load.strides[d + shift] = tensor->dims[d] == 1 ? 0 : strides[d];
        program->overflow |= tensor->dims[d] != 1 && tensor->dims[d] != program->dims[d + shift];
    }
    return add_load(program, &load);
}

bool vulkan_in_register(const vulkan_program *program, uint32_t value, uint32_t *out)
{
    for (uint32_t i = 0; i < program->register_count; i++)
        if (program->register_values[i] == value) {
            *out = program->registers[i];
            return true;
        }
    return false;
}

uint32_t vulkan_register_of(const vulkan_build *build, vulkan_program *program, uint32_t value)
{
    uint32_t reg;

    return vulkan_in_register(program, value, &reg) ? reg : vulkan_load_value(build, program, value);
}

uint32_t vulkan_load_axis(const vulkan_build *build, vulkan_program *program, uint32_t value, uint32_t axis)
{
    const vulkan_tensor *tensor = &build->tensors[value];
    vulkan_load load = { .value = value };
    int64_t strides[VULKAN_RANK];

    INLAY_CHECK(axis < VULKAN_RANK);
    if (tensor->count != 1 && tensor->count != program->dims[axis])
        program->overflow = true;
    vulkan_strides(build, value, strides);
    for (uint32_t d = 0; d < tensor->rank; d++) /* one of them at most has several elements */
        load.strides[axis] = tensor->dims[d] > 1 ? strides[d] : load.strides[axis];
    return add_load(program, &load);
}

uint32_t vulkan_load_at(const vulkan_build *build, vulkan_program *program, uint32_t value, const int64_t *strides,
                        uint32_t first)
{
    vulkan_load load = { .value = value, .first = first };

    if (strides != NULL)
        memcpy(load.strides, strides, sizeof load.strides);
    for (uint32_t d = 0; d < program->rank; d++) /* floats represent positions exactly up to 2^24 */
        program->overflow |= value == INLAY_NONE && load.strides[d] != 0 && program->arithmetic == VULKAN_SINGLE &&
                             program->dims[d] >= 1 << 24;
    program->overflow |= value != INLAY_NONE && first >= build->tensors[value].count;
    return add_load(program, &load);
}
