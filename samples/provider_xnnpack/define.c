/* Translates nodes into nodes of an XNNPACK subgraph. */
#include "library.h"
#include "provider.h"

/* A filter is [outputs, inputs of a group, height, width] in ONNX. */
static bool is_depthwise(const inlay_node_info *node, int64_t inputs_of_group)
{
    return inputs_of_group == 1 && kit_attr_int(node, "group", 1) > 1;
}

static inlay_status permute(inlay_compiled *compiled, const inlay_value_info *value, const int64_t dims[4],
                            const int order[4], const float **out, inlay_diag *diag)
{
    float *data = kit_region_take(&compiled->region, value->data_bytes + XNN_EXTRA_BYTES);

    if (data == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for %llu bytes of '%s'",
                          (unsigned long long)value->data_bytes, value->name.data);
    layout_permute(value->data, dims, order, data);
    *out = data;
    return INLAY_OK;
}

/* XNNPACK reads the host's data where the layouts agree. */
static inlay_status borrow(const inlay_host *host, const inlay_compile_request *request, uint32_t value,
                           const float **out, inlay_diag *diag)
{
    *out = host->align_constant(host->ctx, request->handle, value, 16);
    if (*out == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a constant");
    return INLAY_OK;
}

inlay_status define_constants(const inlay_host *host, const inlay_compile_request *request, inlay_compiled *compiled,
                              uint32_t n, inlay_diag *diag)
{
    static const int filter_order[] = { 0, 2, 3, 1 }, depthwise_order[] = { 1, 2, 3, 0 },
                     image_order[] = { 0, 2, 3, 1 };
    static const int same_order[] = { 0, 1, 2, 3 };
    const inlay_node_info *node = inlay_graph_node(request->graph, request->nodes[n]);
    const enum operator_kind kind = operator_of(node);
    const bool binary = kind == KIND_ADD || kind == KIND_SUB || kind == KIND_MUL;
    const uint32_t rank = inlay_graph_value(request->graph, node->outputs[0])->rank;
    inlay_status status = INLAY_OK;

    if (!binary && kind != KIND_CONV && kind != KIND_GEMM && kind != KIND_MATMUL)
        return INLAY_OK;
    for (uint32_t i = 0; i < node->input_count && i < MOST_INPUTS && status == INLAY_OK; i++) {
        const inlay_value_info *value = inlay_graph_value(request->graph, node->inputs[i]);
        const float **out = &compiled->constants[n].data[i];
        int64_t dims[4] = { 1, 1, 1, 1 };
        bool permuted_filter;

        if (value == NULL || (value->flags & INLAY_VALUE_CONSTANT) == 0)
            continue;
        for (uint32_t d = 0; d < value->rank && value->rank <= 4; d++)
            dims[(binary ? 4 - value->rank : 0) + d] = value->dims[d].value;
        permuted_filter = kind == KIND_CONV && i == 1 && dims[2] * dims[3] > 1;
        if (binary)
            status = permute(compiled, value, dims, rank == IMAGE_RANK ? image_order : same_order, out, diag);
        else if (permuted_filter)
            status =
                permute(compiled, value, dims, is_depthwise(node, dims[1]) ? depthwise_order : filter_order, out, diag);
        else
            status = borrow(host, request, node->inputs[i], out, diag);
        compiled->constants[n].borrowed[i] = status == INLAY_OK && !binary && !permuted_filter;
    }
    return status;
}

const inlay_value_state *define_state(const struct definition *definition, uint32_t value)
{
    return INLAY_AT(inlay_value_state, definition->shapes->values, definition->shapes->value_stride,
                    definition->compiled->region.values[value].snapshot);
}

void define_dims(const inlay_value_state *state, size_t dims[MOST_RANK])
{
    for (uint32_t i = 0; i < state->rank; i++)
        dims[i] = (size_t)state->dims[i];
    if (state->rank == IMAGE_RANK) {
        dims[1] = (size_t)state->dims[2];
        dims[2] = (size_t)state->dims[3];
        dims[3] = (size_t)state->dims[1];
    }
}

/* A constant of the subgraph; data NULL: there is none. */
static enum xnn_status constant(struct definition *definition, const float *data, size_t rank, const size_t *dims,
                                uint32_t *out_id)
{
    *out_id = XNN_INVALID_VALUE_ID;
    if (data == NULL)
        return xnn_status_success;
    return xnn_define_tensor_value(definition->graph, xnn_datatype_fp32, rank, dims, data, XNN_INVALID_VALUE_ID, 0,
                                   out_id);
}

struct node_definition {
    struct definition *definition;
    const inlay_node_info *node; /* inputs and outputs are indices into region.values */
    const struct node_constants *constants;
    enum operator_kind kind;
    uint32_t in, out; /* XNNPACK's numbers of input 0 and output 0 */
    const inlay_value_state *in_state, *out_state;
};

static enum xnn_status define_conv(const struct node_definition *self)
{
    const inlay_value_state *filter = define_state(self->definition, self->node->inputs[1]);
    const struct window w =
        window_of(self->node, filter->dims + 2, self->in_state->dims + 2, self->out_state->dims + 2);
    const int64_t group = kit_attr_int(self->node, "group", 1);
    const size_t outputs = (size_t)filter->dims[0], inputs = (size_t)filter->dims[1];
    const size_t height = (size_t)w.size[0], width = (size_t)w.size[1];
    const bool depthwise = is_depthwise(self->node, filter->dims[1]);
    const size_t dims[] = { depthwise ? 1 : outputs, height, width, depthwise ? outputs : inputs };
    uint32_t filter_id, bias_id;
    enum xnn_status status = constant(self->definition, self->constants->data[1], 4, dims, &filter_id);

    if (status == xnn_status_success)
        status = constant(self->definition, self->constants->data[2], 1, &outputs, &bias_id);
    if (status != xnn_status_success)
        return status;
    if (depthwise)
        return xnn_define_depthwise_convolution_2d(
            self->definition->graph, (uint32_t)w.before[0], (uint32_t)w.after[1], (uint32_t)w.after[0],
            (uint32_t)w.before[1], (uint32_t)height, (uint32_t)width, (uint32_t)w.stride[0], (uint32_t)w.stride[1],
            (uint32_t)w.dilation[0], (uint32_t)w.dilation[1], (uint32_t)(outputs / (size_t)group), (size_t)group,
            -INFINITY, INFINITY, self->in, filter_id, bias_id, self->out, 0);
    return xnn_define_convolution_2d(self->definition->graph, (uint32_t)w.before[0], (uint32_t)w.after[1],
                                     (uint32_t)w.after[0], (uint32_t)w.before[1], (uint32_t)height, (uint32_t)width,
                                     (uint32_t)w.stride[0], (uint32_t)w.stride[1], (uint32_t)w.dilation[0],
                                     (uint32_t)w.dilation[1], (uint32_t)group, inputs, outputs / (size_t)group,
                                     -INFINITY, INFINITY, self->in, filter_id, bias_id, self->out, 0);
}

static enum xnn_status define_product(const struct node_definition *self)
{
    const inlay_value_state *matrix = define_state(self->definition, self->node->inputs[1]);
    const bool rows_are_outputs = self->kind == KIND_GEMM && kit_attr_int(self->node, "transB", 0) != 0;
    const size_t dims[] = { (size_t)matrix->dims[0], (size_t)matrix->dims[1] };
    uint32_t matrix_id, bias_id;
    enum xnn_status status = constant(self->definition, self->constants->data[1], 2, dims, &matrix_id);

    if (status == xnn_status_success)
        status = constant(self->definition, self->constants->data[2], 1, &dims[rows_are_outputs ? 0 : 1], &bias_id);
    if (status != xnn_status_success)
        return status;
    return xnn_define_fully_connected(self->definition->graph, -INFINITY, INFINITY, self->in, matrix_id, bias_id,
                                      self->out, rows_are_outputs ? 0 : XNN_FLAG_TRANSPOSE_WEIGHTS);
}

static enum xnn_status define_pool(const struct node_definition *self)
{
    const struct window w = window_of(self->node, NULL, self->in_state->dims + 2, self->out_state->dims + 2);

    if (self->kind == KIND_MAX_POOL)
        return xnn_define_max_pooling_2d(self->definition->graph, (uint32_t)w.before[0], (uint32_t)w.after[1],
                                         (uint32_t)w.after[0], (uint32_t)w.before[1], (uint32_t)w.size[0],
                                         (uint32_t)w.size[1], (uint32_t)w.stride[0], (uint32_t)w.stride[1],
                                         (uint32_t)w.dilation[0], (uint32_t)w.dilation[1], -INFINITY, INFINITY,
                                         self->in, self->out, 0);
    return xnn_define_average_pooling_2d(self->definition->graph, (uint32_t)w.before[0], (uint32_t)w.after[1],
                                         (uint32_t)w.after[0], (uint32_t)w.before[1], (uint32_t)w.size[0],
                                         (uint32_t)w.size[1], (uint32_t)w.stride[0], (uint32_t)w.stride[1], -INFINITY,
                                         INFINITY, self->in, self->out, 0);
}

static enum xnn_status define_global_average(const struct node_definition *self)
{
    return library_global_average(self->definition->graph, self->in, self->out);
}

static enum xnn_status define_binary(const struct node_definition *self)
{
    static const enum library_binary ops[KIND_COUNT] = {
        [KIND_ADD] = LIBRARY_ADD, [KIND_SUB] = LIBRARY_SUBTRACT, [KIND_MUL] = LIBRARY_MULTIPLY
    };
    const uint32_t rank = self->out_state->rank;
    uint32_t ids[2];

    for (uint32_t i = 0; i < 2; i++) {
        const inlay_value_state *state = define_state(self->definition, self->node->inputs[i]);
        const int64_t all[] = { state->rank > 3 ? state->dims[state->rank - 4] : 1,
                                state->rank > 2 ? state->dims[state->rank - 3] : 1,
                                state->rank > 1 ? state->dims[state->rank - 2] : 1,
                                state->rank > 0 ? state->dims[state->rank - 1] : 1 };
        const bool image = rank == IMAGE_RANK;
        const size_t dims[] = { (size_t)all[0], (size_t)all[image ? 2 : 1], (size_t)all[image ? 3 : 2],
                                (size_t)all[image ? 1 : 3] };
        const uint32_t used = image ? 4 : state->rank > 0 ? state->rank : 1;
        enum xnn_status status;

        ids[i] = self->definition->ids[self->node->inputs[i]];
        if (self->constants->data[i] == NULL)
            continue;
        status = constant(self->definition, self->constants->data[i], used, dims + 4 - used, &ids[i]);
        if (status != xnn_status_success)
            return status;
    }
    return library_binary(self->definition->graph, ops[self->kind], ids[0], ids[1], self->out);
}

void clamp_of(const inlay_compiled *compiled, const inlay_node_info *node, float *out_low, float *out_high)
{
    const void *bounds[] = { NULL, NULL };

    for (uint32_t i = 1; i < node->input_count && i < 3; i++)
        if (node->inputs[i] != INLAY_NONE)
            bounds[i - 1] = compiled->region.values[node->inputs[i]].data;
    clamp_bounds(node, bounds[0], bounds[1], out_low, out_high);
}

static enum xnn_status define_clamp(const struct node_definition *self)
{
    float low, high;

    clamp_of(self->definition->compiled, self->node, &low, &high);
    return library_unary(self->definition->graph, LIBRARY_CLAMP, low, high, self->in, self->out);
}

static enum xnn_status define_unary(const struct node_definition *self)
{
    return library_unary(self->definition->graph, self->kind == KIND_SIGMOID ? LIBRARY_SIGMOID : LIBRARY_HARDSWISH, 0,
                         0, self->in, self->out);
}

static enum xnn_status define_softmax(const struct node_definition *self)
{
    return xnn_define_softmax(self->definition->graph, self->in, self->out, 0);
}

static enum xnn_status define_reshape(const struct node_definition *self)
{
    size_t dims[MOST_RANK];

    define_dims(self->out_state, dims);
    return xnn_define_static_reshape(self->definition->graph, self->out_state->rank, dims, self->in, self->out, 0);
}

static int64_t plain_axis(const inlay_node_info *node, uint32_t rank)
{
    const int64_t given = kit_attr_int(node, "axis", 1);

    return given < 0 ? given + rank : given;
}

size_t concat_axis(const inlay_node_info *node, uint32_t rank)
{
    static const size_t image_axes[] = { 0, 3, 1, 2 };
    const size_t axis = (size_t)plain_axis(node, rank);

    return rank == IMAGE_RANK ? image_axes[axis] : axis;
}

/* Concatenates one operand after the other. */
static enum xnn_status define_concat(const struct node_definition *self)
{
    const uint32_t rank = self->out_state->rank;
    const size_t axis = concat_axis(self->node, rank);
    const uint32_t *ids = self->definition->ids;
    uint32_t sum = self->in;
    size_t dims[MOST_RANK];

    define_dims(self->in_state, dims);
    for (uint32_t i = 1; i < self->node->input_count; i++) {
        const inlay_value_state *state = define_state(self->definition, self->node->inputs[i]);
        uint32_t out = self->out;
        enum xnn_status status = xnn_status_success;

        dims[axis] += (size_t)state->dims[plain_axis(self->node, rank)];
        if (i + 1 < self->node->input_count)
            status = xnn_define_tensor_value(self->definition->graph, xnn_datatype_fp32, rank, dims, NULL,
                                             XNN_INVALID_VALUE_ID, 0, &out);
        if (status == xnn_status_success)
            status = library_concatenate(self->definition->graph, axis, sum, ids[self->node->inputs[i]], out);
        if (status != xnn_status_success)
            return status;
        sum = out;
    }
    return xnn_status_success;
}

enum xnn_status define_node(struct definition *definition, uint32_t n)
{
    static enum xnn_status (*const define[KIND_COUNT])(const struct node_definition *) = {
        [KIND_CONV] = define_conv,     [KIND_GEMM] = define_product,      [KIND_MATMUL] = define_product,
        [KIND_MAX_POOL] = define_pool, [KIND_AVERAGE_POOL] = define_pool, [KIND_GLOBAL_AVERAGE] = define_global_average,
        [KIND_ADD] = define_binary,    [KIND_SUB] = define_binary,        [KIND_MUL] = define_binary,
        [KIND_RELU] = define_clamp,    [KIND_CLIP] = define_clamp,        [KIND_HARDSWISH] = define_unary,
        [KIND_SIGMOID] = define_unary, [KIND_SOFTMAX] = define_softmax,   [KIND_RESHAPE] = define_reshape,
        [KIND_CONCAT] = define_concat,
    };
    const inlay_node_info *node = &definition->compiled->region.nodes[n];
    const struct node_definition self = { .definition = definition,
                                          .node = node,
                                          .constants = &definition->compiled->constants[n],
                                          .kind = definition->compiled->kinds[n],
                                          .in = definition->ids[node->inputs[0]],
                                          .out = definition->ids[node->outputs[0]],
                                          .in_state = define_state(definition, node->inputs[0]),
                                          .out_state = define_state(definition, node->outputs[0]) };

    return define[self.kind](&self);
}
