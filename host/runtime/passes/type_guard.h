/* passes/type_guard.h - ensures that a pass does not change the type, rank or size of a value.
 *
 * The replacement of a value is compared with the type and shape that inference knows for the value. If they provably
 * differ, the graph is left unchanged. Unknown sizes and symbols prove nothing.
 *
 *     value replaces value, node replaces node   rewrite.h, with type_guard_refuses()
 *     constant replaces value                    type_guard_constant()
 *     nodes of a body replace a node             type_guard_nodes()
 *     decomposed node that no provider runs      type_guard_expect(); the next inference decides
 *     replaced nodes are restored                type_guard_keeps(), for all values of the graph
 *
 * A difference is a bug in the pass; builds with INLAY_CHECKS abort. These builds also record every value of the model
 * before each round of passes (type_guard_expect_all) and abort if an edit that bypassed the guards changed one. */
#ifndef PASSES_TYPE_GUARD_H
#define PASSES_TYPE_GUARD_H
#include "passes/pass.h"

/* Returns true if type or shape provably differ. Unknown sizes and symbols may still turn out equal. */
bool type_guard_differs(const graph_value *a, const graph_value *b);
/* Returns true if a rewrite must be rejected because a value differs. If the file declares types that inference cannot
 * confirm, the file may be wrong: then the pass is not to blame. */
bool type_guard_refuses(const graph_model *model, bool differs);

/* Makes value a constant, as graph_set_constant() does. If type or shape differ, value is unchanged and *out_done
 * false. */
INLAY_NODISCARD inlay_status type_guard_constant(struct graph *graph, uint32_t value, inlay_dtype dtype, uint32_t rank,
                                                 const int64_t *dims, const void *data, uint64_t bytes, bool *out_done);

/* Returns true if the first `count` values of graph still have the types and shapes in before[count]. */
bool type_guard_keeps(const struct graph *graph, const graph_value *before, uint32_t count);

/* All readers of `from` will read `to`. */
typedef struct type_guard_forward {
    uint32_t from, to;
} type_guard_forward;
/* Infers the nodes of graph from index `first` on, in order. They replace `old`: they produce its outputs or the values
 * forwarded for them. Nodes with bodies must be bound. If an output differs or inference fails, *out_done is false, the
 * nodes are removed and the values restored. */
INLAY_NODISCARD inlay_status type_guard_nodes(struct graph *graph, uint32_t first, const graph_node *old,
                                              const type_guard_forward *forwards, uint32_t forward_count,
                                              inlay_diag *diag, bool *out_done);

/* Requires the outputs of node to keep their types and shapes after it is replaced. */
INLAY_NODISCARD inlay_status type_guard_expect(pass_ctx *ctx, const struct graph *graph, const graph_node *node);
/* The same for all values of the model. Does nothing if out of memory. */
void type_guard_expect_all(pass_ctx *ctx);
/* Called after inference: an error that names the first value that differs. Clears all expectations. */
INLAY_NODISCARD inlay_status type_guard_verify(pass_ctx *ctx);
#endif
