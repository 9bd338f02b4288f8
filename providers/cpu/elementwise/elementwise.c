/* Unary elementwise operators: parsing, and lowering of those that are not fused. Most are fused into a convolution or
 * matrix multiplication (posts.c). */
#include "cpu/elementwise/elementwise.h"
#include "cpu/region/build.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include <float.h>
#include <math.h>

/* ------------------------------------------------------------------ reading */

/* Clip-6 has attributes whose defaults are the largest finite numbers. Clip-11 has inputs; an omitted one is no bound.
 */
static bool clip_bounds(const kit_node *node, cpu_eltwise *eltwise, kit_refusal *why)
{
    *eltwise = (cpu_eltwise){ LIBRARY_ELTWISE_CLIP_V2, -INFINITY, INFINITY };
    if (node->info->since_version < 11) {
        eltwise->alpha = (float)kit_attr_float(node->info, "min", -(double)FLT_MAX);
        eltwise->beta = (float)kit_attr_float(node->info, "max", (double)FLT_MAX);
        return true;
    }
    if ((kit_input(node, 1) != NULL && !cpu_known_scalar(kit_input(node, 1), &eltwise->alpha)) ||
        (kit_input(node, 2) != NULL && !cpu_known_scalar(kit_input(node, 2), &eltwise->beta)))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "make min and max constants", "the bounds are not constant");
    /* ONNX Clip-13: where min > max, everything is max. */
    if (eltwise->alpha > eltwise->beta)
        eltwise->alpha = eltwise->beta;
    return true;
}

/* Pow with a constant exponent that has a loop, in this provider and in the reference. */
static bool power(const kit_node *node, cpu_eltwise *eltwise, kit_refusal *why)
{
    static const struct {
        float exponent;
        int alg;
        float alpha;
    } known[] = { { 2, CPU_SQUARE, 0 },
                  { 3, CPU_CUBE, 0 },
                  { 0.5f, CPU_ROOT, 0 },
                  { -1, CPU_RECIPROCAL, 0 },
                  { 1, LIBRARY_ELTWISE_LINEAR, 1 } };
    float exponent;

    if (!cpu_known_scalar(kit_input(node, 1), &exponent))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "make the exponent a constant",
                          "the exponent is not a constant scalar");
    if (kit_input(node, 1)->rank > kit_input(node, 0)->rank)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the exponent has more axes than the base");
    for (uint32_t i = 0; i < KIT_COUNT(known); i++) {
        if (exponent == known[i].exponent) {
            *eltwise = (cpu_eltwise){ (library_alg)known[i].alg, known[i].alpha, 0 };
            return true;
        }
    }
    return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use an exponent of 2, 3, 1/2, -1 or 1",
                      "the exponent %g is not supported", (double)exponent);
}

static bool parse_eltwise(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    static const struct {
        const char *op_type;
        int alg;
        const char *alpha, *beta; /* names of attributes; NULL: the default is the only value */
        double default_alpha, default_beta;
    } known[] = {
        { "Relu", LIBRARY_ELTWISE_RELU, NULL, NULL, 0, 0 },
        { "Sigmoid", LIBRARY_ELTWISE_LOGISTIC, NULL, NULL, 0, 0 },
        { "Tanh", LIBRARY_ELTWISE_TANH, NULL, NULL, 0, 0 },
        { "Abs", LIBRARY_ELTWISE_ABS, NULL, NULL, 0, 0 },
        { "Sqrt", LIBRARY_ELTWISE_SQRT, NULL, NULL, 0, 0 },
        { "Exp", LIBRARY_ELTWISE_EXP, NULL, NULL, 0, 0 },
        { "Log", LIBRARY_ELTWISE_LOG, NULL, NULL, 0, 0 },
        { "Neg", LIBRARY_ELTWISE_LINEAR, NULL, NULL, -1, 0 },
        { "Softplus", LIBRARY_ELTWISE_SOFT_RELU, NULL, NULL, 1, 0 },
        { "HardSwish", LIBRARY_ELTWISE_HARDSWISH, NULL, NULL, 0, 0 },
        { "Mish", LIBRARY_ELTWISE_MISH, NULL, NULL, 0, 0 },
        { "LeakyRelu", LIBRARY_ELTWISE_RELU, "alpha", NULL, 0.01, 0 },
        { "Elu", LIBRARY_ELTWISE_ELU, "alpha", NULL, 1, 0 },
        { "Swish", LIBRARY_ELTWISE_SWISH, "alpha", NULL, 1, 0 },
        { "Erf", CPU_ERF, NULL, NULL, 0, 0 },
        { "Reciprocal", CPU_RECIPROCAL, NULL, NULL, 0, 0 },
        { "Floor", CPU_FLOOR, NULL, NULL, 0, 0 },
        { "Ceil", CPU_CEIL, NULL, NULL, 0, 0 },
        { "Round", CPU_ROUND, NULL, NULL, 0, 0 },
        { "Sign", CPU_SIGN, NULL, NULL, 0, 0 },
        { "Softsign", CPU_SOFTSIGN, NULL, NULL, 0, 0 },
        { "Sin", CPU_SIN, NULL, NULL, 0, 0 },
        { "Cos", CPU_COS, NULL, NULL, 0, 0 },
        { "Selu", CPU_SELU, "alpha", "gamma", 1.67326319217681884765625, 1.05070102214813232421875 },
        { "Celu", CPU_CELU, "alpha", NULL, 1, 0 },
        { "ThresholdedRelu", CPU_THRESHOLD, "alpha", NULL, 1, 0 },
        { "Shrink", CPU_SHRINK, "lambd", "bias", 0.5, 0 },
    };
    const char *type = op->row->op_type;

    if (!cpu_is_large(node, why))
        return false;
    op->eltwise_count = 1;
    for (uint32_t i = 0; i < KIT_COUNT(known); i++) {
        const double alpha = known[i].default_alpha, beta = known[i].default_beta;

        if (strcmp(type, known[i].op_type) != 0)
            continue;
        op->eltwise[0] =
            (cpu_eltwise){ (library_alg)known[i].alg,
                           (float)(known[i].alpha != NULL ? kit_attr_float(node->info, known[i].alpha, alpha) : alpha),
                           (float)(known[i].beta != NULL ? kit_attr_float(node->info, known[i].beta, beta) : beta) };
        return true;
    }
    if (strcmp(type, "Clip") == 0)
        return clip_bounds(node, &op->eltwise[0], why);
    if (strcmp(type, "Pow") == 0)
        return power(node, &op->eltwise[0], why);
    if (strcmp(type, "Gelu") == 0) {
        bool by_tanh = strcmp(kit_attr_string(node->info, "approximate", "none"), "tanh") == 0;

        op->eltwise[0] = (cpu_eltwise){ by_tanh ? LIBRARY_ELTWISE_GELU_TANH : LIBRARY_ELTWISE_GELU_ERF, 0, 0 };
    } else { /* HardSigmoid */
        op->eltwise_count = 2;
        op->eltwise[0] = (cpu_eltwise){ LIBRARY_ELTWISE_LINEAR, (float)kit_attr_float(node->info, "alpha", 0.2),
                                        (float)kit_attr_float(node->info, "beta", 0.5) };
        op->eltwise[1] = (cpu_eltwise){ LIBRARY_ELTWISE_CLIP_V2, 0, 1 };
    }
    return true;
}

/* ------------------------------------------------------------------ lowering */

static inlay_status lower_eltwise(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    bool overwrite = cpu_is_last_use(build, op->in[0]);
    cpu_place now, next;
    inlay_status status;

    INLAY_CHECK(op->in[0] < build->compiled->value_count);
    INLAY_TRY(cpu_read(build, op->in[0], &now));
    overwrite = overwrite && build->places[op->in[0]].buffer == now.buffer;
    if (!memory_desc_is_blocked(&now.md) && !memory_desc_is_dense(&now.md)) {
        INLAY_TRY(cpu_read_plain(build, op->in[0], &now));
        overwrite = false;
    }
    for (uint32_t f = 0; f < op->eltwise_count; f++) {
        bool last = f + 1 == op->eltwise_count && group->post_count == 0;

        INLAY_TRY(cpu_eltwise_at(build, &now, overwrite, &op->eltwise[f], last ? group->out : INLAY_NONE, &next));
        now = next;
        overwrite = true;
    }
    status = cpu_finish(build, group, 0, &now, true);
done:
    return status;
}

const cpu_family cpu_eltwise_family = {
    .name = "elementwise", .parse = parse_eltwise, .lower = lower_eltwise, .takes_posts = true
};
