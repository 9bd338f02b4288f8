#include "modelkit/opset_parts.h"
#include "inlay/check.h"
#include "graph/change_version.h"
#include "model/model.h"
#include <string.h>

/* Turns an attribute with a list of integers into an input. */
static void ints_to_input(struct conversion *conversion, const char *attr, uint32_t i)
{
    const inlay_attr_info *attribute = graph_own_attr(conversion->node, attr);

    if (attribute == NULL)
        return;
    if (attribute->kind == INLAY_ATTR_INTS)
        edit_set_input(conversion->editor, conversion->node, i,
                       conversion_ints(conversion, attr, attribute->ints, attribute->count));
    else if (attribute->kind == INLAY_ATTR_INT)
        edit_set_input(conversion->editor, conversion->node, i, conversion_ints(conversion, attr, &attribute->i, 1));
    conversion_drop_attr(conversion, attr);
}

/* Turns an attribute with a number into an input with the type of input 0. */
static bool number_to_input(struct conversion *conversion, const char *attr, uint32_t i)
{
    const inlay_attr_info *attribute = graph_own_attr(conversion->node, attr);
    uint32_t value;

    if (attribute == NULL)
        return true;
    value = conversion_number(conversion, attr, attribute->f);
    if (value == INLAY_NONE)
        return false;
    edit_set_input(conversion->editor, conversion->node, i, value);
    conversion_drop_attr(conversion, attr);
    return true;
}

static bool raise_axes(struct conversion *conversion)
{
    const bool early = strcmp(conversion_op(conversion), "Squeeze") == 0 ||
                       strcmp(conversion_op(conversion), "Unsqueeze") == 0 ||
                       strcmp(conversion_op(conversion), "ReduceSum") == 0;

    if (conversion->opset >= (early ? 13 : 18))
        ints_to_input(conversion, "axes", 1);
    return true;
}

static bool raise_reshape(struct conversion *conversion)
{
    ints_to_input(conversion, "shape", 1);
    return true;
}

/* Before opset 13 Softmax flattens all axes from `axis` on into one. */
static bool raise_softmax(struct conversion *conversion)
{
    const uint32_t in = conversion->node->info.inputs[0], out = conversion->node->info.outputs[0];
    const uint32_t rank = conversion->editor->graph->values[in].info.rank;
    int64_t axis = graph_attr_int(conversion->node, "axis", 1);
    uint32_t flat, shape, back[2];
    graph_node *flatten, *reshape;

    if (conversion->node->info.since_version >= 13 || conversion->opset < 13)
        return true;
    axis += axis < 0 && rank != INLAY_RANK_UNKNOWN ? rank : 0;
    conversion_drop_attr(conversion, "axis");
    edit_int(conversion->editor, conversion->node, "axis", -1);
    if (rank != INLAY_RANK_UNKNOWN && axis == (int64_t)rank - 1)
        return true;
    flat = edit_node(conversion->editor, conversion_name(conversion), "_flat", "Flatten", "", &in, 1, &flatten);
    edit_int(conversion->editor, flatten, "axis", axis);
    shape = edit_node(conversion->editor, conversion_name(conversion), "_shape", "Shape", "", &in, 1, NULL);
    back[0] = INLAY_NONE;
    back[1] = shape;
    *(uint32_t *)(uintptr_t)conversion->node->info.outputs =
        edit_node(conversion->editor, conversion_name(conversion), "_rows", "Reshape", "", back, 2, &reshape);
    if (reshape == NULL || flatten == NULL)
        return false;
    edit_input(reshape, 0, conversion->node->info.outputs[0]);
    *(uint32_t *)(uintptr_t)reshape->info.outputs = out;
    edit_input(conversion->node, 0, flat);
    return true;
}

static bool raise_split(struct conversion *conversion)
{
    const bool has_sizes = graph_own_attr(conversion->node, "split") != NULL || conversion->node->info.input_count > 1;

    if (conversion->node->info.since_version < 13 && conversion->opset >= 13)
        ints_to_input(conversion, "split", 1);
    if (conversion->opset >= 18 && !has_sizes && graph_own_attr(conversion->node, "num_outputs") == NULL)
        edit_int(conversion->editor, conversion->node, "num_outputs", conversion->node->info.output_count);
    return true;
}

/* The empty input of Resize-11 for an omitted operand. */
static uint32_t no_floats(struct conversion *conversion)
{
    const int64_t none = 0;

    return edit_constant(conversion->editor, conversion_name(conversion), "_none", INLAY_FLOAT, 1, &none,
                         edit_memory(conversion->editor, 1), 0);
}

/* The first versions of Resize and Upsample map pixels as "asymmetric" does. */
static bool raise_upsample(struct conversion *conversion)
{
    uint32_t scales = conversion_input(conversion, 1);
    const inlay_attr_info *list = graph_own_attr(conversion->node, "scales"),
                          *mode = graph_own_attr(conversion->node, "mode");
    const bool nearest = mode == NULL || strcmp(mode->s.data, "nearest") == 0;

    if (conversion->opset < 9 || (conversion->opset < 11 && strcmp(conversion_op(conversion), "Resize") == 0))
        return true;
    if (conversion->opset >= 11)
        edit_set_input(conversion->editor, conversion->node, 1,
                       conversion->opset >= 13 ? INLAY_NONE : no_floats(conversion));
    if (list != NULL && list->kind == INLAY_ATTR_FLOATS) {
        const int64_t dims[] = { list->count };
        float *data = edit_memory(conversion->editor, (uint64_t)list->count * sizeof *data);

        for (uint32_t i = 0; data != NULL && i < list->count; i++)
            data[i] = (float)list->floats[i];
        scales = edit_constant(conversion->editor, conversion_name(conversion), "scales", INLAY_FLOAT, 1, dims, data,
                               (uint64_t)list->count * sizeof *data);
        conversion_drop_attr(conversion, "scales");
    }
    edit_set_input(conversion->editor, conversion->node, conversion->opset >= 11 ? 2 : 1, scales);
    if (conversion->opset < 10)
        return true;
    conversion->node->info.op_type = (inlay_str){ "Resize", 6 };
    if (conversion->opset < 11)
        return true;
    conversion->editor->failed |= graph_set_attr_string(conversion->editor->graph, conversion->node,
                                                        "coordinate_transformation_mode", "asymmetric") != INLAY_OK;
    if (nearest)
        conversion->editor->failed |=
            graph_set_attr_string(conversion->editor->graph, conversion->node, "nearest_mode", "floor") != INLAY_OK;
    return true;
}

/* tf_half_pixel_for_nn with floor equals half_pixel with round_prefer_ceil. */
static bool raise_resize(struct conversion *conversion)
{
    if (conversion->node->info.since_version < 11)
        return raise_upsample(conversion);
    if (conversion->node->info.since_version < 13 && conversion->opset >= 13 &&
        conversion_is_text(conversion->node, "coordinate_transformation_mode", "tf_half_pixel_for_nn", false) &&
        conversion_is_text(conversion->node, "mode", "nearest", true) &&
        conversion_is_text(conversion->node, "nearest_mode", "floor", false))
        conversion->editor->failed |=
            graph_set_attr_string(conversion->editor->graph, conversion->node, "coordinate_transformation_mode",
                                  "half_pixel") != INLAY_OK ||
            graph_set_attr_string(conversion->editor->graph, conversion->node, "nearest_mode", "round_prefer_ceil") !=
                INLAY_OK;
    return true;
}

static bool raise_slice(struct conversion *conversion)
{
    if (conversion->opset < 10)
        return true;
    ints_to_input(conversion, "starts", 1);
    ints_to_input(conversion, "ends", 2);
    ints_to_input(conversion, "axes", 3);
    return true;
}

/* Repeats a constant scale or bias of groups for each channel of a group. */
static uint32_t repeated(struct conversion *conversion, uint32_t value, int64_t times, const char *suffix)
{
    const inlay_value_info *info = value == INLAY_NONE ? NULL : &conversion->editor->graph->values[value].info;
    const int64_t groups = info == NULL || info->rank != 1 ? 0 : info->dims[0].value;
    const int64_t channels = groups * times;
    float *data, element;

    if (groups == 0 || (info->flags & INLAY_VALUE_CONSTANT) == 0 || info->dtype != INLAY_FLOAT)
        return INLAY_NONE;
    data = edit_memory(conversion->editor, (uint64_t)channels * sizeof *data);
    for (int64_t i = 0; data != NULL && i < channels; i++) {
        memcpy(&element, (const char *)info->data + (size_t)(i / times) * sizeof element, sizeof element);
        data[i] = element;
    }
    return edit_constant(conversion->editor, conversion_name(conversion), suffix, INLAY_FLOAT, 1, &channels, data,
                         (uint64_t)channels * sizeof *data);
}

static bool raise_group_norm(struct conversion *conversion)
{
    const inlay_value_info *input = &conversion->editor->graph->values[conversion_input(conversion, 0)].info;
    const int64_t groups = graph_attr_int(conversion->node, "num_groups", 0);
    uint32_t scale, bias;

    if (conversion->node->info.since_version >= 21 || conversion->opset < 21)
        return true;
    conversion->why = "its channel count is not known, or its scale and bias are not constant floats";
    if (input->rank == INLAY_RANK_UNKNOWN || input->rank < 2 || input->dims[1].kind != INLAY_DIM_FIXED || groups <= 0)
        return false;
    scale = repeated(conversion, conversion_input(conversion, 1), input->dims[1].value / groups, "_scales");
    bias = repeated(conversion, conversion_input(conversion, 2), input->dims[1].value / groups, "_biases");
    if (scale == INLAY_NONE || bias == INLAY_NONE)
        return false;
    edit_input(conversion->node, 1, scale);
    edit_input(conversion->node, 2, bias);
    return true;
}

static bool raise_dft(struct conversion *conversion)
{
    const int64_t axis = graph_attr_int(conversion->node, "axis", 1);
    int64_t *data;

    if (conversion->node->info.since_version >= 20 || conversion->opset < 20)
        return true;
    data = edit_memory(conversion->editor, sizeof *data);
    if (data != NULL)
        *data = axis;
    edit_set_input(conversion->editor, conversion->node, 2,
                   edit_constant(conversion->editor, conversion_name(conversion), "_axis", INLAY_INT64, 0, NULL, data,
                                 sizeof *data));
    conversion_drop_attr(conversion, "axis");
    return true;
}

static bool raise_grid_sample(struct conversion *conversion)
{
    const inlay_attr_info *mode = graph_attr(conversion->node, "mode");

    if (conversion->opset >= 20 && mode != NULL && mode->kind == INLAY_ATTR_STRING &&
        strncmp(mode->s.data, "bi", 2) == 0)
        conversion->editor->failed |=
            graph_set_attr_string(conversion->editor->graph, conversion->node, "mode", mode->s.data + 2) != INLAY_OK;
    return true;
}

static bool raise_clip(struct conversion *conversion)
{
    return conversion->opset < 11 || (number_to_input(conversion, "min", 1) && number_to_input(conversion, "max", 2));
}

static bool raise_pad(struct conversion *conversion)
{
    if (conversion->node->info.since_version >= 11 || conversion->opset < 11)
        return true;
    ints_to_input(conversion, "pads", 1);
    return number_to_input(conversion, "value", 2);
}

static bool raise_top_k(struct conversion *conversion)
{
    if (conversion->opset >= 10)
        ints_to_input(conversion, "k", 1);
    return true;
}

static bool raise_scatter(struct conversion *conversion)
{
    if (conversion->opset >= 11)
        conversion->node->info.op_type = (inlay_str){ "ScatterElements", 15 };
    return true;
}

static bool raise_roi_align(struct conversion *conversion)
{
    if (conversion->node->info.since_version < 16 && conversion->opset >= 16)
        conversion->editor->failed |=
            graph_set_attr_string(conversion->editor->graph, conversion->node, "coordinate_transformation_mode",
                                  "output_half_pixel") != INLAY_OK;
    return true;
}

/* Before opset 14 a BatchNormalization with more than one output is in training mode; with one output, is_test has no
 * effect. */
static bool raise_batch_norm(struct conversion *conversion)
{
    if (conversion->node->info.output_count > 1 && conversion->node->info.since_version < 14) {
        conversion->why = "the meaning of its statistics changed with opset 14";
        return conversion->opset < 14 && conversion->node->info.since_version >= 7;
    }
    if (conversion->node->info.since_version < 7)
        edit_int(conversion->editor, conversion->node, "is_test", 1);
    return true;
}

static bool raise_scan(struct conversion *conversion)
{
    conversion->why = "its meaning changed with opset 9";
    return conversion->node->info.since_version >= 9;
}

/* Drops the ratio, which has no effect in inference. */
static bool raise_dropout(struct conversion *conversion)
{
    if (conversion->node->info.since_version < 12 && conversion->opset >= 12)
        conversion_drop_attr(conversion, "ratio");
    return true;
}

/* Converts the node to the later opset. True: done. */
static bool raise_node(struct conversion *conversion)
{
    static const struct {
        const char *op;
        bool (*raise)(struct conversion *conversion);
    } forms[] = {
        { "Reshape", raise_reshape },
        { "Squeeze", raise_axes },
        { "Unsqueeze", raise_axes },
        { "ReduceSum", raise_axes },
        { "ReduceMean", raise_axes },
        { "ReduceMax", raise_axes },
        { "ReduceMin", raise_axes },
        { "ReduceProd", raise_axes },
        { "ReduceL1", raise_axes },
        { "ReduceL2", raise_axes },
        { "ReduceLogSum", raise_axes },
        { "ReduceLogSumExp", raise_axes },
        { "ReduceSumSquare", raise_axes },
        { "Softmax", raise_softmax },
        { "LogSoftmax", raise_softmax },
        { "Hardmax", raise_softmax },
        { "Split", raise_split },
        { "Clip", raise_clip },
        { "Pad", raise_pad },
        { "Slice", raise_slice },
        { "TopK", raise_top_k },
        { "Upsample", raise_upsample },
        { "Resize", raise_resize },
        { "DFT", raise_dft },
        { "BatchNormalization", raise_batch_norm },
        { "GridSample", raise_grid_sample },
        { "GroupNormalization", raise_group_norm },
        { "Scatter", raise_scatter },
        { "RoiAlign", raise_roi_align },
        { "Scan", raise_scan },
        { "Dropout", raise_dropout },
    };
    const op_row *row;

    if (conversion->node->info.since_version < 7 && !conversion_raise_early(conversion))
        return false;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (strcmp(conversion_op(conversion), forms[i].op) == 0) {
            if (!forms[i].raise(conversion))
                return false;
            break;
        }
    row = conversion_row(conversion);
    return row != NULL &&
           graph_change_version(conversion->editor->graph, conversion->node, row, true, &conversion->why);
}

/* Marks the node as converted, so that saving the model does not check it again. */
static void mark_converted(graph_node *node, int64_t opset)
{
    node->row = NULL;
    node->schema = NULL;
    node->opset = opset;
}

static inlay_status fail_no_form(const struct conversion *conversion, inlay_diag *diag)
{
    return graph_fail(conversion->editor->graph, conversion->node, NULL, INLAY_UNSUPPORTED, diag,
                      "%.48s-%u has no form in opset %lld%s%s", conversion_op(conversion),
                      conversion->node->info.since_version, (long long)conversion->opset,
                      conversion->why != NULL ? ": " : "", conversion->why != NULL ? conversion->why : "");
}

/* Converts a node whose operator has another version at the opset, earlier or later. Nodes of inlined functions may
 * have any version. */
static inlay_status convert_node(struct editor *editor, graph_node *node, int64_t opset, inlay_diag *diag)
{
    struct conversion conversion = { editor, node, opset, NULL };
    const op_row *row = conversion_row(&conversion);

    if (node->row == NULL || strcmp(node->info.domain.data, "ai.onnx") != 0 ||
        (node->row == row && (row->flags & OP_DEPRECATED) == 0))
        return INLAY_OK;
    if (row == NULL || row->since_version < node->info.since_version ? conversion_lower(&conversion)
                                                                     : raise_node(&conversion))
        mark_converted(node, opset);
    else if (!editor->failed)
        return fail_no_form(&conversion, diag);
    return INLAY_OK;
}

static inlay_status convert_graph(struct graph *graph, int64_t opset, inlay_diag *diag)
{
    const uint32_t count = graph->node_count; /* new nodes already have the right form */
    struct editor editor;
    inlay_status status = INLAY_OK;

    edit_begin(&editor, graph);
    for (uint32_t i = 0; i < count && !editor.failed && status == INLAY_OK; i++) {
        for (uint32_t b = 0; status == INLAY_OK && b < graph->nodes[i]->body_count; b++)
            status = convert_graph(graph->nodes[i]->bodies[b].graph, opset, diag);
        if (status == INLAY_OK)
            status = convert_node(&editor, graph->nodes[i], opset, diag);
    }
    if (status == INLAY_OK)
        return edit_finish(&editor, diag);
    names_deinit(&editor.names);
    return status;
}

static void set_node_opset(struct graph *graph, int64_t opset)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (strcmp(graph->nodes[i]->info.domain.data, "ai.onnx") == 0)
            graph->nodes[i]->opset = opset;
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            set_node_opset(graph->nodes[i]->bodies[b].graph, opset);
    }
}

/* Finds the first call of a function that model_convert_versions() had to create; NULL: none. */
static const graph_node *find_outlined_call(const struct graph *graph, const struct graph **out_graph)
{
    const graph_node *found = NULL;

    for (uint32_t i = 0; i < graph->node_count && found == NULL; i++) {
        if (strcmp(graph->nodes[i]->info.domain.data, "inlay") == 0) {
            *out_graph = graph;
            return graph->nodes[i];
        }
        for (uint32_t b = 0; b < graph->nodes[i]->body_count && found == NULL; b++)
            found = find_outlined_call(graph->nodes[i]->bodies[b].graph, out_graph);
    }
    return found;
}

/* Sets the opset of all nodes and raises the IR version: 4-bit types need 10, and before 4 every constant had to be an
 * input. */
static inlay_status finish_model(graph_model *model, int64_t import, uint32_t functions, inlay_diag *diag)
{
    const struct graph *graph = model->main;
    const graph_node *node;
    inlay_status status = model_convert_versions(model, import, diag);
    const int64_t opset = graph_model_opset(model, "ai.onnx");

    if (status != INLAY_OK)
        return status;
    set_node_opset(model->main, opset);
    if (model->function_count > functions) {
        node = find_outlined_call(model->main, &graph);
        if (node == NULL)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "a node has no form in opset %lld", (long long)opset);
        return graph_fail(graph, node, NULL, INLAY_UNSUPPORTED, diag, "%.64s has no form in opset %lld",
                          node->info.op_type.data, (long long)opset);
    }
    if (opset >= 21 && model->ir_version < 10)
        model->ir_version = 10;
    else if (model->ir_version < 7)
        model->ir_version = 7;
    return INLAY_OK;
}

inlay_status opset_raise(graph_model *model, int64_t opset, inlay_diag *diag)
{
    const bool higher = opset > graph_model_opset(model, "ai.onnx");
    const uint32_t functions = model->function_count;
    inlay_status status = INLAY_OK;

    if (higher)
        status = convert_graph(model->main, opset, diag);
    return status != INLAY_OK ? status : finish_model(model, higher ? opset : 0, functions, diag);
}

/* The IR version that was current with an opset, so that readers of the opset accept the file. */
static int64_t format_of(int64_t opset)
{
    return opset <= 9    ? 4
           : opset == 10 ? 5
           : opset == 11 ? 6
           : opset <= 14 ? 7
           : opset <= 18 ? 8
           : opset <= 20 ? 9
                         : 10;
}

inlay_status opset_convert(graph_model *model, int64_t opset, inlay_diag *diag)
{
    const bool lower = opset < graph_model_opset(model, "ai.onnx");
    const uint32_t functions = model->function_count;
    inlay_status status;

    INLAY_CHECK(opset >= OPSET_LOWEST);
    INLAY_TRY(convert_graph(model->main, opset, diag));
    for (uint32_t i = 0; i < model->opset_count; i++)
        if (strcmp(model->opsets[i].domain, "ai.onnx") == 0)
            model->opsets[i].version = opset;
    INLAY_TRY(finish_model(model, 0, functions, diag));
    if (lower && model->ir_version > format_of(opset) && model->function_count == 0)
        model->ir_version = format_of(opset);
done:
    return status;
}
