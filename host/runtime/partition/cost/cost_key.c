#include "partition/cost/cost_key.h"
#include "base/hash.h"
#include "inlay/extensions.h"
#include <string.h>

enum {
    SMALL_BYTES = 64,    /* constants up to this size count by their contents ... */
    SHAPE_BYTES = 4096,  /* ... and integers up to this one, for they are shapes, axes, pads */
    TWINS_LOOKED_AT = 16 /* inputs of a node among which the same value twice is noticed */
};

/* A running hash, twice with different seeds. */
static void mix(cost_key *k, uint64_t value)
{
    k->word[0] = hash_u64(k->word[0], value);
    k->word[1] = hash_u64(k->word[1], value ^ UINT64_C(0x5bd1e995a7c3f1d7));
}

static void mix_bytes(cost_key *k, const void *data, size_t bytes)
{
    k->word[0] = hash_bytes(data, bytes, k->word[0]);
    k->word[1] = hash_bytes(data, bytes, k->word[1]);
}

static void mix_text(cost_key *k, inlay_str text)
{
    mix_bytes(k, text.data, (size_t)text.bytes);
}

uint64_t cost_identity(const char *name, const char *build_id, const void *device, size_t device_bytes,
                       uint64_t settings_hash)
{
    uint64_t h = hash_bytes(name, strlen(name), 1);

    h = build_id != NULL ? hash_bytes(build_id, strlen(build_id), h) : hash_u64(h, 0);
    h = hash_bytes(device, device_bytes, h);
    return hash_u64(h, settings_hash);
}

/* ------------------------------------------------------------------ attributes */

static void mix_tensor(cost_key *k, const inlay_tensor_view *t)
{
    mix(k, (uint64_t)t->dtype);
    mix_bytes(k, t->dims, t->rank * sizeof *t->dims);
    if (t->bytes <= SHAPE_BYTES && t->dtype != INLAY_STRING)
        mix_bytes(k, t->data, (size_t)t->bytes);
}

static cost_key hash_attr(const inlay_attr_info *a)
{
    cost_key k = { { 1, 2 } };

    mix_text(&k, a->name);
    mix(&k, a->kind);
    switch (a->kind) {
    case INLAY_ATTR_FLOAT:
        mix_bytes(&k, &a->f, sizeof a->f);
        break;
    case INLAY_ATTR_INT:
        mix(&k, (uint64_t)a->i);
        break;
    case INLAY_ATTR_STRING:
        mix_text(&k, a->s);
        break;
    case INLAY_ATTR_TENSOR:
        if (a->tensor != NULL)
            mix_tensor(&k, a->tensor);
        break;
    case INLAY_ATTR_FLOATS:
        mix_bytes(&k, a->floats, a->count * sizeof *a->floats);
        break;
    case INLAY_ATTR_INTS:
        mix_bytes(&k, a->ints, a->count * sizeof *a->ints);
        break;
    case INLAY_ATTR_STRINGS:
        for (uint32_t i = 0; i < a->count; i++)
            mix_text(&k, a->strings[i]);
        break;
    default:
        break; /* for the host only */
    }
    return k;
}

/* Attributes in any order are the same node. */
static void mix_attrs(cost_key *k, const inlay_node_info *n)
{
    cost_key sum = { { 0, 0 } };

    for (uint32_t i = 0; i < n->attr_count; i++) {
        cost_key one = hash_attr(INLAY_AT(inlay_attr_info, n->attrs, n->attr_stride, i));
        sum.word[0] += one.word[0];
        sum.word[1] += one.word[1];
    }
    mix(k, sum.word[0]);
    mix(k, sum.word[1]);
}

/* ------------------------------------------------------------------ values */

/* Which node of the offer makes the value: 1 + its place among them, 0 for none. */
static uint32_t maker_in(const cost_question *q, uint32_t v)
{
    uint32_t producer = inlay_graph_value(q->graph, v)->producer, low = 0, high = q->offer->node_count;

    while (producer != INLAY_NONE && low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (q->offer->nodes[middle] == producer)
            return middle + 1;
        if (q->offer->nodes[middle] < producer)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

static uint32_t place_of(const uint32_t *list, uint32_t count, uint32_t value)
{
    uint32_t i = 0;

    while (i < count && list[i] != value)
        i++;
    return i;
}

static void mix_state(cost_key *k, const inlay_value_state *s)
{
    mix(k, (uint64_t)s->dtype);
    mix(k, s->rank);
    if (s->rank != INLAY_RANK_UNKNOWN && s->dims != NULL)
        mix_bytes(k, s->dims, s->rank * sizeof *s->dims);
}

static void mix_constant(cost_key *k, const inlay_value_info *v)
{
    bool integer = v->dtype == INLAY_INT64 || v->dtype == INLAY_INT32;

    mix(k, 1);
    if (v->dtype != INLAY_STRING && v->data_bytes <= (integer ? SHAPE_BYTES : SMALL_BYTES))
        mix_bytes(k, v->data, (size_t)v->data_bytes);
}

static void mix_input(cost_key *k, const cost_question *q, const inlay_node_info *n, uint32_t i)
{
    uint32_t v = n->inputs[i], maker;
    const inlay_value_info *info;

    if (v == INLAY_NONE) {
        mix(k, UINT64_MAX);
        return;
    }
    info = inlay_graph_value(q->graph, v);
    maker = maker_in(q, v);
    mix(k, maker);
    if (maker > 0) {
        const inlay_node_info *m = inlay_graph_node(q->graph, q->offer->nodes[maker - 1]);
        mix(k, place_of(m->outputs, m->output_count, v));
        return;
    }
    mix(k, place_of(n->inputs, i < TWINS_LOOKED_AT ? i : TWINS_LOOKED_AT, v));
    mix_state(k, &q->values[v]);
    if ((info->flags & INLAY_VALUE_CONSTANT) != 0)
        mix_constant(k, info);
}

/* Where it asks to have its values: a kernel may be another one for another layout. */
static void mix_placements(cost_key *k, const cost_question *q)
{
    mix(k, q->offer->placement_count);
    for (uint32_t i = 0; i < q->offer->placement_count; i++) {
        const inlay_placement *p = &q->offer->placements[i];

        mix(k, p->domain == INLAY_DOMAIN_HOST ? UINT64_MAX : p->domain - q->provider->first_domain);
        mix(k, p->layout.kind | (uint64_t)p->dtype << 32);
        mix_bytes(k, p->layout.order, sizeof p->layout.order);
        for (int b = 0; b < 2; b++)
            mix(k, (uint64_t)p->layout.block_axis[b] << 32 | p->layout.block_size[b]);
    }
}

static void mix_bodies(cost_key *k, const inlay_node_info *n)
{
    for (uint32_t i = 0; i < n->body_count; i++)
        mix(k, INLAY_AT(inlay_body, n->bodies, n->body_stride, i)->graph->content_hash);
}

cost_key cost_key_of(const cost_question *q)
{
    const uint64_t identity = q->provider->identity;
    cost_key k = { { identity, hash_u64(identity, 2) } };

    mix(&k, q->max_threads);
    mix(&k, q->offer->node_count);
    for (uint32_t i = 0; i < q->offer->node_count; i++) {
        const inlay_node_info *n = inlay_graph_node(q->graph, q->offer->nodes[i]);

        mix_text(&k, n->domain);
        mix_text(&k, n->op_type);
        mix(&k, n->since_version);
        mix_attrs(&k, n);
        mix(&k, (uint64_t)n->input_count << 32 | n->output_count);
        mix_bodies(&k, n);
        for (uint32_t in = 0; in < n->input_count; in++)
            mix_input(&k, q, n, in);
        for (uint32_t out = 0; out < n->output_count; out++) {
            mix(&k, n->outputs[out] == INLAY_NONE);
            if (n->outputs[out] != INLAY_NONE)
                mix_state(&k, &q->values[n->outputs[out]]);
        }
    }
    mix_placements(&k, q);
    return k;
}

/* ------------------------------------------------------------------ what providers measure */

cost_key cost_key_of_timing(const part_provider *provider, const void *key, uint64_t key_bytes)
{
    cost_key k = { { provider->identity, ~provider->identity } };

    mix(&k, UINT64_C(0x74696d696e677331)); /* no offer's */
    mix(&k, key_bytes);
    mix_bytes(&k, key, (size_t)key_bytes);
    return k;
}
