/* Findings about constants: unused or equal constants, NaN, channels of zeros, int64 numbers that fit int32. */
#include "modelkit/doctor_parts.h"
#include "inlay/check.h"
#include <string.h>

enum {
    LEAST_WEIGHTS = 4096,     /* bytes; smaller copies and inputs are not reported */
    LEAST_INTEGERS = 64 << 10 /* bytes; smaller int64 constants that fit int32 are not reported */
};

static void check_unused(struct doctor *doctor, struct graph *graph, const struct readers *readers)
{
    for (uint32_t value = 0; value < graph->value_count; value++) {
        const inlay_value_info *info = &graph->values[value].info;
        doctor_finding *finding;

        if (!graph_is_constant(graph, value) || readers->count[value] > 0 || info->producer != INLAY_NONE)
            continue;
        finding = doctor_add(doctor, DOCTOR_WEIGHTS_UNUSED, graph, NULL, value, "initializer '%.200s' has no readers",
                             info->name.data);
        if (finding != NULL) {
            finding->bytes = info->data_bytes;
            finding->can_fix = true;
        }
    }
}

static void check_inputs(struct doctor *doctor, struct graph *graph)
{
    uint32_t large = 0, all = 0, first = INLAY_NONE;
    doctor_finding *finding;

    for (uint32_t i = 0; i < graph->input_count; i++) {
        const inlay_tensor_view *view = graph->values[graph->inputs[i]].default_value;

        all += view != NULL;
        if (view == NULL || view->bytes < LEAST_WEIGHTS)
            continue;
        first = large++ == 0 ? graph->inputs[i] : first;
    }
    if (large == 0)
        return;
    finding = doctor_add(doctor, DOCTOR_WEIGHTS_INPUTS, graph, NULL, first,
                         "%u initializer%s %s also inputs of the model, '%.100s' first: data that a caller may replace "
                         "cannot be folded or prepacked",
                         large, large > 1 ? "s" : "", large > 1 ? "are" : "is", graph->values[first].info.name.data);
    if (finding != NULL)
        finding->can_fix = large == all; /* a small one may be an intended option */
}

void doctor_check_duplicates(struct doctor *doctor, struct graph *graph, const struct readers *readers)
{
    uint32_t *list = arena_array(&graph->model->arena, (size_t)graph->value_count + 1, sizeof *list), count = 0;

    if (list == NULL) {
        doctor->failed = true;
        return;
    }
    for (uint32_t value = 0; value < graph->value_count; value++) {
        const inlay_value_info *info = &graph->values[value].info;
        uint32_t duplicate = INLAY_NONE;
        doctor_finding *finding;

        if (!graph_is_constant(graph, value) || info->data_bytes < LEAST_WEIGHTS || info->dtype == INLAY_STRING ||
            readers->count[value] == 0)
            continue;
        for (uint32_t i = 0; i < count && duplicate == INLAY_NONE; i++) {
            const inlay_value_info *other = &graph->values[list[i]].info;

            if (other->data_bytes == info->data_bytes && other->dtype == info->dtype && other->rank == info->rank &&
                memcmp(other->dims, info->dims, info->rank * sizeof *info->dims) == 0 &&
                graph_constant_hash(graph, list[i]) == graph_constant_hash(graph, value) &&
                memcmp(other->data, info->data, info->data_bytes) == 0)
                duplicate = list[i];
        }
        if (duplicate == INLAY_NONE) {
            list[count++] = value;
            continue;
        }
        finding =
            doctor_add(doctor, DOCTOR_WEIGHTS_TWICE, graph, NULL, value, "'%.150s' has the same elements as '%.150s'",
                       info->name.data, graph->values[duplicate].info.name.data);
        if (finding != NULL) {
            finding->bytes = info->data_bytes;
            finding->instead = duplicate;
            finding->can_fix = (info->flags & INLAY_VALUE_GRAPH_OUTPUT) == 0;
        }
    }
}

/* The first element that is NaN (in weights: or infinite), INT64_MAX if there is none; *out_count is their number. */
static int64_t find_broken(const inlay_tensor_view *view, bool weight, int64_t *out_count)
{
    const uint32_t bytes = inlay_dtype_bits(view->dtype) / 8;
    const uint64_t exponent = view->dtype == INLAY_DOUBLE    ? UINT64_C(0x7ff0000000000000)
                              : view->dtype == INLAY_FLOAT   ? 0x7f800000u
                              : view->dtype == INLAY_FLOAT16 ? 0x7c00u
                                                             : 0x7f80u;
    const uint64_t sign = UINT64_C(1) << (bytes * 8 - 1);
    int64_t first = INT64_MAX;

    INLAY_CHECK(bytes == 2 || bytes == 4 || bytes == 8);
    *out_count = 0;
    for (uint64_t i = 0; i < view->bytes / bytes; i++) {
        uint64_t bits = 0;

        memcpy(&bits, (const char *)view->data + i * bytes, bytes); /* little-endian */
        bits &= sign - 1;
        if (bits < exponent || (bits == exponent && !weight))
            continue;
        first = (*out_count)++ == 0 ? (int64_t)i : first;
    }
    return first;
}

static bool is_weight(const graph_node *node, uint32_t value)
{
    static const char *const ops[] = { "Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "RNN" };

    for (size_t i = 0; node != NULL && i < sizeof ops / sizeof ops[0]; i++)
        if (doctor_is_op(node, ops[i]))
            return graph_input_at(node, 1) == value || graph_input_at(node, 0) == value ||
                   graph_input_at(node, 2) == value;
    return false;
}

static void check_finite(struct doctor *doctor, struct graph *graph, uint32_t value, graph_node *reader)
{
    const inlay_dtype dtype = graph->values[value].info.dtype;
    inlay_tensor_view view;
    int64_t first, count;

    if ((dtype != INLAY_FLOAT && dtype != INLAY_DOUBLE && dtype != INLAY_FLOAT16 && dtype != INLAY_BFLOAT16) ||
        !doctor_constant(graph, value, &view))
        return;
    first = find_broken(&view, is_weight(reader, value), &count);
    if (count > 0)
        (void)doctor_add(doctor, DOCTOR_WEIGHTS_NAN, graph, reader, value,
                         "%lld of %lld elements of '%.200s' are NaN or infinite, "
                         "the first at %lld",
                         (long long)count, (long long)(view.bytes * 8 / inlay_dtype_bits(dtype)),
                         graph->values[value].info.name.data, (long long)first);
}

/* Do all readers of value accept int32? */
static bool reads_as_index(const struct graph *graph, uint32_t value)
{
    static const struct {
        const char *op;
        uint32_t input;
    } consumers[] = { { "Gather", 1 }, { "GatherElements", 1 }, { "ScatterElements", 1 } };

    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        for (uint32_t k = 0; k < node->capture_count; k++)
            if (node->captures[k] == value)
                return false;
        for (uint32_t k = 0; k < node->info.input_count; k++) {
            bool fits = node->info.inputs[k] != value;

            for (size_t consumer = 0; consumer < sizeof consumers / sizeof consumers[0]; consumer++)
                fits = fits || (consumers[consumer].input == k && doctor_is_op(node, consumers[consumer].op));
            if (!fits)
                return false;
        }
    }
    return (graph->values[value].info.flags & INLAY_VALUE_GRAPH_OUTPUT) == 0;
}

static void check_integers(struct doctor *doctor, struct graph *graph, uint32_t value, graph_node *reader)
{
    const inlay_value_info *info = &graph->values[value].info;
    doctor_finding *finding;

    if (info->dtype != INLAY_INT64 || info->data_bytes < LEAST_INTEGERS)
        return;
    for (uint64_t i = 0; i < info->data_bytes / 8; i++) {
        int64_t one;

        memcpy(&one, (const char *)info->data + i * 8, sizeof one);
        if (one < INT32_MIN || one > INT32_MAX)
            return;
    }
    finding = doctor_add(doctor, DOCTOR_INT64, graph, reader, value, "'%.200s' has %llu int64 numbers that fit int32",
                         info->name.data, (unsigned long long)(info->data_bytes / 8));
    if (finding != NULL) {
        finding->bytes = info->data_bytes / 2;
        finding->can_fix = reads_as_index(graph, value);
    }
}

static bool is_zero(const char *at, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (at[i] != 0 && !((unsigned char)at[i] == 0x80 && i % 4 == 3)) /* -0 is 0 */
            return false;
    return true;
}

/* Counts filters [M, ...] of a convolution, or columns of a matrix [K, N], that are entirely 0. Weights are float32. */
static int64_t count_dead(const inlay_tensor_view *weights, bool rows)
{
    const char *at = weights->data;
    const uint64_t count = (uint64_t)weights->dims[rows ? 0 : weights->rank - 1];
    const uint64_t row = count > 0 ? weights->bytes / count : 0;
    int64_t dead = 0;

    for (uint64_t i = 0; i < count && row > 0; i++) {
        bool zero = true;

        if (rows)
            zero = is_zero(at + i * row, row);
        for (uint64_t k = 0; !rows && zero && k < weights->bytes / 4 / count; k++)
            zero = is_zero(at + (k * count + i) * 4, 4);
        dead += zero;
    }
    return dead;
}

static void check_dead(struct doctor *doctor, struct graph *graph, graph_node *node)
{
    const bool conv = doctor_is_op(node, "Conv"), gemm = doctor_is_op(node, "Gemm");
    const bool rows = conv || (gemm && graph_attr_int(node, "transB", 0) != 0);
    inlay_tensor_view weights;
    int64_t dead;

    if ((!conv && !gemm && !doctor_is_op(node, "MatMul")) ||
        !doctor_constant(graph, graph_input_at(node, 1), &weights) || weights.dtype != INLAY_FLOAT ||
        weights.rank < 2 || weights.bytes == 0)
        return;
    dead = count_dead(&weights, rows);
    if (dead > 0)
        (void)doctor_add(doctor, DOCTOR_DEAD_CHANNELS, graph, node, node->info.inputs[1],
                         "%lld of %lld output channels have only zero weights", (long long)dead,
                         (long long)weights.dims[rows ? 0 : weights.rank - 1]);
}

void doctor_check_weights(struct doctor *doctor, struct graph *graph, const struct readers *readers)
{
    check_unused(doctor, graph, readers);
    if (graph->parent == NULL)
        check_inputs(doctor, graph);
    for (uint32_t value = 0; value < graph->value_count; value++) {
        if (!graph_is_constant(graph, value))
            continue;
        check_finite(doctor, graph, value, readers->one[value]);
        check_integers(doctor, graph, value, readers->one[value]);
    }
    for (uint32_t i = 0; i < graph->node_count; i++)
        check_dead(doctor, graph, graph->nodes[i]);
}
