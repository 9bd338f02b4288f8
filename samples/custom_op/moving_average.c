/* A custom operator: its schema, shape inference, a kernel, the kernel's cost, and examples that verify it.
 *
 * com.example.MovingAverage-1 replaces each element along the last axis by the mean of itself and the window - 1
 * elements before it; at the start of a row, by the mean of the elements so far. README.md describes how to
 * build and run it. */
#define INLAY_NOTE_VERSION "1.0.0" /* of two versions in one folder, the host takes the higher one */
#include "inlay/kit.h"
#include <stdlib.h>

static inlay_status infer(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *x = in->inputs[0];

    (void)ctx;
    if (x->rank == 0)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "MovingAverage: X is a scalar; it needs at least one axis");
    /* The element type follows from the signature; the shape is that of X, known or not. */
    return in->set_output(in->ctx, 0, INLAY_UNDEFINED, x->rank, x->dims);
}

/* Examples. plugin-check runs them on every provider that offers the operator. */
#define WINDOW(n)                                                                                                      \
    {                                                                                                                  \
        .name = { "window", 6 }, .kind = INLAY_ATTR_INT, .i = (n)                                                      \
    }
static const inlay_attr_info windows[] = { WINDOW(1), WINDOW(2), WINDOW(100) };

static const int64_t dims[] = { 2, 4 }, no_rows[] = { 0, 4 };
static const float x32[] = { 1, 3, 5, 7, 4, 4, 0, -8 };
static const float by_2_32[] = { 1, 2, 4, 6, 4, 4, 2, -4 }, by_3_32[] = { 1, 2, 3, 5, 4, 4, 8.0f / 3, -4.0f / 3 };
static const double x64[] = { 1, 3, 5, 7, 4, 4, 0, -8 }, by_100_64[] = { 1, 2, 3, 4, 4, 4, 8.0 / 3, 0 };

#define VIEW(array, sizes, type)                                                                                       \
    {                                                                                                                  \
        array, sizeof array, sizes, 2, type                                                                            \
    }
static const inlay_tensor_view x_float = VIEW(x32, dims, INLAY_FLOAT), x_double = VIEW(x64, dims, INLAY_DOUBLE);
static const inlay_tensor_view y_by_2 = VIEW(by_2_32, dims, INLAY_FLOAT), y_by_3 = VIEW(by_3_32, dims, INLAY_FLOAT);
static const inlay_tensor_view y_by_100 = VIEW(by_100_64, dims, INLAY_DOUBLE);
static const inlay_tensor_view nothing = { x32, 0, no_rows, 2, INLAY_FLOAT };

#define EXAMPLE(title, attributes, n, x, y, tolerance)                                                                 \
    {                                                                                                                  \
        .name = title, .attrs = attributes, .attr_count = n, .attr_stride = sizeof windows[0], .inputs = &(x),         \
        .input_count = 1, .outputs = &(y), .output_count = 1, .rtol = tolerance                                        \
    }
static const inlay_op_example examples[] = {
    EXAMPLE("a window of two", &windows[1], 1, x_float, y_by_2, 1e-6),
    EXAMPLE("a window of one changes nothing", &windows[0], 1, x_float, x_float, 0),
    EXAMPLE("no attribute: a window of three", NULL, 0, x_float, y_by_3, 1e-6),
    EXAMPLE("a window longer than the row", &windows[2], 1, x_double, y_by_100, 1e-12),
    EXAMPLE("no rows", &windows[1], 1, nothing, nothing, 0),
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

/* Reports whether this node can be run; if not, the reason and the fix. `inlay explain` shows both texts. */
static bool supports(const kit_node *node, kit_refusal *why)
{
    int64_t window = kit_attr_int(node->info, "window", 3);

    if (window >= 1)
        return true;
    return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "set window to 1 or more", "window is %lld", (long long)window);
}

/* Estimates the time at these shapes. Each addition waits for the previous one, which takes longer than the kit's
 * estimate from operations per second, so this sets ns and not only flops. */
static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const kit_tensor *x = &shapes->in[0];
    bool known = x->count >= 0 && x->rank > 0; /* if not, assume a row of a thousand elements */
    double count = known ? (double)x->count : 1000, length = known ? (double)x->dims[x->rank - 1] : 1000;
    double window = (double)kit_attr_int(node->info, "window", 3);

    cost->flops = count * (window < length ? window : length);
    cost->ns = 60 + 0.25 * count + 0.25 * cost->flops; /* measured with `inlay bench` */
    cost->confidence = known ? INLAY_CONFIDENCE_MODEL : INLAY_CONFIDENCE_GUESS;
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

#define T float
#define PLAIN_ROW average_floats
#include "plain_row.inc"
#define T double
#define PLAIN_ROW average_doubles
#include "plain_row.inc"

static inlay_status run(const kit_call *call)
{
    const kit_tensor *x = &call->in[0], *y = &call->out[0];
    int64_t length = x->dims[x->rank - 1], window = *(const int64_t *)call->state;

    for (int64_t at = 0; at < x->count; at += length) {
        if (x->dtype == INLAY_FLOAT)
            average_floats((const float *)x->data + at, (float *)y->data + at, length, window);
        else
            average_doubles((const double *)x->data + at, (double *)y->data + at, length, window);
    }
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { .domain = "com.example",
      .op_type = "MovingAverage",
      .since_max = 1,
      .in_types = { KIT_BIT(FLOAT) | KIT_BIT(DOUBLE) },
      .supports = supports,
      .cost = cost,
      .prepare = prepare,
      .run = run },
};
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const kit_provider provider = { .name = "moving_average",
                                       .description = "com.example.MovingAverage on the CPU",
                                       .tables = tables,
                                       .table_count = KIT_COUNT(tables) };

static const kit_plugin moving_average = { .name = "moving_average",
                                           .version = INLAY_NOTE_VERSION,
                                           .provider = &provider,
                                           .operators = operators,
                                           .operator_count = KIT_COUNT(operators) };
KIT_PLUGIN_NAMED(moving_average, "moving_average", "moving_average", "com.example")
