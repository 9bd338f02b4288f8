/* Loops as flat steps: see bundle_what. */
#include "bundle/collect_parts.h"
#include "graph/infer.h"
#include "plan/layout/planner.h"
#include <string.h>

/* ------------------------------------------------------------------ scan outputs */

/* Outputs of the node for what the body makes each turn: [turns, ...]. */
static inlay_status scan_places(struct collector *k, const program_step *s, uint32_t part, loop_items *out)
{
    const struct graph *g = k->c->parts[part].p->graph, *inner = s->bodies[0]->graph;
    const int64_t turns = infer_loop_turns(g, s->node);
    inlay_status status = INLAY_OK;

    out->scan = arena_array(&k->c->a, (size_t)out->scans + 1, sizeof *out->scan);
    if (out->scan == NULL)
        return no_memory(k->diag, "to bundle the model");
    if (out->scans > 0 && turns < 0)
        return inlay_fail(k->diag, INLAY_UNSUPPORTED,
                          "Loop node '%s' cannot be bundled: it collects what its body makes "
                          "(scan outputs), and how often it runs is not fixed; --set fixes an input",
                          s->node->info.name.data);
    for (uint32_t i = 0; i < out->scans; i++) {
        const uint32_t o = out->carried + i;
        const uint32_t v = o < s->node->info.output_count ? s->node->info.outputs[o] : INLAY_NONE;
        const inlay_value_info *each = &inner->values[inner->outputs[1 + o]].info;
        inlay_dim *dims = arena_array(&k->c->a, (size_t)each->rank + 2, sizeof *dims);

        out->scan[i] = INLAY_NONE;
        if (dims == NULL)
            return no_memory(k->diag, "to bundle the model");
        if (v == INLAY_NONE)
            continue;
        if (each->rank == INLAY_RANK_UNKNOWN)
            return inlay_fail(k->diag, INLAY_UNSUPPORTED, "the size of '%s' is not fixed", g->values[v].info.name.data);
        dims[0] = (inlay_dim){ .value = turns, .kind = INLAY_DIM_FIXED };
        if (each->rank > 0)
            memcpy(dims + 1, each->dims, each->rank * sizeof *dims);
        g->values[v].info.rank = each->rank + 1;
        g->values[v].info.dims = dims;
        INLAY_TRY(collect_value(k, part, v));
        out->scan[i] = k->c->parts[part].item_of[v];
    }
done:
    return status;
}

/* What the body has made goes behind what it made before. */
static inlay_status put_scans(struct collector *k, const loop_items *l, uint32_t part)
{
    const struct graph *inner = k->c->parts[part].p->graph;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < l->scans; i++) {
        bundle_do *d;
        uint32_t from;

        if (l->scan[i] == INLAY_NONE)
            continue;
        INLAY_TRY(collect_find(k, part, inner->outputs[1 + l->carried + i], &from));
        d = collect_step(k, DO_SCAN, 2, 1);
        if (d == NULL)
            return no_memory(k->diag, "to bundle the model");
        d->in[0] = from;
        d->in[1] = l->count;
        d->out[0] = l->scan[i];
        collect_finish(k);
    }
done:
    return status;
}

/* ------------------------------------------------------------------ the state */

static inlay_status loop_places(struct collector *k, uint32_t part, loop_items *out)
{
    bundle_collection *c = k->c;
    const struct graph *inner = c->parts[part].p->graph;
    inlay_status status = INLAY_OK;

    out->state = arena_array(&c->a, (size_t)out->carried + 1, sizeof *out->state);
    out->count = collect_item(k, (bundle_item){ .kind = ITEM_SLAB, .first = UINT32_MAX, .bytes = sizeof(int64_t) });
    out->cond = collect_item(k, (bundle_item){ .kind = ITEM_SLAB, .first = UINT32_MAX, .bytes = 1 });
    if (out->state == NULL || out->count == INLAY_NONE || out->cond == INLAY_NONE)
        return no_memory(k->diag, "to bundle the model");
    c->parts[part].item_of[inner->inputs[0]] = out->count;
    c->parts[part].item_of[inner->inputs[1]] = out->cond;
    for (uint32_t i = 0; i < out->carried; i++) {
        INLAY_TRY(collect_value(k, part, inner->inputs[2 + i]));
        out->state[i] = c->parts[part].item_of[inner->inputs[2 + i]];
    }
done:
    return status;
}

static bool is_state(const loop_items *l, uint32_t item)
{
    bool found = item == l->cond;

    for (uint32_t i = 0; i < l->carried; i++)
        found |= l->state[i] == item;
    return found;
}

/* What the body made becomes the state. States that change places go through a copy. */
static inlay_status carry(struct collector *k, const loop_items *l, uint32_t part)
{
    bundle_collection *c = k->c;
    const struct graph *inner = c->parts[part].p->graph;
    uint32_t *from = arena_array(&c->a, (size_t)l->carried + 1, sizeof *from);
    inlay_status status = INLAY_OK;

    if (from == NULL)
        return no_memory(k->diag, "to bundle the model");
    for (uint32_t i = 0; i <= l->carried; i++) {
        const uint32_t to = i == 0 ? l->cond : l->state[i - 1];

        INLAY_TRY(collect_find(k, part, inner->outputs[i], &from[i]));
        if (c->items[from[i]].bytes != c->items[to].bytes)
            return inlay_fail(k->diag, INLAY_UNSUPPORTED, "a Loop cannot be bundled whose state changes its size");
        if (from[i] != to && is_state(l, from[i])) {
            const uint32_t copy =
                collect_item(k, (bundle_item){ .kind = ITEM_SLAB, .first = UINT32_MAX, .bytes = c->items[to].bytes });
            if (copy == INLAY_NONE)
                return no_memory(k->diag, "to bundle the model");
            INLAY_TRY(collect_copy(k, from[i], copy));
            from[i] = copy;
        }
    }
    for (uint32_t i = 0; i <= l->carried; i++) {
        const uint32_t to = i == 0 ? l->cond : l->state[i - 1];

        if (from[i] != to)
            INLAY_TRY(collect_copy(k, from[i], to));
    }
done:
    return status;
}

/* What was there before the loop and is read in it has to stay until its end. */
static void keep_through(struct collector *k, uint32_t begin, uint32_t end)
{
    for (uint32_t i = 0; i < k->c->item_count; i++) {
        bundle_item *item = &k->c->items[i];

        if (item->first < begin && item->last >= begin && item->last < end)
            item->last = end;
    }
}

/* The values of the node's outputs, with the sizes of the state, and copies of it. */
static inlay_status give_state(struct collector *k, uint32_t part, const program_step *s, const loop_items *l)
{
    const struct graph *g = k->c->parts[part].p->graph, *inner = s->bodies[0]->graph;
    inlay_status status = INLAY_OK;

    for (uint32_t o = 0; o < s->node->info.output_count && o < l->carried; o++) {
        const uint32_t v = s->node->info.outputs[o];
        const inlay_value_info *state = &inner->values[inner->inputs[2 + o]].info;
        size_t bytes;

        if (v == INLAY_NONE)
            continue;
        if (!plan_info_bytes(&g->values[v].info, &bytes)) {
            g->values[v].info.rank = state->rank;
            g->values[v].info.dims = state->dims;
        }
        INLAY_TRY(collect_value(k, part, v));
        INLAY_TRY(collect_copy(k, l->state[o], k->c->parts[part].item_of[v]));
    }
done:
    return status;
}

inlay_status collect_loop_begin(struct collector *k, uint32_t part, const program_step *s, loop_items *l,
                                uint32_t *out_body)
{
    const graph_body *b = &s->node->bodies[0];
    const inlay_node_info *n = &s->node->info;
    const struct program *inner = s->bodies[0];
    const bool counted = n->input_count > 0 && n->inputs[0] != INLAY_NONE;
    uint32_t number, from, most = INLAY_NONE, kept = 0;
    inlay_status status;
    bundle_do *d;

    *l = (loop_items){ .carried = n->input_count > 2 ? n->input_count - 2 : 0 };
    l->scans = inner->graph->output_count - 1 - l->carried;
    INLAY_TRY(scan_places(k, s, part, l));
    INLAY_TRY(collect_part(k, inner, &number));
    INLAY_TRY(loop_places(k, number, l));
    for (uint32_t i = 0; i < b->capture_count; i++) {
        if ((inner->graph->values[b->capture_inner[i]].info.flags & INLAY_VALUE_CONSTANT) != 0)
            continue;
        INLAY_TRY(collect_find(k, part, b->capture_outer[i], &from));
        k->c->parts[number].item_of[b->capture_inner[i]] = from;
    }
    if (counted)
        INLAY_TRY(collect_find(k, part, n->inputs[0], &most));
    /* What is collected has a place from here on: a later turn's steps must not write there. */
    for (uint32_t i = 0; i < l->scans; i++)
        kept += l->scan[i] != INLAY_NONE;
    if ((d = collect_step(k, DO_BEGIN, 0, 2 + kept)) == NULL)
        return no_memory(k->diag, "to bundle the model");
    d->out[0] = l->count;
    d->out[1] = l->cond;
    for (uint32_t i = 0, at = 2; i < l->scans; i++)
        if (l->scan[i] != INLAY_NONE)
            d->out[at++] = l->scan[i];
    collect_finish(k);
    if (n->input_count > 1 && n->inputs[1] != INLAY_NONE) {
        INLAY_TRY(collect_find(k, part, n->inputs[1], &from));
        INLAY_TRY(collect_copy(k, from, l->cond));
    }
    for (uint32_t i = 0; i < l->carried; i++) {
        INLAY_TRY(collect_find(k, part, n->inputs[2 + i], &from));
        if (k->c->items[from].bytes != k->c->items[l->state[i]].bytes)
            return inlay_fail(k->diag, INLAY_UNSUPPORTED,
                              "Loop node '%s' cannot be bundled: its state changes its size", n->name.data);
        INLAY_TRY(collect_copy(k, from, l->state[i]));
    }
    l->begin = k->c->step_count;
    if ((d = collect_step(k, DO_TEST, counted ? 3 : 2, 0)) == NULL)
        return no_memory(k->diag, "to bundle the model");
    d->in[0] = l->count;
    d->in[1] = l->cond;
    if (counted)
        d->in[2] = most;
    collect_finish(k);
    *out_body = number;
done:
    return status;
}

inlay_status collect_loop_end(struct collector *k, uint32_t part, const program_step *s, const loop_items *l,
                              uint32_t body)
{
    inlay_status status;
    bundle_do *d;

    INLAY_TRY(put_scans(k, l, body));
    INLAY_TRY(carry(k, l, body));
    if ((d = collect_step(k, DO_NEXT, 1, 0)) == NULL)
        return no_memory(k->diag, "to bundle the model");
    d->in[0] = l->count;
    d->target = l->begin;
    collect_finish(k);
    keep_through(k, l->begin, k->c->step_count);
    k->c->steps[l->begin].target = k->c->step_count;
    status = give_state(k, part, s, l);
done:
    return status;
}
