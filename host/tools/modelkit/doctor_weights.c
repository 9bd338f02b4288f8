/* Findings about constants: unused ones, equal ones, NaN, channels of zeros, 64 bits where 32 do. */
#include "modelkit/doctor_parts.h"
#include <string.h>

enum {
    LEAST_WEIGHTS = 4096,     /* bytes, below which a copy or an input is not worth a word */
    LEAST_INTEGERS = 64 << 10 /* likewise int64 that fits int32 */
};

static bool is_constant(const struct graph *g, uint32_t v)
{
    return (g->values[v].info.flags & INLAY_VALUE_CONSTANT) != 0;
}

/* ------------------------------------------------------------------ unused, listed as inputs */

static void look_unused(struct doctor *d, struct graph *g, const struct readers *r)
{
    for (uint32_t v = 0; v < g->value_count; v++) {
        const inlay_value_info *info = &g->values[v].info;
        doctor_finding *f;

        if (!is_constant(g, v) || r->count[v] > 0 || info->producer != INLAY_NONE)
            continue;
        f = doctor_add(d, DOCTOR_WEIGHTS_UNUSED, g, NULL, v, "initializer '%.200s' is read by no node",
                       info->name.data);
        if (f != NULL) {
            f->bytes = info->data_bytes;
            f->can_fix = true;
        }
    }
}

static void look_inputs(struct doctor *d, struct graph *g)
{
    uint32_t large = 0, all = 0, first = INLAY_NONE;
    doctor_finding *f;

    for (uint32_t i = 0; i < g->input_count; i++) {
        const inlay_tensor_view *t = g->values[g->inputs[i]].default_value;

        all += t != NULL;
        if (t == NULL || t->bytes < LEAST_WEIGHTS)
            continue;
        first = large++ == 0 ? g->inputs[i] : first;
    }
    if (large == 0)
        return;
    f = doctor_add(d, DOCTOR_WEIGHTS_INPUTS, g, NULL, first,
                   "%u initializer%s %s inputs of the model too, '%.100s' first: nothing can be computed or packed "
                   "ahead from what a caller may replace",
                   large, large > 1 ? "s" : "", large > 1 ? "are" : "is", g->values[first].info.name.data);
    if (f != NULL)
        f->can_fix = large == all; /* a small one may be meant as an option */
}

/* ------------------------------------------------------------------ equal ones */

void doctor_look_twice(struct doctor *d, struct graph *g, const struct readers *r)
{
    uint32_t *list = arena_array(&g->model->arena, (size_t)g->value_count + 1, sizeof *list), count = 0;

    if (list == NULL) {
        d->failed = true;
        return;
    }
    for (uint32_t v = 0; v < g->value_count; v++) {
        const inlay_value_info *info = &g->values[v].info;
        uint32_t like = INLAY_NONE;
        doctor_finding *f;

        if (!is_constant(g, v) || info->data_bytes < LEAST_WEIGHTS || info->dtype == INLAY_STRING || r->count[v] == 0)
            continue;
        for (uint32_t i = 0; i < count && like == INLAY_NONE; i++) {
            const inlay_value_info *other = &g->values[list[i]].info;

            if (other->data_bytes == info->data_bytes && other->dtype == info->dtype && other->rank == info->rank &&
                memcmp(other->dims, info->dims, info->rank * sizeof *info->dims) == 0 &&
                graph_constant_hash(g, list[i]) == graph_constant_hash(g, v) &&
                memcmp(other->data, info->data, info->data_bytes) == 0)
                like = list[i];
        }
        if (like == INLAY_NONE) {
            list[count++] = v;
            continue;
        }
        f = doctor_add(d, DOCTOR_WEIGHTS_TWICE, g, NULL, v, "'%.150s' has the same elements as '%.150s'",
                       info->name.data, g->values[like].info.name.data);
        if (f != NULL) {
            f->bytes = info->data_bytes;
            f->instead = like;
            f->can_fix = (info->flags & INLAY_VALUE_GRAPH_OUTPUT) == 0;
        }
    }
}

/* ------------------------------------------------------------------ not finite */

/* The first element that is no number, INT64_MAX if there is none; *out_count is how many there are. Infinities count
 * where the constant is a weight. */
static int64_t find_broken(const inlay_tensor_view *t, bool weight, int64_t *out_count)
{
    const uint32_t bytes = inlay_dtype_bits(t->dtype) / 8;
    const uint64_t exponent = t->dtype == INLAY_DOUBLE    ? UINT64_C(0x7ff0000000000000)
                              : t->dtype == INLAY_FLOAT   ? 0x7f800000u
                              : t->dtype == INLAY_FLOAT16 ? 0x7c00u
                                                          : 0x7f80u;
    const uint64_t sign = UINT64_C(1) << (bytes * 8 - 1);
    int64_t first = INT64_MAX;

    *out_count = 0;
    for (uint64_t i = 0; i < t->bytes / bytes; i++) {
        uint64_t bits = 0;

        memcpy(&bits, (const char *)t->data + i * bytes, bytes); /* little-endian */
        bits &= sign - 1;
        if (bits < exponent || (bits == exponent && !weight))
            continue;
        first = (*out_count)++ == 0 ? (int64_t)i : first;
    }
    return first;
}

static bool is_weight(const graph_node *n, uint32_t v)
{
    static const char *const ops[] = { "Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "RNN" };

    for (size_t i = 0; n != NULL && i < sizeof ops / sizeof ops[0]; i++)
        if (doctor_is_op(n, ops[i]))
            return doctor_input(n, 1) == v || doctor_input(n, 0) == v || doctor_input(n, 2) == v;
    return false;
}

static void look_finite(struct doctor *d, struct graph *g, uint32_t v, graph_node *reader)
{
    const inlay_dtype t = g->values[v].info.dtype;
    inlay_tensor_view view;
    int64_t first, count;

    if ((t != INLAY_FLOAT && t != INLAY_DOUBLE && t != INLAY_FLOAT16 && t != INLAY_BFLOAT16) ||
        !doctor_constant(g, v, &view))
        return;
    first = find_broken(&view, is_weight(reader, v), &count);
    if (count > 0)
        (void)doctor_add(d, DOCTOR_WEIGHTS_NAN, g, reader, v,
                         "%lld of %lld elements of '%.200s' are NaN or infinite, "
                         "the first at %lld",
                         (long long)count, (long long)(view.bytes * 8 / inlay_dtype_bits(t)),
                         g->values[v].info.name.data, (long long)first);
}

/* ------------------------------------------------------------------ 64 bits */

/* Do all readers of v take int32 in its place? */
static bool reads_as_index(const struct graph *g, uint32_t v)
{
    static const struct {
        const char *op;
        uint32_t input;
    } takers[] = { { "Gather", 1 }, { "GatherElements", 1 }, { "ScatterElements", 1 } };

    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];

        for (uint32_t k = 0; k < n->capture_count; k++)
            if (n->captures[k] == v)
                return false;
        for (uint32_t k = 0; k < n->info.input_count; k++) {
            bool fits = n->info.inputs[k] != v;

            for (size_t t = 0; t < sizeof takers / sizeof takers[0]; t++)
                fits = fits || (takers[t].input == k && doctor_is_op(n, takers[t].op));
            if (!fits)
                return false;
        }
    }
    return (g->values[v].info.flags & INLAY_VALUE_GRAPH_OUTPUT) == 0;
}

static void look_integers(struct doctor *d, struct graph *g, uint32_t v, graph_node *reader)
{
    const inlay_value_info *info = &g->values[v].info;
    doctor_finding *f;

    if (info->dtype != INLAY_INT64 || info->data_bytes < LEAST_INTEGERS)
        return;
    for (uint64_t i = 0; i < info->data_bytes / 8; i++) {
        int64_t one;

        memcpy(&one, (const char *)info->data + i * 8, sizeof one);
        if (one < INT32_MIN || one > INT32_MAX)
            return;
    }
    f = doctor_add(d, DOCTOR_INT64, g, reader, v, "'%.200s' has %llu numbers of 64 bits that fit 32", info->name.data,
                   (unsigned long long)(info->data_bytes / 8));
    if (f != NULL) {
        f->bytes = info->data_bytes / 2;
        f->can_fix = reads_as_index(g, v);
    }
}

/* ------------------------------------------------------------------ channels of zeros */

static bool is_zero(const char *at, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (at[i] != 0 && !((unsigned char)at[i] == 0x80 && i % 4 == 3)) /* -0 is 0 */
            return false;
    return true;
}

/* Filters [M, ...] of a convolution, or columns of a matrix [K, N], that are all 0. float32. */
static int64_t count_dead(const inlay_tensor_view *w, bool rows)
{
    const char *at = w->data;
    const uint64_t count = (uint64_t)w->dims[rows ? 0 : w->rank - 1];
    const uint64_t row = count > 0 ? w->bytes / count : 0;
    int64_t dead = 0;

    for (uint64_t i = 0; i < count && row > 0; i++) {
        bool zero = true;

        if (rows)
            zero = is_zero(at + i * row, row);
        for (uint64_t k = 0; !rows && zero && k < w->bytes / 4 / count; k++)
            zero = is_zero(at + (k * count + i) * 4, 4);
        dead += zero;
    }
    return dead;
}

static void look_dead(struct doctor *d, struct graph *g, graph_node *n)
{
    const bool conv = doctor_is_op(n, "Conv"), gemm = doctor_is_op(n, "Gemm");
    const bool rows = conv || (gemm && doctor_int(n, "transB", 0) != 0);
    inlay_tensor_view w;
    int64_t dead;

    if ((!conv && !gemm && !doctor_is_op(n, "MatMul")) || !doctor_constant(g, doctor_input(n, 1), &w) ||
        w.dtype != INLAY_FLOAT || w.rank < 2 || w.bytes == 0)
        return;
    dead = count_dead(&w, rows);
    if (dead > 0)
        (void)doctor_add(d, DOCTOR_DEAD_CHANNELS, g, n, n->info.inputs[1],
                         "%lld of %lld output channels have weights of "
                         "0 alone",
                         (long long)dead, (long long)w.dims[rows ? 0 : w.rank - 1]);
}

void doctor_look_weights(struct doctor *d, struct graph *g, const struct readers *r)
{
    look_unused(d, g, r);
    if (g->parent == NULL)
        look_inputs(d, g);
    for (uint32_t v = 0; v < g->value_count; v++) {
        if (!is_constant(g, v))
            continue;
        look_finite(d, g, v, r->one[v]);
        look_integers(d, g, v, r->one[v]);
    }
    for (uint32_t i = 0; i < g->node_count; i++)
        look_dead(d, g, g->nodes[i]);
}
