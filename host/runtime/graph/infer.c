/* graph/infer.c - types and shapes of all values, node by node.
 *
 * Types are derived from the schema if possible (op_infer_types), shapes and the remaining types by the operator's
 * infer function. Types and shapes that the file declares are used only where inference yields none, because exporters
 * often declare wrong ones. */
#include "graph/infer.h"
#include "graph/change_version.h"
#include "inlay/check.h"
#include <string.h>

/* The context of op_infer's callbacks. */
struct scope {
    graph_model *model;
    struct arena *scratch;
};

static void *scope_alloc(void *ctx, size_t bytes)
{
    return arena_alloc(((struct scope *)ctx)->scratch, bytes);
}

/* Planning may run on several threads, so it creates no symbols: the dimension becomes unknown instead. */
static uint32_t scope_symbol(void *ctx, const char *name)
{
    struct scope *scope = ctx;

    return scope->scratch == &scope->model->arena ? graph_symbol(scope->model, name) : 0;
}

static const char *scope_symbol_name(void *ctx, uint32_t symbol)
{
    const struct scope *scope = ctx;

    return symbol < scope->model->symbol_count ? scope->model->symbols[symbol].name.data : NULL;
}

/* Replaces control characters, because names in the message come from the file. */
static inlay_status one_line(inlay_status status, inlay_diag *diag)
{
    if (status != INLAY_OK && diag != NULL && diag->struct_size >= sizeof *diag)
        for (char *at = diag->text; *at != '\0'; at++)
            if ((unsigned char)*at < ' ' || *at == 0x7f)
                *at = '?';
    return status;
}

inlay_status graph_infer_node(graph_model *model, const graph_node *node, const inlay_value_info *const *in,
                              inlay_value_info *const *out, struct arena *scratch, inlay_diag *diag)
{
    struct scope scope = { model, scratch };
    op_infer infer = { .node = &node->info,
                       .in = in,
                       .out = out,
                       .in_count = node->info.input_count,
                       .out_count = node->info.output_count,
                       .ctx = &scope,
                       .alloc = scope_alloc,
                       .symbol = scope_symbol,
                       .symbol_name = scope_symbol_name,
                       .diag = diag };
    inlay_status status = INLAY_OK;

    for (uint32_t o = 0; o < node->info.output_count; o++) {
        if (out[o] == NULL)
            continue;
        out[o]->rank = INLAY_RANK_UNKNOWN;
        out[o]->dims = NULL;
        out[o]->elements = NULL;
        out[o]->element_count = 0;
    }
    if (node->body_count > 0)
        status = infer_body_outputs(node, out, scratch);
    else if (node->custom != NULL)
        status = infer_custom(&infer, node->custom);
    else if (node->row != NULL && node->row->infer != NULL)
        status = node->row->infer(&infer);
    return one_line(status, diag);
}

static void set_type(graph_value *value, const op_value_type *type)
{
    value->info.kind = type->kind;
    value->info.dtype = type->dtype;
    value->inner_kind = type->inner_kind;
    value->map_key = type->map_key;
}

/* As infer_use_declared(), but uses only the declared type for outputs of the model: exporters often declare wrong
 * output shapes, and inference does not need them. */
static void use_declared(const struct graph *graph, graph_value *value)
{
    const uint32_t rank = value->declared_rank;

    if (graph->parent == NULL && (value->info.flags & INLAY_VALUE_GRAPH_OUTPUT) != 0)
        value->declared_rank = INLAY_RANK_UNKNOWN;
    infer_use_declared(graph, value);
    value->declared_rank = rank;
}

/* In a model that is being converted (graph_model.later_opset): binds a node whose types its operator version does not
 * support to a later version that does. Exporters write Conv of bfloat16 for opsets without it, for example. */
static bool bind_later_version(struct graph *graph, graph_node *node, const op_value_type *in, op_value_type *out)
{
    const op_row *last = node->row, *row;
    const char *why;

    for (int64_t opset = node->opset + 1; node->row != NULL && opset <= graph->model->later_opset;
         opset++, last = row) {
        row = strcmp(node->info.domain.data, "ai.onnx") == 0 ? op_find("ai.onnx", node->info.op_type.data, opset, NULL)
                                                             : NULL;
        if (row == NULL || row == last || !graph_change_version(graph, node, row, false, &why))
            continue;
        node->row = NULL;
        node->schema = NULL;
        node->opset = opset;
        return graph_bind_node(graph, node, NULL) == INLAY_OK &&
               op_infer_types(node->schema, &node->info, in, out, NULL) == INLAY_OK;
    }
    return false;
}

/* Sets the types of values[o], the node's outputs (NULL = omitted). */
static inlay_status infer_types(struct graph *graph, graph_node *node, graph_value *const *values,
                                struct arena *scratch, inlay_diag *diag)
{
    const inlay_node_info *info = &node->info;
    op_value_type small[16], *in = small, *out;
    size_t count = (size_t)info->input_count + info->output_count;
    inlay_status status;

    if (count > sizeof small / sizeof small[0])
        in = arena_array(scratch, count, sizeof *in);
    if (in == NULL)
        return graph_fail(graph, node, NULL, INLAY_OUT_OF_MEMORY, diag, "out of memory while inferring types");
    out = in + info->input_count;
    for (uint32_t i = 0; i < info->input_count; i++)
        in[i] = info->inputs[i] == INLAY_NONE ? (op_value_type){ 0 } : infer_type_of(&graph->values[info->inputs[i]]);
    for (uint32_t o = 0; o < info->output_count; o++)
        out[o] = (op_value_type){ .kind = INLAY_VALUE_TENSOR };
    if (node->schema != NULL) {
        status = op_infer_types(node->schema, info, in, out, diag);
        if (status != INLAY_OK && !bind_later_version(graph, node, in, out))
            return one_line(status, diag);
    }
    infer_derive_type(graph, node, out);
    for (uint32_t o = 0; o < info->output_count; o++)
        if (values[o] != NULL)
            set_type(values[o], &out[o]);
    return INLAY_OK;
}

/* Checks that the schema allows the types that an infer function or a body has set. Constant is exempt: its first
 * version allowed only floats, but exporters wrote other types. */
static inlay_status check_outputs(struct inference *inf, struct graph *graph, const graph_node *node)
{
    if (node->row != NULL && strcmp(node->info.op_type.data, "Constant") == 0)
        return INLAY_OK;
    for (uint32_t output = 0; output < node->info.output_count && node->schema != NULL; output++) {
        const op_formal *formal = op_output_formal(node->schema, output);
        const graph_value *value;
        op_value_type type;
        char got[48], allowed[200];

        if (node->info.outputs[output] == INLAY_NONE || formal == NULL)
            continue;
        value = &graph->values[node->info.outputs[output]];
        type = infer_type_of(value);
        if (type.dtype == INLAY_UNDEFINED || op_types_allow(&node->schema->types[formal->type_param].types, &type))
            continue;
        op_value_type_text(&type, got, sizeof got);
        op_types_text(&node->schema->types[formal->type_param].types, allowed, sizeof allowed);
        return graph_fail(graph, node, value->info.name.data, INLAY_INVALID_MODEL, inf->diag,
                          "output %u (%.48s) would be %s; %.48s-%u gives %s", output, formal->name, got,
                          node->info.op_type.data, node->info.since_version, allowed);
    }
    return INLAY_OK;
}

/* Implements graph_infer_detached_node(), also for nodes with bodies, whose outputs get their types and shapes from the
 * bodies. */
static inlay_status infer_outputs(struct inference *inf, struct graph *graph, graph_node *node, graph_value *const *out,
                                  struct arena *scratch)
{
    const inlay_node_info *info = &node->info;
    const inlay_value_info **in = arena_array(scratch, (size_t)info->input_count + 1, sizeof *in);
    inlay_value_info **out_infos = arena_array(scratch, (size_t)info->output_count + 1, sizeof *out_infos);
    inlay_status status = INLAY_OK;

    if (in == NULL || out_infos == NULL)
        return graph_fail(graph, node, NULL, INLAY_OUT_OF_MEMORY, inf->diag, "out of memory while inferring shapes");
    for (uint32_t i = 0; i < info->input_count; i++)
        in[i] = info->inputs[i] == INLAY_NONE ? NULL : &graph->values[info->inputs[i]].info;
    for (uint32_t o = 0; o < info->output_count; o++) {
        out_infos[o] = out[o] == NULL ? NULL : &out[o]->info;
        if (out[o] != NULL)
            infer_forget(out[o]);
    }
    INLAY_TRY(infer_types(graph, node, out, scratch, inf->diag));
    status = node->body_count > 0 ? infer_bodies(inf, graph, node)
                                  : graph_infer_node(inf->model, node, in, out_infos, scratch, inf->diag);
done:
    return status;
}

static inlay_status infer_one(struct inference *inf, struct graph *graph, graph_node *node)
{
    const inlay_node_info *info = &node->info;
    graph_value **out = arena_array(&inf->model->arena, (size_t)info->output_count + 1, sizeof(graph_value *));
    inlay_status status = INLAY_OK;

    if (out == NULL)
        return graph_fail(graph, node, NULL, INLAY_OUT_OF_MEMORY, inf->diag, "out of memory while inferring shapes");
    for (uint32_t output = 0; output < info->output_count; output++)
        out[output] = info->outputs[output] == INLAY_NONE ? NULL : &graph->values[info->outputs[output]];
    INLAY_TRY(infer_outputs(inf, graph, node, out, &inf->model->arena));
    for (uint32_t o = 0; o < info->output_count; o++)
        if (out[o] != NULL)
            use_declared(graph, out[o]);
    INLAY_TRY(check_outputs(inf, graph, node));
done:
    return status;
}

inlay_status graph_infer_detached_node(const struct graph *graph, const graph_node *node, graph_value *const *out,
                                       struct arena *scratch, inlay_diag *diag)
{
    struct inference inf = { .model = graph->model, .diag = diag };

    return infer_outputs(&inf, (struct graph *)(uintptr_t)graph, (graph_node *)(uintptr_t)node, out, scratch);
}

/* Infers a node; records its error if the model collects errors. False: *status is an error that ends the inference. */
static bool infer_or_note(struct inference *inf, struct graph *graph, graph_node *node, inlay_status *status)
{
    *status = infer_one(inf, graph, node);
    if (*status == INLAY_OK)
        return true;
    for (uint32_t output = 0; inf->model->findings.collect && output < node->info.output_count;
         output++) { /* prevents follow-up errors in later nodes */
        if (node->info.outputs[output] == INLAY_NONE)
            continue;
        infer_forget(&graph->values[node->info.outputs[output]]);
        infer_use_declared(graph, &graph->values[node->info.outputs[output]]);
    }
    return graph_continue_after_error(inf->model, graph, node, status, inf->diag);
}

inlay_status infer_graph(struct inference *inf, struct graph *graph)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < graph->node_count; i++)
        if (!infer_or_note(inf, graph, graph->nodes[i], &status))
            break;
    return status;
}

inlay_status graph_infer_from(struct graph *graph, uint32_t first, inlay_diag *diag)
{
    struct inference inf = { .model = graph->model, .diag = diag };
    inlay_status status = INLAY_OK;

    INLAY_CHECK(first <= graph->node_count);
    for (uint32_t i = first; i < graph->node_count && status == INLAY_OK; i++)
        status = infer_one(&inf, graph, graph->nodes[i]);
    return status;
}

inlay_status graph_infer(graph_model *model, inlay_diag *diag)
{
    struct inference inf = { .model = model, .diag = diag };

    return infer_graph(&inf, model->main);
}
