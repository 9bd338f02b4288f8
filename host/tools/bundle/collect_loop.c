/* Loops as flat steps: see bundle_what. */
#include "bundle/collect_parts.h"
#include "graph/infer.h"
#include "plan/layout/planner.h"
#include <string.h>

/* ------------------------------------------------------------------ scan outputs */

/* Outputs of the node for what the body makes each turn: [turns, ...]. */
static inlay_status scan_places(struct collector *collector, const program_step *step, uint32_t part, loop_items *out)
{
    const struct graph *graph = collector->collection->parts[part].program->graph, *inner = step->bodies[0]->graph;
    const int64_t turns = infer_loop_turns(graph, step->node);
    inlay_status status = INLAY_OK;

    out->scan = arena_array(&collector->collection->arena, (size_t)out->scans + 1, sizeof *out->scan);
    if (out->scan == NULL)
        return no_memory(collector->diag, "to bundle the model");
    if (out->scans > 0 && turns < 0)
        return inlay_fail(collector->diag, INLAY_UNSUPPORTED,
                          "Loop node '%s' cannot be bundled: it collects what its body makes "
                          "(scan outputs), and how often it runs is not fixed; --set fixes an input",
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
        dims[0] = (inlay_dim){ .value = turns, .kind = INLAY_DIM_FIXED };
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

/* What the body has made goes behind what it made before. */
static inlay_status put_scans(struct collector *collector, const loop_items *items, uint32_t part)
{
    const struct graph *inner = collector->collection->parts[part].program->graph;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < items->scans; i++) {
        bundle_do *d;
        uint32_t from;

        if (items->scan[i] == INLAY_NONE)
            continue;
        INLAY_TRY(collect_find(collector, part, inner->outputs[1 + items->carried + i], &from));
        d = collect_step(collector, DO_SCAN, 2, 1);
        if (d == NULL)
            return no_memory(collector->diag, "to bundle the model");
        d->in[0] = from;
        d->in[1] = items->count;
        d->out[0] = items->scan[i];
        collect_finish(collector);
    }
done:
    return status;
}

/* ------------------------------------------------------------------ the state */

static inlay_status loop_places(struct collector *collector, uint32_t part, loop_items *out)
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

/* What the body made becomes the state. States that change places go through a copy. */
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
                              "a Loop cannot be bundled whose state changes its size");
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

/* What was there before the loop and is read in it has to stay until its end. */
static void keep_through(struct collector *collector, uint32_t begin, uint32_t end)
{
    for (uint32_t i = 0; i < collector->collection->item_count; i++) {
        bundle_item *item = &collector->collection->items[i];

        if (item->first < begin && item->last >= begin && item->last < end)
            item->last = end;
    }
}

/* The values of the node's outputs, with the sizes of the state, and copies of it. */
static inlay_status give_state(struct collector *collector, uint32_t part, const program_step *step,
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
    uint32_t number, from, most = INLAY_NONE, kept = 0;
    inlay_status status;
    bundle_do *d;

    *items = (loop_items){ .carried = node->input_count > 2 ? node->input_count - 2 : 0 };
    items->scans = inner->graph->output_count - 1 - items->carried;
    INLAY_TRY(scan_places(collector, step, part, items));
    INLAY_TRY(collect_part(collector, inner, &number));
    INLAY_TRY(loop_places(collector, number, items));
    for (uint32_t i = 0; i < body->capture_count; i++) {
        if ((inner->graph->values[body->capture_inner[i]].info.flags & INLAY_VALUE_CONSTANT) != 0)
            continue;
        INLAY_TRY(collect_find(collector, part, body->capture_outer[i], &from));
        collector->collection->parts[number].item_of[body->capture_inner[i]] = from;
    }
    if (counted)
        INLAY_TRY(collect_find(collector, part, node->inputs[0], &most));
    /* What is collected has a place from here on: a later turn's steps must not write there. */
    for (uint32_t i = 0; i < items->scans; i++)
        kept += items->scan[i] != INLAY_NONE;
    if ((d = collect_step(collector, DO_BEGIN, 0, 2 + kept)) == NULL)
        return no_memory(collector->diag, "to bundle the model");
    d->out[0] = items->count;
    d->out[1] = items->cond;
    for (uint32_t i = 0, at = 2; i < items->scans; i++)
        if (items->scan[i] != INLAY_NONE)
            d->out[at++] = items->scan[i];
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
    if ((d = collect_step(collector, DO_TEST, counted ? 3 : 2, 0)) == NULL)
        return no_memory(collector->diag, "to bundle the model");
    d->in[0] = items->count;
    d->in[1] = items->cond;
    if (counted)
        d->in[2] = most;
    collect_finish(collector);
    *out_body = number;
done:
    return status;
}

inlay_status collect_loop_end(struct collector *collector, uint32_t part, const program_step *step,
                              const loop_items *items, uint32_t body)
{
    inlay_status status;
    bundle_do *d;

    INLAY_TRY(put_scans(collector, items, body));
    INLAY_TRY(carry(collector, items, body));
    if ((d = collect_step(collector, DO_NEXT, 1, 0)) == NULL)
        return no_memory(collector->diag, "to bundle the model");
    d->in[0] = items->count;
    d->target = items->begin;
    collect_finish(collector);
    keep_through(collector, items->begin, collector->collection->step_count);
    collector->collection->steps[items->begin].target = collector->collection->step_count;
    status = give_state(collector, part, step, items);
done:
    return status;
}
