#include "quantize/layers.h"
#include "base/checked.h"
#include "base/memory.h"
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Which input of an operator holds weights, and which axes. */
struct kind {
    const char *op;
    uint32_t input;
    uint32_t least_rank;
    int channel, depth; /* from the end where negative; NO_DEPTH */
    bool multiplies;
};

enum { NO_DEPTH = 99 };
static const struct kind kinds[] = {
    { "MatMul", 1, 2, -1, -2, true },    { "Gemm", 1, 2, 1, 0, true },
    { "Conv", 1, 3, 0, NO_DEPTH, true }, { "ConvTranspose", 1, 3, 1, NO_DEPTH, false },
    { "Gather", 0, 2, 0, 1, false },     { "LSTM", 1, 3, 1, 2, false },
    { "LSTM", 2, 3, 1, 2, false },       { "GRU", 1, 3, 1, 2, false },
    { "GRU", 2, 3, 1, 2, false },        { "RNN", 1, 3, 1, 2, false },
    { "RNN", 2, 3, 1, 2, false },
};

struct finder {
    layer_list *out;
    const char *const *skip;
    uint32_t skip_count;
    bool *used; /* [skip_count] */
    struct arena *a;
    inlay_diag *diag;
};

static int64_t attr_int(const graph_node *n, const char *name, int64_t otherwise)
{
    const inlay_attr_info *a = graph_attr(n, name);

    return a != NULL && a->kind == INLAY_ATTR_INT ? a->i : otherwise;
}

static uint32_t axis_of(int axis, uint32_t rank)
{
    return axis == NO_DEPTH ? INLAY_NONE : (uint32_t)(axis < 0 ? axis + (int)rank : axis);
}

static bool is_skipped(struct finder *f, const graph_node *n)
{
    bool any = false;

    for (uint32_t i = 0; i < f->skip_count; i++) {
        const char *p = f->skip[i];
        const bool fits = strncmp(p, "op:", 3) == 0
                              ? fnmatch(p + 3, n->info.op_type.data, 0) == 0
                              : fnmatch(p, n->info.name.data, 0) == 0 || strcmp(p, n->info.name.data) == 0;
        f->used[i] |= fits;
        any |= fits;
    }
    return any;
}

/* Of a large table neither all pages of the file are needed at once, nor they and a copy. */
enum { SLICE = 1 << 20 };

static bool all_finite(const graph_model *model, const inlay_value_info *info, int64_t count)
{
    bool finite = true;

    for (int64_t at = 0; at < count && finite; at += SLICE) {
        const int64_t some = count - at < SLICE ? count - at : SLICE;
        const char *from = (const char *)info->data + (size_t)at * sizeof(float);

        for (int64_t i = 0; i < some && finite; i++) {
            float w;

            memcpy(&w, from + (size_t)i * sizeof w, sizeof w);
            finite = isfinite(w);
        }
        graph_blob_forget(model, from, (size_t)some * sizeof(float));
    }
    graph_blob_forget(model, info->data, (size_t)info->data_bytes); /* and the pages between */
    return finite;
}

static inlay_status add_layer(struct finder *f, const struct layer *l)
{
    if (!ARENA_GROW(f->a, f->out->items, f->out->count))
        return no_memory(f->diag, "for the list of layers");
    f->out->items[f->out->count++] = *l;
    return INLAY_OK;
}

static inlay_status match(struct finder *f, struct graph *g, graph_node *n, const char *path, const struct kind *k)
{
    const uint32_t v = k->input < n->info.input_count ? n->info.inputs[k->input] : INLAY_NONE;
    const inlay_value_info *info = v == INLAY_NONE ? NULL : &g->values[v].info;
    struct layer l = { .g = g, .node = n, .path = path, .weight = v, .weight_input = k->input, .count = 1 };

    if (info == NULL || (info->flags & INLAY_VALUE_CONSTANT) == 0 || info->dtype != INLAY_FLOAT ||
        info->rank < k->least_rank || info->rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    for (uint32_t d = 0; d < info->rank; d++)
        if (!mul_dim(&l.count, info->dims[d].value))
            return INLAY_OK;
    l.channel = axis_of(k->channel, info->rank);
    l.depth = axis_of(k->depth, info->rank);
    if (strcmp(k->op, "Gemm") == 0 && attr_int(n, "transB", 0) != 0) {
        l.channel = 0;
        l.depth = 1;
    }
    if (strcmp(k->op, "Gather") == 0 && attr_int(n, "axis", 0) != 0)
        return INLAY_OK;
    l.multiplies = k->multiplies && path[0] == '\0' && info->rank <= (strcmp(k->op, "Conv") == 0 ? 8u : 2u) &&
                   n->info.inputs[0] != INLAY_NONE && attr_int(n, "transA", 0) == 0 &&
                   (g->values[n->info.inputs[0]].info.flags & INLAY_VALUE_CONSTANT) == 0;
    if (is_skipped(f, n))
        l.kept = "skipped";
    else if (!all_finite(g->model, info, l.count))
        l.kept = "weights that are NaN or infinite";
    return add_layer(f, &l);
}

static inlay_status find_in(struct finder *f, struct graph *g, const char *path)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < g->node_count; i++) {
        graph_node *n = g->nodes[i];

        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
            if (strcmp(n->info.op_type.data, kinds[k].op) == 0 && strcmp(n->info.domain.data, "ai.onnx") == 0)
                INLAY_TRY(match(f, g, n, path, &kinds[k]));
        for (uint32_t b = 0; b < n->body_count; b++) {
            const char *inner = arena_format(f->a, "%s%s.%s/", path, n->info.name.data, n->bodies[b].attr);

            if (inner == NULL)
                return no_memory(f->diag, "for the list of layers");
            INLAY_TRY(find_in(f, n->bodies[b].graph, inner));
        }
    }
done:
    return status;
}

inlay_status layers_find(graph_model *model, const char *const *skip, uint32_t skip_count, struct arena *a,
                         layer_list *out, inlay_diag *diag)
{
    struct finder f = { .out = out, .skip = skip, .skip_count = skip_count, .a = a, .diag = diag };
    inlay_status status;

    *out = (layer_list){ 0 };
    f.used = arena_array(a, (size_t)skip_count + 1, sizeof *f.used);
    if (f.used == NULL)
        return no_memory(diag, "for the list of layers");
    INLAY_TRY(find_in(&f, model->main, ""));
    for (uint32_t i = 0; i < skip_count; i++)
        if (!f.used[i])
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "skip: no layer with weights fits '%.200s'; inlay inspect "
                              "--nodes lists the nodes",
                              skip[i]);
done:
    return status;
}

int64_t layer_channels(const struct layer *l)
{
    return l->g->values[l->weight].info.dims[l->channel].value;
}

uint32_t layer_bias(const struct layer *l, bool *out_other)
{
    const graph_node *n = l->node;
    const uint32_t v =
        strcmp(n->info.op_type.data, "MatMul") != 0 && n->info.input_count > 2 ? n->info.inputs[2] : INLAY_NONE;
    const inlay_value_info *info = v == INLAY_NONE ? NULL : &l->g->values[v].info;

    *out_other = false;
    if (info == NULL)
        return INLAY_NONE;
    if ((info->flags & INLAY_VALUE_CONSTANT) != 0 && info->dtype == INLAY_FLOAT && info->rank == 1 &&
        info->dims[0].value == layer_channels(l))
        return v;
    *out_other = true;
    return INLAY_NONE;
}

float *layer_weights(const struct layer *l)
{
    float *w = malloc((size_t)l->count * sizeof *w + 1);

    if (w != NULL) {
        const inlay_value_info *info = &l->g->values[l->weight].info;

        for (int64_t at = 0; at < l->count; at += SLICE) {
            const size_t bytes = (size_t)(l->count - at < SLICE ? l->count - at : SLICE) * sizeof *w;

            memcpy(w + at, (const char *)info->data + (size_t)at * sizeof *w, bytes);
            graph_blob_forget(l->g->model, (const char *)info->data + (size_t)at * sizeof *w, bytes);
        }
        graph_blob_forget(l->g->model, info->data, (size_t)info->data_bytes);
    }
    return w;
}
