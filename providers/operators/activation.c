/* Activations: ONNX 1 to 28. float16 and bfloat16 compute in float, integers in int64 or double (elementwise.h). */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "operators/elementwise.h"
#include "simd/row_set.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>

/* NaN selects what it selects in the Where of ONNX's function bodies: an expression that contains x, except in
 * ThresholdedRelu and Shrink, where it selects 0. */
#define LOOP relu
#define F(x) ((x) < 0.0f ? 0.0f : (x))
#define D(x) ((x) < 0.0 ? 0.0 : (x))
#include "operators/unary.inc"
#define LOOP leaky_relu
#define F(x) ((x) < 0.0f ? A * (x) : (x))
#define D(x) ((x) < 0.0 ? A * (x) : (x))
#include "operators/unary.inc"
#define LOOP thresholded_relu
#define F(x) ((x) > A ? (x) : 0.0f)
#define D(x) ((x) > A ? (x) : 0.0)
#include "operators/unary.inc"
#define LOOP sigmoid /* the loop for float follows below */
#define D(x) sigmoid(x)
static double sigmoid(double x)
{
    double exponential = exp(-fabs(x));
    return (x < 0 ? exponential : 1.0) / (1.0 + exponential);
}
#include "operators/unary.inc"
#define LOOP hard_sigmoid
#define F(x) hard_unit_f(A *(x) + B)
#define D(x) hard_unit(A *(x) + B)
static inline float hard_unit_f(float x)
{
    float low = x < 0.0f ? 0.0f : x;
    return low > 1.0f ? 1.0f : low;
}
static inline double hard_unit(double x)
{
    return x < 0.0 ? 0.0 : x > 1.0 ? 1.0 : x;
}
#include "operators/unary.inc"
#define LOOP hard_swish /* x * HardSigmoid with alpha 1/6, beta 1/2 */
#define F(x) ((x)*hard_unit_f((x) * (1.0f / 6.0f) + 0.5f))
#define D(x) ((x)*hard_unit((x) / 6.0 + 0.5))
#include "operators/unary.inc"
#define LOOP swish
#define F(x) ((x)*vm_sigmoid(A * (x)))
#define D(x) ((x)*sigmoid(A * (x)))
#include "operators/unary.inc"
#define LOOP elu
#define F(x) ((x) < 0.0f ? A * vm_expm1(x) : (x))
#define D(x) ((x) < 0.0 ? A * expm1(x) : (x))
#include "operators/unary.inc"
#define LOOP selu /* B: gamma */
#define F(x) ((x) < 0.0f ? B * A * vm_expm1(x) : B * (x))
#define D(x) ((x) < 0.0 ? B * A * expm1(x) : B * (x))
#include "operators/unary.inc"
#define LOOP celu /* max(0, x) + min(0, alpha (e^(x / alpha) - 1)) */
#define F(x) celu_f(x, A)
#define D(x) celu(x, A)
static inline float celu_f(float x, float alpha)
{
    const float quotient = x / alpha, low = alpha * (quotient == 0.0f ? quotient : vm_expm1(quotient));

    return x < 0.0f ? low : x;
}
static inline double celu(double x, double alpha)
{
    double low = alpha * expm1(x / alpha);
    return x < 0.0 ? low : x;
}
#include "operators/unary.inc"
#define LOOP softplus /* ln(1 + e^x), without overflow */
#define F(x) softplus_f(x)
#define D(x) softplus(x)
static inline float softplus_f(float x)
{
    return (x < 0.0f ? 0.0f : x) + vm_log1p(vm_exp(-vm_abs(x)));
}
static inline double softplus(double x)
{
    return (x < 0.0 ? 0.0 : x) + log1p(exp(-fabs(x)));
}
#include "operators/unary.inc"
#define LOOP softsign
#define F(x) ((x) / (1.0f + vm_abs(x)))
#define D(x) ((x) / (1.0 + fabs(x)))
#include "operators/unary.inc"
#define LOOP mish /* x tanh(softplus x) = x (t^2 + 2t) / (t^2 + 2t + 2) with t = e^x */
#define F(x) mish_f(x)
#define D(x) ((x)*tanh(softplus(x)))
static inline float mish_f(float x)
{
    float exponential = vm_exp(x < 20.0f ? x : 20.0f), numerator = exponential * (exponential + 2.0f);
    return x != x ? x : x * (numerator / (numerator + 2.0f));
}
#include "operators/unary.inc"
#define LOOP gelu
#define F(x) vm_gelu(x)
#define D(x) (0.5 * (x)*erfc((x) * -0.70710678118654752))
#include "operators/unary.inc"
#define LOOP gelu_tanh /* Gelu-20 with approximate = tanh; 1 + tanh z = 2 sigmoid(2z) */
#define F(x) vm_gelu_tanh(x)
#define D(x) ((x) < -1e100 ? (x)*0.0 : (x)*sigmoid(1.5957691216057308 * ((x) + 0.044715 * (x) * (x) * (x))))
#include "operators/unary.inc"
#define LOOP shrink /* A: lambd, B: bias */
#define F(x) ((x) < -A ? (x) + B : (x) > A ? (x)-B : 0.0f)
#define D(x) ((x) < -A ? (x) + B : (x) > A ? (x)-B : 0.0)
#include "operators/unary.inc"

static void sigmoid_f32(void *out, const void *in, int64_t count, const double *args)
{
    (void)args;
    KERNEL_BEST(rows)->sigmoid(in, out, count);
}

static void relu_i64(void *out, const void *in, int64_t count, const double *args)
{
    int64_t *output = out;
    const int64_t *input = in;

    (void)args;
    for (int64_t i = 0; i < count; i++)
        output[i] = input[i] < 0 ? 0 : input[i];
}

typedef struct activation_row {
    const char *op_type;
    elementwise_unary_fn f32, f64;
    int64_t grain;        /* an ELEMENTWISE_GRAIN constant, for float */
    const char *attrs[2]; /* names of the attributes that give A and B */
} activation_row;

static const activation_row rows[] = {
    { "Relu", relu_f32, relu_f64, ELEMENTWISE_GRAIN, { NULL, NULL } },
    { "LeakyRelu", leaky_relu_f32, leaky_relu_f64, ELEMENTWISE_GRAIN, { "alpha", NULL } },
    { "ThresholdedRelu", thresholded_relu_f32, thresholded_relu_f64, ELEMENTWISE_GRAIN, { "alpha", NULL } },
    { "Sigmoid", sigmoid_f32, sigmoid_f64, ELEMENTWISE_GRAIN_MATH, { NULL, NULL } },
    { "HardSigmoid", hard_sigmoid_f32, hard_sigmoid_f64, ELEMENTWISE_GRAIN, { "alpha", "beta" } },
    { "HardSwish", hard_swish_f32, hard_swish_f64, ELEMENTWISE_GRAIN, { NULL, NULL } },
    { "Swish", swish_f32, swish_f64, ELEMENTWISE_GRAIN_MATH, { "alpha", NULL } },
    { "Elu", elu_f32, elu_f64, ELEMENTWISE_GRAIN_MATH, { "alpha", NULL } },
    { "Selu", selu_f32, selu_f64, ELEMENTWISE_GRAIN_MATH, { "alpha", "gamma" } },
    { "Celu", celu_f32, celu_f64, ELEMENTWISE_GRAIN_MATH, { "alpha", NULL } },
    { "Softplus", softplus_f32, softplus_f64, ELEMENTWISE_GRAIN_MATH, { NULL, NULL } },
    { "Softsign", softsign_f32, softsign_f64, ELEMENTWISE_GRAIN, { NULL, NULL } },
    { "Mish", mish_f32, mish_f64, ELEMENTWISE_GRAIN_MATH, { NULL, NULL } },
    { "Gelu", gelu_f32, gelu_f64, ELEMENTWISE_GRAIN_MATH, { NULL, NULL } },
    { "Shrink", shrink_f32, shrink_f64, ELEMENTWISE_GRAIN, { "lambd", "bias" } },
};

static const activation_row *find_row(const inlay_node_info *info)
{
    const activation_row *row = rows;

    while (row < rows + KIT_COUNT(rows) - 1 && !elementwise_is(info, row->op_type))
        row++;
    INLAY_CHECK(elementwise_is(info, row->op_type));
    return row;
}

static void cost_activation(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    (void)shapes;
    elementwise_cost(find_row(node->info)->grain, cost);
}

static inlay_status prepare_activation(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_dtype dtype = kit_input_dtype(node, 0);
    const activation_row *row = find_row(node->info);
    elementwise_unary *unary = calloc(1, sizeof *unary);

    if (unary == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a kernel's state");
    *out_state = unary;
    unary->fn = row->f32;
    unary->compute = INLAY_FLOAT;
    unary->grain = row->grain;
    if (dtype == INLAY_DOUBLE || (KIT_INTEGERS & INLAY_DTYPE_BIT(dtype)) != 0) {
        unary->fn = row->f64;
        unary->compute = INLAY_DOUBLE;
        unary->grain = row->grain == ELEMENTWISE_GRAIN ? ELEMENTWISE_GRAIN : ELEMENTWISE_GRAIN_CALLS;
    }
    if ((KIT_SIGNED & INLAY_DTYPE_BIT(dtype)) != 0 && elementwise_is(node->info, "Relu")) {
        unary->fn = relu_i64;
        unary->compute = INLAY_INT64;
    }
    /* Compared by name, because a function compiled in several versions has several addresses. */
    if (elementwise_is(node->info, "Gelu")) {
        const char *approximate = kit_attr_string(node->info, "approximate", "none");
        bool is_tanh = strcmp(approximate, "tanh") == 0;

        if (!is_tanh && strcmp(approximate, "none") != 0)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "Gelu: approximate is '%s'; it can be 'none' or 'tanh'",
                              approximate);
        if (is_tanh)
            unary->fn = unary->compute == INLAY_FLOAT ? gelu_tanh_f32 : gelu_tanh_f64;
    }
    unary->result = unary->compute;
    for (int i = 0; i < 2; i++)
        unary->args[i] = row->attrs[i] != NULL ? kit_attr_float(node->info, row->attrs[i], 0) : 0;
    return INLAY_OK;
}

#define ACTIVATION(name, types)                                                                                        \
    {                                                                                                                  \
        .op_type = name, .in_types = { types }, .flags = KIT_IN_PLACE, .prepare = prepare_activation,                  \
        .run = elementwise_unary_run, .cost = cost_activation, .row = elementwise_unary_row, .row_inputs = 1           \
    }
static const kit_kernel kernels[] = {
    ACTIVATION("Relu", KIT_FLOATS | KIT_SIGNED),
    ACTIVATION("LeakyRelu", KIT_FLOATS),
    ACTIVATION("ThresholdedRelu", KIT_FLOATS),
    ACTIVATION("Sigmoid", KIT_FLOATS),
    ACTIVATION("HardSigmoid", KIT_FLOATS),
    ACTIVATION("HardSwish", KIT_FLOATS),
    ACTIVATION("Swish", KIT_FLOATS),
    ACTIVATION("Elu", KIT_FLOATS),
    ACTIVATION("Selu", KIT_FLOATS),
    ACTIVATION("Celu", KIT_FLOATS),
    ACTIVATION("Softplus", KIT_FLOATS),
    ACTIVATION("Softsign", KIT_FLOATS),
    ACTIVATION("Mish", KIT_FLOATS),
    ACTIVATION("Gelu", KIT_FLOATS),
    ACTIVATION("Shrink", KIT_NUMBERS),
};
const kit_table OPERATOR(operators_activation) = { kernels, KIT_COUNT(kernels) };
