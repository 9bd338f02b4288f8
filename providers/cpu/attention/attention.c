/* Attention-23..25 without past keys and values, and Attention and CachedAttention of ai.inlay (ops/inlay/attention.c,
 * cache_rows.c): parsing, and the checks of masks. attend.c computes it in one step. */
#include "cpu/attention/attention.h"
#include "cpu/region/build.h"
#include "cpu/matrix/sgemm.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"

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

/* True if the numbers of heads are supported: several query heads may share one head of keys and values. */
static bool heads_fit(const inlay_value_info *queries, const inlay_value_info *keys, const inlay_value_info *values)
{
    const inlay_dim *query_heads = &queries->dims[1], *key_heads = &keys->dims[1];

    if (!cpu_same_dim(key_heads, &values->dims[1]))
        return false;
    return cpu_same_dim(query_heads, key_heads) ||
           (query_heads->kind == INLAY_DIM_FIXED && key_heads->kind == INLAY_DIM_FIXED && key_heads->value > 0 &&
            query_heads->value % key_heads->value == 0);
}

static bool has_sink(const kit_node *node, const cpu_op *op)
{
    return op->attention.own && kit_input(node, cpu_sink_input(op)) != NULL;
}

/* Whether the sinks are [1, 1 or heads, 1, 1]. */
static bool sink_fits(const inlay_value_info *sink, const inlay_value_info *queries, kit_refusal *why)
{
    if (!cpu_known_rank(sink, 4, 4, "the sinks", why))
        return false;
    for (uint32_t d = 0; d < 4; d++)
        if (sink->dims[d].kind != INLAY_DIM_FIXED || (sink->dims[d].value != 1 && d != 1) ||
            (sink->dims[d].value != 1 && !cpu_same_dim(&sink->dims[d], &queries->dims[d])))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the sinks are not one score, or one for each head");
    return true;
}

/* How queries are treated that may attend to no key. */
static sgemm_blank blank_of(const kit_node *node, bool sinks)
{
    const char *blank = kit_attr_string(node->info, "blank", "nan");

    if (sinks)
        return SGEMM_BLANK_ZERO;
    if (kit_attr_int(node->info, "guarded", 0) != 0 || strcmp(blank, "guarded") == 0)
        return SGEMM_BLANK_GUARDED;
    return !cpu_takes_inlay_domain(node) || strcmp(blank, "zero") == 0 ? SGEMM_BLANK_ZERO : SGEMM_BLANK_NAN;
}

static bool parse(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *in[5];

    for (uint32_t i = 0; i < 5; i++)
        in[i] = kit_input(node, i);
    op->code_bits = (int32_t)kit_attr_int(node->info, "bits", 0);
    op->attention.value_bits = (int32_t)kit_attr_int(node->info, "value_bits", op->code_bits);
    for (uint32_t i = 0; i < 3; i++)
        if (!cpu_known_rank(in[i], 4, 4, "queries, keys or values", why))
            return false;
        else if (in[i]->dtype != INLAY_FLOAT && (i == 0 || op->code_bits == 0))
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
    if (kit_attr_int(node->info, "left_window_size", -1) >= 0 || kit_attr_int(node->info, "right_window_size", -1) >= 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "windows are not supported");
    op->attention.softcap = (float)kit_attr_float(node->info, "softcap", 0);
    op->attention.causal = kit_attr_int(node->info, op->attention.own ? "causal" : "is_causal", 0) != 0;
    op->attention.blank = blank_of(node, has_sink(node, op));
    if (has_sink(node, op) && !sink_fits(kit_input(node, cpu_sink_input(op)), in[0], why))
        return false;
    op->alpha = (float)kit_attr_float(node->info, "scale", 0);
    return mask_fits(in[3], INLAY_FLOAT, in[0], in[1], why) &&
           (!op->attention.own || mask_fits(in[4], INLAY_BOOL, in[0], in[1], why));
}

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
            /* Masks with one column are legal, but there is no kernel for them. */
            return inlay_fail(build->diag, size == 1 ? INLAY_UNSUPPORTED : INLAY_SHAPE_MISMATCH,
                              "node '%s': dim %u of the mask is %lld, where the scores have %lld", op->name, d,
                              (long long)size, (long long)want);
    }
    return INLAY_OK;
}

static inlay_status lower(cpu_build *build, const cpu_group *group)
{
    inlay_status status;

    INLAY_TRY(check_mask(build, 3));
    INLAY_TRY(check_mask(build, 4));
    status = cpu_lower_attend(build, group, sgemm_kernel_best());
done:
    return status;
}

const cpu_family cpu_attention = { .kind = CPU_FAMILY_ATTENTION, .name = "attention", .parse = parse, .lower = lower };
