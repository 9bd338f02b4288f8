/* Attention-23..25 without past keys and values, and Attention-1 of ai.inlay (ops/inlay/attention.c). With built-in
 * kernels it is one step (attend.c). Otherwise it is two batched matrix multiplications with a softmax between them,
 * which scales, masks and normalises a row in one pass. */
#include "cpu/attention/attention.h"
#include "cpu/attention/score_loops.h"
#include "cpu/product/product.h"
#include "cpu/region/build.h"
#include "cpu/matrix/sgemm.h"
#include "simd/vecmath.h"
#include "inlay/check.h"

/* True if the size is known to differ from the scores' size and is not 1 (broadcast). */
static bool differs(const inlay_dim *dim, const inlay_dim *of)
{
    return dim->kind == INLAY_DIM_FIXED && dim->value != 1 && of->kind == INLAY_DIM_FIXED && dim->value != of->value;
}

/* True if the known sizes of the mask match the scores. check_mask() checks sizes that are known only at run time. A
 * mask with fewer columns than keys hides the remaining keys. */
static bool mask_fits(const inlay_value_info *mask, inlay_dtype dtype, const inlay_value_info *queries,
                      const inlay_value_info *keys, kit_refusal *why)
{
    const inlay_dim *scores[] = { &queries->dims[0], &queries->dims[1], &queries->dims[2], &keys->dims[2] };

    if (mask == NULL)
        return true;
    if (mask->dtype != dtype)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "use a float mask", "a mask is %s, not %s",
                          inlay_dtype_name(mask->dtype), inlay_dtype_name(dtype));
    if (!cpu_known_rank(mask, 1, 4, "the mask", why))
        return false;
    for (uint32_t d = 0; d + 1 < mask->rank; d++)
        if (differs(&mask->dims[d], scores[4 - mask->rank + d]))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "axis %u of the mask does not match the scores", d);
    return true;
}

/* True if the numbers of heads are supported. Only attend.c allows several query heads to share one head of keys and
 * values. */
static bool heads_fit(const inlay_value_info *queries, const inlay_value_info *keys, const inlay_value_info *values)
{
    const inlay_dim *query_heads = &queries->dims[1], *key_heads = &keys->dims[1];

    if (!cpu_same_dim(key_heads, &values->dims[1]))
        return false;
    return cpu_same_dim(query_heads, key_heads) ||
           (sgemm_kernel_best() != NULL && query_heads->kind == INLAY_DIM_FIXED && key_heads->kind == INLAY_DIM_FIXED &&
            key_heads->value > 0 && query_heads->value % key_heads->value == 0);
}

static bool parse(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *in[5];

    for (uint32_t i = 0; i < 5; i++)
        in[i] = kit_input(node, i);
    for (uint32_t i = 0; i < 3; i++)
        if (!cpu_known_rank(in[i], 4, 4, "queries, keys or values", why))
            return false;
        else if (in[i]->dtype != INLAY_FLOAT)
            return kit_refuse(why, INLAY_REFUSE_DTYPE, "insert a Cast to float", "input %u is %s", i,
                              inlay_dtype_name(in[i]->dtype));
    op->attention.own = cpu_takes_inlay_domain(node);
    for (uint32_t i = 4; !op->attention.own && i < node->info->input_count; i++)
        if (kit_input(node, i) != NULL)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL,
                              "past keys and values, or lengths of keys, are not supported");
    if (!heads_fit(in[0], in[1], in[2]))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL,
                          "the number of query heads is not a multiple of the number of key heads");
    if (kit_attr_float(node->info, "softcap", 0) != 0 || kit_attr_int(node->info, "left_window_size", -1) >= 0 ||
        kit_attr_int(node->info, "right_window_size", -1) >= 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "softcap and windows are not supported");
    op->attention.causal = kit_attr_int(node->info, op->attention.own ? "causal" : "is_causal", 0) != 0;
    op->attention.guarded = op->attention.own && kit_attr_int(node->info, "guarded", 0) != 0;
    op->alpha = (float)kit_attr_float(node->info, "scale", 0);
    return mask_fits(in[3], INLAY_FLOAT, in[0], in[1], why) &&
           (!op->attention.own || mask_fits(in[4], INLAY_BOOL, in[0], in[1], why));
}

/* ------------------------------------------------------------------ softmax */

struct rows {
    cpu_native native;
    int64_t heads, queries, keys, count; /* count: number of rows */
    cpu_mask mask, hidden;
    int64_t reach; /* number of keys that the mask has columns for */
    float scale;
    sgemm_blank blank;
    bool causal;
};

struct call {
    const struct rows *rows;
    float *scores;
    const float *mask;
    const uint8_t *hidden;
};

static inlay_status run_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct call *call = user;
    const struct rows *rows = call->rows;

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t query = i % rows->queries, head = i / rows->queries % rows->heads,
                batch = i / rows->queries / rows->heads;
        int64_t visible = rows->causal && query + 1 < rows->reach ? query + 1 : rows->reach;
        if (call->hidden != NULL)
            KERNEL_BEST(score_loops)
                ->hide(call->scores + i * rows->keys, call->hidden + cpu_mask_at(&rows->hidden, batch, head, query),
                       rows->hidden.step, visible);
        KERNEL_BEST(score_loops)
            ->softmax_row(call->scores + i * rows->keys,
                          call->mask != NULL ? call->mask + cpu_mask_at(&rows->mask, batch, head, query) : NULL,
                          visible, rows->scale, rows->blank);
        for (int64_t k = visible; k < rows->keys; k++)
            call->scores[i * rows->keys + k] = 0;
    }
    return INLAY_OK;
}

static inlay_status run_rows(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const struct rows *rows = (const struct rows *)(const void *)native;
    struct call call = { rows, args[0], rows->mask.there ? args[1] : NULL,
                         rows->hidden.there ? args[1 + rows->mask.there] : NULL };
    int64_t grain = 16384 / (rows->keys > 0 ? rows->keys : 1) + 1;

    if (threads <= 1 || rows->count <= grain)
        return run_range(&call, 0, rows->count, 0);
    return state->host->parallel_for(state->host->ctx, run, rows->count, grain, run_range, &call);
}

static inlay_status emit_softmax(cpu_build *build, const cpu_place *scores)
{
    const cpu_op *op = build->op;
    const int64_t *q = build->dims[op->in[0]], *k = build->dims[op->in[1]];
    const cpu_place *places[3] = { scores, NULL, NULL };
    inlay_status status = INLAY_OK;
    uint32_t count = 1;
    cpu_place mask, hidden;
    struct rows rows;

    rows = (struct rows){ .native.run = run_rows,
                          .heads = q[1],
                          .queries = q[2],
                          .keys = k[2],
                          .count = q[0] * q[1] * q[2],
                          .scale = cpu_attention_scale(op, q[3]),
                          .blank = cpu_masked_row_rule(op),
                          .causal = op->attention.causal && !op->attention.own, /* ai.inlay: the bias is causal, too */
                          .reach = cpu_mask_columns(build) };
    INLAY_CHECK(rows.reach <= rows.keys);
    INLAY_TRY(cpu_read_mask(build, 3, &rows.mask, &mask));
    INLAY_TRY(cpu_read_mask(build, 4, &rows.hidden, &hidden));
    if (rows.mask.there)
        places[count++] = &mask;
    if (rows.hidden.there)
        places[count++] = &hidden;
    status = cpu_emit_step(build, &rows.native, sizeof rows, places, count);
done:
    return status;
}

/* ------------------------------------------------------------------ lowering */

static inlay_status check_mask(const cpu_build *build, uint32_t input)
{
    const cpu_op *op = build->op;
    const int64_t *q = build->dims[op->in[0]], scores[] = { q[0], q[1], q[2], build->dims[op->in[1]][2] };
    uint32_t mask = input < op->in_count ? op->in[input] : INLAY_NONE,
             rank = mask == INLAY_NONE ? 0 : build->ranks[mask];

    INLAY_CHECK(rank <= 4);
    for (uint32_t d = 0; d < rank; d++) {
        int64_t size = build->dims[mask][d], want = scores[4 - rank + d];
        bool last = d + 1 == rank;

        if (last && !op->attention.own ? size > want : size != want && (size != 1 || (last && input == 3)))
            return inlay_fail(build->diag, INLAY_SHAPE_MISMATCH,
                              "node '%s': dim %u of the mask is %lld, where the scores have %lld", op->name, d,
                              (long long)size, (long long)want);
    }
    return INLAY_OK;
}

static inlay_status lower(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    const int64_t *q = build->dims[op->in[0]], *k = build->dims[op->in[1]];
    const int64_t score_dims[] = { q[0], q[1], q[2], k[2] };
    cpu_place queries, keys, values, scores, output;
    inlay_status status;
    memory_desc md;

    INLAY_TRY(check_mask(build, 3));
    INLAY_TRY(check_mask(build, 4));
    /* Only attend.c scales queries, as ONNX defines it. */
    if (build->state->attend != NULL || k[1] != q[1] || (!op->attention.own && sgemm_kernel_best() != NULL))
        return cpu_lower_attend(build, group, sgemm_kernel_best());
    INLAY_TRY(cpu_read_matrix(build, op->in[0], 4, false, &queries));
    INLAY_TRY(cpu_read_matrix(build, op->in[1], 4, true, &keys));
    INLAY_TRY(cpu_read_matrix(build, op->in[2], 4, false, &values));
    memory_desc_plain(&md, 4, score_dims);
    INLAY_TRY(cpu_new_place(build, &md, &scores));
    INLAY_TRY(cpu_emit_cut_matrices(build, &queries, &keys, &scores));
    INLAY_TRY(emit_softmax(build, &scores));
    memory_desc_plain(&md, 4, build->dims[group->out]);
    INLAY_TRY(cpu_result_place(build, group->out, &md, &output));
    INLAY_TRY(cpu_emit_cut_matrices(build, &scores, &values, &output));
    status = cpu_set_place(build, group->out, &output);
done:
    return status;
}

const cpu_family cpu_attention = { .name = "attention", .parse = parse, .lower = lower };
