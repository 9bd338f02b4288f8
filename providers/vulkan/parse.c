/* Selects supported nodes: the table of operators, and the constraints that all rows share. */
#include "vulkan/region.h"

static const vulkan_operator operators[] = {
#define X(name, first, last, family, number, types, host_inputs)                                                       \
    { name, first, last, &family, number, types, host_inputs },
#include "vulkan/operators.def"
#undef X
};

bool vulkan_has_types(const kit_node *node, uint32_t input, uint64_t set, kit_refusal *why)
{
    const inlay_dtype dtype = kit_input_dtype(node, input);

    if (kit_input(node, input) == NULL || (dtype < INLAY_DTYPE_COUNT && (set & INLAY_DTYPE_BIT(dtype)) != 0))
        return true;
    return kit_refuse(why, INLAY_REFUSE_DTYPE, "insert a Cast", "input %u is %s, which the shader does not support",
                      input, inlay_dtype_name(dtype));
}

bool vulkan_has_output_type(const kit_node *node, uint64_t set, kit_refusal *why)
{
    const inlay_dtype dtype = kit_output_dtype(node, 0);

    return (dtype < INLAY_DTYPE_COUNT && (set & INLAY_DTYPE_BIT(dtype)) != 0) ||
           kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "results of type %s are not supported", inlay_dtype_name(dtype));
}

/* Is the size of the result known only when the run reaches the node? */
static bool is_sized_later(const kit_node *node)
{
    const inlay_value_info *output = kit_output(node, 0);
    bool later = output->rank == INLAY_RANK_UNKNOWN;

    for (uint32_t d = 0; !later && d < output->rank; d++)
        later = output->dims[d].kind == INLAY_DIM_UNKNOWN;
    return later;
}

bool vulkan_is_known(const kit_node *node, uint32_t input, kit_refusal *why)
{
    const inlay_value_info *value = kit_input(node, input);

    return value == NULL || value->data != NULL || is_sized_later(node) ||
           kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant", "input %u must be known before the run", input);
}

/* Whether the tensor is supported. Sizes may still be unknown; they become known before the run or when the run reaches
 * the region. */
static bool tensor_fits(const inlay_value_info *value, const char *what, uint32_t i, bool ranked, kit_refusal *why)
{
    if (value->kind != INLAY_VALUE_TENSOR)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "%s %u is not a tensor", what, i);
    if ((ranked || value->rank != INLAY_RANK_UNKNOWN) &&
        (value->rank == INLAY_RANK_UNKNOWN || value->rank > VULKAN_RANK))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, value->rank == INLAY_RANK_UNKNOWN ? "declare the shape" : NULL,
                          "the rank of %s %u is not known, or above %d", what, i, VULKAN_RANK);
    return true;
}

static bool common_fits(const kit_node *node, const vulkan_operator *row, kit_refusal *why)
{
    const inlay_node_info *info = node->info;
    const vulkan_family *family = row->family;

    for (uint32_t i = 0; i < info->input_count; i++) {
        const inlay_value_info *value = kit_input(node, i);
        const bool skipped = vulkan_is_host_input(row, i);

        if (value == NULL)
            continue;
        if (!tensor_fits(value, "input", i, !skipped, why))
            return false;
        if (!skipped && !family->checks_types && row->types != 0 && !vulkan_has_types(node, i, row->types, why))
            return false;
        if (skipped && family->needs_known_inputs && !vulkan_is_known(node, i, why))
            return false;
        if (i == 0 && (value->rank < family->min_rank || (family->max_rank > 0 && value->rank > family->max_rank)))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "tensors of rank %u are not supported", value->rank);
    }
    for (uint32_t i = 0; i < info->output_count; i++) {
        const inlay_value_info *value = kit_output(node, i);

        if (value == NULL)
            continue;
        if (i > 0 && !family->multiple_outputs)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "output %u is not supported", i);
        if (!tensor_fits(value, "output", i, false, why))
            return false;
        if (value->elements != NULL)
            return kit_refuse(why, INLAY_REFUSE_DEVICE, NULL, "it computes shapes, which the host evaluates");
    }
    if (family->typed_output && !vulkan_has_output_type(node, row->types, why))
        return false;
    return kit_output(node, 0) != NULL || kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "its first output is omitted");
}

const vulkan_operator *vulkan_find_operator(const kit_node *node, kit_refusal *why)
{
    const inlay_node_info *info = node->info;
    static const struct {
        const char *domain, *prefix;
    } domains[] = { { "ai.onnx", "" }, { "com.microsoft", "ms." }, { "ai.inlay", "inlay." } };
    const char *name_prefix = NULL;
    size_t prefix;
    bool known = false;

    for (uint32_t i = 0; i < KIT_COUNT(domains); i++)
        if (strcmp(domains[i].domain, info->domain.data) == 0)
            name_prefix = domains[i].prefix;
    prefix = name_prefix != NULL ? strlen(name_prefix) : 0;
    for (uint32_t i = 0; name_prefix != NULL && i < KIT_COUNT(operators); i++) {
        const vulkan_operator *row = &operators[i];

        if (strncmp(row->name, name_prefix, prefix) != 0 || strcmp(row->name + prefix, info->op_type.data) != 0)
            continue;
        known = true;
        if (info->since_version < row->first || info->since_version > row->last)
            continue;
        return common_fits(node, row, why) && (row->family->supports == NULL || row->family->supports(node, row, why))
                   ? row
                   : NULL;
    }
    (void)kit_refuse(why, known ? INLAY_REFUSE_VERSION : INLAY_REFUSE_OPERATOR, NULL,
                     known ? "%s-%u is a version that no shader supports" : "there is no shader for %s (version %u)",
                     info->op_type.data, info->since_version);
    return NULL;
}

/* Does the size of the result depend on the contents of an input that is not a constant? Then the node is a region of
 * its own: a region is sized before it runs, and the input must not be computed within it. */
static bool is_sized_by_contents(const kit_node *node, const vulkan_operator *row)
{
    bool varies = false;

    for (uint32_t i = 0; i < node->info->input_count; i++)
        varies |= kit_input(node, i) != NULL && kit_input(node, i)->data == NULL &&
                  (vulkan_is_host_input(row, i) || row->family->is_sized_by_inputs);
    return varies && is_sized_later(node);
}

static bool has_row(void *ctx, const kit_node *node, uint32_t n, inlay_offer *offer, kit_refusal *why)
{
    const vulkan_operator *row = vulkan_find_operator(node, why);

    (void)ctx, (void)n;
    if (row == NULL)
        return false;
    for (uint32_t i = 0; i < node->info->input_count; i++)
        offer->resident_bytes += kit_is_constant(node, i) ? kit_input(node, i)->data_bytes : 0;
    offer->cookie = 1;
    offer->flags = is_sized_by_contents(node, row) ? 0 : INLAY_OFFER_MERGE;
    return true;
}

inlay_status vulkan_assess(void *state, const inlay_assess_request *request, inlay_diag *diag)
{
    const inlay_graph *graph = request->graph;
    const uint8_t *candidates = request->candidates;
    const inlay_assess_sink *sink = request->sink;
    const kit_node like = { .host = ((vulkan_state *)state)->host };

    (void)diag;
    return kit_assess_each(&like, graph, candidates, sink, has_row, NULL);
}
