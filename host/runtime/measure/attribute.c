#include "measure/attribute.h"
#include "base/memory.h"
#include "base/order.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double SHARE_ERROR = 0.15; /* a region's time is measured; what a node has of it is told by a model */

/* What the values cost that enter or leave the region by this offer, priced as it is. */
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

/* The k-th offer of the region; *out_ns without borders. Its price with them is returned. */
static double price_at(const struct program *program, const partition_region *region, uint32_t k,
                       const inlay_value_state *values, double *out_ns)
{
    partition_offer offer = program->parts.offers[region->offers[k]];
    cost_question question = question_of(program, region, &offer, values);
    double error;

    const uint32_t source = cost_of_offer(program->env->costs, &question, &offer.cost, &error);
    const double told = displayed_time_factor(question.provider, source);

    *out_ns = 0;
    if (source == COST_NONE)
        return 0;
    *out_ns = told * offer.cost.ns;
    return told * (offer.cost.ns + borders_ns(program, region, &offer, values));
}

double attribute_price(const struct program *program, const partition_region *region, const inlay_value_state *values)
{
    double sum = 0, own;

    for (uint32_t k = 0; k < region->offer_count; k++)
        sum += price_at(program, region, k, values, &own);
    return sum;
}

bool attribute_add(cost_list *list, const struct program *program, const partition_region *region,
                   const inlay_value_state *values, double ns, const cost_record *like)
{
    double expected = 0, *own = malloc((region->offer_count + 1) * sizeof *own);
    bool good = own != NULL;

    for (uint32_t k = 0; good && k < region->offer_count; k++)
        expected += price_at(program, region, k, values, &own[k]);
    if (good && region->offer_count == 1 && expected <= own[0])
        own[0] = expected = 1; /* all of it */
    for (uint32_t k = 0; good && k < region->offer_count; k++) {
        const partition_offer *offer = &program->parts.offers[region->offers[k]];
        cost_question question = question_of(program, region, offer, values);
        cost_record one = *like;

        if (!(own[k] > 0) || !(expected > 0))
            continue;
        one.key = cost_key_of(&question);
        one.ns = ns * own[k] / expected;
        if (region->offer_count > 1)
            one.spread = (float)fmax(one.spread, SHARE_ERROR);
        (void)snprintf(one.what, sizeof one.what, "%s",
                       inlay_graph_node(&program->snapshot, offer->nodes[0])->op_type.data);
        good = cost_list_add(list, &one);
    }
    free(own);
    return good;
}
