/* passes/pass.h - the optimiser. Each file holds one pass; passes.def lists them.
 *
 * A pass rewrites the graphs of a model, including bodies, and reports whether it changed anything. The driver runs the
 * list to a fixed point. After a change it sorts the nodes and infers shapes again, so every pass sees a complete
 * graph. */
#ifndef PASSES_PASS_H
#define PASSES_PASS_H
#include "base/memory.h"
#include "passes/reduced_products.h"

/* Computes a node whose inputs are all constants of graph. results has room for the outputs that are not omitted. From
 * GRAPH_LARGE_CONSTANT bytes on, their memory belongs to the model (graph_blob_owns), below to the arena.
 * dying: an input whose memory belongs to the model, and which nothing reads afterwards: result 0 may be in its memory,
 * and on failure its elements are undefined; INLAY_NONE: none.
 * INLAY_UNSUPPORTED: no provider computes the node. INLAY_LIMIT_EXCEEDED: the results would exceed max_bytes. */
typedef inlay_status (*pass_fold_fn)(void *fold_ctx, struct graph *graph, graph_node *node, uint32_t dying,
                                     uint64_t max_bytes, inlay_tensor_view *results, struct arena *arena,
                                     inlay_diag *diag);

/* Returns true if a provider that multiplies 8-bit integers faster than floats offers the node. The node need not be in
 * the graph; `made` describes its output. */
typedef bool (*pass_offers_fn)(void *fold_ctx, const struct graph *graph, const graph_node *node,
                               const inlay_value_info *made);

/* What the providers of the session do for the optimiser: callbacks, because providers are chosen in a later stage. */
typedef struct pass_providers {
    void *ctx;                      /* of these functions */
    pass_fold_fn fold;              /* evaluates constant nodes; NULL: no folding */
    pass_offers_fn offers_integers; /* NULL: no provider has fast integers, and QDQ models are left unchanged */
    /* Returns true if a provider with packed weights offers the node with its sparse matrix unconverted (`made` is
     * NULL). NULL: no such provider, and sparse matrices become dense. */
    pass_offers_fn offers_sparse;
    /* The packed_products (inlay_ext_weights) of all providers, combined by bitwise or: which low-bit weights a
     * provider reads directly. 0: none. */
    uint32_t keeps_weights;
    bool widens_halves; /* a CPU provider is fast at float32: float16 matrix multiplications run in float32 */
} pass_providers;

typedef struct pass_limits {
    uint64_t fold_bytes;      /* a folded constant may exceed the size of its inputs by this much; 0: no folding */
    uint64_t densified_bytes; /* of all sparse matrices that become dense */
    int64_t rewrites;         /* stop after this many rewrites (at level 0 only lowering counts); negative = no limit */
} pass_limits;

/* Names of passes. Level 0 always runs. */
typedef struct pass_choice {
    const char *const *only;  /* [only_count] passes to run in addition to level 0; none = all */
    const char *const *never; /* [never_count] passes to skip */
    uint32_t only_count, never_count;
} pass_choice;

/* What the caller is told of each rewrite. */
typedef struct pass_report {
    void *ctx; /* of both functions */
    /* Called for each node that a rewrite changes or removes. `rewrite` counts from 1; all notes of one rewrite carry
     * the same number. 0: a near miss. May be NULL. */
    void (*note)(void *ctx, const char *pass, int64_t rewrite, const struct graph *graph, const graph_node *node,
                 const char *text);
    /* Called after each pass that changed something, when the model is complete again. A status other than INLAY_OK
     * stops the optimiser. May be NULL. */
    inlay_status (*after)(void *ctx, const char *pass);
    /* Report patterns that nearly match after the last round: `note` gets the number 0, the node that would have been
     * replaced, and the condition that failed. */
    bool near_misses;
} pass_report;

/* Options of the session that passes read. */
typedef struct pass_options {
    /* The model will be written to a file with this opset of ai.onnx: passes make no operators of later opsets, and
     * keep operators of ONNX Runtime, which can read them. 0: no restriction. */
    int64_t newest_opset;
    bool float_activations;     /* option dynamic_activations is floats */
    bool dynamic_rows;          /* option dynamic_activations is rows */
    pass_reduction *reductions; /* [reduction_count] option reduce */
    uint32_t reduction_count;
} pass_options;

/* The state of a run of the optimiser; starts as zeros. */
typedef struct pass_progress {
    const char *pass;  /* the running pass */
    int64_t rewrites;  /* done so far */
    int64_t lowerings; /* how many of them the lowering before level 1 did */
    /* Of constant values above limits.fold_bytes: bytes of the largest value, and the sum of the bytes of all values
     * that were folded because a run reads them, which may not exceed large_most. */
    uint64_t large_most, large_folded;
    uint64_t densified;                   /* bytes of sparse matrices that became dense */
    bool at_end;                          /* the visit for near misses is running, which changes nothing */
    bool quantizes;                       /* the model has a DynamicQuantizeLinear */
    bool lowers;                          /* the lowering before level 1 is running */
    struct type_guard_expected *expected; /* types and shapes that the next inference must confirm */
    struct pass_folded *folded;           /* large folded constants, reused in other bodies */
} pass_progress;

typedef struct pass_ctx {
    graph_model *model;
    pass_providers providers;
    pass_limits limits;
    pass_choice chosen;
    pass_options options;
    pass_report report;
    pass_progress run;
    inlay_diag *diag;
} pass_ctx;

typedef inlay_status (*pass_fn)(pass_ctx *ctx, bool *out_changed);

/* PASS(level, name), REWRITE(level, name): pass_<name> or match_<name> (a rewrite_fn) in <name>.c runs at optimisation
 * levels >= level. LOWERING(name) runs at every level. */
struct rewrite;
#define PASS(level, name) inlay_status pass_##name(pass_ctx *ctx, bool *out_changed);
#define REWRITE(level, name) inlay_status match_##name(struct rewrite *rewrite, graph_node *node);
#include "passes/passes.def"
#undef REWRITE
#undef PASS

/* Runs the passes of the level to a fixed point. An unknown name in `only` or `never` is INLAY_INVALID_ARGUMENT. */
INLAY_NODISCARD inlay_status passes_run(pass_ctx *ctx, uint32_t level);
/* Name and level of the i-th pass; NULL past the last. */
const char *pass_name(uint32_t i, uint32_t *out_level);

/* Finds the DequantizeLinear and Cast nodes of constant low-bit weights that a provider reads packed, so that they must
 * not be folded (packed_weights.c). Returns flags [node_count] in the arena; NULL: none, or out of memory. */
bool *pass_packed_weights(const pass_ctx *ctx, const struct graph *graph, struct arena *arena);

/* Returns true if the rewrite limit allows one more rewrite. A pass checks this before each rewrite and counts it with
 * pass_count. */
static inline bool pass_may(const pass_ctx *ctx)
{
    return ctx->limits.rewrites < 0 || ctx->run.rewrites < ctx->limits.rewrites;
}
/* Returns true if operators of that version of ai.onnx may be made. */
static inline bool pass_allows(const pass_ctx *ctx, int64_t opset)
{
    return ctx->options.newest_opset == 0 || opset <= ctx->options.newest_opset;
}
/* Counts a rewrite and reports `text`; text NULL: the rewrite has been reported already. */
void pass_count(pass_ctx *ctx, const struct graph *graph, const graph_node *node, const char *text);

typedef inlay_status (*pass_graph_fn)(pass_ctx *ctx, struct graph *graph, bool *changed);
/* Calls fn for graph, then for all nested bodies. */
INLAY_NODISCARD inlay_status pass_each_graph(pass_ctx *ctx, struct graph *graph, pass_graph_fn fn, bool *changed);
/* Makes the outputs of a node constants, and then sets *out_done, which is false before. */
typedef inlay_status (*pass_constant_fn)(pass_ctx *ctx, struct graph *graph, const graph_node *node, bool *out_done);
/* Calls fn for the nodes of the operator in graph and in all nested bodies, and removes those that became constants. */
INLAY_NODISCARD inlay_status pass_replace_by_constants(pass_ctx *ctx, struct graph *graph, const char *domain,
                                                       const char *op_type, pass_constant_fn fn, bool *changed);
/* Makes every reader of a value v read replacement[v] (INLAY_NONE: unchanged). Outputs of the graph are unchanged. */
void pass_replace_uses(struct graph *graph, const uint32_t *replacement);
/* Removes captures from the node's list that no body uses any more. */
void pass_refresh_captures(graph_node *node);
/* Removes the nodes whose flag in drop[node_count] is set. */
void pass_drop_nodes(struct graph *graph, const bool *drop);
bool pass_is_op(const graph_node *node, const char *op_type);  /* true for that operator of ai.onnx */
bool pass_is_among(const graph_node *node, const char *names); /* names: "Add Sub Mul", operators of ai.onnx */
/* Returns true for operators whose output has the elements of the input in the same order. node may be NULL. */
bool pass_is_view(const graph_node *node);
/* Returns true if value is an output of graph. */
bool pass_is_output(const struct graph *graph, uint32_t value);
#endif
