#include "graph/history.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "plan/program/declined.h"
#include "plan/layout/planner.h"
#include <stdlib.h>
#include <string.h>

enum { FOLD_MAX_BYTES = 1 << 20 }; /* larger tensors are computed in the run */

/* Limits beyond any useful value: sums of sizes cannot overflow. */

/* Runs the region now if all its inputs are known. *out_folded: whether it was run. */
static inlay_status try_fold(struct planner *planner, const program_step *step, bool *out_folded)
{
    const partition_region *region = step->region;
    fold_tensor *in = arena_array(planner->scratch, (size_t)region->input_count + 1, sizeof *in);
    fold_tensor *out = arena_array(planner->scratch, (size_t)region->output_count + 1, sizeof *out);
    inlay_diag quiet = INLAY_DIAG_INIT;
    inlay_status status;

    *out_folded = false;
    if (in == NULL || out == NULL)
        return planner_no_memory(planner);
    for (uint32_t i = 0; i < region->input_count; i++) {
        const inlay_value_state *state = &planner->plan->states[region->inputs[i]];
        if (state->data == NULL || state->data_bytes > FOLD_MAX_BYTES)
            return INLAY_OK;
        in[i] =
            (fold_tensor){ state->dtype, state->rank, state->dims, (void *)(uintptr_t)state->data, state->data_bytes };
    }
    for (uint32_t i = 0; i < region->output_count; i++) {
        const inlay_value_state *state = &planner->plan->states[region->outputs[i]];
        if (planner->infos[region->outputs[i]].dtype == INLAY_STRING)
            return INLAY_OK;
        out[i] = (fold_tensor){ .dtype = state->dtype, .rank = state->rank, .dims = state->dims };
    }
    status = program_fold_region(&(fold_run){ .provider = step->provider,
                                              .compiled = step->compiled,
                                              .values = planner->plan->states,
                                              .value_count = planner->prog->graph->value_count,
                                              .inputs = in,
                                              .input_count = region->input_count,
                                              .outputs = out,
                                              .output_count = region->output_count,
                                              .max_threads = planner->prog->env->max_threads,
                                              .max_bytes = FOLD_MAX_BYTES,
                                              .arena = &planner->plan->arena },
                                 &quiet);
    if (status == INLAY_LIMIT_EXCEEDED || status == INLAY_UNSUPPORTED)
        return INLAY_OK;
    if (status != INLAY_OK) {
        if (planner->diag != NULL)
            *planner->diag = quiet;
        return program_step_failed(planner->prog->graph, step, status, planner->diag);
    }
    for (uint32_t i = 0; i < region->output_count; i++) {
        uint32_t value = region->outputs[i];
        inlay_value_info *info = &planner->infos[value];
        inlay_dim *dims = arena_array(&planner->plan->arena, (size_t)out[i].rank + 1, sizeof *dims);
        if (dims == NULL)
            return planner_no_memory(planner);
        for (uint32_t d = 0; d < out[i].rank; d++)
            dims[d] = (inlay_dim){ .value = out[i].dims[d], .kind = INLAY_DIM_FIXED };
        info->rank = out[i].rank;
        info->dims = dims;
        info->data = out[i].data;
        info->data_bytes = out[i].bytes;
        planner->prog->planning.changed[value] = true;
        if (!planner_store_info(planner, value))
            return planner_no_memory(planner);
    }
    *out_folded = true;
    return INLAY_OK;
}

static inlay_status place_folded(struct planner *planner, const partition_region *region)
{
    for (uint32_t i = 0; i < region->output_count; i++) {
        const inlay_value_info *info = &planner->infos[region->outputs[i]];
        uint32_t place = planner_add_data_place(planner, info->data, info->data_bytes);
        if (place == INLAY_NONE)
            return planner_no_memory(planner);
        planner->plan->values[region->outputs[i]].place = place;
    }
    return INLAY_OK;
}

/* The place where a step that is sized at run time reads input i. Values without a place are copied when the step
 * runs. */
static uint32_t reading_place(struct planner *planner, const program_step *step, uint32_t i)
{
    const uint32_t value = step->region->inputs[i], now = planner->plan->values[value].place;
    const bool has_place = planner->plan->places[now].source != PLACE_DYNAMIC && planner->plan->values[value].known;

    if (has_place && program_passes_to_bodies(step, value)) {
        planner_share_with_device(planner, now, planner->prog->uses.reader_domain[value]);
        return now;
    }
    return planner_place_in(
        planner, value, has_place && step->provider != NULL ? step->placements[i].domain : (uint32_t)INLAY_DOMAIN_HOST);
}

/* Adds a step that is sized at run time; its outputs are dynamic values. Outputs of known shape still get a place in
 * the slab, so that later steps can be planned. */
static inlay_status add_dynamic(struct planner *planner, const program_step *prog_step, uint32_t kind)
{
    const partition_region *region = prog_step->region;
    uint32_t *in = arena_array(&planner->plan->arena, (size_t)region->input_count + 1, sizeof *in);
    plan_step *step;

    if (in == NULL)
        return planner_no_memory(planner);
    for (uint32_t i = 0; i < region->input_count; i++) {
        in[i] = reading_place(planner, prog_step, i);
        if (in[i] == INLAY_NONE)
            return planner_no_memory(planner);
    }
    for (uint32_t i = 0; i < region->input_count; i++)
        planner_extend_lifetime(planner, in[i]);
    for (uint32_t i = 0; i < region->output_count; i++) {
        uint32_t value = region->outputs[i], place;
        const bool fixed =
            kind == PLAN_DYNAMIC && planner->plan->values[value].known && planner->output_of[value] == INLAY_NONE;

        if (kind == PLAN_HOST)
            planner->plan->values[value].known = false;
        place = fixed ? planner_add_output_place(planner, value, prog_step->placements[region->input_count + i].domain,
                                                 INLAY_UNDEFINED)
                      : planner_add_dynamic_place(planner, value);
        if (place == INLAY_NONE)
            return planner_no_memory(planner);
        planner->plan->values[value].place = place;
        if (!fixed) {
            planner->plan->values[value].known = false;
            planner->plan->states[value].data = NULL;
            planner->prog->planning.changed[value] |= planner->infos[value].data != NULL;
            planner->infos[value].data = NULL;
        }
    }
    planner->plan->dynamic_count++;
    step = planner_add_step(planner, kind, prog_step);
    if (step == NULL)
        return planner_no_memory(planner);
    step->in = in;
    return INLAY_OK;
}

static bool region_known(const struct planner *planner, const partition_region *region)
{
    for (uint32_t i = 0; i < region->input_count; i++)
        if (!planner->plan->values[region->inputs[i]].known)
            return false;
    for (uint32_t i = 0; i < region->output_count; i++)
        if (!planner->plan->values[region->outputs[i]].known)
            return false;
    return true;
}

/* Returns whether the output may reuse the bytes of input `alias`: no later step reads them, they are in the slab, and
 * no other input of the step is the same place, which kernels do not support. */
static bool can_reuse(const struct planner *planner, uint32_t step_index, const uint32_t *in, uint32_t in_count,
                      uint32_t alias, uint32_t out_value, const inlay_placement *to)
{
    const plan_place *place = &planner->plan->places[in[alias]];
    size_t bytes;

    for (uint32_t i = 0; i < in_count; i++)
        if (i != alias && in[i] == in[alias])
            return false;
    return place->source == PLACE_SLAB && !place->kept &&
           !(place->viewed && planner->output_of[out_value] != INLAY_NONE) && place->domain == to->domain &&
           place->last_use <= step_index && plan_info_bytes_as(&planner->infos[out_value], to->dtype, &bytes) &&
           bytes == place->bytes;
}

static void release_instance(const program_step *step, inlay_instance *instance, blob_map *blob)
{
    step->provider->table->release_instance(step->provider->state, step->compiled, instance);
    blob_unmap(blob);
}

/* Takes over the instance and the blob that it was built from. */
static inlay_status add_exec(struct planner *planner, uint32_t step_index, inlay_instance *instance, blob_map blob,
                             const inlay_specialize_request *request)
{
    const program_step *prog_step = &planner->prog->steps[step_index];
    const partition_region *region = prog_step->region;
    uint32_t *in = arena_array(&planner->plan->arena, (size_t)region->input_count + 1, sizeof *in);
    uint32_t *out = arena_array(&planner->plan->arena, (size_t)region->output_count + 1, sizeof *out);
    uint32_t workspace = INLAY_NONE, domain = partition_default_domain(prog_step->provider);
    plan_step *step = NULL;

    if (in == NULL || out == NULL)
        goto fail;
    for (uint32_t i = 0; i < region->input_count; i++) {
        in[i] = planner_place_in(planner, region->inputs[i], prog_step->placements[i].domain);
        if (in[i] == INLAY_NONE)
            goto fail;
    }
    for (uint32_t i = 0; i < region->input_count; i++)
        planner_extend_lifetime(planner, in[i]);
    for (uint32_t i = 0; i < region->output_count; i++) {
        const inlay_placement *to = &prog_step->placements[region->input_count + i];
        uint32_t value = region->outputs[i], alias = request->outputs[i].alias;
        bool reuse =
            alias < region->input_count && can_reuse(planner, step_index, in, region->input_count, alias, value, to);

        for (uint32_t k = 0; reuse && k < i; k++)
            reuse = out[k] != in[alias];
        if (reuse) {
            planner_share_place(planner, value, in[alias]);
            out[i] = in[alias];
        } else {
            out[i] = planner_add_output_place(planner, value, to->domain, to->dtype);
            if (out[i] == INLAY_NONE)
                goto fail;
            planner->plan->values[value].place = out[i];
        }
    }
    if (request->workspace_bytes > 0) {
        const uint64_t alignment = request->workspace_alignment; /* the slab aligns places as plan_alignment() says */
        uint64_t extra = alignment > plan_alignment(planner->prog->env, domain) ? alignment : 0;
        if (request->workspace_bytes > UINT64_MAX / 2)
            extra = 0; /* planner_assign_offsets rejects it; the sum must not overflow before */
        workspace = planner_add_place(planner, (plan_place){ .source = PLACE_SLAB,
                                                             .domain = domain,
                                                             .bytes = request->workspace_bytes + extra,
                                                             .first = planner->plan->step_count,
                                                             .last = planner->plan->step_count });
        if (workspace == INLAY_NONE)
            goto fail;
    }
    step = planner_add_step(planner, PLAN_EXEC, prog_step);
    if (step == NULL)
        goto fail;
    step->instance = instance;
    step->blob = blob;
    step->in = in;
    step->out = out;
    step->workspace = workspace;
    step->workspace_alignment = (uint32_t)request->workspace_alignment;
    return INLAY_OK;
fail:
    release_instance(prog_step, instance, &blob);
    return planner_no_memory(planner);
}

/* Records that the provider declines the region for these shapes. The remaining steps are planned nevertheless, to
 * collect all declined offers. */
static inlay_status decline(struct planner *planner, uint32_t step_index, const inlay_diag *why)
{
    const program_step *step = &planner->prog->steps[step_index];

    INLAY_CHECK(step_index < planner->prog->step_count);
    if (planner->declined == NULL) {
        planner->declined =
            arena_array(&planner->plan->arena, (size_t)planner->prog->parts.offer_count + 1, sizeof *planner->declined);
        if (planner->declined == NULL)
            return planner_no_memory(planner);
        planner->declined_why = (inlay_diag)INLAY_DIAG_INIT;
        (void)inlay_fail(&planner->declined_why, INLAY_UNSUPPORTED,
                         "can't prepare %s node '%s' for these shapes: %.300s", step->node->info.op_type.data,
                         step->node->info.name.data, why->text);
    }
    declined_mark(planner->prog, step_index, why, planner->declined);
    return add_dynamic(planner, step, PLAN_DYNAMIC);
}

/* Finds the capacities of the states that the step appends to or reads in place. *out_rooms: [input_count] of the
 * region, 0 for other inputs; NULL if no input is such a state. */
static inlay_status find_state_capacities(struct planner *planner, uint32_t step_index, uint64_t **out_rooms)
{
    const struct program *prog = planner->prog;
    const partition_region *region = prog->steps[step_index].region;

    *out_rooms = NULL;
    for (uint32_t k = 0; prog->state_steps != NULL && k < prog->env->state_count; k++) {
        const graph_state *state = &prog->env->states[k];
        const uint64_t room = planner->inputs[state->input].room;
        const uint32_t past = prog->graph->inputs[state->input], present = prog->graph->outputs[state->output];
        const bool makes = prog->state_steps[k] == step_index;
        const uint32_t value = makes ? past : present; /* the extended state may also be read by other steps */
        bool is_read = makes;

        for (uint32_t i = 0; !is_read && i < region->input_count; i++)
            is_read = region->inputs[i] == value;
        if (prog->state_steps[k] == INLAY_NONE || room == 0 || !is_read)
            continue;
        if (!region_known(planner, region))
            return inlay_fail(planner->diag, INLAY_BUSY, "state '%s' can't be in place: its size depends on data",
                              planner->infos[past].name.data);
        if (planner->plan->states[present].dims[state->axis] > (int64_t)room)
            return inlay_fail(planner->diag, INLAY_NOT_FOUND, "state '%s' has room for %llu rows, and needs %lld",
                              planner->infos[past].name.data, (unsigned long long)room,
                              (long long)planner->plan->states[present].dims[state->axis]);
        if (*out_rooms == NULL)
            *out_rooms = arena_array(planner->scratch, (size_t)region->input_count + 1, sizeof **out_rooms);
        if (*out_rooms == NULL)
            return planner_no_memory(planner);
        for (uint32_t i = 0; i < region->input_count; i++)
            if (region->inputs[i] == value)
                (*out_rooms)[i] = room;
    }
    return INLAY_OK;
}

/* Fails if a boundary value has another element type than in the model; steps that are sized at run time do not support
 * that. */
static inlay_status reject_other_dtypes(struct planner *planner, const program_step *step)
{
    const partition_region *region = step->region;

    for (uint32_t i = 0; i < region->input_count + region->output_count; i++)
        if (step->placements[i].dtype != INLAY_UNDEFINED)
            return inlay_fail(planner->diag, INLAY_INTERNAL,
                              "provider %s requires another element type at the border of %s node "
                              "'%s', whose sizes depend on data",
                              step->provider->name, step->node->info.op_type.data, step->node->info.name.data);
    return INLAY_OK;
}

/* Specialises a region whose shapes are known. If the kernel decides the sizes of outputs, adds a dynamic step. */
static inlay_status plan_region(struct planner *planner, uint32_t step_index, const uint64_t *rooms)
{
    const program_step *step = &planner->prog->steps[step_index];
    const partition_region *region = step->region;
    inlay_output_plan *outputs = arena_array(planner->scratch, (size_t)region->output_count + 1, sizeof *outputs);
    inlay_specialize_request request = { .struct_size = sizeof request,
                                         .values = planner->plan->states,
                                         .value_count = planner->prog->graph->value_count,
                                         .value_stride = sizeof *planner->plan->states,
                                         .max_threads = planner->prog->env->max_threads,
                                         .workspace_alignment = 64,
                                         .outputs = outputs,
                                         .output_count = region->output_count,
                                         .output_stride = sizeof *outputs,
                                         .rooms = rooms };
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_instance *instance = NULL;
    blob_map blob = { 0 };
    inlay_status status;

    if (outputs == NULL)
        return planner_no_memory(planner);
    INLAY_CHECK(step->provider != NULL);
    for (uint32_t i = 0; i < region->output_count; i++)
        outputs[i].alias = INLAY_NONE;
    status = program_specialize(planner->prog, step, planner->run, &request, &instance, &blob, &why);
    if (status == INLAY_UNSUPPORTED ||
        (planner->prog->env->runs.without_failed && step->provider->table->domain_count > 0 &&
         (status == INLAY_DEVICE_LOST || status == INLAY_OUT_OF_MEMORY)))
        return decline(planner, step_index, &why); /* other providers run it, see option device_failure */
    if (status != INLAY_OK) {
        if (planner->diag != NULL)
            *planner->diag = why;
        return program_step_failed(planner->prog->graph, step, status, planner->diag);
    }
    status = program_check_workspace(step, &request, planner->diag);
    if (status != INLAY_OK) {
        release_instance(step, instance, &blob);
        return status;
    }
    for (uint32_t i = 0; i < region->output_count; i++) {
        if (outputs[i].kind != INLAY_OUTPUT_KNOWN) {
            release_instance(step, instance, &blob);
            status = reject_other_dtypes(planner, step);
            return status == INLAY_OK ? add_dynamic(planner, step, PLAN_DYNAMIC) : status;
        }
    }
    return add_exec(planner, step_index, instance, blob, &request);
}

static bool has_all_data(const struct planner *planner, const partition_region *region)
{
    for (uint32_t i = 0; i < region->output_count; i++)
        if (planner->plan->states[region->outputs[i]].data == NULL)
            return false;
    return region->output_count > 0;
}

/* Returns whether the output of a view can share the memory of its input. */
static bool is_viewable(const struct planner *planner, const partition_region *region, const graph_node *node)
{
    const plan_place *place;
    size_t bytes;

    if (region->input_count == 0 || region->inputs[0] != node->info.inputs[0])
        return false; /* the input is a constant */
    place = &planner->plan->places[planner->plan->values[region->inputs[0]].place];
    return place->source != PLACE_DYNAMIC && plan_info_bytes(&planner->infos[region->outputs[0]], &bytes) &&
           bytes == place->bytes;
}

static inlay_status plan_program_step(struct planner *planner, uint32_t i)
{
    const program_step *step = &planner->prog->steps[i];
    const partition_region *region = step->region;
    uint64_t *rooms;
    inlay_status status;
    bool folded;

    if (step->provider == NULL)
        return add_dynamic(planner, step, PLAN_HOST);
    status = planner_infer_step(planner, step);
    if (status != INLAY_OK)
        return status;
    if (step->foldable) {
        folded = has_all_data(planner, region);
        status = folded ? INLAY_OK : try_fold(planner, step, &folded);
        if (status != INLAY_OK || folded)
            return status != INLAY_OK ? status : place_folded(planner, region);
    }
    INLAY_TRY(find_state_capacities(planner, i, &rooms));
    if (!region_known(planner, region)) {
        INLAY_TRY(reject_other_dtypes(planner, step));
        return add_dynamic(planner, step, PLAN_DYNAMIC);
    }
    if (step->view && is_viewable(planner, region, step->node)) {
        planner_share_place(planner, region->outputs[0], planner->plan->values[region->inputs[0]].place);
        return INLAY_OK;
    }
    status = plan_region(planner, i, rooms);
done:
    return status;
}

/* Infers the shapes of a node whose results nothing reads. Values without a producer are of unknown size. */
static inlay_status infer_removed(struct planner *planner, const graph_node *node)
{
    const struct graph *graph = planner->prog->graph;
    const inlay_value_info **in = arena_array(planner->scratch, (size_t)node->info.input_count + 1, sizeof *in);
    inlay_value_info **out = arena_array(planner->scratch, (size_t)node->info.output_count + 1, sizeof *out);

    if (in == NULL || out == NULL)
        return planner_no_memory(planner);
    for (uint32_t i = 0; i < node->info.input_count; i++) {
        const uint32_t value = history_resolve(graph, node->info.inputs[i]);

        in[i] = value == INLAY_NONE ? NULL : &planner->infos[value];
    }
    for (uint32_t i = 0; i < node->info.output_count; i++) {
        const uint32_t value = node->info.outputs[i];

        out[i] = value == INLAY_NONE ? NULL : &planner->infos[value];
        if (value != INLAY_NONE && graph->values[value].info.producer != INLAY_NONE)
            return INLAY_OK; /* the removal of the node was undone */
    }
    return graph_infer_node(planner->prog->model, node, in, out, planner->scratch, planner->diag);
}

/* Fails if a removed node refuses these sizes, as it would without the optimiser. */
static inlay_status check_removed(struct planner *planner)
{
    const struct graph *graph = planner->prog->graph;
    uint32_t count;
    graph_node *const *nodes = history_checks(graph, &count);
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < count && status == INLAY_OK; i++)
        status = infer_removed(planner, nodes[i]);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < nodes[i]->info.output_count; k++) {
            const uint32_t value = nodes[i]->info.outputs[k];

            if (value != INLAY_NONE && graph->values[value].info.producer == INLAY_NONE)
                planner->infos[value] = planner->prog->planning.first_infos[value]; /* not in scratch memory */
        }
    arena_reset(planner->scratch);
    return status;
}

/* Sets types, shapes and places of inputs and captured values. */
static inlay_status start_inputs(struct planner *planner, const plan_input *inputs, uint32_t count)
{
    const struct graph *graph = planner->prog->graph;
    struct plan *plan = planner->plan;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t value = i < graph->input_count ? graph->inputs[i] : graph->captured[i - graph->input_count];
        size_t bytes = 0;

        if ((planner->infos[value].flags & INLAY_VALUE_CONSTANT) != 0)
            continue; /* captured constants belong to the body */
        /* Regions were compiled for the inferred type. */
        if (planner->infos[value].kind == INLAY_VALUE_TENSOR && planner->infos[value].dtype != INLAY_UNDEFINED &&
            (inputs[i].rank == INLAY_RANK_UNKNOWN || inputs[i].dtype != planner->infos[value].dtype))
            return inlay_fail(planner->diag, INLAY_INVALID_MODEL,
                              "graph '%s': '%s' is %s%s where a tensor of %s was expected", graph->name,
                              planner->infos[value].name.data,
                              inputs[i].rank == INLAY_RANK_UNKNOWN ? "not a tensor, but has type " : "",
                              inlay_dtype_name(inputs[i].dtype), inlay_dtype_name(planner->infos[value].dtype));
        if (!planner_store_input(planner, value, inputs[i].dtype, inputs[i].rank, inputs[i].dims) ||
            (inputs[i].rank != INLAY_RANK_UNKNOWN && !plan_info_bytes(&planner->infos[value], &bytes)))
            return planner_no_memory(planner);
        plan->values[value].place = planner_add_place(
            planner, (plan_place){ .source = PLACE_INPUT, .index = i, .bytes = bytes, .domain = inputs[i].domain });
        if (plan->values[value].place == INLAY_NONE)
            return planner_no_memory(planner);
    }
    return INLAY_OK;
}

/* Marks the values that the host passes on to a body or to the caller. A constant among them needs an aligned address,
 * as any tensor does. */
static void mark_passed_on(struct program *prog)
{
    const struct graph *graph = prog->graph;

    for (uint32_t i = 0; i < graph->output_count; i++)
        if (graph->outputs[i] != INLAY_NONE)
            prog->planning.passed_on[graph->outputs[i]] = true;
    for (uint32_t i = 0; i < prog->step_count; i++) {
        const graph_node *node = prog->steps[i].node;

        if (prog->steps[i].provider != NULL)
            continue;
        for (uint32_t k = 0; k < node->info.input_count; k++)
            if (node->info.inputs[k] != INLAY_NONE)
                prog->planning.passed_on[node->info.inputs[k]] = true;
        for (uint32_t k = 0; k < node->capture_count; k++)
            prog->planning.passed_on[node->captures[k]] = true;
    }
}

/* Creates the data that all plans of a program share. */
static bool start_program(struct planner *planner)
{
    struct program *prog = planner->prog;
    const struct graph *graph = prog->graph;
    uint32_t domains = 1;

    if (prog->planning.first_infos != NULL)
        return true;
    for (uint32_t i = 0; i < prog->env->provider_count; i++) {
        const partition_provider *provider = &prog->env->providers[i];
        if (provider->table->domain_count > 0 && provider->first_domain + provider->table->domain_count > domains)
            domains = provider->first_domain + provider->table->domain_count;
    }
    prog->planning.domain_count = domains;
    prog->planning.passed_on =
        arena_array(&prog->arena, (size_t)graph->value_count + 1, sizeof *prog->planning.passed_on);
    prog->output_of = arena_array(&prog->arena, (size_t)graph->value_count + 1, sizeof *prog->output_of);
    prog->planning.infos = arena_array(&prog->arena, (size_t)graph->value_count + 1, sizeof *prog->planning.infos);
    prog->planning.changed = arena_array(&prog->arena, (size_t)graph->value_count + 1, sizeof *prog->planning.changed);
    prog->planning.copies =
        arena_array(&prog->arena, (size_t)graph->value_count * domains + 1, sizeof *prog->planning.copies);
    if (prog->planning.passed_on == NULL || prog->output_of == NULL || prog->planning.infos == NULL ||
        prog->planning.changed == NULL || prog->planning.copies == NULL)
        return false;
    mark_passed_on(prog);
    memset(prog->output_of, 0xff, graph->value_count * sizeof *prog->output_of);
    for (uint32_t k = graph->output_count; k-- > 0;)
        if (graph->outputs[k] != INLAY_NONE)
            prog->output_of[graph->outputs[k]] = k;
    return planner_store_constants(planner);
}

/* Creates the arrays of the plan. Constants have places, other values are unknown. */
static inlay_status start_values(struct planner *planner)
{
    const struct graph *graph = planner->prog->graph;
    struct plan *plan = planner->plan;

    if (!start_program(planner) || !planner_start_infos(planner))
        return planner_no_memory(planner);
    planner->output_of = planner->prog->output_of;
    planner->copies = planner->prog->planning.copies;
    plan->domain_count = planner->prog->planning.domain_count;
    plan->states = arena_copy(&plan->arena, planner->prog->planning.first_states,
                              ((size_t)graph->value_count + 1) * sizeof *plan->states);
    plan->values = arena_array(&plan->arena, (size_t)graph->value_count + 1, sizeof *plan->values);
    plan->slab_bytes = arena_array(&plan->arena, plan->domain_count, sizeof *plan->slab_bytes);
    if (plan->states == NULL || plan->values == NULL || plan->slab_bytes == NULL)
        return planner_no_memory(planner);
    memset(planner->copies, 0xff, (size_t)graph->value_count * plan->domain_count * sizeof *planner->copies);
    for (uint32_t value = 0; value < graph->value_count; value++) {
        const void *data;

        plan->values[value].place = INLAY_NONE;
        if ((planner->infos[value].flags & INLAY_VALUE_CONSTANT) == 0)
            continue;
        data = planner->prog->planning.passed_on[value] ? program_constant(planner->prog, value)
                                                        : planner->infos[value].data;
        plan->values[value].place =
            data == NULL ? INLAY_NONE : planner_add_data_place(planner, data, planner->infos[value].data_bytes);
        if (plan->values[value].place == INLAY_NONE)
            return planner_no_memory(planner);
        plan->values[value].known = true;
    }
    return INLAY_OK;
}

inlay_status plan_build(struct program *prog, const plan_input *inputs, uint32_t count, const inlay_run *run,
                        struct plan **out_plan, inlay_diag *diag)
{
    const uint32_t incoming = prog->graph->input_count + prog->graph->captured_count;
    struct planner planner = { .prog = prog,
                               .scratch = &prog->planning.scratch,
                               .inputs = inputs,
                               .run = run,
                               .diag = diag,
                               .wanted = count > incoming ? inputs + incoming : NULL };
    inlay_status status = INLAY_OK;

    *out_plan = NULL;
    planner.plan = __atomic_exchange_n(&prog->kept.spare, NULL, __ATOMIC_ACQUIRE);
    if (planner.plan == NULL)
        planner.plan = calloc(1, sizeof *planner.plan);
    if (planner.plan == NULL)
        return planner_no_memory(&planner);
    INLAY_CHECK(planner.plan->place_count == 0 && planner.plan->step_count == 0);
    planner.plan->references = 1;
    planner.plan->program = prog;
    if (!plan_set_key(planner.plan, inputs, count)) {
        status = planner_no_memory(&planner);
        goto done;
    }
    INLAY_TRY(start_values(&planner));
    INLAY_TRY(start_inputs(&planner, inputs, count < incoming ? count : incoming));
    for (uint32_t i = 0; i < prog->step_count; i++) {
        INLAY_TRY(plan_program_step(&planner, i));
        arena_reset(planner.scratch);
    }
    INLAY_TRY(check_removed(&planner));
    if (planner.declined != NULL) {
        INLAY_TRY(declined_add_shapes(prog, inputs, count, planner.declined, planner.declined_why.text, diag));
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "%s", planner.declined_why.text);
        goto done;
    }
    INLAY_TRY(planner_place_outputs(&planner));
    INLAY_TRY(planner_hoist_copies(&planner));
    INLAY_TRY(planner_find_concurrent_branches(&planner));
    INLAY_TRY(planner_assign_offsets(&planner));
    INLAY_CHECK(plan_check(planner.plan));
    if (planner.plan->dynamic_count > 0 && !planner_copy_infos(&planner)) {
        status = planner_no_memory(&planner);
        goto done;
    }
    prog->planning.inferred = true;
    prog->planning.place_hint = planner.plan->place_count;
    prog->planning.step_hint = planner.plan->step_count;
    *out_plan = planner.plan;
    planner.plan = NULL;
done:
    arena_reset(planner.scratch);
    plan_unref(planner.plan);
    return status;
}
