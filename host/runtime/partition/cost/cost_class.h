/* partition/cost/cost_class.h - classes of kernels with the same ratio of time to work.
 *
 * A profile has one line per class: operator, variant and element type. Variants distinguish kernels of the same
 * operator: depthwise and pointwise convolution, GEMM with constant weights and of two activations, reduction along
 * rows and across them. A class depends only on the node and the sizes, not on a provider, so all providers share the
 * classes. */
#ifndef PARTITION_COST_CLASS_H
#define PARTITION_COST_CLASS_H
#include "partition/cost/cost.h"
#include "inlay/execution.h"

/* The variants of kernels: X(enum, name). */
#define COST_VARIANT_LIST(X)                                                                                           \
    X(PLAIN, "")                                                                                                       \
    X(ANY, "any")                                                                                                      \
    X(POINTWISE, "pointwise")                                                                                          \
    X(SPATIAL, "spatial")                                                                                              \
    X(WIDE, "wide")                                                                                                    \
    X(THIN, "thin")                                                                                                    \
    X(DEPTHWISE, "depthwise")                                                                                          \
    X(DEPTHWISE_WIDE, "depthwise wide")                                                                                \
    X(GROUPED, "grouped")                                                                                              \
    X(VECTOR, "vector")                                                                                                \
    X(FEW, "few")                                                                                                      \
    X(PACKED, "packed")                                                                                                \
    X(DYNAMIC, "dynamic")                                                                                              \
    X(INNER, "inner")                                                                                                  \
    X(OUTER, "outer")                                                                                                  \
    X(ROWS, "rows")                                                                                                    \
    X(FINE, "fine")                                                                                                    \
    X(SAME, "same")                                                                                                    \
    X(BROADCAST, "broadcast")                                                                                          \
    X(NEAREST, "nearest")                                                                                              \
    X(LINEAR, "linear")                                                                                                \
    X(CUBIC, "cubic")                                                                                                  \
    X(DENSE, "dense")                                                                                                  \
    X(STREAM, "stream")

enum {
#define COST_VARIANT_ENUM(name, text) COST_##name,
    COST_VARIANT_LIST(COST_VARIANT_ENUM)
#undef COST_VARIANT_ENUM
        COST_VARIANT_COUNT
};
const char *cost_variant_name(uint32_t variant);
/* The variant with that name; COST_VARIANT_COUNT: none. */
uint32_t cost_variant_of(const char *name);

/* A class. op "" with variant DENSE or STREAM: all operators of that kind; dtype INLAY_UNDEFINED: all types. */
typedef struct cost_class {
    const char *op; /* borrowed */
    uint32_t variant;
    inlay_dtype dtype;
} cost_class;

/* The class of a node at these sizes. values: [graph->value_count]. */
cost_class cost_class_of(const inlay_graph *graph, const inlay_node_info *node, const inlay_value_state *values);
/* DENSE or STREAM, according to the operations and bytes of the provider's model. */
uint32_t cost_kind_of(const inlay_cost *model);
/* For hash tables. */
uint64_t cost_class_hash(const cost_class *class);
#endif
