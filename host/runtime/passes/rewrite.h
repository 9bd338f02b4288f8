/* passes/rewrite.h - framework for passes that replace patterns of nodes.
 *
 *     inlay_status match_conv_batch_norm(struct rewrite *rewrite, graph_node *node)     for every node, producers first
 *     {
 *         graph_node *conv = rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 0), "Conv");
 *         if (!pass_is_op(node, "BatchNormalization") || conv == NULL ||
 *             !rewrite_has_one_use(rewrite, conv->info.outputs[0]))
 *             return INLAY_OK;                                                  no match
 *         ...
 *         return rewrite_replace_node(rewrite, node, fused);
 *     }
 *
 * A pattern is anchored at its last node and follows inputs back to their producers. A node whose outputs have no
 * readers left is removed at once, and so are producers that only it used. Pointers and indexes stay valid during the
 * visit of a node. rewrite_input() never returns a value that has been forwarded.
 *
 * A rewrite cannot change the type, rank or size of a value that remains in the graph. rewrite_replace_node,
 * rewrite_replace_by_values and rewrite_forward first infer the replacement and leave the graph unchanged if its type
 * or shape provably differs (type_guard.h). Such a difference is a bug in the pass: builds with INLAY_CHECKS abort. The
 * graph is also left unchanged if the inference of a new node fails. Exception: rewrite_replace_by_values, which
 * decomposes a node that no provider runs; there the next inference reports the error. Unknown ranks, unknown sizes and
 * symbols prove nothing, so a pattern that depends on them must check them itself (rewrite_keeps_rank). Nodes of the
 * graph are never edited: a copy with other inputs or attributes replaces them. */
#ifndef PASSES_REWRITE_H
#define PASSES_REWRITE_H
#include "inlay/check.h"
#include "passes/pass.h"

struct rewrite {
    pass_ctx *ctx;
    struct graph *graph;
    struct arena scratch; /* reset before the next node is visited */
    struct arena arena;   /* freed when the visit of the graph ends */
    uint32_t *uses;       /* [capacity] number of readers, including graph outputs and captures */
    uint32_t *producer;   /* [capacity] index of the producer in graph->nodes; INLAY_NONE: none */
    uint32_t *forward;    /* [capacity] value to read instead; INLAY_NONE: not forwarded */
    bool *is_output;      /* [capacity] */
    bool *quantized;      /* [quantized_count] see rewrite_is_quantized_later; NULL: not computed yet */
    uint32_t quantized_count;
    uint32_t capacity;
    uint32_t first_inserted; /* index in graph->nodes of the first node inserted during this visit */
    bool changed;
    bool fails;             /* the inference of an inserted node failed: this visit replaces nothing */
    bool inserted;          /* nodes were inserted; they have no readers and are removed again unless `changed` */
    bool changed_constants; /* readers moved from one constant to another, which needs no further round */
    void *pass_state;       /* state of the pass for the visit of one graph; initially NULL */
};

typedef inlay_status (*rewrite_fn)(struct rewrite *rewrite, graph_node *node);

/* Calls fn for the nodes of the main graph and of all bodies, including nodes that have bodies. */
INLAY_NODISCARD inlay_status rewrite_each_graph(pass_ctx *ctx, rewrite_fn fn, bool *out_changed);

/* Input i of the node; INLAY_NONE if omitted or past the last. */
uint32_t rewrite_input(const struct rewrite *rewrite, const graph_node *node, uint32_t i);
/* Follows forwards: the value that is read instead of `value`. */
uint32_t rewrite_resolve(const struct rewrite *rewrite, uint32_t value);
/* The value's type and shape; NULL for INLAY_NONE only. */
static inline const inlay_value_info *rewrite_value_info(const struct rewrite *rewrite, uint32_t value)
{
    INLAY_CHECK(value == INLAY_NONE || value < rewrite->graph->value_count);
    return value == INLAY_NONE ? NULL : &rewrite->graph->values[value].info;
}
/* The node that produces value as any of its outputs; NULL for inputs, constants and INLAY_NONE. */
graph_node *rewrite_producer(const struct rewrite *rewrite, uint32_t value);
/* The producer if it is that operator of ai.onnx and value is its first output; otherwise NULL. */
graph_node *rewrite_producer_op(const struct rewrite *rewrite, uint32_t value, const char *op_type);
/* Returns true if value has exactly one reader and is not a graph output. */
bool rewrite_has_one_use(const struct rewrite *rewrite, uint32_t value);
/* Returns true if output i is omitted or has no readers. */
bool rewrite_is_unused(const struct rewrite *rewrite, const graph_node *node, uint32_t i);
/* Returns true if value may reach a DynamicQuantizeLinear. There a different rounding moves values to the next
 * quantization step, which is more than a rounding error. Rewrites that round differently from the nodes they replace
 * therefore skip such values. */
bool rewrite_is_quantized_later(struct rewrite *rewrite, uint32_t value);
/* Returns true if both sizes are known to be equal: the same number, or the same symbol. */
bool rewrite_same_dim(const inlay_dim *a, const inlay_dim *b);
/* Returns true if both values have the same dtype and provably the same shape. */
bool rewrite_same_type(const struct rewrite *rewrite, uint32_t a, uint32_t b);
/* Returns true if `output`, computed from `input` and one-element constants, provably has no more axes than input.
 * Counterexample: a constant [1,1] and input [2] give [1,2]. */
bool rewrite_keeps_rank(const struct rewrite *rewrite, uint32_t output, uint32_t input);
/* Size of dimension d, counted from the end if negative; -1 if the rank or the size is unknown. */
int64_t rewrite_dim(const inlay_value_info *value, int64_t d);

bool rewrite_is_constant(const struct rewrite *rewrite, uint32_t value);
/* Reads a constant float, double or float16 of one element and any rank (see rewrite_keeps_rank). */
bool rewrite_scalar(const struct rewrite *rewrite, uint32_t value, double *out);
/* Returns true if `is` equals `expected` up to two units in the last place of value's type, which covers the rounding
 * of a constant or of a product of a few. Fused operators use exact constants, so a pattern with other constants is
 * another function. */
bool rewrite_is_near(const struct rewrite *rewrite, uint32_t value, double is, double expected);
/* Returns true if value is a one-element constant equal to expected: integers exactly, others as in rewrite_is_near. */
bool rewrite_is_scalar(const struct rewrite *rewrite, uint32_t value, double expected);
/* Reads a constant int64 or int32 of rank 0 or 1 into scratch memory. Returns false if it is something else or memory
 * is out. */
bool rewrite_integers(struct rewrite *rewrite, uint32_t value, const int64_t **out, uint32_t *out_count);
/* The aligned elements of a constant FLOAT, in scratch memory or memory of the model. NULL: not such a constant, or out
 * of memory. */
const float *rewrite_floats(struct rewrite *rewrite, uint32_t value);
/* Copies the attributes that the node states explicitly. Returns NULL if new_node is NULL or memory is out. */
graph_node *rewrite_copy_attrs(struct rewrite *rewrite, const graph_node *from, graph_node *new_node);
/* Compares a string attribute; a missing attribute is "". */
bool rewrite_attr_is(const graph_node *node, const char *name, const char *text);
const int64_t *rewrite_attr_ints(const graph_node *node, const char *name, uint32_t *out_count);

/* Creates a node that is not in the graph yet. opset is the version of ai.onnx, 0 = the model's. Inputs (INLAY_NONE =
 * omitted) are counted as readers once the node is in the graph. NULL: out of memory. */
graph_node *rewrite_make_node(struct rewrite *rewrite, const char *op_type, int64_t opset, const graph_node *like,
                              const uint32_t *inputs, uint32_t input_count, uint32_t output_count);
/* Creates a copy of a node of an ONNX operator with its inputs and attributes, not in the graph yet. NULL: out of
 * memory. */
graph_node *rewrite_copy_node(struct rewrite *rewrite, const graph_node *node);
/* Sets input i of a node that is not in the graph yet. A node of the graph is left unchanged. */
void rewrite_set_input(const struct rewrite *rewrite, graph_node *new_node, uint32_t i, uint32_t value);
/* Replaces `old` by `new_node`: new_node takes over output 0 of old, and so on while both have outputs. New nodes that
 * new_node reads must have been inserted with rewrite_insert_node. The graph is left unchanged if an output would get
 * another type or shape, or if the inputs do not fit the new node; the pass need not check this. */
INLAY_NODISCARD inlay_status rewrite_replace_node(struct rewrite *rewrite, graph_node *old, graph_node *new_node);
/* Removes `old`. Its output i is produced from now on by the producer of value values[i] - 1, an output of a new node
 * that is not a graph output. values[i] = 0: output i has no readers. The graph is left unchanged if a type or shape
 * differs. */
INLAY_NODISCARD inlay_status rewrite_replace_by_values(struct rewrite *rewrite, graph_node *old, const uint32_t *values,
                                                       uint32_t count);
/* Inserts a new node. Its outputs become new values of type dtype; shapes are inferred later. */
INLAY_NODISCARD inlay_status rewrite_insert_node(struct rewrite *rewrite, graph_node *new_node, inlay_dtype dtype);
/* Redirects all readers of `from` (an output of a node or a constant) to `to`. The producer of from is removed when it
 * has no readers left. Graph outputs keep their names: if from is one, the producer of `to` produces `from` instead,
 * where that is possible. Otherwise, or if types or shapes differ, the graph is left unchanged. *out_done receives the
 * outcome. */
INLAY_NODISCARD inlay_status rewrite_forward(struct rewrite *rewrite, uint32_t from, uint32_t to, bool *out_done);
/* Adds a constant with a copy of the data. INLAY_NONE: out of memory. */
uint32_t rewrite_constant(struct rewrite *rewrite, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                          const void *data, uint64_t bytes);
/* Adds a constant whose data already belongs to the model (graph_blob_alloc) and is not copied. */
uint32_t rewrite_constant_blob(struct rewrite *rewrite, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                               const void *data, uint64_t bytes);
uint32_t rewrite_constant_ints(struct rewrite *rewrite, const int64_t *values, uint32_t count); /* rank 1 */
/* Reports that `node` ends a pattern of the pass that is not replaced, and why: "the scores have another reader". Only
 * the visit after the last round reports (pass_report.near_misses). */
INLAY_PRINTF(3, 4) void rewrite_near_miss(const struct rewrite *rewrite, const graph_node *node, const char *why, ...);
/* Reports "no memory in pass ..."; a pass returns it when one of the functions above returned NULL or INLAY_NONE. */
inlay_status rewrite_no_memory(const struct rewrite *rewrite);
#endif
