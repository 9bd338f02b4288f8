/* Gather, Scatter, and what is made of positions. */
#include "region.h"

/* ------------------------------------------------------------------ Gather and Scatter */

static vr_dispatch *emit_index(vr_build *b, const vr_op *op, uint32_t mode, uint32_t data, uint32_t indexes)
{
    vr_dispatch *d = vr_emit(b, SHADER_index, 32, false);

    if (d == NULL)
        return NULL;
    d->constants[ID_OWN] = vr_size_of(b->tensors[data].dtype);
    d->constants[ID_OWN + 1] = mode;
    d->constants[ID_OWN + 2] = vr_element(b->tensors[indexes].dtype);
    vr_value_at(b, d, PUSH_OUT, op->info.outputs[0], true);
    vr_value_at(b, d, PUSH_INPUT, data, false);
    vr_value_at(b, d, PUSH_INPUT + 1, indexes, false);
    return d;
}

static inlay_status grid_for(vr_build *b, vr_dispatch *d, int64_t count)
{
    vr_words(b, d)[0] = (uint32_t)count;
    d->ns = (double)count * 8 / b->c->state->bytes_per_ns;
    return vr_grid(b, d, (uint64_t)count);
}

static inlay_status lower_gather(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0), *k = vr_in(b, op, 1), *y = vr_out(b, op, 0);
    int64_t inner = 1;
    uint32_t axis, *w;
    vr_dispatch *d;
    inlay_status status = vr_make(b, op->info.outputs[0]);

    if (status != INLAY_OK)
        return status;
    if (!vr_axis(kit_attr_int(&op->info, "axis", 0), x->rank, &axis) || x->count == 0)
        return vr_decline(b, op, "the axis is none of the input");
    for (uint32_t i = axis + 1; i < x->rank; i++)
        inner *= x->dims[i];
    d = emit_index(b, op, INDEX_GATHER, op->info.inputs[0], op->info.inputs[1]);
    if (d == NULL)
        return INLAY_OUT_OF_MEMORY;
    w = vr_words(b, d);
    w[1] = (uint32_t)inner;
    w[2] = (uint32_t)k->count;
    w[3] = (uint32_t)x->dims[axis];
    return grid_for(b, d, y->count);
}

/* number: INDEX_GATHER_ELEMENTS or INDEX_SCATTER_ELEMENTS. */
static inlay_status emit_elements(vr_build *b, const vr_op *op, uint32_t mode, uint32_t data, const vr_tensor *box)
{
    const vr_tensor *x = vr_in(b, op, 0), *k = vr_in(b, op, 1);
    int64_t strides[VR_RANK];
    uint32_t axis, *w;
    vr_dispatch *d;

    if (!vr_axis(kit_attr_int(&op->info, "axis", 0), x->rank, &axis))
        return vr_decline(b, op, "the axis is none of the input");
    if (k->count == 0)
        return INLAY_OK;
    d = emit_index(b, op, mode, data, op->info.inputs[1]);
    if (d == NULL)
        return INLAY_OUT_OF_MEMORY;
    vr_row_major(x->dims, x->rank, strides);
    d->constants[ID_RANK] = x->rank;
    w = vr_words(b, d);
    w[1] = 1;
    w[3] = (uint32_t)x->dims[axis];
    w[4] = axis;
    for (uint32_t i = 0; i < x->rank; i++) {
        w[8 + i] = (uint32_t)box->dims[i];
        w[16 + i] = (uint32_t)strides[i];
    }
    return grid_for(b, d, k->count);
}

static inlay_status lower_gather_elements(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    inlay_status status = vr_make(b, op->info.outputs[0]);

    return status == INLAY_OK ? emit_elements(b, op, INDEX_GATHER_ELEMENTS, op->info.inputs[0], vr_in(b, op, 1))
                              : status;
}

/* Tuples of coordinates: the last dimension of the indexes. */
static inlay_status emit_tuples(vr_build *b, const vr_op *op, uint32_t mode, uint32_t data, uint32_t batches)
{
    const vr_tensor *x = vr_in(b, op, 0), *k = vr_in(b, op, 1);
    const int64_t length = k->dims[k->rank - 1];
    int64_t strides[VR_RANK], inner = 1, batch = 1;
    vr_dispatch *d;
    uint32_t *w;

    if (k->rank == 0 || length + batches > x->rank || length == 0)
        return vr_decline(b, op, "tuples of %lld indexes into rank %u", (long long)length, x->rank);
    if (k->count == 0)
        return INLAY_OK;
    for (uint32_t i = batches + (uint32_t)length; i < x->rank; i++)
        inner *= x->dims[i];
    for (uint32_t i = 0; i < batches; i++)
        batch *= x->dims[i];
    d = emit_index(b, op, mode, data, op->info.inputs[1]);
    if (d == NULL)
        return INLAY_OUT_OF_MEMORY;
    vr_row_major(x->dims, x->rank, strides);
    w = vr_words(b, d);
    w[1] = (uint32_t)inner;
    w[2] = (uint32_t)length;
    w[5] = (uint32_t)(k->count / length / batch);
    w[6] = (uint32_t)(x->count / batch);
    for (int64_t i = 0; i < length; i++) {
        w[8 + i] = (uint32_t)x->dims[batches + i];
        w[16 + i] = (uint32_t)strides[batches + i];
    }
    return grid_for(b, d, k->count / length * inner);
}

static inlay_status lower_gather_nd(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    inlay_status status = vr_make(b, op->info.outputs[0]);

    return status == INLAY_OK ? emit_tuples(b, op, INDEX_GATHER_ND, op->info.inputs[0],
                                            (uint32_t)kit_attr_int(&op->info, "batch_dims", 0))
                              : status;
}

/* number: INDEX_SCATTER_ELEMENTS or INDEX_SCATTER_ND. The data is copied, then updates go where the indexes say. */
static inlay_status lower_scatter(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0);
    vr_box box = { .rank = 1, .dims = { x->count }, .from = { 1 }, .to = { 1 }, .pad = PAD_NONE };
    inlay_status status = vr_move_value(b, &box, op->info.inputs[0], op->info.outputs[0]);

    if (status != INLAY_OK)
        return status;
    return op->row->number == INDEX_SCATTER_ND
               ? emit_tuples(b, op, INDEX_SCATTER_ND, op->info.inputs[2], 0)
               : emit_elements(b, op, INDEX_SCATTER_ELEMENTS, op->info.inputs[2], vr_in(b, op, 1));
}

static bool index_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    const char *reduction = kit_attr_string(node->info, "reduction", "none");

    if (strcmp(reduction, "none") != 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "reduction %s depends on the order of updates", reduction);
    if (kit_input(node, 0)->rank == 0)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "a scalar has no axes");
    return vr_has_types(node, 0, row->types, why) && vr_has_types(node, 1, KIT_BIT(INT32) | KIT_BIT(INT64), why);
}

/* ------------------------------------------------------------------ made of positions */

typedef struct made {
    uint32_t kind, flags;
    uint32_t first, second; /* values, INLAY_NONE */
    int64_t items, rows, columns, diagonal, inner;
} made;

static inlay_status emit_make(vr_build *b, uint32_t to, const made *m)
{
    const vr_tensor *y = &b->tensors[to];
    const bool integers = y->dtype != INLAY_FLOAT && y->dtype != INLAY_FLOAT16 && y->dtype != INLAY_BFLOAT16;
    vr_program p;
    vr_dispatch *d;
    uint32_t *w;

    vr_program_start(b, &p, to, integers ? VR_INTEGER : VR_SINGLE);
    d = vr_emit(b, integers ? SHADER_make_int : SHADER_make, 8, true);
    if (d == NULL)
        return INLAY_OUT_OF_MEMORY;
    d->constants[ID_OWN] = m->kind;
    d->constants[ID_OWN + 2] = m->flags;
    d->ns = (double)y->count * 8 / b->c->state->bytes_per_ns;
    w = vr_words(b, d);
    w[0] = (uint32_t)m->items;
    w[1] = (uint32_t)(m->rows > 0 ? m->rows : 1);
    w[2] = (uint32_t)(m->columns > 0 ? m->columns : 1);
    w[3] = (uint32_t)m->diagonal;
    w[4] = (uint32_t)(m->inner > 0 ? m->inner : 1);
    if (m->first != INLAY_NONE) {
        d->constants[ID_LOAD] = vr_element(b->tensors[m->first].dtype);
        vr_value_at(b, d, PUSH_OWN, m->first, false);
    }
    if (m->second != INLAY_NONE) {
        d->constants[ID_LOAD + 1] = vr_element(b->tensors[m->second].dtype);
        vr_value_at(b, d, PUSH_OWN + 1, m->second, false);
    }
    return vr_finish_each(b, d, &p, m->items);
}

inlay_status vr_emit_causal(vr_build *b, uint32_t to)
{
    const vr_tensor *t = &b->tensors[to];
    const made m = { .kind = MAKE_CAUSAL,
                     .first = INLAY_NONE,
                     .second = INLAY_NONE,
                     .items = t->count,
                     .rows = t->dims[0],
                     .columns = t->dims[1] };

    return emit_make(b, to, &m);
}

static inlay_status lower_range(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const made m = {
        .kind = MAKE_RANGE, .first = op->info.inputs[0], .second = op->info.inputs[2], .items = vr_out(b, op, 0)->count
    };

    return emit_make(b, op->info.outputs[0], &m);
}

static inlay_status lower_eye(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *y = vr_out(b, op, 0);
    const made m = { .kind = MAKE_EYE,
                     .first = INLAY_NONE,
                     .second = INLAY_NONE,
                     .items = y->count,
                     .rows = y->dims[0],
                     .columns = y->dims[1],
                     .diagonal = kit_attr_int(&op->info, "k", 0) };

    return emit_make(b, op->info.outputs[0], &m);
}

static inlay_status lower_trilu(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *y = vr_out(b, op, 0);
    int64_t k = 0;
    made m = { .kind = MAKE_TRILU,
               .flags = kit_attr_int(&op->info, "upper", 1) != 0,
               .first = op->info.inputs[0],
               .second = INLAY_NONE,
               .items = y->count,
               .rows = y->dims[y->rank - 2],
               .columns = y->dims[y->rank - 1] };

    if (vr_in(b, op, 1) != NULL && vr_ints(b, op, 1, &k, 1) != 1)
        return vr_decline(b, op, "the diagonal is not known before the run");
    m.diagonal = k < INT32_MIN ? INT32_MIN / 2 : k > INT32_MAX ? INT32_MAX / 2 : k;
    return emit_make(b, op->info.outputs[0], &m);
}

static inlay_status lower_one_hot(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *y = vr_out(b, op, 0);
    uint32_t axis;
    made m = {
        .kind = MAKE_ONE_HOT, .first = op->info.inputs[0], .second = op->info.inputs[2], .items = y->count, .inner = 1
    };

    if (!vr_axis(kit_attr_int(&op->info, "axis", -1), y->rank, &axis))
        return vr_decline(b, op, "the axis is none of the result");
    m.columns = y->dims[axis];
    for (uint32_t d = axis + 1; d < y->rank; d++)
        m.inner *= y->dims[d];
    return emit_make(b, op->info.outputs[0], &m);
}

static inlay_status lower_cum_sum(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *y = vr_out(b, op, 0);
    int64_t list;
    uint32_t axis;
    made m = { .kind = MAKE_CUM_SUM,
               .first = op->info.inputs[0],
               .second = INLAY_NONE,
               .inner = 1,
               .flags = (kit_attr_int(&op->info, "exclusive", 0) != 0) | (kit_attr_int(&op->info, "reverse", 0) != 0)
                                                                             << 1 };

    if (vr_ints(b, op, 1, &list, 1) != 1 || !vr_axis(list, y->rank, &axis))
        return vr_decline(b, op, "the axis is not known before the run, or none of the input");
    m.columns = y->dims[axis];
    m.items = y->count / m.columns;
    for (uint32_t d = axis + 1; d < y->rank; d++)
        m.inner *= y->dims[d];
    return emit_make(b, op->info.outputs[0], &m);
}

static bool made_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    const inlay_dtype to = kit_output_dtype(node, 0);

    if (to >= 32 || (row->types & INLAY_DTYPE_BIT(to)) == 0)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "a result of %s", inlay_dtype_name(to));
    if ((row->family == &vr_trilu || row->family == &vr_cum_sum) && !vr_is_known(node, 1, why))
        return false;
    if (row->family == &vr_one_hot)
        return vr_has_types(node, 0, VR_INTS | KIT_BIT(FLOAT), why);
    return row->family != &vr_trilu || kit_input(node, 0)->rank >= 2 ||
           kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "no matrix");
}

/* Elements that are all the same, from an attribute. */
static inlay_status lower_constant(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const inlay_attr_info *value = kit_attr(&op->info, "value");
    const vr_tensor *y = vr_out(b, op, 0);
    const bool integers = y->dtype != INLAY_FLOAT && y->dtype != INLAY_FLOAT16 && y->dtype != INLAY_BFLOAT16;
    uint64_t bits = 0;
    double number = 0;
    float f;
    vr_program p;
    inlay_status status;

    if (value != NULL && value->tensor != NULL && value->tensor->bytes <= sizeof bits)
        memcpy(&bits, value->tensor->data, value->tensor->bytes);
    memcpy(&f, &bits, sizeof f);
    number = y->dtype == INLAY_FLOAT   ? (double)f
             : y->dtype == INLAY_INT32 ? (double)(int32_t)bits
             : y->dtype == INLAY_INT16 ? (double)(int16_t)bits
             : y->dtype == INLAY_INT8  ? (double)(int8_t)bits
                                       : (double)(int64_t)bits;
    vr_program_start(b, &p, op->info.outputs[0], integers ? VR_INTEGER : VR_SINGLE);
    (void)vr_slot(&p, OP_MOVE, vr_number(&p, number), 0, 0);
    status = vr_grow(b, o, &p);
    return status == INLAY_OK ? vr_emit_elements(b, &p) : status;
}

static bool constant_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    const inlay_dtype to = kit_output_dtype(node, 0);

    (void)row;
    if (to == INLAY_FLOAT || to == INLAY_BOOL || (to < 32 && (VR_INTS & INLAY_DTYPE_BIT(to)) != 0))
        return true;
    return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "a result of %s", inlay_dtype_name(to));
}

const vr_family vr_constant_of_shape = { constant_supports, lower_constant, NULL };
const vr_family vr_gather = { index_supports, lower_gather, NULL };
const vr_family vr_gather_elements = { index_supports, lower_gather_elements, NULL };
const vr_family vr_gather_nd = { index_supports, lower_gather_nd, NULL };
const vr_family vr_scatter = { index_supports, lower_scatter, NULL };
const vr_family vr_range = { made_supports, lower_range, NULL };
const vr_family vr_eye = { made_supports, lower_eye, NULL };
const vr_family vr_trilu = { made_supports, lower_trilu, NULL };
const vr_family vr_one_hot = { made_supports, lower_one_hot, NULL };
const vr_family vr_cum_sum = { made_supports, lower_cum_sum, NULL };
