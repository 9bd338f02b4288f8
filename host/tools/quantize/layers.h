/* quantize/layers.h - finds the layers: nodes of a model whose weights can be stored in fewer bits. */
#ifndef QUANTIZE_LAYERS_H
#define QUANTIZE_LAYERS_H
#include "graph/graph.h"

/* One constant of one node. A node with several (LSTM has two) is several layers. */
struct layer {
    struct graph *graph;
    graph_node *node;
    const char *path;      /* path of the body, or "" for the main graph */
    uint32_t weight;       /* value of the graph */
    uint32_t weight_input; /* input index of the weight */
    uint32_t channel;      /* axis of the weight with one scale for each index */
    uint32_t depth;        /* axis that a matrix multiplication sums over, which is cut into blocks; INLAY_NONE: none */
    bool multiplies; /* Conv, MatMul or Gemm of the main graph with an activation as input 0: can compute with integers
                      */
    int64_t count;   /* elements */
    const char *reason; /* why the layer is excluded, or NULL */
};

typedef struct layer_list {
    struct layer *items;
    uint32_t count;
} layer_list;

/* Finds all layers of a model, bodies included, in execution order. skip: [skip_count] globs on node names, or op:GLOB
 * on operators, of layers to exclude. Memory is the arena's. INLAY_INVALID_ARGUMENT: a pattern matches no node. */
INLAY_NODISCARD inlay_status layers_find(graph_model *model, const char *const *skip, uint32_t skip_count,
                                         struct arena *arena, layer_list *out, inlay_diag *diag);
/* The layer whose weight is input 1 of the node, or NULL. */
const struct layer *layer_of(const layer_list *list, const graph_node *node);
/* The bias of a convolution or matrix multiplication: a constant of one dimension with one element for each channel.
 * INLAY_NONE: there is no bias, or one of another form (*out_other). */
uint32_t layer_bias(const struct layer *layer, bool *out_other);
int64_t layer_channels(const struct layer *layer);
/* The axis of the weights along which the layer reads channels. */
static inline uint32_t layer_reading_axis(const struct layer *layer)
{
    return layer->depth != INLAY_NONE ? layer->depth : 1;
}
/* The weights as aligned floats, from malloc; NULL: out of memory. The file's pages are dropped from memory. */
float *layer_weights(const struct layer *layer);
#endif
