/* graph/infer.c - types and shapes of all values, node by node.
 *
 * Types follow from the schema where they can (op_infer_types), shapes and the remaining types from the operator's
 * infer function. What the file declares about inner values fills gaps but never overrides: exporters get outputs
 * wrong. */
#include "graph/infer.h"
#include "graph/refit.h"
#include <string.h>

/* The context of op_infer's callbacks. */
typedef struct scope {
    graph_model *model;
    arena *scratch;
} scope;

static void *scope_alloc(void *ctx, size_t bytes)
{
    return arena_alloc(((scope *)ctx)->scratch, bytes);
}

/* Planning may run on several threads, so then no symbol is made: the result becomes unknown instead. */
static uint32_t scope_symbol(void *ctx, const char *name)
{
    scope *s = ctx;

    return s->scratch == &s->model->arena ? graph_symbol(s->model, name) : 0;
}

static const char *scope_symbol_name(void *ctx, uint32_t symbol)
{
    const scope *s = ctx;

    return symbol < s->model->symbol_count ? s->model->symbols[symbol].name.data : NULL;
}

/* Names come from the file: what is reported stays one line. */
static inlay_status one_line(inlay_status status, inlay_diag *diag)
{
    if (status != INLAY_OK && diag != NULL && diag->struct_size >= sizeof *diag)
        for (char *c = diag->text; *c != '\0'; c++)
            if ((unsigned char)*c < ' ' || *c == 0x7f)
                *c = '?';
    return status;
}

/* ------------------------------------------------------------------ one node */

inlay_status graph_infer_node(graph_model *model, const graph_node *n, const inlay_value_info *const *in,
                              inlay_value_info *const *out, arena *scratch, inlay_diag *diag)
{
    scope s = { model, scratch };
    op_infer infer = { .node = &n->info,
                       .in = in,
                       .out = out,
                       .in_count = n->info.input_count,
                       .out_count = n->info.output_count,
                       .ctx = &s,
                       .alloc = scope_alloc,
                       .symbol = scope_symbol,
                       .symbol_name = scope_symbol_name,
                       .diag = diag };
    inlay_status status = INLAY_OK;

    for (uint32_t o = 0; o < n->info.output_count; o++) {
        if (out[o] == NULL)
            continue;
        out[o]->rank = INLAY_RANK_UNKNOWN;
        out[o]->dims = NULL;
        out[o]->elements = NULL;
        out[o]->element_count = 0;
    }
    if (n->body_count > 0)
        status = infer_body_outputs(n, out, scratch);
    else if (n->custom != NULL)
        status = infer_custom(&infer, n->custom);
    else if (n->row != NULL && n->row->infer != NULL)
        status = n->row->infer(&infer);
    return one_line(status, diag);
}

/* ------------------------------------------------------------------ types */

static op_value_type type_of(const graph_value *v)
{
    return (op_value_type){ v->info.kind, v->inner_kind, v->info.dtype, v->map_key };
}

static void set_type(graph_value *v, const op_value_type *type)
{
    v->info.kind = type->kind;
    v->info.dtype = type->dtype;
    v->inner_kind = type->inner_kind;
    v->map_key = type->map_key;
}

void infer_copy_type(graph_value *to, const graph_value *from)
{
    to->info.kind = from->info.kind;
    to->info.dtype = from->info.dtype;
    to->info.rank = from->info.rank;
    to->info.dims = from->info.dims;
    to->inner_kind = from->inner_kind;
    to->map_key = from->map_key;
}

void infer_forget(graph_value *v)
{
    v->info.kind = INLAY_VALUE_TENSOR;
    v->info.dtype = INLAY_UNDEFINED;
    v->info.rank = INLAY_RANK_UNKNOWN;
    v->info.dims = NULL;
    v->info.elements = NULL;
    v->info.element_count = 0;
    v->inner_kind = 0;
    v->map_key = INLAY_UNDEFINED;
}

void infer_use_declared(const graph *g, graph_value *v)
{
    if (!v->declared || (v->info.flags & INLAY_VALUE_CONSTANT) != 0)
        return;
    if (v->info.dtype == INLAY_UNDEFINED && v->info.kind == INLAY_VALUE_TENSOR) {
        v->info.dtype = v->declared_dtype;
        g->model->trusts_file = true;
    }
    if (v->info.rank == INLAY_RANK_UNKNOWN && v->declared_rank != INLAY_RANK_UNKNOWN) {
        v->info.rank = v->declared_rank;
        v->info.dims = v->declared_dims;
        g->model->trusts_file = true;
    }
}

/* Shapes of a model's outputs are what exporters get wrong most. Nothing here needs them, and what is computed counts:
 * there, only the type is taken. */
static void use_declared(const graph *g, graph_value *v)
{
    const uint32_t rank = v->declared_rank;

    if (g->parent == NULL && (v->info.flags & INLAY_VALUE_GRAPH_OUTPUT) != 0)
        v->declared_rank = INLAY_RANK_UNKNOWN;
    infer_use_declared(g, v);
    v->declared_rank = rank;
}

static bool has_list(const graph_node *n, const char *name)
{
    const inlay_attr_info *a = graph_attr(n, name);

    return a != NULL && a->count > 0;
}

static inlay_dtype cast_map_type(const graph_node *n)
{
    const inlay_attr_info *to = graph_attr(n, "cast_to");

    if (to == NULL || strcmp(to->s.data, "TO_FLOAT") == 0)
        return INLAY_FLOAT;
    return strcmp(to->s.data, "TO_STRING") == 0 ? INLAY_STRING : INLAY_INT64;
}

/* The outputs whose type the schema leaves open and the node's inputs and attributes settle: the operators on
 * sequences, optionals and maps. */
static void derive_type(const graph *g, const graph_node *n, op_value_type *out)
{
    const char *op = n->info.op_type.data;
    op_value_type type;

    if (n->row == NULL || (n->row->flags & OP_HOST) == 0 || n->info.output_count == 0 || out[0].kind == 0)
        return;
    if (n->info.input_count == 0 || n->info.inputs[0] == INLAY_NONE) {
        if (strcmp(op, "Optional") == 0 && n->type_attr != NULL) {
            type = type_of(n->type_attr);
            out[0] = (op_value_type){ INLAY_VALUE_OPTIONAL, type.kind, type.dtype, type.map_key };
        } else if (strcmp(op, "SequenceEmpty") == 0) {
            const inlay_attr_info *dtype = graph_attr(n, "dtype");
            inlay_dtype number = dtype != NULL ? (inlay_dtype)dtype->i : INLAY_FLOAT;

            out[0] = (op_value_type){ INLAY_VALUE_SEQUENCE, INLAY_VALUE_TENSOR, number, INLAY_UNDEFINED };
        }
        return;
    }
    type = type_of(&g->values[n->info.inputs[0]]);
    if (strcmp(op, "SequenceConstruct") == 0 || strcmp(op, "SplitToSequence") == 0)
        out[0] = (op_value_type){ INLAY_VALUE_SEQUENCE, INLAY_VALUE_TENSOR, type.dtype, INLAY_UNDEFINED };
    else if (strcmp(op, "SequenceAt") == 0 || strcmp(op, "ConcatFromSequence") == 0)
        out[0] = (op_value_type){ INLAY_VALUE_TENSOR, 0, type.dtype, INLAY_UNDEFINED };
    else if (strcmp(op, "Optional") == 0)
        out[0] = (op_value_type){ INLAY_VALUE_OPTIONAL, type.kind, type.dtype, type.map_key };
    else if (strcmp(op, "ZipMap") == 0)
        out[0] = (op_value_type){ INLAY_VALUE_SEQUENCE, INLAY_VALUE_MAP, INLAY_FLOAT,
                                  has_list(n, "classlabels_int64s") ? INLAY_INT64 : INLAY_STRING };
    else if (strcmp(op, "DictVectorizer") == 0)
        out[0] = (op_value_type){ INLAY_VALUE_TENSOR, 0, type.dtype, INLAY_UNDEFINED };
    else if (strcmp(op, "CastMap") == 0)
        out[0] = (op_value_type){ INLAY_VALUE_TENSOR, 0, cast_map_type(n), INLAY_UNDEFINED };
    else if (strcmp(op, "OptionalGetElement") == 0)
        out[0] =
            type.kind != INLAY_VALUE_OPTIONAL || type.inner_kind == 0
                ? type
                : (op_value_type){ type.inner_kind, type.inner_kind == INLAY_VALUE_SEQUENCE ? INLAY_VALUE_TENSOR : 0,
                                   type.dtype, type.map_key };
}

/* A node of types that came with a later version of its operator becomes one of that version, in a model that is to be
 * converted (graph_model.later_opset): exporters write Conv of bfloat16 for opsets that have none. */
static bool take_later(graph *g, graph_node *n, const op_value_type *in, op_value_type *out)
{
    const op_row *last = n->row, *row;
    const char *why;

    for (int64_t opset = n->opset + 1; n->row != NULL && opset <= g->model->later_opset; opset++, last = row) {
        row =
            strcmp(n->info.domain.data, "ai.onnx") == 0 ? op_find("ai.onnx", n->info.op_type.data, opset, NULL) : NULL;
        if (row == NULL || row == last || !graph_refit(g, n, row, false, &why))
            continue;
        n->row = NULL;
        n->schema = NULL;
        n->opset = opset;
        return graph_bind_node(g, n, NULL) == INLAY_OK &&
               op_infer_types(n->schema, &n->info, in, out, NULL) == INLAY_OK;
    }
    return false;
}

/* The types of out[o], NULL = omitted. */
static inlay_status infer_types(graph *g, graph_node *n, graph_value *const *values, arena *scratch, inlay_diag *diag)
{
    const inlay_node_info *info = &n->info;
    op_value_type small[16], *in = small, *out;
    size_t count = (size_t)info->input_count + info->output_count;
    inlay_status status;

    if (count > sizeof small / sizeof small[0])
        in = arena_array(scratch, count, sizeof *in);
    if (in == NULL)
        return graph_fail(g, n, NULL, INLAY_OUT_OF_MEMORY, diag, "out of memory while inferring types");
    out = in + info->input_count;
    for (uint32_t i = 0; i < info->input_count; i++)
        in[i] = info->inputs[i] == INLAY_NONE ? (op_value_type){ 0 } : type_of(&g->values[info->inputs[i]]);
    for (uint32_t o = 0; o < info->output_count; o++)
        out[o] = (op_value_type){ .kind = INLAY_VALUE_TENSOR };
    if (n->schema != NULL) {
        status = op_infer_types(n->schema, info, in, out, diag);
        if (status != INLAY_OK && !take_later(g, n, in, out))
            return one_line(status, diag);
    }
    derive_type(g, n, out);
    for (uint32_t o = 0; o < info->output_count; o++)
        if (values[o] != NULL)
            set_type(values[o], &out[o]);
    return INLAY_OK;
}

/* Types that an infer function or a body has set must be among those that the schema allows. Constant is exempt: its
 * first version had floats only, and exporters never cared. */
static inlay_status check_outputs(inference *inf, graph *g, const graph_node *n)
{
    if (n->row != NULL && strcmp(n->info.op_type.data, "Constant") == 0)
        return INLAY_OK;
    for (uint32_t o = 0; o < n->info.output_count && n->schema != NULL; o++) {
        const op_formal *formal = op_output_formal(n->schema, o);
        const graph_value *v;
        op_value_type type;
        char got[48], allowed[200];

        if (n->info.outputs[o] == INLAY_NONE || formal == NULL)
            continue;
        v = &g->values[n->info.outputs[o]];
        type = type_of(v);
        if (type.dtype == INLAY_UNDEFINED || op_types_allow(&n->schema->types[formal->type_param].types, &type))
            continue;
        op_value_type_text(&type, got, sizeof got);
        op_types_text(&n->schema->types[formal->type_param].types, allowed, sizeof allowed);
        return graph_fail(g, n, v->info.name.data, INLAY_INVALID_MODEL, inf->diag,
                          "output %u (%.48s) would be %s; %.48s-%u gives %s", o, formal->name, got,
                          n->info.op_type.data, n->info.since_version, allowed);
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ graphs */

/* graph_infer_apart(), of nodes with bodies, too: their outputs get their types here, and shapes from the bodies. */
static inlay_status infer_outputs(inference *inf, graph *g, graph_node *n, graph_value *const *out, arena *scratch)
{
    const inlay_node_info *info = &n->info;
    const inlay_value_info **in = arena_array(scratch, (size_t)info->input_count + 1, sizeof *in);
    inlay_value_info **made = arena_array(scratch, (size_t)info->output_count + 1, sizeof *made);
    inlay_status status = INLAY_OK;

    if (in == NULL || made == NULL)
        return graph_fail(g, n, NULL, INLAY_OUT_OF_MEMORY, inf->diag, "out of memory while inferring shapes");
    for (uint32_t i = 0; i < info->input_count; i++)
        in[i] = info->inputs[i] == INLAY_NONE ? NULL : &g->values[info->inputs[i]].info;
    for (uint32_t o = 0; o < info->output_count; o++) {
        made[o] = out[o] == NULL ? NULL : &out[o]->info;
        if (out[o] != NULL)
            infer_forget(out[o]);
    }
    INLAY_TRY(infer_types(g, n, out, scratch, inf->diag));
    status =
        n->body_count > 0 ? infer_bodies(inf, g, n) : graph_infer_node(inf->model, n, in, made, scratch, inf->diag);
done:
    return status;
}

static inlay_status infer_one(inference *inf, graph *g, graph_node *n)
{
    const inlay_node_info *info = &n->info;
    graph_value **out = arena_array(&inf->model->arena, (size_t)info->output_count + 1, sizeof(graph_value *));
    inlay_status status = INLAY_OK;

    if (out == NULL)
        return graph_fail(g, n, NULL, INLAY_OUT_OF_MEMORY, inf->diag, "out of memory while inferring shapes");
    for (uint32_t o = 0; o < info->output_count; o++)
        out[o] = info->outputs[o] == INLAY_NONE ? NULL : &g->values[info->outputs[o]];
    INLAY_TRY(infer_outputs(inf, g, n, out, &inf->model->arena));
    for (uint32_t o = 0; o < info->output_count; o++)
        if (out[o] != NULL)
            use_declared(g, out[o]);
    INLAY_TRY(check_outputs(inf, g, n));
done:
    return status;
}

inlay_status graph_infer_apart(const graph *g, const graph_node *n, graph_value *const *out, arena *scratch,
                               inlay_diag *diag)
{
    inference inf = { .model = g->model, .diag = diag };

    return infer_outputs(&inf, (graph *)(uintptr_t)g, (graph_node *)(uintptr_t)n, out, scratch);
}

/* false: *status is an error that ends the inference. */
static bool infer_or_note(inference *inf, graph *g, graph_node *n, inlay_status *status)
{
    *status = infer_one(inf, g, n);
    if (*status == INLAY_OK)
        return true;
    for (uint32_t o = 0; inf->model->collect && o < n->info.output_count; o++) { /* the next must not stumble, too */
        if (n->info.outputs[o] == INLAY_NONE)
            continue;
        infer_forget(&g->values[n->info.outputs[o]]);
        infer_use_declared(g, &g->values[n->info.outputs[o]]);
    }
    return graph_goes_on(inf->model, g, n, status, inf->diag);
}

inlay_status infer_graph(inference *inf, graph *g)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < g->node_count; i++)
        if (!infer_or_note(inf, g, g->nodes[i], &status))
            break;
    return status;
}

inlay_status graph_infer(graph_model *model, inlay_diag *diag)
{
    inference inf = { .model = model, .diag = diag };

    return infer_graph(&inf, model->main);
}
