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
bool readers_find(struct graph *g, struct readers *out);

/* The elements of value v if they are known before the run: a constant, or what a Constant node makes. Dims are the
 * model's. false: they are not, or are strings. */
bool doctor_constant(const struct graph *g, uint32_t v, inlay_tensor_view *out);
/* Input i of the node, INLAY_NONE where it has none. */
static inline uint32_t doctor_input(const graph_node *n, uint32_t i)
{
    return i < n->info.input_count ? n->info.inputs[i] : INLAY_NONE;
}
bool doctor_is_op(const graph_node *n, const char *op); /* of ai.onnx */
int64_t doctor_int(const graph_node *n, const char *attr, int64_t otherwise);
/* Elements of a tensor; -1 where a dimension is open. */
int64_t doctor_elements(const inlay_value_info *info);

/* The parts of the look, each at one graph. */
void doctor_look_nodes(struct doctor *d, struct graph *g, const struct readers *r);   /* doctor_nodes.c */
void doctor_look_weights(struct doctor *d, struct graph *g, const struct readers *r); /* doctor_weights.c */
void doctor_look_quant(struct doctor *d, struct graph *g, const struct readers *r);   /* doctor_quant.c */
void doctor_look_axes(struct doctor *d, struct graph *g); /* doctor_axes.c: the main graph alone */
/* Over all graphs: equal weights. */
void doctor_look_twice(struct doctor *d, struct graph *g, const struct readers *r);
#endif
