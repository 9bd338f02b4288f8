/* Nodes that compute the same from the same are computed once, those with equal bodies among them; equal small
 * constants are one. Within each graph: a body does not see what its outer graph computes unless it captures it. */
#include "base/hash.h"
#include "passes/same_body.h"
#include <string.h>

enum {
    SMALL_BYTES = 4096
}; /* larger constants are equal only when they lie in the same place: reading all weights for
      this would cost more than it gains */

/* What the visit remembers: a chained table of nodes by hash. Nodes carry their number in `at`. */
struct seen {
    uint32_t *heads; /* [bucket_count] index into entries, INLAY_NONE */
    struct entry {
        uint64_t hash;
        uint32_t next;
        graph_node *node;
        uint32_t constant;
    } * entries;
    uint32_t bucket_count, count;
};

static bool open_seen(struct rewrite *rewrite, struct seen *seen)
{
    uint32_t most = rewrite->graph->node_count + rewrite->graph->value_count + 1;

    for (seen->bucket_count = 64; seen->bucket_count < most; seen->bucket_count *= 2)
        ;
    seen->heads = arena_array(&rewrite->arena, seen->bucket_count, sizeof *seen->heads);
    seen->entries = arena_array(&rewrite->arena, most, sizeof *seen->entries);
    if (seen->heads == NULL || seen->entries == NULL)
        return false;
    memset(seen->heads, 0xff, seen->bucket_count * sizeof *seen->heads);
    return true;
}

static void remember(struct seen *seen, uint64_t hash, graph_node *node, uint32_t constant)
{
    uint32_t bucket = (uint32_t)hash & (seen->bucket_count - 1);

    seen->entries[seen->count] = (struct entry){ hash, seen->heads[bucket], node, constant };
    seen->heads[bucket] = seen->count++;
}

/* ------------------------------------------------------------------ equality */

static bool same_node(struct rewrite *rewrite, const graph_node *a, const graph_node *b)
{
    if (a->row != b->row || a->custom != b->custom || a->info.input_count != b->info.input_count ||
        a->info.output_count != b->info.output_count || !same_attrs(a, b))
        return false;
    for (uint32_t i = 0; i < a->info.input_count; i++)
        if (rw_input(rewrite, a, i) != rw_input(rewrite, b, i))
            return false;
    /* What one gives the other must give: an output may be omitted only where it is in both. */
    for (uint32_t i = 0; i < a->info.output_count; i++)
        if ((a->info.outputs[i] == INLAY_NONE) != (b->info.outputs[i] == INLAY_NONE) ||
            (a->info.outputs[i] != INLAY_NONE && rewrite->graph->values[a->info.outputs[i]].info.dtype !=
                                                     rewrite->graph->values[b->info.outputs[i]].info.dtype))
            return false;
    return same_bodies(rewrite, a, b);
}

static bool same_constant(const struct rewrite *rewrite, uint32_t a, uint32_t b)
{
    const inlay_value_info *input = rw_info(rewrite, a), *output = rw_info(rewrite, b);

    return input->data_bytes == output->data_bytes && input->dtype != INLAY_STRING && rw_same_type(rewrite, a, b) &&
           (input->data == output->data || input->data_bytes == 0 ||
            (input->data_bytes <= SMALL_BYTES && memcmp(input->data, output->data, (size_t)input->data_bytes) == 0));
}

/* ------------------------------------------------------------------ the visit */

static uint64_t hash_node(const struct rewrite *rewrite, const graph_node *node)
{
    uint64_t h = hash_u64((uint64_t)(uintptr_t)node->row, (uint64_t)(uintptr_t)node->custom);

    for (uint32_t i = 0; i < node->info.input_count; i++)
        h = hash_u64(h, rw_input(rewrite, node, i));
    for (uint32_t i = 0; i < node->info.attr_count; i++)
        if (node->info.attrs[i].kind == INLAY_ATTR_INT)
            h = hash_u64(h, (uint64_t)node->info.attrs[i].i);
    return h;
}

static inlay_status merge_constants(struct rewrite *rewrite, struct seen *seen)
{
    inlay_status status = INLAY_OK;
    bool done;

    for (uint32_t value = 0; status == INLAY_OK && value < rewrite->graph->value_count; value++) {
        const inlay_value_info *info = &rewrite->graph->values[value].info;
        uint64_t h;
        uint32_t entry;

        if (!rw_is_constant(rewrite, value) || rewrite->uses[value] == 0 || rewrite->is_output[value])
            continue;
        h = info->data_bytes <= SMALL_BYTES ? hash_bytes(info->data, (size_t)info->data_bytes, info->dtype)
                                            : hash_u64((uint64_t)(uintptr_t)info->data, info->dtype);
        for (entry = seen->heads[h & (seen->bucket_count - 1)]; entry != INLAY_NONE; entry = seen->entries[entry].next)
            if (seen->entries[entry].hash == h && seen->entries[entry].node == NULL &&
                same_constant(rewrite, seen->entries[entry].constant, value))
                break;
        if (entry == INLAY_NONE) {
            remember(seen, h, NULL, value);
            continue;
        }
        status = rw_forward(rewrite, value, seen->entries[entry].constant,
                            &done); /* no change that is worth another round */
    }
    return status;
}

static bool can_merge(const struct graph *graph, const graph_node *node)
{
    if (node->info.output_count == 0 || (node->row == NULL && node->custom == NULL) || node->type_attr != NULL ||
        graph_node_is_random(node))
        return false;
    for (uint32_t i = 0; node->body_count > 0 && i < node->info.output_count; i++)
        if (node->info.outputs[i] != INLAY_NONE && graph->values[node->info.outputs[i]].info.kind != INLAY_VALUE_TENSOR)
            return false;
    return node->body_count > 0 ? pass_is_op(node, "If") || pass_is_op(node, "Loop") || pass_is_op(node, "Scan")
                                : !graph_node_is_host(graph, node);
}

static inlay_status match(struct rewrite *rewrite, graph_node *node)
{
    struct seen *seen = rewrite->pass_state;
    inlay_status status;
    uint64_t h;

    if (seen == NULL) { /* the first node of a graph */
        seen = rewrite->pass_state = arena_alloc(&rewrite->arena, sizeof *seen);
        if (seen == NULL || !open_seen(rewrite, seen))
            return rw_no_memory(rewrite);
        status = merge_constants(rewrite, seen);
        if (status != INLAY_OK)
            return status;
    }
    if (!can_merge(rewrite->graph, node))
        return INLAY_OK;
    h = hash_node(rewrite, node);
    for (uint32_t entry = seen->heads[h & (seen->bucket_count - 1)]; entry != INLAY_NONE;
         entry = seen->entries[entry].next) {
        graph_node *first = seen->entries[entry].node;
        bool free_to_go = true;

        if (seen->entries[entry].hash != h || first == NULL || !same_node(rewrite, first, node))
            continue;
        for (uint32_t i = 0; i < node->info.output_count;
             i++) /* an output of the graph keeps its name, hence its node */
            free_to_go &= node->info.outputs[i] == INLAY_NONE || !rewrite->is_output[node->info.outputs[i]];
        for (uint32_t i = 0; free_to_go && i < node->info.output_count; i++) {
            bool done;

            status = rw_forward(rewrite, node->info.outputs[i], first->info.outputs[i], &done);
            if (status != INLAY_OK)
                return status;
        }
        return INLAY_OK;
    }
    remember(seen, h, node, INLAY_NONE);
    return INLAY_OK;
}

inlay_status pass_common_subexpressions(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
