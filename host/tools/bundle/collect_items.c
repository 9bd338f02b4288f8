/* The items and steps of a collection. */
#include "bundle/collect_parts.h"
#include "inlay/check.h"
#include "base/checked.h"
#include "plan/layout/planner.h"
#include <string.h>

uint32_t collect_item(struct collector *collector, bundle_item item)
{
    bundle_collection *collection = collector->collection;

    if (!ARENA_GROW(&collection->arena, collection->items, collection->item_count))
        return INLAY_NONE;
    collection->items[collection->item_count] = item;
    return collection->item_count++;
}

bundle_operation *collect_step(struct collector *collector, bundle_opcode opcode, uint32_t in_count, uint32_t out_count)
{
    bundle_collection *collection = collector->collection;
    bundle_operation *step;

    if (!ARENA_GROW(&collection->arena, collection->steps, collection->step_count))
        return NULL;
    step = &collection->steps[collection->step_count];
    *step = (bundle_operation){ .opcode = opcode, .in_count = in_count, .out_count = out_count };
    step->in = arena_array(&collection->arena, (size_t)in_count + out_count + 1, sizeof *step->in);
    step->out = step->in != NULL ? step->in + in_count : NULL;
    return step->in != NULL ? step : NULL;
}

void collect_finish(struct collector *collector)
{
    bundle_collection *collection = collector->collection;
    const bundle_operation *step = &collection->steps[collection->step_count];

    for (uint32_t i = 0; i < step->in_count + step->out_count; i++) {
        bundle_item *item = &collection->items[step->in[i]];

        INLAY_CHECK(step->in[i] < collection->item_count);
        item->first = item->first < collection->step_count ? item->first : collection->step_count;
        item->last = item->last > collection->step_count ? item->last : collection->step_count;
    }
    collection->step_count++;
}

inlay_status collect_copy(struct collector *collector, uint32_t from, uint32_t to)
{
    bundle_operation *step = collect_step(collector, DO_COPY, 1, 1);

    if (step == NULL)
        return no_memory(collector->diag, "to bundle the model");
    step->in[0] = from;
    step->out[0] = to;
    collect_finish(collector);
    return INLAY_OK;
}

/* Was the symbol found in an input before input `at`, or in a dimension of that one before `before`? */
static bool is_listed(const struct graph *graph, uint32_t symbol, uint32_t at, uint32_t before)
{
    for (uint32_t i = 0; i <= at; i++) {
        const inlay_value_info *info = &graph->values[graph->inputs[i]].info;
        const uint32_t count = i == at ? before : info->rank == INLAY_RANK_UNKNOWN ? 0 : info->rank;

        for (uint32_t d = 0; d < count; d++)
            if (info->dims[d].kind == INLAY_DIM_SYMBOLIC && info->dims[d].symbol == symbol)
                return true;
    }
    return false;
}

/* Writes the flag that each open dimension of the inputs needs: " --dim batch=N --dim x:1=N". A text that does not fit
 * ends with " ...". */
static void list_open_dims(const struct graph *graph, char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const inlay_value_info *info = &graph->values[graph->inputs[i]].info;

        for (uint32_t d = 0; info->rank != INLAY_RANK_UNKNOWN && d < info->rank; d++) {
            const inlay_dim *dim = &info->dims[d];
            const char *name = dim->kind == INLAY_DIM_SYMBOLIC ? graph->model->symbols[dim->symbol].name.data : "";
            char flag[160];
            int length;

            if (dim->kind == INLAY_DIM_FIXED || (name[0] != '\0' && is_listed(graph, dim->symbol, i, d)))
                continue;
            if (name[0] != '\0')
                length = snprintf(flag, sizeof flag, " --dim %.100s=N", name);
            else
                length = snprintf(flag, sizeof flag, " --dim %.100s:%u=N", info->name.data, d);
            if (used + (size_t)length + sizeof " ..." > bytes) {
                (void)snprintf(text + used, bytes - used, " ...");
                return;
            }
            used += (size_t)snprintf(text + used, bytes - used, "%s", flag);
        }
    }
}

inlay_status collect_bytes(const struct collector *collector, const inlay_value_info *info, uint64_t *out_bytes)
{
    char open[256];
    size_t bytes;

    if (info->kind != INLAY_VALUE_TENSOR || info->dtype == INLAY_STRING)
        return inlay_fail(collector->diag, INLAY_UNSUPPORTED, "'%s' is %s: a bundle supports only tensors of numbers",
                          info->name.data, info->dtype == INLAY_STRING ? "a tensor of strings" : "not a tensor");
    if (!plan_info_bytes(info, &bytes)) {
        list_open_dims(collector->collection->parts[0].program->graph, open, sizeof open);
        if (open[0] == '\0')
            return inlay_fail(collector->diag, INLAY_UNSUPPORTED,
                              "the size of '%.100s' is not fixed: it depends on data, and such sizes cannot be bundled",
                              info->name.data);
        return inlay_fail(collector->diag, INLAY_INVALID_ARGUMENT,
                          "the size of '%.100s' is not fixed; a bundle has fixed sizes: add%s", info->name.data, open);
    }
    *out_bytes = bytes;
    return INLAY_OK;
}

inlay_status collect_value(struct collector *collector, uint32_t part, uint32_t value)
{
    const inlay_value_info *info = &collector->collection->parts[part].program->graph->values[value].info;
    bundle_item item = { .kind = ITEM_SLAB, .first = UINT32_MAX };
    uint32_t number;
    inlay_status status = collect_bytes(collector, info, &item.bytes);

    INLAY_CHECK(part < collector->collection->part_count);
    if (status != INLAY_OK)
        return status;
    number = collect_item(collector, item);
    collector->collection->parts[part].item_of[value] = number;
    return number != INLAY_NONE ? INLAY_OK : no_memory(collector->diag, "to bundle the model");
}

inlay_status collect_find(struct collector *collector, uint32_t part, uint32_t value, uint32_t *out)
{
    const inlay_value_info *info = &collector->collection->parts[part].program->graph->values[value].info;

    INLAY_CHECK(part < collector->collection->part_count);
    if (collector->collection->parts[part].item_of[value] == INLAY_NONE && info->data != NULL)
        collector->collection->parts[part].item_of[value] = collect_item(
            collector,
            (bundle_item){ .kind = ITEM_DATA, .first = UINT32_MAX, .bytes = info->data_bytes, .data = info->data });
    *out = collector->collection->parts[part].item_of[value];
    if (*out == INLAY_NONE)
        return inlay_fail(collector->diag, INLAY_UNSUPPORTED, "'%s' is read before it is computed", info->name.data);
    return INLAY_OK;
}

static void mark_live(bool *live, const uint32_t *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (values[i] != INLAY_NONE)
            live[values[i]] = true;
}

static bool any_is_live(const bool *live, const uint32_t *values, uint32_t count)
{
    bool any = false;

    for (uint32_t i = 0; i < count; i++)
        any |= values[i] != INLAY_NONE && live[values[i]];
    return any;
}

bool collect_is_live(const struct collector *collector, uint32_t part, const uint32_t *values, uint32_t count)
{
    return any_is_live(collector->collection->parts[part].live, values, count);
}

/* Marks everything that the steps which compute live values need. */
static void spread_live(const struct program *program, bool *live)
{
    for (uint32_t i = program->step_count; i-- > 0;) {
        const program_step *step = &program->steps[i];

        if (step->provider != NULL && any_is_live(live, step->region->outputs, step->region->output_count))
            mark_live(live, step->region->inputs, step->region->input_count);
        if (step->provider == NULL && any_is_live(live, step->node->info.outputs, step->node->info.output_count)) {
            mark_live(live, step->node->info.inputs, step->node->info.input_count);
            mark_live(live, step->node->captures, step->node->capture_count);
        }
    }
}

inlay_status collect_part(struct collector *collector, const struct program *program, const bool *live, uint32_t *out)
{
    bundle_collection *collection = collector->collection;
    const struct graph *graph = program->graph;
    uint32_t *item_of = arena_array(&collection->arena, (size_t)graph->value_count + 1, sizeof *item_of);
    bool *marks = arena_array(&collection->arena, (size_t)graph->value_count + 1, sizeof *marks);

    if (item_of == NULL || marks == NULL || !ARENA_GROW(&collection->arena, collection->parts, collection->part_count))
        return no_memory(collector->diag, "to bundle the model");
    memset(item_of, 0xff, graph->value_count * sizeof *item_of);
    for (uint32_t i = 0; i < graph->output_count; i++)
        if (live == NULL || live[i])
            mark_live(marks, &graph->outputs[i], 1);
    spread_live(program, marks);
    collection->parts[collection->part_count] = (bundle_part){ program, item_of, marks };
    *out = collection->part_count++;
    return INLAY_OK;
}
