/* Findings about single nodes: training mode, casts, loops, wide types, large Constant nodes. */
#include "modelkit/doctor_parts.h"
#include <string.h>

enum {
    HUGE_CONSTANT = 64 << 10, /* bytes of a Constant node that belong into an initializer */
    WIDE_ELEMENTS = 256,      /* below, float64 costs nothing worth a word */
    WIDE_INTEGERS = 4096,     /* likewise int64 */
    MOST_TRIPS = 64           /* of a Loop that is worth unrolling */
};

/* ------------------------------------------------------------------ training mode */

static bool is_true(const struct graph *g, uint32_t v)
{
    inlay_tensor_view t;

    return doctor_constant(g, v, &t) && t.dtype == INLAY_BOOL && t.bytes == 1 && *(const uint8_t *)t.data != 0;
}

/* Of Dropout: input ratio (12) or the attribute of that name. 0 drops nothing. */
static bool drops_nothing(const struct graph *g, const graph_node *n)
{
    const inlay_attr_info *a = graph_attr(n, "ratio");
    inlay_tensor_view t;
    float ratio;

    if (doctor_constant(g, doctor_input(n, 1), &t) && t.dtype == INLAY_FLOAT && t.bytes == sizeof ratio) {
        memcpy(&ratio, t.data, sizeof ratio);
        return ratio == 0;
    }
    return a != NULL && a->f == 0;
}

static void look_dropout(struct doctor *d, struct graph *g, graph_node *n)
{
    const uint32_t version = n->info.since_version;
    const bool trains =
        version >= 12 ? is_true(g, doctor_input(n, 2)) : version < 7 && doctor_int(n, "is_test", 0) == 0;

    if (trains && !drops_nothing(g, n))
        (void)doctor_add(d, DOCTOR_TRAINING_DROPOUT, g, n, INLAY_NONE,
                         "Dropout drops elements at random: the model was exported in training mode");
}

static void look_batch_norm(struct doctor *d, struct graph *g, graph_node *n)
{
    const uint32_t version = n->info.since_version;
    bool trains =
        version >= 14 ? doctor_int(n, "training_mode", 0) != 0 : version < 7 && doctor_int(n, "is_test", 0) == 0;

    for (uint32_t i = 1; version < 14 && i < n->info.output_count; i++)
        trains = trains || n->info.outputs[i] != INLAY_NONE;
    if (trains)
        (void)doctor_add(d, DOCTOR_TRAINING_BATCH_NORM, g, n, INLAY_NONE,
                         "BatchNormalization takes mean and variance of the batch: the model was exported in training "
                         "mode");
}

/* ------------------------------------------------------------------ casts */

/* Bits of the integers that a type holds without loss; 0: it is no number. */
typedef struct number_type {
    uint32_t digits;   /* of the significand, or of the integer */
    uint32_t exponent; /* bits of it; 0 = an integer */
    bool negative;
} number_type;

static number_type type_of(inlay_dtype t)
{
    switch (t) {
    case INLAY_BOOL:
        return (number_type){ 1, 0, false };
    case INLAY_UINT8:
    case INLAY_UINT16:
    case INLAY_UINT32:
    case INLAY_UINT64:
        return (number_type){ inlay_dtype_bits(t), 0, false };
    case INLAY_INT8:
    case INLAY_INT16:
    case INLAY_INT32:
    case INLAY_INT64:
        return (number_type){ inlay_dtype_bits(t) - 1, 0, true };
    case INLAY_FLOAT16:
        return (number_type){ 11, 5, true };
    case INLAY_BFLOAT16:
        return (number_type){ 8, 8, true };
    case INLAY_FLOAT:
        return (number_type){ 24, 8, true };
    case INLAY_DOUBLE:
        return (number_type){ 53, 11, true };
    default:
        return (number_type){ 0 };
    }
}

/* Does every number of type a stay what it is in type b? */
static bool holds(inlay_dtype b, inlay_dtype a)
{
    const number_type from = type_of(a), to = type_of(b);

    if (from.digits == 0 || to.digits == 0)
        return false;
    if (from.exponent > 0)
        return to.exponent >= from.exponent && to.digits >= from.digits;
    if (b == INLAY_BOOL)
        return a == INLAY_BOOL;
    /* float16 ends at 65504: sixteen bits and more overflow before they lose digits. */
    return to.digits >= from.digits && (to.negative || !from.negative);
}

static bool is_float(inlay_dtype t)
{
    return type_of(t).exponent > 0;
}

static inlay_dtype dtype_of(const struct graph *g, uint32_t v)
{
    return v != INLAY_NONE ? g->values[v].info.dtype : INLAY_UNDEFINED;
}

static void look_cast(struct doctor *d, struct graph *g, graph_node *n)
{
    const uint32_t in = doctor_input(n, 0), out = n->info.outputs[0];
    const uint32_t maker = in != INLAY_NONE ? g->values[in].info.producer : INLAY_NONE;
    const inlay_dtype middle = dtype_of(g, in), last = dtype_of(g, out);
    doctor_finding *f;
    uint32_t from;

    if (middle == INLAY_UNDEFINED || last == INLAY_UNDEFINED)
        return;
    if (middle == last)
        return; /* look_needless() tells of those */
    if (maker == INLAY_NONE || maker >= g->node_count || !doctor_is_op(g->nodes[maker], "Cast"))
        return;
    from = doctor_input(g->nodes[maker], 0);
    if (dtype_of(g, from) == INLAY_UNDEFINED)
        return;
    f = doctor_add(d, DOCTOR_CAST_CHAIN, g, n, out, "Cast from %s to %s and on to %s%s",
                   inlay_dtype_name(dtype_of(g, from)), inlay_dtype_name(middle), inlay_dtype_name(last),
                   holds(middle, dtype_of(g, from)) ? "" : ", which loses digits on the way");
    /* Numbers beyond the last type are cut off by one rule from floats, by another from integers. */
    if (f != NULL && holds(middle, dtype_of(g, from)) &&
        (last == INLAY_BOOL || holds(last, dtype_of(g, from)) || is_float(dtype_of(g, from)) == is_float(middle))) {
        f->instead = from;
        f->can_fix = true;
    }
}

/* ------------------------------------------------------------------ loops and constants */

/* Is the value true as long as the Loop goes on? */
static bool stays_true(const struct graph *body, uint32_t v)
{
    for (uint32_t steps = 0; steps <= body->node_count && v != INLAY_NONE; steps++) {
        const uint32_t maker = body->values[v].info.producer;

        if (is_true(body, v) || (body->input_count > 1 && v == body->inputs[1]))
            return true;
        if (maker == INLAY_NONE || maker >= body->node_count || !doctor_is_op(body->nodes[maker], "Identity"))
            return false;
        v = doctor_input(body->nodes[maker], 0);
    }
    return false;
}

static void look_loop(struct doctor *d, struct graph *g, graph_node *n)
{
    const uint32_t condition = doctor_input(n, 1);
    const struct graph *body = n->body_count == 1 ? n->bodies[0].graph : NULL;
    inlay_tensor_view trips;
    int64_t count;

    if (body == NULL || body->output_count == 0 || !doctor_constant(g, doctor_input(n, 0), &trips) ||
        trips.dtype != INLAY_INT64 || trips.bytes != sizeof count)
        return;
    memcpy(&count, trips.data, sizeof count);
    if (count > 0 && count <= MOST_TRIPS && (condition == INLAY_NONE || is_true(g, condition)) &&
        stays_true(body, body->outputs[0]))
        (void)doctor_add(d, DOCTOR_LOOP_CONSTANT, g, n, INLAY_NONE,
                         "Loop runs %lld times whatever the inputs are: %u nodes without a loop are faster",
                         (long long)count, (unsigned)count * body->node_count);
}

/* Is what the node makes read in the graph alone? An output keeps its maker. */
static bool stays_inside(const struct graph *g, const graph_node *n)
{
    return n->info.output_count == 1 && n->info.outputs[0] != INLAY_NONE &&
           (g->values[n->info.outputs[0]].info.flags & INLAY_VALUE_GRAPH_OUTPUT) == 0;
}

/* A large Constant node? */
static bool is_huge(const struct graph *g, const graph_node *n)
{
    const inlay_attr_info *a = doctor_is_op(n, "Constant") ? graph_attr(n, "value") : NULL;

    return a != NULL && a->tensor != NULL && a->tensor->bytes >= HUGE_CONSTANT && a->tensor->dtype != INLAY_STRING &&
           stays_inside(g, n);
}

/* A Cast to the type that is there already? */
static bool is_needless(const struct graph *g, const graph_node *n)
{
    return doctor_is_op(n, "Cast") && stays_inside(g, n) && dtype_of(g, doctor_input(n, 0)) != INLAY_UNDEFINED &&
           dtype_of(g, doctor_input(n, 0)) == dtype_of(g, n->info.outputs[0]);
}

/* All nodes of a kind as one finding: exporters make them by the dozen. */
static doctor_finding *look_many(struct doctor *d, struct graph *g, doctor_kind kind,
                                 bool (*is_one)(const struct graph *, const graph_node *), const char *what)
{
    graph_node **nodes = arena_array(&g->model->arena, (size_t)g->node_count + 1, sizeof(graph_node *));
    doctor_finding *f;
    uint32_t count = 0;

    if (nodes == NULL)
        d->failed = true;
    for (uint32_t i = 0; nodes != NULL && i < g->node_count; i++)
        if (is_one(g, g->nodes[i]))
            nodes[count++] = g->nodes[i];
    if (count == 0)
        return NULL;
    f = doctor_add(d, kind, g, nodes[0], nodes[0]->info.outputs[0], "%u %s", count, what);
    if (f != NULL) {
        f->nodes = nodes;
        f->node_count = count;
        f->can_fix = true;
    }
    return f;
}

/* ------------------------------------------------------------------ wide types */

static bool is_wide(const struct graph *g, uint32_t v, inlay_dtype dtype, int64_t least, bool open)
{
    const inlay_value_info *info = v != INLAY_NONE ? &g->values[v].info : NULL;
    int64_t count;

    if (info == NULL || info->kind != INLAY_VALUE_TENSOR || info->dtype != dtype || info->data != NULL)
        return false;
    count = doctor_elements(info);
    return count < 0 ? open : count >= least;
}

/* Nodes that compute in a type, as one finding. */
static void look_wide(struct doctor *d, struct graph *g, doctor_kind kind, inlay_dtype dtype, int64_t least, bool open)
{
    graph_node **nodes = arena_array(&g->model->arena, (size_t)g->node_count + 1, sizeof(graph_node *));
    doctor_finding *f;
    uint32_t count = 0;

    if (nodes == NULL) {
        d->failed = true;
        return;
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        graph_node *n = g->nodes[i];
        bool computes = false;

        if (doctor_is_op(n, "Cast") || doctor_is_op(n, "Constant") || n->body_count > 0)
            continue;
        for (uint32_t k = 0; k < n->info.output_count; k++)
            computes = computes || is_wide(g, n->info.outputs[k], dtype, least, open);
        if (computes)
            nodes[count++] = n;
    }
    if (count == 0)
        return;
    f = doctor_add(d, kind, g, nodes[0], nodes[0]->info.outputs[0], "%u node%s compute%s in %s%s", count,
                   count > 1 ? "s" : "", count > 1 ? "" : "s", inlay_dtype_name(dtype),
                   dtype == INLAY_DOUBLE ? ": twice the memory traffic of float32, and few kernels are made for it"
                                         : ": twice the memory traffic of int32");
    if (f != NULL) {
        f->nodes = nodes;
        f->node_count = count;
    }
}

void doctor_look_nodes(struct doctor *d, struct graph *g, const struct readers *r)
{
    static const struct {
        const char *op;
        void (*look)(struct doctor *d, struct graph *g, graph_node *n);
    } looks[] = {
        { "Dropout", look_dropout },
        { "BatchNormalization", look_batch_norm },
        { "Cast", look_cast },
        { "Loop", look_loop },
    };
    doctor_finding *f;

    (void)r;
    for (uint32_t i = 0; i < g->node_count; i++)
        for (size_t k = 0; k < sizeof looks / sizeof looks[0]; k++)
            if (doctor_is_op(g->nodes[i], looks[k].op) && g->nodes[i]->info.output_count > 0 &&
                g->nodes[i]->info.outputs[0] != INLAY_NONE)
                looks[k].look(d, g, g->nodes[i]);
    (void)look_many(d, g, DOCTOR_CAST_NEEDLESS, is_needless, "casts to the type that is there already");
    f = look_many(d, g, DOCTOR_CONSTANT_HUGE, is_huge, "large Constant nodes: no runtime keeps them outside the file");
    for (uint32_t i = 0; f != NULL && i < f->node_count; i++)
        f->bytes += graph_attr(f->nodes[i], "value")->tensor->bytes;
    look_wide(d, g, DOCTOR_FLOAT64, INLAY_DOUBLE, WIDE_ELEMENTS, true);
    look_wide(d, g, DOCTOR_INT64, INLAY_INT64, WIDE_INTEGERS, false);
}
