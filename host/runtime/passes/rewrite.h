/* passes/rewrite.h - what a pass that replaces patterns of nodes is written with.
 *
 *     static inlay_status match(rewrite *w, graph_node *n)         called for every node, makers before readers
 *     {
 *         graph_node *conv = rw_maker_op(w, rw_input(w, n, 0), "Conv");
 *         if (!pass_is_op(n, "BatchNormalization") || conv == NULL || !rw_is_only_use(w, conv->info.outputs[0]))
 *             return INLAY_OK;                                      not this one
 *         ...
 *         return rw_replace(w, n, fused);
 *     }
 *     inlay_status pass_conv_batch_norm(pass_ctx *ctx, bool *out_changed)
 *     {
 *         return rewrite_each_graph(ctx, match, out_changed);
 *     }
 *
 * A pattern is anchored at its last node and looks back through the makers of values. What nobody reads any more goes
 * at once, and with it what only it read. All pointers and indexes stay good for the visit; values read through
 * rw_input() are never ones that have been forwarded.
 *
 * A rewrite cannot change the type, the rank or a size of a value that stays: what is put in its place (rw_replace,
 * rw_take_over, rw_forward) is inferred first, and where it is for sure another type or shape, the graph stays as it
 * was (type_guard.h). A node in the graph is never edited: a copy with other inputs or attributes replaces it. Unknown
 * sizes and symbols say nothing, and neither does an unknown rank: there a pattern has to be sure by itself
 * (rw_keeps_rank). Another type or shape is a mistake of the pass, at which builds with INLAY_CHECKS end. */
#ifndef PASSES_REWRITE_H
#define PASSES_REWRITE_H
#include "passes/pass.h"

struct rewrite {
    pass_ctx *ctx;
    struct graph *graph;
    struct arena scratch; /* until the next node is visited */
    struct arena own;     /* until the visit of the graph ends */
    uint32_t *uses;       /* [capacity] readers of a value; outputs of the graph and captures count */
    uint32_t *maker;      /* [capacity] the place of its maker in g->nodes, INLAY_NONE */
    uint32_t *forward;    /* [capacity] the value to read instead, INLAY_NONE = itself */
    bool *is_output;      /* [capacity] */
    bool *quantized;      /* [quantized_count] see rw_is_quantized_later; NULL: not asked yet */
    uint32_t quantized_count;
    uint32_t capacity;
    uint32_t first_fresh; /* the first place in g->nodes of what was inserted at this node */
    bool changed;
    bool inserted;          /* rw_insert alone changes nothing: what nobody reads goes again */
    bool changed_constants; /* readers were forwarded from one constant to another, which asks for no further round */
    void *memory;           /* what a pass remembers between the nodes of one graph; NULL at first */
};

typedef inlay_status (*rewrite_fn)(struct rewrite *rewrite, graph_node *node);

/* Calls fn for the nodes of the main graph and of all bodies. Nodes with bodies are visited too. */
INLAY_NODISCARD inlay_status rewrite_each_graph(pass_ctx *ctx, rewrite_fn fn, bool *out_changed);

/* ------------------------------------------------------------------ looking */

/* Input i of the node, INLAY_NONE when omitted or beyond the last. */
uint32_t rw_input(const struct rewrite *rewrite, const graph_node *node, uint32_t i);
/* What is read in the place of v. */
uint32_t rw_resolve(const struct rewrite *rewrite, uint32_t v);
/* The value's record; not NULL for a value that exists. */
static inline const inlay_value_info *rw_info(const struct rewrite *rewrite, uint32_t value)
{
    return value == INLAY_NONE ? NULL : &rewrite->graph->values[value].info;
}
/* The node that makes v as any of its outputs; NULL: an input, a constant, none. */
graph_node *rw_maker(const struct rewrite *rewrite, uint32_t v);
/* The same if it is that operator of ai.onnx and v its first output; otherwise NULL. */
graph_node *rw_maker_op(const struct rewrite *rewrite, uint32_t v, const char *op_type);
/* Is v read once, and no output of the graph? */
bool rw_is_only_use(const struct rewrite *rewrite, uint32_t v);
/* Does nobody read output i, or is it omitted? */
bool rw_is_unused(const struct rewrite *rewrite, const graph_node *node, uint32_t i);
/* May the value decide what a DynamicQuantizeLinear rounds? What rounds otherwise than the nodes that it replaces would
 * move values to the next step there, which is no rounding any more: such rewrites ask this of what they make. */
bool rw_is_quantized_later(struct rewrite *rewrite, uint32_t v);
/* Do two values have the same dtype and, for sure, the same shape? */
bool rw_same_type(const struct rewrite *rewrite, uint32_t a, uint32_t b);
/* Is it sure that y, made of x and constants of one element, has no axis that x lacks? [1,1] and x[2] make [1,2]. */
bool rw_keeps_rank(const struct rewrite *rewrite, uint32_t y, uint32_t x);
/* Dim d, counted from the end when negative; -1 when rank or size is unknown. */
int64_t rw_dim(const inlay_value_info *value, int64_t d);

bool rw_is_constant(const struct rewrite *rewrite, uint32_t v);
/* The element of a constant float, double or float16 of one element, whatever its rank: see rw_keeps_rank. */
bool rw_scalar(const struct rewrite *rewrite, uint32_t v, double *out);
/* Is it `value` but for what rounding a constant, or a product of a few, to the type of v does to it: two units in the
 * last place? What stands for a pattern has the pattern's constants exactly, so a pattern with others is another
 * function. */
bool rw_is_near(const struct rewrite *rewrite, uint32_t v, double is, double value);
/* Is v such a constant, of this value (an integer exactly, others as near as above)? */
bool rw_is_scalar(const struct rewrite *rewrite, uint32_t v, double value);
/* The elements of a constant int64 or int32 of rank 0 or 1, in memory of the visit. false: it is none, or no memory. */
bool rw_ints(struct rewrite *rewrite, uint32_t v, const int64_t **out, uint32_t *out_count);
/* The elements of a constant FLOAT, aligned, in memory of the visit or the model's. NULL: it is none. */
const float *rw_floats(struct rewrite *rewrite, uint32_t v);
/* Attribute values, after binding; otherwise = when the node has none of that name. */
int64_t rw_attr_int(const graph_node *node, const char *name, int64_t otherwise);
double rw_attr_float(const graph_node *node, const char *name, double otherwise);
/* Is it that string? An attribute that is missing is "". */
bool rw_attr_is(const graph_node *node, const char *name, const char *text);
const int64_t *rw_attr_ints(const graph_node *node, const char *name, uint32_t *out_count);

/* ------------------------------------------------------------------ changing */

/* A node that is not in the graph yet. opset names the version of ai.onnx that it is of, 0 = the model's; the inputs
 * (INLAY_NONE = omitted) are counted as read once it is in. NULL: no memory. */
graph_node *rw_make(struct rewrite *rewrite, const char *op_type, int64_t opset, const graph_node *like,
                    const uint32_t *inputs, uint32_t input_count, uint32_t output_count);
/* A node of an operator of ONNX once more, with its inputs and attributes, not in the graph yet. NULL: no memory. */
graph_node *rw_copy(struct rewrite *rewrite, const graph_node *node);
/* Input i of a node that is not in the graph yet; of one that is, the input stays. */
void rw_set_input(const struct rewrite *rewrite, graph_node *fresh, uint32_t i, uint32_t v);
/* Puts the new node in the place of old: it makes what old made as output 0 (and so on while both have outputs), and
 * old goes. New nodes that it reads from must have been put in with rw_insert. Nothing is done where an output would be
 * of another type or shape, or where the new node's inputs do not fit it: a pass need not ask whether. */
INLAY_NODISCARD inlay_status rw_replace(struct rewrite *rewrite, graph_node *old, graph_node *fresh);
/* Takes the node out; its output i is made by the maker of value values[i] - 1 from now on, a new node's output that is
 * no output of the graph. 0: nobody reads that output. Nothing is done where one is of another type or shape. */
INLAY_NODISCARD inlay_status rw_take_over(struct rewrite *rewrite, graph_node *old, const uint32_t *values,
                                          uint32_t count);
/* Puts a new node in. Its outputs are new values, typed dtype (shape to be inferred). */
INLAY_NODISCARD inlay_status rw_insert(struct rewrite *rewrite, graph_node *fresh, inlay_dtype dtype);
/* Lets everybody who reads `from`, which a node makes or a constant is, read `to`; the maker of `from` goes when it is
 * no longer needed. An output of the graph keeps its name: then, and if it is allowed, the maker of `to` makes `from`
 * instead; otherwise, and where both are of different type or shape, nothing is done. *out_done says whether. */
INLAY_NODISCARD inlay_status rw_forward(struct rewrite *rewrite, uint32_t from, uint32_t to, bool *out_done);
/* A new constant; data is copied. INLAY_NONE: no memory. */
uint32_t rw_constant(struct rewrite *rewrite, inlay_dtype dtype, uint32_t rank, const int64_t *dims, const void *data,
                     uint64_t bytes);
/* The same of memory that is the model's already (graph_blob_alloc): it is not copied. */
uint32_t rw_constant_blob(struct rewrite *rewrite, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                          const void *data, uint64_t bytes);
uint32_t rw_constant_ints(struct rewrite *rewrite, const int64_t *values, uint32_t count); /* rank 1 */
/* "no memory in pass ..."; what a pass returns when one of the above gave NULL or INLAY_NONE. */
inlay_status rw_no_memory(const struct rewrite *rewrite);
#endif
