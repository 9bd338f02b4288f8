/* model/save_graph.c - graphs, nodes, attributes, types and functions in wire format. */
#include "model/save.h"
#include "base/memory.h"
#include "inlay/check.h"
#include <string.h>

enum { KIND_GRAPH = 5, KIND_TENSORS = 9, KIND_GRAPHS = 10, KIND_SPARSE_TENSOR = 11, KIND_TYPE_PROTO = 13 };

/* The graph that is being written, and the names of its values. */
struct writer {
    struct saver *saver;
    const struct graph *graph;
    const struct writer *outer; /* of the enclosing graph; NULL: none */
    const char **value_names;   /* [value_count] */
    names_table names;          /* the same names */
};

/* Names.
 *
 * In a file, a body refers to an outer value by its name. So a value that represents an outer one is written with the
 * outer name. No other value of a body may have the name of a value of an enclosing graph (ONNX IR, "Names Within a
 * Graph"; ONNX Runtime refuses such files). Inlining of functions and folding create such values; they are renamed. */

/* Does the graph, or one around it, have a value with this name? */
static bool is_taken(const struct writer *out, const char *name)
{
    for (; out != NULL; out = out->outer)
        if (names_find(&out->names, name, strlen(name)) != NAMES_NONE)
            return true;
    return false;
}

static bool set_name(struct writer *out, uint32_t value, const char *name)
{
    out->value_names[value] = name;
    return name != NULL && names_add(&out->names, name, strlen(name), value, NULL);
}

static const char *free_name(const struct writer *out, const char *name)
{
    const char *other = name;

    for (unsigned number = 1; other != NULL && is_taken(out, other); number++)
        other = arena_format(&out->saver->scratch, "%s#%u", name, number);
    return other;
}

static bool name_values(struct writer *out, const graph_body *as_body)
{
    const struct graph *graph = out->graph;
    const uint32_t captures = as_body == NULL ? 0 : as_body->capture_count;
    bool ok = true;

    out->value_names = arena_array(&out->saver->scratch, graph->value_count, sizeof *out->value_names);
    if (out->value_names == NULL)
        return false;
    for (uint32_t c = 0; ok && c < captures; c++)
        ok = set_name(out, as_body->capture_inner[c], out->outer->value_names[as_body->capture_outer[c]]);
    for (uint32_t value = 0; ok && value < graph->value_count; value++)
        if (out->value_names[value] == NULL && !is_taken(out, graph->values[value].info.name.data))
            ok = set_name(out, value, graph->values[value].info.name.data);
    for (uint32_t value = 0; ok && value < graph->value_count; value++)
        if (out->value_names[value] == NULL)
            ok = set_name(out, value, free_name(out, graph->values[value].info.name.data));
    return ok;
}

static const char *name_of(const struct writer *out, uint32_t value)
{
    INLAY_CHECK(value == INLAY_NONE || value < out->graph->value_count);
    return value == INLAY_NONE ? "" : out->value_names[value];
}

static const char *domain_text(const char *domain)
{
    return strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

static void put_tensor_type(const struct writer *out, bool sparse, inlay_dtype dtype, uint32_t rank,
                            const inlay_dim *dims)
{
    struct wire *wire = &out->saver->wire;
    wire_mark type = wire_begin(wire, sparse ? 8 : 1), shape;

    wire_int(wire, 1, dtype);
    if (rank != INLAY_RANK_UNKNOWN) {
        shape = wire_begin(wire, 2);
        for (uint32_t i = 0; i < rank; i++) {
            wire_mark dim = wire_begin(wire, 1);

            if (dims[i].kind == INLAY_DIM_FIXED)
                wire_int(wire, 1, dims[i].value);
            else if (dims[i].kind == INLAY_DIM_SYMBOLIC)
                wire_text(wire, 2, out->graph->model->symbols[dims[i].symbol].name.data);
            wire_end(wire, dim);
        }
        wire_end(wire, shape);
    }
    wire_end(wire, type);
}

/* Begins the messages of one level of nesting; returns the number of wire_end() calls that they need. */
static uint32_t open_level(struct wire *wire, uint32_t kind, inlay_dtype map_key, wire_mark marks[2])
{
    switch (kind) {
    case INLAY_VALUE_SEQUENCE:
        marks[0] = wire_begin(wire, 4);
        marks[1] = wire_begin(wire, 1);
        return 2;
    case INLAY_VALUE_OPTIONAL:
        marks[0] = wire_begin(wire, 9);
        marks[1] = wire_begin(wire, 1);
        return 2;
    case INLAY_VALUE_MAP:
        marks[0] = wire_begin(wire, 5);
        wire_int(wire, 1, map_key);
        marks[1] = wire_begin(wire, 2);
        return 2;
    default:
        return 0;
    }
}

/* Is the declared type of a value written, rather than the inferred one? */
static bool is_as_declared(const graph_value *value, bool inferred)
{
    return value->declared && value->declared_dtype != INLAY_UNDEFINED &&
           !(inferred && value->info.dtype != INLAY_UNDEFINED);
}

/* A value of a body may have no type. A type without an element type, also that of a sequence, is not valid. */
static bool has_type(const graph_value *value)
{
    const bool is_declared = value->declared && value->declared_dtype != INLAY_UNDEFINED;

    return is_declared ||
           (value->info.dtype != INLAY_UNDEFINED && !(value->declared && value->info.kind == INLAY_VALUE_TENSOR));
}

/* The fields of a TypeProto. */
static void put_type(const struct writer *out, const graph_value *value, bool inferred)
{
    struct wire *wire = &out->saver->wire;
    wire_mark marks[4];
    uint32_t open = open_level(wire, value->info.kind, value->map_key, marks);

    if (value->info.kind != INLAY_VALUE_TENSOR)
        open += open_level(wire, value->inner_kind, value->map_key, marks + open);
    if (is_as_declared(value, inferred))
        put_tensor_type(out, value->sparse, value->declared_dtype, value->declared_rank, value->declared_dims);
    else
        put_tensor_type(out, value->sparse, value->info.dtype, value->info.rank, value->info.dims);
    INLAY_CHECK(open <= sizeof marks / sizeof marks[0]);
    while (open > 0)
        wire_end(wire, marks[--open]);
}

static void put_value_info(const struct writer *out, uint32_t field, uint32_t index, bool inferred)
{
    const graph_value *value = &out->graph->values[index];
    struct wire *wire = &out->saver->wire;
    wire_mark mark = wire_begin(wire, field), type;

    wire_text(wire, 1, name_of(out, index));
    if (has_type(value)) {
        type = wire_begin(wire, 2);
        put_type(out, value, inferred);
        wire_end(wire, type);
    }
    wire_text_if(wire, 3, value->doc);
    wire_raw(wire, value->extra.data, (size_t)value->extra.bytes);
    wire_end(wire, mark);
}

/* Are all bits of element i zero? */
static bool is_zero(const inlay_tensor_view *view, uint64_t i)
{
    uint32_t bits = inlay_dtype_bits(view->dtype);
    const uint8_t *bytes = (const uint8_t *)view->data + i * bits / 8;

    if (view->dtype == INLAY_STRING)
        return ((const inlay_str *)view->data)[i].bytes == 0;
    if (bits < 8)
        return (*bytes >> (i * bits % 8) & ((1u << bits) - 1)) == 0;
    for (uint32_t k = 0; k < bits / 8; k++)
        if (bytes[k] != 0)
            return false;
    return true;
}

/* Writes a tensor that was sparse in the file: one entry for each nonzero element. For types of fewer than 8 bits and
 * strings, which are not known to occur, every element is listed, which is equivalent. */
static void put_sparse(struct saver *saver, const inlay_tensor_view *view)
{
    uint32_t bits = inlay_dtype_bits(view->dtype);
    bool all = bits < 8 || view->dtype == INLAY_STRING;
    uint64_t count = 1, kept = 0;

    for (uint32_t i = 0; i < view->rank; i++)
        count *= (uint64_t)view->dims[i];
    int64_t *indices = arena_array(&saver->scratch, (size_t)count, sizeof *indices);
    uint8_t *values = arena_alloc(&saver->scratch, (size_t)view->bytes);
    if (indices == NULL || values == NULL) {
        saver->wire.failed = true;
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!all && is_zero(view, i))
            continue;
        if (!all)
            memcpy(values + kept * (bits / 8), (const uint8_t *)view->data + i * (bits / 8), bits / 8);
        indices[kept++] = (int64_t)i;
    }
    int64_t dims[1] = { (int64_t)kept };
    inlay_tensor_view value_view = { .data = all ? view->data : values,
                                     .bytes = all ? view->bytes : kept * (bits / 8),
                                     .dims = dims,
                                     .rank = 1,
                                     .dtype = view->dtype };
    inlay_tensor_view index_view = {
        .data = indices, .bytes = kept * sizeof *indices, .dims = dims, .rank = 1, .dtype = INLAY_INT64
    };
    wire_mark mark = wire_begin(&saver->wire, 1);
    save_tensor(saver, "", &value_view, false);
    wire_end(&saver->wire, mark);
    mark = wire_begin(&saver->wire, 2);
    save_tensor(saver, "", &index_view, false);
    wire_end(&saver->wire, mark);
    wire_ints(&saver->wire, 3, view->dims, view->rank);
}

static void put_tensor_attr(struct saver *saver, const inlay_attr_info *attribute)
{
    uint32_t field = attribute->kind == INLAY_ATTR_TENSOR ? 5 : attribute->kind == KIND_TENSORS ? 10 : 22;

    for (uint32_t i = 0; i < graph_attr_tensors(attribute); i++) {
        wire_mark mark = wire_begin(&saver->wire, field);

        if (attribute->kind == KIND_SPARSE_TENSOR)
            put_sparse(saver, attribute->tensor);
        else
            save_tensor(saver, "", &attribute->tensor[i], false);
        wire_end(&saver->wire, mark);
    }
}

/* The fields of an AttributeProto. */
static void put_attr(struct saver *saver, const inlay_attr_info *attribute)
{
    struct wire *wire = &saver->wire;

    wire_text(wire, 1, attribute->name.data);
    wire_int(wire, 20, attribute->kind);
    switch (attribute->kind) {
    case INLAY_ATTR_FLOAT:
        wire_float(wire, 2, (float)attribute->f);
        break;
    case INLAY_ATTR_INT:
        wire_int(wire, 3, attribute->i);
        break;
    case INLAY_ATTR_STRING:
        wire_bytes(wire, 4, attribute->s.data, (size_t)attribute->s.bytes);
        break;
    case INLAY_ATTR_FLOATS:
        wire_floats(wire, 7, attribute->floats, attribute->count);
        break;
    case INLAY_ATTR_INTS:
        wire_ints(wire, 8, attribute->ints, attribute->count);
        break;
    case INLAY_ATTR_STRINGS:
        for (uint32_t i = 0; i < attribute->count; i++)
            wire_bytes(wire, 9, attribute->strings[i].data, (size_t)attribute->strings[i].bytes);
        break;
    default:
        if (attribute->tensor != NULL)
            put_tensor_attr(saver, attribute);
        break;
    }
}

static inlay_status put_graph(struct saver *saver, const struct graph *graph, const graph_body *as_body,
                              const struct writer *outer);

/* Writes body b of the node and, if it begins a list, the other bodies of the list. Returns the index after them. */
static uint32_t put_body(const struct writer *out, const graph_node *node, uint32_t b, inlay_status *status)
{
    struct wire *wire = &out->saver->wire;
    const graph_body *first = &node->bodies[b];
    wire_mark attr = wire_begin(wire, 5);

    wire_text(wire, 1, first->attr);
    wire_int(wire, 20, first->in_list ? KIND_GRAPHS : KIND_GRAPH);
    do {
        wire_mark body = wire_begin(wire, first->in_list ? 11 : 6);

        *status = put_graph(out->saver, node->bodies[b].graph, &node->bodies[b], out);
        wire_end(wire, body);
        b++;
    } while (*status == INLAY_OK && first->in_list && b < node->body_count && node->bodies[b].in_list &&
             strcmp(node->bodies[b].attr, first->attr) == 0);
    wire_end(wire, attr);
    return b;
}

static inlay_status put_attributes(const struct writer *out, const graph_node *node)
{
    struct wire *wire = &out->saver->wire;
    inlay_status status = INLAY_OK;
    wire_mark mark;

    for (uint32_t i = 0; i < node->own_attr_count; i++) {
        mark = wire_begin(wire, 5);
        put_attr(out->saver, &node->info.attrs[i]);
        wire_end(wire, mark);
    }
    for (uint32_t i = 0; i < node->ref_count; i++) {
        mark = wire_begin(wire, 5);
        wire_text(wire, 1, node->refs[i].name);
        wire_int(wire, 20, node->refs[i].kind);
        wire_text(wire, 21, node->refs[i].from);
        wire_end(wire, mark);
    }
    if (node->type_attr != NULL) {
        wire_mark type;

        mark = wire_begin(wire, 5);
        wire_text(wire, 1, node->type_attr_name);
        wire_int(wire, 20, KIND_TYPE_PROTO);
        type = wire_begin(wire, 14);
        put_type(out, node->type_attr, false);
        wire_end(wire, type);
        wire_end(wire, mark);
    }
    for (uint32_t b = 0; status == INLAY_OK && b < node->body_count;)
        b = put_body(out, node, b, &status);
    return status;
}

static inlay_status put_nodes(const struct writer *out, uint32_t field)
{
    struct wire *wire = &out->saver->wire;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; status == INLAY_OK && i < out->graph->node_count; i++) {
        const graph_node *node = out->graph->nodes[i];
        wire_mark mark = wire_begin(wire, field);

        for (uint32_t k = 0; k < node->info.input_count; k++)
            wire_text(wire, 1, name_of(out, node->info.inputs[k]));
        for (uint32_t k = 0; k < node->info.output_count; k++)
            wire_text(wire, 2, name_of(out, node->info.outputs[k]));
        wire_text_if(wire, 3, node->info.name.data);
        wire_text(wire, 4, node->info.op_type.data);
        status = put_attributes(out, node);
        wire_text_if(wire, 6, node->doc);
        wire_text_if(wire, 7, domain_text(node->info.domain.data));
        wire_text_if(wire, 8, node->overload);
        wire_raw(wire, node->extra.data, (size_t)node->extra.bytes);
        wire_end(wire, mark);
    }
    return status;
}

/* After inlining functions, a model may have nodes of two versions of a domain, which a file cannot represent. */
static inlay_status check_opsets(const struct writer *out)
{
    const struct graph *graph = out->graph, *root = graph;

    while (root->parent != NULL)
        root = root->parent;
    for (uint32_t i = 0; root == graph->model->main && i < graph->node_count;
         i++) { /* functions have separate imports */
        const graph_node *node = graph->nodes[i];

        if (node->opset != 0 && node->opset != graph_model_opset(graph->model, node->info.domain.data))
            return graph_fail(
                graph, node, NULL, INLAY_UNSUPPORTED, out->saver->diag,
                "the node comes from a function that imports opset %lld of '%.64s', the model %lld; save the "
                "model before its functions are inlined",
                (long long)node->opset, node->info.domain.data,
                (long long)graph_model_opset(graph->model, node->info.domain.data));
    }
    return INLAY_OK;
}

static void put_initializer(const struct writer *out, uint32_t value, const inlay_tensor_view *view)
{
    wire_mark mark = wire_begin(&out->saver->wire, 5);

    save_tensor(out->saver, name_of(out, value), view, true);
    wire_end(&out->saver->wire, mark);
}

static bool put_initializers(const struct writer *out)
{
    const struct graph *graph = out->graph;
    int64_t dims[INLAY_MAX_RANK];

    for (uint32_t value_index = 0; value_index < graph->value_count; value_index++) {
        const graph_value *value = &graph->values[value_index];
        inlay_tensor_view view = { .data = value->info.data,
                                   .bytes = value->info.data_bytes,
                                   .dims = dims,
                                   .rank = value->info.rank,
                                   .dtype = value->info.dtype };

        if (value->default_value != NULL) {
            put_initializer(out, value_index, value->default_value);
        } else if (value->info.flags & INLAY_VALUE_CONSTANT) {
            for (uint32_t i = 0; i < view.rank && i < INLAY_MAX_RANK; i++)
                dims[i] = value->info.dims[i].value;
            put_initializer(out, value_index, &view);
        }
    }
    return true;
}

static void put_interface(const struct writer *out, bool is_body)
{
    const struct graph *graph = out->graph;
    const bool inferred = out->saver->options != NULL && out->saver->options->with_inferred_shapes;
    uint32_t listed = graph->model->ir_version < 4 && !is_body ? 0 : graph->value_count;

    /* Before IR 4 every initializer had to be an input, too. They are listed in the order of their indexes, so that a
     * loader assigns the same indexes to all values. */
    for (uint32_t i = 0; i <= graph->input_count; i++) {
        for (; listed < (i < graph->input_count ? graph->inputs[i] : graph->value_count); listed++)
            if (graph->values[listed].info.flags & INLAY_VALUE_CONSTANT)
                put_value_info(out, 11, listed, true);
        if (i < graph->input_count)
            put_value_info(out, 11, graph->inputs[i], inferred);
    }
    for (uint32_t i = 0; i < graph->output_count; i++)
        put_value_info(out, 12, graph->outputs[i], inferred);
    for (uint32_t value_index = 0; value_index < graph->value_count; value_index++) {
        const graph_value *value = &graph->values[value_index];
        bool known = value->declared || (inferred && value->info.dtype != INLAY_UNDEFINED);

        if (known &&
            (value->info.flags & (INLAY_VALUE_GRAPH_INPUT | INLAY_VALUE_GRAPH_OUTPUT | INLAY_VALUE_CONSTANT)) == 0)
            put_value_info(out, 13, value_index, inferred);
    }
}

/* Writes the fields of a GraphProto. as_body: for a body, the entry of its node, otherwise NULL, as is outer. */
static inlay_status put_graph(struct saver *saver, const struct graph *graph, const graph_body *as_body,
                              const struct writer *outer)
{
    struct writer out = { .saver = saver, .graph = graph, .outer = outer };
    inlay_status status = INLAY_OK;

    if (!name_values(&out, as_body)) {
        status = no_memory(saver->diag, "to save the model");
        goto done;
    }
    INLAY_TRY(check_opsets(&out));
    INLAY_TRY(put_nodes(&out, 1));
    wire_text(&saver->wire, 2, graph->name);
    put_initializers(&out);
    wire_text_if(&saver->wire, 10, graph->doc);
    put_interface(&out, as_body != NULL);
    wire_raw(&saver->wire, graph->extra.data, (size_t)graph->extra.bytes);
done:
    names_deinit(&out.names);
    return status;
}

inlay_status save_graph(struct saver *saver, const struct graph *graph)
{
    return put_graph(saver, graph, NULL, NULL);
}

inlay_status save_function(struct saver *saver, const graph_function *function)
{
    struct writer out = { .saver = saver, .graph = function->body };
    struct wire *wire = &saver->wire;
    inlay_status status = INLAY_OK;

    if (!name_values(&out, NULL)) {
        status = no_memory(saver->diag, "to save the model");
        goto done;
    }
    wire_text(wire, 1, function->name);
    for (uint32_t i = 0; i < function->body->input_count; i++)
        wire_text(wire, 4, name_of(&out, function->body->inputs[i]));
    for (uint32_t i = 0; i < function->body->output_count; i++)
        wire_text(wire, 5, name_of(&out, function->body->outputs[i]));
    for (uint32_t i = 0; i < function->attr_count; i++)
        wire_text(wire, 6, function->attrs[i]);
    INLAY_TRY(put_nodes(&out, 7));
    wire_text_if(wire, 8, function->doc);
    wire_text_if(wire, 10, domain_text(function->domain));
    for (uint32_t i = 0; i < function->default_count; i++) {
        wire_mark mark = wire_begin(wire, 11);

        put_attr(saver, &function->defaults[i]);
        wire_end(wire, mark);
    }
    for (uint32_t value = 0; value < function->body->value_count; value++)
        if (function->body->values[value].declared)
            put_value_info(&out, 12, value, false);
    wire_text_if(wire, 13, function->overload);
    wire_raw(wire, function->extra.data, (size_t)function->extra.bytes);
done:
    names_deinit(&out.names);
    return status;
}
