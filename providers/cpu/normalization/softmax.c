/* Softmax and LogSoftmax (ONNX Softmax-1..13): loops over rows, or over columns side by side where the axis is not the
 * innermost. Where a row has a NaN, or an infinity, ONNX has NaN all along it; sums of differences from the largest
 * make it so. */
#include "normalization/row_loops.h"
#include "region/build.h"
#include "simd/row_set.h"

static bool parse_softmax(const kit_node *node, rg_op *op, kit_refusal *why)
{
    const inlay_value_info *x = kit_input(node, 0);
    const bool old = node->info->since_version < 13;

    if (!rg_known_rank(x, 1, RG_MAX_RANK, "input 0", why))
        return false;
    /* Versions 1 to 11 see a matrix, cut at the axis. */
    if (!rg_axis(kit_attr_int(node->info, "axis", old ? 1 : -1), x->rank, &op->axis))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "the axis is outside the tensor");
    op->softmax.flattened = old;
    op->alg = strcmp(op->row->op_type, "LogSoftmax") == 0 ? DN_SOFTMAX_LOG : DN_SOFTMAX_ACCURATE;
    return true;
}

struct softmax {
    rg_native native;
    int64_t n, inner; /* elements along the axis, and from one of them to the next */
    int64_t items;    /* rows, or blocks of columns */
    int64_t blocks;   /* of columns, in `inner` */
    bool log;
};

typedef struct softmax_call {
    const struct softmax *s;
    const float *x;
    float *y; /* may be x */
} softmax_call;

static inlay_status softmax_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const softmax_call *c = user;
    const struct softmax *s = c->s;
    const row_loops *const loops = KERNEL_BEST(row_loops);

    (void)worker;
    if (s->inner == 1) {
        (s->log ? KERNEL_BEST(rows)->log_softmax : KERNEL_BEST(rows)->softmax)(c->x + begin * s->n, c->y + begin * s->n,
                                                                               end - begin, s->n);
        return INLAY_OK;
    }
    for (int64_t i = begin; i < end; i++) {
        const int64_t column = i % s->blocks * ROW_COLUMNS, at = i / s->blocks * s->n * s->inner + column;
        const int64_t width = s->inner - column < ROW_COLUMNS ? s->inner - column : ROW_COLUMNS;

        (s->log ? loops->log_softmax : loops->softmax)(c->x + at, c->y + at, s->n, s->inner, width);
    }
    return INLAY_OK;
}

static inlay_status run_softmax(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                                uint32_t threads)
{
    const struct softmax *s = (const struct softmax *)(const void *)native;
    softmax_call c = { s, args[0], args[1] };
    const int64_t grain = 8192 / (s->n * (s->inner > 1 ? ROW_COLUMNS : 1)) + 1;

    if (threads <= 1 || s->items <= grain)
        return softmax_some(&c, 0, s->items, 0);
    return state->host->parallel_for(state->host->ctx, run, s->items, grain, softmax_some, &c);
}

/* ------------------------------------------------------------------ lowering */

/* x without gaps: as it lies if that is not in blocks. Along the channels, with these last. */
static inlay_status read_dense(rg_build *b, uint32_t value, rg_place *out)
{
    const rg_op *op = b->op;
    const uint32_t rank = b->ranks[value];
    inlay_status status;
    rg_md md;

    if (op->softmax.flattened) /* several axes as one */
        return rg_read_plain(b, value, out);
    status = rg_read(b, value, out);
    if (status != INLAY_OK || (!rg_md_is_blocked(&out->md) && rg_md_is_dense(&out->md)))
        return status;
    if (op->axis != 1 || rank < 3 || rank > 5)
        return rg_read_plain(b, value, out);
    rg_md_channels_last(&md, rank, b->dims[value]);
    return rg_read_as(b, value, &md, out);
}

static inlay_status lower_softmax(rg_build *b, const rg_group *group)
{
    const rg_op *op = b->op;
    const uint32_t rank = b->ranks[op->in[0]];
    bool overwrite = rg_is_last_use(b, op->in[0]);
    struct softmax s;
    rg_place x, y;
    inlay_status status;

    INLAY_TRY(read_dense(b, op->in[0], &x));
    overwrite = overwrite && b->places[op->in[0]].buffer == x.buffer;
    if (overwrite && b->c->values[group->out].output == INLAY_NONE)
        y = x;
    else
        INLAY_TRY(rg_result_place(b, group->out, &x.md, &y));
    s = (struct softmax){
        .native.run = run_softmax, .n = b->dims[op->in[0]][op->axis], .inner = 1, .log = op->alg == DN_SOFTMAX_LOG
    };
    for (uint32_t d = (uint32_t)op->axis + 1; op->softmax.flattened && d < rank; d++)
        s.n *= b->dims[op->in[0]][d];
    if (!op->softmax.flattened && s.n > 1)
        s.inner = x.md.strides[op->axis];
    s.blocks = (s.inner + ROW_COLUMNS - 1) / ROW_COLUMNS;
    s.items = rg_count(b, op->in[0]) / s.n / s.inner * (s.inner > 1 ? s.blocks : 1);
    INLAY_TRY(rg_emit_step(b, &s.native, sizeof s, (const rg_place *const[]){ &x, &y }, 2));
    status = rg_finish(b, group, 0, &y, false);
done:
    return status;
}

const rg_family rg_softmax = { "softmax", parse_softmax, lower_softmax };
