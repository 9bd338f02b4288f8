/* States in place (inlay.states/1): a Concatenation of what the last run left with what is new. Both are one memory of
 * the host's with room for more, so that only the new part is written, behind the old. Of
 * GroupQueryAttention what is new is also written to where each sequence of the batch ends, which may be before that.
 */
#include "region/build.h"

enum { STATE_AXIS = 2 };

/* The op that writes rows into value v, which nobody else reads (scatter.c); NULL: there is none. */
static rg_op *find_scatter(const inlay_compiled *c, uint32_t v)
{
    for (uint32_t o = 0; c->values[v].uses == 1 && c->values[v].output == INLAY_NONE && o < c->op_count; o++)
        if (c->ops[o].row->family == &rg_scatter && c->ops[o].in[0] == v)
            return &c->ops[o];
    return NULL;
}

/* The op that leaves region output `output` as region input `input` with more behind it, by itself or with rows written
 * into what it made; NULL: there is none. */
static rg_op *find_append(const inlay_compiled *c, uint32_t input, uint32_t output)
{
    for (uint32_t o = 0; o < c->op_count; o++) {
        rg_op *op = &c->ops[o], *scatter;

        if (op->row->family == &rg_concat && op->in_count == 2 && op->size == 4 && op->axis == STATE_AXIS &&
            c->values[op->in[0]].input == input && c->values[op->in[0]].uses == 1 && op->in[0] != op->in[1] &&
            c->values[op->out[0]].type == DN_F32) {
            scatter = find_scatter(c, op->out[0]);
            if (c->values[(scatter != NULL ? scatter : op)->out[0]].output == output)
                return op;
        }
    }
    return NULL;
}

uint32_t rg_appends(void *state, inlay_compiled *c, uint32_t input, uint32_t output, uint32_t *out_axis)
{
    rg_op *op = find_append(c, input, output), *scatter;

    (void)state;
    if (op == NULL)
        return 0;
    op->appends = true;
    scatter = find_scatter(c, op->out[0]);
    if (scatter != NULL)
        scatter->appends = true;
    *out_axis = (uint32_t)op->axis;
    return 1;
}

/* Whatever reads a value takes it with gaps, or has a copy made. */
uint32_t rg_reads(void *state, inlay_compiled *c, uint32_t input, uint32_t axis)
{
    (void)state;
    for (uint32_t v = 0; v < c->value_count; v++)
        if (c->values[v].input == input && c->values[v].constant == INLAY_NONE)
            return axis == STATE_AXIS && c->values[v].type == DN_F32;
    return 0;
}

void rg_state_strides(const rg_build *b, uint32_t value, int64_t *strides)
{
    int64_t step = 1;

    for (uint32_t d = b->ranks[value]; d-- > 0;) {
        strides[d] = step;
        step *= d == STATE_AXIS ? (int64_t)b->rooms[value] : b->dims[value][d];
    }
}

void rg_read_rooms(rg_build *b, const uint64_t *rooms)
{
    const inlay_compiled *c = b->c;

    for (uint32_t v = 0; v < c->value_count; v++)
        if (rooms != NULL && c->values[v].input != INLAY_NONE && c->values[v].constant == INLAY_NONE)
            b->rooms[v] = rooms[c->values[v].input];
    for (uint32_t o = 0; rooms != NULL && o < c->op_count; o++)
        if (c->ops[o].appends && b->rooms[c->ops[o].in[0]] != 0)
            b->rooms[c->ops[o].out[0]] = b->rooms[c->ops[o].in[0]];
}

/* The part that is new goes to its place; what was there before stays where it is. */
inlay_status rg_lower_append(rg_build *b, const rg_group *group)
{
    const rg_op *op = b->op, *scatter = find_scatter(b->c, group->out);
    const uint32_t rank = b->ranks[group->out];
    const int64_t room = (int64_t)b->rooms[group->out], *dims = b->dims[group->out];
    int64_t strides[RG_MAX_RANK] = { 0 };
    rg_place whole, part, fresh;
    inlay_status status = INLAY_OK;
    rg_md md;

    if (room < dims[STATE_AXIS])
        return inlay_fail(b->diag, INLAY_INVALID_ARGUMENT, "node '%s': a state of %lld rows has room for %lld",
                          op->name, (long long)dims[STATE_AXIS], (long long)room);
    rg_state_strides(b, group->out, strides);
    rg_md_strides(&md, rank, dims, strides);
    INLAY_TRY(rg_output_place(b, scatter != NULL ? scatter->out[0] : group->out, &md, &whole));
    part = whole;
    rg_md_strides(&part.md, rank, b->dims[op->in[1]], strides);
    part.offset += (uint64_t)(b->dims[op->in[0]][STATE_AXIS] * strides[STATE_AXIS]) * sizeof(float);
    if (rg_count(b, op->in[1]) > 0) {
        INLAY_TRY(rg_read_strided(b, op->in[1], &fresh));
        INLAY_TRY(rg_emit_copy(b, &fresh, &part));
    }
    status = rg_set_place(b, group->out, &whole);
done:
    return status;
}
