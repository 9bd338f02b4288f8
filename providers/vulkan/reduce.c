/* What is summed up: reductions, pools, softmax and normalisations. */
#include "region.h"
#include "window.h"

/* Long sums of few results are shared by the invocations of a workgroup. */
static uint32_t lanes_for(const vr_build *b, int64_t length, int64_t results)
{
    return length >= 128 && (results < 4096 || b->g->facts.type != VK_PHYSICAL_DEVICE_TYPE_CPU) ? VR_LOCAL : 1;
}

static inlay_status set_grid(vr_build *b, vr_dispatch *d, uint32_t lanes, int64_t results)
{
    return lanes > 1 ? vr_grid_groups(b, d, (uint64_t)results) : vr_grid(b, d, (uint64_t)results);
}

static int64_t product_of(const vr_tensor *t, uint32_t from, uint32_t to)
{
    int64_t n = 1;

    for (uint32_t d = from; d < to; d++)
        n *= t->dims[d];
    return n;
}

/* ------------------------------------------------------------------ reductions */

/* Dimensions with their strides, where neighbours that lie behind each other are one; at most four. */
typedef struct walk {
    int64_t dims[4], strides[4], count;
    uint32_t rank;
} walk;

static bool add_dim(walk *w, int64_t dim, int64_t stride)
{
    w->count *= dim;
    if (dim == 1)
        return true;
    if (w->rank > 0 && w->strides[w->rank - 1] == stride * dim) {
        w->dims[w->rank - 1] *= dim;
        w->strides[w->rank - 1] = stride;
        return true;
    }
    if (w->rank == 4)
        return false;
    w->dims[w->rank] = dim;
    w->strides[w->rank++] = stride;
    return true;
}

static void put_walk(uint32_t *words, const walk *w)
{
    for (uint32_t i = 0; i < 4; i++) {
        const bool here = i >= 4 - w->rank;

        words[i] = here ? (uint32_t)w->dims[i + w->rank - 4] : 1;
        words[4 + i] = here ? (uint32_t)w->strides[i + w->rank - 4] : 0;
    }
}

static inlay_status emit_reduce(vr_build *b, uint32_t o, uint32_t kind, const bool *axes)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0), *y = vr_out(b, op, 0);
    const bool is_arg = kind == RED_ARG_MAX || kind == RED_ARG_MIN;
    const bool integers = x->dtype != INLAY_FLOAT && x->dtype != INLAY_FLOAT16 && x->dtype != INLAY_BFLOAT16;
    const gpu_shader shader = integers ? SHADER_reduce_int : SHADER_reduce;
    walk kept = { .count = 1 }, reduced = { .count = 1 };
    int64_t strides[VR_RANK];
    vr_program p;
    vr_dispatch *d;
    uint32_t lanes, *w;
    inlay_status status = INLAY_OK;

    vr_row_major(x->dims, x->rank, strides);
    for (uint32_t i = 0; i < x->rank; i++)
        if (!add_dim(axes[i] ? &reduced : &kept, x->dims[i], strides[i]))
            return vr_decline(b, op, "its axes alternate more often than the shader knows");
    vr_program_start(b, &p, op->info.outputs[0], integers ? VR_INTEGER : VR_SINGLE);
    /* Indexes are stored as they are: no program. */
    d = is_arg ? vr_emit(b, shader, 20, true) : vr_skeleton(b, o, &p, shader, 20, &status);
    if (d == NULL)
        return status != INLAY_OK ? status : INLAY_OUT_OF_MEMORY;
    lanes = lanes_for(b, reduced.count, y->count);
    d->constants[ID_OWN] = kind;
    d->constants[ID_LOAD] = vr_element(x->dtype);
    d->constants[ID_OWN + 2] = lanes;
    d->constants[ID_OWN + 3] = kit_attr_int(&op->info, "select_last_index", 0) != 0;
    d->ns = (double)x->count * 4 / b->c->state->bytes_per_ns;
    w = vr_words(b, d);
    w[0] = (uint32_t)y->count;
    w[1] = (uint32_t)reduced.count;
    put_walk(&w[2], &kept);
    put_walk(&w[10], &reduced);
    vr_value_at(b, d, PUSH_OWN, op->info.inputs[0], false);
    status = vr_finish(b, d, &p);
    return status == INLAY_OK ? set_grid(b, d, lanes, y->count) : status;
}

static inlay_status lower_reduce(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0);
    const bool is_arg = op->row->number == RED_ARG_MAX || op->row->number == RED_ARG_MIN;
    bool axes[VR_RANK] = { false };
    int64_t list[VR_RANK];
    uint32_t count = 0, axis;
    const int64_t *attr = kit_attr_ints(&op->info, "axes", &count);

    if (is_arg) {
        list[0] = kit_attr_int(&op->info, "axis", 0);
        count = 1;
    } else if (attr != NULL && count <= VR_RANK) {
        memcpy(list, attr, count * sizeof *list);
    } else if (vr_in(b, op, 1) != NULL) {
        const int64_t n = vr_ints(b, op, 1, list, VR_RANK);

        if (n < 0)
            return vr_decline(b, op, "its axes are not known before the run");
        count = (uint32_t)n;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!vr_axis(list[i], x->rank, &axis))
            return vr_decline(b, op, "axis %lld is none of the input", (long long)list[i]);
        axes[axis] = true;
    }
    for (uint32_t i = 0; count == 0 && i < x->rank; i++)
        axes[i] = kit_attr_int(&op->info, "noop_with_empty_axes", 0) == 0;
    return emit_reduce(b, o, op->row->number, axes);
}

static bool reduce_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    const inlay_dtype x = kit_input_dtype(node, 0);
    const bool integers = x != INLAY_FLOAT && x != INLAY_FLOAT16 && x != INLAY_BFLOAT16;

    if (row->host_inputs != 0 && !vr_is_known(node, 1, why))
        return false;
    if (integers && (row->number == RED_L2 || row->number == RED_LOG_SUM || row->number == RED_LOG_SUM_EXP))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "insert a Cast to float", "roots and logarithms of integers");
    return true;
}

static inlay_status lower_global_pool(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    bool axes[VR_RANK];

    for (uint32_t i = 0; i < VR_RANK; i++)
        axes[i] = i >= 2;
    return emit_reduce(b, o, op->row->number, axes);
}

/* ------------------------------------------------------------------ pools */

static inlay_status lower_pool(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0), *y = vr_out(b, op, 0);
    const bool integers = x->dtype == INLAY_INT8 || x->dtype == INLAY_UINT8;
    const float power = (float)kit_attr_int(&op->info, "p", 2);
    vr_window v;
    vr_program p;
    vr_dispatch *d;
    uint32_t *w;
    inlay_status status;

    if (!vr_window_read(&op->info, x, y, NULL, &v))
        return vr_decline(b, op, "its window does not fit the input");
    vr_program_start(b, &p, op->info.outputs[0], integers ? VR_INTEGER : VR_SINGLE);
    d = vr_skeleton(b, o, &p, integers ? SHADER_pool_int : SHADER_pool, 24, &status);
    if (d == NULL)
        return status;
    d->constants[ID_OWN] = op->row->number;
    d->constants[ID_LOAD] = vr_element(x->dtype);
    d->constants[ID_OWN + 2] = kit_attr_int(&op->info, "count_include_pad", 0) != 0;
    d->ns = (double)y->count * (double)(v.window[0] * v.window[1] * v.window[2]) * 4 / b->c->state->bytes_per_ns;
    w = vr_words(b, d);
    w[0] = (uint32_t)y->count;
    memcpy(&w[1], &power, sizeof power);
    vr_window_words(&v, &w[2]);
    for (uint32_t i = 0; i < 3; i++)
        w[20 + i] = (uint32_t)v.end[i];
    vr_value_at(b, d, PUSH_OWN, op->info.inputs[0], false);
    return vr_finish_each(b, d, &p, y->count);
}

/* x / (bias + alpha / size * squares of neighbouring channels)^beta: a pool over channels, and the rest behind it. */
static inlay_status lower_lrn(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0);
    const int64_t size = kit_attr_int(&op->info, "size", 1), pixels = product_of(x, 2, x->rank);
    vr_window v = { .out = { x->dims[1], pixels, 1 },
                    .in = { x->dims[1], pixels, 1 },
                    .window = { size, 1, 1 },
                    .stride = { 1, 1, 1 },
                    .dilation = { 1, 1, 1 },
                    .begin = { (size - 1) / 2, 0, 0 } };
    vr_program p;
    vr_dispatch *d;
    uint32_t *w, y;
    inlay_status status;

    vr_program_start(b, &p, op->info.outputs[0], VR_SINGLE);
    y = vr_slot(&p, OP_MUL, REG_ACC, vr_number(&p, kit_attr_float(&op->info, "alpha", 1e-4) / (double)size), 0);
    y = vr_slot(&p, OP_ADD, y, vr_number(&p, kit_attr_float(&op->info, "bias", 1)), 0);
    y = vr_slot(&p, OP_POW, y, vr_number(&p, kit_attr_float(&op->info, "beta", 0.75)), 0);
    (void)vr_slot(&p, OP_DIV, vr_load_value(b, &p, op->info.inputs[0]), y, 0);
    d = vr_skeleton(b, o, &p, SHADER_pool, 24, &status);
    if (d == NULL)
        return status;
    d->constants[ID_OWN] = POOL_SQUARES;
    d->constants[ID_LOAD] = vr_element(x->dtype);
    d->ns = (double)x->count * (double)size * 4 / b->c->state->bytes_per_ns;
    w = vr_words(b, d);
    w[0] = (uint32_t)x->count;
    vr_window_words(&v, &w[2]);
    vr_value_at(b, d, PUSH_OWN, op->info.inputs[0], false);
    return vr_finish_each(b, d, &p, x->count);
}

static bool pool_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    const uint32_t rank = kit_input(node, 0)->rank;

    if (rank < 3 || rank > 5)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "images of one to three dimensions");
    if (row->number != POOL_MAX && !vr_has_types(node, 0, VR_FLOATS, why))
        return false;
    return true;
}

/* ------------------------------------------------------------------ rows */

inlay_status vr_emit_rows(vr_build *b, uint32_t o, const vr_rows *r, uint32_t from, uint32_t to)
{
    const vr_tensor *x = &b->tensors[from];
    const uint32_t lanes = lanes_for(b, r->length, r->count);
    vr_program p;
    vr_dispatch *d;
    uint32_t *w;
    inlay_status status;

    vr_program_start(b, &p, to, VR_SINGLE);
    d = vr_skeleton(b, o, &p, SHADER_rows, 8, &status);
    if (d == NULL)
        return status;
    d->constants[ID_OWN] = r->kind;
    d->constants[ID_LOAD] = vr_element(x->dtype);
    d->constants[ID_OWN + 2] = lanes;
    d->constants[ID_OWN + 3] = r->scale != INLAY_NONE;
    d->constants[ID_OWN + 4] = r->bias != INLAY_NONE;
    if (r->scale != INLAY_NONE)
        d->constants[ID_LOAD + 1] = vr_element(b->tensors[r->scale].dtype);
    if (r->bias != INLAY_NONE)
        d->constants[ID_LOAD + 2] = vr_element(b->tensors[r->bias].dtype);
    d->ns = (double)x->count * 16 / b->c->state->bytes_per_ns;
    w = vr_words(b, d);
    w[0] = (uint32_t)r->count;
    w[1] = (uint32_t)r->length;
    w[2] = (uint32_t)r->inner;
    memcpy(&w[3], &r->epsilon, sizeof r->epsilon);
    w[4] = (uint32_t)(r->scale_rows > 0 ? r->scale_rows : 1);
    w[5] = (uint32_t)r->scale_step;
    w[6] = (uint32_t)(r->scale_per > 0 ? r->scale_per : 1);
    vr_value_at(b, d, PUSH_OWN, from, false);
    if (r->scale != INLAY_NONE)
        vr_value_at(b, d, PUSH_OWN + 1, r->scale, false);
    if (r->bias != INLAY_NONE)
        vr_value_at(b, d, PUSH_OWN + 2, r->bias, false);
    d->constants[ID_OWN + 7] = r->has_skip + (r->has_skip && r->skip_bias != INLAY_NONE);
    if (r->has_skip)
        vr_value_at(b, d, PUSH_OWN + 5, r->skip, false);
    if (d->constants[ID_OWN + 7] == 2)
        vr_value_at(b, d, PUSH_OWN + 3, r->skip_bias, false);
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t value = i == 0 ? r->mean : r->deviation;

        if (value == INLAY_NONE)
            continue;
        status = vr_make(b, value);
        if (status != INLAY_OK)
            return status;
        d->constants[ID_OWN + 5 + i] = 1;
        vr_value_at(b, d, PUSH_OWN + 3 + i, value, true);
    }
    status = vr_finish(b, d, &p);
    return status == INLAY_OK ? set_grid(b, d, lanes, r->count) : status;
}

static uint32_t input_or_none(const vr_op *op, uint32_t i)
{
    return i < op->info.input_count ? op->info.inputs[i] : INLAY_NONE;
}

static inlay_status lower_softmax(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0);
    const bool old = op->info.since_version < 13; /* all behind the axis is one row */
    uint32_t axis;
    vr_rows r = {
        .kind = op->row->number, .scale = INLAY_NONE, .bias = INLAY_NONE, .mean = INLAY_NONE, .deviation = INLAY_NONE
    };

    if (x->rank == 0 || !vr_axis(kit_attr_int(&op->info, "axis", old ? 1 : -1), x->rank, &axis))
        return vr_decline(b, op, "the axis is none of the input");
    r.length = old ? product_of(x, axis, x->rank) : x->dims[axis];
    r.inner = old ? 1 : product_of(x, axis + 1, x->rank);
    r.count = x->count / r.length;
    return vr_emit_rows(b, o, &r, op->info.inputs[0], op->info.outputs[0]);
}

static inlay_status lower_layer_norm(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0);
    uint32_t axis;
    vr_rows r = { .kind = op->row->number,
                  .inner = 1,
                  .epsilon = (float)kit_attr_float(&op->info, "epsilon", 1e-5),
                  .scale = input_or_none(op, 1),
                  .bias = input_or_none(op, 2),
                  .mean = op->info.output_count > 1 ? op->info.outputs[1] : INLAY_NONE,
                  .deviation = op->info.output_count > 2 ? op->info.outputs[2] : INLAY_NONE };

    if (!vr_axis(kit_attr_int(&op->info, "axis", -1), x->rank, &axis))
        return vr_decline(b, op, "the axis is none of the input");
    r.length = product_of(x, axis, x->rank);
    r.count = x->count / r.length;
    for (uint32_t i = 1; i < op->info.input_count; i++)
        if (vr_in(b, op, i) != NULL && vr_in(b, op, i)->count != r.length)
            return vr_decline(b, op, "its scale is broadcast");
    return vr_emit_rows(b, o, &r, op->info.inputs[0], op->info.outputs[0]);
}

/* Instances, and groups of channels; number: 1 = groups. */
static inlay_status lower_instance_norm(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0);
    const int64_t groups = op->row->number != 0 ? kit_attr_int(&op->info, "num_groups", 1) : x->dims[1];
    const int64_t pixels = product_of(x, 2, x->rank);
    const bool by_group = op->row->number != 0 && op->info.since_version < 21;
    vr_rows r = { .kind = ROW_NORM,
                  .inner = 1,
                  .epsilon = (float)kit_attr_float(&op->info, "epsilon", 1e-5),
                  .scale = input_or_none(op, 1),
                  .bias = input_or_none(op, 2),
                  .scale_rows = groups,
                  .mean = INLAY_NONE,
                  .deviation = INLAY_NONE };

    if (groups < 1 || x->dims[1] % groups != 0)
        return vr_decline(b, op, "%lld groups of %lld channels", (long long)groups, (long long)x->dims[1]);
    for (uint32_t i = 1; i < 3; i++)
        if (vr_in(b, op, i) != NULL && vr_in(b, op, i)->count != (by_group ? groups : x->dims[1]))
            return vr_decline(b, op, "its scales are not those of channels or groups");
    r.length = x->dims[1] / groups * pixels;
    r.count = x->dims[0] * groups;
    r.scale_step = by_group ? 1 : x->dims[1] / groups;
    r.scale_per = by_group ? r.length : pixels;
    return vr_emit_rows(b, o, &r, op->info.inputs[0], op->info.outputs[0]);
}

static inlay_status lower_lp_norm(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0);
    uint32_t axis;
    vr_rows r = { .kind = kit_attr_int(&op->info, "p", 2) == 1 ? ROW_L1 : ROW_L2,
                  .scale = INLAY_NONE,
                  .bias = INLAY_NONE,
                  .mean = INLAY_NONE,
                  .deviation = INLAY_NONE };

    if (!vr_axis(kit_attr_int(&op->info, "axis", -1), x->rank, &axis))
        return vr_decline(b, op, "the axis is none of the input");
    r.length = x->dims[axis];
    r.inner = product_of(x, axis + 1, x->rank);
    r.count = x->count / r.length;
    return vr_emit_rows(b, o, &r, op->info.inputs[0], op->info.outputs[0]);
}

static bool rows_support(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    for (uint32_t i = 1; i < 3 && row->family == &vr_layer_norm; i++)
        if (kit_output(node, i) != NULL && kit_output_dtype(node, i) != INLAY_FLOAT)
            return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "means of another type than float");
    if (kit_input(node, 0)->rank == 0)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "a scalar has no rows");
    return true;
}

static bool channels_support(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    (void)row;
    if (kit_input(node, 0)->rank < 3)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "channels without pixels");
    return true;
}

const vr_family vr_reduce = { reduce_supports, lower_reduce, NULL };
const vr_family vr_global_pool = { channels_support, lower_global_pool, NULL };
const vr_family vr_pool = { pool_supports, lower_pool, NULL };
const vr_family vr_lrn = { channels_support, lower_lrn, NULL };
const vr_family vr_softmax = { rows_support, lower_softmax, NULL };
const vr_family vr_layer_norm = { rows_support, lower_layer_norm, NULL };
const vr_family vr_instance_norm = { channels_support, lower_instance_norm, NULL };
const vr_family vr_lp_norm = { rows_support, lower_lp_norm, NULL };
