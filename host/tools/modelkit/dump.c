#include "modelkit/dump.h"
#include "tables/words.h"
#include <inttypes.h>
#include <string.h>

enum { SHOWN_ELEMENTS = 8 }; /* longer lists end in "..." */

struct dumper {
    const struct graph *graph;
    explain_sink out;
};

/* Writes a text of the file in quotes, with control characters escaped. */
static void put_quoted(const struct dumper *dumper, inlay_str text)
{
    say(&dumper->out, "'");
    for (uint64_t i = 0; i < text.bytes; i++) {
        unsigned char c = (unsigned char)text.data[i];

        if (i == 200) {
            say(&dumper->out, "...");
            break;
        }
        if (c < ' ' || c == 0x7f || c == '\'' || c == '\\')
            say(&dumper->out, "\\x%02x", c);
        else
            say(&dumper->out, "%c", c);
    }
    say(&dumper->out, "'");
}

static void put_name(const struct dumper *dumper, uint32_t value)
{
    if (value == INLAY_NONE)
        say(&dumper->out, "_");
    else
        say(&dumper->out, "%.200s", dumper->graph->values[value].info.name.data);
}

static void put_dims(const struct dumper *dumper, uint32_t rank, const inlay_dim *dims)
{
    if (rank == INLAY_RANK_UNKNOWN) {
        say(&dumper->out, "[...]");
        return;
    }
    say(&dumper->out, "[");
    for (uint32_t i = 0; i < rank; i++) {
        say(&dumper->out, i == 0 ? "" : ", ");
        if (dims[i].kind == INLAY_DIM_FIXED)
            say(&dumper->out, "%" PRId64, dims[i].value);
        else if (dims[i].kind == INLAY_DIM_SYMBOLIC && dims[i].symbol < dumper->graph->model->symbol_count)
            say(&dumper->out, "%.200s", dumper->graph->model->symbols[dims[i].symbol].name.data);
        else
            say(&dumper->out, "?");
    }
    say(&dumper->out, "]");
}

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = { "unknown", "tensor", "seq", "optional", "map" };

    return kind < sizeof names / sizeof names[0] ? names[kind] : names[0];
}

static void put_type(const struct dumper *dumper, const graph_value *value)
{
    const inlay_value_info *info = &value->info;
    bool nested = info->kind != INLAY_VALUE_TENSOR, deeper = nested && value->inner_kind > INLAY_VALUE_TENSOR;

    if (nested)
        say(&dumper->out, "%s(", kind_name(info->kind));
    if (deeper)
        say(&dumper->out, "%s(", kind_name(value->inner_kind));
    if (value->map_key != INLAY_UNDEFINED)
        say(&dumper->out, "%s, ", inlay_dtype_name(value->map_key));
    say(&dumper->out, "%s", inlay_dtype_name(info->dtype));
    put_dims(dumper, info->rank, info->dims);
    say(&dumper->out, "%s%s", nested ? ")" : "", deeper ? ")" : "");
}

static void put_tensor(const struct dumper *dumper, const inlay_tensor_view *view)
{
    say(&dumper->out, "%s[", inlay_dtype_name(view->dtype));
    for (uint32_t i = 0; i < view->rank; i++)
        say(&dumper->out, "%s%" PRId64, i == 0 ? "" : ", ", view->dims[i]);
    say(&dumper->out, "]");
}

static void put_list_item(const struct dumper *dumper, const inlay_attr_info *attribute, uint32_t i)
{
    if (attribute->kind == INLAY_ATTR_INTS)
        say(&dumper->out, "%" PRId64, attribute->ints[i]);
    else if (attribute->kind == INLAY_ATTR_FLOATS)
        say(&dumper->out, "%.9g", (double)attribute->floats[i]);
    else
        put_quoted(dumper, attribute->strings[i]);
}

static void put_attr(const struct dumper *dumper, const inlay_attr_info *attribute)
{
    say(&dumper->out, " %.200s=", attribute->name.data);
    switch (attribute->kind) {
    case INLAY_ATTR_INT:
        say(&dumper->out, "%" PRId64, attribute->i);
        break;
    case INLAY_ATTR_FLOAT:
        say(&dumper->out, "%.9g", attribute->f);
        break;
    case INLAY_ATTR_STRING:
        put_quoted(dumper, attribute->s);
        break;
    case INLAY_ATTR_INTS:
    case INLAY_ATTR_FLOATS:
    case INLAY_ATTR_STRINGS:
        say(&dumper->out, "[");
        for (uint32_t i = 0; i < attribute->count && i < SHOWN_ELEMENTS; i++) {
            say(&dumper->out, i == 0 ? "" : ", ");
            put_list_item(dumper, attribute, i);
        }
        say(&dumper->out, attribute->count > SHOWN_ELEMENTS ? ", ...]" : "]");
        break;
    default:
        if (graph_attr_tensors(attribute) == 1)
            put_tensor(dumper, attribute->tensor);
        else
            say(&dumper->out, "(%u tensors)", graph_attr_tensors(attribute));
        break;
    }
}

static void put_graph(const struct dumper *outer, const struct graph *graph, unsigned indent);

static void put_node(const struct dumper *dumper, const graph_node *node, unsigned indent)
{
    say(&dumper->out, "%*s", (int)indent, "");
    for (uint32_t i = 0; i < node->info.output_count; i++) {
        say(&dumper->out, i == 0 ? "" : ", ");
        put_name(dumper, node->info.outputs[i]);
    }
    say(&dumper->out, " = ");
    if (strcmp(node->info.domain.data, "ai.onnx") != 0)
        say(&dumper->out, "%.100s.", node->info.domain.data);
    say(&dumper->out, "%.100s", node->info.op_type.data);
    if (node->info.since_version != 0)
        say(&dumper->out, "-%u", node->info.since_version);
    say(&dumper->out, "(");
    for (uint32_t i = 0; i < node->info.input_count; i++) {
        say(&dumper->out, i == 0 ? "" : ", ");
        put_name(dumper, node->info.inputs[i]);
    }
    say(&dumper->out, ")");
    for (uint32_t i = 0; i < node->info.attr_count; i++)
        put_attr(dumper, INLAY_AT(inlay_attr_info, node->info.attrs, node->info.attr_stride, i));
    for (uint32_t i = 0; i < node->ref_count; i++)
        say(&dumper->out, " %.100s=@%.100s", node->refs[i].name, node->refs[i].from);
    say(&dumper->out, "  # %.200s", node->info.name.data);
    for (uint32_t i = 0; i < node->info.output_count; i++) {
        if (node->info.outputs[i] == INLAY_NONE)
            continue;
        say(&dumper->out, i == 0 ? ": " : ", ");
        put_type(dumper, &dumper->graph->values[node->info.outputs[i]]);
    }
    say(&dumper->out, "\n");
    for (uint32_t b = 0; b < node->body_count; b++) {
        const graph_body *body = &node->bodies[b];

        say(&dumper->out, "%*s%.100s uses (", (int)indent + 2, "", body->attr);
        for (uint32_t c = 0; c < body->capture_count; c++) {
            say(&dumper->out, c == 0 ? "" : ", ");
            put_name(dumper, body->capture_outer[c]);
        }
        say(&dumper->out, "):\n");
        put_graph(dumper, body->graph, indent + 4);
    }
}

static void put_graph(const struct dumper *outer, const struct graph *graph, unsigned indent)
{
    struct dumper dumper = *outer;

    dumper.graph = graph;
    say(&dumper.out, "%*sgraph '%.200s'\n", (int)indent, "", graph->name);
    for (uint32_t i = 0; i < graph->input_count; i++) {
        say(&dumper.out, "%*sinput ", (int)indent + 2, "");
        put_name(&dumper, graph->inputs[i]);
        say(&dumper.out, ": ");
        put_type(&dumper, &graph->values[graph->inputs[i]]);
        say(&dumper.out, graph->values[graph->inputs[i]].has_default ? " (has a default)\n" : "\n");
    }
    for (uint32_t value = 0; value < graph->value_count; value++) {
        if ((graph->values[value].info.flags & INLAY_VALUE_CONSTANT) == 0)
            continue;
        say(&dumper.out, "%*sconstant ", (int)indent + 2, "");
        put_name(&dumper, value);
        say(&dumper.out, ": ");
        put_type(&dumper, &graph->values[value]);
        say(&dumper.out, "\n");
    }
    for (uint32_t i = 0; i < graph->node_count; i++)
        put_node(&dumper, graph->nodes[i], indent + 2);
    for (uint32_t i = 0; i < graph->output_count; i++) {
        say(&dumper.out, "%*soutput ", (int)indent + 2, "");
        put_name(&dumper, graph->outputs[i]);
        say(&dumper.out, ": ");
        put_type(&dumper, &graph->values[graph->outputs[i]]);
        say(&dumper.out, "\n");
    }
}

void graph_dump(const struct graph *graph, void (*write)(void *ctx, const char *text, size_t bytes), void *ctx)
{
    struct dumper dumper = { .graph = graph, .out = { .write = write, .user = ctx } };

    put_graph(&dumper, graph, 0);
}
