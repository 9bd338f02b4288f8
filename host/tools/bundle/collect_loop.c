/* Loops and Scans as flat steps: see bundle_opcode. */
#include "bundle/collect_parts.h"
#include "inlay/check.h"
#include "graph/infer.h"
#include "plan/layout/planner.h"
#include <string.h>

/* Bytes of what follows the first `axis` dimensions. */
static uint64_t block_bytes(const inlay_value_info *info, uint32_t axis)
{
    uint64_t bytes = inlay_dtype_bits(info->dtype) / 8;

    for (uint32_t d = axis; d < info->rank; d++)
        bytes *= (uint64_t)info->dims[d].value;
    return bytes;
}

/* A tensor of this type is stored by element: each takes whole bytes. */
static inlay_status check_type(const struct collector *collector, const graph_node *node, const inlay_value_info *info)
{
    return inlay_dtype_bits(info->dtype) % 8 == 0
               ? INLAY_OK
               : inlay_fail(collector->diag, INLAY_UNSUPPORTED, "%s node '%s' cannot be bundled: it scans %s",
                            node->info.op_type.data, node->info.name.data, inlay_dtype_name(info->dtype));
}

/* Axis of a Scan for its scan input or output i of that rank; `rank` if the model states none that exists. */
static uint32_t scan_axis(const graph_node *node, const char *name, uint32_t i, uint32_t rank)
{
    const int64_t axis = graph_attr_int_at(node, name, i);

    return axis < -(int64_t)rank || axis >= (int64_t)rank ? rank : (uint32_t)(axis < 0 ? axis + rank : axis);
}

/* The size of the scanned axis of scan input i, which is node input `input`; -1: it is not fixed. */
static int64_t scan_length(const struct graph *graph, const graph_node *node, uint32_t i, uint32_t input)
{
    const inlay_value_info *info = &graph->values[node->info.inputs[input]].info;
    const uint32_t rank = info->rank == INLAY_RANK_UNKNOWN ? 0 : info->rank,
                   axis = scan_axis(node, "scan_input_axes", i, rank);

    return axis < rank ? info->dims[axis].value : -1;
}

/* Assigns the scan outputs of the node, which collect a result of each iteration on a new axis. */
static inlay_status add_scan_outputs(struct collector *collector, const program_step *step, uint32_t part,
                                     loop_items *out)
{
    const struct graph *graph = collector->collection->parts[part].program->graph, *inner = step->bodies[0]->graph;
    inlay_status status = INLAY_OK;

    out->scan = arena_array(&collector->collection->arena, (size_t)out->scans + 1, sizeof *out->scan);
    if (out->scan == NULL)
        return no_memory(collector->diag, "to bundle the model");
    if (out->scans > 0 && out->iterations < 0)
        return inlay_fail(collector->diag, INLAY_UNSUPPORTED,
                          "%s node '%s' cannot be bundled: it has scan outputs, and its number of "
                          "iterations is not fixed; --set fixes an input",
                          step->node->info.op_type.data, step->node->info.name.data);
    for (uint32_t i = 0; i < out->scans; i++) {
        const uint32_t output = out->carried + i;
        const uint32_t value = output < step->node->info.output_count ? step->node->info.outputs[output] : INLAY_NONE;
        const inlay_value_info *each = &inner->values[inner->outputs[out->is_loop + output]].info;
        uint32_t axis;
        inlay_dim *dims;

        out->scan[i] = INLAY_NONE;
        if (!collect_is_live(collector, part, &value, 1))
            continue;
        axis = each->rank == INLAY_RANK_UNKNOWN ? each->rank
                                                : scan_axis(step->node, "scan_output_axes", i, each->rank + 1);
        if (axis > each->rank || axis == INLAY_RANK_UNKNOWN)
            return inlay_fail(collector->diag, INLAY_UNSUPPORTED, "the size of '%s' is not fixed",
                              graph->values[value].info.name.data);
        dims = arena_array(&collector->collection->arena, (size_t)each->rank + 2, sizeof *dims);
        if (dims == NULL)
            return no_memory(collector->diag, "to bundle the model");
        for (uint32_t d = 0; d <= each->rank; d++)
            dims[d] = d < axis    ? each->dims[d]
                      : d == axis ? (inlay_dim){ .value = out->iterations, .kind = INLAY_DIM_FIXED }
                                  : each->dims[d - 1];
        graph->values[value].info.rank = each->rank + 1;
        graph->values[value].info.dims = dims;
        INLAY_TRY(check_type(collector, step->node, each));
        INLAY_TRY(collect_value(collector, part, value));
        out->scan[i] = collector->collection->parts[part].item_of[value];
    }
done:
    return status;
}

/* Copies an element of each scan input to the input of the body. */
static inlay_status take_elements(struct collector *collector, const program_step *step, uint32_t part, uint32_t body,
                                  const loop_items *items)
{
    const struct graph *graph = collector->collection->parts[part].program->graph,
                       *inner = collector->collection->parts[body].program->graph;
    const inlay_node_info *node = &step->node->info;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; items->carried + i < node->input_count && !items->is_loop; i++) {
        const uint32_t value = node->inputs[items->carried + i], input = inner->inputs[items->carried + i];
        const inlay_value_info *info = &graph->values[value].info;
        const int64_t length = scan_length(graph, step->node, i, items->carried + i);
        bundle_operation *element;
        uint32_t from;

        if (length != items->iterations)
            return inlay_fail(collector->diag, INLAY_UNSUPPORTED,
                              "Scan node '%s' cannot be bundled: its scan inputs differ in length", node->name.data);
        INLAY_TRY(check_type(collector, step->node, info));
        INLAY_TRY(collect_find(collector, part, value, &from));
        INLAY_TRY(collect_value(collector, body, input));
        element = collect_step(collector, DO_ELEMENT, 2, 1);
        if (element == NULL)
            return no_memory(collector->diag, "to bundle the model");
        element->in[0] = from;
        element->in[1] = items->count;
        element->out[0] = collector->collection->parts[body].item_of[input];
        element->block = block_bytes(info, scan_axis(step->node, "scan_input_axes", i, info->rank) + 1);
        element->backwards = graph_attr_int_at(step->node, "scan_input_directions", i) != 0;
        collect_finish(collector);
    }
done:
    return status;
}

/* Stores the results of an iteration in the scan outputs. */
static inlay_status append_scans(struct collector *collector, const program_step *step, const loop_items *items,
                                 uint32_t part)
{
    const struct graph *inner = collector->collection->parts[part].program->graph;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < items->scans; i++) {
        const uint32_t result = inner->outputs[items->is_loop + items->carried + i];
        const inlay_value_info *each = &inner->values[result].info;
        bundle_operation *scan;
        uint32_t from;

        if (items->scan[i] == INLAY_NONE)
            continue;
        INLAY_TRY(collect_find(collector, part, result, &from));
        scan = collect_step(collector, DO_SCAN, 2, 1);
        if (scan == NULL)
            return no_memory(collector->diag, "to bundle the model");
        scan->in[0] = from;
        scan->in[1] = items->count;
        scan->out[0] = items->scan[i];
        scan->block = block_bytes(each, scan_axis(step->node, "scan_output_axes", i, each->rank + 1));
        scan->backwards = graph_attr_int_at(step->node, "scan_output_directions", i) != 0;
        collect_finish(collector);
    }
done:
    return status;
}

/* The position of the first state among the inputs of the node; the same among the inputs of its body. */
static uint32_t first_state(const loop_items *items)
{
    return items->is_loop ? 2 : 0;
}

static inlay_status add_loop_state(struct collector *collector, uint32_t part, loop_items *out)
{
    bundle_collection *collection = collector->collection;
    const struct graph *inner = collection->parts[part].program->graph;
    inlay_status status = INLAY_OK;

    out->state = arena_array(&collection->arena, (size_t)out->carried + 1, sizeof *out->state);
    out->count =
        collect_item(collector, (bundle_item){ .kind = ITEM_SLAB, .first = UINT32_MAX, .bytes = sizeof(int64_t) });
    out->cond = collect_item(collector, (bundle_item){ .kind = ITEM_SLAB, .first = UINT32_MAX, .bytes = 1 });
    if (out->state == NULL || out->count == INLAY_NONE || out->cond == INLAY_NONE)
        return no_memory(collector->diag, "to bundle the model");
    if (out->is_loop) {
        collection->parts[part].item_of[inner->inputs[0]] = out->count;
        collection->parts[part].item_of[inner->inputs[1]] = out->cond;
    }
    for (uint32_t i = 0; i < out->carried; i++) {
        const uint32_t input = inner->inputs[first_state(out) + i];

        INLAY_TRY(collect_value(collector, part, input));
        out->state[i] = collection->parts[part].item_of[input];
    }
done:
    return status;
}

static bool is_state(const loop_items *items, uint32_t item)
{
    bool found = item == items->cond;

    for (uint32_t i = 0; i < items->carried; i++)
        found |= items->state[i] == item;
    return found;
}

/* Copies the results of an iteration to the state. A state that another state overwrites is saved first. */
static inlay_status carry(struct collector *collector, const loop_items *items, uint32_t part)
{
    bundle_collection *collection = collector->collection;
    const struct graph *inner = collection->parts[part].program->graph;
    uint32_t *from = arena_array(&collection->arena, (size_t)items->carried + 1, sizeof *from);
    inlay_status status = INLAY_OK;

    if (from == NULL)
        return no_memory(collector->diag, "to bundle the model");
    for (uint32_t i = items->is_loop ? 0 : 1; i <= items->carried; i++) {
        const uint32_t to = i == 0 ? items->cond : items->state[i - 1];

        INLAY_TRY(collect_find(collector, part, inner->outputs[items->is_loop ? i : i - 1], &from[i]));
        if (collection->items[from[i]].bytes != collection->items[to].bytes)
            return inlay_fail(collector->diag, INLAY_UNSUPPORTED,
                              "a Loop or Scan whose state changes its size cannot be bundled");
        if (from[i] != to && is_state(items, from[i])) {
            const uint32_t copy = collect_item(
                collector,
                (bundle_item){ .kind = ITEM_SLAB, .first = UINT32_MAX, .bytes = collection->items[to].bytes });
            if (copy == INLAY_NONE)
                return no_memory(collector->diag, "to bundle the model");
            INLAY_TRY(collect_copy(collector, from[i], copy));
            from[i] = copy;
        }
    }
    for (uint32_t i = items->is_loop ? 0 : 1; i <= items->carried; i++) {
        const uint32_t to = i == 0 ? items->cond : items->state[i - 1];

        if (from[i] != to)
            INLAY_TRY(collect_copy(collector, from[i], to));
    }
done:
    return status;
}

/* An item that is written before the loop and read in the loop is in use until the end of the loop. */
static void extend_lifetimes(struct collector *collector, uint32_t begin, uint32_t end)
{
    for (uint32_t i = 0; i < collector->collection->item_count; i++) {
        bundle_item *item = &collector->collection->items[i];

        if (item->first < begin && item->last >= begin && item->last < end)
            item->last = end;
    }
}

/* Sets the sizes of the node's outputs from the state, and copies the state to them. */
static inlay_status copy_state_out(struct collector *collector, uint32_t part, const program_step *step,
                                   const loop_items *items)
{
    const struct graph *graph = collector->collection->parts[part].program->graph, *inner = step->bodies[0]->graph;
    inlay_status status = INLAY_OK;

    for (uint32_t output = 0; output < step->node->info.output_count && output < items->carried; output++) {
        const uint32_t value = step->node->info.outputs[output];
        const inlay_value_info *state = &inner->values[inner->inputs[first_state(items) + output]].info;
        size_t bytes;

        if (!collect_is_live(collector, part, &value, 1))
            continue;
        if (!plan_info_bytes(&graph->values[value].info, &bytes)) {
            graph->values[value].info.rank = state->rank;
            graph->values[value].info.dims = state->dims;
        }
        INLAY_TRY(collect_value(collector, part, value));
        INLAY_TRY(collect_copy(collector, items->state[output], collector->collection->parts[part].item_of[value]));
    }
done:
    return status;
}

/* Sets the numbers of iterations, state values and scan outputs. */
static void count_items(const struct graph *graph, const program_step *step, loop_items *out)
{
    const inlay_node_info *node = &step->node->info;
    const struct graph *inner = step->bodies[0]->graph;
    const inlay_attr_info *scanned = graph_attr(step->node, "num_scan_inputs");

    *out = (loop_items){ .is_loop = strcmp(node->op_type.data, "Loop") == 0 };
    if (out->is_loop)
        out->carried = node->input_count > 2 ? node->input_count - 2 : 0;
    else
        out->carried = node->input_count - (scanned != NULL ? (uint32_t)scanned->i : 0);
    out->scans = inner->output_count - out->is_loop - out->carried;
    out->iterations =
        out->is_loop ? infer_loop_trip_count(graph, step->node) : scan_length(graph, step->node, 0, out->carried);
}

/* Which outputs of the body are read: all but scan outputs that nothing reads. NULL: all, or out of memory. */
static const bool *live_outputs(struct collector *collector, const program_step *step, const loop_items *items)
{
    const uint32_t count = step->bodies[0]->graph->output_count;
    bool *live = arena_array(&collector->collection->arena, (size_t)count + 1, sizeof *live);

    for (uint32_t i = 0; live != NULL && i < count; i++)
        live[i] = i < count - items->scans || items->scan[i - (count - items->scans)] != INLAY_NONE;
    return live;
}

inlay_status collect_loop_begin(struct collector *collector, uint32_t part, const program_step *step, loop_items *items,
                                uint32_t *out_body)
{
    const graph_body *body = &step->node->bodies[0];
    const inlay_node_info *node = &step->node->info;
    const struct program *inner = step->bodies[0];
    uint32_t number, from, limit = INLAY_NONE, collected = 0;
    inlay_status status;
    bundle_operation *operation;

    count_items(collector->collection->parts[part].program->graph, step, items);
    INLAY_TRY(add_scan_outputs(collector, step, part, items));
    INLAY_TRY(collect_part(collector, inner, live_outputs(collector, step, items), &number));
    INLAY_TRY(add_loop_state(collector, number, items));
    for (uint32_t i = 0; i < body->capture_count; i++) {
        if ((inner->graph->values[body->capture_inner[i]].info.flags & INLAY_VALUE_CONSTANT) != 0)
            continue;
        INLAY_TRY(collect_find(collector, part, body->capture_outer[i], &from));
        collector->collection->parts[number].item_of[body->capture_inner[i]] = from;
    }
    if (items->is_loop && node->input_count > 0 && node->inputs[0] != INLAY_NONE)
        INLAY_TRY(collect_find(collector, part, node->inputs[0], &limit));
    if (!items->is_loop && items->iterations < 0)
        return inlay_fail(collector->diag, INLAY_UNSUPPORTED,
                          "Scan node '%s' cannot be bundled: its number of iterations is not fixed", node->name.data);
    /* Scan outputs are in use from here on: steps of later iterations must not overwrite them. */
    for (uint32_t i = 0; i < items->scans; i++)
        collected += items->scan[i] != INLAY_NONE;
    if ((operation = collect_step(collector, DO_BEGIN, 0, 2 + collected)) == NULL)
        return no_memory(collector->diag, "to bundle the model");
    INLAY_CHECK(operation->out_count == 2 + collected);
    operation->out[0] = items->count;
    operation->out[1] = items->cond;
    for (uint32_t i = 0, at = 2; i < items->scans; i++)
        if (items->scan[i] != INLAY_NONE)
            operation->out[at++] = items->scan[i];
    collect_finish(collector);
    if (items->is_loop && node->input_count > 1 && node->inputs[1] != INLAY_NONE) {
        INLAY_TRY(collect_find(collector, part, node->inputs[1], &from));
        INLAY_TRY(collect_copy(collector, from, items->cond));
    }
    for (uint32_t i = 0; i < items->carried; i++) {
        INLAY_TRY(collect_find(collector, part, node->inputs[first_state(items) + i], &from));
        if (collector->collection->items[from].bytes != collector->collection->items[items->state[i]].bytes)
            return inlay_fail(collector->diag, INLAY_UNSUPPORTED,
                              "%s node '%s' cannot be bundled: its state changes its size", node->op_type.data,
                              node->name.data);
        INLAY_TRY(collect_copy(collector, from, items->state[i]));
    }
    items->begin = collector->collection->step_count;
    if ((operation = collect_step(collector, DO_TEST, limit != INLAY_NONE ? 3 : 2, 0)) == NULL)
        return no_memory(collector->diag, "to bundle the model");
    operation->in[0] = items->count;
    operation->in[1] = items->cond;
    if (limit != INLAY_NONE)
        operation->in[2] = limit;
    operation->block = items->is_loop ? INT64_MAX : (uint64_t)items->iterations;
    collect_finish(collector);
    INLAY_TRY(take_elements(collector, step, part, number, items));
    *out_body = number;
done:
    return status;
}

inlay_status collect_loop_end(struct collector *collector, uint32_t part, const program_step *step,
                              const loop_items *items, uint32_t body)
{
    inlay_status status;
    bundle_operation *operation;

    INLAY_TRY(append_scans(collector, step, items, body));
    INLAY_TRY(carry(collector, items, body));
    if ((operation = collect_step(collector, DO_NEXT, 1, 0)) == NULL)
        return no_memory(collector->diag, "to bundle the model");
    operation->in[0] = items->count;
    operation->target = items->begin;
    collect_finish(collector);
    extend_lifetimes(collector, items->begin, collector->collection->step_count);
    INLAY_CHECK(collector->collection->steps[items->begin].opcode == DO_TEST);
    collector->collection->steps[items->begin].target = collector->collection->step_count;
    status = copy_state_out(collector, part, step, items);
done:
    return status;
}
