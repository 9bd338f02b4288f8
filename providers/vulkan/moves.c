/* Operators that only move elements. A reshape is an alias of its input. */
#include "inlay/check.h"
#include "vulkan/region.h"

vulkan_box vulkan_whole_box(const vulkan_tensor *tensor)
{
    vulkan_box box = { .rank = tensor->rank, .pad = PAD_NONE, .fill = INLAY_NONE, .indexes = INLAY_NONE };

    memcpy(box.dims, tensor->dims, tensor->rank * sizeof tensor->dims[0]);
    vulkan_row_major(tensor->dims, tensor->rank, box.to);
    memcpy(box.from, box.to, sizeof box.from);
    return box;
}

inlay_status vulkan_emit_move(vulkan_build *build, vulkan_box *box, uint32_t from, uint32_t to)
{
    const uint32_t size = vulkan_size_of(build->tensors[to].dtype);
    const int64_t *const lists[] = { box->dims, box->from, box->to, box->begin, box->extent, box->index };
    int64_t count = 1;
    vulkan_dispatch *dispatch;

    INLAY_CHECK(box->rank <= 2 * VULKAN_RANK && (box->indexes == INLAY_NONE || box->index_count <= VULKAN_RANK));
    vulkan_allocate_value(build, to);
    for (uint32_t i = 0; i < box->rank; i++)
        count *= box->dims[i];
    if (count == 0)
        return build->status;
    if (box->pad == PAD_NONE)
        box->rank = vulkan_merge_dims(box->rank, box->dims, 3, (int64_t *const[]){ box->from, box->to, box->index });
    if (box->rank > VULKAN_RANK)
        return build->status = inlay_fail(build->diag, INLAY_UNSUPPORTED, "a move in %u dimensions; at most %d",
                                          box->rank, VULKAN_RANK);
    dispatch = vulkan_add_dispatch(build, SHADER_move, 72);
    dispatch->constants[ID_RANK] = box->rank;
    VULKAN_SET_CONSTANTS(dispatch, size, box->pad,
                         box->indexes != INLAY_NONE ? vulkan_size_of(build->tensors[box->indexes].dtype) : 0,
                         box->scatters);
    vulkan_expect_bytes(build, dispatch, (double)count, 2 * size);
    VULKAN_SET_WORDS(build, dispatch, 0, count, box->from_base, box->to_base, 0, box->index_count);
    for (uint32_t i = 0; i < KIT_COUNT(lists); i++)
        vulkan_set_words(build, dispatch, 8 + 8 * i, box->rank, lists[i]);
    vulkan_add_value_operand(build, dispatch, PUSH_OUT, to, true);
    vulkan_add_value_operand(build, dispatch, PUSH_INPUT, from, false);
    if (box->pad == PAD_CONSTANT)
        vulkan_add_value_operand(build, dispatch, PUSH_INPUT + 1, box->fill, false);
    if (box->indexes != INLAY_NONE) {
        vulkan_add_value_operand(build, dispatch, PUSH_INPUT + 2, box->indexes, false);
        vulkan_set_words(build, dispatch, 56, box->index_count, box->axis_size);
        vulkan_set_words(build, dispatch, 64, box->index_count, box->axis_stride);
    }
    return vulkan_grid(build, dispatch, count);
}

inlay_status vulkan_emit_copy(vulkan_build *build, uint32_t from, uint32_t to)
{
    vulkan_box box = vulkan_whole_box(&build->tensors[from]);

    return vulkan_emit_move(build, &box, from, to);
}

static bool view_supports(const kit_node *node, const vulkan_operator *row, kit_refusal *why)
{
    return row->number != 1 || vulkan_is_known(node, 2, why);
}

/* The strides of a reshape of a tensor with these strides; false: no strides express it. */
static bool reshape_strides(const vulkan_tensor *from, const int64_t *strides, const vulkan_tensor *to, int64_t *out)
{
    int64_t dims[VULKAN_RANK], steps[VULKAN_RANK], left = 1, step = 1;
    uint32_t d;

    memcpy(dims, from->dims, sizeof dims);
    memcpy(steps, strides, sizeof steps);
    d = vulkan_merge_dims(from->rank, dims, 1, (int64_t *const[]){ steps });
    for (uint32_t k = to->rank; k-- > 0;) {
        if (left == 1 && to->dims[k] != 1 && d > 0) {
            d--;
            left = dims[d];
            step = steps[d];
        }
        if (to->dims[k] == 0 || left % to->dims[k] != 0)
            return false;
        out[k] = step;
        step *= to->dims[k];
        left /= to->dims[k];
    }
    return true;
}

/* Whether all readers of a value accept these strides of it. */
static bool is_read_by_strides(const vulkan_build *build, uint32_t value, const int64_t *strides)
{
    for (uint32_t index = 0; index < build->compiled->op_count; index++) {
        const vulkan_op *op = &build->compiled->ops[index];
        const vulkan_family *family = op->row->family;

        for (uint32_t i = 0; i < op->info.input_count; i++) {
            const vulkan_tensor *output = &build->tensors[op->info.outputs[0]];
            int64_t reshaped[VULKAN_RANK];

            if (op->info.inputs[i] != value || family->append_slots != NULL)
                continue;
            if (family == &vulkan_view && i == 0 &&
                reshape_strides(&build->tensors[value], strides, output, reshaped) &&
                is_read_by_strides(build, op->info.outputs[0], reshaped))
                continue;
            if (i >= family->strided_inputs || (family->strided_rank > 0 && output->rank > family->strided_rank))
                return false;
        }
    }
    return !vulkan_is_output(build, value);
}

static void set_strides(vulkan_build *build, uint32_t value, const int64_t *strides)
{
    build->tensors[value].strided = true;
    memcpy(build->tensors[value].strides, strides, build->tensors[value].rank * sizeof *strides);
}

static inlay_status lower_view(vulkan_build *build, const vulkan_op *op)
{
    const uint32_t input = op->info.inputs[0], output = op->info.outputs[0];
    int64_t strides[VULKAN_RANK], own[VULKAN_RANK];
    const vulkan_tensor *training = op->row->number == 1 ? vulkan_input(build, op, 2) : NULL;

    if (training != NULL && (training->data == NULL || *(const uint8_t *)training->data != 0))
        return vulkan_decline(build, op, "training_mode is not known to be false");
    if (vulkan_output(build, op, 1) != NULL)
        vulkan_emit_fill(build, op->info.outputs[1],
                         1); /* the mask of Dropout, which keeps all elements at inference */
    if (vulkan_is_output(build, output))
        return vulkan_emit_copy(build, input, output);
    vulkan_alias(build, output, input, 0);
    if (build->tensors[input].strided) {
        vulkan_strides(build, input, own);
        if (!reshape_strides(&build->tensors[input], own, &build->tensors[output], strides))
            return vulkan_decline(build, op, "the strides of its input have no such shape");
        set_strides(build, output, strides);
    }
    return build->status;
}

static inlay_status lower_transpose(vulkan_build *build, const vulkan_op *op)
{
    const uint32_t input = op->info.inputs[0], output = op->info.outputs[0];
    vulkan_box box = vulkan_whole_box(vulkan_output(build, op, 0));
    int64_t strides[VULKAN_RANK];
    uint32_t from[VULKAN_RANK];

    if (!vulkan_permutation(op, build->tensors[input].rank, from))
        return vulkan_decline(build, op, "perm is not a permutation");
    vulkan_strides(build, input, strides);
    for (uint32_t d = 0; d < box.rank; d++)
        box.from[d] = strides[from[d]];
    if (!is_read_by_strides(build, output, box.from))
        return vulkan_emit_move(build, &box, input, output);
    vulkan_alias(build, output, input, 0);
    set_strides(build, output, box.from);
    return build->status;
}

/* number 1: SpaceToDepth. Both are a transpose of [N, s, s, C, H, W] in some order. */
static inlay_status lower_space_depth(vulkan_build *build, const vulkan_op *op)
{
    const bool to_depth = op->row->number != 0;
    const vulkan_tensor *small =
        to_depth ? vulkan_output(build, op, 0) : vulkan_input(build, op, 0); /* the tensor with more channels */
    const int64_t block = kit_attr_int(&op->info, "blocksize", 1);
    const bool crd = strcmp(kit_attr_string(&op->info, "mode", "DCR"), "CRD") == 0;
    const int64_t height = small->dims[2], width = small->dims[3], channels = small->dims[1] / (block * block),
                  images = small->dims[0];
    const int64_t plane = height * width;
    vulkan_box box = {
        .rank = 6, .dims = { images, channels, height, block, width, block }, .pad = PAD_NONE, .indexes = INLAY_NONE
    };
    const int64_t deep[6] = { channels * block * block * plane,
                              crd ? block * block * plane : plane,
                              width,
                              crd ? block * plane : block * channels * plane,
                              1,
                              crd ? plane : channels * plane };
    const int64_t wide[6] = {
        channels * block * block * plane, block * block * plane, block * width * block, width * block, block, 1
    };

    memcpy(box.from, to_depth ? wide : deep, sizeof deep);
    memcpy(box.to, to_depth ? deep : wide, sizeof deep);
    return vulkan_emit_move(build, &box, op->info.inputs[0], op->info.outputs[0]);
}

static inlay_status lower_concat(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *output = vulkan_output(build, op, 0);
    int64_t strides[VULKAN_RANK], at = 0;
    uint32_t axis;

    if (!vulkan_axis_attribute(build, op, 1, output->rank, &axis))
        return build->status;
    vulkan_row_major(output->dims, output->rank, strides);
    for (uint32_t i = 0; i < op->info.input_count; i++) {
        const vulkan_tensor *input = vulkan_input(build, op, i);
        vulkan_box box = vulkan_whole_box(input);

        vulkan_strides(build, op->info.inputs[i], box.from);
        memcpy(box.to, strides, sizeof strides);
        box.to_base = at * strides[axis];
        at += input->dims[axis];
        (void)vulkan_emit_move(build, &box, op->info.inputs[i], op->info.outputs[0]);
    }
    return build->status;
}

/* A slice of a tensor: an alias if its elements are contiguous or all readers accept its strides, otherwise a copy. */
static void emit_slice(vulkan_build *build, uint32_t from, uint32_t to, const int64_t *start, const int64_t *step)
{
    const vulkan_tensor *input = &build->tensors[from], *output = &build->tensors[to];
    vulkan_box box = vulkan_whole_box(output);
    int64_t strides[VULKAN_RANK];
    bool dense = true, forward = output->count > 0;

    vulkan_strides(build, from, strides);
    for (uint32_t d = 0; d < input->rank; d++) {
        box.from[d] = strides[d] * step[d];
        box.from_base += strides[d] * start[d];
        dense &= output->dims[d] == 1 || box.from[d] == box.to[d];
        forward &= step[d] > 0;
    }
    if (vulkan_is_output(build, to) || (!dense && !(forward && is_read_by_strides(build, to, box.from)))) {
        (void)vulkan_emit_move(build, &box, from, to);
        return;
    }
    vulkan_alias(build, to, from, (uint64_t)box.from_base * vulkan_size_of(output->dtype));
    if (!dense)
        set_strides(build, to, box.from);
}

static inlay_status lower_split(vulkan_build *build, const vulkan_op *op)
{
    const int64_t step[VULKAN_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    int64_t start[VULKAN_RANK] = { 0 };
    uint32_t axis;

    if (!vulkan_axis_attribute(build, op, 0, vulkan_input(build, op, 0)->rank, &axis))
        return build->status;
    for (uint32_t i = 0; i < op->info.output_count; i++) {
        if (vulkan_output(build, op, i) == NULL)
            return vulkan_decline(build, op, "an output is omitted");
        emit_slice(build, op->info.inputs[0], op->info.outputs[i], start, step);
        start[axis] += vulkan_output(build, op, i)->dims[axis];
    }
    return build->status;
}

static inlay_status lower_slice(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0);
    int64_t start[VULKAN_RANK] = { 0 }, step[VULKAN_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    int64_t starts[VULKAN_RANK], axes[VULKAN_RANK], steps[VULKAN_RANK];
    const int64_t count = vulkan_attr_or_known_ints(build, op, "starts", 1, starts, VULKAN_RANK);
    const int64_t axis_count = vulkan_attr_or_known_ints(build, op, "axes", 3, axes, VULKAN_RANK);
    const int64_t step_count = vulkan_known_ints(build, op, 4, steps, VULKAN_RANK);

    if (count < 0 || (vulkan_input(build, op, 3) != NULL && axis_count != count) ||
        (vulkan_input(build, op, 4) != NULL && step_count != count))
        return vulkan_decline(build, op, "its bounds are not known before the run");
    for (int64_t i = 0; i < count; i++) {
        const int64_t named = i < axis_count ? axes[i] : i, stride = i < step_count ? steps[i] : 1;
        int64_t size, at = starts[i];
        uint32_t axis;

        if (!vulkan_require_axis(build, op, named, input->rank, &axis))
            return build->status;
        size = input->dims[axis];
        at += at < 0 ? size : 0;
        at = at < 0 ? 0 : at > size ? size : at;
        start[axis] = stride < 0 && at > size - 1 ? size - 1 : at;
        step[axis] = stride;
    }
    emit_slice(build, op->info.inputs[0], op->info.outputs[0], start, step);
    return build->status;
}

static inlay_status lower_pad(vulkan_build *build, const vulkan_op *op)
{
    static const char *const modes[] = { [PAD_EDGE] = "edge", [PAD_REFLECT] = "reflect", [PAD_WRAP] = "wrap" };
    const vulkan_tensor *input = vulkan_input(build, op, 0);
    const char *mode = kit_attr_string(&op->info, "mode", "constant");
    vulkan_box box = vulkan_whole_box(vulkan_output(build, op, 0));
    int64_t pads[2 * VULKAN_RANK], axes[VULKAN_RANK];
    const int64_t pad_count = vulkan_attr_or_known_ints(build, op, "pads", 1, pads, 2 * VULKAN_RANK);
    const int64_t given_axes = vulkan_known_ints(build, op, 3, axes, VULKAN_RANK),
                  axis_count = vulkan_input(build, op, 3) != NULL ? given_axes : input->rank;

    if (axis_count < 0 || pad_count != 2 * axis_count)
        return vulkan_decline(build, op, "its pads are not known before the run");
    if (input->count == 0)
        return vulkan_decline(build, op, "the input is empty");
    vulkan_row_major(input->dims, input->rank, box.from);
    memcpy(box.extent, input->dims, input->rank * sizeof input->dims[0]);
    for (int64_t i = 0; i < axis_count; i++) {
        const int64_t named = i < given_axes ? axes[i] : i;
        uint32_t axis;

        if (!vulkan_require_axis(build, op, named, input->rank, &axis))
            return build->status;
        box.begin[axis] = pads[i];
    }
    box.fill = vulkan_input_value(op, 2);
    box.pad = box.fill != INLAY_NONE ? PAD_CONSTANT : PAD_ZERO;
    for (uint32_t k = PAD_EDGE; k < KIT_COUNT(modes); k++)
        box.pad = strcmp(mode, modes[k]) == 0 ? k : box.pad;
    /* A negative pad crops the input before the other modes look for the nearest element of it. */
    for (int64_t i = 0; box.pad != PAD_ZERO && box.pad != PAD_CONSTANT && i < pad_count; i++)
        if (pads[i] < 0)
            return vulkan_decline(build, op, "with negative pads, only mode constant is supported");
    return vulkan_emit_move(build, &box, op->info.inputs[0], op->info.outputs[0]);
}

static bool pad_supports(const kit_node *node, const vulkan_operator *row, kit_refusal *why)
{
    (void)row;
    return kit_attr_float(node->info, "value", 0) == 0 ||
           kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "convert the model to opset 11",
                      "padding with a value other than 0");
}

/* The result repeats the input along each dimension. */
static inlay_status lower_tile(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0), *output = vulkan_output(build, op, 0);
    const uint32_t first = output->rank - input->rank;
    int64_t from[VULKAN_RANK], to[VULKAN_RANK];
    vulkan_box box = { .rank = 2 * output->rank, .pad = PAD_NONE, .indexes = INLAY_NONE };

    vulkan_row_major(input->dims, input->rank, from);
    vulkan_row_major(output->dims, output->rank, to);
    for (uint32_t d = 0; d < output->rank; d++) {
        const int64_t size = d >= first ? input->dims[d - first] : 1;

        if (size == 0 || output->dims[d] % size != 0)
            return vulkan_decline(build, op, "the output shape is not a multiple of the input shape");
        box.dims[2 * d] = output->dims[d] / size;
        box.to[2 * d] = to[d] * size;
        box.dims[2 * d + 1] = size;
        box.from[2 * d + 1] = d >= first ? from[d - first] : 0;
        box.to[2 * d + 1] = to[d];
    }
    return vulkan_emit_move(build, &box, op->info.inputs[0], op->info.outputs[0]);
}

const vulkan_family vulkan_view = { .supports = view_supports, .lower = lower_view, .multiple_outputs = true };
const vulkan_family vulkan_transpose = { .lower = lower_transpose, .strided_inputs = 1 };
const vulkan_family vulkan_space_depth = { .lower = lower_space_depth, .min_rank = 4, .max_rank = 4 };
const vulkan_family vulkan_concat = { .lower = lower_concat, .strided_inputs = UINT8_MAX };
const vulkan_family vulkan_split = {
    .lower = lower_split, .multiple_outputs = true, .may_be_part_empty = true, .strided_inputs = 1
};
const vulkan_family vulkan_slice = { .lower = lower_slice, .needs_known_inputs = true, .strided_inputs = 1 };
const vulkan_family vulkan_pad = { .supports = pad_supports, .lower = lower_pad, .needs_known_inputs = true };
const vulkan_family vulkan_tile = { .lower = lower_tile };
