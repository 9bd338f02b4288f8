/* What only moves elements. A reshape is the same memory under another shape. */
#include "region.h"

static vr_box whole_box(const vr_tensor *t)
{
    vr_box box = { .rank = t->rank, .pad = PAD_NONE, .fill = INLAY_NONE };

    memcpy(box.dims, t->dims, t->rank * sizeof t->dims[0]);
    vr_row_major(t->dims, t->rank, box.to);
    return box;
}

/* ------------------------------------------------------------------ views */

static inlay_status copy_flat(vr_build *b, uint32_t from, uint32_t to)
{
    vr_box box = { .rank = 1, .dims = { b->tensors[to].count }, .from = { 1 }, .to = { 1 }, .pad = PAD_NONE };

    return vr_move_value(b, &box, from, to);
}

static bool view_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    return row->number != 1 || vr_is_known(node, 2, why);
}

/* Nothing is dropped, but the mask is asked for: all true. */
static inlay_status fill_mask(vr_build *b, uint32_t mask)
{
    vr_program p;

    vr_program_start(b, &p, mask, VR_SINGLE);
    (void)vr_slot(&p, OP_MOVE, vr_number(&p, 1), 0, 0);
    return vr_emit_elements(b, &p);
}

static inlay_status lower_view(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const uint32_t x = op->info.inputs[0], y = op->info.outputs[0];
    const vr_tensor *training = op->row->number == 1 ? vr_in(b, op, 2) : NULL;
    uint8_t on = 0;
    inlay_status status = INLAY_OK;

    if (training != NULL && training->data == NULL)
        return vr_decline(b, op, "it may be told to train");
    if (training != NULL)
        memcpy(&on, training->data, 1);
    if (on != 0)
        return vr_decline(b, op, "it drops elements by chance");
    if (vr_out(b, op, 1) != NULL)
        status = fill_mask(b, op->info.outputs[1]);
    if (status != INLAY_OK)
        return status;
    if (vr_is_output(b, y))
        return copy_flat(b, x, y);
    vr_alias(b, y, x, 0);
    return INLAY_OK;
}

/* ------------------------------------------------------------------ Transpose, DepthToSpace, SpaceToDepth */

bool vr_permutation(const vr_op *op, uint32_t rank, uint32_t *out)
{
    uint32_t count = 0;
    const int64_t *perm = kit_attr_ints(&op->info, "perm", &count);

    for (uint32_t d = 0; d < rank; d++) {
        const int64_t from = perm != NULL && d < count ? perm[d] : rank - 1 - d;

        if (from < 0 || from >= rank)
            return false;
        out[d] = (uint32_t)from;
    }
    return true;
}

/* Does nobody read a value but those that go by strides? */
static bool is_read_by_strides(const vr_build *b, uint32_t value)
{
    for (uint32_t o = 0; o < b->c->op_count; o++) {
        const vr_op *op = &b->c->ops[o];
        const vr_family *family = op->row->family;

        for (uint32_t i = 0; i < op->info.input_count; i++)
            if (op->info.inputs[i] == value && family->slots == NULL && family != &vr_transpose &&
                (family != &vr_attention || i > 2) &&
                (family != &vr_mat_mul || b->tensors[op->info.outputs[0]].rank > 5))
                return false;
    }
    return !vr_is_output(b, value);
}

static inlay_status lower_transpose(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const uint32_t x = op->info.inputs[0], y = op->info.outputs[0];
    vr_box box = whole_box(vr_out(b, op, 0));
    int64_t strides[VR_RANK];
    uint32_t from[VR_RANK];

    if (!vr_permutation(op, b->tensors[x].rank, from))
        return vr_decline(b, op, "perm is no permutation");
    vr_strides(b, x, strides);
    for (uint32_t d = 0; d < box.rank; d++)
        box.from[d] = strides[from[d]];
    if (!is_read_by_strides(b, y))
        return vr_move_value(b, &box, x, y);
    vr_alias(b, y, x, 0);
    b->views[y].turned = true;
    memcpy(b->views[y].strides, box.from, sizeof b->views[y].strides);
    return INLAY_OK;
}

/* number 1: SpaceToDepth. Both are a transpose of [N, a, b, C, H, W] in some order. */
static inlay_status lower_space_depth(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const bool to_depth = op->row->number != 0;
    const vr_tensor *small = to_depth ? vr_out(b, op, 0) : vr_in(b, op, 0); /* the one of many channels */
    const int64_t s = kit_attr_int(&op->info, "blocksize", 1);
    const bool crd = strcmp(kit_attr_string(&op->info, "mode", "DCR"), "CRD") == 0;
    const int64_t h = small->dims[2], w = small->dims[3], c = small->dims[1] / (s * s), n = small->dims[0];
    const int64_t plane = h * w;
    vr_box box = { .rank = 6, .dims = { n, c, h, s, w, s }, .pad = PAD_NONE };
    const int64_t deep[6] = {
        c * s * s * plane, crd ? s * s * plane : plane, w, crd ? s * plane : s * c * plane, 1, crd ? plane : c * plane
    };
    const int64_t wide[6] = { c * s * s * plane, s * s * plane, s * w * s, w * s, s, 1 };

    memcpy(box.from, to_depth ? wide : deep, sizeof deep);
    memcpy(box.to, to_depth ? deep : wide, sizeof deep);
    return vr_move_value(b, &box, op->info.inputs[0], op->info.outputs[0]);
}

/* ------------------------------------------------------------------ Concat, Split, Slice */

static inlay_status lower_concat(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *y = vr_out(b, op, 0);
    int64_t strides[VR_RANK], at = 0;
    uint32_t axis;
    inlay_status status = INLAY_OK;

    if (!vr_axis(kit_attr_int(&op->info, "axis", 1), y->rank, &axis))
        return vr_decline(b, op, "the axis is none of the result");
    vr_row_major(y->dims, y->rank, strides);
    for (uint32_t i = 0; i < op->info.input_count && status == INLAY_OK; i++) {
        const vr_tensor *x = vr_in(b, op, i);
        vr_box box = whole_box(x);

        memcpy(box.from, box.to, sizeof box.from);
        memcpy(box.to, strides, sizeof strides);
        box.to_base = at * strides[axis];
        at += x->dims[axis];
        status = vr_move_value(b, &box, op->info.inputs[i], op->info.outputs[0]);
    }
    return status;
}

/* A part of a tensor: where it lies within, unless its elements have gaps between them. */
static inlay_status take_part(vr_build *b, uint32_t from, uint32_t to, const int64_t *start, const int64_t *step)
{
    const vr_tensor *x = &b->tensors[from], *y = &b->tensors[to];
    vr_box box = whole_box(y);
    int64_t strides[VR_RANK];
    bool dense = true;

    vr_row_major(x->dims, x->rank, strides);
    for (uint32_t d = 0; d < x->rank; d++) {
        box.from[d] = strides[d] * step[d];
        box.from_base += strides[d] * start[d];
        dense &= y->dims[d] == 1 || box.from[d] == box.to[d];
    }
    if (dense && !vr_is_output(b, to)) {
        vr_alias(b, to, from, (uint64_t)box.from_base * vr_size_of(y->dtype));
        return INLAY_OK;
    }
    return vr_move_value(b, &box, from, to);
}

static inlay_status lower_split(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0);
    int64_t start[VR_RANK] = { 0 }, step[VR_RANK];
    uint32_t axis;
    inlay_status status = INLAY_OK;

    for (uint32_t d = 0; d < VR_RANK; d++)
        step[d] = 1;
    if (!vr_axis(kit_attr_int(&op->info, "axis", 0), x->rank, &axis))
        return vr_decline(b, op, "the axis is none of the input");
    for (uint32_t i = 0; i < op->info.output_count && status == INLAY_OK; i++) {
        const vr_tensor *y = vr_out(b, op, i);

        if (y == NULL)
            return vr_decline(b, op, "an output is omitted");
        status = take_part(b, op->info.inputs[0], op->info.outputs[i], start, step);
        start[axis] += y->dims[axis];
    }
    return status;
}

/* starts, axes and steps of a Slice, by inputs or by attributes. */
static bool read_slice(const vr_build *b, const vr_op *op, int64_t *starts, int64_t *axes, int64_t *steps,
                       int64_t *out_count)
{
    uint32_t count = 0, axis_count = 0;
    const int64_t *attr = kit_attr_ints(&op->info, "starts", &count);
    const int64_t *axis_attr = kit_attr_ints(&op->info, "axes", &axis_count);
    int64_t n = count;

    if (attr != NULL && count <= VR_RANK)
        memcpy(starts, attr, count * sizeof *starts);
    else
        n = vr_ints(b, op, 1, starts, VR_RANK);
    for (int64_t i = 0; i < n; i++) {
        axes[i] = axis_attr != NULL && i < axis_count ? axis_attr[i] : i;
        steps[i] = 1;
    }
    *out_count = n;
    return n >= 0 && (vr_in(b, op, 3) == NULL || vr_ints(b, op, 3, axes, VR_RANK) == n) &&
           (vr_in(b, op, 4) == NULL || vr_ints(b, op, 4, steps, VR_RANK) == n);
}

static inlay_status lower_slice(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0);
    int64_t starts[VR_RANK], axes[VR_RANK], steps[VR_RANK], start[VR_RANK] = { 0 }, step[VR_RANK], count;
    uint32_t axis;

    if (!read_slice(b, op, starts, axes, steps, &count))
        return vr_decline(b, op, "its bounds are not known before the run");
    for (uint32_t d = 0; d < VR_RANK; d++)
        step[d] = 1;
    for (int64_t i = 0; i < count; i++) {
        int64_t size, at = starts[i];

        if (!vr_axis(axes[i], x->rank, &axis))
            return vr_decline(b, op, "axis %lld is none of the input", (long long)axes[i]);
        size = x->dims[axis];
        at += at < 0 ? size : 0;
        at = at < 0 ? 0 : at > size ? size : at;
        start[axis] = steps[i] < 0 && at > size - 1 ? size - 1 : at;
        step[axis] = steps[i];
    }
    return take_part(b, op->info.inputs[0], op->info.outputs[0], start, step);
}

static bool slice_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    for (uint32_t i = 1; i < node->info->input_count; i++)
        if (!vr_is_known(node, i, why))
            return false;
    return vr_has_types(node, 0, row->types, why);
}

/* ------------------------------------------------------------------ Pad */

static inlay_status lower_pad(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0);
    const char *mode = kit_attr_string(&op->info, "mode", "constant");
    vr_box box = whole_box(vr_out(b, op, 0));
    int64_t pads[2 * VR_RANK], axes[VR_RANK], strides[VR_RANK];
    uint32_t count = 0, axis;
    const int64_t *attr = kit_attr_ints(&op->info, "pads", &count);
    int64_t n = count, axis_count = x->rank;

    if (attr != NULL && count <= 2 * VR_RANK)
        memcpy(pads, attr, count * sizeof *pads);
    else
        n = vr_ints(b, op, 1, pads, 2 * VR_RANK);
    for (uint32_t d = 0; d < x->rank; d++)
        axes[d] = d;
    if (vr_in(b, op, 3) != NULL)
        axis_count = vr_ints(b, op, 3, axes, VR_RANK);
    if (n < 0 || axis_count < 0 || n != 2 * axis_count)
        return vr_decline(b, op, "its pads are not known before the run");
    vr_row_major(x->dims, x->rank, strides);
    for (uint32_t d = 0; d < x->rank; d++) {
        box.from[d] = strides[d];
        box.extent[d] = x->dims[d];
    }
    for (int64_t i = 0; i < axis_count; i++) {
        if (!vr_axis(axes[i], x->rank, &axis))
            return vr_decline(b, op, "axis %lld is none of the input", (long long)axes[i]);
        box.begin[axis] = pads[i];
    }
    box.pad = strcmp(mode, "edge") == 0      ? PAD_EDGE
              : strcmp(mode, "reflect") == 0 ? PAD_REFLECT
              : strcmp(mode, "wrap") == 0    ? PAD_WRAP
                                             : PAD_CONSTANT;
    if (box.pad == PAD_CONSTANT && vr_in(b, op, 2) != NULL)
        box.fill = op->info.inputs[2];
    else if (box.pad == PAD_CONSTANT)
        box.pad = PAD_ZERO;
    if (x->count == 0)
        return vr_decline(b, op, "it pads nothing");
    return vr_move_value(b, &box, op->info.inputs[0], op->info.outputs[0]);
}

static bool pad_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    (void)row;
    if (kit_attr_float(node->info, "value", 0) != 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "convert the model to opset 11",
                          "padding by another value than 0");
    return vr_has_types(node, 0, VR_MOVED, why) && vr_is_known(node, 1, why) && vr_is_known(node, 3, why);
}

/* ------------------------------------------------------------------ Expand, Tile */

static inlay_status lower_expand(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0), *y = vr_out(b, op, 0);
    vr_box box = whole_box(y);
    int64_t strides[VR_RANK];

    vr_row_major(x->dims, x->rank, strides);
    for (uint32_t d = 0; d < x->rank; d++)
        box.from[d + y->rank - x->rank] = x->dims[d] == 1 ? 0 : strides[d];
    return vr_move_value(b, &box, op->info.inputs[0], op->info.outputs[0]);
}

static inlay_status lower_tile(vr_build *b, uint32_t o)
{
    const vr_op *op = &b->c->ops[o];
    const vr_tensor *x = vr_in(b, op, 0), *y = vr_out(b, op, 0);
    int64_t from[VR_RANK], to[VR_RANK];
    vr_box box = { .rank = 2 * x->rank, .pad = PAD_NONE };

    vr_row_major(x->dims, x->rank, from);
    vr_row_major(y->dims, y->rank, to);
    for (uint32_t d = 0; d < x->rank; d++) {
        if (x->dims[d] == 0 || y->dims[d] % x->dims[d] != 0)
            return vr_decline(b, op, "its repeats do not fit");
        box.dims[2 * d] = y->dims[d] / x->dims[d];
        box.to[2 * d] = to[d] * x->dims[d];
        box.dims[2 * d + 1] = x->dims[d];
        box.from[2 * d + 1] = from[d];
        box.to[2 * d + 1] = to[d];
    }
    return vr_move_value(b, &box, op->info.inputs[0], op->info.outputs[0]);
}

static bool first_moves(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    return vr_has_types(node, 0, row->types, why);
}

const vr_family vr_view = { view_supports, lower_view, NULL };
const vr_family vr_transpose = { NULL, lower_transpose, NULL };
const vr_family vr_space_depth = { NULL, lower_space_depth, NULL };
const vr_family vr_concat = { NULL, lower_concat, NULL };
const vr_family vr_split = { first_moves, lower_split, NULL };
const vr_family vr_slice = { slice_supports, lower_slice, NULL };
const vr_family vr_pad = { pad_supports, lower_pad, NULL };
const vr_family vr_expand = { first_moves, lower_expand, NULL };
const vr_family vr_tile = { first_moves, lower_tile, NULL };
