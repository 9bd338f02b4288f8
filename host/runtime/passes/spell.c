#include "passes/spell.h"
#include "base/check.h"
#include "base/element.h"
#include <string.h>

static uint32_t fail(struct spell *b, inlay_status status)
{
    if (b->status == INLAY_OK)
        b->status = status == INLAY_OK ? rw_no_memory(b->w) : status;
    return INLAY_NONE;
}

uint32_t spell_make(struct spell *b, const char *op_type, int64_t opset, inlay_dtype dtype, uint32_t outputs,
                    const uint32_t *inputs)
{
    uint32_t count = 0;
    graph_node *fresh;
    inlay_status status;

    if (b->status != INLAY_OK)
        return INLAY_NONE;
    while (inputs[count] != SPELL_END)
        count++;
    while (count > 0 && inputs[count - 1] == INLAY_NONE) /* omitted at the end */
        count--;
    fresh = rw_make(b->w, op_type, opset, b->n, inputs, count, outputs);
    if (fresh == NULL)
        return fail(b, INLAY_OK);
    if (dtype == INLAY_UNDEFINED && count > 0 && inputs[0] != INLAY_NONE)
        dtype = rw_info(b->w, inputs[0])->dtype;
    status = rw_insert(b->w, fresh, dtype);
    if (status != INLAY_OK)
        return fail(b, status);
    b->last = fresh;
    return fresh->info.outputs[0];
}

uint32_t spell_out(const struct spell *b, uint32_t i)
{
    return b->status != INLAY_OK ? INLAY_NONE : b->last->info.outputs[i];
}

/* ------------------------------------------------------------------ attributes */

void spell_int(struct spell *b, const char *name, int64_t value)
{
    if (b->status == INLAY_OK && graph_set_attr_int(b->w->g, b->last, name, value) != INLAY_OK)
        (void)fail(b, INLAY_OK);
}

void spell_ints(struct spell *b, const char *name, const int64_t *values, uint32_t count)
{
    if (b->status == INLAY_OK && graph_set_attr_ints(b->w->g, b->last, name, values, count) != INLAY_OK)
        (void)fail(b, INLAY_OK);
}

void spell_float(struct spell *b, const char *name, double value)
{
    if (b->status == INLAY_OK && graph_set_attr_float(b->w->g, b->last, name, value) != INLAY_OK)
        (void)fail(b, INLAY_OK);
}

void spell_string(struct spell *b, const char *name, const char *value)
{
    if (b->status == INLAY_OK && graph_set_attr_string(b->w->g, b->last, name, value) != INLAY_OK)
        (void)fail(b, INLAY_OK);
}

void spell_copy(struct spell *b, const char *const *names)
{
    for (; *names != NULL && b->status == INLAY_OK; names++) {
        const inlay_attr_info *a = NULL;

        for (uint32_t i = 0; i < b->n->own_attr_count; i++) { /* the rest are defaults */
            const inlay_attr_info *own = INLAY_AT(inlay_attr_info, b->n->info.attrs, b->n->info.attr_stride, i);

            if (strcmp(own->name.data, *names) == 0)
                a = own;
        }
        if (a != NULL && graph_set_attr(b->w->g, b->last, a) != INLAY_OK)
            (void)fail(b, INLAY_OK);
    }
}

/* ------------------------------------------------------------------ values */

inlay_dtype spell_dtype(const struct spell *b, uint32_t v)
{
    return v == INLAY_NONE ? INLAY_UNDEFINED : rw_info(b->w, v)->dtype;
}

uint32_t spell_rank(const struct spell *b, uint32_t v)
{
    return v == INLAY_NONE ? INLAY_RANK_UNKNOWN : rw_info(b->w, v)->rank;
}

uint32_t spell_number(struct spell *b, inlay_dtype dtype, double value)
{
    const float narrow = (float)value;
    const uint16_t half = element_half(narrow);
    uint32_t word, v;
    uint16_t brain;

    memcpy(&word, &narrow, sizeof word);
    brain = (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
    if (b->status != INLAY_OK)
        return INLAY_NONE;
    v = dtype == INLAY_DOUBLE     ? rw_constant(b->w, dtype, 0, NULL, &value, sizeof value)
        : dtype == INLAY_FLOAT16  ? rw_constant(b->w, dtype, 0, NULL, &half, sizeof half)
        : dtype == INLAY_BFLOAT16 ? rw_constant(b->w, dtype, 0, NULL, &brain, sizeof brain)
                                  : rw_constant(b->w, INLAY_FLOAT, 0, NULL, &narrow, sizeof narrow);
    return v == INLAY_NONE ? fail(b, INLAY_OK) : v;
}

uint32_t spell_integers(struct spell *b, const int64_t *values, uint32_t count)
{
    uint32_t v = b->status != INLAY_OK ? INLAY_NONE : rw_constant_ints(b->w, values, count);

    return v == INLAY_NONE ? fail(b, INLAY_OK) : v;
}

uint32_t spell_cast(struct spell *b, uint32_t v, inlay_dtype to)
{
    uint32_t made;

    if (v == INLAY_NONE || spell_dtype(b, v) == to)
        return v;
    made = spell_typed(b, "Cast", 13, to, v);
    spell_int(b, "to", to);
    return made;
}

uint32_t spell_transpose(struct spell *b, uint32_t v, const int64_t *perm, uint32_t rank)
{
    uint32_t made = spell_op(b, "Transpose", 13, v);

    spell_ints(b, "perm", perm, rank);
    return made;
}

uint32_t spell_axes(struct spell *b, uint32_t v, const char *equation)
{
    uint32_t made = spell_op(b, "Einsum", 12, v);

    spell_string(b, "equation", equation);
    return made;
}

uint32_t spell_ranked(struct spell *b, uint32_t v, uint32_t rank)
{
    int64_t kept[INLAY_MAX_RANK] = { 0 }; /* Reshape: the size as it is */
    inlay_dim *dims;
    uint32_t made;

    if (v == INLAY_NONE || spell_rank(b, v) != INLAY_RANK_UNKNOWN)
        return v;
    made = spell_op(b, "Reshape", 13, v, spell_integers(b, kept, rank));
    dims = arena_array(&b->w->g->model->arena, rank, sizeof *dims);
    if (dims == NULL)
        return fail(b, INLAY_OK);
    if (b->status != INLAY_OK)
        return INLAY_NONE;
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = (inlay_dim){ .kind = INLAY_DIM_UNKNOWN };
    b->w->g->values[made].info.rank = rank;
    b->w->g->values[made].info.dims = dims;
    return made;
}

bool spell_refuse(struct spell *b, const char *why)
{
    INLAY_CHECK(why == NULL || b->last == NULL);
    b->n->not_lowered = why;
    return why != NULL;
}

void spell_output(struct spell *b, uint32_t o, uint32_t v)
{
    const graph_node *n = b->n;

    if (b->status != INLAY_OK || o >= n->info.output_count || n->info.outputs[o] == INLAY_NONE)
        return;
    if (rw_maker(b->w, v) == NULL || rw_maker(b->w, v) == n) /* an input or a constant under a name of its own */
        v = spell_op(b, "Identity", 13, v);
    for (uint32_t i = 0; i < SPELL_OUTPUTS; i++)
        if (b->outputs[i] == v + 1)
            v = spell_op(b, "Identity", 13, v);
    b->outputs[o] = v + 1;
}

inlay_status spell_end(struct spell *b)
{
    return b->status != INLAY_OK ? b->status : rw_take_over(b->w, b->n, b->outputs, SPELL_OUTPUTS);
}
