/* session/image_rows.c - option image_rows: rows that an encoder of images has made take the places of tokens. The
 * model gets an input `image_rows`, [rows, width], and the token -1 - i stands for row i:
 *
 *     ids, 0 -> Max -> the lookup of embeddings -> inputs_embeds
 *     image_rows, Max(-1 - ids, 0) -> Gather -> rows
 *     Unsqueeze(ids < 0), rows, inputs_embeds -> Where -> what the layers read instead of inputs_embeds
 *
 * If the model has a value `image_rows_last` [batch, 1], a position, its attention shows the rows all keys up to there:
 *
 *     ids < 0, image_rows_last, -1 -> Where -> last_position of GroupQueryAttention
 *
 * If the model has a constant `image_shifts.none` [1, n], an input `image_shifts` takes its place, of one row or of one
 * for each new token. `image_turns.cos` and `image_turns.sin`, which are made of it, are read instead of `rotary.cos`
 * and `rotary.sin`.
 *
 * If the model has a value `image_rows.none` [1, n * width], the input has that width and takes its place, and the
 * values `image_rows.0` to `image_rows.n-1` [rows, width] are its parts. Those after the first one are added to the
 * values `deepstack.0` and so on in the places of the rows.
 *
 * By default both inputs have one row, of zeros. */
#include "base/memory.h"
#include "inlay/check.h"
#include "session/session.h"
#include <stdio.h>
#include <string.h>

static const char NAME[] = "image_rows", SHIFTS[] = "image_shifts", NO_SHIFTS[] = "image_shifts.none",
                  NO_ROWS[] = "image_rows.none";

enum { EMBEDDING_RANK = 3, LAST_POSITION = 16 /* input of GroupQueryAttention */ };

/* The input, by default one row of zeros. INLAY_NONE: out of memory. */
static uint32_t add_input(struct graph *graph, const char *name, inlay_dtype dtype, int64_t width)
{
    struct arena *memory = &graph->model->arena;
    const size_t bytes = (size_t)width * (dtype == INLAY_FLOAT ? sizeof(float) : sizeof(int64_t));
    const int64_t *dims = arena_copy(memory, (int64_t[]){ 1, width }, 2 * sizeof width);
    char *zeros = arena_array(memory, bytes, 1);

    if (dims == NULL || zeros == NULL)
        return INLAY_NONE;
    memset(zeros, 0, bytes);
    return graph_add_list_input(
        graph, name, name,
        &(inlay_tensor_view){ .data = zeros, .bytes = bytes, .dims = dims, .rank = 2, .dtype = dtype });
}

/* Replaces a value as the input of the nodes below `count`. */
static void replace(struct graph *graph, uint32_t count, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < count; i++) {
        const graph_node *node = graph->nodes[i];

        for (uint32_t k = 0; k < node->info.input_count; k++)
            if (node->info.inputs[k] == from)
                ((uint32_t *)(uintptr_t)node->info.inputs)[k] = to;
    }
}

/* Gives the attention nodes below `count` the input last_position. false: out of memory. */
static bool show_later(struct graph *graph, uint32_t count, uint32_t is_row, uint32_t minus_one)
{
    uint32_t last = graph_find_value(graph, "image_rows_last");

    if (last == INLAY_NONE)
        return true;
    if (!session_insert_node(graph, NAME, "Where", (uint32_t[]){ is_row, last, minus_one }, 3, &last))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        inlay_node_info *info = &graph->nodes[i]->info;
        uint32_t *inputs;

        if (strcmp(info->op_type.data, "GroupQueryAttention") != 0)
            continue;
        inputs = arena_array(&graph->model->arena, LAST_POSITION + 1, sizeof *inputs);
        if (inputs == NULL)
            return false;
        INLAY_CHECK(info->input_count <= LAST_POSITION);
        for (uint32_t k = 0; k < LAST_POSITION; k++)
            inputs[k] = k < info->input_count ? info->inputs[k] : INLAY_NONE;
        inputs[LAST_POSITION] = last;
        info->inputs = inputs;
        info->input_count = LAST_POSITION + 1;
    }
    return true;
}

/* Gives the rows positions of their own. false: out of memory. */
static bool shift(struct graph *graph, uint32_t count)
{
    static const char *const turns[][2] = { { "rotary.cos", "image_turns.cos" }, { "rotary.sin", "image_turns.sin" } };
    const uint32_t constant = graph_find_value(graph, NO_SHIFTS);
    uint32_t input;

    if (constant == INLAY_NONE)
        return true;
    input = add_input(graph, SHIFTS, INLAY_INT64, graph->values[constant].info.dims[1].value);
    if (input == INLAY_NONE)
        return false;
    replace(graph, count, constant, input);
    for (int i = 0; i < 2; i++)
        replace(graph, count, graph_find_value(graph, turns[i][0]), graph_find_value(graph, turns[i][1]));
    return true;
}

/* Adds the parts of rows after the first one. false: out of memory. */
static bool add_parts(struct graph *graph, uint32_t count, uint32_t place, uint32_t is_row)
{
    for (int i = 1;; i++) {
        char name[32];
        uint32_t rows, stream, sum;

        (void)snprintf(name, sizeof name, "%s.%d", NAME, i);
        rows = graph_find_value(graph, name);
        (void)snprintf(name, sizeof name, "deepstack.%d", i - 1);
        stream = graph_find_value(graph, name);
        if (rows == INLAY_NONE || stream == INLAY_NONE)
            return true;
        if (!session_insert_node(graph, NAME, "Gather", (uint32_t[]){ rows, place }, 2, &rows) ||
            !session_insert_node(graph, NAME, "Add", (uint32_t[]){ stream, rows }, 2, &sum) ||
            !session_insert_node(graph, NAME, "Where", (uint32_t[]){ is_row, sum, stream }, 3, &sum))
            return false;
        replace(graph, count, stream, sum);
    }
}

/* The input, or the first part of it. INLAY_NONE: out of memory. */
static uint32_t add_rows(struct graph *graph, int64_t width)
{
    const uint32_t constant = graph_find_value(graph, NO_ROWS), first = graph_find_value(graph, "image_rows.0");
    uint32_t input;

    if (constant == INLAY_NONE || first == INLAY_NONE)
        return add_input(graph, NAME, INLAY_FLOAT, width);
    input = add_input(graph, NAME, INLAY_FLOAT, graph->values[constant].info.dims[1].value);
    if (input == INLAY_NONE)
        return INLAY_NONE;
    replace(graph, graph->node_count, constant, input);
    return first;
}

/* false: out of memory. */
static bool rewrite(struct graph *graph, uint32_t ids, uint32_t embeddings, int64_t width)
{
    const uint32_t count = graph->node_count;
    uint32_t rows = add_rows(graph, width), zero, minus_one, last, known, place, is_row, mixed;
    const bool good = rows != INLAY_NONE && session_insert_number(graph, 0, &zero) &&
                      session_insert_number(graph, -1, &minus_one) && session_insert_number(graph, -1, &last) &&
                      session_insert_node(graph, NAME, "Max", (uint32_t[]){ ids, zero }, 2, &known) &&
                      session_insert_node(graph, NAME, "Sub", (uint32_t[]){ minus_one, ids }, 2, &place) &&
                      session_insert_node(graph, NAME, "Max", (uint32_t[]){ place, zero }, 2, &place) &&
                      session_insert_node(graph, NAME, "Gather", (uint32_t[]){ rows, place }, 2, &rows) &&
                      session_insert_node(graph, NAME, "Less", (uint32_t[]){ ids, zero }, 2, &is_row) &&
                      show_later(graph, count, is_row, minus_one) &&
                      session_insert_node(graph, NAME, "Unsqueeze", (uint32_t[]){ is_row, last }, 2, &is_row) &&
                      session_insert_node(graph, NAME, "Where", (uint32_t[]){ is_row, rows, embeddings }, 3, &mixed) &&
                      add_parts(graph, count, place, is_row);

    if (good) {
        replace(graph, count, ids, known);
        replace(graph, count, embeddings, mixed);
    }
    return good && shift(graph, count);
}

inlay_status session_take_image_rows(graph_model *model, const inlay_options *options, inlay_diag *diag)
{
    struct graph *graph = model->main;
    const uint32_t ids = graph_find_value(graph, "input_ids"), found = graph_find_value(graph, "inputs_embeds");
    const inlay_value_info *info = found != INLAY_NONE ? &graph->values[found].info : NULL;
    inlay_status status = INLAY_OK;

    if (options_int(options, OPTION_image_rows) == 0 || ids == INLAY_NONE || info == NULL ||
        info->producer == INLAY_NONE || info->rank != EMBEDDING_RANK || info->dtype != INLAY_FLOAT ||
        info->dims[EMBEDDING_RANK - 1].kind != INLAY_DIM_FIXED || info->dims[EMBEDDING_RANK - 1].value < 1 ||
        graph_model_opset(model, "ai.onnx") < 13 || graph_find_value(graph, NAME) != INLAY_NONE)
        return INLAY_OK;
    if (!rewrite(graph, ids, found, info->dims[EMBEDDING_RANK - 1].value))
        return no_memory(diag, "for option image_rows");
    INLAY_TRY(graph_bind(model, NULL, diag));
    INLAY_TRY(graph_finish(graph, diag));
    INLAY_TRY(graph_infer(model, diag));
done:
    return status;
}
