#include "base/checked.h"
#include "base/memory.h"
#include "plan/layout/planner.h"
#include "inlay/execution.h"
#include <string.h>

bool plan_state_from_info(const inlay_value_info *info, struct arena *arena, inlay_value_state *out)
{
    int64_t *dims = NULL;

    *out = (inlay_value_state){
        .rank = info->rank, .dtype = info->dtype, .data = info->data, .data_bytes = info->data_bytes
    };
    if (info->rank != INLAY_RANK_UNKNOWN) {
        dims = arena_array(arena, (size_t)info->rank + 1, sizeof *dims);
        if (dims == NULL)
            return false;
        for (uint32_t d = 0; d < info->rank; d++)
            dims[d] = info->dims[d].kind == INLAY_DIM_FIXED ? info->dims[d].value : -1;
        out->dims = dims;
    }
    /* specialize requires aligned elements, but constants in the file may be unaligned. Only constants that may decide
     * shapes are copied; the provider does not get the data of the others. */
    if ((uintptr_t)info->data % 16 != 0) {
        bool copied = graph_constant_may_set_shapes(info);

        out->data = copied ? arena_copy(arena, info->data, (size_t)info->data_bytes) : NULL;
        return !copied || out->data != NULL;
    }
    return true;
}

bool plan_info_bytes_as(const inlay_value_info *info, inlay_dtype dtype, size_t *out_bytes)
{
    int64_t dims[INLAY_MAX_RANK], count;

    if (!graph_has_sizes(info) || info->rank > INLAY_MAX_RANK)
        return false;
    for (uint32_t d = 0; d < info->rank; d++)
        dims[d] = info->dims[d].value;
    return dims_count(dims, info->rank, &count) &&
           dtype_bytes(dtype != INLAY_UNDEFINED ? dtype : info->dtype, count, out_bytes);
}

bool plan_info_bytes(const inlay_value_info *info, size_t *out_bytes)
{
    return plan_info_bytes_as(info, INLAY_UNDEFINED, out_bytes);
}

/* Returns whether the size of a fixed shape does not overflow; other shapes are checked when the tensor is created. */
static bool shape_fits_memory(const inlay_value_info *info)
{
    size_t bytes;

    return info->kind != INLAY_VALUE_TENSOR || info->dtype == INLAY_UNDEFINED || !graph_has_sizes(info) ||
           plan_info_bytes(info, &bytes);
}

static inlay_status infer_node(const struct program *program, const graph_node *node, inlay_value_info *infos,
                               struct arena *scratch, inlay_diag *diag)
{
    const inlay_value_info **in = arena_array(scratch, (size_t)node->info.input_count + 1, sizeof *in);
    inlay_value_info **out = arena_array(scratch, (size_t)node->info.output_count + 1, sizeof *out);
    inlay_status status;

    if (in == NULL || out == NULL)
        return no_memory(diag, "to infer shapes");
    for (uint32_t i = 0; i < node->info.input_count; i++)
        in[i] = node->info.inputs[i] == INLAY_NONE ? NULL : &infos[node->info.inputs[i]];
    for (uint32_t i = 0; i < node->info.output_count; i++)
        out[i] = node->info.outputs[i] == INLAY_NONE ? NULL : &infos[node->info.outputs[i]];
    status = graph_infer_node(program->model, node, in, out, scratch, diag);
    if (status != INLAY_OK)
        return status;
    /* Rejects sizes that overflow before a kernel uses them. */
    for (uint32_t i = 0; i < node->info.output_count; i++)
        if (out[i] != NULL && !shape_fits_memory(out[i]))
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                              "output %u of %s node '%s' has more elements than memory can hold", i,
                              node->info.op_type.data, node->info.name.data);
    return INLAY_OK;
}

/* Rejects outputs of the region that are larger than option max_run_bytes. */
static inlay_status check_output_bytes(const struct program *program, const partition_region *region,
                                       const inlay_value_info *infos, inlay_diag *diag)
{
    for (uint32_t i = 0; i < region->output_count; i++) {
        const inlay_value_info *info = &infos[region->outputs[i]];
        size_t bytes = 0;

        if (info->kind == INLAY_VALUE_TENSOR && plan_info_bytes(info, &bytes) && bytes > program->env->runs.max_bytes)
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                              "'%s' has %zu bytes, above the limit of %llu; raise max_run_bytes if that is meant",
                              info->name.data, bytes, (unsigned long long)program->env->runs.max_bytes);
    }
    return INLAY_OK;
}

inlay_status plan_infer_region(const struct program *program, const partition_region *region, inlay_value_info *infos,
                               struct arena *scratch, inlay_diag *diag)
{
    for (uint32_t k = 0; k < region->node_count; k++) {
        const inlay_status status = infer_node(program, program->graph->nodes[region->nodes[k]], infos, scratch, diag);

        if (status != INLAY_OK)
            return status;
    }
    return check_output_bytes(program, region, infos, diag);
}

/* If inference knows every element of an integer tensor, makes these elements its data. */
static bool elements_to_data(inlay_value_info *info, struct arena *arena)
{
    bool wide = info->dtype == INLAY_INT64;
    char *data;

    if (info->elements == NULL || info->data != NULL || (!wide && info->dtype != INLAY_INT32) || !graph_has_sizes(info))
        return true;
    for (uint64_t i = 0; i < info->element_count; i++)
        if (info->elements[i].kind != INLAY_DIM_FIXED)
            return true;
    data = arena_array(arena, (size_t)info->element_count + 1, 8);
    if (data == NULL)
        return false;
    for (uint64_t i = 0; i < info->element_count; i++) {
        int64_t element = info->elements[i].value;
        int32_t narrow = (int32_t)element;
        if (wide)
            memcpy(data + i * 8, &element, 8);
        else
            memcpy(data + i * 4, &narrow, 4);
    }
    info->data = data;
    info->data_bytes = info->element_count * (wide ? 8 : 4);
    return true;
}

/* Copies the arrays of the info to the arena, and sets *state. */
static bool store_info(inlay_value_info *info, struct arena *arena, inlay_value_state *state)
{
    if (info->rank != INLAY_RANK_UNKNOWN) {
        info->dims = arena_copy(arena, info->dims, info->rank * sizeof *info->dims);
        if (info->dims == NULL)
            return false;
    }
    if (info->elements != NULL) {
        info->elements = arena_copy(arena, info->elements, (size_t)info->element_count * sizeof *info->elements);
        if (info->elements == NULL)
            return false;
    }
    return elements_to_data(info, arena) && plan_state_from_info(info, arena, state);
}

/* Shapes of the plan being created.
 *
 * Most shapes are as for the previous plan of the program, for example if a decoder reads one more token. So infos keep
 * their dims and elements in memory of the program (shape_room), and only nodes that read a changed value are inferred.
 * Data of values, which are not constants, belongs to one plan and is set again for each. */

/* Memory for the dims and elements of a value. */
struct shape_room {
    inlay_dim *dims, *elements;
    uint64_t dim_room, element_room;
};

bool planner_start_infos(struct planner *planner)
{
    struct program *prog = planner->prog;
    program_planning *planning = &prog->planning;
    const uint32_t count = prog->graph->value_count;

    planner->infos = planning->infos;
    planner->again = planning->inferred;
    planning->inferred = false; /* until the plan is complete */
    if (planning->rooms == NULL)
        planning->rooms = arena_array(&planning->shapes, (size_t)count + 1, sizeof *planning->rooms);
    if (planning->rooms == NULL)
        return false;
    memset(planning->changed, 0, count * sizeof *planning->changed);
    if (!planner->again)
        memcpy(planner->infos, planning->first_infos, count * sizeof *planner->infos);
    return true;
}

/* Moves a list of dims to its room. */
static bool keep_dims(struct arena *arena, const inlay_dim **list, uint64_t count, inlay_dim **room,
                      uint64_t *room_count)
{
    if (*list == *room && *room != NULL)
        return true;
    if (*room == NULL || count > *room_count) {
        *room_count = count > 2 * *room_count ? count : 2 * *room_count;
        *room = arena_array(arena, (size_t)*room_count + 1, sizeof **room);
        if (*room == NULL)
            return false;
    }
    if (count > 0)
        memcpy(*room, *list, (size_t)count * sizeof **room);
    *list = *room;
    return true;
}

/* Sets the state of a value in the plan from its info. */
static bool store_state(struct planner *planner, uint32_t value)
{
    inlay_value_info *info = &planner->infos[value];

    planner->plan->values[value].known = graph_has_sizes(info);
    return elements_to_data(info, &planner->plan->arena) &&
           plan_state_from_info(info, &planner->plan->arena, &planner->plan->states[value]);
}

bool planner_store_info(struct planner *planner, uint32_t value)
{
    inlay_value_info *info = &planner->infos[value];
    struct arena *arena = &planner->prog->planning.shapes;
    struct shape_room *room = &planner->prog->planning.rooms[value];

    return (info->rank == INLAY_RANK_UNKNOWN ||
            keep_dims(arena, &info->dims, info->rank, &room->dims, &room->dim_room)) &&
           (info->elements == NULL ||
            keep_dims(arena, &info->elements, info->element_count, &room->elements, &room->element_room)) &&
           store_state(planner, value);
}

/* Returns whether type, shape and elements are the same. */
static bool same_info(const inlay_value_info *a, const inlay_value_info *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->rank == b->rank &&
           (a->rank == INLAY_RANK_UNKNOWN || graph_same_dims(a->dims, b->dims, a->rank)) &&
           (a->elements == NULL) == (b->elements == NULL) &&
           (a->elements == NULL ||
            (a->element_count == b->element_count && graph_same_dims(a->elements, b->elements, a->element_count)));
}

bool planner_store_input(struct planner *planner, uint32_t value, inlay_dtype dtype, uint32_t rank, const int64_t *dims)
{
    inlay_value_info *info = &planner->infos[value];
    const inlay_value_info before = *info;
    inlay_dim *list = NULL;

    *info = planner->prog->planning.first_infos[value];
    if (rank != INLAY_RANK_UNKNOWN) {
        list = arena_array(planner->scratch, (size_t)rank + 1, sizeof *list);
        if (list == NULL)
            return false;
        for (uint32_t d = 0; d < rank; d++)
            list[d] = (inlay_dim){ .value = dims[d], .kind = INLAY_DIM_FIXED };
        info->dtype = dtype;
        info->rank = rank;
        info->dims = list;
    }
    planner->prog->planning.changed[value] = !same_info(&before, info);
    return rank == INLAY_RANK_UNKNOWN || planner_store_info(planner, value);
}

static bool reads_changed(const struct planner *planner, const graph_node *node)
{
    for (uint32_t i = 0; i < node->info.input_count; i++)
        if (node->info.inputs[i] != INLAY_NONE && planner->prog->planning.changed[node->info.inputs[i]])
            return true;
    return false;
}

/* Sets the states of the outputs of a node whose inputs have not changed. Their data belongs to the previous plan. */
static bool keep_outputs(struct planner *planner, const graph_node *node)
{
    for (uint32_t i = 0; i < node->info.output_count; i++) {
        const uint32_t value = node->info.outputs[i];
        inlay_value_info *info = value == INLAY_NONE ? NULL : &planner->infos[value];

        if (info == NULL)
            continue;
        /* Elements without data: a dynamic step computed the value. From now on readers may see its data, so the value
         * counts as changed. */
        planner->prog->planning.changed[value] = info->elements != NULL && info->data == NULL;
        info->data = NULL;
        info->data_bytes = 0;
        if (!store_state(planner, value))
            return false;
    }
    return true;
}

static inlay_status infer_outputs(struct planner *planner, const graph_node *node)
{
    const uint32_t count = node->info.output_count;
    inlay_value_info *before = arena_array(planner->scratch, (size_t)count + 1, sizeof *before);
    inlay_status status;

    if (before == NULL)
        return no_memory(planner->diag, "to infer shapes");
    for (uint32_t i = 0; i < count; i++) {
        if (node->info.outputs[i] == INLAY_NONE)
            continue;
        before[i] = planner->infos[node->info.outputs[i]];
        planner->infos[node->info.outputs[i]] = planner->prog->planning.first_infos[node->info.outputs[i]];
    }
    status = infer_node(planner->prog, node, planner->infos, planner->scratch, planner->diag);
    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t value = node->info.outputs[i];

        if (value == INLAY_NONE)
            continue;
        planner->prog->planning.changed[value] = !same_info(&before[i], &planner->infos[value]);
        if (!planner_store_info(planner, value))
            return no_memory(planner->diag, "to infer shapes");
    }
    return INLAY_OK;
}

inlay_status planner_infer_step(struct planner *planner, const program_step *step)
{
    const partition_region *region = step->region;

    for (uint32_t k = 0; k < region->node_count; k++) {
        const graph_node *node = planner->prog->graph->nodes[region->nodes[k]];
        inlay_status status = INLAY_OK;

        if (!planner->again || reads_changed(planner, node))
            status = infer_outputs(planner, node);
        else if (!keep_outputs(planner, node))
            status = no_memory(planner->diag, "to infer shapes");
        if (status != INLAY_OK)
            return status;
    }
    return check_output_bytes(planner->prog, region, planner->infos, planner->diag);
}

bool planner_copy_infos(struct planner *planner)
{
    const uint32_t count = planner->prog->graph->value_count;
    struct arena *arena = &planner->plan->arena;
    inlay_value_info *infos = arena_copy(arena, planner->infos, ((size_t)count + 1) * sizeof *infos);

    for (uint32_t value = 0; infos != NULL && value < count; value++) {
        inlay_value_info *info = &infos[value];

        if ((info->flags & INLAY_VALUE_CONSTANT) != 0)
            continue;
        if (info->rank != INLAY_RANK_UNKNOWN &&
            (info->dims = arena_copy(arena, info->dims, info->rank * sizeof *info->dims)) == NULL)
            return false;
        if (info->elements != NULL &&
            (info->elements =
                 arena_copy(arena, info->elements, (size_t)info->element_count * sizeof *info->elements)) == NULL)
            return false;
    }
    planner->plan->infos = infos;
    return infos != NULL;
}

bool planner_store_constants(struct planner *planner)
{
    struct program *prog = planner->prog;
    const struct graph *graph = prog->graph;
    inlay_value_info *infos;
    inlay_value_state *states;

    infos = arena_array(&prog->arena, (size_t)graph->value_count + 1, sizeof *infos);
    states = arena_array(&prog->arena, (size_t)graph->value_count + 1, sizeof *states);
    if (infos == NULL || states == NULL)
        return false;
    for (uint32_t value = 0; value < graph->value_count; value++) {
        infos[value] = graph->values[value].info;
        if ((infos[value].flags & INLAY_VALUE_CONSTANT) != 0) {
            if (!store_info(&infos[value], &prog->arena, &states[value]))
                return false;
            continue;
        }
        states[value] = (inlay_value_state){ .rank = INLAY_RANK_UNKNOWN, .dtype = infos[value].dtype };
        infos[value].rank = INLAY_RANK_UNKNOWN;
        infos[value].dims = NULL;
        infos[value].data = NULL;
        infos[value].elements = NULL;
        infos[value].element_count = 0;
    }
    prog->planning.first_states = states;
    prog->planning.first_infos = infos;
    return true;
}
