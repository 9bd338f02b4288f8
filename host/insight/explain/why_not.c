/* Why an assignment that costs less than the session's was not chosen: the rule of the partitioner that rejects it. */
#include "tables/words.h"
#include "explain/facts.h"
#include <math.h>
#include <string.h>

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

static bool runs_node(const struct facts *facts, const struct partition *partition, const char *name)
{
    for (uint32_t i = 0; i < partition->region_count; i++)
        if (partition->regions[i].provider != INLAY_NONE &&
            strcmp(name_of(facts, partition->regions[i].provider), name) == 0)
            return true;
    return false;
}

bool facts_broken_limit(struct facts *facts, const facts_graph *graph, const struct partition *other,
                        const char **out_text)
{
    const uint32_t partitions =
        graph->max_partitions > 0 ? graph->max_partitions : facts->session->rules.max_partitions;

    for (uint32_t i = 0; i < facts->provider_count; i++) {
        const partition_memory *now = &graph->parts->memory[i], *then = &other->memory[i];
        const uint64_t used = now->resident_bytes + now->peak_bytes, needed = then->resident_bytes + then->peak_bytes;
        char a[FORMATTED_BYTES], b[FORMATTED_BYTES], c[FORMATTED_BYTES];

        if (now->limit_bytes == 0 || needed <= now->limit_bytes)
            continue;
        *out_text = arena_format(&facts->arena, "memory of %s: %s of %s used, needs %s more", name_of(facts, i),
                                 format_bytes(used, a), format_bytes(now->limit_bytes, b),
                                 format_bytes(needed > used ? needed - used : 0, c));
        return *out_text != NULL;
    }
    *out_text = NULL;
    if (partitions > 0 && other->partition_count > partitions)
        *out_text = arena_format(&facts->arena, "it would exceed max_partitions; there are %u partitions",
                                 graph->parts->partition_count);
    else if (graph->must_run != NULL && !runs_node(facts, other, graph->must_run))
        *out_text = arena_format(&facts->arena, "require: %s must run at least one node", graph->must_run);
    else
        return true;
    return *out_text != NULL;
}

const char *facts_why_not(struct facts *facts, const facts_graph *graph, const struct partition *other, uint32_t winner,
                          uint32_t rival, double saved_ns)
{
    const partition_rules *rules = &facts->session->rules;
    const double gain = graph->parts->cost_ns - other->cost_ns; /* as compared */
    const struct contrast contrast = find_contrast(graph, other);
    char saved[2 * FORMATTED_BYTES + 40], compared[FORMATTED_BYTES];

    (void)format_ns(saved_ns, saved);
    if (fabs(saved_ns - gain) > 0.01 * saved_ns) /* shown times are of the session's threads */
        (void)snprintf(saved + strlen(saved), sizeof saved - strlen(saved), " (%s in the compared prices)",
                       format_ns(gain, compared));
    if (rules->saved_plan != NULL)
        return "the saved plan names the provider of each node";
    if (rules->by_priority)
        return "policy priority takes the first provider that supports a node";
    if (rules->left_out != NULL && rules->left_out[rival])
        return "measured runs of the model are faster without it (inlay tune)";
    if (gain <= FACTS_TIE_NS)
        return "choices are the same on any number of threads, at the mean of the prices of one and two threads, "
               "which is no lower";
    if (contrast.kept_whole)
        return arena_format(&facts->arena,
                            "it would divide a region of %s, and the saving of %s is within the error of the estimates "
                            "(%s against %s); inlay tune measures both",
                            name_of(facts, winner), saved, cost_source_name(contrast.other_source),
                            cost_source_name(contrast.source));
    if (facts_precedes(facts, winner, rival) && contrast.margin_ns >= gain)
        return arena_format(
            &facts->arena,
            "%s precedes it in the order of providers, and the saving of %s is within the margin of the "
            "prices (%s and %s)",
            name_of(facts, winner), saved, cost_source_name(contrast.source), cost_source_name(contrast.other_source));
    if (gain <= 0.1 * contrast.error * graph->parts->cost_ns)
        return arena_format(&facts->arena, "the saving of %s is within a tenth of the error of the whole run's price",
                            saved);
    if (contrast.margin_ns >= gain)
        return arena_format(&facts->arena, "the saving of %s is within the error of the prices (%s and %s)", saved,
                            cost_source_name(contrast.source), cost_source_name(contrast.other_source));
    return "the search did not find it";
}
