/* Findings about axes that are open in name only. */
#include "modelkit/doctor_parts.h"
#include <string.h>

/* The input whose axis the symbol is, and which axis; false: it is none's, but computed. */
static bool find_axis(const struct graph *g, uint32_t symbol, uint32_t *out_input, uint32_t *out_axis)
{
    for (uint32_t i = 0; i < g->input_count; i++) {
        const inlay_value_info *info = &g->values[g->inputs[i]].info;

        for (uint32_t d = 0; info->rank != INLAY_RANK_UNKNOWN && d < info->rank; d++)
            if (info->dims[d].kind == INLAY_DIM_SYMBOLIC && info->dims[d].symbol == symbol) {
                *out_input = g->inputs[i];
                *out_axis = d;
                return true;
            }
    }
    return false;
}

/* Says once of a symbol that it can only be `size`. */
static void say_constant(struct doctor *d, struct graph *g, graph_node *n, uint32_t symbol, int64_t size)
{
    uint32_t input, axis;
    doctor_finding *f;

    for (f = d->first; f != NULL; f = f->next)
        if (f->kind == DOCTOR_AXIS_CONSTANT && f->instead == symbol)
            return;
    if (size <= 0 || !find_axis(g, symbol, &input, &axis))
        return;
    f = doctor_add(d, DOCTOR_AXIS_CONSTANT, g, n, input,
                   "axis %u of input '%.100s' (%.60s) is declared open, but %s "
                   "'%.100s' takes only %lld",
                   axis, g->values[input].info.name.data, d->model->symbols[symbol].name.data, n->info.op_type.data,
                   n->info.name.data, (long long)size);
    if (f != NULL) {
        f->instead = symbol;
        f->size = size;
        f->can_fix = true;
    }
}

/* Does the model say what size an axis of an operand has, by weights? */
static void look_product(struct doctor *d, struct graph *g, graph_node *n)
{
    const inlay_value_info *x = doctor_input(n, 0) != INLAY_NONE ? &g->values[n->info.inputs[0]].info : NULL;
    inlay_tensor_view w;
    uint32_t axis;
    int64_t size;

    if (x == NULL || x->rank == INLAY_RANK_UNKNOWN || x->rank < 2 || !doctor_constant(g, doctor_input(n, 1), &w) ||
        w.rank < 2)
        return;
    if (doctor_is_op(n, "Conv")) {
        axis = 1;
        size = w.dims[1] * doctor_int(n, "group", 1);
    } else if (doctor_is_op(n, "MatMul")) {
        axis = x->rank - 1;
        size = w.dims[w.rank - 2];
    } else {
        axis = doctor_int(n, "transA", 0) != 0 ? 0 : 1;
        size = w.dims[doctor_int(n, "transB", 0) != 0 ? 1 : 0];
    }
    if (x->dims[axis].kind == INLAY_DIM_SYMBOLIC)
        say_constant(d, g, n, x->dims[axis].symbol, size);
}

/* What a constant shape says of data with one open axis. */
static void look_reshape(struct doctor *d, struct graph *g, graph_node *n)
{
    const inlay_value_info *x = doctor_input(n, 0) != INLAY_NONE ? &g->values[n->info.inputs[0]].info : NULL;
    uint32_t open = INLAY_NONE, opens = 0, input, axis;
    int64_t fixed = 1, target = 1, first = 0;
    bool rest = false, kept = false;
    inlay_tensor_view shape;

    if (x == NULL || x->rank == INLAY_RANK_UNKNOWN || x->rank == 0 || !doctor_constant(g, doctor_input(n, 1), &shape) ||
        shape.dtype != INLAY_INT64 || shape.bytes < 8)
        return;
    for (uint32_t i = 0; i < x->rank; i++) {
        opens += x->dims[i].kind != INLAY_DIM_FIXED;
        if (x->dims[i].kind == INLAY_DIM_SYMBOLIC)
            open = i;
        if (x->dims[i].kind == INLAY_DIM_FIXED && __builtin_mul_overflow(fixed, x->dims[i].value, &fixed))
            return;
    }
    for (uint64_t i = 0; i < shape.bytes / 8; i++) {
        int64_t one;

        memcpy(&one, (const char *)shape.data + i * 8, sizeof one);
        first = i == 0 ? one : first;
        rest = rest || one == -1;
        kept = kept || one == 0;
        if (one > 0 && __builtin_mul_overflow(target, one, &target))
            return;
    }
    if (opens != 1 || open == INLAY_NONE || kept || fixed <= 0 || !find_axis(g, x->dims[open].symbol, &input, &axis))
        return;
    if (!rest && target % fixed == 0)
        say_constant(d, g, n, x->dims[open].symbol, target / fixed);
    else if (rest && open == 0 && axis == 0 && first > 0 && fixed % first == 0)
        (void)doctor_add(d, DOCTOR_TRACED_CONSTANT, g, n, doctor_input(n, 1),
                         "Reshape makes the first axis %lld whatever "
                         "size axis 0 of input '%.100s' (%.60s) has: tracing has made a constant of it",
                         (long long)first, g->values[input].info.name.data,
                         d->model->symbols[x->dims[open].symbol].name.data);
}

/* Axes of outputs that are declared open and always have one size. */
static void look_outputs(struct doctor *d, struct graph *g)
{
    for (uint32_t i = 0; i < g->output_count; i++) {
        const graph_value *v = &g->values[g->outputs[i]];
        uint32_t open = INLAY_NONE, count = 0;
        doctor_finding *f;

        if (!v->declared || v->declared_rank != v->info.rank || v->info.rank == INLAY_RANK_UNKNOWN ||
            v->info.kind != INLAY_VALUE_TENSOR || (v->info.flags & INLAY_VALUE_GRAPH_INPUT) != 0)
            continue;
        for (uint32_t k = 0; k < v->info.rank; k++)
            if (v->declared_dims[k].kind != INLAY_DIM_FIXED && v->info.dims[k].kind == INLAY_DIM_FIXED)
                open = count++ == 0 ? k : open;
        if (count == 0)
            continue;
        f = doctor_add(d, DOCTOR_AXIS_CONSTANT, g, NULL, g->outputs[i],
                       "%u of %u axes of output '%.200s' %s declared open, "
                       "but always %s one size, axis %u size %lld",
                       count, v->info.rank, v->info.name.data, count > 1 ? "are" : "is", count > 1 ? "have" : "has",
                       open, (long long)v->info.dims[open].value);
        if (f != NULL) {
            f->instead = 0;
            f->can_fix = true;
        }
    }
}

void doctor_look_axes(struct doctor *d, struct graph *g)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        graph_node *n = g->nodes[i];

        if (doctor_is_op(n, "Reshape"))
            look_reshape(d, g, n);
        else if (doctor_is_op(n, "Conv") || doctor_is_op(n, "MatMul") || doctor_is_op(n, "Gemm"))
            look_product(d, g, n);
    }
    look_outputs(d, g);
}
