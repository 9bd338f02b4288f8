#include "quantize/balance.h"
#include "config/options.h"
#include "inlay/check.h"
#include "quantize/balance_parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SAMPLES = 32, LEAST_CHANNELS = 2 }; /* samples for the largest magnitudes; channels of a value */

static float balance_factor(float activation, float weight)
{
    float factor;

    if (!(activation > 0) || !(weight > 0) || !isfinite(activation) || !isfinite(weight))
        return 1;
    factor = sqrtf(activation) / sqrtf(weight);
    return factor < 1.0F / 64 ? 1.0F / 64 : factor > 64 ? 64 : factor;
}

static bool is_op(const graph_node *node, const char *op)
{
    return node != NULL && strcmp(node->info.op_type.data, op) == 0 && strcmp(node->info.domain.data, "ai.onnx") == 0;
}

static graph_node *producer_of(const struct balancing *balancing, uint32_t value)
{
    const uint32_t node = balancing->editor.graph->values[value].info.producer;

    return node != INLAY_NONE && node < balancing->editor.graph->node_count ? balancing->editor.graph->nodes[node]
                                                                            : NULL;
}

static bool is_constant(const struct balancing *balancing, uint32_t value, int64_t channels)
{
    const inlay_value_info *info = value != INLAY_NONE ? &balancing->editor.graph->values[value].info : NULL;

    return info != NULL && (info->flags & INLAY_VALUE_CONSTANT) != 0 && info->dtype == INLAY_FLOAT &&
           balancing->uses[value] == 1 && info->rank == 1 && info->dims[0].value == channels;
}

static void add_part(struct balanced *balanced, uint32_t constant, uint32_t axis)
{
    INLAY_CHECK(balanced->part_count < BALANCE_MOST_PARTS);
    balanced->parts[balanced->part_count++] = (balance_part){ constant, axis };
}

static bool is_whole(const struct layer *layer)
{
    const inlay_attr_info *group = graph_attr(layer->node, "group");

    return layer->multiplies && (group == NULL || group->i == 1);
}

/* Adds weights and bias of the layer that produces the value. */
static bool add_layer_parts(const struct balancing *balancing, const struct layer *layer, struct balanced *balanced)
{
    bool other;
    const uint32_t bias = layer_bias(layer, &other);

    if (!is_whole(layer) || other || layer->reason != NULL || layer_channels(layer) != balanced->channels ||
        balancing->uses[layer->weight] != 1 || (bias != INLAY_NONE && balancing->uses[bias] != 1) ||
        (balanced->axis != INLAY_NONE) != (layer->depth == INLAY_NONE))
        return false;
    add_part(balanced, layer->weight, layer->channel);
    if (bias != INLAY_NONE)
        add_part(balanced, bias, 0);
    return true;
}

/* A Mul: by a constant, or of two activations, one of which a layer produces (SwiGLU). */
static bool add_factor_parts(const struct balancing *balancing, const graph_node *node, struct balanced *balanced)
{
    for (uint32_t i = 0; i < 2; i++)
        if (is_constant(balancing, node->info.inputs[i], balanced->channels)) {
            add_part(balanced, node->info.inputs[i], 0);
            return true;
        }
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t value = node->info.inputs[i];
        const struct layer *layer =
            balancing->uses[value] == 1 ? layer_of(balancing->list, producer_of(balancing, value)) : NULL;

        if (layer != NULL && add_layer_parts(balancing, layer, balanced))
            return true;
    }
    return false;
}

/* Finds the constants that scale the channels of value; false: there are none, or other values depend on them. */
static bool find_parts(const struct balancing *balancing, uint32_t value, struct balanced *balanced)
{
    graph_node *node = producer_of(balancing, value);
    const struct layer *layer;

    if (balanced->axis == INLAY_NONE && is_op(node, "Add")) {
        const uint32_t c = is_constant(balancing, node->info.inputs[1], balanced->channels);

        if (!is_constant(balancing, node->info.inputs[1 - (c == 0)], balanced->channels))
            return false;
        add_part(balanced, node->info.inputs[c], 0);
        value = node->info.inputs[1 - c];
        if (balancing->uses[value] != 1)
            return false;
        node = producer_of(balancing, value);
    }
    while (is_op(node, "Relu") || is_op(node, "LeakyRelu") || is_op(node, "Identity")) {
        value = node->info.inputs[0];
        if (balancing->uses[value] != 1)
            return false;
        node = producer_of(balancing, value);
    }
    if (node == NULL || node->info.output_count < 1 || node->info.outputs[0] != value)
        return false;
    layer = layer_of(balancing->list, node);
    if (layer != NULL)
        return add_layer_parts(balancing, layer, balanced);
    if (balanced->axis != INLAY_NONE)
        return false;
    if (is_op(node, "Mul"))
        return add_factor_parts(balancing, node, balanced);
    if ((is_op(node, "LayerNormalization") || is_op(node, "RMSNormalization")) && node->info.output_count == 1 &&
        is_constant(balancing, node->info.inputs[1], balanced->channels)) {
        const uint32_t shift = node->info.input_count > 2 ? node->info.inputs[2] : INLAY_NONE;

        add_part(balanced, node->info.inputs[1], 0);
        if (shift == INLAY_NONE)
            return true;
        add_part(balanced, shift, 0);
        return is_constant(balancing, shift, balanced->channels);
    }
    return false;
}

/* Is value read by layers only, along their depth axis? */
static bool find_readers(const struct balancing *balancing, uint32_t value, struct balanced *balanced)
{
    uint32_t readers = 0;

    for (uint32_t i = 0; i < balancing->list->count; i++) {
        const struct layer *layer = &balancing->list->items[i];
        const inlay_value_info *info = &balancing->editor.graph->values[layer->weight].info;

        if (layer->graph != balancing->editor.graph || layer->weight_input != 1 || layer->node->info.inputs[0] != value)
            continue;
        if (!is_whole(layer) || layer->reason != NULL || balancing->uses[layer->weight] != 1 ||
            (readers > 0 && (info->dims[layer_reading_axis(layer)].value != balanced->channels ||
                             (layer->depth == INLAY_NONE) != (balanced->axis != INLAY_NONE))))
            return false;
        balanced->channels = info->dims[layer_reading_axis(layer)].value;
        balanced->axis = layer->depth == INLAY_NONE ? 1 : INLAY_NONE;
        readers++;
    }
    return readers > 0 && readers == balancing->uses[value] && balanced->channels >= LEAST_CHANNELS;
}

static void find_values(struct balancing *balancing)
{
    for (uint32_t value = 0; value < balancing->editor.graph->value_count; value++) {
        struct balanced balanced = { .value = value };

        if (balancing->uses[value] > 0 && find_readers(balancing, value, &balanced) &&
            find_parts(balancing, value, &balanced))
            balancing->items[balancing->count++] = balanced;
    }
}

static void note_largest(struct balanced *balanced, const inlay_tensor_view *view, int64_t count)
{
    const uint32_t axis = balanced->axis != INLAY_NONE ? balanced->axis : view->rank - 1;
    int64_t inner = 1;

    if (view->dtype != INLAY_FLOAT || axis >= view->rank || view->dims[axis] != balanced->channels)
        return;
    for (uint32_t axis_index = axis + 1; axis_index < view->rank; axis_index++)
        inner *= view->dims[axis_index];
    for (int64_t i = 0; i < count; i++) {
        float *most = &balanced->largest[i / inner % balanced->channels];
        const float magnitude = fabsf(((const float *)view->data)[i]);

        *most = magnitude > *most && isfinite(magnitude) ? magnitude : *most;
    }
}

static inlay_status run_samples(struct balancing *balancing, const char *path, const inlay_options *options,
                                const struct samples *set, inlay_diag *diag)
{
    inlay_options *tapped = NULL;
    inlay_value **values = NULL;
    struct subject subject = { 0 };
    inlay_status status;

    INLAY_TRY(evaluate_options(options, NULL, NULL, &tapped, diag));
    for (uint32_t k = 0; k < balancing->count; k++)
        INLAY_TRY(options_set_item(tapped, "tap",
                                   balancing->editor.graph->values[balancing->items[k].value].info.name.data, diag));
    INLAY_TRY(subject_open(path, tapped, &subject, diag));
    for (uint32_t i = 0; i < set->count && i < MOST_SAMPLES; i++) {
        INLAY_TRY(samples_load(set, i, &values, diag));
        INLAY_TRY(samples_run(set, values, subject.session, subject.context, diag));
        for (uint32_t k = 0; k < balancing->count; k++) {
            const char *name = balancing->editor.graph->values[balancing->items[k].value].info.name.data;
            const uint32_t out = inlay_session_find_output(subject.session, name);
            const inlay_value *value = out != INLAY_NONE ? inlay_context_output(subject.context, out) : NULL;
            inlay_tensor_view view;

            if (value != NULL && evaluate_view(value, &view))
                note_largest(&balancing->items[k], &view, inlay_value_count(value));
        }
        samples_release(set, values);
        values = NULL;
    }
done:
    samples_release(set, values);
    subject_close(&subject);
    inlay_options_destroy(tapped);
    return status;
}

/* Divides or multiplies the constant by the factors of its channels along the axis. */
static void scale(struct balancing *balancing, uint32_t constant, uint32_t axis, const float *factors, bool divide)
{
    inlay_value_info *info = &balancing->editor.graph->values[constant].info;
    float *to = edit_memory(&balancing->editor, info->data_bytes);
    int64_t inner = 1, count = (int64_t)(info->data_bytes / sizeof *to);

    if (to == NULL)
        return;
    memcpy(to, info->data, info->data_bytes);
    for (uint32_t axis_index = axis + 1; axis_index < info->rank; axis_index++)
        inner *= info->dims[axis_index].value;
    for (int64_t i = 0; i < count; i++) {
        const float factor = factors[i / inner % info->dims[axis].value];

        to[i] = divide ? to[i] / factor : to[i] * factor;
    }
    info->data = to;
}

static void largest_weights(const struct balancing *balancing, const struct balanced *balanced, float *out)
{
    for (uint32_t i = 0; i < balancing->list->count; i++) {
        const struct layer *layer = &balancing->list->items[i];
        const inlay_value_info *info = &balancing->editor.graph->values[layer->weight].info;
        int64_t inner = 1;

        if (balancing_axis(balancing, layer, balanced) == INLAY_NONE)
            continue;
        for (uint32_t axis_index = layer_reading_axis(layer) + 1; axis_index < info->rank; axis_index++)
            inner *= info->dims[axis_index].value;
        for (int64_t k = 0; k < layer->count; k++) {
            float weight, *most = &out[k / inner % balanced->channels];

            memcpy(&weight, (const char *)info->data + k * (int64_t)sizeof weight, sizeof weight);
            *most = fabsf(weight) > *most ? fabsf(weight) : *most;
        }
    }
}

uint32_t balancing_axis(const struct balancing *balancing, const struct layer *layer, const struct balanced *balanced)
{
    return layer->graph == balancing->editor.graph && layer->weight_input == 1 &&
                   layer->node->info.inputs[0] == balanced->value
               ? layer_reading_axis(layer)
               : INLAY_NONE;
}

void balancing_scale(struct balancing *balancing, const struct balanced *balanced, const float *factors)
{
    for (uint32_t part = 0; part < balanced->part_count; part++)
        scale(balancing, balanced->parts[part].constant, balanced->parts[part].axis, factors, true);
    for (uint32_t i = 0; i < balancing->list->count; i++) {
        const uint32_t axis = balancing_axis(balancing, &balancing->list->items[i], balanced);

        if (axis != INLAY_NONE)
            scale(balancing, balancing->list->items[i].weight, axis, factors, false);
    }
}

static void balance(struct balancing *balancing, const struct balanced *balanced)
{
    float *factors = calloc((size_t)balanced->channels, sizeof *factors);

    balancing->editor.failed = balancing->editor.failed || factors == NULL;
    if (!balancing->editor.failed) {
        largest_weights(balancing, balanced, factors);
        for (int64_t channel = 0; channel < balanced->channels; channel++)
            factors[channel] = balance_factor(balanced->largest[channel], factors[channel]);
        balancing_scale(balancing, balanced, factors);
    }
    free(factors);
}

void balancing_begin(struct balancing *balancing, graph_model *model, const layer_list *list)
{
    *balancing = (struct balancing){ .list = list };
    edit_begin(&balancing->editor, model->main);
    balancing->uses = calloc((size_t)model->main->value_count + 1, sizeof *balancing->uses);
    balancing->items = calloc((size_t)model->main->value_count + 1, sizeof *balancing->items);
    balancing->editor.failed = balancing->editor.failed || balancing->uses == NULL || balancing->items == NULL;
    if (!balancing->editor.failed) {
        edit_count_uses(model->main, balancing->uses);
        find_values(balancing);
    }
}

inlay_status balancing_finish(struct balancing *balancing, inlay_diag *diag)
{
    return edit_finish(&balancing->editor, diag);
}

void balancing_end(struct balancing *balancing)
{
    names_deinit(&balancing->editor.names);
    for (uint32_t k = 0; balancing->items != NULL && k < balancing->count; k++)
        free(balancing->items[k].largest);
    free(balancing->items);
    free(balancing->uses);
}

inlay_status balance_model(graph_model *model, const layer_list *list, const char *path, const inlay_options *options,
                           const struct samples *set, uint32_t *out_count, inlay_diag *diag)
{
    struct balancing balancing;
    inlay_status status;

    *out_count = 0;
    balancing_begin(&balancing, model, list);
    for (uint32_t k = 0; k < balancing.count && !balancing.editor.failed; k++) {
        balancing.items[k].largest = calloc((size_t)balancing.items[k].channels, sizeof *balancing.items[k].largest);
        balancing.editor.failed = balancing.items[k].largest == NULL;
    }
    if (!balancing.editor.failed && balancing.count > 0)
        INLAY_TRY(run_samples(&balancing, path, options, set, diag));
    for (uint32_t k = 0; k < balancing.count; k++)
        balance(&balancing, &balancing.items[k]);
    *out_count = balancing.count;
    status = balancing_finish(&balancing, diag);
done:
    balancing_end(&balancing);
    return status;
}
