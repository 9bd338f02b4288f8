/* Unary elementwise operators: parsing, and lowering of those that are not fused. Most are fused into a convolution or
 * matrix multiplication. */
#include "cpu/elementwise/elementwise.h"
#include "cpu/region/build.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include <float.h>
#include <math.h>

/* Clip-6 has attributes whose defaults are the largest finite numbers. Clip-11 has inputs; an omitted input
 * is no bound. */
static bool clip_bounds(const kit_node *node, cpu_unary *unary, kit_refusal *why)
{
    *unary = (cpu_unary){ FUNCTION_CLIP, -INFINITY, INFINITY };
    if (kit_since_version(node) < 11) {
        unary->alpha = (float)kit_attr_float(node->info, "min", -(double)FLT_MAX);
        unary->beta = (float)kit_attr_float(node->info, "max", (double)FLT_MAX);
    } else if ((kit_input(node, 1) != NULL && !cpu_known_scalar(kit_input(node, 1), &unary->alpha)) ||
               (kit_input(node, 2) != NULL && !cpu_known_scalar(kit_input(node, 2), &unary->beta))) {
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "make min and max constants", "the bounds are not constant");
    }
    /* ONNX Clip-13: where min > max, everything is max; earlier versions are silent. */
    if (unary->alpha > unary->beta)
        unary->alpha = unary->beta;
    return true;
}

/* Pow with a constant exponent that has a loop, in this provider and in the reference. */
static bool power(const kit_node *node, cpu_unary *unary, kit_refusal *why)
{
    static const struct {
        float exponent;
        int function;
        float alpha;
    } known[] = { { 2, FUNCTION_SQUARE, 0 },
                  { 3, FUNCTION_CUBE, 0 },
                  { 0.5f, FUNCTION_ROOT, 0 },
                  { -1, FUNCTION_RECIPROCAL, 0 },
                  { 1, FUNCTION_LINEAR, 1 } };
    float exponent;

    if (!cpu_known_scalar(kit_input(node, 1), &exponent))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "make the exponent a constant",
                          "the exponent is not a constant scalar");
    if (kit_input(node, 1)->rank > kit_input(node, 0)->rank)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the exponent has more axes than the base");
    for (uint32_t i = 0; i < KIT_COUNT(known); i++) {
        if (exponent == known[i].exponent) {
            *unary = (cpu_unary){ (element_function)known[i].function, known[i].alpha, 0 };
            return true;
        }
    }
    return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use an exponent of 2, 3, 1/2, -1 or 1",
                      "the exponent %g is not supported", (double)exponent);
}

static bool parse_unary(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    static const struct {
        const char *op_type;
        int function;
        const char *alpha, *beta; /* names of attributes; NULL: the default is the only value */
        double default_alpha, default_beta;
    } known[] = {
        { "Relu", FUNCTION_RELU, NULL, NULL, 0, 0 },
        { "Sigmoid", FUNCTION_SIGMOID, NULL, NULL, 0, 0 },
        { "Tanh", FUNCTION_TANH, NULL, NULL, 0, 0 },
        { "Abs", FUNCTION_ABS, NULL, NULL, 0, 0 },
        { "Sqrt", FUNCTION_SQRT, NULL, NULL, 0, 0 },
        { "Exp", FUNCTION_EXP, NULL, NULL, 0, 0 },
        { "Log", FUNCTION_LOG, NULL, NULL, 0, 0 },
        { "Neg", FUNCTION_LINEAR, NULL, NULL, -1, 0 },
        { "Softplus", FUNCTION_SOFTPLUS, NULL, NULL, 1, 0 },
        { "HardSwish", FUNCTION_HARDSWISH, NULL, NULL, 0, 0 },
        { "Mish", FUNCTION_MISH, NULL, NULL, 0, 0 },
        { "LeakyRelu", FUNCTION_RELU, "alpha", NULL, 0.01, 0 },
        { "Elu", FUNCTION_ELU, "alpha", NULL, 1, 0 },
        { "Swish", FUNCTION_SWISH, "alpha", NULL, 1, 0 },
        { "Erf", FUNCTION_ERF, NULL, NULL, 0, 0 },
        { "Reciprocal", FUNCTION_RECIPROCAL, NULL, NULL, 0, 0 },
        { "Floor", FUNCTION_FLOOR, NULL, NULL, 0, 0 },
        { "Ceil", FUNCTION_CEIL, NULL, NULL, 0, 0 },
        { "Round", FUNCTION_ROUND, NULL, NULL, 0, 0 },
        { "Sign", FUNCTION_SIGN, NULL, NULL, 0, 0 },
        { "Softsign", FUNCTION_SOFTSIGN, NULL, NULL, 0, 0 },
        { "Sin", FUNCTION_SIN, NULL, NULL, 0, 0 },
        { "Cos", FUNCTION_COS, NULL, NULL, 0, 0 },
        { "Selu", FUNCTION_SELU, "alpha", "gamma", 1.67326319217681884765625, 1.05070102214813232421875 },
        { "Celu", FUNCTION_CELU, "alpha", NULL, 1, 0 },
        { "ThresholdedRelu", FUNCTION_THRESHOLD, "alpha", NULL, 1, 0 },
        { "Shrink", FUNCTION_SHRINK, "lambd", "bias", 0.5, 0 },
    };
    const char *type = op->row->op_type;

    if (!cpu_is_large(node, why))
        return false;
    op->unary_count = 1;
    for (uint32_t i = 0; i < KIT_COUNT(known); i++) {
        const double alpha = known[i].default_alpha, beta = known[i].default_beta;

        if (strcmp(type, known[i].op_type) != 0)
            continue;
        if (strcmp(type, "LeakyRelu") == 0 && kit_attr_float(node->info, "alpha", alpha) == 0)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use Relu", "0 times minus infinity is not 0");
        op->unary[0] =
            (cpu_unary){ (element_function)known[i].function,
                         (float)(known[i].alpha != NULL ? kit_attr_float(node->info, known[i].alpha, alpha) : alpha),
                         (float)(known[i].beta != NULL ? kit_attr_float(node->info, known[i].beta, beta) : beta) };
        return true;
    }
    if (strcmp(type, "Clip") == 0)
        return clip_bounds(node, &op->unary[0], why);
    if (strcmp(type, "Pow") == 0)
        return power(node, &op->unary[0], why);
    if (strcmp(type, "Gelu") == 0) {
        bool by_tanh = strcmp(kit_attr_string(node->info, "approximate", "none"), "tanh") == 0;

        op->unary[0] = (cpu_unary){ by_tanh ? FUNCTION_GELU_TANH : FUNCTION_GELU, 0, 0 };
    } else { /* HardSigmoid */
        op->unary_count = 2;
        op->unary[0] = (cpu_unary){ FUNCTION_LINEAR, (float)kit_attr_float(node->info, "alpha", 0.2),
                                    (float)kit_attr_float(node->info, "beta", 0.5) };
        op->unary[1] = (cpu_unary){ FUNCTION_CLIP, 0, 1 };
    }
    return true;
}

static inlay_status lower_unary(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    bool overwrite = cpu_is_last_use(build, op->in[0]);
    cpu_place now, next;
    inlay_status status;

    INLAY_CHECK(op->in[0] < build->compiled->value_count);
    INLAY_TRY(cpu_read(build, op->in[0], &now));
    overwrite = overwrite && build->places[op->in[0]].buffer == now.buffer;
    if (!layout_is_dense(&now.layout)) {
        INLAY_TRY(cpu_read_plain(build, op->in[0], &now));
        overwrite = false;
    }
    for (uint32_t f = 0; f < op->unary_count; f++) {
        bool last = f + 1 == op->unary_count && group->post_count == 0;

        INLAY_TRY(cpu_unary_at(build, &now, overwrite, &op->unary[f], last ? group->out : INLAY_NONE, &next));
        now = next;
        overwrite = true;
    }
    status = cpu_finish(build, group, 0, &now, true);
done:
    return status;
}

const cpu_family cpu_unary_family = {
    .kind = CPU_FAMILY_UNARY, .name = "elementwise", .parse = parse_unary, .lower = lower_unary, .takes_posts = true
};
