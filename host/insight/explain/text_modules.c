/* The expected time of each module of the program that the model was exported from. */
#include "explain/text.h"
#include <stdlib.h>
#include <string.h>

enum { SHOWN_MODULES = 20 };

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

/* Modules, cut to their first `parts` parts. */
struct module_level {
    struct module_sum *sums;
    uint32_t count, most; /* more than `most` are not added */
    uint32_t parts;
    bool cut; /* some modules have more parts */
};

static void add_node(const facts_graph *graph, uint32_t node, struct module_level *level)
{
    char module[GRAPH_SCOPE];
    const uint32_t offer = graph->nodes[node].offer;
    uint32_t k = 0;

    if (graph_node_scope(graph->program->graph->nodes[node], module) == NULL)
        return;
    level->cut = graph_scope_cut(module, level->parts) || level->cut;
    while (k < level->count && strcmp(level->sums[k].name, module) != 0)
        k++;
    if (k == level->most)
        return;
    if (k == level->count) {
        level->sums[level->count++] = (struct module_sum){ .ns = 0 };
        memcpy(level->sums[k].name, module, sizeof module);
    }
    level->sums[k].nodes++;
    if (offer != INLAY_NONE) /* an offer for several nodes is divided among them */
        level->sums[k].ns += facts_displayed_ns(&graph->parts->offers[offer], graph->parts->offers[offer].cost.ns) /
                             graph->parts->offers[offer].node_count;
}

/* Sums over the modules at a level; fewer if there are more than `most`. */
static void sum_level(const struct facts *facts, uint32_t parts, uint32_t most, struct module_level *level)
{
    *level = (struct module_level){ level->sums, 0, most, parts, false };
    for (uint32_t g = 0; g < facts->graph_count; g++)
        for (uint32_t i = 0; i < facts->graphs[g]->program->graph->node_count; i++)
            add_node(facts->graphs[g], i, level);
}

/* The deepest level that fits a table; every module, if `all`. */
static void choose_level(const struct text_page *page, uint32_t nodes, struct module_level *level)
{
    uint32_t parts = page->all ? UINT32_MAX : 1;

    if (!page->all)
        do
            sum_level(page->facts, parts++, GRAPH_SCOPE_ROWS + 1, level);
        while (level->count <= GRAPH_SCOPE_ROWS && level->cut);
    if (level->count > GRAPH_SCOPE_ROWS && parts > 2)
        parts -= 2; /* the level before */
    sum_level(page->facts, parts, nodes + 1, level);
}

void text_modules(const struct text_page *page)
{
    enum { NAME, NODES, TIME, COLUMNS };
    static const table_column columns[COLUMNS] = { { "modules, most expensive first", NULL, TABLE_NAME },
                                                   { "nodes", NULL, TABLE_NUMBER },
                                                   { "expected", NULL, TABLE_NUMBER } };
    struct table table = { .columns = columns, .column_count = COLUMNS };
    const uint32_t nodes = count_nodes(page->facts);
    struct module_level level = { .sums = calloc((size_t)nodes + GRAPH_SCOPE_ROWS + 1, sizeof *level.sums) };
    char ns[FORMATTED_BYTES];

    if (level.sums == NULL)
        return;
    choose_level(page, nodes, &level);
    if (level.count > 0)
        say(page->sink, "\n");
    qsort(level.sums, level.count, sizeof *level.sums, slower_module);
    for (uint32_t k = 0; k < level.count && (page->all || k < SHOWN_MODULES); k++) {
        table_row(&table);
        table_text(&table, NAME, level.sums[k].name);
        table_whole(&table, NODES, level.sums[k].nodes);
        table_say(&table, TIME, "%s", format_ns(level.sums[k].ns, ns));
    }
    if (!page->all && (level.cut || level.count > SHOWN_MODULES))
        table_line(&table, "  --all shows every module");
    text_table(page, &table);
    free(level.sums);
}
