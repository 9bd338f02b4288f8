#include "quantize/narrow.h"
#include "base/element.h"
#include "base/memory.h"
#include "modelkit/edit.h"
#include "quantize/refine.h"
#include "threads/threads.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One constant on its way, with all layers that read it. */
struct narrowing {
    struct editor *e;
    const struct layer *l;
    const narrow_how *how;
    const weight_inputs *inputs; /* of l, or NULL */
    struct nibbles *known;       /* of l, or NULL */
    uint32_t bits;
    const char *stem;
    float *w;
    layer_form form;
};

int64_t narrow_opset(const narrow_how *how)
{
    return how->bits == 4 && !how->nbits ? 21 : how->bits == 4 || how->bits == 8 ? 13 : 9;
}

static const int64_t *dims_of(const struct layer *l, int64_t *dims)
{
    const inlay_value_info *info = &l->g->values[l->weight].info;

    for (uint32_t d = 0; d < info->rank; d++)
        dims[d] = info->dims[d].value;
    return dims;
}

static uint32_t rank_of(const struct layer *l)
{
    return l->g->values[l->weight].info.rank;
}

/* ------------------------------------------------------------------ float16 */

/* Halves of all weights; false: one does not fit (or, of NARROW_EXACT, is not exactly that). */
static bool to_halves(const struct narrowing *n, uint16_t *out)
{
    for (int64_t i = 0; i < n->l->count; i++) {
        double back;

        out[i] = element_half(n->w[i]);
        (void)element_number(INLAY_FLOAT16, out, i, &back, NULL);
        if (!isfinite(back) || (n->how->bits == NARROW_EXACT && (float)back != n->w[i]))
            return false;
    }
    return true;
}

static uint32_t make_halves(struct narrowing *n)
{
    int64_t dims[INLAY_MAX_RANK];
    uint16_t *halves = edit_memory(n->e, (uint64_t)n->l->count * sizeof *halves);
    graph_node *cast;
    uint32_t v, out;

    if (halves == NULL)
        return INLAY_NONE;
    if (!to_halves(n, halves)) {
        n->form.kept = n->how->bits == NARROW_EXACT ? "not all weights are halves" : "weights beyond float16";
        return INLAY_NONE;
    }
    v = edit_constant(n->e, n->stem, "_half", INLAY_FLOAT16, rank_of(n->l), dims_of(n->l, dims), halves,
                      (uint64_t)n->l->count * sizeof *halves);
    out = edit_node(n->e, n->stem, "_wide", "Cast", "", &v, 1, &cast);
    edit_int(n->e, cast, "to", INLAY_FLOAT);
    n->form.bits = 16;
    n->form.bytes = (uint64_t)n->l->count * sizeof *halves;
    return out;
}

/* ------------------------------------------------------------------ 8 bits */

uint32_t narrow_bytes(struct editor *e, const struct layer *l, const float *weights, narrowed_bytes *out_bytes,
                      layer_form *form)
{
    const char *stem = l->g->values[l->weight].info.name.data;
    const int64_t channels = layer_channels(l);
    int64_t dims[INLAY_MAX_RANK], outer = 1, inner = 1;
    int8_t *codes = edit_memory(e, (uint64_t)l->count);
    float *scales = edit_memory(e, (uint64_t)channels * sizeof *scales);
    graph_node *node;
    uint32_t inputs[2], out;

    *out_bytes = (narrowed_bytes){ codes, scales };
    if (codes == NULL || scales == NULL)
        return INLAY_NONE;
    (void)dims_of(l, dims);
    for (uint32_t d = 0; d < rank_of(l); d++) {
        outer *= d < l->channel ? dims[d] : 1;
        inner *= d > l->channel ? dims[d] : 1;
    }
    weights_bytes(weights, outer, channels, inner, 127, codes, scales);
    inputs[0] = edit_constant(e, stem, "_int8", INLAY_INT8, rank_of(l), dims, codes, (uint64_t)l->count);
    inputs[1] =
        edit_constant(e, stem, "_scale", INLAY_FLOAT, 1, &channels, scales, (uint64_t)channels * sizeof *scales);
    out = edit_node(e, stem, "_wide", "DequantizeLinear", "", inputs, 2, &node);
    edit_int(e, node, "axis", l->channel);
    form->bits = 8;
    form->bytes = (uint64_t)l->count + (uint64_t)channels * sizeof *scales;
    return out;
}

/* ------------------------------------------------------------------ 4 bits */

void nibbles_free(struct nibbles *q)
{
    free(q->codes);
    free(q->zeros);
    free(q->scales);
    *q = (struct nibbles){ 0 };
}

/* The square of what the layer makes, were its inputs independent of each other. */
static double energy_of(const weight_rows *m, const float *importance)
{
    double sum = 0;

    for (int64_t r = 0; r < m->rows; r++)
        for (int64_t k = 0; k < m->depth; k++) {
            const double w = (double)m->w[r * m->row_step + k * m->step];

            sum += w * w * (importance != NULL ? (double)importance[k] : 1);
        }
    return sum;
}

/* The same of what it is off. */
static double loss_of(const struct nibbles *q, const float *importance)
{
    const weight_rows *m = &q->m;
    const int64_t blocks = weight_blocks(m);
    double sum = 0;

    for (int64_t r = 0; r < m->rows; r++)
        for (int64_t k = 0; k < m->depth; k++) {
            const int64_t b = r * blocks + k / m->block;
            const double e = (double)m->w[r * m->row_step + k * m->step] -
                             (double)(q->codes[r * m->depth + k] - q->zeros[b]) * (double)q->scales[b];

            sum += e * e * (importance != NULL ? (double)importance[k] : 1);
        }
    return sum;
}

/* Rows that are rounded side by side. */
struct rounding {
    const weight_inputs *inputs;
    struct nibbles *q;
    float *moments; /* of inputs, see refine_moments() */
    float *scratch; /* of each worker */
    double *losses; /* of each group of rows: their sum must not depend on who was first */
    int64_t scratch_floats;
};

static inlay_status round_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct rounding *r = user;
    struct nibbles *q = r->q;

    for (int64_t group = begin; group < end; group++) {
        const int64_t first = group * WEIGHTS_TOGETHER, left = q->m.rows - first;
        const int64_t count = left < WEIGHTS_TOGETHER ? left : WEIGHTS_TOGETHER;
        float *scratch = r->scratch + worker * r->scratch_floats;

        (void)weights_nibbles_compensated(&q->m, r->inputs, first, count, q->codes, q->scales, q->zeros, scratch);
        r->losses[group] =
            refine_nibbles(&q->m, r->inputs, r->moments, first, count, q->codes, q->scales, q->zeros, scratch);
    }
    return INLAY_OK;
}

/* False: no memory. */
static bool make_compensated(const weight_inputs *inputs, struct nibbles *q)
{
    const int64_t groups = (q->m.rows + WEIGHTS_TOGETHER - 1) / WEIGHTS_TOGETHER;
    const uint32_t workers = threads_limit(NULL);
    struct rounding r = { .inputs = inputs,
                          .q = q,
                          .scratch_floats = WEIGHTS_TOGETHER * (2 * q->m.depth + WEIGHTS_MOST_BLOCK) };
    bool good;

    r.moments = malloc((size_t)(q->m.depth * q->m.depth) * sizeof *r.moments);
    r.scratch = malloc((size_t)r.scratch_floats * workers * sizeof *r.scratch);
    r.losses = malloc((size_t)groups * sizeof *r.losses);
    good = r.moments != NULL && r.scratch != NULL && r.losses != NULL;
    if (good) {
        refine_moments(inputs, q->m.depth, r.moments);
        (void)threads_parallel_for(NULL, groups, 1, round_rows, &r);
        for (int64_t i = 0; i < groups; i++)
            q->loss += r.losses[i];
    }
    free(r.losses);
    free(r.scratch);
    free(r.moments);
    return good;
}

/* Do scales of float16 lose nothing that counts? They have eleven bits, of steps that are well above their smallest. */
static bool fit_for_halves(const float *w, int64_t count)
{
    double sum = 0;
    float most = 0;

    for (int64_t i = 0; i < count; i++) {
        sum += (double)fabsf(w[i]);
        most = fabsf(w[i]) > most ? fabsf(w[i]) : most;
    }
    return sum / (double)count > 1.0 / 512 && most < 1000;
}

/* False: no memory. */
static bool make_nibbles(const struct narrowing *n, struct nibbles *q)
{
    int64_t dims[INLAY_MAX_RANK];
    const bool upright = n->l->depth == 0; /* [depth, rows] */
    const float *importance = n->inputs != NULL ? n->inputs->importance : NULL;
    bool good;

    (void)dims_of(n->l, dims);
    q->m = (weight_rows){ .w = n->w,
                          .rows = dims[upright ? 1 : 0],
                          .depth = dims[upright ? 0 : 1],
                          .row_step = upright ? 1 : dims[1],
                          .step = upright ? dims[1] : 1,
                          .block = n->how->block,
                          .halves = !n->how->nbits && fit_for_halves(n->w, n->l->count) };
    q->codes = malloc((size_t)n->l->count);
    q->zeros = malloc((size_t)(q->m.rows * weight_blocks(&q->m)));
    q->scales = malloc((size_t)(q->m.rows * weight_blocks(&q->m)) * sizeof *q->scales);
    good = q->codes != NULL && q->zeros != NULL && q->scales != NULL;
    if (good && n->inputs != NULL && n->inputs->factor != NULL) {
        good = make_compensated(n->inputs, q);
    } else if (good) {
        weights_nibbles(&q->m, importance, q->codes, q->scales, q->zeros);
        q->loss = loss_of(q, importance);
    }
    if (!good) {
        nibbles_free(q);
        return false;
    }
    q->energy = energy_of(&q->m, importance);
    q->m.w = NULL;
    return true;
}

/* The codes of the layer, found or known; false: no memory. nibbles_done() lets go of them. */
static bool find_nibbles(const struct narrowing *n, struct nibbles *q)
{
    *q = (struct nibbles){ 0 };
    if (n->known == NULL)
        return make_nibbles(n, q);
    if (n->known->codes == NULL && !make_nibbles(n, n->known))
        return false;
    *q = *n->known;
    return true;
}

static void nibbles_done(const struct narrowing *n, struct nibbles *q)
{
    if (n->known == NULL)
        nibbles_free(q);
}

/* Two codes a byte, the first in the low half. */
static void pack(uint8_t *out, int64_t at, uint8_t code)
{
    out[at / 2] = (uint8_t)(at % 2 == 0 ? code : out[at / 2] | code << 4);
}

/* The scales as the DequantizeLinear reads them: floats, or halves and a Cast, which is folded when a session loads. */
static uint32_t put_scales(struct narrowing *n, const int64_t *dims, int64_t count, const float *steps, bool halves)
{
    uint16_t *half;
    graph_node *cast;
    uint32_t v;

    n->form.bytes += (uint64_t)count * (halves ? sizeof *half : sizeof *steps);
    if (!halves)
        return edit_constant(n->e, n->stem, "_scale", INLAY_FLOAT, 2, dims, steps, (uint64_t)count * sizeof *steps);
    half = edit_memory(n->e, (uint64_t)count * sizeof *half);
    for (int64_t i = 0; half != NULL && i < count; i++)
        half[i] = element_half(steps[i]);
    v = edit_constant(n->e, n->stem, "_scale", INLAY_FLOAT16, 2, dims, half, (uint64_t)count * sizeof *half);
    v = edit_node(n->e, n->stem, "_steps", "Cast", "", &v, 1, &cast);
    edit_int(n->e, cast, "to", INLAY_FLOAT);
    return v;
}

static uint32_t make_blocks(struct narrowing *n)
{
    int64_t dims[INLAY_MAX_RANK], less[INLAY_MAX_RANK], blocks, scales;
    uint8_t *codes, *zeros;
    float *steps;
    graph_node *node;
    uint32_t inputs[3], out;
    bool halves;
    struct nibbles q;

    if (!find_nibbles(n, &q)) {
        n->e->failed = true;
        return INLAY_NONE;
    }
    (void)dims_of(n->l, dims);
    (void)dims_of(n->l, less);
    blocks = weight_blocks(&q.m);
    less[n->l->depth] = blocks;
    scales = q.m.rows * blocks;
    codes = edit_memory(n->e, (uint64_t)(n->l->count + 1) / 2);
    zeros = edit_memory(n->e, (uint64_t)(scales + 1) / 2);
    steps = edit_memory(n->e, (uint64_t)scales * sizeof *steps);
    for (int64_t i = 0; codes != NULL && i < n->l->count; i++)
        pack(codes, i, q.codes[n->l->depth == 0 ? i % q.m.rows * q.m.depth + i / q.m.rows : i]);
    for (int64_t i = 0; zeros != NULL && steps != NULL && i < scales; i++) {
        const int64_t from = n->l->depth == 0 ? i % q.m.rows * blocks + i / q.m.rows : i;

        pack(zeros, i, q.zeros[from]);
        steps[i] = q.scales[from];
    }
    halves = q.m.halves;
    nibbles_done(n, &q);
    if (steps == NULL)
        return INLAY_NONE;
    n->form.bits = 4;
    n->form.bytes = (uint64_t)(n->l->count + 1) / 2 + (uint64_t)(scales + 1) / 2;
    inputs[0] = edit_constant(n->e, n->stem, "_uint4", INLAY_UINT4, 2, dims, codes, (uint64_t)(n->l->count + 1) / 2);
    inputs[1] = put_scales(n, less, scales, steps, halves);
    inputs[2] = edit_constant(n->e, n->stem, "_zero", INLAY_UINT4, 2, less, zeros, (uint64_t)(scales + 1) / 2);
    out = edit_node(n->e, n->stem, "_wide", "DequantizeLinear", "", inputs, 3, &node);
    edit_int(n->e, node, "axis", n->l->depth);
    edit_int(n->e, node, "block_size", n->how->block);
    return out;
}

/* The inputs of MatMulNBits: rows of blocks, each padded to whole ones. */
static void make_nbits(struct narrowing *n, uint32_t *inputs, int64_t *out_k, int64_t *out_n)
{
    struct nibbles q;
    int64_t blocks, half, dims[3], zero_bytes;
    uint8_t *codes, *zeros;
    float *steps;

    if (!find_nibbles(n, &q)) {
        n->e->failed = true;
        return;
    }
    blocks = weight_blocks(&q.m);
    half = q.m.block / 2;
    zero_bytes = (blocks + 1) / 2;
    *out_k = q.m.depth;
    *out_n = q.m.rows;
    codes = edit_memory(n->e, (uint64_t)(q.m.rows * blocks * half));
    zeros = edit_memory(n->e, (uint64_t)(q.m.rows * zero_bytes));
    steps = edit_memory(n->e, (uint64_t)(q.m.rows * blocks) * sizeof *steps);
    for (int64_t r = 0; codes != NULL && zeros != NULL && steps != NULL && r < q.m.rows; r++) {
        memset(codes + r * blocks * half, 0, (size_t)(blocks * half));
        for (int64_t k = 0; k < q.m.depth; k++)
            pack(codes + r * blocks * half, k, q.codes[r * q.m.depth + k]);
        for (int64_t b = 0; b < blocks; b++) {
            pack(zeros + r * zero_bytes, b, q.zeros[r * blocks + b]);
            steps[r * blocks + b] = q.scales[r * blocks + b];
        }
    }
    dims[0] = q.m.rows;
    dims[1] = blocks;
    dims[2] = half;
    n->form.bits = 4;
    n->form.bytes = (uint64_t)(q.m.rows * (blocks * (half + (int64_t)sizeof *steps) + zero_bytes));
    inputs[1] =
        edit_constant(n->e, n->stem, "_nbits", INLAY_UINT8, 3, dims, codes, (uint64_t)(q.m.rows * blocks * half));
    dims[0] = q.m.rows * blocks;
    inputs[2] = edit_constant(n->e, n->stem, "_scale", INLAY_FLOAT, 1, dims, steps, (uint64_t)dims[0] * sizeof *steps);
    dims[0] = q.m.rows * zero_bytes;
    inputs[3] = edit_constant(n->e, n->stem, "_zero", INLAY_UINT8, 1, dims, zeros, (uint64_t)dims[0]);
    nibbles_done(n, &q);
}

static double attr_float(const graph_node *n, const char *name)
{
    const inlay_attr_info *a = graph_attr(n, name);

    return a != NULL && a->kind == INLAY_ATTR_FLOAT ? a->f : 1;
}

/* MatMul and Gemm become MatMulNBits, the bias an Add behind it. */
static void replace_product(struct narrowing *n)
{
    graph_node *node = n->l->node, *add;
    graph_model *model = n->e->g->model;
    uint32_t *inputs = arena_array(&model->arena, 4, sizeof *inputs), sum[2], last;
    const uint32_t bias =
        strcmp(node->info.op_type.data, "Gemm") == 0 && node->info.input_count > 2 ? node->info.inputs[2] : INLAY_NONE;
    int64_t k = 0, columns = 0;

    if (inputs == NULL) {
        n->e->failed = true;
        return;
    }
    inputs[0] = node->info.inputs[0];
    make_nbits(n, inputs, &k, &columns);
    if (bias != INLAY_NONE) {
        last = node->info.outputs[0];
        sum[0] = INLAY_NONE;
        sum[1] = bias;
        *(uint32_t *)(uintptr_t)node->info.outputs = edit_node(n->e, n->stem, "_biased", "Add", "", sum, 2, &add);
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
    edit_int(n->e, node, "K", k);
    edit_int(n->e, node, "N", columns);
    edit_int(n->e, node, "bits", 4);
    edit_int(n->e, node, "block_size", n->how->block);
}

/* ------------------------------------------------------------------ all layers */

bool narrow_is_matrix(const struct layer *l)
{
    return rank_of(l) == 2 && l->weight_input == 1 && l->depth != INLAY_NONE;
}

static bool fits_nbits(const struct layer *l)
{
    return narrow_is_matrix(l) && attr_float(l->node, "alpha") == 1 && attr_float(l->node, "beta") == 1 &&
           (graph_attr(l->node, "transA") == NULL || graph_attr(l->node, "transA")->i == 0);
}

/* Readers of v read `with`; nodes of layers that are kept do not. */
static void replace_reads(const layer_list *list, struct graph *g, uint32_t v, uint32_t with)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        graph_node *n = g->nodes[i];
        bool keeps = false;

        for (uint32_t k = 0; k < list->count; k++)
            keeps |= list->items[k].node == n && list->items[k].weight == v && list->items[k].kept != NULL;
        for (uint32_t k = 0; k < n->info.input_count && !keeps; k++)
            if (n->info.inputs[k] == v)
                edit_input(n, k, with);
        for (uint32_t k = 0; k < n->capture_count; k++)
            if (n->captures[k] == v)
                n->captures[k] = with;
        for (uint32_t b = 0; b < n->body_count; b++)
            for (uint32_t k = 0; k < n->bodies[b].capture_count; k++)
                if (n->bodies[b].capture_outer[k] == v)
                    n->bodies[b].capture_outer[k] = with;
    }
}

static void narrow_one(struct narrowing *n, const layer_list *list)
{
    const bool wants_blocks = n->bits == 4, is_product = n->l->weight_input == 1;
    uint32_t with = INLAY_NONE;

    if (wants_blocks && n->how->nbits && fits_nbits(n->l) && is_product) {
        replace_product(n);
        n->e->failed = n->e->failed || !graph_model_import(n->e->g->model, "com.microsoft", 1);
        return;
    }
    if (wants_blocks && !n->how->nbits && narrow_is_matrix(n->l)) {
        with = make_blocks(n);
    } else if (n->bits == 4 || n->bits == 8) {
        narrowed_bytes bytes;

        n->form.kept = wants_blocks ? "4 bits are for products alone" : NULL;
        with = narrow_bytes(n->e, n->l, n->w, &bytes, &n->form);
    } else {
        with = make_halves(n);
    }
    if (with != INLAY_NONE)
        replace_reads(list, n->e->g, n->l->weight, with);
}

/* A layer whose weights another one, earlier in the list, has replaced: -1 = none has. */
static int64_t shared_with(const layer_list *list, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (list->items[k].g == list->items[i].g && list->items[k].weight == list->items[i].weight &&
            list->items[k].kept == NULL)
            return k;
    return -1;
}

static inlay_status narrow_graph(const layer_list *list, struct graph *g, const narrow_how *how, layer_form *forms,
                                 inlay_diag *diag)
{
    struct editor e;
    inlay_status status = INLAY_OK;

    edit_begin(&e, g);
    for (uint32_t i = 0; i < list->count && !e.failed && status == INLAY_OK; i++) {
        const struct layer *l = &list->items[i];
        const int64_t shared = l->g == g ? shared_with(list, i) : -1;
        struct narrowing n = { .e = &e,
                               .l = l,
                               .how = how,
                               .inputs = how->inputs != NULL ? &how->inputs[i] : NULL,
                               .known = how->known != NULL ? &how->known[i] : NULL,
                               .bits = how->bits_of != NULL ? how->bits_of[i] : how->bits,
                               .stem = g->values[l->weight].info.name.data,
                               .form = { .bits = 32 } };

        if (l->g != g)
            continue;
        forms[i] = (layer_form){ .bits = 32, .bytes = (uint64_t)l->count * sizeof(float), .kept = l->kept };
        if (how->progress != NULL && how->progress(how->progress_user, (double)i / list->count, "weights") != 0)
            status = inlay_fail(diag, INLAY_CANCELLED, "stopped at layer %u of %u", i + 1, list->count);
        if (l->kept == NULL && l->count < NARROW_LEAST_WEIGHTS)
            forms[i].kept = "fewer than 1024 weights";
        if (forms[i].kept != NULL || status != INLAY_OK || n.bits == 32)
            continue;
        if (shared >= 0 && !(how->nbits && n.bits == 4 && fits_nbits(l))) {
            forms[i] = forms[shared];
            forms[i].bytes = 0;
            continue;
        }
        n.w = layer_weights(l);
        if (n.w == NULL) {
            e.failed = true;
            break;
        }
        n.form.bytes = forms[i].bytes;
        narrow_one(&n, list);
        free(n.w);
        forms[i] = n.form;
    }
    if (status == INLAY_OK)
        return edit_finish(&e, diag);
    names_deinit(&e.names);
    return status;
}

inlay_status narrow_model(graph_model *model, const layer_list *list, const narrow_how *how, layer_form *forms,
                          inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < list->count; i++) {
        bool first = list->items[i].g != model->main;

        for (uint32_t k = 0; k < i; k++)
            first &= list->items[k].g != list->items[i].g;
        if (first)
            INLAY_TRY(narrow_graph(list, list->items[i].g, how, forms, diag));
    }
    INLAY_TRY(narrow_graph(list, model->main, how, forms, diag));
    if (!edit_drop_unused(model->main))
        status = no_memory(diag, "for the quantized model");
done:
    return status;
}
