/* The graphs of a model in the generated source: nodes with their attributes, and values. */
#include "bundle/emitter.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static uint64_t put_data(struct emitter *emitter, const void *data, uint64_t bytes)
{
    static const char zeros[64];
    const uint64_t at = emitter->at;
    const uint64_t pad = (64 - bytes % 64) % 64;

    (void)fwrite(data, 1, (size_t)bytes, emitter->data);
    (void)fwrite(zeros, 1, (size_t)pad, emitter->data);
    emitter->at += bytes + pad;
    return at;
}

void bundle_write_text(FILE *to, const char *text, uint64_t bytes)
{
    (void)fputc('"', to);
    for (uint64_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)text[i];

        if (isalnum(c) || (c < 0x80 && strchr(" _./:-+*=,;()[]", c) != NULL && c != '\0'))
            (void)fputc(c, to);
        else
            (void)fprintf(to, "\\%03o", c);
    }
    (void)fputc('"', to);
}

static void put_str(FILE *to, inlay_str string)
{
    (void)fputs("{ ", to);
    bundle_write_text(to, string.data != NULL ? string.data : "", string.data != NULL ? string.bytes : 0);
    (void)fprintf(to, ", %" PRIu64 " }", string.data != NULL ? string.bytes : 0);
}

void emit_double(FILE *to, double value)
{
    if (isnan(value))
        (void)fputs("__builtin_nan(\"\")", to);
    else if (isinf(value))
        (void)fprintf(to, "%s__builtin_inf()", value < 0 ? "-" : "");
    else
        (void)fprintf(to, "%a", value);
}

static void put_indices(FILE *to, const struct emitter *emitter, uint32_t part, const uint32_t *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        (void)fprintf(to, "%uu, ", list[i] == INLAY_NONE ? INLAY_NONE : emitter->value[part][list[i]]);
    (void)fputs("0", to);
}

void emit_values_of(struct emitter *emitter, const char *name, uint32_t first, uint32_t second, uint32_t part,
                    const uint32_t *list, uint32_t count)
{
    (void)fprintf(emitter->to, "static const uint32_t %s%u_%u[] = { ", name, first, second);
    put_indices(emitter->to, emitter, part, list, count);
    (void)fprintf(emitter->to, " };\n");
}

static bool is_plain(const inlay_attr_info *attribute)
{
    return attribute->kind == INLAY_ATTR_FLOAT || attribute->kind == INLAY_ATTR_INT ||
           attribute->kind == INLAY_ATTR_STRING ||
           (attribute->kind == INLAY_ATTR_TENSOR && attribute->tensor->dtype != INLAY_STRING) ||
           attribute->kind == INLAY_ATTR_FLOATS || attribute->kind == INLAY_ATTR_INTS ||
           attribute->kind == INLAY_ATTR_STRINGS;
}

/* Writes the array of an attribute and returns its number. */
static uint32_t put_attr_array(struct emitter *emitter, const inlay_attr_info *attribute)
{
    FILE *to = emitter->arrays.elements;

    if (attribute->kind == INLAY_ATTR_INTS) {
        for (uint32_t i = 0; i < attribute->count; i++)
            (void)fprintf(to, "(int64_t)%" PRIu64 "u, ", (uint64_t)attribute->ints[i]);
        (void)fputs("0", to);
        return emit_array_end(&emitter->arrays, "int64_t");
    }
    if (attribute->kind == INLAY_ATTR_FLOATS) {
        for (uint32_t i = 0; i < attribute->count; i++) {
            emit_double(to, (double)attribute->floats[i]);
            (void)fputs(isfinite(attribute->floats[i]) ? "f, " : ", ", to);
        }
        (void)fputs("0", to);
        return emit_array_end(&emitter->arrays, "float");
    }
    if (attribute->kind == INLAY_ATTR_STRINGS) {
        for (uint32_t i = 0; i < attribute->count; i++) {
            put_str(to, attribute->strings[i]);
            (void)fputs(", ", to);
        }
        (void)fputs("{ 0 }", to);
        return emit_array_end(&emitter->arrays, "inlay_str");
    }
    if (attribute->kind == INLAY_ATTR_TENSOR) {
        const inlay_tensor_view *view = attribute->tensor;
        uint32_t dims;

        for (uint32_t i = 0; i < view->rank; i++)
            (void)fprintf(to, "%" PRId64 ", ", view->dims[i]);
        (void)fputs("0", to);
        dims = emit_array_end(&emitter->arrays, "int64_t");
        (void)fprintf(to, "{ %s_data + %" PRIu64 "u, %" PRIu64 "u, c%u, %u, %d }", emitter->names->name,
                      put_data(emitter, view->data, view->bytes), view->bytes, dims, view->rank, (int)view->dtype);
        return emit_array_end(&emitter->arrays, "inlay_tensor_view");
    }
    return 0;
}

struct node_arrays {
    uint32_t attrs, inputs, outputs; /* numbers of the arrays */
    uint32_t attr_count;
};

/* False: out of memory. */
static bool put_attrs(struct emitter *emitter, const inlay_node_info *info, struct node_arrays *out)
{
    uint32_t *arrays = arena_array(&emitter->collection->arena, (size_t)info->attr_count + 1, sizeof *arrays);
    FILE *to = emitter->arrays.elements;

    if (arrays == NULL)
        return false;
    for (uint32_t i = 0; i < info->attr_count; i++)
        arrays[i] = put_attr_array(emitter, INLAY_AT(inlay_attr_info, info->attrs, info->attr_stride, i));
    for (uint32_t i = 0; i < info->attr_count; i++) {
        const inlay_attr_info *attribute = INLAY_AT(inlay_attr_info, info->attrs, info->attr_stride, i);
        const char *member = attribute->kind == INLAY_ATTR_INTS      ? "ints"
                             : attribute->kind == INLAY_ATTR_FLOATS  ? "floats"
                             : attribute->kind == INLAY_ATTR_STRINGS ? "strings"
                             : attribute->kind == INLAY_ATTR_TENSOR  ? "tensor"
                                                                     : NULL;
        if (!is_plain(attribute))
            continue;
        out->attr_count++;
        (void)fputs("\n    { .name = ", to);
        put_str(to, attribute->name);
        (void)fprintf(to, ", .kind = %u, .count = %u, .i = (int64_t)%" PRIu64 "u, .f = ", attribute->kind,
                      attribute->count, (uint64_t)attribute->i);
        emit_double(to, attribute->f);
        (void)fputs(", .s = ", to);
        put_str(to, attribute->s);
        if (member != NULL)
            (void)fprintf(to, ", .%s = c%u", member, arrays[i]);
        (void)fputs(" },", to);
    }
    (void)fputs("\n    { .kind = 0 }", to);
    out->attrs = emit_array_end(&emitter->arrays, "inlay_attr_info");
    return true;
}

/* False: out of memory. */
static bool put_nodes(struct emitter *emitter, uint32_t part)
{
    const struct graph *graph = emitter->collection->parts[part].program->graph;
    FILE *elements = emitter->arrays.elements;
    struct node_arrays *arrays =
        arena_array(&emitter->collection->arena, (size_t)graph->node_count + 1, sizeof *arrays);

    for (uint32_t i = 0; arrays != NULL && i < graph->node_count; i++) {
        const inlay_node_info *node = &graph->nodes[i]->info;

        arrays[i] = (struct node_arrays){ 0 };
        if (!put_attrs(emitter, node, &arrays[i]))
            return false;
        put_indices(elements, emitter, part, node->inputs, node->input_count);
        arrays[i].inputs = emit_array_end(&emitter->arrays, "uint32_t");
        put_indices(elements, emitter, part, node->outputs, node->output_count);
        arrays[i].outputs = emit_array_end(&emitter->arrays, "uint32_t");
    }
    (void)fprintf(emitter->to, "static const inlay_node_info nodes%u[] = {\n", part);
    for (uint32_t i = 0; arrays != NULL && i < graph->node_count; i++) {
        const inlay_node_info *node = &graph->nodes[i]->info;

        (void)fputs("    { .name = ", emitter->to);
        put_str(emitter->to, node->name);
        (void)fputs(", .domain = ", emitter->to);
        put_str(emitter->to, node->domain);
        (void)fputs(", .op_type = ", emitter->to);
        put_str(emitter->to, node->op_type);
        (void)fprintf(emitter->to,
                      ", .since_version = %u, .inputs = c%u, .outputs = c%u, .input_count = %u, .output_count = %u, "
                      ".attrs = c%u, .attr_count = %u, .attr_stride = sizeof(inlay_attr_info), "
                      ".body_stride = sizeof(inlay_body_none) },\n",
                      node->since_version, arrays[i].inputs, arrays[i].outputs, node->input_count, node->output_count,
                      arrays[i].attrs, arrays[i].attr_count);
    }
    (void)fprintf(emitter->to, "    { .since_version = 0 } };\n");
    return arrays != NULL;
}

/* Values that take the place of an offset. */
enum { NO_DATA = -1, LEFT_OUT = -2 };

/* Writes the elements of a value to the data file and returns their offset. NO_DATA: they are unknown. LEFT_OUT: the
 * provider has packed them and does not read them again. */
static int64_t place_data(struct emitter *emitter, uint32_t part, uint32_t value)
{
    const inlay_value_info *info = &emitter->collection->parts[part].program->graph->values[value].info;

    if (info->data == NULL || info->dtype == INLAY_STRING || info->kind != INLAY_VALUE_TENSOR)
        return NO_DATA;
    if (emitter->facts->unread != NULL && emitter->facts->unread[part][value] == 1)
        return LEFT_OUT;
    return (int64_t)put_data(emitter, info->data, info->data_bytes);
}

static void put_data_members(const struct emitter *emitter, const inlay_value_info *info, int64_t at)
{
    if (at == LEFT_OUT)
        (void)fputs(", .data = BUNDLE_LEFT_OUT", emitter->to);
    else if (at >= 0)
        (void)fprintf(emitter->to, ", .data = %s_data + %" PRId64, emitter->names->name, at);
    if (at != NO_DATA)
        (void)fprintf(emitter->to, ", .data_bytes = %" PRIu64 "u", info->data_bytes);
}

/* False: out of memory. */
static bool put_values(struct emitter *emitter, uint32_t part)
{
    const struct graph *graph = emitter->collection->parts[part].program->graph;
    struct arena *arena = &emitter->collection->arena;
    int64_t *data = arena_array(arena, (size_t)graph->value_count + 1, sizeof *data);
    uint32_t *dims = arena_array(arena, (size_t)graph->value_count + 1, sizeof *dims); /* numbers of the arrays */
    uint32_t *sizes = arena_array(arena, (size_t)graph->value_count + 1, sizeof *sizes);
    FILE *elements = emitter->arrays.elements;

    if (data == NULL || dims == NULL || sizes == NULL)
        return false;
    for (uint32_t value = 0; value < graph->value_count; value++) {
        const inlay_value_info *info = &graph->values[value].info;

        data[value] = emitter->value[part][value] != INLAY_NONE ? place_data(emitter, part, value) : NO_DATA;
        if (info->rank == INLAY_RANK_UNKNOWN || emitter->value[part][value] == INLAY_NONE)
            continue;
        for (uint32_t axis = 0; axis < info->rank; axis++)
            (void)fprintf(elements, "{ %" PRId64 ", %u, 0 }, ", info->dims[axis].value, info->dims[axis].kind);
        (void)fputs("{ 0 }", elements);
        dims[value] = emit_array_end(&emitter->arrays, "inlay_dim");
        for (uint32_t axis = 0; axis < info->rank; axis++)
            (void)fprintf(elements, "%" PRId64 ", ",
                          info->dims[axis].kind == INLAY_DIM_FIXED ? info->dims[axis].value : -1);
        (void)fputs("0", elements);
        sizes[value] = emit_array_end(&emitter->arrays, "int64_t");
    }
    (void)fprintf(emitter->to, "static const inlay_value_info values%u[] = {\n", part);
    for (uint32_t value = 0; value < graph->value_count; value++) {
        const inlay_value_info *info = &graph->values[value].info;

        if (emitter->value[part][value] == INLAY_NONE)
            continue;
        (void)fprintf(emitter->to,
                      "    { .name = { \"\", 0 }, .kind = %u, .flags = %u, .dtype = %d, .rank = %uu, "
                      ".producer = %uu, .content_hash = %" PRIu64 "u",
                      info->kind, info->flags, (int)info->dtype, info->rank, info->producer, info->content_hash);
        if (info->rank != INLAY_RANK_UNKNOWN)
            (void)fprintf(emitter->to, ", .dims = c%u", dims[value]);
        put_data_members(emitter, info, data[value]);
        (void)fputs(" },\n", emitter->to);
    }
    (void)fprintf(emitter->to, "    { .kind = 0 } };\nstatic const inlay_value_state states%u[] = {\n", part);
    for (uint32_t value = 0; value < graph->value_count; value++) {
        const inlay_value_info *info = &graph->values[value].info;

        if (emitter->value[part][value] == INLAY_NONE)
            continue;
        (void)fprintf(emitter->to, "    { .rank = %uu, .dtype = %d", info->rank, (int)info->dtype);
        if (info->rank != INLAY_RANK_UNKNOWN)
            (void)fprintf(emitter->to, ", .dims = c%u", sizes[value]);
        put_data_members(emitter, info, data[value]);
        (void)fputs(" },\n", emitter->to);
    }
    (void)fprintf(emitter->to, "    { .rank = 0 } };\n");
    for (uint32_t i = 0; i < emitter->collection->item_count; i++)
        if (emitter->collection->items[i].kind == ITEM_DATA)
            for (uint32_t value = 0; value < graph->value_count; value++)
                if (emitter->collection->parts[part].item_of[value] == i && data[value] >= 0)
                    emitter->collection->items[i].offset = (uint64_t)data[value];
    return true;
}

bool emit_graph(struct emitter *emitter, uint32_t part)
{
    const struct program *program = emitter->collection->parts[part].program;
    const struct graph *graph = program->graph;

    if (!put_nodes(emitter, part) || !put_values(emitter, part))
        return false;
    emit_values_of(emitter, "inputs", part, 0, part, graph->inputs, graph->input_count);
    emit_values_of(emitter, "outputs", part, 0, part, graph->outputs, graph->output_count);
    (void)fprintf(emitter->to,
                  "static const inlay_graph graph%u = { .struct_size = sizeof(inlay_graph), .name = { \"\", 0 }, "
                  ".content_hash = %" PRIu64 "u, .nodes = nodes%u, .values = values%u, .inputs = inputs%u_0, "
                  ".outputs = outputs%u_0, .node_count = %u, .node_stride = sizeof(inlay_node_info), "
                  ".value_count = %u, .value_stride = sizeof(inlay_value_info), "
                  ".symbol_stride = sizeof(inlay_symbol_info), .input_count = %u, .output_count = %u, "
                  ".constant_bytes = %" PRIu64 "u };\n\n",
                  part, program->snapshot.content_hash, part, part, part, part, graph->node_count,
                  emitter->values[part], graph->input_count, graph->output_count, program->snapshot.constant_bytes);
    return true;
}
