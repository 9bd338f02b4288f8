#include "partition/cost/cost_bounds.h"
#include <stdbool.h>
#include <string.h>

enum { MOST_TURNS = 1 << 16 /* of a loop whose number of turns is no mere limit */ };

/* What an output's dimension depends on. */
struct asked {
    const inlay_node_info *node;
    const inlay_value_info *const *in;
    uint32_t output, d;
};

static const inlay_value_info *input(const struct asked *q, uint32_t i)
{
    const inlay_value_info *v = i < q->node->input_count ? q->in[i] : NULL;

    return v == NULL || v->rank == INLAY_RANK_UNKNOWN ? NULL : v;
}

static int64_t multiply(int64_t a, int64_t b)
{
    int64_t product;

    return a < 0 || b < 0 ? -1 : __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* -1: not known. */
static int64_t dim(const inlay_value_info *v, uint32_t d)
{
    return v == NULL || d >= v->rank || v->dims[d].kind != INLAY_DIM_FIXED ? -1 : v->dims[d].value;
}

static int64_t count(const inlay_value_info *v)
{
    int64_t n = v == NULL ? -1 : 1;

    for (uint32_t d = 0; v != NULL && d < v->rank; d++)
        n = multiply(n, dim(v, d));
    return n;
}

/* The one integer that an input holds. */
static bool integer(const inlay_value_info *v, int64_t *out)
{
    if (v == NULL || v->dtype != INLAY_INT64)
        return false;
    if (v->data != NULL && v->data_bytes == sizeof *out) {
        memcpy(out, v->data, sizeof *out);
        return true;
    }
    if (v->elements == NULL || v->element_count != 1 || v->elements[0].kind != INLAY_DIM_FIXED)
        return false;
    *out = v->elements[0].value;
    return true;
}

/* Attribute axis, counted from the front; false: there is none that fits. */
static bool axis_of(const struct asked *q, int64_t otherwise, bool *out_given, uint32_t *out_axis)
{
    const inlay_value_info *x = input(q, 0);
    int64_t axis = otherwise;

    *out_given = false;
    for (uint32_t i = 0; i < q->node->attr_count; i++) {
        const inlay_attr_info *a = INLAY_AT(inlay_attr_info, q->node->attrs, q->node->attr_stride, i);
        if (strcmp(a->name.data, "axis") == 0 && a->kind == INLAY_ATTR_INT) {
            axis = a->i;
            *out_given = true;
        }
    }
    if (x == NULL)
        return false;
    axis += axis < 0 ? (int64_t)x->rank : 0;
    *out_axis = (uint32_t)axis;
    return axis >= 0 && axis < (int64_t)x->rank;
}

static int64_t least_of(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

static int64_t of_non_zero(const struct asked *q)
{
    return q->d == 1 ? count(input(q, 0)) : -1;
}

static int64_t of_suppression(const struct asked *q)
{
    const inlay_value_info *scores = input(q, 1);
    int64_t most = 0, each = dim(scores, 2);

    if (q->d != 0)
        return -1;
    if (q->node->input_count > 2 && q->in[2] != NULL && !integer(q->in[2], &most))
        most = each;
    return multiply(multiply(dim(scores, 0), dim(scores, 1)), least_of(each, most < 0 ? 0 : most));
}

/* Compress and Unique keep slices along the axis, or elements without one; so many as the condition at most. */
static int64_t of_kept(const struct asked *q)
{
    const bool compress = strcmp(q->node->op_type.data, "Compress") == 0;
    bool given;
    uint32_t axis;
    int64_t most;

    if (!axis_of(q, 0, &given, &axis) && given)
        return -1;
    most = given ? dim(input(q, 0), axis) : count(input(q, 0));
    if (given && q->output == 0 && q->d != axis)
        return -1;
    return compress ? least_of(most, dim(input(q, 1), 0)) : most;
}

static int64_t of_top_k(const struct asked *q)
{
    bool given;
    uint32_t axis;

    return axis_of(q, -1, &given, &axis) && q->d == axis ? dim(input(q, 0), axis) : -1;
}

static int64_t of_slice(const struct asked *q)
{
    return dim(input(q, 0), q->d);
}

/* Values made in each turn come behind those that are carried. */
static int64_t of_loop(const struct asked *q)
{
    int64_t turns;

    if (q->d != 0 || q->output + 2 < q->node->input_count || !integer(input(q, 0), &turns))
        return -1;
    return turns < 0 ? 0 : turns <= MOST_TURNS ? turns : -1;
}

struct rule {
    const char *op;
    int64_t (*bound)(const struct asked *q);
    int64_t part; /* of the bound: one in so many */
};

static const struct rule *rule_of(const inlay_node_info *node)
{
    static const struct rule rules[] = { { "NonZero", of_non_zero, 2 }, { "NonMaxSuppression", of_suppression, 10 },
                                         { "Compress", of_kept, 2 },    { "Unique", of_kept, 2 },
                                         { "TopK", of_top_k, 2 },       { "Slice", of_slice, 1 },
                                         { "Loop", of_loop, 1 } };

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (strcmp(node->op_type.data, rules[i].op) == 0 && strcmp(node->domain.data, "ai.onnx") == 0)
            return &rules[i];
    return NULL;
}

int64_t cost_bound(const inlay_node_info *node, const inlay_value_info *const *in, uint32_t output, uint32_t d)
{
    const struct asked q = { node, in, output, d };
    const struct rule *r = rule_of(node);

    return r == NULL ? -1 : r->bound(&q);
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
