#include "quantize/layers.h"
#include "inlay/check.h"
#include "base/checked.h"
#include "base/memory.h"
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Which input of an operator holds weights, and the roles of their axes. */
struct kind {
    const char *op, *domain;
    uint32_t input;
    uint32_t least_rank;
    int channel, depth; /* negative: from the end; or NO_DEPTH */
    bool multiplies;
};

enum { NO_DEPTH = 99 }; /* the operator sums over no axis that can be cut into blocks */
#define ONNX "ai.onnx"
#define MICROSOFT "com.microsoft"
static const struct kind kinds[] = {
    { "MatMul", ONNX, 1, 2, -1, -2, true },    { "Gemm", ONNX, 1, 2, 1, 0, true },
    { "Conv", ONNX, 1, 3, 0, NO_DEPTH, true }, { "ConvTranspose", ONNX, 1, 3, 1, NO_DEPTH, false },
    { "Gather", ONNX, 0, 2, 0, 1, false },     { "LSTM", ONNX, 1, 3, 1, 2, false },
    { "LSTM", ONNX, 2, 3, 1, 2, false },       { "GRU", ONNX, 1, 3, 1, 2, false },
    { "GRU", ONNX, 2, 3, 1, 2, false },        { "RNN", ONNX, 1, 3, 1, 2, false },
    { "RNN", ONNX, 2, 3, 1, 2, false },        { "MoE", MICROSOFT, 2, 3, 1, 2, false },
    { "MoE", MICROSOFT, 4, 3, 1, 2, false },   { "MoE", MICROSOFT, 6, 3, 1, 2, false },
};

struct finder {
    layer_list *out;
    const char *const *skip;
    uint32_t skip_count;
    bool *used; /* [skip_count] */
    struct arena *arena;
    inlay_diag *diag;
};

static uint32_t axis_of(int axis, uint32_t rank)
{
    return axis == NO_DEPTH ? INLAY_NONE : (uint32_t)(axis < 0 ? axis + (int)rank : axis);
}

static bool is_skipped(struct finder *finder, const graph_node *node)
{
    bool any = false;

    for (uint32_t i = 0; i < finder->skip_count; i++) {
        const char *pattern = finder->skip[i];
        const bool fits = strncmp(pattern, "op:", 3) == 0 ? fnmatch(pattern + 3, node->info.op_type.data, 0) == 0
                                                          : fnmatch(pattern, node->info.name.data, 0) == 0 ||
                                                                strcmp(pattern, node->info.name.data) == 0;
        finder->used[i] |= fits;
        any |= fits;
    }
    return any;
}

/* Works in slices, so that a large table never needs all of its file pages, or these and a copy, in memory at once. */
enum { SLICE = 1 << 20 };

static bool all_finite(const graph_model *model, const inlay_value_info *info, int64_t count)
{
    bool finite = true;

    for (int64_t at = 0; at < count && finite; at += SLICE) {
        const int64_t some = count - at < SLICE ? count - at : SLICE;
        const char *from = (const char *)info->data + (size_t)at * sizeof(float);

        for (int64_t i = 0; i < some && finite; i++) {
            float weight;

            memcpy(&weight, from + (size_t)i * sizeof weight, sizeof weight);
            finite = isfinite(weight);
        }
        graph_blob_release_pages(model, from, (size_t)some * sizeof(float));
    }
    graph_blob_release_pages(model, info->data, (size_t)info->data_bytes); /* and the pages between */
    return finite;
}

static inlay_status add_layer(struct finder *finder, const struct layer *layer)
{
    if (!ARENA_GROW(finder->arena, finder->out->items, finder->out->count))
        return no_memory(finder->diag, "for the list of layers");
    finder->out->items[finder->out->count++] = *layer;
    return INLAY_OK;
}

static inlay_status match(struct finder *finder, struct graph *graph, graph_node *node, const char *path,
                          const struct kind *kind)
{
    const uint32_t value = graph_input_at(node, kind->input);
    const inlay_value_info *info = value == INLAY_NONE ? NULL : &graph->values[value].info;
    struct layer layer = {
        .graph = graph, .node = node, .path = path, .weight = value, .weight_input = kind->input, .count = 1
    };

    if (info == NULL || (info->flags & INLAY_VALUE_CONSTANT) == 0 || info->dtype != INLAY_FLOAT ||
        info->rank < kind->least_rank || info->rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    for (uint32_t d = 0; d < info->rank; d++)
        if (!mul_dim(&layer.count, info->dims[d].value))
            return INLAY_OK;
    layer.channel = axis_of(kind->channel, info->rank);
    layer.depth = axis_of(kind->depth, info->rank);
    if (strcmp(kind->op, "Gemm") == 0 && graph_attr_int(node, "transB", 0) != 0) {
        layer.channel = 0;
        layer.depth = 1;
    }
    if (strcmp(kind->op, "Gather") == 0 && /* rows of one element: scales or zero points of a quantized table */
        (graph_attr_int(node, "axis", 0) != 0 || info->dims[info->rank - 1].value == 1))
        return INLAY_OK;
    layer.multiplies = kind->multiplies && path[0] == '\0' && info->rank <= (strcmp(kind->op, "Conv") == 0 ? 8u : 2u) &&
                       node->info.inputs[0] != INLAY_NONE && graph_attr_int(node, "transA", 0) == 0 &&
                       (graph->values[node->info.inputs[0]].info.flags & INLAY_VALUE_CONSTANT) == 0;
    if (is_skipped(finder, node))
        layer.reason = "skipped";
    else if (!all_finite(graph->model, info, layer.count))
        layer.reason = "weights contain NaN or infinity";
    return add_layer(finder, &layer);
}

static inlay_status find_in(struct finder *finder, struct graph *graph, const char *path)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < graph->node_count; i++) {
        graph_node *node = graph->nodes[i];

        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
            if (strcmp(node->info.op_type.data, kinds[k].op) == 0 &&
                strcmp(node->info.domain.data, kinds[k].domain) == 0)
                INLAY_TRY(match(finder, graph, node, path, &kinds[k]));
        for (uint32_t b = 0; b < node->body_count; b++) {
            const char *inner =
                arena_format(finder->arena, "%s%s.%s/", path, node->info.name.data, node->bodies[b].attr);

            if (inner == NULL)
                return no_memory(finder->diag, "for the list of layers");
            INLAY_TRY(find_in(finder, node->bodies[b].graph, inner));
        }
    }
done:
    return status;
}

inlay_status layers_find(graph_model *model, const char *const *skip, uint32_t skip_count, struct arena *arena,
                         layer_list *out, inlay_diag *diag)
{
    struct finder finder = { .out = out, .skip = skip, .skip_count = skip_count, .arena = arena, .diag = diag };
    inlay_status status;

    *out = (layer_list){ 0 };
    finder.used = arena_array(arena, (size_t)skip_count + 1, sizeof *finder.used);
    if (finder.used == NULL)
        return no_memory(diag, "for the list of layers");
    INLAY_TRY(find_in(&finder, model->main, ""));
    for (uint32_t i = 0; i < skip_count; i++)
        if (!finder.used[i])
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "skip: no layer with weights matches '%.200s'; inlay inspect --nodes lists the nodes",
                              skip[i]);
done:
    return status;
}

int64_t layer_channels(const struct layer *layer)
{
    INLAY_CHECK(layer->channel < layer->graph->values[layer->weight].info.rank);
    return layer->graph->values[layer->weight].info.dims[layer->channel].value;
}

const struct layer *layer_of(const layer_list *list, const graph_node *node)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].node == node && list->items[i].weight_input == 1)
            return &list->items[i];
    return NULL;
}

uint32_t layer_bias(const struct layer *layer, bool *out_other)
{
    const graph_node *node = layer->node;
    const uint32_t value = strcmp(node->info.op_type.data, "MatMul") != 0 && node->info.input_count > 2
                               ? node->info.inputs[2]
                               : INLAY_NONE;
    const inlay_value_info *info = value == INLAY_NONE ? NULL : &layer->graph->values[value].info;

    *out_other = false;
    if (info == NULL)
        return INLAY_NONE;
    if ((info->flags & INLAY_VALUE_CONSTANT) != 0 && info->dtype == INLAY_FLOAT && info->rank == 1 &&
        info->dims[0].value == layer_channels(layer))
        return value;
    *out_other = true;
    return INLAY_NONE;
}

float *layer_weights(const struct layer *layer)
{
    float *weights = malloc((size_t)layer->count * sizeof *weights + 1);

    if (weights != NULL) {
        const inlay_value_info *info = &layer->graph->values[layer->weight].info;

        for (int64_t at = 0; at < layer->count; at += SLICE) {
            const size_t bytes = (size_t)(layer->count - at < SLICE ? layer->count - at : SLICE) * sizeof *weights;

            memcpy(weights + at, (const char *)info->data + (size_t)at * sizeof *weights, bytes);
            graph_blob_release_pages(layer->graph->model, (const char *)info->data + (size_t)at * sizeof *weights,
                                     bytes);
        }
        graph_blob_release_pages(layer->graph->model, info->data, (size_t)info->data_bytes);
    }
    return weights;
}
