/* The objective: what the search minimises, as one number for each offer, launch and copy.
 *
 * - latency: nanoseconds
 * - energy: nanojoules, the time multiplied by the power of the device that works. A copy needs the power of the device
 *   that it leads to or from, a change of layout that of its provider.
 * - memory: bytes of packed weights and values. A value takes its bytes once in each memory domain that it is in, and
 *   once more in a layout of a provider. The reuse of memory after the last reader depends on the order, so it is not
 *   part of the objective; partition_memory has the peak. Of two assignments with equal memory, the faster one is
 *   chosen, so a time counts as a very small number of bytes. */
#include "partition/problem/problem.h"
#include <math.h>

/* Prices above are clamped, which keeps sums of prices exact. */
static const double MAX_PRICE = 1e15;
/* What a nanosecond counts where memory is minimised: a millisecond is a byte. */
static const double BYTES_PER_NS = 1e-6;

uint32_t partition_objective(const partition_request *request)
{
    return request->rules != NULL ? request->rules->objective : OBJECTIVE_LATENCY;
}

double objective_price(const struct problem *problem, uint32_t provider, double ns, double bytes)
{
    switch (partition_objective(problem->request)) {
    case OBJECTIVE_ENERGY:
        return fmin(ns * problem->request->providers[provider].watts, MAX_PRICE);
    case OBJECTIVE_MEMORY:
        return fmin(bytes + ns * BYTES_PER_NS, MAX_PRICE);
    default:
        return ns;
    }
}

/* Does a node outside of the offer read the value, or is it an output of the graph? */
static bool is_read_outside(const struct problem *problem, const partition_offer *offer, uint32_t value)
{
    for (uint32_t i = problem->links.reader_at[value]; i < problem->links.reader_at[value + 1]; i++) {
        bool inside = false;

        for (uint32_t k = 0; !inside && k < offer->node_count; k++)
            inside = offer->nodes[k] == problem->links.readers[i];
        if (!inside)
            return true;
    }
    return problem->links.leaves[value] != 0;
}

double objective_offer_bytes(const struct problem *problem, uint32_t offer)
{
    const partition_offer *kept = &problem->partition->offers[offer];
    double bytes = (double)kept->resident_bytes;

    for (uint32_t k = 0; k < kept->node_count; k++) {
        const inlay_node_info *node = &problem->graph->nodes[kept->nodes[k]]->info;

        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i] != INLAY_NONE &&
                (kept->node_count == 1 || is_read_outside(problem, kept, node->outputs[i])))
                bytes += (double)cost_value_bytes(&problem->partition->profile[node->outputs[i]]);
    }
    return bytes;
}

double objective_copy_price(const struct problem *problem, uint32_t value, uint32_t domain, double ns)
{
    const uint32_t provider = problem->domains.owner[domain];

    if (ns <= 0 || provider == INLAY_NONE) /* the memory is shared */
        return 0;
    return objective_price(problem, provider, ns, (double)cost_value_bytes(&problem->partition->profile[value]));
}

bool objective_price_copies(struct problem *problem)
{
    partition_domains *domains = &problem->domains;
    const size_t cells = (size_t)problem->values * domains->memory_count + 1;

    domains->to_host = domains->to_host_ns;
    domains->from_host = domains->from_host_ns;
    if (partition_objective(problem->request) == OBJECTIVE_LATENCY)
        return true;
    domains->to_host = arena_array(problem->scratch, cells, sizeof *domains->to_host);
    domains->from_host = arena_array(problem->scratch, cells, sizeof *domains->from_host);
    if (domains->to_host == NULL || domains->from_host == NULL)
        return false;
    for (uint32_t value = 0; domains->memory_count > 1 && value < problem->values; value++)
        for (uint32_t domain = 1; domain < domains->memory_count; domain++) {
            const size_t cell = (size_t)value * domains->memory_count + domain;

            domains->to_host[cell] = objective_copy_price(problem, value, domain, domains->to_host_ns[cell]);
            domains->from_host[cell] = objective_copy_price(problem, value, domain, domains->from_host_ns[cell]);
        }
    return true;
}
