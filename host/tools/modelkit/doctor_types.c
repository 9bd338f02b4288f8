/* Repairs of element types that an operator does not take, where only one repair is possible. */
#include "modelkit/doctor_types.h"
#include "modelkit/edit.h"
#include "inlay/check.h"

/* The type of an input; kind 0: omitted, unknown, or no tensor. */
static op_value_type type_of(const struct graph *graph, const graph_node *node, uint32_t i)
{
    const inlay_value_info *info =
        node->info.inputs[i] == INLAY_NONE ? NULL : &graph->values[node->info.inputs[i]].info;

    return info != NULL && info->kind == INLAY_VALUE_TENSOR && info->dtype != INLAY_UNDEFINED
               ? (op_value_type){ .kind = info->kind, .dtype = info->dtype }
               : (op_value_type){ 0 };
}

/* The set of types of an input; NULL: the schema has no such input. */
static const op_types *types_of(const graph_node *node, uint32_t i)
{
    const op_formal *formal = node->schema == NULL ? NULL : op_input_formal(node->schema, i);

    return formal == NULL ? NULL : &node->schema->types[formal->type_param].types;
}

static bool is_float(inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT || dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16 || dtype == INLAY_DOUBLE;
}

/* int32 where only int64 is possible. INLAY_UNDEFINED: not so. */
static inlay_dtype wider_index(const graph_node *node, uint32_t i, op_value_type type)
{
    const op_types *types = types_of(node, i);
    op_value_type only = { 0 };

    return type.dtype == INLAY_INT32 && types != NULL && op_types_single(types, &only) && only.dtype == INLAY_INT64
               ? INLAY_INT64
               : INLAY_UNDEFINED;
}

/* For a float constant whose type differs from that of the computed inputs with the same type parameter: their type;
 * otherwise INLAY_UNDEFINED. */
static inlay_dtype type_beside(const struct graph *graph, const graph_node *node, uint32_t i, op_value_type type)
{
    const op_formal *formal = op_input_formal(node->schema, i);
    inlay_dtype found = INLAY_UNDEFINED;

    if (formal == NULL || formal->option == OP_VARIADIC_MIXED || !is_float(type.dtype) ||
        (graph->values[node->info.inputs[i]].info.flags & INLAY_VALUE_CONSTANT) == 0)
        return INLAY_UNDEFINED;
    for (uint32_t k = 0; k < node->info.input_count; k++) {
        const op_formal *other = op_input_formal(node->schema, k);
        const op_value_type beside = type_of(graph, node, k);

        if (other == NULL || other->type_param != formal->type_param || beside.kind == 0 ||
            (graph->values[node->info.inputs[k]].info.flags & INLAY_VALUE_CONSTANT) != 0)
            continue;
        if (!is_float(beside.dtype) || (found != INLAY_UNDEFINED && found != beside.dtype))
            return INLAY_UNDEFINED;
        found = beside.dtype;
    }
    return found == type.dtype ? INLAY_UNDEFINED : found;
}

static inlay_status cast_inputs(struct graph *graph, uint32_t *count, inlay_diag *diag)
{
    const uint32_t nodes = graph->node_count;
    struct editor editor;
    inlay_status status = INLAY_OK;

    edit_begin(&editor, graph);
    for (uint32_t n = 0; n < nodes && status == INLAY_OK && !editor.failed; n++) {
        graph_node *node = graph->nodes[n];

        for (uint32_t b = 0; b < node->body_count && status == INLAY_OK; b++)
            status = cast_inputs(node->bodies[b].graph, count, diag);
        for (uint32_t i = 0; i < node->info.input_count && node->schema != NULL; i++) {
            const op_value_type type = type_of(graph, node, i);
            const uint32_t value = node->info.inputs[i];
            graph_node *cast = NULL;
            inlay_dtype to;
            uint32_t made;

            if (type.kind == 0)
                continue;
            to = wider_index(node, i, type);
            if (to == INLAY_UNDEFINED)
                to = type_beside(graph, node, i, type);
            if (to == INLAY_UNDEFINED)
                continue;
            made =
                edit_node(&editor, graph->values[value].info.name.data, "_cast", "Cast", "ai.onnx", &value, 1, &cast);
            edit_int(&editor, cast, "to", to);
            if (made == INLAY_NONE)
                break;
            edit_input(node, i, made);
            ++*count;
        }
    }
    if (status == INLAY_OK)
        return edit_finish(&editor, diag);
    names_deinit(&editor.names);
    return status;
}

inlay_status doctor_insert_casts(graph_model *model, uint32_t *out_count, inlay_diag *diag)
{
    *out_count = 0;
    return cast_inputs(model->main, out_count, diag);
}

uint32_t doctor_count_disallowed(const struct graph *graph)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        const graph_node *node = graph->nodes[n];

        for (uint32_t b = 0; b < node->body_count; b++)
            count += doctor_count_disallowed(node->bodies[b].graph);
        for (uint32_t i = 0; i < node->info.input_count; i++) {
            const op_value_type type = type_of(graph, node, i);
            const op_types *types = types_of(node, i);

            count += type.kind != 0 && types != NULL && !op_types_allow(types, &type);
        }
    }
    return count;
}
