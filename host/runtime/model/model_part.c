/* model/model_part.c - see model_part.h. Works on loaded models before function inlining. */
#include "model/model_part.h"
#include "base/memory.h"
#include "base/order.h"
#include "inlay/check.h"
#include "schema.h"
#include <string.h>

static inlay_status start_part(graph_model *model, model_part *out, inlay_diag *diag)
{
    const struct graph *graph = model->main;

    *out = (model_part){ 0 };
    out->nodes = arena_array(&model->arena, (size_t)graph->node_count + 1, sizeof *out->nodes);
    out->inputs = arena_array(&model->arena, (size_t)graph->value_count + 1, sizeof *out->inputs);
    out->outputs = arena_array(&model->arena, (size_t)graph->value_count + 1, sizeof *out->outputs);
    return out->nodes == NULL || out->inputs == NULL || out->outputs == NULL ? no_memory(diag, "to cut the model")
                                                                             : INLAY_OK;
}

/* Marks in out->nodes the nodes that compute the wanted values, and in wanted [value_count] the values that these nodes
 * read. Does not continue beyond `ends` [value_count], the inputs of the part. Goes from the last node to the first,
 * because nodes are in topological order. */
static void mark_needed(const struct graph *graph, const bool *ends, bool *wanted, model_part *out)
{
    for (uint32_t i = graph->node_count; i-- > 0;) {
        const graph_node *node = graph->nodes[i];
        bool needed = false;

        for (uint32_t output = 0; output < node->info.output_count; output++)
            needed |= node->info.outputs[output] != INLAY_NONE && wanted[node->info.outputs[output]] &&
                      !ends[node->info.outputs[output]];
        if (!needed)
            continue;
        out->nodes[i] = true;
        out->kept++;
        for (uint32_t k = 0; k < graph_read_count(node); k++)
            if (graph_read_at(node, k) != INLAY_NONE)
                wanted[graph_read_at(node, k)] = true;
    }
}

inlay_status model_part_between(graph_model *model, const uint32_t *inputs, uint32_t input_count,
                                const uint32_t *outputs, uint32_t output_count, model_part *out, inlay_diag *diag)
{
    const struct graph *graph = model->main;
    bool *wanted = arena_array(&model->arena, (size_t)graph->value_count + 1, sizeof *wanted);
    bool *ends = arena_array(&model->arena, (size_t)graph->value_count + 1, sizeof *ends);
    inlay_status status = start_part(model, out, diag);

    if (status != INLAY_OK)
        return status;
    if (wanted == NULL || ends == NULL)
        return no_memory(diag, "to cut the model");
    for (uint32_t i = 0; i < input_count; i++)
        ends[inputs[i]] = true;
    for (uint32_t i = 0; i < output_count; i++)
        wanted[outputs[i]] = true;
    mark_needed(graph, ends, wanted, out);
    for (uint32_t i = 0; i < input_count; i++) {
        if (!wanted[inputs[i]])
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%.200s': the outputs do not depend on it",
                              graph->values[inputs[i]].info.name.data);
        out->inputs[out->input_count++] = inputs[i];
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const uint32_t value = graph->inputs[i];

        if (!wanted[value] || ends[value])
            continue;
        if (input_count > 0 && graph->values[value].default_value == NULL)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "the outputs also depend on input '%.200s' of the model; "
                              "name it, too, or a value computed from it",
                              graph->values[value].info.name.data);
        out->inputs[out->input_count++] = value;
    }
    if (output_count > 0)
        memcpy(out->outputs, outputs, output_count * sizeof *outputs);
    out->output_count = output_count;
    return INLAY_OK;
}

/* Adds the neighbours of the nodes: producers of their inputs and readers of their outputs. */
static bool grow(const struct graph *graph, bool *nodes, bool *touched)
{
    bool grew = false;

    memset(touched, 0, graph->value_count * sizeof *touched);
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        for (uint32_t k = 0; nodes[i] && k < graph_read_count(node); k++)
            if (graph_read_at(node, k) != INLAY_NONE && !graph_is_constant(graph, graph_read_at(node, k)))
                touched[graph_read_at(node, k)] = true;
        for (uint32_t output = 0; nodes[i] && output < node->info.output_count; output++)
            if (node->info.outputs[output] != INLAY_NONE)
                touched[node->info.outputs[output]] = true;
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];
        bool near = false;

        for (uint32_t output = 0; output < node->info.output_count; output++)
            near |= node->info.outputs[output] != INLAY_NONE && touched[node->info.outputs[output]];
        for (uint32_t k = 0; k < graph_read_count(node); k++)
            near |= graph_read_at(node, k) != INLAY_NONE && touched[graph_read_at(node, k)];
        grew |= near && !nodes[i];
        nodes[i] |= near;
    }
    return grew;
}

/* MODEL_PART_* of what the node computes. */
static uint8_t kind_of_node(const struct graph *graph, const graph_node *node, const uint8_t *kinds)
{
    const op_row *row = op_find(node->info.domain.data, node->info.op_type.data, node->opset, NULL);
    const bool is_size = strcmp(node->info.op_type.data, "Shape") == 0 || strcmp(node->info.op_type.data, "Size") == 0;
    uint8_t kind = is_size ? MODEL_PART_SIZE : MODEL_PART_CONSTANT;

    if (row == NULL || (row->flags & OP_RANDOM) != 0 || node->body_count > 0)
        return MODEL_PART_VARIES;
    for (uint32_t k = 0; !is_size && k < graph_read_count(node); k++) {
        const uint32_t value = graph_read_at(node, k);

        if (value == INLAY_NONE || graph_is_constant(graph, value))
            continue;
        if (kinds[value] == MODEL_PART_VARIES)
            return MODEL_PART_VARIES;
        kind = kinds[value] == MODEL_PART_SIZE ? MODEL_PART_SIZE : kind;
    }
    return kind;
}

uint8_t *model_part_kinds(graph_model *model)
{
    const struct graph *graph = model->main;
    uint8_t *kinds = arena_array(&model->arena, (size_t)graph->value_count + 1, sizeof *kinds);

    for (uint32_t i = 0; kinds != NULL && i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];
        const uint8_t kind = kind_of_node(graph, node, kinds);

        for (uint32_t output = 0; output < node->info.output_count; output++)
            if (node->info.outputs[output] != INLAY_NONE)
                kinds[node->info.outputs[output]] = kind;
    }
    return kinds;
}

/* Adds the nodes that compute what the part reads from constants alone, and marks them in `taken` [node_count]. As
 * inputs of the part these values would be no constants, and nodes that read them would run on other kernels or
 * providers, with other bits. Goes from the last node to the first, because nodes are in topological order. */
static void take_constants(const struct graph *graph, const uint8_t *kinds, bool *nodes, bool *taken)
{
    for (uint32_t i = graph->node_count; i-- > 0;)
        for (uint32_t k = 0; nodes[i] && k < graph_read_count(graph->nodes[i]); k++) {
            const uint32_t value = graph_read_at(graph->nodes[i], k);
            const uint32_t producer = value != INLAY_NONE && kinds[value] == MODEL_PART_CONSTANT
                                          ? graph->values[value].info.producer
                                          : INLAY_NONE;

            if (producer != INLAY_NONE && !nodes[producer])
                nodes[producer] = taken[producer] = true;
        }
}

/* Finds the values that enter and leave the part, in node order. Those of nodes that it has taken do not leave it. */
static void find_border(const struct graph *graph, const bool *used_outside, const bool *taken, model_part *out)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        for (uint32_t k = 0; out->nodes[i] && k < graph_read_count(node); k++) {
            const uint32_t value = graph_read_at(node, k);
            const uint32_t producer = value != INLAY_NONE ? graph->values[value].info.producer : INLAY_NONE;

            if (value != INLAY_NONE && !graph_is_constant(graph, value) &&
                (producer == INLAY_NONE || !out->nodes[producer]) && !is_listed(out->inputs, out->input_count, value))
                out->inputs[out->input_count++] = value;
        }
        for (uint32_t output = 0; out->nodes[i] && !taken[i] && output < node->info.output_count; output++)
            if (node->info.outputs[output] != INLAY_NONE && used_outside[node->info.outputs[output]])
                out->outputs[out->output_count++] = node->info.outputs[output];
        out->kept += out->nodes[i];
    }
    INLAY_CHECK(out->input_count <= graph->value_count && out->output_count <= graph->value_count);
}

inlay_status model_part_of(graph_model *model, bool *nodes, uint32_t depth, model_part *out, inlay_diag *diag)
{
    const struct graph *graph = model->main;
    bool *seen = arena_array(&model->arena, (size_t)graph->value_count + 1, sizeof *seen);
    bool *taken = arena_array(&model->arena, (size_t)graph->node_count + 1, sizeof *taken);
    const uint8_t *kinds = model_part_kinds(model);
    inlay_status status = start_part(model, out, diag);

    if (status != INLAY_OK)
        return status;
    if (seen == NULL || taken == NULL || kinds == NULL)
        return no_memory(diag, "to cut the model");
    out->nodes = nodes;
    for (uint32_t d = 0; d < depth && grow(graph, nodes, seen); d++)
        continue;
    take_constants(graph, kinds, nodes, taken);
    memset(seen, 0, graph->value_count * sizeof *seen);
    for (uint32_t i = 0; i < graph->output_count; i++)
        seen[graph->outputs[i]] = true;
    for (uint32_t i = 0; i < graph->node_count; i++)
        for (uint32_t k = 0; !nodes[i] && k < graph_read_count(graph->nodes[i]); k++)
            if (graph_read_at(graph->nodes[i], k) != INLAY_NONE)
                seen[graph_read_at(graph->nodes[i], k)] = true;
    find_border(graph, seen, taken, out);
    if (out->output_count == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the results of these nodes are not used");
    return INLAY_OK;
}

inlay_status model_part_stage(graph_model *model, uint32_t part, uint32_t parts, model_part *out, inlay_diag *diag)
{
    const struct graph *graph = model->main;
    uint64_t place = 0;
    inlay_status status = model_part_between(model, NULL, 0, graph->outputs, graph->output_count, out, diag);

    if (status != INLAY_OK)
        return status;
    if (part >= parts || parts > out->kept)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "part %u of %u: the outputs of the main graph depend on %u nodes, the most parts", part,
                          parts, out->kept);
    for (uint32_t i = 0; i < graph->node_count; i++)
        if (out->nodes[i]) {
            out->nodes[i] =
                place >= (uint64_t)out->kept * part / parts && place < (uint64_t)out->kept * (part + 1) / parts;
            place++;
        }
    return model_part_of(model, out->nodes, 0, out, diag);
}

/* Copies dims of another model, with symbols of this one. NULL: out of memory. */
static const inlay_dim *copy_dims(graph_model *model, const graph_model *from, const inlay_dim *dims, uint32_t rank)
{
    inlay_dim *copy = arena_array(&model->arena, (size_t)rank + 1, sizeof *copy);

    for (uint32_t d = 0; copy != NULL && d < rank; d++) {
        copy[d] = dims[d];
        if (dims[d].kind == INLAY_DIM_SYMBOLIC) {
            copy[d].symbol = graph_symbol(model, from->symbols[dims[d].symbol].name.data);
            if (copy[d].symbol == 0)
                return NULL;
        }
    }
    return copy;
}

/* Declares an input or output of the part with its known type. */
static inlay_status declare(graph_model *model, uint32_t value_index, const struct graph *typed, const char *why,
                            inlay_diag *diag)
{
    graph_value *value = &model->main->values[value_index];
    const uint32_t other = typed != NULL ? graph_find_value(typed, value->info.name.data) : INLAY_NONE;
    const graph_value *known = other != INLAY_NONE ? &typed->values[other] : NULL;

    if (value->declared && value->declared_dtype != INLAY_UNDEFINED && value->declared_rank != INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (known == NULL || known->info.dtype == INLAY_UNDEFINED) {
        if (value->declared && value->declared_dtype != INLAY_UNDEFINED)
            return INLAY_OK;
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "the type of value '%.200s' is unknown, so it cannot be an input or output "
                          "of the part%s%.200s",
                          value->info.name.data, why != NULL ? ": " : "", why != NULL ? why : "");
    }
    value->declared = true;
    value->info.kind = known->info.kind;
    value->inner_kind = known->inner_kind;
    value->map_key = known->map_key;
    value->declared_dtype = known->info.dtype;
    value->declared_rank = known->info.rank;
    if (known->info.rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    value->declared_dims = copy_dims(model, typed->model, known->info.dims, known->info.rank);
    return value->declared_dims != NULL ? INLAY_OK : no_memory(diag, "to cut the model");
}

/* Clears flags and declarations of values that the part does not use, so that they are not written. */
static inlay_status drop_values(graph_model *model, const model_part *part, inlay_diag *diag)
{
    struct graph *graph = model->main;
    bool *used = arena_array(&model->arena, (size_t)graph->value_count + 1, sizeof *used);

    if (used == NULL)
        return no_memory(diag, "to cut the model");
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        for (uint32_t k = 0; part->nodes[i] && k < graph_read_count(node); k++)
            if (graph_read_at(node, k) != INLAY_NONE)
                used[graph_read_at(node, k)] = true;
        for (uint32_t output = 0; part->nodes[i] && output < node->info.output_count; output++)
            if (node->info.outputs[output] != INLAY_NONE)
                used[node->info.outputs[output]] = true;
    }
    for (uint32_t i = 0; i < part->output_count; i++)
        used[part->outputs[i]] = true;
    for (uint32_t value_index = 0; value_index < graph->value_count; value_index++) {
        graph_value *value = &graph->values[value_index];
        const bool is_input = is_listed(part->inputs, part->input_count, value_index);

        value->info.flags &= used[value_index] ? (uint32_t)INLAY_VALUE_CONSTANT : 0;
        value->declared = value->declared && (used[value_index] || is_input);
        if (!is_input)
            value->default_value = NULL;
        if (is_input)
            value->info.flags |= INLAY_VALUE_GRAPH_INPUT;
    }
    for (uint32_t i = 0; i < part->output_count; i++)
        graph->values[part->outputs[i]].info.flags |= INLAY_VALUE_GRAPH_OUTPUT;
    return INLAY_OK;
}

/* A node of the part may also produce a value that is now an input. That output gets a new, unused value. */
static inlay_status rename_produced_inputs(graph_model *model, const model_part *part, inlay_diag *diag)
{
    struct graph *graph = model->main;

    for (uint32_t i = 0; i < part->input_count; i++) {
        const uint32_t value = part->inputs[i], producer = graph->values[value].info.producer;

        for (uint32_t output = 0;
             producer != INLAY_NONE && part->nodes[producer] && output < graph->nodes[producer]->info.output_count;
             output++)
            if (graph->nodes[producer]->info.outputs[output] == value) {
                const uint32_t unread = graph_add_value(graph, NULL, 0);

                if (unread == INLAY_NONE)
                    return no_memory(diag, "to cut the model");
                ((uint32_t *)(uintptr_t)graph->nodes[producer]->info.outputs)[output] = unread;
            }
    }
    return INLAY_OK;
}

inlay_status model_cut(graph_model *model, const model_part *part, const struct graph *typed, const char *why,
                       inlay_diag *diag)
{
    struct graph *graph = model->main;
    inlay_status status = INLAY_OK;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < part->input_count; i++) {
        if (graph_is_constant(graph, part->inputs[i]))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%.200s' is a constant of the model",
                              graph->values[part->inputs[i]].info.name.data);
        INLAY_TRY(declare(model, part->inputs[i], typed, why, diag));
    }
    for (uint32_t i = 0; (typed != NULL || why != NULL) && i < part->output_count; i++)
        INLAY_TRY(declare(model, part->outputs[i], typed, why, diag));
    INLAY_TRY(drop_values(model, part, diag));
    INLAY_TRY(rename_produced_inputs(model, part, diag));
    for (uint32_t i = 0; i < graph->node_count; i++)
        if (part->nodes[i])
            graph->nodes[kept++] = graph->nodes[i];
    INLAY_CHECK(kept == part->kept);
    graph->node_count = kept;
    graph->inputs = part->inputs;
    graph->input_count = part->input_count;
    graph->outputs = part->outputs;
    graph->output_count = part->output_count;
done:
    return status;
}
