/* Parsing nodes: the row of a node, the checks that all families share, and the helpers of their parsers. */
#include "cpu/region/region.h"
#include "inlay/plugin.h"

bool cpu_known_rank(const inlay_value_info *value, uint32_t low, uint32_t high, const char *what, kit_refusal *why)
{
    if (value == NULL || value->rank == INLAY_RANK_UNKNOWN)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "declare the shape", "the rank of %s is not known", what);
    if (value->rank < low || value->rank > high)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "%s has rank %u; this provider takes %u to %u here", what,
                          value->rank, low, high);
    return true;
}

bool cpu_known_ints(const inlay_value_info *value, int64_t *out, uint32_t max, uint32_t *out_count)
{
    if (value == NULL || value->data == NULL || value->dtype != INLAY_INT64 || value->data_bytes > max * sizeof *out)
        return false;
    *out_count = (uint32_t)(value->data_bytes / sizeof *out);
    memcpy(out, value->data, value->data_bytes);
    return true;
}

bool cpu_known_scalar(const inlay_value_info *value, float *out)
{
    if (value == NULL || value->data == NULL || value->dtype != INLAY_FLOAT || value->data_bytes != sizeof *out)
        return false;
    memcpy(out, value->data, sizeof *out);
    return true;
}

bool cpu_axis(int64_t axis, uint32_t rank, int64_t *out)
{
    *out = axis < 0 ? axis + rank : axis;
    return *out >= 0 && *out < rank;
}

bool cpu_same_dim(const inlay_dim *a, const inlay_dim *b)
{
    if (a->kind != b->kind || a->kind == INLAY_DIM_UNKNOWN)
        return false;
    return a->kind == INLAY_DIM_FIXED ? a->value == b->value : a->symbol == b->symbol;
}

bool cpu_is_made_by(const kit_node *node, const inlay_value_info *value, const char *op_type)
{
    return value != NULL && value->producer != INLAY_NONE && value->producer < node->graph->node_count &&
           strcmp(inlay_graph_node(node->graph, value->producer)->op_type.data, op_type) == 0;
}

bool cpu_is_dynamic_scale(const kit_node *node, const inlay_value_info *value)
{
    return value != NULL && value->dtype == INLAY_FLOAT && cpu_is_made_by(node, value, "DynamicQuantizeLinear");
}

/* Is the value computed from a scale of DynamicQuantizeLinear by at most `depth` nodes? */
static bool follows_dynamic_scale(const kit_node *node, const inlay_value_info *value, int depth)
{
    const inlay_node_info *producer;

    if (value == NULL || value->dtype != INLAY_FLOAT || value->producer == INLAY_NONE ||
        value->producer >= node->graph->node_count)
        return false;
    if (cpu_is_dynamic_scale(node, value))
        return true;
    producer = inlay_graph_node(node->graph, value->producer);
    for (uint32_t i = 0; depth > 0 && i < producer->input_count; i++)
        if (producer->inputs[i] != INLAY_NONE &&
            follows_dynamic_scale(node, inlay_graph_value(node->graph, producer->inputs[i]), depth - 1))
            return true;
    return false;
}

bool cpu_follows_dynamic_scale(const kit_node *node, const inlay_value_info *value)
{
    enum { STEPS = 5 };

    return follows_dynamic_scale(node, value, STEPS);
}

/* Scalars and vectors are mostly shape arithmetic, which the host can compute ahead if it is outside of regions. The
 * scale of a dynamically quantized operator, and the bias in its unit, are computed where they are used. */
bool cpu_is_large(const kit_node *node, kit_refusal *why)
{
    const inlay_value_info *output = kit_output(node, 0);

    for (uint32_t i = 0; i < node->info->input_count; i++)
        if (cpu_follows_dynamic_scale(node, kit_input(node, i)))
            return true;
    return output->rank >= 2 ||
           kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "scalars and vectors are too small for a step of a region");
}

static bool is_named(inlay_str text, const char *name)
{
    return strlen(name) == text.bytes && memcmp(name, text.data, text.bytes) == 0;
}

bool cpu_takes_inlay_domain(const kit_node *node)
{
    return is_named(node->info->domain, "ai.inlay");
}

bool cpu_count_fits(const int64_t *dims, uint32_t rank)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < rank; d++)
        if (dims[d] > 0 && (__builtin_mul_overflow(count, dims[d], &count) || count > INT32_MAX))
            return false;
    return true;
}

/* cpu_count_fits of a value's fixed dims. */
static bool is_counted(const inlay_value_info *value)
{
    int64_t dims[CPU_MAX_RANK];

    for (uint32_t d = 0; d < value->rank; d++)
        dims[d] = value->dims[d].kind == INLAY_DIM_FIXED ? value->dims[d].value : 1;
    return cpu_count_fits(dims, value->rank);
}

/* Is it a tensor, and, if is_float, a float tensor of known rank with elements? Dims may be symbolic or unknown: they
 * are known at the latest when the region is specialised. */
static bool tensor_fits(const inlay_value_info *value, const char *what, uint32_t i, bool is_float, kit_refusal *why)
{
    if (value == NULL)
        return true;
    if (value->kind != INLAY_VALUE_TENSOR)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "%s %u is not a tensor", what, i);
    if (!is_float)
        return true;
    if (value->dtype != INLAY_FLOAT)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "insert a Cast to float", "%s %u is %s; this provider takes float",
                          what, i, inlay_dtype_name(value->dtype));
    if (value->rank == INLAY_RANK_UNKNOWN || value->rank > CPU_MAX_RANK)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, value->rank == INLAY_RANK_UNKNOWN ? "declare the shape" : NULL,
                          "the rank of %s %u is not known, or above %d", what, i, CPU_MAX_RANK);
    for (uint32_t d = 0; d < value->rank; d++) {
        if (value->dims[d].kind == INLAY_DIM_FIXED && value->dims[d].value == 0)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "%s %u has no elements", what, i);
    }
    if (!is_counted(value))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "%s %u has more than 2^31 - 1 elements", what, i);
    return true;
}

static bool is_contributed(const inlay_node_info *info)
{
    return is_named(info->domain, "com.microsoft");
}

/* Does the operator have several outputs, any of which may be omitted? */
static bool has_several(const cpu_family *family)
{
    return family->kind == CPU_FAMILY_RECURRENT;
}

uint32_t cpu_first_out(const cpu_op *op)
{
    uint32_t output = 0;

    INLAY_CHECK(op->out_count > 0);
    while (output + 1 < op->out_count && op->out[output] == INLAY_NONE)
        output++;
    return output;
}

static bool outputs_fit(const kit_node *node, kit_refusal *why)
{
    uint32_t used = 0;

    for (uint32_t i = 0; i < node->info->output_count; i++) {
        if (!tensor_fits(kit_output(node, i), "output", i, true, why))
            return false;
        used += kit_output(node, i) != NULL;
    }
    return used > 0 || kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "all outputs are omitted");
}

static bool tensors_fit(const kit_node *node, const cpu_operator *row, uint32_t floats, kit_refusal *why)
{
    for (uint32_t i = 0; i < node->info->input_count; i++)
        if (!tensor_fits(kit_input(node, i), "input", i, i < floats, why))
            return false;
    if (has_several(row->family) && kit_input(node, 0) != NULL)
        return outputs_fit(node, why);
    if (kit_input(node, 0) == NULL || kit_output(node, 0) == NULL)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "input or output 0 is omitted");
    for (uint32_t i = 1; i < node->info->output_count; i++)
        if (kit_output(node, i) != NULL &&
            (is_named(node->info->op_type, "Split") || (is_contributed(node->info) && i == CPU_SKIP_SUM))) {
            if (!tensor_fits(kit_output(node, i), "output", i, true, why))
                return false;
        } else if (kit_output(node, i) != NULL)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "omit all outputs but the first",
                              "provider cpu computes only the first output of this operator");
    return tensor_fits(kit_output(node, 0), "output", 0, true, why);
}

/* tensors_fit for rows of integers.def: tensors of known rank with elements. Their parsers check the types. */
static bool shapes_fit(const kit_node *node, const cpu_operator *row, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0), *output = kit_output(node, 0);

    if (input == NULL || output == NULL)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "input or output 0 is omitted");
    for (uint32_t i = 1; i < node->info->output_count; i++)
        if (kit_output(node, i) != NULL && row->family->kind != CPU_FAMILY_DYNAMIC &&
            row->family->kind != CPU_FAMILY_BLOCKS)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "omit all outputs but the first",
                              "provider cpu computes only the first output of this operator");
    if (!cpu_known_rank(input, 0, CPU_MAX_RANK, "input 0", why) ||
        !cpu_known_rank(output, 0, CPU_MAX_RANK, "output 0", why))
        return false;
    for (uint32_t i = 0; i < node->info->input_count; i++) {
        const inlay_value_info *value = kit_input(node, i);

        if (value == NULL)
            continue;
        if (value->kind != INLAY_VALUE_TENSOR || value->rank == INLAY_RANK_UNKNOWN || value->rank > CPU_MAX_RANK)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, value->rank == INLAY_RANK_UNKNOWN ? "declare the shape" : NULL,
                              "the rank of input %u is not known, or above %d", i, CPU_MAX_RANK);
        for (uint32_t d = 0; d < value->rank; d++)
            if (value->dims[d].kind == INLAY_DIM_FIXED && value->dims[d].value == 0)
                return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "input %u has no elements", i);
        if (!is_counted(value))
            return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "input %u has more than 2^31 - 1 elements", i);
    }
    if (!is_counted(output))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "output 0 has more than 2^31 - 1 elements");
    return true;
}

const cpu_operator *cpu_parse(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_node_info *info = node->info;

    for (uint32_t row_index = 0; row_index < cpu_operator_count; row_index++) {
        const cpu_operator *row = &cpu_operator_rows[row_index];

        if (!is_named(info->op_type, row->op_type) ||
            (!is_named(info->domain, "ai.onnx") &&
             !(is_contributed(info) &&
               (row->family->kind == CPU_FAMILY_SKIP_NORM || row->family->kind == CPU_FAMILY_NBITS_PRODUCT ||
                row->family->kind == CPU_FAMILY_EXPERTS)) &&
             !(is_named(info->domain, "ai.inlay") &&
               (row->family->kind == CPU_FAMILY_SPARSE || row->family->kind == CPU_FAMILY_BLOCKS ||
                row->takes == cpu_takes_inlay_domain))) ||
            (row->takes != NULL && !row->takes(node)))
            continue;
        if (info->since_version < row->since_min || info->since_version > row->since_max) {
            kit_refuse(why, INLAY_REFUSE_VERSION, "convert the model to an opset with one of these versions",
                       "%s-%u: this provider knows versions %u to %u", row->op_type, info->since_version,
                       row->since_min, row->since_max);
            return NULL;
        }
        memset(op, 0, sizeof *op);
        op->row = row;
        if (!(row->takes != NULL ? shapes_fit(node, row, why) : tensors_fit(node, row, row->floats, why)) ||
            !row->family->parse(node, op, why))
            return NULL;
        return row;
    }
    kit_refuse(why, INLAY_REFUSE_OPERATOR, NULL, "this provider has no kernel for %s of %s", info->op_type.data,
               info->domain.data);
    return NULL;
}

const cpu_operator *cpu_row(const char *op_type)
{
    for (uint32_t row_index = 0; row_index < cpu_operator_count; row_index++)
        if (cpu_operator_rows[row_index].takes == NULL && strcmp(cpu_operator_rows[row_index].op_type, op_type) == 0)
            return &cpu_operator_rows[row_index];
    return NULL;
}

inlay_status cpu_assess(void *state_, const inlay_assess_request *request, inlay_diag *diag)
{
    const inlay_graph *graph = request->graph;
    const uint8_t *candidates = request->candidates;
    const inlay_assess_sink *sink = request->sink;
    const cpu_state *state = state_;

    (void)diag;
    for (uint32_t node_index = 0; node_index < graph->node_count; node_index++) {
        const kit_node node = { .host = state->host, .graph = graph, .info = inlay_graph_node(graph, node_index) };
        kit_refusal why = { 0, "", "" };
        inlay_status status;
        cpu_op op;

        if (candidates != NULL && candidates[node_index] == 0)
            continue;
        if (cpu_parse(&node, &op, &why) != NULL) {
            const inlay_offer offer = {
                .struct_size = sizeof offer, .nodes = &node_index, .node_count = 1, .flags = INLAY_OFFER_MERGE
            };
            status = sink->offer(sink->ctx, &offer);
        } else {
            const inlay_refusal refusal = { .struct_size = sizeof refusal,
                                            .node = node_index,
                                            .code = why.code != 0 ? why.code : INLAY_REFUSE_ATTRIBUTE,
                                            .text = why.text,
                                            .accepted_if = why.accepted_if[0] != '\0' ? why.accepted_if : NULL };
            status = sink->refuse(sink->ctx, &refusal);
        }
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

int64_t cpu_known_count(const inlay_value_info *value)
{
    int64_t count = 1;

    if (value->rank == INLAY_RANK_UNKNOWN)
        return -1;
    for (uint32_t d = 0; d < value->rank; d++)
        if (value->dims[d].kind != INLAY_DIM_FIXED || value->dims[d].value < 0 ||
            __builtin_mul_overflow(count, value->dims[d].value, &count))
            return -1;
    return count;
}
