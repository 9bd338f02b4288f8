/* passes/type_guard.h - a pass cannot change the type, the rank or a size of a value.
 *
 * What a pass puts in the place of a value is compared with what inference knows of the value. Where both are for sure
 * different, the graph stays as it is. Unknown sizes and symbols say nothing.
 *
 *     a value for a value, a node for a node     rewrite.h, with type_guard_refuses()
 *     a constant for a value                     type_guard_constant()
 *     the nodes of a body for a node             type_guard_nodes()
 *     a node that no provider runs, spelled out  type_guard_expect(); the next inference decides
 *     what a pass has replaced, put back         type_guard_keeps(), for all values of the graph
 *
 * A difference is a mistake of the pass, at which builds with INLAY_CHECKS end. These also expect every value of the
 * model around each round of passes (type_guard_expect_all), so that an edit that goes around all of this ends them,
 * too. */
#ifndef PASSES_TYPE_GUARD_H
#define PASSES_TYPE_GUARD_H
#include "passes/pass.h"

/* For sure of another type or shape? What is unknown, and a symbol, may turn out to be the same. */
bool type_guard_differs(const graph_value *a, const graph_value *b);
/* Is a rewrite refused after which a value differs? A model whose file declares what cannot be inferred may be wrong
 * about it, and there the pass is not to blame. */
bool type_guard_refuses(const graph_model *model, bool differs);

/* Makes v a constant, as graph_set_constant() does. *out_done is false, and v as it was, where the constant differs. */
INLAY_NODISCARD inlay_status type_guard_constant(struct graph *graph, uint32_t v, inlay_dtype dtype, uint32_t rank,
                                                 const int64_t *dims, const void *data, uint64_t bytes, bool *out_done);

/* Do the first values of graph have the types and shapes that they had before (before [count])? */
bool type_guard_keeps(const struct graph *graph, const graph_value *before, uint32_t count);

/* Readers of `from` are to read `to`. */
typedef struct type_guard_forward {
    uint32_t from, to;
} type_guard_forward;
/* Infers the nodes of graph from index `first` on, in their order, which are to make the outputs of `old`, or what is
 * read in their place; those with bodies must be bound. *out_done is false where an output differs, or where inference
 * is an error: then the nodes are gone again, and the values are as they were. */
INLAY_NODISCARD inlay_status type_guard_nodes(struct graph *graph, uint32_t first, const graph_node *old,
                                              const type_guard_forward *forwards, uint32_t forward_count,
                                              inlay_diag *diag, bool *out_done);

/* The outputs of node are to keep their types and shapes, whoever makes them from now on. */
INLAY_NODISCARD inlay_status type_guard_expect(pass_ctx *ctx, const struct graph *graph, const graph_node *node);
/* The same of all values of the model; nothing where memory is out. */
void type_guard_expect_all(pass_ctx *ctx);
/* After inference: an error that names the value where one differs. Then nothing is expected any more. */
INLAY_NODISCARD inlay_status type_guard_verify(pass_ctx *ctx);
#endif
