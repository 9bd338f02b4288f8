#include "measure/attribute.h"
#include "inlay/check.h"
#include "base/order.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double SHARE_ERROR =
    0.15; /* the time of a region is measured, but the share of a node comes from a model */

static const double EVEN_ERROR = 0.5; /* the share of a node that no model prices is that of an average node */

/* The cost of values that enter or leave the region through this offer, at the offer's price. */
static double borders_ns(const struct program *program, const partition_region *region, const partition_offer *offer,
                         const inlay_value_state *values)
{
    double ns = 0;

    for (uint32_t k = 0; k < offer->node_count && (offer->cost.enter_ns > 0 || offer->cost.leave_ns > 0); k++) {
        const inlay_node_info *node = inlay_graph_node(&program->snapshot, offer->nodes[k]);

        for (uint32_t i = 0; i < node->input_count; i++)
            if (is_listed(region->inputs, region->input_count, node->inputs[i]))
                ns += cost_border_ns(&program->snapshot, offer, values, node->inputs[i], true);
        for (uint32_t i = 0; i < node->output_count; i++)
            if (is_listed(region->outputs, region->output_count, node->outputs[i]))
                ns += cost_border_ns(&program->snapshot, offer, values, node->outputs[i], false);
    }
    return ns;
}

static cost_question question_of(const struct program *program, const partition_region *region,
                                 const partition_offer *offer, const inlay_value_state *values)
{
    return (cost_question){ .graph = &program->snapshot,
                            .provider = &program->env->providers[region->provider],
                            .offer = offer,
                            .values = values,
                            .max_threads = program->env->max_threads,
                            .weight_bytes = program->parts.weight_bytes,
                            .runs = true };
}

/* Prices the k-th offer of the region. *out_ns is without borders; the result includes them. Without a price, both are
 * 0, and *out_priced is false. */
static double price_at(const struct program *program, const partition_region *region, uint32_t k,
                       const inlay_value_state *values, double *out_ns, bool *out_priced)
{
    INLAY_CHECK(k < region->offer_count && region->offers[k] < program->parts.offer_count);
    partition_offer offer = program->parts.offers[region->offers[k]];
    cost_question question = question_of(program, region, &offer, values);
    double error;
    const uint32_t source = cost_of_offer(program->env->costs, &question, &offer.cost, &error);

    *out_ns = 0;
    *out_priced = source != COST_NONE;
    if (!*out_priced)
        return 0;
    *out_ns = offer.cost.ns;
    return *out_ns + borders_ns(program, region, &offer, values);
}

double attribute_price(const struct program *program, const partition_region *region, const inlay_value_state *values)
{
    double sum = 0, own_ns;
    bool priced;

    for (uint32_t k = 0; k < region->offer_count; k++)
        sum += price_at(program, region, k, values, &own_ns, &priced);
    return sum;
}

/* Prices the offers of the region; own_ns: [offer_count], without borders. Offers without a price get the average of
 * the others. *out_even: there are such offers. Returns the sum, borders included. */
static double price_offers(const struct program *program, const partition_region *region,
                           const inlay_value_state *values, double *own_ns, bool *out_even)
{
    double sum = 0, own_sum = 0, average;
    uint32_t count = 0;

    for (uint32_t k = 0; k < region->offer_count; k++) {
        bool priced;

        sum += price_at(program, region, k, values, &own_ns[k], &priced);
        own_sum += own_ns[k];
        count += priced;
        own_ns[k] = priced ? own_ns[k] : -1;
    }
    average = own_sum > 0 ? own_sum / count : 1;
    for (uint32_t k = 0; k < region->offer_count; k++)
        if (own_ns[k] < 0) {
            own_ns[k] = average;
            sum += average;
        }
    *out_even = count < region->offer_count;
    return sum;
}

bool attribute_add(cost_list *list, const struct program *program, const partition_region *region,
                   const inlay_value_state *values, double ns, const cost_record *like)
{
    double expected = 0, *own_ns = malloc((region->offer_count + 1) * sizeof *own_ns);
    bool ok = own_ns != NULL, even = false;

    if (ok)
        expected = price_offers(program, region, values, own_ns, &even);
    if (ok && region->offer_count == 1 && expected <= own_ns[0])
        own_ns[0] = expected = 1; /* the only offer gets all of the time */
    for (uint32_t k = 0; ok && k < region->offer_count; k++) {
        const partition_offer *offer = &program->parts.offers[region->offers[k]];
        cost_question question = question_of(program, region, offer, values);
        cost_record record = *like;

        if (!(own_ns[k] > 0) || !(expected > 0))
            continue;
        record.key = cost_key_of(&question);
        record.ns = ns * own_ns[k] / expected;
        if (region->offer_count > 1)
            record.spread = (float)fmax(record.spread, even ? EVEN_ERROR : SHARE_ERROR);
        (void)snprintf(record.what, sizeof record.what, "%s",
                       inlay_graph_node(&program->snapshot, offer->nodes[0])->op_type.data);
        ok = cost_list_add(list, &record);
    }
    free(own_ns);
    return ok;
}
