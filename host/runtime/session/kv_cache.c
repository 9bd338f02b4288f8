/* session/kv_cache.c - option kv_cache_bits: the caches of keys and values of a model, which are floats, are kept in 8
 * or 4 bits instead, or keys in 8 and values in 4. A cache is an input to which a Concat appends rows, in place or
 * followed by a TensorScatter, and whose result is an output that Attention reads:
 *
 *     past, rows -> Concat -> present -> Attention
 *     past, QuantizeRows(rows) -> Concat -> present -> CachedAttention
 *
 * (ops/inlay/cache_rows.c). The formats of the input and of the output change to bytes. An Attention that
 * CachedAttention cannot express reads DequantizeRows(present). This runs after the optimiser, which makes Attention.
 * */
#include "base/memory.h"
#include "passes/pass.h"
#include "session/session.h"
#include <string.h>

enum { ROW_AXIS = 2, SIZE_AXIS = 3 };

struct cache {
    graph_node *concat, *scatter; /* scatter: NULL = none */
    uint32_t past, present;
    int64_t size; /* of a row */
    bool values;  /* no Attention reads it as keys */
};

/* Returns true if the node reads only sizes of the value other than the size of a row, which changes: a Shape of the
 * axes before the last one, or a Shape whose readers are Gathers of one of these axes. */
static bool reads_sizes(const struct graph *graph, const graph_node *node)
{
    const uint32_t shape = node->info.outputs[0];

    if (!pass_is_op(node, "Shape") || pass_is_output(graph, shape))
        return false;
    if (graph_attr_int(node, "end", SIZE_AXIS + 1) <= SIZE_AXIS) /* negative: counted from the end */
        return true;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *reader = graph->nodes[i];
        const inlay_value_info *index;
        int64_t at = -1;

        if (!graph_node_reads(reader, shape))
            continue;
        index = pass_is_op(reader, "Gather") && reader->info.inputs[0] == shape
                    ? &graph->values[reader->info.inputs[1]].info
                    : NULL;
        if (index == NULL || index->dtype != INLAY_INT64 || index->data == NULL || index->data_bytes != sizeof at)
            return false;
        memcpy(&at, index->data, sizeof at);
        if (at < 0 || at >= SIZE_AXIS)
            return false;
    }
    return true;
}

/* The only node that reads the elements of the value; NULL: none, or several. */
static graph_node *only_reader(const struct graph *graph, uint32_t value)
{
    graph_node *found = NULL;

    for (uint32_t i = 0; i < graph->node_count; i++)
        if (graph_node_reads(graph->nodes[i], value) && !reads_sizes(graph, graph->nodes[i])) {
            if (found != NULL)
                return NULL;
            found = graph->nodes[i];
        }
    return found;
}

static bool has_axis(const graph_node *node)
{
    const inlay_attr_info *axis = graph_attr(node, "axis");
    const int64_t value = axis != NULL ? axis->i : ROW_AXIS; /* TensorScatter has -2 */

    return value == ROW_AXIS || value == ROW_AXIS - 4;
}

static bool is_attention(const graph_node *node)
{
    return strcmp(node->info.op_type.data, "Attention") == 0 &&
           (strcmp(node->info.domain.data, "ai.onnx") == 0 || strcmp(node->info.domain.data, "ai.inlay") == 0);
}

/* Whether Attention, at least one, is all that reads the elements of the present rows. *out_values: only as values. */
static bool is_read_by_attention(const struct graph *graph, uint32_t value, bool *out_values)
{
    uint32_t count = 0;

    *out_values = true;

    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];
        uint32_t places = 0;

        if (!graph_node_reads(node, value) || reads_sizes(graph, node))
            continue;
        for (uint32_t k = 0; k < node->info.input_count; k++)
            places |= node->info.inputs[k] == value ? 1u << (k < 3 ? k : 3) : 0;
        if (!is_attention(node) || (places & ~6u) != 0)
            return false;
        *out_values &= places == 4;
        count++;
    }
    return count > 0;
}

/* Fills *out if the input is a cache in floats. */
static bool find_cache(const struct graph *graph, uint32_t past, struct cache *out)
{
    const inlay_value_info *info = &graph->values[past].info;
    graph_node *concat;

    if (info->kind != INLAY_VALUE_TENSOR || info->dtype != INLAY_FLOAT || info->rank != SIZE_AXIS + 1 ||
        info->dims[SIZE_AXIS].kind != INLAY_DIM_FIXED || info->dims[SIZE_AXIS].value < 1 ||
        graph->values[past].has_default || pass_is_output(graph, past))
        return false;
    concat = only_reader(graph, past);
    if (concat == NULL || !pass_is_op(concat, "Concat") || concat->info.input_count != 2 ||
        concat->info.inputs[0] != past || !has_axis(concat))
        return false;
    *out = (struct cache){
        .concat = concat, .past = past, .present = concat->info.outputs[0], .size = info->dims[SIZE_AXIS].value
    };
    if (!pass_is_output(graph, out->present)) {
        graph_node *scatter = only_reader(graph, out->present);

        if (scatter == NULL || !pass_is_op(scatter, "TensorScatter") || scatter->info.inputs[0] != out->present ||
            scatter->info.inputs[1] == out->present || !has_axis(scatter))
            return false;
        out->scatter = scatter;
        out->present = scatter->info.outputs[0];
    }
    return pass_is_output(graph, out->present) && is_read_by_attention(graph, out->present, &out->values);
}

/* Puts a node of ai.inlay between input i of the reader and its producer. NULL: out of memory. */
static graph_node *insert(struct graph *graph, graph_node *reader, uint32_t i, const char *op_type, int64_t bits)
{
    const char *name = arena_format(&graph->model->arena, "%s/%s_%u", reader->info.name.data, op_type, i);
    graph_node *node = name == NULL ? NULL : graph_add_node(graph, op_type, "ai.inlay", name, 1, 1);
    const uint32_t value = node == NULL ? INLAY_NONE : graph_add_value(graph, NULL, 0);

    if (value == INLAY_NONE || graph_set_attr_int(graph, node, "bits", bits) != INLAY_OK)
        return NULL;
    graph->values[value].info.kind = INLAY_VALUE_TENSOR;
    ((uint32_t *)(uintptr_t)node->info.inputs)[0] = reader->info.inputs[i];
    ((uint32_t *)(uintptr_t)node->info.outputs)[0] = value;
    ((uint32_t *)(uintptr_t)reader->info.inputs)[i] = value;
    return node;
}

/* Makes the value, an input or output of the model, rows of bytes. */
static bool declare_bytes(struct graph *graph, uint32_t index, int64_t row_bytes)
{
    graph_value *value = &graph->values[index];
    inlay_dim *dims = value->info.rank != SIZE_AXIS + 1
                          ? NULL
                          : arena_copy(&graph->model->arena, value->info.dims, value->info.rank * sizeof *dims);
    inlay_dim *declared = value->declared_rank != SIZE_AXIS + 1
                              ? NULL
                              : arena_copy(&graph->model->arena, value->declared_dims, sizeof *dims * (SIZE_AXIS + 1));

    if ((dims == NULL && value->info.rank == SIZE_AXIS + 1) ||
        (declared == NULL && value->declared_rank == SIZE_AXIS + 1))
        return false;
    value->info.dtype = value->declared_dtype = INLAY_UINT8;
    if (dims != NULL) {
        dims[SIZE_AXIS] = (inlay_dim){ .value = row_bytes, .kind = INLAY_DIM_FIXED };
        value->info.dims = dims;
    }
    if (declared != NULL) {
        declared[SIZE_AXIS] = (inlay_dim){ .value = row_bytes, .kind = INLAY_DIM_FIXED };
        value->declared_dims = declared;
    }
    return true;
}

/* false: out of memory. */
static bool shrink(struct graph *graph, const struct cache *cache, int64_t bits)
{
    const int64_t row_bytes = (cache->size * bits + 7) / 8 + (int64_t)sizeof(float);
    const uint32_t count = graph->node_count;

    if (insert(graph, cache->concat, 1, "QuantizeRows", bits) == NULL ||
        (cache->scatter != NULL && insert(graph, cache->scatter, 1, "QuantizeRows", bits) == NULL))
        return false;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 1; is_attention(graph->nodes[i]) && k < 3; k++) {
            graph_node *node;

            if (graph->nodes[i]->info.inputs[k] != cache->present)
                continue;
            node = insert(graph, graph->nodes[i], k, "DequantizeRows", bits);
            if (node == NULL || graph_set_attr_int(graph, node, "size", cache->size) != INLAY_OK)
                return false;
        }
    if (cache->scatter != NULL)
        graph->values[cache->concat->info.outputs[0]].declared = false;
    return declare_bytes(graph, cache->past, row_bytes) && declare_bytes(graph, cache->present, row_bytes);
}

/* The DequantizeRows that makes input i of an Attention; NULL: another node. */
static const graph_node *dequantized(const struct graph *graph, const graph_node *node, uint32_t i)
{
    for (uint32_t k = 0; i < node->info.input_count && k < graph->node_count; k++)
        if (graph->nodes[k]->info.outputs[0] == node->info.inputs[i] &&
            strcmp(graph->nodes[k]->info.op_type.data, "DequantizeRows") == 0)
            return graph->nodes[k];
    return NULL;
}

/* The sinks of an Attention of inlay; INLAY_NONE: none. */
static uint32_t sink_of(const graph_node *node)
{
    return strcmp(node->info.domain.data, "ai.inlay") == 0 && node->info.input_count > 5 ? node->info.inputs[5]
                                                                                         : INLAY_NONE;
}

/* Whether CachedAttention with other keys and values computes the same as this Attention. */
static bool is_expressible(const struct graph *graph, const graph_node *node)
{
    const uint32_t mask = node->info.input_count > 3 ? node->info.inputs[3] : INLAY_NONE;

    if (strcmp(node->info.domain.data, "ai.inlay") == 0)
        return true;
    for (uint32_t i = 4; i < node->info.input_count; i++)
        if (node->info.inputs[i] != INLAY_NONE)
            return false;
    for (uint32_t o = 1; o < node->info.output_count; o++)
        if (node->info.outputs[o] != INLAY_NONE)
            return false;
    return graph_attr_int(node, "is_causal", 0) == 0 && graph_attr_int(node, "left_window_size", -1) < 0 &&
           graph_attr_int(node, "right_window_size", -1) < 0 &&
           graph->values[node->info.inputs[0]].info.rank == SIZE_AXIS + 1 &&
           (mask == INLAY_NONE || graph->values[mask].info.dtype == INLAY_FLOAT);
}

/* Makes a CachedAttention of an Attention of dequantized keys and values. false: out of memory. */
static bool read_codes(struct graph *graph, uint32_t at, const graph_node *keys, const graph_node *values)
{
    const graph_node *old = graph->nodes[at];
    const bool own = strcmp(old->info.domain.data, "ai.inlay") == 0;
    const uint32_t sink = sink_of(old), count = sink != INLAY_NONE ? 5 : old->info.input_count;
    graph_node *node = graph_add_node(graph, "CachedAttention", "ai.inlay", old->info.name.data,
                                      sink != INLAY_NONE ? 8 : old->info.input_count, 1);
    const double scale = graph_attr_float(old, "scale", 0), softcap = graph_attr_float(old, "softcap", 0);
    uint32_t *inputs;

    if (node == NULL)
        return false;
    inputs = (uint32_t *)(uintptr_t)node->info.inputs;
    memcpy(inputs, old->info.inputs, count * sizeof *inputs);
    if (sink != INLAY_NONE) {
        inputs[5] = inputs[6] = INLAY_NONE; /* scales */
        inputs[7] = sink;
    }
    inputs[1] = keys->info.inputs[0];
    inputs[2] = values->info.inputs[0];
    ((uint32_t *)(uintptr_t)node->info.outputs)[0] = old->info.outputs[0];
    graph->nodes[at] = node;
    graph->node_count--; /* the node was moved to the place of `old` */
    return graph_set_attr_int(graph, node, "bits", graph_attr_int(keys, "bits", 8)) == INLAY_OK &&
           graph_set_attr_int(graph, node, "value_bits", graph_attr_int(values, "bits", 8)) == INLAY_OK &&
           graph_set_attr_int(graph, node, "value_size", graph_attr_int(values, "size", 0)) == INLAY_OK &&
           graph_set_attr_int(graph, node, "causal", own ? graph_attr_int(old, "causal", 0) : 0) == INLAY_OK &&
           graph_set_attr_string(graph, node, "blank",
                                 !own || sink != INLAY_NONE               ? "zero"
                                 : graph_attr_int(old, "guarded", 0) != 0 ? "guarded"
                                                                          : "nan") == INLAY_OK &&
           (scale == 0 || graph_set_attr_float(graph, node, "scale", scale) == INLAY_OK) &&
           (softcap == 0 || graph_set_attr_float(graph, node, "softcap", softcap) == INLAY_OK);
}

/* Drops the DequantizeRows that no node reads any more. */
static void drop_unread(struct graph *graph)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < graph->node_count; i++) {
        bool is_read = strcmp(graph->nodes[i]->info.op_type.data, "DequantizeRows") != 0;

        for (uint32_t k = 0; !is_read && k < graph->node_count; k++)
            is_read = graph_node_reads(graph->nodes[k], graph->nodes[i]->info.outputs[0]);
        if (is_read)
            graph->nodes[kept++] = graph->nodes[i];
    }
    graph->node_count = kept;
}

/* Bits of the option: "8", "4", or "8/4", keys and values. 0: as in the model. */
static int64_t bits_of(const inlay_options *options, bool values)
{
    const char *text = options_text(options, OPTION_kv_cache_bits);

    return strcmp(text, "8") == 0 || (text[0] == '8' && !values) ? 8 : strcmp(text, "model") != 0 ? 4 : 0;
}

inlay_status session_shrink_caches(graph_model *model, const inlay_options *options, inlay_diag *diag)
{
    struct graph *graph = model->main;
    inlay_status status = INLAY_OK;
    bool any = false;

    for (uint32_t i = 0; bits_of(options, false) != 0 && i < graph->input_count; i++) {
        struct cache cache;

        if (!find_cache(graph, graph->inputs[i], &cache))
            continue;
        if (!shrink(graph, &cache, bits_of(options, cache.values)))
            return no_memory(diag, "for option kv_cache_bits");
        any = true;
    }
    if (!any)
        return INLAY_OK;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i], *keys = is_attention(node) ? dequantized(graph, node, 1) : NULL,
                         *values = keys != NULL ? dequantized(graph, node, 2) : NULL;

        if (values != NULL && is_expressible(graph, node) && !read_codes(graph, i, keys, values))
            return no_memory(diag, "for option kv_cache_bits");
    }
    drop_unread(graph);
    if (!graph_model_import(model, "ai.inlay", 1))
        return no_memory(diag, "for option kv_cache_bits");
    INLAY_TRY(graph_bind(model, NULL, diag));
    INLAY_TRY(graph_finish(graph, diag));
    INLAY_TRY(graph_infer(model, diag));
done:
    return status;
}

inlay_status session_check_caches(const inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    const struct graph *graph = session->model->main;

    for (uint32_t k = 0; bits_of(options, false) != 0 && k < session->env.state_count; k++) {
        const graph_state *state = &session->env.states[k];
        const inlay_value_info *info = &graph->values[graph->inputs[state->input]].info;

        if (state->axis != INLAY_NONE && info->dtype != INLAY_UINT8 && info->dtype != INLAY_INT8)
            return inlay_fail(
                diag, INLAY_UNSUPPORTED,
                "option kv_cache_bits: '%s' cannot be kept in %s bits: it is not of float [batch, heads, positions, "
                "size], or something else than attention reads it; `inlay doctor` lists attention that is not fused",
                info->name.data, options_text(options, OPTION_kv_cache_bits));
    }
    return INLAY_OK;
}
