#include "bundle/collect_parts.h"
#include "base/checked.h"
#include "base/element.h"
#include "plan/layout/memory.h"
#include "plan/layout/planner.h"
#include <string.h>

/* ------------------------------------------------------------------ control flow */

static inlay_status walk(struct collector *k, uint32_t part);

/* A branch: its captures are items of the graph around it, and what it makes goes where the node's outputs are. */
static inlay_status add_branch(struct collector *k, uint32_t part, const program_step *s, uint32_t body)
{
    const graph_body *b = &s->node->bodies[body];
    const struct program *inner = s->bodies[body];
    inlay_status status;
    uint32_t number, from;

    INLAY_TRY(collect_part(k, inner, &number));
    for (uint32_t i = 0; i < b->capture_count; i++) {
        if ((inner->graph->values[b->capture_inner[i]].info.flags & INLAY_VALUE_CONSTANT) != 0)
            continue;
        INLAY_TRY(collect_find(k, part, b->capture_outer[i], &from));
        k->c->parts[number].item_of[b->capture_inner[i]] = from;
    }
    INLAY_TRY(walk(k, number));
    for (uint32_t o = 0; o < s->node->info.output_count && o < inner->graph->output_count; o++) {
        const uint32_t v = s->node->info.outputs[o];

        if (v == INLAY_NONE)
            continue;
        INLAY_TRY(collect_find(k, number, inner->graph->outputs[o], &from));
        if (k->c->items[from].bytes != k->c->items[k->c->parts[part].item_of[v]].bytes) {
            status = inlay_fail(k->diag, INLAY_UNSUPPORTED,
                                "the branches of If node '%s' make outputs of different "
                                "sizes",
                                s->node->info.name.data);
            goto done;
        }
        INLAY_TRY(collect_copy(k, from, k->c->parts[part].item_of[v]));
    }
done:
    return status;
}

/* The sizes of an If's outputs, where inference left them to the branches. */
static inlay_status settle_outputs(struct collector *k, uint32_t part, const program_step *s)
{
    const struct graph *g = k->c->parts[part].p->graph, *then = s->bodies[0]->graph;

    for (uint32_t o = 0; o < s->node->info.output_count; o++) {
        const uint32_t v = s->node->info.outputs[o];
        const inlay_value_info *inner = &then->values[then->outputs[o]].info;
        size_t bytes;

        if (v == INLAY_NONE)
            continue;
        if (!plan_info_bytes(&g->values[v].info, &bytes)) {
            g->values[v].info.rank = inner->rank;
            g->values[v].info.dims = inner->dims;
        }
        if (collect_value(k, part, v) != INLAY_OK)
            return k->diag != NULL ? k->diag->code : INLAY_UNSUPPORTED;
    }
    return INLAY_OK;
}

static inlay_status add_if(struct collector *k, uint32_t part, const program_step *s)
{
    const bool then_first = strcmp(s->node->bodies[0].attr, "then_branch") == 0;
    bundle_do *unless, *jump;
    uint32_t cond, unless_at, jump_at;
    inlay_status status;

    INLAY_TRY(collect_find(k, part, s->node->info.inputs[0], &cond));
    INLAY_TRY(settle_outputs(k, part, s));
    unless = collect_step(k, DO_UNLESS, 1, 0);
    if (unless == NULL)
        return no_memory(k->diag, "to bundle the model");
    unless->in[0] = cond;
    unless_at = k->c->step_count;
    collect_finish(k);
    INLAY_TRY(add_branch(k, part, s, then_first ? 0 : 1));
    jump = collect_step(k, DO_JUMP, 0, 0);
    if (jump == NULL)
        return no_memory(k->diag, "to bundle the model");
    jump_at = k->c->step_count;
    collect_finish(k);
    k->c->steps[unless_at].target = k->c->step_count;
    INLAY_TRY(add_branch(k, part, s, then_first ? 1 : 0));
    k->c->steps[jump_at].target = k->c->step_count;
done:
    return status;
}

static inlay_status add_loop(struct collector *k, uint32_t part, const program_step *s)
{
    loop_items l;
    uint32_t body;
    inlay_status status;

    INLAY_TRY(collect_loop_begin(k, part, s, &l, &body));
    INLAY_TRY(walk(k, body));
    status = collect_loop_end(k, part, s, &l, body);
done:
    return status;
}

/* ------------------------------------------------------------------ regions */

static inlay_status add_run(struct collector *k, uint32_t part, const program_step *s)
{
    const part_region *r = s->region;
    bundle_do *step = collect_step(k, DO_RUN, r->input_count, r->output_count);
    inlay_status status = INLAY_OK;

    if (step == NULL)
        return no_memory(k->diag, "to bundle the model");
    step->part = part;
    step->step = s;
    for (uint32_t i = 0; i < r->input_count; i++)
        INLAY_TRY(collect_find(k, part, r->inputs[i], &step->in[i]));
    for (uint32_t i = 0; i < r->output_count; i++) {
        INLAY_TRY(collect_value(k, part, r->outputs[i]));
        step->out[i] = k->c->parts[part].item_of[r->outputs[i]];
    }
    collect_finish(k);
done:
    return status;
}

static bool all_known(const struct graph *g, const part_region *r)
{
    for (uint32_t i = 0; i < r->output_count; i++)
        if (g->values[r->outputs[i]].info.data == NULL)
            return false;
    return r->output_count > 0;
}

static inlay_status walk(struct collector *k, uint32_t part)
{
    const struct program *p = k->c->parts[part].p;
    inlay_status status = INLAY_OK;
    uint32_t from;

    for (uint32_t i = 0; i < p->step_count; i++) {
        const program_step *s = &p->steps[i];

        if (s->provider == NULL && strcmp(s->node->info.op_type.data, "If") == 0 && s->node->body_count == 2) {
            INLAY_TRY(add_if(k, part, s));
        } else if (s->provider == NULL && strcmp(s->node->info.op_type.data, "Loop") == 0 && s->node->body_count == 1) {
            INLAY_TRY(add_loop(k, part, s));
        } else if (s->provider == NULL) {
            return inlay_fail(k->diag, INLAY_UNSUPPORTED,
                              "%s node '%s' cannot be bundled: of control flow a bundle has "
                              "If and Loop",
                              s->node->info.op_type.data, s->node->info.name.data);
        } else if (all_known(p->graph, s->region)) {
            continue; /* shape arithmetic: inference has the elements */
        } else if (s->view && s->region->input_count > 0 && s->region->inputs[0] == s->node->info.inputs[0]) {
            INLAY_TRY(collect_find(k, part, s->region->inputs[0], &from));
            k->c->parts[part].item_of[s->region->outputs[0]] = from;
        } else {
            INLAY_TRY(add_run(k, part, s));
        }
    }
done:
    return status;
}

/* ------------------------------------------------------------------ the whole */

static inlay_status add_inputs(struct collector *k)
{
    const struct graph *g = k->c->parts[0].p->graph;

    for (uint32_t i = 0; i < g->input_count; i++) {
        bundle_item item = { .kind = ITEM_INPUT, .index = i };
        inlay_status status = collect_bytes(k, &g->values[g->inputs[i]].info, &item.bytes);

        if (status != INLAY_OK)
            return status;
        k->c->parts[0].item_of[g->inputs[i]] = collect_item(k, item);
        if (k->c->parts[0].item_of[g->inputs[i]] == INLAY_NONE)
            return no_memory(k->diag, "to bundle the model");
    }
    return INLAY_OK;
}

/* Outputs are made where the caller wants them; those that are an input, a constant, or another output are copied. */
static inlay_status place_outputs(struct collector *k)
{
    const struct graph *g = k->c->parts[0].p->graph;
    inlay_status status = INLAY_OK;

    for (uint32_t o = 0; o < g->output_count; o++) {
        uint32_t item;
        uint64_t bytes;

        INLAY_TRY(collect_bytes(k, &g->values[g->outputs[o]].info, &bytes)); /* a view's may depend on data, too */
        INLAY_TRY(collect_find(k, 0, g->outputs[o], &item));
        if (k->c->items[item].kind == ITEM_SLAB) {
            k->c->items[item].kind = ITEM_OUTPUT;
            k->c->items[item].index = o;
        } else {
            const uint32_t to = collect_item(
                k, (bundle_item){
                       .kind = ITEM_OUTPUT, .index = o, .first = UINT32_MAX, .bytes = k->c->items[item].bytes });
            if (to == INLAY_NONE)
                return no_memory(k->diag, "to bundle the model");
            INLAY_TRY(collect_copy(k, item, to));
        }
    }
done:
    return status;
}

static inlay_status lay_out(struct collector *k)
{
    bundle_collection *c = k->c;
    memory_item *list = arena_array(&c->a, (size_t)c->item_count + 1, sizeof *list);
    uint32_t count = 0;

    if (list == NULL)
        return no_memory(k->diag, "to bundle the model");
    for (uint32_t i = 0; i < c->item_count; i++)
        if (c->items[i].kind == ITEM_SLAB && c->items[i].first != UINT32_MAX)
            list[count++] =
                (memory_item){ .bytes = c->items[i].bytes, .first = c->items[i].first, .last = c->items[i].last };
    if (!memory_place(list, count, c->step_count + 1, 64, &c->a, &c->slab_bytes, &c->lower_bound_bytes))
        return no_memory(k->diag, "to bundle the model");
    count = 0;
    for (uint32_t i = 0; i < c->item_count; i++)
        if (c->items[i].kind == ITEM_SLAB && c->items[i].first != UINT32_MAX)
            c->items[i].offset = list[count++].offset;
    return INLAY_OK;
}

inlay_status bundle_collect(const inlay_session *s, bundle_collection *out, inlay_diag *diag)
{
    struct collector k = { out, diag };
    inlay_status status;
    uint32_t main;

    *out = (bundle_collection){ .providers = s->providers, .provider_count = s->env.provider_count };
    INLAY_TRY(collect_part(&k, s->main, &main));
    INLAY_TRY(add_inputs(&k));
    INLAY_TRY(walk(&k, main));
    INLAY_TRY(place_outputs(&k));
    status = lay_out(&k);
done:
    return status;
}

void bundle_collection_deinit(bundle_collection *c)
{
    arena_deinit(&c->a);
}

bool bundle_is_region(const bundle_collection *c, const bundle_do *step)
{
    const program_step *s = step->step;

    return strcmp(s->provider->name, "cpu") == 0 && s->region->offer_count > 0 &&
           (c->parts[step->part].p->parts.offers[s->region->offers[0]].flags & INLAY_OFFER_MERGE) != 0;
}
