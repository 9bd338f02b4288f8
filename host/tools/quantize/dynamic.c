#include "quantize/dynamic.h"
#include "inlay/check.h"
#include "base/memory.h"
#include "quantize/weights.h"
#include <stdlib.h>

/* The outputs of DynamicQuantizeLinear for a value. */
typedef struct quantized_input {
    uint32_t value, bytes, scale, zero;
} quantized_input;

struct dynamic {
    struct editor *editor;
    quantized_input *known; /* [known_count] */
    uint32_t known_count;
};

static bool fits(const struct layer *layer)
{
    return layer->multiplies && layer->depth != INLAY_NONE && layer->graph->values[layer->weight].info.rank == 2 &&
           graph_attr_float(layer->node, "alpha", 1) == 1 && graph_attr_float(layer->node, "beta", 1) == 1;
}

static const quantized_input *quantize_input(struct dynamic *dynamic, uint32_t value)
{
    const char *stem = dynamic->editor->graph->values[value].info.name.data;
    quantized_input *of = &dynamic->known[dynamic->known_count];
    uint32_t *outputs = arena_array(&dynamic->editor->graph->model->arena, 3, sizeof *outputs);
    graph_node *node;

    for (uint32_t i = 0; i < dynamic->known_count; i++)
        if (dynamic->known[i].value == value)
            return &dynamic->known[i];
    of->value = value;
    of->bytes = edit_node(dynamic->editor, stem, "_uint8", "DynamicQuantizeLinear", "", &value, 1, &node);
    of->scale = edit_value(dynamic->editor, stem, "_scale");
    of->zero = edit_value(dynamic->editor, stem, "_zero");
    if (node == NULL || outputs == NULL) {
        dynamic->editor->failed = true;
        return of;
    }
    outputs[0] = of->bytes;
    outputs[1] = of->scale;
    outputs[2] = of->zero;
    node->info.outputs = outputs;
    node->info.output_count = 3;
    dynamic->known_count++;
    return of;
}

/* Adds the int8 weights as [depth, columns]. */
static uint32_t weight_bytes(struct dynamic *dynamic, const struct layer *layer, const float *weights,
                             uint32_t *out_scales, layer_form *form)
{
    const inlay_value_info *info = &layer->graph->values[layer->weight].info;
    const char *stem = info->name.data;
    const int64_t depth = info->dims[layer->depth].value, columns = info->dims[layer->channel].value;
    const int64_t dims[] = { depth, columns };
    int8_t *codes = edit_memory(dynamic->editor, (uint64_t)layer->count), *upright = codes;
    float *scales = edit_memory(dynamic->editor, (uint64_t)columns * sizeof *scales);

    if (codes == NULL || scales == NULL)
        return INLAY_NONE;
    weights_bytes(weights, layer->channel == 0 ? 1 : depth, columns, layer->channel == 0 ? depth : 1, 127, codes,
                  scales);
    if (layer->channel == 0) {
        upright = edit_memory(dynamic->editor, (uint64_t)layer->count);
        for (int64_t i = 0; upright != NULL && i < depth; i++)
            for (int64_t k = 0; k < columns; k++)
                upright[i * columns + k] = codes[k * depth + i];
    }
    *out_scales = edit_constant(dynamic->editor, stem, "_scale", INLAY_FLOAT, 1, &columns, scales,
                                (uint64_t)columns * sizeof *scales);
    form->bits = 8;
    form->bytes = (uint64_t)layer->count + (uint64_t)columns * sizeof *scales;
    return edit_constant(dynamic->editor, stem, "_int8", INLAY_INT8, 2, dims, upright, (uint64_t)layer->count);
}

/* Replaces the layer's node. The node itself becomes the last of the new nodes, so that its output keeps its name. */
static void replace(struct dynamic *dynamic, const struct layer *layer, layer_form *form)
{
    graph_node *node = layer->node, *cast;
    const char *stem = node->info.name.data;
    const uint32_t bias = node->info.input_count > 2 ? node->info.inputs[2] : INLAY_NONE;
    const quantized_input *of = quantize_input(dynamic, node->info.inputs[0]);
    float *weights = layer_weights(layer);
    uint32_t *last = arena_array(&dynamic->editor->graph->model->arena, 2, sizeof *last), inputs[4],
             scales = INLAY_NONE, sums;

    INLAY_CHECK(layer->weight_input == 1 && node->info.input_count >= 2);
    dynamic->editor->failed = dynamic->editor->failed || weights == NULL || last == NULL;
    inputs[0] = of->bytes;
    inputs[1] = dynamic->editor->failed ? INLAY_NONE : weight_bytes(dynamic, layer, weights, &scales, form);
    inputs[2] = of->zero;
    free(weights);
    if (inputs[1] == INLAY_NONE)
        return;
    sums = edit_node(dynamic->editor, stem, "_int32", "MatMulInteger", "", inputs, 3, NULL);
    sums = edit_node(dynamic->editor, stem, "_float", "Cast", "", &sums, 1, &cast);
    edit_int(dynamic->editor, cast, "to", INLAY_FLOAT);
    inputs[0] = of->scale;
    inputs[1] = scales;
    last[0] = sums;
    last[1] = edit_node(dynamic->editor, stem, "_scales", "Mul", "", inputs, 2, NULL);
    if (bias != INLAY_NONE) {
        last[0] = edit_node(dynamic->editor, stem, "_unbiased", "Mul", "", last, 2, NULL);
        last[1] = bias;
    }
    node->info.op_type = bias != INLAY_NONE ? (inlay_str){ "Add", 3 } : (inlay_str){ "Mul", 3 };
    node->info.inputs = last;
    node->info.input_count = 2;
    node->info.attr_count = node->own_attr_count = 0;
    node->row = NULL;
    node->schema = NULL;
}

inlay_status dynamic_model(graph_model *model, const layer_list *list, layer_form *forms, inlay_diag *diag)
{
    struct editor editor;
    struct dynamic dynamic = { .editor = &editor };
    inlay_status status;

    edit_begin(&editor, model->main);
    dynamic.known = arena_array(&model->arena, (size_t)list->count + 1, sizeof *dynamic.known);
    editor.failed = editor.failed || dynamic.known == NULL;
    for (uint32_t i = 0; i < list->count && !editor.failed; i++) {
        const struct layer *layer = &list->items[i];

        forms[i] = (layer_form){ .bits = 32, .bytes = (uint64_t)layer->count * sizeof(float), .reason = layer->reason };
        if (layer->reason == NULL && !fits(layer))
            forms[i].reason = "only matrix multiplications have a dynamic form";
        if (forms[i].reason == NULL)
            replace(&dynamic, layer, &forms[i]);
    }
    status = edit_finish(&editor, diag);
    if (status == INLAY_OK && !edit_drop_unused(model->main))
        status = no_memory(diag, "for the quantized model");
    return status;
}
