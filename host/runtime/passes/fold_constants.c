/* Folds nodes whose inputs are all constant, on any provider that offers them. Dequantized 8-bit weights are left to
 * fold_weights, which runs after quantized_ops has converted the nodes that integer kernels run. Weights that a
 * provider reads packed are not folded: as floats they would be up to 16 times as large. */
#include "base/checked.h"
#include "base/element.h"
#include "graph/blobs.h"
#include "passes/type_guard.h"
#include "passes/same_body.h"
#include <string.h>

static bool is_constant(const struct graph *graph, uint32_t value)
{
    return value == INLAY_NONE || (graph->values[value].info.flags & INLAY_VALUE_CONSTANT) != 0;
}

/* Returns true if the node is constant as soon as its inputs are. */
static bool is_pure(const struct graph *graph, const graph_node *node)
{
    if (graph_node_is_random(graph, node) || graph_node_is_host(graph, node) || node->info.output_count == 0 ||
        strcmp(node->info.op_type.data, "SparseToDense") == 0 /* handled by sparse_constants */ ||
        strcmp(node->info.op_type.data, "UnpackBlocks") == 0 /* and by block_constants */)
        return false;
    for (uint32_t i = 0; i < node->info.output_count; i++)
        if (node->info.outputs[i] != INLAY_NONE && (graph->values[node->info.outputs[i]].info.dtype == INLAY_STRING ||
                                                    graph->values[node->info.outputs[i]].info.dtype == INLAY_UNDEFINED))
            return false;
    return true;
}

static bool can_fold(const struct graph *graph, const graph_node *node)
{
    for (uint32_t i = 0; i < node->info.input_count; i++)
        if (!is_constant(graph, node->info.inputs[i]))
            return false;
    return is_pure(graph, node);
}

/* Returns true for the DequantizeLinear of 8-bit weights. */
static bool is_quantized_weights(const struct graph *graph, const graph_node *node)
{
    const inlay_value_info *input = node->info.input_count == 0 || node->info.inputs[0] == INLAY_NONE
                                        ? NULL
                                        : &graph->values[node->info.inputs[0]].info;

    return pass_is_op(node, "DequantizeLinear") && input != NULL && input->rank >= 2 &&
           (input->dtype == INLAY_UINT8 || input->dtype == INLAY_INT8);
}

/* Limits a result to the size of the inputs plus fold_max_bytes: Expand and similar operators produce large results
 * from small inputs at about the speed of memory. Floats converted from low-bit constants are an exception (16 times
 * the input), since converting them in each run is slower than reading them (tests/bench/passes.md). */
static uint64_t size_limit(const pass_ctx *ctx, const struct graph *graph, const graph_node *node)
{
    const uint64_t times = pass_is_op(node, "DequantizeLinear") || pass_is_op(node, "Cast") ? 16 : 1;
    uint64_t bytes = ctx->limits.fold_bytes;

    for (uint32_t i = 0; i < node->info.input_count; i++)
        if (node->info.inputs[i] != INLAY_NONE)
            bytes += times * graph->values[node->info.inputs[i]].info.data_bytes;
    return bytes;
}

/* Infers the node again after its inputs became constant. If an output has another shape than before, *out_same is
 * false and nothing is changed: the inference of the whole model decides. */
static inlay_status infer_again(pass_ctx *ctx, struct graph *graph, const graph_node *node, struct arena *scratch,
                                bool *out_same)
{
    const inlay_value_info **in = arena_array(scratch, (size_t)node->info.input_count + 1, sizeof *in);
    inlay_value_info **out = arena_array(scratch, (size_t)node->info.output_count + 1, sizeof *out);
    graph_value *made = arena_array(scratch, (size_t)node->info.output_count + 1, sizeof *made);
    bool differs = false;
    inlay_status status = INLAY_OK;

    if (in == NULL || out == NULL || made == NULL)
        return no_memory(ctx->diag, "to infer shapes");
    for (uint32_t i = 0; i < node->info.input_count; i++)
        in[i] = node->info.inputs[i] == INLAY_NONE ? NULL : &graph->values[node->info.inputs[i]].info;
    for (uint32_t i = 0; i < node->info.output_count; i++) {
        if (node->info.outputs[i] == INLAY_NONE)
            continue;
        made[i] = graph->values[node->info.outputs[i]];
        out[i] = &made[i].info;
    }
    INLAY_TRY(graph_infer_node(ctx->model, node, in, out, &ctx->model->arena, ctx->diag));
    for (uint32_t i = 0; i < node->info.output_count; i++)
        differs |= out[i] != NULL && type_guard_differs(&graph->values[node->info.outputs[i]], &made[i]);
    *out_same = !type_guard_refuses(ctx->model, differs);
    for (uint32_t i = 0; *out_same && i < node->info.output_count; i++)
        if (out[i] != NULL)
            graph->values[node->info.outputs[i]] = made[i];
done:
    return status;
}

/* Cache of folded nodes.
 *
 * The branches of an If often contain the same node with the same weights at one address. */

typedef struct pass_folded {
    struct pass_folded *next;
    const graph_node *node;
    const inlay_value_info *inputs; /* [input_count] copies of the inputs */
    inlay_tensor_view result;
} pass_folded;

static const inlay_value_info *copy_inputs(const struct graph *graph, const graph_node *node, struct arena *arena)
{
    inlay_value_info *list = arena_array(arena, (size_t)node->info.input_count + 1, sizeof *list);

    for (uint32_t i = 0; list != NULL && i < node->info.input_count; i++)
        if (node->info.inputs[i] != INLAY_NONE)
            list[i] = graph->values[node->info.inputs[i]].info;
    return list;
}

static bool same_input(const inlay_value_info *a, const inlay_value_info *b)
{
    if (a->data != b->data || a->data_bytes != b->data_bytes || a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->dims[d].value != b->dims[d].value)
            return false;
    return true;
}

enum { CACHED_BYTES = 256 << 10 };

/* Finds a large result of the same operator with the same attributes and input addresses; NULL: none. */
static const inlay_tensor_view *find_cached(const pass_ctx *ctx, const struct graph *graph, const graph_node *node)
{
    for (const pass_folded *folded = ctx->run.folded; folded != NULL; folded = folded->next) {
        const graph_node *other = folded->node;
        bool same = other->row == node->row && other->custom == node->custom &&
                    (other->row != NULL || other->custom != NULL) &&
                    other->info.input_count == node->info.input_count && node->info.output_count == 1 &&
                    graph->values[node->info.outputs[0]].info.dtype == folded->result.dtype;

        for (uint32_t i = 0; same && i < node->info.input_count; i++)
            same = node->info.inputs[i] == INLAY_NONE
                       ? folded->inputs[i].data == NULL
                       : same_input(&folded->inputs[i], &graph->values[node->info.inputs[i]].info);
        if (same && same_attrs(node, other))
            return &folded->result;
    }
    return NULL;
}

/* Caches a large result. If out of memory, it is computed again later. */
static void cache_result(pass_ctx *ctx, const struct graph *graph, const graph_node *node,
                         const inlay_tensor_view *result)
{
    struct arena *arena = &ctx->model->arena;
    pass_folded *folded;

    if (result->bytes < CACHED_BYTES || node->info.output_count != 1 ||
        (folded = arena_alloc(arena, sizeof *folded)) == NULL)
        return;
    *folded = (pass_folded){ .next = ctx->run.folded,
                             .node = arena_copy(arena, node, sizeof *node),
                             .inputs = copy_inputs(graph, node, arena),
                             .result = *result };
    folded->result.dims = arena_copy(arena, result->dims, result->rank * sizeof *result->dims);
    if (folded->node != NULL && folded->inputs != NULL && folded->result.dims != NULL)
        ctx->run.folded = folded;
}

/* Releases large inputs from memory. A later reader brings their pages back from the file. */
static void release_inputs(const struct graph *graph, const graph_node *node)
{
    enum { LARGE = 1 << 18 };

    for (uint32_t i = 0; i < node->info.input_count; i++) {
        const inlay_value_info *value =
            node->info.inputs[i] == INLAY_NONE ? NULL : &graph->values[node->info.inputs[i]].info;

        if (value != NULL && value->data_bytes >= LARGE)
            graph_blob_release_pages(graph->model, value->data, (size_t)value->data_bytes);
    }
}

/* Returns true if the result has the type and shape that inference knows. If they differ, the node is not folded, and
 * the run reports the difference. */
static bool matches_type(const graph_value *value, const inlay_tensor_view *view)
{
    const inlay_value_info *info = &value->info;

    if (view->dtype != info->dtype || (info->rank != INLAY_RANK_UNKNOWN && view->rank != info->rank))
        return false;
    for (uint32_t d = 0; info->rank != INLAY_RANK_UNKNOWN && d < view->rank; d++)
        if (info->dims[d].kind == INLAY_DIM_FIXED && info->dims[d].value != view->dims[d])
            return false;
    return true;
}

/* Makes the result a constant of the graph. */
static bool set_result(pass_ctx *ctx, struct graph *graph, uint32_t value, inlay_tensor_view *view)
{
    bool done;

    if (view->bytes < GRAPH_LARGE_CONSTANT || !graph_blob_owns(ctx->model, view->data)) {
        void *data = graph_blob_alloc(ctx->model, view->bytes > 0 ? (size_t)view->bytes : 1);

        if (data != NULL && view->bytes > 0)
            memcpy(data, view->data, (size_t)view->bytes);
        view->data = data;
    }
    return view->data != NULL &&
           type_guard_constant(graph, value, view->dtype, view->rank, view->dims, view->data, view->bytes, &done) ==
               INLAY_OK &&
           done;
}

/* Reads element i of input k of the node, a constant. */
static bool integer_of(const struct graph *graph, const graph_node *node, uint32_t k, uint32_t i, int64_t *out)
{
    const inlay_value_info *value = &graph->values[node->info.inputs[k]].info;

    return value->rank == 1 && (int64_t)i < value->dims[0].value && element_integer(value->dtype, value->data, i, out);
}

static bool has_input(const graph_node *node, uint32_t k)
{
    return k < node->info.input_count && node->info.inputs[k] != INLAY_NONE;
}

/* Returns true if the result of a Slice (opset 10 and later) is contiguous in its input: only one axis is cut, and the
 * axes before it have one element. */
static bool is_contiguous_slice(const struct graph *graph, const graph_node *node, const inlay_value_info *input,
                                const inlay_value_info *output, uint64_t *out_offset)
{
    int64_t axis, start, step, before = 1, inner = 1;
    uint32_t cut = 0;
    bool found;

    if (!pass_is_op(node, "Slice") || node->info.since_version < 10 || !has_input(node, 1) ||
        input->rank != output->rank)
        return false;
    while (cut < input->rank && input->dims[cut].value == output->dims[cut].value)
        before *= input->dims[cut++].value;
    for (uint32_t d = cut + 1; d < input->rank; d++) {
        if (input->dims[d].value != output->dims[d].value)
            return false;
        inner *= input->dims[d].value;
    }
    *out_offset = 0;
    found = cut == input->rank; /* the slice is the whole input */
    for (uint32_t i = 0; integer_of(graph, node, 1, i, &start); i++) {
        axis = i;
        step = 1;
        if ((has_input(node, 3) && !integer_of(graph, node, 3, i, &axis)) ||
            (has_input(node, 4) && !integer_of(graph, node, 4, i, &step)) || step != 1)
            return false;
        axis += axis < 0 ? (int64_t)input->rank : 0;
        if (axis < 0 || axis >= (int64_t)input->rank)
            return false;
        if (axis != (int64_t)cut)
            continue;
        start += start < 0 ? input->dims[cut].value : 0;
        start = start < 0 ? 0 : start;
        if (before != 1 || output->dims[cut].value < 1 || start > input->dims[cut].value - output->dims[cut].value)
            return false;
        *out_offset = (uint64_t)start * (uint64_t)inner * (inlay_dtype_bits(input->dtype) / 8);
        found = true;
    }
    return found && inlay_dtype_bits(input->dtype) % 8 == 0;
}

/* Folds views (another shape, the same type, or a contiguous slice) without copying: the result shares the memory.
 * *out_done: the node was a view. */
static inlay_status fold_view(struct graph *graph, const graph_node *node, struct arena *scratch, bool *out_done)
{
    const bool view = pass_is_among(node, "Reshape Flatten Squeeze Unsqueeze Identity Cast CastLike");
    const inlay_value_info *input, *output;
    uint64_t offset = 0;
    int64_t *dims, count = 1;
    size_t bytes;

    *out_done = false;
    if ((!view && !pass_is_op(node, "Slice")) || node->info.output_count != 1 || !has_input(node, 0) ||
        node->info.outputs[0] == INLAY_NONE)
        return INLAY_OK;
    input = &graph->values[node->info.inputs[0]].info;
    output = &graph->values[node->info.outputs[0]].info;
    if (input->dtype != output->dtype || input->data_bytes == 0 || output->rank > INLAY_MAX_RANK)
        return INLAY_OK;
    dims = arena_array(scratch, (size_t)output->rank + 1, sizeof *dims);
    if (dims == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t d = 0; d < output->rank; d++) {
        if (output->dims[d].kind != INLAY_DIM_FIXED)
            return INLAY_OK;
        dims[d] = output->dims[d].value;
    }
    if (!dims_count(dims, output->rank, &count) || !dtype_bytes(output->dtype, count, &bytes) || bytes == 0 ||
        (view ? bytes != input->data_bytes
              : !is_contiguous_slice(graph, node, input, output, &offset) || offset > input->data_bytes ||
                    bytes > input->data_bytes - offset))
        return INLAY_OK;
    return type_guard_constant(graph, node->info.outputs[0], input->dtype, output->rank, dims,
                               (const char *)input->data + offset, bytes, out_done);
}

/* lasting: the inputs stay in memory, so that the result may be a view of them. dying: see pass_fold_fn. */
static inlay_status fold_node(pass_ctx *ctx, struct graph *graph, graph_node *node, uint64_t limit, bool lasting,
                              uint32_t dying, struct arena *scratch, bool *out_folded)
{
    inlay_tensor_view *results = arena_array(scratch, (size_t)node->info.output_count + 1, sizeof *results);
    inlay_diag quiet = INLAY_DIAG_INIT;
    bool same = false;
    inlay_status status = infer_again(ctx, graph, node, scratch, &same);
    const inlay_tensor_view *cached;
    uint32_t k = 0;

    *out_folded = false;
    if (status != INLAY_OK || !same)
        return status;
    if (results == NULL || (lasting && fold_view(graph, node, scratch, out_folded) != INLAY_OK))
        return no_memory(ctx->diag, "to fold node '%s'", node->info.name.data);
    if (*out_folded)
        return INLAY_OK;
    cached = lasting ? find_cached(ctx, graph, node) : NULL;
    if (cached != NULL)
        results[0] = *cached;
    else
        status = ctx->providers.fold(ctx->providers.ctx, graph, node, dying, limit, results, scratch, &quiet);
    if (cached == NULL)
        release_inputs(graph, node);
    if (status == INLAY_OUT_OF_MEMORY)
        return inlay_fail(ctx->diag, status, "no memory to fold node '%s'", node->info.name.data);
    if (status != INLAY_OK)
        return INLAY_OK; /* the run reports the error, if it reaches the node: it may be in a dead branch */
    for (uint32_t i = 0; i < node->info.output_count; i++)
        if (node->info.outputs[i] != INLAY_NONE && !matches_type(&graph->values[node->info.outputs[i]], &results[k++]))
            return INLAY_OK;
    k = 0;
    for (uint32_t i = 0; i < node->info.output_count; i++) {
        if (node->info.outputs[i] == INLAY_NONE)
            continue;
        if (!set_result(ctx, graph, node->info.outputs[i], &results[k]))
            return no_memory(ctx->diag, "to fold node '%s'", node->info.name.data);
        k++;
    }
    if (cached == NULL && k == 1 && lasting)
        cache_result(ctx, graph, node, &results[0]);
    *out_folded = true;
    return INLAY_OK;
}

/* Chains with large values.
 *
 * A node whose result is too large to be kept, such as Expand, may be part of a chain of constant nodes. If the last
 * result of the chain is small, or if a run reads it, only this result becomes a constant, and the values before it are
 * freed. A run would otherwise allocate memory for a large end: all large ends together may not exceed the largest
 * value of a chain. */

enum { CHAIN_MOST = 256 << 20 }; /* bytes of the values of one chain */

struct chain {
    bool *pure;       /* [node_count] constant, though not folded */
    bool *needed;     /* [node_count] by the end that is being folded */
    bool *is_read;    /* [value_count] by a node that is not constant; outputs of a graph would be copied */
    bool *temporary;  /* [value_count] a constant only while that end is being folded */
    graph_value *was; /* [value_count] of temporary constants */
    uint32_t *last;   /* [value_count] the last needed node that reads it */
    uint64_t *bytes;  /* [value_count] of results of pure nodes */
};

/* Bytes of the node's only result; 0: not known. */
static uint64_t result_bytes(const struct graph *graph, const graph_node *node)
{
    const inlay_value_info *info = node->info.output_count == 1 && node->info.outputs[0] != INLAY_NONE
                                       ? &graph->values[node->info.outputs[0]].info
                                       : NULL;
    int64_t dims[INLAY_MAX_RANK], count;
    size_t bytes;

    if (info == NULL || info->kind != INLAY_VALUE_TENSOR || info->rank > INLAY_MAX_RANK)
        return 0;
    for (uint32_t d = 0; d < info->rank; d++) {
        if (info->dims[d].kind != INLAY_DIM_FIXED)
            return 0;
        dims[d] = info->dims[d].value;
    }
    return dims_count(dims, info->rank, &count) && dtype_bytes(info->dtype, count, &bytes) ? bytes : 0;
}

/* Finds the nodes that are constant, though not folded. Returns false if there are none. */
static bool find_pure(pass_ctx *ctx, const struct graph *graph, const bool *packed, const bool *folded,
                      struct chain *chain)
{
    bool any = false;

    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];
        bool pure = !folded[i] && (packed == NULL || !packed[i]) && is_pure(graph, node) &&
                    !is_quantized_weights(graph, node) && node->info.input_count > 0;
        uint64_t bytes = pure ? result_bytes(graph, node) : 0;

        for (uint32_t k = 0; pure && k < node->info.input_count; k++)
            pure = is_constant(graph, node->info.inputs[k]) || chain->bytes[node->info.inputs[k]] > 0;
        chain->pure[i] = pure && bytes > 0;
        if (chain->pure[i]) {
            chain->bytes[node->info.outputs[0]] = bytes;
            ctx->run.large_most = bytes > ctx->run.large_most ? bytes : ctx->run.large_most;
        }
        any |= chain->pure[i];
        for (uint32_t k = 0; !chain->pure[i] && !folded[i] && k < node->info.input_count; k++)
            if (node->info.inputs[k] != INLAY_NONE)
                chain->is_read[node->info.inputs[k]] = true;
        for (uint32_t k = 0; !folded[i] && k < node->capture_count; k++)
            chain->is_read[node->captures[k]] = true;
    }
    return any;
}

/* Marks the pure nodes before node `end`, in the order of nodes. Returns the bytes of their results. */
static uint64_t mark_needed(const struct graph *graph, uint32_t end, struct chain *chain)
{
    uint64_t sum = 0;

    memset(chain->needed, 0, graph->node_count * sizeof *chain->needed);
    chain->needed[end] = true;
    for (uint32_t i = end + 1; i-- > 0;)
        for (uint32_t k = 0; chain->needed[i] && k < graph->nodes[i]->info.input_count; k++) {
            const uint32_t value = graph->nodes[i]->info.inputs[k];

            if (is_constant(graph, value) || chain->needed[graph->values[value].info.producer])
                continue;
            chain->last[value] = i; /* nodes are visited backwards */
            INLAY_CHECK(graph->values[value].info.producer < i);
            chain->needed[graph->values[value].info.producer] = true;
            sum += chain->bytes[value];
        }
    return sum;
}

/* Makes the value a result of a node again, if it is a temporary constant. taken: memory that is in use. */
static void drop_temporary(struct graph *graph, uint32_t value, const void *taken, struct chain *chain)
{
    if (value == INLAY_NONE || !chain->temporary[value])
        return;
    if (graph->values[value].info.data != taken)
        graph_blob_free(graph->model, graph->values[value].info.data);
    graph->values[value] = chain->was[value];
    chain->temporary[value] = false;
}

/* A temporary constant of `bytes` bytes that node `at` reads last, and once; INLAY_NONE: none. */
static uint32_t find_dying(const struct graph *graph, uint32_t at, uint64_t bytes, const struct chain *chain)
{
    const inlay_node_info *node = &graph->nodes[at]->info;

    for (uint32_t k = 0; bytes >= GRAPH_LARGE_CONSTANT && k < node->input_count; k++) {
        const uint32_t value = node->inputs[k];
        bool once = value != INLAY_NONE && chain->temporary[value] && chain->last[value] == at &&
                    graph->values[value].info.data_bytes == bytes;

        for (uint32_t other = 0; other < node->input_count; other++)
            once = once && (other == k || node->inputs[other] != value);
        if (once)
            return value;
    }
    return INLAY_NONE;
}

/* Folds a needed node, if possible in the memory of an input, and frees the temporary constants that no later one
 * reads. */
static inlay_status fold_needed(pass_ctx *ctx, struct graph *graph, uint32_t at, uint64_t limit, struct chain *chain,
                                bool *out_folded)
{
    const graph_node *node = graph->nodes[at];
    const uint32_t output = node->info.outputs[0];
    struct arena scratch = { 0 };
    inlay_status status = fold_node(ctx, graph, graph->nodes[at], limit, false,
                                    find_dying(graph, at, chain->bytes[output], chain), &scratch, out_folded);
    const void *taken = *out_folded ? graph->values[output].info.data : NULL;

    for (uint32_t k = 0; k < node->info.input_count; k++)
        if (node->info.inputs[k] != INLAY_NONE && chain->last[node->info.inputs[k]] == at)
            drop_temporary(graph, node->info.inputs[k], taken, chain);
    arena_deinit(&scratch);
    return status;
}

/* Folds node `end` with temporary results of the nodes before it. */
static inlay_status fold_end(pass_ctx *ctx, struct graph *graph, uint32_t end, uint64_t limit, struct chain *chain,
                             bool *out_folded)
{
    inlay_status status = INLAY_OK;
    bool folded = true;

    for (uint32_t i = 0; status == INLAY_OK && folded && i < end; i++)
        if (chain->needed[i]) {
            const uint32_t value = graph->nodes[i]->info.outputs[0];

            chain->was[value] = graph->values[value];
            status = fold_needed(ctx, graph, i, chain->bytes[value], chain, &folded);
            chain->temporary[value] = status == INLAY_OK && folded;
            if (!chain->temporary[value])
                graph->values[value] = chain->was[value];
        }
    if (status == INLAY_OK && folded)
        status = fold_needed(ctx, graph, end, limit, chain, out_folded);
    for (uint32_t i = 0; i < end; i++)
        if (chain->needed[i])
            drop_temporary(graph, graph->nodes[i]->info.outputs[0], NULL, chain);
    return status;
}

static inlay_status fold_chains(pass_ctx *ctx, struct graph *graph, const bool *packed, bool *drop, bool *any)
{
    struct arena arena = { 0 };
    struct chain chain = { .pure = arena_array(&arena, (size_t)graph->node_count + 1, sizeof(bool)),
                           .needed = arena_array(&arena, (size_t)graph->node_count + 1, sizeof(bool)),
                           .is_read = arena_array(&arena, (size_t)graph->value_count + 1, sizeof(bool)),
                           .temporary = arena_array(&arena, (size_t)graph->value_count + 1, sizeof(bool)),
                           .last = arena_array(&arena, (size_t)graph->value_count + 1, sizeof *chain.last),
                           .was = arena_array(&arena, (size_t)graph->value_count + 1, sizeof *chain.was),
                           .bytes = arena_array(&arena, (size_t)graph->value_count + 1, sizeof *chain.bytes) };
    inlay_status status = INLAY_OK;

    if (chain.temporary == NULL || chain.last == NULL || chain.pure == NULL || chain.needed == NULL ||
        chain.is_read == NULL || chain.was == NULL || chain.bytes == NULL) {
        arena_deinit(&arena);
        return no_memory(ctx->diag, "to fold constants");
    }
    if (!find_pure(ctx, graph, packed, drop, &chain))
        goto done;
    for (uint32_t i = 0; i < graph->node_count && status == INLAY_OK; i++) {
        const uint64_t bytes = chain.pure[i] ? chain.bytes[graph->nodes[i]->info.outputs[0]] : 0;
        const bool small = bytes <= ctx->limits.fold_bytes,
                   kept = ctx->options.newest_opset == 0 && ctx->run.large_folded + bytes <= ctx->run.large_most &&
                          chain.is_read[graph->nodes[i]->info.outputs[0]];

        if (bytes == 0 || (!small && !kept) || ctx->limits.fold_bytes == 0 || !pass_may(ctx) ||
            mark_needed(graph, i, &chain) > CHAIN_MOST || bytes > CHAIN_MOST)
            continue;
        INLAY_TRY(fold_end(ctx, graph, i, bytes, &chain, &drop[i]));
        if (!drop[i])
            continue;
        ctx->run.large_folded += small ? 0 : bytes;
        *any = true;
        pass_count(ctx, graph, graph->nodes[i], "is constant");
    }
done:
    arena_deinit(&arena);
    return status;
}

static inlay_status visit(pass_ctx *ctx, struct graph *graph, bool weights, bool *changed)
{
    struct arena scratch = { 0 };
    bool *drop = arena_array(&ctx->model->arena, (size_t)graph->node_count + 1, sizeof *drop);
    inlay_status status = INLAY_OK;
    const bool *packed = pass_packed_weights(ctx, graph, &ctx->model->arena);
    bool any = false;

    if (drop == NULL)
        return no_memory(ctx->diag, "to fold constants");
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (!can_fold(graph, graph->nodes[i]) || is_quantized_weights(graph, graph->nodes[i]) != weights ||
            (packed != NULL && packed[i]) || !pass_may(ctx))
            continue;
        INLAY_TRY(fold_node(ctx, graph, graph->nodes[i], size_limit(ctx, graph, graph->nodes[i]), true, INLAY_NONE,
                            &scratch, &drop[i]));
        any |= drop[i];
        if (drop[i])
            pass_count(ctx, graph, graph->nodes[i], "is constant");
        arena_reset(&scratch);
    }
    if (!weights)
        INLAY_TRY(fold_chains(ctx, graph, packed, drop, &any));
    if (any)
        pass_drop_nodes(graph, drop);
    *changed |= any;
done:
    arena_deinit(&scratch);
    return status;
}

static inlay_status visit_others(pass_ctx *ctx, struct graph *graph, bool *changed)
{
    return visit(ctx, graph, false, changed);
}

static inlay_status visit_weights(pass_ctx *ctx, struct graph *graph, bool *changed)
{
    return visit(ctx, graph, true, changed);
}

inlay_status pass_fold_constants(pass_ctx *ctx, bool *out_changed)
{
    return ctx->providers.fold == NULL ? INLAY_OK : pass_each_graph(ctx, ctx->model->main, visit_others, out_changed);
}

inlay_status pass_fold_weights(pass_ctx *ctx, bool *out_changed)
{
    return ctx->providers.fold == NULL ? INLAY_OK : pass_each_graph(ctx, ctx->model->main, visit_weights, out_changed);
}
