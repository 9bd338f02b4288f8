/* calibrate_model.c - the models that are timed: a node in its forms. */
#include "measure/calibrate.h"
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
    return &cases[i];
}

/* ------------------------------------------------------------------ inputs */

struct maker {
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

/* Weights: small numbers that neither overflow nor vanish, of whatever type. */
static void fill_constant(struct maker *maker, inlay_dtype dtype, void *data, uint64_t bytes, double scalar)
{
    uint32_t size = inlay_dtype_bits(dtype) / 8;

    for (uint64_t i = 0; size > 0 && i < bytes / size; i++) {
        double x = scalar;

        maker->seed = maker->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        if (scalar < 0) /* none given */
            x = dtype == INLAY_FLOAT || dtype == INLAY_DOUBLE ? (double)(maker->seed >> 40) / (1 << 27)
                                                              : (double)(maker->seed >> 60);
        if (dtype == INLAY_FLOAT)
            ((float *)data)[i] = (float)x;
        else if (dtype == INLAY_DOUBLE)
            ((double *)data)[i] = x;
        else if (size == 8)
            ((int64_t *)data)[i] = (int64_t)x;
        else if (size == 4)
            ((int32_t *)data)[i] = (int32_t)x;
        else
            ((uint8_t *)data)[i * size] = (uint8_t)x;
    }
}

/* A constant of the type; scalar < 0: contents do not matter. */
static inlay_status make_constant(struct maker *maker, uint32_t v, inlay_dtype dtype, uint32_t rank,
                                  const int64_t *dims, double scalar)
{
    uint64_t bytes = inlay_dtype_bits(dtype) / 8;
    void *data;

    for (uint32_t d = 0; d < rank; d++)
        bytes *= (uint64_t)dims[d];
    data = graph_blob_alloc(maker->graph->model, (size_t)bytes);
    if (data == NULL)
        return INLAY_OUT_OF_MEMORY;
    fill_constant(maker, dtype, data, bytes, scalar);
    return graph_set_constant(maker->graph, v, dtype, rank, dims, data, bytes);
}

/* "=0,2": an int64 vector. */
static inlay_status make_vector(struct maker *maker, uint32_t v, const char *text)
{
    int64_t list[INLAY_MAX_RANK], count = read_dims(text, list);
    int64_t *data = graph_blob_alloc(maker->graph->model, (size_t)count * 8);

    if (data == NULL)
        return INLAY_OUT_OF_MEMORY;
    memcpy(data, list, (size_t)count * 8);
    return graph_set_constant(maker->graph, v, INLAY_INT64, 1, &count, data, (uint64_t)count * 8);
}

static inlay_status make_tensor(struct maker *maker, uint32_t value, const char *text, inlay_dtype dtype)
{
    inlay_value_info *info = &maker->graph->values[value].info;
    int64_t list[INLAY_MAX_RANK];
    uint32_t rank = read_dims(text, list), *inputs;
    inlay_dim *dims;

    if (text[strlen(text) - 1] == '!')
        return make_constant(maker, value, dtype, rank, list, -1);
    dims = arena_array(&maker->graph->model->arena, (size_t)rank + 1, sizeof *dims);
    inputs = arena_array(&maker->graph->model->arena, (size_t)maker->graph->input_count + 1, sizeof *inputs);
    if (dims == NULL || inputs == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = (inlay_dim){ .value = list[d], .kind = INLAY_DIM_FIXED };
    info->kind = INLAY_VALUE_TENSOR;
    info->dtype = dtype;
    info->rank = rank;
    info->dims = dims;
    if (maker->graph->input_count > 0)
        memcpy(inputs, maker->graph->inputs, maker->graph->input_count * sizeof *inputs);
    inputs[maker->graph->input_count] = value;
    maker->graph->inputs = inputs;
    maker->graph->input_count++;
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

/* One word of a row; *out_v is INLAY_NONE for "-". */
static inlay_status make_input(struct maker *maker, const char *word, uint32_t *out_v)
{
    uint32_t v = INLAY_NONE;

    *out_v = INLAY_NONE;
    if (strcmp(word, "-") == 0)
        return INLAY_OK;
    v = *out_v = graph_add_value(maker->graph, NULL, 0);
    if (v == INLAY_NONE)
        return INLAY_OUT_OF_MEMORY;
    if (word[0] == '=')
        return make_vector(maker, v, word + 1);
    if (word[0] == '~')
        return make_constant(maker, v, maker->dtype, 0, NULL, strtod(word + 1, NULL));
    if (word[0] == '_')
        return make_constant(maker, v, word[1] != '\0' ? prefix_type(word[1]) : maker->dtype, 0, NULL, 0);
    if (word[0] == 's')
        return make_constant(maker, v, INLAY_FLOAT, 0, NULL, 0.05);
    if (word[1] == ':')
        return make_tensor(maker, v, word + 2, prefix_type(word[0]));
    return make_tensor(maker, v, word, maker->dtype);
}

/* ------------------------------------------------------------------ attributes */

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
        return graph_set_attr_float(graph, node, word, strtod(mark + 1, NULL));
    if (kind == '\'')
        return graph_set_attr_string(graph, node, word, mark + 1);
    return graph_set_attr_ints(graph, node, word, list, read_dims(mark + 1, list));
}

/* ------------------------------------------------------------------ the model */

/* The opset for a row: 17, or the one that brought its operator. */
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

/* How many outputs a node needs so that it does its work. */
static uint32_t output_count(const char *op)
{
    static const struct {
        const char *op;
        uint32_t count;
    } several[] = { { "Split", 2 }, { "TopK", 2 }, { "DynamicQuantizeLinear", 3 } };

    for (size_t i = 0; i < sizeof several / sizeof several[0]; i++)
        if (strcmp(several[i].op, op) == 0)
            return several[i].count;
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

/* A convolution of each channel by itself: the cheapest that there is. *v becomes what it makes. */
static inlay_status add_convolution(struct maker *maker, uint32_t *v)
{
    static const int64_t window[] = { 3, 3 }, pads[] = { 1, 1, 1, 1 };
    const inlay_value_info *input = &maker->graph->values[*v].info;
    const int64_t channels = input->rank == 4 ? input->dims[1].value : 1, dims[] = { channels, 1, 3, 3 };
    uint32_t weights = graph_add_value(maker->graph, NULL, 0);
    graph_node *node = graph_add_node(maker->graph, "Conv", "ai.onnx", "before", 2, 1);
    inlay_status status = INLAY_OUT_OF_MEMORY;

    if (node == NULL || weights == INLAY_NONE)
        return INLAY_OUT_OF_MEMORY;
    INLAY_TRY(make_constant(maker, weights, maker->dtype, 4, dims, -1));
    ((uint32_t *)(uintptr_t)node->info.inputs)[0] = *v;
    ((uint32_t *)(uintptr_t)node->info.inputs)[1] = weights;
    INLAY_TRY(graph_set_attr_ints(maker->graph, node, "kernel_shape", window, 2));
    INLAY_TRY(graph_set_attr_ints(maker->graph, node, "pads", pads, 4));
    INLAY_TRY(graph_set_attr_int(maker->graph, node, "group", channels));
    INLAY_TRY(add_outputs(maker->graph, node));
    *v = node->info.outputs[0];
done:
    return status;
}

/* The inputs of a node, *out_count values; first: what it reads instead of its first one, INLAY_NONE = nothing. */
static inlay_status make_inputs(struct maker *maker, const calibrate_case *entry, uint32_t form, uint32_t first,
                                uint32_t *out_list, uint32_t *out_count)
{
    char *words = arena_string(&maker->graph->model->arena, entry->inputs), *next = NULL;
    inlay_status status = INLAY_OK;
    uint32_t count = 0;

    if (words == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (char *w = strtok_r(words, " ", &next); w != NULL && count < INLAY_MAX_RANK; w = strtok_r(NULL, " ", &next)) {
        bool marked = w[strlen(w) - 1] == '^';

        if (marked)
            w[strlen(w) - 1] = '\0';
        out_list[count] = first;
        if (count > 0 || first == INLAY_NONE)
            INLAY_TRY(make_input(maker, w, &out_list[count]));
        if (marked && (form == CALIBRATE_BEHIND || form == CALIBRATE_BEFORE))
            INLAY_TRY(add_convolution(maker, &out_list[count]));
        count++;
    }
    *out_count = count;
done:
    return status;
}

/* The node of a case. first: see make_inputs. */
static inlay_status add_node(struct maker *maker, const calibrate_case *entry, uint32_t form, uint32_t first,
                             graph_node **out_node)
{
    uint32_t ins[INLAY_MAX_RANK], count = 0;
    char *attrs = arena_string(&maker->graph->model->arena, entry->attrs), *next = NULL;
    inlay_status status = INLAY_OUT_OF_MEMORY;
    graph_node *node;

    if (attrs == NULL)
        return INLAY_OUT_OF_MEMORY;
    INLAY_TRY(make_inputs(maker, entry, form, first, ins, &count));
    node = *out_node = graph_add_node(maker->graph, entry->op, "ai.onnx", "kernel", count, output_count(entry->op));
    if (node == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        ((uint32_t *)(uintptr_t)node->info.inputs)[i] = ins[i];
    INLAY_TRY(add_outputs(maker->graph, node));
    for (char *w = strtok_r(attrs, " ", &next); w != NULL; w = strtok_r(NULL, " ", &next))
        INLAY_TRY(set_attr(maker->graph, node, w));
done:
    return status;
}

/* What the nodes from `from` on make are the outputs of the graph. */
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

/* Weights of other nodes, so many that none stay in a cache. Nobody reads them, so that they take no memory. */
static inlay_status add_others(struct maker *maker)
{
    const int64_t bytes = (int64_t)cost_shared_bytes();
    uint32_t value = graph_add_value(maker->graph, NULL, 0);
    void *data = graph_blob_alloc(maker->graph->model, (size_t)bytes);
    inlay_status status;

    if (value == INLAY_NONE || data == NULL)
        return INLAY_OUT_OF_MEMORY;
    status = graph_set_constant(maker->graph, value, INLAY_UINT8, 1, &bytes, data, (uint64_t)bytes);
    maker->graph->values[value].info.content_hash = 1; /* not to be asked for */
    return status;
}

static inlay_status fill_graph(struct maker *maker, const calibrate_case *entry, uint32_t form)
{
    uint32_t ins[INLAY_MAX_RANK], count, length = form == CALIBRATE_ROW ? CALIBRATE_CHAIN : 1;
    graph_node *node = NULL;
    inlay_status status = INLAY_OK;

    if (form == CALIBRATE_BEFORE) {
        INLAY_TRY(make_inputs(maker, entry, form, INLAY_NONE, ins, &count));
        return set_outputs(maker->graph, 0);
    }
    for (uint32_t i = 0; i < length; i++)
        INLAY_TRY(add_node(maker, entry, form, node != NULL ? node->info.outputs[0] : INLAY_NONE, &node));
    status = set_outputs(maker->graph, maker->graph->node_count - 1);
done:
    return status;
}

/* Does the node make what its first input is, so that several can follow each other? */
static bool repeats(const graph_model *alone)
{
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

bool calibrate_has(const calibrate_case *entry, const graph_model *alone, uint32_t form)
{
    if (form == CALIBRATE_ALONE)
        return true;
    return form == CALIBRATE_ROW ? strchr(entry->inputs, '^') == NULL && repeats(alone)
                                 : strchr(entry->inputs, '^') != NULL;
}

inlay_status calibrate_model(const calibrate_case *entry, inlay_dtype dtype, uint32_t form, bool large,
                             graph_model **out_model, inlay_diag *diag)
{
    graph_model *model = graph_model_create();
    struct maker maker = { .dtype = dtype, .seed = 1 };
    inlay_status status = INLAY_OUT_OF_MEMORY;

    *out_model = NULL;
    if (model == NULL)
        goto done;
    maker.graph = model->main;
    model->ir_version = IR;
    model->opsets = arena_array(&model->arena, 1, sizeof *model->opsets);
    if (model->opsets == NULL)
        goto done;
    model->opsets[0] = (graph_opset){ "ai.onnx", opset_of(entry->op) };
    model->opset_count = 1;
    INLAY_TRY(fill_graph(&maker, entry, form));
    if (large)
        INLAY_TRY(add_others(&maker));
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
