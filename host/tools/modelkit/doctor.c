#include "modelkit/doctor_parts.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *code, *fix;
    doctor_severity severity;
} kinds[] = {
#define FINDING(name, code, severity, fix) { code, fix, DOCTOR_##severity },
#include "modelkit/findings.def"
#undef FINDING
};

const char *doctor_code(doctor_kind kind)
{
    return kinds[kind].code;
}

const char *doctor_fix_text(doctor_kind kind)
{
    return kinds[kind].fix;
}

doctor_severity doctor_severity_of(doctor_kind kind)
{
    return kinds[kind].severity;
}

const char *doctor_severity_text(doctor_severity s)
{
    return s == DOCTOR_ERROR ? "error" : s == DOCTOR_WARNING ? "warning" : "note";
}

/* ------------------------------------------------------------------ findings */

/* Names in files may hold anything; a finding is one line. */
static void make_line(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

doctor_finding *doctor_add(struct doctor *d, doctor_kind kind, struct graph *g, graph_node *n, uint32_t v,
                           const char *format, ...)
{
    doctor_finding *f = arena_alloc(&d->model->arena, sizeof *f);
    char text[512];
    char *copy;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    make_line(text);
    copy = arena_string(&d->model->arena, text);
    if (f == NULL || copy == NULL) {
        d->failed = true;
        return NULL;
    }
    *f = (doctor_finding){
        .kind = kind, .g = g, .text = copy, .value = "", .v = v, .instead = INLAY_NONE, .cost_ms = -1
    };
    if (n != NULL) {
        f->nodes = arena_copy(&d->model->arena, &n, sizeof n);
        f->node_count = f->nodes != NULL;
    }
    if (g != NULL && v != INLAY_NONE)
        f->value = g->values[v].info.name.data;
    if (d->last != NULL)
        d->last->next = f;
    else
        d->first = f;
    d->last = f;
    d->count++;
    return f;
}

/* ------------------------------------------------------------------ helpers of the parts */

static void count_read(struct readers *r, uint32_t v, graph_node *n)
{
    if (v == INLAY_NONE)
        return;
    r->count[v]++;
    r->one[v] = n;
}

bool readers_find(struct graph *g, struct readers *out)
{
    out->count = arena_array(&g->model->arena, (size_t)g->value_count + 1, sizeof *out->count);
    out->one = arena_array(&g->model->arena, (size_t)g->value_count + 1, sizeof(graph_node *));
    if (out->count == NULL || out->one == NULL)
        return false;
    for (uint32_t i = 0; i < g->node_count; i++) {
        graph_node *n = g->nodes[i];

        for (uint32_t k = 0; k < n->info.input_count; k++)
            count_read(out, n->info.inputs[k], n);
        for (uint32_t k = 0; k < n->capture_count; k++)
            count_read(out, n->captures[k], n);
    }
    for (uint32_t i = 0; i < g->output_count; i++)
        out->count[g->outputs[i]]++;
    return true;
}

bool doctor_constant(const struct graph *g, uint32_t v, inlay_tensor_view *out)
{
    const inlay_value_info *info = v != INLAY_NONE ? &g->values[v].info : NULL;
    const inlay_attr_info *a;
    int64_t *dims;

    if (info == NULL || info->kind != INLAY_VALUE_TENSOR || info->dtype == INLAY_STRING)
        return false;
    if (info->producer != INLAY_NONE && info->producer < g->node_count) {
        a = doctor_is_op(g->nodes[info->producer], "Constant") ? graph_attr(g->nodes[info->producer], "value") : NULL;
        if (a != NULL && a->tensor != NULL && a->tensor->dtype != INLAY_STRING) {
            *out = *a->tensor;
            return true;
        }
    }
    if (info->data == NULL || info->rank == INLAY_RANK_UNKNOWN)
        return false;
    dims = arena_array(&g->model->arena, (size_t)info->rank + 1, sizeof *dims);
    if (dims == NULL)
        return false;
    for (uint32_t i = 0; i < info->rank; i++)
        dims[i] = info->dims[i].value;
    *out = (inlay_tensor_view){
        .data = info->data, .bytes = info->data_bytes, .dims = dims, .rank = info->rank, .dtype = info->dtype
    };
    return true;
}

bool doctor_is_op(const graph_node *n, const char *op)
{
    return strcmp(n->info.op_type.data, op) == 0 && strcmp(n->info.domain.data, "ai.onnx") == 0;
}

int64_t doctor_int(const graph_node *n, const char *attr, int64_t otherwise)
{
    const inlay_attr_info *a = graph_attr(n, attr);

    return a != NULL && a->kind == INLAY_ATTR_INT ? a->i : otherwise;
}

int64_t doctor_elements(const inlay_value_info *info)
{
    int64_t count = 1;

    if (info->rank == INLAY_RANK_UNKNOWN)
        return -1;
    for (uint32_t i = 0; i < info->rank; i++) {
        if (info->dims[i].kind != INLAY_DIM_FIXED || __builtin_mul_overflow(count, info->dims[i].value, &count))
            return -1;
    }
    return count;
}
