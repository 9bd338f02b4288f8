/* model/save_graph.c - graphs, nodes, attributes, types and functions in wire form. */
#include "model/save.h"
#include "base/memory.h"
#include <string.h>

enum { KIND_GRAPH = 5, KIND_TENSORS = 9, KIND_GRAPHS = 10, KIND_SPARSE_TENSOR = 11, KIND_TYPE_PROTO = 13 };

/* What is being written: a graph, and the names that its values get. */
struct writer {
    struct saver *s;
    const struct graph *g;
    const char **value_names; /* [value_count] */
};

/* ------------------------------------------------------------------ names
 *
 * In the file a body sees an outer value by its name, so a value that stands for an outer one is written under the
 * outer one's name; and where inlining has made an inner value's name equal to such a name, the inner one gives way. */

static const char *free_name(struct saver *s, names_table *taken, const char *name)
{
    for (unsigned number = 1;; number++) {
        const char *other = arena_format(&s->scratch, "%s#%u", name, number);
        uint32_t present = NAMES_NONE;

        if (other == NULL || !names_add(taken, other, strlen(other), 0, &present))
            return NULL;
        if (present == NAMES_NONE)
            return other;
    }
}

static bool name_values(struct writer *out, const graph_body *as_body, const char *const *outer_names)
{
    const struct graph *g = out->g;
    uint32_t captures = as_body == NULL ? 0 : as_body->capture_count;
    names_table taken = { 0 };
    bool ok = true;

    out->value_names = arena_array(&out->s->scratch, g->value_count, sizeof *out->value_names);
    if (out->value_names == NULL)
        return false;
    for (uint32_t c = 0; ok && c < captures; c++) {
        const char *name = outer_names[as_body->capture_outer[c]];

        out->value_names[as_body->capture_inner[c]] = name;
        ok = names_add(&taken, name, strlen(name), 0, NULL);
    }
    for (uint32_t v = 0; ok && captures > 0 && v < g->value_count; v++) {
        const char *name = g->values[v].info.name.data;

        if (out->value_names[v] == NULL && names_find(&taken, name, strlen(name)) != NAMES_NONE) {
            out->value_names[v] = free_name(out->s, &taken, name);
            ok = out->value_names[v] != NULL;
        }
    }
    for (uint32_t v = 0; ok && v < g->value_count; v++)
        if (out->value_names[v] == NULL)
            out->value_names[v] = g->values[v].info.name.data;
    names_deinit(&taken);
    return ok;
}

static const char *name_of(const struct writer *out, uint32_t v)
{
    return v == INLAY_NONE ? "" : out->value_names[v];
}

static const char *domain_text(const char *domain)
{
    return strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

/* ------------------------------------------------------------------ types */

static void put_tensor_type(const struct writer *out, bool sparse, inlay_dtype dtype, uint32_t rank,
                            const inlay_dim *dims)
{
    struct wire *w = &out->s->w;
    wire_mark type = wire_begin(w, sparse ? 8 : 1), shape;

    wire_int(w, 1, dtype);
    if (rank != INLAY_RANK_UNKNOWN) {
        shape = wire_begin(w, 2);
        for (uint32_t i = 0; i < rank; i++) {
            wire_mark dim = wire_begin(w, 1);

            if (dims[i].kind == INLAY_DIM_FIXED)
                wire_int(w, 1, dims[i].value);
            else if (dims[i].kind == INLAY_DIM_SYMBOLIC)
                wire_text(w, 2, out->g->model->symbols[dims[i].symbol].name.data);
            wire_end(w, dim);
        }
        wire_end(w, shape);
    }
    wire_end(w, type);
}

/* Opens the messages of one level of nesting; returns how many wire_end are due. */
static uint32_t open_level(struct wire *w, uint32_t kind, inlay_dtype map_key, wire_mark marks[2])
{
    switch (kind) {
    case INLAY_VALUE_SEQUENCE:
        marks[0] = wire_begin(w, 4);
        marks[1] = wire_begin(w, 1);
        return 2;
    case INLAY_VALUE_OPTIONAL:
        marks[0] = wire_begin(w, 9);
        marks[1] = wire_begin(w, 1);
        return 2;
    case INLAY_VALUE_MAP:
        marks[0] = wire_begin(w, 5);
        wire_int(w, 1, map_key);
        marks[1] = wire_begin(w, 2);
        return 2;
    default:
        return 0;
    }
}

/* The fields of a TypeProto. */
static void put_type(const struct writer *out, const graph_value *v, bool inferred)
{
    struct wire *w = &out->s->w;
    wire_mark marks[4];
    uint32_t open = open_level(w, v->info.kind, v->map_key, marks);

    if (v->info.kind != INLAY_VALUE_TENSOR)
        open += open_level(w, v->inner_kind, v->map_key, marks + open);
    if (v->declared && !(inferred && v->info.dtype != INLAY_UNDEFINED))
        put_tensor_type(out, v->sparse, v->declared_dtype, v->declared_rank, v->declared_dims);
    else
        put_tensor_type(out, v->sparse, v->info.dtype, v->info.rank, v->info.dims);
    while (open > 0)
        wire_end(w, marks[--open]);
}

static void put_value_info(const struct writer *out, uint32_t field, uint32_t index, bool inferred)
{
    const graph_value *v = &out->g->values[index];
    struct wire *w = &out->s->w;
    wire_mark mark = wire_begin(w, field), type;

    wire_text(w, 1, name_of(out, index));
    if (v->declared ? v->declared_dtype != INLAY_UNDEFINED || v->info.kind != INLAY_VALUE_TENSOR
                    : v->info.dtype != INLAY_UNDEFINED) {
        type = wire_begin(w, 2);
        put_type(out, v, inferred);
        wire_end(w, type);
    }
    wire_text_if(w, 3, v->doc);
    wire_raw(w, v->extra.data, (size_t)v->extra.bytes);
    wire_end(w, mark);
}

/* ------------------------------------------------------------------ attributes */

/* Is element i all zero bits? */
static bool is_zero(const inlay_tensor_view *t, uint64_t i)
{
    uint32_t bits = inlay_dtype_bits(t->dtype);
    const uint8_t *p = (const uint8_t *)t->data + i * bits / 8;

    if (t->dtype == INLAY_STRING)
        return ((const inlay_str *)t->data)[i].bytes == 0;
    if (bits < 8)
        return (*p >> (i * bits % 8) & ((1u << bits) - 1)) == 0;
    for (uint32_t k = 0; k < bits / 8; k++)
        if (p[k] != 0)
            return false;
    return true;
}

/* A tensor that was sparse in the file: one entry for each element that is not zero. Sub-byte types and strings, of
 * which no sparse file is known, list every element, which says the same. */
static void put_sparse(struct saver *s, const inlay_tensor_view *t)
{
    uint32_t bits = inlay_dtype_bits(t->dtype);
    bool all = bits < 8 || t->dtype == INLAY_STRING;
    uint64_t count = 1, kept = 0;

    for (uint32_t i = 0; i < t->rank; i++)
        count *= (uint64_t)t->dims[i];
    int64_t *indices = arena_array(&s->scratch, (size_t)count, sizeof *indices);
    uint8_t *values = arena_alloc(&s->scratch, (size_t)t->bytes);
    if (indices == NULL || values == NULL) {
        s->w.failed = true;
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!all && is_zero(t, i))
            continue;
        if (!all)
            memcpy(values + kept * (bits / 8), (const uint8_t *)t->data + i * (bits / 8), bits / 8);
        indices[kept++] = (int64_t)i;
    }
    int64_t dims[1] = { (int64_t)kept };
    inlay_tensor_view v = { .data = all ? t->data : values,
                            .bytes = all ? t->bytes : kept * (bits / 8),
                            .dims = dims,
                            .rank = 1,
                            .dtype = t->dtype };
    inlay_tensor_view x = {
        .data = indices, .bytes = kept * sizeof *indices, .dims = dims, .rank = 1, .dtype = INLAY_INT64
    };
    wire_mark mark = wire_begin(&s->w, 1);
    save_tensor(s, "", &v, false);
    wire_end(&s->w, mark);
    mark = wire_begin(&s->w, 2);
    save_tensor(s, "", &x, false);
    wire_end(&s->w, mark);
    wire_ints(&s->w, 3, t->dims, t->rank);
}

static void put_tensor_attr(struct saver *s, const inlay_attr_info *a)
{
    uint32_t field = a->kind == INLAY_ATTR_TENSOR ? 5 : a->kind == KIND_TENSORS ? 10 : 22;

    for (uint32_t i = 0; i < graph_attr_tensors(a); i++) {
        wire_mark mark = wire_begin(&s->w, field);

        if (a->kind == KIND_SPARSE_TENSOR)
            put_sparse(s, a->tensor);
        else
            save_tensor(s, "", &a->tensor[i], false);
        wire_end(&s->w, mark);
    }
}

/* The fields of an AttributeProto. */
static void put_attr(struct saver *s, const inlay_attr_info *a)
{
    struct wire *w = &s->w;

    wire_text(w, 1, a->name.data);
    wire_int(w, 20, a->kind);
    switch (a->kind) {
    case INLAY_ATTR_FLOAT:
        wire_float(w, 2, (float)a->f);
        break;
    case INLAY_ATTR_INT:
        wire_int(w, 3, a->i);
        break;
    case INLAY_ATTR_STRING:
        wire_bytes(w, 4, a->s.data, (size_t)a->s.bytes);
        break;
    case INLAY_ATTR_FLOATS:
        wire_floats(w, 7, a->floats, a->count);
        break;
    case INLAY_ATTR_INTS:
        wire_ints(w, 8, a->ints, a->count);
        break;
    case INLAY_ATTR_STRINGS:
        for (uint32_t i = 0; i < a->count; i++)
            wire_bytes(w, 9, a->strings[i].data, (size_t)a->strings[i].bytes);
        break;
    default:
        if (a->tensor != NULL)
            put_tensor_attr(s, a);
        break;
    }
}

/* Writes body b of the node and, if it begins a list, those that belong to it; returns the index after them. */
static uint32_t put_body(const struct writer *out, const graph_node *n, uint32_t b, inlay_status *status)
{
    struct wire *w = &out->s->w;
    const graph_body *first = &n->bodies[b];
    wire_mark attr = wire_begin(w, 5);

    wire_text(w, 1, first->attr);
    wire_int(w, 20, first->in_list ? KIND_GRAPHS : KIND_GRAPH);
    do {
        wire_mark body = wire_begin(w, first->in_list ? 11 : 6);

        *status = save_graph(out->s, n->bodies[b].graph, &n->bodies[b], out->value_names);
        wire_end(w, body);
        b++;
    } while (*status == INLAY_OK && first->in_list && b < n->body_count && n->bodies[b].in_list &&
             strcmp(n->bodies[b].attr, first->attr) == 0);
    wire_end(w, attr);
    return b;
}

static inlay_status put_attributes(const struct writer *out, const graph_node *n)
{
    struct wire *w = &out->s->w;
    inlay_status status = INLAY_OK;
    wire_mark mark;

    for (uint32_t i = 0; i < n->own_attr_count; i++) {
        mark = wire_begin(w, 5);
        put_attr(out->s, &n->info.attrs[i]);
        wire_end(w, mark);
    }
    for (uint32_t i = 0; i < n->ref_count; i++) {
        mark = wire_begin(w, 5);
        wire_text(w, 1, n->refs[i].name);
        wire_int(w, 20, n->refs[i].kind);
        wire_text(w, 21, n->refs[i].from);
        wire_end(w, mark);
    }
    if (n->type_attr != NULL) {
        wire_mark type;

        mark = wire_begin(w, 5);
        wire_text(w, 1, n->type_attr_name);
        wire_int(w, 20, KIND_TYPE_PROTO);
        type = wire_begin(w, 14);
        put_type(out, n->type_attr, false);
        wire_end(w, type);
        wire_end(w, mark);
    }
    for (uint32_t b = 0; status == INLAY_OK && b < n->body_count;)
        b = put_body(out, n, b, &status);
    return status;
}

/* ------------------------------------------------------------------ nodes, graphs */

static inlay_status put_nodes(const struct writer *out, uint32_t field)
{
    struct wire *w = &out->s->w;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; status == INLAY_OK && i < out->g->node_count; i++) {
        const graph_node *n = out->g->nodes[i];
        wire_mark mark = wire_begin(w, field);

        for (uint32_t k = 0; k < n->info.input_count; k++)
            wire_text(w, 1, name_of(out, n->info.inputs[k]));
        for (uint32_t k = 0; k < n->info.output_count; k++)
            wire_text(w, 2, name_of(out, n->info.outputs[k]));
        wire_text_if(w, 3, n->info.name.data);
        wire_text(w, 4, n->info.op_type.data);
        status = put_attributes(out, n);
        wire_text_if(w, 6, n->doc);
        wire_text_if(w, 7, domain_text(n->info.domain.data));
        wire_text_if(w, 8, n->overload);
        wire_raw(w, n->extra.data, (size_t)n->extra.bytes);
        wire_end(w, mark);
    }
    return status;
}

/* A model whose functions were inlined may hold nodes of two versions of a domain, which no file can say. */
static inlay_status check_opsets(const struct writer *out)
{
    const struct graph *g = out->g, *root = g;

    while (root->parent != NULL)
        root = root->parent;
    for (uint32_t i = 0; root == g->model->main && i < g->node_count; i++) { /* functions have imports of their own */
        const graph_node *n = g->nodes[i];

        if (n->opset != 0 && n->opset != graph_model_opset(g->model, n->info.domain.data))
            return graph_fail(
                g, n, NULL, INLAY_UNSUPPORTED, out->s->diag,
                "the node comes from a function that imports opset %lld of '%.64s', the model %lld; save the "
                "model before its functions are inlined",
                (long long)n->opset, n->info.domain.data, (long long)graph_model_opset(g->model, n->info.domain.data));
    }
    return INLAY_OK;
}

static void put_initializer(const struct writer *out, uint32_t v, const inlay_tensor_view *t)
{
    wire_mark mark = wire_begin(&out->s->w, 5);

    save_tensor(out->s, name_of(out, v), t, true);
    wire_end(&out->s->w, mark);
}

static bool put_initializers(const struct writer *out)
{
    const struct graph *g = out->g;
    int64_t dims[INLAY_MAX_RANK];

    for (uint32_t v = 0; v < g->value_count; v++) {
        const graph_value *value = &g->values[v];
        inlay_tensor_view t = { .data = value->info.data,
                                .bytes = value->info.data_bytes,
                                .dims = dims,
                                .rank = value->info.rank,
                                .dtype = value->info.dtype };

        if (value->default_value != NULL) {
            put_initializer(out, v, value->default_value);
        } else if (value->info.flags & INLAY_VALUE_CONSTANT) {
            for (uint32_t i = 0; i < t.rank && i < INLAY_MAX_RANK; i++)
                dims[i] = value->info.dims[i].value;
            put_initializer(out, v, &t);
        }
    }
    return true;
}

static void put_interface(const struct writer *out, bool is_body)
{
    const struct graph *g = out->g;
    const bool inferred = out->s->options != NULL && out->s->options->with_inferred_shapes;
    uint32_t listed = g->model->ir_version < 4 && !is_body ? 0 : g->value_count;

    /* Before IR 4 an initializer had to be an input, too: they are listed by their numbers, so that whoever loads the
     * file numbers all values alike. */
    for (uint32_t i = 0; i <= g->input_count; i++) {
        for (; listed < (i < g->input_count ? g->inputs[i] : g->value_count); listed++)
            if (g->values[listed].info.flags & INLAY_VALUE_CONSTANT)
                put_value_info(out, 11, listed, true);
        if (i < g->input_count)
            put_value_info(out, 11, g->inputs[i], inferred);
    }
    for (uint32_t i = 0; i < g->output_count; i++)
        put_value_info(out, 12, g->outputs[i], inferred);
    for (uint32_t v = 0; v < g->value_count; v++) {
        const graph_value *value = &g->values[v];
        bool known = value->declared || (inferred && value->info.dtype != INLAY_UNDEFINED);

        if (known &&
            (value->info.flags & (INLAY_VALUE_GRAPH_INPUT | INLAY_VALUE_GRAPH_OUTPUT | INLAY_VALUE_CONSTANT)) == 0)
            put_value_info(out, 13, v, inferred);
    }
}

inlay_status save_graph(struct saver *s, const struct graph *g, const graph_body *as_body,
                        const char *const *outer_names)
{
    struct writer out = { .s = s, .g = g };
    inlay_status status = INLAY_OK;

    if (!name_values(&out, as_body, outer_names))
        return no_memory(s->diag, "to save the model");
    INLAY_TRY(check_opsets(&out));
    INLAY_TRY(put_nodes(&out, 1));
    wire_text(&s->w, 2, g->name);
    put_initializers(&out);
    wire_text_if(&s->w, 10, g->doc);
    put_interface(&out, as_body != NULL);
    wire_raw(&s->w, g->extra.data, (size_t)g->extra.bytes);
done:
    return status;
}

inlay_status save_function(struct saver *s, const graph_function *f)
{
    struct writer out = { .s = s, .g = f->body };
    struct wire *w = &s->w;
    inlay_status status = INLAY_OK;

    if (!name_values(&out, NULL, NULL))
        return no_memory(s->diag, "to save the model");
    wire_text(w, 1, f->name);
    for (uint32_t i = 0; i < f->body->input_count; i++)
        wire_text(w, 4, name_of(&out, f->body->inputs[i]));
    for (uint32_t i = 0; i < f->body->output_count; i++)
        wire_text(w, 5, name_of(&out, f->body->outputs[i]));
    for (uint32_t i = 0; i < f->attr_count; i++)
        wire_text(w, 6, f->attrs[i]);
    INLAY_TRY(put_nodes(&out, 7));
    wire_text_if(w, 8, f->doc);
    wire_text_if(w, 10, domain_text(f->domain));
    for (uint32_t i = 0; i < f->default_count; i++) {
        wire_mark mark = wire_begin(w, 11);

        put_attr(s, &f->defaults[i]);
        wire_end(w, mark);
    }
    for (uint32_t v = 0; v < f->body->value_count; v++)
        if (f->body->values[v].declared)
            put_value_info(&out, 12, v, false);
    wire_text_if(w, 13, f->overload);
    wire_raw(w, f->extra.data, (size_t)f->extra.bytes);
done:
    return status;
}
