#include "passes/spell.h"
#include "inlay/check.h"
#include "base/element.h"
#include <string.h>

static uint32_t fail(struct spell *spell, inlay_status status)
{
    if (spell->status == INLAY_OK)
        spell->status = status == INLAY_OK ? rw_no_memory(spell->rewrite) : status;
    return INLAY_NONE;
}

uint32_t spell_make(struct spell *spell, const char *op_type, int64_t opset, inlay_dtype dtype, uint32_t outputs,
                    const uint32_t *inputs)
{
    uint32_t count = 0;
    graph_node *fresh;
    inlay_status status;

    if (spell->status != INLAY_OK)
        return INLAY_NONE;
    while (inputs[count] != SPELL_END)
        count++;
    while (count > 0 && inputs[count - 1] == INLAY_NONE) /* omitted at the end */
        count--;
    fresh = rw_make(spell->rewrite, op_type, opset, spell->node, inputs, count, outputs);
    if (fresh == NULL)
        return fail(spell, INLAY_OK);
    if (dtype == INLAY_UNDEFINED && count > 0 && inputs[0] != INLAY_NONE)
        dtype = rw_info(spell->rewrite, inputs[0])->dtype;
    status = rw_insert(spell->rewrite, fresh, dtype);
    if (status != INLAY_OK)
        return fail(spell, status);
    spell->last = fresh;
    return fresh->info.outputs[0];
}

uint32_t spell_out(const struct spell *spell, uint32_t i)
{
    return spell->status != INLAY_OK ? INLAY_NONE : spell->last->info.outputs[i];
}

/* ------------------------------------------------------------------ attributes */

void spell_int(struct spell *spell, const char *name, int64_t value)
{
    if (spell->status == INLAY_OK && graph_set_attr_int(spell->rewrite->graph, spell->last, name, value) != INLAY_OK)
        (void)fail(spell, INLAY_OK);
}

void spell_ints(struct spell *spell, const char *name, const int64_t *values, uint32_t count)
{
    if (spell->status == INLAY_OK &&
        graph_set_attr_ints(spell->rewrite->graph, spell->last, name, values, count) != INLAY_OK)
        (void)fail(spell, INLAY_OK);
}

void spell_float(struct spell *spell, const char *name, double value)
{
    if (spell->status == INLAY_OK && graph_set_attr_float(spell->rewrite->graph, spell->last, name, value) != INLAY_OK)
        (void)fail(spell, INLAY_OK);
}

void spell_string(struct spell *spell, const char *name, const char *value)
{
    if (spell->status == INLAY_OK && graph_set_attr_string(spell->rewrite->graph, spell->last, name, value) != INLAY_OK)
        (void)fail(spell, INLAY_OK);
}

void spell_copy(struct spell *spell, const char *const *names)
{
    for (; *names != NULL && spell->status == INLAY_OK; names++) {
        const inlay_attr_info *attribute = NULL;

        for (uint32_t i = 0; i < spell->node->own_attr_count; i++) { /* the rest are defaults */
            const inlay_attr_info *own =
                INLAY_AT(inlay_attr_info, spell->node->info.attrs, spell->node->info.attr_stride, i);

            if (strcmp(own->name.data, *names) == 0)
                attribute = own;
        }
        if (attribute != NULL && graph_set_attr(spell->rewrite->graph, spell->last, attribute) != INLAY_OK)
            (void)fail(spell, INLAY_OK);
    }
}

/* ------------------------------------------------------------------ values */

inlay_dtype spell_dtype(const struct spell *spell, uint32_t value)
{
    return value == INLAY_NONE ? INLAY_UNDEFINED : rw_info(spell->rewrite, value)->dtype;
}

uint32_t spell_rank(const struct spell *spell, uint32_t value)
{
    return value == INLAY_NONE ? INLAY_RANK_UNKNOWN : rw_info(spell->rewrite, value)->rank;
}

uint32_t spell_number(struct spell *spell, inlay_dtype dtype, double value)
{
    const float narrow = (float)value;
    const uint16_t half = element_half(narrow);
    uint32_t word, value_index;
    uint16_t brain;

    memcpy(&word, &narrow, sizeof word);
    brain = (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
    if (spell->status != INLAY_OK)
        return INLAY_NONE;
    value_index = dtype == INLAY_DOUBLE     ? rw_constant(spell->rewrite, dtype, 0, NULL, &value, sizeof value)
                  : dtype == INLAY_FLOAT16  ? rw_constant(spell->rewrite, dtype, 0, NULL, &half, sizeof half)
                  : dtype == INLAY_BFLOAT16 ? rw_constant(spell->rewrite, dtype, 0, NULL, &brain, sizeof brain)
                                            : rw_constant(spell->rewrite, INLAY_FLOAT, 0, NULL, &narrow, sizeof narrow);
    return value_index == INLAY_NONE ? fail(spell, INLAY_OK) : value_index;
}

uint32_t spell_integers(struct spell *spell, const int64_t *values, uint32_t count)
{
    uint32_t value = spell->status != INLAY_OK ? INLAY_NONE : rw_constant_ints(spell->rewrite, values, count);

    return value == INLAY_NONE ? fail(spell, INLAY_OK) : value;
}

uint32_t spell_cast(struct spell *spell, uint32_t value, inlay_dtype to)
{
    uint32_t made;

    if (value == INLAY_NONE || spell_dtype(spell, value) == to)
        return value;
    made = spell_typed(spell, "Cast", 13, to, value);
    spell_int(spell, "to", to);
    return made;
}

uint32_t spell_transpose(struct spell *spell, uint32_t value, const int64_t *perm, uint32_t rank)
{
    uint32_t made = spell_op(spell, "Transpose", 13, value);

    spell_ints(spell, "perm", perm, rank);
    return made;
}

uint32_t spell_axes(struct spell *spell, uint32_t value, const char *equation)
{
    uint32_t made = spell_op(spell, "Einsum", 12, value);

    spell_string(spell, "equation", equation);
    return made;
}

uint32_t spell_ranked(struct spell *spell, uint32_t value, uint32_t rank)
{
    int64_t kept[INLAY_MAX_RANK] = { 0 }; /* Reshape: the size as it is */
    inlay_dim *dims;
    uint32_t made;

    if (value == INLAY_NONE || spell_rank(spell, value) != INLAY_RANK_UNKNOWN)
        return value;
    made = spell_op(spell, "Reshape", 13, value, spell_integers(spell, kept, rank));
    dims = arena_array(&spell->rewrite->graph->model->arena, rank, sizeof *dims);
    if (dims == NULL)
        return fail(spell, INLAY_OK);
    if (spell->status != INLAY_OK)
        return INLAY_NONE;
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = (inlay_dim){ .kind = INLAY_DIM_UNKNOWN };
    spell->rewrite->graph->values[made].info.rank = rank;
    spell->rewrite->graph->values[made].info.dims = dims;
    return made;
}

bool spell_refuse(struct spell *spell, const char *why)
{
    INLAY_CHECK(why == NULL || spell->last == NULL);
    spell->node->not_lowered = why;
    return why != NULL;
}

void spell_output(struct spell *spell, uint32_t output, uint32_t value)
{
    const graph_node *node = spell->node;

    if (spell->status != INLAY_OK || output >= node->info.output_count || node->info.outputs[output] == INLAY_NONE)
        return;
    if (rw_maker(spell->rewrite, value) == NULL ||
        rw_maker(spell->rewrite, value) == node) /* an input or a constant under a name of its own */
        value = spell_op(spell, "Identity", 13, value);
    for (uint32_t i = 0; i < SPELL_OUTPUTS; i++)
        if (spell->outputs[i] == value + 1)
            value = spell_op(spell, "Identity", 13, value);
    spell->outputs[output] = value + 1;
}

inlay_status spell_end(struct spell *spell)
{
    return spell->status != INLAY_OK ? spell->status
                                     : rw_take_over(spell->rewrite, spell->node, spell->outputs, SPELL_OUTPUTS);
}
