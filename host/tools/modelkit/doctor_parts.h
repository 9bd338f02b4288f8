/* modelkit/doctor_parts.h - declarations shared by doctor*.c; private to them. */
#ifndef MODELKIT_DOCTOR_PARTS_H
#define MODELKIT_DOCTOR_PARTS_H
#include "base/memory.h"
#include "modelkit/doctor.h"

/* The readers of the values of a graph. */
struct readers {
    uint32_t *count;  /* [value_count] number of reads, including reads by bodies and uses as outputs of the graph */
    graph_node **one; /* [value_count] one of the reading nodes */
};
/* False: out of memory. The arrays are the model's. */
bool readers_find(struct graph *graph, struct readers *out);

/* The elements of the value if they are known before the run: a constant, or the output of a Constant node. Dims are
 * the model's. False: unknown, or strings. */
bool doctor_constant(const struct graph *graph, uint32_t value, inlay_tensor_view *out);
bool doctor_is_op(const graph_node *node, const char *op); /* of ai.onnx */
/* Number of elements; -1 if a dimension is open. */
int64_t doctor_elements(const inlay_value_info *info);

/* Reports domains that the model uses and does not import. In doctor_load.c. */
void doctor_check_imports(struct doctor *doctor);

/* The checks, each for one graph. */
void doctor_check_nodes(struct doctor *doctor, struct graph *graph, const struct readers *readers); /* doctor_nodes.c */
void doctor_check_weights(struct doctor *doctor, struct graph *graph,
                          const struct readers *readers); /* doctor_weights.c */
void doctor_check_quant(struct doctor *doctor, struct graph *graph, const struct readers *readers); /* doctor_quant.c */
void doctor_check_axes(struct doctor *doctor, struct graph *graph); /* doctor_axes.c: main graph only */
/* Equal weights, over all graphs. */
void doctor_check_duplicates(struct doctor *doctor, struct graph *graph, const struct readers *readers);
#endif
