/* Which elementwise ops become a part of the dispatch before them. */
#include "region.h"

enum { MOST_MEMBERS = 20, LOOK_AHEAD = 64 };

typedef struct group {
    vr_build *b;
    vr_program program;
    uint32_t members[MOST_MEMBERS], member_count;
    uint32_t values[MOST_MEMBERS + 1], registers[MOST_MEMBERS + 1], value_count; /* what it has made */
} group;

static bool made_here(const group *g, uint32_t value, uint32_t *out)
{
    for (uint32_t i = 0; i < g->value_count; i++)
        if (g->values[i] == value) {
            *out = g->registers[i];
            return true;
        }
    return false;
}

static uint32_t operand_of(void *user, uint32_t value)
{
    group *g = user;
    uint32_t reg;

    return made_here(g, value, &reg) ? reg : vr_load_value(g->b, &g->program, value);
}

/* In registers a value is exact only in the type that the program computes with. */
static bool stays_exact(const group *g, uint32_t value)
{
    const inlay_dtype dtype = g->b->tensors[value].dtype;

    return dtype == INLAY_BOOL || dtype == (g->program.in == VR_INTEGER  ? INLAY_INT64
                                            : g->program.in == VR_DOUBLE ? INLAY_DOUBLE
                                                                         : INLAY_FLOAT);
}

/* Does op read something that the group made, and is all else there? */
static bool can_join(const group *g, const vr_op *op)
{
    const vr_build *b = g->b;
    const vr_tensor *y = vr_out(b, op, 0);
    bool reads = false;
    uint32_t reg;

    if (op->row->family->slots == NULL || !vr_computes_in(b, op, g->program.in) || y == NULL)
        return false;
    if (y->rank != g->program.rank || memcmp(y->dims, g->program.dims, y->rank * sizeof y->dims[0]) != 0)
        return false;
    for (uint32_t i = 0; i < op->info.input_count; i++) {
        const uint32_t v = op->info.inputs[i];

        if (v == INLAY_NONE || (i < 32 && (op->row->host_inputs >> i & 1u) != 0))
            continue;
        if (made_here(g, v, &reg)) {
            reads = true;
            if (!stays_exact(g, v))
                return false;
        } else if (b->places[v].buffer == INLAY_NONE) {
            return false;
        }
    }
    return reads;
}

static uint32_t reads_of(const vr_op *op, uint32_t value)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < op->info.input_count; i++)
        n += op->info.inputs[i] == value;
    return n;
}

/* May the group end here: is everything but the last value read by its members alone? */
static bool is_closed(const group *g)
{
    for (uint32_t v = 0; v + 1 < g->value_count; v++) {
        uint32_t reads = 0;

        for (uint32_t m = 0; m < g->member_count; m++)
            reads += reads_of(&g->b->c->ops[g->members[m]], g->values[v]);
        if (reads != g->b->c->values[g->values[v]].uses)
            return false;
    }
    return true;
}

inlay_status vr_grow(vr_build *b, uint32_t op, vr_program *p)
{
    group g = { .b = b, .program = *p, .values = { p->result }, .value_count = 1 };
    uint32_t best = 0;

    if (p->full)
        return inlay_fail(b->diag, INLAY_UNSUPPORTED, "node '%s': what it does in a program does not fit",
                          b->c->ops[op].info.name.data);
    g.registers[0] = p->slot_count > 0 ? REG_SLOT + p->slot_count - 1 : REG_ACC;
    for (uint32_t o = op + 1; o < b->c->op_count && o < op + LOOK_AHEAD && g.member_count < MOST_MEMBERS; o++) {
        const vr_op *next = &b->c->ops[o];
        const vr_program before = g.program;
        uint32_t reg;

        if (b->done[o] || !can_join(&g, next))
            continue;
        reg = next->row->family->slots(b, &g.program, next, operand_of, &g);
        if (g.program.full || reg != REG_SLOT + g.program.slot_count - 1) {
            g.program = before;
            continue;
        }
        g.members[g.member_count++] = o;
        g.values[g.value_count] = next->info.outputs[0];
        g.registers[g.value_count++] = reg;
        if (is_closed(&g)) {
            best = g.member_count;
            *p = g.program;
            p->result = next->info.outputs[0];
        }
    }
    for (uint32_t m = 0; m < best; m++)
        b->done[g.members[m]] = true;
    return INLAY_OK;
}
