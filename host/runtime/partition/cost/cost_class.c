#include "partition/cost/cost_class.h"
#include "base/among.h"
#include "base/hash.h"
#include <string.h>

enum {
    FEW_ROWS = 8, /* of a product: more are a matrix, one is a vector */
    THIN_CHANNELS = 4,
    SMALL_KERNEL = 9, /* taps of a convolution: 3 x 3 */
    LONG_RUN = 256    /* bytes that lie together: more are copied as fast as memory goes */
};

static const char *const names[] = {
#define COST_VARIANT_NAME(name, text) text,
    COST_VARIANT_LIST(COST_VARIANT_NAME)
#undef COST_VARIANT_NAME
};

const char *cost_variant_name(uint32_t variant)
{
    return variant < COST_VARIANT_COUNT ? names[variant] : "";
}

uint32_t cost_variant_of(const char *name)
{
    uint32_t i = 0;

    while (i < COST_VARIANT_COUNT && strcmp(names[i], name) != 0)
        i++;
    return i;
}

uint64_t cost_class_hash(const cost_class *c)
{
    return hash_u64(hash_bytes(c->op, strlen(c->op), 3), (uint64_t)c->variant << 32 | (uint32_t)c->dtype);
}

uint32_t cost_kind_of(const inlay_cost *model)
{
    double bytes = (double)model->bytes_read + (double)model->bytes_written;

    return model->flops > 2 * bytes ? COST_DENSE : COST_STREAM;
}

/* ------------------------------------------------------------------ looking at a node */

struct look {
    const inlay_graph *g;
    const inlay_node_info *node;
    const inlay_value_state *values;
};

/* The state of input i when its rank is known; NULL otherwise. */
static const inlay_value_state *input(const struct look *l, uint32_t i)
{
    uint32_t v = i < l->node->input_count ? l->node->inputs[i] : INLAY_NONE;

    return v == INLAY_NONE || l->values[v].rank == INLAY_RANK_UNKNOWN ? NULL : &l->values[v];
}

static bool is_constant(const struct look *l, uint32_t i)
{
    uint32_t v = i < l->node->input_count ? l->node->inputs[i] : INLAY_NONE;

    return v != INLAY_NONE && (inlay_graph_value(l->g, v)->flags & INLAY_VALUE_CONSTANT) != 0;
}

static const inlay_attr_info *attr(const struct look *l, const char *name)
{
    size_t bytes = strlen(name);

    for (uint32_t i = 0; i < l->node->attr_count; i++) {
        const inlay_attr_info *a = INLAY_AT(inlay_attr_info, l->node->attrs, l->node->attr_stride, i);
        if (a->name.bytes == bytes && memcmp(a->name.data, name, bytes) == 0)
            return a;
    }
    return NULL;
}

static int64_t attr_int(const struct look *l, const char *name, int64_t otherwise)
{
    const inlay_attr_info *a = attr(l, name);

    return a != NULL && a->kind == INLAY_ATTR_INT ? a->i : otherwise;
}

/* The product of dims[begin ... end). */
static double product(const inlay_value_state *s, uint32_t begin, uint32_t end)
{
    double n = 1;

    for (uint32_t d = begin; d < end && d < s->rank; d++)
        n *= (double)s->dims[d];
    return n;
}

/* ------------------------------------------------------------------ variants */

static uint32_t convolution(const struct look *l, uint32_t weight)
{
    const inlay_value_state *w = input(l, weight);
    int64_t group = attr_int(l, "group", 1);
    double taps;

    if (w == NULL || w->rank < 3)
        return COST_PLAIN;
    taps = product(w, 2, w->rank);
    if (group > 1 && w->dims[1] == 1)
        return taps > SMALL_KERNEL ? COST_DEPTHWISE_WIDE : COST_DEPTHWISE;
    if (group > 1)
        return COST_GROUPED;
    if (taps <= 1)
        return COST_POINTWISE;
    if (w->dims[1] <= THIN_CHANNELS)
        return COST_THIN;
    return taps > SMALL_KERNEL ? COST_WIDE : COST_SPATIAL;
}

static uint32_t matrix_product(const struct look *l, uint32_t other)
{
    const inlay_value_state *a = input(l, 0), *b = input(l, other);
    double rows;

    if (a == NULL || b == NULL || a->rank == 0)
        return COST_PLAIN;
    if (strcmp(l->node->op_type.data, "Gemm") == 0)
        rows = (double)a->dims[a->rank > 1 && attr_int(l, "transA", 0) != 0 ? 1 : 0];
    else if (b->rank <= 2)
        rows = product(a, 0, a->rank - 1);
    else
        rows = a->rank > 1 ? (double)a->dims[a->rank - 2] : 1;
    if (!is_constant(l, other))
        return COST_DYNAMIC; /* often a batch of small ones: what a call takes tells more than what a weight does */
    return rows <= 1 ? COST_VECTOR : rows <= FEW_ROWS ? COST_FEW : COST_PACKED;
}

/* Does the axis, counted from the end when negative, come last? */
static uint32_t along(const inlay_value_state *x, int64_t axis)
{
    return axis == -1 || axis == (int64_t)x->rank - 1 ? COST_INNER : COST_OUTER;
}

static uint32_t reduction(const struct look *l)
{
    const inlay_value_state *x = input(l, 0), *list = input(l, 1);
    const inlay_attr_info *axes = attr(l, "axes");

    if (x == NULL)
        return COST_PLAIN;
    if (axes != NULL && axes->kind == INLAY_ATTR_INTS) {
        for (uint32_t i = 0; i < axes->count; i++)
            if (along(x, axes->ints[i]) == COST_INNER)
                return COST_INNER;
        return axes->count > 0 ? COST_OUTER : COST_INNER;
    }
    if (list == NULL || list->data == NULL || list->dtype != INLAY_INT64)
        return COST_INNER; /* all of it */
    for (uint64_t i = 0; i < list->data_bytes / 8; i++) {
        int64_t axis;
        memcpy(&axis, (const char *)list->data + i * 8, 8);
        if (along(x, axis) == COST_INNER)
            return COST_INNER;
    }
    return list->data_bytes > 0 ? COST_OUTER : COST_INNER;
}

static uint32_t one_axis(const struct look *l)
{
    const inlay_value_state *x = input(l, 0);

    return x == NULL ? COST_PLAIN : along(x, attr_int(l, "axis", -1));
}

static uint32_t transpose(const struct look *l)
{
    const inlay_value_state *x = input(l, 0);
    const inlay_attr_info *perm = attr(l, "perm");

    if (x == NULL || perm == NULL || perm->kind != INLAY_ATTR_INTS || perm->count != x->rank || x->rank == 0)
        return COST_FINE;
    return perm->ints[x->rank - 1] == (int64_t)x->rank - 1 ? COST_ROWS : COST_FINE;
}

/* Pieces that lie together: from the axis on (Concat, Split), or behind it (Gather). */
static uint32_t run(const struct look *l, uint32_t behind)
{
    const inlay_value_state *x = input(l, 0);
    int64_t axis = attr_int(l, "axis", 0);
    double bytes;

    if (x == NULL)
        return COST_PLAIN;
    axis += axis < 0 ? (int64_t)x->rank : 0;
    if (axis < 0 || axis >= (int64_t)x->rank)
        return COST_PLAIN;
    bytes = product(x, (uint32_t)axis + behind, x->rank) * inlay_dtype_bits(x->dtype) / 8;
    return bytes >= LONG_RUN ? COST_ROWS : COST_FINE;
}

static uint32_t broadcast(const struct look *l)
{
    uint32_t y = l->node->output_count > 0 ? l->node->outputs[0] : INLAY_NONE;
    double all =
        y == INLAY_NONE || l->values[y].rank == INLAY_RANK_UNKNOWN ? 0 : product(&l->values[y], 0, l->values[y].rank);

    for (uint32_t i = 0; i < l->node->input_count; i++) {
        const inlay_value_state *x = input(l, i);
        double n = x == NULL ? 1 : product(x, 0, x->rank);
        if (n > 1 && n != all)
            return COST_BROADCAST;
    }
    return COST_SAME;
}

static uint32_t resize(const struct look *l)
{
    const inlay_attr_info *mode = attr(l, "mode");
    const char *text = mode != NULL && mode->kind == INLAY_ATTR_STRING ? mode->s.data : "nearest";

    return strcmp(text, "cubic") == 0 ? COST_CUBIC : strcmp(text, "linear") == 0 ? COST_LINEAR : COST_NEAREST;
}

static uint32_t variant_of(const struct look *l)
{
    const char *op = l->node->op_type.data;

    if (is_among(op, "Conv ConvTranspose ConvInteger"))
        return convolution(l, 1);
    if (strcmp(op, "QLinearConv") == 0)
        return convolution(l, 3);
    if (is_among(op, "MatMul Gemm MatMulInteger"))
        return matrix_product(l, 1);
    if (strcmp(op, "QLinearMatMul") == 0)
        return matrix_product(l, 3);
    if (strncmp(op, "Reduce", 6) == 0)
        return reduction(l);
    if (is_among(op, "Softmax LogSoftmax ArgMax ArgMin TopK CumSum"))
        return one_axis(l);
    if (strcmp(op, "Transpose") == 0)
        return transpose(l);
    if (is_among(op, "Concat Split"))
        return run(l, 0);
    if (strcmp(op, "Gather") == 0)
        return run(l, 1);
    if (is_among(op,
                 "Add Sub Mul Div Pow Where Min Max Equal Less Greater LessOrEqual GreaterOrEqual And Or PRelu Mod"))
        return broadcast(l);
    return strcmp(op, "Resize") == 0 ? resize(l) : COST_PLAIN;
}

cost_class cost_class_of(const inlay_graph *g, const inlay_node_info *node, const inlay_value_state *values)
{
    struct look l = { g, node, values };
    cost_class c = { .op = node->op_type.data };
    uint32_t typed = strcmp(c.op, "Where") == 0 ? 1 : 0;

    if (strcmp(node->domain.data, "ai.onnx") == 0)
        c.variant = variant_of(&l);
    if (typed < node->input_count && node->inputs[typed] != INLAY_NONE)
        c.dtype = values[node->inputs[typed]].dtype;
    else if (node->output_count > 0 && node->outputs[0] != INLAY_NONE)
        c.dtype = values[node->outputs[0]].dtype;
    return c;
}
