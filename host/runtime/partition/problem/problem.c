/* partition/problem/problem.c - builds the input of the search: domains, readers, prices and lists of offers. */
#include "partition/problem/problem.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "partition/problem/flow.h"
#include <math.h>
#include <string.h>

/* Step budget of the exact search for small graphs, a few milliseconds. */
enum { EXACT_STEPS = 20000 };

/* Higher prices (eleven days) are clamped, which keeps sums of prices exact. */
static const double MAX_PRICE_NS = 1e15;

uint32_t partition_domain_at(const struct problem *problem, uint32_t offer, uint32_t value)
{
    const partition_offer *placed;

    if (offer == INLAY_NONE)
        return INLAY_DOMAIN_HOST;
    INLAY_CHECK(offer < problem->offers);
    placed = &problem->partition->offers[offer];
    for (uint32_t i = 0; problem->custom_placement[offer] && i < placed->placement_count; i++)
        if (placed->placements[i].value == value && partition_is_plain(&placed->placements[i]))
            return placed->placements[i].domain;
    if (partition_merges(problem, offer) && problem->domains.layout_of[placed->provider] != INLAY_DOMAIN_HOST)
        return problem->domains.layout_of[placed->provider];
    return partition_default_domain(&problem->request->providers[placed->provider]);
}

static bool has_custom_placement(const struct problem *problem, const partition_offer *offer)
{
    uint32_t usual = partition_default_domain(&problem->request->providers[offer->provider]);

    for (uint32_t i = 0; i < offer->placement_count; i++)
        if (offer->placements[i].domain != usual && partition_is_plain(&offer->placements[i]))
            return true;
    return false;
}

/* Lists the nodes that read each value, each node once. */
static bool find_readers(struct problem *problem)
{
    const struct graph *graph = problem->graph;
    uint32_t *last = arena_array(problem->scratch, (size_t)problem->values + 1, sizeof *last), total = 0;

    problem->links.reader_at =
        arena_array(problem->scratch, (size_t)problem->values + 2, sizeof *problem->links.reader_at);
    problem->links.leaves = arena_array(problem->scratch, (size_t)problem->values + 1, sizeof *problem->links.leaves);
    if (last == NULL || problem->links.reader_at == NULL || problem->links.leaves == NULL)
        return false;
    for (uint32_t pass = 0; pass < 2; pass++) {
        memset(last, 0xff, problem->values * sizeof *last);
        for (uint32_t node = 0; node < problem->nodes; node++) {
            for (uint32_t i = 0; i < graph_read_count(graph->nodes[node]); i++) {
                uint32_t value = graph_read_at(graph->nodes[node], i);
                if (value == INLAY_NONE || last[value] == node || graph_is_constant(graph, value))
                    continue;
                last[value] = node;
                if (pass == 0)
                    problem->links.reader_at[value + 2]++, total++;
                else
                    problem->links.readers[problem->links.reader_at[value + 1]++] = node;
            }
        }
        if (pass > 0)
            break;
        for (uint32_t value = 0; value < problem->values; value++)
            problem->links.reader_at[value + 2] += problem->links.reader_at[value + 1];
        problem->links.readers = arena_array(problem->scratch, (size_t)total + 1, sizeof *problem->links.readers);
        if (problem->links.readers == NULL)
            return false;
    }
    for (uint32_t i = 0; i < graph->output_count; i++)
        if (graph->outputs[i] != INLAY_NONE)
            problem->links.leaves[graph->outputs[i]] = 1;
    return true;
}

/* Sets the parent of each node: the last preceding node that computes one of its inputs. A node without one has the
 * previous node without one as its parent, since they probably end up in the same region. */
static bool find_parents(struct problem *problem)
{
    uint32_t orphan = INLAY_NONE;

    problem->links.parent = arena_array(problem->scratch, (size_t)problem->nodes + 1, sizeof *problem->links.parent);
    if (problem->links.parent == NULL)
        return false;
    for (uint32_t node = 0; node < problem->nodes; node++) {
        uint32_t best = INLAY_NONE;

        for (uint32_t i = 0; i < graph_read_count(problem->graph->nodes[node]); i++) {
            uint32_t producer = partition_producer_of(problem->graph, graph_read_at(problem->graph->nodes[node], i));
            if (producer != INLAY_NONE && (best == INLAY_NONE || producer > best))
                best = producer;
        }
        if (best == INLAY_NONE) {
            best = orphan;
            orphan = node;
        }
        problem->links.parent[node] = best;
    }
    return true;
}

/* Adds a domain for each provider whose merged offers have a cost for values that enter or leave a region. */
static void add_layouts(struct problem *problem)
{
    for (uint32_t offer_index = 0; offer_index < problem->offers; offer_index++) {
        const partition_offer *offer = &problem->partition->offers[offer_index];

        if ((offer->flags & INLAY_OFFER_MERGE) != 0 && (offer->cost.enter_ns > 0 || offer->cost.leave_ns > 0))
            problem->domains.layout_of[offer->provider] = INLAY_NONE;
    }
    for (uint32_t provider = 0; provider < problem->providers; provider++)
        problem->domains.layout_of[provider] =
            problem->domains.layout_of[provider] == INLAY_NONE ? problem->domains.count++ : INLAY_DOMAIN_HOST;
}

/* Finds the links between domains of different providers. Most sessions have at most one device. False: out of
 * memory. */
static bool find_links(struct problem *problem)
{
    partition_domains *domains = &problem->domains;
    const partition_request *request = problem->request;

    for (uint32_t from = 1; from < domains->memory_count; from++) {
        for (uint32_t to = 1; to < domains->memory_count; to++) {
            const uint32_t link = domains->owner[from] == domains->owner[to]
                                      ? (uint32_t)LINK_HOST
                                      : cost_link(request->providers, request->provider_count, from, to);

            if (link == LINK_HOST)
                continue;
            if (domains->links == NULL)
                domains->links = arena_array(problem->scratch, (size_t)domains->memory_count * domains->memory_count,
                                             sizeof *domains->links);
            if (domains->links == NULL)
                return false;
            domains->links[(size_t)from * domains->memory_count + to] = (uint8_t)link;
        }
    }
    return true;
}

/* Sets the owner of each domain, and the memory that it is in. */
static void find_owners(struct problem *problem)
{
    partition_domains *domains = &problem->domains;
    const partition_request *request = problem->request;

    for (uint32_t domain = 0; domain < domains->count; domain++) {
        domains->owner[domain] = INLAY_NONE;
        domains->memory_of[domain] = domain;
    }
    for (uint32_t provider = 0; provider < request->provider_count; provider++) {
        const uint32_t layout = domains->layout_of[provider];

        for (uint32_t domain = 0; domain < request->providers[provider].table->domain_count; domain++)
            domains->owner[request->providers[provider].first_domain + domain] = provider;
        if (layout == INLAY_DOMAIN_HOST)
            continue;
        domains->owner[layout] = provider;
        domains->memory_of[layout] = partition_default_domain(&request->providers[provider]);
    }
    domains->owner[INLAY_DOMAIN_HOST] = INLAY_NONE;
}

static bool find_domains(struct problem *problem)
{
    const partition_request *request = problem->request;
    size_t cells;

    problem->domains.count = 1;
    problem->domains.layout_of =
        arena_array(problem->scratch, (size_t)problem->providers + 1, sizeof *problem->domains.layout_of);
    if (problem->domains.layout_of == NULL)
        return false;
    for (uint32_t provider = 0; provider < request->provider_count; provider++)
        if (request->providers[provider].table->domain_count > 0 &&
            request->providers[provider].first_domain + request->providers[provider].table->domain_count >
                problem->domains.count)
            problem->domains.count =
                request->providers[provider].first_domain + request->providers[provider].table->domain_count;
    problem->domains.memory_count = problem->domains.count;
    add_layouts(problem);
    cells = (size_t)problem->values * problem->domains.memory_count + 1;
    problem->domains.owner = arena_array(problem->scratch, problem->domains.count, sizeof *problem->domains.owner);
    problem->domains.memory_of =
        arena_array(problem->scratch, problem->domains.count, sizeof *problem->domains.memory_of);
    problem->domains.marked = arena_array(problem->scratch, problem->domains.count, sizeof *problem->domains.marked);
    problem->domains.transfers =
        arena_array(problem->scratch, (size_t)problem->domains.count * 2 + 4, sizeof *problem->domains.transfers);
    problem->domains.to_host_ns = arena_array(problem->scratch, cells, sizeof *problem->domains.to_host_ns);
    problem->domains.from_host_ns = arena_array(problem->scratch, cells, sizeof *problem->domains.from_host_ns);
    if (problem->domains.owner == NULL || problem->domains.memory_of == NULL || problem->domains.marked == NULL ||
        problem->domains.transfers == NULL || problem->domains.to_host_ns == NULL ||
        problem->domains.from_host_ns == NULL)
        return false;
    find_owners(problem);
    if (!find_links(problem))
        return false;
    for (uint32_t value = 0; problem->domains.memory_count > 1 && value < problem->values; value++) {
        uint64_t bytes = cost_value_bytes(&problem->partition->profile[value]);

        if (graph_is_constant(problem->graph, value))
            continue;
        for (uint32_t domain = 1; domain < problem->domains.memory_count; domain++) {
            if (problem->domains.owner[domain] == INLAY_NONE)
                continue;
            problem->domains.to_host_ns[(size_t)value * problem->domains.memory_count + domain] =
                fmin(cost_copy_ns(request->costs, request->providers, request->provider_count, domain, 0, bytes),
                     MAX_PRICE_NS);
            problem->domains.from_host_ns[(size_t)value * problem->domains.memory_count + domain] =
                fmin(cost_copy_ns(request->costs, request->providers, request->provider_count, 0, domain, bytes),
                     MAX_PRICE_NS);
        }
    }
    return true;
}

/* Combines the row of each provider, [nodes], with those of the providers that precede it in the order of preference:
 * their sum, or with `largest` their maximum. False: out of memory. */
static bool add_preceding(const struct problem *problem, bool largest, double *rows)
{
    double *before = arena_array(problem->scratch, (size_t)problem->nodes + 1, sizeof *before);
    double *all = arena_array(problem->scratch, (size_t)problem->nodes + 1, sizeof *all);
    uint32_t place = 0; /* of the providers in `all` that are not in `before` */

    if (before == NULL || all == NULL)
        return false;
    for (uint32_t provider = 0; provider < problem->providers; provider++, rows += problem->nodes) {
        INLAY_CHECK(problem->request->providers[provider].place >= place);
        if (problem->request->providers[provider].place > place)
            memcpy(before, all, problem->nodes * sizeof *before);
        place = problem->request->providers[provider].place;
        for (uint32_t node = 0; node < problem->nodes; node++) {
            all[node] = largest ? fmax(all[node], rows[node]) : all[node] + rows[node];
            rows[node] = largest ? fmax(before[node], rows[node]) : before[node] + rows[node];
        }
    }
    return true;
}

/* The margin that a provider pays for each place in the order of preference: the error of a guess, and of a price
 * that this machine has confirmed, which is small. Prices of models get almost no margin: a plan may cost a
 * tenth of their error more than the best one (see marginal_moves.c), not the whole error for each of its nodes. */
static double margin_of(const partition_offer *offer)
{
    const bool is_model = offer->cost_source == COST_MODEL || offer->cost_source == COST_CLAIMED;

    return is_model ? 0.1 * offer->cost_error : offer->cost_error;
}

/* Computes margins: provider B, k places behind provider A in the order of preference, must be cheaper than A by k
 * margins. The less certain of the two prices decides the margin. Returns [providers * nodes] the largest margin among
 * the single offers of this provider and of the providers that precede it, for offers with a price source of at least
 * `least`. NULL: out of memory. */
static double *find_margins(const struct problem *problem, uint32_t least)
{
    double *margins = arena_array(problem->scratch, (size_t)problem->providers * problem->nodes + 1, sizeof *margins);

    for (uint32_t offer_index = 0; margins != NULL && offer_index < problem->offers; offer_index++) {
        const partition_offer *offer = &problem->partition->offers[offer_index];
        double *margin = &margins[(size_t)offer->provider * problem->nodes + offer->nodes[0]];
        if (offer->node_count == 1 && offer->cost_source >= least)
            *margin = fmax(*margin, margin_of(offer));
    }
    return margins != NULL && add_preceding(problem, true, margins) ? margins : NULL;
}

/* [nodes] 1 = some provider's price for the node was measured or calibrated on this machine. NULL: out of memory. */
static uint8_t *find_measured(const struct problem *problem)
{
    uint8_t *measured = arena_alloc(problem->scratch, (size_t)problem->nodes + 1);

    for (uint32_t offer = 0; measured != NULL && offer < problem->offers; offer++)
        for (uint32_t k = 0; problem->partition->offers[offer].cost_source >= COST_PROFILE &&
                             k < problem->partition->offers[offer].node_count;
             k++)
            measured[problem->partition->offers[offer].nodes[k]] = 1;
    return measured;
}

/* Returns whether the offer has an unmeasured price, but another offer for one of its nodes has a measured one. Such an
 * offer must save more than its own error, regardless of the order of providers. */
static bool is_less_certain(const partition_offer *offer, const uint8_t *measured)
{
    for (uint32_t k = 0; offer->cost_source < COST_PROFILE && k < offer->node_count; k++)
        if (measured[offer->nodes[k]] != 0)
            return true;
    return false;
}

/* [providers * nodes] number of this provider and those that precede it that offer the node at an unmeasured price.
 * NULL: out of memory. */
static double *count_unmeasured(const struct problem *problem)
{
    double *count = arena_array(problem->scratch, (size_t)problem->providers * problem->nodes + 1, sizeof *count);

    for (uint32_t offer_index = 0; count != NULL && offer_index < problem->offers; offer_index++) {
        const partition_offer *offer = &problem->partition->offers[offer_index];

        if (offer->node_count == 1 && offer->cost_source < COST_PROFILE)
            count[(size_t)offer->provider * problem->nodes + offer->nodes[0]] = 1;
    }
    return count != NULL && add_preceding(problem, false, count) ? count : NULL;
}

static bool price_offers(struct problem *problem)
{
    const double *all = find_margins(problem, COST_NONE), *known = find_margins(problem, COST_PROFILE),
                 *unmeasured = count_unmeasured(problem);
    const uint8_t *measured = find_measured(problem);
    const bool has_margins = partition_has_margins(problem->request);

    if (all == NULL || known == NULL || measured == NULL || unmeasured == NULL)
        return false;
    for (uint32_t provider = 0; provider < problem->providers; provider++) {
        problem->prices.launch_ns[provider] =
            fmin(cost_launch_ns(problem->request->costs, &problem->request->providers[provider]), MAX_PRICE_NS);
        problem->prices.launch[provider] = objective_price(problem, provider, problem->prices.launch_ns[provider], 0);
        problem->ordered |= problem->prices.launch[provider] > 0;
    }
    for (uint32_t offer_index = 0; offer_index < problem->offers; offer_index++) {
        partition_offer *offer = &problem->partition->offers[offer_index];
        const bool is_known = offer->cost_source >= COST_PROFILE;
        const uint32_t owner = offer->provider;
        double ns = fmin(offer->cost.ns, MAX_PRICE_NS), margin = margin_of(offer), margin_ns;
        double places = problem->request->providers[offer->provider].place;

        for (uint32_t k = 0; k < offer->node_count; k++)
            margin = fmax(margin, (is_known ? known : all)[(size_t)offer->provider * problem->nodes + offer->nodes[k]]);
        if (is_known) /* unmeasured offers of providers before this one have their own margin */
            places -= unmeasured[(size_t)offer->provider * problem->nodes + offer->nodes[0]];
        problem->custom_placement[offer_index] = has_custom_placement(problem, offer);
        margin_ns = has_margins ? ns * margin * fmax(places, 0) : 0;
        problem->prices.margin[offer_index] = objective_price(problem, owner, margin_ns, 0);
        offer->margin_ns = margin_ns + (has_margins && is_less_certain(offer, measured) ? ns * offer->cost_error : 0);
        ns += offer->margin_ns;
        problem->prices.base[offer_index] =
            objective_price(problem, owner, ns, objective_offer_bytes(problem, offer_index));
        if (!partition_merges(problem, offer_index))
            problem->prices.base[offer_index] +=
                problem->prices.launch[owner] +
                objective_price(problem, owner, fmin(partition_lone_border_ns(problem, offer_index), MAX_PRICE_NS), 0);
    }
    return true;
}

static bool list_singles(struct problem *problem)
{
    uint32_t *at, count = 0;

    problem->options.first_single =
        arena_array(problem->scratch, (size_t)problem->nodes + 2, sizeof *problem->options.first_single);
    problem->options.singles =
        arena_array(problem->scratch, (size_t)problem->offers + 1, sizeof *problem->options.singles);
    problem->options.groups =
        arena_array(problem->scratch, (size_t)problem->offers + 1, sizeof *problem->options.groups);
    problem->options.cheapest = arena_array(problem->scratch, (size_t)problem->providers * problem->nodes + 1,
                                            sizeof *problem->options.cheapest);
    problem->options.rank =
        arena_array(problem->scratch, (size_t)problem->providers + 1, sizeof *problem->options.rank);
    if (problem->options.first_single == NULL || problem->options.singles == NULL || problem->options.groups == NULL ||
        problem->options.cheapest == NULL || problem->options.rank == NULL)
        return false;
    for (uint32_t provider = 0; provider < problem->providers; provider++)
        problem->options.rank[provider] = provider;
    memset(problem->options.cheapest, 0xff,
           (size_t)problem->providers * problem->nodes * sizeof *problem->options.cheapest);
    at = problem->options.first_single;
    for (uint32_t offer_index = 0; offer_index < problem->offers; offer_index++)
        if (problem->usable[offer_index] && problem->partition->offers[offer_index].node_count == 1)
            at[problem->partition->offers[offer_index].nodes[0] + 1]++;
        else if (problem->usable[offer_index])
            problem->options.groups[problem->options.group_count++] = offer_index;
    for (uint32_t node = 0; node < problem->nodes; node++)
        at[node + 1] += at[node];
    /* Backwards, so that the single offers of a node are in the order of the offers. */
    for (uint32_t offer_index = problem->offers; offer_index-- > 0;) {
        const partition_offer *offer = &problem->partition->offers[offer_index];
        uint32_t *best;

        if (!problem->usable[offer_index] || offer->node_count != 1)
            continue;
        problem->options.singles[--at[offer->nodes[0] + 1]] = offer_index;
        count++;
        best = &problem->options.cheapest[(size_t)offer->provider * problem->nodes + offer->nodes[0]];
        if (!problem->custom_placement[offer_index] &&
            (*best == INLAY_NONE || problem->prices.base[offer_index] <= problem->prices.base[*best]))
            *best = offer_index;
    }
    /* at[n + 1] is now where the offers of n begin. */
    INLAY_CHECK(count <= problem->offers);
    memmove(at, at + 1, problem->nodes * sizeof *at);
    at[problem->nodes] = count;
    return true;
}

/* One label for each provider, and one for each further placement variant that it offers for some node. */
static bool list_labels(struct problem *problem)
{
    uint32_t *most = arena_array(problem->scratch, (size_t)problem->providers + 1, sizeof *most), count = 0;
    uint32_t *custom = arena_array(problem->scratch, (size_t)problem->providers + 1, sizeof *custom);

    if (most == NULL || custom == NULL)
        return false;
    for (uint32_t node = 0; node < problem->nodes; node++) {
        const uint32_t *singles = problem->options.singles + problem->options.first_single[node];
        const uint32_t node_singles = problem->options.first_single[node + 1] - problem->options.first_single[node];

        for (uint32_t i = 0; i < node_singles; i++) {
            const uint32_t provider = problem->partition->offers[singles[i]].provider;

            custom[provider] += problem->custom_placement[singles[i]];
            most[provider] = custom[provider] > most[provider] ? custom[provider] : most[provider];
        }
        for (uint32_t i = 0; i < node_singles; i++)
            custom[problem->partition->offers[singles[i]].provider] = 0;
    }
    for (uint32_t provider = 0; provider < problem->providers; provider++)
        count += 1 + most[provider];
    problem->options.labels = arena_array(problem->scratch, (size_t)count + 1, sizeof *problem->options.labels);
    if (problem->options.labels == NULL)
        return false;
    for (uint32_t provider = 0; provider < problem->providers; provider++)
        for (uint32_t k = 0; k <= most[provider]; k++)
            problem->options.labels[problem->options.label_count++] = (partition_label){ provider, k };
    return true;
}

void problem_set_prices(struct problem *problem, const double *per_byte)
{
    double total = problem->prices.boundary * problem->nodes;

    for (uint32_t offer_index = 0; offer_index < problem->offers; offer_index++) {
        const partition_offer *offer = &problem->partition->offers[offer_index];
        double weight = 0;

        problem->prices.offer[offer_index] = problem->prices.base[offer_index];
        if (per_byte != NULL && per_byte[offer->provider] > 0) {
            weight = (double)offer->resident_bytes + (double)offer->workspace_bytes;
            for (uint32_t k = 0; k < offer->node_count; k++) {
                const inlay_node_info *node = &problem->graph->nodes[offer->nodes[k]]->info;
                for (uint32_t i = 0; i < node->output_count; i++)
                    if (node->outputs[i] != INLAY_NONE)
                        weight += (double)cost_value_bytes(&problem->partition->profile[node->outputs[i]]);
            }
            problem->prices.offer[offer_index] += fmin(per_byte[offer->provider] * weight, MAX_PRICE_NS);
        }
        total += problem->prices.offer[offer_index] +
                 objective_price(problem, offer->provider,
                                 fmin(offer->cost.enter_ns + offer->cost.leave_ns, MAX_PRICE_NS), 0);
    }
    for (uint32_t value = 0; value < problem->values; value++) /* in and out of the layout of each provider */
        total += 2 * problem->providers *
                 objective_price(problem, 0, 0, (double)cost_value_bytes(&problem->partition->profile[value]));
    for (size_t i = 0; i < (size_t)problem->values * problem->domains.memory_count; i++)
        total += problem->domains.to_host[i] + problem->domains.from_host[i];
    for (uint32_t provider = 0; provider < problem->providers; provider++)
        total += problem->prices.launch[provider] * problem->nodes;
    problem->prices.scale = fmin((double)(FLOW_NEVER / 4) / (total + 1), 1024);
}

/* Sets the bounds. The memory of a device is the user's limit or the size of the device, minus the bytes used by the
 * session's other graphs. */
static void find_limits(struct problem *problem)
{
    const partition_request *request = problem->request;

    for (uint32_t provider_index = 0; provider_index < problem->providers; provider_index++) {
        const partition_provider *provider = &request->providers[provider_index];
        const inlay_provider *table = provider->table;
        uint64_t bytes = 0, used = request->used_bytes != NULL ? request->used_bytes[provider_index] : 0;

        if (table->default_domain > 0 && table->domains != NULL && table->default_domain <= table->domain_count)
            bytes = INLAY_AT(inlay_domain_info, table->domains, table->domain_stride, table->default_domain - 1)
                        ->memory_bytes;
        for (uint32_t i = 0; request->rules != NULL && i < request->rules->limit_count; i++)
            if (strcmp(request->rules->limits[i].provider, provider->name) == 0)
                bytes = request->rules->limits[i].bytes;
        problem->bounds.limit[provider_index] = bytes == 0 ? UINT64_MAX : bytes > used ? bytes - used : 0;
        problem->bounds.limited |= bytes != 0;
    }
    problem->bounds.max_partitions = request->max_partitions > 0 ? request->max_partitions
                                     : request->rules != NULL    ? request->rules->max_partitions
                                                                 : 0;
    for (uint32_t provider_index = 0; request->must_run != NULL && provider_index < request->provider_count;
         provider_index++)
        if (strcmp(request->providers[provider_index].name, request->must_run) == 0)
            problem->bounds.required = provider_index;
    problem->ordered |= problem->bounds.limited || problem->bounds.max_partitions > 0;
}

/* Rejects offers that exceed their own limits, with a log message. */
static void reject_beyond_limits(struct problem *problem)
{
    const partition_request *request = problem->request;
    char text[192];

    for (uint32_t offer = 0; offer < problem->offers; offer++) {
        const partition_offer *one = &problem->partition->offers[offer];

        if (!problem->usable[offer] || partition_offer_keeps_limits(problem, offer))
            continue;
        problem->usable[offer] = 0;
        if (request->log == NULL)
            continue;
        (void)snprintf(text, sizeof text,
                       "provider %s: an offer was ignored: it exceeds its own limits, at node '%.80s'",
                       request->providers[one->provider].name, problem->graph->nodes[one->nodes[0]]->info.name.data);
        request->log(request->log_ctx, INLAY_LOG_WARNING, text);
    }
}

bool problem_init(struct problem *out, const partition_request *request, struct partition *partition,
                  const uint8_t *candidates, uint8_t *usable, struct arena *scratch)
{
    struct problem *problem = out;
    size_t offers = (size_t)partition->offer_count + 1, providers = (size_t)request->provider_count + 1;

    *problem = (struct problem){ .request = request,
                                 .graph = request->graph,
                                 .partition = partition,
                                 .scratch = scratch,
                                 .candidates = candidates,
                                 .usable = usable,
                                 .nodes = request->graph->node_count,
                                 .values = request->graph->value_count,
                                 .providers = request->provider_count,
                                 .offers = partition->offer_count,
                                 .bounds.required = INLAY_NONE,
                                 .exact_steps = EXACT_STEPS };
    problem->custom_placement = arena_array(scratch, offers, sizeof *problem->custom_placement);
    problem->prices.base = arena_array(scratch, offers, sizeof *problem->prices.base);
    problem->prices.margin = arena_array(scratch, offers, sizeof *problem->prices.margin);
    problem->prices.offer = arena_array(scratch, offers, sizeof *problem->prices.offer);
    problem->prices.launch = arena_array(scratch, providers, sizeof *problem->prices.launch);
    problem->prices.launch_ns = arena_array(scratch, providers, sizeof *problem->prices.launch_ns);
    problem->bounds.limit = arena_array(scratch, providers, sizeof *problem->bounds.limit);
    problem->memory = arena_array(scratch, providers, sizeof *problem->memory);
    if (problem->custom_placement == NULL || problem->prices.base == NULL || problem->prices.margin == NULL ||
        problem->prices.offer == NULL || problem->prices.launch == NULL || problem->prices.launch_ns == NULL ||
        problem->bounds.limit == NULL || problem->memory == NULL || !find_domains(problem) || !find_readers(problem) ||
        !find_parents(problem) || !price_offers(problem))
        return false;
    if (!objective_price_copies(problem))
        return false;
    find_limits(problem);
    if (!partition_groups_init(problem))
        return false;
    reject_cyclic_groups(problem);
    if (!partition_limits_init(problem))
        return false;
    reject_beyond_limits(problem);
    if (!list_singles(problem) || !list_labels(problem) || !partition_schedule_init(problem))
        return false;
    problem_set_prices(problem, NULL);
    return true;
}
