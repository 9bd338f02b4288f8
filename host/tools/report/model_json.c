#include "report/model_json.h"
#include "base/checked.h"
#include "base/element.h"
#include "base/hash.h"
#include "base/memory.h"
#include "modelkit/lines.h"
#include "report/model_types.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_NAME = 300,         /* bytes of a name */
    MOST_TEXT = 2000,        /* bytes of a node's attributes */
    MOST_BYTES = 32 << 20,   /* of the JSON, about */
    FIRST_ELEMENTS = 8,      /* of a constant that are written */
    SAMPLED_ELEMENTS = 4096, /* of a constant, for its histogram */
    BINS = 24
};

struct writer {
    struct arena arena; /* paths of bodies */
    int64_t room;       /* bytes left of MOST_BYTES */
    uint64_t nodes, left_out;
    bool failed;
};

/* A graph that is being written. */
struct graph_writer {
    struct writer *writer;
    const struct graph *graph;
    model_types types;
    json_t *values;               /* the values that nodes and outputs refer to, in the order of their first use */
    uint32_t *index;              /* [value_count] into `values`, or INLAY_NONE */
    const graph_node **constants; /* [value_count] the Constant node that makes a value, or NULL */
};

static json_t *keep(struct writer *writer, json_t *json)
{
    writer->failed = writer->failed || json == NULL;
    writer->room -= 16;
    return json;
}

/* A string of at most `most` bytes and an ellipsis, cut between characters. */
static json_t *text_json(struct writer *writer, const char *text, size_t most)
{
    static const char ellipsis[] = "\xe2\x80\xa6";
    size_t bytes = strlen(text);
    const bool cut = bytes > most;
    char *copy;
    json_t *json;

    if (cut)
        for (bytes = most; bytes > 0 && ((unsigned char)text[bytes] & 0xc0) == 0x80;)
            bytes--;
    copy = malloc(bytes + sizeof ellipsis);
    if (copy == NULL)
        return keep(writer, NULL);
    memcpy(copy, text, bytes);
    memcpy(copy + bytes, cut ? ellipsis : "", cut ? sizeof ellipsis : 1);
    json = json_string(copy);
    free(copy);
    writer->room -= (int64_t)bytes;
    return keep(writer, json != NULL ? json : json_string("?")); /* not UTF-8 */
}

static void set(struct writer *writer, json_t *object, const char *key, json_t *value)
{
    writer->room -= (int64_t)strlen(key);
    if (json_object_set_new(object, key, keep(writer, value)) != 0)
        writer->failed = true;
}

static void append(struct writer *writer, json_t *array, json_t *value)
{
    if (json_array_append_new(array, keep(writer, value)) != 0)
        writer->failed = true;
}

/* Adds range, mean and histogram of evenly spaced elements. */
static void put_statistics(struct writer *writer, json_t *json, inlay_dtype dtype, const void *data, int64_t count)
{
    const int64_t samples = count < SAMPLED_ELEMENTS ? count : SAMPLED_ELEMENTS;
    double *numbers = malloc((size_t)samples * sizeof *numbers), low = INFINITY, high = -INFINITY, sum = 0;
    int64_t finite = 0;
    uint32_t bins[BINS] = { 0 };
    json_t *list;

    for (int64_t i = 0; numbers != NULL && i < samples; i++) {
        double number;

        if (!element_number(dtype, data, i * (count / samples), &number, NULL) || !isfinite(number))
            continue;
        numbers[finite++] = number;
        low = fmin(low, number);
        high = fmax(high, number);
        sum += number;
    }
    writer->failed = writer->failed || numbers == NULL;
    if (finite > 0 && isfinite(high - low) && isfinite(sum)) {
        for (int64_t i = 0; i < finite; i++) {
            const double at = high > low ? (numbers[i] - low) / (high - low) * BINS : 0;

            bins[at < BINS ? (int)at : BINS - 1]++;
        }
        set(writer, json, "low", json_real(low));
        set(writer, json, "high", json_real(high));
        set(writer, json, "mean", json_real(sum / (double)finite));
        set(writer, json, "sampled", json_integer(samples));
        list = keep(writer, json_array());
        for (uint32_t i = 0; i < BINS; i++)
            append(writer, list, json_integer(bins[i]));
        set(writer, json, "bins", list);
    }
    free(numbers);
}

static json_t *data_json(struct writer *writer, inlay_dtype dtype, const void *data, uint64_t bytes, int64_t count)
{
    json_t *json = keep(writer, json_object());
    char first[FIRST_ELEMENTS * 48] = "", one[40], hash[20];
    size_t used = 0;

    for (int64_t i = 0; i < count && i < FIRST_ELEMENTS; i++)
        used += (size_t)snprintf(first + used, sizeof first - used, "%s%s", i > 0 ? ", " : "",
                                 element_text(dtype, data, i, one, sizeof one));
    set(writer, json, "first", text_json(writer, first, sizeof first));
    set(writer, json, "count", json_integer(count));
    if (dtype != INLAY_STRING) {
        (void)snprintf(hash, sizeof hash, "%016" PRIx64, hash_blocks(data, (size_t)bytes, 0));
        set(writer, json, "hash", json_string(hash));
    }
    if (count > FIRST_ELEMENTS)
        put_statistics(writer, json, dtype, data, count);
    return json;
}

static int64_t elements(uint32_t rank, const inlay_dim *dims)
{
    int64_t count = 1;

    for (uint32_t i = 0; i < rank; i++)
        count *= dims[i].value; /* of a constant: the loader has checked the product */
    return count;
}

/* The attributes of a node as text. */
static json_t *attributes_json(struct writer *writer, const graph_node *node)
{
    struct arena arena = { 0 };
    const char *text = lines_attributes(&arena, node);
    json_t *json = text != NULL ? text_json(writer, text[0] == ' ' ? text + 1 : text, MOST_TEXT) : NULL;

    arena_deinit(&arena);
    return json;
}

/* Adds the type and the contents of a Constant node's output. */
static void put_constant_node(struct writer *writer, json_t *json, const graph_node *node)
{
    const inlay_attr_info *value = graph_attr(node, "value");
    json_t *shape;
    int64_t count = 1;

    set(writer, json, "constant", json_true());
    if (value == NULL || value->kind != INLAY_ATTR_TENSOR) {
        set(writer, json, "data", json_pack("{s:o}", "first", attributes_json(writer, node)));
        return;
    }
    shape = keep(writer, json_array());
    for (uint32_t i = 0; i < value->tensor->rank; i++) {
        append(writer, shape, json_integer(value->tensor->dims[i]));
        count *= value->tensor->dims[i];
    }
    set(writer, json, "dtype", json_string(inlay_dtype_name(value->tensor->dtype)));
    set(writer, json, "shape", shape);
    set(writer, json, "bytes", json_integer((json_int_t)value->tensor->bytes));
    set(writer, json, "data",
        data_json(writer, value->tensor->dtype, value->tensor->data, value->tensor->bytes, count));
}

static void put_type(struct writer *writer, json_t *json, const graph_model *model, const graph_value *value)
{
    static const char *const kinds[] = { NULL, NULL, "sequence", "optional", "map" };
    const uint32_t rank = value->declared ? value->declared_rank : value->info.rank;
    const inlay_dim *dims = value->declared ? value->declared_dims : value->info.dims;
    const inlay_dtype dtype = value->declared ? value->declared_dtype : value->info.dtype;
    int64_t bytes = inlay_dtype_bits(dtype);
    json_t *shape;

    set(writer, json, "dtype", json_string(inlay_dtype_name(dtype)));
    if (value->info.kind < 5 && kinds[value->info.kind] != NULL)
        set(writer, json, "kind", json_string(kinds[value->info.kind]));
    if (rank == INLAY_RANK_UNKNOWN)
        return;
    shape = keep(writer, json_array());
    for (uint32_t i = 0; i < rank; i++) {
        const bool fixed = dims[i].kind == INLAY_DIM_FIXED;

        if (!fixed || bytes < 0 || !mul_dim(&bytes, dims[i].value))
            bytes = -1; /* unknown */
        if (fixed)
            append(writer, shape, json_integer(dims[i].value));
        else
            append(writer, shape,
                   text_json(writer,
                             dims[i].kind == INLAY_DIM_SYMBOLIC && dims[i].symbol < model->symbol_count
                                 ? model->symbols[dims[i].symbol].name.data
                                 : "?",
                             MOST_NAME));
    }
    set(writer, json, "shape", shape);
    if (bytes >= 0 && value->info.kind <= INLAY_VALUE_TENSOR && dtype != INLAY_STRING)
        set(writer, json, "bytes", json_integer((bytes + 7) / 8));
}

/* The index of a value in the JSON; its first use adds it. */
static json_t *value_json_index(struct graph_writer *graph, uint32_t value)
{
    struct writer *writer = graph->writer;
    const inlay_value_info *info;
    const graph_value *typed;
    const graph_model *model;
    json_t *json;

    if (value == INLAY_NONE)
        return json_integer(-1);
    if (graph->index[value] != INLAY_NONE)
        return json_integer(graph->index[value]);
    info = &graph->graph->values[value].info;
    graph->index[value] = (uint32_t)json_array_size(graph->values);
    json = keep(writer, json_object());
    set(writer, json, "name", text_json(writer, info->name.data, MOST_NAME));
    typed = model_types_find(&graph->types, graph->graph, value, &model);
    if (graph->constants[value] != NULL) {
        put_constant_node(writer, json, graph->constants[value]);
    } else if (typed != NULL) {
        put_type(writer, json, model, typed);
    }
    if ((info->flags & INLAY_VALUE_CONSTANT) != 0) {
        set(writer, json, "constant", json_true());
        if (info->data != NULL)
            set(writer, json, "data",
                data_json(writer, info->dtype, info->data, info->data_bytes, elements(info->rank, info->dims)));
    }
    append(writer, graph->values, json);
    return json_integer(graph->index[value]);
}

static json_t *indexes_json(struct graph_writer *graph, const uint32_t *values, uint32_t count)
{
    json_t *list = keep(graph->writer, json_array());

    for (uint32_t i = 0; i < count; i++)
        append(graph->writer, list, value_json_index(graph, values[i]));
    return list;
}

static json_t *graph_json(struct writer *writer, const struct graph *graph, const struct graph *typed,
                          const char *path);

static json_t *node_json(struct graph_writer *graph, const graph_node *node, const char *path)
{
    struct writer *writer = graph->writer;
    json_t *json = keep(writer, json_object()), *bodies;
    set(writer, json, "name", text_json(writer, node->info.name.data, MOST_NAME));
    set(writer, json, "op", text_json(writer, node->info.op_type.data, MOST_NAME));
    set(writer, json, "domain", text_json(writer, node->info.domain.data, MOST_NAME));
    if (node->info.since_version > 0)
        set(writer, json, "since_version", json_integer(node->info.since_version));
    if (node->own_attr_count > 0)
        set(writer, json, "attributes", attributes_json(writer, node));
    set(writer, json, "inputs", indexes_json(graph, node->info.inputs, node->info.input_count));
    set(writer, json, "outputs", indexes_json(graph, node->info.outputs, node->info.output_count));
    if (node->capture_count > 0)
        set(writer, json, "captures", indexes_json(graph, node->captures, node->capture_count));
    if (node->body_count == 0)
        return json;
    bodies = keep(writer, json_object());
    for (uint32_t i = 0; i < node->body_count && !writer->failed; i++) {
        const char *attr = node->bodies[i].in_list ? arena_format(&writer->arena, "%s[%u]", node->bodies[i].attr, i)
                                                   : node->bodies[i].attr;
        const char *inner =
            arena_format(&writer->arena, "%s/%s.%s", path, node->info.name.data, attr != NULL ? attr : "");

        if (attr == NULL || inner == NULL)
            writer->failed = true;
        else
            set(writer, bodies, attr,
                graph_json(writer, node->bodies[i].graph, model_types_body(&graph->types, node, i), inner));
    }
    set(writer, json, "bodies", bodies);
    return json;
}

static void put_nodes(struct graph_writer *graph, json_t *json, const char *path)
{
    struct writer *writer = graph->writer;
    json_t *nodes = keep(writer, json_array());

    set(writer, json, "inputs", indexes_json(graph, graph->graph->inputs, graph->graph->input_count));
    set(writer, json, "captured", indexes_json(graph, graph->graph->captured, graph->graph->captured_count));
    for (uint32_t i = 0; i < graph->graph->node_count && !writer->failed; i++) {
        const graph_node *node = graph->graph->nodes[i];

        if (node->info.output_count == 1 && node->info.outputs[0] != INLAY_NONE &&
            graph->constants[node->info.outputs[0]] == node)
            continue; /* part of its output */
        writer->nodes++;
        if (writer->room > 0)
            append(writer, nodes, node_json(graph, node, path));
        else
            writer->left_out++;
    }
    set(writer, json, "nodes", nodes);
    set(writer, json, "outputs", indexes_json(graph, graph->graph->outputs, graph->graph->output_count));
}

static json_t *graph_json(struct writer *writer, const struct graph *graph, const struct graph *typed, const char *path)
{
    struct graph_writer to = { .writer = writer, .graph = graph, .values = keep(writer, json_array()) };
    json_t *json = keep(writer, json_object());

    to.index = malloc(((size_t)graph->value_count + 1) * sizeof *to.index);
    to.constants = calloc((size_t)graph->value_count + 1, sizeof *to.constants);
    if (to.index == NULL || to.constants == NULL || !model_types_init(&to.types, typed)) {
        writer->failed = true;
    } else {
        memset(to.index, 0xff, graph->value_count * sizeof *to.index);
        for (uint32_t i = 0; i < graph->node_count; i++)
            if (strcmp(graph->nodes[i]->info.op_type.data, "Constant") == 0 &&
                graph->nodes[i]->info.output_count == 1 && graph->nodes[i]->info.outputs[0] != INLAY_NONE)
                to.constants[graph->nodes[i]->info.outputs[0]] = graph->nodes[i];
        set(writer, json, "path", text_json(writer, path, MOST_TEXT));
        set(writer, json, "graph", text_json(writer, graph->name != NULL ? graph->name : "", MOST_NAME));
        put_nodes(&to, json, path);
        set(writer, json, "values", json_incref(to.values));
        model_types_deinit(&to.types);
    }
    json_decref(to.values);
    free(to.index);
    free((void *)to.constants);
    return json;
}

inlay_status model_json(graph_model *model, const graph_model *typed, const char *path, json_t **out, inlay_diag *diag)
{
    struct writer writer = { .room = MOST_BYTES };
    json_t *json = keep(&writer, json_object());

    set(&writer, json, "model", text_json(&writer, path, MOST_TEXT));
    set(&writer, json, "main", graph_json(&writer, model->main, typed != NULL ? typed->main : NULL, "main"));
    set(&writer, json, "nodes", json_integer((json_int_t)writer.nodes));
    set(&writer, json, "left_out", json_integer((json_int_t)writer.left_out));
    arena_deinit(&writer.arena);
    if (!writer.failed) {
        *out = json;
        return INLAY_OK;
    }
    json_decref(json);
    return no_memory(diag, "to draw the model");
}
