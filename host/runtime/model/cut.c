/* model/cut.c - see cut.h. Works on models as they stand in the file: functions stay functions. */
#include "model/cut.h"
#include "base/memory.h"
#include "base/order.h"
#include <string.h>

static bool is_constant(const struct graph *g, uint32_t v)
{
    return (g->values[v].info.flags & INLAY_VALUE_CONSTANT) != 0;
}

/* The k-th value that a node reads, captures of its bodies included. */
static uint32_t read_count(const graph_node *n)
{
    return n->info.input_count + n->capture_count;
}

static uint32_t nth_read(const graph_node *n, uint32_t k)
{
    return k < n->info.input_count ? n->info.inputs[k] : n->captures[k - n->info.input_count];
}

/* ------------------------------------------------------------------ which nodes */

static inlay_status start_part(graph_model *model, model_part *out, inlay_diag *diag)
{
    const struct graph *g = model->main;

    *out = (model_part){ 0 };
    out->nodes = arena_array(&model->arena, (size_t)g->node_count + 1, sizeof *out->nodes);
    out->inputs = arena_array(&model->arena, (size_t)g->value_count + 1, sizeof *out->inputs);
    out->outputs = arena_array(&model->arena, (size_t)g->value_count + 1, sizeof *out->outputs);
    return out->nodes == NULL || out->inputs == NULL || out->outputs == NULL ? no_memory(diag, "to cut the model")
                                                                             : INLAY_OK;
}

/* Marks in wanted [value_count] what the outputs need, from the last node to the first: they are in topological
 * order. */
static void mark_needed(const struct graph *g, const bool *ends, bool *wanted, model_part *out)
{
    for (uint32_t i = g->node_count; i-- > 0;) {
        const graph_node *n = g->nodes[i];
        bool needed = false;

        for (uint32_t o = 0; o < n->info.output_count; o++)
            needed |= n->info.outputs[o] != INLAY_NONE && wanted[n->info.outputs[o]] && !ends[n->info.outputs[o]];
        if (!needed)
            continue;
        out->nodes[i] = true;
        out->kept++;
        for (uint32_t k = 0; k < read_count(n); k++)
            if (nth_read(n, k) != INLAY_NONE)
                wanted[nth_read(n, k)] = true;
    }
}

inlay_status model_part_between(graph_model *model, const uint32_t *inputs, uint32_t input_count,
                                const uint32_t *outputs, uint32_t output_count, model_part *out, inlay_diag *diag)
{
    const struct graph *g = model->main;
    bool *wanted = arena_array(&model->arena, (size_t)g->value_count + 1, sizeof *wanted);
    bool *ends = arena_array(&model->arena, (size_t)g->value_count + 1, sizeof *ends);
    inlay_status status = start_part(model, out, diag);

    if (status != INLAY_OK)
        return status;
    if (wanted == NULL || ends == NULL)
        return no_memory(diag, "to cut the model");
    for (uint32_t i = 0; i < input_count; i++)
        ends[inputs[i]] = true;
    for (uint32_t i = 0; i < output_count; i++)
        wanted[outputs[i]] = true;
    mark_needed(g, ends, wanted, out);
    for (uint32_t i = 0; i < input_count; i++) {
        if (!wanted[inputs[i]])
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%.200s': the outputs do not depend on it",
                              g->values[inputs[i]].info.name.data);
        out->inputs[out->input_count++] = inputs[i];
    }
    for (uint32_t i = 0; i < g->input_count; i++) {
        const uint32_t v = g->inputs[i];

        if (!wanted[v] || ends[v])
            continue;
        if (input_count > 0 && g->values[v].default_value == NULL)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "the outputs also depend on input '%.200s' of the model; "
                              "name it, too, or a value behind it",
                              g->values[v].info.name.data);
        out->inputs[out->input_count++] = v;
    }
    if (output_count > 0)
        memcpy(out->outputs, outputs, output_count * sizeof *outputs);
    out->output_count = output_count;
    return INLAY_OK;
}

/* One more ring of neighbours: who makes what a node reads, and who reads what it makes. */
static bool grow(const struct graph *g, bool *nodes, bool *touched)
{
    bool grew = false;

    memset(touched, 0, g->value_count * sizeof *touched);
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];

        for (uint32_t k = 0; nodes[i] && k < read_count(n); k++)
            if (nth_read(n, k) != INLAY_NONE && !is_constant(g, nth_read(n, k)))
                touched[nth_read(n, k)] = true;
        for (uint32_t o = 0; nodes[i] && o < n->info.output_count; o++)
            if (n->info.outputs[o] != INLAY_NONE)
                touched[n->info.outputs[o]] = true;
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];
        bool near = false;

        for (uint32_t o = 0; o < n->info.output_count; o++)
            near |= n->info.outputs[o] != INLAY_NONE && touched[n->info.outputs[o]];
        for (uint32_t k = 0; k < read_count(n); k++)
            near |= nth_read(n, k) != INLAY_NONE && touched[nth_read(n, k)];
        grew |= near && !nodes[i];
        nodes[i] |= near;
    }
    return grew;
}

/* Constant nodes that the part reads come along: what they make is nothing to be handed in. */
static void take_constants(const struct graph *g, bool *nodes)
{
    for (uint32_t i = 0; i < g->node_count; i++)
        for (uint32_t k = 0; nodes[i] && k < read_count(g->nodes[i]); k++) {
            const uint32_t v = nth_read(g->nodes[i], k);
            const uint32_t maker = v != INLAY_NONE ? g->values[v].info.producer : INLAY_NONE;

            if (maker != INLAY_NONE && strcmp(g->nodes[maker]->info.op_type.data, "Constant") == 0)
                nodes[maker] = true;
        }
}

/* Values that cross the border, in the order of the nodes. */
static void find_border(const struct graph *g, const bool *used_outside, model_part *out)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];

        for (uint32_t k = 0; out->nodes[i] && k < read_count(n); k++) {
            const uint32_t v = nth_read(n, k);
            const uint32_t maker = v != INLAY_NONE ? g->values[v].info.producer : INLAY_NONE;

            if (v != INLAY_NONE && !is_constant(g, v) && (maker == INLAY_NONE || !out->nodes[maker]) &&
                !is_listed(out->inputs, out->input_count, v))
                out->inputs[out->input_count++] = v;
        }
        for (uint32_t o = 0; out->nodes[i] && o < n->info.output_count; o++)
            if (n->info.outputs[o] != INLAY_NONE && used_outside[n->info.outputs[o]])
                out->outputs[out->output_count++] = n->info.outputs[o];
        out->kept += out->nodes[i];
    }
}

inlay_status model_part_of(graph_model *model, bool *nodes, uint32_t depth, model_part *out, inlay_diag *diag)
{
    const struct graph *g = model->main;
    bool *seen = arena_array(&model->arena, (size_t)g->value_count + 1, sizeof *seen);
    inlay_status status = start_part(model, out, diag);

    if (status != INLAY_OK)
        return status;
    if (seen == NULL)
        return no_memory(diag, "to cut the model");
    out->nodes = nodes;
    for (uint32_t d = 0; d < depth && grow(g, nodes, seen); d++)
        continue;
    take_constants(g, nodes);
    memset(seen, 0, g->value_count * sizeof *seen);
    for (uint32_t i = 0; i < g->output_count; i++)
        seen[g->outputs[i]] = true;
    for (uint32_t i = 0; i < g->node_count; i++)
        for (uint32_t k = 0; !nodes[i] && k < read_count(g->nodes[i]); k++)
            if (nth_read(g->nodes[i], k) != INLAY_NONE)
                seen[nth_read(g->nodes[i], k)] = true;
    find_border(g, seen, out);
    if (out->output_count == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "nothing reads what these nodes compute");
    return INLAY_OK;
}

/* ------------------------------------------------------------------ the cut */

/* The dims of another model in terms of this one. NULL: no memory. */
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

/* Declares a value at the cut with the type that is known of it. */
static inlay_status declare(graph_model *model, uint32_t v, const struct graph *typed, const char *why,
                            inlay_diag *diag)
{
    graph_value *value = &model->main->values[v];
    const uint32_t other = typed != NULL ? graph_find_value(typed, value->info.name.data) : INLAY_NONE;
    const graph_value *known = other != INLAY_NONE ? &typed->values[other] : NULL;

    if (value->declared && value->declared_dtype != INLAY_UNDEFINED && value->declared_rank != INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (known == NULL || known->info.dtype == INLAY_UNDEFINED) {
        if (value->declared && value->declared_dtype != INLAY_UNDEFINED)
            return INLAY_OK;
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "the type of value '%.200s' is not known, so nothing can begin or end "
                          "there%s%.200s",
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

/* What no node of the part has to do with is not written: neither as an initializer nor as a type. */
static inlay_status drop_values(graph_model *model, const model_part *part, inlay_diag *diag)
{
    struct graph *g = model->main;
    bool *used = arena_array(&model->arena, (size_t)g->value_count + 1, sizeof *used);

    if (used == NULL)
        return no_memory(diag, "to cut the model");
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];

        for (uint32_t k = 0; part->nodes[i] && k < read_count(n); k++)
            if (nth_read(n, k) != INLAY_NONE)
                used[nth_read(n, k)] = true;
        for (uint32_t o = 0; part->nodes[i] && o < n->info.output_count; o++)
            if (n->info.outputs[o] != INLAY_NONE)
                used[n->info.outputs[o]] = true;
    }
    for (uint32_t i = 0; i < part->output_count; i++)
        used[part->outputs[i]] = true;
    for (uint32_t v = 0; v < g->value_count; v++) {
        graph_value *value = &g->values[v];
        const bool is_input = is_listed(part->inputs, part->input_count, v);

        value->info.flags &= used[v] ? (uint32_t)INLAY_VALUE_CONSTANT : 0;
        value->declared = value->declared && (used[v] || is_input);
        if (!is_input)
            value->default_value = NULL;
        if (is_input)
            value->info.flags |= INLAY_VALUE_GRAPH_INPUT;
    }
    for (uint32_t i = 0; i < part->output_count; i++)
        g->values[part->outputs[i]].info.flags |= INLAY_VALUE_GRAPH_OUTPUT;
    return INLAY_OK;
}

/* A node that is kept for another result of its may still make what is now an input: that one gets a name nobody reads.
 */
static inlay_status rename_made(graph_model *model, const model_part *part, inlay_diag *diag)
{
    struct graph *g = model->main;

    for (uint32_t i = 0; i < part->input_count; i++) {
        const uint32_t v = part->inputs[i], maker = g->values[v].info.producer;

        for (uint32_t o = 0; maker != INLAY_NONE && part->nodes[maker] && o < g->nodes[maker]->info.output_count; o++)
            if (g->nodes[maker]->info.outputs[o] == v) {
                const uint32_t unread = graph_add_value(g, NULL, 0);

                if (unread == INLAY_NONE)
                    return no_memory(diag, "to cut the model");
                ((uint32_t *)(uintptr_t)g->nodes[maker]->info.outputs)[o] = unread;
            }
    }
    return INLAY_OK;
}

inlay_status model_cut(graph_model *model, const model_part *part, const struct graph *typed, const char *why,
                       inlay_diag *diag)
{
    struct graph *g = model->main;
    inlay_status status = INLAY_OK;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < part->input_count; i++) {
        if (is_constant(g, part->inputs[i]))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%.200s' is a constant of the model",
                              g->values[part->inputs[i]].info.name.data);
        INLAY_TRY(declare(model, part->inputs[i], typed, why, diag));
    }
    for (uint32_t i = 0; i < part->output_count; i++)
        INLAY_TRY(declare(model, part->outputs[i], typed, why, diag));
    INLAY_TRY(drop_values(model, part, diag));
    INLAY_TRY(rename_made(model, part, diag));
    for (uint32_t i = 0; i < g->node_count; i++)
        if (part->nodes[i])
            g->nodes[kept++] = g->nodes[i];
    g->node_count = kept;
    g->inputs = part->inputs;
    g->input_count = part->input_count;
    g->outputs = part->outputs;
    g->output_count = part->output_count;
done:
    return status;
}
