#include "modelkit/doctor_parts.h"
#include "inlay/check.h"
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
    INLAY_CHECK((unsigned)kind < DOCTOR_KIND_COUNT);
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

const char *doctor_severity_text(doctor_severity severity)
{
    return severity == DOCTOR_ERROR ? "error" : severity == DOCTOR_WARNING ? "warning" : "note";
}

/* Replaces control characters of names, because a finding is one line. */
static void make_line(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

doctor_finding *doctor_add(struct doctor *doctor, doctor_kind kind, struct graph *graph, graph_node *node,
                           uint32_t value_index, const char *format, ...)
{
    doctor_finding *finding = arena_alloc(&doctor->model->arena, sizeof *finding);
    char text[512];
    char *copy;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    make_line(text);
    copy = arena_string(&doctor->model->arena, text);
    if (finding == NULL || copy == NULL) {
        doctor->failed = true;
        return NULL;
    }
    *finding = (doctor_finding){ .kind = kind,
                                 .graph = graph,
                                 .text = copy,
                                 .value = "",
                                 .value_index = value_index,
                                 .instead = INLAY_NONE,
                                 .cost_ms = -1 };
    if (node != NULL) {
        finding->nodes = arena_copy(&doctor->model->arena, &node, sizeof node);
        finding->node_count = finding->nodes != NULL;
    }
    INLAY_CHECK(graph == NULL || value_index == INLAY_NONE || value_index < graph->value_count);
    if (graph != NULL && value_index != INLAY_NONE)
        finding->value = graph->values[value_index].info.name.data;
    if (doctor->last != NULL)
        doctor->last->next = finding;
    else
        doctor->first = finding;
    doctor->last = finding;
    doctor->count++;
    return finding;
}

static void count_read(struct readers *readers, uint32_t value, graph_node *node)
{
    if (value == INLAY_NONE)
        return;
    readers->count[value]++;
    readers->one[value] = node;
}

bool readers_find(struct graph *graph, struct readers *out)
{
    out->count = arena_array(&graph->model->arena, (size_t)graph->value_count + 1, sizeof *out->count);
    out->one = arena_array(&graph->model->arena, (size_t)graph->value_count + 1, sizeof(graph_node *));
    if (out->count == NULL || out->one == NULL)
        return false;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        graph_node *node = graph->nodes[i];

        for (uint32_t k = 0; k < node->info.input_count; k++)
            count_read(out, node->info.inputs[k], node);
        for (uint32_t k = 0; k < node->capture_count; k++)
            count_read(out, node->captures[k], node);
    }
    for (uint32_t i = 0; i < graph->output_count; i++)
        out->count[graph->outputs[i]]++;
    return true;
}

bool doctor_constant(const struct graph *graph, uint32_t value, inlay_tensor_view *out)
{
    const inlay_value_info *info = value != INLAY_NONE ? &graph->values[value].info : NULL;
    const inlay_attr_info *attribute;
    int64_t *dims;

    if (info == NULL || info->kind != INLAY_VALUE_TENSOR || info->dtype == INLAY_STRING)
        return false;
    if (info->producer != INLAY_NONE && info->producer < graph->node_count) {
        attribute = doctor_is_op(graph->nodes[info->producer], "Constant")
                        ? graph_attr(graph->nodes[info->producer], "value")
                        : NULL;
        if (attribute != NULL && attribute->tensor != NULL && attribute->tensor->dtype != INLAY_STRING) {
            *out = *attribute->tensor;
            return true;
        }
    }
    if (info->data == NULL || info->rank == INLAY_RANK_UNKNOWN)
        return false;
    dims = arena_array(&graph->model->arena, (size_t)info->rank + 1, sizeof *dims);
    if (dims == NULL)
        return false;
    for (uint32_t i = 0; i < info->rank; i++)
        dims[i] = info->dims[i].value;
    *out = (inlay_tensor_view){
        .data = info->data, .bytes = info->data_bytes, .dims = dims, .rank = info->rank, .dtype = info->dtype
    };
    return true;
}

bool doctor_is_op(const graph_node *node, const char *op)
{
    return strcmp(node->info.op_type.data, op) == 0 && strcmp(node->info.domain.data, "ai.onnx") == 0;
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
