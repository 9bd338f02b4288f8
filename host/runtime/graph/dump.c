/* graph/dump.c - a graph as text: one line a value that comes in, one line a node, bodies indented below their node. */
#include "base/words.h"
#include "graph/graph.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN_ELEMENTS = 8 }; /* longer lists end in "..." */

struct dumper {
    const struct graph *g;
    explain_sink out;
};

/* Text of a file between quotes, on one line whatever it holds. */
static void put_quoted(const struct dumper *d, inlay_str text)
{
    say(&d->out, "'");
    for (uint64_t i = 0; i < text.bytes; i++) {
        unsigned char c = (unsigned char)text.data[i];

        if (i == 200) {
            say(&d->out, "...");
            break;
        }
        if (c < ' ' || c == 0x7f || c == '\'' || c == '\\')
            say(&d->out, "\\x%02x", c);
        else
            say(&d->out, "%c", c);
    }
    say(&d->out, "'");
}

static void put_name(const struct dumper *d, uint32_t v)
{
    if (v == INLAY_NONE)
        say(&d->out, "_");
    else
        say(&d->out, "%.200s", d->g->values[v].info.name.data);
}

static void put_dims(const struct dumper *d, uint32_t rank, const inlay_dim *dims)
{
    if (rank == INLAY_RANK_UNKNOWN) {
        say(&d->out, "[...]");
        return;
    }
    say(&d->out, "[");
    for (uint32_t i = 0; i < rank; i++) {
        say(&d->out, i == 0 ? "" : ", ");
        if (dims[i].kind == INLAY_DIM_FIXED)
            say(&d->out, "%" PRId64, dims[i].value);
        else if (dims[i].kind == INLAY_DIM_SYMBOLIC && dims[i].symbol < d->g->model->symbol_count)
            say(&d->out, "%.200s", d->g->model->symbols[dims[i].symbol].name.data);
        else
            say(&d->out, "?");
    }
    say(&d->out, "]");
}

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = { "unknown", "tensor", "seq", "optional", "map" };

    return kind < sizeof names / sizeof names[0] ? names[kind] : names[0];
}

static void put_type(const struct dumper *d, const graph_value *v)
{
    const inlay_value_info *info = &v->info;
    bool nested = info->kind != INLAY_VALUE_TENSOR, deeper = nested && v->inner_kind > INLAY_VALUE_TENSOR;

    if (nested)
        say(&d->out, "%s(", kind_name(info->kind));
    if (deeper)
        say(&d->out, "%s(", kind_name(v->inner_kind));
    if (v->map_key != INLAY_UNDEFINED)
        say(&d->out, "%s, ", inlay_dtype_name(v->map_key));
    say(&d->out, "%s", inlay_dtype_name(info->dtype));
    put_dims(d, info->rank, info->dims);
    say(&d->out, "%s%s", nested ? ")" : "", deeper ? ")" : "");
}

static void put_tensor(const struct dumper *d, const inlay_tensor_view *t)
{
    say(&d->out, "%s[", inlay_dtype_name(t->dtype));
    for (uint32_t i = 0; i < t->rank; i++)
        say(&d->out, "%s%" PRId64, i == 0 ? "" : ", ", t->dims[i]);
    say(&d->out, "]");
}

static void put_list_item(const struct dumper *d, const inlay_attr_info *a, uint32_t i)
{
    if (a->kind == INLAY_ATTR_INTS)
        say(&d->out, "%" PRId64, a->ints[i]);
    else if (a->kind == INLAY_ATTR_FLOATS)
        say(&d->out, "%.9g", (double)a->floats[i]);
    else
        put_quoted(d, a->strings[i]);
}

static void put_attr(const struct dumper *d, const inlay_attr_info *a)
{
    say(&d->out, " %.200s=", a->name.data);
    switch (a->kind) {
    case INLAY_ATTR_INT:
        say(&d->out, "%" PRId64, a->i);
        break;
    case INLAY_ATTR_FLOAT:
        say(&d->out, "%.9g", a->f);
        break;
    case INLAY_ATTR_STRING:
        put_quoted(d, a->s);
        break;
    case INLAY_ATTR_INTS:
    case INLAY_ATTR_FLOATS:
    case INLAY_ATTR_STRINGS:
        say(&d->out, "[");
        for (uint32_t i = 0; i < a->count && i < SHOWN_ELEMENTS; i++) {
            say(&d->out, i == 0 ? "" : ", ");
            put_list_item(d, a, i);
        }
        say(&d->out, a->count > SHOWN_ELEMENTS ? ", ...]" : "]");
        break;
    default:
        if (graph_attr_tensors(a) == 1)
            put_tensor(d, a->tensor);
        else
            say(&d->out, "(%u tensors)", graph_attr_tensors(a));
        break;
    }
}

static void put_graph(const struct dumper *outer, const struct graph *g, unsigned indent);

static void put_node(const struct dumper *d, const graph_node *n, unsigned indent)
{
    say(&d->out, "%*s", (int)indent, "");
    for (uint32_t i = 0; i < n->info.output_count; i++) {
        say(&d->out, i == 0 ? "" : ", ");
        put_name(d, n->info.outputs[i]);
    }
    say(&d->out, " = ");
    if (strcmp(n->info.domain.data, "ai.onnx") != 0)
        say(&d->out, "%.100s.", n->info.domain.data);
    say(&d->out, "%.100s", n->info.op_type.data);
    if (n->info.since_version != 0)
        say(&d->out, "-%u", n->info.since_version);
    say(&d->out, "(");
    for (uint32_t i = 0; i < n->info.input_count; i++) {
        say(&d->out, i == 0 ? "" : ", ");
        put_name(d, n->info.inputs[i]);
    }
    say(&d->out, ")");
    for (uint32_t i = 0; i < n->info.attr_count; i++)
        put_attr(d, INLAY_AT(inlay_attr_info, n->info.attrs, n->info.attr_stride, i));
    for (uint32_t i = 0; i < n->ref_count; i++)
        say(&d->out, " %.100s=@%.100s", n->refs[i].name, n->refs[i].from);
    say(&d->out, "  # %.200s", n->info.name.data);
    for (uint32_t i = 0; i < n->info.output_count; i++) {
        if (n->info.outputs[i] == INLAY_NONE)
            continue;
        say(&d->out, i == 0 ? ": " : ", ");
        put_type(d, &d->g->values[n->info.outputs[i]]);
    }
    say(&d->out, "\n");
    for (uint32_t b = 0; b < n->body_count; b++) {
        const graph_body *body = &n->bodies[b];

        say(&d->out, "%*s%.100s uses (", (int)indent + 2, "", body->attr);
        for (uint32_t c = 0; c < body->capture_count; c++) {
            say(&d->out, c == 0 ? "" : ", ");
            put_name(d, body->capture_outer[c]);
        }
        say(&d->out, "):\n");
        put_graph(d, body->graph, indent + 4);
    }
}

static void put_graph(const struct dumper *outer, const struct graph *g, unsigned indent)
{
    struct dumper d = *outer;

    d.g = g;
    say(&d.out, "%*sgraph '%.200s'\n", (int)indent, "", g->name);
    for (uint32_t i = 0; i < g->input_count; i++) {
        say(&d.out, "%*sinput ", (int)indent + 2, "");
        put_name(&d, g->inputs[i]);
        say(&d.out, ": ");
        put_type(&d, &g->values[g->inputs[i]]);
        say(&d.out, g->values[g->inputs[i]].has_default ? " (has a default)\n" : "\n");
    }
    for (uint32_t v = 0; v < g->value_count; v++) {
        if ((g->values[v].info.flags & INLAY_VALUE_CONSTANT) == 0)
            continue;
        say(&d.out, "%*sconstant ", (int)indent + 2, "");
        put_name(&d, v);
        say(&d.out, ": ");
        put_type(&d, &g->values[v]);
        say(&d.out, "\n");
    }
    for (uint32_t i = 0; i < g->node_count; i++)
        put_node(&d, g->nodes[i], indent + 2);
    for (uint32_t i = 0; i < g->output_count; i++) {
        say(&d.out, "%*soutput ", (int)indent + 2, "");
        put_name(&d, g->outputs[i]);
        say(&d.out, ": ");
        put_type(&d, &g->values[g->outputs[i]]);
        say(&d.out, "\n");
    }
}

void graph_dump(const struct graph *g, graph_write_fn write, void *ctx)
{
    struct dumper d = { .g = g, .out = { write, ctx } };

    put_graph(&d, g, 0);
}
