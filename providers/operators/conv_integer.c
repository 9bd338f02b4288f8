/* ConvInteger: ONNX 10. QLinearConv: ONNX 10. Elements minus their zero points are multiplied as int16 and summed in
 * int32. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "operators/args.h"
#include "operators/conv.h"
#include "simd/convert.h"
#include "operators/gemm/set.h"
#include "operators/operators.h"
#include "operators/requantize.h"
#include <stdlib.h>

/* Indices of the inputs; 0: the operator does not have the input. */
struct layout {
    uint32_t x_zero, w, w_zero, x_scale, w_scale, y_scale, y_zero, bias;
};
static const struct layout integer_inputs = { .w = 1, .x_zero = 2, .w_zero = 3 };
static const struct layout linear_inputs = {
    .x_scale = 1, .x_zero = 2, .w = 3, .w_scale = 4, .w_zero = 5, .y_scale = 6, .y_zero = 7, .bias = 8
};

typedef struct quantized_state {
    const struct layout *at;
    conv_attrs attrs;
    const gemm_kernel *kernel;
    gemm_operand weights;
    kit_pack pack;
} quantized_state;

static void release(void *state)
{
    quantized_state *quantized = state;

    if (quantized != NULL)
        kit_pack_free(&quantized->pack);
    free(quantized);
}

/* Sets the zero points of the weights: one for all filters, or one per filter. */
static inlay_status set_weight_zeros(gemm_operand *weights, const void *zeros, int64_t count, int64_t filters,
                                     int64_t group, inlay_diag *diag)
{
    if (count != 1 && count != filters)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the zero point of W has %lld elements for %lld filters",
                          (long long)count, (long long)filters);
    weights->zero = zeros;
    weights->zero_stride = count > 1;
    weights->zero_matrix_stride = count > 1 ? filters / group : 0;
    return INLAY_OK;
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const struct layout *at = strcmp(kit_op_type(node), "QLinearConv") == 0 ? &linear_inputs : &integer_inputs;
    const inlay_value_info *zero = kit_input(node, at->w_zero), *weights = kit_input(node, at->w);
    quantized_state *state = NULL;
    int64_t zeros = 1;
    inlay_status status;

    INLAY_TRY(arg_allocate_state(sizeof *state, (void **)&state, diag));
    INLAY_TRY(conv_read_attrs(node, &state->attrs, diag));
    state->at = at;
    state->kernel = gemm_kernel_best(GEMM_S16);
    state->weights.pack = gemm_strided_pack(GEMM_S16, kit_input_dtype(node, at->w));
    if (zero == NULL || kit_is_constant(node, at->w_zero)) {
        if (zero != NULL && kit_is_constant(node, at->w) && weights->rank >= 1) {
            for (uint32_t d = 0; d < zero->rank; d++)
                zeros *= zero->dims[d].value;
            INLAY_TRY(set_weight_zeros(&state->weights, kit_constant_unaligned(node, at->w_zero), zeros,
                                       weights->dims[0].value, state->attrs.group, diag));
        }
        INLAY_TRY(conv_pack_weights(node, at->w, &state->attrs, state->kernel, &state->weights, &state->pack, diag));
    }
    state->weights.zero = NULL;
    *out_state = state;
    state = NULL;
done:
    release(state);
    return status;
}

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const quantized_state *quantized = state;
    conv_geometry geometry;
    conv_plan *convolution = NULL;
    inlay_status status;

    INLAY_TRY(conv_resolve(&quantized->attrs, &plan->in[0], &plan->in[quantized->at->w], &geometry, diag));
    INLAY_TRY(conv_check_output(&geometry, &plan->out[0], diag));
    status =
        conv_plan_create(&geometry, quantized->kernel, &quantized->weights, plan->in[0].dtype, plan->out[0].dtype,
                         quantized->at->y_scale != 0, plan->max_threads, &convolution, &plan->workspace_bytes, diag);
    plan->plan = convolution;
done:
    return status;
}

static void fill_bias(void *user, const gemm_tile *tile)
{
    const conv_run *run = user;
    const int32_t *bias = (const int32_t *)run->bias + conv_first_filter(run, tile);

    INLAY_CHECK(bias != NULL && run->bias != NULL);
    for (int64_t i = tile->i0; i < tile->i1; i++) {
        int32_t *row = (int32_t *)tile->c + (i - tile->i0) * tile->c_stride;
        for (int64_t j = 0; j < tile->j1 - tile->j0; j++)
            row[j] = bias[i];
    }
}

static void store_tile(void *user, const gemm_tile *tile)
{
    static const float one = 1;
    const conv_run *run = user;
    const kit_call *call = run->call;
    const kit_tensor *w_scale = &call->in[linear_inputs.w_scale];
    const conv_geometry *geometry = &run->plan->geometry;
    double scale = convert_get_f64(INLAY_FLOAT, call->in[linear_inputs.x_scale].data, 0) /
                   convert_get_f64(INLAY_FLOAT, call->in[linear_inputs.y_scale].data, 0);
    int32_t zero = (int32_t)convert_get_i64(run->y_dtype, call->in[linear_inputs.y_zero].data, 0);
    int64_t first = conv_first_filter(run, tile), image = run->first_image + tile->batch / geometry->group;

    INLAY_CHECK(tile->i0 <= tile->i1 && tile->j0 <= tile->j1);
    for (int64_t i = tile->i0; i < tile->i1; i++) {
        int64_t filter = first + i;
        double filter_scale = convert_get_f64(INLAY_FLOAT, w_scale->data, w_scale->count > 1 ? filter : 0);
        requantize_row((const int32_t *)tile->c + (i - tile->i0) * tile->c_stride, tile->j1 - tile->j0,
                       (float)(scale * filter_scale), &one, 0, zero, run->y_dtype == INLAY_INT8,
                       (char *)run->output + (image * geometry->filters + filter) * geometry->positions + tile->j0);
    }
}

/* Fails unless input `input` has a single element; `what` names it in the message. */
static inlay_status expect_one(const kit_call *call, uint32_t input, const char *what)
{
    if (call->in[input].count == 1)
        return INLAY_OK;
    return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "the %s has %lld elements; it must be one number", what,
                      (long long)call->in[input].count);
}

static inlay_status set_linear(const kit_call *call, conv_run *run)
{
    const kit_tensor *in = call->in;
    int64_t filters = run->plan->geometry.filters;
    inlay_status status;

    INLAY_TRY(expect_one(call, linear_inputs.x_scale, "scale of x"));
    INLAY_TRY(expect_one(call, linear_inputs.y_scale, "scale of y"));
    INLAY_TRY(expect_one(call, linear_inputs.y_zero, "zero point of y"));
    if (in[linear_inputs.w_scale].count != 1 && in[linear_inputs.w_scale].count != filters)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "the scale of w has %lld elements for %lld filters",
                          (long long)in[linear_inputs.w_scale].count, (long long)filters);
    if (kit_has_input(call, linear_inputs.bias)) {
        if (in[linear_inputs.bias].count != filters)
            return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "the bias has %lld elements for %lld filters",
                              (long long)in[linear_inputs.bias].count, (long long)filters);
        run->bias = in[linear_inputs.bias].data;
        run->job.init = fill_bias;
        run->job.init_user = run;
    }
    run->caller_stores = true;
    run->job.finish = store_tile;
    run->job.finish_user = run;
done:
    return status;
}

static inlay_status run(const kit_call *call)
{
    const quantized_state *state = call->state;
    const struct layout *at = state->at;
    const conv_plan *plan = call->plan;
    conv_run convolution = { .call = call,
                             .plan = plan,
                             .job = plan->job,
                             .input = call->in[0].data,
                             .output = call->out[0].data,
                             .y_dtype = call->out[0].dtype };
    inlay_status status = INLAY_OK;

    if (call->out[0].count == 0)
        return INLAY_OK;
    if (kit_has_input(call, at->x_zero)) {
        INLAY_TRY(expect_one(call, at->x_zero, "zero point of x"));
        convolution.zero = (int32_t)convert_get_i64(call->in[0].dtype, call->in[at->x_zero].data, 0);
        convolution.job.b.zero = call->in[at->x_zero].data;
    }
    convolution.job.a.data = call->in[at->w].data;
    if (kit_has_input(call, at->w_zero) && convolution.job.a.packed == NULL)
        INLAY_TRY(set_weight_zeros(&convolution.job.a, call->in[at->w_zero].data, call->in[at->w_zero].count,
                                   plan->geometry.filters, plan->geometry.group, call->diag));
    if (at->y_scale != 0)
        INLAY_TRY(set_linear(call, &convolution));
    status = conv_execute(&convolution);
done:
    return status;
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    uint32_t weights = strcmp(kit_op_type(node), "QLinearConv") == 0 ? linear_inputs.w : integer_inputs.w;
    conv_attrs attrs;
    conv_geometry geometry;

    if (conv_read_attrs(node, &attrs, NULL) == INLAY_OK &&
        conv_resolve(&attrs, &shapes->in[0], &shapes->in[weights], &geometry, NULL) == INLAY_OK)
        conv_cost(&geometry, shapes, out);
}

static const kit_kernel kernels[] = {
    { .op_type = "ConvInteger",
      .since_max = 10,
      .supports = conv_supports,
      .prepare = prepare,
      .release = release,
      .shape = shape,
      .run = run,
      .cost = cost },
    { .op_type = "QLinearConv",
      .since_max = 10,
      .supports = conv_supports,
      .prepare = prepare,
      .release = release,
      .shape = shape,
      .run = run,
      .cost = cost },
};
const kit_table OPERATOR(operators_conv_integer) = { kernels, KIT_COUNT(kernels) };
