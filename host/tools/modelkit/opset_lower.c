/* Converts operators to an earlier opset: inputs become attributes, and newer attributes are removed. */
#include "base/element.h"
#include "base/among.h"
#include "graph/change_version.h"
#include "modelkit/opset_parts.h"
#include <math.h>
#include <string.h>

/* Element i of an integer constant. */
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

/* Is input i present and constant? *out_list (memory of the arena) receives its integers. False: conversion->why holds
 * the reason. */
static bool conversion_constant_ints(struct conversion *conversion, uint32_t i, const char *what, int64_t **out_list,
                                     uint32_t *out_count)
{
    const uint32_t value = conversion_input(conversion, i);
    const inlay_value_info *info = value == INLAY_NONE ? NULL : &conversion->editor->graph->values[value].info;
    int64_t count = 1;

    *out_list = NULL;
    *out_count = 0;
    if (info == NULL || (info->flags & INLAY_VALUE_CONSTANT) == 0 || info->rank > 1 ||
        (info->dtype != INLAY_INT64 && info->dtype != INLAY_INT32)) {
        conversion->why = arena_format(&conversion->editor->graph->model->arena, "its %s are computed", what);
        return false;
    }
    if (info->rank == 1)
        count = info->dims[0].value;
    *out_list = arena_array(&conversion->editor->graph->model->arena, (size_t)count + 1, sizeof **out_list);
    conversion->editor->failed = conversion->editor->failed || *out_list == NULL;
    for (int64_t k = 0; *out_list != NULL && k < count; k++)
        (*out_list)[k] = int_at(info, k);
    *out_count = *out_list != NULL ? (uint32_t)count : 0;
    return *out_list != NULL;
}

/* Turns input i, a constant list of integers, into an attribute. */
static bool ints_to_attr(struct conversion *conversion, uint32_t i, const char *attr)
{
    int64_t *list;
    uint32_t count;

    if (conversion_input(conversion, i) == INLAY_NONE)
        return true;
    if (!conversion_constant_ints(conversion, i, attr, &list, &count))
        return false;
    conversion->editor->failed |=
        graph_set_attr_ints(conversion->editor->graph, conversion->node, attr, list, count) != INLAY_OK;
    return true;
}

static bool float_to_attr(struct conversion *conversion, uint32_t i, const char *attr)
{
    const uint32_t value = conversion_input(conversion, i);
    const inlay_value_info *info = value == INLAY_NONE ? NULL : &conversion->editor->graph->values[value].info;
    double number;

    if (info == NULL)
        return true;
    if ((info->flags & INLAY_VALUE_CONSTANT) == 0 || !element_is_float(info->dtype) ||
        info->data_bytes * 8 != inlay_dtype_bits(info->dtype) ||
        !element_number(info->dtype, info->data, 0, &number, NULL) ||
        (isfinite(number) && (double)(float)number != number)) {
        conversion->why = arena_format(&conversion->editor->graph->model->arena,
                                       "its %s is not a constant that float represents exactly", attr);
        return false;
    }
    conversion->editor->failed |=
        graph_set_attr_float(conversion->editor->graph, conversion->node, attr, number) != INLAY_OK;
    return true;
}

static bool lower_axes(struct conversion *conversion)
{
    int64_t *axes;
    uint32_t count = 0;

    if (conversion_input(conversion, 1) != INLAY_NONE &&
        !conversion_constant_ints(conversion, 1, "axes", &axes, &count))
        return false;
    if (count == 0 && graph_attr_int(conversion->node, "noop_with_empty_axes", 0) != 0) {
        conversion->why = "without axes, attribute 'noop_with_empty_axes' makes it reduce nothing";
        return false;
    }
    conversion_drop_attr(conversion, "noop_with_empty_axes");
    if (count > 0 && !ints_to_attr(conversion, 1, "axes"))
        return false;
    conversion_cut_inputs(conversion, 1);
    return true;
}

/* Before opset 13 Softmax treats all axes from `axis` on as one axis. For the last axis this makes no difference, so
 * any other axis is transposed to the end. */
static bool lower_softmax(struct conversion *conversion)
{
    const uint32_t rank = conversion_rank(conversion), made = conversion->node->info.outputs[0];
    int64_t axis = graph_attr_int(conversion->node, "axis", -1), order[INLAY_MAX_RANK];
    graph_node *there, *back;
    uint32_t moved, in;

    if (rank == INLAY_RANK_UNKNOWN || rank == 0) {
        conversion->why = "the rank of its input is not known";
        return false;
    }
    axis += axis < 0 ? rank : 0;
    conversion_drop_attr(conversion, "axis");
    edit_int(conversion->editor, conversion->node, "axis", (int64_t)rank - 1);
    if (axis == (int64_t)rank - 1)
        return true;
    for (uint32_t axis_index = 0; axis_index < rank; axis_index++)
        order[axis_index] = axis_index;
    order[axis] = (int64_t)rank - 1;
    order[rank - 1] = axis;
    in = conversion_input(conversion, 0);
    moved = edit_node(conversion->editor, conversion_name(conversion), "_moved", "Transpose", "", &in, 1, &there);
    in = conversion_take_output(conversion, "_last");
    (void)edit_node(conversion->editor, conversion_name(conversion), "_back", "Transpose", "", &in, 1, &back);
    if (there == NULL || back == NULL)
        return false;
    edit_input(conversion->node, 0, moved);
    *(uint32_t *)(uintptr_t)back->info.outputs = made;
    conversion->editor->failed |=
        graph_set_attr_ints(conversion->editor->graph, there, "perm", order, rank) != INLAY_OK ||
        graph_set_attr_ints(conversion->editor->graph, back, "perm", order, rank) != INLAY_OK;
    return true;
}

/* Without sizes, num_outputs divides the axis into equal parts, the last of which may be smaller; older opsets require
 * equal parts or sizes. */
static bool lower_split(struct conversion *conversion)
{
    const inlay_attr_info *parts = graph_own_attr(conversion->node, "num_outputs");
    const uint32_t rank = conversion_rank(conversion), outputs = conversion->node->info.output_count;
    int64_t axis = graph_attr_int(conversion->node, "axis", 0);
    int64_t *sizes;

    if (parts != NULL && conversion_input(conversion, 1) == INLAY_NONE) {
        const inlay_dim *dim;

        axis += axis < 0 && rank != INLAY_RANK_UNKNOWN ? rank : 0;
        dim = rank != INLAY_RANK_UNKNOWN && axis < (int64_t)rank
                  ? &conversion->editor->graph->values[conversion_input(conversion, 0)].info.dims[axis]
                  : NULL;
        if (dim == NULL || dim->kind != INLAY_DIM_FIXED) {
            conversion->why = "the size of the split axis is not known";
            return false;
        }
        if (dim->value % outputs != 0) {
            const int64_t part = (dim->value + outputs - 1) / outputs;

            sizes = arena_array(&conversion->editor->graph->model->arena, outputs, sizeof *sizes);
            for (uint32_t i = 0; sizes != NULL && i < outputs; i++)
                sizes[i] = i + 1 < outputs ? part : dim->value - part * (outputs - 1);
            conversion->editor->failed = conversion->editor->failed || sizes == NULL;
            if (sizes != NULL)
                edit_set_input(conversion->editor, conversion->node, 1,
                               conversion_ints(conversion, "_sizes", sizes, outputs));
        }
    }
    conversion_drop_attr(conversion, "num_outputs");
    if (conversion->opset >= 13)
        return true;
    if (!ints_to_attr(conversion, 1, "split"))
        return false;
    conversion_cut_inputs(conversion, 1);
    return true;
}

static bool lower_clip(struct conversion *conversion)
{
    if (!float_to_attr(conversion, 1, "min") || !float_to_attr(conversion, 2, "max"))
        return false;
    conversion_cut_inputs(conversion, 1);
    return true;
}

/* Extends pads of some axes to all axes, with 0 for the others. */
static bool spread_pads(struct conversion *conversion)
{
    const uint32_t rank = conversion_rank(conversion);
    int64_t *pads, *axes, *all;
    uint32_t count, pad_count;

    if (conversion_input(conversion, 3) == INLAY_NONE)
        return true;
    if (rank == INLAY_RANK_UNKNOWN) {
        conversion->why = "the rank of its input is not known";
        return false;
    }
    if (!conversion_constant_ints(conversion, 1, "pads", &pads, &pad_count) ||
        !conversion_constant_ints(conversion, 3, "axes", &axes, &count))
        return false;
    all = arena_array(&conversion->editor->graph->model->arena, (size_t)rank * 2 + 1, sizeof *all);
    conversion->editor->failed = conversion->editor->failed || all == NULL;
    for (uint32_t i = 0; all != NULL && i < count && pad_count == 2 * count; i++) {
        const int64_t axis = axes[i] + (axes[i] < 0 ? rank : 0);

        if (axis < 0 || axis >= (int64_t)rank)
            return false;
        all[axis] = pads[i];
        all[axis + rank] = pads[i + count];
    }
    if (all != NULL)
        edit_set_input(conversion->editor, conversion->node, 1, conversion_ints(conversion, "_pads", all, rank * 2));
    conversion_cut_inputs(conversion, 3);
    return all != NULL;
}

static bool lower_pad(struct conversion *conversion)
{
    if (conversion->opset < 18 && !spread_pads(conversion))
        return false;
    if (conversion->opset >= 11)
        return true;
    if (!float_to_attr(conversion, 2, "value") || !ints_to_attr(conversion, 1, "pads"))
        return false;
    conversion_cut_inputs(conversion, 1);
    return true;
}

static bool lower_slice(struct conversion *conversion)
{
    int64_t *steps;
    uint32_t count = 0;

    if (conversion->opset >= 10)
        return true;
    if (conversion_input(conversion, 4) != INLAY_NONE &&
        !conversion_constant_ints(conversion, 4, "steps", &steps, &count))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (steps[i] != 1) {
            conversion->why = "steps came with opset 10";
            return false;
        }
    if (!ints_to_attr(conversion, 1, "starts") || !ints_to_attr(conversion, 2, "ends") ||
        !ints_to_attr(conversion, 3, "axes"))
        return false;
    conversion_cut_inputs(conversion, 1);
    return true;
}

static bool lower_top_k(struct conversion *conversion)
{
    int64_t *list;
    uint32_t count;

    if (conversion->opset >= 10)
        return true;
    if (!conversion_constant_ints(conversion, 1, "k", &list, &count) || count != 1)
        return false;
    edit_int(conversion->editor, conversion->node, "k", list[0]);
    conversion_cut_inputs(conversion, 1);
    return true;
}

/* Without training, Dropout has no effect. */
static bool lower_dropout(struct conversion *conversion)
{
    const uint32_t value = conversion_input(conversion, 2);
    const inlay_value_info *info = value == INLAY_NONE ? NULL : &conversion->editor->graph->values[value].info;

    if (conversion->opset >= 12)
        return true;
    if (info != NULL &&
        ((info->flags & INLAY_VALUE_CONSTANT) == 0 || info->data_bytes != 1 || *(const uint8_t *)info->data != 0)) {
        conversion->why = "training came with opset 12";
        return false;
    }
    conversion_drop_attr(conversion, "seed");
    conversion_cut_inputs(conversion, 1);
    return true;
}

bool conversion_is_text(const graph_node *node, const char *attr, const char *text, bool otherwise)
{
    const inlay_attr_info *attribute = graph_own_attr(node, attr);

    return attribute == NULL ? otherwise : attribute->kind == INLAY_ATTR_STRING && strcmp(attribute->s.data, text) == 0;
}

/* Turns the scales input of Upsample-9 into the attribute of Upsample-7. */
static bool lower_upsample(struct conversion *conversion)
{
    const uint32_t scales = conversion_input(conversion, 1);
    const inlay_value_info *info = scales == INLAY_NONE ? NULL : &conversion->editor->graph->values[scales].info;
    inlay_attr_info attr = { .name = { "scales", 6 }, .kind = INLAY_ATTR_FLOATS };
    float *copy;

    if (conversion->opset >= 9)
        return true;
    if (info == NULL || (info->flags & INLAY_VALUE_CONSTANT) == 0 || info->dtype != INLAY_FLOAT) {
        conversion->why = "its scales are computed";
        return false;
    }
    copy = arena_copy(&conversion->editor->graph->model->arena, info->data, (size_t)info->data_bytes);
    attr.floats = copy;
    attr.count = (uint32_t)(info->data_bytes / sizeof *copy);
    conversion->editor->failed |=
        copy == NULL || graph_set_attr(conversion->editor->graph, conversion->node, &attr) != INLAY_OK;
    conversion_cut_inputs(conversion, 1);
    return copy != NULL;
}

/* Converts Resize to Resize-10 or Upsample, whose grids are asymmetric and rounded down. */
static bool lower_to_scales(struct conversion *conversion)
{
    const bool nearest = conversion_is_text(conversion->node, "mode", "nearest", true);
    const uint32_t scales = conversion_input(conversion, 2);
    const inlay_value_info *info = scales == INLAY_NONE ? NULL : &conversion->editor->graph->values[scales].info;

    if (info == NULL || info->data_bytes == 0 || conversion_input(conversion, 3) != INLAY_NONE ||
        !conversion_is_text(conversion->node, "coordinate_transformation_mode", "asymmetric", false) ||
        conversion_is_text(conversion->node, "mode", "cubic", false) ||
        (nearest && !conversion_is_text(conversion->node, "nearest_mode", "floor", false))) {
        conversion->why = "before opset 11 Resize supports only asymmetric grids with floor and scales";
        return false;
    }
    for (int i = 0; i < 5; i++) {
        static const char *const names[] = { "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside",
                                             "extrapolation_value", "nearest_mode" };

        conversion_drop_attr(conversion, names[i]);
    }
    edit_set_input(conversion->editor, conversion->node, 1, scales);
    conversion_cut_inputs(conversion, 2);
    if (conversion->opset >= 10)
        return true;
    conversion->node->info.op_type = (inlay_str){ "Upsample", 8 };
    return lower_upsample(conversion);
}

/* RoiAlign-10 counts pixels from their corners. */
static bool lower_roi_align(struct conversion *conversion)
{
    if (conversion->opset >= 16)
        return true;
    if (!conversion_is_text(conversion->node, "coordinate_transformation_mode", "output_half_pixel", false)) {
        conversion->why = "half_pixel came with opset 16";
        return false;
    }
    conversion_drop_attr(conversion, "coordinate_transformation_mode");
    return true;
}

static bool lower_resize(struct conversion *conversion)
{
    if (conversion->node->info.since_version >= 11 && conversion->opset < 11)
        return lower_to_scales(conversion);
    if (conversion->node->info.since_version == 10 && conversion->opset < 10) {
        edit_set_input(conversion->editor, conversion->node, 2, conversion_input(conversion, 1));
        conversion->editor->failed |=
            graph_set_attr_string(conversion->editor->graph, conversion->node, "coordinate_transformation_mode",
                                  "asymmetric") != INLAY_OK ||
            graph_set_attr_string(conversion->editor->graph, conversion->node, "nearest_mode", "floor") != INLAY_OK;
        return lower_to_scales(conversion);
    }
    for (uint32_t i = 1; i < 3 && conversion->opset < 13; i++) /* in opset 11 omitted inputs are empty tensors */
        if (conversion_input(conversion, i) == INLAY_NONE) {
            const int64_t none = 0;
            float *data = edit_memory(conversion->editor, sizeof *data);

            edit_set_input(conversion->editor, conversion->node, i,
                           edit_constant(conversion->editor, conversion_name(conversion), i == 1 ? "_roi" : "_scales",
                                         INLAY_FLOAT, 1, &none, data, 0));
        }
    return true;
}

/* Drops attributes that only affect 8-bit float types. */
static void drop_unless_narrow(struct conversion *conversion)
{
    const inlay_dtype to = conversion->editor->graph->values[conversion->node->info.outputs[0]].info.dtype;

    if (to == INLAY_UNDEFINED || (element_is_float(to) && inlay_dtype_bits(to) <= 8))
        return;
    conversion_drop_attr(conversion, "saturate");
    conversion_drop_attr(conversion, "round_mode");
}

/* Adds zero points of the type that output_dtype names, because zero points may be omitted. */
static bool zero_points_of_type(struct conversion *conversion, inlay_dtype dtype, const inlay_value_info *scale)
{
    int64_t dims[INLAY_MAX_RANK], count = 1;
    uint64_t bytes;
    void *zeros;

    if (scale == NULL || scale->rank == INLAY_RANK_UNKNOWN || dtype <= 0 || dtype >= INLAY_DTYPE_COUNT ||
        inlay_dtype_bits(dtype) != 8 || (element_is_float(dtype) && conversion->opset < 19))
        return false;
    for (uint32_t axis = 0; axis < scale->rank; axis++) {
        if (scale->dims[axis].kind != INLAY_DIM_FIXED)
            return false;
        dims[axis] = scale->dims[axis].value;
        count *= dims[axis];
    }
    bytes = ((uint64_t)count * inlay_dtype_bits(dtype) + 7) / 8;
    zeros = edit_memory(conversion->editor, bytes);
    if (zeros != NULL)
        memset(zeros, 0, (size_t)bytes);
    edit_set_input(conversion->editor, conversion->node, 2,
                   edit_constant(conversion->editor, conversion_name(conversion), "_zero", dtype, scale->rank, dims,
                                 zeros, bytes));
    return !conversion->editor->failed;
}

/* Drops attributes whose value the type of scales or zero points implies. */
static bool lower_types(struct conversion *conversion, const inlay_value_info *scale)
{
    const bool quantize = strcmp(conversion_op(conversion), "QuantizeLinear") == 0;
    const uint32_t zero = conversion_input(conversion, 2);
    const inlay_dtype output = (inlay_dtype)graph_attr_int(conversion->node, "output_dtype", 0);
    const inlay_dtype implied = !quantize            ? scale != NULL ? scale->dtype : INLAY_UNDEFINED
                                : zero == INLAY_NONE ? INLAY_UINT8
                                                     : conversion->editor->graph->values[zero].info.dtype;

    if (conversion->opset < 23 && scale != NULL &&
        graph_attr_int(conversion->node, "precision", 0) == (int64_t)scale->dtype)
        conversion_drop_attr(conversion, "precision");
    if (conversion->opset >= (quantize ? 21 : 23) || output == INLAY_UNDEFINED)
        return true;
    if (output != implied && (!quantize || zero != INLAY_NONE || !zero_points_of_type(conversion, output, scale))) {
        conversion->why = arena_format(&conversion->editor->graph->model->arena,
                                       "that opset has no attribute 'output_dtype', and its %s cannot have that type",
                                       quantize ? "zero points" : "scales");
        return false;
    }
    conversion_drop_attr(conversion, "output_dtype");
    return true;
}

/* Before opset 13 QuantizeLinear and DequantizeLinear have a single scale. */
static bool lower_linear(struct conversion *conversion)
{
    const uint32_t value = conversion_input(conversion, 1);
    const inlay_value_info *info = value == INLAY_NONE ? NULL : &conversion->editor->graph->values[value].info;

    if (!lower_types(conversion, info))
        return false;
    if (conversion->opset < 19)
        drop_unless_narrow(conversion);
    if (conversion->opset >= 13)
        return true;
    if (info == NULL || info->rank != 0) {
        conversion->why = "per-channel scales came with opset 13";
        return false;
    }
    conversion_drop_attr(conversion, "axis");
    return true;
}

static bool lower_cast(struct conversion *conversion)
{
    drop_unless_narrow(conversion);
    return true;
}

/* allowzero has no effect if the shape contains no zero. */
static bool lower_reshape(struct conversion *conversion)
{
    int64_t *shape;
    uint32_t count;
    bool zero = false;

    if (conversion->opset >= 14 || graph_attr_int(conversion->node, "allowzero", 0) == 0 ||
        !conversion_constant_ints(conversion, 1, "shape", &shape, &count))
        return true;
    for (uint32_t i = 0; i < count; i++)
        zero |= shape[i] == 0;
    if (!zero)
        conversion_drop_attr(conversion, "allowzero");
    return true;
}

/* Before opset 14 BatchNormalization has other outputs in training mode. */
static bool lower_batch_norm(struct conversion *conversion)
{
    conversion->why = "the meaning of its statistics changed with opset 14, which added attribute 'training_mode'";
    return conversion->opset >= 14 || conversion->node->info.output_count == 1;
}

/* Input C of Gemm is optional since opset 11. */
static bool lower_gemm(struct conversion *conversion)
{
    if (conversion->opset >= 11 || conversion_input(conversion, 2) != INLAY_NONE)
        return true;
    edit_set_input(conversion->editor, conversion->node, 2, conversion_number(conversion, "_zero", 0));
    return conversion_input(conversion, 2) != INLAY_NONE;
}

static bool lower_grid_sample(struct conversion *conversion)
{
    const bool linear = conversion_is_text(conversion->node, "mode", "linear", true),
               cubic = conversion_is_text(conversion->node, "mode", "cubic", false);

    if (conversion->opset >= 20)
        return true;
    if (linear || cubic)
        conversion->editor->failed |= graph_set_attr_string(conversion->editor->graph, conversion->node, "mode",
                                                            linear ? "bilinear" : "bicubic") != INLAY_OK;
    return true;
}

static bool lower_dft(struct conversion *conversion)
{
    const uint32_t rank = conversion_rank(conversion);
    int64_t *list = NULL, axis = -2;
    uint32_t count = 1;

    if (conversion->opset >= 20)
        return true;
    if (conversion_input(conversion, 2) != INLAY_NONE &&
        !conversion_constant_ints(conversion, 2, "axis", &list, &count))
        return false;
    axis = list != NULL && count == 1 ? list[0] : axis;
    if (axis < 0 && rank == INLAY_RANK_UNKNOWN) {
        conversion->why = "the rank of its input is not known";
        return false;
    }
    edit_int(conversion->editor, conversion->node, "axis", axis < 0 ? axis + rank : axis);
    conversion_cut_inputs(conversion, 2);
    return true;
}

static bool lower_scatter(struct conversion *conversion)
{
    if (conversion->opset < 11)
        conversion->node->info.op_type = (inlay_str){ "Scatter", 7 };
    return true;
}

static bool takes_axes(const char *op)
{
    return is_among(op, "ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
                        "ReduceSumSquare");
}

/* Conversions of single operators. since: the operator's version in the model. */
static bool lower_operator(struct conversion *conversion, const char *op, uint32_t since)
{
    static const struct {
        const char *op;
        bool (*lower)(struct conversion *conversion);
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
        conversion->opset < 13)
        return lower_axes(conversion);
    if (takes_axes(op) && since >= 18 && conversion->opset < 18)
        return lower_axes(conversion);
    if ((strcmp(op, "Softmax") == 0 || strcmp(op, "LogSoftmax") == 0 || strcmp(op, "Hardmax") == 0) && since >= 13 &&
        conversion->opset < 13)
        return lower_softmax(conversion);
    if (strcmp(op, "Clip") == 0 && conversion->opset >= 11)
        return true;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (strcmp(op, forms[i].op) == 0 && since >= forms[i].since)
            return forms[i].lower(conversion);
    return true;
}

bool conversion_lower(struct conversion *conversion)
{
    const char *op = conversion_op(conversion);
    const uint32_t since = conversion->node->info.since_version;
    const op_row *row;

    if (strcmp(op, "GroupNormalization") == 0 && since >= 21 && conversion->opset < 21)
        return conversion_expand(conversion);
    if (strcmp(op, "Shape") == 0 && conversion->opset < 15 &&
        (graph_attr_int(conversion->node, "start", 0) != 0 || graph_own_attr(conversion->node, "end") != NULL))
        return conversion_expand(conversion);
    if (conversion_row(conversion) == NULL && strcmp(op, "Resize") != 0 && strcmp(op, "ScatterElements") != 0)
        return conversion_expand(conversion);
    if (strcmp(op, "Scan") == 0 && conversion->opset < 9) {
        conversion->why = "its meaning changed with opset 9";
        return false;
    }
    if (conversion->opset < 8 && since >= 8 && is_among(op, "Sum Max Min Mean") &&
        !conversion_has_one_shape(conversion))
        return false;
    if (!lower_operator(conversion, op, since))
        return false;
    if (conversion->opset < 11 && !conversion_lower_axes(conversion))
        return false;
    row = conversion_row(conversion);
    if (row == NULL || (row->flags & OP_DEPRECATED) != 0)
        return false;
    return graph_change_version(conversion->editor->graph, conversion->node, row, true, &conversion->why);
}
