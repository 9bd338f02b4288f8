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

static bool open_seen(struct rewrite *w, struct seen *s)
{
    uint32_t most = w->g->node_count + w->g->value_count + 1;

    for (s->bucket_count = 64; s->bucket_count < most; s->bucket_count *= 2)
        ;
    s->heads = arena_array(&w->own, s->bucket_count, sizeof *s->heads);
    s->entries = arena_array(&w->own, most, sizeof *s->entries);
    if (s->heads == NULL || s->entries == NULL)
        return false;
    memset(s->heads, 0xff, s->bucket_count * sizeof *s->heads);
    return true;
}

static void remember(struct seen *s, uint64_t hash, graph_node *n, uint32_t constant)
{
    uint32_t bucket = (uint32_t)hash & (s->bucket_count - 1);

    s->entries[s->count] = (struct entry){ hash, s->heads[bucket], n, constant };
    s->heads[bucket] = s->count++;
}

/* ------------------------------------------------------------------ equality */

static bool same_node(struct rewrite *w, const graph_node *a, const graph_node *b)
{
    if (a->row != b->row || a->custom != b->custom || a->info.input_count != b->info.input_count ||
        a->info.output_count != b->info.output_count || !same_attrs(a, b))
        return false;
    for (uint32_t i = 0; i < a->info.input_count; i++)
        if (rw_input(w, a, i) != rw_input(w, b, i))
            return false;
    /* What one gives the other must give: an output may be omitted only where it is in both. */
    for (uint32_t i = 0; i < a->info.output_count; i++)
        if ((a->info.outputs[i] == INLAY_NONE) != (b->info.outputs[i] == INLAY_NONE) ||
            (a->info.outputs[i] != INLAY_NONE &&
             w->g->values[a->info.outputs[i]].info.dtype != w->g->values[b->info.outputs[i]].info.dtype))
            return false;
    return same_bodies(w, a, b);
}

static bool same_constant(const struct rewrite *w, uint32_t a, uint32_t b)
{
    const inlay_value_info *x = rw_info(w, a), *y = rw_info(w, b);

    return x->data_bytes == y->data_bytes && x->dtype != INLAY_STRING && rw_same_type(w, a, b) &&
           (x->data == y->data || x->data_bytes == 0 ||
            (x->data_bytes <= SMALL_BYTES && memcmp(x->data, y->data, (size_t)x->data_bytes) == 0));
}

/* ------------------------------------------------------------------ the visit */

static uint64_t hash_node(const struct rewrite *w, const graph_node *n)
{
    uint64_t h = hash_u64((uint64_t)(uintptr_t)n->row, (uint64_t)(uintptr_t)n->custom);

    for (uint32_t i = 0; i < n->info.input_count; i++)
        h = hash_u64(h, rw_input(w, n, i));
    for (uint32_t i = 0; i < n->info.attr_count; i++)
        if (n->info.attrs[i].kind == INLAY_ATTR_INT)
            h = hash_u64(h, (uint64_t)n->info.attrs[i].i);
    return h;
}

static inlay_status merge_constants(struct rewrite *w, struct seen *s)
{
    inlay_status status = INLAY_OK;
    bool done;

    for (uint32_t v = 0; status == INLAY_OK && v < w->g->value_count; v++) {
        const inlay_value_info *c = &w->g->values[v].info;
        uint64_t h;
        uint32_t e;

        if (!rw_is_constant(w, v) || w->uses[v] == 0 || w->is_output[v])
            continue;
        h = c->data_bytes <= SMALL_BYTES ? hash_bytes(c->data, (size_t)c->data_bytes, c->dtype)
                                         : hash_u64((uint64_t)(uintptr_t)c->data, c->dtype);
        for (e = s->heads[h & (s->bucket_count - 1)]; e != INLAY_NONE; e = s->entries[e].next)
            if (s->entries[e].hash == h && s->entries[e].node == NULL && same_constant(w, s->entries[e].constant, v))
                break;
        if (e == INLAY_NONE) {
            remember(s, h, NULL, v);
            continue;
        }
        status = rw_forward(w, v, s->entries[e].constant, &done); /* no change that is worth another round */
    }
    return status;
}

static bool can_merge(const struct graph *g, const graph_node *n)
{
    if (n->info.output_count == 0 || (n->row == NULL && n->custom == NULL) || n->type_attr != NULL ||
        graph_node_is_random(n))
        return false;
    for (uint32_t i = 0; n->body_count > 0 && i < n->info.output_count; i++)
        if (n->info.outputs[i] != INLAY_NONE && g->values[n->info.outputs[i]].info.kind != INLAY_VALUE_TENSOR)
            return false;
    return n->body_count > 0 ? pass_is_op(n, "If") || pass_is_op(n, "Loop") || pass_is_op(n, "Scan")
                             : !graph_node_is_host(g, n);
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    struct seen *s = w->memory;
    inlay_status status;
    uint64_t h;

    if (s == NULL) { /* the first node of a graph */
        s = w->memory = arena_alloc(&w->own, sizeof *s);
        if (s == NULL || !open_seen(w, s))
            return rw_no_memory(w);
        status = merge_constants(w, s);
        if (status != INLAY_OK)
            return status;
    }
    if (!can_merge(w->g, n))
        return INLAY_OK;
    h = hash_node(w, n);
    for (uint32_t e = s->heads[h & (s->bucket_count - 1)]; e != INLAY_NONE; e = s->entries[e].next) {
        graph_node *first = s->entries[e].node;
        bool free_to_go = true;

        if (s->entries[e].hash != h || first == NULL || !same_node(w, first, n))
            continue;
        for (uint32_t i = 0; i < n->info.output_count; i++) /* an output of the graph keeps its name, hence its node */
            free_to_go &= n->info.outputs[i] == INLAY_NONE || !w->is_output[n->info.outputs[i]];
        for (uint32_t i = 0; free_to_go && i < n->info.output_count; i++) {
            bool done;

            status = rw_forward(w, n->info.outputs[i], first->info.outputs[i], &done);
            if (status != INLAY_OK)
                return status;
        }
        return INLAY_OK;
    }
    remember(s, h, n, INLAY_NONE);
    return INLAY_OK;
}

inlay_status pass_common_subexpressions(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
