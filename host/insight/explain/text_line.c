/* The explanation as one line: who runs how many nodes, why not all on one provider, and the expected time. */
#include "explain/text.h"
#include <inttypes.h>
#include <string.h>

enum { SHOWN_OPERATORS = 3 };

/* The provider with most nodes. */
static uint32_t main_provider(const struct facts *facts)
{
    uint32_t most = 0;

    for (uint32_t i = 1; i < facts->provider_count; i++)
        if (facts->providers[i].node_count > facts->providers[most].node_count)
            most = i;
    return most;
}

/* The text of the provider's refusal of a node; NULL: it did not refuse it. */
static const char *refusal_of(const facts_graph *graph, uint32_t node, uint32_t provider)
{
    const facts_node *entry = &graph->nodes[node];

    for (uint32_t i = 0; i < entry->refusal_count; i++) {
        const partition_refusal *refusal = &graph->parts->refusals[graph->refusals_of[entry->first_refusal + i]];

        if (refusal->provider == provider)
            return refusal->text;
    }
    return NULL;
}

/* The first operators that `provider` runs because `first` refused them, and why it refused the first of them. */
static void say_refused(const struct facts *facts, const explain_sink *sink, uint32_t provider, uint32_t first)
{
    const char *shown[SHOWN_OPERATORS], *why = NULL;
    uint32_t count = 0;

    for (uint32_t g = 0; g < facts->graph_count; g++)
        for (uint32_t node = 0; node < facts->graphs[g]->program->graph->node_count; node++) {
            const facts_graph *graph = facts->graphs[g];
            const char *op = facts_node_info(graph, node)->op_type.data, *text;
            bool known = false;

            if (graph->regions[graph->nodes[node].region].region->provider != provider ||
                (text = refusal_of(graph, node, first)) == NULL)
                continue;
            for (uint32_t i = 0; i < count && i < SHOWN_OPERATORS; i++)
                known = known || strcmp(shown[i], op) == 0;
            if (known)
                continue;
            if (count < SHOWN_OPERATORS)
                shown[count] = op;
            why = why == NULL ? text : why;
            count++;
        }
    if (why == NULL)
        return;
    for (uint32_t i = 0; i < count && i < SHOWN_OPERATORS; i++) {
        say(sink, "%s", i == 0 ? " (" : ", ");
        say_text(sink, shown[i]);
    }
    say(sink, "%s; %s: ", count > SHOWN_OPERATORS ? ", ..." : "", facts->providers[first].name);
    say_text(sink, why);
    say(sink, ")");
}

void text_line(const struct facts *facts, const explain_sink *sink)
{
    const facts_provider *host = &facts->providers[facts->provider_count];
    const uint32_t first = main_provider(facts);
    char text[FORMATTED_BYTES];
    const char *separator = ":";

    say(sink, "%" PRIu32 " %s", facts->node_count, plural(facts->node_count, "node", "nodes"));
    for (uint32_t step = 0; step < facts->provider_count; step++) {
        const uint32_t i = step == 0 ? first : step <= first ? step - 1 : step;

        if (facts->providers[i].node_count == 0)
            continue;
        say(sink, "%s %s %" PRIu32, separator, facts->providers[i].name, facts->providers[i].node_count);
        if (i != first)
            say_refused(facts, sink, i, first);
        separator = ",";
    }
    if (host->node_count > 0)
        say(sink, "%s the host %" PRIu32, separator, host->node_count);
    say(sink, "; expected %s", format_ns(facts->ns, text));
    if (facts->unpriced_count > 0)
        say(sink, " without %" PRIu32 " %s that no provider has a price for", facts->unpriced_count,
            plural(facts->unpriced_count, "offer", "offers"));
    say(sink, "\n");
}
