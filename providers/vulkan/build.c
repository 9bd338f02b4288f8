/* What lowering is written with: dispatches, operands, places. */
#include "region.h"
#include <stdarg.h>
#include <stdlib.h>

/* Room for one element more; false: out of memory. array is the address of a typed pointer. */
static bool grow(void *array, uint32_t count, uint32_t *capacity, size_t element)
{
    const uint32_t more = *capacity < 32 ? 64 : *capacity * 2;
    void *old, *fresh;

    if (count <= *capacity)
        return true;
    memcpy(&old, array, sizeof old);
    fresh = realloc(old, (more > count ? more : count) * element);
    if (fresh == NULL)
        return false;
    memset((char *)fresh + *capacity * element, 0, ((more > count ? more : count) - *capacity) * element);
    memcpy(array, &fresh, sizeof fresh);
    *capacity = more > count ? more : count;
    return true;
}

static inlay_status no_memory(const vr_build *b)
{
    return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for a region of %u nodes", b->c->op_count);
}

inlay_status vr_decline(vr_build *b, const vr_op *op, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)inlay_fail(b->diag, INLAY_UNSUPPORTED, "node '%s': %s", op->info.name.data, text);
    (void)snprintf(b->diag->node, sizeof b->diag->node, "%s", op->info.name.data);
    return INLAY_UNSUPPORTED;
}

uint32_t vr_element(inlay_dtype dtype)
{
    switch (dtype) {
    case INLAY_FLOAT:
        return EL_F32;
    case INLAY_FLOAT16:
        return EL_F16;
    case INLAY_BFLOAT16:
        return EL_BF16;
    case INLAY_INT8:
        return EL_I8;
    case INLAY_UINT8:
        return EL_U8;
    case INLAY_INT16:
        return EL_I16;
    case INLAY_UINT16:
        return EL_U16;
    case INLAY_INT32:
        return EL_I32;
    case INLAY_UINT32:
        return EL_U32;
    case INLAY_DOUBLE:
        return EL_F64;
    case INLAY_INT64:
    case INLAY_UINT64:
        return EL_I64;
    default:
        return EL_BOOL;
    }
}

bool vr_axis(int64_t axis, uint32_t rank, uint32_t *out)
{
    *out = (uint32_t)(axis < 0 ? axis + rank : axis);
    return axis >= -(int64_t)rank && axis < (int64_t)rank;
}

const vr_tensor *vr_in(const vr_build *b, const vr_op *op, uint32_t input)
{
    return input < op->info.input_count && op->info.inputs[input] != INLAY_NONE ? &b->tensors[op->info.inputs[input]]
                                                                                : NULL;
}

const vr_tensor *vr_out(const vr_build *b, const vr_op *op, uint32_t output)
{
    return output < op->info.output_count && op->info.outputs[output] != INLAY_NONE
               ? &b->tensors[op->info.outputs[output]]
               : NULL;
}

int64_t vr_ints(const vr_build *b, const vr_op *op, uint32_t input, int64_t *out, uint32_t most)
{
    const vr_tensor *t = vr_in(b, op, input);

    if (t == NULL || t->data == NULL || t->count > most || (t->dtype != INLAY_INT64 && t->dtype != INLAY_INT32))
        return -1;
    for (int64_t i = 0; i < t->count; i++) {
        if (t->dtype == INLAY_INT64) {
            memcpy(&out[i], (const char *)t->data + i * 8, 8);
        } else {
            int32_t x;

            memcpy(&x, (const char *)t->data + i * 4, 4);
            out[i] = x;
        }
    }
    return t->count;
}

/* ------------------------------------------------------------------ places */

static inlay_status add_buffer(vr_build *b, vr_buffer buffer, uint32_t *out)
{
    inlay_instance *in = b->in;

    if (!grow(&in->buffers, in->buffer_count + 1, &in->buffer_capacity, sizeof *in->buffers))
        return no_memory(b);
    buffer.first = INLAY_NONE;
    in->buffers[in->buffer_count] = buffer;
    *out = in->buffer_count++;
    return INLAY_OK;
}

inlay_status vr_work(vr_build *b, uint64_t bytes, vr_place *out)
{
    *out = (vr_place){ .buffer = INLAY_NONE };
    return add_buffer(b, (vr_buffer){ .kind = VR_WORK, .bytes = bytes }, &out->buffer);
}

inlay_status vr_constant_place(vr_build *b, const vr_constant *k, vr_place *out)
{
    *out = (vr_place){ .buffer = INLAY_NONE };
    return add_buffer(b, (vr_buffer){ .kind = VR_CONSTANT, .bytes = k->bytes, .offset = k->offset }, &out->buffer);
}

bool vr_is_output(const vr_build *b, uint32_t value)
{
    return b->c->values[value].output != INLAY_NONE;
}

inlay_status vr_make(vr_build *b, uint32_t value)
{
    const vr_value *v = &b->c->values[value];
    const uint64_t bytes = (uint64_t)b->tensors[value].count * vr_size_of(b->tensors[value].dtype);

    if (b->places[value].buffer != INLAY_NONE)
        return INLAY_OK;
    if (v->output != INLAY_NONE) {
        b->places[value].offset = 0;
        return add_buffer(b, (vr_buffer){ .kind = VR_OUTPUT, .index = v->output, .bytes = bytes },
                          &b->places[value].buffer);
    }
    return vr_work(b, bytes, &b->places[value]);
}

uint32_t vr_temporary(vr_build *b, inlay_dtype dtype, uint32_t rank, const int64_t *dims)
{
    const uint32_t value = b->c->value_count + b->temporaries++;
    vr_tensor *t = &b->tensors[value];

    *t = (vr_tensor){ .rank = rank, .dtype = dtype, .count = 1, .known = true };
    for (uint32_t d = 0; d < rank; d++) {
        t->dims[d] = dims[d];
        t->count *= dims[d];
    }
    b->places[value].buffer = INLAY_NONE;
    return value;
}

void vr_alias(vr_build *b, uint32_t value, uint32_t of, uint64_t offset)
{
    b->places[value].buffer = b->places[of].buffer;
    b->places[value].offset = b->places[of].offset + offset;
}

/* ------------------------------------------------------------------ dispatches */

vr_dispatch *vr_emit(vr_build *b, gpu_shader shader, uint32_t own_words, bool has_program)
{
    inlay_instance *in = b->in;
    const uint32_t words = (has_program ? WORD_OWN : 0) + own_words;
    vr_dispatch *d;

    if (!grow(&in->dispatches, in->dispatch_count + 1, &in->dispatch_capacity, sizeof *in->dispatches) ||
        !grow(&in->words, in->word_count + words + 16, &in->word_capacity, sizeof *in->words)) {
        (void)no_memory(b);
        return NULL;
    }
    d = &in->dispatches[in->dispatch_count++];
    *d = (vr_dispatch){ .shader = shader, .words = in->word_count, .word_count = words, .groups = { 1, 1, 1 } };
    d->constants[ID_LOCAL] = VR_LOCAL;
    in->word_count += (words + 15) / 16 * 16;
    return d;
}

uint32_t *vr_words(const vr_build *b, const vr_dispatch *d)
{
    const bool is_bare = d->shader == SHADER_move || d->shader == SHADER_index;

    return b->in->words + d->words + (is_bare ? 0 : WORD_OWN);
}

void vr_operand_at(vr_build *b, vr_dispatch *d, uint32_t push, vr_place place, uint64_t bytes, bool write)
{
    vr_buffer *buffer = &b->in->buffers[place.buffer];
    const uint32_t me = (uint32_t)(d - b->in->dispatches);

    d->operands[d->operand_count++] =
        (vr_operand){ .push = push, .buffer = place.buffer, .offset = place.offset, .bytes = bytes, .write = write };
    if (buffer->first == INLAY_NONE)
        buffer->first = me;
    buffer->last = me;
}

void vr_value_at(vr_build *b, vr_dispatch *d, uint32_t push, uint32_t value, bool write)
{
    const vr_tensor *t = &b->tensors[value];

    vr_operand_at(b, d, push, b->places[value], (uint64_t)t->count * vr_size_of(t->dtype), write);
}

inlay_status vr_grid_groups(vr_build *b, vr_dispatch *d, uint64_t groups)
{
    const uint64_t most = b->g->facts.most_groups[0];

    d->groups[0] = (uint32_t)(groups < most ? groups : most);
    d->groups[1] = (uint32_t)((groups + most - 1) / most);
    if (groups > 0 && (groups + most - 1) / most > b->g->facts.most_groups[1])
        return inlay_fail(b->diag, INLAY_UNSUPPORTED, "%llu workgroups are more than %s takes",
                          (unsigned long long)groups, b->g->facts.name);
    return INLAY_OK;
}

inlay_status vr_grid(vr_build *b, vr_dispatch *d, uint64_t items)
{
    const uint32_t local = d->constants[ID_LOCAL];

    return vr_grid_groups(b, d, (items + local - 1) / local);
}

/* ------------------------------------------------------------------ moves */

void vr_row_major(const int64_t *dims, uint32_t rank, int64_t *strides)
{
    int64_t step = 1;

    for (uint32_t d = rank; d-- > 0; step *= dims[d])
        strides[d] = step;
}

void vr_strides(const vr_build *b, uint32_t value, int64_t *strides)
{
    if (b->views[value].turned)
        memcpy(strides, b->views[value].strides, sizeof b->views[value].strides);
    else
        vr_row_major(b->tensors[value].dims, b->tensors[value].rank, strides);
}

const vr_op *vr_reader(const vr_build *b, uint32_t value, uint32_t *out)
{
    const vr_op *found = NULL;

    if (value >= b->c->value_count || b->c->values[value].uses != 1 || vr_is_output(b, value))
        return NULL;
    for (uint32_t o = 0; o < b->c->op_count && found == NULL; o++)
        for (uint32_t i = 0; i < b->c->ops[o].info.input_count; i++)
            if (b->c->ops[o].info.inputs[i] == value && !b->done[o]) {
                found = &b->c->ops[o];
                *out = o;
            }
    return found;
}

/* Fewer dimensions for the same box: those of size 1 go, and neighbours that lie behind each other on both sides
 * become one. */
static void simplify(vr_box *x)
{
    uint32_t n = 0;

    if (x->pad != PAD_NONE)
        return;
    for (uint32_t d = 0; d < x->rank; d++) {
        if (x->dims[d] == 1)
            continue;
        if (n > 0 && x->from[n - 1] == x->from[d] * x->dims[d] && x->to[n - 1] == x->to[d] * x->dims[d]) {
            x->dims[n - 1] *= x->dims[d];
            x->from[n - 1] = x->from[d];
            x->to[n - 1] = x->to[d];
            continue;
        }
        x->dims[n] = x->dims[d];
        x->from[n] = x->from[d];
        x->to[n++] = x->to[d];
    }
    x->rank = n;
}

inlay_status vr_move(vr_build *b, const vr_box *box, vr_place from, uint64_t from_bytes, vr_place to, uint64_t to_bytes,
                     uint32_t size)
{
    vr_box x = *box;
    int64_t count = 1;
    vr_dispatch *d;
    uint32_t *w;

    for (uint32_t i = 0; i < x.rank; i++)
        count *= x.dims[i];
    if (count == 0)
        return INLAY_OK;
    simplify(&x);
    if (x.rank > VR_RANK)
        return inlay_fail(b->diag, INLAY_UNSUPPORTED, "a move in %u dimensions; at most %d", x.rank, VR_RANK);
    d = vr_emit(b, SHADER_move, 48, false);
    if (d == NULL)
        return INLAY_OUT_OF_MEMORY;
    d->constants[ID_RANK] = x.rank;
    d->constants[ID_OWN] = size;
    d->constants[ID_OWN + 1] = x.pad;
    d->ns = (double)count * size * 2 / b->c->state->bytes_per_ns;
    w = vr_words(b, d);
    w[0] = (uint32_t)count;
    w[1] = (uint32_t)x.from_base;
    w[2] = (uint32_t)x.to_base;
    for (uint32_t i = 0; i < x.rank; i++) {
        w[8 + i] = (uint32_t)x.dims[i];
        w[16 + i] = (uint32_t)x.from[i];
        w[24 + i] = (uint32_t)x.to[i];
        w[32 + i] = (uint32_t)x.begin[i];
        w[40 + i] = (uint32_t)x.extent[i];
    }
    vr_operand_at(b, d, PUSH_OUT, to, to_bytes, true);
    vr_operand_at(b, d, PUSH_INPUT, from, from_bytes, false);
    if (x.pad == PAD_CONSTANT)
        vr_value_at(b, d, PUSH_INPUT + 1, x.fill, false);
    return vr_grid(b, d, (uint64_t)count);
}

inlay_status vr_move_value(vr_build *b, vr_box *box, uint32_t from, uint32_t to)
{
    const vr_tensor *f = &b->tensors[from], *t = &b->tensors[to];
    const uint32_t size = vr_size_of(t->dtype);
    inlay_status status = vr_make(b, to);

    if (status != INLAY_OK)
        return status;
    return vr_move(b, box, b->places[from], (uint64_t)f->count * size, b->places[to], (uint64_t)t->count * size, size);
}
