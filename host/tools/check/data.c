#include "check/data.h"
#include "check/cases.h"
#include "model/model.h"
#include <fnmatch.h>
#include <string.h>

/* The number of the file input_<N>.pb with a graph input: files are numbered in the order of the inputs without default
 * values. INLAY_NONE: not a graph input. */
static uint32_t file_of(const struct graph *graph, uint32_t value)
{
    uint32_t file = 0;

    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (graph->inputs[i] == value)
            return file;
        file += graph->values[graph->inputs[i]].default_value == NULL;
    }
    return INLAY_NONE;
}

static bool add_constant(op_case *entry, const inlay_value_info *value)
{
    int64_t dims[CASE_RANK];
    case_tensor *tensor;

    for (uint32_t d = 0; d < value->rank && d < CASE_RANK; d++)
        dims[d] = value->dims[d].value;
    tensor = case_input(entry, value->dtype, value->rank, dims, true);
    if (tensor == NULL)
        return false;
    tensor->data = (void *)(uintptr_t)value->data;
    tensor->bytes = value->data_bytes;
    return true;
}

static bool add_file(op_case *entry, const char *set, uint32_t file)
{
    model_datum datum;
    char path[4200];
    case_tensor *tensor;

    (void)snprintf(path, sizeof path, "%s/input_%u.pb", set, file);
    if (model_datum_load(path, INLAY_VALUE_TENSOR, &entry->arena, &datum, NULL) != INLAY_OK ||
        (tensor = case_input(entry, datum.tensor.dtype, datum.tensor.rank, datum.tensor.dims, false)) == NULL)
        return false;
    tensor->data = (void *)(uintptr_t)datum.tensor.data;
    tensor->bytes = datum.tensor.bytes;
    return true;
}

static bool add_input(op_case *entry, const struct graph *graph, uint32_t value, const char *set)
{
    const inlay_value_info *info = value == INLAY_NONE ? NULL : &graph->values[value].info;
    uint32_t file = value == INLAY_NONE ? 0 : file_of(graph, value);
    case_tensor *tensor;

    if (info == NULL)
        return case_input(entry, INLAY_UNDEFINED, 0, NULL, false) != NULL;
    if (info->kind != INLAY_VALUE_TENSOR)
        return false;
    if ((info->flags & INLAY_VALUE_CONSTANT) != 0 ? !add_constant(entry, info)
                                                  : file == INLAY_NONE || !add_file(entry, set, file))
        return false;
    tensor = &entry->in[entry->in_count - 1];
    tensor->count = 1;
    for (uint32_t d = 0; d < tensor->rank; d++)
        tensor->count *= tensor->dims[d]; /* no overflow: the loader has checked the number of elements */
    return true;
}

static bool read_case(const graph_model *model, const char *set, const char *match, op_case *entry)
{
    const struct graph *graph = model->main;
    const graph_node *node = graph->node_count == 1 ? graph->nodes[0] : NULL;
    bool ok = node != NULL && node->body_count == 0 && node->info.output_count > 0 &&
              node->info.output_count <= CASE_OUTPUTS && model->function_count == 0 &&
              (match == NULL || fnmatch(match, node->info.op_type.data, 0) == 0);

    if (!ok)
        return false;
    case_init(entry, node->info.domain.data, node->info.op_type.data, node->opset);
    entry->out_count = node->info.output_count;
    entry->random = strncmp(entry->op_type, "Random", 6) == 0 || strcmp(entry->op_type, "Bernoulli") == 0 ||
                    strcmp(entry->op_type, "Multinomial") == 0 || strcmp(entry->op_type, "Dropout") == 0;
    for (uint32_t i = 0; i < node->info.attr_count && ok; i++)
        ok = case_attr(entry, &node->info.attrs[i]);
    for (uint32_t i = 0; i < node->info.input_count && ok; i++)
        ok = add_input(entry, graph, node->info.inputs[i], set);
    return ok;
}

/* The part and input before (j, i) that read the same value. */
static bool find_reader(const struct graph *graph, uint32_t j, uint32_t i, uint32_t *out_part, uint32_t *out_input)
{
    const uint32_t value = graph->nodes[j]->info.inputs[i];

    for (uint32_t m = 0; m <= j; m++)
        for (uint32_t k = 0; k < (m == j ? i : graph->nodes[m]->info.input_count); k++)
            if (graph->nodes[m]->info.inputs[k] == value) {
                *out_part = m;
                *out_input = k;
                return true;
            }
    return false;
}

/* The node and output that write the value. */
static bool find_writer(const struct graph *graph, uint32_t value, uint32_t *out_node, uint32_t *out_output)
{
    for (uint32_t n = 0; n < graph->node_count; n++)
        for (uint32_t o = 0; o < graph->nodes[n]->info.output_count; o++)
            if (graph->nodes[n]->info.outputs[o] == value) {
                *out_node = n;
                *out_output = o;
                return true;
            }
    return false;
}

static bool is_output(const struct graph *graph, uint32_t value)
{
    for (uint32_t o = 0; o < graph->output_count; o++)
        if (graph->outputs[o] == value)
            return true;
    return false;
}

/* Reads node j of the graph. */
static bool read_part(const struct graph *graph, uint32_t j, const char *set, struct part *part)
{
    const graph_node *node = graph->nodes[j];
    bool ok = node->body_count == 0 && node->info.output_count > 0 && node->info.output_count <= CASE_OUTPUTS;

    if (!ok)
        return false;
    region_part_init(part);
    case_init(&part->entry, node->info.domain.data, node->info.op_type.data, node->opset);
    part->entry.out_count = node->info.output_count;
    for (uint32_t i = 0; i < node->info.attr_count && ok; i++)
        ok = case_attr(&part->entry, &node->info.attrs[i]);
    for (uint32_t i = 0; i < node->info.input_count && ok; i++) {
        const uint32_t value = node->info.inputs[i];

        if (value == INLAY_NONE)
            ok = case_input(&part->entry, INLAY_UNDEFINED, 0, NULL, false) != NULL;
        else if (i < CASE_INPUTS && (find_writer(graph, value, &part->producer[i], &part->producer_output[i]) ||
                                     find_reader(graph, j, i, &part->shared[i], &part->shared_input[i])))
            ok = (part->producer[i] == INLAY_NONE || part->producer[i] < j) &&
                 case_input(&part->entry, INLAY_FLOAT, 0, NULL, false) != NULL;
        else
            ok = add_input(&part->entry, graph, value, set);
    }
    for (uint32_t o = 0; o < node->info.output_count; o++)
        part->shown |= (uint32_t)is_output(graph, node->info.outputs[o]) << o;
    return ok;
}

inlay_status data_graphs(const char *dir, struct regions *regions,
                         void (*fn)(struct regions *regions, const char *name), uint32_t *out_count, inlay_diag *diag)
{
    case_list list = { 0 };
    struct arena arena = { 0 };
    inlay_status status = cases_find(dir, &arena, &list, diag);

    *out_count = 0;
    for (uint32_t i = 0; i < list.count; i++) {
        graph_model *model = NULL;
        bool ok = list.cases[i].set_count > 0 && model_load_path(list.cases[i].model, NULL, &model, NULL) == INLAY_OK &&
                  model->main->node_count > 1 && model->main->node_count <= MAX_PARTS && model->function_count == 0;

        check_tick(regions->check);
        for (uint32_t j = 0; ok && j < model->main->node_count; j++) {
            ok = read_part(model->main, j, list.cases[i].sets[0], &regions->parts[j]);
            regions->part_count += ok;
        }
        if (ok) {
            ++*out_count;
            fn(regions, list.cases[i].name);
        }
        region_drop_parts(regions);
        graph_model_destroy(model);
    }
    arena_deinit(&arena);
    return status;
}

inlay_status data_cases(const char *dir, const char *match, case_fn fn, void *user, uint32_t *out_count,
                        inlay_diag *diag)
{
    case_list list = { 0 };
    struct arena arena = { 0 };
    inlay_status status = cases_find(dir, &arena, &list, diag);
    bool go_on = status == INLAY_OK;

    *out_count = 0;
    for (uint32_t i = 0; i < list.count && go_on; i++) {
        graph_model *model = NULL;
        op_case entry = { .in_count = 0 };

        if (list.cases[i].set_count > 0 && model_load_path(list.cases[i].model, NULL, &model, NULL) == INLAY_OK &&
            read_case(model, list.cases[i].sets[0], match, &entry)) {
            ++*out_count;
            go_on = fn(user, &entry);
        }
        case_deinit(&entry);
        graph_model_destroy(model);
    }
    arena_deinit(&arena);
    return status;
}
