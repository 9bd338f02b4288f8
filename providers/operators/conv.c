/* Conv: ONNX 1, 11, 22; float16, bfloat16, float and double. */
#include "operators/conv.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "operators/args.h"
#include "operators/product_cost.h"
#include "operators/products.h"
#include <math.h>
#include <stdlib.h>

typedef struct conv_state {
    conv_attrs attrs;
    const gemm_kernel *kernel;
    gemm_operand weights; /* packed if constant, unless the convolution is depthwise */
    kit_pack pack;
} conv_state;

void product_conv_release(void *state)
{
    conv_state *conv = state;

    if (conv != NULL)
        kit_pack_free(&conv->pack);
    free(conv);
}

/* Whether the convolution is depthwise. Depthwise kernels read the weights unpacked. */
static bool has_one_channel(const kit_node *node)
{
    const inlay_value_info *weights = kit_input(node, 1);
    int64_t group = kit_attr_int(node->info, "group", 1);

    return weights->rank != INLAY_RANK_UNKNOWN && weights->rank >= 2 && weights->dims[1].value == 1 && group > 0 &&
           weights->dims[0].value / group <= 2;
}

inlay_status product_conv_prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_dtype dtype = kit_input_dtype(node, 0);
    uint32_t type = gemm_type_of(dtype);
    conv_state *state = NULL;
    inlay_status status;

    INLAY_TRY(arg_allocate_state(sizeof *state, (void **)&state, diag));
    INLAY_TRY(conv_read_attrs(node, &state->attrs, diag));
    state->kernel = gemm_kernel_for(node, type);
    state->weights.pack = gemm_strided_pack(type, dtype);
    if (!has_one_channel(node))
        INLAY_TRY(conv_pack_weights(node, 1, &state->attrs, state->kernel, &state->weights, &state->pack, diag));
    *out_state = state;
    state = NULL;
done:
    product_conv_release(state);
    return status;
}

inlay_status product_conv_shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const conv_state *conv = state;
    conv_geometry geometry;
    conv_plan *created = NULL;
    inlay_status status;

    INLAY_TRY(conv_resolve(&conv->attrs, &plan->in[0], &plan->in[1], &geometry, diag));
    INLAY_TRY(conv_check_output(&geometry, &plan->out[0], diag));
    if (plan->in_count > 2 && plan->in[2].dtype != INLAY_UNDEFINED && plan->in[2].count != geometry.filters)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the bias has %lld elements for %lld filters",
                          (long long)plan->in[2].count, (long long)geometry.filters);
    status = conv_plan_create(&geometry, conv->kernel, &conv->weights, plan->in[0].dtype, plan->out[0].dtype, false,
                              plan->max_threads, &created, &plan->workspace_bytes, diag);
    plan->plan = created;
done:
    return status;
}

inlay_status product_conv_run(const kit_call *call)
{
    const conv_plan *plan = call->plan;
    conv_run run = { .call = call,
                     .plan = plan,
                     .job = plan->job,
                     .input = call->in[0].data,
                     .output = call->out[0].data,
                     .y_dtype = call->out[0].dtype };

    if (call->out[0].count == 0)
        return INLAY_OK;
    if (kit_has_input(call, 2)) {
        run.bias = call->in[2].data;
        run.bias_dtype = call->in[2].dtype;
    }
    if (plan->depthwise)
        return conv_execute_depthwise(&run, call->in[1].data);
    run.job.a.data = call->in[1].data;
    return conv_execute(&run);
}

#define PLANE_NS 330.0       /* per channel of an image */
#define STAGED_NS 0.25       /* per staged element of a plane */
#define STAGED_ROW_NS 4.0    /* windows: per row of the copied image, ... */
#define COPIED_NS 0.04       /* ... and per element of it */
#define SET_ROW_NS 8.6       /* strided windows: per row of a set of every second or further column, ... */
#define SET_COPIED_NS 0.14   /* ... and per element of it */
#define PIECE_NS 1.0         /* windows: per row of the result, the part of it that is packed for a tap, ... */
#define STRIDED_PIECE_NS 0.5 /* ... from a set */
#define STORED_NS 0.04       /* per element of the result, beyond its bytes; hidden on the reference core */
#define DEPTHWISE_PER_NS 2.4 /* operations */

/* Time of the copy of the image from which windows are packed. Rows and sets of columns that no tap reads are not
 * copied. */
static double window_copy_ns(const conv_geometry *geometry, double slower)
{
    double rows = (double)geometry->images * (double)geometry->channels;

    for (uint32_t i = 0; i < 2; i++)
        rows *= fmin((double)geometry->out[i] * (double)geometry->kernel[i], (double)geometry->in[i]);
    if (geometry->stride[2] == 1)
        return rows * (STAGED_ROW_NS + COPIED_NS * (double)geometry->in[2]);
    return rows * fmin((double)geometry->kernel[2], (double)geometry->stride[2]) *
           (SET_ROW_NS + SET_COPIED_NS * (double)geometry->out[2]) * slower;
}

void product_conv_cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    conv_attrs attrs;
    conv_geometry geometry;
    product_size size = { .a_constant = kit_is_constant(node, 1) };
    const double slower = product_cost_slower(node->host);
    double more;

    if (shapes->in[0].count < 0 || conv_read_attrs(node, &attrs, NULL) != INLAY_OK ||
        conv_resolve(&attrs, &shapes->in[0], &shapes->in[1], &geometry, NULL) != INLAY_OK)
        return;
    conv_cost(&geometry, shapes, out);
    size.batch = (double)geometry.images * (double)geometry.group;
    size.m = (double)geometry.filters / (double)geometry.group;
    size.n = (double)geometry.positions;
    size.k = (double)geometry.channels / (double)geometry.group * (double)geometry.taps;
    size.b_windows = geometry.taps > 1 || geometry.positions != geometry.in_positions;
    more = STORED_NS * (slower - 1) * size.batch * size.m * size.n;
    if (size.b_windows) {
        size.window_ns = (geometry.stride[2] == 1 ? PIECE_NS : STRIDED_PIECE_NS * slower) / (double)geometry.out[2];
        more += window_copy_ns(&geometry, slower);
    }
    if (geometry.channels == geometry.group &&
        size.m <= 2) /* depthwise: a plane is copied with its border, then summed */
        product_cost_set(node, shapes, gemm_type_of(shapes->in[0].dtype), NULL, 0,
                         PLANE_NS * (double)geometry.images * (double)geometry.channels +
                             STAGED_NS * (double)shapes->in[0].count + out->flops / DEPTHWISE_PER_NS,
                         out);
    else
        product_cost_set(node, shapes, gemm_type_of(shapes->in[0].dtype), &size, 1, more, out);
}
