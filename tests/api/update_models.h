/* update_models.h - small random models, whose weights are numbered, for tests of inlay_session_update(). The structure
 * depends on one seed, the elements of each weight on a seed of its own. */
#ifndef UPDATE_MODELS_H
#define UPDATE_MODELS_H
#include "inlay/inlay.h"
#include "onnx_bytes.h"
#include "random.h"
#include <stdio.h>

enum { MAX_WEIGHTS = 40, MAX_ELEMENTS = 64, ROWS = 2, WIDTH = 8 };

typedef struct model_weight {
    char name[16];
    inlay_dtype dtype;
    uint32_t rank;
    int64_t dims[4];
    int64_t count;
} model_weight;

typedef struct update_model {
    onnx_bytes graph;
    model_weight weights[MAX_WEIGHTS];
    uint32_t weight_count;
    const uint64_t *contents; /* [MAX_WEIGHTS] the seed of each weight */
    uint64_t structure;       /* seed */
    int next;                 /* number of the next value */
    char at[16];              /* the value that the next layer reads: float[ROWS, WIDTH] */
} update_model;

/* The elements of a weight. Returns their size in bytes. */
static inline size_t weight_fill(const model_weight *weight, uint64_t seed, void *data)
{
    for (int64_t i = 0; i < weight->count; i++)
        if (weight->dtype == INLAY_INT8)
            ((int8_t *)data)[i] = (int8_t)random_between(&seed, -127, 127);
        else
            ((float *)data)[i] = random_signed(&seed);
    return (size_t)weight->count * (weight->dtype == INLAY_INT8 ? 1 : sizeof(float));
}

static inline inlay_value *weight_value(const model_weight *weight, uint64_t seed)
{
    inlay_value *value = NULL;

    if (inlay_value_create(weight->dtype, weight->rank, weight->dims, &value, NULL) == INLAY_OK)
        (void)weight_fill(weight, seed, inlay_value_data(value));
    return value;
}

/* Adds an initializer to the graph or to a body; returns its name. */
static inline const char *add_weight(update_model *model, onnx_bytes *graph, inlay_dtype dtype, uint32_t rank,
                                     const int64_t *dims)
{
    const uint32_t index = model->weight_count++;
    model_weight *weight = &model->weights[index];
    float data[MAX_ELEMENTS];
    size_t bytes;

    *weight = (model_weight){ .dtype = dtype, .rank = rank, .count = 1 };
    (void)snprintf(weight->name, sizeof weight->name, "w%u", index);
    for (uint32_t d = 0; d < rank; d++) {
        weight->dims[d] = dims[d];
        weight->count *= dims[d];
    }
    bytes = weight_fill(weight, model->contents[index], data);
    onnx_constant(graph, weight->name, dtype, rank, dims, data, bytes);
    return weight->name;
}

/* Adds a node that reads the current value (and others) in this graph and makes the next one. */
static inline void add_node(update_model *model, onnx_bytes *graph, const char *op, const char *others)
{
    char inputs[64], output[16];

    (void)snprintf(inputs, sizeof inputs, "%s%s%s", model->at, others[0] != '\0' ? "," : "", others);
    (void)snprintf(output, sizeof output, "v%d", model->next++);
    onnx_node(graph, op, "", inputs, output);
    memcpy(model->at, output, sizeof output);
}

static const int64_t square_dims[] = { WIDTH, WIDTH }, row_dims[] = { WIDTH }, value_dims[] = { ROWS, WIDTH },
                     image_dims[] = { ROWS, 2, 2, 2 }, filter_dims[] = { 2, 2, 1, 1 }, channel_dims[] = { 2, 1, 1 };

/* Mul and Add with weights, which the optimiser folds into the node before. */
static inline void add_scale(update_model *model, onnx_bytes *graph, uint32_t rank, const int64_t *dims)
{
    if (random_below(&model->structure, 2) == 0)
        add_node(model, graph, "Mul", add_weight(model, graph, INLAY_FLOAT, rank, dims));
    if (random_below(&model->structure, 2) == 0)
        add_node(model, graph, "Add", add_weight(model, graph, INLAY_FLOAT, rank, dims));
}

static inline void add_product(update_model *model, onnx_bytes *graph)
{
    const char *weight = add_weight(model, graph, INLAY_FLOAT, 2, square_dims);
    const uint64_t kind = random_below(&model->structure, 4);
    char name[48];

    if (kind == 0) { /* Gemm with a bias */
        (void)snprintf(name, sizeof name, "%s,%s", weight, add_weight(model, graph, INLAY_FLOAT, 1, row_dims));
        add_node(model, graph, "Gemm", name);
    } else if (kind == 1) { /* a product of weights, which is folded; both are read twice */
        const char *other = add_weight(model, graph, INLAY_FLOAT, 2, square_dims);

        (void)snprintf(name, sizeof name, "p%d", model->next);
        {
            char inputs[48];

            (void)snprintf(inputs, sizeof inputs, "%s,%s", weight, other);
            onnx_node(graph, "Mul", "", inputs, name);
        }
        add_node(model, graph, "MatMul", name);
        add_node(model, graph, "MatMul", other);
    } else {
        add_node(model, graph, "MatMul", weight);
    }
    if (kind == 2) /* tied */
        add_node(model, graph, "MatMul", weight);
    add_scale(model, graph, 1, row_dims);
    if (random_below(&model->structure, 2) == 0)
        add_node(model, graph, "Relu", "");
}

static inline void add_conv(update_model *model, onnx_bytes *graph)
{
    const int64_t four[] = { 4 }, two[] = { 2 };
    char image[16], flat[16];

    (void)snprintf(image, sizeof image, "i%d", model->next);
    (void)snprintf(flat, sizeof flat, "f%d", model->next);
    onnx_constant(graph, image, INLAY_INT64, 1, four, image_dims, sizeof image_dims);
    onnx_constant(graph, flat, INLAY_INT64, 1, two, value_dims, sizeof value_dims);
    add_node(model, graph, "Reshape", image);
    add_node(model, graph, "Conv", add_weight(model, graph, INLAY_FLOAT, 4, filter_dims));
    add_scale(model, graph, 3, channel_dims);
    add_node(model, graph, "Reshape", flat);
}

/* DequantizeLinear of a weight with a scale that is a weight, too. */
static inline void add_quantized(update_model *model, onnx_bytes *graph)
{
    const char *weight = add_weight(model, graph, INLAY_INT8, 2, square_dims);
    char inputs[48], name[16];

    (void)snprintf(inputs, sizeof inputs, "%s,%s", weight, add_weight(model, graph, INLAY_FLOAT, 0, NULL));
    (void)snprintf(name, sizeof name, "q%d", model->next);
    onnx_node(graph, "DequantizeLinear", "", inputs, name);
    add_node(model, graph, "MatMul", name);
}

/* If, with weights of its branches and of the graph. */
static inline void add_if(update_model *model, onnx_bytes *graph)
{
    const char *outer = add_weight(model, graph, INLAY_FLOAT, 2, square_dims);
    onnx_bytes node = { .count = 0 }, branches[2] = { { .count = 0 }, { .count = 0 } };
    char before[16], output[16];

    memcpy(before, model->at, sizeof before);
    (void)snprintf(output, sizeof output, "v%d", model->next++);
    for (int b = 0; b < 2; b++) {
        memcpy(model->at, before, sizeof before);
        add_node(model, &branches[b], "MatMul", outer);
        if (b == 0)
            add_product(model, &branches[b]);
        onnx_text(&branches[b], 2, b == 0 ? "then" : "else");
        onnx_output(&branches[b], model->at, INLAY_FLOAT, 2, value_dims);
    }
    onnx_text(&node, 1, "c");
    onnx_text(&node, 2, output);
    onnx_text(&node, 3, output);
    onnx_text(&node, 4, "If");
    onnx_body(&node, "then_branch", &branches[0]);
    onnx_body(&node, "else_branch", &branches[1]);
    onnx_message(graph, 1, &node);
    memcpy(model->at, output, sizeof output);
}

/* Loop of two iterations, with weights in its body. */
static inline void add_loop(update_model *model, onnx_bytes *graph)
{
    onnx_bytes node = { .count = 0 }, body = { .count = 0 };
    char before[16], output[16], count[16], going[16], inner[16], kept[16];
    const int64_t two = 2;

    memcpy(before, model->at, sizeof before);
    (void)snprintf(output, sizeof output, "v%d", model->next++);
    (void)snprintf(count, sizeof count, "n%d", model->next);
    (void)snprintf(going, sizeof going, "g%d", model->next);
    (void)snprintf(inner, sizeof inner, "s%d", model->next);
    (void)snprintf(kept, sizeof kept, "k%d", model->next);
    onnx_constant(graph, count, INLAY_INT64, 0, NULL, &two, sizeof two);
    onnx_input(&body, going, INLAY_INT64, 0, NULL);
    onnx_input(&body, kept, INLAY_BOOL, 0, NULL);
    onnx_input(&body, inner, INLAY_FLOAT, 2, value_dims);
    memcpy(model->at, inner, sizeof inner);
    add_product(model, &body);
    {
        char same[24];

        (void)snprintf(same, sizeof same, "%so", kept);
        onnx_node(&body, "Identity", "", kept, same);
        onnx_output(&body, same, INLAY_BOOL, 0, NULL);
    }
    onnx_output(&body, model->at, INLAY_FLOAT, 2, value_dims);
    onnx_text(&body, 2, "body");
    onnx_text(&node, 1, count);
    onnx_text(&node, 1, "");
    onnx_text(&node, 1, before);
    onnx_text(&node, 2, output);
    onnx_text(&node, 3, output);
    onnx_text(&node, 4, "Loop");
    onnx_body(&node, "body", &body);
    onnx_message(graph, 1, &node);
    memcpy(model->at, output, sizeof output);
}

/* An input with a default, which is not bound. */
static inline void add_default(update_model *model, onnx_bytes *graph)
{
    const char *name = add_weight(model, graph, INLAY_FLOAT, 1, row_dims);

    onnx_input(graph, name, INLAY_FLOAT, 1, row_dims);
    add_node(model, graph, "Add", name);
}

/* Writes the model with these seeds to *file. Returns 0 if it is complete. Its inputs are x, float[ROWS, WIDTH], and c,
 * bool. */
static inline int update_model_write(update_model *model, uint64_t structure, const uint64_t *contents,
                                     onnx_bytes *file)
{
    static void (*const layers[])(update_model *, onnx_bytes *) = { add_product, add_product, add_conv,   add_quantized,
                                                                    add_if,      add_loop,    add_default };
    const uint64_t count = 1 + random_below(&structure, 4);

    memset(model, 0, sizeof *model);
    file->count = 0;
    file->overflow = 0;
    model->structure = structure;
    model->contents = contents;
    (void)snprintf(model->at, sizeof model->at, "x");
    onnx_input(&model->graph, "x", INLAY_FLOAT, 2, value_dims);
    onnx_input(&model->graph, "c", INLAY_BOOL, 0, NULL);
    for (uint64_t i = 0; i < count; i++)
        layers[random_below(&model->structure, sizeof layers / sizeof layers[0])](model, &model->graph);
    add_product(model, &model->graph);
    onnx_output(&model->graph, model->at, INLAY_FLOAT, 2, value_dims);
    return onnx_file(file, &model->graph, 17, NULL);
}
#endif
