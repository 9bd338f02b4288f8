/* Why an assignment that costs less than the session's was not chosen: the rule of the partitioner that rejects it. */
#include "base/memory.h"
#include "tables/words.h"
#include "explain/facts.h"
#include <math.h>

bool facts_precedes(const struct facts *facts, uint32_t provider, uint32_t other)
{
    return provider != INLAY_NONE && facts->session->providers[provider].place < facts->session->providers[other].place;
}

static const char *name_of(const struct facts *facts, uint32_t provider)
{
    return facts->session->providers[provider].name;
}

/* What the assignments have at the nodes that run on different providers. */
struct contrast {
    double margin_ns; /* by how much the margins of the other assignment's prices are larger */
    double error;     /* the largest relative error of a price */
    bool kept_whole;
    uint32_t source, other_source; /* the least reliable ones */
};

/* Adds a node that runs by the offer `now` in the session's assignment, by `then` in the other one. */
static void add_node(const partition_offer *now, const partition_offer *then, struct contrast *contrast)
{
    const double error = fmax(now->cost_error, then->cost_error);

    if (now->provider == then->provider)
        return;
    contrast->error = fmax(contrast->error, error);
    contrast->kept_whole |= now->kept_whole;
    contrast->margin_ns += then->margin_ns / then->node_count - now->margin_ns / now->node_count;
    contrast->source = now->cost_source < contrast->source ? now->cost_source : contrast->source;
    contrast->other_source = then->cost_source < contrast->other_source ? then->cost_source : contrast->other_source;
}

/* All nodes count: those that another one takes with it to another provider, too. */
static struct contrast find_contrast(const facts_graph *graph, const struct partition *other)
{
    struct contrast contrast = { .source = COST_MEASURED, .other_source = COST_MEASURED };

    for (uint32_t i = 0; i < other->offer_count; i++) {
        const partition_offer *then = &other->offers[i];

        for (uint32_t k = 0; then->chosen && k < then->node_count; k++)
            if (graph->nodes[then->nodes[k]].offer != INLAY_NONE)
                add_node(&graph->parts->offers[graph->nodes[then->nodes[k]].offer], then, &contrast);
    }
    return contrast;
}

const char *facts_why_not(struct facts *facts, const facts_graph *graph, const struct partition *other, uint32_t winner,
                          uint32_t rival)
{
    const partition_rules *rules = &facts->session->rules;
    const double gain = graph->parts->cost_ns - other->cost_ns; /* without this machine's time factor, as compared */
    const struct contrast contrast = find_contrast(graph, other);
    char saved[FORMATTED_BYTES];

    if (rules->saved_plan != NULL)
        return "the saved plan names the provider of each node";
    if (rules->by_priority)
        return "policy priority takes the first provider that supports a node";
    if (rules->left_out != NULL && rules->left_out[rival])
        return "measured runs of the model are faster without it (inlay tune)";
    if (gain <= FACTS_TIE_NS)
        return "only the shown times of estimates contain the speed of this machine's cores; the compared prices do "
               "not, "
               "and are no lower";
    if (contrast.kept_whole)
        return arena_format(&facts->arena,
                            "it would divide a region of %s, and the saving of %s is within the error of the estimates "
                            "(%s against %s); inlay tune measures both",
                            name_of(facts, winner), format_ns(gain, saved), cost_source_name(contrast.other_source),
                            cost_source_name(contrast.source));
    if (facts_precedes(facts, winner, rival) && contrast.margin_ns >= gain)
        return arena_format(
            &facts->arena,
            "%s precedes it in the order of providers, and the saving of %s is within the margin of the "
            "prices (%s and %s)",
            name_of(facts, winner), format_ns(gain, saved), cost_source_name(contrast.source),
            cost_source_name(contrast.other_source));
    if (gain <= 0.1 * contrast.error * graph->parts->cost_ns)
        return arena_format(&facts->arena, "the saving of %s is within a tenth of the error of the whole run's price",
                            format_ns(gain, saved));
    if (contrast.margin_ns >= gain)
        return arena_format(&facts->arena, "the saving of %s is within the error of the prices (%s and %s)",
                            format_ns(gain, saved), cost_source_name(contrast.source),
                            cost_source_name(contrast.other_source));
    return "the search did not find it";
}
