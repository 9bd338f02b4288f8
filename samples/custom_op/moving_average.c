/* An operator of your own: its schema, its shapes, a kernel, and examples that prove it.
 *
 * com.example.MovingAverage-1 replaces each element along the last axis by the mean of itself and the window - 1
 * elements before it; at the start of a row, of those that there are.
 *
 *     cmake -B build -DCMAKE_PREFIX_PATH=/where/inlay/is && cmake --build build
 *     inlay run model.onnx --plugin-dirs build */
#include "inlay/kit.h"
#include <stdlib.h>

/* ------------------------------------------------------------------ the operator: any provider may run it */

static inlay_status infer(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *x = in->inputs[0];

    (void)ctx;
    if (x->rank == 0)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "MovingAverage: X is a scalar; it needs at least one axis");
    /* The element type follows from the signature; the shape is that of X, whatever is known of it. */
    return in->set_output(in->ctx, 0, INLAY_UNDEFINED, x->rank, x->dims);
}

static const int64_t dims[] = { 2, 4 };
static const float x_values[] = { 1, 3, 5, 7, 4, 4, 0, -8 }, window_2[] = { 1, 2, 4, 6, 4, 4, 2, -4 };
static const inlay_tensor_view x_view = { x_values, sizeof x_values, dims, 2, INLAY_FLOAT };
static const inlay_tensor_view window_2_view = { window_2, sizeof window_2, dims, 2, INLAY_FLOAT };
static const inlay_attr_info window_is_2 = { .name = { "window", 6 }, .kind = INLAY_ATTR_INT, .i = 2 };
static const inlay_attr_info window_is_1 = { .name = { "window", 6 }, .kind = INLAY_ATTR_INT, .i = 1 };

static const inlay_op_example examples[] = {
    { .name = "window of two", .attrs = &window_is_2, .attr_count = 1, .attr_stride = sizeof window_is_2,
      .inputs = &x_view, .input_count = 1, .outputs = &window_2_view, .output_count = 1, .rtol = 1e-6 },
    { .name = "window of one changes nothing", .attrs = &window_is_1, .attr_count = 1,
      .attr_stride = sizeof window_is_1, .inputs = &x_view, .input_count = 1, .outputs = &x_view, .output_count = 1 },
};

static const inlay_operator operators[] = { {
    .struct_size = sizeof(inlay_operator),
    .domain = "com.example",
    .op_type = "MovingAverage",
    .signature = "X:T -> Y:T; T=float|double; window:i=3",
    .doc = "The mean of each element and the window - 1 before it, along the last axis.",
    .since_version = 1,
    .infer = infer,
    .examples = examples,
    .example_count = KIT_COUNT(examples),
    .example_stride = sizeof examples[0],
} };

/* ------------------------------------------------------------------ a kernel for it, in this plugin's provider */

static bool supports(const kit_node *node, kit_refusal *why)
{
    int64_t window = kit_attr_int(node->info, "window", 3);

    if (window >= 1)
        return true;
    return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "set window to 1 or more", "window is %lld", (long long)window);
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    int64_t *window = malloc(sizeof *window); /* freed by the kit */

    if (window == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "MovingAverage");
    *window = kit_attr_int(node->info, "window", 3);
    *out_state = window;
    return INLAY_OK;
}

static void average_row(const float *x, float *y, int64_t length, int64_t window)
{
    for (int64_t i = 0; i < length; i++) {
        int64_t first = i < window ? 0 : i - window + 1;
        double sum = 0;

        for (int64_t k = first; k <= i; k++)
            sum += (double)x[k];
        y[i] = (float)(sum / (double)(i - first + 1));
    }
}

static inlay_status run(const kit_call *call)
{
    const kit_tensor *x = &call->in[0], *y = &call->out[0];
    int64_t length = x->dims[x->rank - 1];

    for (int64_t at = 0; at < x->count; at += length)
        average_row((const float *)x->data + at, (float *)y->data + at, length, *(const int64_t *)call->state);
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { .domain = "com.example", .op_type = "MovingAverage", .since_max = 1, .in_types = { KIT_BIT(FLOAT) },
      .supports = supports, .prepare = prepare, .run = run },
};
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const kit_provider provider = { .name = "moving_average", .description = "com.example.MovingAverage on the CPU",
                                       .tables = tables, .table_count = KIT_COUNT(tables) };

static const kit_plugin moving_average = { .name = "moving_average", .version = "1.0.0", .provider = &provider,
                                           .operators = operators, .operator_count = KIT_COUNT(operators) };
KIT_PLUGIN(moving_average)
