/* Functions of one tensor: reading the nodes, and running them by themselves. Mostly they end up behind a convolution
 * or product (posts.c). */
#include "build.h"
#include "sgemm.h"
#include "vecmath.h"
#include <float.h>
#include <math.h>

/* ------------------------------------------------------------------ reading */

/* Scalars and vectors are mostly shape arithmetic, which the host computes ahead when it is no part of a region. */
bool rg_is_large(const kit_node *node, kit_refusal *why)
{
    const inlay_value_info *y = kit_output(node, 0);

    for (uint32_t i = 0; i < node->info->input_count; i++)
        if (rg_is_dynamic_scale(node, kit_input(node, i)))
            return true;
    return y->rank >= 2 ||
           kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "scalars and vectors are not worth a oneDNN primitive");
}

/* Clip-6 has attributes, with the ends of finite numbers where they are omitted; Clip-11 has inputs, and what is
 * omitted does not bound. */
static bool clip_bounds(const kit_node *node, rg_eltwise *f, kit_refusal *why)
{
    *f = (rg_eltwise){ dnnl_eltwise_clip_v2, -INFINITY, INFINITY };
    if (node->info->since_version < 11) {
        f->alpha = (float)kit_attr_float(node->info, "min", -(double)FLT_MAX);
        f->beta = (float)kit_attr_float(node->info, "max", (double)FLT_MAX);
        return true;
    }
    if ((kit_input(node, 1) != NULL && !rg_known_scalar(kit_input(node, 1), &f->alpha)) ||
        (kit_input(node, 2) != NULL && !rg_known_scalar(kit_input(node, 2), &f->beta)))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "make min and max constants", "the bounds are not constant");
    /* ONNX Clip-13: where min > max, everything is max. */
    if (f->alpha > f->beta)
        f->alpha = f->beta;
    return true;
}

static bool parse_eltwise(const kit_node *node, rg_op *op, kit_refusal *why)
{
    static const struct {
        const char *op_type;
        rg_eltwise f;
    } plain[] = {
        { "Relu", { dnnl_eltwise_relu, 0, 0 } },
        { "Sigmoid", { dnnl_eltwise_logistic, 0, 0 } },
        { "Tanh", { dnnl_eltwise_tanh, 0, 0 } },
        { "Abs", { dnnl_eltwise_abs, 0, 0 } },
        { "Sqrt", { dnnl_eltwise_sqrt, 0, 0 } },
        { "Exp", { dnnl_eltwise_exp, 0, 0 } },
        { "Log", { dnnl_eltwise_log, 0, 0 } },
        { "Neg", { dnnl_eltwise_linear, -1, 0 } },
        { "Softplus", { dnnl_eltwise_soft_relu, 1, 0 } },
        { "HardSwish", { dnnl_eltwise_hardswish, 0, 0 } },
        { "Mish", { dnnl_eltwise_mish, 0, 0 } },
    };
    const char *type = op->row->op_type;

    if (!rg_is_large(node, why))
        return false;
    op->eltwise_count = 1;
    for (uint32_t i = 0; i < KIT_COUNT(plain); i++) {
        if (strcmp(type, plain[i].op_type) == 0) {
            op->eltwise[0] = plain[i].f;
            return true;
        }
    }
    if (strcmp(type, "Clip") == 0)
        return clip_bounds(node, &op->eltwise[0], why);
    if (strcmp(type, "LeakyRelu") == 0) {
        op->eltwise[0] = (rg_eltwise){ dnnl_eltwise_relu, (float)kit_attr_float(node->info, "alpha", 0.01), 0 };
    } else if (strcmp(type, "Elu") == 0) {
        op->eltwise[0] = (rg_eltwise){ dnnl_eltwise_elu, (float)kit_attr_float(node->info, "alpha", 1), 0 };
    } else if (strcmp(type, "Swish") == 0) {
        op->eltwise[0] = (rg_eltwise){ dnnl_eltwise_swish, (float)kit_attr_float(node->info, "alpha", 1), 0 };
    } else if (strcmp(type, "Gelu") == 0) {
        bool by_tanh = strcmp(kit_attr_string(node->info, "approximate", "none"), "tanh") == 0;

        op->eltwise[0] = (rg_eltwise){ by_tanh ? dnnl_eltwise_gelu_tanh : dnnl_eltwise_gelu_erf, 0, 0 };
    } else { /* HardSigmoid */
        op->eltwise_count = 2;
        op->eltwise[0] = (rg_eltwise){ dnnl_eltwise_linear, (float)kit_attr_float(node->info, "alpha", 0.2),
                                       (float)kit_attr_float(node->info, "beta", 0.5) };
        op->eltwise[1] = (rg_eltwise){ dnnl_eltwise_clip_v2, 0, 1 };
    }
    return true;
}

/* ------------------------------------------------------------------ lowering */

inlay_status rg_attr_create(rg_build *b, dnnl_primitive_attr_t *out)
{
    inlay_status status = rg_check(dnnl_primitive_attr_create(out), b->diag, "set attributes", b->op->name);

    if (status == INLAY_OK)
        (void)dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    return status;
}

inlay_status rg_describe(rg_build *b, const void *desc, dnnl_primitive_desc_t *out)
{
    dnnl_primitive_attr_t attr = NULL;
    inlay_status status = rg_attr_create(b, &attr);

    *out = NULL;
    if (status == INLAY_OK)
        status = rg_check(dnnl_primitive_desc_create(out, desc, attr, b->state->engine, NULL), b->diag,
                          "compute this", b->op->name);
    (void)dnnl_primitive_attr_destroy(attr);
    return status;
}

/* Loops of our own. Log is rounded so that log(2) and the like are what everybody else's are: models cut positions into
 * buckets by it, and a result one bit lower is another bucket. The others keep NaN, infinity and the sign of zero as
 * ONNX has them, where oneDNN's kernels lose them; their time is that of the memory either way. */
typedef struct functions {
    rg_native native;
    rg_eltwise f;
    int64_t count;
} functions;

typedef struct functions_call {
    const rg_eltwise *f;
    const sg_kernel *kernel;
    const float *x;
    float *y; /* may be x */
} functions_call;

#define FUNCTION(name, expression)                                                                        \
    KIT_MULTIVERSION static void name(const float *x, float *y, int64_t n, float alpha, float beta)       \
    {                                                                                                     \
        (void)alpha, (void)beta;                                                                          \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                                               \
        {                                                                                                 \
            const float a = x[i];                                                                         \
            y[i] = (expression);                                                                          \
        }                                                                                                 \
    }
FUNCTION(log_row, vm_log(a))
FUNCTION(exp_row, vm_exp(a))
FUNCTION(relu_row, a < 0 ? 0 : a)
FUNCTION(leaky_row, a < 0 ? a * alpha : a)
FUNCTION(scale_row, a * alpha)
FUNCTION(linear_row, a * alpha + beta)
FUNCTION(clip_row, a < alpha ? alpha : a > beta ? beta : a)

typedef void (*function_row)(const float *, float *, int64_t, float, float);

static function_row row_of(const rg_eltwise *f)
{
    switch ((int)f->alg) {
    case dnnl_eltwise_log:
        return log_row;
    case dnnl_eltwise_exp:
        return exp_row;
    case dnnl_eltwise_relu:
        return f->alpha == 0 ? relu_row : leaky_row;
    case dnnl_eltwise_linear:
        return f->beta == 0 ? scale_row : linear_row; /* -0 + 0 is 0 */
    case dnnl_eltwise_clip_v2:
        return clip_row;
    default:
        return NULL;
    }
}

bool rg_is_gelu(const rg_eltwise *f)
{
    return f->alg == dnnl_eltwise_gelu_erf || f->alg == dnnl_eltwise_gelu_tanh;
}

/* False: oneDNN's own it is. */
static bool has_loop(const rg_state *state, const rg_eltwise *f)
{
    return row_of(f) != NULL || (rg_is_gelu(f) && state->sgemm != NULL);
}

/* What products have behind them, which works in place, by pieces that stay in the first-level cache. */
static void behind_row(const functions_call *c, int64_t begin, int64_t end)
{
    enum { PIECE = 2048 };
    sg_post post = { .fn = SG_GELU };

    (void)rg_function_of(c->f, &post);
    for (int64_t i = begin; i < end; i += PIECE) {
        const int64_t n = end - i < PIECE ? end - i : PIECE;

        if (c->x != c->y)
            memcpy(c->y + i, c->x + i, (size_t)n * sizeof *c->y);
        c->kernel->post(&post, c->y + i, n, 1, n);
    }
}

static inlay_status functions_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const functions_call *c = user;
    const function_row row = row_of(c->f);

    (void)worker;
    if (row != NULL)
        row(c->x + begin, c->y + begin, end - begin, c->f->alpha, c->f->beta);
    else
        behind_row(c, begin, end);
    return INLAY_OK;
}

static inlay_status run_functions(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                                  uint32_t threads)
{
    const functions *l = (const functions *)(const void *)native;
    functions_call c = { &l->f, state->sgemm, args[0], args[1] };
    enum { GRAIN = 16384 };

    if (threads <= 1 || l->count <= GRAIN)
        return functions_some(&c, 0, l->count, 0);
    return state->host->parallel_for(state->host->ctx, run, l->count, GRAIN, functions_some, &c);
}

static inlay_status emit_functions(rg_build *b, const rg_eltwise *f, const rg_place *x, const rg_place *y)
{
    functions *l = calloc(1, sizeof *l);

    if (l == NULL)
        return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", b->op->name);
    *l = (functions){ .native.run = run_functions, .f = *f, .count = rg_md_count(&x->md) };
    return rg_emit_native(b, &l->native, (const rg_place *const[]){ x, y }, 2);
}

inlay_status rg_eltwise_at(rg_build *b, const rg_place *x, bool overwrite, const rg_eltwise *f, uint32_t result,
                           rg_place *out)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_eltwise_desc_t desc;
    inlay_status status;

    if (overwrite && (result == INLAY_NONE || b->c->values[result].output == INLAY_NONE))
        *out = *x;
    else if (result != INLAY_NONE)
        INLAY_TRY(rg_result_place(b, result, &x->md, out));
    else
        INLAY_TRY(rg_new_place(b, &x->md, out));
    if (has_loop(b->state, f) && x->md.data_type == dnnl_f32 && rg_md_is_dense(&x->md))
        return emit_functions(b, f, x, out);
    INLAY_TRY(rg_check(dnnl_eltwise_forward_desc_init(&desc, dnnl_forward_inference, f->alg, &x->md, f->alpha, f->beta),
                       b->diag, "describe a function", b->op->name));
    INLAY_TRY(rg_describe(b, &desc, &pd));
    status = rg_emit(b, pd, (const rg_operand[]){ { DNNL_ARG_SRC, x }, { DNNL_ARG_DST, out } }, 2);
done:
    (void)dnnl_primitive_desc_destroy(pd);
    return status;
}

inlay_status rg_finish(rg_build *b, const rg_group *group, uint32_t first, const rg_place *made, bool overwrite)
{
    rg_place now = *made;

    for (uint32_t p = first; p < group->post_count; p++) {
        const rg_post *post = &group->posts[p];
        uint32_t result = p + 1 == group->post_count ? group->out : INLAY_NONE;
        rg_place next;
        inlay_status status;

        if (post->kind == RG_POST_ELTWISE)
            status = rg_eltwise_at(b, &now, overwrite, &post->eltwise, result, &next);
        else
            status = rg_binary_at(b, post->alg, &now, overwrite, post->other, group->out, result, &next);
        if (status != INLAY_OK)
            return status;
        now = next;
        overwrite = true;
    }
    return rg_set_place(b, group->out, &now);
}

static inlay_status lower_eltwise(rg_build *b, const rg_group *group)
{
    const rg_op *op = b->op;
    bool overwrite = rg_is_last_use(b, op->in[0]);
    rg_place now, next;
    inlay_status status;

    INLAY_TRY(rg_read(b, op->in[0], &now));
    overwrite = overwrite && b->places[op->in[0]].buffer == now.buffer;
    if (!rg_md_is_blocked(&now.md) && !rg_md_is_dense(&now.md)) {
        INLAY_TRY(rg_read_plain(b, op->in[0], &now));
        overwrite = false;
    }
    for (uint32_t f = 0; f < op->eltwise_count; f++) {
        bool last = f + 1 == op->eltwise_count && group->post_count == 0;

        INLAY_TRY(rg_eltwise_at(b, &now, overwrite, &op->eltwise[f], last ? group->out : INLAY_NONE, &next));
        now = next;
        overwrite = true;
    }
    status = rg_finish(b, group, 0, &now, true);
done:
    return status;
}

const rg_family rg_eltwise_family = { "elementwise", parse_eltwise, lower_eltwise };
