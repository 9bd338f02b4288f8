/* Gather, Scatter, and what is made of positions. */
#include "region.h"

/* ------------------------------------------------------------------ Gather and Scatter */

/* Elements of data that indexes choose go to op's result, or the other way round; words as in shaders/index.comp. */
static inlay_status emit_index(vr_build *b, const vr_op *op, uint32_t mode, uint32_t data, uint32_t rank,
                               const int64_t words[7], const int64_t *dims, const int64_t *strides)
{
    const uint32_t indexes = op->info.inputs[1];
    vr_dispatch *d = vr_emit(b, SHADER_index, 32);

    d->constants[ID_RANK] = rank;
    VR_OWN(d, vr_size_of(b->tensors[data].dtype), mode, vr_size_of(b->tensors[indexes].dtype));
    vr_touch_value(b, d, PUSH_OUT, op->info.outputs[0], true);
    vr_touch_value(b, d, PUSH_INPUT, data, false);
    vr_touch_value(b, d, PUSH_INPUT + 1, indexes, false);
    vr_put(b, d, 0, 7, words);
    vr_put(b, d, 8, rank, dims);
    vr_put(b, d, 16, rank, strides);
    vr_expect_bytes(b, d, (double)words[0], 8);
    return vr_grid(b, d, words[0]);
}

static inlay_status lower_gather(vr_build *b, const vr_op *op)
{
    const vr_tensor *x = vr_in(b, op, 0);
    uint32_t axis;

    vr_make(b, op->info.outputs[0]);
    if (!vr_axis_of(b, op, "axis", 0, x->rank, &axis))
        return b->status;
    if (x->count == 0)
        return vr_decline(b, op, "it gathers from nothing");
    return emit_index(b, op, INDEX_GATHER, op->info.inputs[0], 0,
                      (int64_t[7]){ vr_out(b, op, 0)->count, vr_extent(x, axis + 1, x->rank), vr_in(b, op, 1)->count,
                                    x->dims[axis] },
                      NULL, NULL);
}

static inlay_status emit_elements(vr_build *b, const vr_op *op, uint32_t mode, uint32_t data)
{
    const vr_tensor *x = vr_in(b, op, 0), *k = vr_in(b, op, 1);
    int64_t strides[VR_RANK];
    uint32_t axis;

    if (!vr_axis_of(b, op, "axis", 0, x->rank, &axis) || k->count == 0)
        return b->status;
    vr_row_major(x->dims, x->rank, strides);
    return emit_index(b, op, mode, data, x->rank, (int64_t[7]){ k->count, 1, 0, x->dims[axis], axis }, k->dims,
                      strides);
}

static inlay_status lower_gather_elements(vr_build *b, const vr_op *op)
{
    vr_make(b, op->info.outputs[0]);
    return emit_elements(b, op, INDEX_GATHER_ELEMENTS, op->info.inputs[0]);
}

/* Tuples of coordinates: the last dimension of the indexes. */
static inlay_status emit_tuples(vr_build *b, const vr_op *op, uint32_t mode, uint32_t data, uint32_t batches)
{
    const vr_tensor *x = vr_in(b, op, 0), *k = vr_in(b, op, 1);
    const int64_t length = k->rank > 0 ? k->dims[k->rank - 1] : 0;
    int64_t strides[VR_RANK], inner, batch;

    if (length + batches > x->rank || length == 0)
        return vr_decline(b, op, "tuples of %lld indexes into rank %u", (long long)length, x->rank);
    if (k->count == 0)
        return b->status;
    inner = vr_extent(x, batches + (uint32_t)length, x->rank);
    batch = vr_extent(x, 0, batches);
    vr_row_major(x->dims, x->rank, strides);
    return emit_index(b, op, mode, data, (uint32_t)length,
                      (int64_t[7]){ k->count / length * inner, inner, length, 0, 0, k->count / length / batch,
                                    x->count / batch },
                      x->dims + batches, strides + batches);
}

static inlay_status lower_gather_nd(vr_build *b, const vr_op *op)
{
    vr_make(b, op->info.outputs[0]);
    return emit_tuples(b, op, INDEX_GATHER_ND, op->info.inputs[0],
                       (uint32_t)kit_attr_int(&op->info, "batch_dims", 0));
}

/* number: INDEX_SCATTER_ELEMENTS or INDEX_SCATTER_ND. The data is copied, then updates go where the indexes say. */
static inlay_status lower_scatter(vr_build *b, const vr_op *op)
{
    (void)vr_copy_flat(b, op->info.inputs[0], op->info.outputs[0]);
    return op->row->number == INDEX_SCATTER_ND
               ? emit_tuples(b, op, INDEX_SCATTER_ND, op->info.inputs[2], 0)
               : emit_elements(b, op, INDEX_SCATTER_ELEMENTS, op->info.inputs[2]);
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
    const vr_arithmetic in = vr_arithmetic_of(y->dtype);
    vr_dispatch *d = vr_emit(b, in == VR_INTEGER ? SHADER_make_int : SHADER_make, 8);
    vr_program p;

    vr_program_start(b, &p, to, in);
    VR_OWN(d, m->kind, m->flags);
    vr_expect_bytes(b, d, (double)y->count, 8);
    VR_PUT(b, d, 0, m->items, m->rows, m->columns, m->diagonal, m->inner);
    vr_read(b, d, 0, m->first);
    vr_read(b, d, 1, m->second);
    return vr_finish_each(b, d, &p, m->items);
}

void vr_emit_causal(vr_build *b, uint32_t to)
{
    const vr_tensor *t = &b->tensors[to];

    (void)emit_make(b, to,
                    &(made){ MAKE_CAUSAL, 0, INLAY_NONE, INLAY_NONE, t->count, t->dims[0], t->dims[1], 0, 1 });
}

/* Matrices, the last two dimensions: EyeLike, Trilu. */
static inlay_status make_matrix(vr_build *b, const vr_op *op, made *m)
{
    const vr_tensor *y = vr_out(b, op, 0);
    int64_t k = kit_attr_int(&op->info, "k", 0);

    if (m->kind == MAKE_TRILU && vr_in(b, op, 1) != NULL && vr_ints(b, op, 1, &k, 1) != 1)
        return vr_decline(b, op, "the diagonal is not known before the run");
    m->flags = kit_attr_int(&op->info, "upper", 1) != 0;
    m->rows = y->dims[y->rank - 2];
    m->columns = y->dims[y->rank - 1];
    m->diagonal = k < INT32_MIN ? INT32_MIN / 2 : k > INT32_MAX ? INT32_MAX / 2 : k;
    return emit_make(b, op->info.outputs[0], m);
}

/* Lines along an axis: OneHot, CumSum. */
static inlay_status make_lines(vr_build *b, const vr_op *op, made *m)
{
    const vr_tensor *y = vr_out(b, op, 0);
    const bool sums = m->kind == MAKE_CUM_SUM;
    int64_t named = kit_attr_int(&op->info, "axis", -1);
    uint32_t axis;

    if ((sums && vr_ints(b, op, 1, &named, 1) != 1) || !vr_axis(named, y->rank, &axis))
        return vr_decline(b, op, "the axis is not known before the run, or none of the result");
    m->flags = (kit_attr_int(&op->info, "exclusive", 0) != 0) | (kit_attr_int(&op->info, "reverse", 0) != 0) << 1;
    m->columns = y->dims[axis];
    m->inner = vr_extent(y, axis + 1, y->rank);
    m->items = sums ? y->count / m->columns : y->count;
    return emit_make(b, op->info.outputs[0], m);
}

/* number: MAKE_. What the device reads, and the rest by the shape of the result. */
static inlay_status lower_made(vr_build *b, const vr_op *op)
{
    const uint32_t kind = op->row->number;
    const bool two = kind == MAKE_RANGE || kind == MAKE_ONE_HOT;
    made m = { .kind = kind,
               .first = kind == MAKE_EYE ? INLAY_NONE : op->info.inputs[0],
               .second = two ? op->info.inputs[2] : INLAY_NONE,
               .items = vr_out(b, op, 0)->count,
               .rows = 1,
               .columns = 1,
               .inner = 1 };

    return kind == MAKE_RANGE                       ? emit_make(b, op->info.outputs[0], &m)
           : kind == MAKE_EYE || kind == MAKE_TRILU ? make_matrix(b, op, &m)
                                                    : make_lines(b, op, &m);
}

static bool made_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    const inlay_dtype to = kit_output_dtype(node, 0);

    if (to >= 32 || (row->types & INLAY_DTYPE_BIT(to)) == 0)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "a result of %s", inlay_dtype_name(to));
    if ((row->number == MAKE_TRILU || row->number == MAKE_CUM_SUM) && !vr_is_known(node, 1, why))
        return false;
    if (row->number == MAKE_ONE_HOT)
        return vr_has_types(node, 0, VR_INTS | KIT_BIT(FLOAT), why);
    return row->number != MAKE_TRILU || kit_input(node, 0)->rank >= 2 ||
           kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "no matrix");
}

/* Elements that are all the same, from an attribute. */
static inlay_status lower_constant(vr_build *b, const vr_op *op)
{
    const inlay_attr_info *value = kit_attr(&op->info, "value");
    const inlay_dtype dtype = vr_out(b, op, 0)->dtype;
    uint64_t bits = 0;
    double number;
    float f;
    vr_program p;

    if (value != NULL && value->tensor != NULL && value->tensor->bytes <= sizeof bits)
        memcpy(&bits, value->tensor->data, value->tensor->bytes);
    memcpy(&f, &bits, sizeof f);
    number = dtype == INLAY_FLOAT   ? (double)f
             : dtype == INLAY_INT32 ? (double)(int32_t)bits
             : dtype == INLAY_INT16 ? (double)(int16_t)bits
             : dtype == INLAY_INT8  ? (double)(int8_t)bits
                                    : (double)(int64_t)bits;
    vr_program_start(b, &p, op->info.outputs[0], vr_arithmetic_of(dtype));
    (void)vr_slot(&p, OP_MOVE, vr_number(&p, number), 0, 0);
    vr_grow(b, op, &p);
    return vr_emit_elements(b, &p);
}

static bool constant_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    const inlay_dtype to = kit_output_dtype(node, 0);

    (void)row;
    if (to < 32 && ((VR_INTS | VR_BOOL | KIT_BIT(FLOAT)) & INLAY_DTYPE_BIT(to)) != 0)
        return true;
    return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "a result of %s", inlay_dtype_name(to));
}

const vr_family vr_constant_of_shape = { .supports = constant_supports, .lower = lower_constant };
const vr_family vr_gather = { .supports = index_supports, .lower = lower_gather, .own_types = true };
const vr_family vr_gather_elements = { .supports = index_supports, .lower = lower_gather_elements, .own_types = true };
const vr_family vr_gather_nd = { .supports = index_supports, .lower = lower_gather_nd, .own_types = true };
const vr_family vr_scatter = { .supports = index_supports, .lower = lower_scatter, .own_types = true };
const vr_family vr_made = { .supports = made_supports, .lower = lower_made, .own_types = true };
