/* What is summed up: reductions, pools, softmax and normalisations. */
#include "region.h"
#include <math.h>

/* Long sums of few results are shared by the invocations of a workgroup. */
static uint32_t lanes_for(const vr_build *b, int64_t length, int64_t results)
{
    return length >= 128 && (results < 4096 || b->g->facts.type != VK_PHYSICAL_DEVICE_TYPE_CPU) ? VR_LOCAL : 1;
}

static inlay_status finish_sums(vr_build *b, vr_dispatch *d, const vr_program *p, uint32_t lanes, int64_t results)
{
    vr_finish(b, d, p);
    return lanes > 1 ? vr_grid_groups(b, d, (uint64_t)results) : vr_grid(b, d, results);
}

/* ------------------------------------------------------------------ reductions */

/* Dimensions of x that are reduced, or are not, as the shader walks through them: at most four, from the last on.
 * false: there are more. */
static bool put_walk(const vr_build *b, const vr_dispatch *d, uint32_t first, const vr_tensor *x, const bool *axes,
                     bool reduced)
{
    int64_t all[VR_RANK], dims[VR_RANK], strides[VR_RANK], *const lists[] = { strides };
    uint32_t n = 0;

    vr_row_major(x->dims, x->rank, all);
    for (uint32_t i = 0; i < x->rank; i++)
        if (axes[i] == reduced) {
            dims[n] = x->dims[i];
            strides[n++] = all[i];
        }
    n = vr_merge(n, dims, 1, lists);
    if (n > 4)
        return false;
    VR_PUT(b, d, first, 1, 1, 1, 1, 0, 0, 0, 0);
    vr_put(b, d, first + 4 - n, n, dims);
    vr_put(b, d, first + 8 - n, n, strides);
    return true;
}

static inlay_status emit_reduce(vr_build *b, const vr_op *op, const bool *axes)
{
    const vr_tensor *x = vr_in(b, op, 0);
    const inlay_node_info *info = &op->info;
    const uint32_t flags = kit_attr_int(info, "select_last_index", 0) != 0 || kit_attr_int(info, "exclusive", 0) != 0;
    const uint32_t kind = op->row->number;
    const bool is_arg = kind == RED_ARG_MAX || kind == RED_ARG_MIN;
    const vr_arithmetic in = vr_arithmetic_of(x->dtype);
    const gpu_shader shader = in == VR_INTEGER ? SHADER_reduce_int : SHADER_reduce;
    int64_t length = 1, results;
    uint32_t lanes;
    vr_program p;
    vr_dispatch *d;

    for (uint32_t i = 0; i < x->rank; i++)
        length *= axes[i] ? x->dims[i] : 1;
    results = kind == RED_RUNNING ? x->count / length : vr_out(b, op, 0)->count;
    lanes = kind == RED_RUNNING ? 1 : lanes_for(b, length, results);
    vr_program_start(b, &p, info->outputs[0], in);
    /* Indexes are stored as they are: no program. */
    d = is_arg ? vr_emit(b, shader, 20) : vr_skeleton(b, op, &p, shader, 20);
    VR_OWN(d, kind, lanes, flags | (kit_attr_int(info, "reverse", 0) != 0) << 1);
    vr_expect_bytes(b, d, (double)x->count, 4);
    vr_expect_rounds(b, op, length / lanes * (is_arg || kind == RED_LOG_SUM_EXP ? 2 : 1));
    VR_PUT(b, d, 0, results, length);
    if (!put_walk(b, d, 2, x, axes, false) || !put_walk(b, d, 10, x, axes, true))
        return vr_decline(b, op, "its axes alternate more often than the shader knows");
    vr_read(b, d, 0, info->inputs[0]);
    return finish_sums(b, d, &p, lanes, results);
}

static inlay_status lower_reduce(vr_build *b, const vr_op *op)
{
    const vr_tensor *x = vr_in(b, op, 0);
    bool axes[VR_RANK] = { false };
    int64_t list[VR_RANK] = { kit_attr_int(&op->info, "axis", 0) }, count = 1;
    uint32_t axis;

    if (op->row->number != RED_ARG_MAX && op->row->number != RED_ARG_MIN)
        count = vr_attr_or_ints(b, op, "axes", 1, list, VR_RANK);
    if (count < 0 && vr_in(b, op, 1) != NULL)
        return vr_decline(b, op, "its axes are not known before the run");
    for (int64_t i = 0; i < count; i++) {
        if (!vr_axis_named(b, op, list[i], x->rank, &axis))
            return b->status;
        axes[axis] = true;
    }
    for (uint32_t i = 0; count <= 0 && i < x->rank; i++)
        axes[i] = kit_attr_int(&op->info, "noop_with_empty_axes", 0) == 0;
    return emit_reduce(b, op, axes);
}

static bool reduce_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    if (!vr_is_float(kit_input_dtype(node, 0)) &&
        (row->number == RED_L2 || row->number == RED_LOG_SUM || row->number == RED_LOG_SUM_EXP))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "insert a Cast to float", "roots and logarithms of integers");
    return true;
}

static inlay_status lower_global_pool(vr_build *b, const vr_op *op)
{
    return emit_reduce(b, op, (const bool[VR_RANK]){ false, false, true, true, true, true, true, true });
}

/* ------------------------------------------------------------------ pools */

/* What a window that lies in padding alone becomes: the least there is, or 0. */
static double padding_alone(const vr_build *b, const vr_op *op, uint32_t kind)
{
    const inlay_dtype dtype = vr_in(b, op, 0)->dtype;

    return kind != POOL_MAX || dtype == INLAY_UINT8 ? 0 : dtype == INLAY_INT8 ? INT8_MIN : -INFINITY;
}

inlay_status vr_emit_windows(vr_build *b, const vr_op *op, vr_program *p, uint32_t kind, const vr_window *v)
{
    const vr_tensor *x = vr_in(b, op, 0);
    const gpu_facts *f = &b->g->facts;
    const bool with_pad = kit_attr_int(&op->info, "count_include_pad", 0) != 0;
    const int64_t planes = vr_out(b, op, 0)->count / v->pixels;
    const uint32_t lanes = vr_scalar_loads(b) ? f->subgroup : 0;
    vr_dispatch *d = vr_skeleton(b, op, p, p->in == VR_INTEGER ? SHADER_windows_int : SHADER_windows, 28);
    int64_t each;

    if (lanes > 0) { /* strips of lines, eight a workgroup */
        const int64_t strips = (v->out[2] + lanes - 1) / lanes * v->out[0] * v->out[1];

        d->constants[ID_LOCAL] = lanes * (strips < 8 ? (uint32_t)strips : 8);
        each = (strips + 7) / 8;
    } else {
        while (d->constants[ID_LOCAL] > 8 && d->constants[ID_LOCAL] / 2 >= v->pixels)
            d->constants[ID_LOCAL] /= 2;
        each = (v->pixels + d->constants[ID_LOCAL] - 1) / d->constants[ID_LOCAL];
    }
    VR_OWN(d, kind, with_pad, lanes);
    vr_expect_rounds(b, op, v->taps * (kind == POOL_LP ? 8 : 1)); /* a power is a loop, too */
    vr_expect_bytes(b, d, 2.0 * (double)(planes * v->pixels), 4.0 * (double)v->taps);
    VR_PUT(b, d, 0, x->dims[1], each);
    vr_put_window(b, d, 2, v);
    VR_PUT(b, d, 20, planes, vr_bits((float)kit_attr_int(&op->info, "p", 2)), v->end[0], v->end[1], v->end[2],
           vr_bits((float)padding_alone(b, op, kind)));
    vr_read(b, d, 0, op->info.inputs[0]);
    vr_read(b, d, 1, kind == POOL_WEIGHTED ? op->info.inputs[1] : INLAY_NONE);
    vr_finish(b, d, p);
    return vr_grid_groups(b, d, (uint64_t)(each * planes));
}

static inlay_status lower_pool(vr_build *b, const vr_op *op)
{
    vr_window v;
    vr_program p;

    if (!vr_window_read(b, op, NULL, false, &v))
        return b->status;
    if (vr_in(b, op, 0)->count == 0) {
        vr_fill(b, op->info.outputs[0], padding_alone(b, op, op->row->number));
        return b->status;
    }
    vr_program_start(b, &p, op->info.outputs[0], vr_arithmetic_of(vr_in(b, op, 0)->dtype));
    return vr_emit_windows(b, op, &p, op->row->number, &v);
}

/* x / (bias + alpha / size * squares of neighbouring channels)^beta: a pool over channels, and the rest behind it. */
static inlay_status lower_lrn(vr_build *b, const vr_op *op)
{
    const vr_tensor *x = vr_in(b, op, 0);
    const int64_t size = kit_attr_int(&op->info, "size", 1), pixels = vr_extent(x, 2, x->rank);
    const vr_window v = { .out = { x->dims[1], pixels, 1 },
                          .in = { x->dims[1], pixels, 1 },
                          .window = { size, 1, 1 },
                          .stride = { 1, 1, 1 },
                          .dilation = { 1, 1, 1 },
                          .begin = { (size - 1) / 2, 0, 0 },
                          .taps = size,
                          .pixels = x->dims[1] * pixels };
    vr_program p;
    uint32_t y;

    vr_program_start(b, &p, op->info.outputs[0], VR_SINGLE);
    y = vr_slot(&p, OP_MUL, REG_ACC, vr_number(&p, kit_attr_float(&op->info, "alpha", 1e-4) / (double)size), 0);
    y = vr_slot(&p, OP_ADD, y, vr_number(&p, kit_attr_float(&op->info, "bias", 1)), 0);
    y = vr_slot(&p, OP_POW, y, vr_number(&p, kit_attr_float(&op->info, "beta", 0.75)), 0);
    (void)vr_slot(&p, OP_DIV, vr_load_value(b, &p, op->info.inputs[0]), y, 0);
    return vr_emit_windows(b, op, &p, POOL_SQUARES, &v);
}

/* ------------------------------------------------------------------ rows */

vr_rows vr_rows_of(const vr_build *b, const vr_op *op, uint32_t kind, uint32_t axis)
{
    const vr_tensor *x = vr_in(b, op, 0);
    const int64_t length = vr_extent(x, axis, x->rank);

    vr_rows r = { .kind = kind, .length = length, .inner = 1, .scale_rows = 1, .scale_per = 1 };

    r.count = x->count / length;
    r.epsilon = (float)kit_attr_float(&op->info, "epsilon", 1e-5);
    r.scale = r.bias = r.skip = r.skip_bias = r.mean = r.deviation = INLAY_NONE;
    return r;
}

inlay_status vr_emit_rows(vr_build *b, const vr_op *op, const vr_rows *r, uint32_t from)
{
    const uint32_t lanes = lanes_for(b, r->length, r->count);
    const uint32_t asked[] = { r->mean, r->deviation }, scales[] = { r->scale, r->bias };
    const int64_t scale_count = (r->scale_rows - 1) * r->scale_step + r->length / r->scale_per;
    vr_program p;
    vr_dispatch *d;

    for (uint32_t i = 0; i < 2; i++)
        if (scales[i] != INLAY_NONE && b->tensors[scales[i]].count != scale_count)
            return vr_decline(b, op, "its scales are not those of rows, channels or groups");
    vr_program_start(b, &p, op->info.outputs[0], VR_SINGLE);
    d = vr_skeleton(b, op, &p, SHADER_rows, 8);
    VR_OWN(d, r->kind, lanes, r->scale != INLAY_NONE, r->bias != INLAY_NONE, r->mean != INLAY_NONE,
           r->deviation != INLAY_NONE,
           r->skip == INLAY_NONE        ? 0
           : r->skip_bias == INLAY_NONE ? 1
                                        : 2);
    vr_expect_bytes(b, d, (double)(r->count * r->length), 16);
    vr_expect_rounds(b, op, 3 * (r->length / lanes));
    VR_PUT(b, d, 0, r->count, r->length, r->inner, vr_bits(r->epsilon), r->scale_rows, r->scale_step, r->scale_per);
    vr_read(b, d, 0, from);
    vr_read(b, d, 1, r->scale);
    vr_read(b, d, 2, r->bias);
    if (r->skip != INLAY_NONE)
        vr_touch_value(b, d, PUSH_OWN + 5, r->skip, false);
    if (r->skip_bias != INLAY_NONE)
        vr_touch_value(b, d, PUSH_OWN + 3, r->skip_bias, false);
    for (uint32_t i = 0; i < 2; i++)
        if (asked[i] != INLAY_NONE) {
            vr_make(b, asked[i]);
            vr_touch_value(b, d, PUSH_OWN + 3 + i, asked[i], true);
        }
    return finish_sums(b, d, &p, lanes, r->count);
}

/* Softmax and the like, and LpNormalization: rows along one axis. */
static inlay_status lower_rows(vr_build *b, const vr_op *op)
{
    const vr_tensor *x = vr_in(b, op, 0);
    const bool is_lp = op->row->family == &vr_lp_norm;
    const bool old = !is_lp && op->info.since_version < 13; /* all behind the axis is one row */
    const uint32_t kind = !is_lp ? op->row->number : kit_attr_int(&op->info, "p", 2) == 1 ? ROW_L1 : ROW_L2;
    vr_rows r;
    uint32_t axis;

    if (!vr_axis_of(b, op, old ? 1 : -1, x->rank, &axis))
        return b->status;
    r = vr_rows_of(b, op, kind, axis);
    if (!old) {
        r.length = x->dims[axis];
        r.inner = vr_extent(x, axis + 1, x->rank);
        r.count = x->count / r.length;
    }
    return vr_emit_rows(b, op, &r, op->info.inputs[0]);
}

static inlay_status lower_layer_norm(vr_build *b, const vr_op *op)
{
    const vr_tensor *x = vr_in(b, op, 0);
    uint32_t axis;
    vr_rows r;

    if (!vr_axis_of(b, op, -1, x->rank, &axis))
        return b->status;
    r = vr_rows_of(b, op, op->row->number, axis);
    r.scale = vr_in_value(op, 1);
    r.bias = vr_in_value(op, 2);
    r.mean = vr_out_value(op, 1);
    r.deviation = vr_out_value(op, 2);
    return vr_emit_rows(b, op, &r, op->info.inputs[0]);
}

/* Instances, and groups of channels; number: 1 = groups. */
static inlay_status lower_instance_norm(vr_build *b, const vr_op *op)
{
    const vr_tensor *x = vr_in(b, op, 0);
    const int64_t groups = op->row->number != 0 ? kit_attr_int(&op->info, "num_groups", 1) : x->dims[1];
    const int64_t pixels = vr_extent(x, 2, x->rank);
    const bool by_group = op->row->number != 0 && op->info.since_version < 21;
    vr_rows r = vr_rows_of(b, op, ROW_NORM, 1);

    if (groups < 1 || x->dims[1] % groups != 0)
        return vr_decline(b, op, "%lld groups of %lld channels", (long long)groups, (long long)x->dims[1]);
    r.length = x->dims[1] / groups * pixels;
    r.count = x->dims[0] * groups;
    r.scale = vr_in_value(op, 1);
    r.bias = vr_in_value(op, 2);
    r.scale_rows = groups;
    r.scale_step = by_group ? 1 : x->dims[1] / groups;
    r.scale_per = by_group ? r.length : pixels;
    return vr_emit_rows(b, op, &r, op->info.inputs[0]);
}

static bool rows_support(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    (void)row;
    for (uint32_t i = 1; i < 3; i++)
        if (kit_output(node, i) != NULL && kit_output_dtype(node, i) != INLAY_FLOAT)
            return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "means of another type than float");
    return true;
}

const vr_family vr_reduce = { .supports = reduce_supports, .lower = lower_reduce, .known = true };
const vr_family vr_global_pool = { .lower = lower_global_pool, .least_rank = 3 };
const vr_family vr_pool = { .lower = lower_pool, .least_rank = 3, .most_rank = 5 };
const vr_family vr_lrn = { .lower = lower_lrn, .least_rank = 3 };
const vr_family vr_softmax = { .lower = lower_rows, .least_rank = 1 };
const vr_family vr_layer_norm = {
    .supports = rows_support, .lower = lower_layer_norm, .several = true, .least_rank = 1
};
const vr_family vr_instance_norm = { .lower = lower_instance_norm, .least_rank = 3 };
const vr_family vr_lp_norm = { .lower = lower_rows, .least_rank = 1 };
