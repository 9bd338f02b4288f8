/* graph/dump.c - a graph as text: one line a value that comes in, one line a node, bodies indented below their node. */
#include "graph/graph.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN_ELEMENTS = 8 }; /* longer lists end in "..." */

typedef struct dumper {
    const graph *g;
    graph_write_fn write;
    void *ctx;
} dumper;

INLAY_PRINTF(2, 3)
static void put(const dumper *d, const char *format, ...)
{
    char text[256];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n > 0)
        d->write(d->ctx, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

/* Text of a file between quotes, on one line whatever it holds. */
static void put_quoted(const dumper *d, inlay_str text)
{
    put(d, "'");
    for (uint64_t i = 0; i < text.bytes; i++) {
        unsigned char c = (unsigned char)text.data[i];

        if (i == 200) {
            put(d, "...");
            break;
        }
        if (c < ' ' || c == 0x7f || c == '\'' || c == '\\')
            put(d, "\\x%02x", c);
        else
            put(d, "%c", c);
    }
    put(d, "'");
}

static void put_name(const dumper *d, uint32_t v)
{
    if (v == INLAY_NONE)
        put(d, "_");
    else
        put(d, "%.200s", d->g->values[v].info.name.data);
}

static void put_dims(const dumper *d, uint32_t rank, const inlay_dim *dims)
{
    if (rank == INLAY_RANK_UNKNOWN) {
        put(d, "[...]");
        return;
    }
    put(d, "[");
    for (uint32_t i = 0; i < rank; i++) {
        put(d, i == 0 ? "" : ", ");
        if (dims[i].kind == INLAY_DIM_FIXED)
            put(d, "%" PRId64, dims[i].value);
        else if (dims[i].kind == INLAY_DIM_SYMBOLIC && dims[i].symbol < d->g->model->symbol_count)
            put(d, "%.200s", d->g->model->symbols[dims[i].symbol].name.data);
        else
            put(d, "?");
    }
    put(d, "]");
}

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = { "unknown", "tensor", "seq", "optional", "map" };

    return kind < sizeof names / sizeof names[0] ? names[kind] : names[0];
}

static void put_type(const dumper *d, const graph_value *v)
{
    const inlay_value_info *info = &v->info;
    bool nested = info->kind != INLAY_VALUE_TENSOR, deeper = nested && v->inner_kind > INLAY_VALUE_TENSOR;

    if (nested)
        put(d, "%s(", kind_name(info->kind));
    if (deeper)
        put(d, "%s(", kind_name(v->inner_kind));
    if (v->map_key != INLAY_UNDEFINED)
        put(d, "%s, ", inlay_dtype_name(v->map_key));
    put(d, "%s", inlay_dtype_name(info->dtype));
    put_dims(d, info->rank, info->dims);
    put(d, "%s%s", nested ? ")" : "", deeper ? ")" : "");
}

static void put_tensor(const dumper *d, const inlay_tensor_view *t)
{
    put(d, "%s[", inlay_dtype_name(t->dtype));
    for (uint32_t i = 0; i < t->rank; i++)
        put(d, "%s%" PRId64, i == 0 ? "" : ", ", t->dims[i]);
    put(d, "]");
}

static void put_list_item(const dumper *d, const inlay_attr_info *a, uint32_t i)
{
    if (a->kind == INLAY_ATTR_INTS)
        put(d, "%" PRId64, a->ints[i]);
    else if (a->kind == INLAY_ATTR_FLOATS)
        put(d, "%.9g", (double)a->floats[i]);
    else
        put_quoted(d, a->strings[i]);
}

static void put_attr(const dumper *d, const inlay_attr_info *a)
{
    put(d, " %.200s=", a->name.data);
    switch (a->kind) {
    case INLAY_ATTR_INT:
        put(d, "%" PRId64, a->i);
        break;
    case INLAY_ATTR_FLOAT:
        put(d, "%.9g", a->f);
        break;
    case INLAY_ATTR_STRING:
        put_quoted(d, a->s);
        break;
    case INLAY_ATTR_INTS:
    case INLAY_ATTR_FLOATS:
    case INLAY_ATTR_STRINGS:
        put(d, "[");
        for (uint32_t i = 0; i < a->count && i < SHOWN_ELEMENTS; i++) {
            put(d, i == 0 ? "" : ", ");
            put_list_item(d, a, i);
        }
        put(d, a->count > SHOWN_ELEMENTS ? ", ...]" : "]");
        break;
    default:
        if (graph_attr_tensors(a) == 1)
            put_tensor(d, a->tensor);
        else
            put(d, "(%u tensors)", graph_attr_tensors(a));
        break;
    }
}

static void put_graph(const dumper *outer, const graph *g, unsigned indent);

static void put_node(const dumper *d, const graph_node *n, unsigned indent)
{
    put(d, "%*s", (int)indent, "");
    for (uint32_t i = 0; i < n->info.output_count; i++) {
        put(d, i == 0 ? "" : ", ");
        put_name(d, n->info.outputs[i]);
    }
    put(d, " = ");
    if (strcmp(n->info.domain.data, "ai.onnx") != 0)
        put(d, "%.100s.", n->info.domain.data);
    put(d, "%.100s", n->info.op_type.data);
    if (n->info.since_version != 0)
        put(d, "-%u", n->info.since_version);
    put(d, "(");
    for (uint32_t i = 0; i < n->info.input_count; i++) {
        put(d, i == 0 ? "" : ", ");
        put_name(d, n->info.inputs[i]);
    }
    put(d, ")");
    for (uint32_t i = 0; i < n->info.attr_count; i++)
        put_attr(d, INLAY_AT(inlay_attr_info, n->info.attrs, n->info.attr_stride, i));
    for (uint32_t i = 0; i < n->ref_count; i++)
        put(d, " %.100s=@%.100s", n->refs[i].name, n->refs[i].from);
    put(d, "  # %.200s", n->info.name.data);
    for (uint32_t i = 0; i < n->info.output_count; i++) {
        if (n->info.outputs[i] == INLAY_NONE)
            continue;
        put(d, i == 0 ? ": " : ", ");
        put_type(d, &d->g->values[n->info.outputs[i]]);
    }
    put(d, "\n");
    for (uint32_t b = 0; b < n->body_count; b++) {
        const graph_body *body = &n->bodies[b];

        put(d, "%*s%.100s uses (", (int)indent + 2, "", body->attr);
        for (uint32_t c = 0; c < body->capture_count; c++) {
            put(d, c == 0 ? "" : ", ");
            put_name(d, body->capture_outer[c]);
        }
        put(d, "):\n");
        put_graph(d, body->graph, indent + 4);
    }
}

static void put_graph(const dumper *outer, const graph *g, unsigned indent)
{
    dumper d = *outer;

    d.g = g;
    put(&d, "%*sgraph '%.200s'\n", (int)indent, "", g->name);
    for (uint32_t i = 0; i < g->input_count; i++) {
        put(&d, "%*sinput ", (int)indent + 2, "");
        put_name(&d, g->inputs[i]);
        put(&d, ": ");
        put_type(&d, &g->values[g->inputs[i]]);
        put(&d, g->values[g->inputs[i]].has_default ? " (has a default)\n" : "\n");
    }
    for (uint32_t v = 0; v < g->value_count; v++) {
        if ((g->values[v].info.flags & INLAY_VALUE_CONSTANT) == 0)
            continue;
        put(&d, "%*sconstant ", (int)indent + 2, "");
        put_name(&d, v);
        put(&d, ": ");
        put_type(&d, &g->values[v]);
        put(&d, "\n");
    }
    for (uint32_t i = 0; i < g->node_count; i++)
        put_node(&d, g->nodes[i], indent + 2);
    for (uint32_t i = 0; i < g->output_count; i++) {
        put(&d, "%*soutput ", (int)indent + 2, "");
        put_name(&d, g->outputs[i]);
        put(&d, ": ");
        put_type(&d, &g->values[g->outputs[i]]);
        put(&d, "\n");
    }
}

void graph_dump(const graph *g, graph_write_fn write, void *ctx)
{
    dumper d = { .g = g, .write = write, .ctx = ctx };

    put_graph(&d, g, 0);
}
