#include "check/models.h"
#include "base/element.h"
#include "inlay/check.h"
#include <fnmatch.h>
#include <string.h>

enum {
    MOST_NUMBERS = 64, /* of a list that sets shapes, such as axes or pads */
    SMALL_SIZE = 64,   /* sizes above it become smaller */
    FACTOR = 32,       /* by a multiple of this, so that groups still divide channels */
    SEED = 20
};

void models_open(struct check *check, const char *name, model_set *out)
{
    const check_args *args = check->args;

    *out = (model_set){ .args = args };
    for (uint32_t i = 0; i < args->model_count; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;

        check_phase(check, "loading a model");
        if (args->open_model(args->models[i], &out->models[out->count], &out->owners[out->count], &diag) == INLAY_OK)
            out->count++;
        else
            check_fail(check, name, args->models[i], "a model that can be loaded", "name an ONNX model", "%s",
                       diag.text);
    }
    check_phase(check, "the checker");
}

void models_close(model_set *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        set->args->close_model(set->owners[i]);
    set->count = 0;
}

static int64_t small_size(int64_t size)
{
    return size <= SMALL_SIZE ? size : FACTOR + size % FACTOR;
}

/* Keeps the numbers of a short constant when the sizes of the case change. */
static bool give(op_case *entry, case_tensor *tensor, const void *data, int64_t count)
{
    double *numbers = arena_array(&entry->arena, (size_t)count + 1, sizeof *numbers), im;

    for (int64_t i = 0; numbers != NULL && i < count; i++)
        if (!element_number(tensor->dtype, data, i, &numbers[i], &im))
            return tensor->dtype != INLAY_STRING;
    tensor->given = numbers;
    tensor->given_count = numbers != NULL ? (uint32_t)count : 0;
    return numbers != NULL;
}

static bool add_input(op_case *entry, const inlay_value_info *value, uint32_t sizes)
{
    const bool is_constant = (value->flags & INLAY_VALUE_CONSTANT) != 0;
    int64_t dims[CASE_RANK], count = 1;
    case_tensor *tensor;

    if (value->kind != INLAY_VALUE_TENSOR || value->rank > CASE_RANK || value->dtype == INLAY_UNDEFINED ||
        (is_constant && value->data == NULL))
        return false;
    for (uint32_t d = 0; d < value->rank; d++) {
        dims[d] = value->dims[d].kind == INLAY_DIM_FIXED ? value->dims[d].value : MODELS_OPEN_SIZE;
        if (__builtin_mul_overflow(count, dims[d], &count))
            return false;
    }
    if (sizes == MODELS_SMALL)
        for (uint32_t d = 0; d < value->rank; d++)
            dims[d] = small_size(dims[d]);
    tensor = case_input(entry, value->dtype, value->rank, dims, is_constant);
    if (tensor == NULL)
        return false;
    if (!element_is_float(value->dtype)) { /* mostly indices */
        tensor->low = 0;
        tensor->high = 1;
    }
    if (!is_constant)
        return true;
    if (sizes == MODELS_SMALL)
        return count > MOST_NUMBERS || give(entry, tensor, value->data, count);
    tensor->data = (void *)(uintptr_t)value->data;
    tensor->bytes = value->data_bytes;
    tensor->count = count;
    return true;
}

static bool read_node(const struct graph *graph, const graph_node *node, uint32_t sizes, op_case *entry)
{
    bool ok = node->body_count == 0 && node->info.output_count > 0 && node->info.output_count <= CASE_OUTPUTS;

    if (!ok)
        return false;
    case_init(entry, node->info.domain.data, node->info.op_type.data, node->opset);
    entry->out_count = node->info.output_count;
    for (uint32_t i = 0; i < node->info.attr_count && ok; i++)
        ok = case_attr(entry, &node->info.attrs[i]);
    for (uint32_t i = 0; i < node->info.input_count && ok; i++) {
        uint32_t same = 0;

        while (node->info.inputs[same] != node->info.inputs[i])
            same++;
        ok = node->info.inputs[i] == INLAY_NONE ? case_input(entry, INLAY_UNDEFINED, 0, NULL, false) != NULL
                                                : add_input(entry, &graph->values[node->info.inputs[i]].info, sizes);
        if (ok && same < i && node->info.inputs[i] != INLAY_NONE)
            entry->in[i].same_as = same + 1;
    }
    return ok && case_fill(entry, SEED) == INLAY_OK;
}

static bool visit_graph(const struct graph *graph, const char *op_type, const char *match, uint32_t sizes, case_fn fn,
                        void *user)
{
    bool go_on = true;

    for (uint32_t i = 0; i < graph->node_count && go_on; i++) {
        const graph_node *node = graph->nodes[i];
        op_case entry = { .in_count = 0 };

        for (uint32_t b = 0; b < node->body_count && go_on; b++)
            go_on = visit_graph(node->bodies[b].graph, op_type, match, sizes, fn, user);
        if ((op_type != NULL && strcmp(op_type, node->info.op_type.data) != 0) ||
            (match != NULL && fnmatch(match, node->info.op_type.data, 0) != 0))
            continue;
        if (read_node(graph, node, sizes, &entry))
            go_on = fn(user, &entry);
        case_deinit(&entry);
    }
    return go_on;
}

void models_nodes(const model_set *set, uint32_t index, const char *op_type, uint32_t sizes, case_fn fn, void *user)
{
    INLAY_CHECK(index < set->count && sizes <= MODELS_SMALL);
    (void)visit_graph(set->models[index]->main, op_type, set->args->op, sizes, fn, user);
}
