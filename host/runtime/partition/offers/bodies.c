/* Nodes with bodies (If, Loop, Scan) as candidates of providers that support them: INLAY_EXT_BODIES. */
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include "partition/offers/offers.h"
#include <string.h>

/* The flag of the operator of a node with bodies; 0: providers cannot run it. */
static uint32_t flag_of(const graph_node *node)
{
    static const struct {
        const char *op_type;
        uint32_t flag;
    } rows[] = { { "If", INLAY_BODIES_IF }, { "Loop", INLAY_BODIES_LOOP }, { "Scan", INLAY_BODIES_SCAN } };

    if (node->body_count == 0 || strcmp(node->info.domain.data, "ai.onnx") != 0)
        return 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(node->info.op_type.data, rows[i].op_type) == 0)
            return rows[i].flag;
    return 0;
}

static bool is_tensor(const struct graph *graph, uint32_t value)
{
    return value == INLAY_NONE || graph->values[value].info.kind == INLAY_VALUE_TENSOR;
}

/* Returns whether the graph, or a body in it, has operators or element types of a later ABI minor version. */
static bool has_newer(const struct graph *graph, uint32_t minor)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        if (!partition_knows(graph, node, minor))
            return true;
        for (uint32_t body = 0; body < node->body_count; body++)
            if (has_newer(node->bodies[body].graph, minor))
                return true;
    }
    return false;
}

bool partition_takes_bodies(const partition_provider *provider, const struct graph *graph, const graph_node *node)
{
    const uint32_t flag = flag_of(node);
    const inlay_ext_bodies *bodies;

    if (flag == 0 || provider->table->extension == NULL)
        return false;
    bodies = provider->table->extension(provider->state, INLAY_EXT_BODIES);
    if (bodies == NULL || !INLAY_HAS(bodies, operators) || (bodies->operators & flag) == 0)
        return false;
    for (uint32_t i = 0; i < graph_read_count(node); i++)
        if (!is_tensor(graph, graph_read_at(node, i)))
            return false;
    for (uint32_t i = 0; i < node->info.output_count; i++)
        if (!is_tensor(graph, node->info.outputs[i]))
            return false;
    for (uint32_t body = 0; body < node->body_count; body++)
        if (has_newer(node->bodies[body].graph, provider->abi_minor))
            return false;
    return partition_knows(graph, node, provider->abi_minor);
}

bool partition_cover_bodies(const struct graph *graph, const struct partition *partition, const uint8_t *usable,
                            uint8_t *candidates)
{
    bool any = false;

    for (uint32_t offer = 0; offer < partition->offer_count; offer++)
        for (uint32_t k = 0; usable[offer] && k < partition->offers[offer].node_count; k++)
            if (!candidates[partition->offers[offer].nodes[k]] &&
                graph->nodes[partition->offers[offer].nodes[k]]->body_count > 0)
                candidates[partition->offers[offer].nodes[k]] = 1, any = true;
    return any;
}

void partition_drop_bodies(const struct graph *graph, const struct partition *partition, uint8_t *usable)
{
    for (uint32_t offer = 0; offer < partition->offer_count; offer++)
        /* A node with bodies is the only node of its offer. */
        if (graph->nodes[partition->offers[offer].nodes[0]]->body_count > 0)
            usable[offer] = 0;
}
