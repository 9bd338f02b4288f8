#include "base/checked.h"
#include "base/memory.h"
#include "plan/layout/planner.h"
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
    /* specialize requires aligned elements, but constants in the file may be unaligned. Only those that may decide
     * shapes are copied; the data of the others is withheld. */
    if ((uintptr_t)info->data % 16 != 0) {
        bool copied = graph_constant_may_set_shapes(info);

        out->data = copied ? arena_copy(arena, info->data, (size_t)info->data_bytes) : NULL;
        return !copied || out->data != NULL;
    }
    return true;
}

static bool plan_all_fixed(const inlay_value_info *info)
{
    if (info->rank == INLAY_RANK_UNKNOWN)
        return false;
    for (uint32_t d = 0; d < info->rank; d++)
        if (info->dims[d].kind != INLAY_DIM_FIXED)
            return false;
    return true;
}

bool plan_info_bytes_as(const inlay_value_info *info, inlay_dtype dtype, size_t *out_bytes)
{
    int64_t dims[INLAY_MAX_RANK], count;

    if (!plan_all_fixed(info) || info->rank > INLAY_MAX_RANK)
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

    return info->kind != INLAY_VALUE_TENSOR || info->dtype == INLAY_UNDEFINED || !plan_all_fixed(info) ||
           plan_info_bytes(info, &bytes);
}

inlay_status plan_infer_region(const struct program *program, const partition_region *region, inlay_value_info *infos,
                               struct arena *scratch, inlay_diag *diag)
{
    for (uint32_t k = 0; k < region->node_count; k++) {
        const graph_node *node = program->graph->nodes[region->nodes[k]];
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
    }
    for (uint32_t i = 0; i < region->output_count; i++) {
        const inlay_value_info *info = &infos[region->outputs[i]];
        size_t bytes = 0;

        if (info->kind == INLAY_VALUE_TENSOR && plan_info_bytes(info, &bytes) && bytes > program->env->max_run_bytes)
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                              "'%s' has %zu bytes, above the limit of %llu; raise max_run_bytes if that is meant",
                              info->name.data, bytes, (unsigned long long)program->env->max_run_bytes);
    }
    return INLAY_OK;
}

/* If inference knows every element of an integer tensor, makes these elements its data. */
static bool elements_to_data(inlay_value_info *info, struct arena *arena)
{
    bool wide = info->dtype == INLAY_INT64;
    char *data;

    if (info->elements == NULL || info->data != NULL || (!wide && info->dtype != INLAY_INT32) || !plan_all_fixed(info))
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

bool planner_store_info(struct planner *planner, uint32_t value)
{
    if (!store_info(&planner->infos[value], &planner->plan->arena, &planner->plan->states[value]))
        return false;
    planner->plan->values[value].known = plan_all_fixed(&planner->infos[value]);
    return true;
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
