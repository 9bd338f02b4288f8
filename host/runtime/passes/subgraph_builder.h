/* passes/subgraph_builder.h - a builder for passes that decompose an operator into a subgraph of other operators.
 *
 *     uint32_t sum = emit_op(builder, "Add", 14, builder_input(builder, 0), builder_input(builder, 1));
 *     builder_set_output(builder, 0, emit_op(builder, "Gelu", 20, sum));
 *
 * The first error is kept in `status`, which is checked once, at the end. After it, every function does nothing and
 * returns INLAY_NONE, so results may be passed on unchecked. */
#ifndef PASSES_SUBGRAPH_BUILDER_H
#define PASSES_SUBGRAPH_BUILDER_H
#include "passes/rewrite.h"

typedef struct subgraph_builder {
    struct rewrite *rewrite;
    graph_node *node;    /* the node to decompose */
    graph_node *last;    /* the node inserted last */
    uint32_t outputs[8]; /* 1 + the value that replaces output i; 0: output i is not used */
    inlay_status status;
} subgraph_builder;
enum { BUILDER_OUTPUTS = 8 };

/* Inserts a node of ai.onnx at that opset. INLAY_UNDEFINED as dtype: the type of its first input. inputs ends with
 * EMIT_END. Returns the first output. */
#define EMIT_END (INLAY_NONE - 1u)
uint32_t emit_node(subgraph_builder *builder, const char *op_type, int64_t opset, inlay_dtype dtype, uint32_t outputs,
                   const uint32_t *inputs);
#define emit_op(b, op_type, opset, ...)                                                                                \
    emit_node(b, op_type, opset, INLAY_UNDEFINED, 1, (const uint32_t[]){ __VA_ARGS__, EMIT_END })
/* emit_op with another output type. */
#define emit_typed(b, op_type, opset, dtype, ...)                                                                      \
    emit_node(b, op_type, opset, dtype, 1, (const uint32_t[]){ __VA_ARGS__, EMIT_END })
/* emit_node() with one output for an operator of ai.inlay. */
uint32_t emit_inlay(subgraph_builder *builder, const char *op_type, inlay_dtype dtype, const uint32_t *inputs);
/* Output i of the node inserted last. */
uint32_t emitted_output(const subgraph_builder *builder, uint32_t i);
/* Set attributes of the node inserted last. */
void emit_attr_int(subgraph_builder *builder, const char *name, int64_t value);
void emit_attr_ints(subgraph_builder *builder, const char *name, const int64_t *values, uint32_t count);
void emit_attr_float(subgraph_builder *builder, const char *name, double value);
void emit_attr_string(subgraph_builder *builder, const char *name, const char *value);
/* Copies the attributes in `names` (NULL-terminated) that the decomposed node states explicitly. */
void emit_attr_copies(subgraph_builder *builder, const char *const *names);

/* Input i of the node to decompose. */
static inline uint32_t builder_input(const subgraph_builder *builder, uint32_t i)
{
    return rewrite_input(builder->rewrite, builder->node, i);
}
inlay_dtype builder_dtype(const subgraph_builder *builder, uint32_t value);
/* INLAY_RANK_UNKNOWN if the rank is not known. */
uint32_t builder_rank(const subgraph_builder *builder, uint32_t value);
/* Constants: a scalar of a float type, and a list of integers. */
uint32_t emit_number(subgraph_builder *builder, inlay_dtype dtype, double value);
uint32_t emit_integers(subgraph_builder *builder, const int64_t *values, uint32_t count);
#define emit_list(b, ...)                                                                                              \
    emit_integers(b, (const int64_t[]){ __VA_ARGS__ },                                                                 \
                  (uint32_t)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))
/* Returns value itself if it has that type. */
uint32_t emit_cast(subgraph_builder *builder, uint32_t value, inlay_dtype to);
uint32_t emit_transpose(subgraph_builder *builder, uint32_t value, const int64_t *perm, uint32_t rank);
/* Transpose for any rank, written as an Einsum equation: "a...b->...ba". */
uint32_t emit_einsum(subgraph_builder *builder, uint32_t value, const char *equation);
/* Returns value if its rank is known; otherwise a Reshape to that rank, which is checked at run time. */
uint32_t emit_ranked(subgraph_builder *builder, uint32_t value, uint32_t rank);

/* If the rank of input i is unknown, replaces the node by an If on the rank: one branch for each rank from low to high
 * holds the node with an input of that rank and is decomposed later. A run with another rank fails. Call it before any
 * node is inserted. Returns false if the rank is known or the input is omitted. */
bool decompose_by_rank(subgraph_builder *builder, uint32_t i, uint32_t low, uint32_t high);

/* Leaves the node unchanged and records the reason, e.g. "mask_index has an unknown rank", for the error that is
 * reported if no provider runs the node. Call it before any node is inserted. Returns false if why is NULL: no
 * obstacle. */
bool builder_refuse(subgraph_builder *builder, const char *why);

/* Returns true if the node has that output and it is not omitted. */
static inline bool builder_wants(const subgraph_builder *builder, uint32_t output)
{
    return output < builder->node->info.output_count && builder->node->info.outputs[output] != INLAY_NONE;
}
/* Replaces an output of the node by value. output < BUILDER_OUTPUTS. */
void builder_set_output(subgraph_builder *builder, uint32_t output, uint32_t value);
/* Replaces the node by the inserted nodes. */
INLAY_NODISCARD inlay_status builder_finish(subgraph_builder *builder);
#endif
