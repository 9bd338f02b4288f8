/* The expected time of each module of the program that the model was exported from. */
#include "explain/text.h"
#include <stdlib.h>
#include <string.h>

enum { SHOWN_MODULES = 12 };

struct module_sum {
    char name[GRAPH_SCOPE];
    double ns;
    uint32_t nodes;
};

static int slower_module(const void *a, const void *b)
{
    double x = ((const struct module_sum *)a)->ns, y = ((const struct module_sum *)b)->ns;

    return (x < y) - (x > y);
}

static uint32_t count_nodes(const struct facts *facts)
{
    uint32_t count = 0;

    for (uint32_t g = 0; g < facts->graph_count; g++)
        count += facts->graphs[g]->program->graph->node_count;
    return count;
}

/* Adds the nodes of a graph; an offer for several nodes is divided among them. */
static void add_graph(const struct facts *facts, const facts_graph *graph, struct module_sum *sums, uint32_t *count)
{
    for (uint32_t i = 0; i < graph->program->graph->node_count; i++) {
        char module[GRAPH_SCOPE];
        const uint32_t offer = graph->nodes[i].offer;
        uint32_t k = 0;

        if (graph_node_scope(graph->program->graph->nodes[i], module) == NULL)
            continue;
        while (k < *count && strcmp(sums[k].name, module) != 0)
            k++;
        if (k == *count)
            memcpy(sums[(*count)++].name, module, sizeof module);
        sums[k].nodes++;
        if (offer != INLAY_NONE)
            sums[k].ns += facts_displayed_ns(facts, &graph->parts->offers[offer], graph->parts->offers[offer].cost.ns) /
                          graph->parts->offers[offer].node_count;
    }
}

void text_modules(const struct text_page *page)
{
    struct module_sum *sums = calloc((size_t)count_nodes(page->facts) + 1, sizeof *sums);
    uint32_t count = 0;
    char ns[FORMATTED_BYTES];

    for (uint32_t g = 0; sums != NULL && g < page->facts->graph_count; g++)
        add_graph(page->facts, page->facts->graphs[g], sums, &count);
    if (count > 0) {
        qsort(sums, count, sizeof *sums, slower_module);
        say(page->sink, "\n%-40s %6s %10s\n", "modules, most expensive first", "nodes", "expected");
    }
    for (uint32_t k = 0; k < count && (page->all || k < SHOWN_MODULES); k++) {
        say_column(page->sink, sums[k].name, 40);
        say(page->sink, " %6u %10s\n", sums[k].nodes, format_ns(sums[k].ns, ns));
    }
    if (!page->all && count > SHOWN_MODULES)
        say(page->sink, "  and %u more (--all shows them)\n", count - SHOWN_MODULES);
    free(sums);
}
