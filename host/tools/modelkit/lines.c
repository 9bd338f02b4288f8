#include "modelkit/lines.h"
#include "base/element.h"
#include "base/hash.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 8 }; /* a tensor of more elements is told by its hash */

/* ------------------------------------------------------------------ text that grows */

/* A line while it is written. Released by finish(). */
struct text {
    FILE *to;
    char *data;
    size_t bytes;
};

static bool begin(struct text *t)
{
    *t = (struct text){ 0 };
    t->to = open_memstream(&t->data, &t->bytes);
    return t->to != NULL;
}

/* A copy in the arena, with what would break the line as '?'. NULL: no memory. */
static char *finish(struct text *t, struct arena *a)
{
    char *copy = NULL;

    if (fclose(t->to) == 0)
        copy = arena_string_n(a, t->data, t->bytes);
    free(t->data);
    for (char *c = copy; c != NULL && *c != '\0'; c++)
        *c = (unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c;
    return copy;
}

/* ------------------------------------------------------------------ types, tensors, attributes */

static void put_dims(FILE *to, const graph_model *m, uint32_t rank, const inlay_dim *dims)
{
    if (rank == INLAY_RANK_UNKNOWN) {
        (void)fputs("[...]", to);
        return;
    }
    for (uint32_t i = 0; i < rank; i++) {
        (void)fputs(i == 0 ? "[" : ", ", to);
        if (dims[i].kind == INLAY_DIM_FIXED)
            (void)fprintf(to, "%" PRId64, dims[i].value);
        else
            (void)fputs(dims[i].kind == INLAY_DIM_SYMBOLIC && dims[i].symbol < m->symbol_count
                            ? m->symbols[dims[i].symbol].name.data
                            : "?",
                        to);
    }
    (void)fputs(rank == 0 ? "[]" : "]", to);
}

static void put_type(FILE *to, const graph_model *m, const graph_value *v)
{
    static const char *const kinds[] = { "?", "", "sequence of ", "optional ", "map of " };

    (void)fputs(kinds[v->info.kind < 5 ? v->info.kind : 0], to);
    if (v->inner_kind > INLAY_VALUE_TENSOR)
        (void)fputs(kinds[v->inner_kind < 5 ? v->inner_kind : 0], to);
    if (v->declared)
        (void)fputs(inlay_dtype_name(v->declared_dtype), to);
    else
        (void)fputs(inlay_dtype_name(v->info.dtype), to);
    if (v->declared)
        put_dims(to, m, v->declared_rank, v->declared_dims);
    else
        put_dims(to, m, v->info.rank, v->info.dims);
}

char *lines_type(struct arena *a, const graph_model *m, const graph_value *v)
{
    struct text t;

    if (!begin(&t))
        return NULL;
    put_type(t.to, m, v);
    return finish(&t, a);
}

static void put_elements(FILE *to, inlay_dtype dtype, const void *data, uint64_t bytes, int64_t count)
{
    char one[160];

    if (count > SHOWN && dtype != INLAY_STRING) {
        (void)fprintf(to, " #%016" PRIx64, hash_blocks(data, (size_t)bytes, 0));
        return;
    }
    (void)fputs(" =", to);
    for (int64_t i = 0; i < count; i++)
        (void)fprintf(to, " %s", element_text(dtype, data, i, one, sizeof one));
}

static void put_tensor(FILE *to, const inlay_tensor_view *t)
{
    int64_t count = 1;

    (void)fprintf(to, "%s[", inlay_dtype_name(t->dtype));
    for (uint32_t i = 0; i < t->rank; i++) {
        (void)fprintf(to, "%s%" PRId64, i > 0 ? ", " : "", t->dims[i]);
        count *= t->dims[i];
    }
    (void)fputs("]", to);
    put_elements(to, t->dtype, t->data, t->bytes, count);
}

static void put_attr(FILE *to, const inlay_attr_info *a)
{
    (void)fprintf(to, " %s=", a->name.data);
    switch (a->kind) {
    case INLAY_ATTR_INT:
        (void)fprintf(to, "%" PRId64, a->i);
        break;
    case INLAY_ATTR_FLOAT:
        (void)fprintf(to, "%.9g", a->f);
        break;
    case INLAY_ATTR_STRING:
        (void)fprintf(to, "'%.*s'", (int)(a->s.bytes < 4096 ? a->s.bytes : 4096), a->s.data);
        break;
    case INLAY_ATTR_INTS:
    case INLAY_ATTR_FLOATS:
    case INLAY_ATTR_STRINGS:
        for (uint32_t i = 0; i < a->count; i++) {
            (void)fputs(i == 0 ? "[" : ", ", to);
            if (a->kind == INLAY_ATTR_INTS)
                (void)fprintf(to, "%" PRId64, a->ints[i]);
            else if (a->kind == INLAY_ATTR_FLOATS)
                (void)fprintf(to, "%.9g", (double)a->floats[i]);
            else
                (void)fprintf(to, "'%.*s'", (int)(a->strings[i].bytes < 4096 ? a->strings[i].bytes : 4096),
                              a->strings[i].data);
        }
        (void)fputs(a->count == 0 ? "[]" : "]", to);
        break;
    default:
        for (uint32_t i = 0; i < graph_attr_tensors(a); i++) {
            (void)fputs(i > 0 ? ", " : "", to);
            put_tensor(to, &a->tensor[i]);
        }
        break;
    }
}

/* Those of the file, not what binding filled in. In the order of their names: files have them in any. */
static void put_attrs(FILE *to, const graph_node *n)
{
    const inlay_attr_info *last = NULL;

    for (uint32_t done = 0; done < n->own_attr_count; done++) {
        const inlay_attr_info *next = NULL;

        for (uint32_t i = 0; i < n->own_attr_count; i++) {
            const inlay_attr_info *a = &n->info.attrs[i];

            if ((last == NULL || strcmp(a->name.data, last->name.data) > 0) &&
                (next == NULL || strcmp(a->name.data, next->name.data) < 0))
                next = a;
        }
        if (next == NULL)
            return;
        put_attr(to, next);
        last = next;
    }
}

char *lines_attributes(struct arena *a, const graph_node *n)
{
    struct text t;

    if (!begin(&t))
        return NULL;
    put_attrs(t.to, n);
    return finish(&t, a);
}

/* ------------------------------------------------------------------ the model */

static lines_part *add_part(struct lines *l, const char *title)
{
    if (!ARENA_GROW(&l->a, l->parts, l->count)) {
        l->failed = true;
        return NULL;
    }
    l->parts[l->count] = (lines_part){ .title = title };
    l->failed = l->failed || title == NULL;
    return &l->parts[l->count++];
}

static void add_line(struct lines *l, lines_part *p, char *line)
{
    if (p == NULL || line == NULL || !ARENA_GROW(&l->a, p->lines, p->count))
        l->failed = true;
    else
        p->lines[p->count++] = line;
}

static void add_value(struct lines *l, lines_part *p, const struct graph *g, uint32_t v)
{
    const graph_value *value = &g->values[v];
    struct text t;

    if (!begin(&t)) {
        l->failed = true;
        return;
    }
    (void)fprintf(t.to, "%s: ", value->info.name.data);
    put_type(t.to, g->model, value);
    if (value->default_value != NULL) {
        (void)fputs(" by default ", t.to);
        put_tensor(t.to, value->default_value);
    }
    add_line(l, p, finish(&t, &l->a));
}

static void add_constant(struct lines *l, lines_part *p, const struct graph *g, uint32_t v)
{
    const inlay_value_info *info = &g->values[v].info;
    int64_t count = 1;
    struct text t;

    if (!begin(&t)) {
        l->failed = true;
        return;
    }
    for (uint32_t i = 0; i < info->rank; i++)
        count *= info->dims[i].value;
    (void)fprintf(t.to, "%s: %s", info->name.data, inlay_dtype_name(info->dtype));
    put_dims(t.to, g->model, info->rank, info->dims);
    put_elements(t.to, info->dtype, info->data, info->data_bytes, count);
    add_line(l, p, finish(&t, &l->a));
}

static void put_names(FILE *to, const struct graph *g, const uint32_t *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        (void)fprintf(to, "%s%s", i > 0 ? ", " : "",
                      values[i] == INLAY_NONE ? "_" : g->values[values[i]].info.name.data);
}

static void add_node(struct lines *l, lines_part *p, const struct graph *g, const graph_node *n)
{
    struct text t;

    if (!begin(&t)) {
        l->failed = true;
        return;
    }
    put_names(t.to, g, n->info.outputs, n->info.output_count);
    (void)fprintf(t.to, " = %s%s%s(", strcmp(n->info.domain.data, "ai.onnx") == 0 ? "" : n->info.domain.data,
                  strcmp(n->info.domain.data, "ai.onnx") == 0 ? "" : ".", n->info.op_type.data);
    put_names(t.to, g, n->info.inputs, n->info.input_count);
    (void)fputs(")", t.to);
    put_attrs(t.to, n);
    for (uint32_t i = 0; i < n->ref_count; i++)
        (void)fprintf(t.to, " %s=@%s", n->refs[i].name, n->refs[i].from);
    if (n->info.output_count == 0 || n->info.outputs[0] == INLAY_NONE ||
        strcmp(n->info.name.data, g->values[n->info.outputs[0]].info.name.data) != 0)
        (void)fprintf(t.to, "  # %s", n->info.name.data);
    add_line(l, p, finish(&t, &l->a));
}

static void add_graph(struct lines *l, const struct graph *g, const char *place)
{
    lines_part *p;

    p = add_part(l, arena_format(&l->a, "%s inputs", place));
    for (uint32_t i = 0; i < g->input_count; i++)
        add_value(l, p, g, g->inputs[i]);
    p = add_part(l, arena_format(&l->a, "%s outputs", place));
    for (uint32_t i = 0; i < g->output_count; i++)
        add_value(l, p, g, g->outputs[i]);
    p = add_part(l, arena_format(&l->a, "%s initializers", place));
    for (uint32_t v = 0; v < g->value_count; v++)
        if ((g->values[v].info.flags & INLAY_VALUE_CONSTANT) != 0)
            add_constant(l, p, g, v);
    p = add_part(l, arena_format(&l->a, "%s nodes", place));
    for (uint32_t i = 0; i < g->node_count; i++)
        add_node(l, p, g, g->nodes[i]);
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];

        for (uint32_t b = 0; b < n->body_count; b++)
            add_graph(l, n->bodies[b].graph, arena_format(&l->a, "%s of '%s'", n->bodies[b].attr, n->info.name.data));
    }
}

void lines_of(graph_model *model, struct lines *out)
{
    lines_part *p;

    *out = (struct lines){ 0 };
    p = add_part(out, "model");
    add_line(out, p, arena_format(&out->a, "ir_version %" PRId64, model->ir_version));
    for (uint32_t i = 0; i < model->opset_count; i++)
        add_line(out, p, arena_format(&out->a, "opset %s %" PRId64, model->opsets[i].domain, model->opsets[i].version));
    if (model->producer_name != NULL && model->producer_name[0] != '\0')
        add_line(out, p,
                 arena_format(&out->a, "producer %s %s", model->producer_name,
                              model->producer_version != NULL ? model->producer_version : ""));
    p = add_part(out, "metadata");
    for (uint32_t i = 0; i < model->metadata_count; i++)
        add_line(out, p, arena_format(&out->a, "%s = %s", model->metadata[i].key, model->metadata[i].value));
    add_graph(out, model->main, "graph");
    for (uint32_t i = 0; i < model->function_count && !out->failed; i++) {
        const graph_function *f = &model->functions[i];

        add_graph(out, f->body, arena_format(&out->a, "function %s.%s", f->domain, f->name));
    }
}

void lines_deinit(struct lines *l)
{
    arena_deinit(&l->a);
    *l = (struct lines){ 0 };
}
