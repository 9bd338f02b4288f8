#include "texts/model/join.h"
#include "base/memory.h"
#include "texts/draft/onnx_copy.h"
#include <string.h>

enum { AXES = 3 }; /* of positions */

static const char IDS[] = "input_ids", EMBEDS[] = "inputs_embeds", POSITIONS[] = "position_ids";
static const char PREFIX[] = "embedding/";       /* of the names of its values and nodes */
static const char APART[] = "position_ids/axes"; /* what the decoder reads instead of position_ids with three axes */

/* A graph's input or output of that name. */
static bool has_value(const onnx_file *file, uint32_t kind, wire_span name)
{
    wire_span found;

    return onnx_named(file->graph, kind, VALUE_NAME, name, &found);
}

/* Whether a node has a graph of its own, in whose nodes names would have to change, too. */
static bool has_graph(wire_span node)
{
    enum { GRAPH = 6, GRAPHS = 11 };
    wire_field attribute, graph;

    while (wire_next(&node, &attribute))
        if (attribute.number == NODE_ATTRIBUTE &&
            (onnx_field(attribute.data, GRAPH, 0, &graph) || onnx_field(attribute.data, GRAPHS, 0, &graph)))
            return true;
    return false;
}

/* Whether the decoder's input position_ids has three axes. */
static bool has_axes(const onnx_file *decoder)
{
    wire_span value;

    return onnx_named(decoder->graph, GRAPH_INPUT, VALUE_NAME, onnx_span(POSITIONS), &value) &&
           onnx_has_three_axes(value);
}

/* Names of inputs cannot be replaced in the graphs of nodes. */
static inlay_status check_axes(const onnx_file *decoder, inlay_diag *diag)
{
    wire_span rest = decoder->graph;
    wire_field item;

    while (has_axes(decoder) && wire_next(&rest, &item))
        if (item.number == GRAPH_NODE && has_graph(item.data))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "%s: node '%.*s' has a graph, which is not supported with position_ids of three axes",
                              decoder->name, ONNX_SHOWN(onnx_label(item.data)));
    return INLAY_OK;
}

static inlay_status check(const onnx_file *decoder, const onnx_file *embedding, wire_span *out_shape, bool *out_imports,
                          inlay_diag *diag)
{
    wire_span rest = embedding->graph, embeds;
    uint64_t width;
    wire_field item;
    inlay_status status = INLAY_OK;

    if (!onnx_named(decoder->graph, GRAPH_INPUT, VALUE_NAME, onnx_span(EMBEDS), &embeds) ||
        onnx_float_rows(embeds, out_shape, &width) != INLAY_FLOAT)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "%s: it has no input 'inputs_embeds' of float32 with 3 axes; use another variant",
                          decoder->name);
    if (!has_value(embedding, GRAPH_OUTPUT, onnx_span(EMBEDS)))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: it has no output 'inputs_embeds'", embedding->name);
    if (onnx_field(embedding->bytes, MODEL_FUNCTION, 0, &item))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: functions are not supported there", embedding->name);
    while (wire_next(&rest, &item) && status == INLAY_OK) {
        const wire_span name = onnx_text(item.data, VALUE_NAME, 0);

        if (item.number == GRAPH_INPUT && !wire_is(name, IDS) &&
            !onnx_named(embedding->graph, GRAPH_INITIALIZER, TENSOR_NAME, name, &embeds))
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: input '%.*s' is not supplied", embedding->name,
                                ONNX_SHOWN(name));
        else if (item.number == GRAPH_NODE && has_graph(item.data))
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: node '%.*s' has a graph, which is not supported",
                                embedding->name, ONNX_SHOWN(onnx_label(item.data)));
        else if (item.number == GRAPH_NODE)
            status = onnx_check_version(embedding, decoder, item.data, out_imports, diag);
    }
    return status;
}

/* A name of the embedding: its input and its outputs keep theirs. */
static void write_name(struct wire *out, uint32_t number, const onnx_file *embedding, wire_span name)
{
    const bool kept = wire_is(name, IDS) || has_value(embedding, GRAPH_OUTPUT, name);

    onnx_write_name(out, number, kept ? NULL : PREFIX, name);
}

static void write_node(struct wire *out, const onnx_file *embedding, wire_span node)
{
    const wire_mark mark = wire_begin(out, GRAPH_NODE);
    wire_field item;

    while (wire_next(&node, &item)) {
        if (item.number == NODE_INPUT || item.number == NODE_OUTPUT)
            write_name(out, item.number, embedding, item.data);
        else if (item.number == NODE_NAME)
            onnx_write_name(out, item.number, PREFIX, item.data);
        else
            onnx_copy_field(out, embedding, ONNX_NODE, &item, 0);
    }
    wire_end(out, mark);
}

/* A node of the decoder, which reads APART instead of position_ids. */
static void write_reader(struct wire *out, const onnx_file *decoder, wire_span node)
{
    const wire_mark mark = wire_begin(out, GRAPH_NODE);
    wire_field item;

    while (wire_next(&node, &item))
        if (item.number == NODE_INPUT && wire_is(item.data, POSITIONS))
            wire_text(out, NODE_INPUT, APART);
        else
            onnx_copy_field(out, decoder, ONNX_NODE, &item, 0);
    wire_end(out, mark);
}

static void write_list(struct wire *out, const char *name, const int64_t *dims, uint32_t rank, const int64_t *values,
                       size_t count)
{
    const wire_mark tensor = wire_begin(out, GRAPH_INITIALIZER);

    wire_ints(out, TENSOR_DIM, dims, rank);
    wire_int(out, TENSOR_TYPE, INLAY_INT64);
    wire_text(out, TENSOR_NAME, name);
    wire_bytes(out, TENSOR_RAW, values, count * sizeof *values);
    wire_end(out, tensor);
}

/* op: with its inputs; NULL: there is no second one. */
static void write_step(struct wire *out, const char *op, const char *first, const char *second, const char *output)
{
    const wire_mark node = wire_begin(out, GRAPH_NODE);

    wire_text(out, NODE_INPUT, first);
    if (second != NULL)
        wire_text(out, NODE_INPUT, second);
    wire_text(out, NODE_OUTPUT, output);
    wire_text(out, NODE_NAME, output);
    wire_text(out, NODE_OP, op);
    if (strcmp(op, "Concat") == 0)
        onnx_write_int(out, "axis", 0);
    wire_end(out, node);
}

/* APART [3, batch, tokens] of position_ids [batch, tokens]. */
static void write_axes(struct wire *out)
{
    static const int64_t none[AXES] = { 0 }, column[] = { -1, 1 }, axes[] = { AXES };

    write_list(out, "image_shifts.none", (int64_t[]){ 1, AXES }, 2, none, AXES);
    write_list(out, "position_ids/column.shape", (int64_t[]){ 2 }, 1, column, 2);
    write_list(out, "position_ids/count", (int64_t[]){ 1 }, 1, axes, 1);
    write_step(out, "Reshape", POSITIONS, "position_ids/column.shape", "position_ids/column");
    write_step(out, "Add", "position_ids/column", "image_shifts.none", "position_ids/rows");
    write_step(out, "Transpose", "position_ids/rows", NULL, "position_ids/columns");
    write_step(out, "Shape", POSITIONS, NULL, "position_ids/shape");
    write_step(out, "Concat", "position_ids/count", "position_ids/shape", "position_ids/axes.shape");
    write_step(out, "Reshape", "position_ids/columns", "position_ids/axes.shape", APART);
}

/* The nodes of the embedding come before those of the decoder, which lacks the inputs that they make. */
static void write_graph(struct wire *out, const onnx_file *decoder, const onnx_file *embedding, wire_span shape)
{
    const wire_mark mark = wire_begin(out, MODEL_GRAPH);
    const bool axes = has_axes(decoder);
    wire_span rest = embedding->graph;
    wire_field item;

    while (wire_next(&rest, &item))
        if (item.number == GRAPH_NODE)
            write_node(out, embedding, item.data);
        else if (item.number == GRAPH_INITIALIZER)
            onnx_copy_tensor(out, GRAPH_INITIALIZER, embedding, item.data, PREFIX);
    if (!has_value(decoder, GRAPH_INPUT, onnx_span(IDS)))
        onnx_write_rows(out, GRAPH_INPUT, IDS, INLAY_INT64, shape, false);
    if (axes) {
        onnx_write_rows(out, GRAPH_INPUT, POSITIONS, INLAY_INT64, shape, false);
        write_axes(out);
    }
    rest = decoder->graph;
    while (wire_next(&rest, &item))
        if (axes && item.number == GRAPH_NODE)
            write_reader(out, decoder, item.data);
        else if (axes && item.number == GRAPH_INPUT && wire_is(onnx_text(item.data, VALUE_NAME, 0), POSITIONS))
            continue;
        else if (item.number != GRAPH_INPUT || !has_value(embedding, GRAPH_OUTPUT, onnx_text(item.data, VALUE_NAME, 0)))
            onnx_copy_field(out, decoder, ONNX_GRAPH, &item, 0);
    wire_end(out, mark);
}

static void write_model(struct wire *out, const onnx_file *decoder, const onnx_file *embedding, wire_span shape,
                        bool imports)
{
    wire_span rest = decoder->bytes;
    wire_field item;

    while (wire_next(&rest, &item))
        if (item.number == MODEL_GRAPH)
            write_graph(out, decoder, embedding, shape);
        else
            onnx_copy_field(out, decoder, ONNX_MODEL, &item, 0);
    if (imports)
        onnx_copy_import(out, embedding->bytes);
}

inlay_status text_join(const char *decoder_path, const char *embedding_path, inlay_options *options,
                       struct wire *out_bytes, inlay_diag *diag)
{
    onnx_file decoder = { .path = NULL }, embedding = { .path = NULL };
    wire_span shape = { NULL, 0 };
    bool imports = false;
    inlay_status status = INLAY_OK;

    if (!onnx_file_open(decoder_path, &decoder) || !onnx_file_open(embedding_path, &embedding)) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s cannot be read as an ONNX model",
                            embedding.path == NULL ? decoder_path : embedding_path);
        goto done;
    }
    INLAY_TRY(check(&decoder, &embedding, &shape, &imports, diag));
    INLAY_TRY(check_axes(&decoder, diag));
    INLAY_TRY(onnx_find_folders(&decoder, &embedding, options, diag));
    write_model(out_bytes, &decoder, &embedding, shape, imports);
    if (out_bytes->failed)
        status = no_memory(diag, "for a model of two files");
    if (status == INLAY_OK)
        status = mapped_file_check(decoder.watch, diag);
    if (status == INLAY_OK)
        status = mapped_file_check(embedding.watch, diag);
done:
    onnx_file_close(&decoder);
    onnx_file_close(&embedding);
    return status;
}
