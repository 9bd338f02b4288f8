/* Functions of one tensor: reading the nodes, and running them by themselves. Mostly they end up behind a convolution
 * or product (posts.c). */
#include "region/build.h"
#include <float.h>
#include <math.h>

/* ------------------------------------------------------------------ reading */

/* Scalars and vectors are mostly shape arithmetic, which the host computes ahead when it is no part of a region. */
bool rg_is_large(const kit_node *node, kit_refusal *why)
{
    const inlay_value_info *output = kit_output(node, 0);

    for (uint32_t i = 0; i < node->info->input_count; i++)
        if (rg_is_dynamic_scale(node, kit_input(node, i)))
            return true;
    return output->rank >= 2 ||
           kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "scalars and vectors are not worth a step of a region");
}

/* Clip-6 has attributes, with the ends of finite numbers where they are omitted; Clip-11 has inputs, and what is
 * omitted does not bound. */
static bool clip_bounds(const kit_node *node, rg_eltwise *eltwise, kit_refusal *why)
{
    *eltwise = (rg_eltwise){ DN_ELTWISE_CLIP_V2, -INFINITY, INFINITY };
    if (node->info->since_version < 11) {
        eltwise->alpha = (float)kit_attr_float(node->info, "min", -(double)FLT_MAX);
        eltwise->beta = (float)kit_attr_float(node->info, "max", (double)FLT_MAX);
        return true;
    }
    if ((kit_input(node, 1) != NULL && !rg_known_scalar(kit_input(node, 1), &eltwise->alpha)) ||
        (kit_input(node, 2) != NULL && !rg_known_scalar(kit_input(node, 2), &eltwise->beta)))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "make min and max constants", "the bounds are not constant");
    /* ONNX Clip-13: where min > max, everything is max. */
    if (eltwise->alpha > eltwise->beta)
        eltwise->alpha = eltwise->beta;
    return true;
}

/* Pow by one of the exponents that are in use: those that the reference has loops for, too. */
static bool power(const kit_node *node, rg_eltwise *eltwise, kit_refusal *why)
{
    static const struct {
        float exponent;
        int alg;
        float alpha;
    } known[] = { { 2, RG_SQUARE, 0 },
                  { 3, RG_CUBE, 0 },
                  { 0.5f, RG_ROOT, 0 },
                  { -1, RG_RECIPROCAL, 0 },
                  { 1, DN_ELTWISE_LINEAR, 1 } };
    float exponent;

    if (!rg_known_scalar(kit_input(node, 1), &exponent))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "make the exponent a constant",
                          "the exponent is not one number");
    if (kit_input(node, 1)->rank > kit_input(node, 0)->rank)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the exponent has more axes than the base");
    for (uint32_t i = 0; i < KIT_COUNT(known); i++) {
        if (exponent == known[i].exponent) {
            *eltwise = (rg_eltwise){ (dn_alg)known[i].alg, known[i].alpha, 0 };
            return true;
        }
    }
    return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use an exponent of 2, 3, 1/2, -1 or 1", "the power %g",
                      (double)exponent);
}

static bool parse_eltwise(const kit_node *node, rg_op *op, kit_refusal *why)
{
    /* alpha and beta: attributes of these names, or what is there for good */
    static const struct {
        const char *op_type;
        int alg;
        const char *alpha, *beta; /* NULL: no attribute */
        double alpha_is, beta_is; /* defaults */
    } known[] = {
        { "Relu", DN_ELTWISE_RELU, NULL, NULL, 0, 0 },
        { "Sigmoid", DN_ELTWISE_LOGISTIC, NULL, NULL, 0, 0 },
        { "Tanh", DN_ELTWISE_TANH, NULL, NULL, 0, 0 },
        { "Abs", DN_ELTWISE_ABS, NULL, NULL, 0, 0 },
        { "Sqrt", DN_ELTWISE_SQRT, NULL, NULL, 0, 0 },
        { "Exp", DN_ELTWISE_EXP, NULL, NULL, 0, 0 },
        { "Log", DN_ELTWISE_LOG, NULL, NULL, 0, 0 },
        { "Neg", DN_ELTWISE_LINEAR, NULL, NULL, -1, 0 },
        { "Softplus", DN_ELTWISE_SOFT_RELU, NULL, NULL, 1, 0 },
        { "HardSwish", DN_ELTWISE_HARDSWISH, NULL, NULL, 0, 0 },
        { "Mish", DN_ELTWISE_MISH, NULL, NULL, 0, 0 },
        { "LeakyRelu", DN_ELTWISE_RELU, "alpha", NULL, 0.01, 0 },
        { "Elu", DN_ELTWISE_ELU, "alpha", NULL, 1, 0 },
        { "Swish", DN_ELTWISE_SWISH, "alpha", NULL, 1, 0 },
        { "Erf", RG_ERF, NULL, NULL, 0, 0 },
        { "Reciprocal", RG_RECIPROCAL, NULL, NULL, 0, 0 },
        { "Floor", RG_FLOOR, NULL, NULL, 0, 0 },
        { "Ceil", RG_CEIL, NULL, NULL, 0, 0 },
        { "Round", RG_ROUND, NULL, NULL, 0, 0 },
        { "Sign", RG_SIGN, NULL, NULL, 0, 0 },
        { "Softsign", RG_SOFTSIGN, NULL, NULL, 0, 0 },
        { "Selu", RG_SELU, "alpha", "gamma", 1.67326319217681884765625, 1.05070102214813232421875 },
        { "Celu", RG_CELU, "alpha", NULL, 1, 0 },
        { "ThresholdedRelu", RG_THRESHOLD, "alpha", NULL, 1, 0 },
        { "Shrink", RG_SHRINK, "lambd", "bias", 0.5, 0 },
    };
    const char *type = op->row->op_type;

    if (!rg_is_large(node, why))
        return false;
    op->eltwise_count = 1;
    for (uint32_t i = 0; i < KIT_COUNT(known); i++) {
        const double alpha = known[i].alpha_is, beta = known[i].beta_is;

        if (strcmp(type, known[i].op_type) != 0)
            continue;
        op->eltwise[0] =
            (rg_eltwise){ (dn_alg)known[i].alg,
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

        op->eltwise[0] = (rg_eltwise){ by_tanh ? DN_ELTWISE_GELU_TANH : DN_ELTWISE_GELU_ERF, 0, 0 };
    } else { /* HardSigmoid */
        op->eltwise_count = 2;
        op->eltwise[0] = (rg_eltwise){ DN_ELTWISE_LINEAR, (float)kit_attr_float(node->info, "alpha", 0.2),
                                       (float)kit_attr_float(node->info, "beta", 0.5) };
        op->eltwise[1] = (rg_eltwise){ DN_ELTWISE_CLIP_V2, 0, 1 };
    }
    return true;
}

/* ------------------------------------------------------------------ lowering */

inlay_status rg_describe(rg_build *build, const dn_op *op, dn_description *out)
{
    inlay_status status;

    *out = NULL;
    if (rg_memo_find(build, op, out))
        return INLAY_OK;
    status = rg_check(dn_describe(build->state->engine, op, NULL, out), build->diag, "compute this", build->op->name);
    if (status == INLAY_OK)
        rg_memo_keep(build, op, *out);
    return status;
}

/* May a loop run over all that is there: are gaps nothing but zeros that fill blocks up, which stay zeros? */
static bool is_one_run(const rg_md *md, const rg_eltwise *eltwise)
{
    const rg_row_fn row = rg_row_of(eltwise);
    uint64_t padded = 1;
    float zero = 0;

    if (rg_md_is_dense(md))
        return true;
    for (int d = 0; d < md->ndims; d++)
        padded *= (uint64_t)md->padded_dims[d];
    if (row == NULL || !rg_md_is_blocked(md) || rg_md_bytes(md) != padded * sizeof(float))
        return false;
    row(&zero, &zero, 1, eltwise->alpha, eltwise->beta);
    return zero == 0;
}

inlay_status rg_eltwise_at(rg_build *build, const rg_place *place, bool overwrite, const rg_eltwise *eltwise,
                           uint32_t result, rg_place *out)
{
    dn_description pd = NULL;
    const bool floats = place->md.data_type == DN_F32;
    dn_op desc = { .kind = DN_ELTWISE, .alg = eltwise->alg, .alpha = eltwise->alpha, .beta = eltwise->beta };
    rg_place copy, *input = &copy;
    inlay_status status;
    rg_md plain;
    bool whole;

    copy = *place;
    whole = floats && is_one_run(&input->md, eltwise);
    if (!whole && (rg_is_ours(eltwise->alg) || (floats && rg_loses_nan(eltwise)))) {
        whole = true;
        rg_md_plain(&plain, (uint32_t)input->md.ndims, input->md.dims);
        INLAY_TRY(rg_reorder(build, place, &plain, input));
    }
    if (overwrite && (result == INLAY_NONE || build->compiled->values[result].output == INLAY_NONE))
        *out = *input;
    else if (result != INLAY_NONE)
        INLAY_TRY(rg_result_place(build, result, &input->md, out));
    else
        INLAY_TRY(rg_new_place(build, &input->md, out));
    if (whole && rg_row_is_best(build->state, eltwise, rg_md_count(&input->md)))
        return rg_emit_function(build, eltwise, input, out);
    desc.input = input->md;
    INLAY_TRY(rg_describe(build, &desc, &pd));
    status = rg_emit(build, pd, (const rg_operand[]){ { DN_ARG_SRC, input }, { DN_ARG_DST, out } }, 2);
done:
    dn_destroy(pd);
    return status;
}

inlay_status rg_finish(rg_build *build, const rg_group *group, uint32_t first, const rg_place *made, bool overwrite)
{
    rg_place now = *made;

    for (uint32_t post_index = first; post_index < group->post_count; post_index++) {
        const rg_post *post = &group->posts[post_index];
        uint32_t result = post_index + 1 == group->post_count ? group->out : INLAY_NONE;
        rg_place next;
        inlay_status status;

        if (post->kind == RG_POST_ELTWISE)
            status = rg_eltwise_at(build, &now, overwrite, &post->eltwise, result, &next);
        else
            status = rg_binary_at(build, post->alg, &now, overwrite, post->other, group->out, result, &next);
        if (status != INLAY_OK)
            return status;
        now = next;
        overwrite = true;
    }
    return rg_set_place(build, group->out, &now);
}

static inlay_status lower_eltwise(rg_build *build, const rg_group *group)
{
    const rg_op *op = build->op;
    bool overwrite = rg_is_last_use(build, op->in[0]);
    rg_place now, next;
    inlay_status status;

    INLAY_TRY(rg_read(build, op->in[0], &now));
    overwrite = overwrite && build->places[op->in[0]].buffer == now.buffer;
    if (!rg_md_is_blocked(&now.md) && !rg_md_is_dense(&now.md)) {
        INLAY_TRY(rg_read_plain(build, op->in[0], &now));
        overwrite = false;
    }
    for (uint32_t f = 0; f < op->eltwise_count; f++) {
        bool last = f + 1 == op->eltwise_count && group->post_count == 0;

        INLAY_TRY(rg_eltwise_at(build, &now, overwrite, &op->eltwise[f], last ? group->out : INLAY_NONE, &next));
        now = next;
        overwrite = true;
    }
    status = rg_finish(build, group, 0, &now, true);
done:
    return status;
}

const rg_family rg_eltwise_family = { "elementwise", parse_eltwise, lower_eltwise };
