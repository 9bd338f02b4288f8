/* Findings about single nodes: training mode, casts, loops, wide types, large Constant nodes. */
#include "modelkit/doctor_parts.h"
#include <string.h>

enum {
    HUGE_CONSTANT = 64 << 10, /* bytes from which a Constant node should be an initializer */
    WIDE_ELEMENTS = 256,      /* smaller float64 tensors cost too little to report */
    WIDE_INTEGERS = 4096,     /* smaller int64 tensors cost too little to report */
    MOST_TRIPS = 64           /* largest trip count of a Loop that is worth unrolling */
};

static bool is_true(const struct graph *graph, uint32_t value)
{
    inlay_tensor_view view;

    return doctor_constant(graph, value, &view) && view.dtype == INLAY_BOOL && view.bytes == 1 &&
           *(const uint8_t *)view.data != 0;
}

/* Is the ratio of a Dropout 0? The ratio is input 1 since opset 12, and was an attribute before. */
static bool drops_nothing(const struct graph *graph, const graph_node *node)
{
    const inlay_attr_info *attribute = graph_attr(node, "ratio");
    inlay_tensor_view view;
    float ratio;

    if (doctor_constant(graph, graph_input_at(node, 1), &view) && view.dtype == INLAY_FLOAT &&
        view.bytes == sizeof ratio) {
        memcpy(&ratio, view.data, sizeof ratio);
        return ratio == 0;
    }
    return attribute != NULL && attribute->f == 0;
}

static void check_dropout(struct doctor *doctor, struct graph *graph, graph_node *node)
{
    const uint32_t version = node->info.since_version;
    const bool trains = version >= 12 ? is_true(graph, graph_input_at(node, 2))
                                      : version < 7 && graph_attr_int(node, "is_test", 0) == 0;

    if (trains && !drops_nothing(graph, node))
        (void)doctor_add(doctor, DOCTOR_TRAINING_DROPOUT, graph, node, INLAY_NONE,
                         "Dropout drops elements at random: the model was exported in training mode");
}

static void check_batch_norm(struct doctor *doctor, struct graph *graph, graph_node *node)
{
    const uint32_t version = node->info.since_version;
    bool trains = version >= 14 ? graph_attr_int(node, "training_mode", 0) != 0
                                : version < 7 && graph_attr_int(node, "is_test", 0) == 0;

    for (uint32_t i = 1; version < 14 && i < node->info.output_count; i++)
        trains = trains || node->info.outputs[i] != INLAY_NONE;
    if (trains)
        (void)doctor_add(
            doctor, DOCTOR_TRAINING_BATCH_NORM, graph, node, INLAY_NONE,
            "BatchNormalization uses mean and variance of the batch: the model was exported in training mode");
}

/* The exact range of a number type; {0}: not a number. */
typedef struct number_type {
    uint32_t digits;   /* bits of the significand or of the integer */
    uint32_t exponent; /* bits of the exponent; 0 = an integer type */
    bool negative;
} number_type;

static number_type type_of(inlay_dtype dtype)
{
    switch (dtype) {
    case INLAY_BOOL:
        return (number_type){ 1, 0, false };
    case INLAY_UINT8:
    case INLAY_UINT16:
    case INLAY_UINT32:
    case INLAY_UINT64:
        return (number_type){ inlay_dtype_bits(dtype), 0, false };
    case INLAY_INT8:
    case INLAY_INT16:
    case INLAY_INT32:
    case INLAY_INT64:
        return (number_type){ inlay_dtype_bits(dtype) - 1, 0, true };
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

/* Can type `b` represent every number of type `a` exactly? */
static bool holds(inlay_dtype b, inlay_dtype a)
{
    const number_type from = type_of(a), to = type_of(b);

    if (from.digits == 0 || to.digits == 0)
        return false;
    if (from.exponent > 0)
        return to.exponent >= from.exponent && to.digits >= from.digits;
    if (b == INLAY_BOOL)
        return a == INLAY_BOOL;
    /* The exponent needs no check: an integer that overflows float16 has more digits than float16. */
    return to.digits >= from.digits && (to.negative || !from.negative);
}

static bool is_float(inlay_dtype dtype)
{
    return type_of(dtype).exponent > 0;
}

static inlay_dtype dtype_of(const struct graph *graph, uint32_t value)
{
    return value != INLAY_NONE ? graph->values[value].info.dtype : INLAY_UNDEFINED;
}

static void check_cast(struct doctor *doctor, struct graph *graph, graph_node *node)
{
    const uint32_t in = graph_input_at(node, 0), out = node->info.outputs[0];
    const uint32_t producer = in != INLAY_NONE ? graph->values[in].info.producer : INLAY_NONE;
    const inlay_dtype middle = dtype_of(graph, in), last = dtype_of(graph, out);
    doctor_finding *finding;
    uint32_t from;

    if (middle == INLAY_UNDEFINED || last == INLAY_UNDEFINED)
        return;
    if (middle == last)
        return; /* reported as DOCTOR_CAST_NEEDLESS */
    if (producer == INLAY_NONE || producer >= graph->node_count || !doctor_is_op(graph->nodes[producer], "Cast"))
        return;
    from = graph_input_at(graph->nodes[producer], 0);
    if (dtype_of(graph, from) == INLAY_UNDEFINED)
        return;
    finding = doctor_add(doctor, DOCTOR_CAST_CHAIN, graph, node, out, "Cast from %s to %s and then to %s%s",
                         inlay_dtype_name(dtype_of(graph, from)), inlay_dtype_name(middle), inlay_dtype_name(last),
                         holds(middle, dtype_of(graph, from)) ? "" : ", which loses precision");
    /* Out-of-range conversions from floats and from integers follow different rules. */
    if (finding != NULL && holds(middle, dtype_of(graph, from)) &&
        (last == INLAY_BOOL || holds(last, dtype_of(graph, from)) ||
         is_float(dtype_of(graph, from)) == is_float(middle))) {
        finding->instead = from;
        finding->can_fix = true;
    }
}

/* Is the value true in every iteration of the Loop? */
static bool stays_true(const struct graph *body, uint32_t value)
{
    for (uint32_t steps = 0; steps <= body->node_count && value != INLAY_NONE; steps++) {
        const uint32_t producer = body->values[value].info.producer;

        if (is_true(body, value) || (body->input_count > 1 && value == body->inputs[1]))
            return true;
        if (producer == INLAY_NONE || producer >= body->node_count || !doctor_is_op(body->nodes[producer], "Identity"))
            return false;
        value = graph_input_at(body->nodes[producer], 0);
    }
    return false;
}

static void check_loop(struct doctor *doctor, struct graph *graph, graph_node *node)
{
    const uint32_t condition = graph_input_at(node, 1);
    const struct graph *body = node->body_count == 1 ? node->bodies[0].graph : NULL;
    inlay_tensor_view trips;
    int64_t count;

    if (body == NULL || body->output_count == 0 || !doctor_constant(graph, graph_input_at(node, 0), &trips) ||
        trips.dtype != INLAY_INT64 || trips.bytes != sizeof count)
        return;
    memcpy(&count, trips.data, sizeof count);
    if (count > 0 && count <= MOST_TRIPS && (condition == INLAY_NONE || is_true(graph, condition)) &&
        stays_true(body, body->outputs[0]))
        (void)doctor_add(doctor, DOCTOR_LOOP_CONSTANT, graph, node, INLAY_NONE,
                         "Loop always runs %lld times: %u unrolled nodes are faster", (long long)count,
                         (unsigned)count * body->node_count);
}

/* Is the node's output used inside the graph only? A graph output keeps its producer. */
static bool stays_inside(const struct graph *graph, const graph_node *node)
{
    return node->info.output_count == 1 && node->info.outputs[0] != INLAY_NONE &&
           (graph->values[node->info.outputs[0]].info.flags & INLAY_VALUE_GRAPH_OUTPUT) == 0;
}

/* Is the node a Constant with at least HUGE_CONSTANT bytes? */
static bool is_huge(const struct graph *graph, const graph_node *node)
{
    const inlay_attr_info *attribute = doctor_is_op(node, "Constant") ? graph_attr(node, "value") : NULL;

    return attribute != NULL && attribute->tensor != NULL && attribute->tensor->bytes >= HUGE_CONSTANT &&
           attribute->tensor->dtype != INLAY_STRING && stays_inside(graph, node);
}

/* Is it a Cast to the type that its input already has? */
static bool is_needless(const struct graph *graph, const graph_node *node)
{
    return doctor_is_op(node, "Cast") && stays_inside(graph, node) &&
           dtype_of(graph, graph_input_at(node, 0)) != INLAY_UNDEFINED &&
           dtype_of(graph, graph_input_at(node, 0)) == dtype_of(graph, node->info.outputs[0]);
}

/* Reports all matching nodes as one finding, because exporters create dozens of them. */
static doctor_finding *report_matching(struct doctor *doctor, struct graph *graph, doctor_kind kind,
                                       bool (*is_one)(const struct graph *, const graph_node *), const char *what)
{
    graph_node **nodes = arena_array(&graph->model->arena, (size_t)graph->node_count + 1, sizeof(graph_node *));
    doctor_finding *finding;
    uint32_t count = 0;

    if (nodes == NULL)
        doctor->failed = true;
    for (uint32_t i = 0; nodes != NULL && i < graph->node_count; i++)
        if (is_one(graph, graph->nodes[i]))
            nodes[count++] = graph->nodes[i];
    if (count == 0)
        return NULL;
    finding = doctor_add(doctor, kind, graph, nodes[0], nodes[0]->info.outputs[0], "%u %s", count, what);
    if (finding != NULL) {
        finding->nodes = nodes;
        finding->node_count = count;
        finding->can_fix = true;
    }
    return finding;
}

static bool is_wide(const struct graph *graph, uint32_t value, inlay_dtype dtype, int64_t least, bool open)
{
    const inlay_value_info *info = value != INLAY_NONE ? &graph->values[value].info : NULL;
    int64_t count;

    if (info == NULL || info->kind != INLAY_VALUE_TENSOR || info->dtype != dtype || info->data != NULL)
        return false;
    count = doctor_elements(info);
    return count < 0 ? open : count >= least;
}

/* Reports the nodes that compute in a type as one finding. */
static void check_wide(struct doctor *doctor, struct graph *graph, doctor_kind kind, inlay_dtype dtype, int64_t least,
                       bool open)
{
    graph_node **nodes = arena_array(&graph->model->arena, (size_t)graph->node_count + 1, sizeof(graph_node *));
    doctor_finding *finding;
    uint32_t count = 0;

    if (nodes == NULL) {
        doctor->failed = true;
        return;
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        graph_node *node = graph->nodes[i];
        bool computes = false;

        if (doctor_is_op(node, "Cast") || doctor_is_op(node, "Constant") || node->body_count > 0)
            continue;
        for (uint32_t k = 0; k < node->info.output_count; k++)
            computes = computes || is_wide(graph, node->info.outputs[k], dtype, least, open);
        if (computes)
            nodes[count++] = node;
    }
    if (count == 0)
        return;
    finding = doctor_add(doctor, kind, graph, nodes[0], nodes[0]->info.outputs[0], "%u node%s compute%s in %s%s", count,
                         count > 1 ? "s" : "", count > 1 ? "" : "s", inlay_dtype_name(dtype),
                         dtype == INLAY_DOUBLE ? ": twice the memory traffic of float32, and few kernels support it"
                                               : ": twice the memory traffic of int32");
    if (finding != NULL) {
        finding->nodes = nodes;
        finding->node_count = count;
    }
}

void doctor_check_nodes(struct doctor *doctor, struct graph *graph, const struct readers *readers)
{
    static const struct {
        const char *op;
        void (*check)(struct doctor *doctor, struct graph *graph, graph_node *node);
    } checks[] = {
        { "Dropout", check_dropout },
        { "BatchNormalization", check_batch_norm },
        { "Cast", check_cast },
        { "Loop", check_loop },
    };
    doctor_finding *finding;

    (void)readers;
    for (uint32_t i = 0; i < graph->node_count; i++)
        for (size_t k = 0; k < sizeof checks / sizeof checks[0]; k++)
            if (doctor_is_op(graph->nodes[i], checks[k].op) && graph->nodes[i]->info.output_count > 0 &&
                graph->nodes[i]->info.outputs[0] != INLAY_NONE)
                checks[k].check(doctor, graph, graph->nodes[i]);
    (void)report_matching(doctor, graph, DOCTOR_CAST_NEEDLESS, is_needless,
                          "casts to the type that the input already has");
    finding = report_matching(doctor, graph, DOCTOR_CONSTANT_HUGE, is_huge,
                              "large Constant nodes: no runtime keeps them outside the file");
    for (uint32_t i = 0; finding != NULL && i < finding->node_count; i++)
        finding->bytes += graph_attr(finding->nodes[i], "value")->tensor->bytes;
    check_wide(doctor, graph, DOCTOR_FLOAT64, INLAY_DOUBLE, WIDE_ELEMENTS, true);
    check_wide(doctor, graph, DOCTOR_INT64, INLAY_INT64, WIDE_INTEGERS, false);
}
