#include "modelkit/lines.h"
#include "base/element.h"
#include "base/hash.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 8 }; /* larger tensors are represented by their hash */

/* A line under construction. finish() releases it. */
struct text {
    FILE *to;
    char *data;
    size_t bytes;
};

static bool begin(struct text *text)
{
    *text = (struct text){ 0 };
    text->to = open_memstream(&text->data, &text->bytes);
    return text->to != NULL;
}

/* Copies the line to the arena, with control characters as '?'. NULL: out of memory. */
static char *finish(struct text *text, struct arena *arena)
{
    char *copy = NULL;

    if (fclose(text->to) == 0)
        copy = arena_string_n(arena, text->data, text->bytes);
    free(text->data);
    for (char *character = copy; character != NULL && *character != '\0'; character++)
        *character = (unsigned char)*character < ' ' || *character == 0x7f ? '?' : *character;
    return copy;
}

static void put_dims(FILE *to, const graph_model *model, uint32_t rank, const inlay_dim *dims)
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
            (void)fputs(dims[i].kind == INLAY_DIM_SYMBOLIC && dims[i].symbol < model->symbol_count
                            ? model->symbols[dims[i].symbol].name.data
                            : "?",
                        to);
    }
    (void)fputs(rank == 0 ? "[]" : "]", to);
}

static void put_type(FILE *to, const graph_model *model, const graph_value *value)
{
    static const char *const kinds[] = { "?", "", "sequence of ", "optional ", "map of " };

    (void)fputs(kinds[value->info.kind < 5 ? value->info.kind : 0], to);
    if (value->inner_kind > INLAY_VALUE_TENSOR)
        (void)fputs(kinds[value->inner_kind < 5 ? value->inner_kind : 0], to);
    if (value->declared)
        (void)fputs(inlay_dtype_name(value->declared_dtype), to);
    else
        (void)fputs(inlay_dtype_name(value->info.dtype), to);
    if (value->declared)
        put_dims(to, model, value->declared_rank, value->declared_dims);
    else
        put_dims(to, model, value->info.rank, value->info.dims);
}

char *lines_type(struct arena *arena, const graph_model *model, const graph_value *value)
{
    struct text text;

    if (!begin(&text))
        return NULL;
    put_type(text.to, model, value);
    return finish(&text, arena);
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

static void put_tensor(FILE *to, const inlay_tensor_view *view)
{
    int64_t count = 1;

    (void)fprintf(to, "%s[", inlay_dtype_name(view->dtype));
    for (uint32_t i = 0; i < view->rank; i++) {
        (void)fprintf(to, "%s%" PRId64, i > 0 ? ", " : "", view->dims[i]);
        count *= view->dims[i];
    }
    (void)fputs("]", to);
    put_elements(to, view->dtype, view->data, view->bytes, count);
}

static void put_attr(FILE *to, const inlay_attr_info *attribute)
{
    (void)fprintf(to, " %s=", attribute->name.data);
    switch (attribute->kind) {
    case INLAY_ATTR_INT:
        (void)fprintf(to, "%" PRId64, attribute->i);
        break;
    case INLAY_ATTR_FLOAT:
        (void)fprintf(to, "%.9g", attribute->f);
        break;
    case INLAY_ATTR_STRING:
        (void)fprintf(to, "'%.*s'", (int)(attribute->s.bytes < 4096 ? attribute->s.bytes : 4096), attribute->s.data);
        break;
    case INLAY_ATTR_INTS:
    case INLAY_ATTR_FLOATS:
    case INLAY_ATTR_STRINGS:
        for (uint32_t i = 0; i < attribute->count; i++) {
            (void)fputs(i == 0 ? "[" : ", ", to);
            if (attribute->kind == INLAY_ATTR_INTS)
                (void)fprintf(to, "%" PRId64, attribute->ints[i]);
            else if (attribute->kind == INLAY_ATTR_FLOATS)
                (void)fprintf(to, "%.9g", (double)attribute->floats[i]);
            else
                (void)fprintf(to, "'%.*s'",
                              (int)(attribute->strings[i].bytes < 4096 ? attribute->strings[i].bytes : 4096),
                              attribute->strings[i].data);
        }
        (void)fputs(attribute->count == 0 ? "[]" : "]", to);
        break;
    default:
        for (uint32_t i = 0; i < graph_attr_tensors(attribute); i++) {
            (void)fputs(i > 0 ? ", " : "", to);
            put_tensor(to, &attribute->tensor[i]);
        }
        break;
    }
}

/* Writes the attributes of the file, without defaults, sorted by name because files have them in any order. */
static void put_attrs(FILE *to, const graph_node *node)
{
    const inlay_attr_info *last = NULL;

    for (uint32_t done = 0; done < node->own_attr_count; done++) {
        const inlay_attr_info *next = NULL;

        for (uint32_t i = 0; i < node->own_attr_count; i++) {
            const inlay_attr_info *attribute = &node->info.attrs[i];

            if ((last == NULL || strcmp(attribute->name.data, last->name.data) > 0) &&
                (next == NULL || strcmp(attribute->name.data, next->name.data) < 0))
                next = attribute;
        }
        if (next == NULL)
            return;
        put_attr(to, next);
        last = next;
    }
}

char *lines_attributes(struct arena *arena, const graph_node *node)
{
    struct text text;

    if (!begin(&text))
        return NULL;
    put_attrs(text.to, node);
    return finish(&text, arena);
}

static lines_part *add_part(struct lines *lines, const char *title)
{
    if (!ARENA_GROW(&lines->arena, lines->parts, lines->count)) {
        lines->failed = true;
        return NULL;
    }
    lines->parts[lines->count] = (lines_part){ .title = title };
    lines->failed = lines->failed || title == NULL;
    return &lines->parts[lines->count++];
}

static void add_line(struct lines *lines, lines_part *part, char *line)
{
    if (part == NULL || line == NULL || !ARENA_GROW(&lines->arena, part->lines, part->count))
        lines->failed = true;
    else
        part->lines[part->count++] = line;
}

static void add_value(struct lines *lines, lines_part *part, const struct graph *graph, uint32_t value_index)
{
    const graph_value *value = &graph->values[value_index];
    struct text text;

    if (!begin(&text)) {
        lines->failed = true;
        return;
    }
    (void)fprintf(text.to, "%s: ", value->info.name.data);
    put_type(text.to, graph->model, value);
    if (value->default_value != NULL) {
        (void)fputs(" by default ", text.to);
        put_tensor(text.to, value->default_value);
    }
    add_line(lines, part, finish(&text, &lines->arena));
}

static void add_constant(struct lines *lines, lines_part *part, const struct graph *graph, uint32_t value)
{
    const inlay_value_info *info = &graph->values[value].info;
    int64_t count = 1;
    struct text text;

    if (!begin(&text)) {
        lines->failed = true;
        return;
    }
    for (uint32_t i = 0; i < info->rank; i++)
        count *= info->dims[i].value;
    (void)fprintf(text.to, "%s: %s", info->name.data, inlay_dtype_name(info->dtype));
    put_dims(text.to, graph->model, info->rank, info->dims);
    put_elements(text.to, info->dtype, info->data, info->data_bytes, count);
    add_line(lines, part, finish(&text, &lines->arena));
}

static void put_names(FILE *to, const struct graph *graph, const uint32_t *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        (void)fprintf(to, "%s%s", i > 0 ? ", " : "",
                      values[i] == INLAY_NONE ? "_" : graph->values[values[i]].info.name.data);
}

static void add_node(struct lines *lines, lines_part *part, const struct graph *graph, const graph_node *node)
{
    struct text text;

    if (!begin(&text)) {
        lines->failed = true;
        return;
    }
    put_names(text.to, graph, node->info.outputs, node->info.output_count);
    (void)fprintf(text.to, " = %s%s%s(", strcmp(node->info.domain.data, "ai.onnx") == 0 ? "" : node->info.domain.data,
                  strcmp(node->info.domain.data, "ai.onnx") == 0 ? "" : ".", node->info.op_type.data);
    put_names(text.to, graph, node->info.inputs, node->info.input_count);
    (void)fputs(")", text.to);
    put_attrs(text.to, node);
    for (uint32_t i = 0; i < node->ref_count; i++)
        (void)fprintf(text.to, " %s=@%s", node->refs[i].name, node->refs[i].from);
    if (node->info.output_count == 0 || node->info.outputs[0] == INLAY_NONE ||
        strcmp(node->info.name.data, graph->values[node->info.outputs[0]].info.name.data) != 0)
        (void)fprintf(text.to, "  # %s", node->info.name.data);
    add_line(lines, part, finish(&text, &lines->arena));
}

static void add_graph(struct lines *lines, const struct graph *graph, const char *place)
{
    lines_part *part;

    part = add_part(lines, arena_format(&lines->arena, "%s inputs", place));
    for (uint32_t i = 0; i < graph->input_count; i++)
        add_value(lines, part, graph, graph->inputs[i]);
    part = add_part(lines, arena_format(&lines->arena, "%s outputs", place));
    for (uint32_t i = 0; i < graph->output_count; i++)
        add_value(lines, part, graph, graph->outputs[i]);
    part = add_part(lines, arena_format(&lines->arena, "%s initializers", place));
    for (uint32_t value = 0; value < graph->value_count; value++)
        if ((graph->values[value].info.flags & INLAY_VALUE_CONSTANT) != 0)
            add_constant(lines, part, graph, value);
    part = add_part(lines, arena_format(&lines->arena, "%s nodes", place));
    for (uint32_t i = 0; i < graph->node_count; i++)
        add_node(lines, part, graph, graph->nodes[i]);
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        for (uint32_t b = 0; b < node->body_count; b++)
            add_graph(lines, node->bodies[b].graph,
                      arena_format(&lines->arena, "%s of '%s'", node->bodies[b].attr, node->info.name.data));
    }
}

void lines_of(graph_model *model, struct lines *out)
{
    lines_part *part;

    *out = (struct lines){ 0 };
    part = add_part(out, "model");
    add_line(out, part, arena_format(&out->arena, "ir_version %" PRId64, model->ir_version));
    for (uint32_t i = 0; i < model->opset_count; i++)
        add_line(out, part,
                 arena_format(&out->arena, "opset %s %" PRId64, model->opsets[i].domain, model->opsets[i].version));
    if (model->about.producer_name != NULL && model->about.producer_name[0] != '\0')
        add_line(out, part,
                 arena_format(&out->arena, "producer %s %s", model->about.producer_name,
                              model->about.producer_version != NULL ? model->about.producer_version : ""));
    part = add_part(out, "metadata");
    for (uint32_t i = 0; i < model->metadata_count; i++)
        add_line(out, part, arena_format(&out->arena, "%s = %s", model->metadata[i].key, model->metadata[i].value));
    add_graph(out, model->main, "graph");
    for (uint32_t i = 0; i < model->function_count && !out->failed; i++) {
        const graph_function *function = &model->functions[i];

        add_graph(out, function->body, arena_format(&out->arena, "function %s.%s", function->domain, function->name));
    }
}

void lines_deinit(struct lines *lines)
{
    arena_deinit(&lines->arena);
    *lines = (struct lines){ 0 };
}
