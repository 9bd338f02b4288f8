/* graph/infer_bodies.c - type and shape inference of If, Loop, Scan and SequenceMap through their bodies.
 *
 * The shape of a loop-carried value must hold for every iteration. It starts as the shape of the initial value. If the
 * body returns the value with a different dimension, that dimension becomes unknown, and the body is inferred again
 * until nothing changes. Nested loops would multiply these rounds, so from MAX_DEPTH on there is one round with unknown
 * shapes. */
#include "graph/infer.h"
#include "inlay/check.h"
#include <string.h>

enum { MAX_DEPTH = 3, MAX_ROUNDS = 4 };

static inlay_status no_memory_in(const struct inference *inf, const struct graph *graph, const graph_node *node)
{
    return graph_fail(graph, node, NULL, INLAY_OUT_OF_MEMORY, inf->diag, "out of memory while inferring shapes");
}

static void set_captures(const struct graph *graph, const graph_body *body)
{
    for (uint32_t c = 0; c < body->capture_count; c++) {
        const graph_value *outer = &graph->values[body->capture_outer[c]];
        graph_value *inner = &body->graph->values[body->capture_inner[c]];

        infer_copy_type(inner, outer);
        inner->info.elements = outer->info.elements;
        inner->info.element_count = outer->info.element_count;
        inner->info.data = outer->info.data;
        inner->info.data_bytes = outer->info.data_bytes;
    }
}

/* Gives a body's input the type of an outer value, completed by the body's declaration. */
static void set_input(const struct graph *body, uint32_t i, const graph_value *from)
{
    graph_value *value;

    INLAY_CHECK(i < body->input_count);
    value = &body->values[body->inputs[i]];
    infer_forget(value);
    if (from != NULL)
        infer_copy_type(value, from);
    infer_use_declared(body, value);
}

static void set_scalar(const struct graph *body, uint32_t i, inlay_dtype dtype)
{
    graph_value *value = &body->values[body->inputs[i]];

    infer_forget(value);
    infer_use_declared(body, value);
    value->info.dtype = dtype;
    if (value->info.rank == INLAY_RANK_UNKNOWN)
        value->info.rank = 0;
}

static const graph_value *node_input(const struct graph *graph, const graph_node *node, uint32_t i)
{
    return i < node->info.input_count && node->info.inputs[i] != INLAY_NONE ? &graph->values[node->info.inputs[i]]
                                                                            : NULL;
}

static graph_value *node_output(const struct graph *graph, const graph_node *node, uint32_t output)
{
    return output < node->info.output_count && node->info.outputs[output] != INLAY_NONE
               ? &graph->values[node->info.outputs[output]]
               : NULL;
}

static const graph_value *body_output(const struct graph *body, uint32_t output)
{
    INLAY_CHECK(output < body->output_count && body->outputs[output] < body->value_count);
    return &body->values[body->outputs[output]];
}

static bool same_shape(const inlay_value_info *a, const inlay_value_info *b)
{
    if (a->rank != b->rank)
        return false;
    for (uint32_t d = 0; a->rank != INLAY_RANK_UNKNOWN && d < a->rank; d++)
        if (!dim_same(a->dims[d], b->dims[d]) &&
            (a->dims[d].kind != INLAY_DIM_UNKNOWN || b->dims[d].kind != INLAY_DIM_UNKNOWN))
            return false;
    return true;
}

/* Generalises shape a so that it also describes b. False: out of memory. */
static bool widen(inlay_value_info *a, const inlay_value_info *b, struct arena *scratch)
{
    inlay_dim *dims;

    if (same_shape(a, b))
        return true;
    if (a->rank != b->rank) {
        a->rank = INLAY_RANK_UNKNOWN;
        a->dims = NULL;
        return true;
    }
    dims = arena_array(scratch, a->rank, sizeof *dims);
    if (dims == NULL)
        return false;
    for (uint32_t d = 0; d < a->rank; d++)
        dims[d] = dim_same(a->dims[d], b->dims[d]) ? a->dims[d] : dim_unknown();
    a->dims = dims;
    return true;
}

/* Inserts a dimension at axis; remove_dim() removes one. An invalid axis makes the rank unknown. */
static bool insert_dim(inlay_value_info *value, int64_t axis, inlay_dim dim, struct arena *scratch)
{
    inlay_dim *dims;

    if (value->rank == INLAY_RANK_UNKNOWN)
        return true;
    axis = axis < 0 ? axis + (int64_t)value->rank + 1 : axis;
    if (axis < 0 || axis > (int64_t)value->rank || value->rank == INLAY_MAX_RANK) {
        value->rank = INLAY_RANK_UNKNOWN;
        return true;
    }
    dims = arena_array(scratch, (size_t)value->rank + 1, sizeof *dims);
    if (dims == NULL)
        return false;
    for (uint32_t d = 0; d <= value->rank; d++)
        dims[d] = d == (uint32_t)axis ? dim : value->dims[d - (d > (uint32_t)axis)];
    value->dims = dims;
    value->rank++;
    return true;
}

static bool remove_dim(inlay_value_info *value, int64_t axis, inlay_dim *out_dim, struct arena *scratch)
{
    inlay_dim *dims;

    *out_dim = dim_unknown();
    if (value->rank == INLAY_RANK_UNKNOWN)
        return true;
    axis = axis < 0 ? axis + (int64_t)value->rank : axis;
    if (axis < 0 || axis >= (int64_t)value->rank) {
        value->rank = INLAY_RANK_UNKNOWN;
        return true;
    }
    dims = arena_array(scratch, value->rank, sizeof *dims);
    if (dims == NULL)
        return false;
    *out_dim = value->dims[axis];
    for (uint32_t d = 0; d + 1 < value->rank; d++)
        dims[d] = value->dims[d + (d >= (uint32_t)axis)];
    value->dims = dims;
    value->rank--;
    return true;
}

static void forget_shape(graph_value *value)
{
    value->info.rank = INLAY_RANK_UNKNOWN;
    value->info.dims = NULL;
}

static inlay_status infer_if(struct inference *inf, struct graph *graph, const graph_node *node)
{
    inlay_status status = INLAY_OK;

    for (uint32_t b = 0; b < node->body_count; b++) {
        const graph_body *body = &node->bodies[b];

        if (body->graph->output_count != node->info.output_count)
            return graph_fail(graph, node, NULL, INLAY_INVALID_MODEL, inf->diag, "has %u outputs, but its %s has %u",
                              node->info.output_count, body->attr, body->graph->output_count);
        set_captures(graph, body);
        INLAY_TRY(infer_graph(inf, body->graph));
    }
    for (uint32_t o = 0; o < node->info.output_count; o++) {
        graph_value *value = node_output(graph, node, o);
        const graph_value *first = body_output(node->bodies[0].graph, o), *other;

        if (value == NULL)
            continue;
        infer_copy_type(value, first);
        for (uint32_t b = 1; b < node->body_count; b++) {
            other = body_output(node->bodies[b].graph, o);
            if (value->info.dtype == INLAY_UNDEFINED) {
                infer_copy_type(value, other);
                forget_shape(value);
            } else if (other->info.dtype != INLAY_UNDEFINED &&
                       (value->info.kind != other->info.kind || value->info.dtype != other->info.dtype)) {
                return graph_fail(graph, node, value->info.name.data, INLAY_INVALID_MODEL, inf->diag,
                                  "output %u is %s in one branch and %s in the other", o,
                                  inlay_dtype_name(value->info.dtype), inlay_dtype_name(other->info.dtype));
            }
            if (!widen(&value->info, &other->info, &inf->model->arena))
                return no_memory_in(inf, graph, node);
        }
    }
done:
    return status;
}

/* Infers a body whose outputs from .. from + count - 1 become its inputs first .. first + count - 1 in the next
 * iteration. The inputs have the initial types when called, and types that hold for all iterations afterwards. */
static inlay_status infer_carried(struct inference *inf, struct graph *graph, const graph_node *node,
                                  const graph_body *body, uint32_t first, uint32_t from, uint32_t count)
{
    struct graph *inner = body->graph;
    inlay_status status = INLAY_OK;
    uint32_t rounds = inf->depth >= MAX_DEPTH ? 1 : MAX_ROUNDS;

    INLAY_CHECK(first + count <= inner->input_count && from + count <= inner->output_count);
    inf->depth++;
    for (uint32_t round = 1; round <= rounds; round++) {
        bool changed = false;

        for (uint32_t i = 0; i < count && round == rounds; i++)
            forget_shape(&inner->values[inner->inputs[first + i]]);
        INLAY_TRY(infer_graph(inf, inner));
        for (uint32_t i = 0; i < count && round < rounds; i++) {
            graph_value *in = &inner->values[inner->inputs[first + i]];
            const graph_value *out = body_output(inner, from + i);

            if (in->info.dtype == INLAY_UNDEFINED && out->info.dtype != INLAY_UNDEFINED) {
                in->info.kind = out->info.kind;
                in->info.dtype = out->info.dtype;
                in->inner_kind = out->inner_kind;
                changed = true;
            }
            if (out->info.dtype != INLAY_UNDEFINED && in->info.dtype != out->info.dtype) {
                status = graph_fail(graph, node, NULL, INLAY_INVALID_MODEL, inf->diag,
                                    "carried value %u is %s before an iteration and %s after it", i,
                                    inlay_dtype_name(in->info.dtype), inlay_dtype_name(out->info.dtype));
                goto done;
            }
            if (same_shape(&in->info, &out->info))
                continue;
            if (!widen(&in->info, &out->info, &inf->model->arena)) {
                status = no_memory_in(inf, graph, node);
                goto done;
            }
            changed = true;
        }
        if (!changed)
            break;
    }
done:
    inf->depth--;
    return status;
}

/* Sets the type of a loop-carried value after the last iteration. This is the generalised input type, because there may
 * be no iteration. Exception: if the body converts an optional into its element (ONNX's test cases do), this is the
 * output type of the body. */
static void set_carried_output(const struct graph *graph, const graph_node *node, uint32_t o, const struct graph *body,
                               uint32_t input, uint32_t output)
{
    graph_value *value = node_output(graph, node, o);
    const graph_value *in = &body->values[body->inputs[input]], *out = body_output(body, output);

    if (value != NULL)
        infer_copy_type(value, in->info.kind == INLAY_VALUE_OPTIONAL && out->info.kind != in->info.kind ? out : in);
}

static inlay_status check_counts(const struct inference *inf, const struct graph *graph, const graph_node *node,
                                 const struct graph *body, uint32_t inputs, uint32_t outputs)
{
    if (body->input_count == inputs && body->output_count == outputs)
        return INLAY_OK;
    return graph_fail(graph, node, NULL, INLAY_INVALID_MODEL, inf->diag,
                      "its body must have %u inputs and %u outputs, but has %u and %u", inputs, outputs,
                      body->input_count, body->output_count);
}

static bool is_true(const inlay_value_info *value)
{
    return value->data != NULL && value->data_bytes > 0 && value->dtype == INLAY_BOOL &&
           *(const uint8_t *)value->data != 0;
}

/* Is the body's output condition its input condition, or constantly true? */
static bool condition_is_invariant(const struct graph *inner)
{
    uint32_t value;

    INLAY_CHECK(inner->output_count > 0 && inner->input_count > 1);
    value = inner->outputs[0];
    for (uint32_t i = inner->node_count; value != inner->inputs[1] && i-- > 0;) { /* follow Identity nodes backwards */
        const inlay_node_info *node = &inner->nodes[i]->info;

        if (node->output_count == 1 && node->outputs[0] == value && strcmp(node->op_type.data, "Identity") == 0)
            value = node->inputs[0];
    }
    return value == inner->inputs[1] || is_true(&inner->values[value].info);
}

int64_t infer_loop_trip_count(const struct graph *graph, const graph_node *node)
{
    const graph_value *max_count = node_input(graph, node, 0), *cond = node_input(graph, node, 1);
    int64_t trip_count;

    if (max_count == NULL || max_count->info.data == NULL || max_count->info.data_bytes < sizeof trip_count ||
        !condition_is_invariant(node->bodies[0].graph) || (cond != NULL && !is_true(&cond->info)))
        return -1;
    memcpy(&trip_count, max_count->info.data, sizeof trip_count);
    return trip_count > 0 ? trip_count : 0;
}

static inlay_status infer_loop(struct inference *inf, struct graph *graph, const graph_node *node)
{
    const graph_body *body = &node->bodies[0];
    struct graph *inner = body->graph;
    uint32_t carried = node->info.input_count > 2 ? node->info.input_count - 2 : 0;
    int64_t trip_count;
    inlay_status status;

    if (node->info.output_count < carried)
        return graph_fail(graph, node, NULL, INLAY_INVALID_MODEL, inf->diag, "carries %u values but has %u outputs",
                          carried, node->info.output_count);
    INLAY_TRY(check_counts(inf, graph, node, inner, carried + 2, node->info.output_count + 1));
    set_captures(graph, body);
    set_scalar(inner, 0, INLAY_INT64);
    set_scalar(inner, 1, INLAY_BOOL);
    for (uint32_t i = 0; i < carried; i++)
        set_input(inner, i + 2, node_input(graph, node, i + 2));
    INLAY_TRY(infer_carried(inf, graph, node, body, 2, 1, carried));
    trip_count = infer_loop_trip_count(graph, node);
    for (uint32_t o = 0; o < node->info.output_count; o++) {
        graph_value *value = node_output(graph, node, o);

        if (o < carried) {
            set_carried_output(graph, node, o, inner, o + 2, o + 1);
        } else if (value != NULL) {
            infer_copy_type(value, body_output(inner, o + 1));
            if (!insert_dim(&value->info, 0, trip_count < 0 ? dim_unknown() : dim_fixed(trip_count),
                            &inf->model->arena))
                status = no_memory_in(inf, graph, node);
        }
    }
done:
    return status;
}

/* Scan-8 has a leading batch axis in all tensors, and lengths as its first input; Scan-9 has neither, but axis
 * attributes. */
static inlay_status infer_scan(struct inference *inf, struct graph *graph, const graph_node *node)
{
    struct arena *arena = &inf->model->arena;
    const graph_body *body = &node->bodies[0];
    struct graph *inner = body->graph;
    const inlay_attr_info *scans = graph_attr(node, "num_scan_inputs");
    bool batched = node->info.since_version < 9;
    uint32_t skip = batched ? 1 : 0, inputs = node->info.input_count - skip, scanned, carried;
    inlay_dim batch = dim_unknown(), length = dim_unknown(), dim;
    inlay_status status;

    if (node->info.input_count < skip || scans == NULL || scans->i < 1 || scans->i > (int64_t)inputs)
        return graph_fail(graph, node, NULL, INLAY_INVALID_MODEL, inf->diag, "num_scan_inputs must be in [1, %u]",
                          inputs);
    scanned = (uint32_t)scans->i;
    carried = inputs - scanned;
    if (node->info.output_count < carried)
        return graph_fail(graph, node, NULL, INLAY_INVALID_MODEL, inf->diag, "carries %u values but has %u outputs",
                          carried, node->info.output_count);
    INLAY_TRY(check_counts(inf, graph, node, inner, inputs, node->info.output_count));
    set_captures(graph, body);
    for (uint32_t i = 0; i < inputs; i++) {
        const graph_value *outer = node_input(graph, node, i + skip);
        graph_value *value = &inner->values[inner->inputs[i]];
        bool ok = true;

        infer_forget(value);
        if (outer != NULL)
            infer_copy_type(value, outer);
        if (batched) {
            ok = remove_dim(&value->info, 0, &dim, arena);
            batch = batch.kind == INLAY_DIM_UNKNOWN ? dim : batch;
        }
        if (ok && i >= carried) {
            ok = remove_dim(&value->info, batched ? 0 : graph_attr_int_at(node, "scan_input_axes", i - carried), &dim,
                            arena);
            length = length.kind == INLAY_DIM_UNKNOWN || dim.kind == INLAY_DIM_FIXED ? dim : length;
        }
        if (!ok) {
            status = no_memory_in(inf, graph, node);
            goto done;
        }
        infer_use_declared(inner, value);
    }
    INLAY_TRY(infer_carried(inf, graph, node, body, 0, 0, carried));
    for (uint32_t o = 0; o < node->info.output_count; o++) {
        graph_value *value = node_output(graph, node, o);
        bool ok = true;

        if (value == NULL)
            continue;
        if (o < carried)
            set_carried_output(graph, node, o, inner, o, o);
        else
            infer_copy_type(value, body_output(inner, o));
        if (o >= carried)
            ok = insert_dim(&value->info, batched ? 0 : graph_attr_int_at(node, "scan_output_axes", o - carried),
                            length, arena);
        if (ok && batched)
            ok = insert_dim(&value->info, 0, batch, arena);
        if (!ok)
            status = no_memory_in(inf, graph, node);
    }
done:
    return status;
}

static void set_element_input(const struct graph *body, uint32_t i, const graph_value *from)
{
    graph_value *value = &body->values[body->inputs[i]];

    infer_forget(value);
    if (from != NULL) {
        infer_copy_type(value, from);
        value->info.kind = INLAY_VALUE_TENSOR;
        value->inner_kind = 0;
    }
    infer_use_declared(body, value);
}

static inlay_status infer_sequence_map(struct inference *inf, struct graph *graph, const graph_node *node)
{
    const graph_body *body = &node->bodies[0];
    struct graph *inner = body->graph;
    inlay_status status;

    INLAY_TRY(check_counts(inf, graph, node, inner, node->info.input_count, node->info.output_count));
    set_captures(graph, body);
    for (uint32_t i = 0; i < node->info.input_count; i++)
        set_element_input(inner, i, node_input(graph, node, i));
    INLAY_TRY(infer_graph(inf, inner));
    for (uint32_t o = 0; o < node->info.output_count; o++) {
        graph_value *value = node_output(graph, node, o);

        if (value == NULL)
            continue;
        infer_copy_type(value, body_output(inner, o));
        value->info.kind = INLAY_VALUE_SEQUENCE;
        value->inner_kind = INLAY_VALUE_TENSOR;
    }
done:
    return status;
}

inlay_status infer_bodies(struct inference *inf, struct graph *graph, const graph_node *node)
{
    static const struct {
        const char *op_type;
        inlay_status (*infer)(struct inference *inf, struct graph *graph, const graph_node *node);
    } operators[] = {
        { "If", infer_if },
        { "Loop", infer_loop },
        { "Scan", infer_scan },
        { "SequenceMap", infer_sequence_map },
    };

    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
        if (node->row != NULL && strcmp(node->info.op_type.data, operators[i].op_type) == 0)
            return operators[i].infer(inf, graph, node);
    return INLAY_OK; /* a provider compiles other operators with bodies, or the model is refused */
}

inlay_status infer_body_outputs(const graph_node *node, inlay_value_info *const *out, struct arena *scratch)
{
    if (strcmp(node->info.op_type.data, "If") != 0 || graph_body_named(node, "then_branch") == NULL)
        return INLAY_OK;
    for (uint32_t o = 0; o < node->info.output_count; o++) {
        if (out[o] == NULL)
            continue;
        for (uint32_t b = 0; b < node->body_count; b++) {
            const inlay_value_info *from;
            inlay_dim *dims;

            if (o >= node->bodies[b].graph->output_count)
                return INLAY_OK;
            from = &body_output(node->bodies[b].graph, o)->info;
            if (b > 0) {
                if (!widen(out[o], from, scratch))
                    return INLAY_OUT_OF_MEMORY;
                continue;
            }
            out[o]->rank = from->rank;
            if (from->rank == INLAY_RANK_UNKNOWN)
                continue;
            dims = arena_array(scratch, from->rank, sizeof *dims);
            if (dims == NULL)
                return INLAY_OUT_OF_MEMORY;
            for (uint32_t d = 0; d < from->rank; d++) /* planning has no symbols */
                dims[d] = from->dims[d].kind == INLAY_DIM_FIXED ? from->dims[d] : dim_unknown();
            out[o]->dims = dims;
        }
    }
    return INLAY_OK;
}
