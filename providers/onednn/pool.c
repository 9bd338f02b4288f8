/* Pooling, and reductions that are pooling: over all of the image (ONNX MaxPool, AveragePool, GlobalAveragePool,
 * GlobalMaxPool, ReduceMean, ReduceMax). Reductions over the last axes are loops. */
#include "build.h"
#include "rows.h"
#include "window.h"

static bool parse_pool(const kit_node *node, rg_op *op, kit_refusal *why)
{
    const inlay_value_info *x = kit_input(node, 0);
    const char *type = op->row->op_type;
    bool include;
    const int64_t *kernel;
    uint32_t given;

    if (!rg_known_rank(x, 3, 5, "input 0", why))
        return false;
    op->keepdims = true;
    op->spatial = x->rank - 2;
    if (strncmp(type, "Global", 6) == 0) {
        op->global = true;
        op->alg = strcmp(type, "GlobalMaxPool") == 0 ? dnnl_pooling_max : dnnl_pooling_avg_exclude_padding;
        return true;
    }
    if (!rg_parse_window(node, x->rank - 2, op, why))
        return false;
    kernel = kit_attr_ints(node->info, "kernel_shape", &given);
    if (kernel == NULL || given != op->spatial)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "kernel_shape does not fit the input");
    memcpy(op->kernel, kernel, given * sizeof *kernel);
    op->ceil_mode = kit_attr_int(node->info, "ceil_mode", 0) != 0;
    include = kit_attr_int(node->info, "count_include_pad", 0) != 0;
    op->alg = strcmp(type, "MaxPool") == 0 ? dnnl_pooling_max
              : include                    ? dnnl_pooling_avg_include_padding
                                           : dnnl_pooling_avg_exclude_padding;
    if (op->ceil_mode && include)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "leave one of the two away",
                          "ceil_mode with count_include_pad counts what lies past the pads in oneDNN");
    if (op->alg != dnnl_pooling_max)
        for (uint32_t i = 0; i < op->spatial; i++)
            if (op->dilations[i] != 1)
                return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "a dilated AveragePool");
    for (uint32_t i = 0; i < op->spatial; i++)
        if (op->pads[i] >= op->kernel[i] || op->pads[op->spatial + i] >= op->kernel[i])
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "pads as wide as the window");
    return true;
}

/* Which axes are reduced, as bits; all known ahead. Attribute in old versions, input in new ones. */
static bool reduced_axes(const kit_node *node, uint32_t rank, uint32_t *out, kit_refusal *why)
{
    uint32_t count = 0;
    const int64_t *axes = kit_attr_ints(node->info, "axes", &count);
    int64_t list[RG_MAX_RANK];

    *out = 0;
    if (axes == NULL && kit_input(node, 1) != NULL) {
        if (!rg_known_ints(kit_input(node, 1), list, RG_MAX_RANK, &count))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "make the axes a constant", "the axes are not constant");
        axes = list;
    }
    for (uint32_t i = 0; i < count; i++) {
        int64_t a;

        if (!rg_axis(axes[i], rank, &a))
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "an axis outside the tensor");
        *out |= 1u << a;
    }
    if (count == 0) {
        if (kit_attr_int(node->info, "noop_with_empty_axes", 0) != 0)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "a reduction over no axes");
        *out = (1u << rank) - 1;
    }
    return true;
}

static bool parse_reduce(const kit_node *node, rg_op *op, kit_refusal *why)
{
    const inlay_value_info *x = kit_input(node, 0);
    const char *type = op->row->op_type;
    uint32_t rank, images, tail = 0;

    if (!rg_known_rank(x, 2, 6, "input 0", why) || !reduced_axes(node, x->rank, &op->axes, why))
        return false;
    rank = x->rank;
    op->keepdims = kit_attr_int(node->info, "keepdims", 1) != 0;
    images = rank >= 3 && rank <= 5 ? ((1u << rank) - 1) & ~3u : 0;
    if (op->axes == images && images != 0 && strcmp(type, "ReduceSum") != 0) {
        op->global = true;
        op->spatial = rank - 2;
        op->alg = strcmp(type, "ReduceMax") == 0 ? dnnl_pooling_max : dnnl_pooling_avg_exclude_padding;
        return true;
    }
    if (strcmp(type, "ReduceMax") == 0) /* rows that are masked entirely are looked for this way */
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "oneDNN's maximum of -inf alone is the lowest number");
    for (uint32_t d = rank; d-- > 0 && (op->axes & (1u << d)) != 0;)
        tail |= 1u << d;
    if (tail != op->axes || tail == (1u << rank) - 1)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "only the image or the last axes are reduced here");
    op->alg = strcmp(type, "ReduceSum") == 0 ? dnnl_reduction_sum : dnnl_reduction_mean;
    return true;
}

/* The output of a reduction: what was made has all axes, what ONNX wants perhaps not. */
static inlay_status set_reduced(rg_build *b, const rg_group *group, const rg_place *made)
{
    rg_place place = *made;
    inlay_status status;

    if (!b->op->keepdims) {
        rg_md plain;

        rg_md_plain(&plain, (uint32_t)place.md.ndims, place.md.dims);
        status = rg_reorder(b, made, &plain, &place);
        if (status != INLAY_OK)
            return status;
        rg_md_plain(&place.md, b->ranks[group->out], b->dims[group->out]);
    }
    return rg_finish(b, group, 0, &place, false);
}

static inlay_status read_image(rg_build *b, uint32_t x, rg_place *out)
{
    rg_md md;

    if (b->op->global || b->dims[x][1] < 8)
        return rg_read_plain(b, x, out);
    rg_md_channels_last(&md, b->ranks[x], b->dims[x]);
    md.data_type = rg_type(b, x);
    return rg_read_as(b, x, &md, out);
}

static inlay_status lower_pool(rg_build *b, const rg_group *group)
{
    const rg_op *op = b->op;
    uint32_t x = op->in[0], rank = b->ranks[x];
    dnnl_dims_t dims, begins = { 0 }, ends = { 0 }, kernel, strides, dilations;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_pooling_v2_desc_t desc;
    rg_place in, out;
    rg_md y_md;
    inlay_status status;
    bool done;

    if (!rg_counts(b->dims[x], rank) || !rg_counts(b->dims[op->out[0]], b->ranks[op->out[0]]))
        return inlay_fail(b->diag, INLAY_UNSUPPORTED, "node '%s': pooling of more than 2^31 - 1 elements", op->name);
    INLAY_TRY(rg_read(b, x, &in));
    if (!rg_md_is_image(&in.md)) /* kernels for row-major images are many times slower than a reorder */
        INLAY_TRY(read_image(b, x, &in));
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = d < 2 ? b->dims[x][d] : op->global ? 1 : b->dims[op->out[0]][d];
    if (!op->global)
        rg_window_pads(op, b->dims[x] + 2, dims + 2, op->kernel, begins, ends);
    for (uint32_t i = 0; i < op->spatial; i++) {
        kernel[i] = op->global ? b->dims[x][2 + i] : op->kernel[i];
        strides[i] = op->global ? 1 : op->strides[i];
        dilations[i] = op->global ? 0 : op->dilations[i] - 1;
    }
    if (op->alg == dnnl_pooling_max) {
        INLAY_TRY(rg_lower_max(b, &in, dims, kernel, strides, dilations, begins, op->keepdims ? group->out : op->out[0],
                               &out, &done));
        if (done)
            return set_reduced(b, group, &out);
    }
    rg_md_any(&y_md, rank, dims);
    y_md.data_type = in.md.data_type;
    INLAY_TRY(rg_check(dnnl_pooling_v2_forward_desc_init(&desc, dnnl_forward_inference, op->alg, &in.md, &y_md, strides,
                                                         kernel, dilations, begins, ends),
                       b->diag, "describe this pooling", op->name));
    INLAY_TRY(rg_describe(b, &desc, &pd));
    y_md = *dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0);
    INLAY_TRY(rg_result_place(b, op->keepdims ? group->out : op->out[0], &y_md, &out));
    INLAY_TRY(rg_emit(b, pd, (const rg_operand[]){ { DNNL_ARG_SRC, &in }, { DNNL_ARG_DST, &out } }, 2));
    status = set_reduced(b, group, &out);
done:
    (void)dnnl_primitive_desc_destroy(pd);
    return status;
}

/* Sums and means of rows by a loop of our own, whose results are those of LayerNormalization (normalize.c): rows of n
 * elements, or, where channels lie last, `count` images of n pixels with `inner` channels. */
typedef struct sums {
    rg_native native;
    int64_t count, n, inner; /* inner 0: rows */
    bool mean;
} sums;

typedef struct sums_call {
    const sums *s;
    const float *x;
    float *y;
} sums_call;

KIT_MULTIVERSION static void sum_rows(const float *x, float *y, int64_t count, int64_t n, float divisor)
{
    for (int64_t r = 0; r < count; r++)
        y[r] = row_sum(x + r * n, n) / divisor;
}

KIT_MULTIVERSION static void sum_columns(const float *x, float *y, int64_t n, int64_t inner, float divisor)
{
    enum { AT_ONCE = 64 };
    double total[AT_ONCE];

    for (int64_t c = 0; c < inner; c += AT_ONCE) {
        const int64_t width = inner - c < AT_ONCE ? inner - c : AT_ONCE;

        for (int64_t i = 0; i < width; i++)
            total[i] = 0;
        for (int64_t r = 0; r < n; r++)
            for (int64_t i = 0; i < width; i++)
                total[i] += (double)x[r * inner + c + i];
        for (int64_t i = 0; i < width; i++)
            y[c + i] = (float)total[i] / divisor;
    }
}

static inlay_status sums_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const sums_call *c = user;
    const int64_t n = c->s->n, inner = c->s->inner;

    (void)worker;
    for (int64_t i = begin; inner > 0 && i < end; i++)
        sum_columns(c->x + i * n * inner, c->y + i * inner, n, inner, c->s->mean ? (float)n : 1);
    if (inner == 0)
        sum_rows(c->x + begin * n, c->y + begin, end - begin, n, c->s->mean ? (float)n : 1);
    return INLAY_OK;
}

static inlay_status run_sums(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const sums *s = (const sums *)(const void *)native;
    sums_call c = { s, args[0], args[1] };
    int64_t grain = 32768 / (s->n * (s->inner > 0 ? s->inner : 1)) + 1;

    if (threads <= 1 || s->count <= grain)
        return sums_some(&c, 0, s->count, 0);
    return state->host->parallel_for(state->host->ctx, run, s->count, grain, sums_some, &c);
}

static inlay_status lower_reduce(rg_build *b, const rg_group *group)
{
    const rg_op *op = b->op;
    uint32_t x = op->in[0], rank = b->ranks[x];
    int64_t n = 1;
    rg_place in, out;
    sums *s;
    rg_md md;
    bool columns = false;
    inlay_status status;

    if (op->global) { /* over images, which are rows as long as channels do not lie last */
        INLAY_TRY(rg_read(b, x, &in));
        /* One axis: rows of a sequence that a Transpose has left where they were, summed as any other row. */
        columns = op->alg != dnnl_pooling_max && rank == 3 && rg_md_is_image(&in.md) && !rg_md_is_blocked(&in.md) &&
                  in.md.offset0 == 0;
        if (op->alg == dnnl_pooling_max || (rg_md_is_image(&in.md) && !columns))
            return lower_pool(b, group);
    }
    if (!columns)
        INLAY_TRY(rg_read_plain(b, x, &in));
    for (uint32_t d = 0; d < rank; d++)
        n *= (op->axes & (1u << d)) != 0 ? b->dims[x][d] : 1;
    rg_md_plain(&md, b->ranks[group->out], b->dims[group->out]);
    if (n == 1) { /* itself */
        in.md = md;
        return rg_finish(b, group, 0, &in, false);
    }
    INLAY_TRY(rg_result_place(b, group->out, &md, &out));
    s = calloc(1, sizeof *s);
    if (s == NULL)
        return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", op->name);
    *s = (sums){ .native.run = run_sums, .n = n, .mean = op->alg != dnnl_reduction_sum };
    s->inner = columns ? b->dims[x][1] : 0;
    s->count = columns ? b->dims[x][0] : rg_count(b, x) / n;
    INLAY_TRY(rg_emit_native(b, &s->native, (const rg_place *const[]){ &in, &out }, 2));
    status = rg_finish(b, group, 0, &out, false);
done:
    return status;
}

const rg_family rg_pool = { "pooling", parse_pool, lower_pool };
const rg_family rg_reduce = { "reduction", parse_reduce, lower_reduce };
