/* Reads values: a computed value or an input where it is, a constant packed in the layout that the kernel reads. */
#include "cpu/weights/read.h"
#include "cpu/region/states.h"
#include "cpu/weights/low_bit.h"
#include "cpu/weights/packs.h"

inlay_status cpu_read_constant(cpu_build *build, uint32_t value, const tensor_layout *plain,
                               const tensor_layout *layout, cpu_place *out)
{
    cpu_constant *constant = &build->compiled->constants[build->compiled->values[value].constant];
    const cpu_pack *pack;
    inlay_status status;

    INLAY_CHECK(build->compiled->values[value].constant < build->compiled->constant_count);
    if (constant->kind == CONSTANT_LOW_BIT)
        return low_bit_read(build, value, plain, layout, out);
    status = cpu_constant_pack(build, constant, plain, layout, &pack);
    if (status != INLAY_OK)
        return status;
    status = cpu_pack_place(build, pack->data, layout_bytes(layout), out);
    out->layout = *layout;
    return status;
}

/* The place of an unpacked constant: the original or the region's copy. */
static inlay_status place_constant(cpu_build *build, uint32_t value, cpu_place *out)
{
    cpu_constant *constant = &build->compiled->constants[build->compiled->values[value].constant];
    inlay_status status;
    tensor_layout plain;
    size_t alignment;

    INLAY_CHECK(build->compiled->values[value].constant < build->compiled->constant_count);
    layout_plain(&plain, build->ranks[value], build->dims[value]);
    plain.type = cpu_type(build, value);
    alignment = plain.type == ELEMENT_INT64 ? sizeof(int64_t) : sizeof(float);
    /* The original was dropped, or is not aligned for its type: model files do not align tensors. */
    if (constant->data == NULL || (uintptr_t)constant->data % alignment != 0) {
        INLAY_CHECK(constant->kind == CONSTANT_LOW_BIT || cpu_type_bytes(plain.type) > 0);
        return cpu_read_constant(build, value, &plain, &plain, out);
    }
    constant->plain_used = true;
    status = cpu_pack_place(build, constant->data, constant->bytes, out);
    out->layout = plain;
    return status;
}

/* The current place of a value. The first read of a constant or of a region input assigns it. */
static inlay_status read_raw(cpu_build *build, uint32_t value, cpu_place *out)
{
    cpu_place *at = &build->places[value];

    INLAY_CHECK(value < build->compiled->value_count);
    if (at->buffer == INLAY_NONE) {
        const cpu_value *properties = &build->compiled->values[value];
        inlay_status status;

        if (properties->constant != INLAY_NONE) {
            status = place_constant(build, value, at);
        } else if (properties->input != INLAY_NONE) {
            layout_plain(&at->layout, build->ranks[value], build->dims[value]);
            if (build->rooms[value] != 0 && build->ranks[value] == 4) {
                int64_t strides[CPU_MAX_RANK];

                cpu_inplace_state_strides(build, value, strides);
                layout_strides(&at->layout, 4, build->dims[value], strides);
            }
            at->layout.type = cpu_type(build, value);
            status = cpu_input_place(build, value, at);
        } else if (cpu_count(build, value) == 0) { /* no step computes an empty value */
            tensor_layout none;

            layout_plain(&none, build->ranks[value], build->dims[value]);
            none.type = cpu_type(build, value);
            status = cpu_new_place(build, &none, at);
        } else {
            status = inlay_fail(build->diag, INLAY_INTERNAL, "node '%s' reads a value that no step computes",
                                build->op->name);
        }
        if (status != INLAY_OK) {
            at->buffer = INLAY_NONE;
            return status;
        }
    }
    *out = *at;
    return INLAY_OK;
}

inlay_status cpu_read_strided(cpu_build *build, uint32_t value, cpu_place *out)
{
    return read_raw(build, value, out);
}

/* Recomputes the strides of axes with one element, which are arbitrary after views: image kernels step by the stride
 * that the axis would have with more elements. */
static void normalize_strides(tensor_layout *layout)
{
    const element_type type = layout->type;
    const uint32_t rank = (uint32_t)layout->rank;
    tensor_dims dims;

    if (layout_is_plain(layout)) {
        layout_set_row_major(layout);
    } else if (layout_is_image(layout)) {
        memcpy(dims, layout->dims, rank * sizeof *dims);
        layout_channels_last(layout, rank, dims);
        layout->type = type;
    }
}

inlay_status cpu_read(cpu_build *build, uint32_t value, cpu_place *out)
{
    inlay_status status = cpu_read_strided(build, value, out);
    tensor_layout packed;

    if (status != INLAY_OK)
        return status;
    if (layout_is_dense(&out->layout)) {
        normalize_strides(&out->layout);
        return status;
    }
    layout_packed(&packed, &out->layout);
    return cpu_read_as(build, value, &packed, out);
}

inlay_status cpu_read_as(cpu_build *build, uint32_t value, const tensor_layout *layout, cpu_place *out)
{
    const tensor_layout wanted = *layout;
    cpu_place at;
    inlay_status status = read_raw(build, value, &at);

    if (status != INLAY_OK)
        return status;
    if ((build->has[value] & CPU_HAS_COPY) != 0 && layout_equal(&build->copies[value].layout, &wanted)) {
        *out = build->copies[value];
        out->layout = wanted; /* kernels step by the requested strides, also along axes with one element */
        return INLAY_OK;
    }
    status = cpu_reorder(build, &at, &wanted, out);
    if (status == INLAY_OK && out->buffer != at.buffer) {
        build->copies[value] = *out;
        build->has[value] |= CPU_HAS_COPY;
        build->instance->buffers[out->buffer].copy_of = value;
    }
    return status;
}

inlay_status cpu_read_plain(cpu_build *build, uint32_t value, cpu_place *out)
{
    inlay_status status;
    tensor_layout plain;

    if ((build->has[value] & CPU_HAS_PLAIN) != 0) {
        *out = build->plains[value];
        return INLAY_OK;
    }
    layout_plain(&plain, build->ranks[value], build->dims[value]);
    plain.type = cpu_type(build, value);
    INLAY_TRY(cpu_read_as(build, value, &plain, out));
    build->plains[value] = *out;
    build->has[value] |= CPU_HAS_PLAIN;
done:
    return status;
}

inlay_status cpu_read_summed(cpu_build *build, uint32_t value, cpu_place *out)
{
    return build->state->reproducible ? cpu_read_plain(build, value, out) : cpu_read(build, value, out);
}

inlay_status cpu_read_unaligned(cpu_build *build, uint32_t value, cpu_place *out)
{
    const uint32_t index = build->compiled->values[value].constant;
    cpu_constant *constant = index == INLAY_NONE ? NULL : &build->compiled->constants[index];
    inlay_status status;

    /* computed by another region, dropped, or stored in another form */
    if (constant == NULL || constant->data == NULL)
        return cpu_read_plain(build, value, out);
    constant->plain_used = true;
    status = cpu_pack_place(build, constant->data, constant->bytes, out);
    layout_plain(&out->layout, build->ranks[value], build->dims[value]);
    return status;
}

const sgemm_halves *cpu_halves_of(const cpu_build *build, uint32_t value)
{
    const sgemm_kernel *kernel = build->state->sgemm;
    const uint32_t index = build->compiled->values[value].constant;
    const cpu_constant *constant = index == INLAY_NONE ? NULL : &build->compiled->constants[index];

    if (kernel == NULL || constant == NULL || constant->kind != CONSTANT_HALVES || cpu_constant_is_dropped(constant))
        return NULL;
    return constant->stored.halves.type == INLAY_FLOAT16 ? &kernel->float16 : &kernel->bfloat16;
}

inlay_status cpu_read_halves(cpu_build *build, uint32_t value, cpu_place *out)
{
    inlay_compiled *compiled = build->compiled;
    cpu_constant *constant = &compiled->constants[compiled->values[value].constant];
    const int64_t bytes = (int64_t)(constant->bytes / 2);
    const inlay_status status = cpu_pack_place(build, constant->stored.halves.data, (uint64_t)bytes, out);

    INLAY_CHECK(constant->kind == CONSTANT_HALVES && !cpu_constant_is_dropped(constant));
    constant->plain_used = true; /* the originals, at sources[0], are read */
    for (uint32_t i = 0; i < compiled->constant_count; i++)
        compiled->constants[i].plain_used |= compiled->constants[i].value == constant->sources[0];
    layout_plain(&out->layout, 1, &bytes);
    out->layout.type = ELEMENT_UINT8;
    return status;
}

inlay_status cpu_read_original(cpu_build *build, uint32_t value, const void **out)
{
    const uint32_t index = value == INLAY_NONE ? INLAY_NONE : build->compiled->values[value].constant;
    cpu_constant *constant = index == INLAY_NONE ? NULL : &build->compiled->constants[index];
    const cpu_pack *pack = NULL;
    inlay_status status;
    tensor_layout plain;

    *out = NULL;
    if (constant == NULL)
        return INLAY_OK;
    INLAY_CHECK(constant->kind != CONSTANT_LOW_BIT);
    if (constant->data != NULL) {
        constant->plain_used = true;
        *out = constant->data;
        return INLAY_OK;
    }
    layout_plain(&plain, build->ranks[value], build->dims[value]);
    plain.type = cpu_type(build, value);
    status = cpu_constant_pack(build, constant, &plain, &plain, &pack);
    if (status == INLAY_OK)
        *out = pack->data;
    return status;
}

inlay_status cpu_read_floats(cpu_build *build, uint32_t value, int64_t count, cpu_place *out)
{
    tensor_layout layout;

    layout_plain(&layout, 1, &count);
    return cpu_read_constant(build, value, &layout, &layout, out);
}
