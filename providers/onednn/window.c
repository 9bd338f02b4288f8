/* Convolutions and transposed convolutions as steps. */
#include "onednn/builder.h"
#include "inlay/check.h"

/* The weights of a convolution in the library's order of axes: a view of ONNX's. Conv has [O, I/g, ..], ConvTranspose
 * [I, O/g, ..]; the library takes [g, O/g, I/g, ..]. Returns the number of axes. */
static uint32_t weights_view(const struct builder *builder, int64_t *dims, int64_t *strides)
{
    const struct tensor *weights = &builder->operands[OPERAND_WEIGHTS];
    const int64_t groups = builder->group->channel_groups, first = weights->dims[0] / groups, second = weights->dims[1];
    const bool transposed = builder->group->kind == GROUP_DECONV;
    int64_t taps = 1;
    uint32_t axis = 0;

    for (uint32_t d = 2; d < weights->rank; d++)
        taps *= weights->dims[d];
    if (groups > 1) {
        dims[axis] = groups;
        strides[axis++] = first * second * taps;
    }
    dims[axis] = transposed ? second : first;
    strides[axis++] = transposed ? taps : second * taps;
    dims[axis] = transposed ? first : second;
    strides[axis++] = transposed ? second * taps : taps;
    for (uint32_t d = 2; d < weights->rank; d++) {
        taps /= weights->dims[d];
        dims[axis] = weights->dims[d];
        strides[axis++] = taps;
    }
    return axis;
}

static dnnl_status_t window_layouts(const struct builder *builder, struct layouts *out)
{
    const struct tensor *input = &builder->operands[OPERAND_INPUT], *output = &builder->output;
    const dnnl_data_type_t type = builder->reduced ? dnnl_bf16 : dnnl_f32;
    int64_t dims[LIBRARY_MAX_RANK], strides[LIBRARY_MAX_RANK];
    const uint32_t rank = weights_view(builder, dims, strides);
    dnnl_status_t code = layout_make_plain(dnnl_f32, input->rank, input->dims, &out->input);

    if (code == dnnl_success)
        code = layout_make_plain(dnnl_f32, output->rank, output->dims, &out->output);
    if (code == dnnl_success)
        code = library_layout_create(dnnl_f32, rank, dims, strides, &out->weights);
    if (code == dnnl_success)
        code = library_layout_create(type, input->rank, input->dims, NULL, &out->any_input);
    if (code == dnnl_success)
        code = library_layout_create(dnnl_f32, output->rank, output->dims, NULL, &out->any_output);
    if (code == dnnl_success)
        code = library_layout_create(type, rank, dims, NULL, &out->any_weights);
    if (code == dnnl_success && builder->group->values[OPERAND_BIAS] != INLAY_NONE)
        code = layout_make_plain(dnnl_f32, 1, &output->dims[1], &out->bias);
    return code;
}

/* Adds the steps of a described window. pack NULL: the weights are computed. */
static dnnl_status_t add_window(struct builder *builder, const struct layouts *layouts,
                                const_dnnl_primitive_desc_t description, const weights_pack *pack, bool alone)
{
    library_const_layout x = dnnl_primitive_desc_query_md(description, dnnl_query_src_md, 0),
                         w = dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0),
                         y = dnnl_primitive_desc_query_md(description, dnnl_query_dst_md, 0);
    struct place input = builder_place(builder, OPERAND_INPUT), weights = { 0 }, output = { .kind = PLACE_OUTPUT };
    const bool direct = dnnl_memory_desc_equal(layouts->output, y) != 0;
    dnnl_status_t code = builder_read_as(builder, layouts->input, x, &input);
    struct step *step = NULL;

    if (pack != NULL) {
        weights = (struct place){ .kind = PLACE_CONSTANT, .data = pack->memory.data };
    } else if (code == dnnl_success) {
        weights = builder_place(builder, OPERAND_WEIGHTS);
        code = builder_read_as(builder, layouts->weights, w, &weights);
    }
    if (!direct)
        output = builder_take(builder, dnnl_memory_desc_get_size(y));
    if (code == dnnl_success && builder->group->values[OPERAND_ADDEND] != INLAY_NONE)
        code = builder_add_reorder(builder, layouts->output, builder_place(builder, OPERAND_ADDEND), y, output);
    if (code == dnnl_success)
        code = builder_add_step(builder, description, alone, &step);
    if (code == dnnl_success)
        code = builder_add_operand(builder, step, DNNL_ARG_SRC, x, input);
    if (code == dnnl_success)
        code = builder_add_operand(builder, step, DNNL_ARG_WEIGHTS, w, weights);
    if (code == dnnl_success && layouts->bias != NULL)
        code = builder_add_operand(builder, step, DNNL_ARG_BIAS, layouts->bias, builder_place(builder, OPERAND_BIAS));
    if (code == dnnl_success)
        code = builder_add_operand(builder, step, DNNL_ARG_DST, y, output);
    if (code == dnnl_success)
        code = builder_add_scratchpad(builder, step, description);
    if (code == dnnl_success && !direct)
        code = builder_add_reorder(builder, y, output, layouts->output, (struct place){ .kind = PLACE_OUTPUT });
    return code;
}

inlay_status builder_add_window(struct builder *builder)
{
    const struct group *group = builder->group;
    library_op op = { .kind = group->kind == GROUP_CONV ? dnnl_convolution : dnnl_deconvolution };
    struct layouts layouts = { .input = NULL };
    dnnl_primitive_desc_t description = NULL;
    const weights_pack *pack = NULL;
    inlay_status status = INLAY_OK;
    dnnl_status_t code = window_layouts(builder, &layouts);
    bool alone = false;

    op.input = layouts.any_input;
    op.weights = layouts.any_weights;
    op.bias = layouts.bias;
    op.output = layouts.any_output;
    group_pads(group, builder->operands[OPERAND_INPUT].dims + 2, builder->output.dims + 2, op.begins, op.ends);
    for (uint32_t i = 0; i < group->spatial; i++) {
        op.strides[i] = group->strides[i];
        op.dilations[i] = group->dilations[i] - 1;
    }
    if (code == dnnl_success && group->constant[OPERAND_WEIGHTS])
        INLAY_TRY(builder_describe_packed(builder, &op, 0, layouts.any_weights, layouts.weights,
                                          builder->compiled->constants[OPERAND_WEIGHTS], &pack, &alone, &description));
    else if (code == dnnl_success)
        code = builder_describe(builder, &op, &alone, &description);
    if (code == dnnl_success)
        code = add_window(builder, &layouts, description, pack, alone);
    if (code != dnnl_success)
        status = onednn_fail(code, group->name, builder->diag);
done:
    if (description != NULL)
        (void)dnnl_primitive_desc_destroy(description);
    layouts_destroy(&layouts);
    return status;
}
