/* Regions: nodes that are compiled and run as a unit, with their inputs and outputs, and the copies between them. */
#include "base/memory.h"
#include "base/order.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "partition/assign/assign.h"
#include <stdlib.h>
#include <string.h>

/* Finds the inputs and outputs of a region. mark holds, for each value, the last region that listed it. */
static inlay_status find_boundary(const struct graph *graph, const uint32_t *region_of, uint32_t index,
                                  partition_region *region, const uint8_t *leaves, uint32_t *mark, struct arena *arena)
{
    uint32_t inputs = 0, outputs = 0, *in, *out;
    size_t most_in = 0, most_out = 0;

    INLAY_CHECK(region->node_count > 0);
    for (uint32_t k = 0; k < region->node_count; k++) {
        const graph_node *node = graph->nodes[region->nodes[k]];
        most_in += graph_read_count(node);
        most_out += node->info.output_count;
    }
    in = arena_array(arena, most_in + 1, sizeof *in);
    out = arena_array(arena, most_out + 1, sizeof *out);
    if (in == NULL || out == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t k = 0; k < region->node_count; k++) {
        const graph_node *node = graph->nodes[region->nodes[k]];
        for (uint32_t i = 0; i < graph_read_count(node); i++) {
            uint32_t value = graph_read_at(node, i);
            const inlay_value_info *info = value == INLAY_NONE ? NULL : &graph->values[value].info;
            bool inside;

            if (info == NULL || mark[value] == index || (info->flags & INLAY_VALUE_CONSTANT) != 0)
                continue;
            inside = info->producer != INLAY_NONE && region_of[info->producer] == index;
            if (!inside) {
                mark[value] = index;
                in[inputs++] = value;
            }
        }
        for (uint32_t i = 0; i < node->info.output_count; i++) {
            uint32_t value = node->info.outputs[i];
            if (value != INLAY_NONE && (leaves[value] || region->node_count == 1))
                out[outputs++] = value;
        }
    }
    region->inputs = in;
    region->outputs = out;
    region->input_count = inputs;
    region->output_count = outputs;
    return INLAY_OK;
}

/* Marks values that are read outside the region that computes them, or are outputs of the graph. */
static uint8_t *find_leaving_values(const struct graph *graph, const uint32_t *region_of, struct arena *arena)
{
    uint8_t *leaves = arena_alloc(arena, graph->value_count + 1);

    if (leaves == NULL)
        return NULL;
    for (uint32_t i = 0; i < graph->output_count; i++)
        if (graph->outputs[i] != INLAY_NONE)
            leaves[graph->outputs[i]] = 1;
    for (uint32_t k = 0; k < graph->node_count; k++) {
        const graph_node *node = graph->nodes[k];
        for (uint32_t i = 0; i < graph_read_count(node); i++) {
            uint32_t value = graph_read_at(node, i), producer = partition_producer_of(graph, value);
            if (producer != INLAY_NONE && region_of[producer] != region_of[k])
                leaves[value] = 1;
        }
    }
    return leaves;
}

/* Converts the order of units to the list of regions. Sets region_of for each node. */
static bool list_regions(struct problem *problem, const uint32_t *choice, struct arena *arena, uint32_t *region_of)
{
    const partition_schedule *schedule = &problem->schedule;
    struct partition *partition = problem->partition;
    uint32_t *nodes = arena_array(arena, (size_t)problem->nodes + 1, sizeof *nodes);
    uint32_t *offers = arena_array(arena, (size_t)problem->nodes + 1, sizeof *offers);

    partition->regions = arena_array(arena, (size_t)schedule->region_count + 1, sizeof *partition->regions);
    if (nodes == NULL || offers == NULL || partition->regions == NULL)
        return false;
    partition->region_count = schedule->region_count;
    for (uint32_t i = 0; i < schedule->unit_count; i++) {
        uint32_t head = schedule->head[schedule->order[i]], offer = choice[head];
        partition_region *region = &partition->regions[schedule->region_of[i]];
        const partition_offer *chosen = offer == INLAY_NONE ? NULL : &partition->offers[offer];

        INLAY_CHECK(schedule->region_of[i] < schedule->region_count &&
                    (offer == INLAY_NONE || offer < partition->offer_count));
        if (region->nodes == NULL) {
            region->provider = partition_provider_of(problem, offer);
            region->nodes = nodes;
            region->offers = offers;
        }
        for (uint32_t k = 0; k < (chosen == NULL ? 1 : chosen->node_count); k++) {
            region_of[chosen == NULL ? head : chosen->nodes[k]] = schedule->region_of[i];
            *nodes++ = chosen == NULL ? head : chosen->nodes[k];
            region->node_count++;
        }
        if (chosen != NULL) {
            *offers++ = offer;
            region->offer_count++;
            region->cost_ns += chosen->cost.ns;
            region->border_ns += partition_lone_border_ns(problem, offer);
            region->run_border_ns += partition_lone_border_ns(problem, offer) * chosen->border_factor;
            region->launch_ns = problem->prices.launch_ns[chosen->provider];
            partition->offers[offer].chosen = true;
        }
    }
    for (uint32_t i = 0; i < partition->region_count; i++) {
        partition_region *region = &partition->regions[i];

        qsort((uint32_t *)(uintptr_t)region->nodes, region->node_count, sizeof *region->nodes, order_numbers);
        partition->cost_ns += region->cost_ns + region->border_ns + region->launch_ns;
        partition->launch_ns += region->launch_ns;
    }
    partition->partition_count = schedule->partitions;
    return true;
}

/* The first region that reads the value in that domain; INLAY_NONE: the caller of the graph. A value that only passes
 * through host memory is copied for the first reader in the final domain. */
static uint32_t first_reader_in(const struct problem *problem, const uint32_t *choice, const uint32_t *region_of,
                                uint32_t value, partition_transfer transfer, const partition_transfer *transfers,
                                uint32_t count)
{
    uint32_t first = INLAY_NONE;

    for (uint32_t i = problem->links.reader_at[value]; i < problem->links.reader_at[value + 1]; i++) {
        uint32_t reader = problem->links.readers[i], domain = reader_domain(problem, reader, choice[reader], value);
        bool reached = domain == transfer.to;

        if (domain != INLAY_NONE && transfer.to < problem->domains.memory_count) {
            domain = partition_memory_of(problem, domain); /* a copy to a memory serves the layouts in it */
            reached = domain == transfer.to;
        }

        for (uint32_t k = 0; !reached && transfer.to == INLAY_DOMAIN_HOST && k < count; k++)
            reached = transfers[k].from == INLAY_DOMAIN_HOST && transfers[k].to == domain;
        if (reached && (first == INLAY_NONE || region_of[reader] < first))
            first = region_of[reader];
    }
    return first;
}

/* A change of layout is not listed as a copy. Its cost belongs to the region that computes the value, or to the first
 * region that reads it. */
static bool add_border(struct problem *problem, const uint32_t *choice, const uint32_t *region_of, uint32_t value,
                       partition_transfer transfer)
{
    bool leaves = transfer.from >= problem->domains.memory_count;
    uint32_t region = leaves
                          ? region_of[partition_producer_of(problem->graph, value)]
                          : first_reader_in(problem, choice, region_of, value, transfer, problem->domains.transfers, 0);

    if (!leaves && transfer.to < problem->domains.memory_count)
        return false;
    if (region != INLAY_NONE) {
        const double ns = partition_transfer_ns(problem, value, transfer);

        problem->partition->regions[region].border_ns += ns;
        problem->partition->regions[region].run_border_ns += ns * transfer.border_factor;
        problem->partition->cost_ns += ns;
    }
    return true;
}

/* Returns whether the transfer needs no copy because the device shares memory with the host. Inputs of the graph need a
 * copy unless the device can import host memory. */
static bool needs_no_copy(const struct problem *problem, uint32_t value, partition_transfer transfer)
{
    const uint32_t device = transfer.to != INLAY_DOMAIN_HOST ? transfer.to : transfer.from,
                   provider = problem->domains.owner[device];
    const partition_provider *owner = provider != INLAY_NONE ? &problem->request->providers[provider] : NULL;
    const inlay_domain_info *at = owner == NULL ? NULL
                                                : INLAY_AT(inlay_domain_info, owner->table->domains,
                                                           owner->table->domain_stride, device - owner->first_domain);
    const uint32_t both = INLAY_DOMAIN_HOST_VISIBLE | INLAY_DOMAIN_COHERENT;

    INLAY_CHECK(device < problem->domains.memory_count);
    return partition_link_of(problem, transfer.from, transfer.to) == LINK_HOST && at != NULL &&
           (at->flags & both) == both &&
           ((at->flags & INLAY_DOMAIN_IMPORTS_HOST) != 0 ||
            partition_producer_of(problem->graph, value) != INLAY_NONE || problem->graph->parent != NULL);
}

static bool list_copies(struct problem *problem, const uint32_t *choice, const uint32_t *region_of, struct arena *arena)
{
    struct partition *partition = problem->partition;
    size_t total = 0;

    for (uint32_t value = 0; problem->domains.memory_count > 1 && value < problem->values; value++)
        total += partition_list_transfers(problem, choice, value);
    partition->copies = arena_array(arena, total + 1, sizeof *partition->copies);
    for (uint32_t value = 0; partition->copies != NULL && problem->domains.count > 1 && value < problem->values;
         value++) {
        uint32_t producer = partition_producer_of(problem->graph, value),
                 count = partition_list_transfers(problem, choice, value);

        for (uint32_t k = 0; k < count; k++) {
            partition_copy *copy;

            if (add_border(problem, choice, region_of, value, problem->domains.transfers[k]) ||
                needs_no_copy(problem, value, problem->domains.transfers[k]))
                continue;
            INLAY_CHECK(partition->copy_count < total);
            copy = &partition->copies[partition->copy_count++];
            *copy = (partition_copy){ .value = value,
                                      .from_region = producer == INLAY_NONE ? INLAY_NONE : region_of[producer],
                                      .to_region = first_reader_in(problem, choice, region_of, value,
                                                                   problem->domains.transfers[k],
                                                                   problem->domains.transfers, count),
                                      .from_domain = problem->domains.transfers[k].from,
                                      .to_domain = problem->domains.transfers[k].to,
                                      .bytes = cost_value_bytes(&partition->profile[value]),
                                      .ns = partition_transfer_ns(problem, value, problem->domains.transfers[k]),
                                      .link = partition_link_of(problem, problem->domains.transfers[k].from,
                                                                problem->domains.transfers[k].to),
                                      .once = problem->domains.transfers[k].once };
            partition->import_count += copy->link == LINK_IMPORT;
            partition->cost_ns += copy->ns;
            partition->once_ns += copy->once ? copy->ns : 0;
        }
    }
    return partition->copies != NULL;
}

static bool knows_power(const struct problem *problem)
{
    for (uint32_t i = 0; i < problem->partition->region_count; i++) {
        const uint32_t provider = problem->partition->regions[i].provider;

        if (provider != INLAY_NONE && problem->request->providers[provider].watts <= 0)
            return false;
    }
    return true;
}

/* Sets the energy and the memory of the partition, whose transfers must be those of the final order. */
static void add_up(struct problem *problem, const uint32_t *choice)
{
    struct partition *partition = problem->partition;
    const partition_provider *providers = problem->request->providers;

    partition->energy_nj = partition->once_nj = partition->kept_bytes = 0;
    for (uint32_t i = 0; i < partition->region_count; i++)
        if (partition->regions[i].provider != INLAY_NONE)
            partition->energy_nj += (partition->regions[i].cost_ns + partition->regions[i].launch_ns) *
                                    providers[partition->regions[i].provider].watts;
    for (uint32_t i = 0; i < partition->offer_count; i++)
        if (partition->offers[i].chosen) {
            partition->kept_bytes += objective_offer_bytes(problem, i);
            partition->energy_nj +=
                partition_lone_border_ns(problem, i) * providers[partition->offers[i].provider].watts;
        }
    for (uint32_t value = 0; problem->domains.count > 1 && value < problem->values; value++)
        for (uint32_t count = partition_list_transfers(problem, choice, value); count > 0; count--) {
            const partition_transfer transfer = problem->domains.transfers[count - 1];
            const uint32_t domain = transfer.from != INLAY_DOMAIN_HOST ? transfer.from : transfer.to;
            const uint32_t provider = problem->domains.owner[domain];
            const double ns = partition_transfer_ns(problem, value, transfer);

            if (ns <= 0 || provider == INLAY_NONE)
                continue;
            partition->energy_nj += ns * providers[provider].watts;
            partition->once_nj += transfer.once ? ns * providers[provider].watts : 0;
            partition->kept_bytes += (double)cost_value_bytes(&partition->profile[value]);
        }
    if (!knows_power(problem))
        partition->energy_nj = partition->once_nj = 0;
}

inlay_status partition_form_regions(struct problem *problem, const uint32_t *choice, struct arena *arena,
                                    inlay_diag *diag)
{
    const struct graph *graph = problem->graph;
    uint32_t *region_of = arena_array(problem->scratch, (size_t)graph->node_count + 1, sizeof *region_of);
    uint32_t *mark = arena_array(problem->scratch, (size_t)graph->value_count + 1, sizeof *mark);
    uint8_t *leaves = NULL;

    problem->partition->memory = arena_array(arena, (size_t)problem->providers + 1, sizeof *problem->partition->memory);
    if (region_of == NULL || mark == NULL || problem->partition->memory == NULL)
        goto no_memory;
    problem->final_order = true;
    if (!partition_schedule_choice(problem, choice, true))
        return inlay_fail(diag, INLAY_INTERNAL, "the regions of graph '%s' wait for each other", graph->name);
    problem->final_order = false;
    /* If the final order exceeds the memory, the order of partition_evaluate() is used, with which the choice was
     * accepted. */
    if (!partition_keeps_memory(problem, choice))
        (void)partition_evaluate(problem, choice);
    if (problem->failed)
        goto no_memory;
    problem->lists_copies = true;
    if (!list_regions(problem, choice, arena, region_of) || !list_copies(problem, choice, region_of, arena) ||
        !partition_measure_memory(problem, choice, problem->partition->memory))
        goto no_memory;
    add_up(problem, choice);
    leaves = find_leaving_values(graph, region_of, problem->scratch);
    if (leaves == NULL)
        goto no_memory;
    memset(mark, 0xff, graph->value_count * sizeof *mark);
    for (uint32_t i = 0; i < problem->partition->region_count; i++)
        if (find_boundary(graph, region_of, i, &problem->partition->regions[i], leaves, mark, arena) != INLAY_OK)
            goto no_memory;
    INLAY_CHECK(partition_check(problem->partition, graph, region_of));
    return INLAY_OK;
no_memory:
    return no_memory(diag, "to form the regions of graph '%s'", graph->name);
}
