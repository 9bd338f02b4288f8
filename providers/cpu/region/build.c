/* A region at concrete shapes: places of values, and steps. */
#include "region/build.h"

static inlay_status no_memory(const rg_build *build)
{
    return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory to prepare a region of %u nodes",
                      build->compiled->op_count);
}

int64_t rg_count(const rg_build *build, uint32_t value)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < build->ranks[value]; d++)
        count *= build->dims[value][d];
    return count;
}

/* ------------------------------------------------------------------ buffers and places */

static inlay_status add_buffer(rg_build *build, rg_buffer buffer, uint32_t *out)
{
    inlay_instance *instance = build->instance;

    if (!rg_scratch_grow(instance->memory, &instance->buffers, instance->buffer_count, &build->buffer_capacity,
                         sizeof *instance->buffers))
        return no_memory(build);
    buffer.first = INLAY_NONE;
    buffer.parent = INLAY_NONE;
    buffer.copy_of = INLAY_NONE;
    *out = instance->buffer_count;
    instance->buffers[instance->buffer_count++] = buffer;
    return INLAY_OK;
}

inlay_status rg_new_place(rg_build *build, const rg_md *md, rg_place *out)
{
    *out = (rg_place){ .md = *md };
    return add_buffer(build, (rg_buffer){ .kind = RG_WORK, .bytes = rg_md_bytes(md) }, &out->buffer);
}

inlay_status rg_new_floats(rg_build *build, int64_t count, rg_place *out)
{
    rg_md md;

    rg_md_plain(&md, 1, &count);
    return rg_new_place(build, &md, out);
}

/* A constant as it lies in the file, or our copy. */
static inlay_status place_constant(rg_build *build, uint32_t value, rg_place *out)
{
    rg_constant *constant = &build->compiled->constants[build->compiled->values[value].constant];
    rg_md plain;

    rg_md_plain(&plain, build->ranks[value], build->dims[value]);
    plain.data_type = rg_type(build, value);
    /* The original has gone, or lies at an address that is none for floats: files promise nothing. */
    if (constant->data == NULL || (uintptr_t)constant->data % sizeof(float) != 0)
        return rg_read_constant(build, value, &plain, &plain, out);
    constant->plain_used = true;
    *out = (rg_place){ .md = plain };
    return add_buffer(build, (rg_buffer){ .kind = RG_CONST, .data = constant->data, .bytes = constant->bytes },
                      &out->buffer);
}

static inlay_status read_raw(rg_build *build, uint32_t value, rg_place *out)
{
    rg_place *at = &build->places[value];

    if (at->buffer == INLAY_NONE) {
        const rg_value *v = &build->compiled->values[value];
        inlay_status status;

        if (v->constant != INLAY_NONE) {
            status = place_constant(build, value, at);
        } else if (v->input != INLAY_NONE) {
            rg_md_plain(&at->md, build->ranks[value], build->dims[value]);
            at->md.data_type = rg_type(build, value);
            if (build->rooms[value] != 0 && build->ranks[value] == 4) {
                int64_t strides[RG_MAX_RANK];

                rg_state_strides(build, value, strides);
                rg_md_strides(&at->md, 4, build->dims[value], strides);
            }
            at->offset = 0;
            status = add_buffer(
                build, (rg_buffer){ .kind = RG_INPUT, .index = v->input, .bytes = rg_md_bytes(&at->md) }, &at->buffer);
        } else if (rg_count(build, value) == 0) { /* nobody makes what has no elements */
            rg_md none;

            rg_md_plain(&none, build->ranks[value], build->dims[value]);
            none.data_type = rg_type(build, value);
            status = rg_new_place(build, &none, at);
        } else {
            status = inlay_fail(build->diag, INLAY_INTERNAL, "node '%s' reads what has not been made", build->op->name);
        }
        if (status != INLAY_OK) {
            at->buffer = INLAY_NONE;
            return status;
        }
    }
    *out = *at;
    return INLAY_OK;
}

inlay_status rg_read_strided(rg_build *build, uint32_t value, rg_place *out)
{
    inlay_status status = read_raw(build, value, out);
    rg_md floats;

    if (status != INLAY_OK || out->md.data_type != DN_BF16)
        return status;
    floats = out->md;
    floats.data_type = DN_F32;
    return rg_read_as(build, value, &floats, out);
}

/* Views leave any number as the stride of an axis with one element; oneDNN's kernels for images want the one that it
 * would be with more (its reference loop, which takes any, is a hundred times slower). */
static void settle_strides(rg_md *md)
{
    const dn_type type = md->data_type;
    const uint32_t rank = (uint32_t)md->ndims;
    dn_dims dims;

    memcpy(dims, md->dims, rank * sizeof *dims);
    if (rg_md_is_plain(md))
        rg_md_plain(md, rank, dims);
    else if (rg_md_is_image(md))
        rg_md_channels_last(md, rank, dims);
    md->data_type = type;
}

inlay_status rg_read(rg_build *build, uint32_t value, rg_place *out)
{
    inlay_status status = rg_read_strided(build, value, out);
    rg_md packed;

    if (status != INLAY_OK || rg_md_is_blocked(&out->md))
        return status;
    if (rg_md_is_dense(&out->md)) {
        settle_strides(&out->md);
        return status;
    }
    rg_md_packed(&packed, &out->md);
    return rg_read_as(build, value, &packed, out);
}

inlay_status rg_reorder(rg_build *build, const rg_place *place, const rg_md *layout, rg_place *out)
{
    const rg_place from = *place; /* out may be the same */
    const rg_md md = *layout;
    inlay_status status;

    if (rg_md_equal(&from.md, &md) ||
        (from.md.data_type == md.data_type && rg_md_is_plain(&from.md) && rg_md_is_plain(&md))) {
        *out = from;
        out->md = md;
        return INLAY_OK;
    }
    status = rg_new_place(build, &md, out);
    return status == INLAY_OK ? rg_emit_copy(build, &from, out) : status;
}

inlay_status rg_read_as(rg_build *build, uint32_t value, const rg_md *md, rg_place *out)
{
    const rg_md wanted = *md;
    rg_place at;
    inlay_status status = read_raw(build, value, &at);

    if (status != INLAY_OK)
        return status;
    if ((build->has[value] & RG_HAS_COPY) != 0 && rg_md_equal(&build->copies[value].md, &wanted)) {
        *out = build->copies[value];
        out->md = wanted; /* the strides of axes with one element are those asked for: kernels step by them */
        return INLAY_OK;
    }
    status = rg_reorder(build, &at, &wanted, out);
    if (status == INLAY_OK && out->buffer != at.buffer) {
        build->copies[value] = *out;
        build->has[value] |= RG_HAS_COPY;
        build->instance->buffers[out->buffer].copy_of = value;
    }
    return status;
}

inlay_status rg_read_plain(rg_build *build, uint32_t value, rg_place *out)
{
    inlay_status status;
    rg_md plain;

    rg_md_plain(&plain, build->ranks[value], build->dims[value]);
    plain.data_type = rg_type(build, value);
    if ((build->has[value] & RG_HAS_PLAIN) != 0) {
        *out = build->plains[value];
        return INLAY_OK;
    }
    INLAY_TRY(rg_read_as(build, value, &plain, out));
    build->plains[value] = *out;
    build->has[value] |= RG_HAS_PLAIN;
done:
    return status;
}

inlay_status rg_read_floats(rg_build *build, uint32_t value, int64_t count, rg_place *out)
{
    rg_md md;

    rg_md_plain(&md, 1, &count);
    return rg_read_constant(build, value, &md, &md, out);
}

inlay_status rg_pack_place(rg_build *build, const void *data, uint64_t bytes, rg_place *out)
{
    const int64_t count = (int64_t)bytes;

    *out = (rg_place){ 0 };
    rg_md_plain(&out->md, 1, &count);
    out->md.data_type = DN_U8;
    return add_buffer(build, (rg_buffer){ .kind = RG_CONST, .data = data, .bytes = bytes }, &out->buffer);
}

inlay_status rg_output_place(rg_build *build, uint32_t value, const rg_md *md, rg_place *out)
{
    *out = (rg_place){ .md = *md };
    return add_buffer(
        build,
        (rg_buffer){ .kind = RG_OUTPUT, .index = build->compiled->values[value].output, .bytes = rg_md_bytes(md) },
        &out->buffer);
}

inlay_status rg_result_place(rg_build *build, uint32_t value, const rg_md *md, rg_place *out)
{
    const rg_value *v = &build->compiled->values[value];

    if (v->output == INLAY_NONE || !rg_md_is_plain(md))
        return rg_new_place(build, md, out);
    return rg_output_place(build, value, md, out);
}

inlay_status rg_made_place(rg_build *build, const rg_group *group, uint32_t posts_done, const rg_md *md, rg_place *out)
{
    return posts_done == group->post_count ? rg_result_place(build, group->out, md, out) : rg_new_place(build, md, out);
}

inlay_status rg_set_place(rg_build *build, uint32_t value, const rg_place *place)
{
    const rg_value *v = &build->compiled->values[value];
    const rg_buffer *buffer = &build->instance->buffers[place->buffer];
    inlay_status status = INLAY_OK;
    rg_place out;
    rg_md plain;

    build->places[value] = *place;
    build->instance->buffers[place->buffer].pending += build->uses[value];
    if (v->output == INLAY_NONE || (buffer->kind == RG_OUTPUT && buffer->index == v->output))
        return INLAY_OK;
    /* It leaves the region: a row-major copy in the host's buffer. */
    rg_md_plain(&plain, build->ranks[value], build->dims[value]);
    plain.data_type = rg_type(build, value);
    INLAY_TRY(rg_result_place(build, value, &plain, &out));
    INLAY_TRY(rg_emit_copy(build, place, &out));
    build->plains[value] = out;
    build->has[value] |= RG_HAS_PLAIN;
done:
    return status;
}

bool rg_is_last_use(const rg_build *build, uint32_t value)
{
    const rg_buffer *buffer;

    if (build->places[value].buffer == INLAY_NONE)
        return false;
    buffer = &build->instance->buffers[build->places[value].buffer];
    return buffer->kind == RG_WORK && buffer->pending == 1 && build->uses[value] == 1 &&
           (buffer->copy_of == INLAY_NONE || build->uses[buffer->copy_of] == 0);
}

/* ------------------------------------------------------------------ steps */

/* Slots of a place are shared by steps, which keeps the memory objects few. New places are at the end. known: oneDNN
 * is to read it, and has to be told the layout. */
static inlay_status find_slot(rg_build *build, const rg_place *place, bool known, uint32_t *out)
{
    inlay_instance *instance = build->instance;
    uint32_t md = INLAY_NONE;

    for (uint32_t back = 0; back < 64 && back < instance->slot_count; back++) {
        const rg_slot *slot = &instance->slots[instance->slot_count - 1 - back];

        if (slot->buffer == place->buffer && slot->offset == place->offset &&
            (!known || (slot->md != INLAY_NONE && rg_md_equal(&instance->mds[slot->md], &place->md)))) {
            *out = instance->slot_count - 1 - back;
            return INLAY_OK;
        }
    }
    if (!rg_scratch_grow(instance->memory, &instance->slots, instance->slot_count, &build->slot_capacity,
                         sizeof *instance->slots))
        return no_memory(build);
    for (uint32_t back = 0; known && md == INLAY_NONE && back < 32 && back < instance->md_count; back++)
        if (memcmp(&instance->mds[instance->md_count - 1 - back], &place->md, sizeof place->md) == 0)
            md = instance->md_count - 1 - back;
    if (known && md == INLAY_NONE) {
        if (!rg_scratch_grow(instance->memory, &instance->mds, instance->md_count, &build->md_capacity,
                             sizeof *instance->mds))
            return no_memory(build);
        md = instance->md_count;
        instance->mds[instance->md_count++] = place->md;
    }
    *out = instance->slot_count;
    instance->slots[instance->slot_count++] = (rg_slot){ place->offset, place->buffer, md };
    return INLAY_OK;
}

static inlay_status add_arg(rg_build *build, rg_step *step, int id, const rg_place *place)
{
    inlay_instance *instance = build->instance;
    rg_buffer *buffer = &instance->buffers[place->buffer];
    inlay_status status;
    uint32_t slot = 0;

    if (!rg_scratch_grow(instance->memory, &instance->args, instance->arg_count, &build->arg_capacity,
                         sizeof *instance->args))
        return no_memory(build);
    status = find_slot(build, place, step->primitive != NULL, &slot);
    if (status != INLAY_OK)
        return status;
    if (buffer->first == INLAY_NONE)
        buffer->first = instance->step_count;
    buffer->last = instance->step_count;
    instance->args[instance->arg_count++] = (rg_arg){ id, slot };
    step->arg_count++;
    return INLAY_OK;
}

static inlay_status add_step(rg_build *build, rg_step *step)
{
    inlay_instance *instance = build->instance;

    if (!rg_scratch_grow(instance->memory, &instance->steps, instance->step_count, &build->step_capacity,
                         sizeof *instance->steps))
        return no_memory(build);
    if (step->arg_count > instance->max_args)
        instance->max_args = step->arg_count;
    instance->steps[instance->step_count++] = *step;
    return INLAY_OK;
}

enum { ALONE_BYTES = 192 * 1024 }; /* a few microseconds, what it takes to wake threads and wait for them */

inlay_status rg_emit(rg_build *build, dn_description pd, const rg_operand *operands, uint32_t count)
{
    const rg_md *scratchpad = dn_layout(pd, DN_OPERAND_SCRATCHPAD, &(rg_md){ 0 });
    rg_step step = { .first_arg = build->instance->arg_count, .op = build->op_index };
    uint64_t bytes = 0;
    rg_place scratch;
    inlay_status status;

    INLAY_TRY(rg_check(dn_primitive_create(pd, &step.primitive), build->diag, "prepare a kernel", build->op->name));
    for (uint32_t i = 0; i < count; i++) {
        INLAY_TRY(add_arg(build, &step, operands[i].id, operands[i].place));
        bytes += rg_md_bytes(&operands[i].place->md);
    }
    step.alone = build->alone || bytes < ALONE_BYTES;
    build->instance->takes_turn |= !step.alone;
    if (scratchpad->ndims > 0 && rg_md_bytes(scratchpad) > 0) {
        INLAY_TRY(rg_new_place(build, scratchpad, &scratch));
        INLAY_TRY(add_arg(build, &step, DN_ARG_SCRATCHPAD, &scratch));
    }
    INLAY_TRY(add_step(build, &step));
    step.primitive = NULL;
done:
    dn_primitive_destroy(step.primitive);
    return status;
}

inlay_status rg_emit_native(rg_build *build, rg_native *native, const rg_place *const *places, uint32_t count)
{
    rg_step step = { .first_arg = build->instance->arg_count, .op = build->op_index, .native = native };
    uint64_t bytes = 0;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < count; i++) {
        INLAY_TRY(add_arg(build, &step, 0, places[i]));
        bytes += rg_md_bytes(&places[i]->md);
    }
    build->instance->takes_turn |= bytes >= ALONE_BYTES;
    INLAY_TRY(add_step(build, &step));
    step.native = NULL;
done:
    rg_native_destroy(step.native);
    return status;
}

void *rg_new_native(rg_build *build, size_t bytes)
{
    rg_native *native = rg_scratch_take_zeroed(build->instance->memory, 1, bytes);

    if (native != NULL)
        native->pooled = true;
    return native;
}

inlay_status rg_emit_step(rg_build *build, const rg_native *step, size_t bytes, const rg_place *const *places,
                          uint32_t count)
{
    rg_native *native = rg_new_native(build, bytes);

    if (native == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", build->op->name);
    memcpy(native, step, bytes);
    native->pooled = true;
    return rg_emit_native(build, native, places, count);
}

void rg_native_destroy(rg_native *native)
{
    if (native != NULL && native->release != NULL)
        native->release(native);
    if (native != NULL && !native->pooled)
        free(native);
}
