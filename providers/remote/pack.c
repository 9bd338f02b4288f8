#include "remote/pack.h"
#include "base/hash.h"
#include "inlay/execution.h"
#include <stdlib.h>
#include <string.h>

enum { OWN_COPY_BYTES = 256 }; /* smaller constants are stored with the graph */

static bool has_constant(const inlay_value_info *value)
{
    return value->data != NULL && value->data_bytes > OWN_COPY_BYTES && value->content_hash != 0 &&
           value->dtype != INLAY_STRING;
}

static uint64_t hash_text(uint64_t hash, inlay_str text)
{
    return hash_bytes(text.data, text.bytes, hash);
}

static uint64_t hash_value(uint64_t hash, const inlay_value_info *value)
{
    hash = hash_u64(hash_text(hash, value->name), (uint64_t)value->kind << 32 | value->flags);
    hash = hash_u64(hash, (uint64_t)(uint32_t)value->dtype << 32 | value->rank);
    if (value->rank != INLAY_RANK_UNKNOWN)
        hash = hash_bytes(value->dims, value->rank * sizeof *value->dims, hash);
    hash = hash_u64(hash_u64(hash, value->data_bytes), value->content_hash);
    if (value->data != NULL && !has_constant(value) && value->dtype != INLAY_STRING)
        hash = hash_bytes(value->data, value->data_bytes, hash);
    if (value->elements != NULL)
        hash = hash_bytes(value->elements, value->element_count * sizeof *value->elements, hash);
    return hash_u64(hash, value->producer);
}

uint64_t isolate_graph_key(const inlay_graph *graph)
{
    uint64_t hash = hash_u64(graph->content_hash, (uint64_t)graph->node_count << 32 | graph->value_count);

    for (uint32_t i = 0; i < graph->node_count; i++)
        hash = hash_text(hash, inlay_graph_node(graph, i)->name);
    for (uint32_t i = 0; i < graph->value_count; i++)
        hash = hash_value(hash, inlay_graph_value(graph, i));
    for (uint32_t i = 0; i < graph->symbol_count; i++) {
        const inlay_symbol_info *symbol = INLAY_AT(inlay_symbol_info, graph->symbols, graph->symbol_stride, i);

        hash = hash_u64(hash_u64(hash_text(hash, symbol->name), (uint64_t)symbol->min), (uint64_t)symbol->max);
    }
    return hash;
}

static inlay_str copy_text(isolate_arena *arena, inlay_str text)
{
    char *copy = text.data != NULL ? isolate_arena_alloc(arena, text.bytes + 1) : NULL;

    if (copy == NULL)
        return (inlay_str){ 0 };
    memcpy(copy, text.data, text.bytes);
    copy[text.bytes] = '\0';
    return (inlay_str){ copy, text.bytes };
}

static const void *copy_list(isolate_arena *arena, const void *list, size_t count, size_t item_bytes)
{
    return list != NULL ? isolate_arena_copy(arena, list, count * item_bytes) : NULL;
}

static const inlay_str *copy_texts(isolate_arena *arena, const inlay_str *texts, uint64_t count)
{
    inlay_str *copy = texts != NULL ? isolate_arena_alloc(arena, count * sizeof *copy) : NULL;

    for (uint64_t i = 0; copy != NULL && i < count; i++) {
        inlay_str text;

        memcpy(&text, (const char *)texts + i * sizeof text, sizeof text); /* may be misaligned */
        copy[i] = copy_text(arena, text);
    }
    return copy;
}

static const void *copy_data(isolate_arena *arena, const void *data, uint64_t bytes, inlay_dtype dtype)
{
    return dtype == INLAY_STRING ? copy_texts(arena, data, bytes / sizeof(inlay_str))
                                 : copy_list(arena, data, bytes, 1);
}

static const inlay_tensor_view *copy_tensor(isolate_arena *arena, const inlay_tensor_view *tensor)
{
    inlay_tensor_view *copy = isolate_arena_copy(arena, tensor, sizeof *tensor);

    if (copy == NULL)
        return NULL;
    copy->dims = copy_list(arena, tensor->dims, tensor->rank, sizeof *tensor->dims);
    copy->data = copy_data(arena, tensor->data, tensor->bytes, tensor->dtype);
    return copy;
}

static const inlay_attr_info *copy_attrs(isolate_arena *arena, const inlay_node_info *node)
{
    inlay_attr_info *copy = isolate_arena_alloc(arena, node->attr_count * sizeof *copy);

    for (uint32_t i = 0; copy != NULL && i < node->attr_count; i++) {
        const inlay_attr_info *attr = INLAY_AT(inlay_attr_info, node->attrs, node->attr_stride, i);

        copy[i] = *attr;
        copy[i].name = copy_text(arena, attr->name);
        copy[i].s = copy_text(arena, attr->s);
        copy[i].ints = copy_list(arena, attr->ints, attr->count, sizeof *attr->ints);
        copy[i].floats = copy_list(arena, attr->floats, attr->count, sizeof *attr->floats);
        copy[i].strings = copy_texts(arena, attr->strings, attr->count);
        copy[i].tensor =
            attr->kind == INLAY_ATTR_TENSOR && attr->tensor != NULL ? copy_tensor(arena, attr->tensor) : NULL;
    }
    return copy;
}

static const inlay_node_info *copy_nodes(isolate_arena *arena, const inlay_graph *graph)
{
    inlay_node_info *copy = isolate_arena_alloc(arena, graph->node_count * sizeof *copy);

    for (uint32_t i = 0; copy != NULL && i < graph->node_count; i++) {
        const inlay_node_info *node = inlay_graph_node(graph, i);

        copy[i] = *node;
        copy[i].name = copy_text(arena, node->name);
        copy[i].domain = copy_text(arena, node->domain);
        copy[i].op_type = copy_text(arena, node->op_type);
        copy[i].inputs = copy_list(arena, node->inputs, node->input_count, sizeof *node->inputs);
        copy[i].outputs = copy_list(arena, node->outputs, node->output_count, sizeof *node->outputs);
        copy[i].attrs = copy_attrs(arena, node);
        copy[i].attr_stride = sizeof(inlay_attr_info);
        copy[i].bodies = NULL;
        copy[i].body_count = 0;
    }
    return copy;
}

static const inlay_value_info *copy_values(isolate_constants *constants, isolate_graph *out, const inlay_graph *graph)
{
    inlay_value_info *copy = isolate_arena_alloc(&out->arena, graph->value_count * sizeof *copy);

    for (uint32_t i = 0; copy != NULL && i < graph->value_count; i++) {
        const inlay_value_info *value = inlay_graph_value(graph, i);

        copy[i] = *value;
        copy[i].name = copy_text(&out->arena, value->name);
        copy[i].dims = value->rank != INLAY_RANK_UNKNOWN
                           ? copy_list(&out->arena, value->dims, value->rank, sizeof *value->dims)
                           : NULL;
        copy[i].elements = copy_list(&out->arena, value->elements, value->element_count, sizeof *value->elements);
        if (has_constant(value)) {
            out->constants[i] = isolate_constant_get(constants, value->content_hash, value->data_bytes);
            out->arena.failed |= out->constants[i] == NULL;
            copy[i].data = out->constants[i] != NULL ? out->constants[i]->address : NULL;
        } else {
            copy[i].data = copy_data(&out->arena, value->data, value->data_bytes, value->dtype);
        }
    }
    return copy;
}

static const inlay_symbol_info *copy_symbols(isolate_arena *arena, const inlay_graph *graph)
{
    inlay_symbol_info *copy = isolate_arena_alloc(arena, graph->symbol_count * sizeof *copy);

    for (uint32_t i = 0; copy != NULL && i < graph->symbol_count; i++) {
        copy[i] = *INLAY_AT(inlay_symbol_info, graph->symbols, graph->symbol_stride, i);
        copy[i].name = copy_text(arena, copy[i].name);
    }
    return copy;
}

isolate_graph *isolate_graph_create(isolate_constants *constants, const inlay_graph *graph, uint64_t key)
{
    isolate_graph *out = calloc(1, sizeof *out);
    inlay_graph *copy;

    if (out == NULL)
        return NULL;
    out->key = key;
    out->references = 1;
    out->value_count = graph->value_count;
    out->arena.heap = constants->heap;
    out->constants = calloc((size_t)graph->value_count + 1, sizeof(isolate_constant *));
    copy = out->graph = isolate_arena_copy(&out->arena, graph, sizeof *graph);
    if (out->constants == NULL || copy == NULL) {
        isolate_graph_destroy(constants, out);
        return NULL;
    }
    copy->name = copy_text(&out->arena, graph->name);
    copy->nodes = copy_nodes(&out->arena, graph);
    copy->node_stride = sizeof *copy->nodes;
    copy->values = copy_values(constants, out, graph);
    copy->value_stride = sizeof *copy->values;
    copy->symbols = copy_symbols(&out->arena, graph);
    copy->symbol_stride = sizeof *copy->symbols;
    copy->inputs = copy_list(&out->arena, graph->inputs, graph->input_count, sizeof *graph->inputs);
    copy->outputs = copy_list(&out->arena, graph->outputs, graph->output_count, sizeof *graph->outputs);
    if (!out->arena.failed)
        return out;
    isolate_graph_destroy(constants, out);
    return NULL;
}

void isolate_graph_destroy(isolate_constants *constants, isolate_graph *graph)
{
    for (uint32_t i = 0; graph->constants != NULL && i < graph->value_count; i++)
        if (graph->constants[i] != NULL)
            isolate_constant_put(constants, graph->constants[i]);
    isolate_arena_deinit(&graph->arena);
    free(graph->constants);
    free(graph);
}

inlay_value_state *isolate_pack_states(isolate_arena *arena, const isolate_graph *known, const uint8_t *wanted,
                                       const inlay_value_state *values, uint32_t count, uint32_t stride)
{
    inlay_value_state *copy = values != NULL ? isolate_arena_alloc(arena, count * sizeof *copy) : NULL;

    for (uint32_t i = 0; copy != NULL && i < count; i++) {
        const inlay_value_state *state = INLAY_AT(inlay_value_state, values, stride, i);
        const isolate_constant *constant = i < known->value_count ? known->constants[i] : NULL;

        copy[i] = (inlay_value_state){ .rank = INLAY_RANK_UNKNOWN, .dtype = state->dtype };
        if (wanted != NULL && wanted[i] == 0)
            continue;
        copy[i] = *state;
        copy[i].dims =
            state->rank != INLAY_RANK_UNKNOWN ? copy_list(arena, state->dims, state->rank, sizeof *state->dims) : NULL;
        if (constant == NULL || state->data_bytes != constant->bytes)
            copy[i].data = copy_data(arena, state->data, state->data_bytes, state->dtype);
        else if (state->data != NULL)
            copy[i].data = constant->present ? constant->address : NULL;
    }
    return copy;
}
