/* Operators in the form of an earlier opset: inputs that were attributes, attributes that were not there. */
#include "base/element.h"
#include "graph/refit.h"
#include "modelkit/opset_parts.h"
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------ constants that become attributes */

/* Element i of a constant of integers. */
static int64_t int_at(const inlay_value_info *info, int64_t i)
{
    int64_t wide;
    int32_t narrow;

    if (info->dtype == INLAY_INT64) {
        memcpy(&wide, (const char *)info->data + (size_t)i * sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&narrow, (const char *)info->data + (size_t)i * sizeof narrow, sizeof narrow);
    return narrow;
}

bool conversion_constant_ints(struct conversion *c, uint32_t i, const char *what, int64_t **out_list,
                              uint32_t *out_count)
{
    const uint32_t v = conversion_input(c, i);
    const inlay_value_info *info = v == INLAY_NONE ? NULL : &c->e->g->values[v].info;
    int64_t count = 1;

    *out_list = NULL;
    *out_count = 0;
    if (info == NULL || (info->flags & INLAY_VALUE_CONSTANT) == 0 || info->rank > 1 ||
        (info->dtype != INLAY_INT64 && info->dtype != INLAY_INT32)) {
        c->why = arena_format(&c->e->g->model->arena, "its %s are computed", what);
        return false;
    }
    if (info->rank == 1)
        count = info->dims[0].value;
    *out_list = arena_array(&c->e->g->model->arena, (size_t)count + 1, sizeof **out_list);
    c->e->failed = c->e->failed || *out_list == NULL;
    for (int64_t k = 0; *out_list != NULL && k < count; k++)
        (*out_list)[k] = int_at(info, k);
    *out_count = *out_list != NULL ? (uint32_t)count : 0;
    return *out_list != NULL;
}

/* Input i, a list of integers, becomes an attribute; inputs from i on are gone. */
static bool ints_to_attr(struct conversion *c, uint32_t i, const char *attr)
{
    int64_t *list;
    uint32_t count;

    if (conversion_input(c, i) == INLAY_NONE)
        return true;
    if (!conversion_constant_ints(c, i, attr, &list, &count))
        return false;
    c->e->failed |= graph_set_attr_ints(c->e->g, c->n, attr, list, count) != INLAY_OK;
    return true;
}

static bool float_to_attr(struct conversion *c, uint32_t i, const char *attr)
{
    const uint32_t v = conversion_input(c, i);
    const inlay_value_info *info = v == INLAY_NONE ? NULL : &c->e->g->values[v].info;
    double x;

    if (info == NULL)
        return true;
    if ((info->flags & INLAY_VALUE_CONSTANT) == 0 || !element_is_float(info->dtype) ||
        info->data_bytes * 8 != inlay_dtype_bits(info->dtype) ||
        !element_number(info->dtype, info->data, 0, &x, NULL) || (isfinite(x) && (double)(float)x != x)) {
        c->why = arena_format(&c->e->g->model->arena, "its %s is no constant number that a float holds", attr);
        return false;
    }
    c->e->failed |= graph_set_attr_float(c->e->g, c->n, attr, x) != INLAY_OK;
    return true;
}

/* ------------------------------------------------------------------ operators */

static bool lower_axes(struct conversion *c)
{
    int64_t *axes;
    uint32_t count = 0;

    if (conversion_input(c, 1) != INLAY_NONE && !conversion_constant_ints(c, 1, "axes", &axes, &count))
        return false;
    if (count == 0 && conversion_int(c->n, "noop_with_empty_axes", 0) != 0) {
        c->why = "without axes, attribute 'noop_with_empty_axes' has it reduce none";
        return false;
    }
    conversion_drop_attr(c, "noop_with_empty_axes");
    if (count > 0 && !ints_to_attr(c, 1, "axes"))
        return false;
    conversion_cut_inputs(c, 1);
    return true;
}

/* Before opset 13 all axes from `axis` on are one: the same for the last axis, which others are moved to. */
static bool lower_softmax(struct conversion *c)
{
    const uint32_t rank = conversion_rank(c), made = c->n->info.outputs[0];
    int64_t axis = conversion_int(c->n, "axis", -1), order[INLAY_MAX_RANK];
    graph_node *there, *back;
    uint32_t moved, in;

    if (rank == INLAY_RANK_UNKNOWN || rank == 0) {
        c->why = "the rank of its input is not known";
        return false;
    }
    axis += axis < 0 ? rank : 0;
    conversion_drop_attr(c, "axis");
    edit_int(c->e, c->n, "axis", (int64_t)rank - 1);
    if (axis == (int64_t)rank - 1)
        return true;
    for (uint32_t d = 0; d < rank; d++)
        order[d] = d;
    order[axis] = (int64_t)rank - 1;
    order[rank - 1] = axis;
    in = conversion_input(c, 0);
    moved = edit_node(c->e, conversion_name(c), "_moved", "Transpose", "", &in, 1, &there);
    in = conversion_take_output(c, "_last");
    (void)edit_node(c->e, conversion_name(c), "_back", "Transpose", "", &in, 1, &back);
    if (there == NULL || back == NULL)
        return false;
    edit_input(c->n, 0, moved);
    *(uint32_t *)(uintptr_t)back->info.outputs = made;
    c->e->failed |= graph_set_attr_ints(c->e->g, there, "perm", order, rank) != INLAY_OK ||
                    graph_set_attr_ints(c->e->g, back, "perm", order, rank) != INLAY_OK;
    return true;
}

/* Without sizes, num_outputs parts are of one size but for the last, which older opsets want to be equal. */
static bool lower_split(struct conversion *c)
{
    const inlay_attr_info *parts = conversion_stated(c->n, "num_outputs");
    const uint32_t rank = conversion_rank(c), outputs = c->n->info.output_count;
    int64_t axis = conversion_int(c->n, "axis", 0);
    int64_t *sizes;

    if (parts != NULL && conversion_input(c, 1) == INLAY_NONE) {
        const inlay_dim *dim;

        axis += axis < 0 && rank != INLAY_RANK_UNKNOWN ? rank : 0;
        dim = rank != INLAY_RANK_UNKNOWN && axis < (int64_t)rank
                  ? &c->e->g->values[conversion_input(c, 0)].info.dims[axis]
                  : NULL;
        if (dim == NULL || dim->kind != INLAY_DIM_FIXED) {
            c->why = "the size that it splits is not known";
            return false;
        }
        if (dim->value % outputs != 0) {
            const int64_t part = (dim->value + outputs - 1) / outputs;

            sizes = arena_array(&c->e->g->model->arena, outputs, sizeof *sizes);
            for (uint32_t i = 0; sizes != NULL && i < outputs; i++)
                sizes[i] = i + 1 < outputs ? part : dim->value - part * (outputs - 1);
            c->e->failed = c->e->failed || sizes == NULL;
            if (sizes != NULL)
                edit_set_input(c->e, c->n, 1, conversion_ints(c, "_sizes", sizes, outputs));
        }
    }
    conversion_drop_attr(c, "num_outputs");
    if (c->opset >= 13)
        return true;
    if (!ints_to_attr(c, 1, "split"))
        return false;
    conversion_cut_inputs(c, 1);
    return true;
}

static bool lower_clip(struct conversion *c)
{
    if (!float_to_attr(c, 1, "min") || !float_to_attr(c, 2, "max"))
        return false;
    conversion_cut_inputs(c, 1);
    return true;
}

/* pads of some axes are pads of all, the others' 0. */
static bool spread_pads(struct conversion *c)
{
    const uint32_t rank = conversion_rank(c);
    int64_t *pads, *axes, *all;
    uint32_t count, pad_count;

    if (conversion_input(c, 3) == INLAY_NONE)
        return true;
    if (rank == INLAY_RANK_UNKNOWN) {
        c->why = "the rank of its input is not known";
        return false;
    }
    if (!conversion_constant_ints(c, 1, "pads", &pads, &pad_count) ||
        !conversion_constant_ints(c, 3, "axes", &axes, &count))
        return false;
    all = arena_array(&c->e->g->model->arena, (size_t)rank * 2 + 1, sizeof *all);
    c->e->failed = c->e->failed || all == NULL;
    for (uint32_t i = 0; all != NULL && i < count && pad_count == 2 * count; i++) {
        const int64_t axis = axes[i] + (axes[i] < 0 ? rank : 0);

        if (axis < 0 || axis >= (int64_t)rank)
            return false;
        all[axis] = pads[i];
        all[axis + rank] = pads[i + count];
    }
    if (all != NULL)
        edit_set_input(c->e, c->n, 1, conversion_ints(c, "_pads", all, rank * 2));
    conversion_cut_inputs(c, 3);
    return all != NULL;
}

static bool lower_pad(struct conversion *c)
{
    if (c->opset < 18 && !spread_pads(c))
        return false;
    if (c->opset >= 11)
        return true;
    if (!float_to_attr(c, 2, "value") || !ints_to_attr(c, 1, "pads"))
        return false;
    conversion_cut_inputs(c, 1);
    return true;
}

static bool lower_slice(struct conversion *c)
{
    int64_t *steps;
    uint32_t count = 0;

    if (c->opset >= 10)
        return true;
    if (conversion_input(c, 4) != INLAY_NONE && !conversion_constant_ints(c, 4, "steps", &steps, &count))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (steps[i] != 1) {
            c->why = "steps came with opset 10";
            return false;
        }
    if (!ints_to_attr(c, 1, "starts") || !ints_to_attr(c, 2, "ends") || !ints_to_attr(c, 3, "axes"))
        return false;
    conversion_cut_inputs(c, 1);
    return true;
}

static bool lower_top_k(struct conversion *c)
{
    int64_t *list;
    uint32_t count;

    if (c->opset >= 10)
        return true;
    if (!conversion_constant_ints(c, 1, "k", &list, &count) || count != 1)
        return false;
    edit_int(c->e, c->n, "k", list[0]);
    conversion_cut_inputs(c, 1);
    return true;
}

/* What is not trained drops nothing. */
static bool lower_dropout(struct conversion *c)
{
    const uint32_t v = conversion_input(c, 2);
    const inlay_value_info *info = v == INLAY_NONE ? NULL : &c->e->g->values[v].info;

    if (c->opset >= 12)
        return true;
    if (info != NULL &&
        ((info->flags & INLAY_VALUE_CONSTANT) == 0 || info->data_bytes != 1 || *(const uint8_t *)info->data != 0)) {
        c->why = "training came with opset 12";
        return false;
    }
    conversion_drop_attr(c, "seed");
    conversion_cut_inputs(c, 1);
    return true;
}

bool conversion_is_text(const graph_node *n, const char *attr, const char *text, bool otherwise)
{
    const inlay_attr_info *a = conversion_stated(n, attr);

    return a == NULL ? otherwise : a->kind == INLAY_ATTR_STRING && strcmp(a->s.data, text) == 0;
}

/* The scales of Upsample-9 become the attribute that Upsample-7 has. */
static bool lower_upsample(struct conversion *c)
{
    const uint32_t scales = conversion_input(c, 1);
    const inlay_value_info *info = scales == INLAY_NONE ? NULL : &c->e->g->values[scales].info;
    inlay_attr_info attr = { .name = { "scales", 6 }, .kind = INLAY_ATTR_FLOATS };
    float *copy;

    if (c->opset >= 9)
        return true;
    if (info == NULL || (info->flags & INLAY_VALUE_CONSTANT) == 0 || info->dtype != INLAY_FLOAT) {
        c->why = "its scales are computed";
        return false;
    }
    copy = arena_copy(&c->e->g->model->arena, info->data, (size_t)info->data_bytes);
    attr.floats = copy;
    attr.count = (uint32_t)(info->data_bytes / sizeof *copy);
    c->e->failed |= copy == NULL || graph_set_attr(c->e->g, c->n, &attr) != INLAY_OK;
    conversion_cut_inputs(c, 1);
    return copy != NULL;
}

/* To Resize-10 and Upsample: their grids begin at 0 and leave out what lies between. */
static bool lower_to_scales(struct conversion *c)
{
    const bool nearest = conversion_is_text(c->n, "mode", "nearest", true);
    const uint32_t scales = conversion_input(c, 2);
    const inlay_value_info *info = scales == INLAY_NONE ? NULL : &c->e->g->values[scales].info;

    if (info == NULL || info->data_bytes == 0 || conversion_input(c, 3) != INLAY_NONE ||
        !conversion_is_text(c->n, "coordinate_transformation_mode", "asymmetric", false) ||
        conversion_is_text(c->n, "mode", "cubic", false) ||
        (nearest && !conversion_is_text(c->n, "nearest_mode", "floor", false))) {
        c->why = "before opset 11 grids are asymmetric, rounded down and given by scales";
        return false;
    }
    for (int i = 0; i < 5; i++) {
        static const char *const names[] = { "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside",
                                             "extrapolation_value", "nearest_mode" };

        conversion_drop_attr(c, names[i]);
    }
    edit_set_input(c->e, c->n, 1, scales);
    conversion_cut_inputs(c, 2);
    if (c->opset >= 10)
        return true;
    c->n->info.op_type = (inlay_str){ "Upsample", 8 };
    return lower_upsample(c);
}

/* Pixels of RoiAlign-10 are counted from their corners. */
static bool lower_roi_align(struct conversion *c)
{
    if (c->opset >= 16)
        return true;
    if (!conversion_is_text(c->n, "coordinate_transformation_mode", "output_half_pixel", false)) {
        c->why = "half_pixel came with opset 16";
        return false;
    }
    conversion_drop_attr(c, "coordinate_transformation_mode");
    return true;
}

static bool lower_resize(struct conversion *c)
{
    if (c->n->info.since_version >= 11 && c->opset < 11)
        return lower_to_scales(c);
    if (c->n->info.since_version == 10 && c->opset < 10) {
        edit_set_input(c->e, c->n, 2, conversion_input(c, 1));
        c->e->failed |=
            graph_set_attr_string(c->e->g, c->n, "coordinate_transformation_mode", "asymmetric") != INLAY_OK ||
            graph_set_attr_string(c->e->g, c->n, "nearest_mode", "floor") != INLAY_OK;
        return lower_to_scales(c);
    }
    for (uint32_t i = 1; i < 3 && c->opset < 13; i++) /* in opset 11 what is left out is empty */
        if (conversion_input(c, i) == INLAY_NONE) {
            const int64_t none = 0;
            float *data = edit_memory(c->e, sizeof *data);

            edit_set_input(
                c->e, c->n, i,
                edit_constant(c->e, conversion_name(c), i == 1 ? "_roi" : "_scales", INLAY_FLOAT, 1, &none, data, 0));
        }
    return true;
}

/* Floats of 8 bits alone are saturated and rounded in more than one way. */
static void drop_unless_narrow(struct conversion *c)
{
    const inlay_dtype to = c->e->g->values[c->n->info.outputs[0]].info.dtype;

    if (to == INLAY_UNDEFINED || (element_is_float(to) && inlay_dtype_bits(to) <= 8))
        return;
    conversion_drop_attr(c, "saturate");
    conversion_drop_attr(c, "round_mode");
}

/* The type that QuantizeLinear's output_dtype names is that of its zero points, which may be left out. */
static bool zero_points_of_type(struct conversion *c, inlay_dtype dtype, const inlay_value_info *scale)
{
    int64_t dims[INLAY_MAX_RANK], count = 1;
    uint64_t bytes;
    void *zeros;

    if (scale == NULL || scale->rank == INLAY_RANK_UNKNOWN || dtype <= 0 || dtype >= INLAY_DTYPE_COUNT ||
        inlay_dtype_bits(dtype) != 8 || (element_is_float(dtype) && c->opset < 19))
        return false;
    for (uint32_t d = 0; d < scale->rank; d++) {
        if (scale->dims[d].kind != INLAY_DIM_FIXED)
            return false;
        dims[d] = scale->dims[d].value;
        count *= dims[d];
    }
    bytes = ((uint64_t)count * inlay_dtype_bits(dtype) + 7) / 8;
    zeros = edit_memory(c->e, bytes);
    if (zeros != NULL)
        memset(zeros, 0, (size_t)bytes);
    edit_set_input(c->e, c->n, 2,
                   edit_constant(c->e, conversion_name(c), "_zero", dtype, scale->rank, dims, zeros, bytes));
    return !c->e->failed;
}

/* What the type of its scales or zero points says already. */
static bool lower_types(struct conversion *c, const inlay_value_info *scale)
{
    const bool quantize = strcmp(conversion_op(c), "QuantizeLinear") == 0;
    const uint32_t zero = conversion_input(c, 2);
    const inlay_dtype output = (inlay_dtype)conversion_int(c->n, "output_dtype", 0);
    const inlay_dtype implied = !quantize            ? scale != NULL ? scale->dtype : INLAY_UNDEFINED
                                : zero == INLAY_NONE ? INLAY_UINT8
                                                     : c->e->g->values[zero].info.dtype;

    if (c->opset < 23 && scale != NULL && conversion_int(c->n, "precision", 0) == (int64_t)scale->dtype)
        conversion_drop_attr(c, "precision");
    if (c->opset >= (quantize ? 21 : 23) || output == INLAY_UNDEFINED)
        return true;
    if (output != implied && (!quantize || zero != INLAY_NONE || !zero_points_of_type(c, output, scale))) {
        c->why = arena_format(&c->e->g->model->arena,
                              "there it has no attribute 'output_dtype', and its %s cannot be of that type",
                              quantize ? "zero points" : "scales");
        return false;
    }
    conversion_drop_attr(c, "output_dtype");
    return true;
}

/* One scale for all, as before opset 13. */
static bool lower_linear(struct conversion *c)
{
    const uint32_t v = conversion_input(c, 1);
    const inlay_value_info *info = v == INLAY_NONE ? NULL : &c->e->g->values[v].info;

    if (!lower_types(c, info))
        return false;
    if (c->opset < 19)
        drop_unless_narrow(c);
    if (c->opset >= 13)
        return true;
    if (info == NULL || info->rank != 0) {
        c->why = "scales of channels came with opset 13";
        return false;
    }
    conversion_drop_attr(c, "axis");
    return true;
}

static bool lower_cast(struct conversion *c)
{
    drop_unless_narrow(c);
    return true;
}

/* Without zeros in the shape, what they would mean changes nothing. */
static bool lower_reshape(struct conversion *c)
{
    int64_t *shape;
    uint32_t count;
    bool zero = false;

    if (c->opset >= 14 || conversion_int(c->n, "allowzero", 0) == 0 ||
        !conversion_constant_ints(c, 1, "shape", &shape, &count))
        return true;
    for (uint32_t i = 0; i < count; i++)
        zero |= shape[i] == 0;
    if (!zero)
        conversion_drop_attr(c, "allowzero");
    return true;
}

/* Training has other outputs before opset 14. */
static bool lower_batch_norm(struct conversion *c)
{
    c->why = "its statistics mean something else before opset 14: attribute 'training_mode' came with it";
    return c->opset >= 14 || c->n->info.output_count == 1;
}

/* C may be left out since opset 11. */
static bool lower_gemm(struct conversion *c)
{
    if (c->opset >= 11 || conversion_input(c, 2) != INLAY_NONE)
        return true;
    edit_set_input(c->e, c->n, 2, conversion_number(c, "_zero", 0));
    return conversion_input(c, 2) != INLAY_NONE;
}

static bool lower_grid_sample(struct conversion *c)
{
    const bool linear = conversion_is_text(c->n, "mode", "linear", true),
               cubic = conversion_is_text(c->n, "mode", "cubic", false);

    if (c->opset >= 20)
        return true;
    if (linear || cubic)
        c->e->failed |= graph_set_attr_string(c->e->g, c->n, "mode", linear ? "bilinear" : "bicubic") != INLAY_OK;
    return true;
}

static bool lower_dft(struct conversion *c)
{
    const uint32_t rank = conversion_rank(c);
    int64_t *list = NULL, axis = -2;
    uint32_t count = 1;

    if (c->opset >= 20)
        return true;
    if (conversion_input(c, 2) != INLAY_NONE && !conversion_constant_ints(c, 2, "axis", &list, &count))
        return false;
    axis = list != NULL && count == 1 ? list[0] : axis;
    if (axis < 0 && rank == INLAY_RANK_UNKNOWN) {
        c->why = "the rank of its input is not known";
        return false;
    }
    edit_int(c->e, c->n, "axis", axis < 0 ? axis + rank : axis);
    conversion_cut_inputs(c, 2);
    return true;
}

static bool lower_scatter(struct conversion *c)
{
    if (c->opset < 11)
        c->n->info.op_type = (inlay_str){ "Scatter", 7 };
    return true;
}

/* ------------------------------------------------------------------ all of it */

static bool takes_axes(const char *op)
{
    static const char *const names[] = { "ReduceMean", "ReduceMax",    "ReduceMin",       "ReduceProd",     "ReduceL1",
                                         "ReduceL2",   "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare" };

    return conversion_is_one_of(op, names, sizeof names / sizeof names[0]);
}

/* What the operator itself needs. since: its version in the model. */
static bool lower_operator(struct conversion *c, const char *op, uint32_t since)
{
    static const struct {
        const char *op;
        bool (*lower)(struct conversion *c);
        uint32_t since;
    } forms[] = { { "Split", lower_split, 13 },
                  { "Clip", lower_clip, 11 },
                  { "Pad", lower_pad, 11 },
                  { "Slice", lower_slice, 10 },
                  { "TopK", lower_top_k, 10 },
                  { "Dropout", lower_dropout, 12 },
                  { "Resize", lower_resize, 10 },
                  { "Upsample", lower_upsample, 9 },
                  { "RoiAlign", lower_roi_align, 16 },
                  { "QuantizeLinear", lower_linear, 13 },
                  { "DequantizeLinear", lower_linear, 13 },
                  { "GridSample", lower_grid_sample, 20 },
                  { "DFT", lower_dft, 20 },
                  { "ScatterElements", lower_scatter, 11 },
                  { "Gemm", lower_gemm, 11 },
                  { "Reshape", lower_reshape, 14 },
                  { "BatchNormalization", lower_batch_norm, 14 },
                  { "Cast", lower_cast, 19 },
                  { "CastLike", lower_cast, 19 } };

    if ((strcmp(op, "Squeeze") == 0 || strcmp(op, "Unsqueeze") == 0 || strcmp(op, "ReduceSum") == 0) && since >= 13 &&
        c->opset < 13)
        return lower_axes(c);
    if (takes_axes(op) && since >= 18 && c->opset < 18)
        return lower_axes(c);
    if ((strcmp(op, "Softmax") == 0 || strcmp(op, "LogSoftmax") == 0 || strcmp(op, "Hardmax") == 0) && since >= 13 &&
        c->opset < 13)
        return lower_softmax(c);
    if (strcmp(op, "Clip") == 0 && c->opset >= 11)
        return true;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (strcmp(op, forms[i].op) == 0 && since >= forms[i].since)
            return forms[i].lower(c);
    return true;
}

bool conversion_lower(struct conversion *c)
{
    const char *op = conversion_op(c);
    const uint32_t since = c->n->info.since_version;
    static const char *const equal_shapes[] = { "Sum", "Max", "Min", "Mean" };
    const op_row *row;

    if (strcmp(op, "GroupNormalization") == 0 && since >= 21 && c->opset < 21)
        return conversion_expand(c);
    if (strcmp(op, "Shape") == 0 && c->opset < 15 &&
        (conversion_int(c->n, "start", 0) != 0 || conversion_stated(c->n, "end") != NULL))
        return conversion_expand(c);
    if (conversion_row(c) == NULL && strcmp(op, "Resize") != 0 && strcmp(op, "ScatterElements") != 0)
        return conversion_expand(c);
    if (strcmp(op, "Scan") == 0 && c->opset < 9) {
        c->why = "it means another thing before opset 9";
        return false;
    }
    if (c->opset < 8 && since >= 8 && conversion_is_one_of(op, equal_shapes, 4) && !conversion_has_one_shape(c))
        return false;
    if (!lower_operator(c, op, since))
        return false;
    if (c->opset < 11 && !conversion_lower_axes(c))
        return false;
    row = conversion_row(c);
    if (row == NULL || (row->flags & OP_DEPRECATED) != 0)
        return false;
    return graph_refit(c->e->g, c->n, row, true, &c->why);
}
