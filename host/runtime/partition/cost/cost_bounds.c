#include "partition/cost/cost_bounds.h"
#include "inlay/graph_view.h"
#include <stdbool.h>
#include <string.h>

enum { MAX_TRIP_COUNT = 1 << 16 /* larger trip counts are treated as mere limits */ };

/* Describes the output dimension whose bound is computed. */
struct query {
    const inlay_node_info *node;
    const inlay_value_info *const *in;
    uint32_t output, d;
};

static const inlay_value_info *input(const struct query *query, uint32_t i)
{
    const inlay_value_info *value = i < query->node->input_count ? query->in[i] : NULL;

    return value == NULL || value->rank == INLAY_RANK_UNKNOWN ? NULL : value;
}

static int64_t multiply(int64_t left, int64_t right)
{
    int64_t product;

    return left < 0 || right < 0 ? -1 : __builtin_mul_overflow(left, right, &product) ? INT64_MAX : product;
}

/* The size of dimension d; -1: unknown. */
static int64_t dim(const inlay_value_info *value, uint32_t d)
{
    return value == NULL || d >= value->rank || value->dims[d].kind != INLAY_DIM_FIXED ? -1 : value->dims[d].value;
}

static int64_t count(const inlay_value_info *value)
{
    int64_t elements = value == NULL ? -1 : 1;

    for (uint32_t d = 0; value != NULL && d < value->rank; d++)
        elements = multiply(elements, dim(value, d));
    return elements;
}

/* Reads the single integer in an input. */
static bool integer(const inlay_value_info *value, int64_t *out)
{
    if (value == NULL || value->dtype != INLAY_INT64)
        return false;
    if (value->data != NULL && value->data_bytes == sizeof *out) {
        memcpy(out, value->data, sizeof *out);
        return true;
    }
    if (value->elements == NULL || value->element_count != 1 || value->elements[0].kind != INLAY_DIM_FIXED)
        return false;
    *out = value->elements[0].value;
    return true;
}

/* Reads attribute axis, counted from the front. False: missing input or out of range. */
static bool axis_of(const struct query *query, int64_t otherwise, bool *out_given, uint32_t *out_axis)
{
    const inlay_value_info *data = input(query, 0);
    int64_t axis = otherwise;

    *out_given = false;
    for (uint32_t i = 0; i < query->node->attr_count; i++) {
        const inlay_attr_info *attribute = INLAY_AT(inlay_attr_info, query->node->attrs, query->node->attr_stride, i);
        if (strcmp(attribute->name.data, "axis") == 0 && attribute->kind == INLAY_ATTR_INT) {
            axis = attribute->i;
            *out_given = true;
        }
    }
    if (data == NULL)
        return false;
    axis += axis < 0 ? (int64_t)data->rank : 0;
    *out_axis = (uint32_t)axis;
    return axis >= 0 && axis < (int64_t)data->rank;
}

static int64_t least_of(int64_t left, int64_t right)
{
    return left < 0 || (right >= 0 && right < left) ? right : left;
}

static int64_t of_non_zero(const struct query *query)
{
    return query->d == 1 ? count(input(query, 0)) : -1;
}

static int64_t of_suppression(const struct query *query)
{
    const inlay_value_info *scores = input(query, 1);
    int64_t most = 0, each = dim(scores, 2);

    if (query->d != 0)
        return -1;
    if (query->node->input_count > 2 && query->in[2] != NULL && !integer(query->in[2], &most))
        most = each;
    return multiply(multiply(dim(scores, 0), dim(scores, 1)), least_of(each, most < 0 ? 0 : most));
}

/* Compress and Unique keep slices along the axis, or elements if there is no axis; for Compress, at most as many as the
 * condition has. */
static int64_t of_selection(const struct query *query)
{
    const bool compress = strcmp(query->node->op_type.data, "Compress") == 0;
    bool given;
    uint32_t axis;
    int64_t most;

    if (!axis_of(query, 0, &given, &axis) && given)
        return -1;
    most = given ? dim(input(query, 0), axis) : count(input(query, 0));
    if (given && query->output == 0 && query->d != axis)
        return -1;
    return compress ? least_of(most, dim(input(query, 1), 0)) : most;
}

static int64_t of_top_k(const struct query *query)
{
    bool given;
    uint32_t axis;

    return axis_of(query, -1, &given, &axis) && query->d == axis ? dim(input(query, 0), axis) : -1;
}

static int64_t of_slice(const struct query *query)
{
    return dim(input(query, 0), query->d);
}

/* Only scan outputs have a bound; they follow the carried values. */
static int64_t of_loop(const struct query *query)
{
    int64_t turns;

    if (query->d != 0 || query->output + 2 < query->node->input_count || !integer(input(query, 0), &turns))
        return -1;
    return turns < 0 ? 0 : turns <= MAX_TRIP_COUNT ? turns : -1;
}

struct rule {
    const char *op;
    int64_t (*bound)(const struct query *query);
    int64_t part; /* divisor: the estimate is bound / part */
};

static const struct rule *rule_of(const inlay_node_info *node)
{
    static const struct rule rules[] = { { "NonZero", of_non_zero, 2 },   { "NonMaxSuppression", of_suppression, 10 },
                                         { "Compress", of_selection, 2 }, { "Unique", of_selection, 2 },
                                         { "TopK", of_top_k, 2 },         { "Slice", of_slice, 1 },
                                         { "Loop", of_loop, 1 } };

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (strcmp(node->op_type.data, rules[i].op) == 0 && strcmp(node->domain.data, "ai.onnx") == 0)
            return &rules[i];
    return NULL;
}

/* Upper bound of dimension d of an output, -1 if unknown. NonZero finds at most all elements, Compress and Unique keep
 * at most their input, TopK and Slice at most the size of the axis, NonMaxSuppression returns at most
 * max_output_boxes_per_class rows per batch entry and class, Loop at most as many slices as its trip count. in:
 * [node->input_count] with their sizes; NULL = omitted. */
static int64_t cost_bound(const inlay_node_info *node, const inlay_value_info *const *in, uint32_t output, uint32_t d)
{
    const struct query query = { node, in, output, d };
    const struct rule *rule = rule_of(node);

    return rule == NULL ? -1 : rule->bound(&query);
}

int64_t cost_estimate(const inlay_node_info *node, const inlay_value_info *const *in, uint32_t output, uint32_t d,
                      int64_t otherwise)
{
    int64_t bound = cost_bound(node, in, output, d), part;

    if (bound < 0)
        return otherwise;
    part = bound / rule_of(node)->part;
    return part > 0 || bound == 0 ? part : 1;
}
