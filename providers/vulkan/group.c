/* Which ops become a part of the dispatch before them: elementwise ones, and a Transpose of the result. */
#include "region.h"

enum { MOST_MEMBERS = VR_MOST_MADE - 1, LOOK_AHEAD = 64 };

static void keep_in_register(vr_program *p, uint32_t value, uint32_t reg)
{
    p->made[p->made_count] = value;
    p->made_in[p->made_count++] = reg;
}

/* In registers a value is exact only in the type that the program computes with. */
static bool stays_exact(const vr_program *p, inlay_dtype dtype)
{
    static const inlay_dtype exact[] = {
        [VR_SINGLE] = INLAY_FLOAT, [VR_INTEGER] = INLAY_INT64, [VR_DOUBLE] = INLAY_DOUBLE
    };

    return dtype == INLAY_BOOL || dtype == exact[p->in];
}

/* Does op read something that the program has made, and is all else there? */
static bool can_join(const vr_build *b, const vr_program *p, const vr_op *op)
{
    const vr_tensor *y = vr_out(b, op, 0);
    bool reads = false;
    uint32_t reg;

    if (op->row->family->slots == NULL || !vr_computes_in(b, op, p->in) || y == NULL || y->rank != p->rank ||
        memcmp(y->dims, p->dims, y->rank * sizeof y->dims[0]) != 0)
        return false;
    for (uint32_t i = 0; i < op->info.input_count; i++) {
        const uint32_t v = op->info.inputs[i];

        if (v == INLAY_NONE || vr_is_hosts(op->row, i))
            continue;
        if (vr_in_register(p, v, &reg)) {
            reads = true;
            if (!stays_exact(p, b->tensors[v].dtype))
                return false;
        } else if (b->tensors[v].place.buffer == INLAY_NONE) {
            return false;
        }
    }
    return reads;
}

/* May the program end here: is everything but the last value read by its members alone? */
static bool is_closed(const vr_build *b, const vr_program *p, const uint32_t *members, uint32_t member_count)
{
    for (uint32_t v = 0; v + 1 < p->made_count; v++) {
        uint32_t reads = 0;

        for (uint32_t m = 0; m < member_count; m++)
            for (uint32_t i = 0; i < b->c->ops[members[m]].info.input_count; i++)
                reads += b->c->ops[members[m]].info.inputs[i] == p->made[v];
        if (reads != b->c->values[p->made[v]].uses)
            return false;
    }
    return true;
}

void vr_grow(vr_build *b, const vr_op *op, vr_program *p)
{
    const uint32_t first = vr_number_of(b, op) + 1;
    uint32_t members[MOST_MEMBERS], member_count = 0, best = 0;
    vr_program now = *p;

    if (p->full) {
        (void)vr_decline(b, op, "it has more operands, or of other sizes, than a program holds");
        return;
    }
    keep_in_register(&now, p->result, p->slot_count > 0 ? REG_SLOT + p->slot_count - 1 : REG_ACC);
    for (uint32_t o = first; o < b->c->op_count && o < first + LOOK_AHEAD && member_count < MOST_MEMBERS; o++) {
        const vr_op *next = &b->c->ops[o];
        const vr_program before = now;
        uint32_t reg;

        if (b->done[o] || !can_join(b, &now, next))
            continue;
        reg = next->row->family->slots(b, &now, next);
        if (now.full || reg != REG_SLOT + now.slot_count - 1) {
            now = before;
            continue;
        }
        members[member_count++] = o;
        keep_in_register(&now, next->info.outputs[0], reg);
        if (is_closed(b, &now, members, member_count)) {
            best = member_count;
            *p = now;
            p->result = next->info.outputs[0];
        }
    }
    for (uint32_t m = 0; m < best; m++)
        b->done[members[m]] = true;
}

void vr_follow_transpose(vr_build *b, vr_program *p, int64_t *strides)
{
    const vr_program before = *p;
    uint32_t from[VR_RANK];
    const vr_op *op = vr_reader(b, p->result);
    int64_t turned[VR_RANK];

    vr_row_major(p->dims, p->rank, strides);
    if (op == NULL || op->row->family != &vr_transpose || !vr_permutation(op, p->rank, from) ||
        b->tensors[p->result].dtype != b->tensors[op->info.outputs[0]].dtype)
        return;
    p->result = op->info.outputs[0];
    b->done[vr_number_of(b, op)] = true;
    for (uint32_t d = 0; d < p->rank; d++) {
        p->columns = before.columns == from[d] ? d : p->columns;
        p->dims[d] = before.dims[from[d]];
        for (uint32_t k = 0; k < p->load_count; k++)
            p->loads[k].strides[d] = before.loads[k].strides[from[d]];
    }
    vr_row_major(p->dims, p->rank, turned);
    for (uint32_t d = 0; d < p->rank; d++)
        strides[from[d]] = turned[d];
}
