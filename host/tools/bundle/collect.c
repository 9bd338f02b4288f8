#include "bundle/collect_parts.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "base/checked.h"
#include "plan/layout/memory.h"
#include "plan/layout/planner.h"
#include <string.h>

static inlay_status walk(struct collector *collector, uint32_t part);

/* Adds a branch: captures use the items of the outer graph, and results are copied to the node's outputs. */
static inlay_status add_branch(struct collector *collector, uint32_t part, const program_step *step, uint32_t body)
{
    const graph_body *branch = &step->node->bodies[body];
    const struct program *inner = step->bodies[body];
    inlay_status status;
    uint32_t number, from;
    bool *live;

    live = arena_array(&collector->collection->arena, (size_t)inner->graph->output_count + 1, sizeof *live);
    if (live == NULL)
        return no_memory(collector->diag, "to bundle the model");
    for (uint32_t i = 0; i < inner->graph->output_count; i++)
        live[i] =
            i < step->node->info.output_count && collect_is_live(collector, part, &step->node->info.outputs[i], 1);
    INLAY_TRY(collect_part(collector, inner, live, &number));
    for (uint32_t i = 0; i < branch->capture_count; i++) {
        if ((inner->graph->values[branch->capture_inner[i]].info.flags & INLAY_VALUE_CONSTANT) != 0)
            continue;
        INLAY_TRY(collect_find(collector, part, branch->capture_outer[i], &from));
        collector->collection->parts[number].item_of[branch->capture_inner[i]] = from;
    }
    INLAY_TRY(walk(collector, number));
    for (uint32_t output = 0; output < step->node->info.output_count && output < inner->graph->output_count; output++) {
        const uint32_t value = step->node->info.outputs[output];

        if (!live[output])
            continue;
        INLAY_TRY(collect_find(collector, number, inner->graph->outputs[output], &from));
        if (collector->collection->items[from].bytes !=
            collector->collection->items[collector->collection->parts[part].item_of[value]].bytes) {
            status = inlay_fail(collector->diag, INLAY_UNSUPPORTED,
                                "the branches of If node '%s' have outputs of different "
                                "sizes",
                                step->node->info.name.data);
            goto done;
        }
        INLAY_TRY(collect_copy(collector, from, collector->collection->parts[part].item_of[value]));
    }
done:
    return status;
}

/* Sets the sizes of an If's outputs from its branch, where inference left them open. */
static inlay_status set_output_sizes(struct collector *collector, uint32_t part, const program_step *step)
{
    const struct graph *graph = collector->collection->parts[part].program->graph, *branch = step->bodies[0]->graph;

    for (uint32_t output = 0; output < step->node->info.output_count; output++) {
        const uint32_t value = step->node->info.outputs[output];
        const inlay_value_info *inner = &branch->values[branch->outputs[output]].info;
        size_t bytes;

        if (!collect_is_live(collector, part, &value, 1))
            continue;
        if (!plan_info_bytes(&graph->values[value].info, &bytes)) {
            graph->values[value].info.rank = inner->rank;
            graph->values[value].info.dims = inner->dims;
        }
        if (collect_value(collector, part, value) != INLAY_OK)
            return collector->diag != NULL ? collector->diag->code : INLAY_UNSUPPORTED;
    }
    return INLAY_OK;
}

static inlay_status add_if(struct collector *collector, uint32_t part, const program_step *step)
{
    const bool then_first = strcmp(step->node->bodies[0].attr, "then_branch") == 0;
    bundle_operation *unless, *jump;
    uint32_t cond, unless_at, jump_at;
    inlay_status status;

    INLAY_TRY(collect_find(collector, part, step->node->info.inputs[0], &cond));
    INLAY_TRY(set_output_sizes(collector, part, step));
    unless = collect_step(collector, DO_UNLESS, 1, 0);
    if (unless == NULL)
        return no_memory(collector->diag, "to bundle the model");
    unless->in[0] = cond;
    unless_at = collector->collection->step_count;
    collect_finish(collector);
    INLAY_TRY(add_branch(collector, part, step, then_first ? 0 : 1));
    jump = collect_step(collector, DO_JUMP, 0, 0);
    if (jump == NULL)
        return no_memory(collector->diag, "to bundle the model");
    jump_at = collector->collection->step_count;
    collect_finish(collector);
    collector->collection->steps[unless_at].target = collector->collection->step_count;
    INLAY_TRY(add_branch(collector, part, step, then_first ? 1 : 0));
    collector->collection->steps[jump_at].target = collector->collection->step_count;
done:
    return status;
}

static inlay_status add_loop(struct collector *collector, uint32_t part, const program_step *step)
{
    loop_items items;
    uint32_t body;
    inlay_status status;

    INLAY_TRY(collect_loop_begin(collector, part, step, &items, &body));
    INLAY_TRY(walk(collector, body));
    status = collect_loop_end(collector, part, step, &items, body);
done:
    return status;
}

static inlay_status add_run(struct collector *collector, uint32_t part, const program_step *run)
{
    const partition_region *region = run->region;
    bundle_operation *step = collect_step(collector, DO_RUN, region->input_count, region->output_count);
    inlay_status status = INLAY_OK;

    if (step == NULL)
        return no_memory(collector->diag, "to bundle the model");
    step->part = part;
    step->step = run;
    for (uint32_t i = 0; i < region->input_count; i++)
        INLAY_TRY(collect_find(collector, part, region->inputs[i], &step->in[i]));
    for (uint32_t i = 0; i < region->output_count; i++) {
        INLAY_TRY(collect_value(collector, part, region->outputs[i]));
        step->out[i] = collector->collection->parts[part].item_of[region->outputs[i]];
    }
    collect_finish(collector);
done:
    return status;
}

static bool outputs_are_known(const struct graph *graph, const partition_region *region)
{
    for (uint32_t i = 0; i < region->output_count; i++)
        if (graph->values[region->outputs[i]].info.data == NULL)
            return false;
    return region->output_count > 0;
}

static inlay_status walk(struct collector *collector, uint32_t part)
{
    const struct program *program = collector->collection->parts[part].program;
    inlay_status status = INLAY_OK;
    uint32_t from;

    for (uint32_t i = 0; i < program->step_count; i++) {
        const program_step *step = &program->steps[i];
        const inlay_node_info *node = &step->node->info;
        const bool by_host = step->provider == NULL;

        if (!collect_is_live(collector, part, by_host ? node->outputs : step->region->outputs,
                             by_host ? node->output_count : step->region->output_count))
            continue;
        if (by_host && strcmp(node->op_type.data, "If") == 0 && step->node->body_count == 2) {
            INLAY_TRY(add_if(collector, part, step));
        } else if (by_host && step->node->body_count == 1 &&
                   (strcmp(node->op_type.data, "Loop") == 0 ||
                    (strcmp(node->op_type.data, "Scan") == 0 && node->since_version >= 9))) {
            INLAY_TRY(add_loop(collector, part, step));
        } else if (by_host) {
            return inlay_fail(collector->diag, INLAY_UNSUPPORTED,
                              "%s node '%s' cannot be bundled: the supported control flow is "
                              "If, Loop, and Scan since opset 9",
                              node->op_type.data, node->name.data);
        } else if (outputs_are_known(program->graph, step->region)) {
            continue; /* shape arithmetic: inference has computed the elements */
        } else if (step->view && step->region->input_count > 0 &&
                   step->region->inputs[0] == step->node->info.inputs[0]) {
            INLAY_TRY(collect_find(collector, part, step->region->inputs[0], &from));
            collector->collection->parts[part].item_of[step->region->outputs[0]] = from;
        } else {
            INLAY_TRY(add_run(collector, part, step));
        }
    }
done:
    return status;
}

static inlay_status add_inputs(struct collector *collector)
{
    const struct graph *graph = collector->collection->parts[0].program->graph;

    for (uint32_t i = 0; i < graph->input_count; i++) {
        bundle_item item = { .kind = ITEM_INPUT, .index = i };
        inlay_status status = collect_bytes(collector, &graph->values[graph->inputs[i]].info, &item.bytes);

        if (status != INLAY_OK)
            return status;
        collector->collection->parts[0].item_of[graph->inputs[i]] = collect_item(collector, item);
        if (collector->collection->parts[0].item_of[graph->inputs[i]] == INLAY_NONE)
            return no_memory(collector->diag, "to bundle the model");
    }
    return INLAY_OK;
}

/* Outputs are written to the caller's buffers; those that are an input, a constant or another output are copied. */
static inlay_status place_outputs(struct collector *collector)
{
    const struct graph *graph = collector->collection->parts[0].program->graph;
    inlay_status status = INLAY_OK;

    for (uint32_t output = 0; output < graph->output_count; output++) {
        uint32_t item;
        uint64_t bytes;

        INLAY_TRY(collect_bytes(collector, &graph->values[graph->outputs[output]].info,
                                &bytes)); /* the size of a view may depend on data */
        INLAY_TRY(collect_find(collector, 0, graph->outputs[output], &item));
        if (collector->collection->items[item].kind == ITEM_SLAB) {
            collector->collection->items[item].kind = ITEM_OUTPUT;
            collector->collection->items[item].index = output;
        } else {
            const uint32_t to =
                collect_item(collector, (bundle_item){ .kind = ITEM_OUTPUT,
                                                       .index = output,
                                                       .first = UINT32_MAX,
                                                       .bytes = collector->collection->items[item].bytes });
            if (to == INLAY_NONE)
                return no_memory(collector->diag, "to bundle the model");
            INLAY_TRY(collect_copy(collector, item, to));
        }
    }
done:
    return status;
}

static inlay_status plan_slab(struct collector *collector)
{
    bundle_collection *collection = collector->collection;
    memory_item *list = arena_array(&collection->arena, (size_t)collection->item_count + 1, sizeof *list);
    uint32_t count = 0;

    if (list == NULL)
        return no_memory(collector->diag, "to bundle the model");
    INLAY_CHECK(collection->part_count > 0);
    for (uint32_t i = 0; i < collection->item_count; i++)
        if (collection->items[i].kind == ITEM_SLAB && collection->items[i].first != UINT32_MAX)
            list[count++] = (memory_item){ .bytes = collection->items[i].bytes,
                                           .first = collection->items[i].first,
                                           .last = collection->items[i].last };
    if (!memory_place(list, count, collection->step_count + 1, 64, &collection->arena, &collection->slab_bytes,
                      &collection->lower_bound_bytes))
        return no_memory(collector->diag, "to bundle the model");
    count = 0;
    for (uint32_t i = 0; i < collection->item_count; i++)
        if (collection->items[i].kind == ITEM_SLAB && collection->items[i].first != UINT32_MAX)
            collection->items[i].offset = list[count++].offset;
    return INLAY_OK;
}

inlay_status bundle_collect(const inlay_session *session, bundle_collection *out, inlay_diag *diag)
{
    struct collector collector = { out, diag };
    inlay_status status;
    uint32_t main;

    *out = (bundle_collection){ .providers = session->providers, .provider_count = session->env.provider_count };
    INLAY_TRY(collect_part(&collector, session->main, NULL, &main));
    INLAY_TRY(add_inputs(&collector));
    INLAY_TRY(walk(&collector, main));
    INLAY_TRY(place_outputs(&collector));
    status = plan_slab(&collector);
done:
    return status;
}

void bundle_collection_deinit(bundle_collection *collection)
{
    arena_deinit(&collection->arena);
}

bool bundle_is_region(const bundle_collection *collection, const bundle_operation *step)
{
    const program_step *source = step->step;

    INLAY_CHECK(step->opcode == DO_RUN && step->part < collection->part_count);
    return strcmp(source->provider->name, "cpu") == 0 && source->region->offer_count > 0 &&
           (collection->parts[step->part].program->parts.offers[source->region->offers[0]].flags & INLAY_OFFER_MERGE) !=
               0;
}
