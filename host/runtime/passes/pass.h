/* passes/pass.h - the optimiser: one pass a file, listed in passes.def.
 *
 * A pass rewrites the graphs of a model, bodies included, and says whether it changed anything. The driver runs the
 * list to a fixed point; after a change nodes are sorted and shapes are inferred anew, so that a pass always sees a
 * graph that is complete. */
#ifndef PASSES_PASS_H
#define PASSES_PASS_H
#include "base/memory.h"
#include "graph/graph.h"

/* Computes a node whose inputs are all constants of graph. results has room for its outputs, without those omitted;
 * their memory is the arena's, or the model's (graph_blob_owns) from GRAPH_LARGE_CONSTANT bytes on. INLAY_UNSUPPORTED:
 * nobody can; INLAY_LIMIT_EXCEEDED: they would take more than max_bytes. */
typedef inlay_status (*pass_fold_fn)(void *fold_ctx, struct graph *graph, graph_node *node, uint64_t max_bytes,
                                     inlay_tensor_view *results, struct arena *arena, inlay_diag *diag);

/* Does a provider that multiplies integers of 8 bits faster than floats offer node? The node need not be in graph; made
 * describes its output. */
typedef bool (*pass_offers_fn)(void *fold_ctx, const struct graph *graph, const graph_node *node,
                               const inlay_value_info *made);

typedef struct pass_ctx {
    graph_model *model;
    pass_fold_fn fold; /* NULL: nothing is folded. A callback, for who computes is found by a later stage */
    void *fold_ctx;
    uint64_t fold_max_bytes;  /* a folded constant may be this much larger than what it is made from */
    const char *const *only;  /* [only_count] names of the passes to run beside those of level 0; none = all */
    const char *const *never; /* [never_count] names of passes not to run, level 0 excepted */
    uint32_t only_count, never_count;
    pass_offers_fn offers_integers; /* NULL: there is no such provider, and QDQ models stay as they are */
    /* Does a provider that multiplies by packed weights offer n, a sparse matrix as it is? made is NULL. NULL: there is
     * none, and sparse matrices become dense, together at most max_densified_bytes. */
    pass_offers_fn offers_sparse;
    uint64_t max_densified_bytes, densified;
    uint32_t keeps_weights; /* a provider reads weights of few bits as they are: inlay_ext_weights.packed_products; 0 */
    int64_t rewrite_limit;  /* stop after so many rewrites (of level 0 only lowering counts); negative = no limit */
    int64_t rewrites;       /* done so far; {0} */
    int64_t lowerings;      /* out: how many of them came before all levels */
    /* Hears what is done, node by node: node is the node that changes or goes. rewrite counts from 1, and what one
     * rewrite does has one number. May be NULL. */
    void (*note)(void *ctx, const char *pass, int64_t rewrite, const struct graph *graph, const graph_node *node,
                 const char *text);
    /* Called after a pass that changed something, with the model complete; stops the optimiser if not INLAY_OK. May be
     * NULL. */
    inlay_status (*after)(void *ctx, const char *pass);
    void *note_ctx;
    const char *pass; /* the one that runs now */
    /* The model is to be written as a file of this opset of ai.onnx: operators of later ones are not made, and those of
     * ONNX Runtime, which it knows, stay. 0: anything that runs here. */
    int64_t newest_opset;
    bool float_activations; /* option float_activations */
    bool dynamic_rows;      /* option dynamic_rows */
    bool widens_halves;     /* a provider on the CPU is fast at floats: products of float16 are made of them */
    bool quantizes;         /* the model has a DynamicQuantizeLinear */
    bool lowers;            /* before all levels */
    struct type_guard_expected *expected; /* types and shapes that the next inference must find again; {0} */
    struct pass_folded *folded;           /* large constants that were computed, for the same in another body; {0} */
    inlay_diag *diag;
} pass_ctx;

typedef inlay_status (*pass_fn)(pass_ctx *ctx, bool *out_changed);

/* PASS(level, name): pass_<name> in <name>.c runs at optimisation levels from `level` on; LOWERING(name): at all. */
#define PASS(level, name) inlay_status pass_##name(pass_ctx *ctx, bool *out_changed);
#include "passes/passes.def"
#undef PASS

/* Runs the passes of the level to a fixed point. A name in only or never that is no pass is INLAY_INVALID_ARGUMENT. */
INLAY_NODISCARD inlay_status passes_run(pass_ctx *ctx, uint32_t level);
/* The i-th pass: its name and level; NULL past the last. */
const char *pass_name(uint32_t i, uint32_t *out_level);

/* What the pass `gradient` calls: the command line has it, libinlay.so has not and refuses Gradient. To be set before
 * the first session. */
void passes_set_gradient(pass_fn fn);
bool pass_is_gradient(const graph_node *node);

/* DequantizeLinear of constant weights of a few bits that products alone read (packed_weights.c). Memory is the
 * arena's; NULL: none stays, or memory ran out. */
bool *pass_packed_weights(const pass_ctx *ctx, const struct graph *graph, struct arena *arena);

/* ------------------------------------------------------------------ tools for passes */

/* May one more rewrite be done? A pass asks before each and counts it with pass_count. */
static inline bool pass_may(const pass_ctx *ctx)
{
    return ctx->rewrite_limit < 0 || ctx->rewrites < ctx->rewrite_limit;
}
/* May a node of that version of ai.onnx be made? */
static inline bool pass_allows(const pass_ctx *ctx, int64_t opset)
{
    return ctx->newest_opset == 0 || opset <= ctx->newest_opset;
}
/* Counts a rewrite that was done, and tells it when there is a text (NULL: it was told already). */
void pass_count(pass_ctx *ctx, const struct graph *graph, const graph_node *node, const char *text);

typedef inlay_status (*pass_graph_fn)(pass_ctx *ctx, struct graph *graph, bool *changed);
/* Calls fn for graph, then for the bodies of its nodes, to any depth. */
INLAY_NODISCARD inlay_status pass_each_graph(pass_ctx *ctx, struct graph *graph, pass_graph_fn fn, bool *changed);
/* Makes every reader of value v read replacement[v] (INLAY_NONE: unchanged). Outputs of the graph keep theirs. */
void pass_replace_uses(struct graph *graph, const uint32_t *replacement);
/* Keeps in the node's own list what some body still captures. */
void pass_refresh_captures(graph_node *node);
/* Removes the nodes for which drop is set. */
void pass_drop_nodes(struct graph *graph, const bool *drop);
bool pass_is_op(const graph_node *node, const char *op_type);  /* of ai.onnx */
bool pass_is_among(const graph_node *node, const char *names); /* "Add Sub Mul", of ai.onnx */
bool pass_is_output(const struct graph *graph, uint32_t v);
#endif
