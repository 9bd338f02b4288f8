/* Conv: ONNX 1, 11, 22; float16, bfloat16, float and double. */
#include "conv.h"
#include "args.h"
#include "product_cost.h"
#include "products.h"
#include <stdlib.h>

typedef struct conv_state {
    conv_attrs attrs;
    const gemm_kernel *kernel;
    gemm_operand weights; /* packed when constant, unless the convolution is depthwise */
    kit_pack pack;
} conv_state;

void product_conv_release(void *state)
{
    conv_state *s = state;

    if (s != NULL)
        kit_pack_free(&s->pack);
    free(s);
}

/* Depthwise kernels read the weights as they are. */
static bool has_one_channel(const kit_node *node)
{
    const inlay_value_info *w = kit_input(node, 1);
    int64_t group = kit_attr_int(node->info, "group", 1);

    return w->rank != INLAY_RANK_UNKNOWN && w->rank >= 2 && w->dims[1].value == 1 && group > 0 &&
           w->dims[0].value / group <= 2;
}

inlay_status product_conv_prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_dtype dtype = kit_input_dtype(node, 0);
    uint32_t type = gemm_type_of(dtype);
    conv_state *s = NULL;
    inlay_status status;

    INLAY_TRY(arg_state(sizeof *s, (void **)&s, diag));
    INLAY_TRY(conv_read_attrs(node, &s->attrs, diag));
    s->kernel = gemm_kernel_for(node, type);
    s->weights.pack = gemm_strided_pack(type, dtype);
    if (!has_one_channel(node))
        INLAY_TRY(conv_pack_weights(node, 1, &s->attrs, s->kernel, &s->weights, &s->pack, diag));
    *out_state = s;
    s = NULL;
done:
    product_conv_release(s);
    return status;
}

inlay_status product_conv_shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const conv_state *s = state;
    conv_geometry g;
    conv_plan *p = NULL;
    inlay_status status;

    INLAY_TRY(conv_resolve(&s->attrs, &plan->in[0], &plan->in[1], &g, diag));
    INLAY_TRY(conv_check_output(&g, &plan->out[0], diag));
    if (plan->in_count > 2 && plan->in[2].dtype != INLAY_UNDEFINED && plan->in[2].count != g.filters)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the bias has %lld elements for %lld filters",
                          (long long)plan->in[2].count, (long long)g.filters);
    status = conv_plan_create(&g, s->kernel, &s->weights, plan->in[0].dtype, plan->out[0].dtype, false,
                              plan->max_threads, &p, &plan->workspace_bytes, diag);
    plan->plan = p;
done:
    return status;
}

inlay_status product_conv_run(const kit_call *call)
{
    const conv_plan *p = call->plan;
    conv_run r = { .call = call,
                   .plan = p,
                   .job = p->job,
                   .x = call->in[0].data,
                   .y = call->out[0].data,
                   .y_dtype = call->out[0].dtype };

    if (call->out[0].count == 0)
        return INLAY_OK;
    if (kit_has_input(call, 2)) {
        r.bias = call->in[2].data;
        r.bias_dtype = call->in[2].dtype;
    }
    if (p->depthwise)
        return conv_execute_depthwise(&r, call->in[1].data);
    r.job.a.data = call->in[1].data;
    return conv_execute(&r);
}

#define PLANE_NS 330.0        /* of a channel of an image */
#define STAGED_NS 0.25        /* of an element of it */
#define DEPTHWISE_PER_NS 70.0 /* operations */

void product_conv_cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    conv_attrs attrs;
    conv_geometry g;
    product_size p = { .a_constant = kit_is_constant(node, 1) };

    if (shapes->in[0].count < 0 || conv_read_attrs(node, &attrs, NULL) != INLAY_OK ||
        conv_resolve(&attrs, &shapes->in[0], &shapes->in[1], &g, NULL) != INLAY_OK)
        return;
    conv_cost(&g, shapes, out);
    p.batch = (double)g.images * (double)g.group;
    p.m = (double)g.filters / (double)g.group;
    p.n = (double)g.positions;
    p.k = (double)g.channels / (double)g.group * (double)g.taps;
    p.b_windows = g.taps > 1 || g.positions != g.in_positions;
    if (g.channels == g.group && p.m <= 2) /* depthwise: a plane is copied with its border, then summed */
        product_cost_set(node, shapes, gemm_type_of(shapes->in[0].dtype), NULL, 0,
                         PLANE_NS * (double)g.images * (double)g.channels + STAGED_NS * (double)shapes->in[0].count +
                             out->flops / DEPTHWISE_PER_NS,
                         out);
    else
        product_cost_set(node, shapes, gemm_type_of(shapes->in[0].dtype), &p, 1, 0, out);
}
