#include "quantize/prune.h"
#include "modelkit/edit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ blocks */

struct block {
    double worth;
    int64_t at; /* row by panels + panel: of equals the first goes */
};

static int least_first(const void *a, const void *b)
{
    const struct block *x = a, *y = b;

    return x->worth != y->worth ? (x->worth > y->worth) - (x->worth < y->worth) : (x->at > y->at) - (x->at < y->at);
}

/* A matrix [depth, columns] as it lies. */
struct matrix {
    float *w;
    int64_t depth, columns, step, column_step;
};

static struct matrix matrix_of(const struct layer *l, float *w)
{
    const inlay_value_info *info = &l->g->values[l->weight].info;
    const bool upright = l->depth == 0;

    return (struct matrix){ w, info->dims[l->depth].value, info->dims[1 - l->depth].value,
                            upright ? info->dims[1].value : 1, upright ? 1 : info->dims[1].value };
}

static int64_t end_of(const struct matrix *m, int64_t panel)
{
    return (panel + 1) * PRUNE_WIDTH < m->columns ? (panel + 1) * PRUNE_WIDTH : m->columns;
}

/* False: no memory. */
static bool drop_blocks(const struct matrix *m, double share, const float *importance)
{
    const int64_t panels = (m->columns + PRUNE_WIDTH - 1) / PRUNE_WIDTH, count = m->depth * panels;
    const int64_t gone = (int64_t)(share * (double)count + 0.5);
    struct block *blocks = calloc((size_t)count + 1, sizeof *blocks);

    if (blocks == NULL)
        return false;
    for (int64_t i = 0; i < count; i++) {
        blocks[i].at = i;
        for (int64_t j = i % panels * PRUNE_WIDTH; j < end_of(m, i % panels); j++) {
            const double w = (double)m->w[i / panels * m->step + j * m->column_step];

            blocks[i].worth += w * w * (importance != NULL ? (double)importance[i / panels] : 1);
        }
    }
    qsort(blocks, (size_t)count, sizeof *blocks, least_first);
    for (int64_t i = 0; i < gone; i++)
        for (int64_t p = blocks[i].at % panels, j = p * PRUNE_WIDTH; j < end_of(m, p); j++)
            m->w[blocks[i].at / panels * m->step + j * m->column_step] = 0;
    free(blocks);
    return true;
}

/* Weights in a file may lie at any address. */
static float element(const struct matrix *m, int64_t row, int64_t column)
{
    float w;

    memcpy(&w, (const char *)m->w + (row * m->step + column * m->column_step) * (int64_t)sizeof w, sizeof w);
    return w;
}

/* What is left when a block of zeros takes nothing, and one that is not its place. */
static uint64_t bytes_left(const struct matrix *m)
{
    const int64_t panels = (m->columns + PRUNE_WIDTH - 1) / PRUNE_WIDTH;
    uint64_t bytes = 0;

    for (int64_t i = 0; i < m->depth * panels; i++) {
        bool zero = true;

        for (int64_t j = i % panels * PRUNE_WIDTH; j < end_of(m, i % panels); j++)
            zero &= element(m, i / panels, j) == 0;
        bytes += zero ? 0 : (uint64_t)(end_of(m, i % panels) - i % panels * PRUNE_WIDTH + 1) * sizeof(float);
    }
    return bytes;
}

/* ------------------------------------------------------------------ channels */

struct pruning {
    struct editor e;
    const layer_list *list;
    uint32_t *uses; /* [value_count] readers */
    uint64_t channels;
};

static bool keeps_zero(const char *op)
{
    static const char *const those[] = { "Relu", "LeakyRelu", "Tanh", "Gelu",      "Abs",      "Neg",  "Identity",
                                         "Elu",  "Selu",      "Celu", "HardSwish", "Softsign", "Swish" };

    for (size_t i = 0; i < sizeof those / sizeof those[0]; i++)
        if (strcmp(op, those[i]) == 0)
            return true;
    return false;
}

static graph_node *only_reader(const struct pruning *x, uint32_t value)
{
    const struct graph *g = x->e.g;

    if (x->uses[value] != 1)
        return NULL;
    for (uint32_t i = 0; i < g->node_count; i++)
        for (uint32_t k = 0; k < g->nodes[i]->info.input_count; k++)
            if (g->nodes[i]->info.inputs[k] == value)
                return k == 0 ? g->nodes[i] : NULL;
    return NULL;
}

/* Elements of one channel lie `inner` together, again and again. */
struct slices {
    int64_t outer, channels, inner;
};

static struct slices slices_of(const inlay_value_info *info, uint32_t axis)
{
    struct slices s = { 1, info->dims[axis].value, 1 };

    for (uint32_t d = 0; d < info->rank; d++) {
        s.outer *= d < axis ? info->dims[d].value : 1;
        s.inner *= d > axis ? info->dims[d].value : 1;
    }
    return s;
}

static void note_zeros(const inlay_value_info *info, uint32_t axis, bool *zero)
{
    const struct slices s = slices_of(info, axis);

    for (int64_t i = 0; i < s.outer * s.channels * s.inner; i++) {
        float w;

        memcpy(&w, (const char *)info->data + i * (int64_t)sizeof w, sizeof w);
        zero[i / s.inner % s.channels] &= w == 0;
    }
}

/* The constant without channels that are dead. */
static void cut(struct pruning *x, uint32_t value, uint32_t axis, const bool *dead, int64_t left)
{
    inlay_value_info *info = &x->e.g->values[value].info;
    const struct slices s = slices_of(info, axis);
    const uint64_t bytes = (uint64_t)(s.outer * left * s.inner) * sizeof(float);
    inlay_dim *dims = arena_array(&x->e.g->model->arena, info->rank, sizeof *dims);
    char *to = edit_memory(&x->e, bytes);

    x->e.failed = x->e.failed || dims == NULL;
    if (x->e.failed)
        return;
    memcpy(dims, info->dims, info->rank * sizeof *dims);
    dims[axis].value = left;
    info->dims = dims;
    for (int64_t o = 0; o < s.outer; o++)
        for (int64_t c = 0; c < s.channels; c++) {
            const size_t piece = (size_t)s.inner * sizeof(float);

            if (dead[c])
                continue;
            memcpy(to, (const char *)info->data + (size_t)(o * s.channels + c) * piece, piece);
            to += piece;
        }
    info->data = to - bytes;
    info->data_bytes = bytes;
    x->e.g->values[value].declared = false;
}

static bool is_plain(const struct layer *l)
{
    const inlay_attr_info *group = graph_attr(l->node, "group");

    return l->kept == NULL && l->multiplies && (group == NULL || group->i == 1);
}

static const struct layer *layer_of(const struct pruning *x, const graph_node *n)
{
    for (uint32_t i = 0; i < x->list->count; i++)
        if (x->list->items[i].node == n && x->list->items[i].weight_input == 1)
            return &x->list->items[i];
    return NULL;
}

/* The axis of l's weights along which it reads channels. */
static uint32_t reading_axis(const struct layer *l)
{
    return l->depth != INLAY_NONE ? l->depth : 1;
}

/* Are channels along the axis that the next layer sums over? Rows of a product are not channels of an image. */
static bool same_axis(const struct layer *a, const struct layer *b)
{
    return (a->depth == INLAY_NONE) == (b->depth == INLAY_NONE);
}

/* What stands between a layer and the next, which alone reads it through functions that keep zeros. */
struct between {
    uint32_t values[16], value_count;
    uint32_t added; /* a constant for each channel, or INLAY_NONE */
    const struct layer *next;
};

static bool follow(const struct pruning *x, const struct layer *l, struct between *out)
{
    const struct graph *g = x->e.g;
    uint32_t v = l->node->info.outputs[0];

    *out = (struct between){ .added = INLAY_NONE };
    for (graph_node *n; out->value_count < 16 && (n = only_reader(x, v)) != NULL; v = n->info.outputs[0]) {
        const uint32_t other = n->info.input_count == 2 ? n->info.inputs[1] : INLAY_NONE;
        const inlay_value_info *info = other != INLAY_NONE ? &g->values[other].info : NULL;

        out->values[out->value_count++] = v;
        out->next = layer_of(x, n);
        if (out->next != NULL)
            return is_plain(out->next) && same_axis(l, out->next) && x->uses[out->next->weight] == 1;
        if (strcmp(n->info.domain.data, "ai.onnx") != 0)
            return false;
        if (strcmp(n->info.op_type.data, "Add") == 0 && out->added == INLAY_NONE && out->value_count == 1 &&
            l->depth != INLAY_NONE && info != NULL && (info->flags & INLAY_VALUE_CONSTANT) != 0 &&
            info->dtype == INLAY_FLOAT && info->rank == 1 && info->dims[0].value == layer_channels(l) &&
            x->uses[other] == 1)
            out->added = other;
        else if (!keeps_zero(n->info.op_type.data))
            return false;
    }
    return false;
}

static void drop_channels(struct pruning *x, const struct layer *l)
{
    const inlay_value_info *w = &x->e.g->values[l->weight].info;
    const int64_t channels = layer_channels(l);
    bool other, *dead, *unread;
    uint32_t bias;
    int64_t left = 0;
    struct between b;

    if (!is_plain(l) || x->uses[l->weight] != 1 || !follow(x, l, &b) ||
        x->e.g->values[b.next->weight].info.dims[reading_axis(b.next)].value != channels)
        return;
    bias = layer_bias(l, &other);
    if (other || (bias != INLAY_NONE && x->uses[bias] != 1))
        return;
    dead = malloc(2 * (size_t)channels + 1);
    if (dead == NULL) {
        x->e.failed = true;
        return;
    }
    unread = dead + channels;
    memset(dead, 1, 2 * (size_t)channels);
    note_zeros(w, l->channel, dead);
    if (bias != INLAY_NONE)
        note_zeros(&x->e.g->values[bias].info, 0, dead);
    if (b.added != INLAY_NONE)
        note_zeros(&x->e.g->values[b.added].info, 0, dead);
    note_zeros(&x->e.g->values[b.next->weight].info, reading_axis(b.next), unread);
    for (int64_t c = 0; c < channels; c++) {
        dead[c] |= unread[c];
        left += !dead[c];
    }
    dead[0] &= left > 0; /* one stays: without any there would be nothing to multiply */
    left += left == 0;
    if (left < channels) {
        x->channels += (uint64_t)(channels - left);
        cut(x, l->weight, l->channel, dead, left);
        if (bias != INLAY_NONE)
            cut(x, bias, 0, dead, left);
        if (b.added != INLAY_NONE)
            cut(x, b.added, 0, dead, left);
        cut(x, b.next->weight, reading_axis(b.next), dead, left);
        for (uint32_t i = 0; i < b.value_count; i++) {
            x->e.g->values[b.values[i]].declared = false;
            x->e.g->values[b.values[i]].info.rank = INLAY_RANK_UNKNOWN;
            x->e.g->values[b.values[i]].info.dims = NULL;
        }
    }
    free(dead);
}

/* ------------------------------------------------------------------ the model */

static void prune_blocks(struct editor *e, const struct layer *l, const prune_how *how, uint32_t i)
{
    inlay_value_info *info = &e->g->values[l->weight].info;
    const uint64_t bytes = (uint64_t)l->count * sizeof(float);
    float *w = edit_memory(e, bytes);
    struct matrix m;

    if (w == NULL)
        return;
    memcpy(w, info->data, bytes);
    m = matrix_of(l, w);
    e->failed = e->failed || !drop_blocks(&m, how->share, how->inputs != NULL ? how->inputs[i].importance : NULL);
    info->data = w;
}

static void note_forms(const layer_list *list, layer_form *forms)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct layer *l = &list->items[i];
        const inlay_value_info *info = &l->g->values[l->weight].info;

        forms[i] = (layer_form){ .bits = 32, .bytes = info->data_bytes, .kept = l->kept };
        if (l->kept == NULL && l->count < NARROW_LEAST_WEIGHTS)
            forms[i].kept = "fewer than 1024 weights";
        else if (l->kept == NULL && !narrow_is_matrix(l))
            forms[i].kept = "no matrix of a product: zeros in it would save nothing";
        if (narrow_is_matrix(l)) {
            const struct matrix m = matrix_of(l, (float *)(uintptr_t)info->data);
            const uint64_t left = bytes_left(&m);

            forms[i].bytes = left < info->data_bytes ? left : info->data_bytes;
        }
    }
}

inlay_status prune_model(graph_model *model, const layer_list *list, const prune_how *how, layer_form *forms,
                         uint64_t *out_channels, inlay_diag *diag)
{
    struct pruning x = { .list = list };
    inlay_status status;

    *out_channels = 0;
    edit_begin(&x.e, model->main);
    x.uses = calloc((size_t)model->main->value_count + 1, sizeof *x.uses);
    x.e.failed = x.e.failed || x.uses == NULL;
    for (uint32_t i = 0; !x.e.failed && how->share > 0 && i < list->count; i++)
        if (list->items[i].g == model->main && list->items[i].kept == NULL && narrow_is_matrix(&list->items[i]) &&
            list->items[i].count >= NARROW_LEAST_WEIGHTS)
            prune_blocks(&x.e, &list->items[i], how, i);
    if (!x.e.failed)
        edit_count_uses(model->main, x.uses);
    for (uint32_t i = 0; !x.e.failed && i < list->count; i++)
        if (list->items[i].g == model->main && list->items[i].weight_input == 1)
            drop_channels(&x, &list->items[i]);
    if (!x.e.failed)
        note_forms(list, forms);
    free(x.uses);
    *out_channels = x.channels;
    status = edit_finish(&x.e, diag);
    return status;
}
