/* Nodes with bodies (If, Loop, Scan) as candidates of providers that ask for them: INLAY_EXT_BODIES. */
#include "inlay/extensions.h"
#include "partition/offers/offers.h"
#include <string.h>

/* The flag that stands for the operator of a node with bodies; 0: no provider can ask for it. */
static uint32_t flag_of(const graph_node *n)
{
    static const struct {
        const char *op_type;
        uint32_t flag;
    } rows[] = { { "If", INLAY_BODIES_IF }, { "Loop", INLAY_BODIES_LOOP }, { "Scan", INLAY_BODIES_SCAN } };

    if (n->body_count == 0 || strcmp(n->info.domain.data, "ai.onnx") != 0)
        return 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(n->info.op_type.data, rows[i].op_type) == 0)
            return rows[i].flag;
    return 0;
}

static bool is_tensor(const struct graph *g, uint32_t v)
{
    return v == INLAY_NONE || g->values[v].info.kind == INLAY_VALUE_TENSOR;
}

/* Are there nodes in the graph, or in bodies of its nodes, that passes began to make after that minor? */
static bool has_newer(const struct graph *g, uint32_t minor)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];

        if (n->made_by != NULL && graph_made_since(n) > minor && graph_made_since(n) != UINT32_MAX)
            return true;
        for (uint32_t b = 0; b < n->body_count; b++)
            if (has_newer(n->bodies[b].graph, minor))
                return true;
    }
    return false;
}

bool part_takes_bodies(const part_provider *p, const struct graph *g, const graph_node *n)
{
    const uint32_t flag = flag_of(n);
    const inlay_ext_bodies *e;

    if (flag == 0 || p->table->extension == NULL)
        return false;
    e = p->table->extension(p->state, INLAY_EXT_BODIES);
    if (e == NULL || !INLAY_HAS(e, operators) || (e->operators & flag) == 0)
        return false;
    for (uint32_t i = 0; i < part_reads(n); i++)
        if (!is_tensor(g, part_read_at(n, i)))
            return false;
    for (uint32_t i = 0; i < n->info.output_count; i++)
        if (!is_tensor(g, n->info.outputs[i]))
            return false;
    for (uint32_t b = 0; b < n->body_count; b++)
        if (has_newer(n->bodies[b].graph, p->abi_minor))
            return false;
    return true;
}

bool part_cover_bodies(const struct graph *g, const struct partition *p, const uint8_t *usable, uint8_t *candidates)
{
    bool any = false;

    for (uint32_t o = 0; o < p->offer_count; o++)
        for (uint32_t k = 0; usable[o] && k < p->offers[o].node_count; k++)
            if (!candidates[p->offers[o].nodes[k]] && g->nodes[p->offers[o].nodes[k]]->body_count > 0)
                candidates[p->offers[o].nodes[k]] = 1, any = true;
    return any;
}

void part_drop_bodies(const struct graph *g, const struct partition *p, uint8_t *usable)
{
    for (uint32_t o = 0; o < p->offer_count; o++)
        if (g->nodes[p->offers[o].nodes[0]]->body_count > 0) /* it is alone in its offer */
            usable[o] = 0;
}

bool part_holds_body(const struct graph *g, const struct partition *p, const struct graph *body)
{
    for (uint32_t i = 0; i < p->region_count; i++)
        for (uint32_t k = 0; p->regions[i].provider != INLAY_NONE && k < p->regions[i].node_count; k++) {
            const graph_node *n = g->nodes[p->regions[i].nodes[k]];

            for (uint32_t b = 0; b < n->body_count; b++)
                if (n->bodies[b].graph == body)
                    return true;
        }
    return false;
}
