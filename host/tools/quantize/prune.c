#include "quantize/prune.h"
#include "base/among.h"
#include "inlay/check.h"
#include "modelkit/edit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct block {
    double contribution; /* squared weights times the importance of their input */
    int64_t at;          /* row * panels + panel; breaks ties */
};

static int least_first(const void *a, const void *b)
{
    const struct block *left = a, *right = b;

    return left->contribution != right->contribution
               ? (left->contribution > right->contribution) - (left->contribution < right->contribution)
               : (left->at > right->at) - (left->at < right->at);
}

/* A matrix [depth, columns] with its strides. */
struct matrix {
    float *weights;
    int64_t depth, columns, step, column_step;
};

static struct matrix matrix_of(const struct layer *layer, float *weights)
{
    const inlay_value_info *info = &layer->graph->values[layer->weight].info;
    const bool upright = layer->depth == 0;

    return (struct matrix){ weights, info->dims[layer->depth].value, info->dims[1 - layer->depth].value,
                            upright ? info->dims[1].value : 1, upright ? 1 : info->dims[1].value };
}

static int64_t end_of(const struct matrix *matrix, int64_t panel)
{
    return (panel + 1) * PRUNE_WIDTH < matrix->columns ? (panel + 1) * PRUNE_WIDTH : matrix->columns;
}

/* False: no memory. */
static bool drop_blocks(const struct matrix *matrix, double share, const float *importance)
{
    const int64_t panels = (matrix->columns + PRUNE_WIDTH - 1) / PRUNE_WIDTH, count = matrix->depth * panels;
    const int64_t pruned = (int64_t)(share * (double)count + 0.5);
    struct block *blocks = calloc((size_t)count + 1, sizeof *blocks);

    INLAY_CHECK(share >= 0 && share < 1 && pruned <= count);
    if (blocks == NULL)
        return false;
    for (int64_t i = 0; i < count; i++) {
        blocks[i].at = i;
        for (int64_t j = i % panels * PRUNE_WIDTH; j < end_of(matrix, i % panels); j++) {
            const double weight = (double)matrix->weights[i / panels * matrix->step + j * matrix->column_step];

            blocks[i].contribution += weight * weight * (importance != NULL ? (double)importance[i / panels] : 1);
        }
        if (isnan(blocks[i].contribution)) /* NaN cannot be sorted */
            blocks[i].contribution = INFINITY;
    }
    qsort(blocks, (size_t)count, sizeof *blocks, least_first);
    for (int64_t i = 0; i < pruned; i++)
        for (int64_t panel = blocks[i].at % panels, j = panel * PRUNE_WIDTH; j < end_of(matrix, panel); j++)
            matrix->weights[blocks[i].at / panels * matrix->step + j * matrix->column_step] = 0;
    free(blocks);
    return true;
}

/* Weights in a file may be unaligned. */
static float element(const struct matrix *matrix, int64_t row, int64_t column)
{
    float weight;

    memcpy(&weight,
           (const char *)matrix->weights + (row * matrix->step + column * matrix->column_step) * (int64_t)sizeof weight,
           sizeof weight);
    return weight;
}

/* Bytes of the matrix if zero blocks take none and every other block takes its weights and a position. */
static uint64_t bytes_left(const struct matrix *matrix)
{
    const int64_t panels = (matrix->columns + PRUNE_WIDTH - 1) / PRUNE_WIDTH;
    uint64_t bytes = 0;

    for (int64_t i = 0; i < matrix->depth * panels; i++) {
        bool zero = true;

        for (int64_t j = i % panels * PRUNE_WIDTH; j < end_of(matrix, i % panels); j++)
            zero &= element(matrix, i / panels, j) == 0;
        bytes += zero ? 0 : (uint64_t)(end_of(matrix, i % panels) - i % panels * PRUNE_WIDTH + 1) * sizeof(float);
    }
    return bytes;
}

struct pruning {
    struct editor editor;
    const layer_list *list;
    uint32_t *uses; /* [value_count] readers */
    uint64_t channels;
};

static bool keeps_zero(const char *op)
{
    return is_among(op, "Relu LeakyRelu Tanh Gelu Abs Neg Identity Elu Selu Celu HardSwish Softsign Swish");
}

static graph_node *only_reader(const struct pruning *pruning, uint32_t value)
{
    const struct graph *graph = pruning->editor.graph;

    if (pruning->uses[value] != 1)
        return NULL;
    for (uint32_t i = 0; i < graph->node_count; i++)
        for (uint32_t k = 0; k < graph->nodes[i]->info.input_count; k++)
            if (graph->nodes[i]->info.inputs[k] == value)
                return k == 0 ? graph->nodes[i] : NULL;
    return NULL;
}

/* A tensor as [outer, channels, inner]. */
struct slices {
    int64_t outer, channels, inner;
};

static struct slices slices_of(const inlay_value_info *info, uint32_t axis)
{
    struct slices slices = { 1, info->dims[axis].value, 1 };

    for (uint32_t axis_index = 0; axis_index < info->rank; axis_index++) {
        slices.outer *= axis_index < axis ? info->dims[axis_index].value : 1;
        slices.inner *= axis_index > axis ? info->dims[axis_index].value : 1;
    }
    return slices;
}

static void note_zeros(const inlay_value_info *info, uint32_t axis, bool *zero)
{
    const struct slices slices = slices_of(info, axis);

    for (int64_t i = 0; i < slices.outer * slices.channels * slices.inner; i++) {
        float weight;

        memcpy(&weight, (const char *)info->data + i * (int64_t)sizeof weight, sizeof weight);
        zero[i / slices.inner % slices.channels] &= weight == 0;
    }
}

/* Removes dead channels from the constant. */
static void cut(struct pruning *pruning, uint32_t value, uint32_t axis, const bool *dead, int64_t left)
{
    inlay_value_info *info = &pruning->editor.graph->values[value].info;
    const struct slices slices = slices_of(info, axis);
    const uint64_t bytes = (uint64_t)(slices.outer * left * slices.inner) * sizeof(float);
    inlay_dim *dims = arena_array(&pruning->editor.graph->model->arena, info->rank, sizeof *dims);
    char *to = edit_memory(&pruning->editor, bytes);

    INLAY_CHECK(axis < info->rank && left > 0 && left <= slices.channels);
    pruning->editor.failed = pruning->editor.failed || dims == NULL;
    if (pruning->editor.failed)
        return;
    memcpy(dims, info->dims, info->rank * sizeof *dims);
    dims[axis].value = left;
    info->dims = dims;
    for (int64_t outer = 0; outer < slices.outer; outer++)
        for (int64_t channel = 0; channel < slices.channels; channel++) {
            const size_t piece = (size_t)slices.inner * sizeof(float);

            if (dead[channel])
                continue;
            memcpy(to, (const char *)info->data + (size_t)(outer * slices.channels + channel) * piece, piece);
            to += piece;
        }
    info->data = to - bytes;
    info->data_bytes = bytes;
    pruning->editor.graph->values[value].declared = false;
}

static bool is_plain(const struct layer *layer)
{
    const inlay_attr_info *group = graph_attr(layer->node, "group");

    return layer->reason == NULL && layer->multiplies && (group == NULL || group->i == 1);
}

/* Are channels on the axis that the next layer sums over? Rows of a matrix are not channels of an image. */
static bool same_axis(const struct layer *a, const struct layer *b)
{
    return (a->depth == INLAY_NONE) == (b->depth == INLAY_NONE);
}

/* The path from a layer to the next one, its only reader, through operators that map zero to zero. */
struct path {
    uint32_t values[16], value_count;
    uint32_t added; /* a constant for each channel, or INLAY_NONE */
    const struct layer *next;
};

static bool find_path(const struct pruning *pruning, const struct layer *layer, struct path *out)
{
    const struct graph *graph = pruning->editor.graph;
    uint32_t value = layer->node->info.outputs[0];

    *out = (struct path){ .added = INLAY_NONE };
    for (graph_node *node; out->value_count < 16 && (node = only_reader(pruning, value)) != NULL;
         value = node->info.outputs[0]) {
        const uint32_t other = node->info.input_count == 2 ? node->info.inputs[1] : INLAY_NONE;
        const inlay_value_info *info = other != INLAY_NONE ? &graph->values[other].info : NULL;

        out->values[out->value_count++] = value;
        out->next = layer_of(pruning->list, node);
        if (out->next != NULL)
            return is_plain(out->next) && same_axis(layer, out->next) && pruning->uses[out->next->weight] == 1;
        if (strcmp(node->info.domain.data, "ai.onnx") != 0)
            return false;
        if (strcmp(node->info.op_type.data, "Add") == 0 && out->added == INLAY_NONE && out->value_count == 1 &&
            layer->depth != INLAY_NONE && info != NULL && (info->flags & INLAY_VALUE_CONSTANT) != 0 &&
            info->dtype == INLAY_FLOAT && info->rank == 1 && info->dims[0].value == layer_channels(layer) &&
            pruning->uses[other] == 1)
            out->added = other;
        else if (!keeps_zero(node->info.op_type.data))
            return false;
    }
    return false;
}

static void drop_channels(struct pruning *pruning, const struct layer *layer)
{
    const inlay_value_info *weights = &pruning->editor.graph->values[layer->weight].info;
    const int64_t channels = layer_channels(layer);
    bool other, *dead, *unread;
    uint32_t bias;
    int64_t left = 0;
    struct path path;

    if (!is_plain(layer) || pruning->uses[layer->weight] != 1 || !find_path(pruning, layer, &path) ||
        pruning->editor.graph->values[path.next->weight].info.dims[layer_reading_axis(path.next)].value != channels)
        return;
    bias = layer_bias(layer, &other);
    if (other || (bias != INLAY_NONE && pruning->uses[bias] != 1))
        return;
    dead = malloc(2 * (size_t)channels + 1);
    if (dead == NULL) {
        pruning->editor.failed = true;
        return;
    }
    unread = dead + channels;
    memset(dead, 1, 2 * (size_t)channels);
    note_zeros(weights, layer->channel, dead);
    if (bias != INLAY_NONE)
        note_zeros(&pruning->editor.graph->values[bias].info, 0, dead);
    if (path.added != INLAY_NONE)
        note_zeros(&pruning->editor.graph->values[path.added].info, 0, dead);
    note_zeros(&pruning->editor.graph->values[path.next->weight].info, layer_reading_axis(path.next), unread);
    for (int64_t channel = 0; channel < channels; channel++) {
        dead[channel] |= unread[channel];
        left += !dead[channel];
    }
    dead[0] &= left > 0; /* keep one channel: an empty dimension would not be a valid layer */
    left += left == 0;
    if (left < channels) {
        pruning->channels += (uint64_t)(channels - left);
        cut(pruning, layer->weight, layer->channel, dead, left);
        if (bias != INLAY_NONE)
            cut(pruning, bias, 0, dead, left);
        if (path.added != INLAY_NONE)
            cut(pruning, path.added, 0, dead, left);
        cut(pruning, path.next->weight, layer_reading_axis(path.next), dead, left);
        for (uint32_t i = 0; i < path.value_count; i++) {
            pruning->editor.graph->values[path.values[i]].declared = false;
            pruning->editor.graph->values[path.values[i]].info.rank = INLAY_RANK_UNKNOWN;
            pruning->editor.graph->values[path.values[i]].info.dims = NULL;
        }
    }
    free(dead);
}

static void prune_blocks(struct editor *editor, const struct layer *layer, const prune_options *how, uint32_t i)
{
    inlay_value_info *info = &editor->graph->values[layer->weight].info;
    const uint64_t bytes = (uint64_t)layer->count * sizeof(float);
    float *weights = edit_memory(editor, bytes);
    struct matrix matrix;

    if (weights == NULL)
        return;
    memcpy(weights, info->data, bytes);
    matrix = matrix_of(layer, weights);
    editor->failed =
        editor->failed || !drop_blocks(&matrix, how->share, how->inputs != NULL ? how->inputs[i].importance : NULL);
    info->data = weights;
}

static void note_forms(const layer_list *list, layer_form *forms)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct layer *layer = &list->items[i];
        const inlay_value_info *info = &layer->graph->values[layer->weight].info;

        forms[i] = (layer_form){ .bits = 32, .bytes = info->data_bytes, .reason = layer->reason };
        if (layer->reason == NULL && layer->count < LOW_BIT_MIN_WEIGHTS)
            forms[i].reason = "fewer than 1024 weights";
        else if (layer->reason == NULL && !low_bit_is_matrix(layer))
            forms[i].reason = "not the matrix of a matrix multiplication: zeros would save nothing";
        if (low_bit_is_matrix(layer)) {
            const struct matrix matrix = matrix_of(layer, (float *)(uintptr_t)info->data);
            const uint64_t left = bytes_left(&matrix);

            forms[i].bytes = left < info->data_bytes ? left : info->data_bytes;
        }
    }
}

inlay_status prune_model(graph_model *model, const layer_list *list, const prune_options *how, layer_form *forms,
                         uint64_t *out_channels, inlay_diag *diag)
{
    struct pruning pruning = { .list = list };
    inlay_status status;

    *out_channels = 0;
    edit_begin(&pruning.editor, model->main);
    pruning.uses = calloc((size_t)model->main->value_count + 1, sizeof *pruning.uses);
    pruning.editor.failed = pruning.editor.failed || pruning.uses == NULL;
    for (uint32_t i = 0; !pruning.editor.failed && how->share > 0 && i < list->count; i++)
        if (list->items[i].graph == model->main && list->items[i].reason == NULL &&
            low_bit_is_matrix(&list->items[i]) && list->items[i].count >= LOW_BIT_MIN_WEIGHTS)
            prune_blocks(&pruning.editor, &list->items[i], how, i);
    if (!pruning.editor.failed)
        edit_count_uses(model->main, pruning.uses);
    for (uint32_t i = 0; !pruning.editor.failed && i < list->count; i++)
        if (list->items[i].graph == model->main && list->items[i].weight_input == 1)
            drop_channels(&pruning, &list->items[i]);
    if (!pruning.editor.failed)
        note_forms(list, forms);
    free(pruning.uses);
    *out_channels = pruning.channels;
    status = edit_finish(&pruning.editor, diag);
    return status;
}
