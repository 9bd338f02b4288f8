#include "quantize/low_bit.h"
#include "inlay/check.h"
#include "base/element.h"
#include "base/memory.h"
#include "modelkit/edit.h"
#include "quantize/refine.h"
#include "threads/threads.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The rewrite of one constant, for all layers that read it. */
struct rewrite {
    struct editor *editor;
    const struct layer *layer;
    const low_bit_options *how;
    const weight_inputs *inputs; /* of the layer, or NULL */
    struct nibbles *known;       /* of the layer, or NULL */
    uint32_t bits;
    const char *stem;
    float *weights;
    layer_form form;
};

int64_t low_bit_opset(const low_bit_options *how)
{
    return how->bits == 4 && !how->nbits ? 21 : how->bits == 4 || how->bits == 8 ? 13 : 9;
}

static const int64_t *dims_of(const struct layer *layer, int64_t *dims)
{
    const inlay_value_info *info = &layer->graph->values[layer->weight].info;

    for (uint32_t d = 0; d < info->rank; d++)
        dims[d] = info->dims[d].value;
    return dims;
}

static uint32_t rank_of(const struct layer *layer)
{
    return layer->graph->values[layer->weight].info.rank;
}

/* Converts all weights to float16; false: one does not fit (LOW_BIT_EXACT: is not represented exactly). */
static bool convert_float16(const struct rewrite *rewrite, uint16_t *out)
{
    for (int64_t i = 0; i < rewrite->layer->count; i++) {
        double back;

        out[i] = element_half(rewrite->weights[i]);
        (void)element_number(INLAY_FLOAT16, out, i, &back, NULL);
        if (!isfinite(back) || (rewrite->how->bits == LOW_BIT_EXACT && (float)back != rewrite->weights[i]))
            return false;
    }
    return true;
}

static uint32_t make_float16(struct rewrite *rewrite)
{
    int64_t dims[INLAY_MAX_RANK];
    uint16_t *halves = edit_memory(rewrite->editor, (uint64_t)rewrite->layer->count * sizeof *halves);
    graph_node *cast;
    uint32_t value, out;

    if (halves == NULL)
        return INLAY_NONE;
    if (!convert_float16(rewrite, halves)) {
        rewrite->form.reason = rewrite->how->bits == LOW_BIT_EXACT ? "not all weights are float16 numbers"
                                                                   : "weights out of the range of float16";
        return INLAY_NONE;
    }
    value = edit_constant(rewrite->editor, rewrite->stem, "_half", INLAY_FLOAT16, rank_of(rewrite->layer),
                          dims_of(rewrite->layer, dims), halves, (uint64_t)rewrite->layer->count * sizeof *halves);
    out = edit_node(rewrite->editor, rewrite->stem, "_wide", "Cast", "", &value, 1, &cast);
    edit_int(rewrite->editor, cast, "to", INLAY_FLOAT);
    rewrite->form.bits = 16;
    rewrite->form.bytes = (uint64_t)rewrite->layer->count * sizeof *halves;
    return out;
}

uint32_t low_bit_int8(struct editor *editor, const struct layer *layer, const float *weights, int8_weights *out_bytes,
                      layer_form *form)
{
    const char *stem = layer->graph->values[layer->weight].info.name.data;
    const int64_t channels = layer_channels(layer);
    int64_t dims[INLAY_MAX_RANK], outer = 1, inner = 1;
    int8_t *codes = edit_memory(editor, (uint64_t)layer->count);
    float *scales = edit_memory(editor, (uint64_t)channels * sizeof *scales);
    graph_node *node;
    uint32_t inputs[2], out;

    *out_bytes = (int8_weights){ codes, scales };
    if (codes == NULL || scales == NULL)
        return INLAY_NONE;
    (void)dims_of(layer, dims);
    for (uint32_t d = 0; d < rank_of(layer); d++) {
        outer *= d < layer->channel ? dims[d] : 1;
        inner *= d > layer->channel ? dims[d] : 1;
    }
    weights_bytes(weights, outer, channels, inner, 127, codes, scales);
    inputs[0] = edit_constant(editor, stem, "_int8", INLAY_INT8, rank_of(layer), dims, codes, (uint64_t)layer->count);
    inputs[1] =
        edit_constant(editor, stem, "_scale", INLAY_FLOAT, 1, &channels, scales, (uint64_t)channels * sizeof *scales);
    out = edit_node(editor, stem, "_wide", "DequantizeLinear", "", inputs, 2, &node);
    edit_int(editor, node, "axis", layer->channel);
    form->bits = 8;
    form->bytes = (uint64_t)layer->count + (uint64_t)channels * sizeof *scales;
    return out;
}

void nibbles_free(struct nibbles *nibbles)
{
    free(nibbles->codes);
    free(nibbles->zeros);
    free(nibbles->scales);
    *nibbles = (struct nibbles){ 0 };
}

/* The squared outputs of the layer, assuming independent inputs. */
static double energy_of(const weight_rows *rows, const float *importance)
{
    double sum = 0;

    for (int64_t r = 0; r < rows->rows; r++)
        for (int64_t k = 0; k < rows->depth; k++) {
            const double weight = (double)rows->weights[r * rows->row_step + k * rows->step];

            sum += weight * weight * (importance != NULL ? (double)importance[k] : 1);
        }
    return sum;
}

/* The squared error of the layer's outputs, assuming independent inputs. */
static double loss_of(const struct nibbles *nibbles, const float *importance)
{
    const weight_rows *rows = &nibbles->rows;
    const int64_t blocks = weight_blocks(rows);
    double sum = 0;

    INLAY_CHECK(rows->weights != NULL && nibbles->codes != NULL);
    for (int64_t r = 0; r < rows->rows; r++)
        for (int64_t k = 0; k < rows->depth; k++) {
            const int64_t block = r * blocks + k / rows->block;
            const double error =
                (double)rows->weights[r * rows->row_step + k * rows->step] -
                (double)(nibbles->codes[r * rows->depth + k] - nibbles->zeros[block]) * (double)nibbles->scales[block];

            sum += error * error * (importance != NULL ? (double)importance[k] : 1);
        }
    return sum;
}

/* Work shared by the threads that round groups of rows. */
struct rounding {
    const weight_inputs *inputs;
    struct nibbles *nibbles;
    float *moments; /* second moments of the inputs, see refine_moments() */
    float *scratch; /* scratch memory of each worker */
    double *losses; /* error of each group of rows; summed in order, so that the sum does not depend on the threads */
    int64_t scratch_floats;
};

static inlay_status round_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct rounding *rounding = user;
    struct nibbles *nibbles = rounding->nibbles;

    for (int64_t group = begin; group < end; group++) {
        const int64_t first = group * WEIGHTS_TOGETHER, left = nibbles->rows.rows - first;
        const int64_t count = left < WEIGHTS_TOGETHER ? left : WEIGHTS_TOGETHER;
        float *scratch = rounding->scratch + worker * rounding->scratch_floats;

        (void)weights_nibbles_compensated(&nibbles->rows, rounding->inputs, first, count, nibbles->codes,
                                          nibbles->scales, nibbles->zeros, scratch);
        rounding->losses[group] = refine_nibbles(&nibbles->rows, rounding->inputs, rounding->moments, first, count,
                                                 nibbles->codes, nibbles->scales, nibbles->zeros, scratch);
    }
    return INLAY_OK;
}

/* False: out of memory. */
static bool make_compensated(const weight_inputs *inputs, struct nibbles *nibbles)
{
    const int64_t groups = (nibbles->rows.rows + WEIGHTS_TOGETHER - 1) / WEIGHTS_TOGETHER;
    const uint32_t workers = threads_limit(NULL);
    struct rounding rounding = { .inputs = inputs,
                                 .nibbles = nibbles,
                                 .scratch_floats = WEIGHTS_TOGETHER * (2 * nibbles->rows.depth + WEIGHTS_MOST_BLOCK) };
    bool good;

    rounding.moments = malloc((size_t)(nibbles->rows.depth * nibbles->rows.depth) * sizeof *rounding.moments);
    rounding.scratch = malloc((size_t)rounding.scratch_floats * workers * sizeof *rounding.scratch);
    rounding.losses = malloc((size_t)groups * sizeof *rounding.losses);
    good = rounding.moments != NULL && rounding.scratch != NULL && rounding.losses != NULL;
    if (good) {
        refine_moments(inputs, nibbles->rows.depth, rounding.moments);
        (void)threads_parallel_for(NULL, groups, 1, round_rows, &rounding);
        for (int64_t i = 0; i < groups; i++)
            nibbles->loss += rounding.losses[i];
    }
    free(rounding.losses);
    free(rounding.scratch);
    free(rounding.moments);
    return good;
}

/* Are float16 scales accurate enough? They have eleven significant bits, if the steps are well above the smallest
 * normal number. */
static bool suits_float16_scales(const float *weights, int64_t count)
{
    double sum = 0;
    float most = 0;

    for (int64_t i = 0; i < count; i++) {
        sum += (double)fabsf(weights[i]);
        most = fabsf(weights[i]) > most ? fabsf(weights[i]) : most;
    }
    return sum / (double)count > 1.0 / 512 && most < 1000;
}

/* Weights as [outer, depth, inner]. */
typedef struct weight_axes {
    int64_t outer, depth, inner;
} weight_axes;

static weight_axes axes_of(const struct layer *layer)
{
    const inlay_value_info *info = &layer->graph->values[layer->weight].info;
    weight_axes axes = { 1, info->dims[layer->depth].value, 1 };

    for (uint32_t d = 0; d < info->rank; d++) {
        axes.outer *= d < layer->depth ? info->dims[d].value : 1;
        axes.inner *= d > layer->depth ? info->dims[d].value : 1;
    }
    return axes;
}

/* Rounds the matrices of a stack one after another; the codes follow in the order of all rows. */
static void round_stack(const weight_axes *axes, const float *importance, struct nibbles *nibbles)
{
    const int64_t matrices = axes->inner > 1 ? axes->outer : 1, blocks = weight_blocks(&nibbles->rows);
    struct nibbles matrix = *nibbles;

    for (int64_t i = 0; i < matrices; i++) {
        weights_nibbles(&matrix.rows, importance, matrix.codes, matrix.scales, matrix.zeros);
        nibbles->loss += loss_of(&matrix, importance);
        nibbles->energy += energy_of(&matrix.rows, importance);
        matrix.rows.weights += matrix.rows.rows * axes->depth;
        matrix.codes += matrix.rows.rows * axes->depth;
        matrix.scales += matrix.rows.rows * blocks;
        matrix.zeros += matrix.rows.rows * blocks;
    }
}

/* False: out of memory. */
static bool make_nibbles(const struct rewrite *rewrite, struct nibbles *nibbles)
{
    const weight_axes axes = axes_of(rewrite->layer);
    const int64_t rows = axes.outer * axes.inner;
    const float *importance = rewrite->inputs != NULL ? rewrite->inputs->importance : NULL;
    bool good;

    /* One matrix of the stack, or all of them if their rows are alike. */
    nibbles->rows = (weight_rows){ .weights = rewrite->weights,
                                   .rows = axes.inner > 1 ? axes.inner : axes.outer,
                                   .depth = axes.depth,
                                   .row_step = axes.inner > 1 ? 1 : axes.depth,
                                   .step = axes.inner,
                                   .block = rewrite->how->block,
                                   .halves = !rewrite->how->nbits &&
                                             suits_float16_scales(rewrite->weights, rewrite->layer->count) };
    nibbles->codes = malloc((size_t)rewrite->layer->count);
    nibbles->zeros = malloc((size_t)(rows * weight_blocks(&nibbles->rows)));
    nibbles->scales = malloc((size_t)(rows * weight_blocks(&nibbles->rows)) * sizeof *nibbles->scales);
    good = nibbles->codes != NULL && nibbles->zeros != NULL && nibbles->scales != NULL;
    if (good && rewrite->inputs != NULL && rewrite->inputs->factor != NULL) {
        good = make_compensated(rewrite->inputs, nibbles);
        nibbles->energy = energy_of(&nibbles->rows, importance);
    } else if (good) {
        round_stack(&axes, importance, nibbles);
    }
    if (!good) {
        nibbles_free(nibbles);
        return false;
    }
    nibbles->rows.rows = rows;
    nibbles->rows.weights = NULL;
    return true;
}

/* The codes of the layer, computed or from the cache; false: out of memory. Release them with nibbles_done(). */
static bool find_nibbles(const struct rewrite *rewrite, struct nibbles *nibbles)
{
    *nibbles = (struct nibbles){ 0 };
    if (rewrite->known == NULL)
        return make_nibbles(rewrite, nibbles);
    if (rewrite->known->codes == NULL && !make_nibbles(rewrite, rewrite->known))
        return false;
    *nibbles = *rewrite->known;
    return true;
}

static void nibbles_done(const struct rewrite *rewrite, struct nibbles *nibbles)
{
    if (rewrite->known == NULL)
        nibbles_free(nibbles);
}

/* Stores two codes in a byte, the first in the low half. */
static void pack(uint8_t *out, int64_t at, uint8_t code)
{
    INLAY_CHECK(code <= 15);
    out[at / 2] = (uint8_t)(at % 2 == 0 ? code : out[at / 2] | code << 4);
}

/* The scales for DequantizeLinear: floats, or float16 and a Cast, which is folded when a session loads. */
static uint32_t put_scales(struct rewrite *rewrite, const int64_t *dims, int64_t count, const float *steps, bool halves)
{
    uint16_t *half;
    graph_node *cast;
    uint32_t value;

    rewrite->form.bytes += (uint64_t)count * (halves ? sizeof *half : sizeof *steps);
    if (!halves)
        return edit_constant(rewrite->editor, rewrite->stem, "_scale", INLAY_FLOAT, rank_of(rewrite->layer), dims,
                             steps, (uint64_t)count * sizeof *steps);
    half = edit_memory(rewrite->editor, (uint64_t)count * sizeof *half);
    for (int64_t i = 0; half != NULL && i < count; i++)
        half[i] = element_half(steps[i]);
    value = edit_constant(rewrite->editor, rewrite->stem, "_scale", INLAY_FLOAT16, rank_of(rewrite->layer), dims, half,
                          (uint64_t)count * sizeof *half);
    value = edit_node(rewrite->editor, rewrite->stem, "_steps", "Cast", "", &value, 1, &cast);
    edit_int(rewrite->editor, cast, "to", INLAY_FLOAT);
    return value;
}

/* The index in [outer, inner, depth] of element i of [outer, depth, inner]. */
static int64_t of_row(const weight_axes *axes, int64_t depth, int64_t i)
{
    return (i / (depth * axes->inner) * axes->inner + i % axes->inner) * depth + i / axes->inner % depth;
}

static uint32_t make_blocks(struct rewrite *rewrite)
{
    const weight_axes axes = axes_of(rewrite->layer);
    int64_t dims[INLAY_MAX_RANK], less[INLAY_MAX_RANK], blocks, scales;
    uint8_t *codes, *zeros;
    float *steps;
    graph_node *node;
    uint32_t inputs[3], out;
    bool halves;
    struct nibbles nibbles;

    if (!find_nibbles(rewrite, &nibbles)) {
        rewrite->editor->failed = true;
        return INLAY_NONE;
    }
    (void)dims_of(rewrite->layer, dims);
    (void)dims_of(rewrite->layer, less);
    blocks = weight_blocks(&nibbles.rows);
    less[rewrite->layer->depth] = blocks;
    scales = nibbles.rows.rows * blocks;
    codes = edit_memory(rewrite->editor, (uint64_t)(rewrite->layer->count + 1) / 2);
    zeros = edit_memory(rewrite->editor, (uint64_t)(scales + 1) / 2);
    steps = edit_memory(rewrite->editor, (uint64_t)scales * sizeof *steps);
    for (int64_t i = 0; codes != NULL && i < rewrite->layer->count; i++)
        pack(codes, i, nibbles.codes[of_row(&axes, axes.depth, i)]);
    for (int64_t i = 0; zeros != NULL && steps != NULL && i < scales; i++) {
        const int64_t from = of_row(&axes, blocks, i);

        pack(zeros, i, nibbles.zeros[from]);
        steps[i] = nibbles.scales[from];
    }
    halves = nibbles.rows.halves;
    nibbles_done(rewrite, &nibbles);
    if (steps == NULL)
        return INLAY_NONE;
    rewrite->form.bits = 4;
    rewrite->form.bytes = (uint64_t)(rewrite->layer->count + 1) / 2 + (uint64_t)(scales + 1) / 2;
    inputs[0] = edit_constant(rewrite->editor, rewrite->stem, "_uint4", INLAY_UINT4, rank_of(rewrite->layer), dims,
                              codes, (uint64_t)(rewrite->layer->count + 1) / 2);
    inputs[1] = put_scales(rewrite, less, scales, steps, halves);
    inputs[2] = edit_constant(rewrite->editor, rewrite->stem, "_zero", INLAY_UINT4, rank_of(rewrite->layer), less,
                              zeros, (uint64_t)(scales + 1) / 2);
    out = edit_node(rewrite->editor, rewrite->stem, "_wide", "DequantizeLinear", "", inputs, 3, &node);
    edit_int(rewrite->editor, node, "axis", rewrite->layer->depth);
    edit_int(rewrite->editor, node, "block_size", rewrite->how->block);
    return out;
}

/* Creates the inputs of MatMulNBits: rows of blocks, the last block of a row padded. */
static void make_nbits(struct rewrite *rewrite, uint32_t *inputs, int64_t *out_k, int64_t *out_n)
{
    struct nibbles nibbles;
    int64_t blocks, half, dims[3], zero_bytes;
    uint8_t *codes, *zeros;
    float *steps;

    if (!find_nibbles(rewrite, &nibbles)) {
        rewrite->editor->failed = true;
        return;
    }
    blocks = weight_blocks(&nibbles.rows);
    half = nibbles.rows.block / 2;
    zero_bytes = (blocks + 1) / 2;
    *out_k = nibbles.rows.depth;
    *out_n = nibbles.rows.rows;
    codes = edit_memory(rewrite->editor, (uint64_t)(nibbles.rows.rows * blocks * half));
    zeros = edit_memory(rewrite->editor, (uint64_t)(nibbles.rows.rows * zero_bytes));
    steps = edit_memory(rewrite->editor, (uint64_t)(nibbles.rows.rows * blocks) * sizeof *steps);
    for (int64_t row = 0; codes != NULL && zeros != NULL && steps != NULL && row < nibbles.rows.rows; row++) {
        memset(codes + row * blocks * half, 0, (size_t)(blocks * half));
        for (int64_t column = 0; column < nibbles.rows.depth; column++)
            pack(codes + row * blocks * half, column, nibbles.codes[row * nibbles.rows.depth + column]);
        for (int64_t b = 0; b < blocks; b++) {
            pack(zeros + row * zero_bytes, b, nibbles.zeros[row * blocks + b]);
            steps[row * blocks + b] = nibbles.scales[row * blocks + b];
        }
    }
    dims[0] = nibbles.rows.rows;
    dims[1] = blocks;
    dims[2] = half;
    rewrite->form.bits = 4;
    rewrite->form.bytes = (uint64_t)(nibbles.rows.rows * (blocks * (half + (int64_t)sizeof *steps) + zero_bytes));
    inputs[1] = edit_constant(rewrite->editor, rewrite->stem, "_nbits", INLAY_UINT8, 3, dims, codes,
                              (uint64_t)(nibbles.rows.rows * blocks * half));
    dims[0] = nibbles.rows.rows * blocks;
    inputs[2] = edit_constant(rewrite->editor, rewrite->stem, "_scale", INLAY_FLOAT, 1, dims, steps,
                              (uint64_t)dims[0] * sizeof *steps);
    dims[0] = nibbles.rows.rows * zero_bytes;
    inputs[3] = edit_constant(rewrite->editor, rewrite->stem, "_zero", INLAY_UINT8, 1, dims, zeros, (uint64_t)dims[0]);
    nibbles_done(rewrite, &nibbles);
}

/* Replaces MatMul or Gemm by MatMulNBits, followed by an Add for the bias. */
static void replace_product(struct rewrite *rewrite)
{
    graph_node *node = rewrite->layer->node, *add;
    graph_model *model = rewrite->editor->graph->model;
    uint32_t *inputs = arena_array(&model->arena, 4, sizeof *inputs), sum[2], last;
    const uint32_t bias =
        strcmp(node->info.op_type.data, "Gemm") == 0 && node->info.input_count > 2 ? node->info.inputs[2] : INLAY_NONE;
    int64_t k = 0, columns = 0;

    if (inputs == NULL) {
        rewrite->editor->failed = true;
        return;
    }
    inputs[0] = node->info.inputs[0];
    make_nbits(rewrite, inputs, &k, &columns);
    if (bias != INLAY_NONE) {
        last = node->info.outputs[0];
        sum[0] = INLAY_NONE;
        sum[1] = bias;
        *(uint32_t *)(uintptr_t)node->info.outputs =
            edit_node(rewrite->editor, rewrite->stem, "_biased", "Add", "", sum, 2, &add);
        if (add == NULL)
            return;
        edit_input(add, 0, node->info.outputs[0]);
        *(uint32_t *)(uintptr_t)add->info.outputs = last;
    }
    node->info.op_type = (inlay_str){ "MatMulNBits", 11 };
    node->info.domain = (inlay_str){ "com.microsoft", 13 };
    node->info.inputs = inputs;
    node->info.input_count = 4;
    node->info.attr_count = node->own_attr_count = 0;
    node->row = NULL;
    node->schema = NULL;
    node->opset = 1;
    edit_int(rewrite->editor, node, "K", k);
    edit_int(rewrite->editor, node, "N", columns);
    edit_int(rewrite->editor, node, "bits", 4);
    edit_int(rewrite->editor, node, "block_size", rewrite->how->block);
}

bool low_bit_is_matrix(const struct layer *layer)
{
    return rank_of(layer) == 2 && layer->weight_input == 1 && layer->depth != INLAY_NONE;
}

static bool fits_nbits(const struct layer *layer)
{
    return low_bit_is_matrix(layer) && graph_attr_float(layer->node, "alpha", 1) == 1 &&
           graph_attr_float(layer->node, "beta", 1) == 1 &&
           (graph_attr(layer->node, "transA") == NULL || graph_attr(layer->node, "transA")->i == 0);
}

/* Replaces `value` by `with` in its readers, except nodes of excluded layers. */
static void replace_reads(const layer_list *list, struct graph *graph, uint32_t value, uint32_t with)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        graph_node *node = graph->nodes[i];
        bool keeps = false;

        for (uint32_t k = 0; k < list->count; k++)
            keeps |= list->items[k].node == node && list->items[k].weight == value && list->items[k].reason != NULL;
        for (uint32_t k = 0; k < node->info.input_count && !keeps; k++)
            if (node->info.inputs[k] == value)
                edit_input(node, k, with);
        for (uint32_t k = 0; k < node->capture_count; k++)
            if (node->captures[k] == value)
                node->captures[k] = with;
        for (uint32_t b = 0; b < node->body_count; b++)
            for (uint32_t k = 0; k < node->bodies[b].capture_count; k++)
                if (node->bodies[b].capture_outer[k] == value)
                    node->bodies[b].capture_outer[k] = with;
    }
}

/* Returns whether all readers of the value, at least one, multiply by it as matrices, transposed or not. */
static bool is_only_multiplied(const struct graph *graph, uint32_t value, bool transposed)
{
    uint32_t readers = 0;

    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        for (uint32_t k = 0; k < node->info.input_count; k++) {
            if (node->info.inputs[k] != value)
                continue;
            readers++;
            if (strcmp(node->info.op_type.data, "MatMul") != 0 &&
                (transposed || strcmp(node->info.op_type.data, "Transpose") != 0 ||
                 !is_only_multiplied(graph, node->info.outputs[0], true)))
                return false;
        }
        for (uint32_t k = 0; k < node->capture_count; k++)
            if (node->captures[k] == value)
                return false;
    }
    for (uint32_t i = 0; i < graph->output_count; i++)
        if (graph->outputs[i] == value)
            return false;
    return readers > 0;
}

/* Returns whether the layer's weights are matrices: one, a stack of them, or the experts that a Gather selects. */
static bool is_matrices(const struct layer *layer)
{
    if (rank_of(layer) == 2 || layer->depth == INLAY_NONE)
        return low_bit_is_matrix(layer);
    return strcmp(layer->node->info.op_type.data, "MatMul") == 0 ||
           strcmp(layer->node->info.op_type.data, "MoE") == 0 ||
           (strcmp(layer->node->info.op_type.data, "Gather") == 0 &&
            is_only_multiplied(layer->graph, layer->node->info.outputs[0], false));
}

/* Why the layer's weights cannot have 4 bits. */
static const char *no_blocks(const struct layer *layer)
{
    return is_matrices(layer) ? "MatMulNBits has weights of two dimensions only; --format qdq stores these in 4 bits"
                              : "4 bits are available for matrix multiplications only";
}

static void rewrite_layer(struct rewrite *rewrite, const layer_list *list)
{
    const bool wants_blocks = rewrite->bits == 4, is_product = rewrite->layer->weight_input == 1;
    uint32_t with = INLAY_NONE;

    if (wants_blocks && rewrite->how->nbits && fits_nbits(rewrite->layer) && is_product) {
        replace_product(rewrite);
        rewrite->editor->failed =
            rewrite->editor->failed || !graph_model_import(rewrite->editor->graph->model, "com.microsoft", 1);
        return;
    }
    if (wants_blocks && !rewrite->how->nbits && is_matrices(rewrite->layer)) {
        with = make_blocks(rewrite);
    } else if (rewrite->bits == 4 || rewrite->bits == 8) {
        int8_weights bytes;

        rewrite->form.reason = wants_blocks ? no_blocks(rewrite->layer) : NULL;
        with = low_bit_int8(rewrite->editor, rewrite->layer, rewrite->weights, &bytes, &rewrite->form);
    } else {
        with = make_float16(rewrite);
    }
    if (with != INLAY_NONE)
        replace_reads(list, rewrite->editor->graph, rewrite->layer->weight, with);
}

/* The earlier layer of the list that has already replaced the same weight; -1: none. */
static int64_t shared_with(const layer_list *list, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (list->items[k].graph == list->items[i].graph && list->items[k].weight == list->items[i].weight &&
            list->items[k].reason == NULL)
            return k;
    return -1;
}

static inlay_status rewrite_graph(const layer_list *list, struct graph *graph, const low_bit_options *how,
                                  layer_form *forms, inlay_diag *diag)
{
    struct editor editor;
    inlay_status status = INLAY_OK;

    edit_begin(&editor, graph);
    for (uint32_t i = 0; i < list->count && !editor.failed && status == INLAY_OK; i++) {
        const struct layer *layer = &list->items[i];
        const int64_t shared = layer->graph == graph ? shared_with(list, i) : -1;
        struct rewrite rewrite = { .editor = &editor,
                                   .layer = layer,
                                   .how = how,
                                   .inputs = how->inputs != NULL ? &how->inputs[i] : NULL,
                                   .known = how->known != NULL ? &how->known[i] : NULL,
                                   .bits = how->bits_of != NULL ? how->bits_of[i] : how->bits,
                                   .stem = graph->values[layer->weight].info.name.data,
                                   .form = { .bits = 32 } };

        INLAY_CHECK(layer->weight < layer->graph->value_count);
        if (layer->graph != graph)
            continue;
        forms[i] = (layer_form){ .bits = 32, .bytes = (uint64_t)layer->count * sizeof(float), .reason = layer->reason };
        if (how->progress != NULL && how->progress(how->progress_user, (double)i / list->count, "weights") != 0)
            status = inlay_fail(diag, INLAY_CANCELLED, "stopped at layer %u of %u", i + 1, list->count);
        if (layer->reason == NULL && layer->count < LOW_BIT_MIN_WEIGHTS)
            forms[i].reason = "fewer than 1024 weights";
        if (forms[i].reason != NULL || status != INLAY_OK || rewrite.bits == 32)
            continue;
        if (shared >= 0 && !(how->nbits && rewrite.bits == 4 && fits_nbits(layer))) {
            forms[i] = forms[shared];
            forms[i].bytes = 0;
            continue;
        }
        rewrite.weights = layer_weights(layer);
        if (rewrite.weights == NULL) {
            editor.failed = true;
            break;
        }
        rewrite.form.bytes = forms[i].bytes;
        rewrite_layer(&rewrite, list);
        free(rewrite.weights);
        forms[i] = rewrite.form;
    }
    if (status == INLAY_OK)
        return edit_finish(&editor, diag);
    names_deinit(&editor.names);
    return status;
}

inlay_status low_bit_model(graph_model *model, const layer_list *list, const low_bit_options *how, layer_form *forms,
                           inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < list->count; i++) {
        bool first = list->items[i].graph != model->main;

        for (uint32_t k = 0; k < i; k++)
            first &= list->items[k].graph != list->items[i].graph;
        if (first)
            INLAY_TRY(rewrite_graph(list, list->items[i].graph, how, forms, diag));
    }
    INLAY_TRY(rewrite_graph(list, model->main, how, forms, diag));
    if (!edit_drop_unused(model->main))
        status = no_memory(diag, "for the quantized model");
done:
    return status;
}
