#include "quantize/dynamic.h"
#include "base/memory.h"
#include "quantize/weights.h"
#include <stdlib.h>
#include <string.h>

/* What DynamicQuantizeLinear makes of a value. */
typedef struct bytes_of {
    uint32_t value, bytes, scale, zero;
} bytes_of;

struct dynamic {
    struct editor *e;
    bytes_of *known; /* [known_count] */
    uint32_t known_count;
};

static double float_of(const graph_node *n, const char *name)
{
    const inlay_attr_info *a = graph_attr(n, name);

    return a != NULL && a->kind == INLAY_ATTR_FLOAT ? a->f : 1;
}

static bool fits(const struct layer *l)
{
    return l->multiplies && l->depth != INLAY_NONE && l->g->values[l->weight].info.rank == 2 &&
           float_of(l->node, "alpha") == 1 && float_of(l->node, "beta") == 1;
}

static const bytes_of *bytes_for(struct dynamic *d, uint32_t v)
{
    const char *stem = d->e->g->values[v].info.name.data;
    bytes_of *b = &d->known[d->known_count];
    uint32_t *outputs = arena_array(&d->e->g->model->arena, 3, sizeof *outputs);
    graph_node *n;

    for (uint32_t i = 0; i < d->known_count; i++)
        if (d->known[i].value == v)
            return &d->known[i];
    b->value = v;
    b->bytes = edit_node(d->e, stem, "_uint8", "DynamicQuantizeLinear", "", &v, 1, &n);
    b->scale = edit_value(d->e, stem, "_scale");
    b->zero = edit_value(d->e, stem, "_zero");
    if (n == NULL || outputs == NULL) {
        d->e->failed = true;
        return b;
    }
    outputs[0] = b->bytes;
    outputs[1] = b->scale;
    outputs[2] = b->zero;
    n->info.outputs = outputs;
    n->info.output_count = 3;
    d->known_count++;
    return b;
}

/* The weights upright, as [depth, columns]. */
static uint32_t weight_bytes(struct dynamic *d, const struct layer *l, const float *w, uint32_t *out_scales,
                             layer_form *form)
{
    const inlay_value_info *info = &l->g->values[l->weight].info;
    const char *stem = info->name.data;
    const int64_t depth = info->dims[l->depth].value, columns = info->dims[l->channel].value;
    const int64_t dims[] = { depth, columns };
    int8_t *codes = edit_memory(d->e, (uint64_t)l->count), *upright = codes;
    float *scales = edit_memory(d->e, (uint64_t)columns * sizeof *scales);

    if (codes == NULL || scales == NULL)
        return INLAY_NONE;
    weights_bytes(w, l->channel == 0 ? 1 : depth, columns, l->channel == 0 ? depth : 1, 127, codes, scales);
    if (l->channel == 0) {
        upright = edit_memory(d->e, (uint64_t)l->count);
        for (int64_t i = 0; upright != NULL && i < depth; i++)
            for (int64_t k = 0; k < columns; k++)
                upright[i * columns + k] = codes[k * depth + i];
    }
    *out_scales =
        edit_constant(d->e, stem, "_scale", INLAY_FLOAT, 1, &columns, scales, (uint64_t)columns * sizeof *scales);
    form->bits = 8;
    form->bytes = (uint64_t)l->count + (uint64_t)columns * sizeof *scales;
    return edit_constant(d->e, stem, "_int8", INLAY_INT8, 2, dims, upright, (uint64_t)l->count);
}

/* The layer's node becomes the last one of its replacement, so that what it makes keeps its name. */
static void replace(struct dynamic *d, const struct layer *l, layer_form *form)
{
    graph_node *n = l->node, *cast;
    const char *stem = n->info.name.data;
    const uint32_t bias = n->info.input_count > 2 ? n->info.inputs[2] : INLAY_NONE;
    const bytes_of *x = bytes_for(d, n->info.inputs[0]);
    float *w = layer_weights(l);
    uint32_t *last = arena_array(&d->e->g->model->arena, 2, sizeof *last), inputs[4], scales = INLAY_NONE, sums;

    d->e->failed = d->e->failed || w == NULL || last == NULL;
    inputs[0] = x->bytes;
    inputs[1] = d->e->failed ? INLAY_NONE : weight_bytes(d, l, w, &scales, form);
    inputs[2] = x->zero;
    free(w);
    if (inputs[1] == INLAY_NONE)
        return;
    sums = edit_node(d->e, stem, "_int32", "MatMulInteger", "", inputs, 3, NULL);
    sums = edit_node(d->e, stem, "_float", "Cast", "", &sums, 1, &cast);
    edit_int(d->e, cast, "to", INLAY_FLOAT);
    inputs[0] = x->scale;
    inputs[1] = scales;
    last[0] = sums;
    last[1] = edit_node(d->e, stem, "_scales", "Mul", "", inputs, 2, NULL);
    if (bias != INLAY_NONE) {
        last[0] = edit_node(d->e, stem, "_unbiased", "Mul", "", last, 2, NULL);
        last[1] = bias;
    }
    n->info.op_type = bias != INLAY_NONE ? (inlay_str){ "Add", 3 } : (inlay_str){ "Mul", 3 };
    n->info.inputs = last;
    n->info.input_count = 2;
    n->info.attr_count = n->own_attr_count = 0;
    n->row = NULL;
    n->schema = NULL;
}

inlay_status dynamic_model(graph_model *model, const layer_list *list, layer_form *forms, inlay_diag *diag)
{
    struct editor e;
    struct dynamic d = { .e = &e };
    inlay_status status;

    edit_begin(&e, model->main);
    d.known = arena_array(&model->arena, (size_t)list->count + 1, sizeof *d.known);
    e.failed = e.failed || d.known == NULL;
    for (uint32_t i = 0; i < list->count && !e.failed; i++) {
        const struct layer *l = &list->items[i];

        forms[i] = (layer_form){ .bits = 32, .bytes = (uint64_t)l->count * sizeof(float), .kept = l->kept };
        if (l->kept == NULL && !fits(l))
            forms[i].kept = "only products have a dynamic form";
        if (forms[i].kept == NULL)
            replace(&d, l, &forms[i]);
    }
    status = edit_finish(&e, diag);
    if (status == INLAY_OK && !edit_drop_unused(model->main))
        status = no_memory(diag, "for the quantized model");
    return status;
}
