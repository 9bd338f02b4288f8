/* Softmax and LogSoftmax (ONNX Softmax-1..13) by oneDNN. Where a row has a NaN, or an infinity, ONNX has NaN all along
 * it; oneDNN has it there alone, and a loop behind it spreads it. */
#include "build.h"
#include <math.h>

static bool parse_softmax(const kit_node *node, rg_op *op, kit_refusal *why)
{
    const inlay_value_info *x = kit_input(node, 0);
    bool old = node->info->since_version < 13;

    if (!rg_known_rank(x, 2, 5, "input 0", why))
        return false;
    if (!rg_axis(kit_attr_int(node->info, "axis", old ? 1 : -1), x->rank, &op->axis))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "the axis is outside the tensor");
    if (old && op->axis != x->rank - 1) /* versions 1 to 11 flatten what follows the axis */
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "convert the model to opset 13",
                          "%s-%u over several axes at once", op->row->op_type, node->info->since_version);
    op->alg = strcmp(op->row->op_type, "LogSoftmax") == 0 ? dnnl_softmax_log : dnnl_softmax_accurate;
    return true;
}

typedef struct spread {
    rg_native native;
    int64_t outer, n, inner; /* rows of n elements, each inner from the next */
} spread;

typedef struct spread_call {
    const spread *s;
    float *y;
} spread_call;

KIT_MULTIVERSION static int has_nan(const float *y, int64_t n)
{
    int odd = 0;

#pragma omp simd reduction(| : odd)
    for (int64_t i = 0; i < n; i++)
        odd |= y[i] != y[i];
    return odd;
}

static void spread_rows(float *y, int64_t n, int64_t inner)
{
    for (int64_t i = 0; i < inner; i++) {
        bool odd = false;

        for (int64_t k = 0; k < n; k++)
            odd |= isnan(y[k * inner + i]) != 0;
        for (int64_t k = 0; k < n && odd; k++)
            y[k * inner + i] = NAN;
    }
}

static inlay_status spread_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const spread_call *c = user;
    const int64_t n = c->s->n, inner = c->s->inner, block = n * inner;

    (void)worker;
    if (has_nan(c->y + begin * block, (end - begin) * block))
        for (int64_t r = begin; r < end; r++)
            spread_rows(c->y + r * block, n, inner);
    return INLAY_OK;
}

static inlay_status run_spread(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const spread *s = (const spread *)(const void *)native;
    spread_call c = { s, args[0] };
    int64_t grain = 65536 / (s->n * s->inner + 1) + 1;

    if (threads <= 1 || s->outer <= grain)
        return spread_some(&c, 0, s->outer, 0);
    return state->host->parallel_for(state->host->ctx, run, s->outer, grain, spread_some, &c);
}

static inlay_status emit_spread(rg_build *b, const rg_place *y)
{
    const int64_t *strides = y->md.format_desc.blocking.strides;
    spread *s = calloc(1, sizeof *s);

    if (s == NULL)
        return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", b->op->name);
    *s = (spread){ .native.run = run_spread, .n = y->md.dims[b->op->axis], .inner = strides[b->op->axis] };
    s->outer = s->n > 0 ? rg_md_count(&y->md) / (s->n * s->inner) : 0;
    return rg_emit_native(b, &s->native, (const rg_place *const[]){ y }, 1);
}

static inlay_status emit_primitive(rg_build *b, const rg_place *x, const rg_place *y)
{
    const rg_op *op = b->op;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_softmax_v2_desc_t desc;
    inlay_status status;

    INLAY_TRY(rg_check(dnnl_softmax_v2_forward_desc_init(&desc, dnnl_forward_inference, op->alg, &x->md, &x->md,
                                                         (int)op->axis),
                       b->diag, "describe this softmax", op->name));
    INLAY_TRY(rg_describe(b, &desc, &pd));
    status = rg_emit(b, pd, (const rg_operand[]){ { DNNL_ARG_SRC, x }, { DNNL_ARG_DST, y } }, 2);
done:
    (void)dnnl_primitive_desc_destroy(pd);
    return status;
}

static inlay_status lower_softmax(rg_build *b, const rg_group *group)
{
    const rg_op *op = b->op;
    bool overwrite = rg_is_last_use(b, op->in[0]);
    const uint32_t rank = b->ranks[op->in[0]];
    rg_place x, y;
    inlay_status status;
    rg_md md;

    if (op->axis == 1 && rank >= 3 && rank <= 5) { /* along an axis that is not the innermost it goes one by one */
        rg_md_channels_last(&md, rank, b->dims[op->in[0]]);
        INLAY_TRY(rg_read_as(b, op->in[0], &md, &x));
    } else {
        INLAY_TRY(rg_read_plain(b, op->in[0], &x));
    }
    overwrite = overwrite && b->places[op->in[0]].buffer == x.buffer;
    if (overwrite && b->c->values[group->out].output == INLAY_NONE)
        y = x;
    else
        INLAY_TRY(rg_result_place(b, group->out, &x.md, &y));
    INLAY_TRY(emit_primitive(b, &x, &y));
    INLAY_TRY(emit_spread(b, &y));
    status = rg_finish(b, group, 0, &y, false);
done:
    return status;
}

const rg_family rg_softmax = { "softmax", parse_softmax, lower_softmax };
