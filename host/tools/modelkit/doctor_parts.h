/* modelkit/doctor_parts.h - what the parts of the doctor share; private to this folder. */
#ifndef MODELKIT_DOCTOR_PARTS_H
#define MODELKIT_DOCTOR_PARTS_H
#include "base/memory.h"
#include "modelkit/doctor.h"

/* Who reads the values of a graph. */
struct readers {
    uint32_t *count;  /* [value_count] how often a value is read, by bodies and as an output of the graph too */
    graph_node **one; /* [value_count] one of the nodes that do */
};
/* false: no memory. Arrays are the model's. */
bool readers_find(struct graph *graph, struct readers *out);

/* The elements of value v if they are known before the run: a constant, or what a Constant node makes. Dims are the
 * model's. false: they are not, or are strings. */
bool doctor_constant(const struct graph *graph, uint32_t v, inlay_tensor_view *out);
/* Input i of the node, INLAY_NONE where it has none. */
static inline uint32_t doctor_input(const graph_node *node, uint32_t i)
{
    return i < node->info.input_count ? node->info.inputs[i] : INLAY_NONE;
}
bool doctor_is_op(const graph_node *node, const char *op); /* of ai.onnx */
int64_t doctor_int(const graph_node *node, const char *attr, int64_t otherwise);
/* Elements of a tensor; -1 where a dimension is open. */
int64_t doctor_elements(const inlay_value_info *info);

/* The parts of the look, each at one graph. */
void doctor_look_nodes(struct doctor *doctor, struct graph *graph, const struct readers *readers); /* doctor_nodes.c */
void doctor_look_weights(struct doctor *doctor, struct graph *graph,
                         const struct readers *readers); /* doctor_weights.c */
void doctor_look_quant(struct doctor *doctor, struct graph *graph, const struct readers *readers); /* doctor_quant.c */
void doctor_look_axes(struct doctor *doctor, struct graph *graph); /* doctor_axes.c: the main graph alone */
/* Over all graphs: equal weights. */
void doctor_look_twice(struct doctor *doctor, struct graph *graph, const struct readers *readers);
#endif
