/* calibrate_model.c - builds the models that are timed: a node in its forms. */
#include "measure/calibrate.h"
#include "base/c_locale.h"
#include "base/random.h"
#include "inlay/check.h"
#include "partition/cost/cost.h"
#include <stdlib.h>
#include <string.h>

enum { OPSET = 17, IR = 8 };

static const calibrate_case cases[] = {
#define CASE(op, types, inputs, attrs) { op, types, inputs, attrs },
#include "measure/calibrate_cases.def"
#undef CASE
};

uint32_t calibrate_case_count(void)
{
    return (uint32_t)(sizeof cases / sizeof cases[0]);
}

const calibrate_case *calibrate_case_at(uint32_t i)
{
    INLAY_CHECK(i < sizeof cases / sizeof cases[0]);
    return &cases[i];
}

struct model_builder {
    struct graph *graph;
    inlay_dtype dtype;
    uint64_t seed;
};

static uint32_t read_dims(const char *text, int64_t dims[INLAY_MAX_RANK])
{
    uint32_t rank = 0;
    char *end;

    for (; rank < INLAY_MAX_RANK; text = end + 1) {
        dims[rank++] = strtoll(text, &end, 10);
        if (*end != ',')
            break;
    }
    return rank;
}

/* Fills weights of any type with small numbers that neither overflow nor underflow. Random numbers repeat after a
 * thousand, which is no multiple of a row: times do not depend on them, and more would take longer than the kernels. */
static void fill_constant(struct model_builder *model_builder, inlay_dtype dtype, void *data, uint64_t bytes,
                          double scalar)
{
    enum { PERIOD = 1021 };
    const uint64_t size = inlay_dtype_bits(dtype) / 8, count = size > 0 ? bytes / size : 0;

    for (uint64_t i = 0; i < count && i < PERIOD; i++) {
        double number = scalar;

        if (scalar < 0) { /* random contents */
            const uint64_t bits = random_bits(&model_builder->seed);
            number =
                dtype == INLAY_FLOAT || dtype == INLAY_DOUBLE ? (double)(bits >> 40) / (1 << 27) : (double)(bits >> 60);
        }
        if (dtype == INLAY_FLOAT)
            ((float *)data)[i] = (float)number;
        else if (dtype == INLAY_DOUBLE)
            ((double *)data)[i] = number;
        else if (size == 8)
            ((int64_t *)data)[i] = (int64_t)number;
        else if (size == 4)
            ((int32_t *)data)[i] = (int32_t)number;
        else
            ((uint8_t *)data)[i * size] = (uint8_t)number;
    }
    for (uint64_t i = PERIOD; i < count; i += PERIOD)
        memcpy((char *)data + i * size, data, (size_t)((count - i < PERIOD ? count - i : PERIOD) * size));
}

/* Makes a constant of the type; scalar < 0: random contents. */
static inlay_status make_constant(struct model_builder *model_builder, uint32_t value, inlay_dtype dtype, uint32_t rank,
                                  const int64_t *dims, double scalar)
{
    uint64_t bytes = inlay_dtype_bits(dtype) / 8;
    void *data;

    for (uint32_t d = 0; d < rank; d++)
        bytes *= (uint64_t)dims[d];
    data = graph_blob_alloc(model_builder->graph->model, (size_t)bytes);
    if (data == NULL)
        return INLAY_OUT_OF_MEMORY;
    fill_constant(model_builder, dtype, data, bytes, scalar);
    return graph_set_constant(model_builder->graph, value, dtype, rank, dims, data, bytes);
}

/* Makes an int64 vector from "=0,2". */
static inlay_status make_vector(struct model_builder *model_builder, uint32_t value, const char *text)
{
    int64_t list[INLAY_MAX_RANK], count = read_dims(text, list);
    int64_t *data = graph_blob_alloc(model_builder->graph->model, (size_t)count * 8);

    if (data == NULL)
        return INLAY_OUT_OF_MEMORY;
    memcpy(data, list, (size_t)count * 8);
    return graph_set_constant(model_builder->graph, value, INLAY_INT64, 1, &count, data, (uint64_t)count * 8);
}

static inlay_status make_tensor(struct model_builder *model_builder, uint32_t value, const char *text,
                                inlay_dtype dtype)
{
    inlay_value_info *info = &model_builder->graph->values[value].info;
    int64_t list[INLAY_MAX_RANK];
    uint32_t rank = read_dims(text, list), *inputs;
    inlay_dim *dims;

    if (text[strlen(text) - 1] == '!')
        return make_constant(model_builder, value, dtype, rank, list, -1);
    dims = arena_array(&model_builder->graph->model->arena, (size_t)rank + 1, sizeof *dims);
    inputs =
        arena_array(&model_builder->graph->model->arena, (size_t)model_builder->graph->input_count + 1, sizeof *inputs);
    if (dims == NULL || inputs == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = (inlay_dim){ .value = list[d], .kind = INLAY_DIM_FIXED };
    info->kind = INLAY_VALUE_TENSOR;
    info->dtype = dtype;
    info->rank = rank;
    info->dims = dims;
    if (model_builder->graph->input_count > 0)
        memcpy(inputs, model_builder->graph->inputs, model_builder->graph->input_count * sizeof *inputs);
    inputs[model_builder->graph->input_count] = value;
    model_builder->graph->inputs = inputs;
    model_builder->graph->input_count++;
    return INLAY_OK;
}

static inlay_dtype prefix_type(char letter)
{
    switch (letter) {
    case 'f':
        return INLAY_FLOAT;
    case 'l':
        return INLAY_INT64;
    case 'b':
        return INLAY_BOOL;
    case 'u':
        return INLAY_UINT8;
    case 'c':
        return INLAY_INT8;
    default:
        return INLAY_INT32;
    }
}

/* Makes one input from a word of the row; *out_value is INLAY_NONE for "-". */
static inlay_status make_input(struct model_builder *model_builder, const char *word, uint32_t *out_value)
{
    uint32_t value = INLAY_NONE;

    *out_value = INLAY_NONE;
    if (strcmp(word, "-") == 0)
        return INLAY_OK;
    value = *out_value = graph_add_value(model_builder->graph, NULL, 0);
    if (value == INLAY_NONE)
        return INLAY_OUT_OF_MEMORY;
    if (word[0] == '=')
        return make_vector(model_builder, value, word + 1);
    if (word[0] == '~')
        return make_constant(model_builder, value, model_builder->dtype, 0, NULL, c_locale_number(word + 1, NULL));
    if (word[0] == '_')
        return make_constant(model_builder, value, word[1] != '\0' ? prefix_type(word[1]) : model_builder->dtype, 0,
                             NULL, 0);
    if (word[0] == 's')
        return make_constant(model_builder, value, INLAY_FLOAT, 0, NULL, 0.05);
    if (word[1] == ':')
        return make_tensor(model_builder, value, word + 2, prefix_type(word[0]));
    return make_tensor(model_builder, value, word, model_builder->dtype);
}

static inlay_status set_attr(struct graph *graph, graph_node *node, char *word)
{
    char *mark = word + strcspn(word, ":=@'"), kind = *mark;
    int64_t list[INLAY_MAX_RANK];

    *mark = '\0';
    if (kind == '\0')
        return INLAY_OK;
    if (kind == ':')
        return graph_set_attr_int(graph, node, word, strtoll(mark + 1, NULL, 10));
    if (kind == '@')
        return graph_set_attr_float(graph, node, word, c_locale_number(mark + 1, NULL));
    if (kind == '\'')
        return graph_set_attr_string(graph, node, word, mark + 1);
    return graph_set_attr_ints(graph, node, word, list, read_dims(mark + 1, list));
}

/* The opset for a row: 17, or the first one with its operator. */
static int64_t opset_of(const char *op)
{
    static const struct {
        const char *op;
        int64_t opset;
    } later[] = { { "Mish", 18 },      { "Gelu", 20 }, { "GroupNormalization", 21 }, { "RMSNormalization", 23 },
                  { "Attention", 23 }, { "Swish", 24 } };

    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
        if (strcmp(later[i].op, op) == 0)
            return later[i].opset;
    return OPSET;
}

/* The number of outputs that the operator needs to do its full work. */
static uint32_t output_count(const char *op)
{
    static const struct {
        const char *op;
        uint32_t count;
    } operators[] = { { "Split", 2 }, { "TopK", 2 }, { "DynamicQuantizeLinear", 3 } };

    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
        if (strcmp(operators[i].op, op) == 0)
            return operators[i].count;
    return 1;
}

static inlay_status add_outputs(struct graph *graph, graph_node *node)
{
    for (uint32_t o = 0; o < node->info.output_count; o++) {
        uint32_t value = graph_add_value(graph, NULL, 0);
        if (value == INLAY_NONE)
            return INLAY_OUT_OF_MEMORY;
        ((uint32_t *)(uintptr_t)node->info.outputs)[o] = value;
        graph->values[value].info.kind = INLAY_VALUE_TENSOR;
        graph->values[value].info.rank = INLAY_RANK_UNKNOWN;
    }
    return INLAY_OK;
}

/* Adds a depthwise convolution, the cheapest convolution. *value becomes its output. */
static inlay_status add_convolution(struct model_builder *model_builder, uint32_t *value)
{
    static const int64_t window[] = { 3, 3 }, pads[] = { 1, 1, 1, 1 };
    const inlay_value_info *input = &model_builder->graph->values[*value].info;
    const int64_t channels = input->rank == 4 ? input->dims[1].value : 1, dims[] = { channels, 1, 3, 3 };
    uint32_t weights = graph_add_value(model_builder->graph, NULL, 0);
    graph_node *node = graph_add_node(model_builder->graph, "Conv", "ai.onnx", "before", 2, 1);
    inlay_status status = INLAY_OUT_OF_MEMORY;

    if (node == NULL || weights == INLAY_NONE)
        return INLAY_OUT_OF_MEMORY;
    INLAY_TRY(make_constant(model_builder, weights, model_builder->dtype, 4, dims, -1));
    ((uint32_t *)(uintptr_t)node->info.inputs)[0] = *value;
    ((uint32_t *)(uintptr_t)node->info.inputs)[1] = weights;
    INLAY_TRY(graph_set_attr_ints(model_builder->graph, node, "kernel_shape", window, 2));
    INLAY_TRY(graph_set_attr_ints(model_builder->graph, node, "pads", pads, 4));
    INLAY_TRY(graph_set_attr_int(model_builder->graph, node, "group", channels));
    INLAY_TRY(add_outputs(model_builder->graph, node));
    *value = node->info.outputs[0];
done:
    return status;
}

/* Makes the inputs of a node, *out_count values. first: the value that replaces its first input, INLAY_NONE = none. */
static inlay_status make_inputs(struct model_builder *model_builder, const calibrate_case *entry, uint32_t form,
                                uint32_t first, uint32_t *out_list, uint32_t *out_count)
{
    char *words = arena_string(&model_builder->graph->model->arena, entry->inputs), *next = NULL;
    inlay_status status = INLAY_OK;
    uint32_t count = 0;

    if (words == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (char *word = strtok_r(words, " ", &next); word != NULL && count < INLAY_MAX_RANK;
         word = strtok_r(NULL, " ", &next)) {
        bool marked = word[strlen(word) - 1] == '^';

        if (marked)
            word[strlen(word) - 1] = '\0';
        out_list[count] = first;
        if (count > 0 || first == INLAY_NONE)
            INLAY_TRY(make_input(model_builder, word, &out_list[count]));
        if (marked && (form == CALIBRATE_BEHIND || form == CALIBRATE_BEFORE))
            INLAY_TRY(add_convolution(model_builder, &out_list[count]));
        count++;
    }
    *out_count = count;
done:
    return status;
}

/* Adds the node of a case. first: see make_inputs. */
static inlay_status add_node(struct model_builder *model_builder, const calibrate_case *entry, uint32_t form,
                             uint32_t first, graph_node **out_node)
{
    uint32_t ins[INLAY_MAX_RANK], count = 0;
    char *attrs = arena_string(&model_builder->graph->model->arena, entry->attrs), *next = NULL;
    inlay_status status = INLAY_OUT_OF_MEMORY;
    graph_node *node;

    if (attrs == NULL)
        return INLAY_OUT_OF_MEMORY;
    INLAY_TRY(make_inputs(model_builder, entry, form, first, ins, &count));
    node = *out_node =
        graph_add_node(model_builder->graph, entry->op, "ai.onnx", "kernel", count, output_count(entry->op));
    if (node == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        ((uint32_t *)(uintptr_t)node->info.inputs)[i] = ins[i];
    INLAY_TRY(add_outputs(model_builder->graph, node));
    for (char *word = strtok_r(attrs, " ", &next); word != NULL; word = strtok_r(NULL, " ", &next))
        INLAY_TRY(set_attr(model_builder->graph, node, word));
done:
    return status;
}

/* Makes the outputs of the nodes from `from` on the outputs of the graph. */
static inlay_status set_outputs(struct graph *graph, uint32_t from)
{
    uint32_t count = 0;

    for (uint32_t node = from; node < graph->node_count; node++)
        count += graph->nodes[node]->info.output_count;
    graph->outputs = arena_array(&graph->model->arena, (size_t)count + 1, sizeof *graph->outputs);
    if (graph->outputs == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t node = from; node < graph->node_count; node++)
        for (uint32_t output = 0; output < graph->nodes[node]->info.output_count; output++)
            graph->outputs[graph->output_count++] = graph->nodes[node]->info.outputs[output];
    return INLAY_OK;
}

/* Adds weights of other nodes, large enough that no weights stay in a cache. They are never read, so they use no
 * physical memory. */
static inlay_status add_other_weights(struct model_builder *model_builder)
{
    const int64_t bytes = (int64_t)cost_shared_bytes();
    uint32_t value = graph_add_value(model_builder->graph, NULL, 0);
    void *data = graph_blob_alloc(model_builder->graph->model, (size_t)bytes);
    inlay_status status;

    if (value == INLAY_NONE || data == NULL)
        return INLAY_OUT_OF_MEMORY;
    status = graph_set_constant(model_builder->graph, value, INLAY_UINT8, 1, &bytes, data, (uint64_t)bytes);
    model_builder->graph->values[value].info.content_hash = 1; /* set, so that the contents are never hashed */
    return status;
}

static inlay_status fill_graph(struct model_builder *model_builder, const calibrate_case *entry, uint32_t form)
{
    uint32_t ins[INLAY_MAX_RANK], count, length = form == CALIBRATE_CHAINED ? CALIBRATE_CHAIN : 1;
    graph_node *node = NULL;
    inlay_status status = INLAY_OK;

    if (form == CALIBRATE_BEFORE) {
        INLAY_TRY(make_inputs(model_builder, entry, form, INLAY_NONE, ins, &count));
        return set_outputs(model_builder->graph, 0);
    }
    for (uint32_t i = 0; i < length; i++)
        INLAY_TRY(add_node(model_builder, entry, form, node != NULL ? node->info.outputs[0] : INLAY_NONE, &node));
    status = set_outputs(model_builder->graph, model_builder->graph->node_count - 1);
done:
    return status;
}

/* Does the output have the type and shape of the first input, so that the node can be chained? */
static bool can_chain(const graph_model *alone)
{
    INLAY_CHECK(alone->main->node_count > 0);
    const inlay_node_info *node = &alone->main->nodes[0]->info;
    const inlay_value_info *in, *out = &alone->main->values[node->outputs[0]].info;

    if (node->input_count == 0 || node->inputs[0] == INLAY_NONE)
        return false;
    in = &alone->main->values[node->inputs[0]].info;
    if ((in->flags & INLAY_VALUE_CONSTANT) != 0 || in->dtype != out->dtype || in->rank != out->rank)
        return false;
    for (uint32_t d = 0; in->rank != INLAY_RANK_UNKNOWN && d < in->rank; d++)
        if (in->dims[d].kind != INLAY_DIM_FIXED || out->dims[d].kind != INLAY_DIM_FIXED ||
            in->dims[d].value != out->dims[d].value)
            return false;
    return in->rank != INLAY_RANK_UNKNOWN;
}

bool calibrate_has_form(const calibrate_case *entry, const graph_model *alone, uint32_t form)
{
    if (form == CALIBRATE_ALONE)
        return true;
    return form == CALIBRATE_CHAINED ? strchr(entry->inputs, '^') == NULL && can_chain(alone)
                                     : strchr(entry->inputs, '^') != NULL;
}

inlay_status calibrate_model(const calibrate_case *entry, inlay_dtype dtype, uint32_t form, bool large,
                             graph_model **out_model, inlay_diag *diag)
{
    graph_model *model = graph_model_create();
    struct model_builder model_builder = { .dtype = dtype, .seed = 1 };
    inlay_status status = INLAY_OUT_OF_MEMORY;

    *out_model = NULL;
    if (model == NULL)
        goto done;
    model_builder.graph = model->main;
    model->ir_version = IR;
    model->opsets = arena_array(&model->arena, 1, sizeof *model->opsets);
    if (model->opsets == NULL)
        goto done;
    model->opsets[0] = (graph_opset){ "ai.onnx", opset_of(entry->op) };
    model->opset_count = 1;
    INLAY_TRY(fill_graph(&model_builder, entry, form));
    if (large)
        INLAY_TRY(add_other_weights(&model_builder));
    INLAY_TRY(graph_finish(model->main, diag));
    INLAY_TRY(graph_bind(model, NULL, diag));
    INLAY_TRY(graph_infer(model, diag));
    *out_model = model;
    model = NULL;
done:
    if (status == INLAY_OUT_OF_MEMORY)
        (void)inlay_fail(diag, status, "no memory for a kernel to time");
    graph_model_destroy(model);
    return status;
}
