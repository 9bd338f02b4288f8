/* Computes nodes with the same operator, attributes and inputs once, including nodes with equal bodies, and merges
 * equal small constants. Works within each graph: a body sees values of its outer graph only if it captures them. */
#include "base/hash.h"
#include "inlay/check.h"
#include "passes/same_body.h"
#include <string.h>

/* Larger constants are compared by address only: reading all weights would cost more than it gains. */
enum { SMALL_BYTES = 4096 };

/* Hash table with chaining of the nodes and constants of a graph. */
typedef struct expression_table {
    uint32_t *heads; /* [bucket_count] index into entries, INLAY_NONE */
    struct entry {
        uint64_t hash;
        uint32_t next;
        graph_node *node;  /* NULL: the entry is a constant */
        uint32_t constant; /* value of the constant */
    } * entries;
    uint32_t bucket_count, count;
} expression_table;

static bool init_table(struct rewrite *rewrite, expression_table *table)
{
    uint32_t most = rewrite->graph->node_count + rewrite->graph->value_count + 1;

    for (table->bucket_count = 64; table->bucket_count < most; table->bucket_count *= 2)
        ;
    table->heads = arena_array(&rewrite->arena, table->bucket_count, sizeof *table->heads);
    table->entries = arena_array(&rewrite->arena, most, sizeof *table->entries);
    if (table->heads == NULL || table->entries == NULL)
        return false;
    memset(table->heads, 0xff, table->bucket_count * sizeof *table->heads);
    return true;
}

static void add_entry(expression_table *table, uint64_t hash, graph_node *node, uint32_t constant)
{
    uint32_t bucket = (uint32_t)hash & (table->bucket_count - 1);

    INLAY_CHECK(table->count < table->bucket_count);
    table->entries[table->count] = (struct entry){ hash, table->heads[bucket], node, constant };
    table->heads[bucket] = table->count++;
}

static bool same_node(struct rewrite *rewrite, const graph_node *a, const graph_node *b)
{
    if (a->row != b->row || a->custom != b->custom || a->info.input_count != b->info.input_count ||
        a->info.output_count != b->info.output_count || !same_attrs(a, b))
        return false;
    for (uint32_t i = 0; i < a->info.input_count; i++)
        if (rewrite_input(rewrite, a, i) != rewrite_input(rewrite, b, i))
            return false;
    /* Outputs must match, too: an output may be omitted only if it is omitted in both nodes. */
    for (uint32_t i = 0; i < a->info.output_count; i++)
        if ((a->info.outputs[i] == INLAY_NONE) != (b->info.outputs[i] == INLAY_NONE) ||
            (a->info.outputs[i] != INLAY_NONE && rewrite->graph->values[a->info.outputs[i]].info.dtype !=
                                                     rewrite->graph->values[b->info.outputs[i]].info.dtype))
            return false;
    return same_bodies(rewrite, a, b);
}

static bool same_constant(const struct rewrite *rewrite, uint32_t a, uint32_t b)
{
    const inlay_value_info *first = rewrite_value_info(rewrite, a), *second = rewrite_value_info(rewrite, b);

    return first->data_bytes == second->data_bytes && first->dtype != INLAY_STRING &&
           rewrite_same_type(rewrite, a, b) &&
           (first->data == second->data || first->data_bytes == 0 ||
            (first->data_bytes <= SMALL_BYTES && memcmp(first->data, second->data, (size_t)first->data_bytes) == 0));
}

/* Any number of nodes may differ in their bodies only, so the hash includes the captured values and the nodes of the
 * bodies. */
static uint64_t hash_bodies(const struct rewrite *rewrite, const graph_node *node, uint64_t hash)
{
    for (uint32_t b = 0; b < node->body_count; b++) {
        const graph_body *body = &node->bodies[b];

        for (uint32_t i = 0; i < body->capture_count; i++)
            hash = hash_u64(hash, rewrite_resolve(rewrite, body->capture_outer[i]));
        for (uint32_t i = 0; i < body->graph->node_count; i++)
            hash = hash_u64(hash, (uint64_t)(uintptr_t)body->graph->nodes[i]->row);
    }
    return hash;
}

static uint64_t hash_node(const struct rewrite *rewrite, const graph_node *node)
{
    uint64_t hash = hash_u64((uint64_t)(uintptr_t)node->row, (uint64_t)(uintptr_t)node->custom);

    for (uint32_t i = 0; i < node->info.input_count; i++)
        hash = hash_u64(hash, rewrite_input(rewrite, node, i));
    for (uint32_t i = 0; i < node->info.attr_count; i++)
        if (node->info.attrs[i].kind == INLAY_ATTR_INT)
            hash = hash_u64(hash, (uint64_t)node->info.attrs[i].i);
    return hash_bodies(rewrite, node, hash);
}

static inlay_status merge_constants(struct rewrite *rewrite, expression_table *table)
{
    inlay_status status = INLAY_OK;
    bool done;

    for (uint32_t value = 0; status == INLAY_OK && value < rewrite->graph->value_count; value++) {
        const inlay_value_info *info = &rewrite->graph->values[value].info;
        uint64_t hash;
        uint32_t entry;

        if (!rewrite_is_constant(rewrite, value) || rewrite->uses[value] == 0 || rewrite->is_output[value])
            continue;
        hash = info->data_bytes <= SMALL_BYTES ? hash_bytes(info->data, (size_t)info->data_bytes, info->dtype)
                                               : hash_u64((uint64_t)(uintptr_t)info->data, info->dtype);
        for (entry = table->heads[hash & (table->bucket_count - 1)]; entry != INLAY_NONE;
             entry = table->entries[entry].next)
            if (table->entries[entry].hash == hash && table->entries[entry].node == NULL &&
                same_constant(rewrite, table->entries[entry].constant, value))
                break;
        if (entry == INLAY_NONE) {
            add_entry(table, hash, NULL, value);
            continue;
        }
        /* does not count as a change: merged constants need no further round */
        status = rewrite_forward(rewrite, value, table->entries[entry].constant, &done);
    }
    return status;
}

static bool can_merge(const struct graph *graph, const graph_node *node)
{
    if (node->info.output_count == 0 || (node->row == NULL && node->custom == NULL) || node->type_attr != NULL ||
        graph_node_is_random(graph, node))
        return false;
    for (uint32_t i = 0; node->body_count > 0 && i < node->info.output_count; i++)
        if (node->info.outputs[i] != INLAY_NONE && graph->values[node->info.outputs[i]].info.kind != INLAY_VALUE_TENSOR)
            return false;
    return node->body_count > 0 ? pass_is_op(node, "If") || pass_is_op(node, "Loop") || pass_is_op(node, "Scan")
                                : !graph_node_is_host(graph, node);
}

inlay_status match_common_subexpressions(struct rewrite *rewrite, graph_node *node)
{
    expression_table *table = rewrite->pass_state;
    inlay_status status;
    uint64_t hash;

    if (table == NULL) { /* first node of the graph */
        table = rewrite->pass_state = arena_alloc(&rewrite->arena, sizeof *table);
        if (table == NULL || !init_table(rewrite, table))
            return rewrite_no_memory(rewrite);
        status = merge_constants(rewrite, table);
        if (status != INLAY_OK)
            return status;
    }
    if (!can_merge(rewrite->graph, node))
        return INLAY_OK;
    hash = hash_node(rewrite, node);
    for (uint32_t entry = table->heads[hash & (table->bucket_count - 1)]; entry != INLAY_NONE;
         entry = table->entries[entry].next) {
        graph_node *first = table->entries[entry].node;
        bool is_removable = true;

        if (table->entries[entry].hash != hash || first == NULL || !same_node(rewrite, first, node))
            continue;
        for (uint32_t i = 0; i < node->info.output_count; i++) /* a graph output keeps its name, and thus its node */
            is_removable &= node->info.outputs[i] == INLAY_NONE || !rewrite->is_output[node->info.outputs[i]];
        for (uint32_t i = 0; is_removable && i < node->info.output_count; i++) {
            bool done;

            status = rewrite_forward(rewrite, node->info.outputs[i], first->info.outputs[i], &done);
            if (status != INLAY_OK)
                return status;
        }
        return INLAY_OK;
    }
    add_entry(table, hash, node, INLAY_NONE);
    return INLAY_OK;
}
