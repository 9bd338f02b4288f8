/* Loops as flat steps: see bundle_opcode. */
#include "bundle/collect_parts.h"
#include "inlay/check.h"
#include "graph/infer.h"
#include "plan/layout/planner.h"
#include <string.h>

/* Assigns the scan outputs of the node, which collect a result of each iteration: [iterations, ...]. */
static inlay_status add_scan_outputs(struct collector *collector, const program_step *step, uint32_t part,
                                     loop_items *out)
{
    const struct graph *graph = collector->collection->parts[part].program->graph, *inner = step->bodies[0]->graph;
    const int64_t iterations = infer_loop_trip_count(graph, step->node);
    inlay_status status = INLAY_OK;

    out->scan = arena_array(&collector->collection->arena, (size_t)out->scans + 1, sizeof *out->scan);
    if (out->scan == NULL)
        return no_memory(collector->diag, "to bundle the model");
    if (out->scans > 0 && iterations < 0)
        return inlay_fail(collector->diag, INLAY_UNSUPPORTED,
                          "Loop node '%s' cannot be bundled: it has scan outputs, and its number of "
                          "iterations is not fixed; --set fixes an input",
                          step->node->info.name.data);
    for (uint32_t i = 0; i < out->scans; i++) {
        const uint32_t output = out->carried + i;
        const uint32_t value = output < step->node->info.output_count ? step->node->info.outputs[output] : INLAY_NONE;
        const inlay_value_info *each = &inner->values[inner->outputs[1 + output]].info;
        inlay_dim *dims = arena_array(&collector->collection->arena, (size_t)each->rank + 2, sizeof *dims);

        out->scan[i] = INLAY_NONE;
        if (dims == NULL)
            return no_memory(collector->diag, "to bundle the model");
        if (value == INLAY_NONE)
            continue;
        if (each->rank == INLAY_RANK_UNKNOWN)
            return inlay_fail(collector->diag, INLAY_UNSUPPORTED, "the size of '%s' is not fixed",
                              graph->values[value].info.name.data);
        dims[0] = (inlay_dim){ .value = iterations, .kind = INLAY_DIM_FIXED };
        if (each->rank > 0)
            memcpy(dims + 1, each->dims, each->rank * sizeof *dims);
        graph->values[value].info.rank = each->rank + 1;
        graph->values[value].info.dims = dims;
        INLAY_TRY(collect_value(collector, part, value));
        out->scan[i] = collector->collection->parts[part].item_of[value];
    }
done:
    return status;
}

/* Appends the results of an iteration to the scan outputs. */
static inlay_status append_scans(struct collector *collector, const loop_items *items, uint32_t part)
{
    const struct graph *inner = collector->collection->parts[part].program->graph;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < items->scans; i++) {
        bundle_operation *scan;
        uint32_t from;

        if (items->scan[i] == INLAY_NONE)
            continue;
        INLAY_TRY(collect_find(collector, part, inner->outputs[1 + items->carried + i], &from));
        scan = collect_step(collector, DO_SCAN, 2, 1);
        if (scan == NULL)
            return no_memory(collector->diag, "to bundle the model");
        scan->in[0] = from;
        scan->in[1] = items->count;
        scan->out[0] = items->scan[i];
        collect_finish(collector);
    }
done:
    return status;
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
    collection->parts[part].item_of[inner->inputs[0]] = out->count;
    collection->parts[part].item_of[inner->inputs[1]] = out->cond;
    for (uint32_t i = 0; i < out->carried; i++) {
        INLAY_TRY(collect_value(collector, part, inner->inputs[2 + i]));
        out->state[i] = collection->parts[part].item_of[inner->inputs[2 + i]];
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

/* Copies the results of an iteration to the state. A state that another one overwrites is saved first. */
static inlay_status carry(struct collector *collector, const loop_items *items, uint32_t part)
{
    bundle_collection *collection = collector->collection;
    const struct graph *inner = collection->parts[part].program->graph;
    uint32_t *from = arena_array(&collection->arena, (size_t)items->carried + 1, sizeof *from);
    inlay_status status = INLAY_OK;

    if (from == NULL)
        return no_memory(collector->diag, "to bundle the model");
    for (uint32_t i = 0; i <= items->carried; i++) {
        const uint32_t to = i == 0 ? items->cond : items->state[i - 1];

        INLAY_TRY(collect_find(collector, part, inner->outputs[i], &from[i]));
        if (collection->items[from[i]].bytes != collection->items[to].bytes)
            return inlay_fail(collector->diag, INLAY_UNSUPPORTED,
                              "a Loop whose state changes its size cannot be bundled");
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
    for (uint32_t i = 0; i <= items->carried; i++) {
        const uint32_t to = i == 0 ? items->cond : items->state[i - 1];

        if (from[i] != to)
            INLAY_TRY(collect_copy(collector, from[i], to));
    }
done:
    return status;
}

/* Items that are written before the loop and read in it are in use until its end. */
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
        const inlay_value_info *state = &inner->values[inner->inputs[2 + output]].info;
        size_t bytes;

        if (value == INLAY_NONE)
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

inlay_status collect_loop_begin(struct collector *collector, uint32_t part, const program_step *step, loop_items *items,
                                uint32_t *out_body)
{
    const graph_body *body = &step->node->bodies[0];
    const inlay_node_info *node = &step->node->info;
    const struct program *inner = step->bodies[0];
    const bool counted = node->input_count > 0 && node->inputs[0] != INLAY_NONE;
    uint32_t number, from, limit = INLAY_NONE, collected = 0;
    inlay_status status;
    bundle_operation *operation;

    *items = (loop_items){ .carried = node->input_count > 2 ? node->input_count - 2 : 0 };
    items->scans = inner->graph->output_count - 1 - items->carried;
    INLAY_TRY(add_scan_outputs(collector, step, part, items));
    INLAY_TRY(collect_part(collector, inner, &number));
    INLAY_TRY(add_loop_state(collector, number, items));
    for (uint32_t i = 0; i < body->capture_count; i++) {
        if ((inner->graph->values[body->capture_inner[i]].info.flags & INLAY_VALUE_CONSTANT) != 0)
            continue;
        INLAY_TRY(collect_find(collector, part, body->capture_outer[i], &from));
        collector->collection->parts[number].item_of[body->capture_inner[i]] = from;
    }
    if (counted)
        INLAY_TRY(collect_find(collector, part, node->inputs[0], &limit));
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
    if (node->input_count > 1 && node->inputs[1] != INLAY_NONE) {
        INLAY_TRY(collect_find(collector, part, node->inputs[1], &from));
        INLAY_TRY(collect_copy(collector, from, items->cond));
    }
    for (uint32_t i = 0; i < items->carried; i++) {
        INLAY_TRY(collect_find(collector, part, node->inputs[2 + i], &from));
        if (collector->collection->items[from].bytes != collector->collection->items[items->state[i]].bytes)
            return inlay_fail(collector->diag, INLAY_UNSUPPORTED,
                              "Loop node '%s' cannot be bundled: its state changes its size", node->name.data);
        INLAY_TRY(collect_copy(collector, from, items->state[i]));
    }
    items->begin = collector->collection->step_count;
    if ((operation = collect_step(collector, DO_TEST, counted ? 3 : 2, 0)) == NULL)
        return no_memory(collector->diag, "to bundle the model");
    operation->in[0] = items->count;
    operation->in[1] = items->cond;
    if (counted)
        operation->in[2] = limit;
    collect_finish(collector);
    *out_body = number;
done:
    return status;
}

inlay_status collect_loop_end(struct collector *collector, uint32_t part, const program_step *step,
                              const loop_items *items, uint32_t body)
{
    inlay_status status;
    bundle_operation *operation;

    INLAY_TRY(append_scans(collector, items, body));
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
