#include "passes/same_body.h"
#include "inlay/check.h"
#include <string.h>

enum { DEEPEST = 16, SMALL_BYTES = 4096 };

static bool same_text(inlay_str a, inlay_str b)
{
    return a.bytes == b.bytes && memcmp(a.data, b.data, a.bytes) == 0;
}

static bool same_tensor(const inlay_tensor_view *a, const inlay_tensor_view *b)
{
    return a == b ||
           (a != NULL && b != NULL && a->dtype == b->dtype && a->dtype != INLAY_STRING && a->rank == b->rank &&
            a->bytes == b->bytes && (a->rank == 0 || memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0) &&
            (a->bytes == 0 || memcmp(a->data, b->data, (size_t)a->bytes) == 0));
}

static bool same_attr(const inlay_attr_info *a, const inlay_attr_info *b)
{
    if (a->kind != b->kind || a->count != b->count || !same_text(a->name, b->name))
        return false;
    switch (a->kind) {
    case INLAY_ATTR_INT:
        return a->i == b->i;
    case INLAY_ATTR_FLOAT:
        /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): NaN equals NaN, and -0 differs from 0 */
        return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case INLAY_ATTR_STRING:
        return same_text(a->s, b->s);
    case INLAY_ATTR_INTS:
        return a->count == 0 || memcmp(a->ints, b->ints, a->count * sizeof *a->ints) == 0;
    case INLAY_ATTR_FLOATS:
        return a->count == 0 || memcmp(a->floats, b->floats, a->count * sizeof *a->floats) == 0;
    case INLAY_ATTR_STRINGS:
        for (uint32_t i = 0; i < a->count; i++)
            if (!same_text(a->strings[i], b->strings[i]))
                return false;
        return true;
    case INLAY_ATTR_TENSOR:
        return same_tensor(a->tensor, b->tensor);
    default:
        return false; /* kinds that only the host reads */
    }
}

/* Two graphs under comparison, and which value of b corresponds to which value of a. */
struct pairing {
    struct rewrite *rewrite;
    const struct graph *a, *b;
    uint32_t *map; /* [a->value_count] value of b; INLAY_NONE = not paired yet */
};

static bool pair_values(struct pairing *pairing, const uint32_t *a, const uint32_t *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if ((a[i] == INLAY_NONE) != (b[i] == INLAY_NONE))
            return false;
        if (a[i] == INLAY_NONE)
            continue;
        INLAY_CHECK(a[i] < pairing->a->value_count && b[i] < pairing->b->value_count);
        if (pairing->a->values[a[i]].info.kind != pairing->b->values[b[i]].info.kind ||
            pairing->a->values[a[i]].info.dtype != pairing->b->values[b[i]].info.dtype)
            return false;
        pairing->map[a[i]] = b[i];
    }
    return true;
}

static bool same_constants(const inlay_value_info *a, const inlay_value_info *b)
{
    if ((a->flags & b->flags & INLAY_VALUE_CONSTANT) == 0 || a->dtype != b->dtype || a->dtype == INLAY_STRING ||
        a->rank != b->rank || a->data_bytes != b->data_bytes)
        return false;
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->dims[d].value != b->dims[d].value)
            return false;
    return a->data == b->data || a->data_bytes == 0 ||
           (a->data_bytes <= SMALL_BYTES && memcmp(a->data, b->data, (size_t)a->data_bytes) == 0);
}

/* Returns true if the inputs of b's node are the values paired with those of a's node, or equal constants. */
static bool same_inputs(const struct pairing *pairing, const uint32_t *a, const uint32_t *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if ((a[i] == INLAY_NONE) != (b[i] == INLAY_NONE))
            return false;
        if (a[i] != INLAY_NONE && pairing->map[a[i]] != b[i] &&
            (pairing->map[a[i]] != INLAY_NONE ||
             !same_constants(&pairing->a->values[a[i]].info, &pairing->b->values[b[i]].info)))
            return false;
    }
    return true;
}

static bool same_graphs(struct rewrite *rewrite, const struct graph *a, const struct graph *b, const graph_body *of_a,
                        const graph_body *of_b, uint32_t depth);

bool same_attrs(const graph_node *a, const graph_node *b)
{
    if (a->info.attr_count != b->info.attr_count)
        return false;
    for (uint32_t i = 0; i < a->info.attr_count; i++) {
        const inlay_attr_info *other = graph_attr(b, a->info.attrs[i].name.data);

        if (other == NULL || !same_attr(&a->info.attrs[i], other))
            return false;
    }
    return true;
}

static bool same_inner_node(struct pairing *pairing, const graph_node *a, const graph_node *b, uint32_t depth)
{
    if (a->row != b->row || a->custom != b->custom || (a->row == NULL && a->custom == NULL) ||
        graph_node_is_random(pairing->a, a) || a->type_attr != NULL || b->type_attr != NULL ||
        a->info.input_count != b->info.input_count || a->info.output_count != b->info.output_count ||
        a->body_count != b->body_count || !same_attrs(a, b) || a->capture_count != b->capture_count ||
        !same_inputs(pairing, a->info.inputs, b->info.inputs, a->info.input_count) ||
        !same_inputs(pairing, a->captures, b->captures, a->capture_count))
        return false;
    for (uint32_t i = 0; i < a->body_count; i++) {
        const graph_body *body = &a->bodies[i], *other = &b->bodies[i];

        if (strcmp(body->attr, other->attr) != 0 || body->in_list != other->in_list ||
            body->capture_count != other->capture_count ||
            !same_inputs(pairing, body->capture_outer, other->capture_outer, body->capture_count) ||
            !same_graphs(pairing->rewrite, body->graph, other->graph, body, other, depth + 1))
            return false;
    }
    return pair_values(pairing, a->info.outputs, b->info.outputs, a->info.output_count);
}

/* Captured values are paired in order. */
static bool same_graphs(struct rewrite *rewrite, const struct graph *a, const struct graph *b, const graph_body *of_a,
                        const graph_body *of_b, uint32_t depth)
{
    struct pairing pairing = { .rewrite = rewrite, .a = a, .b = b };

    if (depth > DEEPEST || a->node_count != b->node_count || a->input_count != b->input_count ||
        a->output_count != b->output_count)
        return false;
    pairing.map = arena_array(&rewrite->scratch, (size_t)a->value_count + 1, sizeof *pairing.map);
    if (pairing.map == NULL)
        return false;
    memset(pairing.map, 0xff, a->value_count * sizeof *pairing.map);
    if (!pair_values(&pairing, a->inputs, b->inputs, a->input_count) ||
        !pair_values(&pairing, of_a->capture_inner, of_b->capture_inner, of_a->capture_count))
        return false;
    for (uint32_t i = 0; i < a->node_count; i++)
        if (!same_inner_node(&pairing, a->nodes[i], b->nodes[i], depth))
            return false;
    return same_inputs(&pairing, a->outputs, b->outputs, a->output_count);
}

bool same_bodies(struct rewrite *rewrite, const graph_node *a, const graph_node *b)
{
    if (a->body_count != b->body_count)
        return false;
    for (uint32_t i = 0; i < a->body_count; i++) {
        const graph_body *body = &a->bodies[i], *other = &b->bodies[i];

        if (strcmp(body->attr, other->attr) != 0 || body->in_list != other->in_list ||
            body->capture_count != other->capture_count)
            return false;
        for (uint32_t k = 0; k < body->capture_count; k++)
            if (rewrite_resolve(rewrite, body->capture_outer[k]) != rewrite_resolve(rewrite, other->capture_outer[k]))
                return false;
        if (!same_graphs(rewrite, body->graph, other->graph, body, other, 0))
            return false;
    }
    return true;
}
