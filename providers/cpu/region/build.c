/* A region at concrete shapes: places of values, and steps. */
#include "region/build.h"

static inlay_status no_memory(const rg_build *b)
{
    return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory to prepare a region of %u nodes", b->c->op_count);
}

int64_t rg_count(const rg_build *b, uint32_t value)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < b->ranks[value]; d++)
        count *= b->dims[value][d];
    return count;
}

/* ------------------------------------------------------------------ buffers and places */

static inlay_status add_buffer(rg_build *b, rg_buffer buffer, uint32_t *out)
{
    inlay_instance *i = b->instance;

    if (!rg_scratch_grow(i->memory, &i->buffers, i->buffer_count, &b->buffer_capacity, sizeof *i->buffers))
        return no_memory(b);
    buffer.first = INLAY_NONE;
    buffer.parent = INLAY_NONE;
    buffer.copy_of = INLAY_NONE;
    *out = i->buffer_count;
    i->buffers[i->buffer_count++] = buffer;
    return INLAY_OK;
}

inlay_status rg_new_place(rg_build *b, const rg_md *md, rg_place *out)
{
    *out = (rg_place){ .md = *md };
    return add_buffer(b, (rg_buffer){ .kind = RG_WORK, .bytes = rg_md_bytes(md) }, &out->buffer);
}

inlay_status rg_new_floats(rg_build *b, int64_t count, rg_place *out)
{
    rg_md md;

    rg_md_plain(&md, 1, &count);
    return rg_new_place(b, &md, out);
}

/* A constant as it lies in the file, or our copy. */
static inlay_status place_constant(rg_build *b, uint32_t value, rg_place *out)
{
    rg_constant *k = &b->c->constants[b->c->values[value].constant];
    rg_md plain;

    rg_md_plain(&plain, b->ranks[value], b->dims[value]);
    plain.data_type = rg_type(b, value);
    /* The original has gone, or lies at an address that is none for floats: files promise nothing. */
    if (k->data == NULL || (uintptr_t)k->data % sizeof(float) != 0)
        return rg_read_constant(b, value, &plain, &plain, out);
    k->plain_used = true;
    *out = (rg_place){ .md = plain };
    return add_buffer(b, (rg_buffer){ .kind = RG_CONST, .data = k->data, .bytes = k->bytes }, &out->buffer);
}

static inlay_status read_raw(rg_build *b, uint32_t value, rg_place *out)
{
    rg_place *at = &b->places[value];

    if (at->buffer == INLAY_NONE) {
        const rg_value *v = &b->c->values[value];
        inlay_status status;

        if (v->constant != INLAY_NONE) {
            status = place_constant(b, value, at);
        } else if (v->input != INLAY_NONE) {
            rg_md_plain(&at->md, b->ranks[value], b->dims[value]);
            at->md.data_type = rg_type(b, value);
            if (b->rooms[value] != 0 && b->ranks[value] == 4) {
                int64_t strides[RG_MAX_RANK];

                rg_state_strides(b, value, strides);
                rg_md_strides(&at->md, 4, b->dims[value], strides);
            }
            at->offset = 0;
            status = add_buffer(b, (rg_buffer){ .kind = RG_INPUT, .index = v->input, .bytes = rg_md_bytes(&at->md) },
                                &at->buffer);
        } else if (rg_count(b, value) == 0) { /* nobody makes what has no elements */
            rg_md none;

            rg_md_plain(&none, b->ranks[value], b->dims[value]);
            none.data_type = rg_type(b, value);
            status = rg_new_place(b, &none, at);
        } else {
            status = inlay_fail(b->diag, INLAY_INTERNAL, "node '%s' reads what has not been made", b->op->name);
        }
        if (status != INLAY_OK) {
            at->buffer = INLAY_NONE;
            return status;
        }
    }
    *out = *at;
    return INLAY_OK;
}

inlay_status rg_read_strided(rg_build *b, uint32_t value, rg_place *out)
{
    inlay_status status = read_raw(b, value, out);
    rg_md floats;

    if (status != INLAY_OK || out->md.data_type != DN_BF16)
        return status;
    floats = out->md;
    floats.data_type = DN_F32;
    return rg_read_as(b, value, &floats, out);
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

inlay_status rg_read(rg_build *b, uint32_t value, rg_place *out)
{
    inlay_status status = rg_read_strided(b, value, out);
    rg_md packed;

    if (status != INLAY_OK || rg_md_is_blocked(&out->md))
        return status;
    if (rg_md_is_dense(&out->md)) {
        settle_strides(&out->md);
        return status;
    }
    rg_md_packed(&packed, &out->md);
    return rg_read_as(b, value, &packed, out);
}

inlay_status rg_reorder(rg_build *b, const rg_place *place, const rg_md *layout, rg_place *out)
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
    status = rg_new_place(b, &md, out);
    return status == INLAY_OK ? rg_emit_copy(b, &from, out) : status;
}

inlay_status rg_read_as(rg_build *b, uint32_t value, const rg_md *md, rg_place *out)
{
    const rg_md wanted = *md;
    rg_place at;
    inlay_status status = read_raw(b, value, &at);

    if (status != INLAY_OK)
        return status;
    if ((b->has[value] & RG_HAS_COPY) != 0 && rg_md_equal(&b->copies[value].md, &wanted)) {
        *out = b->copies[value];
        out->md = wanted; /* the strides of axes with one element are those asked for: kernels step by them */
        return INLAY_OK;
    }
    status = rg_reorder(b, &at, &wanted, out);
    if (status == INLAY_OK && out->buffer != at.buffer) {
        b->copies[value] = *out;
        b->has[value] |= RG_HAS_COPY;
        b->instance->buffers[out->buffer].copy_of = value;
    }
    return status;
}

inlay_status rg_read_plain(rg_build *b, uint32_t value, rg_place *out)
{
    inlay_status status;
    rg_md plain;

    rg_md_plain(&plain, b->ranks[value], b->dims[value]);
    plain.data_type = rg_type(b, value);
    if ((b->has[value] & RG_HAS_PLAIN) != 0) {
        *out = b->plains[value];
        return INLAY_OK;
    }
    INLAY_TRY(rg_read_as(b, value, &plain, out));
    b->plains[value] = *out;
    b->has[value] |= RG_HAS_PLAIN;
done:
    return status;
}

inlay_status rg_read_floats(rg_build *b, uint32_t value, int64_t count, rg_place *out)
{
    rg_md md;

    rg_md_plain(&md, 1, &count);
    return rg_read_constant(b, value, &md, &md, out);
}

inlay_status rg_pack_place(rg_build *b, const void *data, uint64_t bytes, rg_place *out)
{
    const int64_t count = (int64_t)bytes;

    *out = (rg_place){ 0 };
    rg_md_plain(&out->md, 1, &count);
    out->md.data_type = DN_U8;
    return add_buffer(b, (rg_buffer){ .kind = RG_CONST, .data = data, .bytes = bytes }, &out->buffer);
}

inlay_status rg_output_place(rg_build *b, uint32_t value, const rg_md *md, rg_place *out)
{
    *out = (rg_place){ .md = *md };
    return add_buffer(b,
                      (rg_buffer){ .kind = RG_OUTPUT, .index = b->c->values[value].output, .bytes = rg_md_bytes(md) },
                      &out->buffer);
}

inlay_status rg_result_place(rg_build *b, uint32_t value, const rg_md *md, rg_place *out)
{
    const rg_value *v = &b->c->values[value];

    if (v->output == INLAY_NONE || !rg_md_is_plain(md))
        return rg_new_place(b, md, out);
    return rg_output_place(b, value, md, out);
}

inlay_status rg_made_place(rg_build *b, const rg_group *group, uint32_t posts_done, const rg_md *md, rg_place *out)
{
    return posts_done == group->post_count ? rg_result_place(b, group->out, md, out) : rg_new_place(b, md, out);
}

inlay_status rg_set_place(rg_build *b, uint32_t value, const rg_place *place)
{
    const rg_value *v = &b->c->values[value];
    const rg_buffer *buffer = &b->instance->buffers[place->buffer];
    inlay_status status = INLAY_OK;
    rg_place out;
    rg_md plain;

    b->places[value] = *place;
    b->instance->buffers[place->buffer].pending += b->uses[value];
    if (v->output == INLAY_NONE || (buffer->kind == RG_OUTPUT && buffer->index == v->output))
        return INLAY_OK;
    /* It leaves the region: a row-major copy in the host's buffer. */
    rg_md_plain(&plain, b->ranks[value], b->dims[value]);
    plain.data_type = rg_type(b, value);
    INLAY_TRY(rg_result_place(b, value, &plain, &out));
    INLAY_TRY(rg_emit_copy(b, place, &out));
    b->plains[value] = out;
    b->has[value] |= RG_HAS_PLAIN;
done:
    return status;
}

bool rg_is_last_use(const rg_build *b, uint32_t value)
{
    const rg_buffer *buffer;

    if (b->places[value].buffer == INLAY_NONE)
        return false;
    buffer = &b->instance->buffers[b->places[value].buffer];
    return buffer->kind == RG_WORK && buffer->pending == 1 && b->uses[value] == 1 &&
           (buffer->copy_of == INLAY_NONE || b->uses[buffer->copy_of] == 0);
}

/* ------------------------------------------------------------------ steps */

/* Slots of a place are shared by steps, which keeps the memory objects few. New places are at the end. known: oneDNN
 * is to read it, and has to be told the layout. */
static inlay_status find_slot(rg_build *b, const rg_place *place, bool known, uint32_t *out)
{
    inlay_instance *i = b->instance;
    uint32_t md = INLAY_NONE;

    for (uint32_t back = 0; back < 64 && back < i->slot_count; back++) {
        const rg_slot *s = &i->slots[i->slot_count - 1 - back];

        if (s->buffer == place->buffer && s->offset == place->offset &&
            (!known || (s->md != INLAY_NONE && rg_md_equal(&i->mds[s->md], &place->md)))) {
            *out = i->slot_count - 1 - back;
            return INLAY_OK;
        }
    }
    if (!rg_scratch_grow(i->memory, &i->slots, i->slot_count, &b->slot_capacity, sizeof *i->slots))
        return no_memory(b);
    for (uint32_t back = 0; known && md == INLAY_NONE && back < 32 && back < i->md_count; back++)
        if (memcmp(&i->mds[i->md_count - 1 - back], &place->md, sizeof place->md) == 0)
            md = i->md_count - 1 - back;
    if (known && md == INLAY_NONE) {
        if (!rg_scratch_grow(i->memory, &i->mds, i->md_count, &b->md_capacity, sizeof *i->mds))
            return no_memory(b);
        md = i->md_count;
        i->mds[i->md_count++] = place->md;
    }
    *out = i->slot_count;
    i->slots[i->slot_count++] = (rg_slot){ place->offset, place->buffer, md };
    return INLAY_OK;
}

static inlay_status add_arg(rg_build *b, rg_step *step, int id, const rg_place *place)
{
    inlay_instance *i = b->instance;
    rg_buffer *buffer = &i->buffers[place->buffer];
    inlay_status status;
    uint32_t slot = 0;

    if (!rg_scratch_grow(i->memory, &i->args, i->arg_count, &b->arg_capacity, sizeof *i->args))
        return no_memory(b);
    status = find_slot(b, place, step->primitive != NULL, &slot);
    if (status != INLAY_OK)
        return status;
    if (buffer->first == INLAY_NONE)
        buffer->first = i->step_count;
    buffer->last = i->step_count;
    i->args[i->arg_count++] = (rg_arg){ id, slot };
    step->arg_count++;
    return INLAY_OK;
}

static inlay_status add_step(rg_build *b, rg_step *step)
{
    inlay_instance *i = b->instance;

    if (!rg_scratch_grow(i->memory, &i->steps, i->step_count, &b->step_capacity, sizeof *i->steps))
        return no_memory(b);
    if (step->arg_count > i->max_args)
        i->max_args = step->arg_count;
    i->steps[i->step_count++] = *step;
    return INLAY_OK;
}

enum { ALONE_BYTES = 192 * 1024 }; /* a few microseconds, what it takes to wake threads and wait for them */

inlay_status rg_emit(rg_build *b, dn_description pd, const rg_operand *operands, uint32_t count)
{
    const rg_md *scratchpad = dn_layout(pd, DN_OPERAND_SCRATCHPAD, &(rg_md){ 0 });
    rg_step step = { .first_arg = b->instance->arg_count, .op = b->op_index };
    uint64_t bytes = 0;
    rg_place scratch;
    inlay_status status;

    INLAY_TRY(rg_check(dn_primitive_create(pd, &step.primitive), b->diag, "prepare a kernel", b->op->name));
    for (uint32_t i = 0; i < count; i++) {
        INLAY_TRY(add_arg(b, &step, operands[i].id, operands[i].place));
        bytes += rg_md_bytes(&operands[i].place->md);
    }
    step.alone = b->alone || bytes < ALONE_BYTES;
    b->instance->takes_turn |= !step.alone;
    if (scratchpad->ndims > 0 && rg_md_bytes(scratchpad) > 0) {
        INLAY_TRY(rg_new_place(b, scratchpad, &scratch));
        INLAY_TRY(add_arg(b, &step, DN_ARG_SCRATCHPAD, &scratch));
    }
    INLAY_TRY(add_step(b, &step));
    step.primitive = NULL;
done:
    dn_primitive_destroy(step.primitive);
    return status;
}

inlay_status rg_emit_native(rg_build *b, rg_native *native, const rg_place *const *places, uint32_t count)
{
    rg_step step = { .first_arg = b->instance->arg_count, .op = b->op_index, .native = native };
    uint64_t bytes = 0;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < count; i++) {
        INLAY_TRY(add_arg(b, &step, 0, places[i]));
        bytes += rg_md_bytes(&places[i]->md);
    }
    b->instance->takes_turn |= bytes >= ALONE_BYTES;
    INLAY_TRY(add_step(b, &step));
    step.native = NULL;
done:
    rg_native_destroy(step.native);
    return status;
}

void *rg_new_native(rg_build *b, size_t bytes)
{
    rg_native *native = rg_scratch_take_zeroed(b->instance->memory, 1, bytes);

    if (native != NULL)
        native->pooled = true;
    return native;
}

inlay_status rg_emit_step(rg_build *b, const rg_native *step, size_t bytes, const rg_place *const *places,
                          uint32_t count)
{
    rg_native *native = rg_new_native(b, bytes);

    if (native == NULL)
        return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", b->op->name);
    memcpy(native, step, bytes);
    native->pooled = true;
    return rg_emit_native(b, native, places, count);
}

void rg_native_destroy(rg_native *native)
{
    if (native != NULL && native->release != NULL)
        native->release(native);
    if (native != NULL && !native->pooled)
        free(native);
}
