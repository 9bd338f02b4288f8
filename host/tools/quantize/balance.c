#include "quantize/balance.h"
#include "quantize/balance_parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SAMPLES = 32, LEAST_CHANNELS = 2 };

float balance_factor(float activation, float weight)
{
    float s;

    if (!(activation > 0) || !(weight > 0) || !isfinite(activation) || !isfinite(weight))
        return 1;
    s = sqrtf(activation) / sqrtf(weight);
    return s < 1.0F / 64 ? 1.0F / 64 : s > 64 ? 64 : s;
}

/* ------------------------------------------------------------------ what can be balanced */

static bool is_op(const graph_node *n, const char *op)
{
    return n != NULL && strcmp(n->info.op_type.data, op) == 0 && strcmp(n->info.domain.data, "ai.onnx") == 0;
}

static graph_node *maker(const struct balancing *x, uint32_t value)
{
    const uint32_t n = x->e.g->values[value].info.producer;

    return n != INLAY_NONE && n < x->e.g->node_count ? x->e.g->nodes[n] : NULL;
}

static bool is_constant(const struct balancing *x, uint32_t v, int64_t channels)
{
    const inlay_value_info *info = v != INLAY_NONE ? &x->e.g->values[v].info : NULL;

    return info != NULL && (info->flags & INLAY_VALUE_CONSTANT) != 0 && info->dtype == INLAY_FLOAT && x->uses[v] == 1 &&
           info->rank == 1 && info->dims[0].value == channels;
}

static void add_part(struct balanced *b, uint32_t constant, uint32_t axis)
{
    b->parts[b->part_count++] = (balance_part){ constant, axis };
}

static const struct layer *layer_of(const struct balancing *x, const graph_node *n)
{
    for (uint32_t i = 0; i < x->list->count; i++)
        if (x->list->items[i].node == n && x->list->items[i].weight_input == 1)
            return &x->list->items[i];
    return NULL;
}

static bool is_whole(const struct layer *l)
{
    const inlay_attr_info *group = graph_attr(l->node, "group");

    return l->multiplies && (group == NULL || group->i == 1);
}

static uint32_t reading_axis(const struct layer *l)
{
    return l->depth != INLAY_NONE ? l->depth : 1;
}

/* The weights and bias of the layer, which makes the value and nothing else. */
static bool add_layer_parts(const struct balancing *x, const struct layer *l, struct balanced *b)
{
    bool other;
    const uint32_t bias = layer_bias(l, &other);

    if (!is_whole(l) || other || l->kept != NULL || layer_channels(l) != b->channels || x->uses[l->weight] != 1 ||
        (bias != INLAY_NONE && x->uses[bias] != 1) || (b->axis != INLAY_NONE) != (l->depth == INLAY_NONE))
        return false;
    add_part(b, l->weight, l->channel);
    if (bias != INLAY_NONE)
        add_part(b, bias, 0);
    return true;
}

/* A product: by a constant, or of two activations of which a layer makes one (SwiGLU). */
static bool add_factor_parts(const struct balancing *x, const graph_node *n, struct balanced *b)
{
    for (uint32_t i = 0; i < 2; i++)
        if (is_constant(x, n->info.inputs[i], b->channels)) {
            add_part(b, n->info.inputs[i], 0);
            return true;
        }
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t v = n->info.inputs[i];
        const struct layer *l = x->uses[v] == 1 ? layer_of(x, maker(x, v)) : NULL;

        if (l != NULL && add_layer_parts(x, l, b))
            return true;
    }
    return false;
}

/* The constants by which the channels of v are made; false: there are none, or others depend on what they make. */
static bool find_parts(const struct balancing *x, uint32_t v, struct balanced *b)
{
    graph_node *n = maker(x, v);
    const struct layer *l;

    if (b->axis == INLAY_NONE && is_op(n, "Add")) {
        const uint32_t c = is_constant(x, n->info.inputs[1], b->channels);

        if (!is_constant(x, n->info.inputs[1 - (c == 0)], b->channels))
            return false;
        add_part(b, n->info.inputs[c], 0);
        v = n->info.inputs[1 - c];
        if (x->uses[v] != 1)
            return false;
        n = maker(x, v);
    }
    while (is_op(n, "Relu") || is_op(n, "LeakyRelu") || is_op(n, "Identity")) {
        v = n->info.inputs[0];
        if (x->uses[v] != 1)
            return false;
        n = maker(x, v);
    }
    if (n == NULL || n->info.output_count < 1 || n->info.outputs[0] != v)
        return false;
    l = layer_of(x, n);
    if (l != NULL)
        return add_layer_parts(x, l, b);
    if (b->axis != INLAY_NONE)
        return false;
    if (is_op(n, "Mul"))
        return add_factor_parts(x, n, b);
    if ((is_op(n, "LayerNormalization") || is_op(n, "RMSNormalization")) && n->info.output_count == 1 &&
        is_constant(x, n->info.inputs[1], b->channels)) {
        const uint32_t shift = n->info.input_count > 2 ? n->info.inputs[2] : INLAY_NONE;

        add_part(b, n->info.inputs[1], 0);
        if (shift == INLAY_NONE)
            return true;
        add_part(b, shift, 0);
        return is_constant(x, shift, b->channels);
    }
    return false;
}

/* Is v read by layers alone, along their depth? */
static bool find_readers(const struct balancing *x, uint32_t v, struct balanced *b)
{
    uint32_t readers = 0;

    for (uint32_t i = 0; i < x->list->count; i++) {
        const struct layer *l = &x->list->items[i];
        const inlay_value_info *info = &x->e.g->values[l->weight].info;

        if (l->g != x->e.g || l->weight_input != 1 || l->node->info.inputs[0] != v)
            continue;
        if (!is_whole(l) || l->kept != NULL || x->uses[l->weight] != 1 ||
            (readers > 0 &&
             (info->dims[reading_axis(l)].value != b->channels || (l->depth == INLAY_NONE) != (b->axis != INLAY_NONE))))
            return false;
        b->channels = info->dims[reading_axis(l)].value;
        b->axis = l->depth == INLAY_NONE ? 1 : INLAY_NONE;
        readers++;
    }
    return readers > 0 && readers == x->uses[v] && b->channels >= LEAST_CHANNELS;
}

static void find_values(struct balancing *x)
{
    for (uint32_t v = 0; v < x->e.g->value_count; v++) {
        struct balanced b = { .value = v };

        if (x->uses[v] > 0 && find_readers(x, v, &b) && find_parts(x, v, &b))
            x->items[x->count++] = b;
    }
}

/* ------------------------------------------------------------------ what the samples say */

static void note_largest(struct balanced *b, const inlay_tensor_view *view, int64_t count)
{
    const uint32_t axis = b->axis != INLAY_NONE ? b->axis : view->rank - 1;
    int64_t inner = 1;

    if (view->dtype != INLAY_FLOAT || axis >= view->rank || view->dims[axis] != b->channels)
        return;
    for (uint32_t d = axis + 1; d < view->rank; d++)
        inner *= view->dims[d];
    for (int64_t i = 0; i < count; i++) {
        float *most = &b->largest[i / inner % b->channels];
        const float w = fabsf(((const float *)view->data)[i]);

        *most = w > *most && isfinite(w) ? w : *most;
    }
}

static inlay_status run_samples(struct balancing *x, const char *path, const inlay_options *options,
                                const struct samples *set, inlay_diag *diag)
{
    inlay_options *tapped = NULL;
    inlay_value **values = NULL;
    struct subject s = { 0 };
    inlay_status status;

    INLAY_TRY(judge_options(options, NULL, NULL, &tapped, diag));
    for (uint32_t k = 0; k < x->count; k++)
        INLAY_TRY(inlay_options_set(tapped, "tap", x->e.g->values[x->items[k].value].info.name.data, diag));
    INLAY_TRY(subject_open(path, tapped, &s, diag));
    for (uint32_t i = 0; i < set->count && i < MOST_SAMPLES; i++) {
        INLAY_TRY(samples_load(set, i, &values, diag));
        INLAY_TRY(samples_run(set, values, s.session, s.context, diag));
        for (uint32_t k = 0; k < x->count; k++) {
            const char *name = x->e.g->values[x->items[k].value].info.name.data;
            const uint32_t out = inlay_session_find_output(s.session, name);
            const inlay_value *v = out != INLAY_NONE ? inlay_context_output(s.context, out) : NULL;
            inlay_tensor_view view;

            if (v != NULL && judge_view(v, &view))
                note_largest(&x->items[k], &view, inlay_value_count(v));
        }
        samples_release(set, values);
        values = NULL;
    }
done:
    samples_release(set, values);
    subject_close(&s);
    inlay_options_destroy(tapped);
    return status;
}

/* ------------------------------------------------------------------ what becomes of it */

/* The constant divided, or multiplied, by the factors of its channels along that axis. */
static void scale(struct balancing *x, uint32_t constant, uint32_t axis, const float *factors, bool divide)
{
    inlay_value_info *info = &x->e.g->values[constant].info;
    float *to = edit_memory(&x->e, info->data_bytes);
    int64_t inner = 1, count = (int64_t)(info->data_bytes / sizeof *to);

    if (to == NULL)
        return;
    memcpy(to, info->data, info->data_bytes);
    for (uint32_t d = axis + 1; d < info->rank; d++)
        inner *= info->dims[d].value;
    for (int64_t i = 0; i < count; i++) {
        const float f = factors[i / inner % info->dims[axis].value];

        to[i] = divide ? to[i] / f : to[i] * f;
    }
    info->data = to;
}

static void largest_weights(const struct balancing *x, const struct balanced *b, float *out)
{
    for (uint32_t i = 0; i < x->list->count; i++) {
        const struct layer *l = &x->list->items[i];
        const inlay_value_info *info = &x->e.g->values[l->weight].info;
        int64_t inner = 1;

        if (balancing_axis(x, l, b) == INLAY_NONE)
            continue;
        for (uint32_t d = reading_axis(l) + 1; d < info->rank; d++)
            inner *= info->dims[d].value;
        for (int64_t k = 0; k < l->count; k++) {
            float w, *most = &out[k / inner % b->channels];

            memcpy(&w, (const char *)info->data + k * (int64_t)sizeof w, sizeof w);
            *most = fabsf(w) > *most ? fabsf(w) : *most;
        }
    }
}

uint32_t balancing_axis(const struct balancing *x, const struct layer *l, const struct balanced *b)
{
    return l->g == x->e.g && l->weight_input == 1 && l->node->info.inputs[0] == b->value ? reading_axis(l) : INLAY_NONE;
}

void balancing_scale(struct balancing *x, const struct balanced *b, const float *factors)
{
    for (uint32_t p = 0; p < b->part_count; p++)
        scale(x, b->parts[p].constant, b->parts[p].axis, factors, true);
    for (uint32_t i = 0; i < x->list->count; i++) {
        const uint32_t axis = balancing_axis(x, &x->list->items[i], b);

        if (axis != INLAY_NONE)
            scale(x, x->list->items[i].weight, axis, factors, false);
    }
}

static void balance(struct balancing *x, const struct balanced *b)
{
    float *factors = calloc((size_t)b->channels, sizeof *factors);

    x->e.failed = x->e.failed || factors == NULL;
    if (x->e.failed)
        return;
    largest_weights(x, b, factors);
    for (int64_t c = 0; c < b->channels; c++)
        factors[c] = balance_factor(b->largest[c], factors[c]);
    balancing_scale(x, b, factors);
    free(factors);
}

/* ------------------------------------------------------------------ the whole */

void balancing_begin(struct balancing *x, graph_model *model, const layer_list *list)
{
    *x = (struct balancing){ .list = list };
    edit_begin(&x->e, model->main);
    x->uses = calloc((size_t)model->main->value_count + 1, sizeof *x->uses);
    x->items = calloc((size_t)model->main->value_count + 1, sizeof *x->items);
    x->e.failed = x->e.failed || x->uses == NULL || x->items == NULL;
    if (!x->e.failed) {
        edit_count_uses(model->main, x->uses);
        find_values(x);
    }
}

inlay_status balancing_finish(struct balancing *x, inlay_diag *diag)
{
    return edit_finish(&x->e, diag);
}

void balancing_end(struct balancing *x)
{
    names_deinit(&x->e.names);
    for (uint32_t k = 0; x->items != NULL && k < x->count; k++)
        free(x->items[k].largest);
    free(x->items);
    free(x->uses);
}

inlay_status balance_model(graph_model *model, const layer_list *list, const char *path, const inlay_options *options,
                           const struct samples *set, uint32_t *out_count, inlay_diag *diag)
{
    struct balancing x;
    inlay_status status;

    *out_count = 0;
    balancing_begin(&x, model, list);
    for (uint32_t k = 0; k < x.count && !x.e.failed; k++) {
        x.items[k].largest = calloc((size_t)x.items[k].channels, sizeof *x.items[k].largest);
        x.e.failed = x.items[k].largest == NULL;
    }
    if (!x.e.failed && x.count > 0)
        INLAY_TRY(run_samples(&x, path, options, set, diag));
    for (uint32_t k = 0; k < x.count; k++)
        balance(&x, &x.items[k]);
    *out_count = x.count;
    status = balancing_finish(&x, diag);
done:
    balancing_end(&x);
    return status;
}
