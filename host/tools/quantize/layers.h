/* quantize/layers.h - the nodes of a model whose weights can be stored in fewer bits. */
#ifndef QUANTIZE_LAYERS_H
#define QUANTIZE_LAYERS_H
#include "graph/graph.h"

/* One constant of one node. A node with several (LSTM has two) is several layers. */
struct layer {
    struct graph *graph;
    graph_node *node;
    const char *path;      /* of the body that g is, or "" for the main graph */
    uint32_t weight;       /* value of g */
    uint32_t weight_input; /* which input of the node it is */
    uint32_t channel;      /* axis of the weight that has one scale for each index */
    uint32_t depth;        /* axis that a product sums over, which blocks cut; INLAY_NONE: none */
    bool multiplies;       /* Conv, MatMul, Gemm in the main graph with an activation as input 0: fit for integers */
    int64_t count;         /* elements */
    const char *kept;      /* why it stays as it is, or NULL */
};

typedef struct layer_list {
    struct layer *items;
    uint32_t count;
} layer_list;

/* All of a model, bodies included, in the order in which they run. skip: [skip_count] globs on node names, or op:GLOB
 * on operators, of layers to keep. Memory is a's. INLAY_INVALID_ARGUMENT: a pattern fits no node. */
INLAY_NODISCARD inlay_status layers_find(graph_model *model, const char *const *skip, uint32_t skip_count,
                                         struct arena *arena, layer_list *out, inlay_diag *diag);
/* The bias of a convolution or product: a constant of one dimension, as many as channels. INLAY_NONE: it has none, or
 * another one (*out_other). */
uint32_t layer_bias(const struct layer *layer, bool *out_other);
int64_t layer_channels(const struct layer *layer);
/* The weights as aligned floats, from malloc; NULL: no memory. The file's pages leave memory until they are read again.
 */
float *layer_weights(const struct layer *layer);
#endif
